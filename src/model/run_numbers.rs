//! The numbers of a session's runs, which belong to the names of tasks.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How many names are remembered. More names than runs are stored need not be.
const MOST_NAMES: usize = 1000;

/// The last number that the runs of each name have had. The next run of a name gets a higher one,
/// whatever its window, so that name and number identify a run as long as its output is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(String, u32)>", into = "Vec<(String, u32)>")]
pub struct RunNumbers(Arc<Vec<(String, u32)>>);

impl RunNumbers {
    /// Returns the last number of a name; 0 if it has had no run.
    pub fn last(&self, name: &str) -> u32 {
        let known = self.0.iter().rfind(|(known, _)| known == name);
        known.map_or(0, |(_, run)| *run)
    }

    /// Notes that a run of this name has had this number. The name that was noted longest ago is
    /// forgotten if there are too many.
    pub fn note(&mut self, name: &str, run: u32) {
        let run = run.max(self.last(name));
        if self
            .0
            .last()
            .is_some_and(|last| last.0 == name && last.1 == run)
        {
            return;
        }
        let numbers = Arc::make_mut(&mut self.0);
        numbers.retain(|(known, _)| known != name);
        numbers.push((name.to_owned(), run));
        let excess = numbers.len().saturating_sub(MOST_NAMES);
        numbers.drain(..excess);
    }
}

/// All names with their numbers, the one that was noted last being the last.
impl From<RunNumbers> for Vec<(String, u32)> {
    fn from(numbers: RunNumbers) -> Self {
        Arc::unwrap_or_clone(numbers.0)
    }
}

impl From<Vec<(String, u32)>> for RunNumbers {
    fn from(numbers: Vec<(String, u32)>) -> Self {
        numbers.into_iter().collect()
    }
}

impl<N: AsRef<str>> FromIterator<(N, u32)> for RunNumbers {
    fn from_iter<I: IntoIterator<Item = (N, u32)>>(runs: I) -> Self {
        let mut numbers = Self::default();
        for (name, run) in runs {
            numbers.note(name.as_ref(), run);
        }
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_number_of_a_name_counts() {
        let mut numbers: RunNumbers = [("api", 2), ("web", 1), ("api", 1)].into_iter().collect();
        let last = |numbers: &RunNumbers| ["api", "web", "ap"].map(|name| numbers.last(name));
        assert_eq!(last(&numbers), [2, 1, 0]);
        numbers.note("web", 7);
        assert_eq!(last(&numbers), [2, 7, 0]);
    }

    #[test]
    fn the_name_noted_longest_ago_is_forgotten_first() {
        let mut numbers = RunNumbers::default();
        for n in 0..MOST_NAMES {
            numbers.note(&n.to_string(), 3);
        }
        numbers.note("0", 4);
        numbers.note("new", 1);
        assert_eq!(numbers.0.len(), MOST_NAMES);
        assert_eq!(
            ["0", "1", "2", "new"].map(|n| numbers.last(n)),
            [4, 0, 3, 1]
        );
    }
}

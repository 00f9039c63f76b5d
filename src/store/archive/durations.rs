//! How long runs of a task usually take.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::runs::{RunInfo, list};
use crate::model::Millis;

/// How many successful runs of a name are taken into account: the last ones.
const LAST: usize = 10;

/// How many of them make a usual duration.
const LEAST: usize = 2;

/// How many names are remembered. The stored runs have fewer.
const NAMES: usize = 1000;

/// The durations of the last successful runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Durations {
    /// By the task's name, the last one last.
    by_name: BTreeMap<String, Vec<Duration>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Duration {
    command: Option<String>,
    millis: Millis,
}

impl Durations {
    /// Reads the stored runs of a session.
    ///
    /// # Errors
    ///
    /// When the folder or a run's file cannot be read.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut durations = Self::default();
        for run in &list(folder)? {
            durations.add(run);
        }
        Ok(durations)
    }

    /// Adds a run that has ended, if it succeeded.
    pub(crate) fn add(&mut self, run: &RunInfo) {
        let Some(millis) = run.duration().filter(|_| run.has_succeeded()) else {
            return;
        };
        if self.by_name.len() >= NAMES && !self.by_name.contains_key(&run.window_name) {
            self.by_name.clear();
        }
        let of_name = self.by_name.entry(run.window_name.clone()).or_default();
        of_name.push(Duration {
            command: run.current_command.clone(),
            millis,
        });
        let excess = of_name.len().saturating_sub(LAST);
        of_name.drain(..excess);
    }

    /// Returns the median duration of the last successful runs of this name. A run with another
    /// command does not count, if both commands are known. `None` if there are fewer than two.
    pub(crate) fn usual(&self, name: &str, command: Option<&str>) -> Option<Millis> {
        let is_same = |earlier: &&Duration| match (&earlier.command, command) {
            (Some(earlier), Some(command)) => earlier == command,
            (None, _) | (_, None) => true,
        };
        let of_name = self.by_name.get(name)?.iter().filter(is_same);
        let millis: Vec<Millis> = of_name.map(|earlier| earlier.millis).collect();
        if millis.len() < LEAST {
            return None;
        }
        median(millis)
    }
}

/// Returns the median; the upper one of two.
fn median(mut millis: Vec<Millis>) -> Option<Millis> {
    millis.sort_unstable();
    millis.get(millis.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: Option<&str>, millis: Millis, exit_code: Option<i32>) -> RunInfo {
        RunInfo {
            window_id: "@1".to_owned(),
            window_name: "tests".to_owned(),
            run: 1,
            current_command: command.map(str::to_owned),
            task_cwd: None,
            started_at: Some(1000),
            ended_at: Some(1000 + millis),
            exit_code,
            exit_signal: None,
            reason: None,
            gap_after: None,
        }
    }

    fn durations(runs: &[RunInfo]) -> Durations {
        let mut durations = Durations::default();
        for run in runs {
            durations.add(run);
        }
        durations
    }

    #[test]
    fn two_successful_runs_of_the_same_command_make_a_usual_duration() {
        let make = Some("make test");
        let mut all = durations(&[
            run(make, 40_000, Some(0)),
            run(make, 100, Some(2)),
            run(make, 7, None),
            run(Some("make bench"), 900_000, Some(0)),
            // Somebody ended it.
            RunInfo {
                reason: Some("userKilled".to_owned()),
                ..run(make, 7_000, Some(0))
            },
        ]);
        assert_eq!(all.usual("tests", make), None);
        all.add(&run(make, 38_000, Some(0)));
        assert_eq!(all.usual("tests", make), Some(40_000));
        all.add(&run(make, 50_000, Some(0)));
        assert_eq!(all.usual("tests", make), Some(40_000));
        assert_eq!(all.usual("tests", Some("make bench")), None);
        assert_eq!(all.usual("test", make), None);
        // A command that is not known may be any.
        assert_eq!(all.usual("tests", None), Some(50_000));
    }

    #[test]
    fn the_last_runs_count() {
        let mut all = durations(&[run(None, 1, Some(0)), run(None, 1, Some(0))]);
        for _ in 0..LAST {
            all.add(&run(None, 5000, Some(0)));
        }
        assert_eq!(all.usual("tests", None), Some(5000));
        assert_eq!(all.by_name["tests"].len(), LAST);
        let mut unknown = run(None, 5, Some(0));
        unknown.started_at = None;
        all.add(&unknown);
        assert_eq!(all.usual("tests", None), Some(5000));
    }

    #[test]
    fn the_number_of_names_is_limited() {
        let mut all = Durations::default();
        for n in 0..=NAMES {
            let mut one = run(None, 5, Some(0));
            one.window_name = format!("task-{n}");
            all.add(&one);
        }
        assert_eq!(all.by_name.len(), 1);
    }
}

//! Which run of a task a launch may replace.

use serde::{Deserialize, Serialize};

/// Which run of a task a launch may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Replaces {
    /// Whichever there is.
    Any,
    /// One that has ended.
    Ended,
    /// One that has ended, or a live one with this process id.
    EndedOr(u32),
}

impl Replaces {
    /// Whether a live run with this process id may be replaced.
    #[must_use]
    pub fn may_end(self, pid: Option<u32>) -> bool {
        match self {
            Self::Any => true,
            Self::Ended => false,
            Self::EndedOr(only) => pid == Some(only),
        }
    }
}

/// What a launch replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplacedRun {
    /// A run that was alive.
    Live,
    /// A window whose run had ended.
    Dead,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_live_run_is_replaced_only_if_it_is_the_one_that_is_meant() {
        for (replaces, expected) in [
            (Replaces::Any, [true, true, true]),
            (Replaces::Ended, [false, false, false]),
            (Replaces::EndedOr(7), [true, false, false]),
        ] {
            let may_end = [Some(7), Some(8), None].map(|pid| replaces.may_end(pid));
            assert_eq!(may_end, expected, "{replaces:?}");
        }
    }
}

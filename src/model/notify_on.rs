//! Which lines of a run its owner is notified of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The texts that a launch asks to be notified of, `run --notify-on`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    rename = "NotifyOnFields",
    description = "The texts that its owner is notified of when a line of the output contains one."
)]
pub struct NotifyOn {
    /// The texts; at least one.
    pub patterns: Vec<String>,
    /// Whether they are regular expressions.
    pub regex: bool,
    /// Whether they match in upper and lower case.
    pub ignore_case: bool,
}

impl NotifyOn {
    /// The maximum number of texts: each is tried on every line.
    pub const MOST: usize = 16;

    /// Their maximum length in total, in bytes. They are kept in an option of the window, which every
    /// look at it reads.
    pub const MOST_BYTES: usize = 1024;

    /// Whether their number and length are allowed.
    pub fn is_small(&self) -> bool {
        let bytes: usize = self.patterns.iter().map(String::len).sum();
        (1..=Self::MOST).contains(&self.patterns.len()) && bytes <= Self::MOST_BYTES
    }
}

/// Lines of a run that match, since the last event about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputMatches {
    /// The first of them: one line of sanitised text. `None` when output was missed and no line is
    /// known to match.
    pub line: Option<String>,
    /// The text that it contains, as the launch has it.
    pub pattern: Option<String>,
    /// How many lines match.
    pub matches: u64,
    /// Whether output could not be searched.
    pub has_gap: bool,
    /// The position in the output up to which it was searched, if it is known.
    pub cursor: Option<String>,
}

//! Which run of a task a launch may replace.

use serde::{Deserialize, Serialize};

/// Which run of a task a launch may replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Replaces {
    /// Whichever there is.
    #[default]
    Any,
    /// One that has ended.
    Ended,
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

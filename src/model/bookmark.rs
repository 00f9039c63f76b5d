//! How much of the data that tmux keeps for a daemon has been processed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Millis, PaneId, RunNumbers, WindowId};

/// State that a snapshot does not contain and the next daemon needs, so that it reports nothing
/// twice and numbers no two runs of a name alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bookmark {
    /// The number of the last death in tmux's death record that a snapshot accounts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deaths_read: Option<u64>,
    /// When each window's task was last launched, as the launcher noted it on the window. A note
    /// that has not changed does not belong to a later run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub launched_at: BTreeMap<WindowId, Millis>,
    /// The last numbers of runs.
    pub run_numbers: RunNumbers,
    /// Up to where the output of each run with `--notify-on` was searched and reported: a cursor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub searched: BTreeMap<WindowId, String>,
    /// The names to which the numbers of present runs belong, where their windows have been renamed
    /// since.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub run_names: BTreeMap<WindowId, String>,
    /// Where the runs are whose pane is not their window's primary one any more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runs_away: BTreeMap<WindowId, RunAway>,
}

/// A run whose pane was moved: another pane is the primary one of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAway {
    /// Its pane.
    pub pane: PaneId,
    /// The process in it.
    pub pid: Option<u32>,
}

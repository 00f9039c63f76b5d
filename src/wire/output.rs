//! The output of tasks, as requests ask for it and answers have it.

use serde::{Deserialize, Serialize};

/// A request for the output of a task's present run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRequest {
    /// The task, by name or window id.
    pub task: String,
    /// Whether escape sequences are included.
    #[serde(default)]
    pub raw: bool,
    /// Only the output after this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How many lines are wanted: the last ones; all if absent. From a cursor on, all of them are
    /// always returned, and so they are by daemons that do not know this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// How many rows of the history are read at most, besides the screen; all of them if absent.
    /// From a cursor on, all of them are always read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_rows: Option<usize>,
}

/// The output of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskLog {
    /// The window's id.
    pub window_id: String,
    /// The task's name.
    pub window_name: String,
    /// The number of the run.
    pub run: Option<u32>,
    /// Its lines.
    pub lines: Vec<String>,
    /// The end of the output, for `--since`; null for an earlier run.
    pub cursor: Option<String>,
    /// Whether its beginning may be missing: the history of the pane is full. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lack_beginning: bool,
}

/// A request to find a pattern in the output of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchRequest {
    /// The task, by name or window id; all tasks if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The text or regular expression.
    pub pattern: String,
    /// Whether it is a regular expression.
    #[serde(default)]
    pub regex: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    pub ignore_case: bool,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchMatch {
    /// The window's id.
    pub window_id: String,
    /// The task's name.
    pub window_name: String,
    /// The number of the run.
    pub run: Option<u32>,
    /// The line number in the pane's contents, from 1.
    pub line_number: usize,
    /// The line.
    pub line: String,
}

//! The output of `doctor --json`: the checks and their results.

use serde::Serialize;

use crate::model::shown_by_wire_name;

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorReport {
    /// The checks, in the order in which they are shown.
    pub checks: Vec<DoctorCheck>,
    /// How many of them are warnings.
    pub warnings: usize,
    /// How many of them are failures.
    pub failures: usize,
}

/// The result of one check. A check may have several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DoctorCheck {
    /// What was checked, in one word.
    pub check: &'static str,
    /// How bad it is.
    pub result: CheckResult,
    /// What was found, in one line.
    pub message: String,
    /// What the user can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How bad the result of a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CheckResult {
    /// As it should be.
    Ok,
    /// Something is missing or late, and the rest works.
    Warn,
    /// The program, or a part of it, does not work.
    Fail,
}

shown_by_wire_name!(CheckResult);

//! When a task that has failed is run again.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Millis, millis, text};

/// The maximum length of a launch's token, in characters.
const TOKEN_CHARS: usize = 64;

/// When a task is run again by itself: after a run that ended with another code than 0 or by a
/// signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestartPolicy {
    /// How often in a row.
    pub limit: u32,
    /// The pause before the first restart in a row, in milliseconds. It doubles with each one.
    #[serde(rename = "backoffMs", with = "millis")]
    #[schemars(with = "u64")]
    pub backoff: Duration,
}

impl RestartPolicy {
    /// The largest number of restarts in a row.
    pub const MOST: u32 = 1000;

    /// The longest first pause.
    pub const LONGEST_FIRST: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The policy of a task, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "RestartFields",
    description = "When a task is run again by itself: after a run that ended with another code than 0 or by a signal."
)]
pub struct TaskRestarts {
    /// The policy.
    #[serde(flatten)]
    pub policy: RestartPolicy,
    /// How many restarts in a row have led to this run.
    pub used: u32,
    /// Identifies the launch that asked for it.
    // And the file with its environment: ASCII letters, digits and `-`.
    #[serde(deserialize_with = "token")]
    pub token: String,
}

/// A restart of a task that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextRestart {
    /// In how many milliseconds.
    pub in_ms: u64,
    /// When, in milliseconds since 1970.
    pub at: Millis,
    /// Its number among the restarts in a row, from 1.
    pub number: u32,
    /// How many there may be.
    pub limit: u32,
}

fn token<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let token = String::deserialize(from)?;
    Ok(text::one_line(token.as_bytes(), TOKEN_CHARS))
}

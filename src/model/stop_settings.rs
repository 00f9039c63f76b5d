//! How a task's run is ended.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Signal, millis};

/// How a task's run is ended, as far as its launch has said. What is `None` is left to the
/// configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    rename = "StopFields",
    description = "How a task is ended, as far as its launch has said."
)]
pub struct StopSettings {
    /// The signal that asks it to end, `SIGINT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub signal: Option<Signal>,
    /// How long it has before `SIGKILL`, in milliseconds.
    #[serde(rename = "graceMs", with = "millis::optional")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub grace: Option<Duration>,
    /// Whether the signal goes to the command itself only.
    pub parent_only: bool,
    /// How long a run may last before it is ended, in milliseconds.
    #[serde(rename = "killAfterMs", with = "millis::optional")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub kill_after: Option<Duration>,
}

impl StopSettings {
    /// The longest time that a launch may set: a year.
    pub const LONGEST: Duration = millis::LONGEST;

    /// Returns these settings, and for what they do not set those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            signal: self.signal.or(other.signal),
            grace: self.grace.or(other.grace),
            parent_only: self.parent_only || other.parent_only,
            kill_after: self.kill_after.or(other.kill_after),
        }
    }

    /// Whether the launch has said nothing.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// What a command that ends runs asks for instead of what is set for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopChoice {
    /// The signal that asks them to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// How long they have before `SIGKILL`.
    #[serde(rename = "graceMs", with = "millis::optional")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}

/// How a run is ended: every value is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopPlan {
    /// The signal that asks it to end.
    pub signal: Signal,
    /// How long it has before `SIGKILL`.
    pub grace: Duration,
    /// Whether the signal goes to the command itself only.
    pub parent_only: bool,
}

impl StopPlan {
    /// The time that a run has to end unless something else is set.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// Returns the plan for a task: what the command asks for, else what its launch has set, else these
    /// defaults.
    pub fn of(settings: &StopSettings, choice: &StopChoice, defaults: &Self) -> Self {
        let signal = choice.signal.as_ref().or(settings.signal.as_ref());
        Self {
            signal: signal.unwrap_or(&defaults.signal).clone(),
            grace: choice.grace.or(settings.grace).unwrap_or(defaults.grace),
            parent_only: settings.parent_only || defaults.parent_only,
        }
    }
}

impl Default for StopPlan {
    fn default() -> Self {
        Self {
            signal: Signal::from_number(15),
            grace: Self::GRACE,
            parent_only: false,
        }
    }
}

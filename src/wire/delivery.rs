//! Whether messages were delivered, in one word that users see.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{Millis, age, shown_by_wire_name};

/// Whether the messages about a task, or those for a consumer, were delivered: one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeliveryState {
    /// Whoever they are for has acknowledged them.
    #[serde(rename = "delivered")]
    Delivered,
    /// One is not acknowledged yet, and will be delivered.
    #[serde(rename = "pending")]
    Pending,
    /// One reaches nobody: nothing reads for its owner, or its adapter has given it up.
    #[serde(rename = "not deliverable")]
    NotDeliverable,
    /// One was or is passed to a reader that acknowledges nothing.
    #[serde(rename = "unknown")]
    Unknown,
}

shown_by_wire_name!(DeliveryState);

/// Whether messages were delivered, and since when one is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeliveryStatus {
    /// The word.
    pub state: DeliveryState,
    /// When the first undelivered message was recorded, in milliseconds since 1970. Absent where all
    /// are delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Millis")]
    pub since: Option<Millis>,
}

impl DeliveryStatus {
    /// Everything is delivered.
    pub const DELIVERED: Self = Self {
        state: DeliveryState::Delivered,
        since: None,
    };

    /// Returns this word for messages of which the first undelivered one was recorded then.
    pub fn since(state: DeliveryState, at: Millis) -> Self {
        Self {
            state,
            since: Some(at),
        }
    }

    /// Returns the word, with how long ago the first undelivered message was recorded.
    pub fn words(&self, now: Millis) -> String {
        match self.since {
            Some(at) => format!("{} {}", self.state, age(now - at)),
            None => self.state.to_string(),
        }
    }

    /// Whether everything is delivered.
    pub fn is_delivered(&self) -> bool {
        self.state == DeliveryState::Delivered
    }
}

/// For whom a consumer reads follow-ups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerAudience {
    /// Whether it reads follow-ups, of all tasks.
    pub follow_ups: bool,
    /// For these owners, of which one may end in `*`; for all of them if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// Whether it leaves out those for everybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_own: bool,
}

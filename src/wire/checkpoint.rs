//! From which state of a session a daemon continues: part of records and of the saved snapshot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::SessionLife;

/// The state of a daemon when it recorded the events of a look, from which a daemon continues after
/// a crash. Written together with the events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The life of the session at the look; null when the session was missing.
    pub life: Option<SessionLife>,
    /// The number of the last death in tmux's record that the events account for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub deaths_read: Option<u64>,
}

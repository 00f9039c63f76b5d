//! From which state of a session a daemon continues: part of records and of the saved snapshot.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::{SessionId, SessionLife};

/// The state of a daemon when it recorded the events of a look, from which a daemon continues after
/// a crash. Written together with the events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The life of the session at the look; null when the session was missing.
    pub life: Option<SavedLife>,
    /// The number of the last death in tmux's record that the events account for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub deaths_read: Option<u64>,
}

/// The life of the session that a snapshot belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedLife {
    /// The pid of the tmux server.
    pub server_pid: u32,
    /// When the server started, in seconds since 1970.
    pub server_started: i64,
    /// The session's id.
    pub session_id: String,
    /// When the session was created, in seconds since 1970.
    pub session_created: i64,
}

impl From<&SessionLife> for SavedLife {
    fn from(life: &SessionLife) -> Self {
        Self {
            server_pid: life.server_pid,
            server_started: life.server_started,
            session_id: life.id.to_string(),
            session_created: life.created,
        }
    }
}

impl SavedLife {
    /// Returns the life; an error names the field that cannot be read.
    pub fn to_life(&self) -> Result<SessionLife, String> {
        let id: SessionId = self
            .session_id
            .parse()
            .map_err(|error| format!("sessionId: {error}"))?;
        Ok(SessionLife {
            server_pid: self.server_pid,
            server_started: self.server_started,
            id,
            created: self.session_created,
        })
    }
}

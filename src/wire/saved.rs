//! What a daemon saves of its session, so that the next one carries on from it.

use serde::{Deserialize, Serialize};

use super::SnapshotLine;
use crate::model::{Seq, SessionId, SessionLife, Snapshot};

/// The last look, and which records it covers: later ones are applied to it on return.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedSession {
    /// The version of this file: 1.
    pub v: u32,
    /// The epoch of the feed that the number below belongs to.
    pub epoch: String,
    /// The number of the last record whose change the snapshot shows.
    pub last_seq: Seq,
    /// Which life of the session it was.
    pub life: Option<SavedLife>,
    /// The last look.
    pub snapshot: SnapshotLine,
}

/// Which life of a session a snapshot belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SavedLife {
    /// The tmux server's process.
    pub server_pid: u32,
    /// When the server started, seconds since 1970.
    pub server_started: i64,
    /// The session's id.
    pub session_id: String,
    /// When the session was created, seconds since 1970.
    pub session_created: i64,
}

impl SavedSession {
    /// Returns what to save of this look.
    #[must_use]
    pub fn new(snapshot: &Snapshot, epoch: &str, last_seq: Seq) -> Self {
        let life = snapshot.life.as_ref().map(|life| SavedLife {
            server_pid: life.server_pid,
            server_started: life.server_started,
            session_id: life.id.to_string(),
            session_created: life.created,
        });
        Self {
            v: super::VERSION,
            epoch: epoch.to_owned(),
            last_seq,
            life,
            snapshot: SnapshotLine::from(snapshot),
        }
    }

    /// Returns the look that was saved; an error names what cannot be read.
    pub fn to_snapshot(&self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot.to_snapshot()?;
        if let Some(life) = &self.life {
            let id: SessionId = life
                .session_id
                .parse()
                .map_err(|error| format!("sessionId: {error}"))?;
            snapshot.life = Some(SessionLife {
                server_pid: life.server_pid,
                server_started: life.server_started,
                id,
                created: life.session_created,
            });
        }
        Ok(snapshot)
    }
}

//! Replaces a daemon of an older version when a task is started, so that an update takes effect
//! without a restart by hand.

use std::time::Duration;

use tokio::time::timeout;

use super::session::{TaskSession, is_autostart_forbidden};
use crate::client::DaemonClient;
use crate::model::{Error, ErrorKind, text};
use crate::wire::{Request, Response, is_older};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How long a daemon that makes room may take until it no longer listens.
const LEAVES_WITHIN: Duration = Duration::from_secs(3);

/// The maximum length of a daemon's version and reason, in characters.
const MAX_CHARS: usize = 200;

/// A daemon of an older version that goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OlderDaemon {
    pub(crate) version: String,
    /// Why it was not replaced.
    pub(crate) why: String,
}

/// Asks a daemon of an older version to make room. Returns the daemon if it goes on, and what is to
/// be said about it.
pub(super) async fn replace_older(
    session: &TaskSession,
    mut daemon: DaemonClient,
) -> Result<(Option<DaemonClient>, Option<OlderDaemon>), Error> {
    let version = session.daemon_version.as_deref().unwrap_or_default();
    if !is_older(version, VERSION) || is_autostart_forbidden() {
        return Ok((Some(daemon), None));
    }
    let request = Request::MakeRoom {
        successor: VERSION.to_owned(),
    };
    let why = match daemon.ask(&request).await {
        Ok(Response::Done) => {
            // It closes its connections when it no longer listens.
            let closed = async { while let Ok(Some(_)) = daemon.line().await {} };
            drop(timeout(LEAVES_WITHIN, closed).await);
            return Ok((None, None));
        }
        // It has ended meanwhile.
        Err(error) if error.kind == ErrorKind::DaemonEnded => return Ok((None, None)),
        Ok(_) => "it does not say why".to_owned(),
        Err(error) => error.message,
    };
    let clean = |text: &str| text::one_line(text.as_bytes(), MAX_CHARS);
    let older = OlderDaemon {
        version: clean(version),
        why: clean(&why),
    };
    // A daemon closes the connection after a request that it does not know.
    Ok((session.daemon().await?, Some(older)))
}

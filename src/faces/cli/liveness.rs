//! Determines whether the tmux server or the daemon does not answer.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use crate::client::DaemonClient;
use crate::model::Error;
use crate::process;
use crate::tmux::Server;
use crate::wire::Request;

/// How long each of them may take for the simplest request.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1700);

/// How much longer a process may take that has run meanwhile: it is busy. tmux answers nobody while it
/// collects the processes of some hundred panes that have ended together.
const IF_BUSY: Duration = Duration::from_secs(20);

/// The daemon and the tmux server that a command uses.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) server: Server,
    /// The daemon's socket; `None` for a command that needs no certain daemon.
    pub(super) daemon: Option<Arc<Mutex<PathBuf>>>,
}

impl Peers {
    /// Returns the failure of a command when one of them does not answer; `None` when both answer
    /// or do not exist.
    pub(super) async fn silence(&self) -> Option<Error> {
        // A daemon that waits for tmux does not answer either, so tmux is checked first.
        if let Some(pid) = self.silent_server().await {
            let who = match pid {
                Some(pid) => format!("pid {pid}, {}", self.server.socket().display()),
                None => self.server.socket().display().to_string(),
            };
            let hint =
                "the cause is unknown; run the command again when the server answers".to_owned();
            return Some(self.failure("the tmux server", &who, pid, hint));
        }
        let socket = self.socket()?;
        let pid = silent_daemon(&socket).await?;
        let who = pid.map_or_else(|| socket.display().to_string(), |pid| format!("pid {pid}"));
        let hint = match pid {
            Some(pid) => format!("`kill {pid}` ends it, and the next command starts another"),
            None => "end it, and the next command starts another".to_owned(),
        };
        Some(self.failure("the daemon", &who, pid, hint))
    }

    fn socket(&self) -> Option<PathBuf> {
        let socket = self.daemon.as_ref()?.lock();
        Some(socket.unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn failure(&self, name: &str, who: &str, pid: Option<u32>, hint: String) -> Error {
        let stopped = pid.filter(|pid| process::is_stopped(*pid));
        let (why, hint) = match stopped {
            Some(pid) => (
                format!("{name} ({who}) does not answer: it is stopped"),
                format!("`kill -CONT {pid}` resumes it"),
            ),
            None => (format!("{name} ({who}) does not answer"), hint),
        };
        Error::failed(why).with_hint(hint)
    }

    /// Returns the tmux server's pid, if known, when it does not answer.
    async fn silent_server(&self) -> Option<Option<u32>> {
        let pid = self.server.pid();
        if pid.is_some_and(process::is_stopped) {
            return Some(pid);
        }
        let answers = |within| self.server.answers(within);
        let silent = !answers_if_busy(pid, answers).await;
        silent.then_some(pid)
    }
}

/// Whether a process answers: within the usual time, or later if it has run meanwhile.
async fn answers_if_busy(pid: Option<u32>, mut answers: impl AsyncFnMut(Duration) -> bool) -> bool {
    let run_time = || pid.and_then(process::run_time);
    let before = run_time();
    answers(ANSWERS_WITHIN).await
        || before.is_some() && run_time() != before && answers(IF_BUSY).await
}

/// Returns the daemon's pid, if known, when it does not answer.
async fn silent_daemon(socket: &Path) -> Option<Option<u32>> {
    // If it does not exist or has ended, nothing waits for it.
    let connected = timeout(ANSWERS_WITHIN, DaemonClient::connect(socket)).await;
    let mut daemon = match connected {
        Ok(Ok(daemon)) => daemon,
        Ok(Err(_)) => return None,
        Err(_) => return Some(None),
    };
    let pid = daemon.pid();
    if pid.is_some_and(process::is_stopped) {
        return Some(pid);
    }
    let mut answer = pin!(daemon.ask(&Request::Status));
    let answers = async |within| timeout(within, &mut answer).await.is_ok();
    let silent = !answers_if_busy(pid, answers).await;
    silent.then_some(pid)
}

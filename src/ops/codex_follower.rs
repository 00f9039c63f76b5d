//! Starts the process that delivers follow-ups to a thread of Codex, when a task is run from its
//! shell.
//!
//! There is one such process for each thread and task session. It holds a lock; it removes the lock's
//! file when it is about to end, and goes on for a moment. So a launch that finds the file locked is
//! noticed by the process that has the lock.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::lookup;
use super::session::TaskSession;
use crate::client::READY;
use crate::files;
use crate::model::with_causes;
use crate::paths::adapter_file;
use crate::process::ancestor_named;

/// The beginning of the owner of a thread's tasks.
const PREFIX: &str = "codex:";

/// How long a launch waits to learn whether the thread can be woken.
const REPORTS_WITHIN: Duration = Duration::from_secs(3);

/// Starts a follower if the owner is a thread of Codex, Codex's adapter is installed and no follower
/// runs. To be called after the launch. Returns why the thread cannot be woken; `None` when it can be,
/// or when that is not known in time.
pub(super) async fn start_codex_follower(
    session: &TaskSession,
    owner: Option<&str>,
) -> Option<String> {
    let thread = owner?.strip_prefix(PREFIX)?;
    if !adapter_file("codex", &lookup)?.exists() {
        return None;
    }
    if is_followed(session, owner?) {
        return None;
    }
    let mut command = Command::new(std::env::current_exe().ok()?);
    command
        .args(session.words())
        .args(["agent", "codex", "--background", "--id", thread])
        // Codex's shells need not have it on their `PATH`.
        .args(ancestor_named("codex").map_or_else(Vec::new, |program| {
            vec![OsString::from("--program"), program.into()]
        }))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut follower = match command.spawn() {
        Ok(follower) => follower,
        Err(error) => {
            return Some(format!(
                "no process for it could be started: {}",
                with_causes(&error)
            ));
        }
    };
    let mut line = String::new();
    let mut stdout = BufReader::new(follower.stdout.take()?);
    let read = timeout(REPORTS_WITHIN, stdout.read_line(&mut line)).await;
    let line = line.trim();
    (matches!(read, Ok(Ok(_))) && !line.is_empty() && line != READY).then(|| line.to_owned())
}

fn is_followed(session: &TaskSession, owner: &str) -> bool {
    let lock = files::open(&session.paths.follower_lock(owner));
    lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
}

//! Starts the process that delivers follow-ups to a thread of Codex, when a task is run from its
//! shell.
//!
//! There is one such process for each thread and task session: the reader of the thread's consumer. When
//! it has ended its stream, it looks once more whether it is needed. So a launch that has found the reader
//! is noticed by it.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

use super::list::count;
use super::lookup;
use super::remote_conversation::{consumer_name, find_consumer};
use super::session::TaskSession;
use crate::client::READY;
use crate::model::{Error, with_causes};
use crate::paths::adapter_file;
use crate::process::ancestor_named;
use crate::wire::ConsumerStatus;

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
    let known = consumer(session, owner?).await;
    if known.is_ok_and(|known| known.is_some_and(|known| known.reader.is_some())) {
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

/// Whether something is left to do for a thread that has no follower.
pub(crate) async fn needs_codex_follower(
    session: &TaskSession,
    owner: &str,
) -> Result<bool, Error> {
    let Some(known) = consumer(session, owner).await? else {
        return Ok(false);
    };
    let counts = count(&mut session.for_request()).await?;
    let is_needed = known.lag > 0 || counts.running + counts.waiting > 0;
    Ok(is_needed && known.reader.is_none())
}

/// Returns the consumer of a thread; `None` when there is none, or no daemon.
async fn consumer(session: &TaskSession, owner: &str) -> Result<Option<ConsumerStatus>, Error> {
    match session.daemon().await? {
        Some(mut daemon) => find_consumer(&mut daemon, &consumer_name("", owner)).await,
        None => Ok(None),
    }
}

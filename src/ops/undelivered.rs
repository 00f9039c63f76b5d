//! Whether anything delivers messages to the conversation that has started a task.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::messages::{messages_of_daemon, with_adapters};
use super::run::StartedRun;
use super::without_daemon::messages_of;
use crate::client::DaemonClient;
use crate::clock;
use crate::paths::Paths;
use crate::wire::{Messages, client_of};

/// How long a reader that is expected may take: an adapter that is starting, or a program that is
/// connecting again.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// How often to look for it.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A conversation that gets no messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    pub(crate) owner: String,
    pub(crate) adapter: Adapter,
}

/// The adapter of a conversation's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    /// The client has none.
    None,
    /// `init` installs it for this client.
    Available(&'static str),
    /// It is installed, and does not follow the conversation in this session.
    Silent(&'static str),
}

/// Returns the owner of a run that was started, if nothing delivers messages to it. A reader that is
/// expected is waited for. What cannot be found out counts as a delivery.
pub(crate) async fn undelivered(started: &mut StartedRun) -> Option<Undelivered> {
    let owner = started.owner.clone()?;
    undelivered_to(owner, started.daemon.as_mut(), &started.paths).await
}

/// The same for this owner of runs in the session with these files and this daemon, if it has one.
pub(crate) async fn undelivered_to(
    owner: String,
    mut daemon: Option<&mut DaemonClient>,
    paths: &Paths,
) -> Option<Undelivered> {
    let has_daemon = daemon.is_some();
    let deadline = Instant::now() + CONNECTS_WITHIN;
    loop {
        let messages = match daemon.as_mut() {
            Some(daemon) => messages_of_daemon(daemon).await?,
            // Nothing is recorded, and nobody is told.
            None => with_adapters(messages_of(paths).unwrap_or_default()),
        };
        let now = clock::now().wall;
        if has_daemon && (messages.can_deliver(&owner, now) || is_followed_later(&messages, &owner))
        {
            return None;
        }
        let may_come = has_daemon && messages.is_expected(&owner, now);
        if !may_come || Instant::now() >= deadline {
            let adapter = adapter_of(&messages, &owner);
            return Some(Undelivered { owner, adapter });
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Whether a process follows the conversation only from its first launch on: with Codex, the launch
/// has started it.
fn is_followed_later(messages: &Messages, owner: &str) -> bool {
    client_of(owner) == Some("codex") && messages.has_adapter("codex")
}

fn adapter_of(messages: &Messages, owner: &str) -> Adapter {
    match client_of(owner) {
        None => Adapter::None,
        Some(client) if messages.has_adapter(client) => Adapter::Silent(client),
        Some(client) => Adapter::Available(client),
    }
}

//! Adapters for agents: delivers each follow-up to the conversation that started the task.
//!
//! A [`Follower`](follower::Follower) reads the feed as the conversation's consumer, across restarts of
//! the daemon. [`PendingFollowUps`](outbox::PendingFollowUps) merges what is pending into one message and
//! limits messages per minute. How a message is handed over, and what counts as its receipt, differs by
//! client: [`serve`] is for adapters that run inside the client, [`claude`] for Claude Code's hooks,
//! [`codex`] for the app-server of Codex.

mod app_server;
pub(crate) mod claude;
pub(crate) mod codex;
mod codex_thread;
mod conversation;
mod feed_reading;
mod follower;
mod hand_over;
mod host_streams;
mod ledger;
mod outbox;
mod setup;
mod stdio;
mod transcript;

use std::time::Duration;

use tokio::time::sleep;

pub(crate) use conversation::AgentClient;
pub(crate) use hand_over::Ended;
pub(crate) use setup::Setup;
pub(crate) use stdio::{ServeOptions, read_lines, serve};

use crate::clock;
use crate::model::Millis;

/// Resolves at this time, in milliseconds since 1970; at once without one.
async fn until(at: Option<Millis>) {
    if let Some(at) = at {
        let left = u64::try_from(at.saturating_sub(clock::now().wall)).unwrap_or_default();
        sleep(Duration::from_millis(left)).await;
    }
}

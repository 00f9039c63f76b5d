//! Follows a conversation's tasks on the machines of a fleet: its wakes, which the fleet's program reads from
//! the broker, and acknowledges when they were handed over.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::host_follower::{HostNews, Received};
use super::lookup;
use crate::client::FleetProcess;
use crate::config;
use crate::model::{Backoff, Error, Record, Seq};
use crate::paths::{HOSTS, state_root};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// A follow-up of a host, whose epoch names the feed, as a line of the program.
#[derive(Deserialize)]
struct Wake {
    host: String,
    /// The last record of the feed that was acknowledged before.
    cursor: Seq,
    #[serde(flatten)]
    record: Box<Record>,
}

/// Returns the folder in which is noted how far conversations are.
fn folder() -> Result<PathBuf, Error> {
    Ok(state_root(&lookup)?.join(HOSTS).join("wakes"))
}

/// Whether a conversation on this machine has followed its wakes.
pub(super) fn are_followed_here() -> bool {
    folder().is_ok_and(|folder| folder.exists())
}

/// Follows the conversation's wakes; ends at once where the configuration names no broker.
pub(crate) async fn follow_wakes(
    owner: String,
    mut received: mpsc::UnboundedReceiver<Received>,
    reports: mpsc::Sender<(String, HostNews)>,
) {
    let mut retry = RETRY;
    while config::load(&lookup).is_ok_and(|config| config.has_fleet) {
        match follow(&owner, &mut received, &reports, &mut retry).await {
            Ok(()) => {}
            Err(error) => tracing::debug!(%error, "wakes cannot be read now"),
        }
        if received.is_closed() {
            return;
        }
        sleep(retry.next_pause()).await;
    }
}

/// Follows them on one connection.
async fn follow(
    owner: &str,
    received: &mut mpsc::UnboundedReceiver<Received>,
    reports: &mpsc::Sender<(String, HostNews)>,
    retry: &mut Backoff,
) -> Result<(), Error> {
    let folder = folder()?;
    let args = ["wakes", "--owner", owner, "--notes"].map(OsStr::new);
    let (mut stdin, mut process) =
        FleetProcess::start(args.into_iter().chain([folder.as_os_str()]))?;
    loop {
        // Losing an arm is safe: nothing is taken before it is done.
        tokio::select! {
            line = process.line() => {
                match serde_json::from_slice(&line?) {
                    Ok(wake) => report(wake, reports).await,
                    // It reads now.
                    Err(_) => *retry = RETRY,
                }
            }
            order = received.recv() => {
                // Nobody follows any more.
                let Some(Received { epoch, seq }) = order else { return Ok(()) };
                let line = format!("{}\n", json!({ "epoch": epoch, "ack": seq }));
                stdin.write_all(line.as_bytes()).await.map_err(Error::of)?;
                stdin.flush().await.map_err(Error::of)?;
            }
        }
    }
}

/// Each name is a feed of its own: what one has left is delivered also when another has begun.
async fn report(wake: Wake, reports: &mpsc::Sender<(String, HostNews)>) {
    let began = HostNews::Began {
        epoch: wake.record.epoch.clone(),
        cursor: wake.cursor,
        // Whether a process before this one has handed it over is not known.
        last: Seq::MAX,
    };
    for news in [began, HostNews::Record(wake.record)] {
        drop(reports.send((wake.host.clone(), news)).await);
    }
}

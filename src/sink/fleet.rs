//! The fleet: `tmux-task-fleet publish` is a process of a daemon that publishes its records and tasks on the
//! broker, and executes what others may do here. One process is one connection; when it has ended, with why as
//! its last line on standard error, another one is started after a pause.
//!
//! It gets a line that describes the session, says behind which record it begins, gets the feed from there, and
//! confirms each record that the broker has.

use std::convert::Infallible;

use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use super::RunningSink;
use crate::client::FleetProcess;
use crate::model::{Error, Seq};
use crate::paths::Paths;
use crate::store::{self, Lease};

/// The name of the sink, which none of the configuration can have.
pub(super) const NAME: &str = "fleet:feed";

/// A line of the process.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    /// It begins behind this record.
    after: Option<Seq>,
    /// The broker has this record and all before it.
    ack: Option<Seq>,
    /// Others reach this machine.
    ready: bool,
}

impl RunningSink {
    /// Has a process publish the session with these files. The consumer's position is what the broker has
    /// confirmed. Returns why the process has ended.
    pub(super) async fn publish(&self, paths: &Paths, lease: &Lease) -> String {
        let Err(ended) = self.serve_process(paths, lease).await;
        self.state.reaches(false);
        let of_user = ended.message.strip_prefix("tmux-task: fleet publish: ");
        of_user.unwrap_or(&ended.message).to_owned()
    }

    /// Gives a process what it asks for, until it has ended.
    async fn serve_process(&self, paths: &Paths, lease: &Lease) -> Result<Infallible, Error> {
        let (mut stdin, mut process) = FleetProcess::start(["publish"])?;
        let session = json!({
            "key": paths.key,
            "sessionName": self.live.session_name(),
            "epoch": self.live.epoch,
            "lastSeq": self.live.last_seq(),
            "cursor": lease.cursor,
            "state": paths.state,
            "runtime": paths.runtime,
        });
        // One that has ended says why.
        drop(stdin.write_all(format!("{session}\n").as_bytes()).await);
        let mut next = async || {
            let said: Said = serde_json::from_slice(&process.line().await?).unwrap_or_default();
            if said.ready {
                self.state.reaches(true);
            }
            Ok::<_, Error>(said)
        };
        let after = loop {
            if let Some(after) = next().await?.after {
                break after;
            }
        };
        let subscription = self.live.subscribe_to_pass_on(after)?;
        let writing = async {
            drop(store::serve(subscription, &mut stdin).await);
            // The daemon is leaving. The process ends when it has published all of it.
            drop(stdin);
            std::future::pending().await
        };
        let reading = async {
            loop {
                if let Some(ack) = next().await?.ack
                    && self.acknowledge(lease, ack)
                {
                    self.state.succeed();
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            never = writing => never,
        }
    }
}

//! The fleet: `tmux-task-fleet publish` is a process of a daemon that publishes its records and tasks on the
//! broker, and executes what others may do here. One process is one connection; when it has ended, with why as
//! its last line on standard error, another one is started after a pause.
//!
//! It gets a line that describes the session, says behind which record it begins, gets the feed from there, and
//! confirms each record that the broker has.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::state::{LeaseResult, SinkState, farewell};
use crate::client::FleetProcess;
use crate::model::{Backoff, Error, Seq};
use crate::paths::Paths;
use crate::store::{self, Lease, Live};
use crate::wire::{ConsumeRequest, Filter};

/// The name of the sink, which none of the configuration can have.
const NAME: &str = "fleet:feed";

/// How long to wait before connecting again. With [`jittered`], hosts do not return all at once.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// After which time a connection was a good one.
const GOOD_AFTER: Duration = Duration::from_secs(60);

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

/// Keeps a process that publishes.
pub(super) struct Publisher {
    state: Arc<SinkState>,
    live: Arc<Live>,
    paths: Paths,
    /// Where a new consumer starts.
    last_seq: Seq,
    stopping: watch::Receiver<bool>,
}

impl Publisher {
    /// Returns what publishes the session with these files. One that is new in the fleet gets its records after
    /// `last_seq` published.
    pub(super) fn new(
        paths: &Paths,
        live: Arc<Live>,
        last_seq: Seq,
        stopping: watch::Receiver<bool>,
    ) -> Self {
        let state = SinkState::new(NAME, "broker", &[]);
        state.reaches(false);
        Self {
            state,
            live,
            paths: paths.clone(),
            last_seq,
            stopping,
        }
    }

    pub(super) fn state(&self) -> Arc<SinkState> {
        Arc::clone(&self.state)
    }

    /// Becomes the reader of the consumer whose position is what the broker has confirmed.
    pub(super) async fn lease(&self) -> LeaseResult {
        let request = ConsumeRequest {
            name: self.state.consumer(),
            from_now: true,
            take_over: true,
            filter: Filter::default(),
        };
        let pid = Some(std::process::id());
        self.live.consume(request, pid, self.last_seq).await
    }

    pub(super) async fn run(&mut self, mut first: Option<LeaseResult>) {
        let mut retry = RETRY;
        loop {
            let leased = match first.take() {
                Some(leased) => leased,
                None => self.lease().await,
            };
            let began = Instant::now();
            let why = match leased {
                Ok((_, lease)) => self.publish(&lease).await,
                Err(refusal) => refusal.message,
            };
            self.state.reaches(false);
            if *self.stopping.borrow() {
                return;
            }
            self.state.fail(why);
            if began.elapsed() >= GOOD_AFTER {
                retry = RETRY;
            }
            tokio::select! {
                () = sleep(jittered(retry.next_pause())) => {}
                _ = self.stopping.wait_for(|is_stopping| *is_stopping) => return,
            }
        }
    }

    /// Has a process publish. Returns why that has ended.
    async fn publish(&mut self, lease: &Lease) -> String {
        let mut stopping = self.stopping.clone();
        let why = tokio::select! {
            Err(ended) = self.serve(lease) => ended.message,
            () = farewell(&mut stopping) => return String::new(),
        };
        let of_user = why.strip_prefix("tmux-task: fleet publish: ");
        of_user.unwrap_or(&why).to_owned()
    }

    /// Gives a process what it asks for, until it has ended.
    async fn serve(&self, lease: &Lease) -> Result<Infallible, Error> {
        let (mut stdin, mut process) = FleetProcess::start(["publish"])?;
        let session = json!({
            "key": self.paths.key,
            "sessionName": self.live.session_name(),
            "epoch": self.live.epoch,
            "lastSeq": self.live.last_seq(),
            "cursor": lease.cursor(),
            "state": self.paths.state,
            "runtime": self.paths.runtime,
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
                let Some(ack) = next().await?.ack else {
                    continue;
                };
                match self.live.acknowledge(lease, ack) {
                    Ok(()) => self.state.succeed(),
                    Err(refusal) => {
                        tracing::warn!(why = refusal.message, "a record was not acknowledged");
                    }
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            never = writing => never,
        }
    }
}

/// Returns a random part of a pause, at least half of it.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    // Without randomness it is the shortest pause.
    let share = getrandom(&mut byte, GetRandomFlags::empty()).map_or(0, |_| byte[0]);
    pause / 2 + pause * u32::from(share) / 512
}

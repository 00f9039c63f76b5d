//! What a daemon does in the fleet: it publishes its records, its tasks and its presence, and executes
//! commands, on a thread of its own. Each connection to the broker has a runtime, so that nothing of it
//! is left when it ends.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::rand::{GetRandomFlags, getrandom};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::bucket;
use super::bucket::Buckets;
use super::connection::{FleetError, connect, host_name};
use super::service::ExecutionKeys;
use super::service::Service;
use super::uplink::Uplink;
use crate::clock;
use crate::config::FleetConfig;
use crate::model::{Backoff, Millis, Seq, with_causes};
use crate::paths::Paths;
use crate::store::Live;
use crate::wire::{ConsumeRequest, ConsumerStatus, Filter, SINK_PREFIX, SinkStatus};

/// How long to wait before connecting again. With [`jittered`], hosts do not return all at once.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// After which time a connection was a good one.
const GOOD_AFTER: Duration = Duration::from_secs(60);

/// How long creating the position may delay the start.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// How long publishing may take when the daemon stops.
const FAREWELL: Duration = Duration::from_millis(300);

/// The name of the feed's consumer, in which no sink of the configuration can be.
const CONSUMER: &str = "fleet:feed";

/// A daemon's part in the fleet. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Membership {
    uplink: Arc<Uplink>,
    problem: Arc<Problem>,
    stopping: watch::Sender<bool>,
}

/// Why the broker does not get the records; `None` while it does.
#[derive(Debug, Default)]
struct Problem {
    latest: Mutex<Option<(String, Millis)>>,
    n_failed: AtomicU64,
}

impl Problem {
    fn set(&self, why: Option<String>) {
        // Nothing is left half done while it is held.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &why {
            self.n_failed.fetch_add(1, Ordering::Relaxed);
            if latest.as_ref().is_none_or(|(last, _)| last != why) {
                tracing::warn!(why, "not in the fleet");
            }
        }
        *latest = why.map(|why| (why, clock::now().wall));
    }
}

struct Member {
    config: FleetConfig,
    uplink: Arc<Uplink>,
    service: Service,
    problem: Arc<Problem>,
    stopping: watch::Receiver<bool>,
}

impl Membership {
    /// Joins the fleet with the session that has these files. A session that is new in it gets its records
    /// after `last_seq` published.
    pub(crate) async fn start(
        config: &FleetConfig,
        paths: &Paths,
        live: &Arc<Live>,
        last_seq: Seq,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Self> {
        let request = ConsumeRequest {
            name: format!("{SINK_PREFIX}{CONSUMER}"),
            from_now: true,
            take_over: true,
            filter: Filter::default(),
        };
        let pid = Some(std::process::id());
        let leased = timeout(CREATED_WITHIN, live.consume_from(request, pid, last_seq)).await;
        let leased = leased.map_err(|_| io::Error::other("the disk does not answer"))?;
        let (_, lease) = leased.map_err(|refusal| io::Error::other(refusal.message))?;
        let uplink = Arc::new(Uplink {
            host: host_name(config),
            key: paths.key.clone(),
            live: Arc::clone(live),
            confirmed: AtomicU64::new(lease.cursor()),
            n_confirmed: AtomicU64::new(0),
            has_all: Notify::new(),
            lease,
        });
        let problem = Arc::new(Problem::default());
        let (stopping, is_stopping) = watch::channel(false);
        let service = Service {
            host: uplink.host.clone(),
            allow: config.allow.clone(),
            paths: paths.clone(),
            keys: ExecutionKeys(paths.runtime.join("fleet")),
        };
        let member = Member {
            service,
            config: config.clone(),
            uplink: Arc::clone(&uplink),
            problem: Arc::clone(&problem),
            stopping: is_stopping,
        };
        let (ending, ended) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("fleet".to_owned())
            .spawn(move || {
                member.run();
                drop(ending);
            })?;
        tasks.spawn(async move { drop(ended.await) });
        Ok(Self {
            uplink,
            problem,
            stopping,
        })
    }

    /// Ends it soon: what is recorded is published if that succeeds at once.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns how far it is; `consumers` are those of the feed.
    pub(crate) fn status(&self, consumers: &[ConsumerStatus]) -> SinkStatus {
        let consumer = consumers
            .iter()
            .find(|one| one.name.strip_prefix(SINK_PREFIX) == Some(CONSUMER));
        let latest = self.problem.latest.lock();
        let latest = latest.unwrap_or_else(PoisonError::into_inner).clone();
        SinkStatus {
            name: CONSUMER.to_owned(),
            kind: "broker".to_owned(),
            cursor: consumer.map_or(0, |one| one.cursor),
            lag: consumer.map_or(0, |one| one.lag),
            delivered: self.uplink.n_confirmed.load(Ordering::Relaxed),
            failed: self.problem.n_failed.load(Ordering::Relaxed),
            error_at: latest.as_ref().map(|(_, at)| *at),
            error: latest.map(|(why, _)| why),
            owners: Vec::new(),
        }
    }
}

impl Member {
    fn run(&self) {
        let mut retry = RETRY;
        loop {
            let Ok(runtime) = Builder::new_current_thread().enable_all().build() else {
                tracing::error!("no runtime for a connection to the broker");
                return;
            };
            let began = std::time::Instant::now();
            let ended = runtime.block_on(async {
                tokio::select! {
                    error = self.serve() => Some(error),
                    () = self.farewell() => None,
                }
            });
            let Some(error) = ended else { return };
            self.problem.set(Some(with_causes(&error)));
            if began.elapsed() >= GOOD_AFTER {
                retry = RETRY;
            }
            if !self.pause(&runtime, jittered(retry.next_pause())) {
                return;
            }
            runtime.shutdown_background();
        }
    }

    /// Serves one connection. Returns why it has ended.
    async fn serve(&self) -> FleetError {
        let host = &self.uplink.host;
        let connection = match connect(&self.config, host).await {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        let buckets = Buckets::new(&connection);
        let serving = async {
            // Whether the broker has what it needs shows here.
            tokio::try_join!(
                self.uplink.publish(&connection),
                self.service.serve(&connection.client),
                bucket::publish(&buckets, host, &self.uplink.key, &self.uplink.live),
                bucket::beat(&buckets, host, &self.config, || self.problem.set(None)),
            )
        };
        tokio::select! {
            served = serving => match served {
                Ok(_) => FleetError::Broken,
                Err(error) => error,
            },
            () = connection.ended() => FleetError::Broken,
        }
    }

    /// Resolves when the daemon stops and all is published, at the latest after a moment.
    async fn farewell(&self) {
        self.stopped().await;
        drop(timeout(FAREWELL, self.uplink.has_all.notified()).await);
    }

    async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        // Without a sender the daemon has gone.
        drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    }

    /// Waits before the next connection. Returns `false` at once when the daemon stops.
    fn pause(&self, runtime: &Runtime, pause: Duration) -> bool {
        runtime.block_on(async {
            tokio::select! {
                () = sleep(pause) => true,
                () = self.stopped() => false,
            }
        })
    }
}

/// Returns a random part of a pause, at least half of it.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    // Without randomness it is the shortest pause.
    let share = getrandom(&mut byte, GetRandomFlags::empty()).map_or(0, |_| byte[0]);
    pause / 2 + pause * u32::from(share) / 512
}

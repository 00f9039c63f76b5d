//! The sinks of the configuration: each is a consumer of the feed, on a thread that they share. The
//! fleet's broker is one more, on a thread of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::retry::{RunningSink, SinkState};
use super::target::{Selection, Sink};
use crate::config::Config;
#[cfg(feature = "fleet")]
use crate::fleet::Membership;
use crate::model::Seq;
use crate::paths::Paths;
use crate::store::{Live, ReaderThread};
use crate::wire::{ConsumerStatus, SINK_PREFIX, SinkStatus};

/// How long creating the consumers, all of them, may delay the start.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// The sinks of a daemon.
#[derive(Debug)]
pub(crate) struct Sinks {
    states: Vec<Arc<SinkState>>,
    stopping: watch::Sender<bool>,
    /// Dropping it ends them. There is none without sinks.
    _thread: Option<ReaderThread>,
    #[cfg(feature = "fleet")]
    membership: Option<Membership>,
}

impl Sinks {
    /// Starts the sinks of the session that has these files; `None` when there are none. A sink that is
    /// new gets what is recorded after `last_seq`.
    ///
    /// # Errors
    ///
    /// When their thread cannot be created.
    #[cfg_attr(
        not(feature = "fleet"),
        expect(unused_variables, reason = "only the fleet names files")
    )]
    pub(crate) async fn start(
        config: &Config,
        paths: &Paths,
        live: &Arc<Live>,
        last_seq: Seq,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Option<Self>> {
        let configs = &config.sinks;
        forget_others(config, live).await;
        if configs.is_empty() && config.fleet.is_none() {
            return Ok(None);
        }
        #[cfg(feature = "fleet")]
        let membership = match &config.fleet {
            Some(fleet) => Some(Membership::start(fleet, paths, live, last_seq, tasks).await?),
            None => None,
        };
        let thread = match configs.is_empty() {
            true => None,
            false => Some(ReaderThread::named("sinks")?),
        };
        let stopping = watch::Sender::new(false);
        let mut states = Vec::new();
        let mut all = Vec::new();
        for config in configs {
            let sink = Sink::of(config);
            let state = Arc::new(SinkState {
                name: config.name.clone(),
                kind: sink.kind(),
                owners: config.filter.owners.clone(),
                progress: Mutex::default(),
            });
            states.push(Arc::clone(&state));
            all.push(RunningSink {
                sink,
                selection: Selection::new(&config.filter),
                state,
                live: Arc::clone(live),
                last_seq,
                stopping: stopping.subscribe(),
            });
        }
        // What happens from here on is for them, so they exist before anything can happen.
        let leases = all.iter().map(|sink| timeout(CREATED_WITHIN, sink.lease()));
        let leases = join_all(leases).await;
        for (mut running, first) in all.into_iter().zip(leases) {
            let first = first.ok();
            let Some(handle) = thread.as_ref().map(ReaderThread::handle) else {
                break;
            };
            tasks.spawn(async move { handle.run(async move { running.run(first).await }).await });
        }
        Ok(Some(Self {
            states,
            stopping,
            _thread: thread,
            #[cfg(feature = "fleet")]
            membership,
        }))
    }

    /// Ends the sinks soon: what is recorded is delivered if that succeeds at once.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
        #[cfg(feature = "fleet")]
        if let Some(membership) = &self.membership {
            membership.stop();
        }
    }

    /// Returns what is known of each; `consumers` are those of the feed.
    pub(crate) fn status(&self, consumers: &[ConsumerStatus]) -> Vec<SinkStatus> {
        let status = |state: &Arc<SinkState>| {
            let name = state.consumer();
            let consumer = consumers.iter().find(|one| one.name == name);
            let progress = state
                .progress
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let error = progress.error.clone();
            SinkStatus {
                name: state.name.clone(),
                kind: state.kind.to_owned(),
                cursor: consumer.map_or(0, |one| one.cursor),
                lag: consumer.map_or(0, |one| one.lag),
                delivered: progress.delivered,
                failed: progress.failed,
                error_at: error.as_ref().map(|(_, at)| *at),
                error: error.map(|(why, _)| why),
                owners: state.owners.clone(),
            }
        };
        let sinks = self.states.iter().map(status);
        #[cfg(feature = "fleet")]
        let sinks = sinks.chain(self.membership.iter().map(|one| one.status(consumers)));
        sinks.collect()
    }
}

/// Forgets the consumers of sinks that the configuration does not have any more: nobody reads as them,
/// and what they have not got would count as undelivered. No sink's name has the broker's `:`.
async fn forget_others(config: &Config, live: &Live) {
    let is_known = |sink: &str| {
        config.sinks.iter().any(|one| one.name == sink)
            || config.fleet.is_some() && sink.contains(':')
    };
    for consumer in live.consumer_list().consumers {
        let sink = consumer.name.strip_prefix(SINK_PREFIX);
        if sink.is_some_and(|sink| !is_known(sink)) {
            drop(timeout(CREATED_WITHIN, live.consumers.remove(&consumer.name)).await);
        }
    }
}

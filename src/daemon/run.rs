//! The life of a daemon: it takes its locks, starts its threads, supervises, and stops in order.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::Options;
use super::assembly::{Parts, assemble};
use super::connection::{ConnectionMessage, RequestSender};
use super::endpoint::{Acceptor, Endpoint, Locks};
use super::error::{DaemonError, no_thread};
use super::event_loop::{EventLoop, MESSAGES_QUEUED};
use super::lock::held_elsewhere;
use super::log;
use super::ownership::{self, Claim};
use super::signals::{Signals, StopRequest};
use crate::model::{Error, SessionLife};
use crate::paths::Paths;
use crate::sink::Sinks;
use crate::store::{Consumers, ReadMarks};
use crate::tmux::{Mark, MarkedSession, TmuxError};

/// How long operations in progress may take when the daemon is to stop. Then a tmux that hangs is
/// abandoned.
const RUNNING_JOB_LIMIT: Duration = Duration::from_millis(400);

/// How long removing hooks and options from tmux may take when the daemon stops.
const CLEANUP_LIMIT: Duration = Duration::from_millis(800);

/// How long tmux, readers and sinks together may take then: with [`RUNNING_JOB_LIMIT`] less than two
/// seconds.
const GRACE: Duration = Duration::from_millis(1400);

/// How long the positions of consumers may take to be saved at the end, at least.
const POSITIONS: Duration = Duration::from_millis(100);

/// How long tmux may take for the first answer. A daemon that knows nothing of its session does not
/// start.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Supervises the session until the daemon is to stop. `ready` is called once it listens and has
/// taken its first look.
///
/// # Errors
///
/// Only before it is ready. From then on errors are handled.
pub(crate) async fn run(options: Options, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let descriptors = raise_descriptors();
    let server = options.server.with_descriptors(descriptors.given);
    let options = Options { server, ..options };
    let paths = &options.paths;
    paths.create_runtime()?;
    let mut locks = Locks::take(paths).map_err(|error| locked(error, paths))?;
    let (checked, sessions) = tokio::join!(
        options.server.check_version(),
        timeout(FIRST_ANSWER, ownership::list_sessions(&options.server))
    );
    checked?;
    let sessions = sessions.map_err(|_elapsed| {
        let socket = options.server.socket().display();
        Error::failed(format!("the tmux server on `{socket}` does not answer"))
    })?;
    // The first look reports why tmux does not answer.
    let (claimed, is_new) = claim(&options, &sessions.unwrap_or_default()).await?;
    paths.create_state()?;
    locks
        .complete(paths)
        .map_err(|error| locked(error, paths))?;
    let _flusher = log::open(&paths.log()).map_err(|error| {
        Error::io(
            format_args!("could not make {}", paths.log().display()),
            &error,
        )
    })?;
    ownership::link_name(&options.server, paths, &options.session, is_new);
    let mut signals =
        Signals::listen().map_err(|error| Error::io("could not listen for signals", &error))?;

    let Parts {
        mut events,
        streams,
        readers: _readers,
        live,
        marks,
        last_seq,
    } = assemble(&options, claimed)?;
    let consumers = Arc::clone(&live.consumers);
    let mut tasks = JoinSet::new();
    let sinks = Sinks::start(&options.config, paths, &live, last_seq, &mut tasks).await;
    let sinks = sinks.map_err(no_thread)?.map(Arc::new);
    events.sinks.clone_from(&sinks);

    let mut locks = Some(locks);
    let mut endpoint = None;
    let acceptor = Acceptor::new(descriptors.most_connections());
    let (sender, mut messages) = mpsc::channel(MESSAGES_QUEUED);
    let requests = RequestSender::new(sender);
    let stopping = events.stopping.clone();
    let supervising = async {
        events.begin(RUNNING_JOB_LIMIT).await;
        if options.stdout {
            tasks.spawn(streams.clone().print(last_seq));
        }
        let locks = locks.take().expect("they are taken once");
        let endpoint = endpoint.insert(Endpoint::begin(paths, locks)?);
        tracing::info!(
            session = options.session,
            pid = std::process::id(),
            "supervising"
        );
        ready();
        if let Some(manager) = &mut events.service_manager {
            manager.is_ready(Instant::now());
        }
        events.scan_others();
        let accepting = acceptor.run(
            endpoint.listeners(),
            requests,
            streams.clone(),
            stopping.clone(),
            &mut tasks,
        );
        tokio::select! {
            () = events.run(endpoint, &mut messages) => {}
            () = accepting => {}
        }
        Ok::<(), DaemonError>(())
    };
    // Losing operations in progress is safe: a record is on the disk before anything else is
    // awaited, and the next daemon finds what was not recorded.
    tokio::select! {
        supervised = supervising => supervised?,
        () = overdue(&mut signals, &stopping) => {
            tracing::warn!("gave up what was under way: tmux does not answer");
        }
    }
    tracing::info!("leaving");
    if let Some(manager) = &mut events.service_manager {
        manager.is_stopping();
    }
    let locks = endpoint.map(Endpoint::leave).or(locks);
    // The second signal ends it at once, whatever is in progress.
    tokio::select! {
        () = leave(events, messages, tasks, sinks, &marks, &consumers) => {}
        () = signals.next() => tracing::warn!("second request to stop: leaving at once"),
    }
    drop(locks);
    Ok(())
}

/// Whoever looks for the daemon that holds the lock waits for its socket, and in vain if that is elsewhere.
fn locked(error: DaemonError, paths: &Paths) -> DaemonError {
    match (&error, held_elsewhere(paths)) {
        (DaemonError::Running { .. }, Some(pid)) => TmuxError::OtherDaemon { pid }.into(),
        _ => error,
    }
}

/// Resolves when the daemon is to stop, by a signal or by request, and has not stopped in time.
async fn overdue(signals: &mut Signals, stopping: &StopRequest) {
    tokio::select! {
        () = signals.next() => stopping.ask(),
        () = stopping.asked() => {}
    }
    sleep(RUNNING_JOB_LIMIT).await;
}

/// A session has one daemon, whatever name it is asked for: marks the session as ours, if it
/// exists. Returns its life, and whether these files are new to it.
async fn claim(
    options: &Options,
    sessions: &[MarkedSession],
) -> Result<(Option<SessionLife>, bool), DaemonError> {
    let Options { server, paths, .. } = options;
    let found = ownership::occupant(sessions, server.socket(), paths, &options.session);
    let Some(MarkedSession { life, .. }) = found else {
        return Ok((None, false));
    };
    match ownership::claim(server, life, paths).await {
        Ok(Claim::Ours { is_new }) => Ok((Some(life.clone()), is_new)),
        Ok(Claim::Theirs(Mark { pid, folder })) => Err(DaemonError::Running {
            pid,
            folder: Some(folder),
        }),
        Err(error @ TmuxError::OtherDaemon { .. }) => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "the session has gone");
            Ok((None, false))
        }
    }
}

/// Stops in order: gathered events are delivered, then readers get the end of their streams.
async fn leave(
    events: EventLoop,
    messages: mpsc::Receiver<ConnectionMessage>,
    mut tasks: JoinSet<()>,
    sinks: Option<Arc<Sinks>>,
    marks: &ReadMarks,
    consumers: &Consumers,
) {
    let deadline = Instant::now() + GRACE;
    // Connections that wait for another request are closed.
    drop(messages);
    events
        .close(RUNNING_JOB_LIMIT, CLEANUP_LIMIT, deadline)
        .await;
    if let Some(sinks) = &sinks {
        sinks.stop();
    }
    let drained = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task of the daemon panicked");
            }
        }
    };
    if timeout_at(deadline, drained).await.is_err() {
        tasks.shutdown().await;
    }
    // Stores how far they have read.
    marks.note();
    // A stuck reader may have used up the time.
    let saved_by = deadline.max(Instant::now() + POSITIONS);
    if timeout_at(saved_by, consumers.close()).await.is_err() {
        tracing::warn!("the disk does not answer: positions of consumers may not be on it");
    }
}

/// The limits of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// The limit at our start, for the processes that we start; `None` means unlimited.
    pub(super) given: Option<u64>,
    /// The present limit; `None` means unlimited.
    pub(super) ours: Option<u64>,
}

/// Raises this process's limit on descriptors to the hard limit. The soft limit is usually low for
/// programs that use `select`. Each task costs a daemon one descriptor and each connection one or
/// two.
fn raise_descriptors() -> Descriptors {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let ours = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of descriptors stays");
            current
        }
    };
    Descriptors {
        given: current,
        ours,
    }
}

impl Descriptors {
    /// Returns how many connections may be open at once. The other half is for the readers' files,
    /// the tasks' processes and tmux.
    pub(super) fn most_connections(self) -> usize {
        let most = self.ours.map(|limit| usize::try_from(limit / 2));
        most.map_or(usize::MAX, |most| most.unwrap_or(usize::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        let most = |ours| Descriptors { given: None, ours }.most_connections();
        assert_eq!(most(Some(1024)), 512);
        assert_eq!(most(Some(1)), 1);
        assert_eq!(most(None), usize::MAX);
    }
}

//! The life of a daemon: it takes its locks, starts its threads, supervises, and stops in order.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::connection::ConnectionMessage;
use super::endpoint::{DaemonError, Endpoint, Locks, held_elsewhere, no_thread};
use super::event_loop::{EventLoop, MESSAGES_QUEUED};
use super::link::Link;
use super::link_jobs::LinkJobs;
use super::ownership::{self, Claim};
use super::session_link::SessionLink;
use super::signals::Signals;
use super::stale_sessions::SessionCleaner;
use super::streams::Streams;
use super::task_output::RunArchiver;
use super::{Options, log, recovery};
use crate::model::{Context, Error, Seq, SessionLife};
use crate::outlets::sink::Sinks;
use crate::rules::engine::{Engine, Settings};
use crate::rules::prompt::UserRules;
use crate::session::{Session, Setup, StoreState};
use crate::store::feed::Ages;
use crate::store::{Archiver, Live, ReaderThread, Store, StoreSetup};
use crate::tmux::{ListedSession, Mark, TmuxError};

/// How long operations in progress may take when the daemon is to stop, before a tmux that hangs is abandoned.
const RUNNING_JOB_LIMIT: Duration = Duration::from_millis(400);

/// How long removing hooks and options from tmux may take when the daemon stops.
const CLEANUP_LIMIT: Duration = Duration::from_millis(800);

/// How long tmux, readers and sinks together may take then: with [`RUNNING_JOB_LIMIT`] less than two seconds.
const GRACE: Duration = Duration::from_millis(1400);

/// How long the positions of consumers may take to be saved at the end, at least.
const POSITIONS: Duration = Duration::from_millis(100);

/// How long tmux may take for the first answer, without which a daemon does not start.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// Supervises the session until the daemon is to stop. `ready` is called once it listens and has taken its
/// first look: from then on errors are handled.
pub(crate) async fn run(options: Options, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let (given, descriptors) = raise_descriptors();
    let server = options.server.with_descriptors(given);
    let options = Options { server, ..options };
    let paths = &options.paths;
    // Whoever looks for the daemon that holds the lock waits for its socket, and in vain if that is elsewhere.
    let locked = |error: DaemonError| match (&error, held_elsewhere(paths)) {
        (DaemonError::Running { .. }, Some(pid)) => TmuxError::OtherDaemon { pid }.into(),
        _ => error,
    };
    paths.create_runtime()?;
    let mut locks = Locks::take(paths).map_err(locked)?;
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
    locks.complete(paths).map_err(locked)?;
    let no_log = |error| Error::io(format!("could not make {}", paths.log().display()), &error);
    let _flusher = log::open(&paths.log()).map_err(no_log)?;
    ownership::link_name(&options.server, paths, &options.session, is_new);
    let mut signals =
        Signals::listen().map_err(|error| Error::io("could not listen for signals", &error))?;

    let (mut events, streams, _readers, last_seq) = assemble(&options, claimed)?;
    let live = Arc::clone(&streams.live);
    let mut tasks = JoinSet::new();
    let sinks = Sinks::start(&options.config, paths, &live, last_seq, &mut tasks).await;
    events.sinks = sinks.map_err(no_thread)?.map(Arc::new);

    let mut locks = Some(locks);
    let mut endpoint = None;
    let (requests, mut messages) = mpsc::channel(MESSAGES_QUEUED);
    let stopping = events.stopping.clone();
    let supervising = async {
        events.begin(RUNNING_JOB_LIMIT).await;
        if options.stdout {
            tasks.spawn(streams.clone().print(last_seq));
        }
        let locks = locks.take().expect("they are taken once");
        let begun = Endpoint::begin(paths, locks, most_connections(descriptors))?;
        let endpoint = endpoint.insert(begun);
        let (session, pid) = (&options.session, std::process::id());
        tracing::info!(session, pid, "supervising");
        ready();
        if let Some(manager) = &options.service_manager {
            manager.is_ready();
        }
        let serving = endpoint.serve(requests, streams.clone(), stopping.clone(), &mut tasks);
        tokio::select! {
            () = events.run(&mut messages) => {}
            () = serving => {}
        }
        Ok::<(), DaemonError>(())
    };
    // Losing operations in progress is safe: a record is on the disk before anything else is awaited.
    tokio::select! {
        supervised = supervising => supervised?,
        () = overdue(&mut signals, &stopping) => {
            tracing::warn!("gave up what was under way: tmux does not answer");
        }
    }
    tracing::info!("leaving");
    if let Some(manager) = &options.service_manager {
        manager.is_stopping();
    }
    let locks = endpoint.map(|endpoint| endpoint.locks).or(locks);
    // The second signal ends it at once, whatever is in progress.
    tokio::select! {
        () = leave(events, messages, tasks, &live) => {}
        () = signals.next() => tracing::warn!("second request to stop: leaving at once"),
    }
    drop(locks);
    Ok(())
}

/// Resolves when the daemon is to stop, by a signal or by request, and has not stopped in time.
async fn overdue(signals: &mut Signals, stopping: &watch::Sender<bool>) {
    let mut asked = stopping.subscribe();
    tokio::select! {
        () = signals.next() => {
            stopping.send_replace(true);
        }
        _ = asked.wait_for(|is_asked| *is_asked) => {}
    }
    sleep(RUNNING_JOB_LIMIT).await;
}

/// Marks the session as ours, if it exists: it has one daemon, whatever name it is asked for. Returns its life, and
/// whether these files are new to it.
async fn claim(
    options: &Options,
    sessions: &[ListedSession],
) -> Result<(Option<SessionLife>, bool), DaemonError> {
    let Options { server, paths, .. } = options;
    let found = ownership::occupant(sessions, server.socket(), paths, &options.session);
    let Some(ListedSession { life, .. }) = found else {
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
    live: &Live,
) {
    let deadline = Instant::now() + GRACE;
    let sinks = events.sinks.clone();
    // Connections that wait for another request are closed.
    drop(messages);
    let closed = events.close(RUNNING_JOB_LIMIT, CLEANUP_LIMIT, deadline);
    closed.await;
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
    // A stuck reader may have used up the time.
    let saved_by = deadline.max(Instant::now() + POSITIONS);
    if timeout_at(saved_by, live.consumers.close()).await.is_err() {
        tracing::warn!("the disk does not answer: positions of consumers may not be on it");
    }
}

/// Raises this process's limit on descriptors to the hard limit: each task costs a daemon one and each
/// connection one or two. Returns the limit at our start, for the processes that we start, and the present one;
/// `None` means unlimited.
fn raise_descriptors() -> (Option<u64>, Option<u64>) {
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
    (current, ours)
}

/// Returns how many connections may be open at once: the rest is for readers' files, tasks' processes and tmux.
fn most_connections(descriptors: Option<u64>) -> usize {
    let most = descriptors.map(|limit| usize::try_from(limit / 2));
    most.map_or(usize::MAX, |most| most.unwrap_or(usize::MAX).max(1))
}

/// Reads what the daemon before has left, and starts the threads. `claimed` is the session's life if it
/// exists. Returns the event loop; the streams of the feed's readers, and the thread that they run on, which
/// ends when it is dropped; and the number of the last record of the daemon before.
fn assemble(
    options: &Options,
    claimed: Option<SessionLife>,
) -> Result<(EventLoop, Streams, ReaderThread, Seq), Error> {
    let paths = &options.paths;
    let beginning = recovery::begin(paths, &options.session, options.fresh)?;
    let readers = ReaderThread::start("readers").map_err(no_thread)?;
    let (archiver, usual) = Archiver::start().map_err(no_thread)?;
    let archiver = Arc::new(archiver);
    let ages = Ages::load(&paths.feed(), &crate::clock::boot_time());
    let announced = beginning.pending.restarting.clone();
    let session_id = options.session_id.as_ref().unwrap_or(&options.session);
    let context = Context {
        epoch: beginning.epoch,
        session_name: options.session.clone(),
        session_id: session_id.clone(),
        checkpoint: None,
    };
    let store = Store::start(StoreSetup {
        journal: beginning.journal,
        context,
        pending: beginning.pending,
        kept: options.config.feed,
        ages,
    })
    .map_err(no_thread)?;
    let live = Arc::clone(&store.live);
    let last_seq = beginning.memory.last_seq;
    let last_look = beginning.memory.last_look.as_ref();
    let link = SessionLink::new(options, last_look, &beginning.bookmark, claimed);
    let link = link.map_err(no_thread)?;
    let input = &options.config.input;
    let settings = Settings {
        quiet: input.quiet,
        shells: options.config.shells,
        ..Settings::LIVE
    };
    let user_rules = UserRules::new(&input.ask, &input.ignore, input.mute_tasks.clone());
    let user_rules = user_rules.map_err(Error::of)?;
    let mut engine = Engine::new(settings, beginning.memory, crate::clock::now());
    engine.episodes.user_rules = user_rules.clone();
    let session = Session::new(
        Setup {
            engine,
            session_name: options.session.clone(),
            longest_pause: options.interval,
            bookmark: beginning.bookmark,
            stop: options.config.stop.plan(),
            announced,
            store: StoreState {
                written: last_seq,
                tried: store.report.tried,
                is_full: false,
            },
        },
        crate::clock::now(),
    );
    let runs = RunArchiver::new(Arc::clone(&archiver), options.config.logs);
    // There is one scan.
    let (notices, scanned) = mpsc::channel(1);
    let cleaner = SessionCleaner {
        options: options.clone(),
        archiver: runs.clone(),
        notices,
    };
    let jobs = LinkJobs {
        link,
        options: options.clone(),
        archiver: runs,
        cleaner: Some(cleaner),
    };
    let link = Link::start(jobs, user_rules).map_err(no_thread)?;
    let options = options.clone();
    let events = EventLoop::new(options, session, link, store, archiver, usual, scanned)
        .map_err(no_thread)?;
    let streams = Streams {
        live,
        readers: readers.handle.clone(),
    };
    Ok((events, streams, readers, last_seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        assert_eq!(most_connections(Some(1024)), 512);
        assert_eq!(most_connections(Some(1)), 1);
        assert_eq!(most_connections(None), usize::MAX);
    }
}

//! The daemon: one per task session. It owns the engine and lets two edges meet.

mod acceptor;
mod connection;
mod control_clients;
mod descriptors;
mod endpoint;
mod event_loop;
mod feed_publisher;
mod flush_schedule;
mod hang_up;
mod launches;
mod link;
mod link_jobs;
mod lock;
mod log;
mod notices;
mod open_connection;
mod output_follower;
mod output_queue;
mod ownership;
mod pane_activity;
mod pane_reading;
mod processes;
mod recovery;
mod run_archiver;
mod server_idle;
mod service_manager;
mod session_link;
mod signals;
mod sinks;
mod stale_sessions;
mod stdout;
mod streams;
mod succession;
mod task_output;
mod timer;
mod tty_poller;
mod typing;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub(crate) use launches::{launched_run, task_record};
pub(crate) use lock::{LockError, is_held};
pub(crate) use ownership::resolve_name;
pub(crate) use service_manager::ServiceManager;
pub(crate) use task_output::{OutputError, read_task_log, search_task};
pub(crate) use typing::{TypingError, type_into_task};

use crate::config::Config;
use crate::engine::{Engine, Settings};
use crate::feed::{FeedError, Retention};
use crate::model::SessionLife;
use crate::paths::{Paths, PathsError};
use crate::prompt::UserRules;
use crate::session::{Session, Setup, StoreState};
use crate::store::{self, Archiver, Consumers, ReadMarks, ReaderThread, Store};
use crate::tmux::{Mark, MarkedSession, Server, TmuxError};
use crate::wire::Context;
use acceptor::Acceptor;
use connection::{Ask, Asks};
use endpoint::{Endpoint, Locks};
use event_loop::{ASKS_QUEUED, EventLoop};
use feed_publisher::FeedPublisher;
use link::Link;
use ownership::Claim;
use run_archiver::RunArchiver;
use session_link::SessionLink;
use signals::{Signals, StopRequest};
use sinks::Sinks;
use streams::Streams;

/// How long operations in progress may take when the daemon is to stop. Then a tmux that hangs is
/// abandoned.
const PATIENCE: Duration = Duration::from_millis(400);

/// How long removing hooks and options from tmux may take when the daemon stops.
const FAREWELL: Duration = Duration::from_millis(800);

/// How long tmux, readers and sinks together may take then: with [`PATIENCE`] less than two
/// seconds.
const GRACE: Duration = Duration::from_millis(1400);

/// How long the positions of consumers may take to be saved at the end, at least.
const POSITIONS: Duration = Duration::from_millis(100);

/// How long tmux may take for the first answer. A daemon that knows nothing of its session does not
/// start.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// A daemon's options.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The task session as it is asked for.
    pub session: String,
    /// Its tmux server.
    pub server: Server,
    /// Its files.
    pub paths: Paths,
    /// The harness's id of the conversation.
    pub session_id: Option<String>,
    /// The project's folder, for a session without a recorded project.
    pub project: Option<PathBuf>,
    /// Forget the saved snapshot.
    pub fresh: bool,
    /// The longest time between two looks.
    pub interval: Duration,
    /// Whether it stops by itself once there has been neither session nor reader for long.
    pub leaves_when_useless: bool,
    /// The service manager that started the daemon, if one did.
    pub service_manager: Option<ServiceManager>,
    /// Print the live feed on stdout.
    pub stdout: bool,
    /// How long another session of the project must have been unused to be ended at the start;
    /// `None` ends none.
    pub clean_after: Option<Duration>,
    /// The configuration.
    pub config: Config,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Another daemon holds the lock, or the lock cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The feed cannot be used.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// tmux cannot be used at all.
    #[error(transparent)]
    Tmux(#[from] TmuxError),
    /// The tmux server does not answer.
    #[error("the tmux server on `{}` does not answer", .socket.display())]
    NoAnswer {
        /// Its socket.
        socket: PathBuf,
    },
    /// Another daemon supervises the session under another name.
    #[error("already running (pid {pid}) for session `{name}`")]
    Elsewhere {
        /// Its pid.
        pid: u32,
        /// The name that it was asked for.
        name: String,
    },
    /// The socket or the log cannot be created.
    #[error("could not make {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread for the disk or for readers cannot be created.
    #[error("could not start a thread")]
    Thread(#[source] io::Error),
    /// Signal handlers cannot be installed.
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
}

/// Supervises the session until the daemon is to stop. `ready` is called once it listens and has
/// taken its first look.
///
/// # Errors
///
/// Only before it is ready. From then on errors are handled.
pub(crate) async fn run(options: Options, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let descriptors = descriptors::raise();
    let server = options.server.with_descriptors(descriptors.given);
    let options = Options { server, ..options };
    let paths = &options.paths;
    paths.create_runtime()?;
    let mut locks = Locks::take(paths)?;
    let (checked, occupant) = tokio::join!(
        options.server.check_version(),
        timeout(FIRST_ANSWER, ownership::occupant(&options.server, paths))
    );
    checked?;
    let occupant = occupant.map_err(|_elapsed| DaemonError::NoAnswer {
        socket: options.server.socket().to_owned(),
    })?;
    // The first look reports why tmux does not answer.
    let claimed = claim(&options, occupant.unwrap_or_default()).await?;
    paths.create_state()?;
    locks.complete(paths)?;
    log::open(&paths.log()).map_err(|source| DaemonError::Io {
        path: paths.log(),
        source,
    })?;
    let mut signals = Signals::listen().map_err(DaemonError::Signals)?;

    let beginning = recovery::begin(paths, options.fresh)?;
    let kept = &options.config.feed;
    let readers = ReaderThread::start().map_err(DaemonError::Thread)?;
    let (archiver, usual) = Archiver::start().map_err(DaemonError::Thread)?;
    let archiver = Arc::new(archiver);
    let announced = beginning.pending.restarting();
    let store = Store::start(store::StoreSetup {
        journal: beginning.journal,
        epoch: beginning.epoch.clone(),
        asked: paths.asked.clone(),
        session_name: options.session.clone(),
        last_seq: beginning.memory.last_seq,
        pending: beginning.pending,
        retention: Retention::new(kept.keep_size, kept.keep_age, kept.keep_for_consumers),
        saved: paths.saved(),
        consumers: paths.consumers(),
    })
    .map_err(DaemonError::Thread)?;
    let live = Arc::clone(store.live());
    let consumers = Arc::clone(live.consumers());
    let marks = Arc::new(ReadMarks::new(
        paths.last_reader(),
        &beginning.epoch,
        Arc::clone(live.readers()),
    ));
    readers.handle().start(Arc::clone(&marks).keep());
    let context = Context {
        epoch: beginning.epoch,
        session_name: options.session.clone(),
        session_id: options
            .session_id
            .clone()
            .unwrap_or_else(|| options.session.clone()),
        checkpoint: None,
    };
    let last_seq = beginning.memory.last_seq;
    let before = beginning.memory.before.as_ref();
    let link = SessionLink::new(
        options.server.clone(),
        options.session.clone(),
        options.paths.clone(),
        before.map(|look| (look, &beginning.bookmark)),
        claimed,
    );
    let input = &options.config.input;
    let settings = Settings {
        quiet: input.quiet,
        stalled_after: input.stalled_after,
        shells: options.config.shells,
        ..Settings::LIVE
    };
    let user_rules = UserRules::new(
        &input.ask,
        &input.ignore,
        input.mute_tasks.clone(),
        input.mute_kinds.clone(),
    )
    .unwrap_or_else(|error| {
        // The configuration was validated with the same rules.
        tracing::error!(%error, "a pattern that was good is not any more");
        UserRules::default()
    });
    let recorder = FeedPublisher::new(store, context);
    let session = Session::new(
        Setup {
            engine: Engine::new(settings, beginning.memory, crate::clock::now())
                .with_user_rules(user_rules.clone()),
            session_name: options.session.clone(),
            longest_pause: options.interval,
            bookmark: beginning.bookmark,
            announced,
            store: StoreState {
                written: last_seq,
                tried: recorder.tried_seq(),
                is_full: false,
            },
        },
        crate::clock::now(),
    );
    let runs = RunArchiver::new(Arc::clone(&archiver), &options.config.logs);
    let link = Link::start(&options, link, runs, user_rules).map_err(DaemonError::Thread)?;
    let mut events = EventLoop::new(&options, session, link, recorder, archiver, usual);
    let mut tasks = JoinSet::new();
    let sinks = Sinks::start(&options.config.sinks, &live, last_seq, &mut tasks).await;
    let sinks = sinks.map_err(DaemonError::Thread)?.map(Arc::new);
    events.has_sinks(sinks.clone());
    let streams = Streams::new(live, readers.handle());

    let mut locks = Some(locks);
    let mut presence = None;
    let acceptor = Acceptor::new(descriptors.most_connections());
    let (asks, mut asked) = mpsc::channel(ASKS_QUEUED);
    let asks = Asks::new(asks);
    let stopping = events.stopping().clone();
    let supervising = async {
        events.begin(PATIENCE).await;
        if options.stdout {
            tasks.spawn(streams.clone().print(last_seq));
        }
        let locks = locks.take().expect("they are taken once");
        let presence = presence.insert(Endpoint::begin(paths, locks)?);
        tracing::info!(
            session = options.session,
            pid = std::process::id(),
            "supervising"
        );
        ready();
        if let Some(manager) = events.service_manager() {
            manager.is_ready(Instant::now());
        }
        events.scan_others();
        let accepting = acceptor.run(
            presence.listeners(),
            asks,
            streams.clone(),
            stopping.clone(),
            &mut tasks,
        );
        tokio::select! {
            () = events.run(presence, &mut asked) => {}
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
    if let Some(manager) = events.service_manager() {
        manager.is_stopping();
    }
    let locks = presence.map(Endpoint::leave).or(locks);
    // The second signal ends it at once, whatever is in progress.
    tokio::select! {
        () = leave(events, asked, tasks, sinks, &marks, &consumers) => {}
        () = signals.next() => tracing::warn!("second request to stop: leaving at once"),
    }
    drop(locks);
    Ok(())
}

/// Resolves when the daemon is to stop, by a signal or by request, and has not stopped in time.
async fn overdue(signals: &mut Signals, stopping: &StopRequest) {
    tokio::select! {
        () = signals.next() => stopping.ask(),
        () = stopping.asked() => {}
    }
    sleep(PATIENCE).await;
}

/// A session has one daemon, whatever name it is asked for: marks the session as ours, if it
/// exists.
async fn claim(
    options: &Options,
    occupant: Option<MarkedSession>,
) -> Result<Option<SessionLife>, DaemonError> {
    let elsewhere = |mark: Mark| DaemonError::Elsewhere {
        pid: mark.pid,
        name: mark.name,
    };
    let Some(MarkedSession { life, .. }) = occupant else {
        return Ok(None);
    };
    match ownership::claim(&options.server, &life, &options.paths.asked).await {
        Ok(Claim::Ours) => Ok(Some(life)),
        Ok(Claim::Theirs(mark)) => Err(elsewhere(mark)),
        Err(error @ TmuxError::OtherDaemon { .. }) => Err(error.into()),
        Err(error) => {
            tracing::debug!(%error, "the session has gone");
            Ok(None)
        }
    }
}

/// Stops in order: gathered events are delivered, then readers get the end of their streams.
async fn leave(
    events: EventLoop,
    asked: mpsc::Receiver<Ask>,
    mut tasks: JoinSet<()>,
    sinks: Option<Arc<Sinks>>,
    marks: &ReadMarks,
    consumers: &Consumers,
) {
    let deadline = Instant::now() + GRACE;
    // Connections that wait for another request are closed.
    drop(asked);
    events.close(PATIENCE, FAREWELL, deadline).await;
    if let Some(sinks) = &sinks {
        sinks.stop();
    }
    let drained = async {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a task ended badly");
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

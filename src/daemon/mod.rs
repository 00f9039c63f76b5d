//! The daemon: one per task session. It owns the engine and lets two edges meet.

mod acceptor;
mod connection;
mod control_clients;
mod descriptors;
mod endpoint;
mod event_loop;
mod feed_publisher;
mod hang_up;
mod launches;
mod link;
mod link_jobs;
mod lock;
mod log;
mod notices;
mod output_follower;
mod output_queue;
mod ownership;
mod pane_activity;
mod processes;
mod recovery;
mod run_archiver;
mod session_link;
mod signals;
mod stale_sessions;
mod stdout;
mod streams;
mod tty_poller;
mod typing;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};

pub use launches::launched_run;
pub use lock::{LockError, is_held};
pub use ownership::{Meant, meant};
pub use typing::{TypingError, type_into_task};

use crate::config::Config;
use crate::engine::{Engine, Settings};
use crate::feed::FeedError;
use crate::model::SessionLife;
use crate::paths::{Paths, PathsError};
use crate::prompt::UserRules;
use crate::session::{Session, Setup, StoreState};
use crate::store::{self, Archiver, ReadMarks, ReaderThread, Store};
use crate::tmux::{Mark, Marked, Server, TmuxError};
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
use signals::{Signals, Stopping};
use streams::Streams;

/// How long what is under way may take when the daemon is told to stop. A tmux that hangs is given
/// up then.
const PATIENCE: Duration = Duration::from_millis(400);

/// How long tmux may take to be rid of our things when the daemon leaves.
const FAREWELL: Duration = Duration::from_millis(800);

/// How long tmux, readers and sinks together may take then: with [`PATIENCE`] less than two seconds.
const GRACE: Duration = Duration::from_millis(1400);

/// How long tmux may take for the first answer. A daemon that cannot say anything of its session
/// does not start.
const FIRST_ANSWER: Duration = Duration::from_secs(3);

/// What a daemon is told at its start.
#[derive(Debug, Clone)]
pub struct Options {
    /// The task session's name, or the one that it had when it was asked for first.
    pub session: String,
    /// Its tmux server.
    pub server: Server,
    /// Its files.
    pub paths: Paths,
    /// The harness's id of the conversation.
    pub session_id: Option<String>,
    /// The project's folder, for a session that does not say which project it belongs to.
    pub project: Option<PathBuf>,
    /// Forget the saved snapshot.
    pub fresh: bool,
    /// The longest time between two looks.
    pub interval: Duration,
    /// Whether it leaves by itself once there has been neither session nor reader for long.
    pub leaves_when_useless: bool,
    /// Print the live feed on stdout.
    pub stdout: bool,
    /// For how long nobody must have used another session of the project for it to be ended at
    /// the start; `None` ends none.
    pub clean_after: Option<Duration>,
    /// What the configuration file says.
    pub config: Config,
}

/// Why a daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another one has the session, or the lock cannot be used.
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
    /// There is a tmux server, and it says nothing.
    #[error("the tmux server on `{}` does not answer", .socket.display())]
    NoAnswer {
        /// Its socket.
        socket: PathBuf,
    },
    /// Another one has the session, which has or had another name.
    #[error("already running (pid {pid}) for session `{name}`")]
    Elsewhere {
        /// Its process.
        pid: u32,
        /// What it was asked for by.
        name: String,
    },
    /// The socket or the log cannot be made.
    #[error("could not make {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread for the disk or for readers cannot be made.
    #[error("could not start a thread")]
    Thread(#[source] io::Error),
    /// Signals cannot be caught.
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
}

/// Supervises the session until told to stop; `ready` is called once the daemon listens and has
/// taken its first look.
///
/// # Errors
///
/// Only before it is ready. From then on it copes.
pub async fn run(options: Options, ready: impl FnOnce()) -> Result<(), DaemonError> {
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
    // What keeps tmux from answering is for the first look to tell.
    let claimed = claim(&options, occupant.unwrap_or_default()).await?;
    paths.create_state()?;
    locks.complete(paths)?;
    log::open(&paths.log()).map_err(|source| DaemonError::Io {
        path: paths.log(),
        source,
    })?;
    let mut signals = Signals::listen().map_err(DaemonError::Signals)?;

    let beginning = recovery::begin(paths, options.fresh)?;
    let readers = ReaderThread::start().map_err(DaemonError::Thread)?;
    let archiver = Arc::new(Archiver::start().map_err(DaemonError::Thread)?);
    let store = Store::start(store::Beginning {
        journal: beginning.journal,
        epoch: beginning.epoch.clone(),
        asked: paths.asked.clone(),
        session_name: options.session.clone(),
        last_seq: beginning.memory.last_seq,
        pending: beginning.pending,
        saved: paths.saved(),
    })
    .map_err(DaemonError::Thread)?;
    let live = Arc::clone(store.live());
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
    let teaching = UserRules::new(
        &input.ask,
        &input.ignore,
        input.mute_tasks.clone(),
        input.mute_kinds.clone(),
    )
    .unwrap_or_else(|error| {
        // The configuration was read with the same eyes.
        tracing::error!(%error, "a pattern that was good is not any more");
        UserRules::default()
    });
    let recorder = FeedPublisher::new(store, context);
    let session = Session::new(
        Setup {
            engine: Engine::new(settings, beginning.memory, crate::clock::now())
                .with_teaching(teaching.clone()),
            session_name: options.session.clone(),
            longest_pause: options.interval,
            bookmark: beginning.bookmark,
            store: StoreState {
                written: last_seq,
                tried: recorder.tried_seq(),
                is_full: false,
            },
        },
        crate::clock::now(),
    );
    let runs = RunArchiver::new(Arc::clone(&archiver), &options.config.logs);
    let link = Link::start(&options, link, runs, teaching).map_err(DaemonError::Thread)?;
    let mut events = EventLoop::new(&options, session, link, recorder, archiver);
    let mut tasks = JoinSet::new();
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
    // Losing what is under way is safe: a record is on the disk before anything else is waited for,
    // and what was not recorded is found by the next daemon.
    tokio::select! {
        supervised = supervising => supervised?,
        () = overdue(&mut signals, &stopping) => {
            tracing::warn!("gave up what was under way: tmux does not answer");
        }
    }
    tracing::info!("leaving");
    let locks = presence.map(Endpoint::leave).or(locks);
    // The second signal ends it at once, whatever is still under way.
    tokio::select! {
        () = leave(events, asked, tasks, &marks) => {}
        () = signals.next() => tracing::warn!("told twice to stop: leaving at once"),
    }
    drop(locks);
    Ok(())
}

/// Resolves when it is to stop, by a signal or by request, and has not done so in time.
async fn overdue(signals: &mut Signals, stopping: &Stopping) {
    tokio::select! {
        () = signals.next() => stopping.ask(),
        () = stopping.asked() => {}
    }
    sleep(PATIENCE).await;
}

/// A session has one daemon, by whatever name it is asked for: marks it as ours, if it is there.
async fn claim(
    options: &Options,
    occupant: Option<Marked>,
) -> Result<Option<SessionLife>, DaemonError> {
    let elsewhere = |mark: Mark| DaemonError::Elsewhere {
        pid: mark.pid,
        name: mark.name,
    };
    let Some(Marked { life, .. }) = occupant else {
        return Ok(None);
    };
    match ownership::claim(&options.server, &life, &options.paths.asked).await {
        Ok(Claim::Ours) => Ok(Some(life)),
        Ok(Claim::Theirs(mark)) => Err(elsewhere(mark)),
        Err(error) => {
            tracing::debug!(%error, "the session has gone");
            Ok(None)
        }
    }
}

/// Drains: what is gathered is delivered, then the readers see the end of their streams.
async fn leave(
    events: EventLoop,
    asked: mpsc::Receiver<Ask>,
    mut tasks: JoinSet<()>,
    marks: &ReadMarks,
) {
    let deadline = Instant::now() + GRACE;
    // Connections that wait for another request end.
    drop(asked);
    events.close(PATIENCE, FAREWELL, deadline).await;
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
    // How far they have read until the end.
    marks.note();
}

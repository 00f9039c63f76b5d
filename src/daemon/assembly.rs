//! Assembles a daemon: the store's threads, the link, the session and the event loop, with what the
//! daemon before it has left.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::Options;
use super::error::no_thread;
use super::event_loop::EventLoop;
use super::feed_publisher::FeedPublisher;
use super::link::Link;
use super::recovery;
use super::run_archiver::RunArchiver;
use super::session_link::SessionLink;
use super::stale_sessions::SessionCleaner;
use super::streams::Streams;
use crate::config::InputConfig;
use crate::engine::{Engine, Settings};
use crate::model::{Context, Error, Seq, SessionLife};
use crate::prompt::UserRules;
use crate::session::{Session, Setup, StoreState};
use crate::store::feed::{Ages, Retention};
use crate::store::{Archiver, Live, ReadMarks, ReaderThread, Store, StoreSetup};

/// A daemon that can begin.
pub(super) struct Parts {
    pub(super) events: EventLoop,
    /// The streams of the feed's readers.
    pub(super) streams: Streams,
    /// The thread that they run on, which ends when this is dropped.
    pub(super) readers: ReaderThread,
    /// What readers and sinks subscribe to.
    pub(super) live: Arc<Live>,
    /// Notes how far the feed was read.
    pub(super) marks: Arc<ReadMarks>,
    /// The number of the last record of the daemon before.
    pub(super) last_seq: Seq,
}

/// Reads what the daemon before has left, and starts the threads. `claimed` is the session's life if it
/// exists.
///
/// # Errors
///
/// When the feed cannot be opened, or a thread cannot be started.
pub(super) fn assemble(options: &Options, claimed: Option<SessionLife>) -> Result<Parts, Error> {
    let paths = &options.paths;
    let beginning = recovery::begin(paths, &options.session, options.fresh)?;
    let kept = &options.config.feed;
    let readers = ReaderThread::start().map_err(no_thread)?;
    let (archiver, usual) = Archiver::start().map_err(no_thread)?;
    let archiver = Arc::new(archiver);
    let ages = Ages::load(&paths.feed(), &crate::clock::boot_time());
    let clock = ages.clock();
    let announced = beginning.pending.restarting();
    let store = Store::start(StoreSetup {
        journal: beginning.journal,
        epoch: beginning.epoch.clone(),
        session_name: options.session.clone(),
        last_seq: beginning.memory.last_seq,
        pending: beginning.pending,
        retention: Retention::new(kept.keep_size, kept.keep_age, kept.keep_for_consumers),
        ages,
        saved: paths.saved(),
        consumers: paths.consumers(),
    })
    .map_err(no_thread)?;
    let live = Arc::clone(&store.live);
    let marks = Arc::new(ReadMarks::new(
        paths.last_reader(),
        &beginning.epoch,
        clock,
        Arc::clone(&live.readers),
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
    let last_look = beginning.memory.last_look.as_ref();
    let link = SessionLink::new(
        options.server.clone(),
        options.session.clone(),
        options.paths.clone(),
        last_look,
        &beginning.bookmark,
        claimed,
    );
    let input = &options.config.input;
    let settings = Settings {
        quiet: input.quiet,
        shells: options.config.shells,
        ..Settings::LIVE
    };
    let user_rules = user_rules(input);
    let publisher = FeedPublisher::new(store, context);
    let session = Session::new(
        Setup {
            engine: Engine::new(settings, beginning.memory, crate::clock::now())
                .with_user_rules(user_rules.clone()),
            session_name: options.session.clone(),
            longest_pause: options.interval,
            bookmark: beginning.bookmark,
            stop: options.config.stop.plan(),
            announced,
            store: StoreState {
                written: last_seq,
                tried: publisher.report.tried,
                is_full: false,
            },
        },
        crate::clock::now(),
    );
    let runs = RunArchiver::new(Arc::clone(&archiver), &options.config.logs);
    // There is one scan.
    let (notices, scanned) = mpsc::channel(1);
    let cleaner = SessionCleaner::new(options, runs.clone(), notices);
    let link = Link::start(options, link, runs, cleaner, user_rules).map_err(no_thread)?;
    let events = EventLoop::new(options, session, link, publisher, archiver, usual, scanned);
    let streams = Streams::new(Arc::clone(&live), readers.handle());
    Ok(Parts {
        events,
        streams,
        readers,
        live,
        marks,
        last_seq,
    })
}

/// Returns the user's rules. The configuration was validated with the same ones.
fn user_rules(input: &InputConfig) -> UserRules {
    let rules = UserRules::new(&input.ask, &input.ignore, input.mute_tasks.clone());
    rules.unwrap_or_else(|error| {
        tracing::error!(%error, "the prompt rules of the configuration were rejected after their validation");
        UserRules::default()
    })
}

//! The start-up scan: other task sessions of the same project, left over from conversations that have ended.
//!
//! All of it is done on a thread of its own, so that no command waits for it: their daemons are asked,
//! their feeds are read, and unused sessions are ended.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::runtime;
use tokio::sync::mpsc;

use super::session_link::SessionLink;
use super::task_output::RunArchiver;
use super::{Options, ownership};
use crate::client::DaemonClient;
use crate::clock::{boot_time, now};
use crate::config::paths::{Env, Paths};
use crate::model::{ErrorKind, Level, Millis, SessionLife, Task};
use crate::rules::observe::{Evidence, Observer};
use crate::rules::wire::{Request, Response};
use crate::store::feed::{CountedTimes, LastRead, ReadProgress, has_files};
use crate::tmux::{
    self, Connection, ListedSession, ListedTask, LookKind, LookMemory, Server, TmuxError, Unless,
};

/// How long the daemons of other sessions may take, asked all at once, to report their readers. Nothing waits for
/// them, and a session whose daemon takes longer just stays.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// How many tasks a report names.
const MAX_NAMED_TASKS: usize = 2;

/// Ends unused sessions, if this daemon may, and reports those that are in use.
#[derive(Debug)]
pub(super) struct SessionCleaner {
    pub(super) options: Options,
    pub(super) archiver: RunArchiver,
    /// Receives the notices of a scan: of the sessions that were ended, and of those with active tasks.
    pub(super) notices: mpsc::Sender<Vec<(Level, String)>>,
}

impl SessionCleaner {
    /// Does it on a thread that ends afterwards, and that a daemon which stops abandons after a while: the next daemon
    /// finds the sessions that are left.
    pub(super) fn start(self, link: &SessionLink) -> io::Result<()> {
        let given = || Some(self.options.project.as_deref()?.display().to_string());
        let Some(root) = link.root.clone().or_else(given) else {
            return Ok(());
        };
        // Our session, or its name, because it may come to exist during the scan.
        let (ours, our_name) = (link.session(), link.session_name());
        let our_name = our_name.unwrap_or_else(|| self.options.session.clone());
        let runtime = runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let clean = move || {
            let is_other = |session: &ListedSession| {
                session.root.as_ref() == Some(&root)
                    && Some(session.life.id) != ours
                    && session.shown_name() != our_name
            };
            let notices = runtime.block_on(self.clean(&root, is_other));
            // There is no receiver any more when the daemon stops.
            self.notices.blocking_send(notices).unwrap_or_default();
        };
        let thread = thread::Builder::new().name("stale-sessions".to_owned());
        thread.spawn(clean).map(drop)
    }

    /// It takes two short answers of tmux, however many sessions there are: every daemon that starts asks for them.
    async fn clean(
        &self,
        root: &str,
        is_other: impl Fn(&ListedSession) -> bool,
    ) -> Vec<(Level, String)> {
        let listed = async {
            let mut connection = Connection::OneShot(&self.options.server);
            let all = ownership::with_keys(tmux::list_sessions(&mut connection).await?);
            let mut tasks = BTreeMap::new();
            if all.iter().any(&is_other) {
                tasks = tmux::list_tasks(&mut connection).await?;
            }
            Ok::<_, TmuxError>((all, tasks))
        };
        let (all, mut tasks) = listed.await.unwrap_or_else(|error| {
            tracing::warn!(%error, "could not look for other task sessions");
            Default::default()
        });
        let (mut active, mut idle) = (Vec::new(), Vec::new());
        for session in all.iter().filter(|session| is_other(session)) {
            let tasks = tasks.remove(&session.life.id).unwrap_or_default();
            if tasks.iter().any(|task| task.is_alive) {
                active.push(report(session, &tasks));
            } else {
                idle.push(session);
            }
        }
        let mut notices = Vec::new();
        let cleaned = match self.options.clean_after {
            Some(after) => self.end_unused(idle, &all, after).await,
            None => Vec::new(),
        };
        if !cleaned.is_empty() {
            let n = cleaned.len();
            let names = cleaned.join("\n");
            let text = format!("Cleaned {n} inactive task session(s) of {root}.\n{names}");
            notices.push((Level::Info, text));
        }
        if !active.is_empty() {
            let reports = active.join("\n");
            let text = format!("Task session(s) of {root} still have active tasks:\n{reports}");
            notices.push((Level::Info, text));
        }
        notices
    }

    /// Ends those of these sessions, among all, that are unused, and returns a line for each of them.
    async fn end_unused(
        &self,
        idle: Vec<&ListedSession>,
        all: &[ListedSession],
        after: Duration,
    ) -> Vec<String> {
        let mut ends = Vec::new();
        for session in idle {
            match self.if_unused(session, all, after).await {
                Ok(Some((dead, paths))) => ends.push(self.end(session, dead, paths)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, session = session.name, "could not look at a session's tasks");
                }
            }
        }
        // Their daemons may take a while to answer, so they are asked at once.
        join_all(ends).await.into_iter().flatten().collect()
    }

    /// Returns the ended tasks and the files of a session that is certainly unused by what these contain.
    async fn if_unused(
        &self,
        session: &ListedSession,
        all: &[ListedSession],
        after: Duration,
    ) -> Result<Option<(Vec<Arc<Task>>, Paths)>, TmuxError> {
        let server = &self.options.server;
        let env: Env<'_> = &|name| std::env::var_os(name);
        let Ok(named) = Paths::locate(server.socket(), &session.name, env) else {
            return Ok(None);
        };
        let paths = ownership::resolve(all, &session.name, &named).paths;
        // The time is read here again: the end of a run can be known no better than by the look at it.
        let is_unused =
            |usage: &ReadProgress| is_unused_for(usage, after, SystemTime::now(), now().wall);
        // Most sessions are in use by their files, which are cheaper to read than their tasks.
        let Some(mut usage) = usage_of(session, &paths).filter(is_unused) else {
            return Ok(None);
        };
        let Some(dead) = ended_tasks_of(server, &session.life).await? else {
            return Ok(None);
        };
        let last_end = dead.iter().filter_map(|task| task.ended_at).max();
        usage.last_run = usage.last_run.max(last_end);
        Ok(is_unused(&usage).then_some((dead, paths)))
    }

    /// Ends a session in which nothing runs, unless its feed has a reader. Returns a line for it if it did.
    async fn end(
        &self,
        session: &ListedSession,
        dead: Vec<Arc<Task>>,
        paths: Paths,
    ) -> Option<String> {
        let (mut connection, life) = (Connection::OneShot(&self.options.server), &session.life);
        for task in &dead {
            let kept = self.archiver.keep(&mut connection, life, &paths, task);
            if let Err(error) = kept.await {
                tracing::warn!(%error, session = session.name, "the session stays, because output of its tasks cannot be stored");
                return None;
            }
        }
        if !has_no_reader(&paths).await {
            return None;
        }
        let _lock = self.options.paths.lock_server().await;
        let ended = tmux::end_idle_session(&mut connection, life, Unless::ActiveOrSeen);
        let is_ended = ended.await.unwrap_or_else(|error| {
            tracing::warn!(%error, session = session.name, "could not end an unused session");
            false
        });
        tracing::info!(session = session.name, is_ended, "inactive task session");
        is_ended.then(|| format!("- {}", named(session)))
    }
}

/// `NAME (TITLE)`
fn named(session: &ListedSession) -> String {
    let name = session.shown_name();
    match &session.title {
        Some(title) => format!("{name} ({title})"),
        None => name,
    }
}

/// `- NAME (TITLE): 2 active, 1 dead (api, web, +1 more)`
fn report(session: &ListedSession, tasks: &[ListedTask]) -> String {
    let (active, dead): (Vec<_>, Vec<_>) = tasks.iter().partition(|task| task.is_alive);
    let names = active.iter().chain(&dead).map(|task| task.name.as_str());
    let names: Vec<&str> = names.take(MAX_NAMED_TASKS).collect();
    let more = match tasks.len().saturating_sub(MAX_NAMED_TASKS) {
        0 => String::new(),
        more => format!(", +{more} more"),
    };
    let (name, names) = (named(session), names.join(", "));
    let (n_active, n_dead) = (active.len(), dead.len());
    format!("- {name}: {n_active} active, {n_dead} dead ({names}{more})")
}

/// Returns the tasks of a session; `None` if the session is gone or something runs in it.
async fn ended_tasks_of(
    server: &Server,
    life: &SessionLife,
) -> Result<Option<Vec<Arc<Task>>>, TmuxError> {
    let (mut connection, target) = (Connection::OneShot(server), format!("{}:", life.id));
    let mut captures = LookMemory::default();
    let look = tmux::look(&mut connection, &target, &mut captures, LookKind::Windows).await?;
    let Some(look) = look.filter(|look| look.session.life == *life) else {
        return Ok(None);
    };
    let mut observer = Observer::new(&look.session.name);
    let observed = observer.observe(Some(&look), &Evidence::default(), now());
    let tasks = observed.snapshot.tasks;
    let are_over = !tasks.values().any(|task| task.is_alive());
    Ok(are_over.then(|| tasks.into_values().collect()))
}

/// Whether a session in which nothing runs has been unused for as long as `after`, and nothing is left to read. It
/// has been by the machine's clock and, as far as times were noted by it, by the feed's, which nobody can set.
fn is_unused_for(progress: &ReadProgress, after: Duration, now: SystemTime, wall: Millis) -> bool {
    let is_long =
        |ago: Millis| u64::try_from(ago).is_ok_and(|ago| Duration::from_millis(ago) >= after);
    let is_past = |at: Millis| is_long(wall - at);
    // A time in the future is not in the past.
    let has_passed = |read: &LastRead| {
        let since = now.duration_since(read.at);
        since.is_ok_and(|since| since >= after)
    };
    let (read, consumers) = (progress.read.as_ref(), progress.consumers.iter());
    let is_noted_past = |counted: CountedTimes| {
        let of_consumers = consumers.clone().map(|consumer| consumer.used_after);
        let noted = of_consumers.chain(counted.last_run);
        let mut noted = noted.chain(read.and_then(|read| read.counted));
        noted.all(|at| is_long(counted.now - at))
    };
    let used_at = consumers.clone().map(|consumer| consumer.used_at);
    read.is_none_or(has_passed)
        && progress.counted.is_none_or(is_noted_past)
        && !progress.has_unread()
        && used_at.chain(progress.last_run).all(is_past)
}

/// Determines its remaining uses by its files; `None` where they are not known.
fn usage_of(session: &ListedSession, paths: &Paths) -> Option<ReadProgress> {
    // It had a daemon whose files are not found by its name: it was renamed, or they are gone.
    if session.has_record && !has_files(&paths.feed()) {
        return None;
    }
    ReadProgress::load(&paths.feed(), &boot_time())
        .inspect_err(|error| {
            tracing::warn!(%error, session = session.name, "the session stays, because what is unread is not known");
        })
        .ok()
}

/// Whether its feed certainly has no reader at this moment.
async fn has_no_reader(paths: &Paths) -> bool {
    let asked = async {
        let mut daemon = DaemonClient::connect(&paths.socket()).await?;
        daemon.ask(&Request::Status).await
    };
    match tokio::time::timeout(ANSWERS_WITHIN, asked).await {
        Ok(Ok(Response::Status(status))) => status.readers == 0,
        Ok(Err(error)) => error.kind == ErrorKind::NoDaemon,
        Ok(Ok(_)) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::saved_consumer;
    use crate::rules::wire::SavedConsumer;

    const HOUR: Duration = Duration::from_secs(3600);
    const WALL: Millis = 100 * 3_600_000;

    fn unused() -> ReadProgress {
        ReadProgress {
            last_run: Some(0),
            ..ReadProgress::default()
        }
    }

    #[track_caller]
    fn check(is_unused: bool, change: fn(&mut ReadProgress, SystemTime)) {
        let now = SystemTime::now();
        let mut used = unused();
        change(&mut used, now);
        assert_eq!(is_unused_for(&used, HOUR, now, WALL), is_unused, "{used:?}");
    }

    fn read(seq: u64, at: SystemTime) -> Option<LastRead> {
        Some(LastRead {
            epoch: "e".to_owned(),
            seq,
            at,
            counted: None,
        })
    }

    /// Its last message, up to which it has or has not been read.
    fn follow_up(used: &mut ReadProgress, read_to: u64, now: SystemTime) {
        used.epoch = "e".to_owned();
        used.last_follow_up = Some(7);
        used.read = read(read_to, now - HOUR);
    }

    /// All of it seems long ago because the clock was set.
    fn counted(used: &mut ReadProgress, last_run: Option<Millis>) {
        used.counted = Some(CountedTimes {
            now: 3_600_005,
            last_run,
        });
    }

    #[test]
    fn a_session_is_over_when_it_is_of_no_use_to_anybody() {
        check(true, |_, _| {});
        check(false, |used, now| used.read = read(0, now));
        check(false, |used, now| {
            used.read = read(0, now - HOUR + Duration::from_secs(1));
        });
        check(true, |used, now| used.read = read(0, now - HOUR));
        // The clock was set back.
        check(false, |used, now| used.read = read(0, now + HOUR));
        check(false, |used, now| {
            follow_up(used, 7, now);
            used.read = None;
        });
        check(false, |used, now| follow_up(used, 6, now));
        check(true, |used, now| follow_up(used, 7, now));
        check(false, |used, _| used.last_run = Some(WALL - 3_599_999));
        check(true, |used, _| used.last_run = Some(WALL - 3_600_000));
        check(false, |used, _| used.last_run = Some(WALL + 1));
        check(true, |used, _| counted(used, None));
        check(true, |used, _| counted(used, Some(5)));
        check(false, |used, _| counted(used, Some(6)));
        check(false, |used, now| {
            counted(used, None);
            used.read = read(0, now - HOUR);
            used.read.as_mut().unwrap().counted = Some(6);
        });
        // A run whose window is closed is only in the feed.
        check(false, |used, _| used.last_run = Some(WALL - 1000));
    }

    fn consumer(cursor: u64, used_at: Millis, used_after: Millis) -> SavedConsumer {
        SavedConsumer {
            used_at,
            used_after,
            ..saved_consumer("pi", cursor)
        }
    }

    #[test]
    fn a_session_is_of_use_to_its_consumers() {
        const LONG_AGO: Millis = WALL - 3_600_000;
        check(false, |used, _| {
            let lately = consumer(6, LONG_AGO + 1, 6);
            used.consumers = vec![consumer(6, LONG_AGO, 6), lately];
        });
        check(true, |used, _| {
            used.consumers = vec![consumer(6, LONG_AGO, 6)];
        });
        // The clock was set since it was read.
        check(false, |used, _| {
            used.consumers = vec![consumer(6, LONG_AGO, 6)];
            counted(used, None);
        });
        // It has not acknowledged 7, and it has.
        check(false, |used, now| {
            used.consumers = vec![consumer(6, LONG_AGO, 5)];
            counted(used, None);
            follow_up(used, 7, now);
        });
        check(true, |used, now| {
            used.consumers = vec![consumer(7, LONG_AGO, 5)];
            counted(used, None);
            follow_up(used, 7, now);
        });
    }
}

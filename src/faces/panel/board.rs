//! The tasks as the panel orders them: what needs the user is on top.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::{Millis, Ordered as _, RunEnd, age};
use crate::ops::{self, TaskSession, TreeUsage};
use crate::rules::wire::{LsTask, TaskStateName};

/// What a task is to the user, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    Ask,
    /// It ended with another code than 0, or by a signal.
    Failed,
    /// It has failed, and is about to be run again.
    Restarting,
    Running,
    Queued,
    Done,
    /// A shell that runs: a window that was opened without a command.
    Shell,
}

impl Group {
    pub(super) fn of(listed: &LsTask) -> Self {
        match listed.state {
            TaskStateName::Waiting => Self::Ask,
            TaskStateName::Killed => Self::Failed,
            TaskStateName::Exited if listed.task.exit_code() == Some(0) => Self::Done,
            TaskStateName::Exited => Self::Failed,
            TaskStateName::Shell => Self::Shell,
            TaskStateName::Running => Self::Running,
            TaskStateName::Queued => Self::Queued,
            TaskStateName::Restarting => Self::Restarting,
        }
    }

    /// The word in front of its tasks, a shorter one, and what follows the number of one of them and of several.
    fn words(self) -> [&'static str; 4] {
        match self {
            Self::Ask => ["ASK", "ASK", "needs you", "need you"],
            Self::Failed => ["FAILED", "FAIL", "failed", "failed"],
            Self::Restarting => ["RESTART", "RSTR", "restarting", "restarting"],
            Self::Running => ["RUNNING", "RUN", "running", "running"],
            Self::Queued => ["QUEUED", "QUEU", "queued", "queued"],
            Self::Done => ["DONE", "DONE", "done", "done"],
            Self::Shell => ["SHELL", "SH", "shell", "shells"],
        }
    }

    pub(super) fn label(self) -> &'static str {
        self.words()[0]
    }

    pub(super) fn short_label(self) -> &'static str {
        self.words()[1]
    }

    pub(super) fn counted(self, n: usize) -> &'static str {
        let [_, _, one, several] = self.words();
        if n == 1 { one } else { several }
    }
}

/// A session in the panel: a number that no other one gets while the panel is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SessionKey(pub(super) usize);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TaskKey {
    pub(super) session: SessionKey,
    pub(super) window: String,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListRow {
    Task(TaskKey),
    /// A session whose tasks are not known.
    Session(SessionKey),
}

impl ListRow {
    pub(super) fn session(&self) -> SessionKey {
        match self {
            Self::Task(task) => task.session,
            Self::Session(session) => *session,
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SessionName {
    pub(super) name: String,
    /// Its tmux server, if that is not the present one.
    pub(super) server: Option<String>,
}

impl SessionName {
    /// Returns the name, or a part of it, with the server where that is not the present one.
    pub(super) fn called(&self, name: &str) -> String {
        match &self.server {
            Some(server) => format!("{name}@{server}"),
            None => name.to_owned(),
        }
    }
}

/// Where the effects for a session are performed.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Here(Rc<TaskSession>),
    /// The session of this name on a host of the fleet.
    Host {
        host: String,
        session: String,
    },
}

#[derive(Debug, Clone, Default)]
pub(super) struct BoardSession {
    pub(super) name: SessionName,
    /// Where effects are performed; `None` while there is nowhere.
    pub(super) place: Option<Place>,
    /// How it is called where there are others.
    label: String,
    exists: bool,
    /// Whether the daemon has reported its tasks, or it is known why not.
    is_known: bool,
    /// Why nothing is known of its tasks; `None` if they are known.
    pub(super) trouble: Option<String>,
    tasks: BTreeMap<String, LsTask>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Board {
    sessions: BTreeMap<SessionKey, BoardSession>,
}

impl Board {
    /// Takes a session, or a new name of one.
    pub(super) fn add(&mut self, key: SessionKey, name: SessionName, place: Option<Place>) {
        let session = self.sessions.entry(key).or_default();
        session.name = name;
        session.place = place;
        session.trouble = None;
        self.label_sessions();
    }

    /// Takes a session of which no more is known than that it exists, and why that is so.
    pub(super) fn add_unknown(&mut self, key: SessionKey, name: SessionName, why: String) {
        self.add(key, name, None);
        if let Some(session) = self.sessions.get_mut(&key) {
            session.exists = true;
            session.is_known = true;
            session.trouble = Some(why);
            session.tasks.clear();
        }
    }

    pub(super) fn remove(&mut self, key: SessionKey) {
        self.sessions.remove(&key);
        self.label_sessions();
    }

    /// Takes a record of the daemon. `is_complete` says that there are no tasks but these.
    pub(super) fn update(
        &mut self,
        key: SessionKey,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: &[String],
    ) {
        let session = self.sessions.entry(key).or_default();
        session.exists = exists;
        session.is_known = true;
        if is_complete {
            session.tasks.clear();
        }
        session.tasks.retain(|window, _| !removed.contains(window));
        let by_window = |task: LsTask| (task.task.window.to_string(), task);
        session.tasks.extend(tasks.into_iter().map(by_window));
    }

    fn label_sessions(&mut self) {
        let names = self.sessions.values().map(|session| &session.name);
        let labels = labels(&names.collect::<Vec<_>>());
        let sessions = self.sessions.values_mut().zip(labels);
        sessions.for_each(|(session, label)| session.label = label);
    }

    pub(super) fn get(&self, task: &TaskKey) -> Option<&LsTask> {
        self.sessions.get(&task.session)?.tasks.get(&task.window)
    }

    pub(super) fn session(&self, key: SessionKey) -> Option<&BoardSession> {
        self.sessions.get(&key)
    }

    /// Returns how a session is called where there are others.
    pub(super) fn label(&self, key: SessionKey) -> &str {
        self.session(key).map_or("", |session| &session.label)
    }

    pub(super) fn is_known(&self) -> bool {
        self.sessions.values().all(|session| session.is_known)
    }

    pub(super) fn n_sessions(&self) -> usize {
        self.existing().count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks().next().is_none()
    }

    /// Returns how many tasks are in each group, for groups that have any.
    pub(super) fn counts(&self) -> BTreeMap<Group, usize> {
        let mut counts = BTreeMap::new();
        self.tasks()
            .for_each(|(_, task)| *counts.entry(Group::of(task)).or_default() += 1);
        counts
    }

    pub(super) fn n_ended(&self, key: SessionKey) -> usize {
        let of_session = self.tasks().filter(|(session, _)| *session == key);
        // A shell is not pruned.
        let ended = of_session.filter(|(_, task)| !task.task.is_alive() && !task.task.shell);
        ended.count()
    }

    fn existing(&self) -> impl Iterator<Item = (SessionKey, &BoardSession)> {
        let sessions = self.sessions.iter().map(|(key, session)| (*key, session));
        sessions.filter(|(_, session)| session.exists)
    }

    fn tasks(&self) -> impl Iterator<Item = (SessionKey, &LsTask)> {
        let sessions = self.sessions.iter();
        sessions.flat_map(|(key, session)| session.tasks.values().map(|task| (*key, task)))
    }

    /// Returns the rows that match a filter, in the order in which they are shown: by group, those
    /// that have ended with the latest end first, others by session and window; then the sessions
    /// whose tasks are not known.
    pub(super) fn ordered(&self, filter: &str) -> Vec<ListRow> {
        let filter = filter.to_lowercase();
        let tasks = self.tasks();
        let mut tasks: Vec<(SessionKey, &LsTask)> = tasks
            .filter(|(key, task)| matches(task, self.label(*key), &filter))
            .collect();
        tasks.sort_by_cached_key(|(key, listed)| {
            let task = &listed.task;
            let ended_at = Reverse(task.ended_at.filter(|_| !task.is_alive()));
            (
                Group::of(listed),
                ended_at,
                self.label(*key),
                *key,
                task.window,
            )
        });
        let task_row = |(session, listed): (SessionKey, &LsTask)| {
            let window = listed.task.window.to_string();
            ListRow::Task(TaskKey { session, window })
        };
        let mut unknown: Vec<(&str, SessionKey)> = self
            .existing()
            .filter(|(_, session)| session.trouble.is_some())
            .map(|(key, session)| (session.label.as_str(), key))
            .filter(|(label, _)| label.to_lowercase().contains(&filter))
            .collect();
        unknown.sort_unstable();
        let unknown = unknown.into_iter().map(|(_, key)| ListRow::Session(key));
        tasks.into_iter().map(task_row).chain(unknown).collect()
    }
}

/// Returns how sessions are called in a column: by the slug of a name that was made from a folder, unless two
/// have the same one, and with the tmux server where that is not the present one.
fn labels(names: &[&SessionName]) -> Vec<String> {
    let short = |name: &SessionName| name.called(slug(&name.name));
    let mut n_with: BTreeMap<String, usize> = BTreeMap::new();
    for name in names {
        *n_with.entry(short(name)).or_default() += 1;
    }
    let label = |name: &&SessionName| match short(name) {
        short if n_with.get(&short) == Some(&1) => short,
        _ => name.called(&name.name),
    };
    names.iter().map(label).collect()
}

/// Returns the folder's part of a name of the form `task-SLUG-HASH`, else the name.
fn slug(name: &str) -> &str {
    let rest = name.strip_prefix("task-").unwrap_or_default();
    match rest.rsplit_once('-') {
        Some((slug, hash))
            if hash.len() == 6 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            slug
        }
        _ => name,
    }
}

/// Whether a task's name, window, state, owner, command or session contains this, in lower case.
fn matches(listed: &LsTask, session: &str, filter: &str) -> bool {
    let task = &listed.task;
    let window = task.window.to_string();
    let texts = [
        Some(task.name.as_str()),
        Some(window.as_str()),
        Some(Group::of(listed).label()),
        task.owner.as_deref(),
        task.command.as_deref(),
        Some(session),
    ];
    let mut texts = texts.into_iter().flatten();
    filter.is_empty() || texts.any(|text| text.to_lowercase().contains(filter))
}

/// Returns the time since a task ended or, while it runs, since it started.
pub(super) fn age_of(listed: &LsTask, now: Millis) -> String {
    let since = listed.since();
    since.map_or_else(|| "-".to_owned(), |since| age(now.saturating_sub(since)))
}

/// Returns what a task asks, how it ended and when it is run again or why it cannot be, or the last line of its output.
pub(super) fn last_line(listed: &LsTask, now: Millis) -> String {
    let task = &listed.task;
    if let Some(prompt) = &listed.waiting_for {
        return prompt.trim().to_owned();
    }
    let last = task.last_line();
    let last = last.trim();
    if !matches!(Group::of(listed), Group::Failed | Group::Restarting) {
        return last.to_owned();
    }
    let end = match (task.run_end(), task.exit_hint()) {
        (_, Some(hint)) => hint.to_owned(),
        (RunEnd::Signal(signal), None) => signal.to_owned(),
        (RunEnd::Code(code), None) => format!("exit {code}"),
        (RunEnd::Unknown, None) => "exit code unknown".to_owned(),
    };
    if let Some(next) = listed.next_restart {
        format!("{end}, {}", ops::restart_words(next, now))
    } else if let Some(why) = &listed.cannot_restart {
        format!("{end}: {}", ops::cannot_restart_words(why))
    } else if last.is_empty() {
        end
    } else {
        format!("{end}: {last}")
    }
}

// What the tasks' processes use: when to read it, and what two readings say.

/// How often processor time and memory of the tasks that are shown are read, if none of them is new.
const SAMPLE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Usage {
    /// Percent of one processor, once it was measured twice.
    pub(super) cpu: Option<u64>,
    pub(super) memory: u64,
}

#[derive(Debug, Default)]
pub(super) struct LastSample {
    /// What was used, by pid.
    used: BTreeMap<u32, TreeUsage>,
    at: Option<Instant>,
}

impl LastSample {
    /// Whether it is time to read what these use: also if one of them was not in the last sample.
    pub(super) fn is_due(&self, pids: &[u32], now: Instant) -> bool {
        let is_old = |at| now.saturating_duration_since(at) >= SAMPLE;
        pids.iter().any(|pid| !self.used.contains_key(pid)) || self.at.is_some_and(is_old)
    }

    /// Takes what was read, and returns what is used, by pid.
    pub(super) fn take(
        &mut self,
        used: BTreeMap<u32, TreeUsage>,
        now: Instant,
    ) -> BTreeMap<u32, Usage> {
        let passed = now.saturating_duration_since(self.at.replace(now).unwrap_or(now));
        let passed = passed.as_millis().max(1);
        let before = mem::replace(&mut self.used, used);
        let usage = self.used.iter().map(|(pid, TreeUsage { cpu, memory })| {
            let cpu = before.get(pid).map(|before| {
                let used = cpu.saturating_sub(before.cpu).as_millis();
                u64::try_from(used * 100 / passed).unwrap_or(u64::MAX)
            });
            let memory = *memory;
            (*pid, Usage { cpu, memory })
        });
        usage.into_map()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::NextRestart;
    use crate::model::test_notation::task;

    #[test]
    fn the_last_line_of_a_failed_task_says_why_it_is_not_run_again() {
        let task = task("@1 a dead 7 : starting");
        let mut listed = LsTask::new(task, None);
        assert_eq!(last_line(&listed, 0), "exit 7: starting");
        let next = NextRestart {
            in_ms: 4000,
            at: 9000,
            number: 1,
            limit: 5,
        };
        let restarting = listed.clone().with_restart(Some(next), None);
        assert_eq!(Group::of(&restarting), Group::Restarting);
        let expected = "exit 7, restarts in 3 s, 1 of 5";
        assert_eq!(last_line(&restarting, 6000), expected);
        listed.cannot_restart = Some("its directory is gone".to_owned());
        let expected = "exit 7: cannot be restarted: its directory is gone";
        assert_eq!(last_line(&listed, 0), expected);
    }

    #[test]
    fn a_session_is_called_by_its_folder_unless_another_one_is_too() {
        let all = [
            ("task-shop-0a1b2c", None, "shop"),
            ("task-my-api-d3e4f5", None, "task-my-api-d3e4f5"),
            ("task-my-api-012345", None, "task-my-api-012345"),
            ("task-shop-0a1b2c", Some("other"), "shop@other"),
            ("task-force", None, "task-force"),
            ("work", None, "work"),
        ];
        let names = all.map(|(name, server, _)| SessionName {
            name: name.to_owned(),
            server: server.map(ToOwned::to_owned),
        });
        let labels = labels(&names.iter().collect::<Vec<_>>());
        assert_eq!(labels, all.map(|(_, _, label)| label));
    }
}

//! Everything observed of a session at one instant.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Difference, Error, GoneReason, Millis, PaneId, SessionId, Task, TtyEvidence, WindowId, text,
};

/// Everything observed of the task session at one instant, taken atomically.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The task session's name.
    pub session: String,
    /// Which life of the session this is; `None` where it is not known, as in a replay.
    pub life: Option<SessionLife>,
    /// Whether the session exists. A missing session has no tasks.
    pub exists: bool,
    /// When the look was taken.
    pub captured_at: Millis,
    /// The present run of every window.
    ///
    /// Shared, because most tasks do not change between looks.
    pub tasks: BTreeMap<WindowId, Arc<Task>>,
    /// Runs that ended since the previous look and are not their window's present run: a later run
    /// replaced them, or the window is gone. In the order in which they ended.
    pub ended: Vec<Task>,
    /// Why windows of the previous look are gone, where the reason is known.
    pub gone: BTreeMap<WindowId, GoneReason>,
    /// Who asked for that, where it was from another machine.
    pub asked_by: BTreeMap<WindowId, String>,
    /// By window, the pid of the run that our launcher ended.
    pub launcher_replaced: BTreeMap<WindowId, u32>,
    /// The kernel's evidence on the terminals of tasks whose screens have not changed for a while.
    pub terminals: BTreeMap<WindowId, Arc<TtyEvidence>>,
}

impl Snapshot {
    /// Returns the snapshot of a missing session.
    pub fn missing(session: impl Into<String>, captured_at: Millis) -> Self {
        Self {
            session: session.into(),
            captured_at,
            ..Self::default()
        }
    }

    /// Returns how much another look differs from this one.
    pub fn difference(&self, other: &Self) -> Difference {
        if self.facts() != other.facts() || self.tasks.len() != other.tasks.len() {
            return Difference::Otherwise;
        }
        let pairs = self.tasks.values().zip(other.tasks.values());
        let differences = pairs
            .filter(|(task, other)| !Arc::ptr_eq(task, other))
            .map(|(task, other)| task.difference(other));
        differences.max().unwrap_or(Difference::Cosmetic)
    }

    /// Returns what does not change all the time, besides the tasks.
    fn facts(&self) -> impl PartialEq + use<'_> {
        let Self {
            session,
            life,
            exists,
            captured_at: _,
            tasks: _,
            ended,
            gone,
            asked_by,
            launcher_replaced,
            terminals: _,
        } = self;
        let windows = (gone, asked_by, launcher_replaced);
        (session, life, exists, ended, windows)
    }

    /// Counts the tasks. `waiting` says which windows wait for input, `restarting` which of the tasks
    /// that have failed are about to be run again.
    pub fn counts(
        &self,
        waiting: impl Fn(WindowId) -> bool,
        restarting: impl Fn(&Task) -> bool,
    ) -> StatusCounts {
        let mut counts = StatusCounts {
            exists: self.exists,
            ..StatusCounts::default()
        };
        for task in self.tasks.values() {
            if let Some(exit) = task.exit() {
                counts.dead += 1;
                if restarting(task) {
                    counts.restarting += 1;
                } else {
                    counts.failed += usize::from(exit.code != Some(0));
                }
            } else if waiting(task.window) {
                counts.waiting += 1;
            } else {
                counts.running += 1;
            }
        }
        counts
    }
}

/// Distinguishes sessions of the same name that existed one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(
    rename = "SavedLife",
    description = "The life of the session that a snapshot belongs to."
)]
pub struct SessionLife {
    /// The pid of the tmux server.
    pub server_pid: u32,
    /// When the server started, in seconds since 1970.
    pub server_started: i64,
    /// The session's id.
    #[serde(rename = "sessionId")]
    #[schemars(with = "String")]
    pub id: SessionId,
    /// When the session was created, in seconds since 1970.
    #[serde(rename = "sessionCreated")]
    pub created: i64,
}

/// The number of tasks by state. Every task is in exactly one count, except that `failed`
/// and `restarting` ones are also `dead`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusCounts {
    /// Whether the session exists.
    pub exists: bool,
    /// Alive and not waiting.
    pub running: usize,
    /// Alive and waiting for input.
    pub waiting: usize,
    /// Ended.
    pub dead: usize,
    /// Ended in another way than with code 0. They are also `dead`.
    pub failed: usize,
    /// About to be run again because they failed. They are also `dead`, and not `failed`.
    pub restarting: usize,
}

impl StatusCounts {
    /// Returns the status line, `tmux: 3 tasks`; `None` when the session is missing.
    pub fn line(&self) -> Option<String> {
        let n = self.running + self.waiting + self.dead;
        self.exists
            .then(|| format!("tmux: {}", text::counted(n, "task")))
    }

    /// Returns the status line with what needs a look: `tmux: 3 tasks · 1 needs you · 2 failed`;
    /// `None` when the session is missing.
    pub fn line_with_details(&self) -> Option<String> {
        let parts = std::iter::once(self.line()?).chain(self.needs_a_look());
        Some(parts.collect::<Vec<_>>().join(BETWEEN_COUNTS))
    }

    /// Returns the counts in words, first what needs a person: `2 need you · 1 failed · 3 running`.
    /// Finished tasks are counted if there is nothing else. `None` without a task.
    pub fn summary(&self) -> Option<String> {
        let mut parts: Vec<String> = self.needs_a_look().collect();
        parts.extend(counted(self.running, "running"));
        if parts.is_empty() {
            parts.extend(counted(self.dead, "finished"));
        }
        (self.exists && !parts.is_empty()).then(|| parts.join(BETWEEN_COUNTS))
    }

    fn needs_a_look(&self) -> impl Iterator<Item = String> + use<> {
        let asking = match self.waiting {
            1 => "needs you",
            _ => "need you",
        };
        let counts = [
            (self.waiting, asking),
            (self.failed, "failed"),
            (self.restarting, "restarting"),
        ];
        counts.into_iter().filter_map(|(n, what)| counted(n, what))
    }
}

/// What separates two counts.
const BETWEEN_COUNTS: &str = " · ";

fn counted(n: usize, what: &str) -> Option<String> {
    (n > 0).then(|| format!("{n} {what}"))
}

/// State that a snapshot does not contain and the next daemon needs, so that it reports nothing
/// twice and numbers no two runs of a name alike.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Bookmark {
    /// The number of the last death in tmux's death record that a snapshot accounts for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deaths_read: Option<u64>,
    /// When each window's task was last launched, as the launcher noted it on the window. A note
    /// that has not changed does not belong to a later run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub launched_at: BTreeMap<WindowId, Millis>,
    /// The last numbers of runs.
    pub run_numbers: RunNumbers,
    /// Up to where the output of each run with `--notify-on` was searched and reported: a cursor.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub searched: BTreeMap<WindowId, String>,
    /// The names to which the numbers of present runs belong, where their windows have been renamed
    /// since.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub run_names: BTreeMap<WindowId, String>,
    /// Where the runs are whose pane is not their window's primary one any more.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub runs_away: BTreeMap<WindowId, RunAway>,
}

/// A run whose pane was moved: another pane is the primary one of its window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunAway {
    /// Its pane.
    pub pane: PaneId,
    /// The process in it.
    pub pid: Option<u32>,
}

/// How many names are remembered. More names than runs are stored need not be.
const MOST_NAMES: usize = 1000;

/// The last number that the runs of each name have had. The next run of a name gets a higher one,
/// whatever its window, so that name and number identify a run as long as its output is stored. The one
/// that was noted last is the last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(String, u32)>")]
pub struct RunNumbers(Arc<Vec<(String, u32)>>);

impl RunNumbers {
    /// Returns the last number of a name; 0 if it has had no run.
    pub fn last(&self, name: &str) -> u32 {
        let known = self.0.iter().rfind(|(known, _)| known == name);
        known.map_or(0, |(_, run)| *run)
    }

    /// Notes that a run of this name has had this number. The name that was noted longest ago is
    /// forgotten if there are too many.
    pub fn note(&mut self, name: &str, run: u32) {
        let run = run.max(self.last(name));
        let is_last = |last: &(String, u32)| last.0 == name && last.1 == run;
        if self.0.last().is_some_and(is_last) {
            return;
        }
        let numbers = Arc::make_mut(&mut self.0);
        numbers.retain(|(known, _)| known != name);
        numbers.push((name.to_owned(), run));
        let excess = numbers.len().saturating_sub(MOST_NAMES);
        numbers.drain(..excess);
    }
}

impl From<Vec<(String, u32)>> for RunNumbers {
    fn from(numbers: Vec<(String, u32)>) -> Self {
        numbers.into_iter().collect()
    }
}

impl<N: AsRef<str>> FromIterator<(N, u32)> for RunNumbers {
    fn from_iter<I: IntoIterator<Item = (N, u32)>>(runs: I) -> Self {
        let mut numbers = Self::default();
        for (name, run) in runs {
            numbers.note(name.as_ref(), run);
        }
        numbers
    }
}

/// Collects into ordered maps and sets, item by item.
///
/// `collect` sorts all items first. The code of a sort is five kilobytes for each type of items,
/// and what is collected here is small.
pub(crate) trait Ordered: Iterator + Sized {
    /// Returns a map of the pairs. Of those with the same key the last one remains.
    fn into_map<K: Ord, V>(self) -> BTreeMap<K, V>
    where
        Self: Iterator<Item = (K, V)>,
    {
        let mut map = BTreeMap::new();
        map.extend(self);
        map
    }

    /// Returns a set of the items.
    fn into_set(self) -> BTreeSet<Self::Item>
    where
        Self::Item: Ord,
    {
        let mut set = BTreeSet::new();
        set.extend(self);
        set
    }
}

impl<I: Iterator> Ordered for I {}

impl Snapshot {
    /// Returns the one task of this name or window id.
    pub fn find_task(&self, name: &str) -> Result<&Arc<Task>, Error> {
        let missing = || {
            let session = &self.session;
            Error::missing(format!("no task `{name}` in session `{session}`"))
                .with_hint("`tmux-task ls` lists them")
        };
        // An id never means a window that has it as its name: that of a window that is gone would.
        if let Ok(id) = name.parse::<WindowId>() {
            return self.tasks.get(&id).ok_or_else(missing);
        }
        let named = || self.tasks.values().filter(|task| task.name == name);
        // A name means a task: tmux names a user's window after what runs in it, and a user can link
        // one of another session.
        let rank = |task: &Task| (task.shell, task.is_named_by_tmux, task.is_linked);
        let first = named().map(|task| rank(task)).min();
        let is_meant = |task: &&Arc<Task>| Some(rank(task)) == first;
        let meant: Vec<&Arc<Task>> = named().filter(is_meant).collect();
        match meant.as_slice() {
            [] => Err(missing()),
            [task] => Ok(task),
            several => {
                let ids: Vec<String> = several.iter().map(|task| task.window.to_string()).collect();
                let (n, ids) = (ids.len(), ids.join(", "));
                Err(
                    Error::failed(format!("{n} tasks are named `{name}`: {ids}"))
                        .with_hint("name one by its id"),
                )
            }
        }
    }

    /// Returns the one task of this name or window id, to end it: a name does not mean a shell, or a
    /// window that tmux has named or that is another session's, which are a person's. The task of that
    /// name may be gone, and such a window remain.
    pub fn find_task_to_end(&self, name: &str) -> Result<&Arc<Task>, Error> {
        let task = self.find_task(name)?;
        let window = task.window;
        if name.parse() == Ok(window) {
            return Ok(task);
        }
        let what = match (task.shell, task.is_named_by_tmux, task.is_linked) {
            (true, _, _) => "is a shell, not a task",
            (false, true, _) => "was named by tmux and is not a task",
            (false, false, true) => "is a window of another session, not a task",
            (false, false, false) => return Ok(task),
        };
        Err(Error::failed(format!("`{name}` ({window}) {what}"))
            .with_hint(format!("`tmux-task kill {window}` ends it by its id")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{rows, snapshot};

    #[test]
    fn looks_differ_in_passing_or_in_bells_or_otherwise() {
        let look = snapshot("@1 a running");
        let missing = Snapshot::missing("S", 1);
        assert_eq!(look.difference(&missing), Difference::Otherwise);
        for (other, expected) in [
            ("@1 a running : printed", Difference::Cosmetic),
            ("@1 a running bells=1 : printed", Difference::InBells),
            ("@1#7 a running bells=1 : printed", Difference::Otherwise),
        ] {
            let other = Snapshot {
                captured_at: 2,
                ..snapshot(other)
            };
            assert_eq!(look.difference(&other), expected, "{other:?}");
        }
    }

    #[test]
    fn counts_say_what_needs_a_look_and_the_summary_starts_with_what_needs_a_person() {
        // How many wait, failed, restart, have finished, and run.
        for [counts, line, details, summary] in rows(
            "0 0 0 0 1 | tmux: 1 task | tmux: 1 task | 1 running
             0 0 0 4 3 | tmux: 7 tasks | tmux: 7 tasks | 3 running
             1 2 0 4 3 | tmux: 10 tasks | tmux: 10 tasks · 1 needs you · 2 failed
               | 1 needs you · 2 failed · 3 running
             2 1 0 4 3 | tmux: 10 tasks | tmux: 10 tasks · 2 need you · 1 failed
               | 2 need you · 1 failed · 3 running
             0 0 1 4 3 | tmux: 8 tasks | tmux: 8 tasks · 1 restarting | 1 restarting · 3 running
             1 0 0 0 0 | tmux: 1 task | tmux: 1 task · 1 needs you | 1 needs you
             0 2 0 7 0 | tmux: 9 tasks | tmux: 9 tasks · 2 failed | 2 failed
             0 0 0 7 0 | tmux: 7 tasks | tmux: 7 tasks | 7 finished",
        ) {
            let numbers: Vec<_> = counts.split(' ').map(|n| n.parse().unwrap()).collect();
            let &[waiting, failed, restarting, finished, running] = &numbers[..] else {
                panic!("{counts}");
            };
            let found = StatusCounts {
                exists: true,
                running,
                waiting,
                dead: failed + restarting + finished,
                failed,
                restarting,
            };
            let shown = [found.line(), found.line_with_details(), found.summary()];
            assert_eq!(shown, [line, details, summary].map(Some), "{counts}");
            let gone = StatusCounts {
                exists: false,
                ..found
            };
            assert_eq!((gone.line(), gone.line_with_details()), (None, None));
        }
        let none = StatusCounts {
            exists: true,
            ..StatusCounts::default()
        };
        assert_eq!(
            [none, StatusCounts::default()].map(|counts| counts.summary()),
            [None, None]
        );
    }

    #[test]
    fn tasks_that_did_not_end_with_code_0_have_failed() {
        let look = snapshot(
            "@1 a dead 0; @2 b dead 2; @3 c dead SIGKILL; @4 d dead ?; @5 e running; @6 f unknown",
        );
        let restarting = |task: &Task| task.window == WindowId(3);
        let counts = look.counts(|window| window == WindowId(6), restarting);
        assert_eq!((counts.dead, counts.failed, counts.restarting), (4, 2, 1));
        assert_eq!((counts.running, counts.waiting), (1, 1));
    }

    #[test]
    fn the_highest_number_of_a_name_counts() {
        let mut numbers: RunNumbers = [("api", 2), ("web", 1), ("api", 1)].into_iter().collect();
        let last = |numbers: &RunNumbers| ["api", "web", "ap"].map(|name| numbers.last(name));
        assert_eq!(last(&numbers), [2, 1, 0]);
        numbers.note("web", 7);
        assert_eq!(last(&numbers), [2, 7, 0]);
    }

    #[test]
    fn the_name_noted_longest_ago_is_forgotten_first() {
        let mut numbers = RunNumbers::default();
        for n in 0..MOST_NAMES {
            numbers.note(&n.to_string(), 3);
        }
        numbers.note("0", 4);
        numbers.note("new", 1);
        assert_eq!(numbers.0.len(), MOST_NAMES);
        let last = ["0", "1", "2", "new"].map(|name| numbers.last(name));
        assert_eq!(last, [4, 0, 3, 1]);
    }

    /// Looks for a name among these tasks, and for one to end; `ended` is empty where it is the same.
    #[track_caller]
    fn check(look: &Snapshot, table: &str) {
        for [name, expected, ended] in rows(table) {
            let shown = |found: Result<&Arc<Task>, Error>| match found {
                Ok(task) => task.window.to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown(look.find_task(&name)), expected, "{name}");
            let ended = if ended.is_empty() { expected } else { ended };
            assert_eq!(shown(look.find_task_to_end(&name)), ended, "{name}");
        }
    }

    #[test]
    fn a_task_is_found_by_its_name_or_id_and_what_is_no_task_is_ended_only_by_its_id() {
        let mut look = snapshot(
            "@1 api running; @2 web running; @3 @1 running; @4 @99 running;
             @5 node running shell; @6 node running; @7 vim running shell;
             @8 a running; @9 a running; @10 a running shell;
             @11 b running; @12 b running; @13 c running; @14 c running shell;
             @15 top running; @16 tests running",
        );
        for window in [11, 13, 15] {
            let task = look.tasks.get_mut(&WindowId(window)).unwrap();
            Arc::make_mut(task).is_named_by_tmux = true;
        }
        Arc::make_mut(look.tasks.get_mut(&WindowId(16)).unwrap()).is_linked = true;
        // A name means a task before a shell, and one that somebody gave before one that tmux gave.
        check(
            &look,
            "web | @2 |
             @2 | @2 |
             @1 | @1 |
             we | no task `we` in session `work` |
             @99 | no task `@99` in session `work` |
             node | @6 |
             @5 | @5 |
             vim | @7 | `vim` (@7) is a shell, not a task
             @7 | @7 |
             a | 2 tasks are named `a`: @8, @9 |
             b | @12 |
             c | @13 | `c` (@13) was named by tmux and is not a task
             top | @15 | `top` (@15) was named by tmux and is not a task
             @15 | @15 |
             tests | @16 | `tests` (@16) is a window of another session, not a task
             @16 | @16 | ",
        );
    }
}

//! The tasks as the panel orders them: what needs the user is on top.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::model::{Millis, age};
use crate::wire::{LsTask, TaskStateName};

/// What a task is to the user, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// It waits for an answer.
    Ask,
    /// It ended with another code than 0, or by a signal.
    Failed,
    /// It runs, has been silent for long, and nothing says whether it waits.
    Stalled,
    /// It ended with code 0.
    Done,
    /// It runs.
    Running,
}

impl Group {
    pub(super) const ALL: [Self; 5] = [
        Self::Ask,
        Self::Failed,
        Self::Stalled,
        Self::Done,
        Self::Running,
    ];

    pub(super) fn of(listed: &LsTask) -> Self {
        match listed.state {
            TaskStateName::Waiting => Self::Ask,
            TaskStateName::Killed => Self::Failed,
            TaskStateName::Exited if listed.task.exit_code == Some(0) => Self::Done,
            TaskStateName::Exited => Self::Failed,
            TaskStateName::Stalled => Self::Stalled,
            TaskStateName::Running => Self::Running,
        }
    }

    /// The word in front of its tasks.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Ask => "ASK",
            Self::Failed => "FAILED",
            Self::Stalled => "STALLED",
            Self::Done => "DONE",
            Self::Running => "RUNNING",
        }
    }

    /// The same for narrow terminals.
    pub(super) fn short_label(self) -> &'static str {
        match self {
            Self::Ask => "ASK",
            Self::Failed => "FAIL",
            Self::Stalled => "STAL",
            Self::Done => "DONE",
            Self::Running => "RUN",
        }
    }

    /// The word after a number of its tasks.
    pub(super) fn counted(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Failed => "failed",
            Self::Stalled => "stalled",
            Self::Done => "done",
            Self::Running => "running",
        }
    }
}

/// The tasks of the session.
#[derive(Debug, Clone, Default)]
pub(super) struct Board {
    /// Whether the session exists.
    pub(super) exists: bool,
    /// By window id.
    tasks: BTreeMap<String, LsTask>,
}

impl Board {
    /// Takes a record of the daemon. `is_complete` says that there are no tasks but these.
    pub(super) fn update(
        &mut self,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: &[String],
    ) {
        self.exists = exists;
        if is_complete {
            self.tasks.clear();
        }
        for window in removed {
            self.tasks.remove(window);
        }
        let tasks = tasks.into_iter();
        self.tasks
            .extend(tasks.map(|task| (task.task.window_id.clone(), task)));
    }

    pub(super) fn get(&self, window: &str) -> Option<&LsTask> {
        self.tasks.get(window)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns how many tasks are in a group.
    pub(super) fn count(&self, group: Group) -> usize {
        let tasks = self.tasks.values();
        tasks.filter(|task| Group::of(task) == group).count()
    }

    /// Returns how many tasks have ended.
    pub(super) fn n_ended(&self) -> usize {
        self.tasks.values().filter(|task| task.task.dead).count()
    }

    /// Returns the windows of the tasks that match a filter, in the order in which they are shown:
    /// by group, those that have ended with the latest end first, others by window.
    pub(super) fn ordered(&self, filter: &str) -> Vec<String> {
        let filter = filter.to_lowercase();
        let mut tasks: Vec<&LsTask> = self
            .tasks
            .values()
            .filter(|task| matches(task, &filter))
            .collect();
        tasks.sort_by_cached_key(|listed| {
            let task = &listed.task;
            let ended_at = task.ended_at.filter(|_| task.dead);
            let number: Option<u64> = task.window_id.get(1..).and_then(|id| id.parse().ok());
            (Group::of(listed), Reverse(ended_at), number)
        });
        let windows = tasks.into_iter().map(|task| task.task.window_id.clone());
        windows.collect()
    }
}

/// Whether a task's name, window, state, owner or command contains this, in lower case.
fn matches(listed: &LsTask, filter: &str) -> bool {
    let task = &listed.task;
    let texts = [
        Some(task.window_name.as_str()),
        Some(task.window_id.as_str()),
        Some(Group::of(listed).label()),
        task.owner.as_deref(),
        task.current_command.as_deref(),
    ];
    let mut texts = texts.into_iter().flatten();
    filter.is_empty() || texts.any(|text| text.to_lowercase().contains(filter))
}

/// Returns the time since a task ended or, while it runs, since it started.
pub(super) fn age_of(listed: &LsTask, now: Millis) -> String {
    let task = &listed.task;
    let since = task.ended_at.filter(|_| task.dead).or(task.started_at);
    since.map_or_else(|| "-".to_owned(), |since| age(now.saturating_sub(since)))
}

/// Returns what a task asks, how it ended, or the last line of its output.
pub(super) fn last_line(listed: &LsTask) -> String {
    let task = &listed.task;
    if let Some(prompt) = &listed.waiting_for {
        return prompt.trim().to_owned();
    }
    let lines = task.output_preview.lines().rev();
    let last = lines.map(str::trim).find(|line| !line.is_empty());
    let last = last.unwrap_or_default();
    let end = match (&task.exit_signal, task.exit_code) {
        _ if Group::of(listed) != Group::Failed => return last.to_owned(),
        (Some(signal), _) => signal.clone(),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => "exit code unknown".to_owned(),
    };
    if last.is_empty() {
        end
    } else {
        format!("{end}: {last}")
    }
}

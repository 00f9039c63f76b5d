//! What the user has asked to be alerted of.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{Event, EventKind, ShellDelivery, Task};
use crate::restarts::restart_of;

/// A kind of event that can be displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AlertEvent {
    /// A run began.
    Started,
    /// A run ended with code 0.
    Exited,
    /// The bell rang.
    Notify,
    /// It printed a line that its launch asked to be notified of.
    Output,
    /// The window of a running task is gone, and nobody ended the task with our commands.
    Disappeared,
    /// A run ended with another code, by a signal, or in an unknown way.
    Failed,
    /// A task waits for input.
    Input,
    /// A notice that is not about events: the outcome of a command, ended sessions.
    Other,
}

impl AlertEvent {
    /// Every kind, with the word for it.
    pub(crate) const NAMES: [(&str, Self); 8] = [
        ("failed", Self::Failed),
        ("input", Self::Input),
        ("notify", Self::Notify),
        ("output", Self::Output),
        ("disappeared", Self::Disappeared),
        ("exited", Self::Exited),
        ("started", Self::Started),
        ("other", Self::Other),
    ];

    /// What is displayed unless the user asks for something else.
    pub(crate) const DEFAULT: [Self; 5] = [
        Self::Failed,
        Self::Input,
        Self::Notify,
        Self::Output,
        Self::Disappeared,
    ];

    /// Returns the kind of an event; `None` if it needs no display: the user or an agent has caused
    /// it on purpose, or it is the end of a shell.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let is_of_shell = event.task.shell;
        match &event.kind {
            EventKind::Started { .. } => Some(Self::Started),
            EventKind::Notify { .. } => Some(Self::Notify),
            EventKind::Output(_) => Some(Self::Output),
            EventKind::Input { .. } => Some(Self::Input),
            // It is run again by itself.
            EventKind::Exited { replaced: None } if restart_of(&event.task).is_some() => None,
            EventKind::Exited { replaced: None } if !is_of_shell => {
                Some(if has_succeeded(&event.task) {
                    Self::Exited
                } else {
                    Self::Failed
                })
            }
            EventKind::Disappeared { reason: None } if !is_of_shell => Some(Self::Disappeared),
            EventKind::Exited { .. }
            | EventKind::Disappeared { .. }
            | EventKind::InputResolved { .. } => None,
        }
    }
}

fn has_succeeded(task: &Task) -> bool {
    task.exit().and_then(|exit| exit.code) == Some(0)
}

/// Where notices are displayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// On the desktop of this machine.
    Desktop,
    /// By each attached terminal, where it runs.
    Terminal,
    /// On tmux's status line.
    Tmux,
}

impl Place {
    /// Every place, with the word for it.
    pub(crate) const NAMES: [(&str, Self); 3] = [
        ("desktop", Self::Desktop),
        ("terminal", Self::Terminal),
        ("tmux", Self::Tmux),
    ];
}

/// What is displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertRules {
    /// The kinds of events.
    pub(crate) events: BTreeSet<AlertEvent>,
    /// Other kinds of events for these tasks, by name or window id.
    pub(crate) tasks: BTreeMap<String, BTreeSet<AlertEvent>>,
    /// How the events of shells are delivered.
    pub(crate) shells: ShellDelivery,
}

impl AlertRules {
    pub(super) fn wants(&self, task: &Task, event: AlertEvent) -> bool {
        if task.shell && self.shells == ShellDelivery::Ignore {
            return false;
        }
        let of_task = self
            .tasks
            .get(&task.window.to_string())
            .or_else(|| self.tasks.get(&task.name));
        of_task.unwrap_or(&self.events).contains(&event)
    }
}

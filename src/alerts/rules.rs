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
    pub(crate) const NAMES: [(&str, Self); 7] = [
        ("failed", Self::Failed),
        ("input", Self::Input),
        ("notify", Self::Notify),
        ("disappeared", Self::Disappeared),
        ("exited", Self::Exited),
        ("started", Self::Started),
        ("other", Self::Other),
    ];

    /// What is displayed unless the user asks for something else.
    pub(crate) const DEFAULT: [Self; 4] =
        [Self::Failed, Self::Input, Self::Notify, Self::Disappeared];

    /// Returns the kind of an event; `None` if it needs no display: the user or an agent has caused
    /// it on purpose, or it is the end of a shell.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let is_of_shell = event.task.shell;
        match &event.kind {
            EventKind::Started { .. } => Some(Self::Started),
            EventKind::Notify { .. } => Some(Self::Notify),
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

/// What one display shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AlertRules {
    /// The kinds of events. Empty turns the display off.
    pub(crate) events: BTreeSet<AlertEvent>,
    /// Other kinds of events for these tasks, by name or window id.
    pub(crate) tasks: BTreeMap<String, BTreeSet<AlertEvent>>,
    /// When nothing is displayed.
    pub(crate) quiet_hours: Option<QuietHours>,
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

/// A part of each day, in minutes since midnight of local time: from the first one to before the
/// second one, across midnight if the second one is not later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuietHours {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl QuietHours {
    /// Reads `22:00-07:30`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let (from, to) = (minute(from.trim())?, minute(to.trim())?);
        (from != to).then_some(Self { from, to })
    }

    pub(super) fn contains(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Reads `07:30` as minutes.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let is_number = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_number(hour, &[1, 2]) || !is_number(minute, &[2]) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_may_cross_midnight() {
        let quiet = |text, minute| QuietHours::parse(text).unwrap().contains(minute);
        assert!(quiet("9:00-10:30", 9 * 60));
        assert!(!quiet("9:00-10:30", 10 * 60 + 30));
        assert!(!quiet("9:00-10:30", 0));
        assert!(quiet("22:00-07:00", 23 * 60));
        assert!(quiet("22:00 - 07:00", 6 * 60 + 59));
        assert!(!quiet("22:00-07:00", 7 * 60));
        for bad in [
            "",
            "22-7",
            "22:00",
            "24:00-07:00",
            "22:60-07:00",
            "8:00-8:00",
            "+8:00-9:00",
            "8:0-9:00",
        ] {
            assert_eq!(QuietHours::parse(bad), None, "{bad}");
        }
    }
}

//! Decides what is displayed to the user, on the desktop, by terminals and on tmux's status line: which
//! events, when, with which count, and in which words. The feed's notices and follow-ups do not depend on
//! it.
//!
//! The events of a task are gathered for a moment and make one alert. A task has at most one alert
//! in [`PAUSE`]; what happens meanwhile is counted in the next one.

mod wording;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(crate) use wording::{AlertEvent, AlertRules, AlertText, Place, TerminalSequence};

use crate::model::{Event, EventKind, Level, WindowId};

/// How long the events of a task are gathered, so that a bell and the exit after it are one alert.
const GATHER: Duration = Duration::from_millis(250);

/// The minimum time between two alerts of a task.
const PAUSE: Duration = Duration::from_secs(5);

/// How many tasks have an alert of their own at once; the last one summarises the others.
const MOST_AT_ONCE: usize = 5;

/// What an alert is about. A later alert about the same replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AlertSubject {
    Task(WindowId),
    Many,
    /// Neither. It replaces nothing and is not replaced.
    Notice,
}

/// Something to display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Alert {
    /// What it is about.
    pub(crate) subject: AlertSubject,
    pub(crate) level: Level,
    pub(crate) text: AlertText,
}

/// A change of what is displayed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AlertAction {
    Show(Alert),
    /// The task no longer asks: take its question away.
    Withdraw(WindowId),
}

/// The alerts that are displayed, and what is about to be.
#[derive(Debug)]
pub(crate) struct Alerts {
    pub(crate) rules: AlertRules,
    tasks: BTreeMap<WindowId, TaskAlerts>,
    /// What waits for nothing: notices without events, and displayed questions that are answered.
    ready: Vec<AlertAction>,
}

/// The alerts of one task. It is removed when nothing is pending and its pause is over.
#[derive(Debug, Default)]
struct TaskAlerts {
    pending: Vec<PendingAlert>,
    /// When the first of `pending` came.
    since: Option<Instant>,
    shown_at: Option<Instant>,
    /// Whether the last alert asks for input that was not given yet.
    is_asking: bool,
}

#[derive(Debug)]
struct PendingAlert {
    kind: AlertEvent,
    n: u64,
    event: Event,
}

impl Alerts {
    pub(crate) fn new(rules: AlertRules) -> Self {
        Self {
            rules,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
        }
    }

    pub(crate) fn add(&mut self, event: &Event, now: Instant) {
        let window = event.task.window;
        if let EventKind::InputResolved { .. } = event.kind {
            self.resolve(window);
            return;
        }
        let Some(kind) = AlertEvent::of(event) else {
            return;
        };
        if self.rules.wants(&event.task, kind) {
            let task = self.tasks.entry(window).or_default();
            task.since.get_or_insert(now);
            task.add(kind, event);
        }
    }

    pub(crate) fn add_notice(&mut self, level: Level, text: &str) {
        if self.rules.events.contains(&AlertEvent::Other) {
            let (subject, text) = (AlertSubject::Notice, wording::quote(text));
            self.ready.push(AlertAction::Show(Alert {
                subject,
                level,
                text,
            }));
        }
    }

    fn resolve(&mut self, window: WindowId) {
        let Some(task) = self.tasks.get_mut(&window) else {
            return;
        };
        task.pending
            .retain(|pending| pending.kind != AlertEvent::Input);
        if task.pending.is_empty() {
            task.since = None;
        }
        if std::mem::take(&mut task.is_asking) {
            self.ready.push(AlertAction::Withdraw(window));
        }
    }

    /// Returns when an alert of a task is due, if one is pending. Everything else is due at once.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.tasks.values().filter_map(TaskAlerts::due).min()
    }

    /// Returns what is due; `session` is the name of the task session.
    pub(crate) fn take_due(&mut self, now: Instant, session: &str) -> Vec<AlertAction> {
        let mut actions = std::mem::take(&mut self.ready);
        let mut due = Vec::new();
        for (window, task) in &mut self.tasks {
            if task.due().is_none_or(|due| due > now) {
                continue;
            }
            task.since = None;
            let pending = std::mem::take(&mut task.pending);
            if let Some((kind, alert)) = of_task(*window, &pending, session) {
                task.shown_at = Some(now);
                task.is_asking = kind == AlertEvent::Input;
                due.push((kind, alert));
            }
        }
        self.tasks.retain(|_, task| !task.is_idle(now));
        actions.extend(bounded(due, session));
        actions
    }
}

impl TaskAlerts {
    fn add(&mut self, kind: AlertEvent, event: &Event) {
        let n = match event.kind {
            EventKind::Notify { bells } => bells.max(1),
            EventKind::Output(ref found) => found.matches.max(1),
            EventKind::InputResolved { .. }
            | EventKind::Started { .. }
            | EventKind::Exited { .. }
            | EventKind::Input { .. }
            | EventKind::Disappeared { .. } => 1,
        };
        // One entry per kind: the latest event, and how often it happened.
        let before = self.pending.iter().position(|known| known.kind == kind);
        let n_before = before.map_or(0, |at| self.pending.remove(at).n);
        self.pending.push(PendingAlert {
            kind,
            n: n + n_before,
            event: event.clone(),
        });
    }

    fn due(&self) -> Option<Instant> {
        let gathered = self.since? + GATHER;
        let paused = self.shown_at.map(|at| at + PAUSE);
        Some(paused.map_or(gathered, |paused| paused.max(gathered)))
    }

    fn is_idle(&self, now: Instant) -> bool {
        let is_paused = self.shown_at.is_some_and(|at| at + PAUSE > now);
        self.pending.is_empty() && !is_paused && !self.is_asking
    }
}

fn of_task(
    window: WindowId,
    pending: &[PendingAlert],
    session: &str,
) -> Option<(AlertEvent, Alert)> {
    let main = pending.iter().max_by_key(|pending| pending.kind)?;
    let others = pending.iter();
    let others = others.filter(|other| ![main.kind, AlertEvent::Started].contains(&other.kind));
    let also: Vec<_> = others.map(|other| (other.kind, other.n)).collect();
    let text = wording::describe(&main.event, main.kind, main.n, &also, session);
    let level = pending.iter().map(|pending| pending.event.level()).max()?;
    let subject = AlertSubject::Task(window);
    Some((
        main.kind,
        Alert {
            subject,
            level,
            text,
        },
    ))
}

/// Returns the most urgent alerts one by one and the others as one.
fn bounded(mut due: Vec<(AlertEvent, Alert)>, session: &str) -> Vec<AlertAction> {
    let mut rest = Vec::new();
    if due.len() > MOST_AT_ONCE {
        due.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
        rest = due.split_off(MOST_AT_ONCE - 1);
    }
    let alerts = due.into_iter().map(|(_, alert)| AlertAction::Show(alert));
    let mut actions: Vec<AlertAction> = alerts.collect();
    let level = rest.iter().map(|(_, alert)| alert.level).max();
    if let Some(level) = level {
        let counts = rest.chunk_by(|(one, _), (other, _)| one == other);
        let counts: Vec<_> = counts.map(|same| (same[0].0, same.len())).collect();
        let text = wording::summarise(&counts, session);
        let subject = AlertSubject::Many;
        actions.push(AlertAction::Show(Alert {
            subject,
            level,
            text,
        }));
    }
    actions
}

#[cfg(test)]
mod tests;

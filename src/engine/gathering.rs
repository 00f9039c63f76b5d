//! Events on their way to a delivery, and what becomes of them.

use std::time::Instant;

use crate::model::{
    Body, DeliveredEvent, Delivery, Event, EventKind, Seq, ShellDelivery, WindowId,
};
use crate::prompt::UserRules;
use crate::route::{Reach, reach, route};

/// What somebody has been told of a run by a command that waited for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// Whose command it was; `None` for a person at a terminal.
    pub owner: Option<String>,
    /// The task's window.
    pub window: WindowId,
    /// The run.
    pub run: Option<u32>,
    /// What the command returned with.
    pub what: Sighted,
}

/// What a command that waited returned with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sighted {
    /// The end of the run, and with that all that came of it before.
    End,
    /// A question.
    Input,
    /// A bell.
    Bell,
    /// That the window has gone.
    Disappearance,
}

impl Sighting {
    /// Whether it was this event that was seen, by the one whom it concerns.
    fn is_of(&self, event: &Event) -> bool {
        let task = &event.task;
        let is_what = match (&event.kind, self.what) {
            (
                EventKind::Exited { .. } | EventKind::Notify { .. } | EventKind::Input { .. },
                Sighted::End,
            )
            | (EventKind::Input { .. }, Sighted::Input)
            | (EventKind::Notify { .. }, Sighted::Bell)
            | (EventKind::Disappeared { .. }, Sighted::Disappearance) => true,
            (
                EventKind::Started { .. }
                | EventKind::InputResolved { .. }
                | EventKind::Exited { .. }
                | EventKind::Notify { .. }
                | EventKind::Input { .. }
                | EventKind::Disappeared { .. },
                Sighted::End | Sighted::Input | Sighted::Bell | Sighted::Disappearance,
            ) => false,
        };
        is_what && (task.window, task.run, &task.owner) == (self.window, self.run, &self.owner)
    }
}

/// A command that is about to wait for the run that it starts, and to return with what comes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedWait {
    /// The task's name.
    pub task: String,
    /// Whose command it is; `None` for a person at a terminal.
    pub owner: Option<String>,
    /// When it is given up.
    pub until: Instant,
}

/// Events that are delivered together. Bounded by what happens within the gathering time.
#[derive(Debug)]
pub(super) struct Gathering {
    /// When they are delivered.
    pub(super) due: Instant,
    /// Whether it takes no more events: it is due, and waits for the disk.
    pub(super) is_closed: bool,
    events: Vec<Gathered>,
}

/// An event that waits for its delivery.
#[derive(Debug)]
struct Gathered {
    delivered: DeliveredEvent,
    /// Whether its owner has been told of it already.
    is_seen: bool,
}

/// Whom a delivery is for.
#[derive(Debug, PartialEq, Eq)]
struct Audience {
    owner: Option<String>,
    /// Whether it speaks of shells only, which are no agent's business.
    of_shells: bool,
}

impl Gathering {
    pub(super) fn new(due: Instant, owed: Vec<DeliveredEvent>) -> Self {
        let mut gathering = Self {
            due,
            is_closed: false,
            events: Vec::new(),
        };
        for delivered in owed {
            gathering.add(delivered);
        }
        gathering
    }

    pub(super) fn add(&mut self, delivered: DeliveredEvent) {
        self.events.push(Gathered {
            delivered,
            is_seen: false,
        });
    }

    /// Returns the number of its first event.
    pub(super) fn first_seq(&self) -> Option<Seq> {
        self.events.first().map(|gathered| gathered.delivered.seq)
    }

    /// Returns the number of its last event; 0 for none.
    pub(super) fn last_seq(&self) -> Seq {
        self.events
            .last()
            .map_or(0, |gathered| gathered.delivered.seq)
    }

    /// Takes note that a command has told its caller of a run.
    pub(super) fn see(&mut self, sighting: &Sighting) {
        for gathered in &mut self.events {
            gathered.is_seen |= sighting.is_of(&gathered.delivered.event);
        }
    }

    /// Whether some of it may be what that command returns with.
    pub(super) fn concerns(&self, expected: &ExpectedWait) -> bool {
        let mut tasks = self
            .events
            .iter()
            .map(|gathered| &gathered.delivered.event.task);
        tasks.any(|task| task.name == expected.task && task.owner == expected.owner)
    }

    /// Leaves out the question of this window: it was answered before anybody was told of it.
    pub(super) fn resolve(&mut self, window: WindowId) {
        self.events.retain(|gathered| {
            let event = &gathered.delivered.event;
            !(matches!(event.kind, EventKind::Input { .. }) && event.task.window == window)
        });
    }

    /// Returns the records of the deliveries, one for each audience, in the order of their first
    /// events.
    pub(super) fn deliver(self, teaching: &UserRules, shells: ShellDelivery) -> Vec<Body> {
        let mut groups: Vec<(Audience, Vec<Gathered>)> = Vec::new();
        for gathered in self.events {
            let event = &gathered.delivered.event;
            if is_muted(event, teaching) || (event.task.shell && shells == ShellDelivery::Ignore) {
                continue;
            }
            let audience = Audience {
                owner: event.task.owner.clone(),
                of_shells: event.task.shell && shells == ShellDelivery::Notice,
            };
            match groups.iter_mut().find(|(known, _)| *known == audience) {
                Some((_, group)) => group.push(gathered),
                None => groups.push((audience, vec![gathered])),
            }
        }
        let bodies = groups
            .into_iter()
            .filter_map(|(audience, group)| deliver_to(audience, group));
        bodies.collect()
    }
}

fn deliver_to(audience: Audience, group: Vec<Gathered>) -> Option<Body> {
    let routed: Vec<(&Event, Reach)> = group
        .iter()
        .map(|gathered| {
            let event = &gathered.delivered.event;
            let most = if gathered.is_seen || audience.of_shells {
                Reach::Notice
            } else {
                Reach::FollowUp
            };
            (event, reach(event).min(most))
        })
        .collect();
    let owner = audience.owner;
    match route(&routed)? {
        Delivery::Notice { level, text } => {
            let events: Vec<Seq> = group
                .iter()
                .map(|gathered| gathered.delivered.seq)
                .collect();
            Some(Body::Notice {
                level,
                text,
                events,
                owner,
            })
        }
        Delivery::FollowUp { level, content } => Some(Body::FollowUp {
            level,
            content,
            events: group
                .into_iter()
                .map(|gathered| gathered.delivered)
                .collect(),
            owner,
        }),
    }
}

/// Whether a user has muted it, if only meanwhile.
fn is_muted(event: &Event, teaching: &UserRules) -> bool {
    match &event.kind {
        EventKind::Input { prompt } => teaching.mutes(&event.task, prompt),
        EventKind::InputResolved { .. }
        | EventKind::Started { .. }
        | EventKind::Notify { .. }
        | EventKind::Exited { .. }
        | EventKind::Disappeared { .. } => false,
    }
}

#[cfg(test)]
mod tests;

//! Events that are gathered for delivery, and the decision how to deliver them.

use std::time::Instant;

use crate::model::*;
use crate::rules::prompt::UserRules;
use crate::rules::route::{Reach, is_quiet, n_fitting, reaches, route};

/// How a command that waited for a run has returned to its caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitReturn {
    /// The owner that the command belongs to; `None` for a user at a terminal.
    pub owner: Option<String>,
    pub window: WindowId,
    pub run: Option<u32>,
    pub outcome: WaitOutcome,
}

impl WaitReturn {
    /// Returns the types of the events that it may be about. The end of a run includes its earlier events.
    fn event_types(&self) -> &'static [EventType] {
        match self.outcome {
            WaitOutcome::Exited | WaitOutcome::Died => &[
                EventType::Exited,
                EventType::Notify,
                EventType::Output,
                EventType::Input,
            ],
            WaitOutcome::Input => &[EventType::Input],
            WaitOutcome::Bell => &[EventType::Notify],
            WaitOutcome::Disappeared => &[EventType::Disappeared],
            WaitOutcome::Matched
            | WaitOutcome::Changed
            | WaitOutcome::Idle
            | WaitOutcome::Listening
            | WaitOutcome::Timeout
            | WaitOutcome::Respawned
            | WaitOutcome::Signalled
            | WaitOutcome::Stopped
            | WaitOutcome::AnchorLost => &[],
        }
    }

    /// Whether it is about an event.
    pub(crate) fn has_event(&self) -> bool {
        !self.event_types().is_empty()
    }

    /// Whether this is that event, and the command's owner is the task's.
    pub(super) fn is_of(&self, event: &Event) -> bool {
        let task = &event.task;
        self.event_types().contains(&event.event_type())
            && (task.window, task.run, &task.owner) == (self.window, self.run, &self.owner)
    }
}

pub(super) fn is_read_by(delivered: &DeliveredEvent, owner: &str, events: &[Seq]) -> bool {
    let is_theirs = delivered.event.task.owner.as_deref() == Some(owner);
    is_theirs && events.contains(&delivered.seq)
}

/// A command that is about to wait for the run that it starts, and to return with its events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpectedWait {
    pub task: String,
    /// The owner that the command belongs to; `None` for a user at a terminal.
    pub owner: Option<String>,
    /// When it is dropped.
    pub until: Instant,
}

/// A command that reads events for their owner, and is about to say which it has read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExpectedReader {
    pub(super) owner: String,
    pub(super) until: Instant,
}

/// Events that are delivered together: what happens within the gathering time, and what was held for their groups.
#[derive(Debug)]
pub(super) struct Gathering {
    pub(super) due: Instant,
    /// Whether it takes no more events: it is due, and waits for the disk.
    pub(super) is_closed: bool,
    events: Vec<GatheredEvent>,
}

/// An event that waits for its delivery.
#[derive(Debug)]
struct GatheredEvent {
    delivered: DeliveredEvent,
    /// Whether its owner has read it: a command of the owner has returned with it.
    is_known_to_owner: bool,
}

/// The addressee of a delivery.
#[derive(Debug, PartialEq, Eq)]
struct Audience {
    owner: Option<String>,
    /// Whether it contains events of shells only, which do not concern an agent.
    of_shells: bool,
}

impl Gathering {
    pub(super) fn new(due: Instant) -> Self {
        Self {
            due,
            is_closed: false,
            events: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, delivered: DeliveredEvent) {
        self.events.push(GatheredEvent {
            delivered,
            is_known_to_owner: false,
        });
    }

    /// Replaces the event with this number, if it is gathered here. Returns whether it is.
    pub(super) fn replace(&mut self, delivered: &DeliveredEvent) -> bool {
        let mut events = self.events.iter_mut();
        let gathered = events.find(|gathered| gathered.delivered.seq == delivered.seq);
        gathered
            .map(|gathered| gathered.delivered.clone_from(delivered))
            .is_some()
    }

    pub(super) fn seqs(&self) -> impl Iterator<Item = Seq> {
        self.events.iter().map(|gathered| gathered.delivered.seq)
    }

    /// Returns the highest sequence number of its events; 0 for none.
    pub(super) fn last_seq(&self) -> Seq {
        self.seqs().max().unwrap_or(0)
    }

    /// Notes that the owners of these events have read them.
    pub(super) fn note_known(&mut self, is_known: impl Fn(&DeliveredEvent) -> bool) {
        for gathered in &mut self.events {
            gathered.is_known_to_owner |= is_known(&gathered.delivered);
        }
    }

    /// Whether that command may return with some of its events.
    pub(super) fn concerns(&self, expected: &ExpectedWait) -> bool {
        self.events.iter().any(|gathered| {
            let task = &gathered.delivered.event.task;
            task.name == expected.task && task.owner == expected.owner
        })
    }

    /// Whether some of its events are of this owner's tasks.
    pub(super) fn is_of(&self, owner: &str) -> bool {
        let mut events = self.events.iter();
        events.any(|gathered| gathered.delivered.event.task.owner.as_deref() == Some(owner))
    }

    /// Removes this window's prompt, which was answered before it was delivered.
    pub(super) fn resolve(&mut self, window: WindowId) {
        self.events.retain(|gathered| {
            let event = &gathered.delivered.event;
            !(matches!(event.kind, EventKind::Input { .. }) && event.task.window == window)
        });
    }

    /// Returns the records of the deliveries, one per audience, in the order of their first events.
    pub(super) fn deliver(mut self, user_rules: &UserRules, shells: ShellDelivery) -> Vec<Body> {
        // What was held for a group is earlier than what it was added to.
        self.events.sort_by_key(|gathered| gathered.delivered.seq);
        let mut groups: Vec<(Audience, Vec<GatheredEvent>)> = Vec::new();
        for gathered in self.events {
            let event = &gathered.delivered.event;
            if is_muted(event, user_rules, shells) {
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
            .flat_map(|(audience, group)| deliver_to(&audience, group));
        bodies.collect()
    }
}

/// Returns one record, or two: what is to wake nobody is a notice beside a message about others. More where one
/// message has no room for all events.
fn deliver_to(audience: &Audience, mut group: Vec<GatheredEvent>) -> Vec<Body> {
    let events = group.iter().map(|gathered| &gathered.delivered.event);
    let rest = group.split_off(n_fitting(events));
    let more = match rest.is_empty() {
        true => Vec::new(),
        false => deliver_to(audience, rest),
    };
    let reaches = reaches(&limited(audience, &group));
    let wakes = reaches.contains(&Reach::FollowUp);
    let reached = group.into_iter().zip(reaches);
    let (quiet, others): (Vec<_>, Vec<_>) = reached.partition(|(gathered, reach)| {
        wakes && *reach == Reach::Notice && is_quiet(&gathered.delivered.event)
    });
    let parts = [others, quiet].into_iter();
    let parts = parts.map(|part| part.into_iter().map(|(gathered, _)| gathered).collect());
    let bodies = parts.filter_map(|part| body_of(audience, part));
    bodies.chain(more).collect()
}

/// Returns the events, each with how far it is delivered at most.
fn limited<'a>(audience: &Audience, group: &'a [GatheredEvent]) -> Vec<(&'a Event, Reach)> {
    let limited = group.iter().map(|gathered| {
        let most = match gathered.is_known_to_owner || audience.of_shells {
            true => Reach::Notice,
            false => Reach::FollowUp,
        };
        (&gathered.delivered.event, most)
    });
    limited.collect()
}

fn body_of(audience: &Audience, group: Vec<GatheredEvent>) -> Option<Body> {
    let (reach, level, text) = route(&limited(audience, &group))?;
    let owner = audience.owner.clone();
    let delivered = group.into_iter().map(|gathered| gathered.delivered);
    Some(match reach {
        Reach::FollowUp => Body::follow_up(level, text, delivered.collect(), owner),
        Reach::Notice | Reach::FeedOnly => Body::Notice {
            level,
            text,
            events: delivered.map(|delivered| delivered.seq).collect(),
            owner,
        },
    })
}

/// Whether a user's rule mutes the event, or all events of shells are ignored.
pub(super) fn is_muted(event: &Event, user_rules: &UserRules, shells: ShellDelivery) -> bool {
    (event.task.shell && shells == ShellDelivery::Ignore)
        || matches!(&event.kind, EventKind::Input { prompt } if user_rules.mutes(&event.task, prompt))
}

#[cfg(test)]
mod tests;

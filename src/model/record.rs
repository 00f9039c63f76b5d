//! What the feed keeps: events and the deliveries made of them, each with its number.

use super::{Event, Level, Millis};

/// The number of a durable record in its feed, from 1, without gaps.
pub type Seq = u64;

/// One durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its number.
    pub seq: Seq,
    /// When it was made.
    pub time: Millis,
    /// What it says.
    pub body: Body,
}

/// What a durable record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A task changed.
    Event(Box<Event>),
    /// Events, or the outcome of a command, were told to a person.
    Notice {
        /// How much it matters.
        level: Level,
        /// What it says, one or more lines.
        text: String,
        /// The events it speaks of.
        events: Vec<Seq>,
        /// Whose tasks these are; `None` when it is for everybody.
        owner: Option<String>,
    },
    /// Events were told to the agent.
    FollowUp {
        /// How much it matters.
        level: Level,
        /// The message, header line first.
        content: String,
        /// The events it speaks of, those of `started` included.
        events: Vec<Delivered>,
        /// Whose tasks these are; `None` when it is for everybody.
        owner: Option<String>,
    },
}

/// An event as a delivery names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivered {
    /// The number of the event's own record.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// How the events of shells are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellDelivery {
    /// Not at all; they are recorded.
    Ignore,
    /// As notices: what a person does in a shell is no agent's business.
    Notice,
    /// As those of any task, for who drives shells by typing into them.
    FollowUp,
}

/// The decision made for events that were gathered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A quiet word to the person.
    Notice {
        /// How much it matters.
        level: Level,
        /// What it says.
        text: String,
    },
    /// A message that wakes the agent after its present turn.
    FollowUp {
        /// How much it matters.
        level: Level,
        /// The message, header line first.
        content: String,
    },
}

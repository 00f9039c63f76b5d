//! The contents of the feed: events and the deliveries made of them, numbered.

use super::{Event, Level, Millis};

/// The number of a durable record in its feed, from 1, without gaps.
pub type Seq = u64;

/// One durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its sequence number.
    pub seq: Seq,
    /// When it was created.
    pub time: Millis,
    /// Its contents.
    pub body: Body,
}

/// The contents of a durable record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// A task changed.
    Event(Box<Event>),
    /// Events, or the outcome of a command, were shown to the user.
    Notice {
        /// The level.
        level: Level,
        /// The text, one or more lines.
        text: String,
        /// The sequence numbers of its events.
        events: Vec<Seq>,
        /// The owner of the tasks; `None` addresses everybody.
        owner: Option<String>,
    },
    /// Events were delivered to the agent.
    FollowUp {
        /// The highest level of its events.
        level: Level,
        /// The message, header line first.
        content: String,
        /// Its events, those of `started` included.
        events: Vec<DeliveredEvent>,
        /// The owner of the tasks; `None` addresses everybody.
        owner: Option<String>,
    },
}

/// An event in a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredEvent {
    /// The sequence number of the event's own record.
    pub seq: Seq,
    /// The event.
    pub event: Event,
}

/// How events of shells are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShellDelivery {
    /// Not delivered, only recorded.
    Ignore,
    /// As notices, because what a user does in a shell does not concern the agent.
    Notice,
    /// Like those of any task, for users who drive shells by typing into them.
    FollowUp,
}

/// What is delivered for the events of one gathering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// A text shown to the user. It never wakes the agent.
    Notice {
        /// The level.
        level: Level,
        /// The text, one or more lines.
        text: String,
    },
    /// A message that starts a turn of the agent when its present one has ended.
    FollowUp {
        /// The level.
        level: Level,
        /// The message, header line first.
        content: String,
    },
}

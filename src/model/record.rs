//! The contents of the feed: events and the deliveries made of them, numbered.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::shown_by_wire_name;
use super::{
    Bookmark, Event, EventKind, Level, Millis, OWNER_CHARS, SessionLife, Snapshot, now, text,
};

/// The version of the feed's records.
pub const FEED_VERSION: u32 = 1;

/// The maximum length of a session name, in characters.
pub const SESSION_CHARS: usize = 200;

/// The number of a durable record in its feed, from 1, without gaps.
pub type Seq = u64;

/// A durable record: one line of the feed.
// The engine makes it with its number, time and contents; [`Record::stamped`] adds what the feed says of
// itself in every line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DurableRecord")]
pub struct Record {
    /// The version of the records: 1.
    pub v: u32,
    /// The record's sequence number, from 1, without gaps.
    pub seq: Seq,
    /// The feed's epoch. Sequence numbers of different epochs are unrelated.
    pub epoch: String,
    /// When the record was created: RFC 3339, UTC, milliseconds.
    #[serde(with = "now::as_rfc3339")]
    #[schemars(with = "String")]
    pub time: Millis,
    /// The task session.
    pub session_name: String,
    /// The machine, as the reader calls it; absent: the reader's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub host: Option<String>,
    /// How many records of the same write follow this one; absent when none does.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u32,
    /// On the last event of a look: the state from which a restarted daemon continues. Internal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Checkpoint")]
    pub checkpoint: Option<Checkpoint>,
    /// The contents of the record.
    #[serde(flatten)]
    pub body: Body,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// Values shared by all records of one feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The feed's epoch. It changes only when the feed is created again.
    pub epoch: String,
    /// The task session.
    pub session_name: String,
    /// The harness's id of the conversation, else the session's name.
    pub session_id: String,
    /// The daemon's checkpoint, written with the events of a look.
    pub checkpoint: Option<Checkpoint>,
}

/// The state of a daemon when it recorded the events of a look, from which a daemon continues after
/// a crash. Written together with the events.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The life of the session at the look; null when the session was missing.
    pub life: Option<SessionLife>,
    /// The number of the last death in tmux's record that the events account for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub deaths_read: Option<u64>,
}

/// The contents of a durable record, by its `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Body {
    /// A task changed.
    Event(Box<Event>),
    /// A text shown to the user. It never wakes the agent.
    // Of events, or of the outcome of a command.
    Notice {
        /// The level.
        level: Level,
        /// The text, one or more lines.
        text: String,
        /// The sequence numbers of its events.
        events: Vec<Seq>,
        /// The owner of the tasks; null addresses everybody.
        #[serde(default)]
        owner: Option<String>,
    },
    /// A message that starts a turn of the agent when its present one has ended.
    FollowUp {
        /// The level.
        level: Level,
        /// The sequence numbers of its events.
        events: Vec<Seq>,
        /// The message, ready for `pi.sendMessage`.
        message: Message,
        /// How to deliver it.
        options: FollowUpOptions,
        /// The owner of the tasks; null addresses everybody.
        #[serde(default)]
        owner: Option<String>,
    },
}

/// The kinds of durable records.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "camelCase")]
#[value(rename_all = "camelCase")]
pub enum Kind {
    /// A task changed.
    Event,
    /// A text shown to the user. It never wakes the agent.
    #[value(help = "A message shown to the user")]
    Notice,
    /// A message to the agent.
    FollowUp,
}

shown_by_wire_name!(Kind);

/// A message for an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// `tmux-task-event`.
    pub custom_type: String,
    /// What the agent reads.
    pub content: String,
    /// Whether it is shown to the user too: always true.
    pub display: bool,
    /// The same data for programs.
    pub details: Details,
}

/// The events of a message, for programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// `extension`: no user typed this.
    pub source: String,
    /// Always true.
    pub not_user_input: bool,
    /// The harness's id of the conversation, else the session's name.
    pub session_id: String,
    /// The task session.
    pub session_name: String,
    /// The machine that the tasks are on, as the conversation's own machine calls it; absent: that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub host: Option<String>,
    /// The level.
    pub level: Level,
    /// The events, in the order of their sequence numbers.
    pub events: Vec<Event>,
}

/// How to deliver a follow-up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FollowUpOptions {
    /// Whether it starts a turn when the agent is idle: always true.
    pub trigger_turn: bool,
    /// `followUp`: after the present turn.
    pub deliver_as: String,
}

impl Record {
    /// Returns a record that no feed has yet.
    pub fn new(seq: Seq, time: Millis, body: Body) -> Self {
        Self {
            v: FEED_VERSION,
            seq,
            epoch: String::new(),
            time,
            session_name: String::new(),
            host: None,
            more: 0,
            checkpoint: None,
            body,
        }
    }

    /// Returns it as a line of this feed. `more` records of the same write follow it.
    #[must_use]
    pub fn stamped(mut self, more: u32, context: &Context) -> Self {
        let line = |text: &str, most| text::one_line(text.as_bytes(), most);
        let is_last_event = more == 0 && matches!(self.body, Body::Event(_));
        self.epoch.clone_from(&context.epoch);
        self.session_name = text::session_name(context.session_name.as_bytes(), SESSION_CHARS);
        self.more = more;
        self.checkpoint = context.checkpoint.clone().filter(|_| is_last_event);
        match &mut self.body {
            Body::Event(_) => {}
            Body::Notice { owner, .. } => *owner = owner.as_deref().map(|o| line(o, OWNER_CHARS)),
            Body::FollowUp { owner, message, .. } => {
                *owner = owner.as_deref().map(|o| line(o, OWNER_CHARS));
                message.details.session_id = line(&context.session_id, SESSION_CHARS);
                message.details.session_name.clone_from(&self.session_name);
            }
        }
        self
    }
}

impl Body {
    /// Whether it is the beginning or the end of a run.
    pub(crate) fn is_of_run(&self) -> bool {
        let Self::Event(event) = self else {
            return false;
        };
        matches!(
            event.kind,
            EventKind::Started { .. } | EventKind::Exited { .. } | EventKind::Disappeared { .. }
        )
    }

    /// Returns the kind of record this is the body of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Event(_) => Kind::Event,
            Self::Notice { .. } => Kind::Notice,
            Self::FollowUp { .. } => Kind::FollowUp,
        }
    }

    /// Returns the message of these events, of which the highest has this level.
    pub fn follow_up(
        level: Level,
        content: String,
        delivered: Vec<DeliveredEvent>,
        owner: Option<String>,
    ) -> Self {
        let events = delivered.iter().map(|delivered| delivered.seq).collect();
        let told = delivered.into_iter().map(|delivered| delivered.event);
        Self::FollowUp {
            level,
            events,
            message: Message {
                custom_type: "tmux-task-event".to_owned(),
                content,
                display: true,
                details: Details {
                    source: "extension".to_owned(),
                    not_user_input: true,
                    session_id: String::new(),
                    session_name: String::new(),
                    host: None,
                    level,
                    events: told.collect(),
                },
            },
            options: FollowUpOptions {
                trigger_turn: true,
                deliver_as: "followUp".to_owned(),
            },
            owner,
        }
    }
}

/// An event with the number of its own record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveredEvent {
    /// That number.
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

/// The state from which the next daemon continues.
#[derive(Debug)]
pub(crate) struct SavedLook {
    pub(crate) snapshot: Snapshot,
    /// How much of tmux's data had been processed by then.
    pub(crate) bookmark: Bookmark,
    /// The sequence numbers of the events that are not delivered yet.
    pub(crate) undelivered: BTreeSet<Seq>,
}

//! The records of the feed and of its live streams.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reason::{EndedByName, Reason};
use super::{
    Checkpoint, LsTask, OWNER_CHARS, SESSION_CHARS, TaskFields, VERSION, parse_rfc3339, rfc3339,
};
use crate::model::{
    ASKER_CHARS, Body, DeliveredEvent, Event, EventKind, GoneReason, Level, OutputMatches, Prompt,
    PromptKind, Record, ReplacedBy, Seq, StatusCounts, Task, WindowId, shown_by_wire_name, text,
};

/// The maximum length of a line or a text of an event, in characters.
const LINE_CHARS: usize = 4096;

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

/// A durable record: one line of the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DurableRecord {
    /// The version of the records: 1.
    pub v: u32,
    /// The record's sequence number, from 1, without gaps.
    pub seq: Seq,
    /// The feed's epoch. Sequence numbers of different epochs are unrelated.
    pub epoch: String,
    /// When the record was created: RFC 3339, UTC, milliseconds.
    pub time: String,
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
    pub body: RecordBody,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// The contents of a durable record, by its `kind`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum RecordBody {
    /// A task changed.
    Event(Box<EventFields>),
    /// A text shown to the user. It never wakes the agent.
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

shown_by_wire_name!(Kind, EventType);

impl RecordBody {
    /// Returns the kind of record this is the body of.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Event(_) => Kind::Event,
            Self::Notice { .. } => Kind::Notice,
            Self::FollowUp { .. } => Kind::FollowUp,
        }
    }
}

/// The types of events.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "camelCase")]
#[value(rename_all = "camelCase")]
pub enum EventType {
    /// A run began.
    Started,
    /// A run ended.
    Exited,
    /// The bell rang.
    Notify,
    /// Lines of the output match what the launch asked to be notified of.
    #[value(help = "A task printed a line that `run --notify-on` asked for")]
    Output,
    /// The task waits for a user's input.
    #[value(help = "A task waits for input")]
    Input,
    /// The task no longer waits.
    #[value(help = "A task no longer waits")]
    InputResolved,
    /// A task that was alive left the session.
    #[value(help = "A live task left the session")]
    Disappeared,
}

/// An event, with the fields of its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventFields {
    /// What changed.
    #[serde(rename = "type")]
    pub event_type: EventType,
    /// The level.
    pub level: Level,
    /// The task as it was when it happened.
    pub task: TaskFields,
    /// `input` and `inputResolved`: the line that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// `input`: whether the answer must not be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub secret: Option<bool>,
    /// `input`: what kind of answer is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PromptKind")]
    pub prompt_kind: Option<PromptKind>,
    /// `notify`: how many times it rang since the previous look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub bells: Option<u64>,
    /// `output`: the first line that matches since the last such event. Absent when output was missed
    /// and no line is known to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub line: Option<String>,
    /// `output`: the text that it contains, as `--notify-on` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub pattern: Option<String>,
    /// `output`: how many lines match since the last such event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub matches: Option<u64>,
    /// `output`: true when some of the output could not be searched, so that lines may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub gap: Option<bool>,
    /// `output`: the position in the output up to which it was searched, for `logs --since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
    /// `exited`: `replaced` when a later run ended this one. `disappeared`: `userKilled`,
    /// `agentKilled` or `moved`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Reason")]
    pub reason: Option<Reason>,
    /// `exited` with `replaced`: who started the later run, `launcher` or `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ReplacedByName")]
    pub replaced_by: Option<ReplacedByName>,
    /// `agentKilled`, and `replaced` by the launcher: who did it, where that is not the task's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndedByName")]
    pub ended_by: Option<EndedByName>,
    /// `disappeared` by a command from another machine: who gave it, `OWNER@MACHINE`, for a person
    /// `MACHINE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub asked_by: Option<String>,
    /// `started`: whether the window had a run before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub rerun: Option<bool>,
}

/// Who replaced a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReplacedByName {
    /// `tmux-task run` or the helper.
    Launcher,
    /// Anything else.
    Other,
}

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
    pub events: Vec<EventFields>,
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

/// A record of a live stream that is not stored in the feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "kind",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum LiveRecord {
    /// The first line of every stream.
    Hello {
        /// The version of the records.
        v: u32,
        /// The feed's epoch.
        epoch: String,
        /// The sequence number of the last durable record.
        last_seq: Seq,
        /// The daemon's version.
        version: String,
        /// The task session.
        session_name: String,
    },
    /// The number of tasks by state. Sent after `hello` and at every change.
    Status {
        /// The status line; null when the session is missing.
        text: Option<String>,
        /// Alive and not waiting.
        running: usize,
        /// Alive and waiting for input.
        waiting: usize,
        /// Ended.
        dead: usize,
        /// Running, silent for a long time, and with no evidence on whether they wait. Absent when
        /// there are none. Only the configuration can enable this.
        #[serde(default, skip_serializing_if = "is_none_of_them")]
        stalled: usize,
        /// Why records cannot be written now; they are kept in the daemon's memory. Absent when
        /// they can be written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        problem: Option<String>,
    },
    /// What follows is live.
    Sync,
    /// These records were removed before they could be read.
    Gap {
        /// The first missing sequence number.
        from: Seq,
        /// The last missing sequence number.
        to: Seq,
    },
    /// The tasks, as `ls --json` has them: at first all of them, then those that changed. Only in
    /// streams that ask for it.
    Tasks {
        /// Whether the session exists.
        exists: bool,
        /// Whether these are all tasks. If not, tasks that are not here are as they were.
        complete: bool,
        /// The tasks.
        tasks: Vec<LsTask>,
        /// The ids of windows that are gone since the record before.
        removed: Vec<String>,
    },
    /// A consumer's acknowledgement is on the disk.
    Acked {
        /// The acknowledged sequence number; all before it are acknowledged as well.
        acked: Seq,
    },
    /// Another reader took the consumer over. The last line of the stream.
    Replaced,
}

/// A line of a live stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum StreamRecord {
    /// A record of the feed.
    Durable(Box<DurableRecord>),
    /// A record for readers of the live stream only.
    Live(LiveRecord),
}

impl From<StatusCounts> for LiveRecord {
    fn from(counts: StatusCounts) -> Self {
        Self::Status {
            text: counts.line(),
            running: counts.running,
            waiting: counts.waiting,
            dead: counts.dead,
            stalled: counts.stalled,
            problem: None,
        }
    }
}

/// Whether a count is zero.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
pub(super) fn is_none_of_them(count: &usize) -> bool {
    *count == 0
}

impl DurableRecord {
    /// Returns `record` as a line of the feed. `more` records of the same write follow it.
    pub fn new(record: &Record, more: u32, context: &Context) -> Self {
        let is_last_event = more == 0 && matches!(record.body, Body::Event(_));
        Self {
            v: VERSION,
            seq: record.seq,
            epoch: context.epoch.clone(),
            time: rfc3339(record.time),
            session_name: text::one_line(context.session_name.as_bytes(), SESSION_CHARS),
            host: None,
            more,
            checkpoint: context.checkpoint.clone().filter(|_| is_last_event),
            body: body(&record.body, context),
        }
    }

    /// Whether it names its task, if it is an event. Without that it is damaged.
    pub fn names_its_task(&self) -> bool {
        match &self.body {
            RecordBody::Event(fields) => fields.task.window_id.parse::<WindowId>().is_ok(),
            RecordBody::Notice { .. } | RecordBody::FollowUp { .. } => true,
        }
    }

    /// Returns the record; an error names the field that cannot be read.
    pub fn to_record(&self) -> Result<Record, String> {
        let body = match &self.body {
            RecordBody::Event(fields) => Body::Event(Box::new(fields.to_event()?)),
            RecordBody::Notice {
                level,
                text,
                events,
                owner,
            } => Body::Notice {
                level: *level,
                text: text.clone(),
                events: events.clone(),
                owner: owner.clone(),
            },
            RecordBody::FollowUp {
                level,
                events,
                message,
                options: _,
                owner,
            } => Body::FollowUp {
                owner: owner.clone(),
                level: *level,
                content: message.content.clone(),
                events: events
                    .iter()
                    .zip(&message.details.events)
                    .map(|(seq, fields)| {
                        Ok(DeliveredEvent {
                            seq: *seq,
                            event: fields.to_event()?,
                        })
                    })
                    .collect::<Result<_, String>>()?,
            },
        };
        let time = parse_rfc3339(&self.time).ok_or("time: not RFC 3339")?;
        Ok(Record {
            seq: self.seq,
            time,
            body,
        })
    }
}

fn body(body: &Body, context: &Context) -> RecordBody {
    match body {
        Body::Event(event) => RecordBody::Event(Box::new(EventFields::from(&**event))),
        Body::Notice {
            level,
            text,
            events,
            owner,
        } => RecordBody::Notice {
            level: *level,
            text: text.clone(),
            events: events.clone(),
            owner: owner.as_deref().map(owner_name),
        },
        Body::FollowUp {
            level,
            content,
            events,
            owner,
        } => RecordBody::FollowUp {
            owner: owner.as_deref().map(owner_name),
            level: *level,
            events: events.iter().map(|event| event.seq).collect(),
            message: Message {
                custom_type: "tmux-task-event".to_owned(),
                content: content.clone(),
                display: true,
                details: Details {
                    source: "extension".to_owned(),
                    not_user_input: true,
                    session_id: text::one_line(context.session_id.as_bytes(), SESSION_CHARS),
                    session_name: text::one_line(context.session_name.as_bytes(), SESSION_CHARS),
                    host: None,
                    level: *level,
                    events: events
                        .iter()
                        .map(|event| EventFields::from(&event.event))
                        .collect(),
                },
            },
            options: FollowUpOptions {
                trigger_turn: true,
                deliver_as: "followUp".to_owned(),
            },
        },
    }
}

fn owner_name(owner: &str) -> String {
    text::one_line(owner.as_bytes(), OWNER_CHARS)
}

impl From<&Event> for EventFields {
    fn from(event: &Event) -> Self {
        let mut fields = Self {
            event_type: EventType::Started,
            level: event.level(),
            task: TaskFields::from(&event.task),
            prompt: None,
            secret: None,
            prompt_kind: None,
            bells: None,
            line: None,
            pattern: None,
            matches: None,
            gap: None,
            cursor: None,
            reason: None,
            replaced_by: None,
            ended_by: None,
            asked_by: None,
            rerun: None,
        };
        match &event.kind {
            EventKind::Started { rerun } => fields.rerun = Some(*rerun),
            EventKind::Exited { replaced } => {
                fields.event_type = EventType::Exited;
                fields.reason = replaced.map(|_| Reason::Replaced);
                fields.replaced_by = replaced.map(|by| match by {
                    ReplacedBy::Launcher | ReplacedBy::OtherAgent => ReplacedByName::Launcher,
                    ReplacedBy::Other => ReplacedByName::Other,
                });
                fields.ended_by = replaced.and_then(|by| match by {
                    ReplacedBy::Launcher | ReplacedBy::Other => None,
                    ReplacedBy::OtherAgent => Some(EndedByName::OtherAgent),
                });
            }
            EventKind::Notify { bells } => {
                fields.event_type = EventType::Notify;
                fields.bells = Some(*bells);
            }
            EventKind::Output(found) => {
                let bounded = |text: &String| text::one_line(text.as_bytes(), LINE_CHARS);
                fields.event_type = EventType::Output;
                fields.line = found.line.as_ref().map(bounded);
                fields.pattern = found.pattern.as_ref().map(bounded);
                fields.matches = Some(found.matches);
                fields.gap = found.has_gap.then_some(true);
                fields.cursor.clone_from(&found.cursor);
            }
            EventKind::Input { prompt } => {
                fields.event_type = EventType::Input;
                fields.prompt = Some(prompt.text.clone());
                fields.secret = Some(prompt.secret);
                fields.prompt_kind = Some(prompt.kind);
            }
            EventKind::InputResolved { prompt } => {
                fields.event_type = EventType::InputResolved;
                fields.prompt = Some(prompt.text.clone());
            }
            EventKind::Disappeared { reason } => {
                fields.event_type = EventType::Disappeared;
                fields.reason = reason.map(Reason::from);
                let by_other = *reason == Some(GoneReason::OtherAgentKilled);
                fields.ended_by = by_other.then_some(EndedByName::OtherAgent);
                let asked_by = event.task.asked_by.as_ref();
                fields.asked_by = asked_by.map(|by| text::one_line(by.as_bytes(), ASKER_CHARS));
            }
        }
        fields
    }
}

impl EventFields {
    /// Returns the event; an error names the field that cannot be read.
    pub fn to_event(&self) -> Result<Event, String> {
        let prompt = || Prompt {
            text: self.prompt.clone().unwrap_or_default(),
            secret: self.secret.unwrap_or(false),
            kind: match (self.prompt_kind, self.secret) {
                (Some(kind), _) => kind,
                // A record says no more.
                (None, Some(true)) => PromptKind::Password,
                (None, Some(false) | None) => PromptKind::Text,
            },
        };
        let kind = match self.event_type {
            EventType::Started => EventKind::Started {
                rerun: self.rerun.unwrap_or(false),
            },
            EventType::Exited => EventKind::Exited {
                replaced: self
                    .reason
                    .map(|_| match (self.replaced_by, self.ended_by) {
                        (Some(ReplacedByName::Launcher), None) => ReplacedBy::Launcher,
                        (Some(ReplacedByName::Launcher), Some(EndedByName::OtherAgent)) => {
                            ReplacedBy::OtherAgent
                        }
                        (Some(ReplacedByName::Other) | None, _) => ReplacedBy::Other,
                    }),
            },
            EventType::Notify => EventKind::Notify {
                bells: self.bells.unwrap_or(1),
            },
            EventType::Output => EventKind::Output(OutputMatches {
                line: self.line.clone(),
                pattern: self.pattern.clone(),
                matches: self.matches.unwrap_or_default(),
                has_gap: self.gap.unwrap_or_default(),
                cursor: self.cursor.clone(),
            }),
            EventType::Input => EventKind::Input { prompt: prompt() },
            EventType::InputResolved => EventKind::InputResolved { prompt: prompt() },
            EventType::Disappeared => EventKind::Disappeared {
                reason: self.reason.and_then(|reason| reason.gone(self.ended_by)),
            },
        };
        Ok(Event {
            kind,
            task: Task {
                asked_by: self.asked_by.clone(),
                ..self.task.to_task()?
            },
        })
    }
}

//! A semantic change between two snapshots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::shown_by_wire_name;
use super::reason::EndedByName;
use super::{ASKER_CHARS, GoneReason, Task, text};

/// The maximum length of a line or a text of an event, in characters.
const LINE_CHARS: usize = 4096;

/// A change that is reported, with the task as it was at that moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "EventLine", from = "EventLine")]
#[schemars(
    rename = "EventFields",
    description = "An event, with the fields of its type."
)]
pub struct Event {
    /// What changed.
    pub kind: EventKind,
    /// The task. For an exit: as it was at its end. For a disappearance: as it was last observed.
    pub task: Task,
}

/// The types of events.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "camelCase")]
#[value(rename_all = "camelCase")]
pub enum EventType {
    /// A run began.
    #[default]
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

/// What changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// The task no longer waits for the input that was reported. Feed only: it is not delivered.
    InputResolved {
        /// The prompt that is gone.
        prompt: Prompt,
    },
    /// A new task or a new run of a known one is alive.
    Started {
        /// Whether the window had a run before.
        rerun: bool,
    },
    /// The bell rang.
    Notify {
        /// How many times since the previous look.
        bells: u64,
    },
    /// Lines of the output match what the launch asked to be notified of.
    Output(OutputMatches),
    /// A run ended.
    Exited {
        /// Set when a later run ended this one.
        replaced: Option<ReplacedBy>,
    },
    /// The task waits for a user's input.
    Input {
        /// What it waits for.
        prompt: Prompt,
    },
    /// A task that was alive is no longer in the session.
    Disappeared {
        /// The reason, where it is known.
        reason: Option<GoneReason>,
    },
}

/// What a task waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The line that asks: one line of sanitised text; empty when the program shows no question.
    pub text: String,
    /// What kind of answer it expects.
    pub kind: PromptKind,
    /// Whether the answer must not be shown.
    pub secret: bool,
}

/// What kind of answer is expected.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "PromptKindName")]
pub enum PromptKind {
    /// Yes or no.
    Confirm,
    /// A line of text.
    Text,
    /// A line that must not be shown.
    Password,
    /// One of several choices.
    Menu,
    /// Any key, to continue.
    Key,
    /// A pager: scroll or quit.
    Pager,
    /// An editor: edit or quit.
    Editor,
    /// The buttons and fields of a dialog.
    Dialog,
    /// Commands for a debugger.
    Debugger,
}

shown_by_wire_name!(PromptKind, Level, EventType);

/// How the answer to a prompt is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerBy {
    /// A line of text.
    Text,
    /// A line that only the user may know, and that is never shown.
    Secret,
    /// Single keys: the program draws on the screen, or reads without Enter.
    Keys,
}

impl AnswerBy {
    /// Returns how a prompt is answered; its kind is `None` where it is not known. Whether the answer
    /// is a secret counts first: a field of a dialog may be one.
    pub fn of(kind: Option<PromptKind>, is_secret: bool) -> Self {
        use PromptKind::{Confirm, Debugger, Dialog, Editor, Key, Menu, Pager, Password, Text};
        match kind {
            _ if is_secret => Self::Secret,
            Some(Password) => Self::Secret,
            None | Some(Confirm | Text | Debugger) => Self::Text,
            Some(Menu | Key | Pager | Editor | Dialog) => Self::Keys,
        }
    }
}

/// Who replaced a live run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ReplacedByName")]
pub enum ReplacedBy {
    /// `tmux-task run` or the helper.
    // For the task's owner, who knows, or for a user, whose run is everybody's. A task without an owner is
    // everybody's, too.
    Launcher,
    /// The same, for another agent than the one that owns the task. Programs are told so besides, by
    /// `EndedByName`.
    #[serde(rename = "launcher", skip_deserializing)]
    OtherAgent,
    /// Anything else.
    // For example `respawn-window -k`.
    Other,
}

/// How important an event is.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LevelName")]
pub enum Level {
    /// No action needed.
    #[default]
    Info,
    /// A user may have to act.
    Warning,
}

impl Event {
    /// Returns the level: `Warning` for input, output, disappearances and any exit other than code 0.
    pub fn level(&self) -> Level {
        match self.kind {
            EventKind::Input { .. } | EventKind::Output(_) | EventKind::Disappeared { .. } => {
                Level::Warning
            }
            EventKind::Exited { .. } => match self.task.exit_code() {
                Some(0) => Level::Info,
                Some(_) | None => Level::Warning,
            },
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::InputResolved { .. } => Level::Info,
        }
    }

    /// Returns its type.
    pub fn event_type(&self) -> EventType {
        match self.kind {
            EventKind::InputResolved { .. } => EventType::InputResolved,
            EventKind::Started { .. } => EventType::Started,
            EventKind::Notify { .. } => EventType::Notify,
            EventKind::Output(_) => EventType::Output,
            EventKind::Exited { .. } => EventType::Exited,
            EventKind::Input { .. } => EventType::Input,
            EventKind::Disappeared { .. } => EventType::Disappeared,
        }
    }
}

/// An event, with the fields of its type.
// How it is written: one object, with the fields of every type side by side.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct EventLine {
    /// What changed.
    #[serde(rename = "type")]
    event_type: EventType,
    /// The level.
    level: Level,
    /// The task as it was when it happened.
    task: Task,
    /// `input` and `inputResolved`: the line that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    prompt: Option<String>,
    /// `input`: whether the answer must not be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    secret: Option<bool>,
    /// `input`: what kind of answer is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "PromptKind")]
    prompt_kind: Option<PromptKind>,
    /// `notify`: how many times it rang since the previous look.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    bells: Option<u64>,
    /// `output`: the first line that matches since the last such event. Absent when output was missed
    /// and no line is known to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    line: Option<String>,
    /// `output`: the text that it contains, as `--notify-on` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pattern: Option<String>,
    /// `output`: how many lines match since the last such event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    matches: Option<u64>,
    /// `output`: true when some of the output could not be searched, so that lines may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    gap: Option<bool>,
    /// `output`: the position in the output up to which it was searched, for `logs --since`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    cursor: Option<String>,
    /// `exited`: `replaced` when a later run ended this one. `disappeared`: `userKilled`,
    /// `agentKilled` or `moved`, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "GoneReason")]
    reason: Option<GoneReason>,
    /// `exited` with `replaced`: who started the later run, `launcher` or `other`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ReplacedBy")]
    replaced_by: Option<ReplacedBy>,
    /// `agentKilled`, and `replaced` by the launcher: who did it, where that is not the task's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "EndedByName")]
    ended_by: Option<EndedByName>,
    /// `disappeared` by a command from another machine: who gave it, `OWNER@MACHINE`, for a person
    /// `MACHINE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    asked_by: Option<String>,
    /// `started`: whether the window had a run before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    rerun: Option<bool>,
}

impl From<Event> for EventLine {
    fn from(event: Event) -> Self {
        let level = event.level();
        let (event_type, kind) = (event.event_type(), event.kind);
        let bounded = |text: String| text::one_line(text.as_bytes(), LINE_CHARS);
        let mut fields = Self {
            event_type,
            level,
            task: event.task,
            ..Self::default()
        };
        match kind {
            EventKind::Started { rerun } => fields.rerun = Some(rerun),
            EventKind::Exited { replaced } => {
                fields.reason = replaced.map(|_| GoneReason::Replaced);
                fields.replaced_by = replaced;
                let is_other = replaced == Some(ReplacedBy::OtherAgent);
                fields.ended_by = is_other.then_some(EndedByName::OtherAgent);
            }
            EventKind::Notify { bells } => fields.bells = Some(bells),
            EventKind::Output(found) => {
                fields.line = found.line.map(bounded);
                fields.pattern = found.pattern.map(bounded);
                fields.matches = Some(found.matches);
                fields.gap = found.has_gap.then_some(true);
                fields.cursor = found.cursor;
            }
            EventKind::Input { prompt } => {
                fields.prompt = Some(prompt.text);
                fields.secret = Some(prompt.secret);
                fields.prompt_kind = Some(prompt.kind);
            }
            EventKind::InputResolved { prompt } => fields.prompt = Some(prompt.text),
            EventKind::Disappeared { reason } => {
                fields.reason = reason;
                let is_other = reason == Some(GoneReason::OtherAgentKilled);
                fields.ended_by = is_other.then_some(EndedByName::OtherAgent);
                let asked_by = fields.task.asked_by.as_ref();
                fields.asked_by = asked_by.map(|by| text::one_line(by.as_bytes(), ASKER_CHARS));
            }
        }
        fields
    }
}

impl From<EventLine> for Event {
    fn from(fields: EventLine) -> Self {
        let prompt = || Prompt {
            text: fields.prompt.clone().unwrap_or_default(),
            secret: fields.secret.unwrap_or(false),
            kind: match (fields.prompt_kind, fields.secret) {
                (Some(kind), _) => kind,
                // A record says no more.
                (None, Some(true)) => PromptKind::Password,
                (None, Some(false) | None) => PromptKind::Text,
            },
        };
        let replaced_by = match (fields.replaced_by, fields.ended_by) {
            (Some(ReplacedBy::Launcher), Some(EndedByName::OtherAgent)) => ReplacedBy::OtherAgent,
            (by, _) => by.unwrap_or(ReplacedBy::Other),
        };
        let kind = match fields.event_type {
            EventType::Started => EventKind::Started {
                rerun: fields.rerun.unwrap_or(false),
            },
            EventType::Exited => EventKind::Exited {
                replaced: fields.reason.map(|_| replaced_by),
            },
            EventType::Notify => EventKind::Notify {
                bells: fields.bells.unwrap_or(1),
            },
            EventType::Output => EventKind::Output(OutputMatches {
                line: fields.line,
                pattern: fields.pattern,
                matches: fields.matches.unwrap_or_default(),
                has_gap: fields.gap.unwrap_or_default(),
                cursor: fields.cursor,
            }),
            EventType::Input => EventKind::Input { prompt: prompt() },
            EventType::InputResolved => EventKind::InputResolved { prompt: prompt() },
            EventType::Disappeared => EventKind::Disappeared {
                reason: match fields.ended_by {
                    Some(EndedByName::OtherAgent) => Some(GoneReason::OtherAgentKilled),
                    None => fields.reason,
                },
            },
        };
        let mut task = fields.task;
        task.asked_by = fields.asked_by;
        Self { kind, task }
    }
}

/// Lines of a run that match, since the last event about them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutputMatches {
    /// The first of them: one line of sanitised text. `None` when output was missed and no line is
    /// known to match.
    pub line: Option<String>,
    /// The text that it contains, as the launch has it.
    pub pattern: Option<String>,
    /// How many lines match.
    pub matches: u64,
    /// Whether output could not be searched.
    pub has_gap: bool,
    /// The position in the output up to which it was searched, if it is known.
    pub cursor: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_answered_as_one_whatever_its_kind_and_a_drawn_prompt_with_keys() {
        use AnswerBy::{Keys, Secret, Text};
        use PromptKind::{Confirm, Debugger, Dialog, Editor, Key, Menu, Pager, Password};
        for (kind, expected) in [
            (Confirm, Text),
            (PromptKind::Text, Text),
            (Debugger, Text),
            (Password, Secret),
            (Menu, Keys),
            (Key, Keys),
            (Pager, Keys),
            (Editor, Keys),
            (Dialog, Keys),
        ] {
            assert_eq!(AnswerBy::of(Some(kind), false), expected, "{kind}");
            assert_eq!(AnswerBy::of(Some(kind), true), Secret, "{kind}");
        }
        assert_eq!(AnswerBy::of(None, false), Text);
        assert_eq!(AnswerBy::of(None, true), Secret);
    }
}

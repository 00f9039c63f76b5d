//! A semantic change between two snapshots.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::wire_name::shown_by_wire_name;
use super::{GoneReason, Task};

/// A change that is reported, with the task as it was at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What changed.
    pub kind: EventKind,
    /// The task. For an exit: as it was at its end. For a disappearance: as it was last observed.
    pub task: Task,
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

impl PromptKind {
    /// Every kind, with the word for it.
    pub const NAMES: [(&str, Self); 9] = [
        ("confirm", Self::Confirm),
        ("text", Self::Text),
        ("password", Self::Password),
        ("menu", Self::Menu),
        ("key", Self::Key),
        ("pager", Self::Pager),
        ("editor", Self::Editor),
        ("dialog", Self::Dialog),
        ("debugger", Self::Debugger),
    ];
}

shown_by_wire_name!(PromptKind, Level);

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
        match kind {
            _ if is_secret => Self::Secret,
            Some(PromptKind::Password) => Self::Secret,
            None | Some(PromptKind::Confirm | PromptKind::Text | PromptKind::Debugger) => {
                Self::Text
            }
            Some(
                PromptKind::Menu
                | PromptKind::Key
                | PromptKind::Pager
                | PromptKind::Editor
                | PromptKind::Dialog,
            ) => Self::Keys,
        }
    }
}

/// Who ended a live run by starting the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplacedBy {
    /// Our launcher, for the task's owner, who knows, or for a user, whose run is everybody's. A task
    /// without an owner is everybody's, too.
    Launcher,
    /// Our launcher, for another agent than the one that owns the task.
    OtherAgent,
    /// Anything else, for example `respawn-window -k`.
    Other,
}

/// How important an event is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "LevelName")]
pub enum Level {
    /// No action needed.
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
            EventKind::Exited { .. } => match self.task.exit().and_then(|exit| exit.code) {
                Some(0) => Level::Info,
                Some(_) | None => Level::Warning,
            },
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::InputResolved { .. } => Level::Info,
        }
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
        for (name, kind) in PromptKind::NAMES {
            let expected = match name {
                "confirm" | "text" | "debugger" => Text,
                "password" => Secret,
                _ => Keys,
            };
            assert_eq!(AnswerBy::of(Some(kind), false), expected, "{name}");
            assert_eq!(AnswerBy::of(Some(kind), true), Secret, "{name}");
        }
        assert_eq!(AnswerBy::of(None, false), Text);
        assert_eq!(AnswerBy::of(None, true), Secret);
    }
}

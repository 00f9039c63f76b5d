//! What the keys mean, and what is asked of the user meanwhile.

use super::board::{SessionKey, TaskKey};
use super::input_line::InputLine;
use super::log_view::LogView;
use crate::model::text;

#[derive(Debug)]
pub(super) enum Mode {
    /// They choose a task and what to do with it.
    List,
    /// They change the filter.
    Filter(InputLine),
    /// They are the answer to a prompt.
    Answer(TypedAnswer),
    /// They are a line for a task.
    Send {
        task: TaskKey,
        name: String,
        line: InputLine,
    },
    /// They say whether to end this task.
    ConfirmKill { task: TaskKey, name: String },
    /// They say whether to end the run of this task, and to run it again.
    ConfirmRerun { task: TaskKey, name: String },
    /// They say whether to remove this many tasks of a session.
    ConfirmPrune {
        session: SessionKey,
        /// How the session is called, where there are others.
        of: Option<String>,
        n: usize,
    },
    /// They move in a text.
    View { of: Subject, view: LogView },
}

/// An answer that is being typed.
#[derive(Debug)]
pub(super) struct TypedAnswer {
    pub(super) task: TaskKey,
    pub(super) name: String,
    /// The prompt that was shown when the user chose to answer.
    pub(super) prompt: String,
    pub(super) line: InputLine,
    /// Whether it must not be shown; `None` until that is known.
    pub(super) is_secret: Option<bool>,
    /// Whether the user has finished it before that was known.
    pub(super) is_finished: bool,
}

/// What a text is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    Help,
    /// Why this task waits.
    Explanation(TaskKey),
    /// The log of this task.
    Log(TaskKey),
}

impl Mode {
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Self::Answer(TypedAnswer {
                name,
                prompt,
                is_secret,
                ..
            }) => Some(match is_secret {
                Some(true) => format!("{name} asks (typed text is hidden): {prompt}"),
                Some(false) | None => format!("{name} asks: {prompt}"),
            }),
            Self::Send { name, .. } => Some(format!("A line for {name} (Esc: no)")),
            Self::ConfirmKill { name, .. } => {
                Some(format!("Kill {name} and remove its window? y/n"))
            }
            Self::ConfirmRerun { name, .. } => {
                Some(format!("{name} still runs. End it and run it again? y/n"))
            }
            Self::ConfirmPrune { n, of, .. } => {
                let tasks = text::counted(*n, "ended task");
                let of = of
                    .as_ref()
                    .map_or_else(String::new, |of| format!(" of {of}"));
                Some(format!("Remove {tasks}{of}? y/n"))
            }
            Self::List | Self::Filter(_) | Self::View { .. } => None,
        }
    }

    /// Returns what is being typed, and the mark in front of it.
    pub(super) fn typed(&self) -> Option<(&'static str, &InputLine)> {
        match self {
            Self::Answer(TypedAnswer { line, .. }) | Self::Send { line, .. } => Some(("> ", line)),
            Self::Filter(line) => Some(("/", line)),
            Self::View { view, .. } => view.typed.as_ref().map(|line| ("/", line)),
            Self::List
            | Self::ConfirmKill { .. }
            | Self::ConfirmPrune { .. }
            | Self::ConfirmRerun { .. } => None,
        }
    }

    /// Whether what is being typed may be shown.
    pub(super) fn shows_typed(&self) -> bool {
        !matches!(self, Self::Answer(answer) if answer.is_secret != Some(false))
    }
}

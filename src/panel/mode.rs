//! What the keys mean, and what is asked of the user meanwhile.

use super::input_line::InputLine;
use super::log_view::LogView;

/// What the keys mean.
#[derive(Debug)]
pub(super) enum Mode {
    /// They choose a task and what to do with it.
    List,
    /// They change the filter.
    Filter(InputLine),
    /// They are the answer to a prompt.
    Answer(Answer),
    /// They are a line for a task.
    Send {
        window: String,
        name: String,
        line: InputLine,
    },
    /// They say whether to end this task.
    ConfirmKill { window: String, name: String },
    /// They say whether to end the run of this task, and to run it again.
    ConfirmRerun { window: String, name: String },
    /// They say whether to remove this many tasks.
    ConfirmPrune { n: usize },
    /// They move in a text.
    View { of: Subject, view: LogView },
}

/// An answer that is being typed.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) window: String,
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
    /// Why this window waits.
    Explanation(String),
    /// The log of this window.
    Log(String),
}

impl Mode {
    /// Returns what the user is asked.
    pub(super) fn question(&self) -> Option<String> {
        match self {
            Self::Answer(Answer {
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
            Self::ConfirmPrune { n: 1 } => Some("Remove 1 ended task? y/n".to_owned()),
            Self::ConfirmPrune { n } => Some(format!("Remove {n} ended tasks? y/n")),
            Self::List | Self::Filter(_) | Self::View { .. } => None,
        }
    }

    /// Returns what is being typed, and the mark in front of it.
    pub(super) fn typed(&self) -> Option<(&'static str, &InputLine)> {
        match self {
            Self::Answer(Answer { line, .. }) | Self::Send { line, .. } => Some(("> ", line)),
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

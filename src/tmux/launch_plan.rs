//! What a launch gives tmux, what comes of it, and why nothing may.

use std::path::PathBuf;

use super::error::TmuxError;
use crate::model::{Millis, PaneId, SessionLife, WindowId};

/// How often a launch starts over before it gives up.
pub(super) const ATTEMPTS: usize = 20;

/// All that tmux has to be given to start a task in a session that exists. None of it is secret: the
/// environment is in a file that `words` name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchPlan {
    /// The task's name.
    pub name: String,
    /// How the launch is recognised in tmux: no other launch has it. ASCII letters, digits and `-`.
    pub token: String,
    /// What the pane runs.
    pub words: Vec<String>,
    /// The command as a person reads it, one line.
    pub command: String,
    /// Where the command runs, an absolute path.
    pub cwd: String,
    /// Who asks for it.
    pub owner: Option<String>,
    /// When the launch was asked for.
    pub started: Millis,
    /// Whether a live run stays, and the launch fails.
    pub only_if_absent: bool,
}

/// What a launch has put an end to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// A run that was alive.
    Live,
    /// A window whose run had ended.
    Dead,
}

/// What was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The session's life in which it was.
    pub life: SessionLife,
    /// The task.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// Which run of the task it is, from 1.
    pub run: u32,
    /// The run that was in the window before; `None` when the window was made for this one.
    pub replaced: Option<Replaced>,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The name is not one for a task.
    #[error(
        "`{0}` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
    )]
    Name(String),
    /// tmux would change the session's name, or not find it again.
    #[error("`{0}` is not a session name: it may not be empty or contain `.` or `:`")]
    Session(String),
    /// The environment cannot be written for the task to read.
    #[error("could not write the task's environment to {}", .folder.display())]
    Environment {
        /// The folder.
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The directory is not there.
    #[error("`{}` is not a directory to run in", .0.display())]
    Directory(PathBuf),
    /// The directory has a name that neither tmux nor the feed can carry.
    #[error("cannot run in `{}`: its name is not UTF-8", .0.display())]
    DirectoryName(PathBuf),
    /// Which of them is the slot?
    #[error("two windows are named `{name}`: {first} and {second}")]
    Ambiguous {
        /// The name.
        name: String,
        /// One of them.
        first: WindowId,
        /// Another.
        second: WindowId,
    },
    /// A live run was to stay.
    #[error("task `{name}` is running in {window}")]
    Running {
        /// The task.
        name: String,
        /// Its window.
        window: WindowId,
    },
    /// The token is not one that a launch makes.
    #[error("the launch has a token that tmux cannot be asked for")]
    Token,
    /// The window was made, and the task is not in it.
    #[error("the window that was made for task `{0}` was changed before the task could start")]
    Disturbed(String),
    /// The server goes as soon as nobody is attached.
    #[error(
        "task `{0}` ends as soon as it was started: tmux's option exit-unattached is on, and no \
         client is attached"
    )]
    ServerEnds(String),
    /// Each attempt found a session that had changed since it was read.
    #[error("the session changed during each of {ATTEMPTS} attempts; run the command again")]
    Contended,
    /// tmux.
    #[error(transparent)]
    Tmux(#[from] TmuxError),
}

impl LaunchError {
    /// Whether what was asked for can never be.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Session(_) | Self::Token)
    }

    /// Returns what the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Running { .. } => Some("without --if-absent, the live run is replaced"),
            Self::ServerEnds(_) => Some("`tmux set-option -s exit-unattached off` lets it run"),
            Self::Name(_)
            | Self::Session(_)
            | Self::Token
            | Self::Directory(_)
            | Self::DirectoryName(_)
            | Self::Environment { .. }
            | Self::Ambiguous { .. }
            | Self::Disturbed(_)
            | Self::Contended
            | Self::Tmux(_) => None,
        }
    }
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
///
/// # Errors
///
/// Says what is allowed.
pub fn check_name(name: &str) -> Result<(), LaunchError> {
    let first = name
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphanumeric());
    let rest = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if first && rest && name.len() <= 40 {
        Ok(())
    } else {
        let shown = crate::model::text::one_line(name.as_bytes(), 60);
        Err(LaunchError::Name(shown))
    }
}

/// Checks a launch's token, which stands in formats.
pub(super) fn check_token(token: &str) -> Result<(), LaunchError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !token.is_empty() && token.len() <= 64 && token.bytes().all(is_plain) {
        Ok(())
    } else {
        Err(LaunchError::Token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "9", "api-server", "A.b_c-9", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".a",
            "-a",
            "_a",
            "a b",
            "a:b",
            "é",
            "a\n",
            "a#{q}",
            &"x".repeat(41),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(
            check_name("a b").unwrap_err().to_string(),
            "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
        );
    }

    #[test]
    fn only_what_a_launch_makes_is_a_token() {
        for token in ["1-2", "a", &"x".repeat(64)] {
            assert!(check_token(token).is_ok(), "{token}");
        }
        for token in ["", "a b", "#{pid}", "a,b", "}", &"x".repeat(65)] {
            assert!(check_token(token).is_err(), "{token:?}");
        }
    }
}

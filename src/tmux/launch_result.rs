//! The result of a launch, and its errors.

use std::path::PathBuf;

use super::error::TmuxError;
use crate::model::{PaneId, ReplacedRun, SessionLife, TASK_NAME_RULE, WindowId, is_task_name};

/// How often a launch starts over before it gives up.
pub(super) const ATTEMPTS: usize = 20;

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRun {
    /// The life of the session.
    pub life: SessionLife,
    /// The task's window.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// The number of the run, from 1.
    pub run: u32,
    /// The previous run in the window; `None` when the window was created for this one.
    pub replaced: Option<ReplacedRun>,
}

/// What came of a launch.
#[derive(Debug)]
pub(crate) enum LaunchAnswer<T> {
    Started(T),
    /// Nothing was started: this run of the slot has to be ended first.
    Live(LiveRun),
}

/// A live run that a launch is to replace. Its window stays when it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveRun {
    pub window: WindowId,
    /// The process that tmux has started in its pane.
    pub pid: u32,
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The name is not valid for a task.
    #[error("`{0}` is not a task name: {TASK_NAME_RULE}")]
    Name(String),
    /// tmux would change the session's name, or not find it again.
    #[error("`{0}` is not a session name: it may not be empty or contain `.` or `:`")]
    Session(String),
    /// The task's file cannot be written.
    #[error("could not write what the task needs to {}", .folder.display())]
    Environment {
        folder: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The task's file cannot be opened: its launcher is gone.
    #[error("could not open {}", .path.display())]
    File {
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no shell to run the command.
    #[error("could not find `bash` in PATH")]
    NoBash,
    /// The kernel would not start it.
    #[error(
        "the command and its environment are too long: {bytes} bytes, and the kernel takes {limit}"
    )]
    TooLong { bytes: u64, limit: u64 },
    /// A part of it is too long for the kernel.
    #[error("{what} is too long: {bytes} bytes, and the kernel takes {limit} in one")]
    PartTooLong {
        what: String,
        bytes: u64,
        limit: u64,
    },
    /// The directory does not exist.
    #[error("`{}` is not a directory to run in", .0.display())]
    Directory(PathBuf),
    /// The directory's name cannot be passed to tmux or written to the feed.
    #[error("cannot run in `{}`: its name is not UTF-8", .0.display())]
    DirectoryName(PathBuf),
    /// The slot is ambiguous.
    #[error("two windows are named `{name}`: {first} and {second}")]
    Ambiguous {
        name: String,
        /// One of them.
        first: WindowId,
        /// Another.
        second: WindowId,
    },
    /// A run is alive and must be kept.
    #[error("task `{name}` is running in {window}")]
    Running {
        /// The task's window.
        name: String,
        window: WindowId,
    },
    /// Options that mark a window as a task's are set for more than one window: shells and tasks
    /// could not be distinguished.
    #[error("{0} set for all windows: any shell would count as a task")]
    Inherited(String),
    /// The same for all windows of the session.
    #[error("{0} set on the session: any shell in it would count as a task")]
    OfSession(String),
    /// The token is not valid.
    #[error("the launch has a token that tmux cannot be asked for")]
    Token,
    /// The window was created, and does not exist any more.
    #[error("the window of task `{0}` was gone right after it was made")]
    Gone(String),
    /// The server ends as soon as no client is attached.
    #[error(
        "task `{0}` ends as soon as it was started: tmux's option exit-unattached is on, and no \
         client is attached"
    )]
    ServerEnds(String),
    /// The session had changed at each attempt since it was read.
    #[error("the session changed during each of {ATTEMPTS} attempts; run the command again")]
    Contended,
    #[error(transparent)]
    Tmux(#[from] TmuxError),
}

impl LaunchError {
    /// Whether the request itself is invalid.
    #[must_use]
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Name(_) | Self::Session(_) | Self::Token)
    }

    /// Returns what the user can do about it.
    #[must_use]
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "it only words errors: the others have no hint"
    )]
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Running { .. } => Some("without --if-absent, the live run is replaced"),
            Self::Inherited(_) => Some(
                "`tmux set-option -gu NAME` unsets an option (-gwu or -su, where it was set so)",
            ),
            Self::OfSession(_) => Some("`tmux set-option -t SESSION -u NAME` unsets an option"),
            Self::Gone(_) => {
                Some("a hook of tmux may have closed it: `tmux show-hooks -g` lists them")
            }
            Self::TooLong { .. } | Self::PartTooLong { .. } => {
                Some("`getconf ARG_MAX` prints the limit for all of it; a file has none")
            }
            Self::Ambiguous { .. } => Some("rename or close one of them"),
            Self::ServerEnds(_) => Some("`tmux set-option -s exit-unattached off` lets it run"),
            _ => None,
        }
    }
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
///
/// # Errors
///
/// When it is not; the error contains the rule.
pub(crate) fn check_name(name: &str) -> Result<(), LaunchError> {
    if is_task_name(name) {
        Ok(())
    } else {
        let shown = crate::model::text::one_line(name.as_bytes(), 60);
        Err(LaunchError::Name(shown))
    }
}

/// Checks a launch's token, which is used in formats.
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

//! Why something was not done: one type from tmux to the exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

/// Why something was not done, in words for the user. The daemon refuses requests with it, on the socket
/// as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Error {
    /// What callers and exit codes distinguish.
    pub kind: ErrorKind,
    /// One line, with all causes. The text is not sanitised.
    pub message: String,
    /// What the user can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What was attempted, if that is not what the user has asked for as a whole: `wait api`, `output`.
    #[serde(skip)]
    pub what: Option<String>,
}

/// How something ends that was not done. Only the first six cross the socket, and
/// between machines also that there is none of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// It was attempted and failed.
    Failed,
    /// The request or the command line is invalid.
    Usage,
    /// No such session or task.
    Missing,
    /// It is no longer available, or a wait can no longer succeed.
    Impossible,
    /// The client's version differs from the daemon's.
    Version,
    /// The request is for a session of another name. The client finds out which one has that.
    OtherSession,
    /// No daemon runs.
    #[serde(skip)]
    NoDaemon,
    /// The daemon ended before it answered: the next one may be asked.
    #[serde(skip)]
    DaemonEnded,
    /// The daemon ended during a wait: whether its condition holds is not known.
    #[serde(skip)]
    DaemonEndedInWait,
    /// Another user may listen where the daemon should: nothing was sent.
    #[serde(skip)]
    NotOurs,
    /// A machine was not reached: nothing was asked of it.
    #[serde(skip)]
    Unreachable,
    /// The fleet has no machine of this name: nothing was asked.
    NoHost,
    /// The connection to a machine was lost: whether what was asked for was done is not known.
    #[serde(skip)]
    Lost,
    /// stdout was closed: not a failure.
    #[serde(skip)]
    OutputClosed,
    /// A wait timed out.
    #[serde(skip)]
    TimedOut,
    /// A wait for the end of a run ended because the task asks for input.
    #[serde(skip)]
    Asked,
    /// A task's own exit code, passed through, or one of those of [`ErrorKind::of_run`].
    #[serde(skip)]
    OfTask(u8),
    /// The user interrupted it.
    #[serde(skip)]
    Interrupted,
    /// Another signal ended it.
    #[serde(skip)]
    Signalled(u8),
}

impl ErrorKind {
    /// Returns the exit code. They are API: never reuse one.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::OutputClosed => 0,
            Self::Failed
            | Self::Version
            | Self::OtherSession
            | Self::DaemonEnded
            | Self::DaemonEndedInWait
            | Self::Unreachable
            | Self::NoHost
            | Self::NotOurs => 1,
            Self::Usage => 2,
            Self::Missing | Self::NoDaemon => 3,
            Self::TimedOut => 4,
            Self::Impossible => 5,
            Self::Asked => 6,
            Self::Lost => 7,
            Self::OfTask(code) => code,
            Self::Interrupted => 130,
            Self::Signalled(signal) => 128_u8.saturating_add(signal),
        }
    }

    /// Whether there is no such session, task or daemon.
    pub fn is_missing(self) -> bool {
        matches!(self, Self::Missing | Self::NoDaemon)
    }

    /// Returns the kind for `run --wait`, whose codes must be distinct from the task's own: 123 if the task
    /// asks for input, 124 if the time limit was reached, 125 if it failed itself.
    #[must_use]
    pub fn of_run(self) -> Self {
        let is_distinct = matches!(
            self,
            Self::OutputClosed
                | Self::Usage
                | Self::OfTask(_)
                | Self::Interrupted
                | Self::Signalled(_)
        );
        match self.exit_code() {
            _ if is_distinct => self,
            6 => Self::OfTask(123),
            4 => Self::OfTask(124),
            _ => Self::OfTask(125),
        }
    }
}

impl Error {
    /// Returns an error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
            what: None,
        }
    }

    /// Ends the command without further output.
    pub fn silent(kind: ErrorKind) -> Self {
        Self::new(kind, "")
    }

    /// It was attempted and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message)
    }

    /// The request or the command line is invalid.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    /// No such session, task or daemon.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Missing, message)
    }

    /// It failed for this reason, with all its causes.
    pub fn of<E: std::error::Error>(error: E) -> Self {
        Self::failed(with_causes(&error))
    }

    /// It failed because the system refused something: `could not read a: No such file or directory`.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        Self::failed(format!("{what}: {}", with_causes(error)))
    }

    /// A folder of state, or a file in it, cannot be read or changed.
    pub fn folder(folder: &Path, error: &io::Error) -> Self {
        Self::io(format_args!("could not use {}", folder.display()), error)
    }

    /// Adds what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same where there is no hint.
    #[must_use]
    pub fn with_hint_if_none(mut self, hint: impl FnOnce() -> String) -> Self {
        self.hint.get_or_insert_with(hint);
        self
    }

    /// Says what was attempted.
    #[must_use]
    pub fn about(mut self, what: impl Into<String>) -> Self {
        self.what = Some(what.into());
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Returns an error with its causes, `what: why: why`, without the numbers of the system's errors. The
/// text is not sanitised.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    // What the library adds to the words of the system.
    static NUMBERS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r" \(os error [0-9]+\)").expect("a constant pattern compiles"));
    NUMBERS.replace_all(&text, "").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not {0}")]
    struct Failed(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn all_causes_are_named_from_the_outside() {
        let inner = Failed("read c", None);
        let outer = Failed("load b", Some(Box::new(inner)));
        let outermost = Failed("start a", Some(Box::new(outer)));
        let expected = "could not start a: could not load b: could not read c";
        assert_eq!(with_causes(&outermost), expected);
    }

    #[test]
    fn errors_of_the_system_are_in_words_alone() {
        #[derive(Debug, thiserror::Error)]
        #[error("line 3: {0}; connecting again")]
        struct Within(std::io::Error);
        let missing = || std::io::Error::from_raw_os_error(2);
        assert_eq!(with_causes(&missing()), "No such file or directory");
        let expected = "line 3: No such file or directory; connecting again";
        assert_eq!(with_causes(&Within(missing())), expected);
    }
}

//! Turns every error into text and an exit code.

use std::fmt;

use crate::model::{Error, ErrorKind, text, with_causes};

/// The maximum length of a part of an error: a path and a few sentences.
const MAX_CHARS: usize = 8192;

/// Why a command ends with an exit code other than 0.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    /// What was attempted, usually a command's name.
    what: String,
    why: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            kind,
            what: what.into(),
            why: why.to_string(),
            hint: None,
        }
    }

    /// Ends the command with this code, without further output.
    pub(crate) fn silent(kind: ErrorKind) -> Self {
        Self::new(kind, "", "")
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.why.is_empty()
    }

    /// Returns an error with all its causes.
    pub(crate) fn of(
        kind: ErrorKind,
        what: impl Into<String>,
        error: &dyn std::error::Error,
    ) -> Self {
        Self::new(kind, what, with_causes(error))
    }

    /// Returns how an error becomes the failure of the command `what`.
    pub(crate) fn by<E: std::error::Error>(what: &str) -> impl Fn(E) -> Self + '_ {
        move |error| Self::of(ErrorKind::Failed, what, &error)
    }

    /// A use case that failed.
    pub(crate) fn of_ops(what: &str, error: impl Into<Error>) -> Self {
        let Error {
            kind,
            message,
            hint,
        } = error.into();
        Self {
            kind,
            what: what.to_owned(),
            why: message,
            hint,
        }
    }

    /// The same as a failure of `run --wait`, whose code must be distinct from the task's own.
    pub(crate) fn of_run(mut self) -> Self {
        self.kind = self.kind.of_run();
        self
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint where there is none.
    pub(crate) fn with_hint_if_none(mut self, hint: impl FnOnce() -> String) -> Self {
        self.hint.get_or_insert_with(hint);
        self
    }

    /// Adds the options that say which session and server are meant to the commands of the hint: without
    /// them, they are about another session.
    pub(crate) fn with_options(mut self, options: &str) -> Self {
        self.hint = self.hint.map(|hint| with_options(&hint, options));
        self
    }

    pub(crate) fn with_optional_hint(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }
}

/// Adds these options to the commands of a text.
pub(super) fn with_options(text: &str, options: &str) -> String {
    if options.is_empty() {
        return text.to_owned();
    }
    text.replace("tmux-task ", &format!("tmux-task {options} "))
}

/// Converts results of use cases.
pub(crate) trait OrFail<T> {
    /// Returns the result, or the failure of the command `what`.
    fn or_fail(self, what: &str) -> Result<T, Failure>;
}

impl<T, E: Into<Error>> OrFail<T> for Result<T, E> {
    fn or_fail(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| Failure::of_ops(what, error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names, paths, and messages of tmux or files are untrusted.
        let one_line = |text: &str| text::one_line(text.as_bytes(), MAX_CHARS);
        let (what, why) = (one_line(&self.what), one_line(&self.why));
        write!(f, "tmux-task: {what}: {why}")?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {}", one_line(hint)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::faces::cli::args::Cli;

    #[test]
    fn the_commands_of_a_hint_are_for_the_session_and_server_that_were_given() {
        let hint = |args: &str| {
            let args = std::iter::once("tmux-task").chain(args.split(' '));
            let options = Cli::try_parse_from(args).unwrap().global.words();
            let failure = Failure::new(ErrorKind::Missing, "ls", "no session").with_hint(
                "`tmux-task ls` or `env -u TMUX tmux-task run NAME`; see tmux-task.toml",
            );
            failure.with_options(&options).hint.unwrap()
        };
        assert_eq!(
            hint("ls"),
            "`tmux-task ls` or `env -u TMUX tmux-task run NAME`; see tmux-task.toml"
        );
        assert_eq!(
            hint("ls --session it's -L other"),
            "`tmux-task -L other -s 'it'\\''s' ls` or `env -u TMUX tmux-task -L other \
             -s 'it'\\''s' run NAME`; see tmux-task.toml"
        );
    }
}

//! How a run ended, and the words for it that texts for users and agents share.

/// What is said about a run that was killed, but not by us.
const KILLED: &str = "killed by SIGKILL (not by tmux-task; out of memory?)";

/// The code of a shell whose program was killed by `SIGKILL`, and of a container.
const KILLED_CODE: i32 = 128 + 9;

/// How a run ended, as far as it is known. A signal counts before a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd<'a> {
    /// A signal ended it: its name, `SIGKILL`.
    Signal(&'a str),
    /// It ended by itself with this code.
    Code(i32),
    /// Neither tmux nor the kernel knows.
    Unknown,
}

impl<'a> RunEnd<'a> {
    /// Returns the end of a run with this signal and this code, where they are known.
    pub fn of(signal: Option<&'a str>, code: Option<i32>) -> Self {
        match (signal, code) {
            (Some(signal), _) => Self::Signal(signal),
            (None, Some(code)) => Self::Code(code),
            (None, None) => Self::Unknown,
        }
    }

    /// Returns what the run did, in words that follow the task's name.
    pub fn words(self) -> String {
        match self {
            Self::Signal(signal) => format!("was killed by {signal}"),
            Self::Code(_) | Self::Unknown => format!("exited with {}", self.cause()),
        }
    }

    /// Returns the hint for it if it is the end of a run that was killed; see
    /// [`Exit::hint`](super::Exit::hint).
    pub fn kill_hint(self) -> Option<&'static str> {
        match self {
            Self::Signal("SIGKILL") | Self::Code(KILLED_CODE) => Some(KILLED),
            Self::Signal(_) | Self::Code(_) | Self::Unknown => None,
        }
    }

    /// Returns [`RunEnd::words`] with the hint, if there is one.
    pub fn words_with(self, hint: Option<&str>) -> String {
        match (self, hint) {
            (Self::Signal(_), Some(hint)) => format!("was {hint}"),
            (Self::Code(_) | Self::Unknown, Some(hint)) => format!("{}: {hint}", self.words()),
            (_, None) => self.words(),
        }
    }

    /// Returns what it ended with: the signal's name or the code.
    pub fn cause(self) -> String {
        match self {
            Self::Signal(signal) => signal.to_owned(),
            Self::Code(code) => format!("code {code}"),
            Self::Unknown => "unknown code".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_counts_before_a_code_and_both_may_be_unknown() {
        let check = |signal, code, words, cause| {
            let end = RunEnd::of(signal, code);
            assert_eq!((end.words().as_str(), end.cause().as_str()), (words, cause));
        };
        let killed = "was killed by SIGKILL";
        check(Some("SIGKILL"), None, killed, "SIGKILL");
        check(Some("SIGKILL"), Some(9), killed, "SIGKILL");
        check(None, Some(0), "exited with code 0", "code 0");
        check(None, Some(3), "exited with code 3", "code 3");
        check(None, None, "exited with unknown code", "unknown code");
    }

    #[test]
    fn a_hint_follows_the_words_of_a_run_that_was_killed() {
        let words = |signal, code| {
            let end = RunEnd::of(signal, code);
            end.words_with(end.kill_hint())
        };
        let hint = "killed by SIGKILL (not by tmux-task; out of memory?)";
        assert_eq!(words(Some("SIGKILL"), None), format!("was {hint}"));
        assert_eq!(
            words(None, Some(137)),
            format!("exited with code 137: {hint}")
        );
        assert_eq!(words(Some("SIGTERM"), None), "was killed by SIGTERM");
        assert_eq!(words(None, Some(9)), "exited with code 9");
    }
}

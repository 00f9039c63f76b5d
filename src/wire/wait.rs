//! Waits: requests, and the words for results.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::{
    AnswerBy, Condition, ErrorKind, PortHolder, Reason, RunEnd, WaitOutcome, WaitResult,
    limit_words, port_words,
};
use crate::restarts::restarts_in;

/// A wait, as requested from the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a wish of its own, as it is on the command line"
)]
pub struct WaitRequest {
    /// The task's window id, or its name.
    pub task: String,
    /// Only while this is its run; if absent, whichever is the present one.
    pub run: Option<u32>,
    /// The conditions; the first that holds ends the wait. Empty means the end of the run.
    pub conditions: Vec<Condition>,
    /// Texts that end the wait without success.
    pub stops: Vec<String>,
    /// Whether texts and stops are regular expressions.
    pub regex: bool,
    /// Whether texts and stops match in any case.
    pub ignore_case: bool,
    /// The time limit, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The cursor in the run's output to start at; if absent, now.
    pub since: Option<String>,
    /// The owner that the command belongs to; `None` for a user at a terminal.
    pub owner: Option<String>,
    /// Whether a wait for the end of the run continues while the task asks for input.
    pub through_prompts: bool,
    /// Whether the end of a run that a restart follows does not end a wait for it.
    pub is_final: bool,
    /// How many of the last lines the result contains; if absent, ten.
    pub tail: Option<usize>,
    /// Whether to answer `waiting` first, once all output of the task is followed.
    pub says_when_it_begins: bool,
}

/// What is said of the end of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EndWords {
    /// Why it is no success; `None` for a success.
    pub(crate) unmet: Option<ErrorKind>,
    /// The end as a result of its own: the outcome, or why the condition did not hold.
    pub(crate) text: String,
    /// What the task did, in words that follow its name.
    pub(crate) clause: String,
}

impl WaitResult {
    /// Returns what is said of the end of a wait that had this time limit.
    pub(crate) fn words(&self, limit: Option<Duration>) -> EndWords {
        let line = self.line.as_deref().unwrap_or_default();
        let end = |how: String| match self.restarts_in_ms {
            None => how,
            Some(ms) => format!("{how}; {}", restarts_in(Duration::from_millis(ms))),
        };
        let fact = |detail: Option<String>, clause: String| {
            let name = self.outcome;
            let text = detail.map_or(name.to_string(), |detail| format!("{name}: {detail}"));
            (None, text, clause)
        };
        let shown = self.line.clone();
        let impossible = |text: &str, clause: &str| {
            let unmet = Some(ErrorKind::Impossible);
            (unmet, text.to_owned(), clause.to_owned())
        };
        let (unmet, text, clause) = match self.outcome {
            WaitOutcome::Matched => fact(shown, format!("wrote: {line}")),
            WaitOutcome::Changed => fact(shown, "wrote something".to_owned()),
            WaitOutcome::Bell => fact(shown, "rang the bell".to_owned()),
            WaitOutcome::Idle => fact(shown, "has written nothing for that long".to_owned()),
            WaitOutcome::Signalled => fact(shown, "was signalled".to_owned()),
            WaitOutcome::Listening => {
                let ports = port_words(&self.ports);
                fact(Some(ports.clone()), format!("listens on port {ports}"))
            }
            WaitOutcome::Exited => {
                let (_, text, clause) =
                    fact(Some(end(self.run_end().cause())), end(self.end_words()));
                let is_success = self.exit_code == Some(0) && self.exit_signal.is_none();
                ((!is_success).then_some(ErrorKind::Failed), text, clause)
            }
            WaitOutcome::Input => {
                let asks = self.asking_words();
                let clause = match line {
                    "" => asks.to_owned(),
                    line => format!("{asks}: {line}"),
                };
                match self.condition {
                    Some(_) => fact(shown, clause),
                    None => (Some(ErrorKind::Asked), format!("the task {clause}"), clause),
                }
            }
            WaitOutcome::Timeout => {
                let limit = limit.unwrap_or(Duration::from_millis(self.elapsed_ms));
                let text = format!("timed out after {}", limit_words(limit));
                (Some(ErrorKind::TimedOut), text, "timed out".to_owned())
            }
            WaitOutcome::Died => {
                let cause = self.run_end().cause();
                impossible(
                    &format!("the run ended ({cause}) before the condition held"),
                    &format!("{} before the condition held", end(self.end_words())),
                )
            }
            WaitOutcome::Respawned => impossible(
                "the run was replaced by another one",
                "was replaced by another run",
            ),
            WaitOutcome::Disappeared if self.condition.as_deref() == Some(Self::CHANNEL) => {
                impossible("the tmux server has gone", self.gone_words())
            }
            WaitOutcome::Disappeared => {
                let gone = self.gone_words();
                impossible(&format!("the task {gone}"), gone)
            }
            WaitOutcome::Stopped => impossible(
                &format!("stopped by: {line}"),
                &format!("wrote a text to stop at: {line}"),
            ),
            WaitOutcome::AnchorLost => impossible(
                "some of the output is missing: it may have contained the text",
                "wrote more than was kept: the text may have been in it",
            ),
        };
        EndWords {
            unmet,
            text,
            clause,
        }
    }

    /// Returns what a task does whose outcome is `input`, in words that follow its name.
    fn asking_words(&self) -> &'static str {
        if self.stopped {
            "is stopped, waiting for input in the background"
        } else {
            "asks for input"
        }
    }

    /// Returns how the run ended, where the outcome is its end.
    pub fn run_end(&self) -> RunEnd<'_> {
        RunEnd::of(self.exit_signal.as_deref(), self.exit_code)
    }

    /// Returns who has the ports that were waited for, in words; `None` where nobody else has.
    pub fn holder_words(&self) -> Option<String> {
        let words: Vec<String> = self.port_holders.iter().map(PortHolder::words).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// Returns how the run ended in words that follow the task's name, with the hint if there is one.
    pub fn end_words(&self) -> String {
        self.run_end().words_with(self.exit_hint.as_deref())
    }

    /// Returns what has become of the run, where the outcome is `disappeared`, in words that follow the
    /// task's name.
    fn gone_words(&self) -> &'static str {
        match self.reason {
            Some(Reason::UserKilled | Reason::AgentKilled) => "was killed",
            Some(Reason::TimedOut) => "was ended by its time limit",
            Some(Reason::Moved) => "has moved to another session",
            Some(Reason::Replaced) | None => "has disappeared",
        }
    }

    /// Returns how the prompt of an outcome `input` is answered.
    pub fn answer_by(&self) -> AnswerBy {
        let kind = self.prompt_kind;
        AnswerBy::of(kind, self.secret == Some(true))
    }
}

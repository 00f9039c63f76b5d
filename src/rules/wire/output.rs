//! The output of tasks, as requests ask for it and answers have it; waits and the words for their results.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::model::*;
use crate::rules::prompt::Judgement;
use crate::rules::restarts::restarts_in;

/// A request for the output of a task's present run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogRequest {
    /// The task, by name or window id.
    pub task: String,
    #[serde(default)]
    pub raw: bool,
    /// Only the output after this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// How many lines are wanted: the last ones; all if absent. From a cursor on, all of them are
    /// always returned, and so they are by daemons that do not know this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
    /// How many rows of the history are read at most, besides the screen; all of them if absent.
    /// From a cursor on, all of them are always read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_rows: Option<usize>,
}

/// The output of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskLog {
    pub window_id: String,
    pub window_name: String,
    pub run: Option<u32>,
    pub lines: Vec<String>,
    /// The end of the output, for `--since`; null for an earlier run.
    pub cursor: Option<String>,
    /// Whether lines may be missing, at the beginning or behind the first lines. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lack_beginning: bool,
    /// Behind how many of the lines; absent: at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_after: Option<usize>,
    /// Whether the task is gone, and this is its last stored run. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
}

impl TaskLog {
    /// Returns that it is of this run because the task is gone, if it is.
    pub(crate) fn gone_words(&self) -> Option<String> {
        let (name, run) = (&self.window_name, self.run.filter(|_| self.gone)?);
        Some(format!(
            "{name} is gone; this is its last stored run, {run}"
        ))
    }

    /// Drops all but the last lines.
    #[must_use]
    pub(crate) fn last(mut self, most: usize) -> Self {
        let n_dropped = self.lines.len().saturating_sub(most);
        self.lines.drain(..n_dropped);
        if n_dropped > 0 {
            let gap = self.gap_after.filter(|gap| *gap > n_dropped);
            self.may_lack_beginning &= gap.is_some();
            self.gap_after = gap.map(|gap| gap - n_dropped);
        }
        self
    }

    /// Says where lines are missing, if they are.
    pub(crate) fn missing(&self) -> Option<String> {
        let name = &self.window_name;
        let missing = || match self.gap_after.unwrap_or_default() {
            0 => format!("the beginning of the output of `{name}` may be missing"),
            line => format!("output of `{name}` is missing after line {line}"),
        };
        self.may_lack_beginning.then(missing)
    }
}

/// A request to find a pattern in the output of tasks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchRequest {
    /// The task, by name or window id; all tasks if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    pub pattern: String,
    #[serde(default)]
    pub regex: bool,
    #[serde(default)]
    pub ignore_case: bool,
}

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SearchResult {
    /// The lines, by window and line number.
    pub matches: Vec<SearchMatch>,
    /// Says of which tasks lines are missing, and where. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incomplete: Vec<String>,
}

/// A line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SearchMatch {
    pub window_id: String,
    pub window_name: String,
    pub run: Option<u32>,
    /// The line number in what `logs` prints, from 1.
    pub line_number: usize,
    pub line: String,
    /// Whether lines of the task's output may be missing. Absent: no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_lack_beginning: bool,
}

/// Everything that the judgement is based on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation {
    pub window_id: String,
    pub window_name: String,
    pub state: ExplainedState,
    /// Since when it has been reported as waiting, in milliseconds since 1970; null where it is
    /// not, or where that was before a restart.
    pub waiting_since: Option<Millis>,
    /// Whether the present screen asks for input.
    pub asks: bool,
    pub prompt: Option<String>,
    pub prompt_kind: Option<PromptKind>,
    pub secret: Option<bool>,
    pub rule: String,
    /// The line that was examined.
    pub line: Option<String>,
    /// The row of that line within the capture.
    #[serde(default)]
    pub line_y: Option<u32>,
    /// How long the screen has been unchanged, in milliseconds; null where that is not known.
    pub quiet_ms: Option<u64>,
    pub cursor_x: Option<u32>,
    /// The cursor's row within the capture.
    pub cursor_y: Option<u32>,
    pub alternate_on: Option<bool>,
    /// The kernel's evidence on the terminal; null where there is none, or where it was not read
    /// because output is moving.
    pub terminal: Option<TtyEvidence>,
    /// The `read` call in which a program is blocked. Not serialised: it is of use only where it can
    /// be compared with the present one.
    #[serde(skip)]
    pub read: Option<ReadCall>,
    /// The restart that it waits for. Absent: it waits for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_restart: Option<NextRestart>,
    /// Why it is not run again, although it has failed and `--restart` was given. Absent: there is no
    /// such reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_restart: Option<String>,
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ExplainedState {
    Ended,
    /// It does not wait for input.
    Working,
    /// It asks for input and is not reported yet, because its screen has not been unchanged long
    /// enough or because no daemon runs.
    Asking,
    /// It asks for input, and the configuration mutes it.
    Muted,
    Waiting,
}

impl Explanation {
    /// Returns the explanation of how a task's screen was judged. It is not marked as reported yet.
    pub(crate) fn new(
        task: &Task,
        judgement: Option<&Judgement>,
        terminal: Option<&TtyEvidence>,
    ) -> Self {
        let prompt: Option<&Prompt> = judgement
            .and_then(|judgement| judgement.found.as_ref())
            .map(|found| &found.prompt);
        let row = judgement.and_then(|judgement| judgement.row);
        Self {
            window_id: task.window.to_string(),
            window_name: task.name.clone(),
            state: if !task.is_alive() {
                ExplainedState::Ended
            } else if prompt.is_some() {
                ExplainedState::Asking
            } else {
                ExplainedState::Working
            },
            waiting_since: None,
            asks: prompt.is_some(),
            prompt: prompt.map(|prompt| prompt.text.clone()),
            prompt_kind: prompt.map(|prompt| prompt.kind),
            secret: prompt.map(|prompt| prompt.secret),
            rule: judgement
                .map_or("the run has ended", |judgement| judgement.rule)
                .to_owned(),
            line: row.and_then(|row| task.screen.rows.get(row)).cloned(),
            line_y: row.and_then(|row| u32::try_from(row).ok()),
            quiet_ms: None,
            cursor_x: task.screen.cursor.map(|cursor| cursor.x),
            cursor_y: task.screen.cursor.map(|cursor| cursor.y),
            alternate_on: task.screen.alternate,
            terminal: terminal.cloned(),
            read: terminal.and_then(|terminal| terminal.read),
            next_restart: None,
            cannot_restart: None,
        }
    }
}

/// A wait, as requested from the daemon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
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
                let asks = match self.stopped {
                    true => "is stopped, waiting for input in the background",
                    false => "asks for input",
                };
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

    /// Returns how the run ended, where the outcome is its end.
    pub(crate) fn run_end(&self) -> RunEnd<'_> {
        RunEnd::of(self.exit_signal.as_deref(), self.exit_code)
    }

    /// Returns who has the ports that were waited for, in words; `None` where nobody else has.
    pub(crate) fn holder_words(&self) -> Option<String> {
        let words: Vec<String> = self.port_holders.iter().map(PortHolder::words).collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// Returns how the run ended in words that follow the task's name, with the hint if there is one.
    pub(crate) fn end_words(&self) -> String {
        self.run_end().words_with(self.exit_hint.as_deref())
    }

    /// Returns what has become of the run, where the outcome is `disappeared`, in words that follow the
    /// task's name.
    fn gone_words(&self) -> &'static str {
        match self.reason {
            Some(
                GoneReason::UserKilled | GoneReason::AgentKilled | GoneReason::OtherAgentKilled,
            ) => "was killed",
            Some(GoneReason::TimedOut) => "was ended by its time limit",
            Some(GoneReason::Moved) => "has moved to another session",
            Some(GoneReason::Replaced) | None => "has disappeared",
        }
    }

    /// Returns how the prompt of an outcome `input` is answered.
    pub(crate) fn answer_by(&self) -> AnswerBy {
        let kind = self.prompt_kind;
        AnswerBy::of(kind, self.secret == Some(true))
    }
}

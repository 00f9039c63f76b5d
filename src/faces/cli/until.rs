//! What follows a launch: `run --wait`, `run --until` and `run --listen`.

use std::time::Duration;

use super::failure::{Failure, OrFail};
use super::{context, output, wait};
use crate::client::DaemonClient;
use crate::model::{Condition, ErrorKind, Signal, WaitOutcome, whole_millis};
use crate::ops::{self, Caller};
use crate::tmux::Gate;
use crate::wire::{LaunchedRun, Reason, WaitRequest, WaitResult};

/// What to wait for once the run has begun.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of its own"
)]
pub(super) struct Until {
    /// The command and the task, for errors.
    pub(super) what: String,
    /// The texts of `--until` and the port of `--listen`; if empty, the end of the run.
    pub(super) conditions: Vec<Condition>,
    pub(super) stops: Vec<String>,
    pub(super) regex: bool,
    pub(super) ignore_case: bool,
    pub(super) timeout: Option<Duration>,
    pub(super) through_prompts: bool,
    /// How many of the last lines of a failed run are printed.
    pub(super) tail: usize,
    pub(super) json: bool,
}

impl Until {
    /// Waits as requested. The wait starts at the beginning of the run: nothing is missed between
    /// launch and wait. The command waits at the `gate` until the wait has begun.
    pub(super) async fn follow(
        self,
        daemon: &mut DaemonClient,
        name: &str,
        launched: &LaunchedRun,
        gate: Option<Gate>,
    ) -> Result<(), Failure> {
        let is_for_exit = self.conditions.is_empty();
        let (what, tail, json) = (self.what, self.tail, self.json);
        let timeout = self.timeout;
        let owner = Caller::of_environment().owner;
        let request = WaitRequest {
            stops: self.stops,
            regex: self.regex,
            ignore_case: self.ignore_case,
            timeout_ms: timeout.map(whole_millis),
            through_prompts: self.through_prompts,
            tail: Some(tail),
            ..ops::wait_of_launch(launched, self.conditions, owner, gate.is_some())
        };
        let command = what.split(' ').next().unwrap_or_default();
        let wait = ops::wait(daemon, request, || drop(gate));
        let result = context::unless_interrupted(command, wait).await?;
        // Whoever takes this for a launch that failed would replace the live run.
        let goes_on = || {
            format!("the task was started and goes on; `tmux-task wait {name}` waits for its end")
        };
        let result = result.or_fail(command).map_err(|failure| {
            if failure.kind == ErrorKind::Missing {
                // It was launched, and no look has contained its window.
                Failure::new(
                    ErrorKind::Impossible,
                    what.as_str(),
                    "the task has disappeared",
                )
            } else {
                failure.with_hint_if_none(goes_on)
            }
        })?;
        if !is_for_exit {
            return wait::print_result(&result, timeout, &what, name, json);
        }
        if json {
            output::json(&result)?;
        }
        let outcome = result.outcome;
        if outcome == WaitOutcome::Exited {
            return ended(&what, &result, json);
        }
        let wait = format!("`tmux-task wait {name}` waits for its end");
        if outcome == WaitOutcome::Input {
            return Err(wait::asks(&what, name, &result, &format!("then {wait}")));
        }
        if outcome == WaitOutcome::Timeout {
            let why = "timed out; the task is still running";
            return Err(Failure::new(ErrorKind::TimedOut, what, why).with_hint(wait));
        }
        let has_timed_out =
            outcome == WaitOutcome::Disappeared && result.reason == Some(Reason::TimedOut);
        let kind = if has_timed_out {
            // As `timeout` does.
            ErrorKind::TimedOut
        } else {
            ErrorKind::Impossible
        };
        Err(Failure::new(kind, what, wait::bad(&result, timeout)))
    }
}

/// Ends with the task's own code, 128+N for the signal N. For a failed run it prints on stderr how
/// the run ended, because stdout is for results.
fn ended(what: &str, result: &WaitResult, json: bool) -> Result<(), Failure> {
    let signal = result.exit_signal.as_deref().and_then(Signal::parse);
    let kind = match (signal.and_then(|signal| signal.number()), result.exit_code) {
        (Some(number), _) => ErrorKind::OfTask(128_u8.saturating_add(number)),
        (None, Some(0)) => return Ok(()),
        (None, Some(code)) => ErrorKind::OfTask(u8::try_from(code & 0xff).unwrap_or(1)),
        // tmux does not know it.
        (None, None) => ErrorKind::RunFailed,
    };
    if json {
        return Err(Failure::silent(kind));
    }
    output::tail(&result.tail, None);
    let why = format!("the task {}", result.end_words());
    Err(Failure::new(kind, what, why))
}

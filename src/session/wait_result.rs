//! The answer to a wait that has ended.

use super::listeners::EndedWait;
use crate::engine::{ReturnCause, WaitReturn};
use crate::model::{Now, WaitOutcome, text, whole_millis};
use crate::terminal::PaneLog;
use crate::wait::Cursor;
use crate::wire::{Reason, WaitResult};

/// The maximum length of a line in a result, in characters.
const LINE_CHARS: usize = 2000;

/// How many of the last lines a result contains by default.
const TAIL: usize = 10;

/// The maximum number of them.
const MOST_TAIL: usize = 1000;

/// Returns how many of the last lines a result contains for this request.
pub(super) fn tail(wish: Option<usize>) -> usize {
    wish.unwrap_or(TAIL).min(MOST_TAIL)
}

/// Returns the result of a wait that has ended. `end` is the present end of its task's output, if
/// it still exists.
pub(super) fn result(ended: &EndedWait, end: Option<(&Cursor, &PaneLog)>, now: Now) -> WaitResult {
    let EndedWait { active, verdict } = ended;
    let mut result = WaitResult::new(verdict.outcome);
    if let Some(exit) = &verdict.exit {
        result.exit_code = exit.code;
        result.exit_hint = exit.hint().map(str::to_owned);
        result.exit_signal = exit.signal.as_ref().map(ToString::to_string);
    }
    result.restarts_in_ms = verdict.restarts_in.map(whole_millis);
    result.reason = verdict.reason.map(Reason::from);
    [result.old_pid, result.new_pid] = verdict.pids;
    result.condition = verdict.condition.map(str::to_owned);
    let line = verdict.line.as_deref();
    result.line = line.map(|line| text::one_line(line.as_bytes(), LINE_CHARS));
    result.matched_index = verdict.index;
    result.ports = verdict.ports.iter().copied().collect();
    result.pane_pid = active.wait.entry.pid;
    if let Some(prompt) = &verdict.prompt {
        result.prompt_kind = Some(prompt.kind);
        result.secret = Some(prompt.secret);
        result.stopped = verdict.is_stopped_in_background;
    }
    result.matched_at_entry = active.matched_at_entry;
    result.saw_new_output = active.wait.saw_output;
    let elapsed = now.mono.saturating_duration_since(active.began);
    result.elapsed_ms = whole_millis(elapsed);
    if let Some((cursor, log)) = end {
        result.tail = last_lines(log, active.tail);
        result.alternate_on = Some(log.end.is_alternate);
        result.cursor = Some(cursor.to_string());
    }
    result
}

/// Returns the event that the client learns from the answer; `None` when it contains none.
pub(super) fn wait_return(ended: &EndedWait) -> Option<WaitReturn> {
    let what = match ended.verdict.outcome {
        WaitOutcome::Exited | WaitOutcome::Died => ReturnCause::End,
        WaitOutcome::Input => ReturnCause::Input,
        WaitOutcome::Bell => ReturnCause::Bell,
        WaitOutcome::Disappeared => ReturnCause::Disappearance,
        WaitOutcome::Matched
        | WaitOutcome::Changed
        | WaitOutcome::Idle
        | WaitOutcome::Listening
        | WaitOutcome::Timeout
        | WaitOutcome::Respawned
        | WaitOutcome::Signalled
        | WaitOutcome::Stopped
        | WaitOutcome::AnchorLost => return None,
    };
    let active = &ended.active;
    Some(WaitReturn {
        owner: active.owner.clone(),
        window: active.wait.window(),
        run: active.wait.entry.run,
        what,
    })
}

/// Returns the last lines with text. tmux's banner in a dead pane may have moved some of them into
/// the history.
fn last_lines(log: &PaneLog, most: usize) -> Vec<String> {
    let lines = if log.end.is_alternate {
        log.end.screen()
    } else {
        &log.lines
    };
    let mut lines = lines.to_vec();
    lines.retain(|line| !line.trim().is_empty());
    lines.drain(..lines.len().saturating_sub(most));
    lines
}

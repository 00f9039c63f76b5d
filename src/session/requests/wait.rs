//! `wait`: waits for a condition of a task.

use std::rc::Rc;
use std::sync::Arc;

use super::super::answers::read_end;
use super::super::input::{LookOrder, RowsToRead};
use super::super::job_queue::OutputEnd;
use super::super::listeners::{ActiveWait, EndedWait};
use super::super::promise::{Resolver, promise};
use super::super::state::{Cx, State};
use super::super::wait_entry::{self, PatternLoad};
use crate::engine::{ReturnCause, WaitReturn};
use crate::model::{
    Error, Now, PaneId, Task, WaitOutcome, WaitResult, WindowId, text, whole_millis,
};
use crate::terminal::PaneLog;
use crate::wait::{Anchor, Cursor, Spec, Wait};
use crate::wire::{Response, WaitRequest};

/// The maximum length of a line in a result, in characters.
const LINE_CHARS: usize = 2000;

/// How many of the last lines a result contains by default.
const TAIL: usize = 10;

/// The maximum number of them.
const MOST_TAIL: usize = 1000;

/// Waits for a condition of a task. No output of the task is missed once it has begun. The answer has the
/// end of the task's output, if it still exists, and is sent when the event that it contains is on the
/// disk.
pub(super) async fn wait(cx: &Cx, request: WaitRequest) -> Result<Response, Error> {
    let order = match request.task.parse::<WindowId>() {
        Ok(window) => LookOrder::of([window]),
        Err(_) => LookOrder::barrier(cx.with(|state| state.windows_named(&request.task))),
    };
    cx.first_look(order).await?;
    let (done, has_ended) = promise();
    cx.with(|state| state.begin_wait(cx, &request, done))?;
    let ended = has_ended.await?;
    let _ended = cx.with(|state| Rc::clone(&state.ended_waits));
    let returns = wait_return(&ended, request.owner.as_deref());
    let lines = tail(request.tail);
    let end = {
        let token = |state: &mut State| Rc::clone(&state.returning);
        let _returning = returns.is_some().then(|| cx.with(token));
        match cx.with(|state| state.task_waited_for(&ended.wait)) {
            Some((pane, task)) => read_end(cx, pane, lines, task).await,
            None => None,
        }
    };
    let result = result(&ended, lines, end, cx.with(|state| state.now));
    if let Some(returns) = returns {
        cx.recorded().await;
        cx.with(|state| state.engine.note_return(&returns));
    }
    Ok(Response::Waited(result))
}

impl State {
    /// Begins a wait, with a read of its pane if it needs output.
    fn begin_wait(
        &mut self,
        cx: &Cx,
        request: &WaitRequest,
        done: Resolver<Result<EndedWait, Error>>,
    ) -> Result<(), Error> {
        let (task, spec, anchor) = self.prepare_wait(request)?;
        let pane = task.pane.filter(|_| spec.needs_output());
        let rows = if anchor.is_some() || spec.texts().next().is_some() {
            RowsToRead::All
        } else {
            RowsToRead::LastRow
        };
        let wait = Wait::begin(spec, task, 0, self.now);
        let active = ActiveWait {
            request_id: cx.request.ok_or_else(|| Error::failed("no request"))?,
            wait: wait.with_whole_run(anchor == Some(Anchor::START)),
            pane,
            anchor,
            matched_at_entry: false,
            since: None,
            done,
        };
        match pane {
            Some(pane) => self.begin_with(pane, rows).waits.push(active),
            None => self.start_wait(active, self.now),
        }
        Ok(())
    }

    /// Returns the task of a wait and its pane, if that still has the run that was waited for.
    fn task_waited_for(&self, wait: &Wait) -> Option<(PaneId, Arc<Task>)> {
        let task = self.task(wait.window());
        let task = task.filter(|task| task.run == wait.entry.run)?;
        Some((task.pane?, task))
    }

    /// Returns the task that is to be waited for, for what, and the anchor in its output to begin at.
    fn prepare_wait(
        &mut self,
        request: &WaitRequest,
    ) -> Result<(Arc<Task>, Spec, Option<Anchor>), Error> {
        let task = self.task_to_wait_for(request)?;
        self.engine.wait_begun(&task.name, request.owner.as_deref());
        // Including waits that are about to begin.
        let others = self.listeners.specs().chain(self.jobs.beginning_specs());
        let spec = wait_entry::spec(request, PatternLoad::of(others))?;
        let anchor = self.anchor(request, &task)?;
        Ok((task, spec, anchor))
    }

    /// Returns the task that a request to wait names, if it is at the run that it wants. The run may
    /// have ended and its window be closed.
    fn task_to_wait_for(&self, request: &WaitRequest) -> Result<Arc<Task>, Error> {
        let task = match (self.find_task(&request.task), request.run) {
            (Ok(task), _) => task,
            (Err(refusal), None) => return Err(refusal),
            // A client that names the run has observed it.
            (Err(_), Some(run)) => {
                let window = request.task.parse().ok();
                let ended = window.and_then(|window| self.ended_runs.find(window, Some(run)));
                Arc::clone(ended.ok_or_else(|| closed(&request.task, run))?)
            }
        };
        if let (Some(wanted), Some(run)) = (request.run, task.run)
            && wanted != run
        {
            let window = task.window;
            let message = format!("run {wanted} of task {window} is over, it is at run {run}");
            return Err(Error::failed(message));
        }
        Ok(task)
    }

    /// Returns the anchor of the cursor that a request names, if that is of the task's present run.
    fn anchor(&self, request: &WaitRequest, task: &Task) -> Result<Option<Anchor>, Error> {
        let Some(text) = &request.since else {
            return Ok(None);
        };
        // Its output went with the window.
        if self.task(task.window).is_none() {
            return Err(closed(&request.task, task.run.unwrap_or_default()));
        }
        let cursor: Cursor = text
            .parse()
            .map_err(|error| wait_entry::usage(format!("{error}")))?;
        let checked = cursor.check(self.link.life.as_ref(), task.window, task.run);
        checked.map_err(Error::failed)?;
        Ok(Some(cursor.anchor))
    }
}

/// Returns how many of the last lines a result contains for this request.
fn tail(wish: Option<usize>) -> usize {
    wish.unwrap_or(TAIL).min(MOST_TAIL)
}

/// Returns the result of a wait that has ended. `end` is the present end of its task's output, if
/// it still exists.
fn result(ended: &EndedWait, tail: usize, end: OutputEnd, now: Now) -> WaitResult {
    let EndedWait {
        wait,
        matched_at_entry,
        verdict,
    } = ended;
    let mut result = verdict.clone();
    let line = verdict.line.as_deref();
    result.line = line.map(|line| text::one_line(line.as_bytes(), LINE_CHARS));
    result.pane_pid = wait.entry.pid;
    result.matched_at_entry = *matched_at_entry;
    result.saw_new_output = wait.saw_output;
    let elapsed = now.mono.saturating_duration_since(wait.began);
    result.elapsed_ms = whole_millis(elapsed);
    if let Some((cursor, log)) = end.as_deref() {
        result.tail = last_lines(log, tail);
        result.alternate_on = Some(log.end.is_alternate);
        result.cursor = Some(cursor.to_string());
    }
    result
}

/// Returns the event that the client learns from the answer; `None` when it contains none.
fn wait_return(ended: &EndedWait, owner: Option<&str>) -> Option<WaitReturn> {
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
    Some(WaitReturn {
        owner: owner.map(str::to_owned),
        window: ended.wait.window(),
        run: ended.wait.entry.run,
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

/// Returns the refusal for a run that cannot be waited for any more.
fn closed(window: &str, run: u32) -> Error {
    let message = format!("run {run} of {window} is over and its window is closed");
    Error::missing(message)
}

//! `wait`: waits for a condition of a task.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::super::answers::read_end;
use super::super::input::LookOrder;
use super::super::job_queue::OutputEnd;
use super::super::listeners::{ActiveWait, EndedWait};
use super::super::promise::{Resolver, promise};
use super::super::state::{Cx, State};
use crate::model::{self, Error, Now, Task, WaitResult, WindowId, text, whole_millis};
use crate::rules::engine::WaitReturn;
use crate::rules::terminal::{PaneOutput, Pattern};
use crate::rules::wait::{Condition, Cursor, Spec, Wait};
use crate::rules::wire::{Response, WaitRequest};

const LINE_CHARS: usize = 2000;

/// How many of the last lines a result contains by default.
const TAIL: usize = 10;

const MOST_TAIL: usize = 1000;

/// The maximum number of texts of one wait. Each takes up to 100 KB once used, and is tried on every line.
const MOST_PATTERNS: usize = 64;

/// The maximum length of such a text, in bytes: longer than any reported line.
const LONGEST_PATTERN: usize = 8192;

/// The maximum number of texts of all waits, and their length. A text takes up to sixty times its length.
const MOST_TEXTS: usize = 2048;
const MOST_BYTES: usize = 512 << 10;

/// Returns how many texts these waits search for, and their length.
fn texts_of<'a>(specs: impl IntoIterator<Item = &'a Spec>) -> (usize, usize) {
    let specs = specs.into_iter();
    let texts = specs.flat_map(|spec| spec.texts().chain(&spec.stops));
    texts.fold((0, 0), |(n, bytes), text| (n + 1, bytes + text.bytes()))
}

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
    let (wait, verdict) = &ended;
    let returns = WaitReturn {
        owner: request.owner,
        window: wait.window(),
        run: wait.entry.run,
        outcome: verdict.outcome,
    };
    let lines = request.tail.unwrap_or(TAIL).min(MOST_TAIL);
    let end = {
        let token = |state: &mut State| Rc::clone(&state.returning);
        let _returning = returns.has_event().then(|| cx.with(token));
        // If its pane still has the run that was waited for.
        let task = cx.with(|state| state.task(wait.window()));
        let task = task.filter(|task| task.run == wait.entry.run);
        match task.and_then(|task| Some((task.pane?, task))) {
            Some((pane, task)) => read_end(cx, pane, lines, task).await,
            None => None,
        }
    };
    let result = result(wait, verdict, lines, end, cx.with(|state| state.now));
    if returns.has_event() {
        cx.recorded().await;
        cx.with(|state| state.engine.note_return(&returns, state.now));
    }
    Ok(Response::Waited(result))
}

impl State {
    fn begin_wait(
        &mut self,
        cx: &Cx,
        request: &WaitRequest,
        done: Resolver<Result<EndedWait, Error>>,
    ) -> Result<(), Error> {
        let task = self.task_to_wait_for(request)?;
        self.engine.wait_begun(&task.name, request.owner.as_deref());
        // Including waits that are about to begin.
        let others = self.listeners.specs().chain(self.jobs.beginning_specs());
        let spec = spec(request, texts_of(others))?;
        let mut anchor = None;
        if let Some(cursor) = &request.since {
            // Its output went with the window.
            if self.task(task.window).is_none() {
                return Err(closed(&request.task, task.run.unwrap_or_default()));
            }
            let life = self.link.life.as_ref();
            anchor = Some(Cursor::anchor_in(cursor, life, task.window, task.run)?);
        }
        let pane = task.pane.filter(|_| spec.needs_output());
        let active = ActiveWait {
            request_id: cx.request.ok_or_else(|| Error::failed("no request"))?,
            wait: Wait::begin(spec, task, anchor, self.now),
            pane,
            done,
        };
        match pane {
            Some(pane) => self.begin_with(pane).waits.push(active),
            None => self.start_wait(active, None, self.now),
        }
        Ok(())
    }

    /// Returns the task that a request to wait names, if it is at the run that it wants, which may be over.
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
}

/// Parses a wait request. Refuses invalid ones and too many texts, including those of other waits.
fn spec(request: &WaitRequest, (others, other_bytes): (usize, usize)) -> Result<Spec, Error> {
    let is_text = |condition: &&model::Condition| matches!(condition, model::Condition::Text(_));
    let n_patterns = request.conditions.iter().filter(is_text).count() + request.stops.len();
    if n_patterns > MOST_PATTERNS {
        return Err(Error::usage(format!(
            "a wait takes at most {MOST_PATTERNS} texts, found {n_patterns}; one regular expression \
             can hold several: --regex 'a|b'"
        )));
    }
    let pattern = |text: &String| {
        if text.len() > LONGEST_PATTERN {
            return Err(Error::usage(format!(
                "a text to wait for has at most {LONGEST_PATTERN} bytes, found {}",
                text.len()
            )));
        }
        Pattern::parse(text, request.regex, request.ignore_case)
    };
    let condition = |condition: &model::Condition| {
        Ok(match condition {
            model::Condition::Text(text) => Condition::Text(pattern(text)?),
            model::Condition::Exit => Condition::Exit,
            model::Condition::Change => Condition::Change,
            model::Condition::Bell => Condition::Bell,
            model::Condition::Input => Condition::Input,
            model::Condition::Idle { limit } => Condition::Idle { limit: *limit },
            model::Condition::Listen { port } => Condition::Listen { port: *port },
        })
    };
    let conditions = request.conditions.iter().map(condition);
    let mut conditions: Vec<_> = conditions.collect::<Result<_, Error>>()?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    let stops = request.stops.iter().map(pattern);
    let spec = Spec {
        conditions,
        stops: stops.collect::<Result<_, _>>()?,
        timeout: request.timeout_ms.map(Duration::from_millis),
        through_prompts: request.through_prompts,
        is_final: request.is_final,
    };
    let (own, own_bytes) = texts_of([&spec]);
    if own > 0 && (others + own > MOST_TEXTS || other_bytes + own_bytes > MOST_BYTES) {
        return Err(Error::failed(format!(
            "the waits under way look for {others} texts of {other_bytes} bytes, and {MOST_TEXTS} \
             texts of {MOST_BYTES} bytes are the most"
        )));
    }
    Ok(spec)
}

/// Returns the result of a wait that has ended, with the present end of its task's output.
fn result(wait: &Wait, verdict: &WaitResult, tail: usize, end: OutputEnd, now: Now) -> WaitResult {
    let mut result = verdict.clone();
    let line = verdict.line.as_deref();
    result.line = line.map(|line| text::one_line(line.as_bytes(), LINE_CHARS));
    result.pane_pid = wait.entry.pid;
    result.matched_at_entry = wait.matched_at_entry;
    result.saw_new_output = wait.saw_output;
    let elapsed = now.mono.saturating_duration_since(wait.began);
    result.elapsed_ms = whole_millis(elapsed);
    if let Some((cursor, output)) = end.as_deref() {
        result.tail = last_lines(output, tail);
        result.alternate_on = Some(output.is_alternate);
        result.cursor = Some(cursor.to_string());
    }
    result
}

/// Returns the last lines with text. tmux's banner in a dead pane may have moved some into the history.
fn last_lines(output: &PaneOutput, most: usize) -> Vec<String> {
    let lines = match output.is_alternate {
        true => output.screen(),
        false => &output.lines,
    };
    let mut lines = lines.to_vec();
    lines.retain(|line| !line.trim().is_empty());
    lines.drain(..lines.len().saturating_sub(most));
    lines
}

fn closed(window: &str, run: u32) -> Error {
    let message = format!("run {run} of {window} is over and its window is closed");
    Error::missing(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_all_waits_are_bounded() {
        let longest = "x".repeat(LONGEST_PATTERN);
        let many = vec!["text"; MOST_PATTERNS];
        let large = vec![longest.as_str(); MOST_PATTERNS];
        for (texts, expected) in [(many, 2048 / MOST_PATTERNS), (large, 1)] {
            let request = WaitRequest {
                stops: texts.iter().map(|text| (*text).to_owned()).collect(),
                ..WaitRequest::default()
            };
            let mut waits: Vec<Spec> = Vec::new();
            while let Ok(spec) = spec(&request, texts_of(&waits)) {
                waits.push(spec);
            }
            assert_eq!(waits.len(), expected);
            // A wait without a text is not refused.
            assert!(spec(&WaitRequest::default(), texts_of(&waits)).is_ok());
        }
    }
}

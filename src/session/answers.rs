//! Answers to waits that have ended and to requests for the end of a task's output, and when the
//! disk allows an answer to be sent.

use std::sync::Arc;

use super::effect::Effect;
use super::input::{HeldCommand, JobOutcome, StoreState};
use super::listeners::{EndedWait, RequestId};
use super::log_entry::LogEntry;
use super::machine::Session;
use super::queue_items::{EndRead, HeldAnswer};
use crate::engine::{ReturnCause, WaitReturn};
use crate::model::{Error, Now, Task, WaitOutcome, WaitResult, WindowId, text, whole_millis};
use crate::terminal::{PaneLog, PaneOutput};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, Response};

/// The maximum length of a line in a result, in characters.
const LINE_CHARS: usize = 2000;

/// How many of the last lines a result contains by default.
const TAIL: usize = 10;

/// The maximum number of them.
const MOST_TAIL: usize = 1000;

impl Session {
    /// Answers waits that have ended, with the present end of their task's output if it still
    /// exists.
    pub(super) fn finish(&mut self, ended: Vec<EndedWait>, now: Now) {
        for ended in ended {
            let wait = &ended.active.wait;
            let task = self.task(wait.window());
            let task = task.filter(|task| task.run == wait.entry.run);
            match task.and_then(|task| Some((task.pane?, task))) {
                Some((pane, task)) => self.jobs.read_end(EndRead {
                    pane,
                    lines: ended.active.tail,
                    task,
                    waits: vec![ended],
                    cursors: Vec::new(),
                }),
                None => self.answer_wait(&ended, None, now),
            }
        }
    }

    /// Answers with the end of a task's output, after a look at its window.
    pub(super) fn read_cursor(&mut self, request_id: RequestId, window: &str) {
        let task = window.parse().ok().and_then(|window| self.task(window));
        match task.and_then(|task| Some((task.pane?, task))) {
            Some((pane, task)) => self.jobs.read_end(EndRead {
                pane,
                lines: 0,
                task,
                waits: Vec::new(),
                cursors: vec![request_id],
            }),
            None => self.refuse(request_id, Error::missing(format!("no task {window}"))),
        }
    }

    /// Processes the end of a task's output, and answers all requests that need it.
    pub(super) fn end_read(
        &mut self,
        read: EndRead,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let EndRead {
            pane,
            task,
            waits,
            cursors,
            ..
        } = read;
        let end = match outcome {
            Ok(JobOutcome::End(log)) => self.cursor_at(&task, &log.end).map(|cursor| (cursor, log)),
            Ok(_) => None,
            Err(error) => {
                let purpose = "cursor";
                self.log(LogEntry::PaneNotRead {
                    pane,
                    purpose,
                    error,
                });
                None
            }
        };
        for ended in waits {
            self.answer_wait(&ended, end.as_ref(), now);
        }
        for request_id in cursors {
            match &end {
                Some((cursor, _)) => {
                    let cursor = cursor.to_string();
                    self.answer(request_id, Response::Cursor { cursor });
                }
                None => {
                    let message = format!("no task {}", task.window);
                    self.refuse(request_id, Error::missing(message));
                }
            }
        }
    }

    fn answer_wait(&mut self, ended: &EndedWait, end: Option<&(Cursor, Box<PaneLog>)>, now: Now) {
        let end = end.map(|(cursor, log)| (cursor, log.as_ref()));
        let result = result(ended, end, now);
        let request_id = ended.active.request_id;
        let wait_return = wait_return(ended);
        self.held.push(HeldAnswer {
            rests_on: match wait_return {
                Some(_) => self.engine.last_seq(),
                // It contains no event.
                None => 0,
            },
            launched: None,
            request_id,
            response: Response::Waited(result),
            held: None,
            wait_return,
        });
    }

    /// Returns the cursor at the end of this output.
    fn cursor_at(&self, task: &Arc<Task>, output: &PaneOutput) -> Option<Cursor> {
        let (column, _) = output.cursor;
        Some(Cursor {
            life: self.link.life.as_ref().map(Cursor::life_of)?,
            window: task.window,
            run: task.run?,
            anchor: Anchor::at(
                &output.rows,
                output.first_row(),
                output.cursor_row(),
                column,
            ),
        })
    }

    /// Sends an answer once the disk has accepted or refused everything recorded by now. A disk
    /// that refuses delays no answer.
    pub(super) fn answer_when_stored(&mut self, request_id: RequestId, response: Response) {
        self.held.push(HeldAnswer {
            rests_on: self.engine.last_seq(),
            launched: None,
            request_id,
            response,
            held: None,
            wait_return: None,
        });
    }

    /// The same for a launch, once the output of its run is followed too.
    pub(super) fn answer_launch(
        &mut self,
        request_id: RequestId,
        run: LaunchedRun,
        held: HeldCommand,
    ) {
        self.held.push(HeldAnswer {
            rests_on: self.engine.last_seq(),
            launched: run.window_id.parse().ok(),
            request_id,
            response: Response::Launched(run),
            held: Some(held),
            wait_return: None,
        });
    }

    /// Refuses a request once everything recorded so far is on the disk.
    pub(super) fn refuse_when_stored(&mut self, request_id: RequestId, refusal: Error) {
        self.answer_when_stored(request_id, Response::Refused(refusal));
    }

    /// Sends the answers whose records the disk has accepted or refused, and that nothing else holds back.
    pub(super) fn release_held(&mut self) {
        let (tried, watches) = (self.store.tried, &self.listeners.watches);
        let is_beginning = |window: WindowId| watches.is_beginning(window);
        let ready = self.held.extract_if(.., |answer| {
            answer.rests_on <= tried && !answer.launched.is_some_and(is_beginning)
        });
        for answer in ready.collect::<Vec<_>>() {
            if let Some(wait_return) = &answer.wait_return {
                self.engine.note_return(wait_return);
            }
            let HeldAnswer {
                request_id,
                response,
                held,
                ..
            } = answer;
            match held {
                Some(held) => {
                    let launched = Effect::Launched(request_id, response, held);
                    self.effects.push(launched);
                }
                None => self.answer(request_id, response),
            }
        }
    }

    /// Notes how far the feed is on the disk. Answers are sent before deliveries: events in an
    /// answer are not delivered as follow-ups.
    pub(super) fn stored(&mut self, store: StoreState, now: Now) {
        self.store = store;
        self.release_held();
        self.engine.tried(store.tried);
        if self.deliver_at().is_some_and(|due| due <= now.mono) {
            let effects = self.engine.deliver_due(now);
            self.perform(effects);
        }
    }
}

/// Returns how many of the last lines a result contains for this request.
pub(super) fn tail(wish: Option<usize>) -> usize {
    wish.unwrap_or(TAIL).min(MOST_TAIL)
}

/// Returns the result of a wait that has ended. `end` is the present end of its task's output, if
/// it still exists.
fn result(ended: &EndedWait, end: Option<(&Cursor, &PaneLog)>, now: Now) -> WaitResult {
    let EndedWait { active, verdict } = ended;
    let mut result = verdict.clone();
    let line = verdict.line.as_deref();
    result.line = line.map(|line| text::one_line(line.as_bytes(), LINE_CHARS));
    result.pane_pid = active.wait.entry.pid;
    result.matched_at_entry = active.matched_at_entry;
    result.saw_new_output = active.wait.saw_output;
    let elapsed = now.mono.saturating_duration_since(active.wait.began);
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

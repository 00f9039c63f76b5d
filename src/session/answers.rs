//! Answers to waits that have ended and to requests for the end of a task's output, and when the
//! disk allows an answer to be sent.

use std::sync::Arc;

use super::held_answers::HeldAnswer;
use super::input::{JobOutcome, RequestId, StoreState};
use super::listeners::EndedWait;
use super::log_entry::LogEntry;
use super::machine::Session;
use super::queue_items::EndRead;
use super::wait_result;
use crate::model::{Error, Now, Task};
use crate::terminal::{PaneLog, PaneOutput};
use crate::wait::{Anchor, Cursor};
use crate::wire::Response;

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
        let result = wait_result::result(ended, end, now);
        let request_id = ended.active.request_id;
        let wait_return = wait_result::wait_return(ended);
        self.hold(HeldAnswer {
            rests_on: match wait_return {
                Some(_) => self.engine.last_seq(),
                // It contains no event.
                None => 0,
            },
            request_id,
            response: Response::Waited(result),
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
        self.hold(HeldAnswer {
            rests_on: self.engine.last_seq(),
            request_id,
            response,
            wait_return: None,
        });
    }

    /// Refuses a request once everything recorded so far is on the disk.
    pub(super) fn refuse_when_stored(&mut self, request_id: RequestId, refusal: Error) {
        self.answer_when_stored(request_id, Response::Refused(refusal));
    }

    /// Keeps an answer until the disk has accepted or refused its records.
    fn hold(&mut self, answer: HeldAnswer) {
        self.held.push(answer);
    }

    /// Sends the answers whose records the disk has accepted or refused.
    pub(super) fn release_held(&mut self) {
        for answer in self.held.take_tried(self.store.tried) {
            if let Some(wait_return) = &answer.wait_return {
                self.engine.note_return(wait_return);
            }
            let HeldAnswer {
                request_id,
                response,
                ..
            } = answer;
            self.answer(request_id, response);
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

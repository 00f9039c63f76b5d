//! Answers to waits that have ended and to requests for the end of a task's output, and when the
//! disk allows an answer to be sent; tasks as answers and subscribers show them.

use std::sync::Arc;

use super::input::{Effect, HeldCommand, JobOutcome, LogEntry, StoreState};
use super::job_queue::{EndRead, HeldAnswer};
use super::listeners::{EndedWait, RequestId};
use super::machine::Session;
use crate::engine::{ReturnCause, WaitReturn};
use crate::model::{
    Error, Millis, Now, Ordered as _, Task, WaitOutcome, WaitResult, WindowId, text, whole_millis,
};
use crate::terminal::{PaneLog, PaneOutput};
use crate::wait::{Anchor, Cursor};
use crate::wire::{ExplainedState, Explanation, LaunchedRun, LsTask, LsView, Response, TaskBoard};

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

impl Session {
    /// Publishes the tasks of the last look.
    pub(super) fn publish_tasks(&mut self, now: Now) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let listed = |(window, task): (&WindowId, &Arc<Task>)| (*window, self.listed(task, now));
        let board = TaskBoard {
            exists: look.exists,
            tasks: look.tasks.iter().map(listed).into_map(),
        };
        self.effects.push(Effect::Tasks(board));
    }

    pub(super) fn view(&self, now: Now) -> LsView {
        let look = self.engine.last_look().cloned().unwrap_or_default();
        LsView::new(&look, true, |task| self.listed(task, now))
    }

    /// Returns a task with what is known of it besides.
    pub(super) fn listed(&self, task: &Arc<Task>, now: Now) -> LsTask {
        let window = task.window;
        let prompt = self.engine.prompt_of(window);
        let listed = LsTask::new(Arc::clone(task), prompt.map(|prompt| prompt.text.clone()));
        LsTask {
            usual_ms: self.usual.of(task),
            ..listed.with_restart(
                self.restarts.next(window, now),
                self.restarts.why_impossible(window),
            )
        }
    }

    /// Asks how long these runs usually take.
    pub(super) fn find_usual_durations(&mut self, windows: &[WindowId]) {
        for window in windows {
            let task = self.task(*window);
            // A shell has no usual duration.
            if let Some(task) = task.filter(|task| task.is_alive() && !task.shell) {
                self.effects.push(Effect::FindUsualDuration(task));
            }
        }
    }

    pub(super) fn usual_duration_found(
        &mut self,
        window: WindowId,
        run: Option<u32>,
        millis: Millis,
        now: Now,
    ) {
        let tasks = self.engine.last_look().map(|look| &look.tasks);
        let task = tasks.and_then(|tasks| Some((tasks, tasks.get(&window)?)));
        if let Some((tasks, task)) = task.filter(|(_, task)| task.is_alive() && task.run == run) {
            self.usual.add(task, millis, tasks);
            self.publish_tasks(now);
        }
    }

    /// Explains why a task is or is not judged to wait for input.
    pub(super) fn explain(&self, task: &Task, now: Now) -> Explanation {
        let engine = &self.engine;
        let look = engine.last_look();
        let terminal = look
            .and_then(|look| look.terminals.get(&task.window))
            .map(Arc::as_ref);
        let judged = engine.judgement_of(task.window);
        let mut explanation = Explanation::new(task, judged.map(|(judged, ..)| judged), terminal);
        if let Some((judged, since, reported)) = judged {
            let found = judged.found.as_ref();
            if found.is_some_and(|found| engine.user_rules().mutes(task, &found.prompt)) {
                explanation.state = ExplainedState::Muted;
            }
            explanation.waiting_since = reported.map(|now| now.wall);
            let quiet = now.mono.saturating_duration_since(since);
            explanation.quiet_ms = u64::try_from(quiet.as_millis()).ok();
        }
        explanation.next_restart = self.restarts.next(task.window, now);
        explanation.cannot_restart = self.restarts.why_impossible(task.window);
        if engine.prompt_of(task.window).is_some() {
            explanation.state = ExplainedState::Waiting;
        }
        explanation
    }
}

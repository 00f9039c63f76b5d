//! Reads of followed panes: waits and output streams begin with one, and a pane is read again after it
//! was paused or resized, or when its run has ended.

use std::sync::Arc;

use super::answers;
use super::input::{Effect, JobOutcome, LogEntry, LookOrder, RowsToRead, WRONG_OUTCOME};
use super::job_queue::{PaneRead, ReadReason, Urgent};
use super::listeners::{ActiveWait, Beginning, EndedWait, OutputStream, RequestId, verdict_since};
use super::machine::Session;
use super::wait_entry::{self, PatternLoad};
use crate::model::{Error, Now, PaneId, Task};
use crate::terminal::{PaneOutput, Utf8Splitter};
use crate::wait::{Anchor, Cursor, Spec, Wait};
use crate::wire::WaitRequest;

/// How many times a pane is read again if it was respawned between look and read.
const READINGS: usize = 5;

impl Session {
    /// Begins a wait, after a look at its window. No output of the task is missed once it has
    /// begun.
    pub(super) fn begin_wait(&mut self, request_id: RequestId, request: &WaitRequest, now: Now) {
        if !self.beginning.contains(&request_id) {
            return;
        }
        let (task, spec, anchor) = match self.prepare_wait(request) {
            Ok(prepared) => prepared,
            Err(refusal) => {
                self.beginning.remove(&request_id);
                self.refuse(request_id, refusal);
                return;
            }
        };
        let pane = task.pane.filter(|_| spec.needs_output());
        let rows = if anchor.is_some() || spec.texts().next().is_some() {
            RowsToRead::All
        } else {
            RowsToRead::LastRow
        };
        let active = ActiveWait {
            request_id,
            wait: Wait::begin(spec, task, 0, now).with_whole_run(anchor == Some(Anchor::START)),
            pane,
            anchor,
            matched_at_entry: false,
            since: None,
            tail: answers::tail(request.tail),
            owner: request.owner.clone(),
        };
        match pane {
            Some(pane) => self.jobs.begin_with(pane, rows).waits.push(active),
            None => self.start_wait(active, now),
        }
    }

    /// Begins to follow a task's output, after a look at its window.
    pub(super) fn begin_output_stream(
        &mut self,
        request_id: RequestId,
        window: &str,
        raw: bool,
        lines: usize,
    ) {
        if !self.beginning.contains(&request_id) {
            return;
        }
        let task = window.parse().ok().and_then(|window| self.task(window));
        let Some((task, pane)) = task.and_then(|task| Some((task.clone(), task.pane?))) else {
            self.beginning.remove(&request_id);
            self.refuse(request_id, Error::missing(format!("no task {window}")));
            return;
        };
        let begins = self.jobs.begin_with(pane, RowsToRead::Lines(lines));
        begins.output_streams.push(OutputStream {
            request_id,
            pane,
            task,
            raw: raw.then(Utf8Splitter::default),
            lines,
        });
    }

    /// Processes the read of a pane that is followed from there on. All output before it has been
    /// processed.
    pub(super) fn pane_read(
        &mut self,
        read: PaneRead,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        if let Ok(JobOutcome::Asked) = outcome {
            return self.jobs.asked.push_back(read);
        }
        let PaneRead { pane, rows, why } = read;
        let outcome = match outcome {
            Ok(JobOutcome::Read(output, begins)) => Ok((output, begins)),
            Ok(_) => {
                self.log(LogEntry::WrongOutcome { job: "read" });
                Err(WRONG_OUTCOME.to_owned())
            }
            Err(error) => Err(error),
        };
        match (why, outcome) {
            (ReadReason::Begin(..), Ok((output, begins))) => {
                let begins = self.without_later(pane, rows, begins);
                self.begin_all(pane, begins, &output, now);
            }
            (ReadReason::Begin(_, requests), Err(error)) => {
                self.listeners.watches.not_begun(pane);
                let message = format!("cannot read the task's output: {error}");
                for request_id in requests {
                    if self.beginning.remove(&request_id) {
                        self.refuse(request_id, Error::failed(message.clone()));
                    }
                }
            }
            (ReadReason::TakeUp(tries, task), Ok((output, ..))) => {
                if task.is_none_or(|task| !is_other_run(&output, &task)) {
                    let ended = self.listeners.resume(pane, &output, now);
                    self.finish(ended, now);
                } else if tries + 1 < READINGS {
                    self.order_take_up(pane, tries + 1);
                } else {
                    self.lose_pane(pane, now);
                }
            }
            (ReadReason::TakeUp(..), Err(error)) => {
                let purpose = "paused output";
                self.log(LogEntry::PaneNotRead {
                    pane,
                    purpose,
                    error,
                });
                self.lose_pane(pane, now);
            }
            (ReadReason::Resize, Ok((output, ..))) => self.listeners.resize(pane, &output),
            (ReadReason::Resize, Err(error)) => {
                let purpose = "new size";
                self.log(LogEntry::PaneNotRead {
                    pane,
                    purpose,
                    error,
                });
            }
        }
    }

    /// Handles the loss of the answers to reads.
    pub(super) fn lose_asked(&mut self, now: Now) {
        for read in std::mem::take(&mut self.jobs.asked) {
            let error = "the connection to tmux was lost".to_owned();
            self.pane_read(read, Err(error), now);
        }
    }

    /// Returns what can begin with a read of this pane. While it is paused, what was written before the
    /// read arrives later, with another one: those that must not get it begin behind that.
    fn without_later(
        &mut self,
        pane: PaneId,
        rows: RowsToRead,
        mut begins: Beginning,
    ) -> Beginning {
        if !self.listeners.is_paused(pane) {
            return begins;
        }
        let is_later = |active: &mut ActiveWait| active.anchor.is_none();
        let waits: Vec<_> = begins.waits.extract_if(.., is_later).collect();
        let streams = std::mem::take(&mut begins.output_streams);
        if !waits.is_empty() || !streams.is_empty() {
            let later = self.jobs.begin_with(pane, rows);
            later.waits.extend(waits);
            later.output_streams.extend(streams);
        }
        begins
    }

    fn begin_all(&mut self, pane: PaneId, begins: Beginning, output: &PaneOutput, now: Now) {
        let since = self.listeners.follow(pane, output);
        for mut active in begins.waits {
            active.wait.count_from(since);
            self.start_wait(active, now);
        }
        for stream in begins.output_streams {
            if self.beginning.remove(&stream.request_id) {
                let (request_id, task) = (stream.request_id, Arc::clone(&stream.task));
                self.listeners.add_output_stream(stream, &output.lines);
                self.effects.push(Effect::Following(request_id));
                if self
                    .task(task.window)
                    .is_none_or(|now| now.run != task.run || !now.is_alive())
                {
                    // Its run has ended meanwhile: the next look ends the stream.
                    self.order(LookOrder::of([task.window]));
                }
            }
        }
        self.watches_begun(begins.watches, since, now);
        self.listeners.forget_idle_streams();
    }

    /// Adds a wait, or ends it if it has a verdict already.
    fn start_wait(&mut self, mut active: ActiveWait, now: Now) {
        if !self.beginning.remove(&active.request_id) {
            // The client has disconnected.
            return;
        }
        self.effects.push(Effect::Begun(active.request_id));
        let wait = &mut active.wait;
        let verdict = match active.since {
            Some(since) => verdict_since(wait, since, now),
            None => None,
        };
        let look = self.engine.last_look().cloned().unwrap_or_default();
        let look = self.ended_runs.look_for(&wait.entry, look);
        let prompt = self.engine.prompt_of(wait.window());
        let restarts_in = self.restarts.next_in(wait.window(), now);
        match verdict.or_else(|| wait.look(&look, prompt, restarts_in)) {
            Some(verdict) => self.finish(vec![EndedWait { active, verdict }], now),
            None => {
                self.port_looks.begin(now.mono);
                self.listeners.add_wait(active);
            }
        }
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

    /// Processes the contents of an ended run's pane.
    pub(super) fn last_output_read(
        &mut self,
        pane: PaneId,
        task: &Arc<Task>,
        rows: RowsToRead,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let output = match outcome {
            Ok(JobOutcome::Read(output, ..)) => output,
            Ok(_) => return,
            Err(error) => {
                let purpose = "last output of a run";
                self.log(LogEntry::PaneNotRead {
                    pane,
                    purpose,
                    error,
                });
                return;
            }
        };
        if is_other_run(&output, task) {
            self.log(LogEntry::RunReplaced { pane });
            // The read has paused the pane.
            self.order_take_up(pane, 0);
            return;
        }
        if rows == RowsToRead::LastRow {
            if self.listeners.is_short_of(pane, &output) {
                // More was written than has arrived: the beginning of it is in the history.
                let last = Urgent::LastOutput(pane, Arc::clone(task), RowsToRead::All);
                self.jobs.push_first(last);
            }
            return;
        }
        let ended = self.listeners.end(pane, task.run, &output, now);
        self.finish(ended, now);
    }

    /// Orders reading the sizes of all followed panes.
    pub(super) fn read_sizes(&mut self) {
        for pane in self.listeners.panes() {
            self.jobs.resize(pane);
        }
    }

    /// Orders reading a paused pane, after a look at it.
    pub(super) fn take_up(&mut self, pane: PaneId, tries: usize) {
        if self.listeners.follows(pane) {
            let task = self.task_in(pane);
            self.jobs.take_up(pane, tries, task);
        }
    }

    fn lose_pane(&mut self, pane: PaneId, now: Now) {
        let ended = self.listeners.lose(|lost| lost == pane);
        self.finish(ended, now);
        self.watch_runs();
    }
}

/// Whether the pane runs another process than the task did at the look.
fn is_other_run(output: &PaneOutput, task: &Task) -> bool {
    output.pid.is_some() && output.pid != task.pid
}

/// Returns the refusal for a run that cannot be waited for any more.
fn closed(window: &str, run: u32) -> Error {
    let message = format!("run {run} of {window} is over and its window is closed");
    Error::missing(message)
}

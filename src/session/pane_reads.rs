//! Reads of followed panes: waits and output streams begin with one, and a pane is read again after it
//! was paused or resized, or when its run has ended.

use std::sync::Arc;

use super::effect::{Effect, LookOrder, RowsToRead};
use super::input::{JobOutcome, RequestId};
use super::listeners::{ActiveWait, EndedWait, verdict_since};
use super::log_entry::{LogEntry, WRONG_OUTCOME};
use super::machine::Session;
use super::queue_items::{Begin, OutputStreamEntry, PaneRead, ReadReason, Urgent};
use super::wait_entry::{self, Entry, EntryRead, PatternLoad};
use super::wait_result;
use super::watch_entry::WatchEntry;
use crate::model::{Error, Now, PaneId, Task};
use crate::terminal::PaneOutput;
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
        let begin = Begin {
            request_id,
            entry: Some(Entry {
                wait: Wait::begin(spec, task, 0, now).with_whole_run(anchor == Some(Anchor::START)),
                anchor,
                reading: EntryRead::default(),
            }),
            tail: wait_result::tail(request.tail),
            owner: request.owner.clone(),
        };
        match pane {
            Some(pane) => {
                if let ReadReason::Begin { entries, .. } = self.jobs.begin_with(pane, rows) {
                    entries.push(begin);
                }
            }
            None => self.start_wait(begin, None, now),
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
        if let ReadReason::Begin { output_streams, .. } =
            self.jobs.begin_with(pane, RowsToRead::Lines(lines))
        {
            output_streams.push(OutputStreamEntry {
                request_id,
                task,
                raw,
                lines,
            });
        }
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
            Ok(JobOutcome::Read(output, entries, watches)) => Ok((output, entries, watches)),
            Ok(_) => {
                self.log(LogEntry::WrongOutcome { job: "read" });
                Err(WRONG_OUTCOME.to_owned())
            }
            Err(error) => Err(error),
        };
        match (why, outcome) {
            (
                ReadReason::Begin {
                    entries,
                    output_streams,
                    watches: _,
                },
                Ok((output, judged, searched)),
            ) => {
                let waits = entries.into_iter().zip(judged).collect();
                let (waits, output_streams) = self.later(pane, rows, waits, output_streams);
                self.begin_all(pane, waits, output_streams, &output, searched, now);
            }
            (
                ReadReason::Begin {
                    entries,
                    output_streams,
                    watches: _,
                },
                Err(error),
            ) => {
                self.listeners.watches.not_begun(pane);
                let message = format!("cannot read the task's output: {error}");
                // The link has the entries; their requests are those that are still beginning.
                let asks = entries.iter().map(|begin| begin.request_id);
                let asks: Vec<RequestId> = asks
                    .chain(output_streams.iter().map(|listener| listener.request_id))
                    .collect();
                for request_id in asks {
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

    /// Returns the listeners that can begin with a read of this pane. While it is paused, what was written
    /// before the read arrives later, with another one: those that must not get it begin behind that.
    fn later(
        &mut self,
        pane: PaneId,
        rows: RowsToRead,
        waits: Vec<(Begin, Entry)>,
        output_streams: Vec<OutputStreamEntry>,
    ) -> (Vec<(Begin, Entry)>, Vec<OutputStreamEntry>) {
        if !self.listeners.is_paused(pane) {
            return (waits, output_streams);
        }
        let is_later = |(_, entry): &(Begin, Entry)| entry.anchor.is_none();
        let (later, waits): (Vec<_>, Vec<_>) = waits.into_iter().partition(is_later);
        if later.is_empty() && output_streams.is_empty() {
            return (waits, output_streams);
        }
        if let ReadReason::Begin {
            entries,
            output_streams: streams,
            ..
        } = self.jobs.begin_with(pane, rows)
        {
            entries.extend(later.into_iter().map(|(mut begin, mut entry)| {
                entry.reading = EntryRead::default();
                begin.entry = Some(entry);
                begin
            }));
            streams.extend(output_streams);
        }
        (waits, Vec::new())
    }

    fn begin_all(
        &mut self,
        pane: PaneId,
        waits: Vec<(Begin, Entry)>,
        output_streams: Vec<OutputStreamEntry>,
        output: &PaneOutput,
        searched: Vec<WatchEntry>,
        now: Now,
    ) {
        let since = self.listeners.follow(pane, output);
        for (mut begin, mut entry) in waits {
            entry.wait.count_from(since);
            begin.entry = Some(entry);
            self.start_wait(begin, Some(pane), now);
        }
        for OutputStreamEntry {
            request_id,
            task,
            raw,
            lines,
        } in output_streams
        {
            if self.beginning.remove(&request_id) {
                self.listeners
                    .add_output_stream(request_id, pane, &task, raw);
                let n_older = output.lines.len().saturating_sub(lines);
                self.listeners.send(request_id, &output.lines[n_older..]);
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
        self.watches_begun(searched, since, now);
        self.listeners.forget_idle_streams();
    }

    /// Adds a wait, or ends it if it has a verdict already.
    fn start_wait(&mut self, begin: Begin, pane: Option<PaneId>, now: Now) {
        let Begin {
            request_id,
            entry,
            tail,
            owner,
        } = begin;
        let Some(Entry {
            mut wait, reading, ..
        }) = entry.filter(|_| self.beginning.remove(&request_id))
        else {
            // The client has disconnected.
            return;
        };
        self.effects.push(Effect::Begun(request_id));
        let verdict = match reading.since {
            Some(since) => verdict_since(&mut wait, since, now),
            None => None,
        };
        let look = self.engine.last_look().cloned().unwrap_or_default();
        let look = self.ended_runs.look_for(&wait.entry, look);
        let prompt = self.engine.prompt_of(wait.window());
        let restarts_in = self.restarts.next_in(wait.window(), now);
        let verdict = verdict.or_else(|| wait.look(&look, prompt, restarts_in));
        let active = ActiveWait {
            request_id,
            began: wait.began,
            wait,
            pane,
            matched_at_entry: reading.is_text_there,
            tail,
            owner,
        };
        match verdict {
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
        let life = self.link.life.as_ref().map(Cursor::life_of);
        if cursor.window != task.window || life.as_ref() != Some(&cursor.life) {
            let why = "the cursor is of another task or of another life of the session";
            return Err(Error::failed(why.to_owned()));
        }
        if Some(cursor.run) != task.run {
            let run = task.run.unwrap_or_default();
            let message = format!(
                "the cursor is of run {}, the task is at run {run}",
                cursor.run
            );
            return Err(Error::failed(message));
        }
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
        let ended = self.listeners.lose(pane);
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

//! Reads of followed panes: waits and output streams begin with one, and a pane is read again after it
//! was paused or resized, or when its run has ended.

use std::cell::OnceCell;
use std::sync::Arc;

use super::input::{Job, LogLevel, LookOrder, PaneRead, Reply};
use super::job_queue::Turn;
use super::listeners::{ActiveWait, Beginning};
use super::output_watches::{PaneStream, is_other_run};
use super::promise::promise;
use super::state::{Cx, State};
use super::stories::Link;
use crate::model::{Error, Now, PaneId, Task, WaitResult};
use crate::rules::terminal::{Extent, PaneOutput};

/// How many times a pane is read again if it was respawned between look and read.
const READINGS: usize = 5;

/// Reads a pane when it is its turn, and begins to follow it with what is ordered until then.
async fn begin_to_follow(cx: Cx, pane: PaneId) {
    let link = turn_to_read(&cx, pane).await;
    let Some(begins) = cx.with(|state| state.jobs.begins.remove(&pane)) else {
        return;
    };
    let read = read(&cx, link, pane, begins.extent(), None).await;
    cx.with(|state| {
        match read {
            Ok(output) => state.follow_read(pane, begins, &output),
            Err(error) => {
                let message = format!("cannot read the task's output: {}", error.message);
                begins.refuse(&Error::failed(message));
                state.listeners.watches.not_begun(pane);
            }
        }
        let beginning = &mut state.jobs.beginning;
        if let Some(at) = beginning.iter().position(|other| *other == pane) {
            beginning.remove(at);
        }
    });
}

/// Reads a pane that was paused, after a look at it, and continues there.
async fn take_up(cx: Cx, pane: PaneId) {
    for _ in 0..READINGS {
        let window = cx.with(|state| state.task_in(pane).map(|task| task.window));
        cx.look(LookOrder::of(window)).await;
        if cx.with(|state| state.listeners.stream(pane).is_none()) {
            return;
        }
        let task = cx.with(|state| state.task_in(pane));
        let link = cx.turn(Turn::TakeUp).await;
        match read(&cx, link, pane, Extent::ALL, None).await {
            Ok(output) => {
                if task.is_none_or(|task| !is_other_run(&output, &task)) {
                    return cx.with(|state| state.listeners.resume(pane, &output, state.now));
                }
            }
            Err(error) => {
                cx.with(|state| state.log_unread(pane, "paused output", error));
                break;
            }
        }
    }
    cx.with(|state| {
        state.listeners.lose(|lost| lost == pane);
        state.watch_runs();
    });
}

/// Processes what the ended run of this pane has written last.
pub(super) async fn read_last_output(cx: &Cx, pane: PaneId, task: &Arc<Task>) {
    let read = read_ended(cx, pane, Extent::SCREEN, task).await;
    let is_missing = cx.with(|state| {
        let output = state.last_output(pane, task, read);
        let stream = state.listeners.stream(pane);
        output.is_some_and(|output| stream.is_some_and(|stream| stream.is_short_of(&output)))
    });
    if !is_missing {
        return;
    }
    // More was written than has arrived: the beginning of it is in the history.
    let read = read_ended(cx, pane, Extent::ALL, task).await;
    cx.with(|state| {
        if let Some(output) = state.last_output(pane, task, read) {
            state.listeners.end(pane, task.run, &output, state.now);
        }
    });
}

/// Searches the output of an ended run, which was not followed.
pub(super) async fn read_ended_run(cx: &Cx, pane: PaneId, task: Arc<Task>) {
    let read = read_ended(cx, pane, Extent::ALL, &task).await;
    cx.with(|state| match read {
        Ok(output) => {
            let begins = Beginning {
                watches: vec![task],
                ..Beginning::default()
            };
            state.follow_read(pane, begins, &output);
        }
        Err(error) => {
            state.listeners.watches.not_begun(pane);
            state.log_unread(pane, "search", error);
        }
    });
}

/// Waits for the turn to read a pane, of which one read at a time is asked. Others are combined meanwhile.
async fn turn_to_read(cx: &Cx, pane: PaneId) -> Link<'_> {
    loop {
        cx.until(move |state| !state.jobs.is_asked(pane)).await;
        let link = cx.turn(Turn::Read).await;
        if !cx.with(|state| state.jobs.is_asked(pane)) {
            return link;
        }
    }
}

/// Reads a pane, perhaps for what this ended run has written last, after all output before that.
async fn read(
    cx: &Cx,
    link: Link<'_>,
    pane: PaneId,
    extent: Extent,
    last_of: Option<Arc<Task>>,
) -> PaneRead {
    let task = cx.with(|state| state.task_in(pane));
    let is_over = last_of.is_some() || task.is_some_and(|task| !task.is_alive());
    let read = link.run(|outcome| Job::Read {
        pane,
        extent,
        is_over,
        last_of,
        outcome,
    });
    let read = read.await;
    // The link follows every pane that it has read.
    cx.with(|state| state.followed = None);
    if let Some(read) = read? {
        return Ok(read);
    }
    let (resolver, read) = promise();
    cx.with(|state| state.jobs.asked.push_back((pane, resolver)));
    let read = read.await;
    cx.with(|state| state.followed = None);
    read
}

/// Reads the pane of an ended run, before everything else.
async fn read_ended(cx: &Cx, pane: PaneId, extent: Extent, task: &Arc<Task>) -> PaneRead {
    let link = cx.turn(Turn::LastOutput).await;
    cx.with(|state| state.jobs.last_output_of = Some(pane));
    let read = read(cx, link, pane, extent, Some(Arc::clone(task))).await;
    cx.with(|state| state.jobs.last_output_of = None);
    read
}

impl State {
    /// Returns what begins with the next read of a pane, one for all of it.
    pub(super) fn begin_with(&mut self, pane: PaneId) -> &mut Beginning {
        if !self.jobs.begins.contains_key(&pane) {
            self.jobs.beginning.push(pane);
            self.spawn(move |cx| begin_to_follow(cx, pane));
        }
        self.jobs.begins.entry(pane).or_default()
    }

    pub(super) fn read_sizes(&mut self) {
        for pane in self.listeners.panes() {
            self.begin_with(pane).is_resized = true;
        }
    }

    /// Orders reading a paused pane, after a look at it.
    pub(super) fn order_take_up(&mut self, pane: PaneId) {
        self.spawn(move |cx| take_up(cx, pane));
    }

    pub(super) fn lose_asked(&mut self) {
        for (_, asked) in std::mem::take(&mut self.jobs.asked) {
            asked.resolve(Err(Error::failed("the connection to tmux was lost")));
        }
    }

    pub(super) fn log_unread(&mut self, pane: PaneId, purpose: &str, error: Error) {
        let error = error.message;
        let text = format!("could not read a pane error={error:?} pane={pane} purpose={purpose:?}");
        self.log(LogLevel::Debug, text);
    }

    /// Returns what can begin with a read of this pane. While it is paused, what was written before the
    /// read arrives later, with another one: those that must not get it begin behind that.
    fn without_later(&mut self, pane: PaneId, mut begins: Beginning) -> Beginning {
        let stream = self.listeners.stream(pane);
        if !stream.is_some_and(PaneStream::is_paused) {
            return begins;
        }
        let is_later = |active: &mut ActiveWait| active.wait.anchor.is_none();
        let waits: Vec<_> = begins.waits.extract_if(.., is_later).collect();
        let streams = std::mem::take(&mut begins.output_streams);
        if !waits.is_empty() || !streams.is_empty() {
            let later = self.begin_with(pane);
            later.waits.extend(waits);
            later.output_streams.extend(streams);
        }
        begins
    }

    /// Follows a pane from a read of it on, and begins what begins with that.
    fn follow_read(&mut self, pane: PaneId, begins: Beginning, output: &PaneOutput) {
        let now = self.now;
        let begins = self.without_later(pane, begins);
        let since = self.listeners.follow(pane, output, begins.is_resized);
        // The lines of the read are joined once for all waits.
        let lines = OnceCell::new();
        for mut active in begins.waits {
            let verdict = active.wait.read_entry(output, &lines, now);
            active.wait.count_from(since);
            self.start_wait(active, verdict, now);
        }
        for stream in begins.output_streams {
            // Its client may have disconnected.
            if stream.done.is_wanted() {
                let task = Arc::clone(&stream.task);
                self.reply(stream.request_id, Reply::Begun);
                self.listeners.add_output_stream(stream, &output.lines);
                let now = self.task(task.window);
                if now.is_none_or(|now| now.run != task.run || !now.is_alive()) {
                    // Its run has ended meanwhile: the next look ends the stream.
                    self.order(LookOrder::of([task.window]));
                }
            }
        }
        for task in begins.watches {
            let watches = &mut self.listeners.watches;
            watches.begun(&task, output, since, now.mono);
            if self.task(task.window).is_none_or(|task| !task.is_alive()) {
                // Its run has ended meanwhile: the next look reports what was found.
                self.order(LookOrder::of([task.window]));
            }
        }
        self.report_matches(now);
    }

    pub(super) fn start_wait(
        &mut self,
        mut active: ActiveWait,
        verdict: Option<WaitResult>,
        now: Now,
    ) {
        if !active.done.is_wanted() {
            // The client has disconnected.
            return;
        }
        self.reply(active.request_id, Reply::Begun);
        let wait = &mut active.wait;
        let look = self.engine.last_look().cloned().unwrap_or_default();
        let look = self.ended_runs.look_for(&wait.entry, look);
        let prompt = self.engine.episodes.unanswered_prompt_of(wait.window());
        let restarts_in = self.restarts.next_in(wait.window(), now);
        match verdict.or_else(|| wait.look(&look, prompt, restarts_in)) {
            Some(verdict) => active.done.resolve(Ok((active.wait, verdict))),
            None => {
                self.port_looks.begin(now.mono);
                self.listeners.waits.push(active);
            }
        }
    }

    /// Returns the contents of an ended run's pane, if they could be read and are that run's.
    fn last_output(
        &mut self,
        pane: PaneId,
        task: &Task,
        read: PaneRead,
    ) -> Option<Box<PaneOutput>> {
        match read {
            Ok(output) if is_other_run(&output, task) => {
                // The read has paused the pane.
                self.order_take_up(pane);
                None
            }
            Ok(output) => Some(output),
            Err(error) => {
                self.log_unread(pane, "last output of a run", error);
                None
            }
        }
    }
}

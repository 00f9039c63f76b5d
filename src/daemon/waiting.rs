//! Waits and readers of output, as the hub serves them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::control_clients::Change;
use super::hub::Hub;
use super::output_queue::OutputReceiver;
use super::waits::{self, Active, Done};
use crate::clock::now;
use crate::model::{PaneId, Seq, Task, WindowId};
use crate::tmux::{History, PaneOutput};
use crate::wait::{Anchor, Cursor, Verdict, Wait};
use crate::wire::{Refusal, RefusalKind, Response, WaitRequest};

/// How long tmux may take to read what a run wrote last, once the kernel has told of its end.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How often a pane is read again that was respawned between a look and the reading.
const READINGS: usize = 5;

/// Begins a wait; the answer comes when it has ended, which may be at once. Nothing that the task
/// prints after `says_begun` is missed.
pub(super) async fn begin(
    hub: &mut Hub,
    request: WaitRequest,
    says_begun: oneshot::Sender<()>,
    reply: oneshot::Sender<Response>,
) {
    let begun = try_begin(hub, &request, reply).await;
    let task = request.window.parse().ok();
    if let Some(task) = task.and_then(|window| task_of(hub, window)) {
        hub.engine.wait_begun(&task.name, request.owner.as_deref());
    }
    match begun {
        Ok(done) => {
            // An asker that has left need not know.
            says_begun.send(()).unwrap_or_default();
            finish(hub, done).await;
        }
        Err((reply, refusal)) => {
            // An asker that has left needs no answer.
            drop(reply.send(Response::Refused(refusal)));
        }
    }
}

type Reply = oneshot::Sender<Response>;

async fn try_begin(
    hub: &mut Hub,
    request: &WaitRequest,
    reply: Reply,
) -> Result<Vec<Done>, (Reply, Refusal)> {
    let spec = match waits::spec(request, hub.waits.n_patterns()) {
        Ok(spec) => spec,
        Err(refusal) => return Err((reply, refusal)),
    };
    hub.look().await;
    let entry = match entry(hub, request) {
        Ok(entry) => entry,
        Err(refusal) => return Err((reply, refusal)),
    };
    let (task, anchor) = entry;
    let begun = now();
    let mut matched_at_entry = false;
    let mut since = 0;
    let mut done = Vec::new();
    let mut output = None;
    if let (true, Some(pane)) = (spec.needs_output(), task.pane) {
        let is_over = !task.is_alive();
        match hub.watch.follow_output(pane, History::Whole, is_over).await {
            Ok(heard) => {
                done.extend(hear_until(hub, heard.before));
                since = hub.waits.hear(pane, &heard.output);
                hub.watch.follow_only(hub.waits.panes()).await;
                hub.backlog.extend(heard.after);
                matched_at_entry = waits::stands_there(&spec, &heard.output);
                output = Some(heard.output);
            }
            Err(error) => {
                hub.watch.follow_only(hub.waits.panes()).await;
                let message = format!("cannot read the task's output: {error}");
                return Err((reply, Refusal::new(RefusalKind::Failed, message)));
            }
        }
    }
    let pane = task.pane.filter(|_| output.is_some());
    let mut wait = Wait::begin(spec, task, since, begun);
    let mut verdict = None;
    if let (Some(anchor), Some(output)) = (anchor, &output) {
        // What was written since the cursor counts as if it were written now; the terminal's own
        // cells are all old.
        verdict = match waits::give_since(&mut wait, &anchor, output) {
            None => Some(Verdict::anchor_lost()),
            Some(true) => wait.heard(begun),
            Some(false) => None,
        };
    }
    if verdict.is_none() {
        let look = hub.engine.before().cloned().unwrap_or_default();
        verdict = wait.look(&look, hub.engine.prompt_of(wait.window()));
    }
    let active = Active::begin(wait, pane, matched_at_entry, request, reply, begun);
    match verdict {
        Some(verdict) => done.push(active.done(verdict)),
        None => hub.waits.add(active),
    }
    Ok(done)
}

/// Returns the run to wait on and where in its output to begin.
fn entry(hub: &Hub, request: &WaitRequest) -> Result<(Arc<Task>, Option<Anchor>), Refusal> {
    let missing = |message: String| Refusal::new(RefusalKind::Missing, message);
    let window: WindowId = request
        .window
        .parse()
        .map_err(|_| missing(format!("no task {}", request.window)))?;
    let task = task_of(hub, window).ok_or_else(|| {
        missing(match request.run {
            // Whoever names the run has seen it.
            Some(run) => format!("run {run} of {window} is over and its window is closed"),
            None => format!("no task {window}"),
        })
    })?;
    let failed = |message: String| Refusal::new(RefusalKind::Failed, message);
    if let (Some(wanted), Some(run)) = (request.run, task.run)
        && wanted != run
    {
        return Err(failed(format!(
            "run {wanted} of task {window} is over, it is at run {run}"
        )));
    }
    let Some(text) = &request.since else {
        return Ok((task, None));
    };
    let cursor: Cursor = text
        .parse()
        .map_err(|error| waits::usage(format!("{error}")))?;
    let life = hub.watch.life().map(Cursor::life_of);
    if cursor.window != window || life.as_ref() != Some(&cursor.life) {
        let why = "the cursor is of another task or of another life of the session";
        return Err(failed(why.to_owned()));
    }
    if Some(cursor.run) != task.run {
        let run = task.run.unwrap_or_default();
        return Err(failed(format!(
            "the cursor is of run {}, the task is at run {run}",
            cursor.run
        )));
    }
    Ok((task, Some(cursor.anchor)))
}

/// Takes what was told, in order; returns the waits that it ends.
pub(super) fn hear(hub: &mut Hub, changes: Vec<Change>) -> Vec<Done> {
    let mut done = Vec::new();
    for change in changes {
        match change {
            Change::Printed { pane, bytes } => {
                done.extend(hub.waits.printed(pane, &bytes, now()));
                read_again_if_unknown(hub, pane);
            }
            Change::Output => hub.pace.printed(),
            Change::Task | Change::Windows => hub.pace.at_once(),
            Change::Paused(pane) => {
                if hub.waits.broke_off(pane) && !hub.paused.contains(&pane) {
                    hub.paused.push(pane);
                }
            }
            // The caller finishes with `finish`, which pauses it.
            Change::Unfollowed => {}
            Change::FollowerLost => {
                // Whether the session has gone as well is for a look to say.
                hub.is_follower_lost = true;
                hub.pace.at_once();
            }
            Change::Layout => hub.is_layout_changed = true,
        }
    }
    done
}

/// The same for what was told before a reading: behind what waits to be heard.
fn hear_until(hub: &mut Hub, before: Vec<Change>) -> Vec<Done> {
    let mut told: Vec<Change> = hub.backlog.drain().collect();
    told.extend(before);
    hear(hub, told)
}

/// Takes output of a pane that somebody hears.
pub(super) async fn printed(hub: &mut Hub, pane: PaneId, bytes: &[u8]) {
    let done = hub.waits.printed(pane, bytes, now());
    read_again_if_unknown(hub, pane);
    finish(hub, done).await;
}

/// Has a pane read again whose screen is not known, with the next look.
fn read_again_if_unknown(hub: &mut Hub, pane: PaneId) {
    if hub.waits.is_guess(pane) {
        hub.is_layout_changed = true;
        hub.pace.at_once();
    }
}

/// Takes account of a look: all that was told before it is heard first.
pub(super) async fn looked(hub: &mut Hub) {
    if let Some(look) = hub.engine.before()
        && hub.waits.is_over(look)
    {
        // What the run wrote last was told by another client: it comes before its end.
        hub.watch.drain_output().await;
    }
    let told = hub.watch.take_changes().await;
    let mut done = Vec::new();
    if hub.heard_connection != hub.watch.connections() {
        hub.heard_connection = hub.watch.connections();
        done.extend(hub.waits.lost());
    }
    done.extend(hear_until(hub, told));
    done.extend(hear_last_words(hub).await);
    if let Some(look) = hub.engine.before() {
        let engine = &hub.engine;
        let prompt_of = |window| engine.prompt_of(window);
        done.extend(hub.waits.looked(look, prompt_of));
    }
    if std::mem::take(&mut hub.is_follower_lost) {
        done.extend(hub.waits.lost());
    }
    finish(hub, done).await;
}

/// Reads what stands in panes whose runs have ended, where somebody heard them.
async fn hear_last_words(hub: &mut Hub) -> Vec<Done> {
    let heard = hub.waits.panes();
    let tasks = hub
        .engine
        .before()
        .into_iter()
        .flat_map(|look| look.tasks.values());
    let ended: Vec<(PaneId, Arc<Task>)> = tasks
        .filter(|task| !task.is_alive())
        .filter_map(|task| Some((task.pane?, Arc::clone(task))))
        .filter(|(pane, _)| heard.contains(pane))
        .collect();
    let mut done = Vec::new();
    for (pane, task) in ended {
        let began = tokio::time::Instant::now();
        loop {
            match hub.watch.follow_output(pane, History::Whole, true).await {
                Ok(heard) => {
                    done.extend(hear_until(hub, heard.before));
                    hub.backlog.extend(heard.after);
                    if is_other_run(&heard.output, &task) {
                        tracing::debug!(%pane, "a run was replaced before its end was read");
                        hub.pace.at_once();
                        break;
                    }
                    // The kernel may have told of the end before tmux has read all.
                    if heard.output.is_dead || began.elapsed() >= LAST_WORDS {
                        done.extend(hub.waits.ended(pane, task.run, &heard.output, now()));
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                Err(error) => {
                    tracing::debug!(%error, %pane, "could not read what a run wrote last");
                    break;
                }
            }
        }
    }
    done
}

/// Whether the pane runs another process than the task did when it was looked at.
fn is_other_run(output: &PaneOutput, task: &Task) -> bool {
    output.pid.is_some() && output.pid != task.pid
}

/// Takes account of the time.
pub(super) async fn tick(hub: &mut Hub) {
    let done = hub.waits.tick(now());
    finish(hub, done).await;
}

/// Takes up the output of a pane that tmux has paused: what did not arrive is still in the pane's
/// history, or is lost. A respawn pauses a pane as well, and then its waits end by the look.
pub(super) async fn take_up(hub: &mut Hub, pane: PaneId) {
    for _ in 0..READINGS {
        hub.look_at_told().await;
        if !hub.waits.panes().contains(&pane) {
            return;
        }
        let task = task_in(hub, pane);
        let is_over = task.as_ref().is_some_and(|task| !task.is_alive());
        let heard = match hub.watch.follow_output(pane, History::Whole, is_over).await {
            Ok(heard) => heard,
            Err(error) => {
                tracing::debug!(%error, %pane, "could not read what a pane had printed");
                let done = hub.waits.lost_pane(pane);
                finish(hub, done).await;
                return;
            }
        };
        let mut done = hear_until(hub, heard.before);
        let is_current = task.is_none_or(|task| !is_other_run(&heard.output, &task));
        if is_current {
            done.extend(hub.waits.resumed(pane, &heard.output, now()));
        }
        hub.backlog.extend(heard.after);
        finish(hub, done).await;
        if is_current {
            return;
        }
        hub.look().await;
    }
    let done = hub.waits.lost_pane(pane);
    finish(hub, done).await;
}

/// Takes up the sizes of panes that may have changed.
pub(super) async fn relayout(hub: &mut Hub) {
    hub.is_layout_changed = false;
    let mut done = Vec::new();
    for pane in hub.waits.panes() {
        let is_over = task_in(hub, pane).is_some_and(|task| !task.is_alive());
        match hub
            .watch
            .follow_output(pane, History::LastRow, is_over)
            .await
        {
            Ok(heard) => {
                done.extend(hear_until(hub, heard.before));
                hub.waits.resized(pane, &heard.output);
                hub.backlog.extend(heard.after);
            }
            Err(error) => tracing::debug!(%error, %pane, "could not read a pane's new size"),
        }
    }
    finish(hub, done).await;
}

/// Answers waits that have ended.
pub(super) async fn finish(hub: &mut Hub, done: Vec<Done>) {
    // Also when nobody is to be answered: an asker may have left.
    hub.watch.follow_only(hub.waits.panes()).await;
    for done in done {
        let task = task_of(hub, done.window).filter(|task| task.run == done.run);
        let end = match &task {
            Some(task) => end_of(hub, task, done.tail).await,
            None => None,
        };
        let rests_on = match done.sighting() {
            Some(_) => hub.recorder.given_seq(),
            // It reports no event.
            None => 0,
        };
        hub.held_answers.push(HeldAnswer {
            rests_on,
            done,
            end,
        });
    }
    answer_held(hub);
}

/// The answer of a wait that has ended, until the record of the event that it reports is written.
pub(super) struct HeldAnswer {
    /// The number of the last record that was handed over by then; 0 when it reports no event.
    rests_on: Seq,
    done: Done,
    end: Option<(Cursor, PaneOutput)>,
}

/// Answers the waits whose events the disk has taken or refused. A disk that refuses is reported as
/// the daemon's problem, and waits are answered all the same.
pub(super) fn answer_held(hub: &mut Hub) {
    let tried = hub.recorder.tried_seq();
    let held = std::mem::take(&mut hub.held_answers);
    let (ready, held): (Vec<_>, Vec<_>) = held
        .into_iter()
        .partition(|answer| answer.rests_on <= tried);
    hub.held_answers = held;
    for HeldAnswer { done, end, .. } in ready {
        let sighting = done.sighting();
        if done.answer(end)
            && let Some(sighting) = sighting
        {
            hub.engine.see(&sighting);
        }
    }
}

/// Returns the place at which a task's output ends now.
pub(super) async fn cursor(hub: &mut Hub, window: &str) -> Response {
    hub.look().await;
    let task = window.parse().ok().and_then(|window| task_of(hub, window));
    let end = match &task {
        Some(task) => end_of(hub, task, 0).await,
        None => None,
    };
    match end {
        Some((cursor, _)) => Response::Cursor {
            cursor: cursor.to_string(),
        },
        None => Response::Refused(Refusal::new(
            RefusalKind::Missing,
            format!("no task {window}"),
        )),
    }
}

/// Begins to tell a task's output, line by line or as it comes.
pub(super) async fn follow(
    hub: &mut Hub,
    window: &str,
    raw: bool,
) -> Result<OutputReceiver, Refusal> {
    hub.look().await;
    let failed = |kind, message: String| Err(Refusal::new(kind, message));
    let task = window.parse().ok().and_then(|window| task_of(hub, window));
    let Some((task, pane)) = task.and_then(|task| Some((task.clone(), task.pane?))) else {
        return failed(RefusalKind::Missing, format!("no task {window}"));
    };
    let is_over = !task.is_alive();
    match hub
        .watch
        .follow_output(pane, History::LastRow, is_over)
        .await
    {
        Ok(heard) => {
            let done = hear_until(hub, heard.before);
            hub.waits.hear(pane, &heard.output);
            let lines = hub.waits.follow(pane, &task, raw);
            hub.watch.follow_only(hub.waits.panes()).await;
            hub.backlog.extend(heard.after);
            finish(hub, done).await;
            Ok(lines)
        }
        Err(error) => {
            hub.watch.follow_only(hub.waits.panes()).await;
            failed(
                RefusalKind::Failed,
                format!("cannot read the task's output: {error}"),
            )
        }
    }
}

/// Returns where a task's output ends now, and what it ends with: the screen, and so many rows above
/// it.
async fn end_of(hub: &mut Hub, task: &Task, rows: usize) -> Option<(Cursor, PaneOutput)> {
    let pane = task.pane?;
    let life = hub.watch.life().map(Cursor::life_of)?;
    match hub.watch.read_end(pane, rows).await {
        Ok(output) => {
            let (column, _) = output.cursor;
            let cursor = Cursor {
                life,
                window: task.window,
                run: task.run?,
                anchor: Anchor::at(
                    &output.rows,
                    output.first_row(),
                    output.cursor_row(),
                    column,
                ),
            };
            Some((cursor, output))
        }
        Err(error) => {
            tracing::debug!(%error, %pane, "no cursor");
            None
        }
    }
}

fn task_of(hub: &Hub, window: WindowId) -> Option<Arc<Task>> {
    hub.engine.before()?.tasks.get(&window).cloned()
}

fn task_in(hub: &Hub, pane: PaneId) -> Option<Arc<Task>> {
    let tasks = &hub.engine.before()?.tasks;
    tasks.values().find(|task| task.pane == Some(pane)).cloned()
}

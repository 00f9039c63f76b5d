//! Processes looks: records, waits, also for ports, when to look again, and how the output of runs with
//! patterns is searched: before a look that shows their end, and from the reads with which it begins.
//!
//! A look is at the windows that its order names and at those that were reported; a sweep is at the next slice
//! of all windows. Queued orders become one, and a look that is under way never answers a request that came
//! after it began. An order that is a barrier makes sure that all of tmux's reports are in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::deadlines::{NUDGE_EVERY, NUDGE_FOR};
use super::input::{Effect, Job, LogLevel, Look, LookOrder, LookOutcome};
use super::job_queue::{QueuedLook, Turn};
use super::listeners::ActiveWait;
use super::look_schedule::{Due, LookResult, Reporting};
use super::pane_reads::{read_ended_run, read_last_output};
use super::promise::Resolver;
use super::state::{Cx, SAVE_WITHIN, State};
use crate::model::*;
use crate::rules::engine::EngineEffect;
use crate::rules::wait::Wait;

/// How long after a safety look the report of what it has found may come: it may have happened during the look.
const REPORT_WITHIN: Duration = Duration::from_millis(200);

/// How long tmux serves others between two slices of a sweep: it does nothing else while it answers one.
const SLICE_PAUSE: Duration = Duration::from_millis(5);

pub(super) async fn take_looks(cx: Cx) {
    loop {
        cx.until(|state| state.jobs.look.is_some()).await;
        let link = cx.turn(Turn::Look).await;
        let Some(look) = cx.with(|state| {
            state.jobs.is_looking = state.jobs.look.is_some();
            state.jobs.look.take()
        }) else {
            continue;
        };
        let QueuedLook { order, why, then } = look;
        let outcome = link.run(|outcome| Job::Look(order, outcome)).await;
        cx.with(|state| state.jobs.is_looking = false);
        match outcome {
            Ok(LookOutcome::Looked(look)) => {
                take(&cx, look, why, then).await;
                continue;
            }
            // The previous one included its trigger.
            Ok(LookOutcome::NotNeeded | LookOutcome::NothingNew) => cx.with(|state| {
                state.counters.skipped_looks += 1;
                state.schedule.wanted = None;
            }),
            Err(error) => cx.with(|state| state.look_failed(error)),
        }
        then.iter().for_each(|then| then.resolve(()));
    }
}

/// Takes the sweeps that are ordered, slice by slice.
pub(super) async fn take_sweeps(cx: Cx) {
    loop {
        cx.until(|state| state.jobs.is_sweeping).await;
        let link = cx.turn(Turn::Slice).await;
        let outcome = link.run(Job::Sweep).await;
        let is_over = match &outcome {
            Ok(LookOutcome::Looked(look)) => look.is_whole,
            Ok(LookOutcome::NothingNew) => false,
            Ok(LookOutcome::NotNeeded) | Err(_) => true,
        };
        let next = cx.with(|state| {
            state.jobs.is_sweeping = !is_over;
            state.now.mono + SLICE_PAUSE
        });
        match outcome {
            Ok(LookOutcome::Looked(look)) => take(&cx, look, Due::Sweep, Vec::new()).await,
            Ok(LookOutcome::NothingNew) => cx.with(|state| {
                state.counters.partial_looks += 1;
                state.counters.safety_looks += 1;
            }),
            Ok(LookOutcome::NotNeeded) => cx.with(|state| {
                state.counters.unchanged_looks += 1;
                let reporting = state.reporting();
                state.schedule.nothing_found(reporting, state.now.mono);
            }),
            Err(error) => cx.with(|state| state.look_failed(error)),
        }
        if !is_over {
            cx.sleep_until(next).await;
        }
    }
}

/// Takes a look, and resumes those who wait for it. What runs with patterns have written before their end
/// is searched first, so that it is reported before the end; waits are judged by the look when all output
/// before it has arrived.
async fn take(cx: &Cx, look: Box<Look>, why: Due, then: Vec<Resolver<()>>) {
    let unsearched = cx.with(|state| state.unsearched_ends(&look.snapshot));
    if let Some(ended) = unsearched {
        drain(cx).await;
        for (pane, task, is_followed) in ended {
            match is_followed {
                true => read_last_output(cx, pane, &task).await,
                false => read_ended_run(cx, pane, task).await,
            }
        }
    }
    let (has_gone, ended) = cx.with(|state| {
        state.take_look(*look, why, state.now);
        let look = state.engine.last_look();
        let tasks = look.into_iter().flat_map(|look| look.tasks.values());
        let dead = tasks.filter(|task| !task.is_alive());
        let dead = dead.filter_map(|task| Some((task.pane?, Arc::clone(task))));
        let followed = dead.filter(|(pane, _)| state.listeners.stream(*pane).is_some());
        let followed: Vec<_> = followed.collect();
        // A run can be over without a pane to read.
        let has_gone = look.is_some_and(|look| state.listeners.is_over(look));
        if !has_gone && followed.is_empty() {
            state.judge_waits(state.now);
        }
        (has_gone, followed)
    });
    then.iter().for_each(|then| then.resolve(()));
    if !has_gone && ended.is_empty() {
        return;
    }
    if has_gone {
        // The last output of a run comes through another client. It is processed before its end.
        drain(cx).await;
    }
    for (pane, task) in ended {
        read_last_output(cx, pane, &task).await;
    }
    cx.with(|state| state.judge_waits(state.now));
}

async fn drain(cx: &Cx) {
    let link = cx.turn(Turn::LastOutput).await;
    // What has not arrived by now is missing in the waits, as with a connection that was lost.
    link.run(Job::Drain).await.ok();
}

/// An ended run whose last output is to be searched before a look is taken, and whether it was followed.
type UnsearchedEnd = (PaneId, Arc<Task>, bool);

impl State {
    /// Orders a look with a trigger, also while one is under way, which may have begun before the trigger.
    pub(super) fn order(&mut self, order: LookOrder) -> &mut QueuedLook {
        let look = self.jobs.look.get_or_insert_default();
        look.order.join(order);
        look.why = Due::Triggered;
        look
    }

    fn look_failed(&mut self, error: Error) {
        let error = error.message;
        let problem = format!("tasks cannot be looked at: {error}");
        if self.look_problem.as_ref() != Some(&problem) {
            self.log(LogLevel::Warn, format!("a look failed error={error:?}"));
        }
        self.look_problem = Some(problem);
        self.schedule
            .nothing_found(Reporting::Nothing, self.now.mono);
    }

    fn take_look(&mut self, look: Look, why: Due, now: Now) {
        let Look {
            at,
            mut snapshot,
            is_whole,
            has_trigger,
            is_unsettled,
            needs_nudge,
            death_record,
            link,
        } = look;
        // Without a connection nothing is reported.
        let is_safety = why != Due::Triggered && self.link.is_connected;
        self.counters.partial_looks += u64::from(!is_whole);
        self.counters.whole_looks += u64::from(is_whole);
        self.counters.safety_looks += u64::from(is_safety);
        if self.look_problem.take().is_some() {
            self.log(LogLevel::Info, "looks succeed again".to_owned());
        }
        let name = link.session_name.as_ref().unwrap_or(&snapshot.session);
        self.session_name.clone_from(name);
        let lost_connection = self.link.connection != link.connection;
        self.link = link;
        if needs_nudge {
            self.nudge();
        }
        let is_first = self.engine.counts().is_none();
        if is_first {
            self.resume_endings(&snapshot);
        }
        self.endings.hold(&mut snapshot, self.engine.last_look());
        let before = self.engine.last_look();
        let difference =
            before.map_or(Difference::Otherwise, |before| before.difference(&snapshot));
        let tasks = before.into_iter().flat_map(|before| before.tasks.values());
        let dead = tasks.filter(|task| !task.is_alive());
        let dead: BTreeSet<WindowId> = dead.map(|task| task.window).collect();
        self.note_matches(&snapshot, now);
        let effects = self.engine.look(snapshot, at);
        if is_safety && !has_trigger && should_have_been_reported(&effects, &dead) {
            self.unreported_at.get_or_insert(now.mono + REPORT_WITHIN);
        }
        let has_changed = !effects.is_empty() || difference > Difference::Cosmetic;
        let recorded: Vec<Record> = records(&effects).cloned().collect();
        let (mut ended, mut begun) = (Vec::new(), Vec::new());
        for record in &recorded {
            if let Body::Event(event) = &record.body {
                let task = &event.task;
                if let EventKind::Exited { replaced: None } = event.kind {
                    ended.push((task.window, task.run));
                } else if let EventKind::Started { .. } = event.kind {
                    begun.push(task.window);
                }
            }
        }
        self.perform(effects);
        self.find_usual_durations(if is_first { self.windows() } else { begun });
        self.report_all_unseen(now);
        self.publish_tasks(at);
        if !ended.is_empty() {
            // Another run may follow at once, and tmux lose the signal of its end.
            let nudges = (now.mono + NUDGE_EVERY, now.mono + NUDGE_FOR);
            self.nudges = (!self.link.reports_respawns).then_some(nudges);
        }
        self.death_record =
            (!death_record.is_empty()).then(|| (self.engine.last_seq(), death_record));
        let result = LookResult {
            reporting: self.reporting(),
            why,
            has_changed,
            is_unsettled,
            is_whole,
            n_windows: self.engine.last_look().map_or(0, |look| look.tasks.len()),
        };
        self.is_unsettled = is_unsettled;
        self.schedule.looked(result, now.mono);
        self.schedule.note_paused(self.link.is_any_paused);
        match difference {
            Difference::Otherwise => self.save_within(Duration::ZERO, now),
            Difference::InBells => self.save_within(SAVE_WITHIN, now),
            Difference::Cosmetic => {}
        }
        let questions = self.engine.episodes.open_questions();
        if questions != self.questions {
            self.questions.clone_from(&questions);
            self.effects.push(Effect::Questions(questions));
        }
        for (window, run) in ended {
            if let Some(task) = self.task(window).filter(|task| task.run == run) {
                self.jobs.archives.push_back((task, None));
            }
        }
        self.plan_restarts(&recorded, now);
        self.note_time_limits(now);
        self.proceed_with_endings();
        if lost_connection {
            self.lose_asked();
            self.listeners.lose(|_| true);
        }
        self.watch_runs();
    }

    /// Reports all launched runs as gone about which no look has decided yet, and whose windows are gone.
    pub(super) fn report_all_unseen(&mut self, now: Now) {
        if self.look_problem.is_some() {
            return;
        }
        for task in std::mem::take(&mut self.unseen) {
            if self.task(task.window).is_none() && !self.ended_runs.contain(&task) {
                let effects = self.engine.report_gone(task, now);
                self.perform(effects);
            }
        }
    }

    /// Returns which changes are reported between looks at such a session.
    fn reporting(&self) -> Reporting {
        let Some(look) = self.engine.last_look() else {
            return Reporting::Nothing;
        };
        let has_dead = || look.tasks.values().any(|task| !task.is_alive());
        match (look.exists, self.link.is_connected) {
            (false, _) => Reporting::Absent,
            (true, false) => Reporting::Nothing,
            (true, true) if !self.link.reports_respawns && has_dead() => Reporting::AllButRespawns,
            (true, true) => Reporting::All,
        }
    }

    /// Judges waits by the last look: all output before it has been processed.
    pub(super) fn judge_waits(&mut self, now: Now) {
        let engine = &self.engine;
        if let Some(look) = engine.last_look() {
            let prompt_of = |window| engine.episodes.unanswered_prompt_of(window);
            let restarts_in = |window| self.restarts.next_in(window, now);
            self.listeners.look(look, prompt_of, restarts_in);
        }
        if std::mem::take(&mut self.is_follower_lost) {
            self.listeners.lose(|_| true);
        }
        // A server that begins to listen usually says so.
        self.port_looks.hurry(now.mono);
        if std::mem::take(&mut self.are_sizes_unknown) {
            self.read_sizes();
        }
        self.watch_runs();
    }

    /// Returns the runs with patterns whose end this look shows, if their last output is to be searched before.
    fn unsearched_ends(&mut self, look: &Snapshot) -> Option<Vec<UnsearchedEnd>> {
        let has_gone = self.listeners.watches.has_ended(look);
        let mut ended = Vec::new();
        if let Some(before) = self.engine.last_look() {
            for task in look.tasks.values() {
                let is_known = |known: &Arc<Task>| known.run == task.run && !known.is_alive();
                let is_new =
                    !task.is_alive() && !before.tasks.get(&task.window).is_some_and(is_known);
                let watches = &mut self.listeners.watches;
                let is_followed = watches.is_following(task);
                let pane = match is_followed {
                    _ if !is_new => None,
                    true => task.pane,
                    false => watches.begin(task, look.life.as_ref()),
                };
                ended.extend(pane.map(|pane| (pane, Arc::clone(task), is_followed)));
            }
        }
        (has_gone || !ended.is_empty()).then_some(ended)
    }

    /// Hands the engine what was found, for the events of this look.
    pub(super) fn note_matches(&mut self, look: &Snapshot, now: Now) {
        let (watches, streams) = (&mut self.listeners.watches, &self.listeners.pane_streams);
        let found = watches.take_matches(streams, look, now);
        for (window, run, matches) in found {
            self.engine.note_matches(window, run, matches);
        }
    }

    /// Begins to search runs with patterns, and ends the search of those that have ended.
    pub(super) fn watch_runs(&mut self) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let begun = self.listeners.watches.begin_all(look);
        for (pane, task) in begun {
            self.begin_with(pane).watches.push(task);
        }
    }

    pub(super) fn report_matches(&mut self, now: Now) {
        let due = self.listeners.watches.take_due(now.mono);
        if !due.is_empty() {
            self.order(LookOrder::of(due));
        }
    }
}

fn records(effects: &[EngineEffect]) -> impl Iterator<Item = &Record> {
    effects.iter().flat_map(|effect| match effect {
        EngineEffect::Append(records) => records.as_slice(),
        EngineEffect::Status(_) => &[],
    })
}

/// Whether a look found an event that should have been reported, as the respawn of a dead pane never is.
fn should_have_been_reported(effects: &[EngineEffect], dead: &BTreeSet<WindowId>) -> bool {
    records(effects).any(|record| {
        let Body::Event(event) = &record.body else {
            return false;
        };
        // A program can begin or stop waiting without output. What it prints is reported otherwise.
        let is_silent = matches!(
            event.kind,
            EventKind::Input { .. } | EventKind::InputResolved { .. } | EventKind::Output(_)
        );
        !is_silent && !dead.contains(&event.task.window)
    })
}

impl State {
    /// Returns when ports are looked at next, if somebody waits for one.
    pub(super) fn next_port_look(&self) -> Option<Instant> {
        let is_wanted = self.listeners.waits_for_ports().next().is_some();
        self.port_looks.due.filter(|_| is_wanted)
    }

    /// Returns the first process of the run that is waited for, as of the last look.
    fn leader_of(look: Option<&Snapshot>, wait: &Wait) -> Option<u32> {
        let task = look?.tasks.get(&wait.window())?;
        task.pid.filter(|_| task.run == wait.entry.run)
    }

    fn ports_found(&mut self, found: Result<BTreeMap<u32, BTreeSet<u16>>, Error>, began: Instant) {
        let now = self.now.mono;
        let took = now.saturating_duration_since(began);
        self.port_looks.looked(took, now);
        let look = self.engine.last_look();
        match found {
            Ok(ports) => self.listeners.end_waits(|active| {
                let leader = Self::leader_of(look, &active.wait)?;
                active.wait.listens(ports.get(&leader)?)
            }),
            Err(error) => {
                let refusal = format!("cannot wait for a port: {}", error.message);
                let is_for_port =
                    |active: &mut ActiveWait| active.wait.spec.ports().next().is_some();
                for active in self.listeners.waits.extract_if(.., is_for_port) {
                    active.done.resolve(Err(Error::failed(refusal.clone())));
                }
            }
        }
    }
}

pub(super) async fn look_at_ports(cx: Cx) {
    loop {
        cx.until(|state| {
            let due = state.next_port_look();
            due.is_some_and(|due| due <= state.now.mono)
        })
        .await;
        let mut leaders = BTreeMap::<_, BTreeSet<_>>::new();
        cx.with(|state| {
            state.port_looks.due = None;
            for (wait, port) in state.listeners.waits_for_ports() {
                let leader = State::leader_of(state.engine.last_look(), wait);
                leaders.entry(port).or_default().extend(leader);
            }
        });
        let link = cx.turn(Turn::Command).await;
        let began = cx.with(|state| state.now.mono);
        let found = link.run(|outcome| Job::FindPorts(leaders, outcome)).await;
        cx.with(|state| state.ports_found(found, began));
    }
}

//! Processes looks: records, waits, also for ports, when to look again, what a look does not have any
//! more, and how the output of runs with patterns is searched: before a look that shows their end, and
//! from the reads with which it begins.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ending_runs::begun_runs;
use super::input::{
    JobOutcome, LinkState, LogEntry, Look, LookOrder, PortQuery, RowsToRead, WRONG_OUTCOME,
};
use super::job_queue::{AfterLook, Command, HeldLook, QueuedLook, Urgent};
use super::listeners::RequestId;
use super::look_schedule::{Due, LookFinding, LookResult, Reporting};
use super::machine::{SAVE_WITHIN, Session};
use super::wait_entry::WatchEntry;
use crate::engine::EngineEffect;
use crate::model::{
    Body, Difference, Error, EventKind, GoneReason, Now, PaneId, Record, Snapshot, Task, WindowId,
};
use crate::terminal::Stamp;

/// How long after a safety look the report of what it has found may come: the look may have been under
/// way when that happened.
const REPORT_WITHIN: Duration = Duration::from_millis(200);

/// How long tmux serves others between two slices of a sweep: it does nothing else while it answers one.
const SLICE_PAUSE: Duration = Duration::from_millis(5);

impl Session {
    /// Processes a look at windows, or its failure.
    pub(super) fn looked(
        &mut self,
        queued: QueuedLook,
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let why = if queued.is_safety {
            Due::Ended
        } else {
            Due::Triggered
        };
        match outcome {
            Ok(JobOutcome::Looked(look)) => {
                return self.search_then_take(look, why, queued.then, now);
            }
            Ok(JobOutcome::NotNeeded) => {
                self.counts.skipped_looks += 1;
                self.schedule.skipped();
            }
            Ok(_) => self.log(LogEntry::WrongOutcome { job: "look" }),
            Err(error) => self.look_failed(error, now),
        }
        for then in queued.then {
            self.after_look(then, now);
        }
    }

    /// Processes a slice of a sweep, or its failure, and orders the next one.
    pub(super) fn swept(&mut self, outcome: Result<JobOutcome, String>, now: Now) {
        match outcome {
            Ok(JobOutcome::Looked(look)) => {
                if !look.is_whole {
                    self.jobs.order_slice_at(now.mono + SLICE_PAUSE);
                }
                self.search_then_take(look, Due::Sweep, Vec::new(), now);
            }
            Ok(JobOutcome::NothingNew) => {
                self.counts.looks += 1;
                self.counts.safety_looks += 1;
                self.jobs.order_slice_at(now.mono + SLICE_PAUSE);
            }
            Ok(JobOutcome::NotNeeded) => {
                self.counts.unchanged_looks += 1;
                let reporting = self.reporting();
                self.schedule.nothing_to_sweep(reporting, now.mono);
            }
            Ok(_) => self.log(LogEntry::WrongOutcome { job: "sweep" }),
            Err(error) => self.look_failed(error, now),
        }
    }

    fn look_failed(&mut self, error: String, now: Now) {
        let problem = format!("tasks cannot be looked at: {error}");
        if self.look_problem.as_ref() != Some(&problem) {
            self.log(LogEntry::LookFailed { error });
        }
        self.look_problem = Some(problem);
        self.schedule.failed(now.mono);
    }

    pub(super) fn take_look(&mut self, look: Look, why: Due, now: Now) {
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
        self.counts.looks += 1;
        self.counts.whole_looks += u64::from(is_whole);
        self.counts.safety_looks += u64::from(is_safety);
        if self.look_problem.take().is_some() {
            self.log(LogEntry::LooksRecovered);
        }
        let name = link.session_name.as_ref();
        self.session_name
            .clone_from(name.unwrap_or(&snapshot.session));
        let lost_connection = self.link.connection != link.connection;
        self.link = link;
        if needs_nudge {
            self.nudge();
        }
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        if is_first {
            self.resume_endings(&snapshot);
        }
        self.endings.hold(&mut snapshot, self.engine.last_look());
        let reporting = reporting(&snapshot, &self.link);
        let before = self.engine.last_look();
        let difference =
            before.map_or(Difference::Otherwise, |before| before.difference(&snapshot));
        let dead = self.dead_windows();
        self.note_matches(&snapshot, now);
        let effects = self.engine.look(snapshot, at);
        if is_safety && !has_trigger && should_have_been_reported(&effects, &dead) {
            self.unreported_at.get_or_insert(now.mono + REPORT_WITHIN);
        }
        let has_news = !effects.is_empty();
        let ended = ended_runs(&effects);
        let recorded: Vec<Record> = records(&effects).cloned().collect();
        let begun = begun_runs(&effects);
        self.perform(effects);
        if is_first {
            let all: Vec<WindowId> = self.tasks().iter().map(|task| task.window).collect();
            self.find_usual_durations(&all);
        } else {
            self.find_usual_durations(&begun);
        }
        self.report_all_unseen(now);
        self.publish_tasks(at);
        if !ended.is_empty() {
            self.nudge_for_a_while(now);
        }
        self.death_record =
            (!death_record.is_empty()).then(|| (self.engine.last_seq(), death_record));
        let has_changed = has_news || difference > Difference::Cosmetic;
        let result = LookResult {
            reporting,
            finding: finding(why, has_changed, is_whole),
            is_unsettled,
            is_whole,
            n_windows: self.engine.last_look().map_or(0, |look| look.tasks.len()),
        };
        self.is_unsettled = is_unsettled;
        self.schedule.looked(result, now.mono);
        if self.link.is_any_paused {
            self.schedule.paused();
        }
        match difference {
            Difference::Otherwise => self.save_within(Duration::ZERO, now),
            Difference::InBells => self.save_within(SAVE_WITHIN, now),
            Difference::Cosmetic => {}
        }
        self.note_questions();
        for (window, run) in ended {
            if let Some(task) = self.task(window).filter(|task| task.run == run) {
                self.jobs.archive(task);
            }
        }
        self.plan_restarts(&recorded, now);
        self.note_time_limits(now);
        self.proceed_with_endings(now);
        if lost_connection {
            self.lose_asked(now);
            let ended = self.listeners.lose(|_| true);
            self.finish(ended, now);
        }
        self.watch_runs();
        self.prepare_judgement(now);
    }

    /// Returns which changes are reported now.
    fn reporting(&self) -> Reporting {
        let before = self.engine.last_look();
        before.map_or(Reporting::Nothing, |before| reporting(before, &self.link))
    }

    /// Orders reading of the output before the look: waits are judged after that.
    fn prepare_judgement(&mut self, now: Now) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        if self.listeners.is_over(look) {
            // The last output of a run comes through another client. It is processed before its end.
            self.jobs.push_urgent(Urgent::Drain);
        }
        let dead = look.tasks.values().filter(|task| !task.is_alive());
        let dead: Vec<(PaneId, Arc<Task>)> = dead
            .filter_map(|task| Some((task.pane?, Arc::clone(task))))
            .filter(|(pane, _)| self.listeners.follows(*pane))
            .collect();
        for (pane, task) in dead {
            let last = Urgent::LastOutput(pane, task, RowsToRead::LastRow);
            self.jobs.push_urgent(last);
        }
        if self.jobs.is_judging() {
            self.jobs.push_urgent(Urgent::Judge);
        } else {
            self.judge_waits(now);
        }
    }

    /// Judges waits by the last look: all output before it has been processed.
    pub(super) fn judge_waits(&mut self, now: Now) {
        let engine = &self.engine;
        let mut ended = Vec::new();
        if let Some(look) = engine.last_look() {
            let prompt_of = |window| engine.prompt_of(window);
            let restarts_in = |window| self.restarts.next_in(window, now);
            ended = self.listeners.look(look, prompt_of, restarts_in);
        }
        if std::mem::take(&mut self.doubts.is_follower_lost) {
            ended.extend(self.listeners.lose(|_| true));
        }
        self.finish(ended, now);
        // A server that begins to listen usually says so.
        self.port_looks.hurry(now.mono);
        if std::mem::take(&mut self.doubts.are_sizes_unknown) {
            self.read_sizes();
        }
        self.watch_runs();
    }

    /// Returns the windows whose run had ended in the last look.
    fn dead_windows(&self) -> BTreeSet<WindowId> {
        let look = self.engine.last_look().into_iter();
        look.flat_map(|look| look.tasks.values())
            .filter(|task| !task.is_alive())
            .map(|task| task.window)
            .collect()
    }

    /// Orders a look at a paused pane, to read it after that.
    pub(super) fn order_take_up(&mut self, pane: PaneId, tries: usize) {
        let order = LookOrder::of(self.task_in(pane).map(|task| task.window));
        self.order_then(order, AfterLook::TakeUp(pane, tries));
    }

    /// Takes a look. What runs with patterns have written before their end is searched first, so that it
    /// is reported before the end.
    fn search_then_take(&mut self, look: Box<Look>, why: Due, then: Vec<AfterLook>, now: Now) {
        let snapshot = &look.snapshot;
        let mut urgent = Vec::new();
        let has_gone = self.listeners.watches.has_ended(snapshot);
        if let Some(before) = self.engine.last_look() {
            for task in snapshot.tasks.values() {
                let is_known = |known: &Arc<Task>| known.run == task.run && !known.is_alive();
                let is_new =
                    !task.is_alive() && !before.tasks.get(&task.window).is_some_and(is_known);
                let Some(pane) = task
                    .pane
                    .filter(|_| is_new && task.settings.notify_on.is_some())
                else {
                    continue;
                };
                let task = Arc::clone(task);
                if self.listeners.watches.is_following(&task) {
                    urgent.push(Urgent::LastOutput(pane, task, RowsToRead::LastRow));
                } else if let Some(entry) =
                    self.listeners.watches.begin(&task, snapshot.life.as_ref())
                {
                    urgent.push(Urgent::Search(pane, task, Box::new(entry)));
                }
            }
        }
        let held = HeldLook { look, why, then };
        if !has_gone && urgent.is_empty() {
            return self.take_held(held, now);
        }
        self.jobs.push_urgent(Urgent::Drain);
        for step in urgent {
            self.jobs.push_urgent(step);
        }
        self.jobs.push_urgent(Urgent::TakeLook(held));
    }

    /// Takes a look of which all output before it was searched.
    pub(super) fn take_held(&mut self, held: HeldLook, now: Now) {
        let HeldLook { look, why, then } = held;
        self.take_look(*look, why, now);
        for then in then {
            self.after_look(then, now);
        }
    }

    /// Hands the engine what was found, for the events of this look.
    pub(super) fn note_matches(&mut self, look: &Snapshot, now: Now) {
        for (window, run, matches) in self.listeners.take_matches(look, now) {
            self.engine.note_matches(window, run, matches);
        }
    }

    /// Begins to search the runs with patterns that are not searched yet, and ends the search of those that
    /// have ended.
    pub(super) fn watch_runs(&mut self) {
        let Some(look) = self.engine.last_look() else {
            return;
        };
        let entries = self.listeners.watches.begin_all(look);
        for (pane, entry) in entries {
            let begins = self.jobs.begin_with(pane, RowsToRead::All);
            begins.watches.push(entry);
        }
        self.listeners.forget_idle_streams();
    }

    /// Continues after the read with which the search of runs begins.
    pub(super) fn watches_begun(&mut self, entries: Vec<WatchEntry>, since: Stamp, now: Now) {
        for entry in entries {
            let window = entry.window;
            self.listeners.watches.begun(entry, since, now);
            if self.task(window).is_none_or(|task| !task.is_alive()) {
                // Its run has ended meanwhile: the next look reports what was found.
                self.order(LookOrder::of([window]));
            }
        }
        self.report_matches(now);
    }

    /// Orders looks that report what was found by now.
    pub(super) fn report_matches(&mut self, now: Now) {
        let due = self.listeners.watches.take_due(now.mono);
        if !due.is_empty() {
            self.order(LookOrder::of(due));
        }
    }
}

/// Returns which changes are reported between looks at such a session.
fn reporting(snapshot: &Snapshot, link: &LinkState) -> Reporting {
    let has_dead = || snapshot.tasks.values().any(|task| !task.is_alive());
    match (snapshot.exists, link.is_connected) {
        (false, _) => Reporting::Absent,
        (true, false) => Reporting::Nothing,
        (true, true) if !link.reports_respawns && has_dead() => Reporting::AllButRespawns,
        (true, true) => Reporting::All,
    }
}

/// Returns what a look has found, for the schedule.
fn finding(why: Due, has_changed: bool, is_whole: bool) -> LookFinding {
    if has_changed {
        LookFinding::Changed
    } else if is_whole || why == Due::Ended {
        LookFinding::Unchanged
    } else {
        LookFinding::ReportedUnchanged
    }
}

fn records(effects: &[EngineEffect]) -> impl Iterator<Item = &Record> {
    effects.iter().flat_map(|effect| match effect {
        EngineEffect::Append(records) => records.as_slice(),
        EngineEffect::Status(_) => &[],
    })
}

/// Returns the windows whose runs have ended by these effects and still exist.
fn ended_runs(effects: &[EngineEffect]) -> Vec<(WindowId, Option<u32>)> {
    let ended = records(effects).filter_map(|record| match &record.body {
        Body::Event(event) => matches!(event.kind, EventKind::Exited { replaced: None })
            .then_some((event.task.window, event.task.run)),
        Body::Notice { .. } | Body::FollowUp { .. } => None,
    });
    ended.collect()
}

/// Whether a look found an event that should have been reported. A respawn of a dead pane is never
/// reported.
fn should_have_been_reported(effects: &[EngineEffect], dead: &BTreeSet<WindowId>) -> bool {
    records(effects).any(|record| match &record.body {
        Body::Event(event) => match event.kind {
            // A program can begin or stop waiting without output. What it prints is reported otherwise.
            EventKind::Input { .. } | EventKind::InputResolved { .. } | EventKind::Output(_) => {
                false
            }
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::Exited { .. }
            | EventKind::Disappeared { .. } => !dead.contains(&event.task.window),
        },
        Body::Notice { .. } | Body::FollowUp { .. } => false,
    })
}

/// The windows that are gone since the last look and whose tasks were alive, or may be restarted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Departures {
    /// Those that a command of ours has ended, with its reason.
    pub(crate) killed: BTreeMap<WindowId, GoneReason>,
    /// Those that may have been moved to another session: only tmux knows.
    pub(crate) unexplained: Vec<WindowId>,
}

impl Departures {
    /// Compares the windows that the last look watched, with the pids of their live runs, with those
    /// that are present now. `killed` has the windows that a command of ours has ended, `ended` the
    /// processes that have ended.
    pub(crate) fn new(
        watched: &[(WindowId, Option<u32>)],
        present: &BTreeSet<WindowId>,
        killed: &BTreeMap<WindowId, GoneReason>,
        ended: &BTreeSet<u32>,
    ) -> Self {
        let mut departures = Self::default();
        for (window, pid) in watched {
            if present.contains(window) {
                continue;
            }
            match killed.get(window) {
                Some(reason) => drop(departures.killed.insert(*window, *reason)),
                // A pane whose process has ended was not moved.
                None if pid.is_some_and(|pid| ended.contains(&pid)) => {}
                None => departures.unexplained.push(*window),
            }
        }
        departures
    }
}

/// Returns the panes that were primary and are not any more, in windows that still exist.
pub(crate) fn replaced_panes(
    before: &BTreeMap<WindowId, PaneId>,
    now: impl IntoIterator<Item = (WindowId, PaneId)>,
) -> BTreeSet<PaneId> {
    let replaced = now.into_iter().filter_map(|(window, pane)| {
        let was = before.get(&window)?;
        (*was != pane).then_some(*was)
    });
    replaced.collect()
}

impl Session {
    /// Returns when ports are looked at next, if somebody waits for one.
    pub(super) fn next_port_look(&self) -> Option<Instant> {
        let is_wanted = self.listeners.waits_for_ports().next().is_some();
        let due = self.port_looks.due?;
        (is_wanted && !self.port_looks.is_under_way).then_some(due)
    }

    /// Orders a look at the ports that are waited for, if it is due.
    pub(super) fn look_at_ports(&mut self, now: Now) {
        if self.next_port_look().is_none_or(|due| due > now.mono) {
            return;
        }
        let mut queries: Vec<PortQuery> = Vec::new();
        for (_, wait, port) in self.listeners.waits_for_ports() {
            let (window, run) = (wait.window(), wait.entry.run);
            let task = self.task(window).filter(|task| task.run == run);
            let Some(leader) = task.and_then(|task| task.pid) else {
                continue;
            };
            let query = PortQuery {
                window,
                run,
                leader,
                port,
            };
            if !queries.contains(&query) {
                queries.push(query);
            }
        }
        self.port_looks.is_under_way = true;
        self.jobs.push_command(Command::FindPorts(queries));
    }

    /// Processes what a look at ports has found.
    pub(super) fn ports_found(
        &mut self,
        queries: &[PortQuery],
        outcome: Result<JobOutcome, String>,
        now: Now,
    ) {
        let found = match outcome {
            Ok(JobOutcome::Ports(ports, took)) => Ok((ports, took)),
            Ok(_) => Err(WRONG_OUTCOME.to_owned()),
            Err(error) => Err(error),
        };
        match found {
            Ok((ports, took)) => {
                self.port_looks.looked(took, now.mono);
                let runs: BTreeMap<_, _> = queries
                    .iter()
                    .map(|query| ((query.window, query.run), query.leader))
                    .collect();
                let ended = self.listeners.listens(&runs, &ports);
                self.finish(ended, now);
            }
            Err(error) => {
                self.port_looks.looked(Duration::ZERO, now.mono);
                let waits = self.listeners.waits_for_ports();
                let waits: Vec<RequestId> = waits.map(|(request_id, ..)| request_id).collect();
                for request_id in waits {
                    self.listeners.leave(request_id);
                    let message = format!("cannot wait for a port: {error}");
                    self.refuse(request_id, Error::failed(message));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tmux_is_asked_only_about_windows_that_nothing_explains() {
        let alive = [
            (WindowId(1), Some(71)),
            (WindowId(2), Some(72)),
            (WindowId(3), Some(73)),
            (WindowId(4), Some(74)),
            (WindowId(5), None),
        ];
        let killed = BTreeMap::from([
            (WindowId(2), GoneReason::AgentKilled),
            (WindowId(9), GoneReason::UserKilled),
        ]);
        let departures = Departures::new(
            &alive,
            &BTreeSet::from([WindowId(1)]),
            &killed,
            &BTreeSet::from([72, 73]),
        );
        let expected = Departures {
            killed: BTreeMap::from([(WindowId(2), GoneReason::AgentKilled)]),
            unexplained: vec![WindowId(4), WindowId(5)],
        };
        assert_eq!(departures, expected);
    }

    #[test]
    fn a_pane_is_replaced_only_where_its_window_is_left() {
        let before = BTreeMap::from([
            (WindowId(1), PaneId(1)),
            (WindowId(2), PaneId(2)),
            (WindowId(3), PaneId(3)),
        ]);
        let now = [
            (WindowId(1), PaneId(1)),
            (WindowId(2), PaneId(8)),
            (WindowId(4), PaneId(9)),
        ];
        assert_eq!(replaced_panes(&before, now), BTreeSet::from([PaneId(2)]));
    }
}

//! Composes the decisions: looks in, records out. No clock, no files, no tmux.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use crate::model::*;
use crate::rules::diff::{diff, is_another_life};
use crate::rules::input_episodes::Episodes;
use crate::rules::restarts::restart_of;
use crate::rules::route::{Reach, can_be_held, is_end, reach};

mod gathering;

use gathering::{ExpectedReader, Gathering, is_read_by};
pub(crate) use gathering::{ExpectedWait, WaitReturn};

/// The most ends of one group that are held for one message.
const MAX_HELD: usize = 50;

/// By how much a reader of events may be later than their delivery would be without it.
const READER_GRACE: Duration = Duration::from_millis(500);

/// The engine's delays, and how shells are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a screen must be unchanged before its prompt is reported.
    pub quiet: Duration,
    /// How long events are gathered, from the first of them, before they are delivered.
    pub gather: Duration,
    /// How events of shells are delivered.
    pub shells: ShellDelivery,
}

impl Settings {
    /// For live sessions.
    pub const LIVE: Self = Self {
        quiet: Duration::from_millis(200),
        gather: Duration::from_millis(50),
        shells: ShellDelivery::Notice,
    };

    /// For snapshots in a replay: a prompt at two looks in a row is reported, and the events of
    /// each look are a gathering.
    pub const REPLAY: Self = Self {
        quiet: Duration::ZERO,
        gather: Duration::ZERO,
        shells: ShellDelivery::Notice,
    };
}

/// What the engine wants done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum EngineEffect {
    /// Write these records, all of them or none, before any of them is reported.
    Append(Vec<Record>),
    /// Publish the counts, which have changed.
    Status(StatusCounts),
}

/// What is known of a task session from its last daemon.
#[derive(Debug, Clone, Default)]
pub struct RestoredState {
    /// The last look; `None` makes the next one the baseline.
    pub last_look: Option<Snapshot>,
    /// Tasks that were reported as waiting, as they were then.
    pub waiting: Vec<(Task, Prompt)>,
    /// Events that are not delivered yet.
    pub undelivered: Vec<DeliveredEvent>,
    /// The sequence number of the last record.
    pub last_seq: Seq,
}

/// Turns looks into records.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    /// The last look; `None` until the baseline.
    last_look: Option<Snapshot>,
    pub(crate) episodes: Episodes,
    /// Lines that match, with their windows and runs, for the events of the next look.
    matches: Vec<(WindowId, Option<u32>, OutputMatches)>,
    /// Events to be delivered, oldest first. All gatherings but the last are closed.
    gatherings: VecDeque<Gathering>,
    /// Clean ends of runs whose group has others that are alive, or will be restarted: they are delivered with
    /// the last of these. Their owners have read none of them.
    held: Vec<DeliveredEvent>,
    /// The last record that the disk has accepted or refused; `None` where writing is waited for.
    tried: Option<Seq>,
    /// Commands that are about to wait. Each is dropped after a while.
    expected_waits: Vec<ExpectedWait>,
    /// Commands that read events for their owner. Each is dropped after a while.
    expected_readers: Vec<ExpectedReader>,
    last_seq: Seq,
    /// The tokens of launches whose tasks have failed and cannot be restarted.
    unrestartable: BTreeSet<String>,
    /// The counts that were last published; `None` until the first look.
    counts: Option<StatusCounts>,
}

impl Engine {
    /// Returns an engine that continues from `memory`.
    pub fn new(settings: Settings, memory: RestoredState, now: Now) -> Self {
        let mut episodes = Episodes::default();
        for (task, prompt) in memory.waiting {
            episodes.restore(task, prompt);
        }
        let mut engine = Self {
            settings,
            last_look: memory.last_look,
            episodes,
            matches: Vec::new(),
            gatherings: VecDeque::new(),
            held: Vec::new(),
            tried: None,
            expected_waits: Vec::new(),
            expected_readers: Vec::new(),
            last_seq: memory.last_seq,
            unrestartable: BTreeSet::new(),
            counts: None,
        };
        for delivered in memory.undelivered {
            engine.gather(delivered, now.mono);
        }
        engine
    }

    /// Notes that a run has printed lines that match. The next look reports it.
    pub(crate) fn note_matches(
        &mut self,
        window: WindowId,
        run: Option<u32>,
        matches: OutputMatches,
    ) {
        self.matches.push((window, run, matches));
    }

    /// Processes one look, after what was due before it, which has none of its events.
    pub fn look(&mut self, look: Snapshot, now: Now) -> Vec<EngineEffect> {
        let mut effects = self.deliver_due(now);
        let mut events = Vec::new();
        if let Some(before) = &self.last_look {
            if is_another_life(before, &look) {
                events.extend(self.episodes.end_all());
            }
            events.extend(diff(before, &look));
        }
        for (window, run, matches) in std::mem::take(&mut self.matches) {
            let is_it = |task: &&Task| task.window == window && task.run == run;
            let before = self.last_look.iter();
            let before = before.flat_map(|before| before.tasks.values());
            let shown = look.tasks.values().chain(before).map(|task| &**task);
            if let Some(task) = look.ended.iter().chain(shown).find(is_it) {
                let end = |event: &Event| is_end(event) && is_it(&&event.task);
                let at = events.iter().position(end).unwrap_or(events.len());
                let kind = EventKind::Output(matches);
                let task = task.clone();
                events.insert(at, Event { kind, task });
            }
        }
        events.extend(self.episodes.admit(&look, self.settings.quiet, now));
        events.sort_by_key(place);
        for event in &mut events {
            // Only the end of a window's present run can be followed by a restart.
            if !is_present_end(event, &look) {
                event.task.settings.restarts = None;
            }
        }

        self.last_look = Some(look);
        self.release_complete(now);
        if !events.is_empty() {
            effects.push(EngineEffect::Append(self.record(events, now)));
        }
        effects.extend(self.recount());
        effects
    }

    /// Notes that the restart which is to follow is impossible: the task has failed.
    pub(crate) fn note_unrestartable(&mut self, task: &Task, now: Now) -> Vec<EngineEffect> {
        let restarts = task.settings.restarts.iter();
        let tokens = restarts.map(|restarts| restarts.token.clone());
        self.unrestartable.extend(tokens);
        self.release_complete(now);
        self.recount().into_iter().collect()
    }

    /// Counts the tasks again. Returns the counts if they have changed.
    fn recount(&mut self) -> Option<EngineEffect> {
        let look = self.last_look.as_ref()?;
        let restarting = |task: &Task| self.will_restart(task);
        let counts = look.counts(|window| self.episodes.is_waiting(window), restarting);
        let has_changed = self.counts.replace(counts) != Some(counts);
        has_changed.then_some(EngineEffect::Status(counts))
    }

    fn will_restart(&self, task: &Task) -> bool {
        let mut restarts = task.settings.restarts.iter();
        let is_given_up = restarts.any(|restarts| self.unrestartable.contains(&restarts.token));
        restart_of(task).is_some() && !is_given_up
    }

    /// Records that a task has disappeared which no look has contained.
    pub fn report_gone(&mut self, task: Task, now: Now) -> Vec<EngineEffect> {
        let kind = EventKind::Disappeared { reason: None };
        let records = self.record(vec![Event { kind, task }], now);
        vec![EngineEffect::Append(records)]
    }

    /// Records a notice without events, for example the outcome of a command.
    pub fn notice(&mut self, level: Level, text: String, now: Now) -> Vec<EngineEffect> {
        let body = Body::Notice {
            level,
            text,
            events: Vec::new(),
            owner: None,
        };
        vec![EngineEffect::Append(vec![self.next_record(body, now)])]
    }

    /// Delivers this in place of a recorded event, also if that one is delivered already.
    pub(crate) fn queue_delivery(&mut self, seq: Seq, event: Event, now: Now) {
        let delivered = DeliveredEvent { seq, event };
        let replaces = |gathering: &mut Gathering| gathering.replace(&delivered);
        if !self.gatherings.iter_mut().any(replaces) {
            self.gather(delivered, now.mono + self.settings.gather);
        }
    }

    /// Delivers the gatherings that are due and on the disk.
    pub fn deliver_due(&mut self, now: Now) -> Vec<EngineEffect> {
        let Some(open) = self.gatherings.back() else {
            return Vec::new();
        };
        let is_due = self.due(open) <= now.mono;
        let n_closed = self.gatherings.len() - usize::from(!is_due);
        if let Some(last) = self.gatherings.back_mut() {
            last.is_closed = is_due;
        }
        let closed = self.gatherings.iter().take(n_closed);
        let n_written = closed
            .take_while(|gathering| self.is_written(gathering))
            .count();
        let due = self.gatherings.drain(..n_written).collect();
        self.deliver_all(due, now)
    }

    /// Delivers all gatherings, due or not. What is held for a group is delivered later.
    pub fn deliver(&mut self, now: Now) -> Vec<EngineEffect> {
        let all = std::mem::take(&mut self.gatherings);
        self.deliver_all(all, now)
    }

    fn deliver_all(&mut self, gatherings: VecDeque<Gathering>, now: Now) -> Vec<EngineEffect> {
        let mut records = Vec::new();
        for gathering in gatherings {
            let bodies = gathering.deliver(&self.episodes.user_rules, self.settings.shells);
            records.extend(bodies.into_iter().map(|body| self.next_record(body, now)));
        }
        let append = (!records.is_empty()).then_some(EngineEffect::Append(records));
        append.into_iter().collect()
    }

    /// Notes that the disk has accepted or refused the records up to this one. From the first call on,
    /// events are delivered only after that: until then a wait may return with them.
    pub fn tried(&mut self, seq: Seq) {
        self.tried = Some(seq);
    }

    fn is_written(&self, gathering: &Gathering) -> bool {
        self.tried.is_none_or(|tried| gathering.last_seq() <= tried)
    }

    /// Notes that a command is about to wait for the run that it starts, and may return with its events:
    /// they are not delivered before.
    pub(crate) fn expect_wait(&mut self, expected: ExpectedWait, now: Now) {
        self.expected_waits.retain(|other| other.until > now.mono);
        self.expected_waits.push(expected);
    }

    /// Notes that a wait for the task of this name has begun.
    pub(crate) fn wait_begun(&mut self, task: &str, owner: Option<&str>) {
        self.expected_waits.retain(|expected| {
            (expected.task.as_str(), expected.owner.as_deref()) != (task, owner)
        });
    }

    /// Notes that a command has returned with an event: if that is still gathered, it becomes a notice.
    pub(crate) fn note_return(&mut self, wait_return: &WaitReturn, now: Now) {
        self.note_known(|delivered| wait_return.is_of(&delivered.event), now);
    }

    /// Notes that a command reads events for this owner until then. Gathered ones of its tasks wait for
    /// it, half a second at most.
    pub(crate) fn expect_reader(&mut self, owner: String, until: Instant, now: Now) {
        self.expected_readers
            .retain(|other| other.until > now.mono && other.owner != owner);
        self.expected_readers.push(ExpectedReader { owner, until });
    }

    /// Notes that an owner has read these events: those of its tasks that are still gathered become a
    /// notice.
    pub(crate) fn note_seen(&mut self, owner: &str, events: &[Seq], now: Now) {
        self.expected_readers.retain(|other| other.owner != owner);
        self.note_known(|delivered| is_read_by(delivered, owner, events), now);
    }

    /// Notes that the owners of these events have read them. Such an event is held no longer.
    fn note_known(&mut self, is_known: impl Fn(&DeliveredEvent) -> bool, now: Now) {
        self.release(&is_known, now.mono + self.settings.gather);
        for gathering in &mut self.gatherings {
            gathering.note_known(&is_known);
        }
    }

    /// Returns when something is due; `None` while it is not on the disk ([`Engine::tried`]).
    pub(crate) fn deliver_at(&self) -> Option<Instant> {
        let first = self.gatherings.front()?;
        self.is_written(first).then(|| self.due(first))
    }

    /// Returns when a gathering is due: later if a command may return with its events, or their owner
    /// read them.
    fn due(&self, gathering: &Gathering) -> Instant {
        let waits = self.expected_waits.iter();
        let waits = waits.filter(|expected| gathering.concerns(expected));
        let readers = self.expected_readers.iter();
        let readers = readers.filter(|reader| gathering.is_of(&reader.owner));
        let latest = gathering.due + READER_GRACE;
        let read_until = readers.map(|reader| reader.until.min(latest));
        let held_until = waits.map(|expected| expected.until).chain(read_until);
        held_until.fold(gathering.due, Instant::max)
    }

    /// Returns the sequence numbers of the events that are not delivered yet.
    pub(crate) fn undelivered(&self) -> BTreeSet<Seq> {
        let gathered = self.gatherings.iter().flat_map(Gathering::seqs);
        let held = self.held.iter().map(|held| held.seq);
        gathered.chain(held).collect()
    }

    /// Returns when another look could report a prompt that is on a screen now.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.episodes.next_deadline(self.settings.quiet)
    }

    /// Returns the tasks whose prompts such a look could report now.
    pub fn look_for(&self, now: Instant) -> impl Iterator<Item = WindowId> {
        self.episodes.due(self.settings.quiet, now)
    }

    /// Returns the last look.
    pub fn last_look(&self) -> Option<&Snapshot> {
        self.last_look.as_ref()
    }

    /// Whether the user has configured that the event is recorded and not delivered.
    pub fn mutes(&self, event: &Event) -> bool {
        gathering::is_muted(event, &self.episodes.user_rules, self.settings.shells)
    }

    /// Returns the counts that were last published; `None` before the first look.
    pub fn counts(&self) -> Option<StatusCounts> {
        self.counts
    }

    /// Returns the sequence number of the last record.
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    fn record(&mut self, events: Vec<Event>, now: Now) -> Vec<Record> {
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            if reach(&event) > Reach::FeedOnly {
                let delivered = DeliveredEvent {
                    seq: self.last_seq + 1,
                    event: event.clone(),
                };
                self.gather(delivered, now.mono + self.settings.gather);
            }
            if let EventKind::InputResolved { .. } = &event.kind {
                for gathering in &mut self.gatherings {
                    gathering.resolve(event.task.window);
                }
            }
            records.push(self.next_record(Body::Event(Box::new(event)), now));
        }
        records
    }

    /// Gathers an event for delivery, at `due` if it is the first one. A clean end waits for the last run of its
    /// group; what wakes before is delivered with what was held.
    fn gather(&mut self, delivered: DeliveredEvent, due: Instant) {
        let event = &delivered.event;
        let task = event.task.clone();
        let is_of_group = |held: &DeliveredEvent| held.event.task.is_of_group(&task);
        if can_be_held(event) && !self.mutes(event) && self.group_goes_on(&task) {
            self.held.push(delivered);
            let n_held = self.held.iter().filter(|held| is_of_group(held)).count();
            if n_held == MAX_HELD {
                self.release(is_of_group, due);
            }
            return;
        }
        let is_about_a_run = !matches!(event.kind, EventKind::Notify { .. } | EventKind::Output(_));
        if is_about_a_run && reach(event) == Reach::FollowUp && !self.mutes(event) {
            self.release(is_of_group, due);
        }
        self.open_gathering(due).add(delivered);
    }

    /// Delivers what was held for groups of which no run is alive or will be restarted.
    fn release_complete(&mut self, now: Now) {
        let is_complete = self
            .held
            .iter()
            .map(|held| !self.group_goes_on(&held.event.task));
        let mut is_complete = is_complete.collect::<Vec<_>>().into_iter();
        let due = now.mono + self.settings.gather;
        self.release(|_| is_complete.next() == Some(true), due);
    }

    /// Delivers those of the held events, which are asked for in their order.
    fn release(&mut self, mut is_due: impl FnMut(&DeliveredEvent) -> bool, due: Instant) {
        let released: Vec<_> = self.held.extract_if(.., |held| is_due(held)).collect();
        if !released.is_empty() {
            let gathering = self.open_gathering(due);
            released.into_iter().for_each(|held| gathering.add(held));
        }
    }

    /// Whether the task's group has others whose end will be told: they are alive, or will be restarted.
    fn group_goes_on(&self, task: &Task) -> bool {
        let mut tasks = self.last_look.iter().flat_map(|look| look.tasks.values());
        tasks.any(|other| {
            other.is_of_group(task)
                && (other.is_alive() || self.will_restart(other))
                && other.settings.wake != Some(WakePolicy::Never)
        })
    }

    /// Returns the gathering that takes further events, a new one if there is none.
    fn open_gathering(&mut self, due: Instant) -> &mut Gathering {
        if self.gatherings.back().is_none_or(|last| last.is_closed) {
            self.gatherings.push_back(Gathering::new(due));
        }
        self.gatherings.back_mut().expect("one was just put there")
    }

    fn next_record(&mut self, body: Body, now: Now) -> Record {
        self.last_seq += 1;
        Record::new(self.last_seq, now.wall, body)
    }
}

/// Whether this is not the end of a run, or the end of the run that its window still shows.
fn is_present_end(event: &Event, look: &Snapshot) -> bool {
    let EventKind::Exited { replaced } = event.kind else {
        return true;
    };
    let present = look.tasks.get(&event.task.window);
    replaced.is_none() && present.is_some_and(|task| !task.is_alive() && task.run == event.task.run)
}

/// The position of an event among those of one look. The sort is stable: `diff` has ordered the
/// runs of a window, which their numbers cannot where runs are not counted. `inputResolved` belongs
/// to the earliest of them, `input` to the last.
fn place(event: &Event) -> (bool, WindowId, u8) {
    let (last, rank) = match event.kind {
        EventKind::InputResolved { .. } => (false, 0),
        EventKind::Started { .. }
        | EventKind::Notify { .. }
        | EventKind::Output(_)
        | EventKind::Exited { .. } => (false, 1),
        EventKind::Input { .. } => (false, 2),
        EventKind::Disappeared { .. } => (true, 0),
    };
    (last, event.task.window, rank)
}

#[cfg(test)]
mod tests;

//! The decisions, composed: looks in, records out. No clock, no files, no tmux.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::diff::{diff, is_another_life};
use crate::input_episodes::Episodes;
use crate::model::{
    Body, DeliveredEvent, Event, EventKind, Level, Now, Prompt, Record, Seq, ShellDelivery,
    Snapshot, StatusCounts, Task, WindowId,
};
use crate::prompt::{Judgement, UserRules};
use crate::route::{Reach, reach};

mod gathering;

use gathering::Gathering;
pub use gathering::{ExpectedWait, Sighted, Sighting};

/// How long the engine waits before it judges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// How long a screen must have stood before its prompt is told.
    pub quiet: Duration,
    /// How long events are gathered, from the first of them, before they are delivered.
    pub gather: Duration,
    /// How long a task must have shown nothing new to be called stalled; `None` for never.
    pub stalled_after: Option<Duration>,
    /// How the events of shells are delivered.
    pub shells: ShellDelivery,
}

impl Settings {
    /// For live sessions.
    pub const LIVE: Self = Self {
        quiet: Duration::from_millis(200),
        gather: Duration::from_millis(50),
        stalled_after: None,
        shells: ShellDelivery::Notice,
    };

    /// For snapshots that are looks by themselves: two in a row are quiet enough, and the events
    /// of each are gathered on their own.
    pub const REPLAY: Self = Self {
        quiet: Duration::ZERO,
        gather: Duration::ZERO,
        stalled_after: None,
        shells: ShellDelivery::Notice,
    };
}

/// What the engine wants done, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Effect {
    /// Write these records, all of them or none, before anyone is told.
    Append(Vec<Record>),
    /// Tell whoever listens that the counts have changed.
    Status(StatusCounts),
}

/// What a task session was known to be when its last daemon left.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    /// The last look; `None` makes the next one the baseline.
    pub before: Option<Snapshot>,
    /// Tasks that had been told as waiting, as they were then.
    pub waiting: Vec<(Task, Prompt)>,
    /// Events that nobody was told of yet.
    pub owed: Vec<DeliveredEvent>,
    /// The number of the last record.
    pub last_seq: Seq,
}

/// Turns looks into records.
#[derive(Debug)]
pub struct Engine {
    settings: Settings,
    /// The last look; `None` until the baseline.
    before: Option<Snapshot>,
    episodes: Episodes,
    /// Events that are still to be delivered, oldest first. All gatherings but the last are closed.
    gatherings: VecDeque<Gathering>,
    /// The number of the last record that the disk has taken or refused; `None` where records are
    /// written before anything else happens.
    tried: Option<Seq>,
    /// Commands whose waits are still to come. Each is given up after a while.
    expected_waits: Vec<ExpectedWait>,
    last_seq: Seq,
    /// What was last said of the counts; `None` until the first look.
    counts: Option<StatusCounts>,
}

impl Engine {
    /// Returns an engine that carries on from `memory`.
    #[must_use]
    pub fn new(settings: Settings, memory: Memory, now: Now) -> Self {
        let mut episodes = Episodes::default();
        for (task, prompt) in memory.waiting {
            episodes.restore(task, prompt);
        }
        let owed = memory.owed;
        let owed = (!owed.is_empty()).then(|| Gathering::new(now.mono, owed));
        Self {
            settings,
            before: memory.before,
            episodes,
            gatherings: owed.into_iter().collect(),
            tried: None,
            expected_waits: Vec::new(),
            last_seq: memory.last_seq,
            counts: None,
        }
    }

    /// Goes by what a user has taught about prompts.
    #[must_use]
    pub fn with_teaching(mut self, teaching: UserRules) -> Self {
        self.episodes.teach(teaching);
        self
    }

    /// Takes one look. What was due before it is delivered first, without what it brings.
    pub fn look(&mut self, look: Snapshot, now: Now) -> Vec<Effect> {
        let mut effects = self.deliver_due(now);
        let mut events = Vec::new();
        if let Some(before) = &self.before {
            if is_another_life(before, &look) {
                events.extend(self.episodes.end_all());
            }
            events.extend(diff(before, &look));
        }
        events.extend(self.episodes.admit(&look, self.settings.quiet, now));
        events.sort_by_key(place);

        if !events.is_empty() {
            effects.push(Effect::Append(self.record(events, now)));
        }
        let stalled = |task: &&Arc<Task>| self.task_stalled_for(task, now).is_some();
        let counts = StatusCounts {
            stalled: look.tasks.values().filter(stalled).count(),
            ..look.counts(|window| self.episodes.is_waiting(window))
        };
        if self.counts != Some(counts) {
            self.counts = Some(counts);
            effects.push(Effect::Status(counts));
        }
        self.before = Some(look);
        effects
    }

    /// Records a notice that speaks of no event: the outcome of a command, say.
    pub fn notice(&mut self, level: Level, text: String, now: Now) -> Vec<Effect> {
        let body = Body::Notice {
            level,
            text,
            events: Vec::new(),
            owner: None,
        };
        vec![Effect::Append(vec![self.next_record(body, now)])]
    }

    /// Delivers what was gathered, if it is due and on the disk.
    pub fn deliver_due(&mut self, now: Now) -> Vec<Effect> {
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

    /// Delivers what was gathered, due or not.
    pub fn deliver(&mut self, now: Now) -> Vec<Effect> {
        let all = std::mem::take(&mut self.gatherings);
        self.deliver_all(all, now)
    }

    fn deliver_all(&mut self, gatherings: VecDeque<Gathering>, now: Now) -> Vec<Effect> {
        let mut bodies = Vec::new();
        for gathering in gatherings {
            bodies.extend(gathering.deliver(self.episodes.teaching(), self.settings.shells));
        }
        let records: Vec<Record> = bodies
            .into_iter()
            .map(|body| self.next_record(body, now))
            .collect();
        if records.is_empty() {
            return Vec::new();
        }
        vec![Effect::Append(records)]
    }

    /// Takes note that the disk has taken or refused the records up to this number. From the first
    /// call on, events are delivered only after that: until then a wait may still return with them.
    pub fn tried(&mut self, seq: Seq) {
        self.tried = Some(seq);
    }

    fn is_written(&self, gathering: &Gathering) -> bool {
        self.tried.is_none_or(|tried| gathering.last_seq() <= tried)
    }

    /// Takes note that a command is about to wait for the run that it starts. What comes of that is
    /// not delivered before the wait has begun: the command may return with it.
    pub fn expect_wait(&mut self, expected: ExpectedWait, now: Now) {
        self.expected_waits.retain(|other| other.until > now.mono);
        self.expected_waits.push(expected);
    }

    /// Takes note that a wait for the task of this name has begun.
    pub fn wait_begun(&mut self, task: &str, owner: Option<&str>) {
        self.expected_waits.retain(|expected| {
            (expected.task.as_str(), expected.owner.as_deref()) != (task, owner)
        });
    }

    /// Takes note that a command has told its caller of a run: what is gathered of that is delivered
    /// as a notice.
    pub fn see(&mut self, sighting: &Sighting) {
        for gathering in &mut self.gatherings {
            gathering.see(sighting);
        }
    }

    /// Returns when [`Engine::deliver_due`] has something to do; `None` also while it is for the disk
    /// to take what was gathered ([`Engine::tried`]).
    #[must_use]
    pub fn deliver_at(&self) -> Option<Instant> {
        let first = self.gatherings.front()?;
        self.is_written(first).then(|| self.due(first))
    }

    /// Returns when a gathering is due, unless a command is about to return with some of it.
    fn due(&self, gathering: &Gathering) -> Instant {
        let expected = self.expected_waits.iter();
        let held_until = expected
            .filter(|expected| gathering.concerns(expected))
            .map(|expected| expected.until);
        held_until
            .chain([gathering.due])
            .max()
            .unwrap_or(gathering.due)
    }

    /// Returns the number of the first event that is still to be delivered.
    #[must_use]
    pub fn first_undelivered(&self) -> Option<Seq> {
        let mut gatherings = self.gatherings.iter();
        gatherings.find_map(Gathering::first_seq)
    }

    /// Returns when another look could tell a prompt that stands now.
    #[must_use]
    pub fn look_at(&self) -> Option<Instant> {
        self.episodes.next_deadline(self.settings.quiet)
    }

    /// Returns the last look, as it is carried on from.
    #[must_use]
    pub fn before(&self) -> Option<&Snapshot> {
        self.before.as_ref()
    }

    /// Returns what a task waits for, once that was told.
    #[must_use]
    pub fn prompt_of(&self, window: WindowId) -> Option<&Prompt> {
        self.episodes.prompt_of(window)
    }

    /// Returns how a task was judged, since when its screen has stood, and since when it has been
    /// told as waiting.
    #[must_use]
    pub fn judgement_of(&self, window: WindowId) -> Option<(&Judgement, Instant, Option<Now>)> {
        Some((
            self.episodes.judgement_of(window)?,
            self.episodes.still_since(window)?,
            self.episodes.reported_since(window),
        ))
    }

    /// Returns for how long a task has shown nothing new, where that is long enough to call it
    /// stalled. Nobody is told: it is there for those who ask.
    #[must_use]
    pub fn stalled_for(&self, window: WindowId, now: Now) -> Option<Duration> {
        let task = self.before.as_ref()?.tasks.get(&window)?;
        self.task_stalled_for(task, now)
    }

    /// Returns what a user has taught about prompts.
    #[must_use]
    pub fn teaching(&self) -> &UserRules {
        self.episodes.teaching()
    }

    /// Returns how long it waits before it judges.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// Returns the counts that were last told; `None` before the first look.
    #[must_use]
    pub fn counts(&self) -> Option<StatusCounts> {
        self.counts
    }

    /// Returns the number of the last record.
    #[must_use]
    pub fn last_seq(&self) -> Seq {
        self.last_seq
    }

    fn task_stalled_for(&self, task: &Task, now: Now) -> Option<Duration> {
        let after = self.settings.stalled_after?;
        // Evidence is there once a screen has stood for `quiet`.
        let after = after.max(self.settings.quiet);
        (task.is_alive() && !self.episodes.teaching().mutes_task(task))
            .then(|| self.episodes.stalled_for(task.window, after, now))
            .flatten()
    }

    fn record(&mut self, events: Vec<Event>, now: Now) -> Vec<Record> {
        let mut records = Vec::with_capacity(events.len());
        for event in events {
            if reach(&event) > Reach::FeedOnly {
                let delivered = DeliveredEvent {
                    seq: self.last_seq + 1,
                    event: event.clone(),
                };
                self.open_gathering(now).add(delivered);
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

    /// Returns the gathering that takes another event.
    fn open_gathering(&mut self, now: Now) -> &mut Gathering {
        if self.gatherings.back().is_none_or(|last| last.is_closed) {
            let due = now.mono + self.settings.gather;
            self.gatherings.push_back(Gathering::new(due, Vec::new()));
        }
        self.gatherings.back_mut().expect("one was just put there")
    }

    fn next_record(&mut self, body: Body, now: Now) -> Record {
        self.last_seq += 1;
        Record {
            seq: self.last_seq,
            time: now.wall,
            body,
        }
    }
}

/// Where an event stands among those of one look. The sort is stable: `diff` has put the runs of
/// a window in their order, which their numbers cannot where nobody counted. What was waited for
/// was waited for by the earliest of them, and what is waited for is by the last.
fn place(event: &Event) -> (bool, WindowId, u8) {
    let (last, rank) = match event.kind {
        EventKind::InputResolved { .. } => (false, 0),
        EventKind::Started { .. } | EventKind::Notify { .. } | EventKind::Exited { .. } => {
            (false, 1)
        }
        EventKind::Input { .. } => (false, 2),
        EventKind::Disappeared { .. } => (true, 0),
    };
    (last, event.task.window, rank)
}

#[cfg(test)]
mod tests;

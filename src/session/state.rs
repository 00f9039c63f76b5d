//! The session's state: what its decisions are made of, and what stories wait for.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ending_runs::{EndedRuns, Ending, Endings};
use super::input::{Effect, LinkState, LogLevel, LookOrder, Reply, StoreState};
use super::job_queue::JobQueue;
use super::listeners::{Listeners, RequestId};
use super::look_schedule::{LookSchedule, PortLooks};
use super::pending_restarts::PendingRestarts;
use super::promise::Resolver;
use crate::model::*;
use crate::rules::engine::{Engine, EngineEffect};
use crate::rules::wire::Counters;

/// How long saving is delayed for changes that are also in the feed, such as bells.
pub(super) const SAVE_WITHIN: Duration = Duration::from_secs(1);

/// What one request does, or what the session does by itself, from its first look to its last effect.
pub(super) type Story = Pin<Box<dyn Future<Output = ()>>>;

pub(super) type StoryId = u64;

/// What a story has: the state for a moment, and whose it is.
#[derive(Clone)]
pub(super) struct Cx {
    pub(super) state: Rc<RefCell<State>>,
    /// The request that it answers; `None` for what the session does by itself.
    pub(super) request: Option<RequestId>,
    /// The name of the session that the request is for, if it names one.
    pub(super) to: Option<Rc<str>>,
}

/// A request that is not answered, and what answers it.
#[derive(Debug)]
pub(super) struct OpenRequest {
    pub(super) story: StoryId,
    /// Whether the story goes on without its client: what it has begun must come to an end.
    pub(super) is_kept: bool,
    pub(super) has_left: bool,
}

/// What a story waits for that several inputs may bring about.
pub(super) struct Condition {
    pub(super) holds: Box<dyn Fn(&State) -> bool>,
    pub(super) resolver: Resolver<()>,
}

/// What only one story may do at a time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LockKey {
    Slot(String),
    Typing(WindowId),
}

pub(crate) struct State {
    pub(super) now: Now,
    pub(super) engine: Engine,
    pub(super) listeners: Listeners,
    pub(super) schedule: LookSchedule,
    pub(super) jobs: JobQueue,
    pub(super) ended_runs: EndedRuns,
    /// How far the feed is on the disk.
    pub(super) store: StoreState,
    /// Its name for records.
    pub(crate) session_name: String,
    /// The state of the link after the last look.
    pub(super) link: LinkState,
    /// Whether the client that follows output was lost, which the next look has to decide.
    pub(super) is_follower_lost: bool,
    /// Whether terminal models of followed panes may differ from the panes, as the next look shows.
    pub(super) are_sizes_unknown: bool,
    /// Why the last look failed, if it has.
    pub(crate) look_problem: Option<String>,
    pub(crate) counters: Counters,
    /// How many safety looks have found an event that nothing reported.
    pub(crate) found_late: u64,
    pub(super) requests: BTreeMap<RequestId, OpenRequest>,
    /// Stories that begin with the present input, and how many have begun in all.
    pub(super) new_stories: VecDeque<(StoryId, Story)>,
    n_stories: u64,
    /// This state, for what stories have of it.
    me: Weak<RefCell<Self>>,
    /// What stories wait for, in the order in which they began to.
    pub(super) conditions: Vec<Condition>,
    /// When stories go on that wait for a time.
    pub(super) timers: Vec<(Instant, Resolver<()>)>,
    /// What is locked, and who waits for it, the oldest first.
    pub(super) locks: BTreeMap<LockKey, VecDeque<Resolver<()>>>,
    /// Held by each wait that has ended and is not answered.
    pub(super) ended_waits: Rc<()>,
    /// Held by each wait that is about to answer with an event.
    pub(super) returning: Rc<()>,
    /// Whether the last look has shown an ended run of which tmux has not reported how it ended.
    pub(super) is_unsettled: bool,
    /// When tmux is nudged next, and until when nudging continues.
    pub(super) nudges: Option<(Instant, Instant)>,
    /// When the last look is saved; `None` when it is saved, or would be the same.
    pub(super) save_at: Option<Instant>,
    /// When an event that a safety look has found counts as not reported.
    pub(super) unreported_at: Option<Instant>,
    /// tmux's death record, and the number of the record that has to be on the disk before it is cleared.
    pub(super) death_record: Option<(Seq, String)>,
    /// The panes that the link was asked to follow; `None` when it has to be asked again.
    pub(super) followed: Option<BTreeSet<PaneId>>,
    /// What the tasks ask, as far as the link knows.
    pub(super) questions: BTreeMap<WindowId, OpenQuestion>,
    /// Launched runs about which no look has decided whether they have to be reported as gone.
    pub(super) unseen: Vec<Task>,
    pub(super) restarts: PendingRestarts,
    pub(super) endings: Endings,
    /// How runs are ended whose launch says nothing.
    pub(super) stop_defaults: StopPlan,
    /// When the ports of runs that are waited for are looked at.
    pub(super) port_looks: PortLooks,
    /// How long present runs usually take, by their windows.
    pub(super) usual: BTreeMap<WindowId, (Option<u32>, Millis)>,
    pub(super) effects: Vec<Effect>,
}

/// The initial state of a session.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) engine: Engine,
    /// The session, by the name that the daemon was started with.
    pub(crate) session_name: String,
    /// The longest time between two looks.
    pub(crate) longest_pause: Duration,
    /// How much of tmux's data had been processed at the engine's last look.
    pub(crate) bookmark: Bookmark,
    /// How runs are ended whose launch says nothing.
    pub(crate) stop: StopPlan,
    /// The ends after which earlier daemons have announced restarts that have not happened.
    pub(crate) announced: Vec<DeliveredEvent>,
    /// How far the feed is on the disk.
    pub(crate) store: StoreState,
}

impl State {
    pub(super) fn new(mut setup: Setup, now: Now, me: Weak<RefCell<Self>>) -> Self {
        setup.engine.tried(setup.store.tried);
        Self {
            now,
            restarts: PendingRestarts::new(setup.engine.last_look(), setup.announced),
            engine: setup.engine,
            listeners: Listeners::new(std::mem::take(&mut setup.bookmark.searched)),
            schedule: LookSchedule::new(setup.longest_pause, now.mono),
            jobs: JobQueue::default(),
            ended_runs: EndedRuns::default(),
            store: setup.store,
            session_name: setup.session_name,
            link: LinkState {
                bookmark: setup.bookmark,
                ..LinkState::default()
            },
            is_follower_lost: false,
            are_sizes_unknown: false,
            look_problem: None,
            counters: Counters::default(),
            found_late: 0,
            requests: BTreeMap::new(),
            new_stories: VecDeque::new(),
            n_stories: 0,
            me,
            conditions: Vec::new(),
            timers: Vec::new(),
            locks: BTreeMap::new(),
            ended_waits: Rc::default(),
            returning: Rc::default(),
            is_unsettled: false,
            nudges: None,
            save_at: Some(now.mono),
            unreported_at: None,
            death_record: None,
            followed: None,
            questions: BTreeMap::new(),
            unseen: Vec::new(),
            endings: Endings::default(),
            stop_defaults: setup.stop,
            port_looks: PortLooks::new(now.mono),
            usual: BTreeMap::new(),
            effects: Vec::new(),
        }
    }

    /// Whether the user has configured that the event is recorded and not delivered.
    pub(crate) fn mutes(&self, event: &Event) -> bool {
        self.engine.mutes(event)
    }

    pub(crate) fn status(&self) -> Option<StatusCounts> {
        self.engine.counts()
    }

    /// Returns how many waits have begun and are not answered.
    pub(crate) fn n_waits(&self) -> usize {
        self.listeners.waits.len() + Rc::strong_count(&self.ended_waits) - 1
    }

    /// Returns the name that it had in the last look; `None` while it is missing.
    pub(crate) fn present_name(&self) -> Option<&str> {
        self.link.session_name.as_deref()
    }

    /// Whether there was a look, or a failed one.
    pub(crate) fn has_begun(&self) -> bool {
        self.engine.counts().is_some() || self.look_problem.is_some()
    }

    pub(super) fn spawn<F: Future<Output = ()> + 'static>(&mut self, begin: impl FnOnce(Cx) -> F) {
        let cx = Cx {
            state: self.me.upgrade().expect("whoever has it asks"),
            request: None,
            to: None,
        };
        self.begin(Box::pin(begin(cx)));
    }

    /// Begins a story: it runs to its first await when the present input is handled.
    pub(super) fn begin(&mut self, story: Story) -> StoryId {
        self.n_stories += 1;
        self.new_stories.push_back((self.n_stories, story));
        self.n_stories
    }

    /// Sends a request's client something, if it has not left.
    pub(super) fn reply(&mut self, request_id: RequestId, reply: Reply) {
        let request = self.requests.get(&request_id);
        if request.is_some_and(|request| !request.has_left) {
            self.effects.push(Effect::Reply(request_id, reply));
        }
    }

    /// Resumes the stories whose conditions hold. Returns whether there is one.
    pub(super) fn resolve_conditions(&mut self) -> bool {
        let mut conditions = std::mem::take(&mut self.conditions);
        conditions.retain(|condition| condition.resolver.is_wanted());
        let holding = conditions.extract_if(.., |condition| (condition.holds)(self));
        let n_resolved = holding.map(|held| held.resolver.resolve(())).count();
        self.conditions = conditions;
        n_resolved > 0
    }

    /// Gives a lock to the next story that waits for it.
    pub(super) fn unlock(&mut self, key: &LockKey) {
        if let LockKey::Slot(name) = key {
            // The end of a run for a launch that has not taken its window is told as any other.
            let is_left =
                |_: &WindowId, run: &mut Ending| run.reason.is_none() && run.task.name == *name;
            let left = self.endings.runs.extract_if(.., is_left);
            let left: Vec<WindowId> = left.map(|(window, _)| window).collect();
            if !left.is_empty() {
                self.order(LookOrder::of(left));
            }
        }
        let Some(waiting) = self.locks.get_mut(key) else {
            return;
        };
        waiting.retain(Resolver::is_wanted);
        match waiting.pop_front() {
            Some(next) => next.resolve(()),
            None => drop(self.locks.remove(key)),
        }
    }

    pub(super) fn log(&mut self, level: LogLevel, text: String) {
        self.effects.push(Effect::Log(level, text));
    }

    pub(super) fn perform(&mut self, effects: Vec<EngineEffect>) {
        for effect in effects {
            match effect {
                EngineEffect::Append(records) => {
                    self.ended_runs.add(&records);
                    self.effects.push(Effect::Append {
                        records,
                        session_name: self.session_name.clone(),
                        checkpoint: self.engine.counts().map(|_| Checkpoint {
                            life: self.link.life.clone(),
                            deaths_read: self.link.bookmark.deaths_read,
                        }),
                    });
                }
                EngineEffect::Status(counts) => self.effects.push(Effect::Status(counts)),
            }
        }
    }

    pub(super) fn notice(&mut self, level: Level, text: String, now: Now) {
        // With a disk that is too far behind there is no room for it.
        if !self.store.is_full {
            let effects = self.engine.notice(level, text, now);
            self.perform(effects);
        }
    }

    /// Drops the output of panes without listeners, and tells the link if the panes to follow have changed.
    pub(super) fn follow_only_listened(&mut self) {
        self.listeners.forget_idle_streams();
        let mut panes = self.listeners.panes();
        panes.extend(&self.jobs.beginning);
        if self.followed.as_ref() != Some(&panes) {
            self.followed = Some(panes.clone());
            self.effects.push(Effect::Follow(panes));
        }
    }

    pub(super) fn tasks(&self) -> Vec<Arc<Task>> {
        let look = self.engine.last_look();
        look.map(|look| look.tasks.values().cloned().collect())
            .unwrap_or_default()
    }

    pub(super) fn windows(&self) -> Vec<WindowId> {
        self.tasks().iter().map(|task| task.window).collect()
    }

    pub(super) fn task(&self, window: WindowId) -> Option<Arc<Task>> {
        self.engine.last_look()?.tasks.get(&window).cloned()
    }

    /// Returns the task whose primary pane this is.
    pub(super) fn task_in(&self, pane: PaneId) -> Option<Arc<Task>> {
        let mut tasks = self.engine.last_look()?.tasks.values();
        tasks.find(|task| task.pane == Some(pane)).cloned()
    }
}

//! How each input is handled, and the stories that go on with it.

use std::cell::{Ref, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use super::input::{Change, Effect, Input, LookOrder, Reply};
use super::listeners::RequestId;
use super::output_watches::PaneStream;
use super::state::{Cx, OpenRequest, SAVE_WITHIN, Setup, State, Story, StoryId};
use super::{looks, requests, stories};
use crate::model::{Now, Task};
use crate::rules::wire::RequestLine;

pub(crate) struct Session {
    state: Rc<RefCell<State>>,
    stories: BTreeMap<StoryId, (Story, Waker)>,
    /// The stories that can go on, in the order in which what they wait for was resolved.
    ready: mpsc::Receiver<StoryId>,
    /// With what stories are woken.
    wakes: mpsc::Sender<StoryId>,
}

struct StoryWaker {
    story: StoryId,
    wakes: mpsc::Sender<StoryId>,
}

impl Wake for StoryWaker {
    fn wake(self: Arc<Self>) {
        // Without a session there is nothing to wake.
        self.wakes.send(self.story).unwrap_or_default();
    }
}

impl Session {
    pub(crate) fn new(setup: Setup, now: Now) -> Self {
        let new = |me: &Weak<_>| RefCell::new(State::new(setup, now, Weak::clone(me)));
        let state = Rc::new_cyclic(new);
        let mut begun = state.borrow_mut();
        begun.spawn(looks::take_looks);
        begun.spawn(looks::take_sweeps);
        begun.spawn(looks::look_at_ports);
        begun.spawn(stories::forget_deaths);
        begun.spawn(stories::archive_ended);
        drop(begun);
        let (wakes, ready) = mpsc::channel();
        Self {
            state,
            stories: BTreeMap::new(),
            ready,
            wakes,
        }
    }

    pub(crate) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    #[must_use]
    pub(crate) fn handle(&mut self, input: Input, now: Now) -> Vec<Effect> {
        self.state.borrow_mut().now = now;
        let state = || self.state.borrow_mut();
        match input {
            Input::Requested(request_id, request) => self.begin_request(request_id, request),
            Input::Left(request_id) => self.leave(request_id),
            Input::Done(done) => {
                let running = state().jobs.running.take();
                if let Some(running) = running {
                    running.resolve(done);
                }
            }
            Input::Stored(store) => {
                state().store = store;
                // Answers are sent before deliveries: their events are not delivered as follow-ups.
                self.go_on_with_stories();
                let mut state = self.state.borrow_mut();
                state.engine.tried(store.tried);
                state.deliver_due(now);
            }
            Input::Changed(change) => state().change(change, now),
            Input::NotSaved => state().save_within(SAVE_WITHIN, now),
            Input::UsualDuration(task, millis) => state().usual_duration_found(&task, millis, now),
            Input::Ending(report) => state().ending_reported(report),
            Input::Notices(notices) => {
                for (level, text) in notices {
                    state().notice(level, text, now);
                }
            }
            Input::Due => state().due(now),
        }
        self.go_on()
    }

    /// Delivers all gatherings and saves the last look, to stop. Returns also the runs that are to be archived.
    #[must_use]
    pub(crate) fn stop(&mut self, now: Now) -> (Vec<Effect>, Vec<Arc<Task>>) {
        let mut state = self.state.borrow_mut();
        let delivered = state.engine.deliver(now);
        state.perform(delivered);
        state.save();
        let archives = std::mem::take(&mut state.jobs.archives).into_iter();
        let tasks = archives.map(|(task, _)| task).collect();
        (std::mem::take(&mut state.effects), tasks)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.state.borrow().next_deadline()
    }

    fn begin_request(&mut self, request_id: RequestId, line: RequestLine) {
        let RequestLine { to, request } = line;
        let cx = Cx {
            state: Rc::clone(&self.state),
            request: Some(request_id),
            to: to.map(Into::into),
        };
        let mut state = self.state.borrow_mut();
        let story = state.begin(Box::pin(async move {
            let reply = requests::serve(&cx, request).await;
            cx.answer(reply);
        }));
        let open = OpenRequest {
            story,
            is_kept: false,
            has_left: false,
        };
        state.requests.insert(request_id, open);
    }

    fn leave(&mut self, request_id: RequestId) {
        let mut state = self.state.borrow_mut();
        state.listeners.leave(request_id);
        let Some(request) = state.requests.get_mut(&request_id) else {
            return;
        };
        if request.is_kept {
            request.has_left = true;
            return;
        }
        let story = request.story;
        state.requests.remove(&request_id);
        drop(state);
        self.stories.remove(&story);
    }

    /// Does everything that has become possible, and returns the effects.
    fn go_on(&mut self) -> Vec<Effect> {
        loop {
            self.go_on_with_stories();
            let mut state = self.state.borrow_mut();
            // A later look finds the changes.
            let may_look = !state.store.is_full;
            let Some(next) = state.jobs.next(may_look) else {
                break;
            };
            next.resolve(());
        }
        let mut state = self.state.borrow_mut();
        state.follow_only_listened();
        std::mem::take(&mut state.effects)
    }

    /// Begins and resumes stories until all of them wait.
    fn go_on_with_stories(&mut self) {
        loop {
            let new = {
                let mut state = self.state.borrow_mut();
                for (request_id, piece) in std::mem::take(&mut state.listeners.pieces) {
                    state.reply(request_id, Reply::Output(Some(piece)));
                }
                state.new_stories.pop_front()
            };
            if let Some((story, future)) = new {
                let wakes = self.wakes.clone();
                let waker = Waker::from(Arc::new(StoryWaker { story, wakes }));
                self.stories.insert(story, (future, waker));
                self.poll(story);
            } else if let Ok(story) = self.ready.try_recv() {
                self.poll(story);
            } else if !self.state.borrow_mut().resolve_conditions() {
                return;
            }
        }
    }

    fn poll(&mut self, story: StoryId) {
        let Some((mut future, waker)) = self.stories.remove(&story) else {
            return;
        };
        let poll = future.as_mut().poll(&mut Context::from_waker(&waker));
        if poll.is_pending() {
            self.stories.insert(story, (future, waker));
        }
    }
}

impl State {
    fn change(&mut self, change: Change, now: Now) {
        match change {
            Change::Windows => {
                self.unreported_at = None;
                self.order(LookOrder::default());
            }
            Change::Output => {
                self.schedule.printed();
                if self.schedule.next_look() <= now.mono && !self.jobs.has_look() {
                    self.order(LookOrder::default());
                }
            }
            Change::Printed { pane, bytes } => {
                self.listeners.print(pane, &bytes, now);
                let stream = self.listeners.stream(pane);
                if stream.is_some_and(PaneStream::is_guess) && !self.are_sizes_unknown {
                    self.are_sizes_unknown = true;
                    let window = self.task_in(pane).map(|task| task.window);
                    self.order(LookOrder::of(window));
                }
                self.report_matches(now);
            }
            Change::Unfollowed => self.followed = None,
            Change::Paused(pane) => {
                // The last read of a run pauses its pane itself.
                if self.listeners.pause(pane) && self.jobs.last_output_of != Some(pane) {
                    self.order_take_up(pane);
                }
            }
            Change::Read(read) => {
                if let Some((_, asked)) = self.jobs.asked.pop_front() {
                    asked.resolve(read);
                }
            }
            Change::FollowerLost => {
                self.lose_asked();
                // A look finds out whether their windows or the session are gone as well.
                let panes = self.listeners.panes();
                self.is_follower_lost = !panes.is_empty();
                let tasks = panes.into_iter().filter_map(|pane| self.task_in(pane));
                let order = LookOrder::of(tasks.map(|task| task.window));
                self.order(order);
            }
            Change::Layout => self.read_sizes(),
            Change::Terminals(windows) => {
                self.order(LookOrder::of(windows));
            }
        }
    }
}

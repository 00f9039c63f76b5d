//! What a story can do: look, use the link, wait, and answer.
//!
//! A story is an `async fn` that the session polls, without a runtime: what it awaits is resolved by
//! an input. It has the state only inside of [`Cx::with`], so that no borrow of it crosses an await.
//! If its client leaves, it is dropped, with its place in every queue, unless it is kept.

use std::time::Instant;

use super::input::{Effect, Job, LookOrder, Reply};
use super::job_queue::Turn;
use super::promise::{Resolver, promise};
use super::state::{Condition, Cx, LockKey, OpenRequest, State};
use crate::model::{Error, Task};
use crate::rules::wire::{Answer, Response};

/// Why a job failed whose outcome the link has not set, which is a bug.
const NO_OUTCOME: &str = "internal error: the job has no outcome";

/// The link, for one job of the story whose turn it is.
pub(super) struct Link<'a>(&'a Cx);

impl Link<'_> {
    pub(super) async fn run<T>(self, job: impl FnOnce(Resolver<T>) -> Job) -> Result<T, Error> {
        let (resolver, outcome) = promise();
        let (done, is_done) = promise();
        self.0.with(|state| {
            debug_assert!(state.jobs.running.is_none(), "one job at a time");
            state.jobs.running = Some(done);
            state.effects.push(Effect::Run(job(resolver)));
        });
        is_done.await?;
        outcome.take().ok_or_else(|| Error::failed(NO_OUTCOME))
    }
}

pub(super) struct Lock {
    cx: Cx,
    key: LockKey,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.cx.with(|state| state.unlock(&self.key));
    }
}

impl Cx {
    pub(super) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.borrow_mut())
    }

    pub(super) async fn turn(&self, turn: Turn) -> Link<'_> {
        let (resolver, is_ours) = promise();
        self.with(|state| state.jobs.wait(turn, resolver));
        is_ours.await;
        Link(self)
    }

    /// Runs a job of the link when it is its turn among the commands.
    pub(super) async fn run<T>(&self, job: impl FnOnce(Resolver<T>) -> Job) -> Result<T, Error> {
        self.turn(Turn::Command).await.run(job).await
    }

    /// Takes a look, which other stories may share. One that is under way does not count.
    pub(super) async fn look(&self, order: LookOrder) {
        let (resolver, is_taken) = promise();
        self.with(|state| state.order(order).then.push(resolver));
        is_taken.await;
    }

    /// Takes the look with which a request begins. It is refused if another session has the name by now that
    /// it is for.
    pub(super) async fn first_look(&self, order: LookOrder) -> Result<(), Error> {
        self.look(order).await;
        self.find_present_name().await.map(drop)
    }

    /// Returns the name that the session has now, where the request names another one that it had before. It
    /// fails when another session has that.
    pub(super) async fn find_present_name(&self) -> Result<Option<String>, Error> {
        let is_other = |name: &&str| self.with(|state| state.present_name() != Some(*name));
        let Some(name) = self.to.as_deref().filter(is_other) else {
            return Ok(None);
        };
        let name = name.to_owned();
        self.run(|outcome| Job::FindName(name, outcome)).await
    }

    pub(super) async fn until(&self, holds: impl Fn(&State) -> bool + 'static) {
        if self.with(|state| holds(state)) {
            return;
        }
        let (resolver, does_hold) = promise();
        self.with(|state| {
            let holds = Box::new(holds);
            state.conditions.push(Condition { holds, resolver });
        });
        does_hold.await;
    }

    /// Waits until the disk has accepted or refused everything recorded by now.
    pub(super) async fn recorded(&self) {
        let seq = self.with(|state| state.engine.last_seq());
        self.until(move |state| state.store.tried >= seq).await;
    }

    pub(super) async fn sleep_until(&self, at: Instant) {
        if self.with(|state| at <= state.now.mono) {
            return;
        }
        let (resolver, is_due) = promise();
        self.with(|state| state.timers.push((at, resolver)));
        is_due.await;
    }

    /// Takes a lock. Those who wait for it get it in their order.
    pub(super) async fn lock(&self, key: LockKey) -> Lock {
        let (resolver, is_free) = promise();
        self.with(|state| match state.locks.get_mut(&key) {
            Some(waiting) => waiting.push_back(resolver),
            None => {
                state.locks.insert(key.clone(), Default::default());
                resolver.resolve(());
            }
        });
        is_free.await;
        Lock {
            cx: self.clone(),
            key,
        }
    }

    /// Goes on without the client from here on: what has begun must come to an end.
    pub(super) fn keep(&self) {
        self.with_request(|request| request.is_kept = true);
    }

    /// Ends that: what follows is not begun without the client, which fails if it has left.
    pub(super) fn release(&self) -> Result<(), Error> {
        self.with_request(|request| request.is_kept = false);
        match self.has_left() {
            true => Err(Error::failed("the client has left")),
            false => Ok(()),
        }
    }

    pub(super) fn has_left(&self) -> bool {
        self.with_request(|request| request.has_left) == Some(true)
    }

    fn with_request<T>(&self, f: impl FnOnce(&mut OpenRequest) -> T) -> Option<T> {
        self.with(|state| state.requests.get_mut(&self.request?).map(f))
    }

    pub(super) fn answer(&self, reply: Result<Reply, Error>) {
        let Some(request_id) = self.request else {
            return;
        };
        let mut reply = reply.unwrap_or_else(|refusal| Response::Refused(refusal).into());
        self.with(|state| {
            if let (Reply::Answer(answer, _), Some(_)) = (&mut reply, &self.to) {
                answer.from = state.present_name().map(str::to_owned);
            }
            state.reply(request_id, reply);
            state.requests.remove(&request_id);
        });
    }
}

impl From<Response> for Reply {
    fn from(response: Response) -> Self {
        Self::Answer(Box::new(Answer::from(response)), None)
    }
}

// What is done when nothing else is: the output of ended runs is archived, and recorded deaths are cleared.
// Output is archived earlier where something is about to change its window.

pub(super) async fn archive_ended(cx: Cx) {
    loop {
        cx.until(|state| !state.jobs.archives.is_empty()).await;
        let link = cx.turn(Turn::Archive).await;
        archive_next(&cx, link, |_, _| true).await;
    }
}

/// Waits for the turn to run a command that changes windows. The output of ended runs for which
/// `is_changed` holds is archived before, also of those that end until then.
pub(super) async fn turn_to_change(
    cx: &Cx,
    is_changed: impl Fn(&State, &Task) -> bool,
) -> Link<'_> {
    loop {
        let link = cx.turn(Turn::Command).await;
        if let Some(link) = archive_next(cx, link, &is_changed).await {
            return link;
        }
    }
}

/// Archives the output of one ended run. Returns the link if there is none.
async fn archive_next<'a>(
    cx: &Cx,
    link: Link<'a>,
    is_it: impl Fn(&State, &Task) -> bool,
) -> Option<Link<'a>> {
    let next = cx.with(|state| {
        let mut archives = state.jobs.archives.iter();
        let at = archives.position(|(task, _)| is_it(state, task))?;
        state.jobs.archives.remove(at)
    });
    let Some((task, reason)) = next else {
        return Some(link);
    };
    let archived = link.run(|outcome| Job::Archive(task, reason, outcome));
    // The link logs what it could not keep.
    archived.await.ok();
    None
}

pub(super) async fn forget_deaths(cx: Cx) {
    loop {
        cx.until(|state| {
            let record = state.death_record.as_ref();
            record.is_some_and(|(seq, _)| *seq <= state.store.written)
        })
        .await;
        let link = cx.turn(Turn::Chore).await;
        let record = cx.with(|state| {
            let written = state.store.written;
            state.death_record.take_if(|(seq, _)| *seq <= written)
        });
        if let Some((_, record)) = record {
            let forgotten = link.run(|outcome| Job::ForgetDeaths(record, outcome));
            // A further look brings what was not cleared.
            forgotten.await.ok();
        }
    }
}

//! The event loop: receive an input, let the session decide, do what it wants. Nothing here waits
//! for tmux.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::Options;
use super::connection::Ask;
use super::endpoint::{Endpoint, Standing};
use super::feed_publisher::{FeedPublisher, Publication};
use super::link::{JobCost, Link, Report};
use super::notices::DesktopNotices;
use super::output_queue::{OutputReceiver, OutputSender, output_queue};
use super::signals::Stopping;
use crate::clock::now;
use crate::engine;
use crate::model::Millis;
use crate::paths::Paths;
use crate::session::{AskId, Effect, Input, Session, StoreState};
use crate::store::{Archiver, StoreGone};
use crate::wire::{DaemonStatus, Refusal, Request, Response};

/// How many requests may wait for the event loop; further ones wait in their connections.
pub(super) const ASKS_QUEUED: usize = 32;

/// An autostarted daemon without session and readers leaves after this long.
const USELESS_AFTER: Duration = Duration::from_secs(600);

/// The state of a running daemon.
pub(super) struct EventLoop {
    paths: Paths,
    server_socket: String,
    session: Session,
    link: Link,
    recorder: FeedPublisher,
    archiver: Arc<Archiver>,
    desktop: DesktopNotices,
    /// Who waits for an answer.
    askers: BTreeMap<AskId, Asker>,
    started_at: Millis,
    leaves_when_useless: bool,
    /// Since when there has been neither session nor reader.
    useless_since: Option<Instant>,
    /// How long jobs of the link took together.
    time_in_jobs: Duration,
    /// That it is to stop.
    stopping: Stopping,
    is_leaving: bool,
}

/// Somebody who waits for an answer.
enum Asker {
    /// One.
    Request(oneshot::Sender<Response>),
    /// That a wait has begun, and how it ended.
    Wait(Option<oneshot::Sender<()>>, oneshot::Sender<Response>),
    /// Output, once it is followed.
    Reader(oneshot::Sender<Result<OutputReceiver, Refusal>>),
    /// Output that is followed.
    Following(OutputSender),
}

/// What woke the event loop. All of it: this is what can make the daemon do something.
enum Wake {
    Asked(Ask),
    /// The link reports a change or the outcome of a job.
    Reported(Report),
    /// The store has written something, or the disk has refused it.
    Stored(Result<(), StoreGone>),
    /// A deadline of ours has come.
    Due,
    /// A signal, or whoever reads our stdout has gone.
    Stop,
}

impl EventLoop {
    pub(super) fn new(
        options: &Options,
        session: Session,
        link: Link,
        recorder: FeedPublisher,
        archiver: Arc<Archiver>,
    ) -> Self {
        Self {
            paths: options.paths.clone(),
            server_socket: options.server.socket().display().to_string(),
            session,
            link,
            recorder,
            archiver,
            desktop: DesktopNotices::new(&options.config),
            askers: BTreeMap::new(),
            started_at: now().wall,
            leaves_when_useless: options.leaves_when_useless,
            useless_since: None,
            time_in_jobs: Duration::ZERO,
            stopping: Stopping::new(),
            is_leaving: false,
        }
    }

    pub(super) fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    /// Takes the first look.
    pub(super) async fn begin(&mut self, patience: Duration) {
        self.take(Input::Due);
        while !self.session.has_begun() {
            let report = self.link.report().await;
            self.take_report(report);
        }
        // What it brought is in the feed when somebody is told that we are here. A disk that hangs
        // does not keep us from serving.
        self.settle(patience).await;
    }

    /// Has other sessions of the project looked for.
    pub(super) fn scan_others(&mut self) {
        let effects = self.session.scan_others(now());
        self.perform_all(effects);
    }

    /// Serves until it is told to stop.
    pub(super) async fn run(&mut self, endpoint: &mut Endpoint, asked: &mut mpsc::Receiver<Ask>) {
        let stopping = self.stopping.clone();
        while !self.is_leaving {
            let due = self.next_deadline(endpoint);
            // Losing an arm mid-await is safe: receiving takes nothing before it is done, and that
            // it is to stop is remembered.
            let wake = tokio::select! {
                () = stopping.asked() => Wake::Stop,
                Some(ask) = asked.recv() => Wake::Asked(ask),
                report = self.link.report() => Wake::Reported(report),
                stored = self.recorder.changed() => Wake::Stored(stored),
                () = tokio::time::sleep_until(due) => Wake::Due,
            };
            match wake {
                Wake::Stop => return,
                Wake::Reported(report) => self.take_report(report),
                Wake::Stored(Ok(())) => self.on_stored(),
                Wake::Stored(Err(error)) => {
                    // The next daemon carries on from what is written.
                    tracing::error!(%error, "leaving");
                    return;
                }
                Wake::Due => match endpoint.keep() {
                    Standing::Ours => self.on_deadline(),
                    Standing::Theirs => return,
                },
                Wake::Asked(ask) => self.on_ask(ask),
            }
        }
    }

    fn next_deadline(&self, endpoint: &Endpoint) -> Instant {
        let of_session = self.session.next_deadline().map(Instant::from_std);
        let of_endpoint = endpoint.next_deadline();
        of_session.map_or(of_endpoint, |due| due.min(of_endpoint))
    }

    fn on_deadline(&mut self) {
        self.take(Input::Due);
        self.is_leaving |= self.is_useless_for_long();
    }

    /// Tells what may be told now that the disk has taken or refused records.
    fn on_stored(&mut self) {
        let Publication { shown, counts } = self.recorder.publish();
        self.take(Input::Stored(self.store_state()));
        if let Some(counts) = counts {
            self.link.show_status(counts.line());
        }
        for notice in shown {
            self.desktop.show(self.session.name(), &notice);
            self.link.show_notice(notice.text);
        }
    }

    /// Waits until the disk has taken or refused what was recorded by now, and the counts are
    /// published, but no longer than that.
    async fn settle(&mut self, limit: Duration) {
        let (seq, counts) = (self.recorder.given_seq(), self.recorder.given_counts());
        let deadline = Instant::now() + limit;
        while !self.recorder.has_tried(seq, counts) {
            match timeout_at(deadline, self.recorder.changed()).await {
                Ok(Ok(())) => self.on_stored(),
                // It is for the loop to leave, if the store has gone.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::Changed(change) => self.take(Input::Changed(change)),
            Report::Done(outcome, JobCost { took }) => {
                self.time_in_jobs += took;
                self.take(Input::Done(*outcome));
            }
        }
    }

    /// Lets the session take an input, and does what it wants.
    fn take(&mut self, input: Input) {
        let effects = self.session.handle(input, now());
        self.perform_all(effects);
    }

    fn perform_all(&mut self, effects: Vec<Effect>) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            if let Some(input) = self.perform(effect) {
                effects.extend(self.session.handle(input, now()));
            }
        }
    }

    /// Does one thing; returns what the session is to know of it.
    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Run(job) => self.link.run(job),
            Effect::Follow(panes) => self.link.follow(panes),
            Effect::Waiting(windows) => self.link.set_waiting(windows),
            Effect::Nudge(life) => Link::nudge(&life),
            Effect::Append {
                records,
                session_name,
                checkpoint,
            } => {
                self.recorder.rename(&session_name);
                if let Some(checkpoint) = checkpoint {
                    self.recorder.set_checkpoint(checkpoint);
                }
                let append = vec![engine::Effect::Append(records)];
                self.recorder.perform(append);
                return self
                    .recorder
                    .is_full()
                    .then(|| Input::Stored(self.store_state()));
            }
            Effect::Status(counts) => {
                self.recorder.perform(vec![engine::Effect::Status(counts)]);
            }
            Effect::Save(look, bookmark, first_undelivered) => {
                let is_taken = self.recorder.save(&look, bookmark, first_undelivered);
                return (!is_taken).then_some(Input::NotSaved);
            }
            Effect::Answer(ask, response) => self.answer(ask, response),
            Effect::Begun(ask) => {
                if let Some(Asker::Wait(begun, _)) = self.askers.get_mut(&ask)
                    && let Some(begun) = begun.take()
                {
                    // Whoever has left need not know.
                    begun.send(()).unwrap_or_default();
                }
            }
            Effect::Following(ask) => {
                if let Some(Asker::Reader(reply)) = self.askers.remove(&ask) {
                    let (output, receiver) = output_queue();
                    self.askers.insert(ask, Asker::Following(output));
                    drop(reply.send(Ok(receiver)));
                }
            }
            Effect::Output(ask, piece) => {
                // One that is too far behind is let go: it sees that its task goes on without it,
                // rather than output with holes.
                if let Some(Asker::Following(output)) = self.askers.get(&ask)
                    && !output.send(piece)
                {
                    self.askers.remove(&ask);
                    return Some(Input::Left(ask));
                }
            }
            Effect::OutputEnd(ask) => {
                if let Some(Asker::Following(output)) = self.askers.remove(&ask) {
                    output.end();
                }
            }
            Effect::OutputCut(ask) => drop(self.askers.remove(&ask)),
            Effect::Leave => self.is_leaving = true,
        }
        None
    }

    fn answer(&mut self, ask: AskId, response: Response) {
        // Whoever has left meanwhile needs no answer.
        match self.askers.remove(&ask) {
            Some(Asker::Request(reply) | Asker::Wait(_, reply)) => drop(reply.send(response)),
            Some(Asker::Reader(reply)) => {
                if let Response::Refused(refusal) = response {
                    drop(reply.send(Err(refusal)));
                }
            }
            Some(Asker::Following(_)) | None => {}
        }
    }

    fn on_ask(&mut self, ask: Ask) {
        match ask {
            Ask::Request(_, Request::Status, reply) => {
                drop(reply.send(Response::Status(self.status())));
            }
            Ask::Request(id, request, reply) => {
                self.askers.insert(id, Asker::Request(reply));
                self.take(Input::Asked(id, request));
            }
            Ask::Wait {
                id,
                request,
                begun,
                reply,
            } => {
                self.askers.insert(id, Asker::Wait(Some(begun), reply));
                self.take(Input::Asked(id, Request::Wait(request)));
            }
            Ask::Follow {
                id,
                window,
                raw,
                reply,
            } => {
                self.askers.insert(id, Asker::Reader(reply));
                self.take(Input::Asked(id, Request::Follow { window, raw }));
            }
            Ask::Left(id) => {
                self.askers.remove(&id);
                self.take(Input::Left(id));
            }
        }
    }

    fn status(&self) -> DaemonStatus {
        let tasks = self.session.status().unwrap_or_default();
        let counts = self.session.counts();
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session_name: self.session.name().to_owned(),
            server: self.server_socket.clone(),
            exists: tasks.exists,
            started_at: self.started_at,
            epoch: self.recorder.context().epoch.clone(),
            last_seq: self.recorder.last_seq(),
            feed: self.paths.feed().display().to_string(),
            log: self.paths.log().display().to_string(),
            problems: self.problems(),
            readers: self.n_readers(),
            waits: self.session.n_waits(),
            looks: counts.looks,
            found_late: counts.found_late,
            running: tasks.running,
            waiting: tasks.waiting,
            dead: tasks.dead,
            stalled: tasks.stalled,
        }
    }

    /// Returns what keeps us from our work now.
    fn problems(&self) -> Vec<String> {
        let of_looks = self.session.problem().map(str::to_owned);
        self.recorder
            .problem()
            .into_iter()
            .chain(of_looks)
            .collect()
    }

    fn n_readers(&self) -> usize {
        self.recorder.live().readers().n()
    }

    fn is_useless_for_long(&mut self) -> bool {
        let exists = self.session.status().is_some_and(|counts| counts.exists);
        if exists || self.n_readers() > 0 || !self.leaves_when_useless {
            self.useless_since = None;
            return false;
        }
        self.useless_since
            .get_or_insert_with(Instant::now)
            .elapsed()
            >= USELESS_AFTER
    }

    fn store_state(&self) -> StoreState {
        StoreState {
            written: self.recorder.last_seq(),
            tried: self.recorder.tried_seq(),
            is_full: self.recorder.is_full(),
        }
    }

    /// Delivers what is gathered, saves, and takes our things out of tmux. For each there is a limit:
    /// what stays in a tmux that hangs, the next daemon takes over or removes, and what a disk that
    /// hangs has not taken by the deadline, it finds again.
    pub(super) async fn close(mut self, patience: Duration, limit: Duration, deadline: Instant) {
        let effects = self.session.deliver_all(now());
        self.perform_all(effects);
        let effects = self.session.save_all();
        self.perform_all(effects);
        // A slow disk has more time while tmux is asked.
        let written = timeout(limit / 2, self.recorder.close()).await;
        self.on_stored();
        let archives = self.session.take_archives();
        let Self {
            link,
            recorder,
            archiver,
            mut desktop,
            ..
        } = self;
        tokio::join!(link.close(archives, patience, limit), desktop.close());
        let rest = async {
            if written.is_err() {
                recorder.close().await;
            }
            archiver.close().await;
        };
        if timeout_at(deadline, rest).await.is_err() {
            tracing::warn!("the disk does not answer: the last records may not be on it");
        }
    }
}

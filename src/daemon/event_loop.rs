//! The event loop: receives an input, lets the session decide, carries out the effects. It never waits for tmux.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout, timeout_at};

use super::Options;
use super::alert_displays::Displays;
use super::connection::{ConnectionMessage, ReplySender};
use super::link::{Link, Order};
use super::link_jobs::name;
use super::log;
use super::signals::Disuse;
use super::timer::Timer;
use crate::clock::now;
use crate::model::{Body, Level, Millis, Now, whole_millis};
use crate::outlets::sink::Sinks;
use crate::process::RunEnder;
use crate::rules::wire::{Counters, DaemonStatus, Response};
use crate::session::{Effect, Input, Reply, RequestId, Session, StoreState};
use crate::store::{Archiver, Store, UsualDuration};
use crate::tmux;

/// How many requests may be queued for the event loop; further ones wait in their connections.
pub(super) const MESSAGES_QUEUED: usize = 32;

/// Every alert that is gathered is due within this time.
const GATHERED: Duration = Duration::from_secs(60);

pub(super) struct EventLoop {
    options: Options,
    session: Session,
    link: Link,
    store: Store,
    archiver: Arc<Archiver>,
    /// How long runs usually take, as the archiver finds it out.
    usual: mpsc::Receiver<UsualDuration>,
    /// The notices of the scan for other sessions of the project, while there is one.
    scanned: mpsc::Receiver<Vec<(Level, String)>>,
    ender: RunEnder,
    displays: Displays,
    /// The sinks, once they run: the status shows them.
    pub(super) sinks: Option<Arc<Sinks>>,
    open_requests: BTreeMap<RequestId, ReplySender>,
    started_at: Millis,
    /// Since when there has been neither session nor reader.
    disuse: Disuse,
    /// The longest time from a request to its answer, without waits.
    slowest_answer: Duration,
    /// Set once the daemon is to stop. It is never withdrawn.
    pub(super) stopping: watch::Sender<bool>,
    is_leaving: bool,
}

impl EventLoop {
    pub(super) fn new(
        options: Options,
        session: Session,
        link: Link,
        store: Store,
        archiver: Arc<Archiver>,
        usual: mpsc::Receiver<UsualDuration>,
        scanned: mpsc::Receiver<Vec<(Level, String)>>,
    ) -> io::Result<Self> {
        Ok(Self {
            displays: Displays::new(options.config.notices.clone()),
            options,
            session,
            link,
            store,
            archiver,
            usual,
            scanned,
            ender: RunEnder::new()?,
            sinks: None,
            open_requests: BTreeMap::new(),
            started_at: now().wall,
            disuse: Disuse::default(),
            slowest_answer: Duration::ZERO,
            stopping: watch::Sender::new(false),
            is_leaving: false,
        })
    }

    pub(super) async fn begin(&mut self, patience: Duration) {
        self.take(Input::Due);
        while !self.session.state().has_begun() {
            let report = self.link.report().await;
            self.take(report);
        }
        // Its result is in the feed before the daemon says that it is ready, unless the disk hangs.
        self.wait_for_disk(patience).await;
    }

    /// Serves until the daemon is to stop. What it waits for is everything that can make the daemon do something.
    pub(super) async fn run(&mut self, messages: &mut mpsc::Receiver<ConnectionMessage>) {
        self.link.order(Order::ScanOthers);
        let mut stopping = self.stopping.subscribe();
        let timer = Timer::new();
        while !self.is_leaving {
            if let Some(manager) = &mut self.options.service_manager {
                manager.send_due(Instant::now());
            }
            let due = self.next_deadline();
            // Losing an arm mid-await is safe: receiving takes nothing before it is done.
            tokio::select! {
                _ = stopping.wait_for(|is_asked| *is_asked) => {
                    tracing::debug!("asked to stop");
                    return;
                }
                Some(message) = messages.recv() => self.on_message(message),
                report = self.link.report() => self.take(report),
                stored = self.store.changed() => {
                    if stored.is_err() {
                        // The next daemon continues from what is written.
                        tracing::error!("leaving: the thread that writes the feed has gone");
                        return;
                    }
                    self.on_stored();
                }
                report = self.ender.report() => {
                    tracing::debug!(?report, "the end of a run");
                    self.take(Input::Ending(report));
                }
                window = self.displays.clicked() => {
                    tracing::debug!(%window, "alert clicked");
                    self.link.order(Order::ShowWindow(window));
                }
                Some((task, millis)) = self.usual.recv() => {
                    tracing::debug!(window = %task.window, run = task.run, millis, "usual duration");
                    self.take(Input::UsualDuration(task, millis));
                }
                Some(notices) = self.scanned.recv() => {
                    tracing::debug!(notices = notices.len(), "other sessions scanned");
                    self.take(Input::Notices(notices));
                }
                () = timer.until(due) => self.on_deadline(),
            }
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let of_session = self.session.next_deadline().map(Instant::from_std);
        let of_displays = self.displays.alerts.next_deadline().map(Instant::from_std);
        let manager = self.options.service_manager.as_ref();
        let of_manager = manager.and_then(|manager| manager.alive_at);
        let deadlines = [of_session, of_displays, of_manager];
        deadlines.into_iter().flatten().min()
    }

    fn on_deadline(&mut self) {
        tracing::debug!("deadline");
        self.take(Input::Due);
        self.display_due(now());
        let counts = self.session.state().status();
        let exists = counts.is_some_and(|counts| counts.exists);
        let is_used = exists || self.store.live.consumers.n_readers() > 0;
        let is_useless = self.disuse.note(is_used, Instant::now().into_std());
        self.is_leaving |= is_useless && self.options.leaves_when_useless;
    }

    /// Reports what may be reported now that the disk has accepted or refused records.
    fn on_stored(&mut self) {
        let (shown, counts) = self.store.take_report();
        let state = self.store_state();
        tracing::debug!(written = state.written, tried = state.tried, "stored");
        self.take(Input::Stored(state));
        if let Some(counts) = counts {
            if let Some(manager) = &self.options.service_manager {
                let session = self.session.state();
                let name = &session.session_name;
                let line = counts.line().unwrap_or_else(|| "no session".to_owned());
                manager.status(&format!("session {name}, {line}"));
            }
            self.link.order(Order::Status(counts));
        }
        let at = now();
        for what in shown {
            let is_muted = match &what {
                Body::Event(event) => self.session.state().mutes(event),
                Body::Notice { .. } | Body::FollowUp { .. } => false,
            };
            if !is_muted {
                self.displays.add(&what, at.mono);
            }
        }
        self.display_due(at);
    }

    fn display_due(&mut self, at: Now) {
        let name = &self.session.state().session_name;
        if let Some(due) = self.displays.take_due(at, name) {
            self.link.order(Order::Alerts(due));
        }
    }

    /// Waits so long at most until the disk has taken or refused everything by now, and the counts are published.
    async fn wait_for_disk(&mut self, limit: Duration) {
        let (seq, counts) = (self.store.given_seq, self.session.state().status());
        let deadline = Instant::now() + limit;
        while self.store.report.tried < seq || self.store.report.counts != counts {
            match timeout_at(deadline, self.store.changed()).await {
                Ok(Ok(())) => self.on_stored(),
                // If the store is gone, the loop will stop.
                Ok(Err(_)) | Err(_) => return,
            }
        }
    }

    /// Passes an input to the session, and carries out the effects.
    fn take(&mut self, input: Input) {
        if let Input::Changed(change) = &input {
            tracing::debug!(change = name(change), "change");
        }
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

    fn perform(&mut self, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Run(job) => self.link.order(Order::Run(job)),
            Effect::Follow(panes) => self.link.order(Order::Follow(panes)),
            Effect::EndRun(order) => {
                tracing::debug!(?order, "ending a run");
                self.ender.end(order);
            }
            Effect::Questions(questions) => self.link.order(Order::Questions(questions)),
            Effect::Nudge(life) => tmux::nudge(life.server_pid),
            Effect::Append {
                records,
                session_name,
                checkpoint,
            } => {
                for record in &records {
                    tracing::debug!(seq = record.seq, kind = %record.body.kind(), "record");
                }
                self.store.rename(&session_name);
                if let Some(checkpoint) = checkpoint {
                    self.store.context.checkpoint = Some(checkpoint);
                }
                self.store.append(records);
                let is_full = self.store.is_full();
                return is_full.then(|| Input::Stored(self.store_state()));
            }
            Effect::Status(counts) => self.store.publish(counts),
            Effect::FindUsualDuration(task) => {
                self.archiver.find_usual(self.options.paths.runs(), task);
            }
            Effect::Tasks(board) => self.store.live.publish_tasks(board),
            Effect::Save(look) => {
                let is_taken = self.store.save(*look);
                return (!is_taken).then_some(Input::NotSaved);
            }
            Effect::Reply(request_id, reply) => return self.reply(request_id, reply),
            Effect::Log(level, text) => log::write(level, &text),
            Effect::Leave => self.is_leaving = true,
        }
        None
    }

    /// Passes a reply to a connection. A client that has disconnected needs none; one that is too far behind
    /// is disconnected, so that its output never has gaps.
    fn reply(&mut self, request_id: RequestId, mut reply: Reply) -> Option<Input> {
        if let Reply::Answer(answer, _) = &mut reply
            && let Response::Status(status) = &mut answer.response
        {
            **status = self.status();
        }
        if matches!(reply, Reply::Begun | Reply::Output(Some(_))) {
            if self.open_requests.get(&request_id)?.send(reply) {
                return None;
            }
            self.open_requests.remove(&request_id);
            return Some(Input::Left(request_id));
        }
        let replies = self.open_requests.remove(&request_id)?;
        let took = replies.received_at.map(|at| at.elapsed());
        self.slowest_answer = self.slowest_answer.max(took.unwrap_or_default());
        tracing::debug!(id = request_id.0, ?took, "answer");
        // The client may have disconnected.
        replies.send(reply);
        None
    }

    fn on_message(&mut self, message: ConnectionMessage) {
        match message {
            ConnectionMessage::Request(id, line, replies) => {
                self.open_requests.insert(id, replies);
                self.take(Input::Requested(id, line));
            }
            ConnectionMessage::Left(id) => {
                tracing::debug!(id = id.0, "left");
                self.open_requests.remove(&id);
                self.take(Input::Left(id));
            }
        }
    }

    fn status(&self) -> DaemonStatus {
        let session = self.session.state();
        let tasks = session.status().unwrap_or_default();
        let counters = session.counters;
        let files = self.store.live.files();
        let consumers = self.store.live.consumer_list().consumers;
        let sinks = self.sinks.as_ref();
        let (tmux_bytes, awaited) = tmux::traffic();
        let problems = self.store.problem().into_iter();
        let problems = problems.chain(session.look_problem.clone());
        let problems = problems.chain(self.store.live.consumers.problem());
        let Options { paths, server, .. } = &self.options;
        DaemonStatus {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            session_name: session.session_name.clone(),
            server: server.socket().display().to_string(),
            exists: tasks.exists,
            started_at: self.started_at,
            epoch: self.store.context.epoch.clone(),
            last_seq: self.store.report.written,
            first_seq: files.first_seq(),
            feed: paths.feed().display().to_string(),
            feed_bytes: files.bytes(),
            feed_files: files.closed.len() + 1,
            log: paths.log().display().to_string(),
            config: self.options.shown_config.clone(),
            problems: problems.collect(),
            readers: self.store.live.consumers.n_readers(),
            sinks: sinks.map_or_else(Vec::new, |sinks| sinks.status(&consumers)),
            consumers,
            waits: session.n_waits(),
            looks: counters.whole_looks + counters.partial_looks,
            found_late: session.found_late,
            counters: Counters {
                tmux_ms: whole_millis(awaited),
                tmux_bytes,
                slowest_answer_ms: whole_millis(self.slowest_answer),
                ..counters
            },
            running: tasks.running,
            waiting: tasks.waiting,
            dead: tasks.dead,
        }
    }

    fn store_state(&self) -> StoreState {
        StoreState {
            written: self.store.report.written,
            tried: self.store.report.tried,
            is_full: self.store.is_full(),
        }
    }

    /// Delivers gathered events, saves, and removes hooks and options from tmux. Each step has a limit: what stays in
    /// a tmux that hangs, or is not written by the deadline, the next daemon takes over or finds again.
    pub(super) async fn close(mut self, patience: Duration, limit: Duration, deadline: Instant) {
        // It says which sessions it has ended.
        if let Ok(Some(notices)) = timeout(patience, self.scanned.recv()).await {
            self.take(Input::Notices(notices));
        }
        let (effects, archives) = self.session.stop(now());
        self.perform_all(effects);
        // A slow disk has more time while tmux is being cleaned up.
        let written = timeout(limit / 2, self.store.close()).await;
        self.on_stored();
        // What is gathered for display is displayed now.
        self.display_due(now().after(GATHERED));
        let left = self.link.close(archives, patience, limit);
        tokio::join!(left, self.displays.close());
        let (store, archiver) = (&self.store, &self.archiver);
        let rest = async {
            if written.is_err() {
                store.close().await;
            }
            archiver.close().await;
        };
        if timeout_at(deadline, rest).await.is_err() {
            tracing::warn!("the disk does not answer: the last records may not be on it");
        }
    }
}

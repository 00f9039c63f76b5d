//! The link to tmux: a thread, so that neither tmux nor /proc ever delays the one that answers requests.
//!
//! It runs one job after the other, each with a time limit. While none runs, it reports changes at
//! once; changes during a job are reported before its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::alert_displays::DueAlerts;
use super::link_jobs::{LIMIT, LinkJobs, limit, name};
use super::timer::Timer;
use crate::model::{Error, OpenQuestion, PaneId, StatusCounts, Task, WindowId};
use crate::rules::prompt::UserRules;
use crate::session::{Change, Input, Job};
use crate::tmux::{self, TmuxError};

/// How many reports may be queued: outcomes are queued behind earlier output. Further reports stay
/// in the clients' pipes, where tmux notices that they are not read.
const MAX_QUEUED: usize = 2;

/// As much as a program's first thread has; only the used part takes memory.
const STACK: usize = 8 << 20;

#[derive(Debug)]
pub(super) enum Order {
    Run(Job),
    Follow(BTreeSet<PaneId>),
    Questions(BTreeMap<WindowId, OpenQuestion>),
    Alerts(DueAlerts),
    ShowWindow(WindowId),
    /// Store the counts for tmux's status line.
    Status(StatusCounts),
    /// Look for other sessions of the project. What is ended or in use there is reported as notices.
    ScanOthers,
    /// Leave tmux, after archiving the output of these runs.
    Close(Vec<Arc<Task>>, Duration, oneshot::Sender<()>),
}

/// The link's handle for the answering thread.
#[derive(Debug)]
pub(super) struct Link {
    /// Not bounded, because the answering thread never waits for the link. It stays short: there is one job at a time,
    /// and other orders follow from the outcomes of jobs, or from what users do.
    orders: mpsc::UnboundedSender<Order>,
    reports: mpsc::Receiver<Input>,
    abort: watch::Sender<bool>,
    is_done: oneshot::Receiver<()>,
}

impl Link {
    pub(super) fn start(jobs: LinkJobs, rules: UserRules) -> io::Result<Self> {
        let (orders, ordered) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(MAX_QUEUED);
        let (abort, aborted) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let task = LinkTask {
            jobs,
            rules,
            flushes: FlushSchedule::new(Instant::now()),
            reports,
        };
        let (done, is_done) = oneshot::channel();
        thread::Builder::new()
            .name("tmux-link".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                runtime.block_on(task.run(ordered, aborted));
                // A system call that blocks is abandoned.
                runtime.shutdown_background();
                done.send(()).unwrap_or_default();
            })?;
        Ok(Self {
            orders,
            reports: reported,
            abort,
            is_done,
        })
    }

    /// Returns the next report, also if an earlier future was dropped; pending once the thread has ended.
    pub(super) async fn report(&mut self) -> Input {
        match self.reports.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }

    /// Gives it an order. It never waits.
    pub(super) fn order(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::error!("the link to tmux has ended");
        }
    }

    /// Leaves tmux: a running job is cancelled after `patience`, then hooks and options are removed within `limit`.
    pub(super) async fn close(
        mut self,
        archives: Vec<Arc<Task>>,
        patience: Duration,
        limit: Duration,
    ) {
        // A thread that is blocked on a full queue of reports is released.
        self.reports.close();
        while self.reports.try_recv().is_ok() {}
        let (begun, has_begun) = oneshot::channel();
        self.order(Order::Close(archives, limit, begun));
        if timeout(patience, has_begun).await.is_err() {
            self.abort.send_replace(true);
        }
        // It has limits of its own; a thread that hangs in the kernel is abandoned.
        drop(timeout(patience + limit * 2, self.is_done).await);
    }
}

struct LinkTask {
    jobs: LinkJobs,
    rules: UserRules,
    flushes: FlushSchedule,
    reports: mpsc::Sender<Input>,
}

impl LinkTask {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut aborted: watch::Receiver<bool>,
    ) {
        let timer = Timer::new();
        loop {
            let asking = self.jobs.link.terminals.next_deadline();
            let asking = asking.map(Instant::from_std);
            let reading = self.jobs.link.idle.next_deadline().map(Instant::from_std);
            let due = asking.into_iter().chain(reading).min();
            // Losing an arm mid-await is safe: receiving takes nothing before it is done.
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Run(job)) => self.run_job(job, &mut aborted).await,
                    Some(Order::Follow(panes)) => {
                        if let Ok(clients) = self.jobs.link.clients()
                            && let Some(follower) = &mut clients.follower
                        {
                            follower.follow_only(&mut clients.main, &panes);
                        }
                    }
                    Some(Order::Questions(questions)) => {
                        self.jobs.link.terminals.questions = questions;
                    }
                    Some(Order::Alerts(due)) => {
                        within_limit("show alerts", self.jobs.show_alerts(due)).await;
                    }
                    Some(Order::ShowWindow(window)) => {
                        within_limit("show a window", self.jobs.show_window(window)).await;
                    }
                    Some(Order::Status(counts)) => {
                        within_limit("show the status", self.jobs.show_status(&counts)).await;
                    }
                    Some(Order::ScanOthers) => self.jobs.scan_others(),
                    Some(Order::Close(archives, limit, begun)) => {
                        // The receiver may have been dropped.
                        begun.send(()).unwrap_or_default();
                        return self.close(archives, limit).await;
                    }
                    None => return self.close(Vec::new(), Duration::ZERO).await,
                },
                change = self.jobs.link.changed() => {
                    if matches!(change, Change::Output) {
                        // A program can print more than tmux keeps in some hundredths of a second.
                        within_limit("first lines", self.jobs.link.read_first_lines()).await;
                        if let Ok(clients) = self.jobs.link.clients() {
                            // Until a look finds them quiet.
                            clients.main.pause_panes(clients.activity.take_busy(), None);
                        }
                    }
                    self.report(Input::Changed(change)).await;
                }
                () = timer.until(due) => {
                    let now = Instant::now();
                    let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
                    if is_due(reading) {
                        // Whether the server sleeps after what we made it do.
                        let reading = self.jobs.link.server_run_time();
                        self.jobs.link.idle.read(reading);
                    }
                    if is_due(asking) {
                        self.examine_terminals().await;
                    }
                }
                () = ready(()), if self.jobs.link.options.is_any_left() => {
                    within_limit("set options", self.jobs.link.set_some_options()).await;
                }
            }
        }
    }

    async fn run_job(&mut self, job: Job, aborted: &mut watch::Receiver<bool>) {
        let (began, (bytes_before, _)) = (Instant::now(), tmux::traffic());
        let is_look = matches!(job, Job::Look(..) | Job::Sweep(_));
        if let Job::Look(order, _) = &job {
            tracing::debug!(windows = ?order.windows, "look");
        }
        let (name, limit) = (name(&job), limit(&job));
        let mut before = Vec::new();
        // On the heap, because it has room for the largest of all jobs.
        let done = Box::pin(self.jobs.run(job, &mut before));
        let done = tokio::select! {
            done = timeout(limit, done) => match done {
                Ok(done) => done.map_err(TmuxError::of_launch),
                Err(_) => {
                    let why = format!("tmux does not answer: gave up after {limit:?}");
                    Err(Error::failed(why))
                }
            },
            // Only when the daemon stops: the outcome is not needed any more.
            _ = aborted.wait_for(|is_aborted| *is_aborted) => return,
        };
        let took = began.elapsed();
        if is_look && done.is_ok() {
            within_limit("first lines", self.jobs.link.read_first_lines()).await;
        }
        let bytes = tmux::traffic().0 - bytes_before;
        match &done {
            Ok(()) => tracing::debug!(job = name, ?took, bytes, "job done"),
            Err(Error { message, .. }) => {
                tracing::debug!(job = name, ?took, bytes, error = message, "job failed");
            }
        }
        let clients = self.jobs.link.clients();
        let queued = clients.map(|clients| std::mem::take(&mut clients.queued));
        for change in queued.unwrap_or_default().into_iter().chain(before) {
            self.report(Input::Changed(change)).await;
        }
        self.report(Input::Done(done)).await;
    }

    /// Examines terminals, and makes tmux send pending notifications.
    async fn examine_terminals(&mut self) {
        let now = Instant::now();
        let terminals = &mut self.jobs.link.terminals;
        let changed = terminals.ask_due(&self.rules, now.into_std());
        let has_run = terminals.take_has_run();
        tracing::debug!(changed = changed.len(), took = ?now.elapsed(), "terminals examined");
        if !changed.is_empty() {
            let change = Change::Terminals(changed);
            self.report(Input::Changed(change)).await;
        }
        if self.flushes.take_due(has_run, now) {
            self.jobs.link.flush();
        }
    }

    async fn close(mut self, archives: Vec<Arc<Task>>, limit: Duration) {
        let archived = async {
            for task in archives {
                self.jobs.archive(&task, None).await;
            }
        };
        if timeout(limit / 2, archived).await.is_err() {
            tracing::warn!("the output of some runs was not kept");
        }
        if timeout(limit, self.jobs.leave()).await.is_err() {
            tracing::warn!("tmux does not answer: our hooks and options stay in it");
        }
    }

    async fn report(&self, report: Input) {
        // The receiver is dropped when the daemon stops.
        self.reports.send(report).await.unwrap_or_default();
    }
}

/// Carries out what is no job. Each answer has a limit of its own, which ends first and closes the connection well.
async fn within_limit(what: &str, done: impl Future<Output = ()>) {
    let began = Instant::now();
    if timeout(LIMIT, done).await.is_err() {
        tracing::warn!(what, "tmux does not answer");
    }
    tracing::debug!(what, took = ?began.elapsed(), "link");
}

// tmux can hold back notifications when several panes print at once, so only after programs have run. Making it send
// them costs tmux a turn of its event loop, which other daemons on the server notice.

/// The minimum pause. Flushes are made only when a deadline wakes the link anyway.
const MIN_PAUSE: Duration = Duration::from_millis(1500);

/// The maximum pause while no task's program has run: a process outside of their trees may have printed.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// How many flushes follow when programs have run: tmux may read their output after the first.
const FLUSHES_AFTER_RUN: u32 = 2;

/// When tmux was last asked, and how often it is to be asked.
#[derive(Debug)]
pub(super) struct FlushSchedule {
    flushed: Instant,
    /// How many flushes are due because programs have run.
    flushes_left: u32,
}

impl FlushSchedule {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            flushed: now,
            flushes_left: FLUSHES_AFTER_RUN,
        }
    }

    /// Returns whether a flush is due now. `has_run` is whether programs of tasks may have run since the last call.
    pub(super) fn take_due(&mut self, has_run: bool, now: Instant) -> bool {
        if has_run {
            self.flushes_left = FLUSHES_AFTER_RUN;
        }
        let pause = now.saturating_duration_since(self.flushed);
        let is_due = pause >= MAX_PAUSE || (self.flushes_left > 0 && pause >= MIN_PAUSE);
        if is_due {
            self.flushed = now;
            self.flushes_left = self.flushes_left.saturating_sub(1);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks every two seconds; `has_run` says when programs have run.
    fn flushes(has_run: &str) -> String {
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        let ask = |(n, has): (u32, char)| {
            let now = start + Duration::from_secs(2) * (n + 1);
            let is_due = schedule.take_due(has == 'x', now);
            if is_due { 'f' } else { '.' }
        };
        (0..).zip(has_run.chars()).map(ask).collect()
    }

    #[test]
    fn two_flushes_follow_programs_that_run_and_are_never_close() {
        assert_eq!(flushes("xxxxxx"), "ffffff");
        assert_eq!(flushes("....xx...x..."), "ff..fff..ff..");
        // tmux is asked seldom while nothing runs.
        let rare = flushes(&".".repeat(34));
        assert_eq!(rare, format!("ff{0}f{0}f..", ".".repeat(14)));
        let start = Instant::now();
        let mut schedule = FlushSchedule::new(start);
        let is_due = [1, 2, 3].map(|s| schedule.take_due(true, start + Duration::from_secs(s)));
        assert_eq!(is_due, [false, true, false]);
    }
}

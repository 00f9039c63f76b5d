//! The link to tmux: a thread of its own, so that neither tmux nor the kernel's tables ever hold up
//! the thread on which requests are answered.
//!
//! It runs one job after the other, each within a time limit. While none runs it reports changes at
//! once; what is reported during a job is handed on before its outcome.

use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use super::Options;
use super::link_jobs::{Done, LinkJobs};
use super::run_archiver::RunArchiver;
use super::session_link::SessionLink;
use crate::model::{PaneId, SessionLife, Task, WindowId};
use crate::prompt::UserRules;
use crate::session::{Change, Job, Outcome};
use crate::tmux;

/// How many reports may wait: outcomes wait behind the output that came before them. Further ones are
/// left in the clients' pipes, where tmux sees that they are not read.
const MAX_QUEUED: usize = 2;

/// How long a job may take. Each command to tmux has a limit of its own; this one is for jobs that
/// make many.
const JOB_LIMIT: Duration = Duration::from_secs(30);

/// How often at most tmux is asked to send notifications that it may hold back. Asked only when a
/// deadline wakes the link anyway, which with live tasks is every two seconds.
const FLUSH_EVERY: Duration = Duration::from_millis(1500);

/// As much as the first thread of a program has, of which only what is used takes memory.
const STACK: usize = 8 << 20;

/// What the link is told.
#[derive(Debug)]
enum Order {
    /// Run this.
    Run(Job),
    /// Follow exactly these panes.
    Follow(BTreeSet<PaneId>),
    /// These tasks were reported as waiting.
    Waiting(BTreeSet<WindowId>),
    /// Show a notice in tmux.
    Notice(String),
    /// Put the counts where tmux's status line can show them.
    Status(Option<String>),
    /// Leave tmux, after the output of these runs is kept.
    Close(Vec<std::sync::Arc<Task>>, Duration, oneshot::Sender<()>),
}

/// What the link reports.
#[derive(Debug)]
pub(super) enum Report {
    /// tmux or the kernel reports a change.
    Changed(Change),
    /// A job is done; with what it cost.
    Done(Box<Result<Outcome, String>>, JobCost),
}

/// What a job has cost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JobCost {
    /// How long it took.
    pub(super) took: Duration,
}

/// The link, as the thread that answers has it.
#[derive(Debug)]
pub(super) struct Link {
    orders: mpsc::UnboundedSender<Order>,
    reports: mpsc::Receiver<Report>,
    /// Gives up the running job.
    abort: watch::Sender<bool>,
    /// Resolves when the thread has ended.
    is_done: oneshot::Receiver<()>,
}

impl Link {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When the system has no room for it.
    pub(super) fn start(
        options: &Options,
        link: SessionLink,
        archiver: RunArchiver,
        rules: UserRules,
    ) -> io::Result<Self> {
        let (orders, ordered) = mpsc::unbounded_channel();
        let (reports, reported) = mpsc::channel(MAX_QUEUED);
        let (abort, aborted) = watch::channel(false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let task = LinkTask {
            jobs: LinkJobs::new(options, link, archiver),
            rules,
            waiting: BTreeSet::new(),
            flushed: Instant::now(),
            reports,
        };
        let (done, is_done) = oneshot::channel();
        thread::Builder::new()
            .name("tmux-link".to_owned())
            .stack_size(STACK)
            .spawn(move || {
                runtime.block_on(task.run(ordered, aborted));
                // What blocks in the system is left behind.
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

    /// Returns what is reported next; pending for ever once the thread has gone.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn report(&mut self) -> Report {
        match self.reports.recv().await {
            Some(report) => report,
            None => std::future::pending().await,
        }
    }

    pub(super) fn run(&self, job: Job) {
        self.order(Order::Run(job));
    }

    pub(super) fn follow(&self, panes: BTreeSet<PaneId>) {
        self.order(Order::Follow(panes));
    }

    pub(super) fn set_waiting(&self, windows: BTreeSet<WindowId>) {
        self.order(Order::Waiting(windows));
    }

    pub(super) fn show_notice(&self, text: String) {
        self.order(Order::Notice(text));
    }

    pub(super) fn show_status(&self, line: Option<String>) {
        self.order(Order::Status(line));
    }

    /// Makes tmux ask the kernel how processes ended.
    pub(super) fn nudge(life: &SessionLife) {
        tmux::nudge(life.server_pid);
    }

    /// Leaves tmux: what runs is given up after `patience`, and then our things are taken out of tmux
    /// within `limit`. Returns whether that was done in time.
    pub(super) async fn close(
        mut self,
        archives: Vec<std::sync::Arc<Task>>,
        patience: Duration,
        limit: Duration,
    ) -> bool {
        // A thread that waits for room among the reports is let go.
        self.reports.close();
        while self.reports.try_recv().is_ok() {}
        let (begun, has_begun) = oneshot::channel();
        self.order(Order::Close(archives, limit, begun));
        if timeout(patience, has_begun).await.is_err() {
            self.abort.send_replace(true);
        }
        // It has limits of its own; a thread that hangs in the kernel is left behind.
        timeout(patience + limit * 2, self.is_done).await.is_ok()
    }

    fn order(&self, order: Order) {
        if self.orders.send(order).is_err() {
            tracing::error!("the link to tmux has ended");
        }
    }
}

/// The link, on its thread.
struct LinkTask {
    jobs: LinkJobs,
    rules: UserRules,
    /// Tasks that were reported as waiting.
    waiting: BTreeSet<WindowId>,
    /// When tmux was last asked to send what it may hold back.
    flushed: Instant,
    reports: mpsc::Sender<Report>,
}

impl LinkTask {
    async fn run(
        mut self,
        mut orders: mpsc::UnboundedReceiver<Order>,
        mut aborted: watch::Receiver<bool>,
    ) {
        loop {
            let due = self.jobs.link.terminals.next_deadline();
            let due = due.map(Instant::from_std);
            // Losing an arm mid-await is safe: receiving and reading notifications take nothing
            // before they are done.
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Run(job)) => self.run_job(job, &mut aborted).await,
                    Some(Order::Follow(panes)) => {
                        self.jobs.link.follow_only(panes.into_iter().collect()).await;
                    }
                    Some(Order::Waiting(windows)) => self.waiting = windows,
                    Some(Order::Notice(text)) => self.jobs.show_notice(&text).await,
                    Some(Order::Status(line)) => self.jobs.show_status(line.as_deref()).await,
                    Some(Order::Close(archives, limit, begun)) => {
                        // Whoever closes may have given up waiting for this.
                        begun.send(()).unwrap_or_default();
                        return self.close(archives, limit).await;
                    }
                    None => return self.close(Vec::new(), Duration::ZERO).await,
                },
                change = self.jobs.link.changed() => {
                    if change == Change::Output {
                        self.jobs.link.pause_busy().await;
                    }
                    self.report(Report::Changed(change)).await;
                }
                () = until(due) => self.ask_terminals().await,
            }
        }
    }

    async fn run_job(&mut self, job: Job, aborted: &mut watch::Receiver<bool>) {
        let began = Instant::now();
        let name = LinkJobs::name(&job);
        let done = tokio::select! {
            done = timeout(JOB_LIMIT, self.jobs.perform(job)) => done.unwrap_or_else(|_| {
                Done::failed(format!("tmux does not answer: gave up after {JOB_LIMIT:?}"))
            }),
            // Only when we leave: nobody waits for the outcome any more.
            _ = aborted.wait_for(|is_aborted| *is_aborted) => return,
        };
        let took = began.elapsed();
        tracing::debug!(job = name, ?took, is_ok = done.outcome.is_ok(), "job done");
        let before = self.jobs.link.take_queued();
        for change in before.into_iter().chain(done.before) {
            self.report(Report::Changed(change)).await;
        }
        self.report(Report::Done(Box::new(done.outcome), JobCost { took }))
            .await;
        for change in done.after {
            self.report(Report::Changed(change)).await;
        }
        if let Some(untidy) = done.untidy {
            self.jobs.link.tidy(&untidy).await;
        }
    }

    /// Asks the kernel about terminals, and makes tmux send what it may hold back.
    async fn ask_terminals(&mut self) {
        let waiting = &self.waiting;
        let waits = |window| waiting.contains(&window);
        let now = Instant::now().into_std();
        let changed = self.jobs.link.terminals.ask_due(waits, &self.rules, now);
        if !changed.is_empty() {
            self.report(Report::Changed(Change::Terminals(changed)))
                .await;
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flushed = Instant::now();
            self.jobs.link.flush().await;
        }
    }

    async fn close(mut self, archives: Vec<std::sync::Arc<Task>>, limit: Duration) {
        let archived = async {
            for task in archives {
                self.jobs.archive(&task).await;
            }
        };
        if timeout(limit / 2, archived).await.is_err() {
            tracing::warn!("the output of some runs was not kept");
        }
        if timeout(limit, self.jobs.leave()).await.is_err() {
            tracing::warn!("tmux does not answer: our hooks and options stay in it");
        }
    }

    async fn report(&self, report: Report) {
        // Nobody listens any more when we leave.
        self.reports.send(report).await.unwrap_or_default();
    }
}

/// Resolves at this time; never without one.
async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

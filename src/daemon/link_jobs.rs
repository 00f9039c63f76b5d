//! The link's jobs: what each does with tmux.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::alert_displays::{DueAlerts, StatusLineDisplay};
use super::output_follower::{PaneReading, judged};
use super::run_archiver::RunArchiver;
use super::session_link::SessionLink;
use super::stale_sessions::{Project, SessionCleaner};
use super::task_output::{read_task_log, search_task};
use super::{launches, typing};
use crate::model::{Error, PaneId, StatusCounts, Task, WindowId, with_causes};
use crate::process;
use crate::session::{Beginning, Change, Job, JobOutcome, LookOrder, PortQuery, RowsToRead};
use crate::terminal::PaneOutput;
use crate::tmux::{self, Connection, LookKind, TmuxError, Unless};
use crate::wire::{LogRequest, Response};

/// How long tmux may take to read the last output of a run after the kernel has reported its end.
const LAST_OUTPUT_LIMIT: Duration = Duration::from_millis(100);

/// How often tmux is queried meanwhile: it does not report that it has read the last output.
const LAST_OUTPUT_PAUSE: Duration = Duration::from_millis(2);

/// Runs jobs.
#[derive(Debug)]
pub(super) struct LinkJobs {
    pub(super) link: SessionLink,
    notices: StatusLineDisplay,
    options: Options,
    archiver: RunArchiver,
    /// Cleans up after the scan for other sessions; `None` once that has begun.
    cleaner: Option<SessionCleaner>,
    /// How long a screen must be unchanged before its prompt is judged.
    quiet: Duration,
}

/// A finished job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) outcome: Result<JobOutcome, String>,
    /// Changes reported before it.
    pub(super) before: Vec<Change>,
}

impl Done {
    pub(super) fn failed(why: String) -> Self {
        Self::of(Err(why))
    }

    fn of(outcome: Result<JobOutcome, String>) -> Self {
        Self {
            outcome,
            before: Vec::new(),
        }
    }
}

impl LinkJobs {
    pub(super) fn new(
        options: &Options,
        link: SessionLink,
        archiver: RunArchiver,
        cleaner: SessionCleaner,
    ) -> Self {
        Self {
            link,
            notices: StatusLineDisplay::new(&options.config),
            options: options.clone(),
            archiver,
            cleaner: Some(cleaner),
            quiet: options.config.input.quiet,
        }
    }

    /// Returns the name of a job in the log.
    pub(super) fn name(job: &Job) -> &'static str {
        match job {
            Job::Look(_) => "look",
            Job::Sweep => "sweep",
            Job::Read { .. } => "read",
            Job::ReadEnd(..) => "read-end",
            Job::ReadLog(..) => "read-log",
            Job::ReadRecord(_) => "read-record",
            Job::FindPorts(_) => "find-ports",
            Job::Search(..) => "search",
            Job::Drain => "drain",
            Job::MarkEndings(_) => "mark-endings",
            Job::UnmarkEndings(_) => "unmark-endings",
            Job::FindShared(_) => "find-shared",
            Job::Kill(_) => "kill",
            Job::KillSession(_) => "kill-session",
            Job::Prune(_) => "prune",
            Job::Cleanup => "cleanup",
            Job::FindName(_) => "find-name",
            Job::ForgetDeaths(_) => "forget-deaths",
            Job::Launch(..) => "launch",
            Job::Restart(..) => "restart",
            Job::ForgetEnvironments(..) => "forget-environments",
            Job::Type(..) => "type",
            Job::Archive(..) => "archive",
            Job::ScanOthers => "scan-others",
        }
    }

    /// Runs a job. Each kind is made in a function of its own, so that the stack has room for one of
    /// them, not for all.
    pub(super) fn perform(&mut self, job: Job) -> Pin<Box<dyn Future<Output = Done> + '_>> {
        match job {
            Job::Look(order) => {
                boxed(move || async move { self.look(&order, LookKind::Windows).await })
            }
            Job::Sweep => {
                boxed(
                    move || async move { self.look(&LookOrder::default(), LookKind::Slice).await },
                )
            }
            Job::Read {
                pane,
                rows,
                is_over,
                last_of,
                begins,
            } => boxed(move || async move {
                let order = (pane, rows, is_over);
                self.read(order, last_of, begins).await
            }),
            Job::ReadEnd(pane, lines) => boxed(move || async move {
                let log = self.link.read_end(pane, lines).await;
                Done::of(log.map(|log| JobOutcome::End(Box::new(log))).map_err(text))
            }),
            Job::ReadLog(task, request) => {
                boxed(move || async move { Done::of(Ok(self.read_log(&task, &request).await)) })
            }
            Job::ReadRecord(task) => {
                boxed(move || async move { Done::of(self.read_record(&task).await.map_err(text)) })
            }
            Job::FindPorts(queries) => boxed(move || async move { Done::of(find_ports(&queries)) }),
            Job::Search(task, pattern) => boxed(move || async move {
                let first = self.link.first_lines_of(&task);
                let mut connection = self.link.connection();
                let found = search_task(&mut connection, &task, &first, &pattern).await;
                Done::of(found.map(JobOutcome::Matches).map_err(text))
            }),
            Job::Drain => boxed(move || async move {
                if let Ok(clients) = self.link.clients() {
                    clients.drain_output().await;
                }
                Done::of(Ok(JobOutcome::Drained))
            }),
            Job::Launch(request, ended) => boxed(move || async move {
                let paths = &self.options.paths;
                Done::of(Ok(
                    launches::run(&mut self.link, paths, *request, &ended).await
                ))
            }),
            Job::Restart(due) => boxed(move || async move {
                let restarted = launches::restart(&mut self.link, &self.options, &due);
                Done::of(restarted.await.map(JobOutcome::Restarted).map_err(text))
            }),
            Job::ForgetEnvironments(cleanup) => boxed(move || async move {
                let folder = self.options.paths.kept_environments();
                tmux::forget_environments(&folder, &cleanup.present, &cleanup.gone);
                Done::of(Ok(JobOutcome::Finished))
            }),
            Job::Type(typing) => boxed(move || async move {
                Done::of(Ok(typing::type_next(&mut self.link, typing).await))
            }),
            Job::MarkEndings(marks) => boxed(move || async move {
                let marked = tmux::mark_endings(&mut self.link.connection(), &marks).await;
                Done::of(marked.map(|()| JobOutcome::Finished).map_err(text))
            }),
            Job::UnmarkEndings(windows) => boxed(move || async move {
                let unmarked = tmux::unmark_endings(&mut self.link.connection(), &windows).await;
                Done::of(unmarked.map(|()| JobOutcome::Finished).map_err(text))
            }),
            Job::FindShared(windows) => boxed(move || async move {
                let Some(session) = self.link.life.as_ref().map(|life| life.id) else {
                    return Done::of(Ok(JobOutcome::Shared(BTreeSet::new())));
                };
                let mut connection = self.link.connection();
                let shared = tmux::shared_windows(&mut connection, session, &windows).await;
                Done::of(shared.map(JobOutcome::Shared).map_err(text))
            }),
            Job::Kill(windows) => {
                boxed(move || async move { Done::of(Ok(self.kill(&windows).await)) })
            }
            Job::KillSession(windows) => {
                boxed(
                    move || async move { Done::of(self.kill_session(&windows).await.map_err(text)) },
                )
            }
            Job::Prune(panes) => boxed(move || async move {
                let pruned = tmux::prune_windows(&mut self.link.connection(), &panes).await;
                Done::of(pruned.map(|()| JobOutcome::Finished).map_err(text))
            }),
            Job::Cleanup => {
                boxed(move || async move { Done::of(self.cleanup().await.map_err(text)) })
            }
            Job::FindName(name) => boxed(move || async move {
                let owner = self.link.find_name(&name).await;
                Done::of(owner.map(JobOutcome::Name).map_err(text))
            }),
            Job::ForgetDeaths(record) => boxed(move || async move {
                self.link.forget_deaths(&record).await;
                Done::of(Ok(JobOutcome::Finished))
            }),
            Job::Archive(task, reason) => boxed(move || async move {
                self.archive(&task, reason).await;
                Done::of(Ok(JobOutcome::Finished))
            }),
            Job::ScanOthers => boxed(move || async move {
                self.scan_others();
                Done::of(Ok(JobOutcome::Finished))
            }),
        }
    }

    /// Displays alerts, except for those of windows that the user has in view.
    pub(super) async fn show_alerts(&mut self, due: DueAlerts) {
        let session = self.link.life.as_ref().map(|life| life.id);
        let mut connection = self.link.connection();
        // If the server is gone, nothing is in view.
        let viewers = tmux::list_viewers(&mut connection)
            .await
            .unwrap_or_default();
        due.send_to_desktop(&viewers);
        due.tell_terminals(&viewers);
        if let (Some(session), Some(line)) = (session, due.line(&viewers)) {
            let notices = &mut self.notices;
            notices
                .show(&mut connection, session, &viewers, &line)
                .await;
        }
    }

    /// Shows a window to the user.
    pub(super) async fn show_window(&mut self, window: WindowId) {
        let Some(session) = self.link.life.as_ref().map(|life| life.id) else {
            return;
        };
        let _lock = self.options.paths.lock_server().await;
        let mut connection = self.link.connection();
        if let Err(error) = tmux::show_window(&mut connection, session, window).await {
            tracing::info!(%error, %window, "could not show a window");
        }
    }

    /// Stores the counts for tmux's status line.
    pub(super) async fn show_status(&mut self, counts: &StatusCounts) {
        if let Some(id) = self.link.life.as_ref().map(|life| life.id) {
            let mut connection = self.link.connection();
            self.notices.status(&mut connection, id, counts).await;
        }
    }

    /// Archives the output of a run. It is written later, without waiting.
    pub(super) async fn archive(&mut self, task: &Arc<Task>, reason: Option<&'static str>) {
        let Some(life) = self.link.life.clone() else {
            return;
        };
        let paths = &self.options.paths;
        let name = self.link.name_of_run(task);
        let first = self.link.first_lines_of(task);
        let mut connection = self.link.connection();
        let kept = self
            .archiver
            .hand_over(&mut connection, &life, paths, task, &name, (&first, reason))
            .await;
        if let Err(error) = kept {
            tracing::warn!(%error, window = %task.window, "could not keep the output of a run");
        }
    }

    /// Removes hooks and options from tmux.
    pub(super) async fn leave(&mut self) {
        if let Some(id) = self.link.life.as_ref().map(|life| life.id) {
            let mut connection = self.link.connection();
            self.notices.clear(&mut connection, id).await;
        }
        self.link.close().await;
    }

    async fn look(&mut self, order: &LookOrder, kind: LookKind) -> Done {
        let outcome = self.link.look(order, kind, self.quiet).await;
        Done::of(outcome.map_err(|error| with_causes(&error)))
    }

    /// Reads the output of a task's present run.
    async fn read_log(&mut self, task: &Task, request: &LogRequest) -> JobOutcome {
        let Some(life) = self.link.life.clone() else {
            let gone = Error::missing("the session has ended");
            return JobOutcome::Answered(Box::new(Response::Refused(gone)));
        };
        let first = self.link.first_lines_of(task);
        let log = read_task_log(&mut self.link.connection(), &life, task, &first, request).await;
        let response = log.map_or_else(Response::Refused, Response::Log);
        JobOutcome::Answered(Box::new(response))
    }

    /// Looks for other sessions of the project, on another thread.
    fn scan_others(&mut self) {
        let project = Project::of(&self.link, &self.options);
        let (Some(cleaner), Some(project)) = (self.cleaner.take(), project) else {
            return;
        };
        if let Err(error) = cleaner.start(project) {
            tracing::warn!(%error, "could not start a thread to look after other task sessions");
        }
    }

    /// Reads how a task was last launched.
    async fn read_record(&mut self, task: &Task) -> Result<JobOutcome, TmuxError> {
        let found = tmux::read_spec(&mut self.link.connection(), task.window).await?;
        let response = Response::Record {
            window_name: task.name.clone(),
            spec: found.map(|(_, spec)| Box::new(spec)),
        };
        Ok(JobOutcome::Answered(Box::new(response)))
    }

    async fn read(
        &mut self,
        (pane, rows, is_over): (PaneId, RowsToRead, bool),
        last_of: Option<Arc<Task>>,
        begins: Beginning,
    ) -> Done {
        let began = Instant::now();
        let mut before = Vec::new();
        let is_for_stream = !begins.needs_history();
        let last_row = tmux::History::LastRows(1);
        let (history, lines) = match rows {
            RowsToRead::LastRow => (last_row, 0),
            RowsToRead::All => (tmux::History::Whole, 0),
            RowsToRead::Lines(lines) if is_for_stream => (last_row, lines),
            RowsToRead::Lines(lines) => (tmux::History::Whole, lines),
        };
        let extent = tmux::Extent { history, lines };
        if let Ok(clients) = self.link.clients()
            && !is_over
            && clients.receives(pane)
        {
            let asked = clients.ask_output(pane, extent, begins).await;
            return Done::of(asked.map(|()| JobOutcome::Asked).map_err(text));
        }
        loop {
            let reading = match self.link.follow_output(pane, extent, is_over).await {
                Ok(reading) => reading,
                Err(error) => {
                    return Done {
                        before,
                        ..Done::failed(text(error))
                    };
                }
            };
            let PaneReading {
                output,
                before: until_then,
            } = reading;
            before.extend(until_then);
            // The kernel may have reported the end before tmux has read all output.
            let has_all_output = last_of
                .as_ref()
                .is_none_or(|task| has_all_output(&output, task));
            if !has_all_output && began.elapsed() < LAST_OUTPUT_LIMIT {
                tokio::time::sleep(LAST_OUTPUT_PAUSE).await;
                continue;
            }
            return Done {
                before,
                ..Done::of(Ok(judged(output, begins)))
            };
        }
    }

    /// Ends windows, one after the other, until one cannot be ended.
    async fn kill(&mut self, windows: &[WindowId]) -> JobOutcome {
        let mut killed = BTreeSet::new();
        for window in windows {
            match tmux::kill_window(&mut self.link.connection(), *window).await {
                Ok(true) => {
                    killed.insert(*window);
                }
                Ok(false) => {}
                Err(error) => return JobOutcome::Killed(killed, Err(text(error))),
            }
        }
        JobOutcome::Killed(killed, Ok(()))
    }

    /// Ends the session. A window that is linked into another one, or into one of its group, lives on.
    async fn kill_session(&mut self, windows: &[WindowId]) -> Result<JobOutcome, TmuxError> {
        if let Some(id) = self.link.life.as_ref().map(|life| life.id) {
            let _lock = self.options.paths.lock_server().await;
            tmux::kill_session(&mut self.link.connection(), id).await?;
        }
        // Our clients may have ended with the session.
        let mut connection = Connection::OneShot(&self.options.server);
        let moved = tmux::where_is(&mut connection, windows).await?;
        Ok(JobOutcome::SessionKilled(moved.into_keys().collect()))
    }

    /// Ends the session when no task in it is active.
    async fn cleanup(&mut self) -> Result<JobOutcome, TmuxError> {
        let Some(life) = self.link.life.clone() else {
            return Ok(JobOutcome::Finished);
        };
        let _lock = self.options.paths.lock_server().await;
        let mut connection = self.link.connection();
        match tmux::end_idle_session(&mut connection, &life, Unless::Active).await {
            // Ending the session ends our connection.
            Ok(_) | Err(TmuxError::Closed) => Ok(JobOutcome::Finished),
            Err(error) => Err(error),
        }
    }
}

/// Finds out on which ports these runs listen, and no other process does.
fn find_ports(queries: &[PortQuery]) -> Result<JobOutcome, String> {
    let began = Instant::now();
    let mut leaders: BTreeMap<Option<u16>, Vec<u32>> = BTreeMap::new();
    for query in queries {
        leaders.entry(query.port).or_default().push(query.leader);
    }
    let mut ports: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
    for (port, leaders) in leaders {
        let found = process::listening(&leaders, port)
            .ok_or("this system does not show who listens on a port")?;
        for (leader, listening) in found {
            let found = listening.exclusive_ports();
            ports.entry(leader).or_default().extend(found);
        }
    }
    Ok(JobOutcome::Ports(ports, began.elapsed()))
}

/// Whether no more output comes from the ended run of this pane.
fn has_all_output(output: &PaneOutput, task: &Task) -> bool {
    output.is_dead || (output.pid.is_some() && output.pid != task.pid)
}

/// Makes a future whose size is on the stack of this function only.
fn boxed<'a, F>(make: impl FnOnce() -> F) -> Pin<Box<dyn Future<Output = Done> + 'a>>
where
    F: Future<Output = Done> + 'a,
{
    Box::pin(make())
}

fn text(error: TmuxError) -> String {
    error.to_string()
}

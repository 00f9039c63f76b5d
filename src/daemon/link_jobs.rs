//! The link's jobs: what each does with tmux, also to start tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::alert_displays::{DueAlerts, StatusLineDisplay};
use super::output_follower::{PaneReading, judged};
use super::session_link::SessionLink;
use super::stale_sessions::{Project, SessionCleaner};
use super::task_output::{RunArchiver, read_task_log, search_task};
use super::{Options, typing};
use crate::clock;
use crate::model::{
    Error, Launch, PaneId, Replaces, SessionId, StatusCounts, Task, TaskRestarts, TaskSpec,
    WindowId, text, with_causes,
};
use crate::paths::Paths;
use crate::process;
use crate::session::{
    Beginning, Change, DueRestart, Job, JobOutcome, LookOrder, PortQuery, RestartEnd, RowsToRead,
};
use crate::terminal::PaneOutput;
use crate::tmux::{
    self, Connection, Gate, LaunchAnswer, LiveRun, LookKind, NewRun, Slots, TmuxError, Unless,
};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, LogRequest, Response};

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
                Done::of(Ok(run_launch(&mut self.link, paths, *request, &ended).await))
            }),
            Job::Restart(due) => boxed(move || async move {
                let restarted = restart_launch(&mut self.link, &self.options, &due);
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

/// What came of a launch.
enum Started {
    /// The run, and what holds its command back.
    Run(NewRun, Gate),
    /// A live run has to be ended first.
    Live(LiveRun),
}

/// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
/// ended for it.
async fn run_launch(
    link: &mut SessionLink,
    paths: &Paths,
    mut launch: Launch,
    ended: &[u32],
) -> JobOutcome {
    if launch.is_repeated {
        match find_started(link, &launch).await {
            Ok(None) => {}
            Ok(Some(run)) => return JobOutcome::Launched(Box::new(run), Box::new(())),
            Err(error) => return refused(error.of_launch()),
        }
    }
    let session = link.attached_session();
    if session.is_some() {
        link.write_runs_named(&launch.name).await;
        if let Some(name) = &link.about.name {
            launch.session.clone_from(name);
        }
    } else {
        // It is looked for by this name.
        link.note_name(&launch.session);
    }
    launch.last_run = link.observer.last_run(&launch.name);
    let mut started = start(link, paths, session, &mut launch, Slots::OfName, ended).await;
    if let (Ok(None), Some(_)) = (&started, session) {
        // It has ended since the last look.
        started = start(link, paths, None, &mut launch, Slots::OfName, ended).await;
    }
    match started {
        Ok(Some(Started::Run(run, gate))) => {
            JobOutcome::Launched(Box::new(launched_run(&run)), Box::new(gate))
        }
        Ok(Some(Started::Live(LiveRun { window, pid }))) => JobOutcome::Live(window, pid),
        Ok(None) => refused(Error::failed("the session has ended during the launch")),
        Err(error) => refused(error.of_launch()),
    }
}

fn refused(error: Error) -> JobOutcome {
    JobOutcome::Answered(Box::new(Response::Refused(error)))
}

/// Returns what a daemon that was killed has started for this launch.
async fn find_started(
    link: &SessionLink,
    launch: &Launch,
) -> Result<Option<LaunchedRun>, TmuxError> {
    let mut connection = Connection::OneShot(&link.server);
    let found = tmux::find_launched(&mut connection, launch).await?;
    Ok(found.map(|run| launched_run(&run)))
}

/// Launches a task again that has failed, unless its window has changed.
async fn restart_launch(
    link: &mut SessionLink,
    options: &Options,
    due: &DueRestart,
) -> Result<RestartEnd, TmuxError> {
    let (window, paths) = (due.task.window, &options.paths);
    let session = link.life.as_ref().map(|life| life.id);
    let (Some(session), Some(restarts)) = (session, &due.task.settings.restarts) else {
        return Ok(RestartEnd::Superseded);
    };
    link.write_runs_of(&[window]).await;
    let found = match tmux::read_spec(&mut link.connection(), window).await {
        Err(error) if error.is_missing() => return Ok(RestartEnd::Superseded),
        found => found?,
    };
    let is_same = |spec: &TaskSpec| spec.settings.restarts.as_ref() == Some(restarts);
    let Some((token, spec)) = found.filter(|(_, spec)| is_same(spec)) else {
        return Ok(RestartEnd::Superseded);
    };
    let mut launch = match launch_again(link, paths, due, restarts, spec) {
        Ok(launch) => launch,
        Err(why) => return Ok(RestartEnd::Impossible(why)),
    };
    let slots = Slots::Window(window, token);
    match start(link, paths, Some(session), &mut launch, slots, &[]).await {
        Ok(Some(Started::Run(..))) => Ok(RestartEnd::Started),
        Ok(_) => Ok(RestartEnd::Superseded),
        Err(error) if error.is_missing() => Ok(RestartEnd::Superseded),
        Err(error) => Err(error),
    }
}

/// Returns how a task is launched again, with the environment that was kept; or why it never can be.
fn launch_again(
    link: &SessionLink,
    paths: &Paths,
    due: &DueRestart,
    restarts: &TaskRestarts,
    mut spec: TaskSpec,
) -> Result<Launch, String> {
    if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        let cwd = cwd.display().to_string();
        let cwd = text::one_line(cwd.as_bytes(), 400);
        return Err(format!("`{cwd}` is not a directory any more"));
    }
    let kept = paths.kept_environments();
    let environment = tmux::kept_environment(&kept, &restarts.token).map_err(|error| {
        let why = with_causes(&error);
        format!("its environment is not available any more: {why}")
    })?;
    spec.settings.restarts = Some(TaskRestarts {
        used: due.number,
        ..restarts.clone()
    });
    let name = due.task.name.clone();
    Ok(Launch {
        session: due.session_name.clone(),
        spec,
        token: tmux::unique_token(),
        environment,
        program: tmux::program_of_panes().map_err(|error| error.message)?,
        owner: due.task.owner.clone(),
        started: clock::now().wall,
        last_run: link.observer.last_run(&name),
        replaces: Replaces::Ended,
        name,
        ..Launch::default()
    })
}

/// Starts a task in this session, which is created if it is missing and none is given; `None` when the given
/// session is gone, or has no such window.
async fn start(
    link: &mut SessionLink,
    paths: &Paths,
    session: Option<SessionId>,
    launch: &mut Launch,
    slots: Slots,
    ended: &[u32],
) -> Result<Option<Started>, TmuxError> {
    // tmux can crash when windows change while a control client of another daemon connects.
    let _lock = paths.lock_server().await;
    let files = tmux::prepare(launch, &paths.runtime, &paths.kept_environments())?;
    let answer = match session {
        Some(session) => {
            let mut connection = link.connection();
            match tmux::launch_in(&mut connection, session, launch, slots, ended).await {
                // Our client was detached during the launch.
                Err(TmuxError::Closed) => {
                    let mut connection = Connection::OneShot(&link.server);
                    let found = tmux::find_launched(&mut connection, launch).await?;
                    found.map(LaunchAnswer::Started)
                }
                answer => answer?,
            }
        }
        None => {
            let mut connection = Connection::OneShot(&link.server);
            Some(tmux::launch(&mut connection, &link.server, launch, ended).await?)
        }
    };
    Ok(answer.map(|answer| match answer {
        LaunchAnswer::Live(live) => Started::Live(live),
        LaunchAnswer::Started(run) => {
            link.note_launched(run.window, Some(run.pane));
            let gate = files.hand_over(&run.pane.to_string());
            Started::Run(run, gate)
        }
    }))
}

/// Returns a started run in the socket's format.
fn launched_run(launched: &NewRun) -> LaunchedRun {
    let cursor = Cursor {
        life: Cursor::life_of(&launched.life),
        window: launched.window,
        run: launched.run,
        anchor: Anchor::START,
    };
    LaunchedRun {
        window_id: launched.window.to_string(),
        pane_id: launched.pane.to_string(),
        run: launched.run,
        cursor: cursor.to_string(),
        replaced: launched.replaced,
    }
}

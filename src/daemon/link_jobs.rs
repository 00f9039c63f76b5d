//! The link's jobs: what each does with tmux, also to start tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::alert_displays::{AlertDisplay, DueAlerts};
use super::output_follower::{PaneReading, judged};
use super::session_link::SessionLink;
use super::stale_sessions::{Project, SessionCleaner};
use super::task_output::{RunArchiver, matches_in, read_task_log};
use super::typing::type_into_task;
use crate::clock;
use crate::model::{
    Error, Launch, PaneId, Replaces, SessionId, StatusCounts, Task, TaskRestarts, TaskSpec,
    WindowId, text, with_causes,
};
use crate::paths::Paths;
use crate::process;
use crate::session::{
    Beginning, Change, ClosedWindows, DueRestart, FoundPorts, Job, LaunchOutcome, LookOrder,
    LookOutcome, Outcome, PaneRead, PortQuery, RestartEnd, RowsToRead,
};
use crate::terminal::PaneOutput;
use crate::tmux::{
    self, Connection, LaunchAnswer, LiveRun, LookKind, NewRun, Slots, TmuxError, Unless,
};
use crate::wait::{Anchor, Cursor};
use crate::wire::{LaunchedRun, LogRequest, SearchResult, TaskLog};

/// How long tmux may take to read the last output of a run after the kernel has reported its end.
const LAST_OUTPUT_LIMIT: Duration = Duration::from_millis(100);

/// How often tmux is queried meanwhile: it does not report that it has read the last output.
const LAST_OUTPUT_PAUSE: Duration = Duration::from_millis(2);

/// Runs jobs.
#[derive(Debug)]
pub(super) struct LinkJobs {
    pub(super) link: SessionLink,
    alerts: AlertDisplay,
    options: Options,
    archiver: RunArchiver,
    /// Cleans up after the scan for other sessions; `None` once that has begun.
    cleaner: Option<SessionCleaner>,
    /// How long a screen must be unchanged before its prompt is judged.
    quiet: Duration,
}

/// A job to be done.
pub(super) struct Work<'a> {
    /// Its name in the log.
    pub(super) name: &'static str,
    /// How long it may take.
    pub(super) limit: Duration,
    /// Sets its outcome.
    pub(super) done: Pin<Box<dyn Future<Output = Result<(), Error>> + 'a>>,
}

// The time limits of the link's jobs: a job that takes longer is given up, so that the jobs after
// it have their turn.
//
// A single answer of tmux has a limit of its own, ten seconds. A job that consists of one answer
// gets no less: giving up an answer costs the connection, and whoever follows output loses some.
// A command does not rely on these limits: after six seconds it checks itself whether tmux and the
// daemon answer, and names the one that does not.

/// For one line of commands, or a few that are answered in milliseconds each.
const ANSWER: Duration = Duration::from_secs(10);

/// For looks: many short lines. What its first lines have returned is out of date by then, so the
/// next look starts from its beginning.
const LOOK: Duration = Duration::from_secs(10);

/// For a job that needs the lock of the tmux server: up to five seconds until it continues without
/// the lock, and then tmux's answers. Giving up in between would report a launch as failed that is
/// about to succeed.
pub(super) const LOCKED: Duration = Duration::from_secs(15);

/// Returns the limit of a job of so many lines, of which each has its own: it goes on as long as tmux
/// answers.
fn lines(n: usize) -> Duration {
    ANSWER * u32::try_from(n.max(1)).unwrap_or(u32::MAX)
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
            alerts: AlertDisplay::new(&options.config),
            options: options.clone(),
            archiver,
            cleaner: Some(cleaner),
            quiet: options.config.input.quiet,
        }
    }

    /// Begins a job. Changes that come before its outcome are added to `before`.
    pub(super) fn work<'a>(&'a mut self, job: Job, before: &'a mut Vec<Change>) -> Work<'a> {
        match job {
            Job::Look(order, outcome) => work("look", LOOK, outcome, move || async move {
                self.look(&order, LookKind::Windows).await
            }),
            Job::Sweep(outcome) => work("sweep", LOOK, outcome, move || async move {
                self.look(&LookOrder::default(), LookKind::Slice).await
            }),
            // It may have to attach the client that follows output.
            Job::Read {
                pane,
                rows,
                is_over,
                last_of,
                begins,
                outcome,
            } => work("read", LOCKED, outcome, move || async move {
                let order = (pane, rows, is_over);
                self.read(order, last_of, begins, before).await
            }),
            Job::ReadEnd(pane, lines, outcome) => {
                work("read-end", ANSWER, outcome, move || async move {
                    let log = self.link.read_end(pane, lines).await.map_err(failed)?;
                    Ok(Box::new(log))
                })
            }
            Job::ReadLog(task, request, outcome) => {
                work("read-log", ANSWER, outcome, move || async move {
                    self.read_log(&task, &request).await
                })
            }
            Job::ReadRecord(window, outcome) => {
                work("read-record", ANSWER, outcome, move || async move {
                    let found = tmux::read_spec(&mut self.link.connection(), window).await;
                    Ok(found.map_err(failed)?.map(|(_, spec)| spec))
                })
            }
            Job::FindPorts(queries, outcome) => {
                work("find-ports", ANSWER, outcome, move || async move {
                    find_ports(&queries)
                })
            }
            Job::Search(task, pattern, outcome) => {
                work("search", ANSWER, outcome, move || async move {
                    if task.pane.is_none() {
                        return Ok(SearchResult::default());
                    }
                    let log = self.read_log(&task, &LogRequest::default()).await?;
                    Ok(matches_in(log, &pattern))
                })
            }
            // An empty line for each client.
            Job::Drain(outcome) => work("drain", ANSWER, outcome, move || async move {
                if let Ok(clients) = self.link.clients() {
                    clients.drain_output().await;
                }
                Ok(())
            }),
            Job::Launch(launch, ended, outcome) => {
                work("launch", LOCKED, outcome, move || async move {
                    let paths = &self.options.paths;
                    run_launch(&mut self.link, paths, *launch, &ended).await
                })
            }
            Job::Restart(due, outcome) => work("restart", LOCKED, outcome, move || async move {
                let restarted = restart_launch(&mut self.link, &self.options, &due).await;
                restarted.map_err(failed)
            }),
            // Files only.
            Job::ForgetEnvironments(cleanup, outcome) => {
                work("forget-environments", ANSWER, outcome, move || async move {
                    let folder = self.options.paths.kept_environments();
                    tmux::forget_environments(&folder, &cleanup.present, &cleanup.gone);
                    Ok(())
                })
            }
            // A look at the prompt, and the keys.
            Job::Type(mut typing, outcome) => work("type", ANSWER, outcome, move || async move {
                type_into_task(&mut self.link, &mut typing).await?;
                Ok(typing.progress.due.is_some().then_some(typing))
            }),
            Job::MarkEndings(marks, outcome) => {
                let limit = lines(marks.len());
                work("mark-endings", limit, outcome, move || async move {
                    let marked = tmux::mark_endings(&mut self.link.connection(), &marks).await;
                    marked.map_err(failed)
                })
            }
            Job::FindShared(windows, outcome) => {
                work("find-shared", ANSWER, outcome, move || async move {
                    let Some(session) = self.link.session() else {
                        return Ok(BTreeSet::new());
                    };
                    let mut connection = self.link.connection();
                    let shared =
                        tmux::existing_windows(&mut connection, &windows, Some(session)).await;
                    shared.map_err(failed)
                })
            }
            Job::Kill(windows, outcome) => {
                let limit = lines(windows.len());
                work("kill", limit, outcome, move || async move {
                    Ok(self.kill(&windows).await)
                })
            }
            Job::KillSession(windows, outcome) => {
                work("kill-session", LOCKED, outcome, move || async move {
                    self.kill_session(&windows).await.map_err(failed)
                })
            }
            Job::Prune(panes, outcome) => work("prune", ANSWER, outcome, move || async move {
                let pruned = tmux::prune_windows(&mut self.link.connection(), &panes).await;
                pruned.map_err(failed)
            }),
            Job::Cleanup(outcome) => work("cleanup", LOCKED, outcome, move || async move {
                self.cleanup().await.map_err(failed)
            }),
            Job::FindName(name, outcome) => {
                work("find-name", ANSWER, outcome, move || async move {
                    self.link.find_name(&name).await
                })
            }
            Job::ForgetDeaths(record, outcome) => {
                work("forget-deaths", ANSWER, outcome, move || async move {
                    self.link.forget_deaths(&record).await;
                    Ok(())
                })
            }
            // One or two captures.
            Job::Archive(task, reason, outcome) => {
                work("archive", ANSWER, outcome, move || async move {
                    self.archive(&task, reason).await;
                    Ok(())
                })
            }
        }
    }

    /// Displays alerts, except for those of windows that the user has in view.
    pub(super) async fn show_alerts(&mut self, due: DueAlerts) {
        let session = self.link.session();
        let mut connection = self.link.connection();
        self.alerts.show(&mut connection, session, &due).await;
    }

    /// Shows a window to the user.
    pub(super) async fn show_window(&mut self, window: WindowId) {
        let Some(session) = self.link.session() else {
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
        if let Some(id) = self.link.session() {
            let mut connection = self.link.connection();
            self.alerts.status(&mut connection, id, counts).await;
        }
    }

    /// Archives the output of a run. It is written later, without waiting.
    pub(super) async fn archive(&mut self, task: &Arc<Task>, reason: Option<&'static str>) {
        let Some(life) = self.link.life.clone() else {
            return;
        };
        let paths = &self.options.paths;
        let name = self.link.observer.name_of_run(task).to_owned();
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
        if let Some(id) = self.link.session() {
            let mut connection = self.link.connection();
            self.alerts.clear(&mut connection, id).await;
        }
        self.link.close().await;
    }

    async fn look(&mut self, order: &LookOrder, kind: LookKind) -> Result<LookOutcome, Error> {
        let outcome = self.link.look(order, kind, self.quiet).await;
        outcome.map_err(|error| Error::failed(with_causes(&error)))
    }

    /// Reads the output of a task's present run.
    async fn read_log(&mut self, task: &Task, request: &LogRequest) -> Result<TaskLog, Error> {
        let Some(life) = self.link.life.clone() else {
            return Err(Error::missing("the session has ended"));
        };
        let first = self.link.first_lines_of(task);
        read_task_log(&mut self.link.connection(), &life, task, &first, request).await
    }

    /// Looks for other sessions of the project, on another thread.
    pub(super) fn scan_others(&mut self) {
        let project = Project::of(&self.link, &self.options);
        let (Some(cleaner), Some(project)) = (self.cleaner.take(), project) else {
            return;
        };
        if let Err(error) = cleaner.start(project) {
            tracing::warn!(%error, "could not start a thread to look after other task sessions");
        }
    }

    async fn read(
        &mut self,
        (pane, rows, is_over): (PaneId, RowsToRead, bool),
        last_of: Option<Arc<Task>>,
        begins: Beginning,
        before: &mut Vec<Change>,
    ) -> Result<Option<PaneRead>, Error> {
        let began = Instant::now();
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
            return asked.map(|()| None).map_err(failed);
        }
        loop {
            let clients = self.link.clients().map_err(failed)?;
            let reading = clients.follow_output(pane, extent, is_over).await;
            let PaneReading {
                output,
                before: until_then,
            } = reading.map_err(failed)?;
            before.extend(until_then);
            // The kernel may have reported the end before tmux has read all output.
            let has_all_output = last_of
                .as_ref()
                .is_none_or(|task| has_all_output(&output, task));
            if !has_all_output && began.elapsed() < LAST_OUTPUT_LIMIT {
                tokio::time::sleep(LAST_OUTPUT_PAUSE).await;
                continue;
            }
            return Ok(Some(judged(output, begins)));
        }
    }

    /// Ends windows, one after the other, until one cannot be ended.
    async fn kill(&mut self, windows: &[WindowId]) -> ClosedWindows {
        let mut done = ClosedWindows::default();
        for window in windows {
            match tmux::kill_window(&mut self.link.connection(), *window).await {
                Ok(true) => drop(done.closed.insert(*window)),
                Ok(false) => {}
                Err(error) => {
                    done.failure = Some(failed(error));
                    break;
                }
            }
        }
        done
    }

    /// Ends the session. A window that is linked into another one, or into one of its group, lives on.
    async fn kill_session(
        &mut self,
        windows: &[WindowId],
    ) -> Result<BTreeSet<WindowId>, TmuxError> {
        if let Some(id) = self.link.session() {
            let _lock = self.options.paths.lock_server().await;
            tmux::kill_session(&mut self.link.connection(), id).await?;
        }
        // Our clients may have ended with the session.
        let mut connection = Connection::OneShot(&self.options.server);
        tmux::existing_windows(&mut connection, windows, None).await
    }

    /// Ends the session when no task in it is active.
    async fn cleanup(&mut self) -> Result<(), TmuxError> {
        let Some(life) = self.link.life.clone() else {
            return Ok(());
        };
        let _lock = self.options.paths.lock_server().await;
        let mut connection = self.link.connection();
        match tmux::end_idle_session(&mut connection, &life, Unless::Active).await {
            // Ending the session ends our connection.
            Ok(_) | Err(TmuxError::Closed) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Finds out on which ports these runs listen, and no other process does.
fn find_ports(queries: &[PortQuery]) -> Result<FoundPorts, Error> {
    let began = Instant::now();
    let mut leaders: BTreeMap<Option<u16>, Vec<u32>> = BTreeMap::new();
    for query in queries {
        leaders.entry(query.port).or_default().push(query.leader);
    }
    let mut ports: BTreeMap<u32, BTreeSet<u16>> = BTreeMap::new();
    for (port, leaders) in leaders {
        let found = process::listening(&leaders, port)
            .ok_or_else(|| Error::failed("this system does not show who listens on a port"))?;
        for (leader, listening) in found {
            let found = listening.exclusive_ports();
            ports.entry(leader).or_default().extend(found);
        }
    }
    let took = began.elapsed();
    Ok(FoundPorts { ports, took })
}

/// Whether no more output comes from the ended run of this pane.
fn has_all_output(output: &PaneOutput, task: &Task) -> bool {
    output.is_dead || (output.pid.is_some() && output.pid != task.pid)
}

/// Returns the work of a job. Its future is made on the heap, so that the stack need not have room for all
/// of them.
fn work<'a, T, F>(
    name: &'static str,
    limit: Duration,
    outcome: Outcome<T>,
    job: impl FnOnce() -> F + 'a,
) -> Work<'a>
where
    T: 'a,
    F: Future<Output = Result<T, Error>> + 'a,
{
    let done = async move {
        outcome.set(job().await?);
        Ok(())
    };
    Work {
        name,
        limit,
        done: Box::pin(done),
    }
}

fn failed(error: TmuxError) -> Error {
    Error::failed(error.to_string())
}

/// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
/// ended for it.
async fn run_launch(
    link: &mut SessionLink,
    paths: &Paths,
    mut launch: Launch,
    ended: &[u32],
) -> Result<LaunchOutcome, Error> {
    if launch.is_repeated {
        let mut connection = Connection::OneShot(&link.server);
        let found = tmux::find_launched(&mut connection, &launch).await;
        if let Some(run) = found.map_err(TmuxError::of_launch)? {
            // A daemon that was killed has started it.
            let run = Box::new(launched_run(&run));
            return Ok(LaunchOutcome::Started(run, Box::new(())));
        }
    }
    let session = link.attached_session();
    if session.is_some() {
        link.write_runs_named(&launch.name).await;
        launch.session = link.session_name().unwrap_or(launch.session);
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
    let started = started.map_err(TmuxError::of_launch)?;
    started.ok_or_else(|| Error::failed("the session has ended during the launch"))
}

/// Launches a task again that has failed, unless its window has changed.
async fn restart_launch(
    link: &mut SessionLink,
    options: &Options,
    due: &DueRestart,
) -> Result<RestartEnd, TmuxError> {
    let (window, paths) = (due.task.window, &options.paths);
    let session = link.session();
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
        Ok(Some(LaunchOutcome::Started(..))) => Ok(RestartEnd::Started),
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
) -> Result<Option<LaunchOutcome>, TmuxError> {
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
        LaunchAnswer::Live(LiveRun { window, pid }) => LaunchOutcome::Live(window, pid),
        LaunchAnswer::Started(run) => {
            link.note_launched(run.window, Some(run.pane));
            let gate = files.hand_over(&run.pane.to_string());
            LaunchOutcome::Started(Box::new(launched_run(&run)), Box::new(gate))
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

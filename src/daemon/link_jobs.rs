//! The link's jobs: what each does with tmux, also to start tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Options;
use super::alert_displays::{self, DueAlerts, STATUS_OPTION, set_option};
use super::session_link::SessionLink;
use super::stale_sessions::SessionCleaner;
use super::task_output::{RunArchiver, read_task_log};
use super::typing::type_into_task;
use crate::clock;
use crate::model::*;
use crate::process;
use crate::rules::alerts::Place;
use crate::rules::terminal::{Extent, PaneOutput};
use crate::rules::wait::{Anchor, Cursor};
use crate::rules::wire::LaunchedRun;
use crate::session::{Change, ClosedWindows, Job, LaunchOutcome, LookOrder};
use crate::tmux::{self, Connection, LaunchAnswer, LookKind, NewRun, Slots, TmuxError, Unless};

/// How long tmux may take to read the last output of a run after the kernel has reported its end.
const LAST_OUTPUT_LIMIT: Duration = Duration::from_millis(100);

/// How often tmux is queried meanwhile: it does not report that it has read the last output.
const LAST_OUTPUT_PAUSE: Duration = Duration::from_millis(2);

#[derive(Debug)]
pub(super) struct LinkJobs {
    pub(super) link: SessionLink,
    pub(super) options: Options,
    pub(super) archiver: RunArchiver,
    /// Cleans up after the scan for other sessions; `None` once that has begun.
    pub(super) cleaner: Option<SessionCleaner>,
}

/// How long a job of the link may take before it is given up for the next one.
///
/// A single answer of tmux has a limit of its own, ten seconds, and giving up an answer costs the connection:
/// whoever follows output loses some. A job that needs the lock of the tmux server gets five seconds more, until it
/// continues without the lock: otherwise a launch would be reported as failed that is about to succeed. After six
/// seconds a command checks itself whether tmux and the daemon answer, and names the one that does not.
pub(super) const LIMIT: Duration = Duration::from_secs(15);

/// Returns the limit of this job. One of many lines goes on as long as tmux answers.
pub(super) fn limit(job: &Job) -> Duration {
    let n_lines = if let Job::MarkEndings(marks, _) = job {
        marks.len()
    } else if let Job::Kill(windows, _) = job {
        windows.len()
    } else {
        1
    };
    LIMIT * u32::try_from(n_lines.max(1)).unwrap_or(u32::MAX)
}

/// Returns what a job or a change is called in the log: the name of its variant, without what it carries.
pub(super) fn name(what: &impl fmt::Debug) -> String {
    struct Name(String);
    impl fmt::Write for Name {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let is_name = text.chars().all(char::is_alphanumeric);
            is_name.then(|| self.0.push_str(text)).ok_or(fmt::Error)
        }
    }
    let mut name = Name(String::new());
    // The error ends it behind the name.
    write!(name, "{what:?}").ok();
    name.0
}

impl LinkJobs {
    /// Does a job, and sets its outcome. Changes that come before that are added to `before`.
    pub(super) async fn run(
        &mut self,
        job: Job,
        before: &mut Vec<Change>,
    ) -> Result<(), TmuxError> {
        let quiet = self.options.config.input.quiet;
        match job {
            Job::Look(order, outcome) => {
                outcome.resolve(self.link.look(&order, LookKind::Windows, quiet).await?);
            }
            Job::Sweep(outcome) => {
                let order = LookOrder::default();
                outcome.resolve(self.link.look(&order, LookKind::Slice, quiet).await?);
            }
            Job::Read {
                pane,
                extent,
                is_over,
                last_of,
                outcome,
            } => {
                let order = (pane, extent, is_over);
                outcome.resolve(self.read(order, last_of, before).await?);
            }
            Job::ReadEnd(pane, lines, outcome) => {
                let has_text = |line: &&String| !line.trim().is_empty();
                let are_enough = |read: &[String]| read.iter().filter(has_text).count() >= lines;
                let (connection, rows) = (&mut self.link.connection(), lines.max(1));
                let end = tmux::read_end(connection, pane, false, rows, are_enough).await?;
                outcome.resolve(Box::new(end));
            }
            Job::ReadLog(task, request, outcome) => {
                let life = self.link.life.clone();
                let life = life.ok_or_else(|| Error::missing("the session has ended"))?;
                let first = self.link.first_lines_of(&task);
                let connection = &mut self.link.connection();
                let log = read_task_log(connection, &life, &task, &first, &request);
                outcome.resolve(log.await?);
            }
            Job::ReadRecord(window, outcome) => {
                let found = tmux::read_spec(&mut self.link.connection(), window).await?;
                outcome.resolve(found.map(|(_, spec)| spec));
            }
            Job::FindPorts(leaders, outcome) => {
                let mut ports = BTreeMap::<_, BTreeSet<_>>::new();
                for (port, leaders) in leaders {
                    let found = process::listening(&Vec::from_iter(leaders), port);
                    let hidden =
                        || Error::failed("this system does not show who listens on a port");
                    for (leader, listening) in found.ok_or_else(hidden)? {
                        let found = listening.exclusive_ports();
                        ports.entry(leader).or_default().extend(found);
                    }
                }
                outcome.resolve(ports);
            }
            Job::Drain(outcome) => {
                if let Ok(clients) = self.link.clients() {
                    clients.drain_output().await;
                }
                outcome.resolve(());
            }
            Job::Launch(launch, ended, outcome) => {
                outcome.resolve(self.launch(*launch, &ended).await?);
            }
            Job::Restart(task, number, outcome) => {
                outcome.resolve(self.restart(&task, number).await?);
            }
            Job::ForgetEnvironments(present, gone, outcome) => {
                let folder = self.options.paths.kept_environments();
                tmux::forget_environments(&folder, &present, &gone);
                outcome.resolve(());
            }
            Job::Type(mut typing, outcome) => {
                type_into_task(&mut self.link, &mut typing).await?;
                outcome.resolve(typing);
            }
            Job::MarkEndings(marks, outcome) => {
                tmux::mark_endings(&mut self.link.connection(), &marks).await?;
                outcome.resolve(());
            }
            Job::FindShared(windows, outcome) => {
                let mut shared = BTreeSet::new();
                if let session @ Some(_) = self.link.session() {
                    let mut connection = self.link.connection();
                    shared = tmux::existing_windows(&mut connection, &windows, session).await?;
                }
                outcome.resolve(shared);
            }
            Job::Kill(windows, outcome) => outcome.resolve(self.kill(&windows).await),
            Job::KillSession(windows, outcome) => {
                outcome.resolve(self.kill_session(&windows).await?);
            }
            Job::Prune(panes, outcome) => {
                tmux::prune_windows(&mut self.link.connection(), &panes).await?;
                outcome.resolve(());
            }
            Job::Cleanup(outcome) => outcome.resolve(self.cleanup().await?),
            Job::FindName(name, outcome) => outcome.resolve(self.link.find_name(&name).await?),
            Job::ForgetDeaths(record, outcome) => {
                self.link.forget_deaths(&record).await;
                outcome.resolve(());
            }
            Job::Archive(task, reason, outcome) => {
                self.archive(&task, reason).await;
                outcome.resolve(());
            }
        }
        Ok(())
    }

    pub(super) async fn show_alerts(&mut self, due: DueAlerts) {
        let session = self.link.session();
        let places = &self.options.config.notices.places;
        alert_displays::show(&mut self.link.connection(), session, places, &due).await;
    }

    /// Returns the session if its status line shows counts and notices.
    fn session_with_notices(&self) -> Option<SessionId> {
        let places = &self.options.config.notices.places;
        let session = self.link.session();
        session.filter(|_| places.contains(&Place::Tmux))
    }

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

    pub(super) async fn show_status(&mut self, counts: &StatusCounts) {
        if let Some(session) = self.session_with_notices() {
            let (connection, counts) = (&mut self.link.connection(), counts.summary());
            set_option(connection, session, STATUS_OPTION, counts.as_deref()).await;
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
        let (archiver, of_run) = (&self.archiver, (first.as_slice(), reason));
        let kept = archiver.hand_over(&mut connection, &life, paths, task, &name, of_run);
        if let Err(error) = kept.await {
            tracing::warn!(%error, window = %task.window, "could not keep the output of a run");
        }
    }

    pub(super) async fn leave(&mut self) {
        if let Some(session) = self.session_with_notices() {
            // The counts and the last notice are no longer updated.
            for option in [STATUS_OPTION, tmux::NOTICE_OPTION] {
                set_option(&mut self.link.connection(), session, option, None).await;
            }
        }
        self.link.close().await;
    }

    pub(super) fn scan_others(&mut self) {
        if let Some(cleaner) = self.cleaner.take()
            && let Err(error) = cleaner.start(&self.link)
        {
            tracing::warn!(%error, "could not start a thread to look after other task sessions");
        }
    }

    async fn read(
        &mut self,
        (pane, extent, is_over): (PaneId, Extent, bool),
        last_of: Option<Arc<Task>>,
        before: &mut Vec<Change>,
    ) -> Result<Option<Box<PaneOutput>>, TmuxError> {
        let began = Instant::now();
        let clients = self.link.clients()?;
        if let Some(follower) = &mut clients.follower
            && !is_over
            && follower.receives(pane)
        {
            follower.ask(pane, extent);
            return Ok(None);
        }
        loop {
            let output = clients.follow_output(pane, extent, is_over, before);
            let output = output.await?;
            // The kernel may have reported the end before tmux has read all output.
            let is_other = |task: &Arc<Task>| output.pid.is_some() && output.pid != task.pid;
            let has_all_output = output.is_dead || last_of.as_ref().is_none_or(is_other);
            if !has_all_output && began.elapsed() < LAST_OUTPUT_LIMIT {
                tokio::time::sleep(LAST_OUTPUT_PAUSE).await;
                continue;
            }
            return Ok(Some(Box::new(output)));
        }
    }

    /// Ends windows, one after the other, until one cannot be ended.
    async fn kill(&mut self, windows: &[(WindowId, Option<u32>)]) -> ClosedWindows {
        let mut closed = BTreeSet::new();
        for (window, run) in windows {
            match tmux::kill_window(&mut self.link.connection(), *window, *run).await {
                Ok(true) => drop(closed.insert(*window)),
                Ok(false) => {}
                Err(error) => return (closed, Some(error.of_launch())),
            }
        }
        (closed, None)
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

    /// Starts a task, or runs it again in its slot. `ended` are the processes of the live runs that were
    /// ended for it.
    async fn launch(
        &mut self,
        mut launch: Launch,
        ended: &[u32],
    ) -> Result<LaunchOutcome, TmuxError> {
        if launch.is_repeated {
            let mut connection = Connection::OneShot(&self.link.server);
            if let Some(run) = tmux::find_launched(&mut connection, &launch).await? {
                // A daemon that was killed has started it.
                let run = Box::new(launched_run(&run));
                return Ok(LaunchOutcome::Started(run, Box::new(())));
            }
        }
        let session = self.link.session().filter(|_| self.link.is_connected());
        if session.is_some() {
            launch.session = self.link.session_name().unwrap_or(launch.session);
        } else {
            // It is looked for by this name.
            self.link.note_name(&launch.session);
        }
        launch.last_run = self.link.observer.last_run(&launch.name);
        let slots = || Slots::OfName;
        let mut started = self.start(session, &mut launch, slots(), ended).await?;
        if started.is_none() && session.is_some() {
            // It has ended since the last look.
            started = self.start(None, &mut launch, slots(), ended).await?;
        }
        let ended = || Error::failed("the session has ended during the launch");
        Ok(started.ok_or_else(ended)?)
    }

    /// Launches a task again that has failed, unless its window has changed. Returns why that can never succeed.
    async fn restart(&mut self, task: &Task, number: u32) -> Result<Option<String>, TmuxError> {
        let session @ Some(_) = self.link.session() else {
            return Ok(None);
        };
        let found = match tmux::read_spec(&mut self.link.connection(), task.window).await {
            Err(error) if error.is_missing() => return Ok(None),
            found => found?,
        };
        let restarts = &task.settings.restarts;
        let is_same = |spec: &TaskSpec| restarts.is_some() && spec.settings.restarts == *restarts;
        let Some((token, mut spec)) = found.filter(|(_, spec)| is_same(spec)) else {
            return Ok(None);
        };
        if let Some(restarts) = &mut spec.settings.restarts {
            restarts.used = number;
        }
        let mut launch = match self.launch_again(task, spec) {
            Ok(launch) => launch,
            Err(why) => return Ok(Some(why)),
        };
        let slots = Slots::Window(task.window, token);
        match self.start(session, &mut launch, slots, &[]).await {
            Err(error) if !error.is_missing() => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// Returns how a task is launched again, with the environment that was kept; or why it never can be.
    fn launch_again(&self, task: &Task, spec: TaskSpec) -> Result<Launch, String> {
        if let Some(cwd) = spec.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
            let cwd = text::one_line(cwd.as_os_str().as_encoded_bytes(), 400);
            return Err(format!("`{cwd}` is not a directory any more"));
        }
        let kept = self.options.paths.kept_environments();
        let restarts = spec.settings.restarts.as_ref();
        let token = restarts.map_or("", |restarts| restarts.token.as_str());
        let environment = tmux::kept_environment(&kept, token);
        let environment = environment.map_err(|error| {
            let why = with_causes(&error);
            format!("its environment is not available any more: {why}")
        })?;
        Ok(Launch {
            session: self.link.session_name().unwrap_or_default(),
            spec,
            token: tmux::unique_token(),
            environment,
            program: tmux::program_of_panes().map_err(|error| error.message)?,
            owner: task.owner.clone(),
            started: clock::now().wall,
            last_run: self.link.observer.last_run(&task.name),
            replaces: Replaces::Ended,
            name: task.name.clone(),
            ..Launch::default()
        })
    }

    /// Starts a task in this session, which is created if it is missing and none is given; `None` when the given
    /// session is gone, or has no such window.
    async fn start(
        &mut self,
        session: Option<SessionId>,
        launch: &mut Launch,
        slots: Slots,
        ended: &[u32],
    ) -> Result<Option<LaunchOutcome>, TmuxError> {
        let (link, paths) = (&mut self.link, &self.options.paths);
        // tmux can crash when windows change while a control client of another daemon connects.
        let _lock = paths.lock_server().await;
        let file = tmux::prepare(launch, &paths.runtime, &paths.kept_environments())?;
        let server = link.server.clone();
        let mut connection = match session {
            Some(_) => link.connection(),
            None => Connection::OneShot(&server),
        };
        let answer = tmux::launch(&mut connection, &server, session, launch, slots, ended).await;
        let answer = match answer {
            // Our client was detached during the launch.
            Err(TmuxError::Closed) if session.is_some() => {
                let found = tmux::find_launched(&mut Connection::OneShot(&server), launch).await?;
                found.map_or(LaunchAnswer::NoSession, LaunchAnswer::Started)
            }
            answer => answer?,
        };
        Ok(match answer {
            LaunchAnswer::NoSession => None,
            LaunchAnswer::Live(window, pid) => Some(LaunchOutcome::Live(window, pid)),
            LaunchAnswer::Started(run) => {
                link.note_launched(run.window, Some(run.pane));
                let gate = Box::new(file.release(&run.pane.to_string()));
                Some(LaunchOutcome::Started(Box::new(launched_run(&run)), gate))
            }
        })
    }
}

fn launched_run(launched: &NewRun) -> LaunchedRun {
    let cursor = Cursor::new(&launched.life, launched.window, launched.run, Anchor::START);
    LaunchedRun {
        window_id: launched.window.to_string(),
        pane_id: launched.pane.to_string(),
        run: launched.run,
        cursor: cursor.to_string(),
        replaced: launched.replaced,
    }
}

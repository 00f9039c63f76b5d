//! Starts a task, or runs it again, in its slot.
//!
//! tmux itself is the lock: each step is one line of commands, which the server runs without
//! interruption. If the state has changed since it was read, the step starts over.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Connection;
use super::command_words::CommandWords;
use super::error::TmuxError;
use super::launch_lines::{Attempt, LaunchLines};
use super::launch_result::{ATTEMPTS, LaunchAnswer, NewRun, check_name, check_token, contended};
use super::recorded::RecordedCommand;
use super::server::Server;
use super::task_environment::TaskEnvironment;
use super::task_file::{EXEC_PANE, Gate, TaskFile, TaskOrder};
use crate::files::PROC;
use crate::model::{
    Error, Millis, NotifyOn, Replaces, RestartPolicy, RunRequest, SessionId, Slot, StopSettings,
    TaskRestarts,
};

/// How often to wait for a server that others may be starting, and how long each time: nothing
/// reports that its socket exists.
const START_ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// A task to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launch {
    /// The task session's name.
    pub session: String,
    /// The task's name.
    pub name: String,
    /// Where the command runs: an existing directory, absolute.
    pub cwd: PathBuf,
    /// The command's environment.
    pub environment: TaskEnvironment,
    /// The folder for the task's file, private to the user.
    pub runtime: PathBuf,
    /// The program that the pane starts, which is this one.
    pub program: PathBuf,
    pub owner: Option<String>,
    pub command: CommandWords,
    /// Whether the command waits until the launch's [`Gate`] is dropped.
    pub waits: bool,
    /// The project's absolute path, for a session that has to be created.
    pub root: Option<PathBuf>,
    /// When the launch was requested, in milliseconds since 1970.
    pub started: Millis,
    /// The last number that a run of this name has had; 0 if there was none, or it is not known yet.
    pub last_run: u32,
    /// Which run it may replace. It fails if there is another one.
    pub replaces: Replaces,
    /// When to run it again by itself; `None` for never.
    pub restarts: Option<LaunchRestarts>,
    /// How it is ended.
    pub stop: StopSettings,
    /// The lines that its owner is notified of; `None` for none.
    pub notify_on: Option<NotifyOn>,
    /// The slot in which it runs; `None` for none.
    pub slot: Option<Slot>,
}

/// When to run a task again by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchRestarts {
    pub policy: RestartPolicy,
    /// The folder where the task's environment is kept.
    pub kept: PathBuf,
}

/// A launch whose file was written. Dropping it removes the file, unless
/// [`PreparedLaunch::hand_over`] has left it to the pane.
#[derive(Debug)]
pub(crate) struct PreparedLaunch {
    request: RunRequest,
    file: TaskFile,
    /// The copy for restarts.
    kept: Option<TaskFile>,
}

impl Launch {
    /// Whether only a daemon of this version can do what it asks for.
    #[must_use]
    pub(crate) fn needs_daemon(&self) -> bool {
        self.restarts.is_some() || self.notify_on.is_some() || self.slot.is_some()
    }

    /// Checks everything that can be checked without tmux, and writes the task's file.
    ///
    /// # Errors
    ///
    /// When the input is refused, or the file cannot be written.
    pub(crate) fn prepare(&self) -> Result<PreparedLaunch, Error> {
        check_name(&self.name)?;
        let session = &self.session;
        if session.is_empty() || session.contains(['.', ':', '\0', '\n']) {
            let shown = crate::model::text::one_line(session.as_bytes(), 60);
            return Err(Error::usage(format!(
                "`{shown}` is not a session name: it may not be empty or contain `.` or `:`"
            )));
        }
        if !is_directory(&self.cwd) {
            let cwd = self.cwd.display();
            return Err(Error::failed(format!(
                "`{cwd}` is not a directory to run in"
            )));
        }
        let not_utf8 = |path: &Path| {
            let path = path.display();
            Error::failed(format!("cannot run in `{path}`: its name is not UTF-8"))
        };
        let cwd = self.cwd.to_str().ok_or_else(|| not_utf8(&self.cwd))?;
        let program = self.program.to_str();
        let program = program.ok_or_else(|| not_utf8(&self.program))?;
        let token = unique_token();
        let order = self.order()?;
        order.check_size()?;
        let not_written = |folder: &Path, error: &io::Error| {
            let folder = folder.display();
            let what = format!("could not write what the task needs to {folder}");
            Error::io(what, error)
        };
        let file = TaskFile::write(&self.runtime, &token, &order);
        let file = file.map_err(|error| not_written(&self.runtime, &error))?;
        if self.waits {
            file.lock()
                .map_err(|error| not_written(&self.runtime, &error))?;
        }
        let kept = match &self.restarts {
            Some(LaunchRestarts { kept: folder, .. }) => {
                let kept = TaskFile::keep(folder, &token, &order);
                Some(kept.map_err(|error| not_written(folder, &error))?)
            }
            None => None,
        };
        let path = file
            .path()
            .ok_or_else(|| not_written(&self.runtime, &io::ErrorKind::InvalidFilename.into()))?;
        let words = pane_words(program, path);
        let record = RecordedCommand {
            is_env_clean: self.environment.is_on_top_of_tmux(),
            env_digest: self.environment.given(),
            ..RecordedCommand::of(&self.command, &self.cwd)
        };
        let restarts = self.restarts.as_ref().map(|restarts| TaskRestarts {
            policy: restarts.policy,
            used: 0,
            token: token.clone(),
        });
        let request = RunRequest {
            name: self.name.clone(),
            token,
            words,
            command: self.command.shown_bounded(),
            record: record.encode(self.started),
            cwd: cwd.to_owned(),
            owner: self.owner.clone(),
            started: self.started,
            last_run: self.last_run,
            replaces: self.replaces,
            restarts,
            stop: self.stop.clone(),
            notify_on: self.notify_on.clone(),
            slot: self.slot.clone(),
            will_wait: false,
        };
        Ok(PreparedLaunch {
            request,
            file,
            kept,
        })
    }

    /// Returns what the pane runs.
    fn order(&self) -> Result<TaskOrder, Error> {
        let withheld = self.environment.withheld().names();
        let mut order = TaskOrder {
            shell: find_bash().ok_or_else(|| Error::failed("could not find `bash` in PATH"))?,
            is_on_top_of_tmux: self.environment.is_on_top_of_tmux(),
            withheld: withheld.map(str::to_owned).collect(),
            variables: self.environment.variables().to_vec(),
            command: self.command.clone(),
        };
        order.name_task(&self.session, &self.name);
        order.set_slot(self.slot.as_ref());
        Ok(order)
    }
}

impl PreparedLaunch {
    /// Returns the data that tmux needs.
    #[must_use]
    pub(crate) fn request(&self) -> &RunRequest {
        &self.request
    }

    /// Leaves the file to the pane, whose task was started, and the copy to the daemon.
    pub(crate) fn hand_over(self, pane: &str) -> Gate {
        if let Some(kept) = self.kept {
            kept.leave();
        }
        self.file.release(pane)
    }
}

/// Starts the task in its slot: creates the session and the window where they are missing,
/// otherwise runs it again in the window of that name. `ended` are the processes of the live runs that
/// were ended for it.
///
/// # Errors
///
/// When the input is refused, before tmux is touched; when two windows have the name; when tmux
/// fails.
pub(crate) async fn launch(
    connection: &mut Connection<'_>,
    server: &Server,
    launch: &Launch,
    ended: &[u32],
) -> Result<LaunchAnswer<(NewRun, Gate)>, TmuxError> {
    let prepared = launch.prepare()?;
    let gate = Gate::close(prepared.request.file())?;
    let lines = LaunchLines::new(&prepared.request, format!("={}", launch.session), ended);
    let mut no_server = None;
    for attempt in 0..ATTEMPTS {
        let launched = match lines.attempt(connection).await? {
            Attempt::Launched(launched) => Some(launched),
            Attempt::Live(live) => return Ok(LaunchAnswer::Live(live)),
            Attempt::Contended => None,
            Attempt::NoSession => {
                let root = launch.root.as_deref();
                match lines.create_session(server, &launch.session, root).await {
                    // Clients that start the same server together can each connect to another's and
                    // see it exit.
                    Err(error) if error.is_missing() && attempt < START_ATTEMPTS => {
                        no_server = Some(error);
                        tokio::time::sleep(PAUSE).await;
                        None
                    }
                    launched => launched?,
                }
            }
        };
        if let Some(launched) = launched {
            let pane = launched.pane.to_string();
            gate.open(&pane);
            let gate = prepared.hand_over(&pane);
            return Ok(LaunchAnswer::Started((launched, gate)));
        }
    }
    Err(no_server.unwrap_or_else(|| contended().into()))
}

/// Starts a task in its slot of an existing session; `None` when the session does not exist any
/// more. The caller opens the [`Gate`] of the task's file.
///
/// # Errors
///
/// As [`launch`]. After [`TmuxError::Closed`] the task may have been started: see
/// [`find_launched`].
pub(crate) async fn launch_in(
    connection: &mut Connection<'_>,
    session: SessionId,
    request: &RunRequest,
    ended: &[u32],
) -> Result<Option<LaunchAnswer<NewRun>>, TmuxError> {
    check_name(&request.name)?;
    check_token(&request.token)?;
    let lines = LaunchLines::new(request, session.to_string(), ended);
    for _ in 0..ATTEMPTS {
        match lines.attempt(connection).await? {
            Attempt::Launched(launched) => return Ok(Some(LaunchAnswer::Started(launched))),
            Attempt::Live(live) => return Ok(Some(LaunchAnswer::Live(live))),
            Attempt::Contended => {}
            Attempt::NoSession => return Ok(None),
        }
    }
    Err(contended().into())
}

/// Returns what a launch has started if its answer was lost; `None` when it started nothing. What
/// it replaced is not known.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn find_launched(
    connection: &mut Connection<'_>,
    request: &RunRequest,
) -> Result<Option<NewRun>, TmuxError> {
    check_token(&request.token)?;
    LaunchLines::new(request, String::new(), &[])
        .find_launched(connection)
        .await
}

/// Returns the command line of a pane that runs the task of a file.
pub(super) fn pane_words(program: &str, file: &str) -> Vec<String> {
    [program, EXEC_PANE, file].map(str::to_owned).to_vec()
}

/// Returns the path of this program for tmux to start. If its file was replaced or removed meanwhile,
/// this is the kernel's link to what runs, for as long as it runs.
#[must_use]
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok();
    let running = || PathBuf::from(format!("{PROC}/{}/exe", std::process::id()));
    match program.filter(|path| path.exists()) {
        Some(path) => Some(path),
        None => Some(running()).filter(|path| path.exists()),
    }
}

/// Finds bash where the caller does, otherwise where it usually is: the tmux server may have another
/// `PATH`.
pub(super) fn find_bash() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/bin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(usual)
        .map(|folder| folder.join("bash"))
        .find(|path| path.is_absolute() && is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

fn is_directory(path: &Path) -> bool {
    path.is_absolute() && path.is_dir()
}

/// Returns a token that no other launch has.
pub(super) fn unique_token() -> String {
    format!("{}-{}", std::process::id(), unique())
}

/// Returns a number that is unique among the launches of this process.
fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let nanos = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    nanos.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed))
}

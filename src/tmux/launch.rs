//! Starts a task, or runs it again, in its slot.
//!
//! tmux itself is the lock: each step is one line of commands, which the server runs without
//! interruption. If the state has changed since it was read, the step starts over.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Connection;
use super::kept_environment::KeptEnvironment;
use super::launch_lines::{Attempt, LaunchLines};
use super::launch_plan::{ATTEMPTS, LaunchError, LaunchPlan, NewRun, check_name, check_token};
use super::named_windows::ExpectedWindows;
use super::recorded::RecordedCommand;
use super::script::CommandWords;
use super::server::Server;
use super::task_environment::{EnvironmentFile, TaskEnvironment};
use crate::model::{Millis, Replaces, RestartPolicy, SessionId, StopSettings, TaskRestarts};

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
    /// The folder for the environment's file, private to the user.
    pub runtime: PathBuf,
    pub owner: Option<String>,
    pub command: CommandWords,
    /// The gate that the command waits at before it starts.
    pub gate: Option<PathBuf>,
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
}

/// When to run a task again by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LaunchRestarts {
    pub policy: RestartPolicy,
    /// The folder where the task's environment is kept.
    pub kept: PathBuf,
}

/// A launch whose environment was written to a file. Dropping it removes the file, unless
/// [`PreparedLaunch::hand_over`] has left the file to the task.
#[derive(Debug)]
pub(crate) struct PreparedLaunch {
    plan: LaunchPlan,
    file: EnvironmentFile,
    /// The copy for restarts.
    kept: Option<KeptEnvironment>,
}

impl Launch {
    /// Checks everything that can be checked without tmux, and writes the environment to its file.
    ///
    /// # Errors
    ///
    /// When the input is refused, or the file cannot be written.
    pub(crate) async fn prepare(&self) -> Result<PreparedLaunch, LaunchError> {
        check_name(&self.name)?;
        let session = &self.session;
        if session.is_empty() || session.contains(['.', ':', '\0', '\n']) {
            let shown = crate::model::text::one_line(session.as_bytes(), 60);
            return Err(LaunchError::Session(shown));
        }
        if !is_directory(&self.cwd) {
            return Err(LaunchError::Directory(self.cwd.clone()));
        }
        let cwd = self.cwd.to_str();
        let cwd = cwd.ok_or_else(|| LaunchError::DirectoryName(self.cwd.clone()))?;
        let token = unique_token();
        let no_file = |source| LaunchError::Environment {
            folder: self.runtime.clone(),
            source,
        };
        let file = self.environment.write(&self.runtime, &token).await;
        let file = file.map_err(no_file)?;
        let kept = match &self.restarts {
            Some(LaunchRestarts { kept: folder, .. }) => {
                let kept = KeptEnvironment::keep(&file, folder, &token);
                Some(kept.map_err(|source| LaunchError::Environment {
                    folder: folder.clone(),
                    source,
                })?)
            }
            None => None,
        };
        let path = file.path();
        let path = path.ok_or_else(|| no_file(std::io::ErrorKind::InvalidFilename.into()))?;
        let names = [
            ("TMUX_TASK_SESSION", session.as_str()),
            ("PI_TMUX_SESSION", session),
            ("TMUX_TASK_NAME", &self.name),
        ];
        let gate = self.gate.as_deref().and_then(Path::to_str);
        let words = self
            .command
            .pane_words(&names, &self.environment, path, gate);
        let record = RecordedCommand {
            is_env_clean: self.environment.is_on_top_of_tmux(),
            had_env: self.environment.given().is_some(),
            env_digest: self.environment.given(),
            ..RecordedCommand::of(&self.command, &self.cwd)
        };
        let restarts = self.restarts.as_ref().map(|restarts| TaskRestarts {
            policy: restarts.policy,
            used: 0,
            token: token.clone(),
        });
        let plan = LaunchPlan {
            name: self.name.clone(),
            token,
            words,
            command: self.command.shown_bounded(),
            record: Some(record.encode(self.started)),
            cwd: cwd.to_owned(),
            owner: self.owner.clone(),
            started: self.started,
            last_run: self.last_run,
            replaces: self.replaces,
            restarts,
            stop: self.stop.clone(),
        };
        Ok(PreparedLaunch { plan, file, kept })
    }
}

impl PreparedLaunch {
    /// Returns the data that tmux needs.
    #[must_use]
    pub(crate) fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// Leaves the environment's file to the task, which was started, and the copy to the daemon.
    pub(crate) fn hand_over(self) {
        self.file.hand_over();
        if let Some(kept) = self.kept {
            kept.hand_over();
        }
    }
}

/// Starts the task in its slot: creates the session and the window where they are missing,
/// otherwise runs it again in the window of that name, replacing a live run.
///
/// # Errors
///
/// When the input is refused, before tmux is touched; when two windows have the name; when tmux
/// fails.
pub(crate) async fn launch(
    connection: &mut Connection<'_>,
    server: &Server,
    launch: &Launch,
) -> Result<NewRun, LaunchError> {
    let prepared = launch.prepare().await?;
    launch_prepared(connection, server, launch, prepared).await
}

/// The same for a prepared launch.
///
/// # Errors
///
/// As [`launch`].
async fn launch_prepared(
    connection: &mut Connection<'_>,
    server: &Server,
    launch: &Launch,
    prepared: PreparedLaunch,
) -> Result<NewRun, LaunchError> {
    let lines = LaunchLines::new(&prepared.plan, format!("={}", launch.session));
    let mut no_server = None;
    for attempt in 0..ATTEMPTS {
        let launched = match lines.attempt(connection, ExpectedWindows::Any).await? {
            Attempt::Launched(launched) => Some(launched),
            Attempt::Contended => None,
            Attempt::NoSession => {
                let root = launch.root.as_deref();
                match lines.create_session(server, &launch.session, root).await {
                    // Clients that start the same server together can each connect to another's and
                    // see it exit.
                    Err(LaunchError::Tmux(error))
                        if error.is_missing() && attempt < START_ATTEMPTS =>
                    {
                        no_server = Some(error);
                        tokio::time::sleep(PAUSE).await;
                        None
                    }
                    launched => launched?,
                }
            }
        };
        if let Some(launched) = launched {
            prepared.hand_over();
            return Ok(launched);
        }
    }
    Err(no_server.map_or(LaunchError::Contended, LaunchError::Tmux))
}

/// Starts a task in its slot of an existing session; `None` when the session does not exist any
/// more. The caller hands over the environment's file. What is `expected` is looked for first.
///
/// # Errors
///
/// As [`launch`]. After [`super::TmuxError::Closed`] the task may have been started: see
/// [`find_launched`].
pub(crate) async fn launch_in(
    connection: &mut Connection<'_>,
    session: SessionId,
    plan: &LaunchPlan,
    mut expected: ExpectedWindows,
) -> Result<Option<NewRun>, LaunchError> {
    check_name(&plan.name)?;
    check_token(&plan.token)?;
    let lines = LaunchLines::new(plan, session.to_string());
    for _ in 0..ATTEMPTS {
        match lines.attempt(connection, expected).await? {
            Attempt::Launched(launched) => return Ok(Some(launched)),
            Attempt::Contended => expected = ExpectedWindows::Any,
            Attempt::NoSession => return Ok(None),
        }
    }
    Err(LaunchError::Contended)
}

/// Returns what a launch has started if its answer was lost; `None` when it started nothing. What
/// it replaced is not known.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn find_launched(
    connection: &mut Connection<'_>,
    plan: &LaunchPlan,
) -> Result<Option<NewRun>, LaunchError> {
    check_token(&plan.token)?;
    let lines = LaunchLines::new(plan, String::new());
    let launched = lines.find_launched(connection).await?;
    if let Some(run) = &launched {
        lines.restore_name(connection, run).await;
    }
    Ok(launched)
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

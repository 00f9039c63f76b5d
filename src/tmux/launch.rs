//! Starts a task, or runs it again, in its slot.
//!
//! tmux itself is the lock: each step is one line of commands, which the server runs without
//! interruption. If the state has changed since it was read, the step starts over.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::client::Connection;
use super::error::TmuxError;
use super::launch_lines::{
    ATTEMPTS, LaunchAnswer, LaunchLines, Slots, check_name, check_token, contended,
};
use super::server::{Server, nonce};
use super::task_exec::{PaneOrder, TaskFile};
use crate::files::PROC;
use crate::model::{Error, Launch, SessionId, Slot};

/// How often to wait for a server that others may be starting, and how long each time: nothing
/// reports that its socket exists.
const START_ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// Checks everything that can be checked without tmux, and writes the task's file to the folder `runtime`, and
/// to `kept` the environment of a task that may be run again by itself. Both are private to the user.
pub(crate) fn prepare(launch: &mut Launch, runtime: &Path, kept: &Path) -> Result<TaskFile, Error> {
    check_name(&launch.name)?;
    check_token(&launch.token)?;
    let session = &launch.session;
    if session.is_empty() || session.contains(['.', ':', '\0', '\n']) {
        let shown = crate::model::text::one_line(session.as_bytes(), 60);
        return Err(Error::usage(format!(
            "`{shown}` is not a session name: it may not be empty or contain `.` or `:`"
        )));
    }
    let cwd = launch.spec.cwd.clone().unwrap_or_default();
    if !(cwd.is_absolute() && cwd.is_dir()) {
        let cwd = cwd.display();
        return Err(Error::failed(format!(
            "`{cwd}` is not a directory to run in"
        )));
    }
    if cwd.to_str().is_none() {
        return Err(not_utf8(&cwd));
    }
    let not_written = |folder: &Path, error: &io::Error| {
        let folder = folder.display();
        let what = format!("could not write what the task needs to {folder}");
        Error::io(what, error)
    };
    // The first launch keeps the environment for all restarts that follow from it.
    let restarts = launch.spec.settings.restarts.as_mut();
    let first = restarts.filter(|restarts| restarts.token.is_empty());
    let is_first = first.is_some();
    if let Some(restarts) = first {
        restarts.token.clone_from(&launch.token);
    }
    let mut order = PaneOrder {
        environment: launch.environment.clone(),
        spec: launch.spec.clone(),
    };
    let slot = launch.spec.settings.slot.as_ref().map(Slot::to_string);
    let name = &launch.name;
    order.environment.name_task(session, name, slot.as_deref());
    order.check_size()?;
    let file = TaskFile::write(runtime, &launch.token, &order);
    let mut file = file.map_err(|error| not_written(runtime, &error))?;
    if is_first {
        let written = file.keep(kept, &launch.token, &order.environment);
        written.map_err(|error| not_written(kept, &error))?;
    }
    let path = file.path().map(str::to_owned);
    launch.file =
        path.ok_or_else(|| not_written(runtime, &io::ErrorKind::InvalidFilename.into()))?;
    Ok(file)
}

/// Starts the task in its slot, one of these: creates the window where it is missing, otherwise runs it again
/// in the window of that name. Without a `session`, that of the launch's name is meant, and created where it
/// is missing. `ended` are the processes of the live runs that were ended for it. Fails when the input is
/// refused, before tmux is touched; when two windows have the name; when tmux fails. After
/// [`TmuxError::Closed`] the task may have been started: `find_launched` says whether it was.
pub(crate) async fn launch(
    connection: &mut Connection<'_>,
    server: &Server,
    session: Option<SessionId>,
    launch: &Launch,
    slots: Slots,
    ended: &[u32],
) -> Result<LaunchAnswer, TmuxError> {
    check_token(&launch.token)?;
    let target = session.map_or_else(|| format!("={}", launch.session), |id| id.to_string());
    let lines = LaunchLines {
        launch,
        session: target,
        slots,
        ended,
    };
    let mut no_server = None;
    for attempt in 0..ATTEMPTS {
        match lines.attempt(connection).await? {
            None => {}
            Some(LaunchAnswer::NoSession) if session.is_none() => {
                match lines.create_session(server).await {
                    // Clients that start the same server together can each connect to another's and
                    // see it exit.
                    Err(error) if error.is_missing() && attempt < START_ATTEMPTS => {
                        no_server = Some(error);
                        tokio::time::sleep(PAUSE).await;
                    }
                    launched => {
                        if let Some(launched) = launched? {
                            return Ok(LaunchAnswer::Started(launched));
                        }
                    }
                }
            }
            Some(answer) => return Ok(answer),
        }
    }
    Err(no_server.unwrap_or_else(|| contended().into()))
}

/// Returns the path of this program for tmux to start. If its file was replaced or removed meanwhile,
/// this is the kernel's link to what runs, for as long as it runs.
pub(crate) fn program() -> Option<PathBuf> {
    let program = std::env::current_exe().ok().filter(|path| path.exists());
    let running = || PathBuf::from(format!("{PROC}/{}/exe", std::process::id()));
    program.or_else(|| Some(running()).filter(|path| path.exists()))
}

/// Returns that path for a launch.
pub(crate) fn program_of_panes() -> Result<String, Error> {
    let program = program().ok_or_else(|| Error::failed("this program is not found any more"))?;
    let name = program.into_os_string().into_string();
    name.map_err(|program| not_utf8(program.as_ref()))
}

fn not_utf8(path: &Path) -> Error {
    let path = path.display();
    Error::failed(format!("cannot run in `{path}`: its name is not UTF-8"))
}

/// Returns a token that no other launch has.
pub(crate) fn unique_token() -> String {
    format!("{}-{}", std::process::id(), nonce())
}

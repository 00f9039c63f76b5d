//! A task session: finding it, its daemon, and looks without a daemon.

use std::cell::{Cell, RefCell};
use std::env;
use std::ffi::OsString;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;

use super::{lookup, session_name};
use crate::client::{DaemonClient, NamedAnswer, Start, connect_or_start};
use crate::clock;
use crate::daemon::{has_left, list_sessions, resolve, written_pid};
use crate::model::{Error, ErrorKind, Snapshot, Task, text};
use crate::observe::{Evidence, Observer};
use crate::paths::{FileLock, Paths};
use crate::process;
use crate::protocol::rows::LookRows;
use crate::tmux::{Connection, LookKind, LookMemory, Server, ServerChoice, Target, TmuxError};
use crate::wire::{Request, Response};

/// If set to a non-empty value, forbids starting a daemon automatically.
const NO_AUTOSTART: &str = "TMUX_TASK_NO_AUTOSTART";

pub(super) const START_DAEMON: &str = "start one with `tmux-task daemon --detach`";

/// How long a daemon or tmux may take to say which session is meant. What is found on the disk
/// needs neither, and any other request will time out again and report which one does not answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// The maximum length of a displayed name, in characters.
const MAX_NAME: usize = 4096;

/// How long to wait before tmux is asked again how a run ended: without an attached client, nothing
/// reports that tmux has collected it.
const NUDGED: Duration = Duration::from_millis(5);

/// The user's choice of session and server. What is `None` is left to the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionChoice {
    /// The session's name.
    pub(crate) session: Option<String>,
    pub(crate) server: ServerChoice,
}

/// A task session and where its files are.
#[derive(Debug)]
pub(crate) struct TaskSession {
    /// The session's present name.
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) paths: Paths,
    /// The project's folder: the enclosing git work tree, else the directory.
    pub(crate) project: Option<PathBuf>,
    /// The connection on which the daemon was asked for the name, for the next request.
    client: RefCell<Option<DaemonClient>>,
    /// Whether a daemon of another version was replaced.
    has_replaced: Cell<bool>,
    /// Whether a daemon exists and did not answer in time.
    pub(crate) is_daemon_silent: bool,
    /// Whether the name is resolved.
    is_name_resolved: bool,
    /// Whether the command line names a tmux program, which is checked even if a daemon makes it
    /// unnecessary.
    has_program_option: bool,
    /// The daemon's socket, for whoever checks that the daemon answers.
    socket: Arc<Mutex<PathBuf>>,
}

impl TaskSession {
    /// Returns the task session as it was named, without asking the daemon or tmux.
    pub(crate) fn named(choice: &SessionChoice) -> Result<Self, Error> {
        let given = session_name::named(choice.session.as_deref(), &lookup);
        let given = given.map_err(Error::usage)?;
        let dir = env::current_dir();
        let project = dir
            .as_deref()
            .ok()
            .map(session_name::project_of)
            .map(Path::to_owned);
        let socket = choice.server.socket_path.as_deref();
        let name = match (given, &project, dir) {
            (_, _, Err(error)) if socket.is_some_and(Path::is_relative) => {
                return Err(no_directory(&error, None));
            }
            (Some(name), _, _) => name,
            (None, Some(project), _) => session_name::of_project(project),
            (None, None, Err(error)) => {
                let hint = Some("--session names a session");
                return Err(no_directory(&error, hint));
            }
            (None, None, Ok(_)) => {
                return Err(Error::usage("no session is named".to_owned()));
            }
        };
        let server = Server::locate(&choice.server, &lookup)?;
        let paths = Paths::locate(server.socket(), &name, &lookup)?;
        let socket = Arc::new(Mutex::new(paths.socket()));
        Ok(Self {
            name,
            server,
            paths,
            project,
            client: RefCell::default(),
            has_replaced: Cell::default(),
            is_daemon_silent: false,
            is_name_resolved: false,
            has_program_option: choice.server.program.is_some(),
            socket,
        })
    }

    /// Returns the name of the session that the environment or this directory means, on any machine.
    pub(crate) fn name_from_here() -> Result<String, Error> {
        if let Some(name) = session_name::named(None, &lookup).map_err(Error::usage)? {
            return Ok(name);
        }
        let dir = env::current_dir()
            .map_err(|error| no_directory(&error, Some("--session names a session")))?;
        Ok(session_name::of_project(session_name::project_of(&dir)))
    }

    /// Returns the same session for a request beside others.
    pub(crate) fn for_request(&self) -> Self {
        Self {
            name: self.name.clone(),
            server: self.server.clone(),
            paths: self.paths.clone(),
            project: self.project.clone(),
            client: RefCell::default(),
            has_replaced: Cell::default(),
            is_daemon_silent: false,
            is_name_resolved: self.is_name_resolved,
            has_program_option: self.has_program_option,
            socket: Arc::new(Mutex::new(self.paths.socket())),
        }
    }

    /// Resolves the name. The daemon to which it leads knows whose it is; without one tmux is asked once:
    /// the session may have been renamed.
    pub(crate) async fn resolve_name(&mut self) -> Result<(), Error> {
        self.check_program_option()?;
        self.is_name_resolved = true;
        self.use_files(Paths::locate(self.server.socket(), &self.name, &lookup)?);
        match DaemonClient::connect(&self.paths.socket()).await {
            Ok(mut daemon) => {
                let name = text::one_line(self.name.as_bytes(), MAX_NAME);
                let asked = daemon.ask_session(name, &Request::Count);
                // A daemon that hangs must not delay what the disk shows.
                match timeout(ANSWERS_WITHIN, asked).await {
                    Ok(Ok(NamedAnswer::OtherSession)) => self.ask_tmux().await,
                    Ok(Ok(NamedAnswer::Answered(name, _))) => {
                        self.answered_by(name, daemon);
                        Ok(())
                    }
                    Ok(Err(error)) if error.kind == ErrorKind::Version => {
                        self.replace_daemon(daemon, error).await
                    }
                    // The command itself will run into it.
                    Ok(Err(_)) => Ok(()),
                    Err(_elapsed) => {
                        self.is_daemon_silent = true;
                        Ok(())
                    }
                }
            }
            Err(error) if error.kind == ErrorKind::NoDaemon => {
                if self.server.is_program_named() {
                    // The command itself reports a program that does not answer.
                    if let Ok(checked) = timeout(ANSWERS_WITHIN, self.server.check_version()).await
                    {
                        checked?;
                    }
                }
                // The command itself reports why tmux does not answer.
                drop(self.ask_tmux().await);
                Ok(())
            }
            Err(error) if error.kind == ErrorKind::NotOurs => Err(error),
            // The command itself will run into it.
            Err(_) => Ok(()),
        }
    }

    /// Asks tmux which session the name means: no daemon has answered for it. If that fails too, a daemon
    /// to which the name leads may be another session's.
    async fn ask_tmux(&mut self) -> Result<(), Error> {
        self.is_name_resolved = true;
        let listed = timeout(ANSWERS_WITHIN, list_sessions(&self.server)).await;
        let sessions = listed.unwrap_or(Err(TmuxError::TimedOut))?;
        let paths = Paths::locate(self.server.socket(), &self.name, &lookup)?;
        let resolved = resolve(&sessions, &self.name, &paths);
        self.use_files(resolved.paths);
        self.name = resolved.name.unwrap_or_else(|| mem::take(&mut self.name));
        Ok(())
    }

    /// The daemon has answered, for the session with this name.
    fn answered_by(&mut self, name: Option<String>, daemon: DaemonClient) {
        self.is_name_resolved = true;
        if let Some(name) = name.filter(|name| !self.is_named(name)) {
            self.name = name;
        }
        self.client.replace(Some(daemon));
    }

    /// Checks that the program which the command line names exists.
    fn check_program_option(&self) -> Result<(), Error> {
        if self.has_program_option {
            self.server.check_program()?;
        }
        Ok(())
    }

    /// Asks the daemon for the session's name in its last look.
    pub(super) async fn ask_status(&mut self, daemon: &mut DaemonClient) {
        if let Ok(Response::Status(status)) = daemon.ask(&Request::Status).await
            && status.exists
            && !self.is_named(&status.session_name)
        {
            self.name = status.session_name;
        }
    }

    /// Stops a daemon of another version, which has `refused` a request, and starts one of this version. The
    /// tasks go on.
    async fn replace_daemon(&self, daemon: DaemonClient, refused: Error) -> Result<(), Error> {
        // It takes no second request on this connection.
        drop(daemon);
        // After an update a program that was there before has no file that could be started.
        let is_there = env::current_exe().is_ok_and(|program| program.exists());
        if is_autostart_forbidden() || !is_there || self.has_replaced.replace(true) {
            return Err(refused);
        }
        let asked = written_pid(&self.paths.lock());
        match DaemonClient::connect(&self.paths.socket()).await {
            Ok(mut daemon) => {
                daemon.ask(&Request::Stop { cleanup: false }).await?;
            }
            Err(error) if error.kind == ErrorKind::NoDaemon => {}
            Err(error) => return Err(error),
        }
        if !has_left(&self.paths.lock(), asked).await {
            return Err(refused);
        }
        let started = self.daemon_or_start().await?;
        self.client.replace(started);
        Ok(())
    }

    /// Uses these files.
    pub(crate) fn use_files(&mut self, paths: Paths) {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        *socket = paths.socket();
        self.paths = paths;
    }

    /// Returns the daemon's socket. It changes if the session turns out to have other files.
    pub(crate) fn daemon_socket(&self) -> Arc<Mutex<PathBuf>> {
        Arc::clone(&self.socket)
    }

    /// Connects to the daemon; `None` when none runs.
    pub(crate) async fn daemon(&self) -> Result<Option<DaemonClient>, Error> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        match DaemonClient::connect(&self.paths.socket()).await {
            Ok(client) => Ok(Some(client)),
            Err(error) if error.kind == ErrorKind::NoDaemon => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Connects to the daemon for a launch, which also creates what the server needs.
    pub(super) async fn daemon_for_launch(&self) -> Result<Option<DaemonClient>, Error> {
        self.server.check_version().await?;
        // Before a daemon is started for a server that cannot exist.
        self.server.create_socket_folder()?;
        self.daemon_or_start().await
    }

    /// Connects to the daemon. Starts one if none runs, unless that is forbidden.
    pub(crate) async fn daemon_or_start(&self) -> Result<Option<DaemonClient>, Error> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        if is_autostart_forbidden() {
            return self.daemon().await;
        }
        match DaemonClient::connect(&self.paths.socket()).await {
            Err(error) if error.kind == ErrorKind::NoDaemon => {}
            connected => return Ok(Some(connected?)),
        }
        // Of many commands at once, one starts it, and the others find it.
        self.paths.create_runtime()?;
        let _starting = self.paths.lock_start().await;
        let start = self.start_of_daemon("autostart", &[])?;
        connect_or_start(&start).await.map(Some)
    }

    /// Sends the daemon a request; `None` when no daemon runs any more.
    pub(super) async fn ask_daemon(&self, request: &Request) -> Result<Option<Response>, Error> {
        let mut lost = LostDaemons::default();
        loop {
            let Some(mut daemon) = self.daemon().await? else {
                return Ok(None);
            };
            match daemon.ask(request).await {
                Ok(response) => {
                    self.client.replace(Some(daemon));
                    return Ok(Some(response));
                }
                Err(error) if error.kind == ErrorKind::Version => {
                    self.replace_daemon(daemon, error).await?;
                }
                // It may have been stopping when it was found.
                Err(error) if can_be_repeated(request) => {
                    lost.repeat_after(error, || self.paths.log())?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for a request with the session's name, which is resolved with it if it is not yet.
    pub(super) async fn ask_daemon_by_name(
        &mut self,
        request: &Request,
    ) -> Result<Option<Response>, Error> {
        if let Some(response) = self.ask_first(request).await? {
            return Ok(Some(response));
        }
        // Text can be typed without a daemon that hangs, but only a daemon knows the prompt.
        if self.is_daemon_silent
            && matches!(request, Request::Send(request) if !request.needs_prompt())
        {
            return Ok(None);
        }
        self.ask_daemon(request).await
    }

    /// Sends a request that also resolves the session's name; `None` if the name is resolved and the
    /// request is still to be sent, if there is a daemon.
    pub(super) async fn ask_first(&mut self, request: &Request) -> Result<Option<Response>, Error> {
        if !self.is_name_resolved {
            self.check_program_option()?;
        }
        let mut lost = LostDaemons::default();
        while !self.is_name_resolved {
            let Ok(mut daemon) = DaemonClient::connect(&self.paths.socket()).await else {
                self.resolve_name().await?;
                break;
            };
            if daemon.pid().is_some_and(process::is_stopped) {
                self.is_name_resolved = true;
                self.is_daemon_silent = true;
                break;
            }
            let name = text::one_line(self.name.as_bytes(), MAX_NAME);
            match daemon.ask_session(name, request).await {
                Ok(NamedAnswer::Answered(name, response)) => {
                    self.answered_by(name, daemon);
                    return Ok(Some(*response));
                }
                Ok(NamedAnswer::OtherSession) => self.ask_tmux().await?,
                Err(error) if error.kind == ErrorKind::Version => {
                    self.replace_daemon(daemon, error).await?;
                }
                // It may have been stopping when it was found.
                Err(error) if can_be_repeated(request) => {
                    lost.repeat_after(error, || self.paths.log())?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Closes the connection to the daemon: the next request may go to another one.
    pub(super) fn disconnect(&self) {
        self.client.take();
    }

    /// Whether this is how the session's name is displayed.
    pub(super) fn is_named(&self, name: &str) -> bool {
        name == text::one_line(self.name.as_bytes(), MAX_NAME)
    }

    /// Returns how to start a daemon for this session in the background.
    pub(crate) fn start_of_daemon(
        &self,
        child_of: &str,
        more: &[OsString],
    ) -> Result<Start, Error> {
        self.check_server()?;
        let program = env::current_exe().map_err(Error::of)?;
        let mut args: Vec<OsString> = vec![
            "-S".into(),
            self.server.socket().into(),
            "--tmux".into(),
            absolute(self.server.program()).into(),
            // One word, so that a name that starts with a dash is not an option.
            format!("--session={}", self.name).into(),
            "daemon".into(),
            "--as-child".into(),
            child_of.into(),
            format!("--folder={}", self.paths.key).into(),
        ];
        args.extend_from_slice(more);
        Ok(Start {
            program,
            args,
            socket: self.paths.socket(),
        })
    }

    /// Takes the lock under which sessions are created and ended.
    pub(crate) async fn lock_server(&self) -> Result<FileLock, Error> {
        self.paths.create_runtime()?;
        Ok(self.paths.lock_server().await)
    }

    /// Returns a connection to tmux itself.
    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    pub(crate) async fn look(&self) -> Result<Snapshot, Error> {
        let target = Target::Name(self.name.clone());
        let mut captures = LookMemory::default();
        let mut observer = Observer::new(&self.name);
        loop {
            let mut connection = self.connection();
            let look =
                crate::tmux::look(&mut connection, &target, &mut captures, LookKind::Windows).await;
            let look = look?;
            let pids = look.iter().flat_map(LookRows::pids);
            let evidence = Evidence {
                started_at: Arc::new(process::starts(pids)),
                ..Evidence::default()
            };
            let observed = observer.observe(look.as_ref(), &evidence, clock::now());
            let Some(life) = observed.snapshot.life.as_ref().filter(|_| observed.nudge) else {
                return Ok(self.with_queued(observed.snapshot));
            };
            // A run has ended and tmux has not collected its status. It will soon, and the observer
            // limits how long to wait.
            crate::tmux::nudge(life.server_pid);
            tokio::time::sleep(NUDGED).await;
        }
    }

    /// Adds which tasks wait for a place in their slots, and when the others began.
    fn with_queued(&self, mut snapshot: Snapshot) -> Snapshot {
        for task in snapshot
            .tasks
            .values_mut()
            .filter(|task| task.settings.slot.is_some())
        {
            let (is_queued, began) = process::queue_state(&self.paths.runtime, task);
            let task = Arc::make_mut(task);
            task.queued = is_queued;
            task.started_at = began.or(task.started_at);
        }
        snapshot
    }

    /// Returns the task of this name or window id.
    pub(crate) async fn task(&self, name: &str) -> Result<Arc<Task>, Error> {
        let look = self.look().await?;
        if !look.exists {
            return Err(self.missing());
        }
        Ok(Arc::clone(look.find_task(name)?))
    }

    /// Returns the error for a missing session.
    pub(crate) fn missing(&self) -> Error {
        match self.server.check_socket_folder() {
            Ok(()) => Error::missing(format!("no session `{}`", self.name))
                .with_hint("`tmux-task run NAME -- COMMAND` starts a task and with it the session"),
            Err(error) => error.into(),
        }
    }

    /// Checks that the tmux server can exist, before a daemon is started for it.
    pub(crate) fn check_server(&self) -> Result<(), Error> {
        Ok(self.server.check_socket_folder()?)
    }

    /// Returns the error that no daemon runs and starting one is forbidden.
    pub(crate) fn no_daemon(&self) -> Error {
        let message = format!("no daemon runs for session `{}`", self.name);
        Error::new(ErrorKind::NoDaemon, message).with_hint(START_DAEMON)
    }
}

/// Whether a request may be sent again if its answer did not arrive. Input that may have been typed
/// must not be typed again.
fn can_be_repeated(request: &Request) -> bool {
    !matches!(
        request,
        Request::Send(_) | Request::SendGuarded(_) | Request::Run(_) | Request::Stop { .. }
    )
}

/// Returns the error that the directory which the command was started in does not exist or cannot be
/// read. `hint` is the option that selects another directory, if there is one.
pub(super) fn no_directory(error: &io::Error, hint: Option<&str>) -> Error {
    let failed = if error.kind() == io::ErrorKind::NotFound {
        Error::failed("the directory that this was started in was deleted")
    } else {
        Error::failed(format!(
            "the working directory cannot be determined: {error}"
        ))
    };
    match hint {
        Some(hint) => failed.with_hint(hint),
        None => failed,
    }
}

/// Whether the environment forbids commands to start a daemon.
pub(super) fn is_autostart_forbidden() -> bool {
    lookup(NO_AUTOSTART).is_some_and(|value| !value.is_empty())
}

/// Returns a path for a process with another working directory. A bare name is not changed: `PATH`
/// is searched for it anywhere.
pub(super) fn absolute(program: &Path) -> PathBuf {
    let is_bare = program.components().count() <= 1 && !program.as_os_str().is_empty();
    if is_bare {
        return program.to_owned();
    }
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

/// The maximum number of daemons that may end before they answer. A request that makes the daemon
/// crash would otherwise be repeated for ever.
const MOST_LOST: usize = 5;

/// How many daemons have ended before they answered.
#[derive(Debug, Default)]
pub(super) struct LostDaemons(usize);

impl LostDaemons {
    /// Whether a request that can be repeated is given to the next daemon after this error: its daemon
    /// has ended, and the next one may stay.
    pub(super) fn goes_on_after(&mut self, error: &Error) -> bool {
        if error.kind != ErrorKind::DaemonEnded || self.0 >= MOST_LOST {
            return false;
        }
        self.0 += 1;
        true
    }

    /// The same for a request that can be repeated. `log` is the daemon's log.
    ///
    /// # Errors
    ///
    /// The error that ends the command: too many daemons have ended, or it is another one.
    pub(super) fn repeat_after(
        &mut self,
        error: Error,
        log: impl FnOnce() -> PathBuf,
    ) -> Result<(), Error> {
        if self.goes_on_after(&error) {
            return Ok(());
        }
        if error.kind == ErrorKind::DaemonEnded {
            let times = self.0 + 1;
            return Err(Error::failed(format!(
                "{times} daemons in a row ended before they answered"
            ))
            .with_hint(format!(
                "the request may make them crash: the end of {} says more",
                log().display()
            )));
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Error {
        Error::new(ErrorKind::DaemonEnded, "the daemon ended")
    }

    #[test]
    fn a_request_outlives_a_few_daemons_and_no_other_error() {
        let mut lost = LostDaemons::default();
        let left = ended();
        for _ in 0..MOST_LOST {
            assert!(!lost.goes_on_after(&Error::failed("no")));
            assert!(lost.goes_on_after(&left));
        }
        assert!(!lost.goes_on_after(&left));
    }

    #[test]
    fn a_request_under_which_every_daemon_ends_fails_and_names_the_log() {
        let mut lost = LostDaemons::default();
        let mut repeat = || lost.repeat_after(ended(), || "/s/daemon.log".into());
        for _ in 0..MOST_LOST {
            repeat().unwrap();
        }
        let error = repeat().unwrap_err();
        assert_eq!(
            error.to_string(),
            "6 daemons in a row ended before they answered"
        );
        let hint = error.hint.unwrap();
        assert!(hint.contains("/s/daemon.log"), "{hint}");
    }
}

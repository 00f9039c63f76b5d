//! A task session: finding it, and asking its daemon, which is started where none runs.

use std::cell::{Cell, RefCell};
use std::env;
use std::ffi::OsString;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use super::lookup;
use crate::client::{DaemonClient, Start, connect_or_start};
use crate::config::paths::{Env, Paths, hex};
use crate::daemon::{has_left, list_sessions, resolve, written_pid};
use crate::model::{Error, ErrorKind, Launch, text};
use crate::rules::wire::{LaunchedRun, Request, SendRequest};
use crate::tmux::{Connection, ListedSession, Server, ServerChoice, TmuxError};

/// If set to a non-empty value, forbids starting a daemon automatically.
const NO_AUTOSTART: &str = "TMUX_TASK_NO_AUTOSTART";

const START_DAEMON: &str = "start one with `tmux-task daemon --detach`";

/// How long a daemon or tmux may take to say which session is meant. What is found on the disk
/// needs neither, and any other request will time out again and report which one does not answer.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

const MAX_NAME: usize = 4096;

/// The user's choice of session and server. What is `None` is left to the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionChoice {
    pub(crate) session: Option<String>,
    pub(crate) server: ServerChoice,
}

impl SessionChoice {
    /// Returns the name that is given, or that the environment or this directory means, on any machine.
    pub(crate) fn name(&self) -> Result<String, Error> {
        let given = self.session.clone();
        given.map_or_else(|| name_in(&env::current_dir(), None), Ok)
    }
}

/// For which sessions a daemon is started, where none runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Starts {
    Never,
    /// For one that exists.
    IfExists,
    /// Also for one that is to be created.
    Always,
}

/// A task session and where its files are.
#[derive(Debug)]
pub(crate) struct TaskSession {
    pub(crate) name: String,
    pub(crate) server: Server,
    pub(crate) paths: Paths,
    /// The project's folder: the enclosing git work tree, else the directory.
    pub(crate) project: Option<PathBuf>,
    /// The connection on which the daemon was asked for the name, for the next request.
    client: RefCell<Option<DaemonClient>>,
    has_replaced: Cell<bool>,
    /// Whether the command line names the tmux program.
    has_program_option: bool,
    pub(super) is_name_resolved: bool,
}

impl TaskSession {
    /// Returns the task session as it was named, without asking the daemon or tmux.
    pub(crate) fn named(choice: &SessionChoice) -> Result<Self, Error> {
        let dir = env::current_dir();
        let socket = choice.server.socket_path.as_deref();
        if let (Err(error), Some(true)) = (&dir, socket.map(Path::is_relative)) {
            return Err(no_directory(error, None));
        }
        let name = name_in(&dir, choice.session.as_deref())?;
        let server = Server::locate(&choice.server, &lookup)?;
        let paths = Paths::locate(server.socket(), &name, &lookup)?;
        let project = dir.ok();
        let project = project.map(|dir| project_of(&dir).to_owned());
        Ok(Self {
            name,
            server,
            paths,
            project,
            client: RefCell::default(),
            has_replaced: Cell::default(),
            has_program_option: choice.server.program.is_some(),
            is_name_resolved: false,
        })
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
            ..*self
        }
    }

    /// A program that the command line names has to exist, also beside a daemon that makes it unnecessary.
    fn check_program(&self) -> Result<(), Error> {
        if self.has_program_option && !self.is_name_resolved {
            self.server.check_program()?;
        }
        Ok(())
    }

    /// Resolves the name: by the daemon to which it leads, else by tmux. The session may have been renamed.
    pub(crate) async fn resolve_name(&mut self) -> Result<(), Error> {
        self.check_program()?;
        self.is_name_resolved = true;
        self.paths = Paths::locate(self.server.socket(), &self.name, &lookup)?;
        match DaemonClient::connect(&self.paths.socket()).await {
            Ok(mut daemon) => {
                let name = text::session_name(self.name.as_bytes(), MAX_NAME);
                let asked = daemon.ask_to_the_end::<IgnoredAny>(Some(&name), &Request::Count);
                // A daemon that hangs must not delay what the disk shows.
                match timeout(ANSWERS_WITHIN, asked).await {
                    Ok(Ok(answer)) => {
                        self.answered_by(answer.from, daemon);
                        Ok(())
                    }
                    Ok(Err(error)) if error.kind == ErrorKind::OtherSession => {
                        self.ask_tmux().await
                    }
                    Ok(Err(error)) if error.kind == ErrorKind::Version => {
                        self.replace_daemon(daemon, error).await
                    }
                    // The command itself will run into it.
                    Ok(Err(_)) | Err(_) => Ok(()),
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

    /// Asks tmux which session the name means. A daemon to which it leads may be another session's.
    async fn ask_tmux(&mut self) -> Result<(), Error> {
        self.is_name_resolved = true;
        let sessions = self.list_sessions().await?;
        let paths = Paths::locate(self.server.socket(), &self.name, &lookup)?;
        let resolved = resolve(&sessions, &self.name, &paths);
        self.paths = resolved.paths;
        self.name = resolved.name.unwrap_or_else(|| mem::take(&mut self.name));
        Ok(())
    }

    async fn list_sessions(&self) -> Result<Vec<ListedSession>, Error> {
        let listed = timeout(ANSWERS_WITHIN, list_sessions(&self.server)).await;
        Ok(listed.unwrap_or(Err(TmuxError::TimedOut))?)
    }

    async fn exists(&self) -> Result<bool, Error> {
        let sessions = self.list_sessions().await?;
        Ok(sessions.iter().any(|session| session.name == self.name))
    }

    /// The daemon has answered, for the session with this name.
    fn answered_by(&mut self, name: Option<String>, daemon: DaemonClient) {
        self.is_name_resolved = true;
        // Unless it is only how the name is displayed.
        let shown = text::session_name(self.name.as_bytes(), MAX_NAME);
        if let Some(name) = name.filter(|name| *name != shown) {
            self.name = name;
        }
        self.client.replace(Some(daemon));
    }

    /// Stops a daemon of another version, which has `refused` a request, and starts one of this version.
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
                let stop = Request::Stop { cleanup: false };
                daemon.ask::<IgnoredAny>(&stop).await?;
            }
            Err(error) if error.kind == ErrorKind::NoDaemon => {}
            Err(error) => return Err(error),
        }
        if !has_left(&self.paths.lock(), asked).await {
            return Err(refused);
        }
        let started = self.daemon_or_start().await?;
        self.client.replace(Some(started));
        Ok(())
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
    pub(super) async fn daemon_for_launch(&self) -> Result<DaemonClient, Error> {
        if let Some(client) = self.daemon().await? {
            return Ok(client);
        }
        self.server.check_version().await?;
        // Before a daemon is started for a server that cannot exist.
        self.server.create_socket_folder()?;
        self.daemon_or_start().await
    }

    /// Connects to the daemon, and starts one if none runs.
    pub(crate) async fn daemon_or_start(&self) -> Result<DaemonClient, Error> {
        if let Some(client) = self.daemon().await? {
            return Ok(client);
        }
        if is_autostart_forbidden() {
            let name = &self.name;
            let message = format!(
                "no daemon runs for session `{name}`, and ${NO_AUTOSTART} keeps commands from \
                 starting one"
            );
            return Err(Error::new(ErrorKind::NoDaemon, message).with_hint(START_DAEMON));
        }
        // Of many commands at once, one starts it, and the others find it.
        self.paths.create_runtime()?;
        let _starting = self.paths.lock_start().await;
        let start = self.start_of_daemon("autostart", &[])?;
        connect_or_start(&start).await
    }

    /// Sends the daemon a request; starts one if none runs and the session exists. Resolves the name.
    pub(super) async fn ask<T: DeserializeOwned>(&mut self, request: Request) -> Result<T, Error> {
        let answer = self.ask_if_exists(request).await?;
        answer.ok_or_else(|| self.missing())
    }

    /// The same; `None` where the session is missing.
    pub(super) async fn ask_if_exists<T: DeserializeOwned>(
        &mut self,
        request: Request,
    ) -> Result<Option<T>, Error> {
        self.ask_any(request, Starts::IfExists).await
    }

    /// The same; `None` where no daemon runs. None is started.
    pub(super) async fn ask_running<T: DeserializeOwned>(
        &mut self,
        request: Request,
    ) -> Result<Option<T>, Error> {
        self.ask_any(request, Starts::Never).await
    }

    /// Starts a task, and the session if it is missing. The command may wait for what comes next.
    pub(super) async fn launch(&mut self, launch: Launch) -> Result<LaunchedRun, Error> {
        let request = Request::Run(Box::new(launch));
        let launched = self.ask_any(request, Starts::Always).await?;
        launched.ok_or_else(|| self.missing())
    }

    pub(crate) async fn send(&mut self, request: SendRequest) -> Result<(), Error> {
        self.ask::<IgnoredAny>(Request::Send(request)).await?;
        Ok(())
    }

    async fn ask_any<T: DeserializeOwned>(
        &mut self,
        mut request: Request,
        starts: Starts,
    ) -> Result<Option<T>, Error> {
        self.check_program()?;
        let mut lost = LostDaemons::default();
        loop {
            let name = text::session_name(self.name.as_bytes(), MAX_NAME);
            let to = Some(name).filter(|_| !self.is_name_resolved);
            let daemon = match starts {
                _ if to.is_some() => match DaemonClient::connect(&self.paths.socket()).await {
                    Ok(daemon) => Some(daemon),
                    Err(_) => {
                        self.resolve_name().await?;
                        continue;
                    }
                },
                Starts::Never => self.daemon().await?,
                Starts::IfExists => match self.daemon().await? {
                    Some(daemon) => Some(daemon),
                    None if self.exists().await? => Some(self.daemon_or_start().await?),
                    None => None,
                },
                Starts::Always => Some(self.daemon_for_launch().await?),
            };
            let Some(mut daemon) = daemon else {
                return Ok(None);
            };
            if let Request::Run(launch) = &mut request {
                launch.session.clone_from(&self.name);
            }
            match daemon.ask_to_the_end(to.as_deref(), &request).await {
                Ok(answer) => {
                    self.answered_by(answer.from.filter(|_| to.is_some()), daemon);
                    return Ok(Some(answer.response));
                }
                Err(error) if error.kind == ErrorKind::OtherSession && to.is_some() => {
                    self.ask_tmux().await?;
                }
                Err(error) if error.kind == ErrorKind::Version => {
                    self.replace_daemon(daemon, error).await?;
                }
                // The next daemon goes on with what this one may have begun.
                Err(error) => match request.repeated() {
                    Some(repeated) if lost.goes_on_after(&error) => request = repeated,
                    Some(_) | None => return Err(error),
                },
            }
        }
    }

    /// Returns the words that name this session to our program, in any directory.
    pub(super) fn words(&self) -> Vec<OsString> {
        vec![
            "-S".into(),
            self.server.socket().into(),
            "--tmux".into(),
            absolute(self.server.program()).into(),
            // One word, so that a name that starts with a dash is not an option.
            format!("--session={}", self.name).into(),
        ]
    }

    /// Returns how to start a daemon for this session in the background.
    pub(crate) fn start_of_daemon(
        &self,
        child_of: &str,
        more: &[OsString],
    ) -> Result<Start, Error> {
        // Before a daemon is started for a server that cannot exist.
        self.server.check_socket_folder()?;
        let program = env::current_exe().map_err(Error::of)?;
        let mut args = self.words();
        let folder = format!("--folder={}", self.paths.key);
        args.extend(["daemon", "--as-child", child_of, &folder].map(Into::into));
        args.extend_from_slice(more);
        Ok(Start {
            program,
            args,
            socket: self.paths.socket(),
        })
    }

    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    pub(crate) fn missing(&self) -> Error {
        match self.server.check_socket_folder() {
            Ok(()) => Error::missing(format!("no session `{}`", self.name))
                .with_hint("`tmux-task run NAME -- COMMAND` starts a task and with it the session"),
            Err(error) => error.into(),
        }
    }

    /// Returns the error that no daemon runs, and that this starts none.
    pub(crate) fn no_daemon(&self) -> Error {
        let message = format!("no daemon runs for session `{}`", self.name);
        Error::new(ErrorKind::NoDaemon, message).with_hint(START_DAEMON)
    }
}

/// Returns the name of the session that is given, or that the environment or the directory means.
fn name_in(dir: &io::Result<PathBuf>, given: Option<&str>) -> Result<String, Error> {
    if let Some(name) = named(given, &lookup).map_err(Error::usage)? {
        return Ok(name);
    }
    match dir {
        Ok(dir) => Ok(of_project(project_of(dir))),
        Err(error) => Err(no_directory(error, Some("--session names a session"))),
    }
}

/// Returns the session named by the user or the environment; `None` when neither names one.
fn named(option: Option<&str>, env: Env<'_>) -> Result<Option<String>, String> {
    if let Some(name) = option {
        return check(name.to_owned(), "--session").map(Some);
    }
    for variable in ["TMUX_TASK_SESSION", "PI_TMUX_SESSION"] {
        let set = env(variable).filter(|value: &OsString| !value.is_empty());
        if let Some(value) = set {
            let name = value
                .into_string()
                .map_err(|_| format!("${variable} is not UTF-8"))?;
            return check(name, &format!("${variable}")).map(Some);
        }
    }
    Ok(None)
}

fn check(name: String, given_by: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err(format!("{given_by} is empty"));
    }
    if name.contains(['.', ':']) {
        return Err(format!(
            "session `{name}` of {given_by}: tmux allows neither `.` nor `:`"
        ));
    }
    // tmux reads these as an id or an escape, or changes them.
    if name.starts_with('$') || name.contains('\\') || name.chars().any(char::is_control) {
        return Err(format!(
            "the session of {given_by} may not begin with `$` nor have backslashes or control \
             characters"
        ));
    }
    Ok(name)
}

/// Returns the session of a project, `task-SLUG-HASH`.
fn of_project(project: &Path) -> String {
    let base = project
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let slug = slug(&base.unwrap_or_default());
    format!(
        "task-{slug}-{}",
        hex(project.as_os_str().as_encoded_bytes(), 6)
    )
}

fn slug(name: &str) -> String {
    let others = Regex::new("[^a-z0-9_-]+").expect("it is a regular expression");
    let name = name.to_lowercase();
    match others.replace_all(&name, "-").trim_matches('-') {
        "" => "root".to_owned(),
        slug => slug.to_owned(),
    }
}

/// Returns the git work tree that contains `dir`, else `dir`.
fn project_of(dir: &Path) -> &Path {
    dir.ancestors()
        .find(|ancestor| ancestor.join(".git").exists())
        .unwrap_or(dir)
}

/// Returns the error about the working directory. `hint` is the option that selects another one.
pub(super) fn no_directory(error: &io::Error, hint: Option<&str>) -> Error {
    let why = match error.kind() == io::ErrorKind::NotFound {
        true => "the directory that this was started in was deleted".to_owned(),
        false => format!("the working directory cannot be determined: {error}"),
    };
    Error {
        hint: hint.map(str::to_owned),
        ..Error::failed(why)
    }
}

/// Whether the environment forbids commands to start a daemon.
pub(super) fn is_autostart_forbidden() -> bool {
    lookup(NO_AUTOSTART).is_some_and(|value| !value.is_empty())
}

/// Returns a path for a process elsewhere. For a bare name, `PATH` is searched anywhere.
fn absolute(program: &Path) -> PathBuf {
    let is_bare = program.components().count() <= 1 && !program.as_os_str().is_empty();
    let found = std::path::absolute(program).ok().filter(|_| !is_bare);
    found.unwrap_or_else(|| program.to_owned())
}

/// How many daemons may end before they answer: a request may make them crash.
const MOST_LOST: usize = 5;

/// How many daemons have ended before they answered.
#[derive(Debug, Default)]
pub(super) struct LostDaemons(usize);

impl LostDaemons {
    /// Whether the next daemon is asked after this error: it may stay.
    pub(super) fn goes_on_after(&mut self, error: &Error) -> bool {
        if error.kind != ErrorKind::DaemonEnded || self.0 >= MOST_LOST {
            return false;
        }
        self.0 += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;

    #[test]
    fn a_request_outlives_a_few_daemons_and_no_other_error() {
        let mut lost = LostDaemons::default();
        let left = Error::new(ErrorKind::DaemonEnded, "the daemon ended");
        for _ in 0..MOST_LOST {
            assert!(!lost.goes_on_after(&Error::failed("no")));
            assert!(lost.goes_on_after(&left));
        }
        assert!(!lost.goes_on_after(&left));
    }

    #[test]
    fn slugs_are_plain() {
        for (name, expected) in [
            ("api", "api"),
            ("API", "api"),
            ("My  Project!", "my-project"),
            ("a.b:c", "a-b-c"),
            ("a--b", "a--b"),
            ("snake_case", "snake_case"),
            ("§§", "root"),
            ("", "root"),
            ("-x-", "x"),
            ("日本api", "api"),
        ] {
            assert_eq!(slug(name), expected, "{name:?}");
        }
    }

    #[test]
    fn two_checkouts_of_one_name_do_not_share_a_session() {
        let one = of_project(Path::new("/a/api"));
        assert!(one.starts_with("task-api-"));
        assert_eq!(one.len(), "task-api-".len() + 6);
        assert_ne!(one, of_project(Path::new("/b/api")));
        assert_eq!(one, of_project(Path::new("/a/api")));
        assert!(of_project(Path::new("/")).starts_with("task-root-"));
    }

    #[test]
    fn the_nearest_name_counts_and_empty_is_unset() {
        let both = "TMUX_TASK_SESSION=a PI_TMUX_SESSION=b";
        for (option, variables, expected) in [
            (Some("o"), both, Some("o")),
            (None, both, Some("a")),
            (None, "TMUX_TASK_SESSION= PI_TMUX_SESSION=b", Some("b")),
            (None, "", None),
        ] {
            let found = named(option, &env(variables)).unwrap();
            assert_eq!(found.as_deref(), expected, "{option:?} {variables}");
        }
        for wrong in ["a.b", "a:b", "", "a\nb", "$3", "a\\b"] {
            assert!(named(Some(wrong), &env("")).is_err(), "{wrong:?}");
        }
    }
}

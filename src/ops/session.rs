//! A task session: which one is meant, its daemon, and looks at it without one.

use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::error::OpsError;
use super::{lookup, session_name};
use crate::client::{Client, ClientError, Start, connect_or_start};
use crate::clock;
use crate::daemon::meant;
use crate::model::{Snapshot, Task, text};
use crate::observe::{Evidence, Observer};
use crate::paths::{FileLock, Paths, name_in};
use crate::process;
use crate::protocol::rows::Look;
use crate::tmux::{Connection, Extent, Memory, Server, ServerChoice, Target};
use crate::wire::{Request, Response};

/// Set to anything but nothing, it forbids starting a daemon unasked.
const NO_AUTOSTART: &str = "TMUX_TASK_NO_AUTOSTART";

/// How long a daemon or tmux may take to say which session is meant. What the disk tells needs
/// neither; any other command meets the silence again, and says whose it is.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How long tmux gets to hear how a run ended.
const NUDGED: Duration = Duration::from_millis(5);

/// What a user said of the session and its server; nothing said leaves it to the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct SessionChoice {
    /// The session's name.
    pub(crate) session: Option<String>,
    /// The server.
    pub(crate) server: ServerChoice,
}

/// A task session and where its files are.
#[derive(Debug)]
pub(crate) struct Session {
    /// The name that the session has.
    pub(crate) name: String,
    pub(crate) server: Server,
    /// Its files. What its daemon is asked for by stands there: the session may have been renamed.
    pub(crate) paths: Paths,
    /// The project's folder: the git work tree we are in, else the directory.
    pub(crate) project: Option<PathBuf>,
    /// The connection to the daemon by which the name was looked up, for the next request.
    client: RefCell<Option<Client>>,
    /// Whether a daemon is there and did not answer in time.
    pub(crate) is_daemon_silent: bool,
}

impl Session {
    /// Returns the task session as it was named; nobody is asked.
    pub(crate) fn named(choice: &SessionChoice) -> Result<Self, OpsError> {
        let given = session_name::named(choice.session.as_deref(), &lookup);
        let given = given.map_err(OpsError::Usage)?;
        let dir = env::current_dir();
        let project = dir
            .as_deref()
            .ok()
            .map(session_name::project_of)
            .map(Path::to_owned);
        let socket = choice.server.socket_path.as_deref();
        let name = match (given, &project, dir) {
            (_, _, Err(error)) if socket.is_some_and(Path::is_relative) => {
                return Err(OpsError::NoDirectory { error, hint: None });
            }
            (Some(name), _, _) => name,
            (None, Some(project), _) => session_name::of_project(project),
            (None, None, Err(error)) => {
                let hint = Some("--session names a session");
                return Err(OpsError::NoDirectory { error, hint });
            }
            (None, None, Ok(_)) => {
                return Err(OpsError::Usage("no session is named".to_owned()));
            }
        };
        let server = Server::locate(&choice.server, &lookup)?;
        let paths = Paths::locate(server.socket(), &name, &lookup)?;
        Ok(Self {
            name,
            server,
            paths,
            project,
            client: RefCell::default(),
            is_daemon_silent: false,
        })
    }

    /// Finds out what the name stands for. The daemon knows, or else tmux is asked once: the
    /// session may have been renamed.
    pub(crate) async fn settle(&mut self) -> Result<(), OpsError> {
        match Client::connect(&self.paths.socket()).await {
            Ok(mut daemon) => {
                let socket = self.paths.socket();
                let learnt = self.learn_from(Some(&mut daemon));
                // A daemon that hangs need not keep what the disk tells from being told.
                let Ok(learnt) = timeout(ANSWERS_WITHIN, learnt).await else {
                    self.is_daemon_silent = true;
                    return Ok(());
                };
                if learnt.is_ok() && self.paths.socket() == socket {
                    self.client.replace(Some(daemon));
                }
                learnt
            }
            Err(ClientError::NoDaemon) => {
                let meant = meant(&self.server, &self.name);
                // What keeps tmux from answering is for the command itself to tell.
                let Ok(Ok(meant)) = timeout(ANSWERS_WITHIN, meant).await else {
                    return Ok(());
                };
                self.use_files_of(&meant.asked)?;
                if let Some(name) = meant.name {
                    self.name = name;
                }
                Ok(())
            }
            Err(error @ ClientError::NotOurs { .. }) => Err(error.into()),
            // The command itself will meet it.
            Err(
                ClientError::Io { .. }
                | ClientError::Left
                | ClientError::Answer { .. }
                | ClientError::Refused(_)
                | ClientError::Unexpected,
            ) => Ok(()),
        }
    }

    /// Asks the daemon which name the session has now.
    pub(crate) async fn learn_from(&mut self, daemon: Option<&mut Client>) -> Result<(), OpsError> {
        let Some(daemon) = daemon else { return Ok(()) };
        let Ok(Response::Whereabouts(found)) = daemon.ask(&Request::Whereabouts).await else {
            return Ok(());
        };
        let is_same = |name: &String| *name == text::one_line(self.name.as_bytes(), 4096);
        if found.name.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        if let Some(other) = found.elsewhere {
            return self.use_files_of(&other);
        }
        if let Some(name) = found.name {
            self.name = name;
        }
        Ok(())
    }

    /// Uses the files of the session that is asked for by this.
    pub(crate) fn use_files_of(&mut self, asked: &str) -> Result<(), OpsError> {
        self.paths = Paths::locate(self.server.socket(), asked, &lookup)?;
        Ok(())
    }

    /// Connects to the daemon; `None` when none runs.
    pub(crate) async fn daemon(&self) -> Result<Option<Client>, OpsError> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        match Client::connect(&self.paths.socket()).await {
            Ok(client) => Ok(Some(client)),
            Err(ClientError::NoDaemon) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects to the daemon, starting one when none runs and none is forbidden.
    pub(crate) async fn daemon_or_start(&self) -> Result<Option<Client>, OpsError> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        if lookup(NO_AUTOSTART).is_some_and(|value| !value.is_empty()) {
            return self.daemon().await;
        }
        match connect_or_start(&self.start_of_daemon("autostart", &[])?).await {
            Ok(client) => Ok(Some(client)),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks the daemon one thing that may be asked twice; `None` when none runs, or none any more.
    pub(crate) async fn ask(&self, request: &Request) -> Result<Option<Response>, OpsError> {
        loop {
            let Some(mut daemon) = self.daemon().await? else {
                return Ok(None);
            };
            match daemon.ask(request).await {
                Ok(response) => {
                    self.client.replace(Some(daemon));
                    return Ok(Some(response));
                }
                // It was on its way out when it was found.
                Err(ClientError::Left) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns how a daemon for this session is started in the background.
    pub(crate) fn start_of_daemon(
        &self,
        child_of: &str,
        more: &[OsString],
    ) -> Result<Start, OpsError> {
        let program = env::current_exe().map_err(OpsError::Program)?;
        let mut args: Vec<OsString> = vec![
            "-S".into(),
            self.server.socket().into(),
            "--tmux".into(),
            absolute(self.server.program()).into(),
            // One word, so that a name that begins with a dash stays a name.
            format!("--session={}", name_in(&self.paths.asked)).into(),
            "daemon".into(),
            "--as-child".into(),
            child_of.into(),
            format!("--asked={}", self.paths.asked).into(),
        ];
        args.extend_from_slice(more);
        Ok(Start {
            program,
            args,
            socket: self.paths.socket(),
        })
    }

    /// Takes the lock under which sessions are made and ended.
    pub(crate) async fn lock_server(&self) -> Result<FileLock, OpsError> {
        self.paths.create_runtime()?;
        Ok(self.paths.lock_server().await)
    }

    /// Returns a way to ask tmux itself.
    pub(crate) fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    /// Looks at the session without a daemon.
    pub(crate) async fn look(&self) -> Result<Snapshot, OpsError> {
        let target = Target::Name(self.name.clone());
        let mut captures = Memory::default();
        let mut observer = Observer::new(&self.name);
        loop {
            let mut connection = self.connection();
            let look =
                crate::tmux::look(&mut connection, &target, &mut captures, Extent::Whole).await;
            let look = look?;
            let pids = look.iter().flat_map(Look::pids);
            let evidence = Evidence {
                started_at: Arc::new(process::starts(pids)),
                ..Evidence::default()
            };
            let observed = observer.observe(look.as_ref(), &evidence, clock::now());
            let Some(life) = observed.snapshot.life.as_ref().filter(|_| observed.nudge) else {
                return Ok(observed.snapshot);
            };
            // A run has ended and tmux has not heard how: it will in a moment, and the observer
            // bounds how long it is waited for.
            crate::tmux::nudge(life.server_pid);
            tokio::time::sleep(NUDGED).await;
        }
    }

    /// Returns the one task of this name or window id.
    pub(crate) async fn task(&self, name: &str) -> Result<Arc<Task>, OpsError> {
        let look = self.look().await?;
        if !look.exists {
            return Err(self.missing());
        }
        Ok(Arc::clone(look.find_task(name)?))
    }

    /// Returns the error that the session does not exist.
    pub(crate) fn missing(&self) -> OpsError {
        OpsError::NoSession(self.name.clone())
    }

    /// Returns the error that no daemon runs, and none may be started.
    pub(crate) fn no_daemon(&self) -> OpsError {
        OpsError::NoDaemon(self.name.clone())
    }
}

/// Returns a path for a process that stands in another folder. A bare name is left alone: `PATH`
/// finds it anywhere.
fn absolute(program: &Path) -> PathBuf {
    let is_bare = program.components().count() <= 1 && !program.as_os_str().is_empty();
    if is_bare {
        return program.to_owned();
    }
    std::path::absolute(program).unwrap_or_else(|_| program.to_owned())
}

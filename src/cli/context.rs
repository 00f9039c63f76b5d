//! What every command needs to know first: which session, which server, where its files are.

use std::cell::RefCell;
use std::env;
use std::ffi::OsString;
use std::future::poll_fn;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::args::Global;
use super::failure::{Failure, Kind};
use super::liveness::Asked;
use super::session_name;
use super::time_limit::TimeLimit;
use crate::client::{Client, ClientError, Start, StartError, connect_or_start};
use crate::clock;
use crate::daemon::meant;
use crate::model::{NameError, Snapshot, Task, text};
use crate::observe::{Evidence, Observer};
use crate::paths::{FileLock, Paths, PathsError, name_in};
use crate::process;
use crate::protocol::rows::Look;
use crate::tmux::{Connection, Extent, Memory, Server, ServerChoice, Target, TmuxError};
use crate::wire::{RefusalKind, Request, Response};

/// Set to anything but nothing, it forbids starting a daemon unasked.
const NO_AUTOSTART: &str = "TMUX_TASK_NO_AUTOSTART";

/// How long a daemon or tmux may take to say which session is meant. What the disk tells needs
/// neither; any other command meets the silence again, and says whose it is.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

/// How long tmux gets to hear how a run ended.
const NUDGED: Duration = Duration::from_millis(5);

/// The command line's and the environment's choice of a task session. Looked up when asked for:
/// `replay` needs none of it.
#[derive(Debug)]
pub(super) struct Context {
    global: Global,
    /// When the command finds out whether those it asks answer.
    pub(super) limit: TimeLimit,
    /// Who they are, once that is known.
    asked: RefCell<Option<Asked>>,
}

/// A task session and where its files are.
#[derive(Debug)]
pub(super) struct Session {
    /// The name that the session has.
    pub(super) name: String,
    pub(super) server: Server,
    /// Its files. What its daemon is asked for by stands there: the session may have been renamed.
    pub(super) paths: Paths,
    /// The project's folder: the git work tree we are in, else the directory.
    pub(super) project: Option<PathBuf>,
    /// The connection to the daemon by which the name was looked up, for the first request.
    client: RefCell<Option<Client>>,
    /// Whether a daemon is there and did not answer in time.
    pub(super) is_daemon_silent: bool,
}

impl Context {
    pub(super) fn new(global: Global) -> Self {
        Self {
            global,
            limit: TimeLimit::new(),
            asked: RefCell::new(None),
        }
    }

    /// Resolves when one of those that the command asks does not answer, to the failure that this
    /// is.
    pub(super) async fn silence(&self) -> Failure {
        loop {
            self.limit.over().await;
            let asked = self.asked.borrow().clone();
            if let Some(asked) = asked
                && let Some(failure) = asked.silence().await
            {
                return failure;
            }
            self.limit.renew();
        }
    }

    /// Returns the task session that is meant, whichever of its names was given; `what` is the
    /// command, for errors.
    pub(super) async fn session(&self, what: &str) -> Result<Session, Failure> {
        let mut session = self.given(what)?;
        session.settle(what).await?;
        // It may be supervised under another name.
        self.asks(what, &session);
        Ok(session)
    }

    /// Returns the task session as it was named; nobody is asked.
    pub(super) fn given(&self, what: &str) -> Result<Session, Failure> {
        let usage = |why: String| Failure::new(Kind::Usage, what, why);
        let given = session_name::named(self.global.session.as_deref(), &lookup).map_err(usage)?;
        let dir = env::current_dir();
        let project = dir
            .as_deref()
            .ok()
            .map(session_name::project_of)
            .map(Path::to_owned);
        let is_relative = self
            .global
            .socket_path
            .as_deref()
            .is_some_and(Path::is_relative);
        if is_relative && let Err(error) = &dir {
            return Err(no_directory(what, error));
        }
        let name = match (given, &project, &dir) {
            (Some(name), _, _) => name,
            (None, Some(project), _) => session_name::of_project(project),
            (None, None, Err(error)) => {
                return Err(no_directory(what, error).with_hint("--session names a session"));
            }
            (None, None, Ok(_)) => return Err(usage("no session is named".to_owned())),
        };
        let choice = ServerChoice {
            socket_name: self.global.socket_name.clone().map(Into::into),
            socket_path: self.global.socket_path.clone(),
            program: self.global.tmux.clone(),
        };
        let server = Server::locate(&choice, &lookup).map_err(|error| tmux(what, &error))?;
        let paths = Paths::locate(server.socket(), &name, &lookup)
            .map_err(|error| self::paths(what, &error))?;
        let session = Session {
            name,
            server,
            paths,
            project,
            client: RefCell::default(),
            is_daemon_silent: false,
        };
        self.asks(what, &session);
        Ok(session)
    }

    fn asks(&self, what: &str, session: &Session) {
        *self.asked.borrow_mut() = Some(Asked {
            what: what.to_owned(),
            server: session.server.clone(),
            daemon: session.paths.socket(),
        });
    }
}

impl Session {
    /// Finds out what the name stands for. The daemon knows, or else tmux is asked once: the
    /// session may have been renamed.
    async fn settle(&mut self, what: &str) -> Result<(), Failure> {
        match Client::connect(&self.paths.socket()).await {
            Ok(mut daemon) => {
                let socket = self.paths.socket();
                let learnt = self.learn_from(what, Some(&mut daemon));
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
                self.is_asked_for_by(what, &meant.asked)?;
                if let Some(name) = meant.name {
                    self.name = name;
                }
                Ok(())
            }
            Err(error @ ClientError::NotOurs { .. }) => {
                Err(Failure::of(Kind::Failed, what, &error))
            }
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
    pub(super) async fn learn_from(
        &mut self,
        what: &str,
        daemon: Option<&mut Client>,
    ) -> Result<(), Failure> {
        let Some(daemon) = daemon else { return Ok(()) };
        let Ok(Response::Whereabouts(found)) = daemon.ask(&Request::Whereabouts).await else {
            return Ok(());
        };
        let is_same = |name: &String| *name == text::one_line(self.name.as_bytes(), 4096);
        if found.name.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        if let Some(other) = found.elsewhere {
            return self.is_asked_for_by(what, &other);
        }
        if let Some(name) = found.name {
            self.name = name;
        }
        Ok(())
    }

    /// Turns to the files of the session that is asked for by this.
    pub(super) fn is_asked_for_by(&mut self, what: &str, asked: &str) -> Result<(), Failure> {
        self.paths = Paths::locate(self.server.socket(), asked, &lookup)
            .map_err(|error| paths(what, &error))?;
        Ok(())
    }

    /// Connects to the daemon; `None` when none runs.
    pub(super) async fn daemon(&self, what: &str) -> Result<Option<Client>, Failure> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        match Client::connect(&self.paths.socket()).await {
            Ok(client) => Ok(Some(client)),
            Err(ClientError::NoDaemon) => Ok(None),
            Err(error) => Err(Failure::of(Kind::Failed, what, &error)),
        }
    }

    /// Connects to the daemon, starting one when none runs and none is forbidden.
    pub(super) async fn daemon_or_start(&self, what: &str) -> Result<Option<Client>, Failure> {
        if let Some(client) = self.client.take() {
            return Ok(Some(client));
        }
        if lookup(NO_AUTOSTART).is_some_and(|value| !value.is_empty()) {
            return self.daemon(what).await;
        }
        match connect_or_start(&self.start(what, "autostart", &[])?).await {
            Ok(client) => Ok(Some(client)),
            Err(error) => Err(start(what, &error)),
        }
    }

    /// Asks the daemon one thing that may be asked twice; `None` when none runs, or none any more.
    pub(super) async fn ask(
        &self,
        what: &str,
        request: &Request,
    ) -> Result<Option<Response>, Failure> {
        loop {
            let Some(mut daemon) = self.daemon(what).await? else {
                return Ok(None);
            };
            match daemon.ask(request).await {
                Ok(response) => {
                    self.client.replace(Some(daemon));
                    return Ok(Some(response));
                }
                // It was on its way out when it was found.
                Err(ClientError::Left) => {}
                Err(error) => return Err(client(what, &error)),
            }
        }
    }

    /// Returns how a daemon for this session is started in the background.
    pub(super) fn start(
        &self,
        what: &str,
        child_of: &str,
        more: &[OsString],
    ) -> Result<Start, Failure> {
        let program =
            env::current_exe().map_err(|error| Failure::of(Kind::Failed, what, &error))?;
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
    pub(super) async fn lock_server(&self, what: &str) -> Result<FileLock, Failure> {
        self.paths
            .create_runtime()
            .map_err(|error| paths(what, &error))?;
        Ok(self.paths.lock_server().await)
    }

    /// Returns a way to ask tmux itself.
    pub(super) fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    /// Looks at the session without a daemon.
    pub(super) async fn look(&self, what: &str) -> Result<Snapshot, Failure> {
        let target = Target::Name(self.name.clone());
        let mut captures = Memory::default();
        let mut observer = Observer::new(&self.name);
        loop {
            let mut connection = self.connection();
            let look =
                crate::tmux::look(&mut connection, &target, &mut captures, Extent::Whole).await;
            let look = look.map_err(|error| tmux(what, &error))?;
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
    pub(super) async fn task(&self, what: &str, name: &str) -> Result<Arc<Task>, Failure> {
        let look = self.look(what).await?;
        if !look.exists {
            return Err(self.missing(what));
        }
        match look.find_task(name) {
            Ok(task) => Ok(Arc::clone(task)),
            Err(error) => {
                let kind = match error {
                    NameError::Missing { .. } => Kind::Missing,
                    NameError::Ambiguous { .. } => Kind::Failed,
                };
                Err(Failure::of(kind, what, &error).with_hint(error.hint()))
            }
        }
    }

    /// Returns the failure of a command whose session does not exist.
    pub(super) fn missing(&self, what: &str) -> Failure {
        Failure::new(Kind::Missing, what, format!("no session `{}`", self.name))
            .with_hint("`tmux-task run NAME -- COMMAND` starts a task and with it the session")
    }
}

/// There is no directory that we are in: it was deleted, or may not be read.
pub(super) fn no_directory(what: &str, error: &io::Error) -> Failure {
    let why = if error.kind() == io::ErrorKind::NotFound {
        "the directory that this was started in was deleted".to_owned()
    } else {
        format!("the directory that this was started in cannot be told: {error}")
    };
    Failure::new(Kind::Failed, what, why)
}

/// From here on an interrupt is ours: it does not end the process, and it is kept until it is asked
/// for.
pub(super) fn interrupts(what: &str) -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::of(Kind::Failed, what, &error))
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

/// The signals that end a command which has something to take along.
#[derive(Debug)]
pub(super) struct ExitWatch(Vec<(Signal, Kind)>);

impl ExitWatch {
    /// From here on these signals are ours.
    pub(super) fn listen(what: &str) -> Result<Self, Failure> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::alarm(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let listen = |kind| match signal(kind) {
            Ok(signal) => Ok((signal, ended_by(kind))),
            Err(error) => Err(Failure::of(Kind::Failed, what, &error)),
        };
        kinds
            .into_iter()
            .map(listen)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Resolves when one has come, to how the command ends then.
    pub(super) async fn recv(&mut self) -> Kind {
        poll_fn(|cx| {
            let came = |(signal, kind): &mut (Signal, Kind)| {
                signal.poll_recv(cx).is_ready().then_some(*kind)
            };
            self.0
                .iter_mut()
                .find_map(came)
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn ended_by(signal: SignalKind) -> Kind {
    if signal == SignalKind::interrupt() {
        return Kind::Interrupted;
    }
    Kind::Signalled(u8::try_from(signal.as_raw_value()).unwrap_or(u8::MAX))
}

/// Looks up an environment variable.
pub(super) fn lookup(name: &str) -> Option<OsString> {
    env::var_os(name)
}

pub(super) fn paths(what: &str, error: &PathsError) -> Failure {
    Failure::of(Kind::Failed, what, error)
}

pub(super) fn start(what: &str, error: &StartError) -> Failure {
    Failure::of(Kind::Failed, what, error)
        .with_hint("`tmux-task daemon` in the foreground shows what keeps it from starting")
}

/// An answer of the daemon's that is not what was asked for.
pub(super) fn client(what: &str, error: &ClientError) -> Failure {
    let kind = match error {
        ClientError::Refused(refusal) => match refusal.kind {
            RefusalKind::Failed => Kind::Failed,
            RefusalKind::Usage => Kind::Usage,
            RefusalKind::Missing => Kind::Missing,
            RefusalKind::Version => Kind::Failed,
        },
        ClientError::NoDaemon => Kind::Missing,
        ClientError::NotOurs { .. }
        | ClientError::Io { .. }
        | ClientError::Left
        | ClientError::Answer { .. }
        | ClientError::Unexpected => Kind::Failed,
    };
    let given = match error {
        ClientError::Refused(refusal) => refusal.hint.clone(),
        ClientError::NoDaemon
        | ClientError::NotOurs { .. }
        | ClientError::Io { .. }
        | ClientError::Left
        | ClientError::Answer { .. }
        | ClientError::Unexpected => None,
    };
    let hint = given.or_else(|| {
        is_other_version(error).then(|| {
            "`tmux-task daemon stop` stops it, and the tasks go on; the next command starts one of \
             this version"
                .to_owned()
        })
    });
    Failure::of(kind, what, error).with_optional_hint(hint)
}

/// The failure of a command to which the daemon gave an answer that does not fit the request.
pub(super) fn unexpected(what: &str) -> Failure {
    client(what, &ClientError::Unexpected)
}

/// Whether the daemon is, or seems to be, of another version than this command.
fn is_other_version(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => refusal.kind == RefusalKind::Version,
        ClientError::Answer { .. } | ClientError::Unexpected => true,
        ClientError::NoDaemon
        | ClientError::NotOurs { .. }
        | ClientError::Io { .. }
        | ClientError::Left => false,
    }
}

pub(super) fn tmux(what: &str, error: &TmuxError) -> Failure {
    let kind = if error.is_missing() {
        Kind::Missing
    } else {
        Kind::Failed
    };
    let hint = match error {
        TmuxError::ProgramMissing { .. } => {
            Some("install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX")
        }
        TmuxError::TooOld { .. } => Some("name a newer one with --tmux or $TMUX_TASK_TMUX"),
        TmuxError::NoServer { .. } => Some("`tmux-task run NAME -- COMMAND` starts one"),
        TmuxError::NotASocket { .. } => Some("-S takes the path of a tmux server's socket"),
        TmuxError::NoFolder { .. } => Some("make it, or name another path with -S"),
        TmuxError::NoSuchSession { .. }
        | TmuxError::Unreachable { .. }
        | TmuxError::Rejected { .. }
        | TmuxError::Confused { .. }
        | TmuxError::Closed
        | TmuxError::TimedOut
        | TmuxError::Io(_) => None,
    };
    Failure::of(kind, what, error).with_optional_hint(hint.map(str::to_owned))
}

//! Errors of use cases.

use std::io;
use std::path::PathBuf;

use crate::client::{ClientError, StartError};
use crate::config::ConfigError;
use crate::daemon::{OutputError, TypingError};
use crate::feed::FeedError;
use crate::files::is_refusal;
use crate::model::NameError;
use crate::paths::PathsError;
use crate::tmux::{LaunchError, TmuxError};
use crate::wire::RefusalKind;

/// The kind of failure, as exit codes distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// It was attempted and failed.
    Failed,
    /// The request is invalid.
    Usage,
    /// No such session, task or daemon.
    Missing,
    /// It is no longer available.
    Impossible,
}

/// How a daemon gets the present configuration.
pub(crate) const APPLY_CONFIG: &str = "`tmux-task daemon stop`, and the next command starts a daemon with \
                                       these settings; the tasks go on";

/// What to do about a daemon of an older version.
pub(crate) const STOP_OLDER_DAEMON: &str = "`tmux-task daemon stop` stops it, and the tasks go on; \
                                            the next command starts one of this version";

/// Why a use case failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpsError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// The session does not exist.
    #[error("no session `{0}`")]
    NoSession(String),
    /// No session has the given name any more; the one that was started by it is called differently.
    #[error("no session `{given}`: the one that had this name is called `{name}` now")]
    Renamed { given: String, name: String },
    /// The session has no feed: it never had a daemon.
    #[error("no feed of session `{0}`")]
    NoFeed(String),
    /// The feed cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The terminal is a pane of another tmux server.
    #[error("this terminal is a pane of another tmux server, {}", .0.display())]
    OtherServer(PathBuf),
    /// The feed has no consumer of this name.
    #[error("no consumer `{0}`")]
    NoConsumer(String),
    /// A folder of state, or a file in it, cannot be read or removed.
    #[error("could not use {}", .folder.display())]
    Folder {
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A daemon that was asked to stop has not left in time. Its log is this file.
    #[error("the daemon is still stopping")]
    StillStopping(PathBuf),
    /// One daemon after the other has ended before it answered a request.
    #[error("{times} daemons in a row ended before they answered")]
    DaemonsEnd { times: usize, log: PathBuf },
    /// No daemon runs, and starting one is forbidden.
    #[error("no daemon runs for session `{0}`")]
    NoDaemon(String),
    /// No daemon runs that could wait for a launch; nothing was started.
    #[error("no daemon runs to wait with")]
    NoDaemonToWait,
    /// No daemon runs that could run a task again by itself; nothing was started.
    #[error("no daemon runs that could restart the task")]
    NoDaemonToRestart,
    /// A launch that is to be run again by itself; nothing was started.
    #[error("the daemon is version {0}, which cannot restart tasks")]
    OldDaemonToRestart(String),
    /// Some of what was to be ended still runs.
    #[error("could not end {0}")]
    NotEnded(String),
    /// No task has this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A task's output cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The directory that the command was started in does not exist or cannot be read.
    #[error("{}", no_directory(.error))]
    NoDirectory {
        /// Why.
        error: io::Error,
        /// The option that selects another directory, if there is one.
        hint: Option<&'static str>,
    },
    /// A directory for a task to run in.
    #[error("cannot run in {}", .dir.display())]
    Directory {
        /// The directory.
        dir: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The run's output was not stored.
    #[error("no output of run {run} of task `{name}` was kept")]
    NotKept {
        /// The number of the run.
        run: u32,
        /// The task's window.
        name: String,
    },
    /// No run of the task is stored.
    #[error("no ended run of task `{0}` is stored")]
    NoRuns(String),
    /// The stored runs cannot be read.
    #[error(transparent)]
    Archive(io::Error),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A rule of the configuration cannot be used.
    #[error(transparent)]
    Rule(#[from] regex::Error),
    /// A file has no task of this name.
    #[error("no task `{name}` in {}", .path.display())]
    NoFileTask {
        name: String,
        path: PathBuf,
        /// The names of those that it has.
        known: String,
    },
    /// The task's command is not known exactly.
    #[error("the command of task `{0}` is not recorded")]
    NotRecorded(String),
    /// The task's command is known, but not the variables that it was given.
    #[error("task `{0}` was started with --env, and the values are not recorded")]
    EnvNotRecorded(String),
    /// Launching failed; nothing was started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Nothing was typed.
    #[error(transparent)]
    Typing(#[from] TypingError),
    #[error(transparent)]
    Tmux(#[from] TmuxError),
    /// The daemon ended while this task was waited for.
    #[error("the daemon ended during the wait")]
    LeftWait(String),
    /// The daemon refused or failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// No daemon could be started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The session's files cannot be located.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// This program's path is not known, so that no daemon can be started.
    #[error(transparent)]
    Program(io::Error),
}

impl OpsError {
    /// Whether the daemon's version does not have the request.
    pub(super) fn is_unknown_request(&self) -> bool {
        matches!(self, Self::Client(ClientError::Refused(refusal)) if refusal.kind == RefusalKind::Version)
    }

    /// Returns the kind of failure.
    pub(crate) fn kind(&self) -> ErrorKind {
        match self {
            Self::Usage(_) => ErrorKind::Usage,
            Self::NoSession(_)
            | Self::Renamed { .. }
            | Self::NoFeed(_)
            | Self::NoConsumer(_)
            | Self::NoDaemon(_)
            | Self::NoDaemonToWait
            | Self::NoDaemonToRestart
            | Self::NotKept { .. }
            | Self::NoRuns(_)
            | Self::NoFileTask { .. }
            | Self::Name(NameError::Missing { .. })
            | Self::Client(ClientError::NoDaemon) => ErrorKind::Missing,
            Self::Output(error) => kind_of(error.kind()),
            Self::Launch(error) if error.is_usage() => ErrorKind::Usage,
            Self::Tmux(error) | Self::Typing(TypingError::Tmux(error)) if error.is_missing() => {
                ErrorKind::Missing
            }
            Self::Client(ClientError::Refused(refusal)) => kind_of(refusal.kind),
            Self::Name(
                NameError::Ambiguous { .. }
                | NameError::Shell { .. }
                | NameError::NamedByTmux { .. }
                | NameError::Linked { .. },
            )
            | Self::StillStopping(_)
            | Self::NotEnded(_)
            | Self::DaemonsEnd { .. }
            | Self::Feed(_)
            | Self::Folder { .. }
            | Self::OtherServer(_)
            | Self::NoDirectory { .. }
            | Self::Directory { .. }
            | Self::Archive(_)
            | Self::Config(_)
            | Self::Rule(_)
            | Self::NotRecorded(_)
            | Self::EnvNotRecorded(_)
            | Self::OldDaemonToRestart(_)
            | Self::LeftWait(_)
            | Self::Launch(_)
            | Self::Typing(_)
            | Self::Tmux(_)
            | Self::Client(
                ClientError::NotOurs { .. }
                | ClientError::Io { .. }
                | ClientError::Left
                | ClientError::LeftWait
                | ClientError::Answer { .. }
                | ClientError::Unexpected,
            )
            | Self::Start(_)
            | Self::Paths(_)
            | Self::Program(_) => ErrorKind::Failed,
        }
    }

    /// Returns what the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoSession(_) => {
                "`tmux-task run NAME -- COMMAND` starts a task and with it the session"
            }
            Self::Renamed { name, .. } => return Some(how_to_end(name)),
            Self::NoFeed(_) => "a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`",
            Self::NoConsumer(_) => "`tmux-task consumer ls` shows which there are",
            Self::OldDaemonToRestart(_) => STOP_OLDER_DAEMON,
            Self::NoDaemon(_) | Self::NoDaemonToWait | Self::NoDaemonToRestart => {
                "start one with `tmux-task daemon --detach`"
            }
            Self::OtherServer(_) => "`env -u TMUX tmux-task attach` attaches inside it",
            Self::NoDirectory { hint, .. } => (*hint)?,
            Self::Name(error) => return Some(error.hint().into_owned()),
            Self::NotEnded(_) => "what is another user's, that user has to end",
            Self::DaemonsEnd { log, .. } => {
                return Some(format!(
                    "the request may make them crash: the end of {} says more",
                    log.display()
                ));
            }
            Self::StillStopping(log) => return Some(format!("its log is {}", log.display())),
            Self::NoRuns(_) => {
                "a run is stored when it has ended; `tmux-task ls` shows the present ones"
            }
            Self::NoFileTask { known, .. } => return Some(format!("it has {known}")),
            Self::NotKept { name, .. } => {
                return Some(format!(
                    "`tmux-task logs {name} --runs` lists the runs that are stored"
                ));
            }
            Self::NotRecorded(name) => {
                return Some(format!(
                    "`tmux-task run {name} -- COMMAND` starts it and records the command"
                ));
            }
            Self::EnvNotRecorded(name) => {
                return Some(format!(
                    "`tmux-task run {name} --env K=V` runs its command again with these"
                ));
            }
            Self::Config(ConfigError::NoTasks(_)) => {
                "it describes the tasks of a project: `[tasks.NAME]` with `command = \"...\"`; without \
                 FILE it is looked for in the enclosing git work tree, else in this directory"
            }
            Self::Archive(error) if is_refusal(error) => {
                "earlier runs are read from a folder of your own only: put one there"
            }
            Self::Launch(error) => error.hint()?,
            Self::Typing(TypingError::Tmux(error)) | Self::Tmux(error) => tmux_hint(error)?,
            Self::Typing(error) => return error.hint(),
            Self::Client(ClientError::Refused(refusal)) if refusal.hint.is_some() => {
                return refusal.hint.clone();
            }
            Self::Client(error) if is_other_version(error) => STOP_OLDER_DAEMON,
            Self::LeftWait(name) => {
                return Some(format!(
                    "the task goes on; `tmux-task wait {name}` waits with another daemon"
                ));
            }
            Self::Output(OutputError::Tmux(error)) => tmux_hint(error)?,
            Self::Output(error) => error.hint()?,
            Self::Start(_) => {
                "`tmux-task daemon` in the foreground shows what keeps it from starting"
            }
            Self::Usage(_)
            | Self::Feed(_)
            | Self::Folder { .. }
            | Self::Directory { .. }
            | Self::Archive(_)
            | Self::Config(_)
            | Self::Rule(_)
            | Self::Client(_)
            | Self::Paths(_)
            | Self::Program(_) => return None,
        };
        Some(hint.to_owned())
    }
}

fn kind_of(kind: RefusalKind) -> ErrorKind {
    match kind {
        RefusalKind::Failed | RefusalKind::Version => ErrorKind::Failed,
        RefusalKind::Usage => ErrorKind::Usage,
        RefusalKind::Missing => ErrorKind::Missing,
        RefusalKind::Impossible => ErrorKind::Impossible,
    }
}

/// Returns how to end a session by its present name.
fn how_to_end(name: &str) -> String {
    format!("`tmux-task -s '{name}' kill-all` ends it")
}

/// Whether the daemon's version differs, or seems to differ, from this command's.
fn is_other_version(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => refusal.kind == RefusalKind::Version,
        ClientError::Answer { .. } | ClientError::Unexpected => true,
        ClientError::NoDaemon
        | ClientError::NotOurs { .. }
        | ClientError::Io { .. }
        | ClientError::Left
        | ClientError::LeftWait => false,
    }
}

fn tmux_hint(error: &TmuxError) -> Option<&'static str> {
    match error {
        TmuxError::ProgramMissing { .. } => {
            Some("install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX")
        }
        TmuxError::NotTmux { .. } => Some("name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX"),
        TmuxError::TooOld { .. } => Some("name a newer one with --tmux or $TMUX_TASK_TMUX"),
        TmuxError::NoServer { .. } => Some("`tmux-task run NAME -- COMMAND` starts one"),
        TmuxError::NotASocket { .. } => Some("-S takes the path of a tmux server's socket"),
        TmuxError::NoFolder { .. } => Some("make it, or name another path with -S"),
        TmuxError::NoSuchSession { .. }
        | TmuxError::Unreachable { .. }
        | TmuxError::OtherDaemon { .. }
        | TmuxError::Rejected { .. }
        | TmuxError::Confused { .. }
        | TmuxError::Lost { .. }
        | TmuxError::Closed
        | TmuxError::TimedOut
        | TmuxError::Io(_) => None,
    }
}

fn no_directory(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        "the directory that this was started in was deleted".to_owned()
    } else {
        format!("the working directory cannot be determined: {error}")
    }
}

//! Errors of use cases.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "it only words errors: one without words of its own is a failure without a hint"
)]

use std::io;
use std::path::PathBuf;

use crate::client::{ClientError, StartError};
use crate::config::ConfigError;
use crate::daemon::{OutputError, TypingError};
use crate::files::is_refusal;
use crate::model::NameError;
use crate::paths::PathsError;
use crate::store::feed::FeedError;
use crate::tmux::{LaunchError, TmuxError};
use crate::wire::RefusalKind;

/// How a daemon gets the present configuration.
pub(crate) const APPLY_CONFIG: &str = "`tmux-task daemon stop`, and the next command starts a daemon with \
                                       these settings; the tasks go on";

/// What to do about a daemon of an older version.
pub(crate) const STOP_OLDER_DAEMON: &str = "`tmux-task daemon stop` stops it, and the tasks go on; \
                                            the next command starts one of this version";

pub(super) const START_DAEMON: &str = "start one with `tmux-task daemon --detach`";

/// Why a use case failed. What callers act on is a variant; what they only show is
/// [`OpsError::Other`].
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpsError {
    /// The request is invalid.
    #[error("{0}")]
    Usage(String),
    /// The session does not exist.
    #[error("no session `{0}`")]
    NoSession(String),
    /// The session has no feed: it never had a daemon.
    #[error("no feed of session `{0}`")]
    NoFeed(String),
    /// The feed cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// A folder of state, or a file in it, cannot be read or removed.
    #[error("could not use {}", .folder.display())]
    Folder {
        folder: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No daemon runs, and starting one is forbidden.
    #[error("no daemon runs for session `{0}`")]
    NoDaemon(String),
    /// No task has this name.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A task's output cannot be read.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// The run's output was not stored.
    #[error("no output of run {run} of task `{name}` was kept")]
    NotKept {
        /// The number of the run.
        run: u32,
        /// The task's window.
        name: String,
    },
    /// The stored runs cannot be read.
    #[error(transparent)]
    Archive(io::Error),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A rule of the configuration cannot be used.
    #[error(transparent)]
    Rule(#[from] regex::Error),
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
    /// A failure that callers only show.
    #[error("{why}")]
    Other {
        kind: RefusalKind,
        why: String,
        hint: Option<String>,
    },
}

impl OpsError {
    /// It was attempted and failed.
    pub(super) fn failed(why: impl Into<String>, hint: impl Into<Option<String>>) -> Self {
        Self::Other {
            kind: RefusalKind::Failed,
            why: why.into(),
            hint: hint.into(),
        }
    }

    /// No such session, task or daemon.
    pub(super) fn missing(why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Other {
            kind: RefusalKind::Missing,
            why: why.into(),
            hint: Some(hint.into()),
        }
    }

    /// No daemon runs that could wait for a launch; nothing was started.
    pub(crate) fn no_daemon_to_wait() -> Self {
        Self::missing("no daemon runs to wait with", START_DAEMON)
    }

    /// The directory that the command was started in does not exist or cannot be read. `hint` is the
    /// option that selects another directory, if there is one.
    pub(super) fn no_directory(error: &io::Error, hint: Option<&str>) -> Self {
        let why = if error.kind() == io::ErrorKind::NotFound {
            "the directory that this was started in was deleted".to_owned()
        } else {
            format!("the working directory cannot be determined: {error}")
        };
        Self::failed(why, hint.map(str::to_owned))
    }

    /// Returns the kind of failure, as exit codes distinguish it.
    pub(crate) fn kind(&self) -> RefusalKind {
        match self {
            Self::Other { kind, .. } => *kind,
            Self::Usage(_) | Self::Tmux(TmuxError::NoName) => RefusalKind::Usage,
            Self::NoSession(_)
            | Self::NoFeed(_)
            | Self::NoDaemon(_)
            | Self::NotKept { .. }
            | Self::Name(NameError::Missing { .. })
            | Self::Client(ClientError::NoDaemon) => RefusalKind::Missing,
            Self::Output(error) => error.kind(),
            Self::Launch(error) if error.is_usage() => RefusalKind::Usage,
            Self::Tmux(error) | Self::Typing(TypingError::Tmux(error)) if error.is_missing() => {
                RefusalKind::Missing
            }
            Self::Client(ClientError::Refused(refusal)) => refusal.kind,
            _ => RefusalKind::Failed,
        }
    }

    /// Returns what the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Other { hint, .. } => return hint.clone(),
            Self::NoSession(_) => {
                "`tmux-task run NAME -- COMMAND` starts a task and with it the session"
            }
            Self::NoFeed(_) => "a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`",
            Self::NoDaemon(_) => START_DAEMON,
            Self::Name(error) => return Some(error.hint().into_owned()),
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
                 FILE it, or a Procfile, is looked for in the enclosing git work tree, else in this \
                 directory"
            }
            Self::Archive(error) if is_refusal(error) => {
                "earlier runs are read from a folder of your own only: put one there"
            }
            Self::Launch(error) => error.hint()?,
            Self::Typing(TypingError::Tmux(error))
            | Self::Output(OutputError::Tmux(error))
            | Self::Tmux(error) => tmux_hint(error)?,
            Self::Typing(error) => return error.hint(),
            Self::Output(error) => error.hint()?,
            Self::Client(ClientError::Refused(refusal)) if refusal.hint.is_some() => {
                return refusal.hint.clone();
            }
            Self::Client(error) if is_other_version(error) => STOP_OLDER_DAEMON,
            Self::Start(_) => {
                "`tmux-task daemon` in the foreground shows what keeps it from starting"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// Whether the daemon's version differs, or seems to differ, from this command's.
fn is_other_version(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => refusal.kind == RefusalKind::Version,
        ClientError::Answer { .. } | ClientError::Unexpected => true,
        _ => false,
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
        TmuxError::NoName | TmuxError::NotOurs { .. } => {
            Some("-S takes the path of a server of yours")
        }
        TmuxError::NoFolder { .. } => Some("make it, or name another path with -S"),
        _ => None,
    }
}

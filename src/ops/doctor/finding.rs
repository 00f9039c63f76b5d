//! What a check has found, and how bad it is.

use std::path::PathBuf;
use std::time::Duration;

use crate::tmux::HookFault;

/// What a check is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Program,
    /// The tmux program.
    Tmux,
    /// The tmux server.
    Server,
    /// The character set of the locale.
    Locale,
    /// The configuration file.
    Configuration,
    /// The folder of state.
    State,
    /// The folder of sockets and locks.
    Runtime,
    /// Notifications on the desktop.
    Desktop,
    /// What the kernel reports of other processes.
    Ptrace,
    /// The limits on open descriptors.
    Descriptors,
    /// What happens at the end of the login.
    Logout,
    /// The task session.
    Session,
    /// The session's daemon.
    Daemon,
    /// The hooks in the tmux server.
    Hooks,
    /// The consumers of the session's feed.
    Consumers,
    /// The sinks of the configuration that the daemon has.
    Sinks,
    /// The state folders of sessions that are gone.
    Leftovers,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// As it should be.
    Ok,
    /// Something is missing or late, and the rest works.
    Warn,
    /// tmux-task, or a part of it, does not work.
    Fail,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    /// What was checked.
    pub(crate) subject: Subject,
    /// What was found.
    pub(crate) finding: Finding,
}

/// Which `tmux-task` a shell finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OnPath {
    /// This program.
    This,
    /// Another one, which may be of another version.
    Other(PathBuf),
    None,
}

/// Why a process does not survive the end of the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndsWith {
    /// systemd ends all processes of a login (`KillUserProcesses`).
    Login,
    /// The user's systemd ends when the last login does, and all its services with it.
    LastLogin,
}

/// A process that has to outlive the login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivor {
    /// The tmux server, with all tasks.
    Server,
    Daemon,
    /// Whatever is started from here.
    Next,
}

/// How far a reader of the feed is behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Behind {
    /// How many records it has not acknowledged.
    pub(crate) lag: u64,
    /// For how long the first of them has been in the feed; `None` if that is not known.
    pub(crate) since: Option<Duration>,
}

/// What a check has found. The variants are in the order of the subjects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    /// No answer came in time; for files and folders: the disk hangs.
    NoAnswer {
        /// The time limit.
        within: Duration,
    },
    /// The program that runs, and the one that a shell finds.
    Program {
        /// Where it is.
        path: PathBuf,
        /// Which one a shell finds.
        on_path: OnPath,
    },
    /// A supported tmux.
    Tmux { version: String },
    /// The program cannot be started.
    TmuxMissing { program: PathBuf, why: String },
    /// The program is no tmux: it prints no version.
    NotTmux { program: PathBuf },
    /// The program is too old.
    TmuxTooOld { version: String },
    /// A server that answers.
    Server {
        /// Its pid, where the kernel reports it.
        pid: Option<u32>,
        /// Its version; `None` while it has no session.
        version: Option<String>,
    },
    /// A server of another version than the program.
    ServerOfOtherVersion {
        /// The server's version.
        server: String,
        /// The program's version.
        program: String,
    },
    /// No server runs: normal before the first task.
    NoServer {
        /// Where it would listen.
        socket: PathBuf,
    },
    /// The server does not answer.
    ServerSilent {
        /// Its pid, where the kernel reports it.
        pid: Option<u32>,
        is_stopped: bool,
    },
    /// The server cannot be asked.
    ServerRefuses { why: String },
    /// A locale of UTF-8.
    Utf8Locale {
        /// The variable that sets it.
        variable: &'static str,
        value: String,
    },
    /// A locale of another character set; `None` where no variable sets one.
    OtherLocale(Option<(&'static str, String)>),
    /// A valid configuration; `None` where there is no file.
    Configuration(Option<PathBuf>),
    /// The configuration cannot be used.
    BadConfiguration {
        /// Why: file, line and key.
        why: String,
    },
    /// A folder that can be used.
    Folder {
        /// The folder, which may not exist yet.
        path: PathBuf,
        /// The space that is left on its disk, in bytes.
        free: u64,
    },
    /// A folder that cannot be used.
    BadFolder {
        /// Why, including the folder.
        why: String,
    },
    /// A folder, or the one that it would be created in, cannot be written to.
    ReadOnly {
        /// The folder.
        path: PathBuf,
        why: String,
    },
    /// The disk of a folder has little or no space left.
    DiskFull {
        /// The folder.
        path: PathBuf,
        /// The space that is left, in bytes.
        free: u64,
        /// Whether nothing more can be written.
        is_full: bool,
    },
    /// A notification service answers.
    #[cfg_attr(
        not(feature = "notice"),
        expect(dead_code, reason = "only a D-Bus client finds one")
    )]
    Desktop {
        /// Its name.
        service: String,
    },
    /// The configuration does not show notices on the desktop.
    DesktopOff,
    /// Notices cannot be shown on the desktop.
    NoDesktop { why: String },
    /// What the kernel reports is enough: the value of `ptrace_scope`, where there is one.
    Ptrace(Option<u32>),
    /// The kernel hides from us what processes do.
    PtraceHidden(u32),
    /// Enough descriptors.
    Descriptors {
        /// The soft limit; `None` is unlimited.
        soft: Option<u64>,
        /// The hard limit, to which a daemon raises its own.
        hard: Option<u64>,
    },
    /// The hard limit is low.
    FewDescriptors {
        /// The hard limit.
        hard: u64,
    },
    /// The tmux server has used up most of its descriptors.
    ServerDescriptors {
        /// How many it has open.
        open: u64,
        /// Its soft limit.
        limit: u64,
    },
    /// Tasks and daemon survive the end of the login, or nothing here ends processes.
    SurvivesLogout,
    /// A process ends with the login.
    EndsWithLogin {
        /// The process.
        survivor: Survivor,
        /// Why.
        with: EndsWith,
    },
    /// The session exists.
    Session { name: String },
    /// The session does not exist: normal before the first task.
    NoSession { name: String },
    /// It cannot be said which session is meant.
    SessionUnknown { why: String },
    /// A daemon that works.
    Daemon { pid: u32 },
    /// No daemon is needed: the session does not exist.
    NoDaemonNeeded,
    /// The session exists and no daemon runs.
    NoDaemon {
        /// Whether a variable forbids commands to start one.
        is_forbidden: bool,
    },
    /// A daemon was killed and left its socket.
    StaleSocket {
        /// The socket.
        path: PathBuf,
        /// Whether the session exists.
        is_needed: bool,
    },
    /// A daemon has the lock and does not listen.
    DaemonUnreachable {
        /// Where it should listen.
        socket: PathBuf,
    },
    /// The daemon does not answer.
    DaemonSilent {
        /// Its pid, where the kernel reports it.
        pid: Option<u32>,
        is_stopped: bool,
    },
    /// The daemon cannot be asked.
    DaemonRefuses { why: String },
    /// The daemon is of another version.
    DaemonOfOtherVersion {
        /// Its version; `None` where its answer cannot be read.
        version: Option<String>,
        /// Whether it is known to be newer than this program.
        is_newer: bool,
    },
    /// A problem that the daemon reports itself.
    DaemonProblem(String),
    /// The daemon has read another configuration than the present one.
    OtherConfiguration {
        /// The settings that it does not have.
        changed: Vec<String>,
        /// The settings that it still has.
        removed: Vec<String>,
    },
    /// The daemon has read another file than a command that runs here.
    OtherConfigurationFile {
        /// The file that it has read, if there can be one.
        of_daemon: Option<String>,
        /// The file here.
        here: Option<String>,
    },
    /// The hooks are in place.
    Hooks,
    /// A fault of the hooks.
    HookFault(HookFault),
    /// How many consumers there are, sinks left out; none of them is stuck or forgotten.
    Consumers {
        number: usize,
        /// Those that have not acknowledged everything, by name.
        behind: Vec<(String, Behind)>,
    },
    /// A consumer that is read and has not acknowledged a record for long.
    StuckConsumer {
        name: String,
        behind: Behind,
        /// The process that reads.
        reader: u32,
    },
    /// A consumer that was not used for long, with records that it has not acknowledged.
    ForgottenConsumer {
        name: String,
        /// How many records it is behind.
        lag: u64,
        /// How many bytes of the feed are kept only for it.
        held: u64,
        /// For how long it was not used.
        unused: Duration,
    },
    /// The consumers cannot be read.
    BadConsumers { why: String },
    /// A sink whose last delivery succeeded, or that has had none.
    Sink {
        name: String,
        /// How many records it got since the daemon started.
        delivered: u64,
        /// How many attempts failed since then.
        failed: u64,
        behind: Behind,
    },
    /// A sink whose last delivery failed, or that takes long for one.
    StuckSink {
        name: String,
        behind: Behind,
        /// Why the last attempt failed, and how long ago; `None` if none has failed.
        failure: Option<(String, Duration)>,
    },
    /// The state folders of sessions that are gone take little space.
    Leftovers {
        /// How many there are.
        folders: usize,
    },
    /// The state folders of sessions that are gone take much space.
    LargeLeftovers {
        /// How many there are.
        folders: usize,
        /// Their size, in bytes.
        bytes: u64,
    },
}

impl Finding {
    /// Returns how bad it is.
    pub(crate) fn severity(&self) -> Severity {
        match self {
            Self::Program {
                on_path: OnPath::This,
                ..
            }
            | Self::Tmux { .. }
            | Self::Server { .. }
            | Self::NoServer { .. }
            | Self::Utf8Locale { .. }
            | Self::Configuration(_)
            | Self::Folder { .. }
            | Self::Desktop { .. }
            | Self::DesktopOff
            | Self::Ptrace(_)
            | Self::Descriptors { .. }
            | Self::SurvivesLogout
            | Self::Session { .. }
            | Self::NoSession { .. }
            | Self::Daemon { .. }
            | Self::NoDaemonNeeded
            | Self::StaleSocket {
                is_needed: false, ..
            }
            | Self::Hooks
            | Self::Consumers { .. }
            | Self::Sink { .. }
            | Self::Leftovers { .. } => Severity::Ok,
            Self::Program {
                on_path: OnPath::Other(_) | OnPath::None,
                ..
            }
            | Self::ServerOfOtherVersion { .. }
            | Self::OtherLocale(_)
            | Self::DiskFull { is_full: false, .. }
            | Self::NoDesktop { .. }
            | Self::PtraceHidden(_)
            | Self::FewDescriptors { .. }
            | Self::ServerDescriptors { .. }
            | Self::EndsWithLogin { .. }
            | Self::NoDaemon { .. }
            | Self::StaleSocket {
                is_needed: true, ..
            }
            | Self::DaemonOfOtherVersion { .. }
            | Self::HookFault(_)
            | Self::OtherConfiguration { .. }
            | Self::OtherConfigurationFile { .. }
            | Self::StuckConsumer { .. }
            | Self::ForgottenConsumer { .. }
            | Self::StuckSink { .. }
            | Self::LargeLeftovers { .. } => Severity::Warn,
            Self::NoAnswer { .. }
            | Self::TmuxMissing { .. }
            | Self::NotTmux { .. }
            | Self::TmuxTooOld { .. }
            | Self::ServerSilent { .. }
            | Self::ServerRefuses { .. }
            | Self::BadConfiguration { .. }
            | Self::BadFolder { .. }
            | Self::ReadOnly { .. }
            | Self::DiskFull { is_full: true, .. }
            | Self::SessionUnknown { .. }
            | Self::DaemonUnreachable { .. }
            | Self::DaemonSilent { .. }
            | Self::DaemonRefuses { .. }
            | Self::DaemonProblem(_)
            | Self::BadConsumers { .. } => Severity::Fail,
        }
    }

    /// Returns it as the result of a check of `subject`.
    pub(super) fn of(self, subject: Subject) -> Check {
        Check {
            subject,
            finding: self,
        }
    }
}

//! The daemon: one per task session. It owns the session's state machine, and is where the edges meet.

mod alert_displays;
mod connection;
mod control_clients;
mod endpoint;
mod event_loop;
mod link;
mod link_jobs;
mod log;
mod output_follower;
mod ownership;
mod polled_pane;
mod recovery;
mod run;
mod server_idle;
mod service_manager;
mod session_link;
mod signals;
mod stale_sessions;
mod streams;
mod task_output;
mod timer;
mod tty_poller;
mod typing;

use std::path::PathBuf;
use std::time::Duration;

use crate::config::Config;
use crate::paths::Paths;
use crate::tmux::Server;
use crate::wire::DaemonConfig;
pub(crate) use endpoint::{DaemonError, has_left, held_elsewhere, is_held, written_pid};
pub(crate) use ownership::{list_sessions, resolve};
pub(crate) use run::run;
pub(crate) use service_manager::ServiceManager;

/// A daemon's options.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The task session, by the name that the daemon was started with.
    pub session: String,
    /// Its tmux server.
    pub server: Server,
    /// Its files.
    pub paths: Paths,
    /// The harness's id of the conversation.
    pub session_id: Option<String>,
    /// The project's folder, for a session without a recorded project.
    pub project: Option<PathBuf>,
    /// Forget the saved snapshot.
    pub fresh: bool,
    /// The longest time between two looks.
    pub interval: Duration,
    /// Whether it stops by itself once there has been neither session nor reader for long.
    pub leaves_when_useless: bool,
    /// The service manager that started the daemon, if one did.
    pub service_manager: Option<ServiceManager>,
    /// Print the live feed on stdout.
    pub stdout: bool,
    /// How long another session of the project must have been unused to be ended at the start;
    /// `None` ends none.
    pub clean_after: Option<Duration>,
    /// The configuration.
    pub config: Config,
    /// The same for those who ask which one it is.
    pub shown_config: DaemonConfig,
}

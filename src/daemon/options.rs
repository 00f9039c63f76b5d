//! What a daemon is started with.

use std::path::PathBuf;
use std::time::Duration;

use super::service_manager::ServiceManager;
use crate::config::Config;
use crate::paths::Paths;
use crate::tmux::Server;
use crate::wire::DaemonConfig;

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

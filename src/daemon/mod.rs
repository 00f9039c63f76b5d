//! The daemon: one per task session. It owns the session's state machine, and is where the edges meet.
//!
//! # Threads
//!
//! - main: the event loop, with the session, the connections, and the alerts on the desktop
//! - `tmux-link`: the link
//! - `process-ends`: sleeps until a process ends
//! - `store`, `consumers`, `archiver`, `readers`: the store's
//! - `log`: writes the log, so that no other thread waits for it
//! - `run-ender`: signals the processes of runs that are being ended
//! - `sinks`, if there are any: each sink is a reader of the feed
//!
//! While a daemon starts, `stale-sessions` looks for other sessions of the project. A sink that posts to an
//! address borrows a further thread for the request, and `--stdout` one that waits for whoever reads it. When
//! nothing happens, main and link alone wake, every two seconds (`timer.rs`): they check that the socket still
//! exists and, while there are live tasks, read the processor times of quiet panes' programs and of the tmux
//! server.
//!
//! A panic on a thread that the daemon cannot do without ends the process at once (`log.rs`), and the next
//! daemon carries on from what is on the disk. What panics in one connection, one stream or one sink ends alone.
//! The first signal starts an orderly stop: gathered events are delivered, hooks and options are removed from
//! tmux, readers get the end of their streams. The second one ends the daemon at once.

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
use crate::config::paths::Paths;
use crate::rules::wire::DaemonConfig;
use crate::tmux::Server;
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
    /// How long another session of the project must have been unused to be ended at the start, if any is.
    pub clean_after: Option<Duration>,
    /// The configuration.
    pub config: Config,
    /// The same for those who ask which one it is.
    pub shown_config: DaemonConfig,
}

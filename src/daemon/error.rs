//! Why a daemon did not start.

use std::io;
use std::path::PathBuf;

use super::lock::LockError;
use crate::paths::PathsError;
use crate::store::feed::FeedError;
use crate::tmux::TmuxError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Another daemon holds the lock, or the lock cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A folder cannot be used.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// The feed cannot be used.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// tmux cannot be used at all.
    #[error(transparent)]
    Tmux(#[from] TmuxError),
    /// The tmux server does not answer.
    #[error("the tmux server on `{}` does not answer", .socket.display())]
    NoAnswer { socket: PathBuf },
    /// Another daemon supervises the session, with other files.
    #[error("already running (pid {pid}) with the files in `{folder}`")]
    OtherFolder {
        pid: u32,
        /// The key of its folder.
        folder: String,
    },
    /// The socket or the log cannot be created.
    #[error("could not make {}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A thread for the disk or for readers cannot be created.
    #[error("could not start a thread")]
    Thread(#[source] io::Error),
    /// Signal handlers cannot be installed.
    #[error("could not listen for signals")]
    Signals(#[source] io::Error),
}

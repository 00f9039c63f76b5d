//! Why a daemon did not start.

use std::io;

use crate::model::Error;
use crate::tmux::TmuxError;

#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    /// Another daemon supervises the session.
    #[error("already running (pid {pid}){}", with(.folder))]
    Running {
        /// Its pid; 0 when it has not been written yet.
        pid: u32,
        /// The key of its folder, if that is another one: it has other files.
        folder: Option<String>,
    },
    #[error(transparent)]
    Failed(#[from] Error),
}

fn with(folder: &Option<String>) -> String {
    let folder = folder.as_ref();
    folder.map_or_else(String::new, |folder| {
        format!(" with the files in `{folder}`")
    })
}

/// Returns the error that a thread for the disk or for readers cannot be created.
pub(super) fn no_thread(error: io::Error) -> Error {
    Error::io("could not start a thread", &error)
}

impl From<TmuxError> for DaemonError {
    fn from(error: TmuxError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<DaemonError> for Error {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Failed(error) => error,
            DaemonError::Running { .. } => Self::of(error),
        }
    }
}

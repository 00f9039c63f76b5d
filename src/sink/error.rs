//! Why a record was not delivered.

use std::io;
#[cfg(feature = "webhook")]
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
pub(super) enum SinkError {
    /// The program did not start.
    #[error("could not start `{program}`")]
    Spawn {
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program failed.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("no end within {}s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The key of the signature, or the certificates, cannot be used.
    #[cfg(feature = "webhook")]
    #[error("could not use {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        why: String,
    },
    /// The peer did not take it.
    #[cfg(feature = "webhook")]
    #[error("the answer was {0}")]
    Status(u16),
    /// The peer was not reached.
    #[cfg(feature = "webhook")]
    #[error("{0}")]
    Unreachable(String),
}

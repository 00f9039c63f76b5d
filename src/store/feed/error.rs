//! Why the feed cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why the feed cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The file cannot be opened, read or written.
    #[error("could not {what} the feed {}", .path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The feed's file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl FeedError {
    /// Returns what turns an error of the disk into one of reading this feed.
    pub(super) fn reading(feed: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io("read", feed)
    }

    pub(super) fn io(what: &'static str, feed: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = feed.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

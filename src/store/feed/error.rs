//! Why the feed cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::model::Error;

/// Why the feed cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[error("could not {what} the feed {}", .path.display())]
pub struct FeedError {
    /// The operation.
    pub what: &'static str,
    /// The feed's file.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: io::Error,
}

impl FeedError {
    /// Returns what turns an error of the disk into one of reading this feed.
    pub(super) fn reading(feed: &Path) -> impl FnOnce(io::Error) -> Self {
        Self::io("read", feed)
    }

    pub(super) fn io(what: &'static str, feed: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = feed.to_owned();
        move |source| Self { what, path, source }
    }
}

impl From<FeedError> for Error {
    fn from(error: FeedError) -> Self {
        Self::of(error)
    }
}

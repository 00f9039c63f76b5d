//! The saved snapshot, which avoids reading the whole feed.

use std::io;
use std::path::Path;

use crate::files;
use crate::wire::SavedSession;

/// Returns the state saved by the last daemon; `None` when there is none. A file that cannot be
/// read is logged and ignored.
#[must_use]
pub fn load_saved(path: &Path) -> Option<SavedSession> {
    let bytes = match files::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "could not read the saved snapshot");
            return None;
        }
    };
    match serde_json::from_slice(&bytes) {
        Ok(saved) => Some(saved),
        Err(error) => {
            tracing::error!(%error, path = %path.display(), "the saved snapshot is damaged");
            None
        }
    }
}

/// Replaces the saved snapshot in one step. It is not synced: a power cut also ends the tmux server
/// that it describes.
///
/// # Errors
///
/// When it cannot be written; the old one stays.
pub fn store_saved(path: &Path, saved: &SavedSession) -> io::Result<()> {
    // One write: with the file itself, the serializer would make a system call for every token.
    let mut bytes = serde_json::to_vec(saved).map_err(io::Error::from)?;
    bytes.push(b'\n');
    let fresh = path.with_extension("json.new");
    files::replace(path, &fresh, &bytes)
}

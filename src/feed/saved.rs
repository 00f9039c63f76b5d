//! The saved snapshot: a checkpoint that spares reading the whole past.

use std::io;
use std::path::Path;

use crate::files;
use crate::wire::SavedSession;

/// Returns what the last daemon saved; `None` when there is nothing to carry on from. A file that
/// cannot be read is as good as none, and is said in the log.
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

/// Replaces the saved snapshot in one step. It is not synced: after a power cut the tmux server
/// that it speaks of is gone as well.
///
/// # Errors
///
/// When it cannot be written; the one before stays.
pub fn store_saved(path: &Path, saved: &SavedSession) -> io::Result<()> {
    // One write: given the file itself, the serializer would call the kernel for every token.
    let mut bytes = serde_json::to_vec(saved).map_err(io::Error::from)?;
    bytes.push(b'\n');
    let fresh = path.with_extension("json.new");
    files::replace(path, &fresh, &bytes)
}

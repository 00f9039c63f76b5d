//! The saved snapshot, which avoids reading the whole feed.

use std::io;
use std::path::{Path, PathBuf};

use crate::files;
use crate::model::FEED_VERSION;
use crate::wire::SavedSession;

/// A saved snapshot that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the saved snapshot {} cannot be read: {why}", .path.display())]
pub struct DamagedSnapshot {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl DamagedSnapshot {
    /// Keeps the file under another name, so that the next one does not replace it. What was
    /// kept before stays.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn set_aside(&self) -> io::Result<PathBuf> {
        files::put_aside(&self.path, "damaged")
    }
}

/// Returns the state saved by the last daemon; `None` when there is none.
///
/// # Errors
///
/// When the file cannot be read, or is of another version.
pub fn load_saved(path: &Path) -> Result<Option<SavedSession>, DamagedSnapshot> {
    let damaged = |why: String| DamagedSnapshot {
        path: path.to_owned(),
        why,
    };
    let read = files::if_there(files::read(path)).map_err(|error| damaged(error.to_string()))?;
    let Some(bytes) = read else { return Ok(None) };
    // The version first: a later one may have other fields.
    let version: FileVersion =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    if version.v != FEED_VERSION {
        return Err(damaged(format!("it has version {}", version.v)));
    }
    let saved: SavedSession =
        serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
    saved.check_numbers().map_err(damaged)?;
    Ok(Some(saved))
}

/// What every version of the file has.
#[derive(serde::Deserialize)]
struct FileVersion {
    v: u32,
}

/// Writes the saved snapshot to the disk, before records are removed that it makes unnecessary.
///
/// # Errors
///
/// When the disk refuses. A missing one is fine: the next daemon then reads all records.
pub(crate) fn sync_saved(path: &Path) -> io::Result<()> {
    let saved = files::if_there(files::open(path))?;
    saved.map_or(Ok(()), |file| file.sync_data())
}

/// Replaces the saved snapshot in one step. It is not synced: a power cut also ends the tmux server
/// that it describes.
///
/// # Errors
///
/// When it cannot be written; the old one stays.
pub(crate) fn store_saved(path: &Path, saved: &SavedSession) -> io::Result<()> {
    // One write: with the file itself, the serializer would make a system call for every token.
    let bytes = files::json_line(saved)?;
    let fresh = path.with_extension("json.new");
    files::replace(path, &fresh, &bytes)
}

//! Which stored runs are kept: the newest, up to a number and a size.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::files;

/// How much is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Lines of one run: its first and last ones.
    pub lines: usize,
    /// Runs of one session: its last ones.
    pub runs: usize,
    /// Bytes of all runs of one session together.
    pub bytes: u64,
}

/// Removes the oldest runs beyond the limits.
pub(super) fn prune(folder: &Path, limits: Limits) -> io::Result<()> {
    let mut bytes = 0;
    for (index, (_, size, path)) in newest_first(folder)?.into_iter().enumerate() {
        bytes += size;
        if index >= limits.runs || (bytes > limits.bytes && index > 0) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Returns the kept runs with their times and sizes. A folder that is not there has none; one that
/// is not ours, or a link, is an error.
pub(super) fn newest_first(folder: &Path) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
    let entries = files::check_owner_of_folder(folder).and_then(|()| fs::read_dir(folder));
    let entries = match entries {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut runs = Vec::new();
    for entry in entries {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let found = entry.metadata()?;
            runs.push((found.modified()?, found.len(), path));
        }
    }
    runs.sort();
    runs.reverse();
    Ok(runs)
}

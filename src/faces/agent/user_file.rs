//! Files of the user that a set-up replaces.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Replaces a file of the user at once, with its permissions. Missing folders are created.
pub(super) fn replace_user_file(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".tmux-task-{}", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let mode = fs::metadata(path).map_or(0o644, |found| found.permissions().mode() & 0o7777);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)
        .and_then(|mut file| {
            file.write_all(text)?;
            file.set_permissions(fs::Permissions::from_mode(mode))?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&fresh, path));
    if written.is_err() {
        let removed = fs::remove_file(&fresh);
        tracing::debug!(?removed, "a file was not replaced");
    }
    written
}

//! The folders of state and of sockets.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfs, access, statvfs};

use super::Finding;
use crate::files;
use crate::model::with_causes;
use crate::paths::PathsError;

/// With less space left, a feed of the usual size may not fit.
const LITTLE: u64 = 64 << 20;

/// With less space left, nothing useful can be written.
const NOTHING: u64 = 1 << 20;

/// Checks a folder that commands create when they need it. `is_fine` checks who owns it.
pub(super) fn examine(
    path: Result<PathBuf, PathsError>,
    is_fine: impl FnOnce() -> Result<(), PathsError>,
) -> Finding {
    let path = match path {
        Ok(path) => path,
        Err(error) => {
            return Finding::BadFolder {
                why: with_causes(&error),
            };
        }
    };
    if let Err(error) = is_fine() {
        return Finding::BadFolder {
            why: with_causes(&error),
        };
    }
    let Some((nearest, _)) = files::nearest_folder(&path) else {
        return read_only(&path, &io::ErrorKind::NotFound.into());
    };
    if !nearest.is_dir() {
        return read_only(&nearest, &io::ErrorKind::NotADirectory.into());
    }
    if let Err(errno) = access(&nearest, Access::WRITE_OK | Access::EXEC_OK) {
        return read_only(&nearest, &errno.into());
    }
    match statvfs(&nearest) {
        Ok(disk) => judge_space(path, &disk),
        Err(errno) => read_only(&nearest, &errno.into()),
    }
}

fn read_only(path: &Path, error: &io::Error) -> Finding {
    Finding::ReadOnly {
        path: path.to_owned(),
        why: with_causes(error),
    }
}

fn judge_space(path: PathBuf, disk: &StatVfs) -> Finding {
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // File systems without a fixed number of files report 0 of 0.
    let has_no_file_left = disk.f_files > 0 && disk.f_favail == 0;
    let is_full = free < NOTHING || has_no_file_left;
    if is_full || free < LITTLE {
        return Finding::DiskFull {
            path,
            free,
            is_full,
        };
    }
    Finding::Folder { path, free }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(free: u64, files: u64, files_left: u64) -> Finding {
        let mut disk = statvfs("/").unwrap();
        disk.f_frsize = 1;
        disk.f_bavail = free;
        disk.f_files = files;
        disk.f_favail = files_left;
        judge_space("/state".into(), &disk)
    }

    #[test]
    fn a_disk_is_full_without_space_or_without_files() {
        use crate::ops::Severity::{Fail, Ok, Warn};
        assert_eq!(found(LITTLE, 10, 5).severity(), Ok);
        assert_eq!(found(LITTLE - 1, 10, 5).severity(), Warn);
        assert_eq!(found(NOTHING - 1, 10, 5).severity(), Fail);
        assert_eq!(found(LITTLE, 10, 0).severity(), Fail);
        assert_eq!(found(LITTLE, 0, 0).severity(), Ok);
    }

    #[test]
    fn a_folder_is_checked_where_it_will_be_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let found = examine(Ok(path.clone()), || Ok(()));
        assert!(matches!(found, Finding::Folder { .. }), "{found:?}");
        assert!(!path.exists());
        std::fs::write(dir.path().join("a"), "").unwrap();
        let found = examine(Ok(path), || Ok(()));
        assert!(matches!(found, Finding::ReadOnly { .. }), "{found:?}");
    }
}

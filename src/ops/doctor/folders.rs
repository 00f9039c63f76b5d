//! The folders of state and of sockets.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfs, access, statvfs};

use super::check::{fail, fail_without_hint, ok, warn};
use crate::files;
use crate::model::{Error, text, with_causes};
use crate::wire::DoctorCheck;

/// With less space left, a feed of the usual size may not fit.
const LITTLE: u64 = 64 << 20;

/// With less space left, nothing useful can be written.
const NOTHING: u64 = 1 << 20;

/// Checks a folder that commands create when they need it. `is_fine` checks who owns it.
pub(super) fn examine(
    name: &'static str,
    path: Result<PathBuf, Error>,
    is_fine: impl FnOnce() -> Result<(), Error>,
) -> DoctorCheck {
    let path = match path.and_then(|path| is_fine().map(|()| path)) {
        Ok(path) => path,
        // The error contains what to do.
        Err(error) => return fail_without_hint(name, error.message),
    };
    let read_only = |path: &Path, error: io::Error| {
        fail(
            name,
            format!(
                "cannot write to {}: {}",
                path.display(),
                with_causes(&error)
            ),
            "change its owner or mode, or name other folders with $TMUX_TASK_STATE_DIR and \
             $TMUX_TASK_RUNTIME_DIR",
        )
    };
    let Some((nearest, _)) = files::nearest_folder(&path) else {
        return read_only(&path, io::ErrorKind::NotFound.into());
    };
    if !nearest.is_dir() {
        return read_only(&nearest, io::ErrorKind::NotADirectory.into());
    }
    if let Err(errno) = access(&nearest, Access::WRITE_OK | Access::EXEC_OK) {
        return read_only(&nearest, errno.into());
    }
    match statvfs(&nearest) {
        Ok(disk) => judge_space(name, &path, &disk),
        Err(errno) => read_only(&nearest, errno.into()),
    }
}

fn judge_space(name: &'static str, path: &Path, disk: &StatVfs) -> DoctorCheck {
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    // File systems without a fixed number of files report 0 of 0.
    let has_no_file_left = disk.f_files > 0 && disk.f_favail == 0;
    let is_full = free < NOTHING || has_no_file_left;
    if !is_full && free >= LITTLE {
        return ok(
            name,
            format!("{}, {} free", path.display(), text::size(free)),
        );
    }
    let grade = if is_full { fail } else { warn };
    grade(
        name,
        format!(
            "{} free on the disk of {}",
            text::size(free),
            path.display()
        ),
        "make room: what cannot be written waits in memory, and its readers with it",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::CheckResult;

    fn found(free: u64, files: u64, files_left: u64) -> CheckResult {
        let mut disk = statvfs("/").unwrap();
        disk.f_frsize = 1;
        disk.f_bavail = free;
        disk.f_files = files;
        disk.f_favail = files_left;
        judge_space("state", Path::new("/state"), &disk).result
    }

    #[test]
    fn a_disk_is_full_without_space_or_without_files() {
        use CheckResult::{Fail, Ok, Warn};
        assert_eq!(found(LITTLE, 10, 5), Ok);
        assert_eq!(found(LITTLE - 1, 10, 5), Warn);
        assert_eq!(found(NOTHING - 1, 10, 5), Fail);
        assert_eq!(found(LITTLE, 10, 0), Fail);
        assert_eq!(found(LITTLE, 0, 0), Ok);
    }

    #[test]
    fn a_folder_is_checked_where_it_will_be_created() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        let found = examine("state", Ok(path.clone()), || Ok(()));
        assert_eq!(found.result, CheckResult::Ok, "{found:?}");
        assert!(!path.exists());
        std::fs::write(dir.path().join("a"), "").unwrap();
        let found = examine("state", Ok(path), || Ok(()));
        assert!(found.message.starts_with("cannot write to"), "{found:?}");
    }
}

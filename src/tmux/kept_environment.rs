//! The environments of tasks that may be run again by themselves.
//!
//! Nobody's environment is at hand then: the daemon has another one. So a copy of such a task's
//! [file](super::task_file) stays in a folder of the user's, as long as its window has the policy.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::files;

/// A file that no window names after this time never will be named: its launcher was killed.
const STALE: Duration = Duration::from_secs(600);

/// Removes the environments in this folder that no task needs any more: those of `gone`, and those
/// that are long there and not of `present`.
pub(crate) fn forget_environments(
    folder: &Path,
    present: &BTreeSet<String>,
    gone: &BTreeSet<String>,
) {
    if files::check_owner_of_folder(folder).is_err() {
        return;
    }
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(token) = name.to_str() else {
            continue;
        };
        let written = entry.metadata().and_then(|found| found.modified());
        let age = written.map(|written| SystemTime::now().duration_since(written));
        let is_stale = matches!(age, Ok(Ok(age)) if age > STALE);
        if gone.contains(token) || (is_stale && !present.contains(token)) {
            let removed = fs::remove_file(entry.path());
            tracing::debug!(?name, ?removed, "a kept environment is not needed any more");
        }
    }
}

/// Removes all kept environments of a session that is gone, with their folder. Links are removed and not
/// followed.
///
/// # Errors
///
/// When the folder is not ours, or something in it cannot be removed.
pub(crate) fn remove_environments(folder: &Path) -> io::Result<()> {
    match files::check_owner_of_folder(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        checked => checked?,
    }
    for entry in fs::read_dir(folder)? {
        fs::remove_file(entry?.path())?;
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_what_no_task_needs_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let old = SystemTime::now() - 2 * STALE;
        for (name, is_old) in [
            ("gone", false),
            ("present", true),
            ("lost", true),
            ("launching", false),
        ] {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
        }
        let set = |name: &str| BTreeSet::from([name.to_owned()]);
        forget_environments(dir.path(), &set("present"), &set("gone"));
        let left: BTreeSet<String> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let expected = ["launching", "present"].map(str::to_owned);
        assert_eq!(left, BTreeSet::from(expected));
        forget_environments(&dir.path().join("none"), &set("present"), &set("gone"));
    }

    #[test]
    fn the_environments_of_a_session_that_is_gone_are_removed_without_following_links() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("precious"), "x").unwrap();
        let (folder, other) = (path("gone"), path("other"));
        for folder in [&folder, &other] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join("7-1"), "K=V").unwrap();
        }
        symlink(path("precious"), folder.join("7-2")).unwrap();
        remove_environments(&folder).unwrap();
        assert!(!folder.exists());
        assert_eq!(fs::read(path("precious")).unwrap(), b"x");
        // There may be none.
        remove_environments(&folder).unwrap();
        // A link in place of the folder leads to what is not this session's.
        symlink(&other, &folder).unwrap();
        assert!(remove_environments(&folder).is_err());
        forget_environments(
            &folder,
            &BTreeSet::new(),
            &BTreeSet::from(["7-1".to_owned()]),
        );
        assert!(other.join("7-1").exists());
    }
}

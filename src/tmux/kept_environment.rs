//! The environments of tasks that may be run again by themselves.
//!
//! Nobody's environment is at hand then: the daemon has another one. So a copy of such a task's
//! [file](super::task_exec) stays in a folder of the user's, as long as its window has the policy.

use std::collections::BTreeSet;
use std::fs;
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
    fn a_link_in_place_of_the_folder_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let (folder, other) = (path("gone"), path("other"));
        fs::create_dir(&other).unwrap();
        fs::write(other.join("7-1"), "K=V").unwrap();
        symlink(&other, &folder).unwrap();
        forget_environments(
            &folder,
            &BTreeSet::new(),
            &BTreeSet::from(["7-1".to_owned()]),
        );
        assert!(other.join("7-1").exists());
    }
}

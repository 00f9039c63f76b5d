//! Lines of ours in a file of the user, between two lines that mark them, so that they can be replaced
//! and removed.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The line behind what is added to a file of the user.
const END: &str = "# <<< tmux-task <<<";

/// In a file's mode: its owner may write to it.
const OWNER_WRITES: u32 = 0o200;

/// Why a shell was not set up.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MarkedBlockError {
    /// There is no home folder.
    #[error("no folder for the shell's files: HOME is not set")]
    NoHome,
    /// The file cannot be read or written.
    #[error("could not change {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The end of what was added is missing.
    #[error("{} has a line `# >>> tmux-task: ...` without `{END}` after it", .0.display())]
    Damaged(PathBuf),
    /// The file is a link whose target does not exist, perhaps not at the moment.
    #[error("{} is a link to {}, which does not exist", .path.display(), .target.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// What it names.
        target: PathBuf,
    },
    /// The owner of the file has removed its write permission.
    #[error("{} is write-protected", .0.display())]
    Protected(PathBuf),
    /// The file that would be written belongs to the user.
    #[error("{} exists, and was not written by tmux-task", .0.display())]
    NotOurs(PathBuf),
}

/// The lines, and where they belong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MarkedBlock {
    /// The file.
    pub(crate) path: PathBuf,
    /// The text, with the lines that mark it as ours.
    pub(crate) block: String,
    /// The first of these lines.
    begin: String,
    /// Whether the file is ours alone.
    is_ours: bool,
}

impl MarkedBlock {
    /// Returns the lines for this file: `text`, marked as what `tmux-task init NAME` has added. `is_ours` if
    /// the file has nothing else.
    pub(super) fn new(path: PathBuf, name: &str, text: &str, is_ours: bool) -> Self {
        let begin = format!("# >>> tmux-task: `tmux-task init {name} --remove` removes this >>>");
        Self {
            path,
            block: format!("{begin}\n{text}\n{END}\n"),
            begin,
            is_ours,
        }
    }

    /// Adds the text, in place of an older one. Returns whether the file was changed.
    ///
    /// # Errors
    ///
    /// When the file cannot be changed, or is one that we may not change.
    pub(crate) fn install(&self) -> Result<bool, MarkedBlockError> {
        let before = self.read()?;
        let rest = self.without_block(before.as_deref().unwrap_or_default())?;
        let (mut after, behind) = rest;
        if !after.is_empty() && !after.ends_with(b"\n") {
            after.push(b'\n');
        }
        after.extend_from_slice(self.block.as_bytes());
        after.extend(behind);
        if before.as_ref() == Some(&after) {
            return Ok(false);
        }
        self.write(&after).map(|()| true)
    }

    /// Removes the text; a file that has nothing else goes. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// As [`MarkedBlock::install`].
    pub(crate) fn remove(&self) -> Result<bool, MarkedBlockError> {
        let Some(before) = self.read()? else {
            return Ok(false);
        };
        let (mut after, behind) = self.without_block(&before)?;
        after.extend(behind);
        if after == before {
            return Ok(false);
        }
        let is_link = fs::symlink_metadata(&self.path).is_ok_and(|found| found.is_symlink());
        if after.is_empty() && !is_link {
            self.check_writable(&self.path)?;
            fs::remove_file(&self.path).map_err(|source| self.failed(source))?;
        } else {
            self.write(&after)?;
        }
        Ok(true)
    }

    fn read(&self) -> Result<Option<Vec<u8>>, MarkedBlockError> {
        match fs::read(&self.path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(&self.path) {
                // What it leads to may be on a volume that is not mounted now.
                Ok(target) => Err(MarkedBlockError::Dangling {
                    path: self.path.clone(),
                    target,
                }),
                Err(_) => Ok(None),
            },
            Err(source) => Err(self.failed(source)),
        }
    }

    /// Checks that an editor could write to the file, if there is one: it is replaced, which only its
    /// folder must allow.
    fn check_writable(&self, path: &Path) -> Result<(), MarkedBlockError> {
        match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.failed(source)),
            // The superuser may open it nevertheless.
            Ok(found) if found.permissions().mode() & OWNER_WRITES == 0 => {
                Err(MarkedBlockError::Protected(self.path.clone()))
            }
            Ok(_) => match OpenOptions::new().append(true).open(path) {
                Ok(_) => Ok(()),
                Err(source) => Err(self.failed(source)),
            },
        }
    }

    /// Returns what is before our text and what is behind it; without our text, everything and nothing.
    fn without_block(&self, text: &[u8]) -> Result<(Vec<u8>, Vec<u8>), MarkedBlockError> {
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let find = |from: usize, marker: &str| {
            let is_marker = |line: &&[u8]| line.trim_ascii() == marker.as_bytes();
            let found = lines.iter().skip(from).position(is_marker);
            found.map(|at| from + at)
        };
        let (before, behind) = match find(0, &self.begin) {
            None => (lines.concat(), Vec::new()),
            Some(begin) => {
                let end = find(begin, END);
                let end = end.ok_or_else(|| MarkedBlockError::Damaged(self.path.clone()))?;
                (lines[..begin].concat(), lines[end + 1..].concat())
            }
        };
        if self.is_ours && !before.is_empty() {
            return Err(MarkedBlockError::NotOurs(self.path.clone()));
        }
        Ok((before, behind))
    }

    /// Replaces the file at once, with its permissions; where a link leads, what it leads to.
    fn write(&self, text: &[u8]) -> Result<(), MarkedBlockError> {
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        self.check_writable(&path)?;
        replace_user_file(&path, text).map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> MarkedBlockError {
        MarkedBlockError::File {
            path: self.path.clone(),
            source,
        }
    }
}

/// Replaces a file of the user at once, with its permissions. Missing folders are created.
pub(crate) fn replace_user_file(path: &Path, text: &[u8]) -> io::Result<()> {
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

#[cfg(test)]
mod tests {
    use super::super::setup_lines::{UserProgram, setup_of};
    use super::*;

    fn setup(program: UserProgram, home: &Path) -> MarkedBlock {
        setup_of(program, &|name| (name == "HOME").then(|| home.into())).unwrap()
    }

    #[test]
    fn what_is_added_is_removed_again() {
        let dir = tempfile::tempdir().unwrap();
        for text in [&b"a\n"[..], b"alias x=y\n\n\xff\n", b"\n"] {
            let setup = setup(UserProgram::Bash, dir.path());
            fs::write(&setup.path, text).unwrap();
            assert!(setup.install().unwrap());
            assert!(!setup.install().unwrap(), "it is there already");
            let expected = [text, setup.block.as_bytes()].concat();
            assert_eq!(fs::read(&setup.path).unwrap(), expected);
            assert!(setup.remove().unwrap());
            assert!(!setup.remove().unwrap());
            assert_eq!(fs::read(&setup.path).unwrap(), text);
        }
    }

    #[test]
    #[cfg(feature = "panel")]
    fn tmux_has_its_file_in_one_of_two_places() {
        let dir = tempfile::tempdir().unwrap();
        let of_tmux = || setup(UserProgram::Tmux, dir.path());
        assert_eq!(of_tmux().path, dir.path().join(".tmux.conf"));
        let other = dir.path().join(".config/tmux/tmux.conf");
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "set -g mouse on\n").unwrap();
        assert_eq!(of_tmux().path, other);
        assert!(of_tmux().install().unwrap());
        assert!(of_tmux().remove().unwrap());
        assert_eq!(fs::read_to_string(&other).unwrap(), "set -g mouse on\n");
        fs::write(dir.path().join(".tmux.conf"), "").unwrap();
        assert_eq!(of_tmux().path, dir.path().join(".tmux.conf"));
    }

    #[test]
    fn an_older_text_is_replaced_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(UserProgram::Zsh, dir.path());
        let begin = &setup.begin;
        let old = format!("a\n{begin}\nold\n{END}\nb");
        fs::write(&setup.path, &old).unwrap();
        assert!(setup.install().unwrap());
        let text = fs::read_to_string(&setup.path).unwrap();
        assert_eq!(text, format!("a\n{}b", setup.block));
        fs::write(&setup.path, old).unwrap();
        assert!(setup.remove().unwrap());
        assert_eq!(fs::read_to_string(&setup.path).unwrap(), "a\nb");
        fs::write(&setup.path, format!("a\n{begin}\nb\n")).unwrap();
        for result in [setup.install(), setup.remove()] {
            assert!(matches!(result, Err(MarkedBlockError::Damaged(_))));
        }
        assert_eq!(
            fs::read_to_string(&setup.path).unwrap(),
            format!("a\n{begin}\nb\n")
        );
    }

    #[test]
    fn a_link_to_nothing_stays_and_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(UserProgram::Zsh, dir.path());
        let target = dir.path().join("volume/zshrc");
        std::os::unix::fs::symlink(&target, &setup.path).unwrap();
        for result in [setup.install(), setup.remove()] {
            let error = result.unwrap_err().to_string();
            let (path, target) = (setup.path.display(), target.display());
            let expected = format!("{path} is a link to {target}, which does not exist");
            assert_eq!(error, expected);
        }
        assert_eq!(fs::read_link(&setup.path).unwrap(), target);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_write_protected_file_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(UserProgram::Bash, dir.path());
        let protect = |mode| fs::set_permissions(&setup.path, fs::Permissions::from_mode(mode));
        for text in ["alias x=y\n", ""] {
            for mode in [0o444, 0o400] {
                fs::write(&setup.path, text).unwrap();
                protect(mode).unwrap();
                assert!(matches!(
                    setup.install(),
                    Err(MarkedBlockError::Protected(_))
                ));
                assert_eq!(fs::read_to_string(&setup.path).unwrap(), text);
                protect(0o644).unwrap();
                assert!(setup.install().unwrap());
                protect(mode).unwrap();
                assert!(matches!(
                    setup.remove(),
                    Err(MarkedBlockError::Protected(_))
                ));
                let with_block = format!("{text}{}", setup.block);
                assert_eq!(fs::read_to_string(&setup.path).unwrap(), with_block);
                protect(0o644).unwrap();
            }
        }
    }

    #[test]
    fn the_lines_name_the_command_that_removes_them() {
        for program in [UserProgram::Bash, UserProgram::Fish, UserProgram::Zsh] {
            let block = setup(program, Path::new("/h")).block;
            let command = format!("`tmux-task init {} --remove`", program.name());
            assert!(block.contains(&command), "{block}");
        }
    }

    #[test]
    fn a_link_stays_a_link_and_permissions_stay() {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(UserProgram::Bash, dir.path());
        let real = dir.path().join("dotfiles");
        fs::write(&real, "").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&real, &setup.path).unwrap();
        setup.install().unwrap();
        assert!(fs::symlink_metadata(&setup.path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&real).unwrap(), setup.block);
        assert_eq!(
            fs::metadata(&real).unwrap().permissions().mode() & 0o777,
            0o640
        );
        setup.remove().unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), "");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_file_of_its_own_is_made_and_removed_and_never_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let setup = setup(UserProgram::Fish, dir.path());
        assert!(!setup.remove().unwrap());
        setup.install().unwrap();
        assert_eq!(fs::read_to_string(&setup.path).unwrap(), setup.block);
        assert!(setup.remove().unwrap());
        assert!(!setup.path.exists());
        fs::write(&setup.path, "mine\n").unwrap();
        for result in [setup.install(), setup.remove()] {
            assert!(matches!(result, Err(MarkedBlockError::NotOurs(_))));
        }
    }
}

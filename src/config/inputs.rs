//! The files that a task's result depends on: `inputs` of a task that runs once.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// How many files the patterns of a task may name: more would be looked at for too long.
const MOST_FILES: usize = 100_000;

/// Patterns of files, relative to a folder: `*` and `?` stand for parts of a name, `**` for any number of
/// folders. The name of a folder stands for all files in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(super) folder: PathBuf,
    pub(super) patterns: Vec<String>,
}

impl Inputs {
    /// Whether there are no patterns: nothing can change.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns a digest of the names, sizes and times of the files; `None` if there are no files.
    ///
    /// # Errors
    ///
    /// When a folder cannot be read, or there are too many files.
    pub(crate) fn digest(&self) -> io::Result<Option<u64>> {
        let files = self.files()?;
        let mut hash = Sha256::new();
        for (path, state) in &files {
            hash.update(path.as_os_str().as_bytes());
            hash.update([0]);
            hash.update(state);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (first, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
        Ok((!files.is_empty()).then(|| u64::from_be_bytes(*first)))
    }

    fn files(&self) -> io::Result<Files> {
        let mut files = Files::new();
        for pattern in &self.patterns {
            let is_absolute = pattern.starts_with('/');
            let folder = if is_absolute {
                Path::new("/")
            } else {
                &self.folder
            };
            find(folder, &parts_of(pattern), &mut files)?;
        }
        Ok(files)
    }
}

/// Returns what is wrong with a pattern.
pub(super) fn problem_of(pattern: &str) -> Option<&'static str> {
    if pattern.trim_matches('/').is_empty() || pattern.contains(char::is_control) {
        return Some("is not a file or a pattern of files");
    }
    let other = pattern.contains(['[', ']', '{', '}']) || pattern.starts_with('!');
    other.then_some("knows only `*`, `?` and `**`: give several patterns")
}

/// Returns the parts of a pattern between `/`.
fn parts_of(pattern: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = pattern.split('/').filter(|part| !part.is_empty()).collect();
    // Two of them would find each file several times.
    parts.dedup_by(|part, before| *part == "**" && *before == "**");
    parts
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Adds the files below a folder that the parts of a pattern name.
fn find(folder: &Path, parts: &[&str], files: &mut Files) -> io::Result<()> {
    let Some((first, rest)) = parts.split_first() else {
        return Ok(());
    };
    if *first == "**" {
        // No folder, and any one.
        let rest_or_all: &[&str] = if rest.is_empty() { &["*"] } else { rest };
        find(folder, rest_or_all, files)?;
        for (path, is_folder) in entries(folder)? {
            if is_folder && path.file_name() != Some(".git".as_ref()) {
                find(&path, parts, files)?;
            }
        }
        return Ok(());
    }
    if !first.contains(['*', '?']) {
        let path = folder.join(first);
        // It may be missing. Links are followed where they are named.
        return match fs::metadata(&path) {
            Ok(found) if found.is_dir() && rest.is_empty() => find(&path, &["**"], files),
            Ok(found) if found.is_dir() => find(&path, rest, files),
            Ok(_) | Err(_) if rest.is_empty() => add(path, files),
            Ok(_) | Err(_) => Ok(()),
        };
    }
    for (path, is_folder) in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !matches(first, &name) {
            continue;
        }
        match (is_folder, rest.is_empty()) {
            (true, false) => find(&path, rest, files)?,
            (false, true) => add(path, files)?,
            (true, true) | (false, false) => {}
        }
    }
    Ok(())
}

/// Returns what is in a folder, and whether it is a folder itself, which a link is not.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, bool)>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let read = match fs::read_dir(folder) {
        // It may have gone meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.map_err(named)?,
    };
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        Ok((entry.path(), is_folder))
    };
    read.map(entry).collect::<io::Result<_>>().map_err(named)
}

/// Adds a file, if it exists, with what changes when it is written.
fn add(path: PathBuf, files: &mut Files) -> io::Result<()> {
    // Of a link that leads nowhere there is only itself.
    let found = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path));
    let Ok(found) = found else { return Ok(()) };
    if files.len() >= MOST_FILES {
        return Err(io::Error::other(format!("more than {MOST_FILES} files")));
    }
    let numbers = [found.size() as i64, found.mtime(), found.mtime_nsec()];
    let state = numbers.iter().flat_map(|number| number.to_be_bytes());
    files.insert(path, state.collect());
    Ok(())
}

/// Whether a name is one that a pattern with `*` and `?` stands for.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The last star, and where what it stands for ends so far.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                p += 1;
                star = Some((p, n));
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => (p, n) = (p + 1, n + 1),
            _ => {
                let Some((after, end)) = star else {
                    return false;
                };
                (p, n) = (after, end + 1);
                star = Some((after, end + 1));
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn stars_and_question_marks_stand_for_parts_of_names() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("*.rs", "a.rs", true),
            ("*.rs", ".rs", true),
            ("*.rs", "a.rsx", false),
            ("a*b*c", "abbbc", true),
            ("a*b*c", "abbbd", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "a", false),
            ("a", "", false),
            (&"*a".repeat(30), &"a".repeat(200), true),
            (&("*a".repeat(30) + "b"), &"a".repeat(200), false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn inputs(folder: &Path, patterns: &[&str]) -> Inputs {
        Inputs {
            folder: folder.to_owned(),
            patterns: patterns.iter().map(ToString::to_string).collect(),
        }
    }

    fn names(folder: &Path, patterns: &[&str]) -> Vec<String> {
        let files = inputs(folder, patterns).files().unwrap();
        let relative = |path: &PathBuf| {
            let path = path.strip_prefix(folder).unwrap_or(path);
            path.components().collect::<PathBuf>().display().to_string()
        };
        files.keys().map(relative).collect()
    }

    #[test]
    fn patterns_name_files_in_folders() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for folder in ["src/a/b", "src/.git", "web"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let files = [
            "l.lock",
            "src/m.rs",
            "src/a/n.rs",
            "src/a/b/o.rs",
            "src/a/x.c",
        ];
        for file in files.into_iter().chain(["src/.git/p.rs", "web/.env"]) {
            fs::write(root.join(file), "x").unwrap();
        }
        // No circle, and a link without a target.
        std::os::unix::fs::symlink(root.join("src"), root.join("src/a/again")).unwrap();
        std::os::unix::fs::symlink("none", root.join("web/lost")).unwrap();
        for (patterns, expected) in [
            (&["l.lock"][..], &["l.lock"][..]),
            (
                &["./l.lock", "web/../l.lock", "l.lock"],
                &["l.lock", "web/../l.lock"],
            ),
            (&["missing", "missing/*", "l.lock/x"], &[]),
            (&["src/*"], &["src/m.rs"]),
            (&["src/*/*.rs"], &["src/.git/p.rs", "src/a/n.rs"]),
            (
                &["src/**/*.rs"],
                &["src/a/b/o.rs", "src/a/n.rs", "src/m.rs"],
            ),
            (&["**/**/o.rs", "**/b"], &["src/a/b/o.rs"]),
            (
                &["web", "src/**/b/**"],
                &["src/a/b/o.rs", "web/.env", "web/lost"],
            ),
        ] {
            let found = names(root, patterns);
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            assert_eq!(found, expected, "{patterns:?}");
        }
        let absolute = root.join("web/*").display().to_string();
        assert_eq!(names(root, &[&absolute]), ["web/.env", "web/lost"]);
    }

    #[test]
    fn each_change_of_the_files_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let all = inputs(dir.path(), &["*.c", "d/**"]);
        let digest = || all.digest().unwrap();
        assert_eq!(digest(), None);
        fs::write(path("a.c"), "1").unwrap();
        fs::write(path("b.c"), "1").unwrap();
        let old = SystemTime::now() - Duration::from_secs(1000);
        let age = |name: &str, time| {
            let file = File::options().write(true).open(path(name)).unwrap();
            file.set_modified(time).unwrap();
        };
        let both = digest();
        assert!(both.is_some());
        assert_eq!(digest(), both);
        age("a.c", old);
        let aged = digest();
        assert_ne!(aged, both);
        // Another size at the same time, another name, and one less.
        fs::write(path("a.c"), "22").unwrap();
        age("a.c", old);
        assert_ne!(digest(), aged);
        fs::write(path("a.c"), "1").unwrap();
        age("a.c", old);
        assert_eq!(digest(), aged);
        fs::rename(path("a.c"), path("e.c")).unwrap();
        assert_ne!(digest(), aged);
        fs::rename(path("e.c"), path("a.c")).unwrap();
        assert_eq!(digest(), aged);
        fs::remove_file(path("b.c")).unwrap();
        assert_ne!(digest(), aged);
        assert!(inputs(dir.path(), &[]).is_empty());
    }

    #[test]
    fn a_pattern_of_another_kind_is_refused() {
        for pattern in ["", "/", "a\nb", "*.{c,h}", "[ab]", "!a"] {
            assert!(problem_of(pattern).is_some(), "{pattern:?}");
        }
        for pattern in ["a", "/a/b*", "**", "src/**/*.rs", "a b?"] {
            assert_eq!(problem_of(pattern), None, "{pattern:?}");
        }
    }
}

//! The files that a task's result depends on: `inputs` of a task that runs once.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use regex::Regex;
use sha2::{Digest, Sha256};

/// How many files the patterns of a task may name: more would be looked at for too long.
const MOST_FILES: usize = 100_000;

/// Patterns of files, relative to a folder: `*` and `?` stand for parts of a name, `**` for any number of
/// folders. The path of a folder stands for all files in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(super) folder: PathBuf,
    pub(super) patterns: Vec<String>,
}

/// Files, with what changes when they are written.
type Files = BTreeMap<PathBuf, Vec<u8>>;

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
        let first = hash.first_chunk().filter(|_| !files.is_empty());
        Ok(first.map(|first| u64::from_be_bytes(*first)))
    }

    fn files(&self) -> io::Result<Files> {
        let mut files = Files::new();
        for pattern in &self.patterns {
            let parts: Vec<&str> = pattern.split('/').collect();
            let is_plain = |part: &&&str| !part.contains(['*', '?']);
            let n_plain = parts.iter().take_while(is_plain).count();
            let (plain, wild) = parts.split_at(n_plain);
            let path = match pattern.starts_with('/') {
                true => PathBuf::from(plain.join("/") + "/"),
                false => self.folder.join(plain.join("/")),
            };
            match wild {
                [] if !path.is_dir() => add(self.folder.join(pattern), &mut files)?,
                [] => walk(&path, "", &regex_of(&["**"])?, usize::MAX, &mut files)?,
                wild => {
                    let is_deep = wild.contains(&"**");
                    let depth = if is_deep { usize::MAX } else { wild.len() };
                    walk(&path, "", &regex_of(wild)?, depth, &mut files)?;
                }
            }
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

/// Returns the expression for paths below a folder that these parts of a pattern stand for.
fn regex_of(parts: &[&str]) -> io::Result<Regex> {
    let mut text = "(?s)^".to_owned();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        let name = regex::escape(part);
        let name = name.replace(r"\*", "[^/]*").replace(r"\?", "[^/]");
        match (*part, is_last) {
            ("**", true) => text.push_str(".*$"),
            ("**", false) => text.push_str("(?:.*/)?"),
            (_, true) => text.push_str(&(name + "$")),
            (_, false) => text.push_str(&(name + "/")),
        }
    }
    Regex::new(&text).map_err(io::Error::other)
}

/// Adds the files of a folder that match, and those of its folders. `above` is what precedes their names.
fn walk(
    folder: &Path,
    above: &str,
    wanted: &Regex,
    depth: usize,
    files: &mut Files,
) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", folder.display()));
    let is_missing = |error: &io::Error| {
        matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        )
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if is_missing(&error) => return Ok(()),
        entries => entries.map_err(named)?,
    };
    for entry in entries {
        let entry = entry.map_err(named)?;
        let name = format!("{above}{}", entry.file_name().to_string_lossy());
        // A link to a folder is none: there could be circles.
        if !entry.file_type().map_err(named)?.is_dir() {
            if wanted.is_match(&name) {
                add(entry.path(), files)?;
            }
        } else if depth > 1 && entry.file_name() != ".git" {
            walk(&entry.path(), &(name + "/"), wanted, depth - 1, files)?;
        }
    }
    Ok(())
}

/// Adds a file, if it exists. Of a link that leads nowhere there is only itself.
fn add(path: PathBuf, files: &mut Files) -> io::Result<()> {
    let found = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path));
    let Some(found) = found.ok().filter(|found| !found.is_dir()) else {
        return Ok(());
    };
    if files.len() >= MOST_FILES {
        return Err(io::Error::other(format!("more than {MOST_FILES} files")));
    }
    let numbers = [found.size() as i64, found.mtime(), found.mtime_nsec()];
    let state = numbers.iter().flat_map(|number| number.to_be_bytes());
    files.insert(path, state.collect());
    Ok(())
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
            ("*", "a/b", false),
            ("*.rs", "a.rs", true),
            ("*.rs", ".rs", true),
            ("*.rs", "a_rs", false),
            ("*.rs", "a.rsx", false),
            ("a*b*c", "abbbc", true),
            ("a?c", "a\u{e9}c", true),
            ("a?c", "ac", false),
            ("**/*.c", "a.c", true),
            ("**/*.c", "x/y/a\n.c", true),
            ("**", "x/y/a", true),
            ("*/b/**", "x/b/c/d", true),
            ("*/b/**", "x/y/b/c", false),
        ] {
            let parts: Vec<&str> = pattern.split('/').collect();
            let is_match = regex_of(&parts).unwrap().is_match(name);
            assert_eq!(is_match, expected, "{pattern} {name}");
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
            (
                &["src/*/*.rs", "src/.git/*"],
                &["src/.git/p.rs", "src/a/n.rs"],
            ),
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

//! Names what kernels offer, for the whole crate: `cfg(linux)` has `/proc`, pidfds, inotify and the like,
//! `cfg(kqueue)` reports the ends of processes by kqueue.
//!
//! With `TMUX_TASK_PORTABLE=1`, Linux offers nothing: the program takes the way that it takes on other
//! systems. That is for tests (tests/portable.sh).
//!
//! Also names the commit for `--version`, in `LONG_VERSION`. tests/packaging.sh tests this.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

const PORTABLE: &str = "TMUX_TASK_PORTABLE";

/// By this variable, builders say at what time a reproducible build is made, in seconds since 1970.
const EPOCH: &str = "SOURCE_DATE_EPOCH";

/// A package that cargo has made has no work tree, but this file.
const VCS_INFO: &str = ".cargo_vcs_info.json";

/// How much of a commit's name is shown.
const COMMIT_CHARS: usize = 9;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PORTABLE}");
    println!("cargo::rustc-check-cfg=cfg(linux, kqueue)");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "linux" if env::var_os(PORTABLE).is_none() => println!("cargo::rustc-cfg=linux"),
        // As in Cargo.toml.
        "macos" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" => {
            println!("cargo::rustc-cfg=kqueue");
        }
        _ => {}
    }
    println!("cargo::rerun-if-env-changed={EPOCH}");
    println!("cargo::rustc-env=LONG_VERSION={}", long_version());
}

/// Returns the version, with what is known of commit and day: `0.1.0 (1f2e3d4c5 2026-11-30)`.
fn long_version() -> String {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let (commit, made) = commit().unzip();
    let epoch = env::var(EPOCH).ok().and_then(|text| text.parse().ok());
    let day = epoch.or(made.flatten()).map(day);
    // A debug build is not made again at each commit: it may have a later one, and what is not committed.
    let is_debug = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let known: Vec<_> = commit.into_iter().chain(day).collect();
    match (known.join(" "), is_debug) {
        (known, _) if known.is_empty() => version,
        (known, false) => format!("{version} ({known})"),
        (known, true) => format!("{version} ({known}, debug)"),
    }
}

/// Returns the commit, and when it was made if git knows it.
fn commit() -> Option<(String, Option<u64>)> {
    // The name of the folder in the work tree is empty at its top. In a folder below it, git would name a commit
    // of something else.
    let places = [
        "--show-prefix",
        "--git-path",
        "HEAD",
        "--git-path",
        "logs/HEAD",
    ];
    let places = git(&[&["rev-parse"][..], &places].concat());
    let Some(files) = places.as_deref().and_then(|text| text.strip_prefix('\n')) else {
        let info = fs::read_to_string(VCS_INFO).ok()?;
        let (_, name) = info.split_once("\"sha1\": \"")?;
        return Some((name.get(..COMMIT_CHARS)?.to_owned(), None));
    };
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        // They change when another commit is checked out, or one is made.
        for file in files.lines().filter(|file| Path::new(file).exists()) {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    let head = git(&["log", "-1", "--format=%H %ct"])?;
    let (name, made) = head.trim_end().split_once(' ')?;
    Some((name.get(..COMMIT_CHARS)?.to_owned(), made.parse().ok()))
}

/// Returns what git prints, if it succeeds.
fn git(args: &[&str]) -> Option<String> {
    // Whose work tree it is does not matter: it is being built.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "-c", "log.showSignature=false"]);
    for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(variable);
    }
    let output = git.args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

/// Returns the day of a time in seconds since 1970, in UTC.
fn day(seconds: u64) -> String {
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let (mut year, mut month, mut days) = (1970, 1, seconds / 86_400);
    loop {
        let of_month = match month {
            2 => 28 + u64::from(is_leap(year)),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        if days < of_month {
            return format!("{year}-{month:02}-{:02}", days + 1);
        }
        days -= of_month;
        (year, month) = if month == 12 {
            (year + 1, 1)
        } else {
            (year, month + 1)
        };
    }
}

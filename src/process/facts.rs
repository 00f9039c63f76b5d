//! What `/proc` shows of a process and its terminal.

use std::fs;
use std::path::{Path, PathBuf};

use super::blocked::{self, Facts, MOST_FILES};
use super::tree::Process;
use crate::model::{ReadCall, TtyUse};

/// Returns what the threads of a process do with the terminal, and which of them reads it.
pub(super) fn does(process: &Process, tty: &Path) -> (TtyUse, Option<u32>) {
    let facts = ProcFacts(process.pid);
    let mut sum = TtyUse::Elsewhere;
    for thread in &process.threads {
        match blocked::does(&facts, *thread, tty) {
            TtyUse::Reading => return (TtyUse::Reading, Some(*thread)),
            TtyUse::Polling => sum = TtyUse::Polling,
            TtyUse::Unknown if sum == TtyUse::Elsewhere => sum = TtyUse::Unknown,
            TtyUse::Unknown | TtyUse::Elsewhere => {}
        }
    }
    if process.threads.is_empty() {
        sum = TtyUse::Unknown;
    }
    (sum, None)
}

/// Returns the `read` call that a thread is blocked in.
pub(super) fn read_call(pid: u32, thread: u32) -> Option<ReadCall> {
    let number = |file: &str, name: &str| -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/{file}")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(ReadCall {
        thread,
        switches: number("status", "voluntary_ctxt_switches:")?,
        bytes: number("io", "rchar:"),
    })
}

/// Whether a program that reads or polls its terminal may pass on what is typed to another terminal
/// or over a network. `takes_keys` is whether the terminal is not in line mode.
pub(super) fn may_relay(process: &Process, does: TtyUse, takes_keys: bool) -> bool {
    if !takes_keys {
        // Other programs with sockets read lines for themselves.
        return does == TtyUse::Reading && COPIERS.contains(&process.name.as_str());
    }
    let files = || ProcFacts(process.pid).files().unwrap_or_default();
    match does {
        TtyUse::Elsewhere => false,
        TtyUse::Unknown => FAR.contains(&process.name.as_str()),
        TtyUse::Reading | TtyUse::Polling => {
            FAR.contains(&process.name.as_str())
                || files().iter().any(|(_, target)| {
                    blocked::is_master(target)
                        || (does == TtyUse::Reading && blocked::is_socket(target))
                })
        }
    }
}

/// Programs that read lines only to pass them to a container, whether it wants any or not.
const COPIERS: &[&str] = &["docker", "podman", "nerdctl", "kubectl", "oc", "crictl"];

/// Programs that pass keys on to another machine, container or terminal.
const FAR: &[&str] = &[
    "ssh",
    "mosh-client",
    "telnet",
    "docker",
    "podman",
    "kubectl",
    "tmux",
    "tmux: client",
    "screen",
    "zellij",
    "dtach",
    "abduco",
    "script",
    "picocom",
    "minicom",
];

/// A process in `/proc`.
struct ProcFacts(u32);

impl Facts for ProcFacts {
    fn syscall(&self, thread: u32) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/task/{thread}/syscall", self.0)).ok()
    }

    fn channel(&self, thread: u32) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/task/{thread}/wchan", self.0)).ok()
    }

    fn state(&self, thread: u32) -> Option<char> {
        let text = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", self.0)).ok()?;
        text.rsplit_once(')')?.1.trim_start().chars().next()
    }

    fn file(&self, number: u64) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/fd/{number}", self.0)).ok()
    }

    fn files(&self) -> Option<Vec<(u64, PathBuf)>> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.0)).ok()?;
        let files = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            Some((number, fs::read_link(entry.path()).ok()?))
        });
        Some(files.take(MOST_FILES).collect())
    }

    fn watched(&self, epoll: u64) -> Option<Vec<u64>> {
        let info = fs::read_to_string(format!("/proc/{}/fdinfo/{epoll}", self.0)).ok()?;
        let numbers = info
            .lines()
            .filter_map(|line| line.strip_prefix("tfd:"))
            .filter_map(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        Some(numbers.take(MOST_FILES).collect())
    }
}

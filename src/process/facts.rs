//! What `/proc` shows of a process and its terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};

use super::blocked::{self, Facts, MOST_FILES};
use super::tree::{ForegroundGroup, Host, Process};
use crate::model::{ReadCall, TtyUse};

/// Returns what the threads of a member of a foreground group do with its terminal, and which of
/// them reads it. `takes_keys` is whether that terminal is not in line mode.
pub(super) fn does(
    process: &Process,
    front: &ForegroundGroup,
    takes_keys: bool,
) -> (TtyUse, Option<u32>) {
    let facts = ProcFacts {
        pid: process.pid,
        front: Some(front),
        tty: &front.tty,
    };
    let tty = &front.tty;
    let mut sum = TtyUse::Elsewhere;
    for thread in &process.threads {
        match blocked::does(&facts, *thread, tty, takes_keys) {
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
    Some(ReadCall {
        thread,
        switches: switches(pid, thread)?,
        bytes: number(pid, thread, "io", "rchar:"),
    })
}

/// Returns how many times each thread of these processes has gone to sleep, without those that have
/// a child among them: a shell sleeps at each turn of a loop while a command runs.
pub(super) fn pauses(processes: &[Process]) -> Option<BTreeMap<u32, u64>> {
    let has_child = |process: &&Process| {
        let mut others = processes.iter();
        others.any(|other| other.parent == Some(process.pid))
    };
    let of_process = |process: &Process| {
        let pid = process.pid;
        let threads = process.threads.clone();
        threads
            .into_iter()
            .map(move |thread| Some((thread, switches(pid, thread)?)))
    };
    let without_child = processes.iter().filter(|process| !has_child(process));
    without_child.flat_map(of_process).collect()
}

/// Returns how many times a thread has gone to sleep.
fn switches(pid: u32, thread: u32) -> Option<u64> {
    number(pid, thread, "status", "voluntary_ctxt_switches:")
}

/// Returns the number behind this name in one of a thread's files in `/proc`.
fn number(pid: u32, thread: u32, file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/{file}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// Whether a host passes on everything that is typed to its child, which uses the inner terminal: it
/// is a script of `expect` and reads keys, or it has one thread and nothing else open that it could
/// wait for, and reads keys or polls. An agent or an editor, which shows more than its child's
/// output, has more. A script that answers its child's questions by itself polls as well, but then
/// the child does not wait for long.
pub(super) fn relays(host: &Host<'_>, takes_keys: impl Fn(&Path) -> bool) -> bool {
    let is_input_of_child = |inner: &Path| {
        let input = fs::read_link(format!("/proc/{}/fd/0", host.child));
        input.is_ok_and(|input| input == inner)
    };
    let copies = || {
        let files = files_of(host.process.pid).unwrap_or_default();
        let masters = files.iter().filter(|(_, file)| blocked::is_master(file));
        let is_waited_for = |file: &Path| {
            let name = file.to_str().unwrap_or_default();
            blocked::is_socket(file)
                || ["pipe:", "anon_inode:"]
                    .iter()
                    .any(|kind| name.starts_with(kind))
        };
        host.process.threads.len() == 1
            && files.len() < MOST_FILES
            && masters.count() == 1
            && !files.iter().any(|(_, file)| is_waited_for(file))
    };
    let polls = || {
        let facts = ProcFacts {
            pid: host.process.pid,
            front: None,
            tty: host.tty,
        };
        let mut threads = host.process.threads.iter();
        threads.any(|thread| blocked::does(&facts, *thread, host.tty, true) == TtyUse::Polling)
    };
    let takes_keys = takes_keys(host.tty);
    let is_expect = takes_keys && host.process.name == "expect";
    is_input_of_child(host.inner) && (is_expect || (copies() && (takes_keys || polls())))
}

/// Whether a program that reads or polls its terminal may pass on what is typed to another terminal
/// or over a network. `takes_keys` is whether the terminal is not in line mode.
pub(super) fn may_relay(process: &Process, does: TtyUse, takes_keys: bool) -> bool {
    if !takes_keys {
        // Other programs with sockets read lines for themselves.
        return does == TtyUse::Reading && COPIERS.contains(&process.name.as_str());
    }
    let files = || files_of(process.pid).unwrap_or_default();
    match does {
        // The terminal is read by the server, of which the client may be no parent.
        TtyUse::Elsewhere => ["screen", "tmux: client"].contains(&process.name.as_str()),
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

/// All open files of a process, at most [`MOST_FILES`].
fn files_of(pid: u32) -> Option<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, fs::read_link(entry.path()).ok()?))
    });
    Some(files.take(MOST_FILES).collect())
}

/// A process in `/proc`.
struct ProcFacts<'a> {
    pid: u32,
    /// The group that it is in, among which its children are searched; `None` where they do not
    /// matter.
    front: Option<&'a ForegroundGroup>,
    tty: &'a Path,
}

impl Facts for ProcFacts<'_> {
    fn syscall(&self, thread: u32) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/task/{thread}/syscall", self.pid)).ok()
    }

    fn channel(&self, thread: u32) -> Option<String> {
        fs::read_to_string(format!("/proc/{}/task/{thread}/wchan", self.pid)).ok()
    }

    fn state(&self, thread: u32) -> Option<char> {
        let text = fs::read_to_string(format!("/proc/{}/task/{thread}/stat", self.pid)).ok()?;
        text.rsplit_once(')')?.1.trim_start().chars().next()
    }

    fn file(&self, number: u64) -> Option<PathBuf> {
        fs::read_link(format!("/proc/{}/fd/{number}", self.pid)).ok()
    }

    fn files(&self) -> Option<Vec<(u64, PathBuf)>> {
        files_of(self.pid)
    }

    fn watched(&self, epoll: u64) -> Option<Vec<u64>> {
        let info = fs::read_to_string(format!("/proc/{}/fdinfo/{epoll}", self.pid)).ok()?;
        let numbers = info
            .lines()
            .filter_map(|line| line.strip_prefix("tfd:"))
            .filter_map(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        Some(numbers.take(MOST_FILES).collect())
    }

    fn memory(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut memory = vec![0; bytes];
        let file = File::open(format!("/proc/{}/mem", self.pid)).ok()?;
        file.read_exact_at(&mut memory, address).ok()?;
        Some(memory)
    }

    fn may_write(&self, thread: u32) -> bool {
        let before = switches(self.pid, thread);
        // The kernel says that a terminal cannot be written to while another thread writes to it.
        let is_writable = is_writable(self.tty);
        let sleeps = self
            .channel(thread)
            .is_some_and(|channel| channel.trim() != "0");
        let has_slept_on = sleeps && before.is_some() && before == switches(self.pid, thread);
        is_writable == Some(false) || !has_slept_on
    }

    fn has_output_of_child(&self) -> bool {
        let Some(front) = self.front else {
            return false;
        };
        if front.hosts.contains(&self.pid) {
            return true;
        }
        let own = pipes_of(self.pid, MODE_READABLE);
        let members = front.members.iter();
        let mut children = members.filter(|child| child.parent == Some(self.pid));
        !own.is_empty()
            && children.any(|child| !own.is_disjoint(&pipes_of(child.pid, MODE_WRITABLE)))
    }
}

/// Whether a terminal can be written to without waiting; `None` where it cannot be opened.
fn is_writable(tty: &Path) -> Option<bool> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(tty, flags, Mode::empty()).ok()?;
    let mut polled = [PollFd::new(&file, PollFlags::OUT)];
    rustix::event::poll(&mut polled, Some(&Timespec::default())).ok()?;
    Some(polled[0].revents().contains(PollFlags::OUT))
}

/// The bits of a link in `/proc/PID/fd` that show what its file was opened for.
const MODE_READABLE: u32 = 0o400;
const MODE_WRITABLE: u32 = 0o200;

/// Returns the pipes that a process can read or write, of its first [`MOST_FILES`] open files.
fn pipes_of(pid: u32, mode: u32) -> BTreeSet<PathBuf> {
    let is_pipe = |target: &Path| {
        let name = target.to_str();
        name.is_some_and(|name| name.starts_with("pipe:"))
    };
    let has_mode = |number: u64| {
        let link = fs::symlink_metadata(format!("/proc/{pid}/fd/{number}"));
        link.is_ok_and(|link| link.permissions().mode() & mode != 0)
    };
    let files = files_of(pid).unwrap_or_default();
    files
        .into_iter()
        .filter(|(number, target)| is_pipe(target) && has_mode(*number))
        .map(|(_, target)| target)
        .collect()
}

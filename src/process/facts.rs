//! What `/proc` shows of a process and its terminal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::blocked::{self, Facts, MOST_FILES};
use super::stat::{self, thread_state};
use super::tree::{ForegroundGroup, Host, Process};
use crate::model::{ReadCall, Stop, TtyUse};

/// Returns what the threads of a member of a foreground group do with its terminal, and which of
/// them reads it. `takes_keys` is whether that terminal is not in line mode.
pub(super) fn does(
    process: &Process,
    front: &ForegroundGroup,
    takes_keys: bool,
) -> (TtyUse, Option<u32>) {
    let facts = ProcFacts {
        front: Some(front),
        ..ProcFacts::of(process, &front.tty)
    };
    let tty = &front.tty;
    let mut sum = TtyUse::Elsewhere;
    for thread in &process.threads {
        sum = sum.max(blocked::does(&facts, *thread, tty, takes_keys));
        if sum == TtyUse::Reading {
            return (sum, Some(*thread));
        }
    }
    if process.threads.is_empty() {
        sum = TtyUse::Unknown;
    }
    (sum, None)
}

/// Returns the `read` call that a thread is blocked in.
pub(super) fn read_call(process: &Process, thread: u32, tty: &Path) -> Option<ReadCall> {
    let pid = process.pid;
    let has_bytes = !blocked::reads_by_ring(&ProcFacts::of(process, tty), thread);
    Some(ReadCall {
        thread,
        switches: switches(pid, thread)?,
        bytes: number(pid, thread, "io", "rchar:").filter(|_| has_bytes),
    })
}

/// Whether one of the first three files of a program is this terminal: it has inherited it.
pub(super) fn has_inherited(process: &Process, tty: &Path) -> bool {
    let facts = ProcFacts::of(process, tty);
    let mut files = (0..3).filter_map(|number| facts.file(number));
    files.any(|target| blocked::is_terminal(&target, tty))
}

/// Why a stopped program is stopped. `is_job` is whether its parent may be a shell with job control,
/// which knows of it. `None` if the program is such a shell's job in the background.
pub(super) fn stop(process: &Process, signal: u32, tty: &Path, is_job: bool) -> Option<Stop> {
    const SIGTTIN: u32 = Signal::TTIN.as_raw().cast_unsigned();
    const SIGTTOU: u32 = Signal::TTOU.as_raw().cast_unsigned();
    let reads = || {
        let facts = ProcFacts::of(process, tty);
        blocked::does(&facts, process.thread, tty, false) == TtyUse::Reading
    };
    match signal {
        SIGTTIN => Some(Stop::BackgroundRead),
        SIGTTOU => Some(Stop::BackgroundSetup),
        // The parent has waited for it, or it is an old kernel, which never says.
        0 if is_job => None,
        0 if reads() => Some(Stop::BackgroundRead),
        _ => Some(Stop::BySignal),
    }
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
        let threads = process.threads.clone().into_iter();
        threads.map(move |thread| Some((thread, switches(pid, thread)?)))
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
        let files = files_of(host.process).unwrap_or_default();
        let masters = files.iter().filter(|(_, file)| blocked::is_master(file));
        let is_waited_for = |file: &Path| {
            let name = file.to_str().unwrap_or_default();
            let mut kinds = ["pipe:", "anon_inode:"].iter();
            blocked::is_socket(file) || kinds.any(|kind| name.starts_with(kind))
        };
        host.process.threads.len() == 1
            && files.len() < MOST_FILES
            && masters.count() == 1
            && !files.iter().any(|(_, file)| is_waited_for(file))
    };
    let polls = || {
        let facts = ProcFacts::of(host.process, host.tty);
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
    let is_far = FAR.contains(&process.name.as_str());
    let passes_on = |(_, target): &(u64, PathBuf)| {
        blocked::is_master(target) || does == TtyUse::Reading && blocked::is_socket(target)
    };
    match does {
        // The terminal is read by the server, of which the client may be no parent.
        TtyUse::Elsewhere => ["screen", "tmux: client"].contains(&process.name.as_str()),
        TtyUse::Unknown => is_far,
        TtyUse::Reading | TtyUse::Polling => {
            is_far || files_of(process).unwrap_or_default().iter().any(passes_on)
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
fn files_of(process: &Process) -> Option<Vec<(u64, PathBuf)>> {
    let entries = fs::read_dir(format!("/proc/{}/fd", process.thread)).ok()?;
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        Some((number, fs::read_link(entry.path()).ok()?))
    });
    Some(files.take(MOST_FILES).collect())
}

/// A process in `/proc`.
struct ProcFacts<'a> {
    process: &'a Process,
    /// The group that it is in, among which its children are searched; `None` where they do not
    /// matter.
    front: Option<&'a ForegroundGroup>,
    tty: &'a Path,
}

impl<'a> ProcFacts<'a> {
    fn of(process: &'a Process, tty: &'a Path) -> Self {
        Self {
            process,
            front: None,
            tty,
        }
    }

    /// Returns the path of a file in the folder of the whole process.
    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.process.thread)
    }

    /// Returns the path of a file in the folder of a thread.
    fn thread_path(&self, thread: u32, file: &str) -> String {
        format!("/proc/{}/task/{thread}/{file}", self.process.pid)
    }
}

impl Facts for ProcFacts<'_> {
    fn syscall(&self, thread: u32) -> Option<String> {
        stat::short_file(self.thread_path(thread, "syscall"))
    }

    fn channel(&self, thread: u32) -> Option<String> {
        stat::short_file(self.thread_path(thread, "wchan"))
    }

    fn state(&self, thread: u32) -> Option<char> {
        thread_state(self.process.pid, thread)
    }

    fn file(&self, number: u64) -> Option<PathBuf> {
        fs::read_link(self.path(&format!("fd/{number}"))).ok()
    }

    fn files(&self) -> Option<Vec<(u64, PathBuf)>> {
        files_of(self.process)
    }

    fn watched(&self, epoll: u64) -> Option<Vec<u64>> {
        let info = fs::read_to_string(self.path(&format!("fdinfo/{epoll}"))).ok()?;
        let files = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let numbers = files.filter_map(|rest| rest.split_ascii_whitespace().next()?.parse().ok());
        Some(numbers.take(MOST_FILES).collect())
    }

    fn awaited_operations(&self, ring: u64) -> Option<Vec<u64>> {
        let info = fs::read_to_string(self.path(&format!("fdinfo/{ring}"))).ok()?;
        let numbers = info
            .lines()
            .skip_while(|line| *line != "PollList:")
            .filter_map(|line| line.trim_start().strip_prefix("op="))
            .filter_map(|rest| rest.split(',').next()?.parse().ok());
        Some(numbers.take(MOST_FILES).collect())
    }

    fn is_32_bit(&self) -> bool {
        // The fifth byte of an ELF file is its class.
        const CLASS_32: &[u8] = b"\x7fELF\x01";
        let mut start = [0; CLASS_32.len()];
        let read = File::open(self.path("exe")).and_then(|file| file.read_exact_at(&mut start, 0));
        read.is_ok() && start == *CLASS_32
    }

    fn memory(&self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut memory = vec![0; bytes];
        let file = File::open(self.path("mem")).ok()?;
        file.read_exact_at(&mut memory, address).ok()?;
        Some(memory)
    }

    fn may_write(&self, thread: u32) -> bool {
        let pid = self.process.pid;
        let before = switches(pid, thread);
        // The kernel says that a terminal cannot be written to while another thread writes to it.
        let is_writable = is_writable(self.tty);
        let channel = self.channel(thread);
        let sleeps = channel.is_some_and(|channel| channel.trim() != "0");
        let has_slept_on = sleeps && before.is_some() && before == switches(pid, thread);
        is_writable == Some(false) || !has_slept_on
    }

    fn has_output_of_child(&self) -> bool {
        let Some(front) = self.front else {
            return false;
        };
        let pid = self.process.pid;
        if front.hosts.contains(&pid) {
            return true;
        }
        let own = pipes_of(self.process, MODE_READABLE);
        let members = front.members.iter();
        let mut children = members.filter(|child| child.parent == Some(pid));
        !own.is_empty() && children.any(|child| !own.is_disjoint(&pipes_of(child, MODE_WRITABLE)))
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
fn pipes_of(process: &Process, mode: u32) -> BTreeSet<PathBuf> {
    let is_pipe = |target: &Path| {
        target
            .to_str()
            .is_some_and(|name| name.starts_with("pipe:"))
    };
    let has_mode = |number: u64| {
        let link = fs::symlink_metadata(format!("/proc/{}/fd/{number}", process.thread));
        link.is_ok_and(|link| link.permissions().mode() & mode != 0)
    };
    let files = files_of(process).unwrap_or_default().into_iter();
    let pipes = files.filter(|(number, target)| is_pipe(target) && has_mode(*number));
    pipes.map(|(_, target)| target).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_shows_why_a_program_is_stopped() {
        let (mut processes, _) = super::super::tree::processes(std::process::id());
        let process = processes.swap_remove(0);
        let stop = |signal, is_job| stop(&process, signal, Path::new("/dev/pts/none"), is_job);
        for is_job in [false, true] {
            assert_eq!(stop(21, is_job), Some(Stop::BackgroundRead));
            assert_eq!(stop(22, is_job), Some(Stop::BackgroundSetup));
            assert_eq!(stop(19, is_job), Some(Stop::BySignal));
            assert_eq!(stop(20, is_job), Some(Stop::BySignal));
        }
        // Its shell knows of it.
        assert_eq!(stop(0, true), None);
        assert_eq!(stop(0, false), Some(Stop::BySignal));
    }
}

//! What a thread does with a terminal, judged by what the kernel shows of the thread.
//!
//! The call that a thread is blocked in (`/proc/PID/task/TID/syscall`) shows it exactly, but Yama's
//! `ptrace_scope` hides the call from all but the thread's ancestors. The kernel function that the
//! thread sleeps in (`wchan`) and its process's open files stay readable, and show almost as much.

use std::path::{Path, PathBuf};

use crate::model::TtyUse;

/// The maximum number of open files that are searched for the terminal.
pub(super) const MOST_FILES: usize = 64;

/// What can be read of a process. `None` always means that the system refuses it.
pub(super) trait Facts {
    /// The system call that a thread is blocked in, as in `/proc`.
    fn syscall(&self, thread: u32) -> Option<String>;
    /// The kernel function that a thread sleeps in; `0` where it runs, or where that is hidden.
    fn channel(&self, thread: u32) -> Option<String>;
    /// The state of a thread, `S` where it sleeps; `None` where the thread is gone.
    fn state(&self, thread: u32) -> Option<char>;
    /// The target of an open file.
    fn file(&self, number: u64) -> Option<PathBuf>;
    /// All open files, at most [`MOST_FILES`].
    fn files(&self) -> Option<Vec<(u64, PathBuf)>>;
    /// The numbers of the files that an epoll file watches.
    fn watched(&self, epoll: u64) -> Option<Vec<u64>>;
    /// The numbers of the operations for which a ring of io_uring waits until a file is ready.
    fn awaited_operations(&self, ring: u64) -> Option<Vec<u64>>;
    /// Whether the process runs a program for 32 bits, whose calls have other numbers.
    fn is_32_bit(&self) -> bool;
    /// A piece of the process's memory. Who may see a thread's call may see this, too.
    fn memory(&self, address: u64, bytes: usize) -> Option<Vec<u8>>;
    /// Whether a thread that sleeps in the same function as one that reads the terminal may be
    /// blocked writing to it: someone is, or the thread has run just now.
    fn may_write(&self, thread: u32) -> bool;
    /// Whether a child can write to a pipe that the process can read, or has its terminal from the
    /// process.
    fn has_output_of_child(&self) -> bool;
}

/// Returns what a thread does with the terminal `tty`. `takes_keys` is whether that is not in line
/// mode.
pub(super) fn does(facts: &impl Facts, thread: u32, tty: &Path, takes_keys: bool) -> TtyUse {
    let Some(line) = facts.syscall(thread) else {
        return by_channel(facts, thread, tty, takes_keys);
    };
    let mut words = line.split_ascii_whitespace();
    // `running`, or -1 for a thread that is not blocked in a system call.
    let Some(Ok(number)) = words.next().map(str::parse::<i64>) else {
        return TtyUse::Elsewhere;
    };
    let arguments: Vec<u64> = words
        .map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
        .collect();
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    // The stack of a program for 64 bits is almost always above what 32 bits can address.
    let has_low_stack = arguments
        .get(STACK_POINTER)
        .is_some_and(|sp| *sp >> 32 == 0);
    let numbers = if has_low_stack && facts.is_32_bit() {
        CallNumbers::NATIVE_32
    } else {
        CallNumbers::NATIVE
    };
    let Some(numbers) = numbers else {
        return by_channel(facts, thread, tty, takes_keys);
    };
    let (first, second) = (argument(0), argument(1));
    match numbers.call(number) {
        Call::Read => file_is_terminal(facts, first, tty).then_some(TtyUse::Reading),
        Call::SendFile => file_is_terminal(facts, second, tty).then_some(TtyUse::Reading),
        Call::RingEnter => Some(by_rings(facts, tty)),
        Call::Poll => polls_terminal(facts, polled(facts, first, second), tty),
        Call::Select => polls_terminal(facts, selected(facts, first, second), tty),
        Call::OldSelect => has_terminal(facts, tty).then_some(TtyUse::Polling),
        Call::EpollWait => epoll_has_terminal(facts, first, tty).then_some(TtyUse::Polling),
        Call::Other => None,
    }
    .unwrap_or(TtyUse::Elsewhere)
}

/// The place of the stack pointer behind the arguments of a call.
const STACK_POINTER: usize = 6;

/// The relevant system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// Reads from the file in its first argument.
    Read,
    /// Reads from the file in its second argument.
    SendFile,
    /// A list of files and their number.
    Poll,
    /// The number after the highest one, and a bit for each file.
    Select,
    /// The same with all arguments in memory.
    OldSelect,
    EpollWait,
    /// Waits for requests that were put into a ring of io_uring.
    RingEnter,
    Other,
}

/// The numbers of the relevant system calls.
#[derive(Debug)]
struct CallNumbers {
    /// Bits that only mark the kind of program.
    without: i64,
    reads: &'static [i64],
    send_files: &'static [i64],
    polls: &'static [i64],
    selects: &'static [i64],
    old_selects: &'static [i64],
    epoll_waits: &'static [i64],
}

/// The same on all architectures.
const IO_URING_ENTER: i64 = 426;

impl CallNumbers {
    /// Those of x86-64. Programs with short pointers (x32) mark all calls with a bit.
    const X86_64: Self = Self {
        without: 0x4000_0000,
        // read, pread64, readv, splice, preadv, preadv2, and two of x32
        reads: &[0, 17, 19, 275, 295, 327, 515, 534],
        send_files: &[40],
        polls: &[7, 271],
        selects: &[23, 270],
        old_selects: &[],
        epoll_waits: &[232, 281, 441],
    };
    const I386: Self = Self {
        without: 0,
        reads: &[3, 145, 180, 313, 333, 378],
        send_files: &[187, 239],
        polls: &[168, 309, 414],
        selects: &[142, 308, 413],
        old_selects: &[82],
        epoll_waits: &[256, 319, 441],
    };
    /// Those of architectures that came late: arm64 and riscv64.
    const GENERIC: Self = Self {
        without: 0,
        reads: &[63, 65, 67, 69, 76, 286],
        send_files: &[71],
        polls: &[73, 414],
        selects: &[72, 413],
        old_selects: &[],
        epoll_waits: &[22, 441],
    };
    const ARM: Self = Self {
        without: 0,
        reads: &[3, 145, 180, 340, 361, 392],
        send_files: &[187, 239],
        polls: &[168, 336, 414],
        selects: &[142, 335, 413],
        old_selects: &[],
        epoll_waits: &[252, 346, 441],
    };

    /// Those of this machine; `None` on architectures that are not listed here.
    const NATIVE: Option<&Self> = if cfg!(target_arch = "x86_64") {
        Some(&Self::X86_64)
    } else if cfg!(any(target_arch = "aarch64", target_arch = "riscv64")) {
        Some(&Self::GENERIC)
    } else {
        None
    };

    /// Those of programs for 32 bits on this machine.
    const NATIVE_32: Option<&Self> = if cfg!(target_arch = "x86_64") {
        Some(&Self::I386)
    } else if cfg!(target_arch = "aarch64") {
        Some(&Self::ARM)
    } else {
        Self::NATIVE
    };

    fn call(&self, number: i64) -> Call {
        let number = number & !self.without;
        let calls = [
            (self.reads, Call::Read),
            (self.send_files, Call::SendFile),
            (self.polls, Call::Poll),
            (self.selects, Call::Select),
            (self.old_selects, Call::OldSelect),
            (self.epoll_waits, Call::EpollWait),
            (&[IO_URING_ENTER], Call::RingEnter),
        ];
        let call = calls.iter().find(|(numbers, _)| numbers.contains(&number));
        call.map_or(Call::Other, |(_, call)| *call)
    }
}

/// Whether a thread that reads the terminal does so through io_uring. The kernel does not count the
/// bytes that are read that way.
pub(super) fn reads_by_ring(facts: &impl Facts, thread: u32) -> bool {
    match facts.syscall(thread) {
        Some(line) => line.split(' ').next() == Some("426"),
        None => facts
            .channel(thread)
            .is_some_and(|channel| RINGS.contains(&place_of(&channel))),
    }
}

/// Judges a thread that waits for its rings of io_uring. The kernel shows which operations wait until
/// their file is ready, but not which file that is.
fn by_rings(facts: &impl Facts, tty: &Path) -> TtyUse {
    // IORING_OP_READV, READ_FIXED, POLL_ADD, READ and READ_MULTISHOT.
    const INPUT: &[u64] = &[1, 4, 6, 22, 49];
    let Some(files) = facts.files() else {
        return TtyUse::Unknown;
    };
    let is_ring = |target: &Path| target == Path::new("anon_inode:[io_uring]");
    let rings = files.iter().filter(|(_, target)| is_ring(target));
    let mut operations =
        rings.flat_map(|(ring, _)| facts.awaited_operations(*ring).unwrap_or_default());
    if !files.iter().any(|(_, target)| is_terminal(target, tty))
        || !operations.any(|operation| INPUT.contains(&operation))
    {
        return TtyUse::Elsewhere;
    }
    let others = files.iter().any(|(_, target)| {
        let name = target.to_str().unwrap_or_default();
        is_other_terminal(target, tty)
            || is_socket(target)
            || name.starts_with("pipe:")
            || (name.starts_with("anon_inode:") && !is_ring(target))
    });
    reads_unless(others)
}

/// Returns what a thread does that reads the terminal, unless that is one of several open files.
fn reads_unless(one_of_several: bool) -> TtyUse {
    match one_of_several {
        true => TtyUse::Polling,
        false => TtyUse::Reading,
    }
}

/// Kernel functions in which a thread sleeps only while it reads a terminal.
const TERMINAL_READS: &[&str] = &["n_tty_read", "tty_read"];

/// Kernel functions in which a thread sleeps while it reads a terminal, a socket or some other
/// device, or writes to a terminal whose output is not read fast enough. Kernels differ in whether
/// they report this function or its caller.
const DEVICE_READS: &[&str] = &["wait_woken"];

/// Kernel functions in which a thread sleeps while it waits for one of several files.
const POLLS: &[&str] = &[
    "poll_schedule_timeout",
    "do_poll",
    "do_sys_poll",
    "do_select",
    "core_sys_select",
    "do_pselect",
];

/// The same, for files registered beforehand.
const EPOLLS: &[&str] = &["ep_poll", "do_epoll_wait", "do_epoll_pwait"];

/// Kernel functions in which a thread sleeps while it waits for requests to a ring of io_uring.
const RINGS: &[&str] = &[
    "io_cqring_wait",
    "io_cqring_wait_schedule",
    "io_cqring_schedule_timeout",
    "__do_sys_io_uring_enter",
];

/// Kernel functions in which a thread waits neither for a terminal nor for one of several files.
const ELSEWHERE: &[&str] = &[
    "hrtimer_nanosleep",
    "do_nanosleep",
    "common_nsleep",
    "do_wait",
    "do_waitid",
    "kernel_wait4",
    "kernel_waitid",
    "futex_wait_queue",
    "futex_wait_queue_me",
    "futex_do_wait",
    "futex_wait",
    "do_futex",
    "pipe_read",
    "pipe_wait_readable",
    "anon_pipe_read",
    "pipe_write",
    "anon_pipe_write",
    "pipe_wait_writable",
    "wait_for_partner",
    "fifo_open",
    "sigsuspend",
    "do_sigtimedwait",
    "do_signal_stop",
    "do_pause",
    "__do_sys_pause",
    "inet_csk_accept",
    "unix_stream_read_generic",
    "unix_stream_data_wait",
    "skb_wait_for_more_packets",
    "__skb_wait_for_more_packets",
    "sk_wait_data",
    "io_schedule",
    "folio_wait_bit_common",
    "inotify_read",
    "eventfd_read",
    "signalfd_dequeue",
    "timerfd_read",
    "locks_lock_inode_wait",
    "flock_lock_inode_wait",
];

/// Judges by the kernel function that the thread sleeps in and by its open files, where the call is
/// hidden.
fn by_channel(facts: &impl Facts, thread: u32, tty: &Path, takes_keys: bool) -> TtyUse {
    let is_hidden = |channel: &String| matches!(channel.trim(), "" | "0");
    let mut channel = facts.channel(thread);
    if channel.as_ref().is_none_or(is_hidden) {
        match facts.state(thread) {
            // A thread that reads or polls a terminal sleeps; it may have fallen asleep just now.
            Some('S') => channel = facts.channel(thread),
            Some(_) | None => return TtyUse::Elsewhere,
        }
    }
    let Some(channel) = channel.filter(|channel| !is_hidden(channel)) else {
        return TtyUse::Unknown;
    };
    let place = place_of(&channel);
    let is_among = |places: &[&str]| places.contains(&place);
    if is_among(ELSEWHERE) {
        return TtyUse::Elsewhere;
    }
    if is_among(RINGS) {
        return by_rings(facts, tty);
    }
    let reads_device = is_among(DEVICE_READS);
    let is_known = reads_device || is_among(TERMINAL_READS) || is_among(POLLS) || is_among(EPOLLS);
    if !is_known {
        // In a function not listed here, a thread that waits for input still sleeps.
        return match facts.state(thread) {
            Some('S') => TtyUse::Unknown,
            Some(_) | None => TtyUse::Elsewhere,
        };
    }
    let Some(files) = facts.files() else {
        return TtyUse::Unknown;
    };
    if !files.iter().any(|(_, target)| is_terminal(target, tty)) {
        return TtyUse::Elsewhere;
    }
    if is_among(POLLS) {
        // A program that asks for a line rarely waits for a child's output at the same time.
        return if !takes_keys && facts.has_output_of_child() {
            TtyUse::Elsewhere
        } else {
            TtyUse::Polling
        };
    }
    if is_among(EPOLLS) {
        let mut epolls = files.iter().filter(|(_, target)| is_epoll(target));
        return match epolls.any(|(number, _)| epoll_has_terminal(facts, *number, tty)) {
            true => TtyUse::Polling,
            false => TtyUse::Elsewhere,
        };
    }
    if reads_device && facts.may_write(thread) {
        return TtyUse::Elsewhere;
    }
    // It may be reading another open file.
    let others = files.iter().any(|(_, target)| {
        is_other_terminal(target, tty) || (reads_device && may_wait_as_terminals_do(target))
    });
    reads_unless(others)
}

/// Returns the kernel function of a channel. Compilers add suffixes:
/// `poll_schedule_timeout.constprop.0`.
fn place_of(channel: &str) -> &str {
    channel.trim().split('.').next().unwrap_or_default()
}

/// Returns the files that a `poll` waits to read from, given the address and the number of its
/// entries; `None` where the list cannot be read.
fn polled(facts: &impl Facts, address: u64, number: u64) -> Option<Vec<u64>> {
    // `struct pollfd`: the file's number (4 bytes, negative for none), what is awaited (2 bytes,
    // of which POLLIN is 1 and POLLRDNORM is 0x40), and the result (2 bytes).
    const ENTRY_BYTES: usize = 8;
    const READABLE: u8 = 0x41;
    if number == 0 {
        return Some(Vec::new());
    }
    let number = usize::try_from(number).ok().filter(|n| *n <= MOST_FILES)?;
    let list = facts.memory(address, number * ENTRY_BYTES)?;
    let (entries, _) = list.as_chunks::<ENTRY_BYTES>();
    let awaited = entries.iter().filter(|entry| entry[4] & READABLE != 0);
    let numbers =
        awaited.map(|[a, b, c, d, ..]| u64::try_from(i32::from_le_bytes([*a, *b, *c, *d])));
    Some(numbers.flatten().collect())
}

/// Returns the files that a `select` waits to read from, given the number after the highest one and
/// the address of the bits; `None` where the bits cannot be read.
fn selected(facts: &impl Facts, number: u64, address: u64) -> Option<Vec<u64>> {
    // `FD_SETSIZE`.
    const MOST: u64 = 1024;
    if number == 0 || address == 0 {
        return Some(Vec::new());
    }
    let number = (number <= MOST).then_some(number)?;
    let bits = facts.memory(address, usize::try_from(number.div_ceil(8)).ok()?)?;
    let is_set = |file: &u64| {
        let byte = usize::try_from(file / 8).ok().and_then(|at| bits.get(at));
        byte.is_some_and(|byte| byte >> (file % 8) & 1 == 1)
    };
    Some((0..number).filter(is_set).collect())
}

/// Returns what a thread does that waits for these files, if one of them is the terminal, or watches it.
/// Where the files are not known, whether the process has the terminal open decides.
fn polls_terminal(facts: &impl Facts, files: Option<Vec<u64>>, tty: &Path) -> Option<TtyUse> {
    let is_watching = |file: u64| {
        facts.file(file).is_some_and(|target| {
            is_terminal(&target, tty) || (is_epoll(&target) && epoll_has_terminal(facts, file, tty))
        })
    };
    let polls = match files {
        Some(files) => files.into_iter().any(is_watching),
        None => has_terminal(facts, tty),
    };
    polls.then_some(TtyUse::Polling)
}

/// Whether a process has the terminal open.
fn has_terminal(facts: &impl Facts, tty: &Path) -> bool {
    if file_is_terminal(facts, 0, tty) {
        return true;
    }
    let files = facts.files().unwrap_or_default();
    files.iter().any(|(_, target)| is_terminal(target, tty))
}

fn epoll_has_terminal(facts: &impl Facts, epoll: u64, tty: &Path) -> bool {
    match facts.watched(epoll) {
        Some(watched) => watched
            .into_iter()
            .any(|file| file_is_terminal(facts, file, tty)),
        None => has_terminal(facts, tty),
    }
}

fn file_is_terminal(facts: &impl Facts, file: u64, tty: &Path) -> bool {
    facts
        .file(file)
        .is_some_and(|target| is_terminal(&target, tty))
}

pub(super) fn is_terminal(target: &Path, tty: &Path) -> bool {
    target == tty || target == Path::new("/dev/tty")
}

fn is_epoll(target: &Path) -> bool {
    target == Path::new("anon_inode:[eventpoll]")
}

fn is_other_terminal(target: &Path, tty: &Path) -> bool {
    is_master(target) || (target.starts_with("/dev/pts") && target != tty)
}

/// Whether a file is the master side of a terminal.
pub(super) fn is_master(target: &Path) -> bool {
    target == Path::new("/dev/ptmx") || target == Path::new("/dev/pts/ptmx")
}

/// Whether a file is a socket.
pub(super) fn is_socket(target: &Path) -> bool {
    target
        .to_str()
        .is_some_and(|name| name.starts_with("socket:"))
}

/// Whether a thread that reads this file sleeps in the same kernel function as one that reads a
/// terminal.
fn may_wait_as_terminals_do(target: &Path) -> bool {
    is_socket(target)
        || target == Path::new("anon_inode:inotify")
        || target == Path::new("/dev/net/tun")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    /// A recorded thread, and what it does with `/dev/pts/7`.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct ThreadRow {
        program: String,
        syscall: Option<String>,
        channel: String,
        state: char,
        files: Option<BTreeMap<u64, PathBuf>>,
        watched: BTreeMap<u64, Vec<u64>>,
        /// What is at the address in the call, as pairs of hexadecimal digits.
        memory: Option<String>,
        /// The operations for which a ring of io_uring waits.
        operations: BTreeMap<u64, Vec<u64>>,
        is_32_bit: bool,
        /// Whether a child can write to one of its pipes, or has its terminal from it.
        has_child_output: bool,
        takes_keys: bool,
        /// Whether it may be blocked writing to the terminal.
        may_write: bool,
        expect: String,
        /// The result where the call is hidden, if it differs.
        hidden: Option<String>,
    }

    /// The recorded thread, with or without its call.
    struct RecordedThread<'a> {
        row: &'a ThreadRow,
        has_syscall: bool,
    }

    impl Facts for RecordedThread<'_> {
        fn syscall(&self, _thread: u32) -> Option<String> {
            self.row.syscall.clone().filter(|_| self.has_syscall)
        }

        fn channel(&self, _thread: u32) -> Option<String> {
            Some(self.row.channel.clone())
        }

        fn state(&self, _thread: u32) -> Option<char> {
            Some(self.row.state)
        }

        fn file(&self, number: u64) -> Option<PathBuf> {
            self.row.files.as_ref()?.get(&number).cloned()
        }

        fn files(&self) -> Option<Vec<(u64, PathBuf)>> {
            let files = self.row.files.as_ref()?;
            Some(files.iter().map(|(n, path)| (*n, path.clone())).collect())
        }

        fn watched(&self, epoll: u64) -> Option<Vec<u64>> {
            self.row.watched.get(&epoll).cloned()
        }

        fn awaited_operations(&self, ring: u64) -> Option<Vec<u64>> {
            self.row.operations.get(&ring).cloned()
        }

        fn is_32_bit(&self) -> bool {
            self.row.is_32_bit
        }

        fn memory(&self, _address: u64, bytes: usize) -> Option<Vec<u8>> {
            let digits = self.row.memory.as_ref()?.as_bytes().chunks(2);
            let text = digits.map(|pair| std::str::from_utf8(pair).expect("digits"));
            let memory = text.map(|pair| u8::from_str_radix(pair, 16).expect("two digits"));
            memory.collect::<Vec<u8>>().get(..bytes).map(<[u8]>::to_vec)
        }

        fn may_write(&self, _thread: u32) -> bool {
            self.row.may_write
        }

        fn has_output_of_child(&self) -> bool {
            self.row.has_child_output
        }
    }

    fn rows() -> Vec<ThreadRow> {
        let lines = include_str!("../../tests/fixtures/kernel/threads.jsonl").lines();
        let rows = lines.map(|line| serde_json::from_str(line).expect("every line is a thread"));
        rows.collect()
    }

    #[track_caller]
    fn check(row: &ThreadRow, has_syscall: bool, expected: &str) {
        let (thread, tty) = (RecordedThread { row, has_syscall }, Path::new("/dev/pts/7"));
        let does = does(&thread, 1, tty, row.takes_keys).to_string();
        assert_eq!(does, expected, "syscall shown: {has_syscall}, {row:?}");
    }

    /// The call numbers are those of x86-64.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn the_blocking_call_shows_the_use_of_the_terminal() {
        let mut shown = rows();
        shown.retain(|row| row.syscall.is_some());
        assert!(shown.len() >= 15, "{}", shown.len());
        for row in &shown {
            check(row, true, &row.expect);
        }
    }

    #[test]
    fn every_instruction_set_has_its_own_numbers() {
        let x86_64 = CallNumbers::X86_64;
        let (generic, arm) = (CallNumbers::GENERIC, CallNumbers::ARM);
        let all = [&x86_64, &CallNumbers::I386, &generic, &arm];
        for (numbers, calls) in all.into_iter().zip([
            "Read 0 19, Poll 7, Select 23, SendFile 40, EpollWait 232, Other 3 63",
            "Read 3, OldSelect 82, Select 142, Poll 168 414, SendFile 187, EpollWait 256, Other 0 7",
            "Read 63, EpollWait 22, Poll 73, Other 3",
            "Read 3, EpollWait 252, Poll 336, Other 63",
        ]) {
            let calls = format!("{calls}, RingEnter 426, Other -1");
            for of_call in calls.split(", ") {
                let (call, of_call) = of_call.split_once(' ').unwrap();
                for number in of_call.split(' ') {
                    let found = numbers.call(number.parse().unwrap());
                    assert_eq!(format!("{found:?}"), call, "{number} of {numbers:?}");
                }
            }
        }
        // x32
        assert_eq!(x86_64.call(0x4000_0000), Call::Read);
        assert_eq!(x86_64.call(0x4000_0203), Call::Read);
    }

    #[test]
    fn the_sleep_function_shows_the_same_where_the_call_is_hidden() {
        let rows = rows();
        for row in &rows {
            let expected = row.hidden.as_ref().unwrap_or(&row.expect);
            check(row, false, expected);
        }
        let differ = rows.iter().filter(|row| row.hidden.is_some()).count();
        assert!(differ * 3 <= rows.len(), "{differ} of {}", rows.len());
        assert!(rows.iter().all(|row| !row.program.is_empty()));
    }
}

//! What the kernel knows of a pane's terminal: its modes, and what the programs in its foreground
//! are blocked in.
//!
//! Linux tells by `/proc`, of other users' programs only a part; elsewhere only the modes are
//! known. Nothing is run and nothing is written.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, tcgetattr};

use super::stillness::Stillness;
use crate::model::TtyEvidence;
#[cfg(target_os = "linux")]
use crate::model::{Foreground, Reader};

/// What was found out about a terminal.
#[derive(Debug)]
pub struct Asked {
    /// What is known; `None` when that is nothing.
    pub evidence: Option<Arc<TtyEvidence>>,
    /// Whether it still holds, as far as that depends on the programs.
    pub stillness: Stillness,
}

/// Returns what is known of the terminal `tty`, in which tmux started `pid`; `None` when that is
/// nothing.
#[must_use]
pub fn terminal(pid: u32, tty: &Path) -> Option<TtyEvidence> {
    ask(pid, tty).evidence.map(Arc::unwrap_or_clone)
}

/// The same, with what tells cheaply whether it may have changed.
#[must_use]
pub fn ask(pid: u32, tty: &Path) -> Asked {
    // Before everything else: what happens meanwhile is a change then.
    let (foreground, stillness) = foreground(pid, tty);
    let modes = modes(tty);
    let evidence = TtyEvidence {
        echo: modes.map(|modes| modes.contains(LocalModes::ECHO)),
        canonical: modes.map(|modes| modes.contains(LocalModes::ICANON)),
        ..foreground
    };
    Asked {
        evidence: (evidence != TtyEvidence::default()).then(|| Arc::new(evidence)),
        stillness,
    }
}

fn modes(tty: &Path) -> Option<LocalModes> {
    // It must not become our terminal, and a hang-up must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(tty, flags, Mode::empty()).ok()?;
    Some(tcgetattr(&file).ok()?.local_modes)
}

#[cfg(not(target_os = "linux"))]
fn foreground(_pid: u32, _tty: &Path) -> (TtyEvidence, Stillness) {
    (TtyEvidence::default(), Stillness::default())
}

#[cfg(target_os = "linux")]
fn foreground(pid: u32, tty: &Path) -> (TtyEvidence, Stillness) {
    let (processes, stillness) = system::processes(pid);
    let group = system::foreground_group(pid);
    let members: Vec<system::Process> = processes
        .into_iter()
        .filter(|process| group.is_some() && process.group == group)
        .collect();
    if members.is_empty() {
        return (TtyEvidence::default(), stillness);
    }
    (of_members(&members, tty), stillness)
}

#[cfg(target_os = "linux")]
fn of_members(members: &[system::Process], tty: &Path) -> TtyEvidence {
    let mut reader = Reader::Elsewhere;
    let mut is_idle = false;
    let mut programs: Vec<String> = Vec::new();
    for member in members {
        let does = system::does(member, tty);
        let waits = matches!(does, Reader::Reading | Reader::Polling);
        // One that reads outweighs those that do anything else, and a secret kept is no answer.
        reader = match (reader, does) {
            (Reader::Reading, _) | (_, Reader::Reading) => Reader::Reading,
            (Reader::Polling, _) | (_, Reader::Polling) => Reader::Polling,
            (Reader::Unknown, _) | (_, Reader::Unknown) => Reader::Unknown,
            (Reader::Elsewhere, Reader::Elsewhere) => Reader::Elsewhere,
        };
        is_idle |= waits && system::was_given_nothing(member);
        if !programs.contains(&member.name) {
            programs.push(member.name.clone());
        }
    }
    TtyEvidence {
        reader,
        foreground: if is_idle {
            Foreground::Idle
        } else {
            Foreground::Command
        },
        programs,
        ..TtyEvidence::default()
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::fs;
    use std::path::Path;

    use super::super::stat;
    use super::super::stillness::Stillness;
    use crate::model::{Reader, text};

    /// More processes than this are not looked at: a build may have thousands.
    const MOST_PROCESSES: usize = 64;

    /// More threads of one process than this are not looked at.
    const MOST_THREADS: usize = 256;

    /// Open files beyond these are not searched for the terminal.
    const MOST_FILES: usize = 64;

    /// The longest name of a program that is kept.
    const NAME_CHARS: usize = 64;

    /// A process that tmux started in a pane, or a descendant.
    #[derive(Debug)]
    pub(super) struct Process {
        pub(super) pid: u32,
        pub(super) name: String,
        pub(super) group: Option<u32>,
        threads: Vec<u32>,
    }

    /// Returns the group that has the terminal of this process.
    pub(super) fn foreground_group(pid: u32) -> Option<u32> {
        // Field 8; -1 without a terminal.
        stat(pid)?.field(8)?.parse().ok()
    }

    /// Returns this process and its descendants, by pid, those that have ended left out; and what
    /// tells whether they have run since.
    pub(super) fn processes(pid: u32) -> (Vec<Process>, Stillness) {
        let mut processes = Vec::new();
        let mut stillness = Stillness::default();
        let mut waiting = vec![pid];
        let mut n_seen = 0;
        while let Some(pid) = waiting.pop() {
            n_seen += 1;
            if n_seen > MOST_PROCESSES {
                stillness.miss();
                break;
            }
            // Counted first: what they do from here on shows.
            let threads = threads(pid);
            for thread in &threads {
                stillness.count(pid, *thread);
            }
            let Some(stat) = stat(pid) else {
                stillness.miss();
                continue;
            };
            // One that was made while they were counted is not among them.
            if stat.field(20).and_then(|field| field.parse().ok()) != Some(threads.len()) {
                stillness.miss();
            }
            waiting.extend(children(pid, &threads));
            if stat.field(3) != Some("Z") {
                processes.push(Process {
                    pid,
                    name: text::one_line(stat.name().as_bytes(), NAME_CHARS),
                    group: stat.field(5).and_then(|field| field.parse().ok()),
                    threads,
                });
            }
        }
        processes.sort_by_key(|process| process.pid);
        (processes, stillness)
    }

    fn children(pid: u32, threads: &[u32]) -> Vec<u32> {
        let mut found = Vec::new();
        for thread in threads {
            let path = format!("/proc/{pid}/task/{thread}/children");
            let Ok(text) = fs::read_to_string(path) else {
                continue;
            };
            found.extend(
                text.split_ascii_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            );
        }
        found
    }

    fn threads(pid: u32) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
            return Vec::new();
        };
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .take(MOST_THREADS)
            .collect()
    }

    /// Returns what the threads of a process do with the terminal.
    pub(super) fn does(process: &Process, tty: &Path) -> Reader {
        let mut sum = Reader::Elsewhere;
        for thread in &process.threads {
            match thread_does(process.pid, *thread, tty) {
                Reader::Reading => return Reader::Reading,
                Reader::Polling => sum = Reader::Polling,
                Reader::Unknown if sum == Reader::Elsewhere => sum = Reader::Unknown,
                Reader::Unknown | Reader::Elsewhere => {}
            }
        }
        if process.threads.is_empty() {
            Reader::Unknown
        } else {
            sum
        }
    }

    fn thread_does(pid: u32, thread: u32, tty: &Path) -> Reader {
        let Ok(line) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")) else {
            return by_channel(pid, thread);
        };
        let mut words = line.split_ascii_whitespace();
        // `running`, or -1 for a thread that is blocked in no system call.
        let Some(Ok(number)) = words.next().map(str::parse::<i64>) else {
            return Reader::Elsewhere;
        };
        let arguments: Vec<u64> = words
            .map_while(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok())
            .collect();
        let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
        let Some(call) = Call::of(number) else {
            return Reader::Unknown;
        };
        match call {
            Call::Read if is_terminal(pid, argument(0), tty) => Reader::Reading,
            Call::Read | Call::Other => Reader::Elsewhere,
            Call::Poll { n_files } if argument(n_files) == 0 => Reader::Elsewhere,
            Call::Poll { .. } if has_terminal(pid, tty) => Reader::Polling,
            Call::Poll { .. } => Reader::Elsewhere,
            Call::EpollWait if epoll_has_terminal(pid, argument(0), tty) => Reader::Polling,
            Call::EpollWait => Reader::Elsewhere,
        }
    }

    /// The system hides what the thread is blocked in, but perhaps not where in the kernel: a
    /// terminal's reader waits there, though not only a terminal's.
    fn by_channel(pid: u32, thread: u32) -> Reader {
        let channel = fs::read_to_string(format!("/proc/{pid}/task/{thread}/wchan"));
        match channel.as_deref() {
            Ok("wait_woken" | "n_tty_read") => Reader::Polling,
            Ok("hrtimer_nanosleep" | "do_wait" | "futex_wait_queue" | "futex_do_wait") => {
                Reader::Elsewhere
            }
            Ok(_) | Err(_) => Reader::Unknown,
        }
    }

    /// The system calls that matter.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Call {
        Read,
        /// `n_files` is which argument counts the files.
        Poll {
            n_files: usize,
        },
        EpollWait,
        Other,
    }

    impl Call {
        /// Returns the call with this number; `None` on processors whose numbers are not known here.
        #[cfg(target_arch = "x86_64")]
        fn of(number: i64) -> Option<Self> {
            Some(match number {
                0 | 17 | 19 => Self::Read,
                23 | 270 => Self::Poll { n_files: 0 },
                7 | 271 => Self::Poll { n_files: 1 },
                232 | 281 | 441 => Self::EpollWait,
                _ => Self::Other,
            })
        }

        #[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
        fn of(number: i64) -> Option<Self> {
            Some(match number {
                63 | 65 | 67 => Self::Read,
                72 => Self::Poll { n_files: 0 },
                73 => Self::Poll { n_files: 1 },
                22 | 441 => Self::EpollWait,
                _ => Self::Other,
            })
        }

        #[cfg(not(any(
            target_arch = "x86_64",
            target_arch = "aarch64",
            target_arch = "riscv64"
        )))]
        fn of(_number: i64) -> Option<Self> {
            None
        }
    }

    fn is_terminal(pid: u32, file: u64, tty: &Path) -> bool {
        fs::read_link(format!("/proc/{pid}/fd/{file}"))
            .is_ok_and(|target| target == tty || target == Path::new("/dev/tty"))
    }

    /// Whether a process has the terminal open; which files it polls cannot be seen.
    fn has_terminal(pid: u32, tty: &Path) -> bool {
        if is_terminal(pid, 0, tty) {
            return true;
        }
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else {
            return false;
        };
        entries
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .take(MOST_FILES)
            .any(|target| target == tty || target == Path::new("/dev/tty"))
    }

    fn epoll_has_terminal(pid: u32, epoll: u64, tty: &Path) -> bool {
        let Ok(info) = fs::read_to_string(format!("/proc/{pid}/fdinfo/{epoll}")) else {
            return has_terminal(pid, tty);
        };
        info.lines()
            .filter_map(|line| line.strip_prefix("tfd:"))
            .filter_map(|rest| rest.split_ascii_whitespace().next()?.parse().ok())
            .take(MOST_FILES)
            .any(|file| is_terminal(pid, file, tty))
    }

    const SHELLS: &[&str] = &[
        "bash", "sh", "dash", "zsh", "fish", "ksh", "ksh93", "mksh", "ash", "busybox", "csh",
        "tcsh", "nu", "elvish", "xonsh", "pwsh", "rbash",
    ];

    const INTERPRETERS: &[&str] = &[
        "python", "ipython", "bpython", "node", "deno", "bun", "ruby", "irb", "pry", "php", "lua",
        "luajit", "ghci", "R", "julia", "octave", "scala", "jshell", "iex", "erl", "bc", "dc",
        "ocaml", "utop", "sbcl", "guile", "racket",
    ];

    /// Whether a shell or an interpreter was started to take commands from a person: without a
    /// script, a command or a module to run.
    pub(super) fn was_given_nothing(member: &Process) -> bool {
        let bare = member
            .name
            .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let is_shell = SHELLS.contains(&bare) || SHELLS.contains(&member.name.as_str());
        if !is_shell && !INTERPRETERS.contains(&bare) {
            return false;
        }
        let Ok(line) = fs::read(format!("/proc/{}/cmdline", member.pid)) else {
            return false;
        };
        let mut words = line
            .split(|byte| *byte == 0)
            .skip(1)
            .filter(|word| !word.is_empty());
        // `busybox sh` and the like name the shell again.
        words.all(|word| is_plain_option(word) || SHELLS.iter().any(|s| s.as_bytes() == word))
    }

    /// Whether an option neither is nor takes something to run.
    fn is_plain_option(word: &[u8]) -> bool {
        match word.strip_prefix(b"-") {
            None => false,
            Some(long) if long.starts_with(b"-") => {
                !long.starts_with(b"-eval") && !long.starts_with(b"-print") && long != b"-command"
            }
            Some(short) => !short.iter().any(|letter| b"cemrp".contains(letter)),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn options_that_bring_something_to_run_are_known() {
            for word in ["-i", "-l", "--login", "--norc", "-il"] {
                assert!(is_plain_option(word.as_bytes()), "{word}");
            }
            for word in ["-c", "-lc", "-e", "-m", "script.sh", "--eval=1"] {
                assert!(!is_plain_option(word.as_bytes()), "{word}");
            }
        }
    }
}

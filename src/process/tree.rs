//! The processes of a pane, and which of them are in its foreground.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::cpu_activity::CpuActivity;
use super::stat::{self, thread_state};
use crate::model::Ordered as _;
use crate::model::programs::{CommandReader, command_reader, without_version};

/// The maximum number of processes that are examined: a build may have thousands.
const MOST_PROCESSES: usize = 64;

/// The maximum number of threads of one process that are examined.
const MOST_THREADS: usize = 256;

/// A process that tmux started in a pane, or a descendant.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// A thread whose open files and memory can be read: the main thread, unless that has ended.
    pub(super) thread: u32,
    pub(super) name: String,
    pub(super) threads: Vec<u32>,
    /// The signal that has stopped it, 0 where the kernel does not say or its parent was told
    /// already; `None` where it is not stopped.
    pub(super) stopped_by: Option<u32>,
    pub(super) parent: Option<u32>,
    group: Option<u32>,
    /// The number of its terminal in the kernel; 0 for none.
    terminal: u32,
    /// The foreground process group of that terminal.
    foreground: Option<u32>,
}

impl Process {
    /// Whether it is in a session without a terminal. It may have inherited the terminal, and then reads it
    /// like those in the foreground.
    pub(super) fn is_detached(&self) -> bool {
        self.terminal == 0
    }
}

/// The foreground of a pane or of a terminal behind it.
#[derive(Debug)]
pub(super) struct ForegroundGroup {
    /// The terminal of its programs: the pane's, or one that a program such as `script` has opened
    /// behind it.
    pub(super) tty: PathBuf,
    /// Its programs, by pid; never empty.
    pub(super) members: Vec<Process>,
    /// The pids of those that have started a program in another terminal.
    pub(super) hosts: BTreeSet<u32>,
    /// Programs behind them that are in no terminal's foreground.
    pub(super) others: Vec<Process>,
    /// The pids of stopped ones whose parents are in other groups, as a job's parent is the shell with
    /// job control.
    pub(super) jobs: BTreeSet<u32>,
}

/// A program that has started one in another terminal, and no wrapper.
#[derive(Debug)]
pub(super) struct Host<'a> {
    pub(super) process: &'a Process,
    /// Its own terminal.
    pub(super) tty: &'a Path,
    /// The pid of the program that it has started.
    pub(super) child: u32,
    /// The terminal of that program.
    pub(super) inner: &'a Path,
}

/// Programs that run another program for their caller, in a terminal of its own or without one, and
/// show its output. The servers of `screen`, `dtach` and `abduco`, which have no terminal, are
/// children of the clients that have started them.
const WRAPPERS: &[&str] = &[
    "script",
    "su",
    "runuser",
    "sudo",
    "doas",
    "unbuffer",
    "pkexec",
    "asciinema",
    "ttyrec",
    "screen",
    "dtach",
    "abduco",
];

/// The maximum number of nested wrappers that are followed.
const MOST_WRAPPERS: usize = 4;

/// Returns the foreground of the pane in which tmux started `pid`; `None` where that is not known.
///
/// `relays` is whether a host passes on everything that is typed in its terminal to its child.
pub(super) fn in_front(
    processes: Vec<Process>,
    pid: u32,
    tty: &Path,
    relays: impl Fn(&Host<'_>) -> bool,
) -> Option<ForegroundGroup> {
    let own = processes.iter().find(|process| process.pid == pid)?;
    let mut terminal = own.terminal;
    let mut group = own.foreground?;
    let mut tty = tty.to_path_buf();
    for _ in 0..MOST_WRAPPERS {
        let Some(behind) = behind(&processes, group, terminal, &tty, &relays) else {
            break;
        };
        (tty, terminal, group) = behind;
    }
    let is_in_group = |process: &Process| process.group == Some(group);
    let wrappers = processes
        .iter()
        .filter(|process| is_in_group(process) && is_wrapper(process));
    let below = wrappers.flat_map(|wrapper| descendants(&processes, wrapper.pid, terminal));
    let without = below.filter(|process| process.is_detached());
    let without = without.map(|process| process.pid).into_set();
    let elsewhere = |process: &&Process| !process.is_detached() && process.terminal != terminal;
    let elsewhere = processes.iter().filter(elsewhere);
    let hosts = elsewhere.filter_map(|process| process.parent).into_set();
    let is_job = |process: &Process| {
        let mut parents = processes.iter();
        let parent = parents.find(|parent| Some(parent.pid) == process.parent);
        parent.is_none_or(|parent| parent.group != process.group)
    };
    let jobs = processes.iter();
    let jobs = jobs.filter(|process| process.stopped_by.is_some() && is_job(process));
    let jobs = jobs.map(|process| process.pid).into_set();
    // A process without a terminal of its own may read its wrapper's, foreground or not.
    let (members, mut others): (Vec<Process>, Vec<Process>) = processes
        .into_iter()
        .partition(|process| is_in_group(process) || without.contains(&process.pid));
    others.retain(|process| {
        process.is_detached() || (process.terminal == terminal && process.stopped_by.is_some())
    });
    let has_stopped = others.iter().any(|other| !other.is_detached());
    (!members.is_empty() || has_stopped).then_some(ForegroundGroup {
        tty,
        members,
        hosts,
        others,
        jobs,
    })
}

/// Returns the terminal in which a wrapper or a relay of this group runs its program, and that
/// terminal's foreground group; `None` without one, or where it has several terminals.
fn behind(
    processes: &[Process],
    group: u32,
    terminal: u32,
    tty: &Path,
    relays: impl Fn(&Host<'_>) -> bool,
) -> Option<(PathBuf, u32, u32)> {
    let mut members = processes.iter();
    members.find_map(|member| {
        (member.group == Some(group)).then_some(())?;
        let below = descendants(processes, member.pid, terminal).into_iter();
        let mut inner =
            below.filter(|process| !process.is_detached() && process.terminal != terminal);
        let first = inner.next()?;
        let is_same = |other: &Process| {
            (other.terminal, other.foreground) == (first.terminal, first.foreground)
        };
        let group = first.foreground.filter(|_| inner.all(is_same))?;
        let is_known = processes.iter().any(|process| process.group == Some(group));
        let path = path_of(first.terminal).filter(|_| is_known)?;
        let host = Host {
            process: member,
            tty,
            child: first.pid,
            inner: &path,
        };
        let is_passed_on =
            is_wrapper(member) || (first.parent == Some(member.pid) && relays(&host));
        is_passed_on.then_some((path, first.terminal, group))
    })
}

fn is_wrapper(process: &Process) -> bool {
    WRAPPERS.contains(&process.name.as_str())
}

/// Returns the descendants of a process, except those below one with another terminal.
fn descendants(processes: &[Process], pid: u32, terminal: u32) -> Vec<&Process> {
    let mut found: Vec<&Process> = Vec::new();
    let mut waiting = vec![pid];
    while let Some(pid) = waiting.pop() {
        for child in processes.iter().filter(|child| child.parent == Some(pid)) {
            if !found.iter().any(|known| known.pid == child.pid) {
                found.push(child);
                if child.is_detached() || child.terminal == terminal {
                    waiting.push(child.pid);
                }
            }
        }
    }
    found
}

/// Returns the path of a terminal by its number in the kernel. Only terminals of emulators have one
/// here.
fn path_of(terminal: u32) -> Option<PathBuf> {
    let major = terminal >> 8 & 0xfff;
    let minor = terminal & 0xff | terminal >> 12 & 0xfff00;
    let is_of_emulator = (136..=143).contains(&major);
    is_of_emulator.then(|| PathBuf::from(format!("/dev/pts/{minor}")))
}

/// Returns this process and its descendants, by pid, without those that have ended; and whether
/// they run from now on.
pub(super) fn processes(pid: u32) -> (Vec<Process>, CpuActivity) {
    let mut processes = Vec::new();
    let mut activity = CpuActivity::default();
    let mut waiting = vec![pid];
    let mut n_seen = 0;
    while let Some(pid) = waiting.pop() {
        n_seen += 1;
        if n_seen > MOST_PROCESSES {
            activity.miss();
            break;
        }
        // Counted first, so that everything they do from here on is noticed.
        activity.count(pid);
        let mut threads = threads(pid);
        let Some(stat) = stat::read(pid) else {
            activity.miss();
            continue;
        };
        // A thread that was created while they were counted is not included.
        if stat.number(20) != Some(threads.len()) {
            activity.miss();
        }
        waiting.extend(children(pid, &threads));
        let mut thread = pid;
        let mut state = stat.field(3).and_then(|state| state.chars().next());
        if state == Some('Z') {
            // Its main thread has ended, which others may survive.
            threads.retain(|thread| *thread != pid);
            let Some(other) = threads.first() else {
                continue;
            };
            thread = *other;
            state = thread_state(pid, thread);
        }
        if state != Some('Z') {
            processes.push(Process {
                pid,
                thread,
                // Field 52 has the signal, from its main thread or of the whole process.
                stopped_by: (state == Some('T')).then(|| stat.number(52).unwrap_or(0)),
                name: stat.name(),
                threads,
                parent: stat.number(4),
                group: stat.number(5),
                terminal: stat.number(7).unwrap_or(0),
                // -1 without a terminal.
                foreground: stat.number(8),
            });
        }
    }
    processes.sort_by_key(|process| process.pid);
    (processes, activity)
}

fn children(pid: u32, threads: &[u32]) -> Vec<u32> {
    let of = |thread| fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"));
    let lists = threads.iter().filter_map(|thread| of(thread).ok());
    let pids = |list: String| -> Vec<u32> {
        let pids = list.split_ascii_whitespace();
        pids.filter_map(|pid| pid.parse().ok()).collect()
    };
    lists.flat_map(pids).collect()
}

fn threads(pid: u32) -> Vec<u32> {
    let threads = stat::numbers_in(format!("/proc/{pid}/task"));
    threads.take(MOST_THREADS).collect()
}

/// Whether a shell or an interpreter was started to take commands from a user: without a
/// script, a command or a module to run.
pub(super) fn was_given_nothing(member: &Process) -> bool {
    match command_reader(&member.name) {
        Some(CommandReader::Shell | CommandReader::ShellHost | CommandReader::Interpreter) => {}
        Some(CommandReader::Client) | None => return false,
    }
    let file = |number| fs::read_link(format!("/proc/{}/fd/{number}", member.thread)).ok();
    if is_fed(file) {
        return false;
    }
    let Ok(line) = fs::read(format!("/proc/{}/cmdline", member.thread)) else {
        return false;
    };
    let words = line.split(|byte| *byte == 0).skip(1);
    let words = words.filter(|word| !word.is_empty());
    has_nothing_to_run(words, is_shell(member.name.as_bytes()))
}

/// Whether the words behind a program's name neither are nor take something to run. `of_shell` is
/// whether the program is a shell.
fn has_nothing_to_run<'a>(mut words: impl Iterator<Item = &'a [u8]>, of_shell: bool) -> bool {
    // Options of shells with a word of their own.
    const WITH_WORD: &[&[u8]] = &[b"--rcfile", b"--init-file", b"-o", b"-O"];
    while let Some(word) = words.next() {
        // `busybox sh` and the like repeat the shell's name.
        if !is_plain_option(word) && !is_shell(word) {
            return false;
        }
        if of_shell && WITH_WORD.contains(&word) {
            words.next();
        }
    }
    true
}

/// Whether a program's open files show that a pipe or a file is its standard input, as in
/// `curl URL | sh`: its commands come from there, even while one of them reads `/dev/tty`. For such
/// a command a shell puts `/dev/tty` in the place of its standard input, which it keeps under the
/// next free number from 10.
fn is_fed(file: impl Fn(u32) -> Option<PathBuf>) -> bool {
    const KEPT: std::ops::Range<u32> = 10..16;
    match file(0) {
        Some(input) if input == Path::new("/dev/tty") => {
            KEPT.filter_map(file).any(|target| !is_device(&target))
        }
        Some(input) => !is_device(&input),
        None => false,
    }
}

fn is_device(target: &Path) -> bool {
    target.starts_with("/dev")
}

fn is_shell(word: &[u8]) -> bool {
    let name = std::str::from_utf8(word).unwrap_or_default();
    // A script may be named `sh2`.
    let is_bare = !name.starts_with('-') && without_version(name) == name;
    is_bare && command_reader(name) == Some(CommandReader::Shell)
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
    use crate::model::test_notation::rows;

    /// Reads `PID PARENT GROUP TERMINAL FOREGROUND NAME`s. Terminals are numbers of `/dev/pts`; `-` is none.
    fn tree(rows: &str) -> Vec<Process> {
        let process = |row: &str| {
            let words: Vec<&str> = row.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u32>().ok();
            let pid = number(0).unwrap();
            Process {
                pid,
                thread: pid,
                name: words[5].to_owned(),
                threads: vec![pid],
                stopped_by: None,
                parent: number(1),
                group: number(2),
                terminal: number(3).map_or(0, |number| (136 << 8) + number),
                foreground: number(4),
            }
        };
        rows.split(';').map(process).collect()
    }

    /// Checks which processes are in front of `/dev/pts/7`, and in which terminal.
    #[track_caller]
    fn check_all(table: &str) {
        for [processes, expected] in rows(table) {
            let relays = |host: &Host<'_>| host.process.name == "copies";
            let found = in_front(tree(&processes), 10, Path::new("/dev/pts/7"), relays);
            let found = found.map(|front| {
                let pids = front.members.iter().map(|member| member.pid.to_string());
                format!(
                    "{}: {}",
                    front.tty.display(),
                    pids.collect::<Vec<_>>().join(" ")
                )
            });
            assert_eq!(found.unwrap_or_default(), expected, "{processes}");
        }
    }

    #[test]
    fn the_group_that_has_the_terminal_is_in_front() {
        check_all(
            "10 1 10 7 11 bash; 11 10 11 7 11 make; 12 11 11 7 11 cc | /dev/pts/7: 11 12
             10 1 10 7 11 bash; 13 10 13 7 11 sleep |
             10 1 10 - - bash | ",
        );
    }

    #[test]
    fn a_wrapper_is_looked_through() {
        // One within the other; behind a server without a terminal.
        check_all(
            "10 1 10 7 10 script; 11 10 11 8 12 sh; 12 11 12 8 12 sleep | /dev/pts/8: 12
             10 1 10 7 10 script; 11 10 11 8 11 sudo; 12 11 12 9 12 apt | /dev/pts/9: 12
             10 1 10 7 10 screen; 11 10 11 - - screen; 12 11 12 8 12 sleep | /dev/pts/8: 12",
        );
        // Programs with terminals for several programs display them in their own way.
        check_all(
            "10 1 10 7 10 script; 11 10 11 8 11 sh; 12 10 12 9 12 sh | /dev/pts/7: 10
             10 1 10 7 10 an-agent; 11 10 11 8 11 sh | /dev/pts/7: 10",
        );
        // A relay, whose child's child in another terminal has another host.
        check_all(
            "10 1 10 7 10 copies; 11 10 11 8 11 sleep | /dev/pts/8: 11
             10 1 10 7 10 copies; 11 10 10 7 10 sh; 12 11 12 8 12 sleep | /dev/pts/7: 10 11",
        );
        // What a wrapper runs without a terminal counts; what was sent to the background does not.
        check_all(
            "10 1 10 7 10 su; 11 10 11 - - bash | /dev/pts/7: 10 11
             10 1 10 7 10 bash; 11 10 11 - - daemon | /dev/pts/7: 10",
        );
    }

    #[test]
    fn programs_behind_the_foreground_are_those_that_are_stopped_or_detached() {
        let in_front = |rows, stopped: &[u32]| {
            let mut processes = tree(rows);
            for process in &mut processes {
                process.stopped_by = stopped.contains(&process.pid).then_some(21);
            }
            in_front(processes, 10, Path::new("/dev/pts/7"), |_| false).unwrap()
        };
        let rows = "10 1 10 7 10 bash; 11 10 11 7 10 timeout; 12 11 11 7 10 ssh-keygen;
                    13 10 13 7 10 job; 14 10 14 - - detached; 15 10 15 8 15 elsewhere";
        let front = in_front(rows, &[12, 13]);
        let members: Vec<u32> = front.members.iter().map(|member| member.pid).collect();
        assert_eq!(members, [10]);
        let others = front.others.iter();
        let others = others.map(|other| {
            let is_job = front.jobs.contains(&other.pid);
            (other.pid, other.is_detached(), is_job)
        });
        let expected = [(12, false, false), (13, false, true), (14, true, false)];
        assert_eq!(others.collect::<Vec<_>>(), expected);
        // The foreground is another task's, or its programs have ended.
        let front = in_front("10 1 10 7 11 bash", &[10]);
        assert!(front.members.is_empty());
        assert_eq!(front.others.len(), 1);
    }

    #[test]
    fn a_process_lives_on_without_its_main_thread() {
        const PROGRAM: &str = "import ctypes, threading, time\n\
                               threading.Thread(target=time.sleep, args=(1000,)).start()\n\
                               libc = ctypes.CDLL(None)\n\
                               libc.pthread_exit(None)";
        let child = std::process::Command::new("python3")
            .args(["-c", PROGRAM])
            .spawn();
        let mut child = child.unwrap();
        let start = std::time::Instant::now();
        let of_child = loop {
            let (found, _) = processes(child.id());
            match found.into_iter().next() {
                Some(process) if process.thread != process.pid => break process,
                other => assert!(start.elapsed().as_secs() < 60, "{other:?}"),
            }
        };
        assert_eq!(of_child.threads, [of_child.thread]);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn terminals_have_paths() {
        let paths = [34823, (136 << 8) | (1 << 20) | 5, 1025, 0].map(path_of);
        let expected = [Some("/dev/pts/7"), Some("/dev/pts/261"), None, None];
        assert_eq!(paths, expected.map(|path| path.map(PathBuf::from)));
    }

    #[test]
    fn a_shell_that_is_fed_by_a_pipe_or_a_file_is_known() {
        for (files, expected) in [
            (&[(0, "pipe:[81]"), (1, "/dev/pts/7")][..], true),
            (&[(0, "/home/a/install.sh"), (1, "/dev/pts/7")], true),
            (&[(0, "/dev/tty"), (10, "pipe:[81]")], true),
            // Interactive shells open the terminal once more, and some prompts have pipes.
            (&[(0, "/dev/pts/7"), (10, "/dev/tty")], false),
            (&[(0, "/dev/pts/7"), (12, "pipe:[81]")], false),
            (&[(0, "/dev/tty"), (255, "/dev/tty")], false),
            // Another user's.
            (&[], false),
        ] {
            let file = |number| {
                let target = files.iter().find(|(open, _)| *open == number);
                target.map(|(_, target)| PathBuf::from(target))
            };
            assert_eq!(is_fed(file), expected, "{files:?}");
        }
    }

    #[test]
    fn a_shell_with_nothing_to_run_is_idle() {
        for (line, is_shell, expected) in [
            ("-i --norc", true, true),
            ("--rcfile /tmp/rc", true, true),
            ("--login -il", true, true),
            ("-m http.server", false, false),
            ("--eval=1", false, false),
            ("-e 1", false, false),
            ("-lc ls", true, false),
            ("-o vi -i", true, true),
            ("sh -i", true, true),
            ("-o pipefail script.sh", true, false),
            ("--rcfile /tmp/rc -c ls", true, false),
            ("script.sh", true, false),
            ("-o script.py", false, false),
        ] {
            let words = line.split(' ').map(str::as_bytes);
            assert_eq!(has_nothing_to_run(words, is_shell), expected, "{line}");
        }
    }
}

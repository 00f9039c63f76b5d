//! What is known of a process by its pid: when it started, its state, how it ended, its command line,
//! whether it runs, and what it uses.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
#[cfg(linux)]
use rustix::time::ClockId;

#[cfg(not(linux))]
use super::ps;
use crate::files::PROC;
#[cfg(linux)]
use crate::model::text;
use crate::model::{self, Exit, Millis, Ordered as _};

/// Returns when a process started, of any user; `None` where it is gone or the system does not
/// report it (only Linux does, in `/proc`).
pub(crate) fn started_at(pid: u32) -> Option<Millis> {
    // Field 22 counts clock ticks since boot.
    let ticks: u64 = read(pid)?.number(22)?;
    let per_second = rustix::param::clock_ticks_per_second();
    let since_boot = ticks.checked_mul(1000)?.checked_div(per_second)?;
    boot_time()?.checked_add(Millis::try_from(since_boot).ok()?)
}

/// Returns what tells a process from a later one with its pid: when it started, and the namespace of
/// pids in which the pid is its; `None` where it is gone or the system does not report it (only Linux
/// does, in `/proc`).
pub(crate) fn identity(pid: u32) -> Option<String> {
    let ticks: u64 = read(pid)?.number(22)?;
    Some(format!("{ticks} {}", pid_namespace()?))
}

/// Whether the process of this pid and [`identity`] still runs; true if that cannot be known. Without
/// an identity, whether some process has the pid.
pub(crate) fn may_run(pid: u32, identified: &str) -> bool {
    let namespace = identified.split_once(' ').map(|(_, namespace)| namespace);
    match (namespace, pid_namespace()) {
        // Of a container, or of the host: its pids are not ours.
        (Some(theirs), Some(ours)) if theirs != ours => true,
        (Some(_), Some(_)) => identity(pid).is_some_and(|now| now == identified),
        (None, _) | (_, None) => exists(pid),
    }
}

fn pid_namespace() -> Option<String> {
    let link = fs::read_link(format!("{PROC}/self/ns/pid")).ok()?;
    Some(link.to_str()?.to_owned())
}

/// Returns how a process ended that its parent has not reaped yet; `None` where it runs, is gone,
/// or belongs to another user (the kernel shows 0 then).
pub(crate) fn exit_of_zombie(pid: u32) -> Option<Exit> {
    let stat = read(pid)?;
    let ours = rustix::process::geteuid();
    let owner = fs::metadata(format!("{PROC}/{pid}")).ok()?.uid();
    if stat.field(3)? != "Z" || !(ours.is_root() || owner == ours.as_raw()) {
        return None;
    }
    // Field 52 is the status that wait(2) returns.
    let status: u32 = stat.number(52)?;
    let signal = u8::try_from(status & 0x7f).ok()?;
    Some(if signal == 0 {
        Exit::with_code(i32::try_from(status >> 8 & 0xff).ok()?)
    } else {
        Exit::with_signal(Some(model::Signal::from_number(signal)))
    })
}

/// Whether a process is stopped, by a signal or a debugger.
pub(crate) fn is_stopped(pid: u32) -> bool {
    read(pid).is_some_and(|stat| matches!(stat.field(3), Some("T" | "t")))
}

/// The maximum length of a program's name, in characters.
pub(super) const NAME_CHARS: usize = 64;

/// The contents of `/proc/PID/stat`, by the field numbers of proc(5).
pub(super) struct Stat {
    text: String,
}

impl Stat {
    /// Returns a field from 3 on. The name, field 2, may contain blanks and brackets.
    pub(super) fn field(&self, number: usize) -> Option<&str> {
        let (_, fields) = self.text.rsplit_once(')')?;
        fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
    }

    /// Returns a field that is such a number.
    pub(super) fn number<N: FromStr>(&self, number: usize) -> Option<N> {
        self.field(number)?.parse().ok()
    }

    /// Returns the program's name, truncated by the kernel, as one line.
    #[cfg(linux)]
    pub(super) fn name(&self) -> String {
        let name = self.text.split_once('(').map_or("", |(_, rest)| rest);
        let name = name.rsplit_once(')').map_or("", |(name, _)| name);
        text::one_line(name.as_bytes(), NAME_CHARS)
    }
}

/// Returns the numbers among the names in a folder of `/proc`, such as pids; none where it is gone.
#[cfg_attr(not(linux), allow(dead_code, reason = "there is no `/proc`"))]
pub(super) fn numbers_in(folder: impl AsRef<Path>) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Reads a short file of the kernel, which returns it in one piece. Many are read at once: this takes three
/// system calls.
pub(super) fn short_file(path: impl AsRef<Path>) -> Option<String> {
    let mut bytes = [0; 2048];
    let n_read = File::open(path).ok()?.read(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes[..n_read]).into_owned())
}

pub(super) fn read(pid: u32) -> Option<Stat> {
    let text = short_file(format!("{PROC}/{pid}/stat"))?;
    Some(Stat { text })
}

/// Separates the words of [`command_line`]: `ps` does not show where they end.
pub(crate) const WORD_END: u8 = if cfg!(linux) { 0 } else { b' ' };

/// Returns the words that a process was started with. They are empty while it becomes another program,
/// and once it has ended; `None` where it is gone.
pub(crate) fn command_line(pid: u32) -> Option<Vec<u8>> {
    #[cfg(linux)]
    {
        fs::read(format!("{PROC}/{pid}/cmdline")).ok()
    }
    #[cfg(not(linux))]
    {
        let printed = ps::ps(&["-p", &pid.to_string()], &["stat", "args"]);
        let (state, words) = printed.trim().split_once(' ')?;
        let words = if state.starts_with('Z') { "" } else { words };
        Some(words.trim_start().into())
    }
}

/// Whether a process is being replaced by another program: it has memory, and no environment yet.
pub(super) fn is_replaced(pid: u32) -> bool {
    let read = |name| fs::read(format!("{PROC}/{pid}/{name}"));
    let has_memory = || read("maps").is_ok_and(|maps| !maps.is_empty());
    read("environ").is_ok_and(|environment| environment.is_empty()) && has_memory()
}

/// Returns the tmux server and the pane that a process was started in.
pub(super) fn pane_of(pid: u32) -> Option<(String, String)> {
    variable(pid, "TMUX").zip(variable(pid, "TMUX_PANE"))
}

/// Returns a variable that a process was started with, on Linux.
pub(super) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = fs::read(format!("{PROC}/{pid}/environ")).ok()?;
    let mut variables = environment.split(|byte| *byte == 0);
    let value = variables.find_map(|variable| {
        let value = variable.strip_prefix(name.as_bytes())?;
        value.strip_prefix(b"=")
    });
    Some(String::from_utf8_lossy(value?).into_owned())
}

/// Returns the state of a thread, `S` where it sleeps; `None` where it is gone.
#[cfg(linux)]
pub(super) fn thread_state(pid: u32, thread: u32) -> Option<char> {
    let text = short_file(format!("{PROC}/{pid}/task/{thread}/stat"))?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Returns when these processes started, for those that are known.
pub(crate) fn starts(pids: impl IntoIterator<Item = u32>) -> BTreeMap<u32, Millis> {
    pids.into_iter()
        .filter_map(|pid| Some((pid, started_at(pid)?)))
        .into_map()
}

/// Returns when the system started. `/proc/stat` contains it too, but with a row for each
/// interrupt.
#[cfg(linux)]
fn boot_time() -> Option<Millis> {
    let millis = |clock| -> Option<Millis> {
        let time = rustix::time::clock_gettime(clock);
        let whole = time.tv_sec.checked_mul(1000)?;
        whole.checked_add(time.tv_nsec / 1_000_000)
    };
    millis(ClockId::Realtime)?.checked_sub(millis(ClockId::Boottime)?)
}

#[cfg(not(linux))]
fn boot_time() -> Option<Millis> {
    None
}

/// How far up to look.
const GENERATIONS: usize = 64;

/// Returns the parent of a process; `None` where it is gone.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    #[cfg(linux)]
    {
        read(pid)?.number(4)
    }
    #[cfg(not(linux))]
    {
        super::ps::column(pid, "ppid")?.parse().ok()
    }
}

/// Whether a process runs a program of the same name as ours; not one that has ended and was not
/// reaped yet.
pub(crate) fn is_our_program(pid: u32) -> bool {
    let name = |pid| {
        let name = program(pid)?.file_name()?.to_string_lossy().into_owned();
        // Replaced by an update while it runs.
        Some(name.trim_end_matches(" (deleted)").to_owned())
    };
    name(pid).is_some_and(|theirs| Some(theirs) == name(std::process::id()))
}

fn program(pid: u32) -> Option<PathBuf> {
    fs::read_link(format!("{PROC}/{pid}/exe")).ok()
}

/// Returns the program of this name that this process descends from, the nearest one, as an existing
/// file; `None` where there is none or the system does not report it (only Linux does, in `/proc`).
pub(crate) fn ancestor_named(name: &str) -> Option<PathBuf> {
    if !cfg!(linux) {
        return None;
    }
    let ancestors = std::iter::successors(parent(std::process::id()), |pid| parent(*pid));
    ancestors
        .take_while(|pid| *pid > 0)
        .take(GENERATIONS)
        .filter_map(program)
        .find(|program| program.file_name().is_some_and(|file| file == name) && program.exists())
}

// Whether it exists, and, safe against reuse of its pid, whether it still runs.

/// Whether a process has this pid, also one that has ended and was not reaped. One that may not be
/// signalled, such as a process of another user, exists.
pub(crate) fn exists(pid: u32) -> bool {
    number(pid).is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// The process that had the pid when this was created.
#[derive(Debug)]
pub(crate) struct Process {
    pid: u32,
    /// Readable once it has ended; `None` where there is no such descriptor, or they are short.
    pub(super) file: Option<OwnedFd>,
}

/// How long to wait before processes are looked for again whose ends nothing reports.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

impl Process {
    /// Returns the process that has this pid now; `None` when there is none.
    pub(crate) fn open(pid: u32) -> Option<Self> {
        let file = match open(pid) {
            Err(Errno::SRCH) => return None,
            opened => opened
                .inspect_err(|error| tracing::debug!(pid, %error, "could not watch a process"))
                .ok(),
        };
        let process = Self { pid, file };
        process.is_running().then_some(process)
    }

    /// Whether it still runs.
    pub(crate) fn is_running(&self) -> bool {
        self.file
            .as_ref()
            .map_or_else(|| runs(self.pid), |file| !has_ended(file))
    }

    /// Sends it a signal, if it has not ended and may be signalled.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        #[cfg(linux)]
        if let Some(file) = &self.file {
            return rustix::process::pidfd_send_signal(file, signal);
        }
        // Unlike with a pidfd, another process can have got its pid since the descriptor was asked.
        if self.file.as_ref().is_some_and(has_ended) {
            return Err(Errno::SRCH);
        }
        kill_process(number(self.pid).ok_or(Errno::SRCH)?, signal)
    }
}

/// Whether a process with this pid runs: not one that only waits for its parent to notice its end.
fn runs(pid: u32) -> bool {
    #[cfg(linux)]
    {
        exists(pid)
    }
    #[cfg(not(linux))]
    {
        let state = super::ps::column(pid, "stat");
        exists(pid) && state.is_some_and(|state| !state.starts_with('Z'))
    }
}

/// Waits until one of these processes has ended.
pub(crate) fn wait_for_any(processes: &[Process]) {
    let files = processes.iter().filter_map(|process| process.file.as_ref());
    let mut files: Vec<PollFd<'_>> = files.map(|file| PollFd::new(file, PollFlags::IN)).collect();
    let pause = (files.len() < processes.len()).then_some(&PAUSE);
    // Interrupted or not: the caller looks again.
    let ended = poll(&mut files, pause);
    tracing::trace!(?ended, "waited for processes");
}

/// Whether the process of this descriptor, which [`open`] has returned, has ended.
pub(super) fn has_ended(file: &OwnedFd) -> bool {
    let mut files = [PollFd::new(file, PollFlags::IN)];
    let at_once = Timespec::default();
    !matches!(poll(&mut files, Some(&at_once)), Ok(0))
}

/// Returns a descriptor that becomes readable when this process ends. Fails with [`Errno::SRCH`] when there
/// is no such process, [`Errno::NOSYS`] where there are no such descriptors, and another one when the system
/// is out of descriptors.
#[cfg(linux)]
pub(super) fn open(pid: u32) -> Result<OwnedFd, Errno> {
    use rustix::process::{PidfdFlags, pidfd_open};

    pidfd_open(number(pid).ok_or(Errno::SRCH)?, PidfdFlags::empty())
}

/// The same: a kqueue that waits for one process.
#[cfg(kqueue)]
pub(super) fn open(pid: u32) -> Result<OwnedFd, Errno> {
    use nix::sys::event::{EvFlags, EventFilter, FilterFlag, KEvent, Kqueue};

    let errno = |error: nix::errno::Errno| Errno::from_raw_os_error(error as i32);
    let pid = usize::try_from(pid).map_err(|_| Errno::SRCH)?;
    // One-shot: a process ends once.
    let (process, flags) = (
        EventFilter::EVFILT_PROC,
        EvFlags::EV_ADD | EvFlags::EV_ONESHOT,
    );
    let end = KEvent::new(pid, process, flags, FilterFlag::NOTE_EXIT, 0, 0);
    let queue = Kqueue::new().map_err(errno)?;
    queue.kevent(&[end], &mut [], None).map_err(errno)?;
    Ok(queue.into())
}

#[cfg(not(any(linux, kqueue)))]
pub(super) fn open(_pid: u32) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

fn number(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

// What it uses: its control group, and how much it has run.

/// Returns the control group of a process, as systemd names it; `None` where there is none.
pub(crate) fn control_group_of(pid: u32) -> Option<String> {
    groups_of_systemd(&fs::read_to_string(format!("{PROC}/{pid}/cgroup")).ok()?)
}

/// Reads the path of the unified hierarchy, else that of systemd's own.
fn groups_of_systemd(text: &str) -> Option<String> {
    let of = |hierarchy: &str| text.lines().find_map(|line| line.strip_prefix(hierarchy));
    let named = text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        rest.strip_prefix("name=systemd:")
    });
    named.or_else(|| of("0::")).map(ToOwned::to_owned)
}

/// How much a process's first thread has run: as long as it is the same, the thread has slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunTime {
    /// How long it was on a processor, in nanoseconds.
    pub(crate) nanos: u64,
    /// How often it was put on one.
    pub(crate) times: u64,
}

impl RunTime {
    /// Whether the thread has not been woken since the earlier reading. It may have been running
    /// then.
    pub(crate) fn has_slept_since(self, earlier: Self) -> bool {
        self.times == earlier.times
    }
}

/// Returns how much a process has run; `None` where the system does not count it (only Linux does).
pub(crate) fn run_time(pid: u32) -> Option<RunTime> {
    let text = short_file(format!("{PROC}/{pid}/schedstat"))?;
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let nanos = fields.next()?.ok()?;
    let times = fields.nth(1)?.ok()?;
    // Without the kernel's statistics all counts are zero.
    (times > 0).then_some(RunTime { nanos, times })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[cfg(linux)]
    #[test]
    fn another_process_with_the_same_pid_is_not_the_one_that_was_noted() {
        let pid = std::process::id();
        let ours = identity(pid).unwrap();
        assert!(may_run(pid, &ours));
        let (started, namespace) = ours.split_once(' ').unwrap();
        let earlier = started.parse::<u64>().unwrap() - 1;
        assert!(!may_run(pid, &format!("{earlier} {namespace}")));
        assert!(!may_run(0x7fff_fff0, &ours));
        // Of another namespace nothing is known; without an identity only the pid.
        assert!(may_run(0x7fff_fff0, "1 pid:[1]"));
        assert!(may_run(pid, ""));
        assert!(!may_run(0x7fff_fff0, ""));
    }

    #[cfg(linux)]
    #[test]
    fn our_own_start_is_before_now_and_after_boot() {
        let started = started_at(std::process::id()).unwrap();
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
        assert!(started >= boot_time().unwrap());
        // The kernel counts ticks, usually of 10 ms.
        assert!(started <= Millis::try_from(now).unwrap() + 20);
        assert_eq!(started_at(u32::MAX), None);
    }

    #[cfg(linux)]
    #[test]
    fn the_program_that_runs_the_tests_is_an_ancestor_of_its_children() {
        let parent = rustix::process::getppid().unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", parent.as_raw_nonzero())).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(ancestor_named(name), Some(program.clone()));
        assert_eq!(ancestor_named("no such program"), None);
    }

    #[test]
    fn a_process_runs_until_it_has_ended_and_exists_until_it_is_reaped() {
        let ours = std::process::id();
        // The first one may be another user's.
        assert!(exists(ours) && exists(1));
        for no_pid in [0, 0x7fff_fff0, u32::MAX] {
            assert!(!exists(no_pid), "{no_pid}");
        }
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::open(child.id()).unwrap();
        assert!(process.is_running());
        #[cfg(linux)]
        assert!(is_our_program(ours) && !is_our_program(child.id()));
        child.kill().unwrap();
        assert!(exists(child.id()));
        child.wait().unwrap();
        assert!(!process.is_running() && !exists(child.id()));
        assert!(Process::open(child.id()).is_none());
        #[cfg(linux)]
        assert!(!is_our_program(child.id()));
    }

    #[test]
    fn the_control_group_is_found_in_both_versions() {
        let group = "/user.slice/user-1000.slice/session-3.scope";
        let hybrid = format!("3:memory:/x\n1:name=systemd:{group}\n0::/y\n");
        for shown in [format!("0::{group}\n"), hybrid] {
            assert_eq!(groups_of_systemd(&shown).as_deref(), Some(group), "{shown}");
        }
        assert_eq!(groups_of_systemd(""), None);
    }

    #[cfg(linux)]
    #[test]
    fn a_process_that_sleeps_does_not_run() {
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let read = |file| std::fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap();
        let settled = loop {
            let before = run_time(child.id());
            std::thread::yield_now();
            let is_asleep = read("stat").contains(") S ") && read("comm") == "sleep\n";
            if is_asleep && run_time(child.id()) == before {
                break before.unwrap();
            }
        };
        assert_eq!(run_time(child.id()), Some(settled));
        assert!(run_time(child.id()).unwrap().has_slept_since(settled));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(run_time(child.id()), None);
    }
}

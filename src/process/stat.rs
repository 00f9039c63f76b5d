//! When a process started, its state, how it ended and its command line, by its pid: mostly from
//! `/proc/PID/stat`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

#[cfg(linux)]
use rustix::time::ClockId;

use super::exists;
#[cfg(not(linux))]
use super::ps;
#[cfg(linux)]
use super::stat;
use crate::files::PROC;
use crate::model::{Exit, Millis, Ordered as _, Signal};

/// Returns when a process started, of any user; `None` where it is gone or the system does not
/// report it (only Linux does, in `/proc`).
#[must_use]
pub(crate) fn started_at(pid: u32) -> Option<Millis> {
    // Field 22 counts clock ticks since boot.
    let ticks: u64 = read(pid)?.field(22)?.parse().ok()?;
    let per_second = rustix::param::clock_ticks_per_second();
    let since_boot = ticks.checked_mul(1000)?.checked_div(per_second)?;
    boot_time()?.checked_add(Millis::try_from(since_boot).ok()?)
}

/// Returns what tells a process from a later one with its pid: when it started, and the namespace of
/// pids in which the pid is its; `None` where it is gone or the system does not report it (only Linux
/// does, in `/proc`).
#[must_use]
pub(crate) fn identity(pid: u32) -> Option<String> {
    let ticks: u64 = read(pid)?.field(22)?.parse().ok()?;
    Some(format!("{ticks} {}", pid_namespace()?))
}

/// Whether the process of this pid and [`identity`] still runs; true if that cannot be known. Without
/// an identity, whether some process has the pid.
#[must_use]
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
    let link = std::fs::read_link(format!("{PROC}/self/ns/pid")).ok()?;
    Some(link.to_str()?.to_owned())
}

/// Returns how a process ended that its parent has not reaped yet; `None` where it runs, is gone,
/// or belongs to another user (the kernel shows 0 then).
#[must_use]
pub(crate) fn exit_of_zombie(pid: u32) -> Option<Exit> {
    let stat = read(pid)?;
    let ours = rustix::process::geteuid();
    let owner = std::fs::metadata(format!("{PROC}/{pid}")).ok()?.uid();
    if stat.field(3)? != "Z" || !(ours.is_root() || owner == ours.as_raw()) {
        return None;
    }
    // Field 52 is the status that wait(2) returns.
    let status: u32 = stat.field(52)?.parse().ok()?;
    let signal = u8::try_from(status & 0x7f).ok()?;
    Some(if signal == 0 {
        Exit::with_code(i32::try_from(status >> 8 & 0xff).ok()?)
    } else {
        Exit::with_signal(Some(Signal::from_number(signal)))
    })
}

/// Whether a process is stopped, by a signal or a debugger.
#[must_use]
pub(crate) fn is_stopped(pid: u32) -> bool {
    read(pid).is_some_and(|stat| matches!(stat.field(3), Some("T" | "t")))
}

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

    /// Returns the program's name, truncated by the kernel.
    #[cfg(linux)]
    pub(super) fn name(&self) -> &str {
        let name = self.text.split_once('(').map_or("", |(_, rest)| rest);
        name.rsplit_once(')').map_or("", |(name, _)| name)
    }
}

pub(super) fn read(pid: u32) -> Option<Stat> {
    let mut file = File::open(format!("{PROC}/{pid}/stat")).ok()?;
    // Room for all of it: the kernel returns it in one piece, and many processes are read at once.
    let mut bytes = [0; 2048];
    let n_read = file.read(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes[..n_read]).into_owned();
    Some(Stat { text })
}

/// Separates the words of [`command_line`]: `ps` does not show where they end.
pub(super) const WORD_END: u8 = if cfg!(linux) { 0 } else { b' ' };

/// Returns the words that a process was started with. They are empty while it becomes another program;
/// `None` where it is gone.
pub(super) fn command_line(pid: u32) -> Option<Vec<u8>> {
    #[cfg(linux)]
    {
        std::fs::read(format!("{PROC}/{pid}/cmdline")).ok()
    }
    #[cfg(not(linux))]
    {
        ps::column(pid, "args").map(String::into_bytes)
    }
}

/// Whether a process is being replaced by another program: it has memory, and no environment yet.
pub(super) fn is_replaced(pid: u32) -> bool {
    let read = |name| std::fs::read(format!("{PROC}/{pid}/{name}"));
    let has_memory = || read("maps").is_ok_and(|maps| !maps.is_empty());
    read("environ").is_ok_and(|environment| environment.is_empty()) && has_memory()
}

/// Returns the tmux server and the pane that a process was started in.
pub(super) fn pane_of(pid: u32) -> Option<(String, String)> {
    variable(pid, "TMUX").zip(variable(pid, "TMUX_PANE"))
}

/// Returns a variable that a process was started with, on Linux.
pub(super) fn variable(pid: u32, name: &str) -> Option<String> {
    let environment = std::fs::read(format!("{PROC}/{pid}/environ")).ok()?;
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
    let text = std::fs::read_to_string(format!("{PROC}/{pid}/task/{thread}/stat")).ok()?;
    text.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Returns when these processes started, for those that are known.
#[must_use]
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
        time.tv_sec
            .checked_mul(1000)?
            .checked_add(time.tv_nsec / 1_000_000)
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
#[must_use]
pub(crate) fn parent(pid: u32) -> Option<u32> {
    #[cfg(linux)]
    {
        stat::read(pid)?.field(4)?.parse().ok()
    }
    #[cfg(not(linux))]
    {
        super::ps::column(pid, "ppid")?.parse().ok()
    }
}

/// Whether a process runs a program of the same name as ours; not one that has ended and was not
/// reaped yet.
#[must_use]
pub(crate) fn is_our_program(pid: u32) -> bool {
    let name = |pid| {
        let name = program(pid)?.file_name()?.to_string_lossy().into_owned();
        // Replaced by an update while it runs.
        Some(name.trim_end_matches(" (deleted)").to_owned())
    };
    name(pid).is_some_and(|theirs| Some(theirs) == name(std::process::id()))
}

fn program(pid: u32) -> Option<PathBuf> {
    std::fs::read_link(format!("{PROC}/{pid}/exe")).ok()
}

/// Returns the program of this name that this process descends from, the nearest one, as an existing
/// file; `None` where there is none or the system does not report it (only Linux does, in `/proc`).
#[must_use]
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

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn our_own_start_is_before_now_and_after_boot() {
        let started = started_at(std::process::id()).unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        assert!(started >= boot_time().unwrap());
        // The kernel counts ticks, usually of 10 ms.
        assert!(started <= Millis::try_from(now.as_millis()).unwrap() + 20);
    }

    #[test]
    fn an_unknown_pid_has_no_start() {
        assert_eq!(started_at(u32::MAX), None);
    }

    #[test]
    fn a_process_that_has_ended_runs_no_program() {
        assert!(is_our_program(std::process::id()));
        let mut child = std::process::Command::new("sleep")
            .arg("0")
            .spawn()
            .unwrap();
        assert!(!is_our_program(child.id()));
        child.wait().unwrap();
        assert!(!is_our_program(child.id()));
    }

    #[test]
    fn the_program_that_runs_the_tests_is_an_ancestor_of_its_children() {
        let parent = rustix::process::getppid().unwrap();
        let program = std::fs::read_link(format!("/proc/{}/exe", parent.as_raw_nonzero())).unwrap();
        let name = program.file_name().unwrap().to_str().unwrap();
        assert_eq!(ancestor_named(name), Some(program.clone()));
        assert_eq!(ancestor_named("no such program"), None);
    }
}

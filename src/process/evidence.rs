//! What the kernel knows of a pane's terminal: its modes, and what its foreground programs are
//! blocked in.
//!
//! On Linux this is read from `/proc`, of other users' programs only in part. On other systems only
//! the modes are known. Nothing is executed and nothing is written.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

use super::cpu_activity::CpuActivity;
#[cfg(linux)]
use super::facts;
#[cfg(linux)]
use super::tree::{self, ForegroundGroup, Host, Process, was_given_nothing};
#[cfg(linux)]
use crate::model::Foreground;
use crate::model::{TtyEvidence, TtyUse};

/// The result of examining a terminal.
#[derive(Debug)]
pub(crate) struct TtyExamination {
    /// The evidence; `None` when nothing is known.
    pub evidence: Option<Arc<TtyEvidence>>,
    /// The terminal of the programs: the pane's, or one behind it.
    pub tty: PathBuf,
    /// Whether the programs have run since, so that the evidence may have changed.
    pub activity: CpuActivity,
    /// How many times each thread of the foreground programs has gone to sleep; `None` unless all of
    /// them do something else in raw mode. A program that checks for keys now and then sleeps in
    /// between.
    pub pauses: Option<BTreeMap<u32, u64>>,
}

/// How many bytes of a line, without its end, a terminal in line mode keeps. It drops the others.
pub(crate) const MAX_LINE: usize = if cfg!(linux) { 4095 } else { 1023 };

/// Whether a terminal has input that its programs have not read, in line mode a line; `None` where
/// that cannot be queried.
pub(crate) fn has_unread_input(tty: &Path) -> Option<bool> {
    let unread = rustix::io::ioctl_fionread(open(tty)?).ok()?;
    Some(unread > 0)
}

/// Opens a terminal. It must not become our controlling terminal, and a hang-up must not block.
fn open(tty: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(tty, flags, Mode::empty()).ok()
}

/// The modes of a terminal.
#[derive(Debug, Clone, Copy)]
struct TtyModes {
    echo: bool,
    canonical: bool,
    /// Whether a read returns by itself without input.
    reads_end: bool,
}

fn modes(tty: &Path) -> Option<TtyModes> {
    let settings = tcgetattr(open(tty)?).ok()?;
    let canonical = settings.local_modes.contains(LocalModes::ICANON);
    Some(TtyModes {
        echo: settings.local_modes.contains(LocalModes::ECHO),
        canonical,
        reads_end: !canonical && settings.special_codes[SpecialCodeIndex::VMIN] == 0,
    })
}

impl TtyExamination {
    /// Returns what the modes of the terminal and its programs say.
    fn new(mut evidence: TtyEvidence, modes: Option<TtyModes>, tty: PathBuf) -> Self {
        if let Some(modes) = modes {
            evidence.echo = Some(modes.echo);
            evidence.canonical = Some(modes.canonical);
            // Such a program checks again and again whether something was typed.
            if modes.reads_end && evidence.reader == TtyUse::Reading {
                evidence.reader = TtyUse::Polling;
                evidence.read = None;
            }
        }
        Self {
            evidence: (evidence != TtyEvidence::default()).then(|| Arc::new(evidence)),
            tty,
            activity: CpuActivity::default(),
            pauses: None,
        }
    }
}

/// Examines the terminal `tty`, in which tmux started a process.
#[cfg(not(linux))]
pub(crate) fn examine(_pid: u32, tty: &Path) -> TtyExamination {
    TtyExamination::new(TtyEvidence::default(), modes(tty), tty.to_owned())
}

/// Examines the terminal `tty`, in which tmux started `pid`.
#[cfg(linux)]
pub(crate) fn examine(pid: u32, tty: &Path) -> TtyExamination {
    // First of all, so that what happens meanwhile counts as a change.
    let (processes, activity) = tree::processes(pid);
    let takes_keys = |modes: Option<TtyModes>| modes.is_none_or(|modes| !modes.canonical);
    let relays = |host: &Host<'_>| facts::relays(host, |tty| takes_keys(modes(tty)));
    let Some(front) = tree::in_front(processes, pid, tty, relays) else {
        let found = TtyExamination::new(TtyEvidence::default(), modes(tty), tty.to_owned());
        return TtyExamination { activity, ..found };
    };
    let modes = modes(&front.tty);
    let takes_keys = takes_keys(modes);
    let evidence = of_members(&front, takes_keys);
    let is_elsewhere = takes_keys && evidence.reader == TtyUse::Elsewhere;
    let pauses = is_elsewhere.then(|| facts::pauses(&front.members));
    TtyExamination {
        activity,
        pauses: pauses.flatten(),
        ..TtyExamination::new(evidence, modes, front.tty)
    }
}

/// Combines what the foreground programs do. `takes_keys` is whether their terminal is not in line
/// mode.
#[cfg(linux)]
fn of_members(front: &ForegroundGroup, takes_keys: bool) -> TtyEvidence {
    let mut evidence = TtyEvidence {
        reader: TtyUse::Elsewhere,
        foreground: Foreground::Command,
        ..TtyEvidence::default()
    };
    let members = front.members.iter();
    for member in members.filter(|member| member.stopped_by.is_none()) {
        let does = facts::does(member, front, takes_keys);
        add(&mut evidence, member, does, front, takes_keys);
    }
    if evidence.reader != TtyUse::Reading {
        let runs = |process: &&Process| process.is_detached() && process.stopped_by.is_none();
        let detached = front.others.iter().filter(runs);
        for process in detached.filter(|process| facts::has_inherited(process, &front.tty)) {
            let does = facts::does(process, front, takes_keys);
            // What is hidden of it may be anything.
            if does.0.takes_input() {
                add(&mut evidence, process, does, front, takes_keys);
            }
        }
    }
    if !evidence.reader.takes_input() {
        add_stop(&mut evidence, front);
    }
    evidence
}

/// Adds what a program does with the terminal, and the thread that reads it.
#[cfg(linux)]
fn add(
    evidence: &mut TtyEvidence,
    member: &Process,
    (does, thread): (TtyUse, Option<u32>),
    front: &ForegroundGroup,
    takes_keys: bool,
) {
    evidence.reader = evidence.reader.max(does);
    if evidence.read.is_none() {
        evidence.read = thread.and_then(|thread| facts::read_call(member, thread, &front.tty));
    }
    evidence.may_relay |= facts::may_relay(member, does, takes_keys);
    evidence.reader_has_threads |= does == TtyUse::Reading && member.threads.len() > 1;
    if does.takes_input() && was_given_nothing(member) {
        evidence.foreground = Foreground::Idle;
    }
    add_name(evidence, member);
}

#[cfg(linux)]
fn add_name(evidence: &mut TtyEvidence, process: &Process) {
    if !evidence.programs.contains(&process.name) {
        evidence.programs.push(process.name.clone());
    }
}

/// Adds why a program is stopped, first of all one that wants the terminal. Where a program in the
/// foreground is hidden, one that a signal has stopped says nothing of it.
#[cfg(linux)]
fn add_stop(evidence: &mut TtyEvidence, front: &ForegroundGroup) {
    let members = front.members.iter().map(|member| (member, false));
    let others = front.others.iter();
    let others = others.map(|other| (other, front.jobs.contains(&other.pid)));
    let stops = members.chain(others).filter_map(|(process, is_job)| {
        let stop = facts::stop(process, process.stopped_by?, &front.tty, is_job)?;
        Some((process, stop))
    });
    let is_hidden = evidence.reader == TtyUse::Unknown;
    let found = stops
        .filter(|(_, stop)| stop.is_in_background() || !is_hidden)
        .max_by_key(|(_, stop)| stop.is_in_background());
    let Some((process, stop)) = found else {
        return;
    };
    evidence.stopped = Some(stop);
    if stop.is_in_background() {
        evidence.read = facts::read_call(process, process.thread, &front.tty);
    }
    add_name(evidence, process);
}

//! What the kernel knows of a pane's terminal: its modes, and what the programs in its foreground
//! are blocked in.
//!
//! Linux tells by `/proc`, of other users' programs only a part; elsewhere only the modes are
//! known. Nothing is run and nothing is written.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

use super::cpu_activity::CpuActivity;
#[cfg(target_os = "linux")]
use super::tree::{self, InFront};
#[cfg(target_os = "linux")]
use super::{facts, idle};
#[cfg(target_os = "linux")]
use crate::model::Foreground;
use crate::model::{TtyEvidence, TtyUse};

/// What was found out about a terminal.
#[derive(Debug)]
pub struct Asked {
    /// What is known; `None` when that is nothing.
    pub evidence: Option<Arc<TtyEvidence>>,
    /// Whether it still holds, as far as that depends on the programs.
    pub stillness: CpuActivity,
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
    let (evidence, stillness) = find_out(pid, tty);
    Asked {
        evidence: (evidence != TtyEvidence::default()).then(|| Arc::new(evidence)),
        stillness,
    }
}

/// How a terminal is set.
#[derive(Debug, Clone, Copy)]
struct Modes {
    echo: bool,
    canonical: bool,
    /// Whether a read returns by itself, with nothing typed.
    reads_end: bool,
}

fn modes(tty: &Path) -> Option<Modes> {
    // It must not become our terminal, and a hang-up must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: OwnedFd = rustix::fs::open(tty, flags, Mode::empty()).ok()?;
    let settings = tcgetattr(&file).ok()?;
    let canonical = settings.local_modes.contains(LocalModes::ICANON);
    Some(Modes {
        echo: settings.local_modes.contains(LocalModes::ECHO),
        canonical,
        reads_end: !canonical && settings.special_codes[SpecialCodeIndex::VMIN] == 0,
    })
}

fn with_modes(evidence: TtyEvidence, modes: Option<Modes>) -> TtyEvidence {
    let Some(modes) = modes else {
        return evidence;
    };
    let evidence = TtyEvidence {
        echo: Some(modes.echo),
        canonical: Some(modes.canonical),
        ..evidence
    };
    match evidence.reader {
        // It looks whether something was typed, again and again.
        TtyUse::Reading if modes.reads_end => TtyEvidence {
            reader: TtyUse::Polling,
            read: None,
            ..evidence
        },
        TtyUse::Reading | TtyUse::Polling | TtyUse::Elsewhere | TtyUse::Unknown => evidence,
    }
}

#[cfg(not(target_os = "linux"))]
fn find_out(_pid: u32, tty: &Path) -> (TtyEvidence, CpuActivity) {
    let evidence = with_modes(TtyEvidence::default(), modes(tty));
    (evidence, CpuActivity::default())
}

#[cfg(target_os = "linux")]
fn find_out(pid: u32, tty: &Path) -> (TtyEvidence, CpuActivity) {
    // Before everything else: what happens meanwhile is a change then.
    let (processes, stillness) = tree::processes(pid);
    let evidence = match tree::in_front(processes, pid, tty) {
        None => with_modes(TtyEvidence::default(), modes(tty)),
        Some(front) => {
            let modes = modes(&front.tty);
            let takes_keys = modes.is_none_or(|modes| !modes.canonical);
            with_modes(of_members(&front, takes_keys), modes)
        }
    };
    (evidence, stillness)
}

/// Weighs what the programs in the foreground do; `takes_keys` is whether their terminal does not
/// gather lines.
#[cfg(target_os = "linux")]
fn of_members(front: &InFront, takes_keys: bool) -> TtyEvidence {
    let mut evidence = TtyEvidence {
        reader: TtyUse::Elsewhere,
        foreground: Foreground::Command,
        ..TtyEvidence::default()
    };
    for member in &front.members {
        let (does, thread) = facts::does(member, &front.tty);
        // One that reads outweighs those that do anything else, and a secret kept is no answer.
        evidence.reader = match (evidence.reader, does) {
            (TtyUse::Reading, _) | (_, TtyUse::Reading) => TtyUse::Reading,
            (TtyUse::Polling, _) | (_, TtyUse::Polling) => TtyUse::Polling,
            (TtyUse::Unknown, _) | (_, TtyUse::Unknown) => TtyUse::Unknown,
            (TtyUse::Elsewhere, TtyUse::Elsewhere) => TtyUse::Elsewhere,
        };
        if evidence.read.is_none() {
            evidence.read = thread.and_then(|thread| facts::read_call(member.pid, thread));
        }
        evidence.may_relay |= facts::may_relay(member, does, takes_keys);
        if matches!(does, TtyUse::Reading | TtyUse::Polling) && idle::was_given_nothing(member) {
            evidence.foreground = Foreground::Idle;
        }
        if !evidence.programs.contains(&member.name) {
            evidence.programs.push(member.name.clone());
        }
    }
    evidence
}

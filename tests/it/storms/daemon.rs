//! Kills the daemon, and measures its memory and descriptors.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::consumer::Consumer;
use super::{Size, Storm, say};
use crate::crashes::daemon_with_lock;
use crate::support::{Dice, World, resident};

/// How much more memory a daemon may have at its end than when it was warm, in KiB.
const MORE_MEMORY: u64 = 2 << 10;

/// How many more descriptors.
const MORE_DESCRIPTORS: usize = 4;

/// After this time a daemon has all the memory that it needs.
const WARM: Duration = Duration::from_secs(60);

/// For how long samples are compared with one another.
const FEW: Duration = Duration::from_secs(5);

/// Kills the daemon at random instants, and consumers with it.
pub(super) struct Killer<'a> {
    world: &'a World,
    size: Size,
    consumers: &'a [Consumer],
    n_kills: AtomicUsize,
    n_consumers_killed: AtomicUsize,
}

impl<'a> Killer<'a> {
    pub(super) fn new(world: &'a World, size: Size, consumers: &'a [Consumer]) -> Self {
        Self {
            world,
            size,
            consumers,
            n_kills: AtomicUsize::new(0),
            n_consumers_killed: AtomicUsize::new(0),
        }
    }

    pub(super) fn n_kills(&self) -> usize {
        self.n_kills.load(Ordering::Relaxed)
    }

    pub(super) fn n_consumers_killed(&self) -> usize {
        self.n_consumers_killed.load(Ordering::Relaxed)
    }

    /// Kills until all kills are done and the storm has lasted.
    pub(super) fn kill_and_wait(&self) {
        let mut dice = Dice::new(self.size.seed, 77);
        let began = Instant::now();
        let kills = u32::try_from(self.size.kills).unwrap();
        for number in 0..kills {
            match self.size.lasts {
                // Evenly spread, with as much time behind the last one.
                Some(lasts) => {
                    let at = began + lasts * (number + 1) / (kills + 1);
                    thread::sleep(at.saturating_duration_since(Instant::now()));
                }
                // Often while it starts or has just begun to work, sometimes when it is at rest.
                None => {
                    let most = if dice.below(5) < 2 { 250 } else { 1500 };
                    thread::sleep(Duration::from_millis(dice.below(most)));
                }
            }
            self.kill_daemon();
            if dice.below(4) == 0 && self.consumers[1].kill_reader() {
                self.n_consumers_killed.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Some(lasts) = self.size.lasts {
            thread::sleep((began + lasts).saturating_duration_since(Instant::now()));
        }
    }

    /// Kills the daemon that there is, or the next one.
    fn kill_daemon(&self) {
        let deadline = Instant::now() + super::task::DEADLINE;
        while !daemon_with_lock(self.world)
            .is_some_and(|pid| self.is_daemon(pid) && kill_process(pid, Signal::KILL).is_ok())
        {
            assert!(Instant::now() < deadline, "no daemon starts");
            thread::sleep(Duration::from_millis(1));
        }
        self.n_kills.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this is a daemon that has not been killed yet: a dead one's number is in the lock
    /// until the next one has it.
    fn is_daemon(&self, pid: Pid) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
        stat.is_ok_and(|stat| stat.contains("(tmux-task)") && !stat.contains(") Z "))
    }
}

/// The memory and descriptors of a daemon.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// Since the daemon was first seen.
    age: Duration,
    resident_kib: u64,
    descriptors: usize,
}

/// The samples of each daemon.
pub(super) struct Usage {
    daemons: Vec<Vec<Sample>>,
}

impl Usage {
    /// Reads it every second until the storm is over.
    pub(super) fn watch(storm: &Storm<'_>) -> Self {
        let mut usage = Self {
            daemons: Vec::new(),
        };
        let mut present = None;
        while !storm.is_over() {
            thread::sleep(Duration::from_millis(250));
            let Some(pid) = daemon_with_lock(storm.world) else {
                continue;
            };
            let is_another = present.is_none_or(|(seen, _)| seen != pid);
            if is_another {
                present = Some((pid, Instant::now()));
                usage.daemons.push(Vec::new());
            }
            let sample = present.and_then(|(pid, since)| {
                Some(Sample {
                    age: since.elapsed(),
                    resident_kib: resident(pid)?,
                    descriptors: descriptors(pid)?,
                })
            });
            if let (Some(samples), Some(sample)) = (usage.daemons.last_mut(), sample) {
                samples.push(sample);
            }
        }
        usage
    }

    /// Prints what each daemon needed, and checks that one that has lived for longer than [`WARM`]
    /// has not grown since.
    pub(super) fn check(&self) {
        for samples in &self.daemons {
            let Some(end) = samples.last().map(|last| last.age) else {
                continue;
            };
            let warm = WARM.min(end / 2);
            let (early, late) = (
                least_from(samples, warm),
                least_from(samples, end.saturating_sub(FEW)),
            );
            say(&format!(
                "a daemon: {} KiB and {} descriptors after {:.0} s, {} KiB and {} after {:.0} s",
                early.resident_kib,
                early.descriptors,
                warm.as_secs_f64(),
                late.resident_kib,
                late.descriptors,
                end.as_secs_f64(),
            ));
            if end < WARM + FEW {
                continue;
            }
            assert!(
                late.resident_kib <= early.resident_kib + MORE_MEMORY,
                "its memory grows"
            );
            assert!(
                late.descriptors <= early.descriptors + MORE_DESCRIPTORS,
                "its descriptors grow"
            );
        }
    }
}

/// Returns the least of some samples from this age on: between two bursts.
fn least_from(samples: &[Sample], age: Duration) -> Sample {
    let some = samples
        .iter()
        .filter(|sample| sample.age >= age && sample.age <= age + FEW);
    let least = |one: Sample, other: &Sample| Sample {
        age,
        resident_kib: one.resident_kib.min(other.resident_kib),
        descriptors: one.descriptors.min(other.descriptors),
    };
    let most = Sample {
        age,
        resident_kib: u64::MAX,
        descriptors: usize::MAX,
    };
    some.fold(most, least)
}

/// How many descriptors a process has, besides those of other processes: it watches each live task by
/// one.
fn descriptors(pid: Pid) -> Option<usize> {
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).ok()?;
    let targets = open.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let others = targets.filter(|target| {
        let target = target.to_string_lossy();
        !(target.contains("pidfd") || target.starts_with("/proc/"))
    });
    Some(others.count())
}

//! Whether programs have run since they were examined.
//!
//! The kernel counts for how long the threads of each process have been on a processor, in
//! nanoseconds. As long as the counts of all processes are unchanged, none of them has done anything:
//! no system call, no new thread and no new process. Reading a count costs half a microsecond, a
//! thousandth of a full examination.

#[cfg(linux)]
use nix::sys::time::TimeSpec;
#[cfg(linux)]
use nix::time::{ClockId, clock_getcpuclockid};
#[cfg(linux)]
use nix::unistd::Pid;

/// Reports whether certain processes have run since they were counted.
#[cfg(linux)]
#[derive(Debug)]
pub(crate) struct CpuActivity {
    /// Their clocks, with their counts; `None` where not all of them could be counted.
    counters: Option<Vec<(ClockId, TimeSpec)>>,
}

/// The same where processes cannot be counted.
#[cfg(not(linux))]
#[derive(Debug, Default)]
pub(crate) struct CpuActivity;

#[cfg(linux)]
impl Default for CpuActivity {
    fn default() -> Self {
        Self {
            counters: Some(Vec::new()),
        }
    }
}

#[cfg(linux)]
impl CpuActivity {
    /// Whether none of the processes has run since. Also `false` where that is not known: on systems
    /// other than Linux, and once one of them has ended.
    pub(crate) fn lasts(&self) -> bool {
        let counters = self.counters.as_deref().unwrap_or_default();
        let lasts = |(clock, count): &(ClockId, TimeSpec)| clock.now() == Ok(*count);
        !counters.is_empty() && counters.iter().all(lasts)
    }

    /// Stores the count of a process.
    pub(super) fn count(&mut self, pid: u32) {
        if let Some(counters) = &mut self.counters {
            match count_of(pid) {
                Some(counter) => counters.push(counter),
                None => self.miss(),
            }
        }
    }

    /// Marks the counts as incomplete, so that nothing is known any more.
    pub(super) fn miss(&mut self) {
        self.counters = None;
    }
}

#[cfg(not(linux))]
impl CpuActivity {
    /// Whether none of the processes has run since: not known here.
    pub(crate) fn lasts(&self) -> bool {
        false
    }
}

#[cfg(linux)]
fn count_of(pid: u32) -> Option<(ClockId, TimeSpec)> {
    let clock = clock_getcpuclockid(Pid::from_raw(pid.try_into().ok()?)).ok()?;
    Some((clock, clock.now().ok()?))
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    fn counted(child: &Child) -> CpuActivity {
        let mut activity = CpuActivity::default();
        activity.count(child.id());
        activity
    }

    /// Counts until it is at rest.
    fn at_rest(child: &Child) -> CpuActivity {
        let start = Instant::now();
        loop {
            let activity = counted(child);
            std::thread::sleep(Duration::from_millis(20));
            if activity.lasts() {
                return activity;
            }
            assert!(start.elapsed() < Duration::from_secs(20), "{activity:?}");
        }
    }

    #[test]
    fn a_program_that_runs_for_a_moment_shows_and_one_that_sleeps_does_not() {
        // What cannot be counted is never still.
        assert!(!CpuActivity::default().lasts());
        let mut cat = Command::new("cat");
        cat.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = cat.spawn().unwrap();
        let mut missed = at_rest(&child);
        missed.miss();
        assert!(!missed.lasts());
        missed.count(child.id());
        assert!(!missed.lasts());

        let activity = at_rest(&child);
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(!activity.lasts());

        let gone = at_rest(&child);
        drop(stdin);
        child.wait().unwrap();
        assert!(!gone.lasts());
        assert!(!counted(&child).lasts());
    }
}

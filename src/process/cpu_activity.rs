//! Whether programs have run since they were examined.
//!
//! The kernel counts for how long the threads of each process have been on a processor, in
//! nanoseconds. As long as the counts of all processes are unchanged, none of them has done anything:
//! no system call, no new thread and no new process. Reading a count costs half a microsecond, a
//! thousandth of a full examination.

use std::time::Duration;

use nix::time::ClockId;

/// Reports whether certain processes have run since they were counted.
#[derive(Debug)]
pub(crate) struct CpuActivity {
    /// The clocks of their time on a processor, with what they showed; `None` where not all of them
    /// could be read.
    counts: Option<Vec<(ClockId, Duration)>>,
}

impl Default for CpuActivity {
    fn default() -> Self {
        Self {
            counts: Some(Vec::new()),
        }
    }
}

impl CpuActivity {
    /// Whether none of the processes has run since. Also `false` where that is not known: on systems
    /// other than Linux, and once one of them has ended.
    pub(crate) fn lasts(&self) -> bool {
        let counts = self.counts.as_deref().unwrap_or_default();
        let lasts = |(clock, count): &(ClockId, Duration)| read(*clock) == Some(*count);
        !counts.is_empty() && counts.iter().all(lasts)
    }

    /// Counts the same processes again; `None` where not all of them can be counted.
    pub(crate) fn counted_again(self) -> Option<Self> {
        let counts = self.counts.filter(|counts| !counts.is_empty())?;
        let clocks = counts.into_iter().map(|(clock, _)| clock);
        let counts: Option<Vec<_>> = clocks.map(|clock| Some((clock, read(clock)?))).collect();
        counts.map(|counts| Self {
            counts: Some(counts),
        })
    }

    /// Stores the count of a process.
    pub(super) fn count(&mut self, pid: u32) {
        let counted = clock_of(pid).and_then(|clock| Some((clock, read(clock)?)));
        match (&mut self.counts, counted) {
            (Some(counts), Some(count)) => counts.push(count),
            _ => self.miss(),
        }
    }

    /// Marks the counts as incomplete, so that nothing is known any more.
    pub(super) fn miss(&mut self) {
        self.counts = None;
    }
}

/// Finds the clock of a process, which takes a system call more than to read it.
#[cfg(linux)]
fn clock_of(pid: u32) -> Option<ClockId> {
    let pid = nix::unistd::Pid::from_raw(pid.try_into().ok()?);
    nix::time::clock_getcpuclockid(pid).ok()
}

#[cfg(not(linux))]
fn clock_of(_: u32) -> Option<ClockId> {
    None
}

fn read(clock: ClockId) -> Option<Duration> {
    Some(clock.now().ok()?.into())
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::Instant;

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
        let again = at_rest(&child).counted_again().unwrap();
        assert!(again.lasts());
        assert!(CpuActivity::default().counted_again().is_none());

        let gone = at_rest(&child);
        drop(stdin);
        child.wait().unwrap();
        assert!(!gone.lasts());
        assert!(gone.counted_again().is_none());
        assert!(!counted(&child).lasts());
    }
}

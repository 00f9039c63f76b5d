//! Whether programs have run since they were examined.
//!
//! The kernel counts for how long each thread has been on a processor, in nanoseconds. As long as
//! the counts of all threads are unchanged, none of them has done anything: no system call, no new
//! thread and no new process. Reading a count costs a hundredth of a full examination.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use rustix::process::{Resource, getrlimit};

/// More threads than this are not counted: that would cost more than it saves.
const MOST_THREADS: usize = 64;

/// The maximum length of a count file that is read, in bytes.
const MOST_BYTES: usize = 96;

/// Reports whether certain threads have run since they were counted.
#[derive(Debug)]
pub(crate) struct CpuActivity {
    counters: Vec<Counter>,
    /// Whether all of them could be counted.
    is_whole: bool,
}

/// The count of one thread.
#[derive(Debug)]
struct Counter {
    /// Kept open where there is room: opening costs eight times as much as reading.
    file: Option<File>,
    pid: u32,
    thread: u32,
    count: CpuTime,
}

type CpuTime = ([u8; MOST_BYTES], usize);

impl Default for CpuActivity {
    fn default() -> Self {
        Self {
            counters: Vec::new(),
            is_whole: true,
        }
    }
}

impl CpuActivity {
    /// Whether none of the threads has run since. Also `false` where that is not known: on systems
    /// other than Linux, without the kernel's counts, or with very many threads.
    #[must_use]
    pub(crate) fn lasts(&self) -> bool {
        self.is_whole
            && !self.counters.is_empty()
            && self
                .counters
                .iter()
                .all(|counter| counter.read() == Some(counter.count))
    }

    /// Stores the count of a thread of a process.
    pub(super) fn count(&mut self, pid: u32, thread: u32) {
        if !self.is_whole || self.counters.len() >= MOST_THREADS {
            self.miss();
            return;
        }
        let counted = open(pid, thread).and_then(|file| Some((read(&file)?, file)));
        // Without the kernel's statistics all counts are zero.
        match counted {
            Some((count, file)) if !count.0.starts_with(b"0 0 0") => self.counters.push(Counter {
                file: Some(file).filter(has_room),
                pid,
                thread,
                count,
            }),
            Some(_) | None => self.miss(),
        }
    }

    /// Marks the counts as incomplete, so that nothing is known any more.
    pub(super) fn miss(&mut self) {
        self.is_whole = false;
        self.counters.clear();
    }
}

impl Counter {
    fn read(&self) -> Option<CpuTime> {
        match &self.file {
            Some(file) => read(file),
            None => read(&open(self.pid, self.thread)?),
        }
    }
}

fn open(pid: u32, thread: u32) -> Option<File> {
    File::open(format!("/proc/{pid}/task/{thread}/schedstat")).ok()
}

fn read(file: &File) -> Option<CpuTime> {
    let mut bytes = [0; MOST_BYTES];
    // Reading the file of a thread that is gone fails, even when another thread has its number.
    let n = file.read_at(&mut bytes, 0).ok()?;
    (0 < n && n < MOST_BYTES).then_some((bytes, n))
}

/// Whether the limit on open files leaves room. Files get the lowest free numbers, and the daemon
/// needs some for other purposes.
fn has_room(file: &File) -> bool {
    let number = u64::try_from(file.as_raw_fd()).unwrap_or(u64::MAX);
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    number < limit / 4
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    fn counted(child: &Child) -> CpuActivity {
        let mut activity = CpuActivity::default();
        activity.count(child.id(), child.id());
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
        let mut child = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut activity = at_rest(&child);
        assert!(activity.lasts());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"one\n").unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert!(!activity.lasts());

        // Without a file that is kept open the result is the same.
        activity = at_rest(&child);
        activity.counters[0].file = None;
        assert!(activity.lasts());
        stdin.write_all(b"two\n").unwrap();
        stdout.read_line(&mut line).unwrap();
        assert!(!activity.lasts());

        let gone = at_rest(&child);
        drop(stdin);
        child.wait().unwrap();
        assert!(!gone.lasts());
        assert!(!counted(&child).lasts());
    }

    #[test]
    fn what_cannot_be_counted_is_never_still() {
        assert!(!CpuActivity::default().lasts());
        let child = Command::new("cat").stdin(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut activity = at_rest(&child);
        activity.miss();
        assert!(!activity.lasts());
        activity.count(child.id(), child.id());
        assert!(!activity.lasts());
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

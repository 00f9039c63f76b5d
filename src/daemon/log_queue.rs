//! The lines of the log that are not written yet. A thread writes them, so that a slow disk delays
//! nobody who logs.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How many bytes may wait for the disk. Further lines are dropped and counted.
const MAX_QUEUED: usize = 256 << 10;

/// How long the end of the daemon waits for the last lines, if the disk is slow.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// A handle with which lines are added. Adding never waits for the disk.
#[derive(Debug, Clone)]
pub(super) struct LogQueue(Arc<SharedState>);

#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<QueuedLines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueuedLines {
    lines: VecDeque<Vec<u8>>,
    /// How many bytes they have.
    n_bytes: usize,
    /// How many lines were dropped behind them.
    n_dropped: u64,
    /// Whether lines that were taken out are being written.
    is_writing: bool,
    /// Whether the log is to write what it holds back: the daemon ends.
    is_to_flush: bool,
}

/// Writes the last lines when it is dropped: when the daemon ends, also by a panic.
#[derive(Debug)]
pub(super) struct LogFlusher(LogQueue);

impl Drop for LogFlusher {
    fn drop(&mut self) {
        self.0.finish();
    }
}

impl LogQueue {
    /// Starts the thread that writes to `log`, one call for each line.
    ///
    /// # Errors
    ///
    /// When the thread cannot be created.
    pub(super) fn start(log: impl Write + Send + 'static) -> io::Result<(Self, LogFlusher)> {
        let queue = Self(Arc::default());
        let shared = Arc::clone(&queue.0);
        thread::Builder::new()
            .name("log".to_owned())
            .spawn(move || shared.write_to(log))?;
        Ok((queue.clone(), LogFlusher(queue)))
    }

    /// Writes the last lines, if the disk takes them soon.
    pub(super) fn finish(&self) {
        self.0.lock().is_to_flush = true;
        self.0.changed.notify_all();
        self.flush(FLUSH_LIMIT);
    }

    /// Waits until all lines so far are written, at most this long. Returns whether they are.
    fn flush(&self, limit: Duration) -> bool {
        let is_busy = |state: &mut QueuedLines| state.is_writing || state.has_work();
        let waited = self
            .0
            .changed
            .wait_timeout_while(self.0.lock(), limit, is_busy);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !is_busy(&mut state)
    }
}

impl Write for LogQueue {
    /// Adds a line: the logging library makes one call for each.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        // Lines stay in order: behind dropped ones none is added.
        if state.n_dropped > 0 || state.n_bytes + line.len() > MAX_QUEUED {
            state.n_dropped += 1;
        } else {
            state.n_bytes += line.len();
            state.lines.push_back(line.to_vec());
        }
        drop(state);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl QueuedLines {
    fn has_work(&self) -> bool {
        !self.lines.is_empty() || self.n_dropped > 0 || self.is_to_flush
    }
}

impl SharedState {
    /// Nothing that could panic is done while it is locked.
    fn lock(&self) -> MutexGuard<'_, QueuedLines> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, mut log: impl Write) {
        // Lines that the disk has refused.
        let mut n_refused = 0;
        loop {
            let waited = self
                .changed
                .wait_while(self.lock(), |state| !state.has_work());
            let mut state = waited.unwrap_or_else(PoisonError::into_inner);
            let lines = std::mem::take(&mut state.lines);
            let n_dropped = std::mem::take(&mut state.n_dropped);
            let is_to_flush = std::mem::take(&mut state.is_to_flush);
            state.n_bytes = 0;
            state.is_writing = true;
            drop(state);
            for line in lines {
                let is_written = write_missing(&mut log, &mut n_refused)
                    .and_then(|()| log.write_all(&line))
                    .is_ok();
                n_refused += u64::from(!is_written);
            }
            n_refused += n_dropped;
            // Otherwise it is said before the next line.
            let _is_said = write_missing(&mut log, &mut n_refused).is_ok();
            if is_to_flush {
                // There is nobody left to tell.
                log.flush().unwrap_or_default();
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }
}

/// Says in the log how many lines are missing, if any are.
fn write_missing(log: &mut impl Write, n_missing: &mut u64) -> io::Result<()> {
    if *n_missing > 0 {
        let text = format!("({n_missing} lines are missing: the disk did not take them in time)\n");
        log.write_all(text.as_bytes())?;
        *n_missing = 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A log on a disk that takes a line for each message, or refuses it.
    struct SlowLog {
        takes: mpsc::Receiver<bool>,
        text: Arc<Mutex<String>>,
    }

    impl Write for SlowLog {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            // Without a sender it is fast.
            if !self.takes.recv().unwrap_or(true) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let text = String::from_utf8_lossy(line).into_owned();
            self.text.lock().unwrap().push_str(&text);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    fn slow() -> (LogQueue, LogFlusher, mpsc::Sender<bool>, Arc<Mutex<String>>) {
        let (disk, takes) = mpsc::channel();
        let text = Arc::default();
        let log = SlowLog {
            takes,
            text: Arc::clone(&text),
        };
        let (queue, flusher) = LogQueue::start(log).unwrap();
        (queue, flusher, disk, text)
    }

    #[test]
    fn lines_wait_for_a_slow_disk_and_those_beyond_the_limit_are_counted() {
        let (mut queue, flusher, disk, text) = slow();
        let line = format!("{}\n", "x".repeat((64 << 10) - 1));
        queue.write_all(line.as_bytes()).unwrap();
        // The disk has it, and takes its time.
        while queue.0.lock().n_bytes > 0 {
            thread::yield_now();
        }
        assert!(!LogQueue::flush(&queue, Duration::ZERO));
        for _ in 0..7 {
            queue.write_all(line.as_bytes()).unwrap();
        }
        queue.write_all(b"a short line\n").unwrap();
        drop(disk);
        assert!(LogQueue::flush(&queue, LONG));
        queue.write_all(b"and on\n").unwrap();
        drop(flusher);
        let text = text.lock().unwrap().replace(&line, "x\n");
        assert_eq!(
            text,
            "x\nx\nx\nx\nx\n(4 lines are missing: the disk did not take them in time)\nand on\n"
        );
    }

    #[test]
    fn refused_lines_are_counted_once_the_disk_takes_lines_again() {
        let (mut queue, _flusher, disk, text) = slow();
        // The line, and the count after it.
        for takes in [false, false] {
            disk.send(takes).unwrap();
        }
        queue.write_all(b"refused\n").unwrap();
        assert!(LogQueue::flush(&queue, LONG));
        drop(disk);
        queue.write_all(b"taken\n").unwrap();
        assert!(LogQueue::flush(&queue, LONG));
        let expected = "(1 lines are missing: the disk did not take them in time)\ntaken\n";
        assert_eq!(*text.lock().unwrap(), expected);
    }

    #[test]
    fn the_last_lines_are_written_when_a_panic_ends_the_daemon() {
        let (mut queue, flusher, disk, text) = slow();
        drop(disk);
        let ended = thread::spawn(move || {
            let _flusher = flusher;
            queue.write_all(b"the last words\n").unwrap();
            // Without the message of a panic.
            std::panic::resume_unwind(Box::new("it panics"));
        });
        assert!(ended.join().is_err());
        assert_eq!(*text.lock().unwrap(), "the last words\n");
    }
}

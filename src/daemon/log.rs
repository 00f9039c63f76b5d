//! The daemon's log: a file in the state folder, and its predecessor.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::files;
use crate::session::LogLevel;

/// The maximum size of the log, in bytes. A full log replaces its predecessor.
const MAX_BYTES: u64 = 1 << 20;

/// The environment variable with what is logged: levels, for all modules or for the named ones.
const LEVEL_VARIABLE: &str = "TMUX_TASK_LOG";

/// From here on the program logs into this file, panics as well, by a thread of its own; the last lines are written when
/// the flusher is dropped.
pub(super) fn open(path: &Path) -> io::Result<LogFlusher> {
    let log = BoundedLog::open(path, MAX_BYTES)?;
    let (queue, flusher) = LogQueue::start(log)?;
    let held = queue.clone();
    end_the_daemon(move || {
        held.flush(FLUSH_LIMIT);
    });
    let asked = std::env::var(LEVEL_VARIABLE).ok();
    let filter = asked
        .filter(|levels| !levels.is_empty())
        .and_then(|levels| levels.parse().ok())
        .unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO));
    let logging = tracing_subscriber::fmt()
        .with_writer(move || queue.clone())
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .finish()
        .with(filter)
        .try_init();
    // Logging that was set up by others is fine.
    logging.unwrap_or_default();
    Ok(flusher)
}

#[derive(Debug)]
struct BoundedLog {
    path: PathBuf,
    file: File,
    most: u64,
}

impl BoundedLog {
    fn open(path: &Path, most: u64) -> io::Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            file: files::open_to_append(path)?,
            most,
        })
    }

    /// Begins a new file. If the full one cannot be renamed it is emptied: a log must not fill the disk.
    fn put_aside(&mut self) -> io::Result<()> {
        if fs::rename(&self.path, self.path.with_extension("log.old")).is_ok() {
            self.file = files::open_to_append(&self.path)?;
        } else {
            self.file.set_len(0)?;
        }
        Ok(())
    }
}

impl Write for BoundedLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // It may have been removed with its folder, which the feed makes again.
        if self.file.metadata()?.nlink() == 0
            && let Ok(fresh) = Self::open(&self.path, self.most)
        {
            *self = fresh;
        }
        let length = self.file.metadata()?.len();
        if length > 0 && length + line.len() as u64 > self.most {
            self.put_aside()?;
        }
        self.file.write_all(line)?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

// A thread writes the lines of the log, so that a slow disk delays nobody who logs.

/// How many lines may wait for the disk. Further ones are dropped and counted.
const MOST_QUEUED: usize = 2048;

/// How long the end of the daemon waits for the last lines, if the disk is slow.
const FLUSH_LIMIT: Duration = Duration::from_millis(100);

/// A handle with which lines are added. Adding never waits for the disk.
#[derive(Debug, Clone)]
pub(super) struct LogQueue {
    orders: mpsc::SyncSender<LogOrder>,
    /// How many lines were dropped since one was added.
    n_dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum LogOrder {
    /// Write a line, before which so many were dropped.
    Line(u64, Vec<u8>),
    /// Say that all lines before this are written.
    Flush(mpsc::Sender<()>),
}

/// Writes the last lines when it is dropped: when the daemon ends, also by a panic.
#[derive(Debug)]
pub(super) struct LogFlusher(LogQueue);

impl Drop for LogFlusher {
    fn drop(&mut self) {
        self.0.flush(FLUSH_LIMIT);
    }
}

impl LogQueue {
    /// Starts the thread that writes to `log`, one call for each line.
    fn start(log: impl Write + Send + 'static) -> io::Result<(Self, LogFlusher)> {
        let (orders, queue) = mpsc::sync_channel(MOST_QUEUED);
        let thread = thread::Builder::new().name("log".to_owned());
        thread.spawn(move || write_to(log, &queue))?;
        let n_dropped = Arc::default();
        let queue = Self { orders, n_dropped };
        Ok((queue.clone(), LogFlusher(queue)))
    }

    /// Waits until all lines so far are written. Returns whether the disk has taken them within this time.
    fn flush(&self, limit: Duration) -> bool {
        let (done, is_done) = mpsc::channel();
        // Where there is no room for the order, the disk is slow.
        drop(self.orders.try_send(LogOrder::Flush(done)));
        is_done.recv_timeout(limit).is_ok()
    }
}

impl Write for LogQueue {
    /// Adds a line: the logging library makes one call for each.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let n_dropped = self.n_dropped.swap(0, Relaxed);
        let order = LogOrder::Line(n_dropped, line.to_vec());
        if self.orders.try_send(order).is_err() {
            self.n_dropped.fetch_add(n_dropped + 1, Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_to(mut log: impl Write, orders: &mpsc::Receiver<LogOrder>) {
    // Lines that the queue or the disk had no room for. Said as soon as that can be written.
    let mut n_missing = 0_u64;
    for order in orders {
        match order {
            LogOrder::Line(n_dropped, line) => {
                n_missing += n_dropped;
                if n_missing > 0 {
                    let text = format!(
                        "({n_missing} lines are missing: the disk did not take them in time)\n"
                    );
                    if log.write_all(text.as_bytes()).is_ok() {
                        n_missing = 0;
                    }
                }
                let is_written = n_missing == 0 && log.write_all(&line).is_ok();
                n_missing += u64::from(!is_written);
            }
            // Whoever has asked need not be there any more.
            LogOrder::Flush(done) => done.send(()).unwrap_or_default(),
        }
    }
}

pub(super) fn write(level: LogLevel, text: &str) {
    match level {
        LogLevel::Debug => tracing::debug!("{text}"),
        LogLevel::Info => tracing::info!("{text}"),
        LogLevel::Warn => tracing::warn!("{text}"),
        LogLevel::Error => tracing::error!("{text}"),
    }
}

/// From here on a panic on any thread is logged and ends the daemon, after `write_log`: nothing runs on without a
/// part of it, and the next daemon carries on.
fn end_the_daemon(write_log: impl Fn() + Send + Sync + 'static) {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        print(panic);
        let thread = thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let what = panic.payload_as_str().unwrap_or("unknown");
        let place = panic.location().map(ToString::to_string);
        tracing::error!(thread, what, place, "a panic ends the daemon");
        write_log();
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::sync::Mutex;

    use rustix::process::Signal;

    use super::*;

    fn log(most: u64) -> (tempfile::TempDir, PathBuf, BoundedLog) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let log = BoundedLog::open(&path, most).unwrap();
        (dir, path, log)
    }

    #[test]
    fn it_is_bounded_while_it_is_written_and_across_starts() {
        let (_dir, path, mut log) = log(100);
        for n in 0..500 {
            writeln!(log, "{n} INFO number {n}").unwrap();
        }
        drop(log);
        let mut log = BoundedLog::open(&path, 100).unwrap();
        log.write_all(b"500 INFO number 500\n").unwrap();
        let old = path.with_extension("log.old");
        for file in [&path, &old] {
            let length = fs::metadata(file).unwrap().len();
            assert!((1..=100).contains(&length), "{}", file.display());
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("500 INFO number 500\n"), "{text}");
    }

    #[test]
    fn a_log_that_was_removed_with_its_folder_is_begun_again_with_it() {
        let (dir, path, mut log) = log(1000);
        log.write_all(b"1 INFO before\n").unwrap();
        fs::remove_dir_all(dir.path()).unwrap();
        log.write_all(b"2 INFO without a folder\n").unwrap();
        fs::create_dir(dir.path()).unwrap();
        log.write_all(b"3 INFO after\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "3 INFO after\n");
    }

    #[test]
    fn a_full_log_that_cannot_be_put_aside_is_emptied() {
        let (dir, path, mut log) = log(100);
        fs::create_dir_all(dir.path().join("daemon.log.old/not empty")).unwrap();
        for n in 0..50 {
            writeln!(log, "{n} INFO number {n}").unwrap();
        }
        let length = fs::metadata(&path).unwrap().len();
        assert!((1..=100).contains(&length), "{length}");
    }

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
        // The disk may have taken one, and takes its time for it.
        let n_lines = MOST_QUEUED + 3;
        for n in 0..n_lines {
            queue.write_all(format!("{n}\n").as_bytes()).unwrap();
        }
        assert!(!LogQueue::flush(&queue, Duration::ZERO));
        drop(disk);
        while !LogQueue::flush(&queue, LONG) {
            thread::yield_now();
        }
        queue.write_all(b"and on\n").unwrap();
        drop(flusher);
        let text = text.lock().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let n_missing = n_lines - (lines.len() - 2);
        let said = format!("({n_missing} lines are missing: the disk did not take them in time)");
        assert!((2..=3).contains(&n_missing), "{said}");
        assert_eq!(lines[lines.len() - 2..], [said.as_str(), "and on"]);
    }

    #[test]
    fn refused_and_dropped_lines_are_counted_once_the_disk_takes_lines_again() {
        let (mut queue, _flusher, disk, text) = slow();
        disk.send(false).unwrap();
        queue.write_all(b"refused\n").unwrap();
        assert!(LogQueue::flush(&queue, LONG));
        queue.n_dropped.fetch_add(2, Relaxed);
        drop(disk);
        queue.write_all(b"taken\n").unwrap();
        assert!(LogQueue::flush(&queue, LONG));
        let expected = "(3 lines are missing: the disk did not take them in time)\ntaken\n";
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

    /// Set in the process that is to panic.
    const CHILD: &str = "TMUX_TASK_TEST_CHILD";

    /// For the test below, which runs it in a process of its own.
    #[test]
    fn a_child_lets_a_thread_panic() {
        if std::env::var_os(CHILD).is_some() {
            end_the_daemon(|| ());
            assert!(thread::spawn(|| panic!("injected")).join().is_err());
        }
    }

    #[test]
    fn a_panic_on_any_thread_ends_the_daemon() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "daemon::log::tests::a_child_lets_a_thread_panic";
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        let output = command.env(CHILD, "").output().unwrap();
        let signal = output.status.signal();
        assert_eq!(signal, Some(Signal::ABORT.as_raw()), "{output:?}");
    }
}

//! The daemon's log: a file in the state folder, and its predecessor.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::log_queue::{LogFlusher, LogQueue};
use super::panics;
use crate::files;

/// The maximum size of the log, in bytes. A full log replaces its predecessor, so that both
/// together never have more than twice as many bytes.
const MAX_BYTES: u64 = 1 << 20;

/// The environment variable with what is logged: levels, for all modules or for the named ones.
const LEVEL_VARIABLE: &str = "TMUX_TASK_LOG";

/// From here on the program logs into this file, panics as well. It is written by a thread of its own;
/// the last lines are written when the flusher is dropped.
pub(super) fn open(path: &Path) -> io::Result<LogFlusher> {
    let log = BoundedLog::open(path, MAX_BYTES)?;
    let (queue, flusher) = LogQueue::start(log)?;
    panics::end_the_daemon(queue.clone());
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

/// A log file of bounded size that does not repeat lines: a message that recurs is written once,
/// with its count behind it.
#[derive(Debug)]
struct BoundedLog {
    path: PathBuf,
    file: File,
    /// The file's size.
    length: u64,
    /// Its maximum size.
    most: u64,
    /// The last line without its time.
    last: Vec<u8>,
    /// How many times that line has recurred since it was written.
    n_repeated: u64,
}

impl BoundedLog {
    fn open(path: &Path, most: u64) -> io::Result<Self> {
        let file = files::open_to_append(path)?;
        let length = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            file,
            length,
            most,
            last: Vec::new(),
            n_repeated: 0,
        })
    }

    /// Writes how many times the last line has recurred, if it has.
    fn write_count(&mut self) -> io::Result<()> {
        if self.n_repeated > 0 {
            let times = format!("(the line above {} times more)\n", self.n_repeated);
            self.n_repeated = 0;
            self.append(times.as_bytes())?;
        }
        Ok(())
    }

    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        // It may have been removed with its folder, which the feed makes again.
        if self.file.metadata()?.nlink() == 0
            && let Ok(fresh) = Self::open(&self.path, self.most)
        {
            (self.file, self.length) = (fresh.file, fresh.length);
        }
        let more = line.len() as u64;
        if self.length > 0 && self.length + more > self.most {
            self.put_aside()?;
        }
        self.file.write_all(line)?;
        self.length += more;
        Ok(())
    }

    /// Begins a new file. If the full one cannot be renamed it is emptied: a log must not fill the
    /// disk.
    fn put_aside(&mut self) -> io::Result<()> {
        if fs::rename(&self.path, self.path.with_extension("log.old")).is_ok() {
            self.file = files::open_to_append(&self.path)?;
        } else {
            self.file.set_len(0)?;
        }
        self.length = 0;
        Ok(())
    }
}

impl Write for BoundedLog {
    /// Writes one event: there is one call for each.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let said = after_time(line);
        if said == self.last {
            self.n_repeated += 1;
            return Ok(line.len());
        }
        self.write_count()?;
        self.last.clear();
        self.last.extend_from_slice(said);
        self.append(line)?;
        Ok(line.len())
    }

    /// Writes how many times the last line has recurred by now.
    fn flush(&mut self) -> io::Result<()> {
        self.write_count()?;
        self.file.flush()
    }
}

/// Returns a line without the time, which is its first word.
fn after_time(line: &[u8]) -> &[u8] {
    let end = line.iter().position(|byte| *byte == b' ');
    &line[end.unwrap_or(0)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(most: u64) -> (tempfile::TempDir, PathBuf, BoundedLog) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("daemon.log");
        let log = BoundedLog::open(&path, most).unwrap();
        (dir, path, log)
    }

    #[test]
    fn a_line_that_comes_again_and_again_is_counted() {
        let (_dir, path, mut log) = log(1000);
        for second in 0..5000 {
            let line = format!("{second} WARN could not accept\n");
            log.write_all(line.as_bytes()).unwrap();
        }
        log.write_all(b"5000 INFO leaving\n").unwrap();
        log.write_all(b"5001 INFO leaving late\n").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "0 WARN could not accept\n(the line above 4999 times more)\n5000 INFO leaving\n\
             5001 INFO leaving late\n"
        );
    }

    #[test]
    fn the_count_of_the_last_line_is_written_when_the_daemon_ends() {
        let (_dir, path, log) = log(1000);
        let (mut queue, flusher) = LogQueue::start(log).unwrap();
        for second in 0..5 {
            let line = format!("{second} WARN could not accept\n");
            queue.write_all(line.as_bytes()).unwrap();
        }
        drop(flusher);
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "0 WARN could not accept\n(the line above 4 times more)\n"
        );
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
}

//! Runs programs to their end, or in the background.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::DEADLINE;

/// How a program ended, and its output.
#[derive(Debug)]
pub(crate) struct Output {
    shown: String,
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Output {
    /// Runs a program to its end.
    #[track_caller]
    pub(crate) fn of(command: Command) -> Self {
        Self::with_input(command, "")
    }

    /// Runs a program to its end; it reads `input`.
    #[track_caller]
    pub(crate) fn with_input(mut command: Command, input: &str) -> Self {
        let shown = format!("{:?}", command.get_args().collect::<Vec<_>>());
        if !input.is_empty() {
            command.stdin(Stdio::piped());
        }
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{:?}: {error}", command.get_program()));
        if let Some(mut stdin) = child.stdin.take() {
            // A program may not read all of it.
            drop(stdin.write_all(input.as_bytes()));
        }
        let out = reader(child.stdout.take().unwrap());
        let err = reader(child.stderr.take().unwrap());
        let deadline = Instant::now() + 2 * DEADLINE;
        let mut all = |from: Receiver<String>| {
            let left = deadline.saturating_duration_since(Instant::now());
            from.recv_timeout(left).unwrap_or_else(|_| {
                drop(child.kill());
                panic!("{shown} does not end");
            })
        };
        let (out, err) = (all(out), all(err));
        let status = child.wait().unwrap();
        Self {
            shown,
            code: status.code().unwrap_or(-1),
            out,
            err,
        }
    }

    /// Its stdout, after a successful end.
    #[track_caller]
    pub(crate) fn ok(&self) -> &str {
        assert_eq!(self.code, 0, "{self}");
        &self.out
    }

    /// Checks that it failed with this code.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32) {
        assert_eq!(self.code, code, "{self}");
    }

    /// Checks that it failed with this code, and that its message begins so.
    #[track_caller]
    pub(crate) fn fails_so(&self, code: i32, err: &str) -> &Self {
        let is_so = self.code == code && self.err.starts_with(err);
        assert!(is_so, "not {code}, {err:?}: {self}");
        self
    }

    /// Checks that its stdout has this part.
    #[track_caller]
    pub(crate) fn shows(&self, part: impl AsRef<str>) -> &Self {
        let part = part.as_ref();
        assert!(self.out.contains(part), "no {part:?}: {self}");
        self
    }

    /// Checks that its stderr has this part.
    #[track_caller]
    pub(crate) fn says(&self, part: impl AsRef<str>) -> &Self {
        let part = part.as_ref();
        assert!(self.err.contains(part), "no {part:?}: {self}");
        self
    }

    /// Checks that it failed with this code and message, and printed no results.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, err: &str) {
        assert_eq!(
            (self.code, self.out.as_str(), self.err.trim_end()),
            (code, "", err),
            "{self}"
        );
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            shown,
            code,
            out,
            err,
        } = self;
        write!(
            f,
            "{shown} ended with {code}\nstdout:\n{out}\nstderr:\n{err}"
        )
    }
}

/// Checks that a text has this part.
#[track_caller]
pub(crate) fn has(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(text.contains(part), "no {part:?} in: {text}");
}

/// Checks that a text does not have this part.
#[track_caller]
pub(crate) fn lacks(text: impl AsRef<str>, part: impl AsRef<str>) {
    let (text, part) = (text.as_ref(), part.as_ref());
    assert!(!text.contains(part), "{part:?} in: {text}");
}

/// Checks that a text begins so.
#[track_caller]
pub(crate) fn begins(text: impl AsRef<str>, start: impl AsRef<str>) {
    let (text, start) = (text.as_ref(), start.as_ref());
    assert!(text.starts_with(start), "{start:?} does not begin: {text}");
}

fn reader(mut from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, all) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        drop(from.read_to_end(&mut text));
        drop(sender.send(String::from_utf8_lossy(&text).into_owned()));
    });
    all
}

/// A running program. Dropping it ends it.
pub(crate) struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            out: lines(child.stdout.take().unwrap()),
            err: lines(child.stderr.take().unwrap()),
            child,
        }
    }

    /// The next line of its stdout.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.out.recv_timeout(DEADLINE).expect("a line comes")
    }

    /// The next line of its stderr.
    #[track_caller]
    pub(crate) fn complaint(&self) -> String {
        self.err.recv_timeout(DEADLINE).expect("a line comes")
    }

    /// The next line of its stdout; `None` if it has ended.
    #[cfg(feature = "fleet")]
    pub(crate) fn first_line(&self) -> Option<String> {
        self.out.recv_timeout(DEADLINE).ok()
    }

    /// The next line of its stdout, which is JSON.
    #[track_caller]
    pub(crate) fn record(&self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// Reads records until one matches; returns all of them.
    #[track_caller]
    pub(crate) fn records_until(&self, mut is_last: impl FnMut(&Value) -> bool) -> Vec<Value> {
        let mut records = vec![self.record()];
        while !records.last().is_some_and(&mut is_last) {
            records.push(self.record());
        }
        records
    }

    /// Writes to its stdin, which has to be a pipe.
    pub(crate) fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("its stdin is a pipe");
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Closes its stdin.
    pub(crate) fn close_stdin(&mut self) {
        self.child.stdin = None;
    }

    /// The lines that are left of its stdout, until its end.
    #[track_caller]
    pub(crate) fn rest(&self) -> Vec<Value> {
        let mut rest = Vec::new();
        loop {
            match self.out.recv_timeout(DEADLINE) {
                Ok(line) => rest.push(serde_json::from_str(&line).expect("a line is JSON")),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("it does not end"),
            }
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        super::pid(self.child.id().into())
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }

    /// Waits for its end; returns its code.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < deadline, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines(from: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(from).lines() {
            let Ok(line) = line else { return };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

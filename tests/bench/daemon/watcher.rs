//! The observers: the daemon and the poller. Both print events as lines, which are read alike.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::world::World;
use super::{floor, listener, poller};

/// Who.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// The daemon, by `daemon --stdout`.
    Daemon,
    /// The usual poller: every two seconds, one process per command.
    Poller,
    /// A bare control client: the least that any watcher takes.
    Floor,
    /// A bare control client that receives output and does nothing with it.
    Listener,
}

/// A line that was read.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) at: SystemTime,
    pub(crate) record: Value,
}

impl Heard {
    pub(crate) fn is_live(&self, kind: &str) -> bool {
        self.record["kind"] == kind
    }

    /// Whether it is this event of this window.
    pub(crate) fn is_event(&self, name: &str, window: &str) -> bool {
        self.record["kind"] == "event"
            && self.record["type"] == name
            && self.record["task"]["windowId"] == window
    }

    pub(crate) fn code(&self) -> Option<i64> {
        self.record["task"]["exitCode"].as_i64()
    }
}

#[derive(Default)]
struct Ear {
    heard: Mutex<Vec<Heard>>,
    more: Condvar,
}

/// One of them at work.
pub(crate) struct Watcher {
    child: Child,
    ear: Arc<Ear>,
}

impl Watcher {
    /// Starts it without waiting for anything.
    pub(crate) fn start(who: Who, world: &World, session: &str) -> Self {
        let mut command = match who {
            Who::Daemon => {
                let mut command = world.program(env!("CARGO_BIN_EXE_tmux-task"));
                command.args(["--session", session, "daemon", "--stdout"]);
                command
            }
            Who::Poller | Who::Floor | Who::Listener => {
                let part = match who {
                    Who::Floor => floor::PART,
                    Who::Listener => listener::PART,
                    Who::Daemon | Who::Poller => poller::PART,
                };
                let mut command = world.program(std::env::current_exe().unwrap());
                command.args([part, session]);
                command
            }
        };
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdout = child.stdout.take().unwrap();
        let ear = Arc::new(Ear::default());
        let listening = Arc::clone(&ear);
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let at = SystemTime::now();
                let Ok(line) = line else { return };
                let record = serde_json::from_str(&line).unwrap();
                listening.heard.lock().unwrap().push(Heard { at, record });
                listening.more.notify_all();
            }
        });
        Self { child, ear }
    }

    /// Starts it and waits for its baseline.
    pub(crate) fn ready(who: Who, world: &World, session: &str) -> Self {
        let watcher = Self::start(who, world, session);
        let limit = Duration::from_secs(30);
        let ready = watcher.wait(limit, |heard| heard.is_live("sync"));
        assert!(ready.is_some(), "{who:?} does not begin");
        watcher
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the first line that answers, when it comes in time.
    pub(crate) fn wait(&self, limit: Duration, answers: impl Fn(&Heard) -> bool) -> Option<Heard> {
        let until = Instant::now() + limit;
        let mut seen = 0;
        let mut heard = self.ear.heard.lock().unwrap();
        loop {
            if let Some(found) = heard[seen..].iter().find(|heard| answers(heard)) {
                return Some(found.clone());
            }
            seen = heard.len();
            let left = until.checked_duration_since(Instant::now())?;
            (heard, _) = self.ear.more.wait_timeout(heard, left).unwrap();
        }
    }

    /// Waits until so many lines answer or the time is up.
    pub(crate) fn wait_for_all(
        &self,
        limit: Duration,
        wanted: u64,
        weight: impl Fn(&Heard) -> u64,
    ) {
        let until = Instant::now() + limit;
        let mut heard = self.ear.heard.lock().unwrap();
        while heard.iter().map(&weight).sum::<u64>() < wanted {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return;
            };
            (heard, _) = self.ear.more.wait_timeout(heard, left).unwrap();
        }
    }

    /// Returns all lines so far.
    pub(crate) fn all(&self) -> Vec<Heard> {
        self.ear.heard.lock().unwrap().clone()
    }

    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).unwrap_or_default();
        drop(self.child.wait());
    }
}

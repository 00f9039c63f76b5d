//! Private tmux servers and folders.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::ops::Deref;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tmux_task::rules::protocol::{ControlItem, Frame, Parser, quote};

use super::support;

/// The session whose tasks are watched.
pub(crate) const SESSION: &str = "bench";

/// What a task that does nothing runs.
pub(crate) const SLEEP: &str = "sleep 1000000";

/// A temporary directory with a tmux server and everything that belongs to it. All of it goes
/// when this is dropped.
pub(crate) struct World(support::World);

impl Deref for World {
    type Target = support::World;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl World {
    /// Starts a server with one session, in which nothing is watched.
    pub(crate) fn new() -> Self {
        let world = Self(support::World::new());
        world.tmux(["new-session", "-d", "-s", "driver", SLEEP]);
        world
    }

    /// Adds a session to be watched, with this many tasks that do nothing.
    pub(crate) fn add_session(&self, session: &str, windows: usize) {
        self.add_session_of(session, windows, SLEEP);
    }

    /// Adds a session to be watched, with this many tasks that run this line.
    pub(crate) fn add_session_of(&self, session: &str, windows: usize, line: &str) {
        assert!(windows > 0, "a session has a window at least");
        self.tmux(["new-session", "-d", "-s", session, "-n", "task-0", line]);
        let mut driver = self.driver();
        let line = quote(line);
        for n in 1..windows {
            driver.call(&format!(
                "new-window -d -t '={session}:' -n task-{n} {line}"
            ));
        }
        assert_eq!(driver.windows(session).len(), windows);
        driver.leave();
    }

    /// Returns a program in the environment of this world alone.
    pub(crate) fn program(&self, program: impl AsRef<Path>) -> Command {
        self.0.command(program.as_ref())
    }

    pub(crate) fn server_pid(&self) -> u32 {
        self.0.server().as_raw_nonzero().get().unsigned_abs()
    }

    pub(crate) fn driver(&self) -> Driver {
        let mut child = self
            .program("tmux")
            .args(["-u", "-C", "attach-session", "-f", "no-output,ignore-size"])
            .args(["-t", "=driver"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut driver = Driver {
            stdin: child.stdin.take(),
            stdout: child.stdout.take().unwrap(),
            child,
            parser: Parser::default(),
            read: VecDeque::new(),
        };
        driver.frame(Whose::Anybody);
        driver
    }
}

/// Which frames count.
#[derive(Debug, Clone, Copy)]
enum Whose {
    /// Answers to our commands: hooks put their own in between.
    Ours,
    /// The answer to attaching, too.
    Anybody,
}

/// A control client of another session of the same server: what it does costs no process, so
/// nothing but the act itself lies between the time and the act.
pub(crate) struct Driver {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    parser: Parser,
    read: VecDeque<Frame>,
}

impl Driver {
    /// Runs one command and returns its answer.
    pub(crate) fn call(&mut self, command: &str) -> String {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{command}\n").as_bytes()).unwrap();
        let frame = self.frame(Whose::Ours);
        assert!(frame.ok, "{command}: {}", frame.text());
        frame.text()
    }

    /// Starts a task that runs a program without a shell, and returns its window's id.
    pub(crate) fn new_window(
        &mut self,
        session: &str,
        name: &str,
        words: &[impl AsRef<str>],
    ) -> String {
        let words: Vec<String> = words.iter().map(|word| quote(word.as_ref())).collect();
        self.call(&format!(
            "new-window -d -P -F '#{{window_id}}' -t '={session}:' -n {name} -- {}",
            words.join(" ")
        ))
    }

    fn windows(&mut self, session: &str) -> Vec<String> {
        let listed = self.call(&format!("list-windows -t '={session}' -F '#{{window_id}}'"));
        listed.lines().map(str::to_owned).collect()
    }

    fn frame(&mut self, whose: Whose) -> Frame {
        let mut buffer = [0; 16 * 1024];
        loop {
            for item in self.parser.by_ref() {
                match item {
                    ControlItem::Frame(frame) => match whose {
                        Whose::Ours if frame.flags & 1 == 0 => {}
                        Whose::Ours | Whose::Anybody => self.read.push_back(frame),
                    },
                    ControlItem::Notification(_) => {}
                }
            }
            if let Some(frame) = self.read.pop_front() {
                return frame;
            }
            let n = self.stdout.read(&mut buffer).unwrap();
            assert!(n > 0, "the tmux server has gone");
            self.parser.push(&buffer[..n]);
        }
    }

    /// Detaches and waits until the client is gone.
    pub(crate) fn leave(self) {
        drop(self);
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let mut rest = Vec::new();
        drop(self.stdout.read_to_end(&mut rest));
        drop(self.child.wait());
    }
}

//! Against a real tmux on a private server, each proving that one wire is plugged in.

mod clients;
mod hooks;
mod idle;
mod launches;
mod looks;
mod restarts;
mod screens;
mod slices;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::task_exec::TaskFile;
use super::*;
use crate::model::environment::{TaskEnvironment, WithheldVariables};
use crate::model::{
    Error, Launch, Millis, PaneId, ReplacedRun, Replaces, SessionId, TaskSpec, WindowId,
};
use crate::rules::protocol::rows::{LookRows, WindowRow};
use crate::rules::protocol::{Command, Notification, control_line};

/// Runs the task of a file as ours does, without a profile.
const EXEC: &str = r#"#!/usr/bin/env python3
import fcntl, json, os, sys
file = open(sys.argv[2])
fcntl.flock(file, fcntl.LOCK_EX)
order = json.loads(file.read()[12:])
os.remove(sys.argv[2])
environment = {"TERM": os.environ["TERM"], **dict(order["environment"]["variables"])}
line = 'if [ $# = 1 ]; then eval "$1"; else "$@"; fi'
words = ["bash", "-c", line, "bash", *order["spec"]["command"]]
os.execvpe("bash", words, environment)
"#;

/// The server with this socket, for a program, or `tmux`.
pub(super) fn server_at(socket: &Path, program: Option<PathBuf>) -> Server {
    let choice = ServerChoice {
        socket_path: Some(socket.to_owned()),
        program,
        ..ServerChoice::default()
    };
    Server::locate(&choice, &|_| None).unwrap()
}

struct Private {
    server: Server,
    dir: tempfile::TempDir,
}

impl Private {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("it-").tempdir().unwrap();
        let server = server_at(&dir.path().join("s"), None);
        Self { server, dir }
    }

    /// With one session `keep`, whose window is `@0` with pane `%0`.
    async fn started() -> Self {
        let private = Self::new();
        private.run("new-session -d -s keep -- sleep 1000");
        private
    }

    fn tmux(&self, words: &[&str]) -> std::process::Output {
        std::process::Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.server.socket())
            .args(words)
            .env_remove("TMUX")
            .env_remove("TMUX_PANE")
            .output()
            .unwrap()
    }

    fn asks(&self, words: &[&str]) -> String {
        let output = self.tmux(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().into()
    }

    /// Runs a command of words without blanks.
    fn run(&self, line: &str) -> String {
        self.asks(&line.split(' ').collect::<Vec<_>>())
    }

    /// Returns what a format is for a target.
    fn shows(&self, target: &str, format: &str) -> String {
        self.asks(&["display-message", "-p", "-t", target, format])
    }

    /// Waits until the first pane of the target has ended.
    async fn until_dead(&self, target: &str) {
        until(async || {
            let dead = self.shows(target, "#{pane_dead}");
            (dead == "1").then_some(()).ok_or(dead)
        })
        .await;
    }

    /// Attaches to the session `keep`.
    async fn client(&self) -> Client {
        let client = self.server.attach(SessionId(0), NO_OUTPUT);
        client.await.unwrap()
    }

    /// Sets our hooks for a session of this process.
    async fn install(&self, session: SessionId) {
        let (mut connection, daemon) = (self.connection(), std::process::id());
        let installed = install(&mut connection, session, daemon, "");
        installed.await.unwrap();
    }

    fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    async fn look(&self, name: &str, captures: &mut LookMemory) -> LookRows {
        let target = format!("={name}:");
        let mut connection = self.connection();
        let seen = look(&mut connection, &target, captures, LookKind::Slice).await;
        seen.unwrap().unwrap()
    }

    fn task(&self, session: &str, name: &str, words: &[&str]) -> Launch {
        let spec = TaskSpec {
            cwd: Some(self.dir.path().into()),
            command: words.iter().map(Into::into).collect(),
            ..TaskSpec::default()
        };
        Launch {
            session: session.into(),
            root: Some("/pro#{ject".into()),
            name: name.into(),
            environment: self.environment(&spec),
            spec,
            program: self.program().display().to_string(),
            started: 1_700_000_000_123,
            ..Launch::default()
        }
    }

    /// Returns the launch with what it needs, and its files.
    fn prepare(&self, task: &Launch) -> Result<(Launch, TaskFile), Error> {
        let mut launch = task.clone();
        launch.token = unique_token();
        let folder = |name| self.dir.path().join(name);
        let files = prepare(&mut launch, &folder("run"), &folder("kept"))?;
        Ok((launch, files))
    }

    /// A login shell reads files of the home folder, and a user's may take long.
    fn environment(&self, spec: &TaskSpec) -> TaskEnvironment {
        let variables = ["HOME", "PATH"].map(|name| {
            let value = match name {
                "HOME" => self.dir.path().into(),
                _ => std::env::var_os(name).unwrap(),
            };
            (name.into(), value)
        });
        environment_of(spec, variables, &WithheldVariables::default()).unwrap()
    }

    /// Returns how much memory the server has allocated, in KiB.
    #[cfg(linux)]
    fn memory(&self) -> u64 {
        let pid = self.run("display-message -p #{pid}");
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("RssAnon:"));
        let number = line.unwrap().split_whitespace().nth(1);
        number.unwrap().parse().unwrap()
    }

    /// Returns by how much a round lets the server's memory grow, in KiB: the least of three rounds. What
    /// the allocator keeps for later is kept once; what leaks is lost in every round.
    #[cfg(linux)]
    async fn least_growth(&self, round: impl AsyncFn()) -> u64 {
        let mut least = u64::MAX;
        for _ in 0..3 {
            let before = self.memory();
            round().await;
            least = least.min(self.memory().saturating_sub(before));
        }
        least
    }

    async fn launch(&self, task: &Launch) -> Result<NewRun, TmuxError> {
        let mut ended = Vec::new();
        let (task, file) = self.prepare(task)?;
        loop {
            let (mut connection, slots) = (self.connection(), Slots::OfName);
            let done = launch(&mut connection, &self.server, None, &task, slots, &ended);
            // Several at once do not have room on the stack.
            match Box::pin(done).await? {
                LaunchAnswer::Started(run) => {
                    file.release(&run.pane.to_string());
                    return Ok(run);
                }
                // As if it had been ended: tmux does not know yet.
                LaunchAnswer::Live(_, pid) => ended.push(pid),
                LaunchAnswer::NoSession => unreachable!("it is created"),
            }
        }
    }

    /// Returns the path of [`EXEC`].
    fn program(&self) -> PathBuf {
        let program = self.dir.path().join("tmux-task");
        if !program.exists() {
            std::fs::write(&program, EXEC).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&program, mode).unwrap();
        }
        program
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn only(look: &LookRows) -> &WindowRow {
    assert_eq!(look.windows.len(), 1, "{look:#?}");
    &look.windows[0]
}

/// Looks until what is wanted is there.
async fn until<T>(mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "last seen: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

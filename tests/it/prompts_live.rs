//! Real programs that wait for input, and others that do not, in a real tmux.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic anywhere")]

mod answers;
mod background;
mod drawn;
mod programs;
mod redraws;
mod silent;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::support;

/// Far longer than any program here takes to ask on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A task session on a private tmux server.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("tt").tempdir().unwrap();
        Self { dir }
    }

    /// A session whose daemon may not see the calls of its tasks' programs, as with Yama's
    /// `ptrace_scope`.
    fn with_hidden_calls() -> Self {
        let world = Self::new();
        let library = programs::library_that_hides_calls(world.dir.path());
        let hidden = world
            .command("cat")
            .arg("/proc/self/syscall")
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        assert!(!hidden.status.success(), "{hidden:?}");
        let started = world
            .command(support::World::program())
            .args(["daemon", "--detach"])
            .env("LD_PRELOAD", &library)
            .output()
            .unwrap();
        assert!(started.status.success(), "{started:?}");
        world
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", dir)
            .env("TMUX_TMPDIR", dir)
            .env("TMUX_TASK_STATE_DIR", dir.join("state"))
            .env("TMUX_TASK_RUNTIME_DIR", dir.join("run"))
            .env("TMUX_TASK_SESSION", "it")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(dir)
            .stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(support::World::program())
            .args(args)
            .output()
            .unwrap()
    }

    /// Sets the table `input` of the configuration.
    fn configure(&self, input: &str) {
        let folder = self.dir.path().join(".config/tmux-task");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("notices = []\n[input]\n{input}");
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.call(args);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    #[track_caller]
    fn run(&self, name: &str, line: &str) {
        let output = self.call(&["run", name, "--", line]);
        assert!(output.status.success(), "{name}: {output:?}");
    }

    #[track_caller]
    fn send_secret(&self, name: &str, text: &str) {
        let mut child = self
            .command(support::World::program())
            .args(["send", name, "--secret"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The `input` and `inputResolved` events of the feed: task, type, kind, prompt, time.
    fn prompt_events(&self) -> Vec<PromptEvent> {
        let output = self.call(&["feed", "--type", "input", "--type", "inputResolved"]);
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|record| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                PromptEvent {
                    task: text(&record["task"]["windowName"]),
                    what: text(&record["type"]),
                    kind: text(&record["promptKind"]),
                    prompt: text(&record["prompt"]),
                    secret: record["secret"].as_bool().unwrap_or(false),
                }
            })
            .collect()
    }

    /// Waits until the feed satisfies this.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&[PromptEvent]) -> bool) -> Vec<PromptEvent> {
        let start = Instant::now();
        loop {
            let told = self.prompt_events();
            if is_so(&told) {
                return told;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {told:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.call(&["daemon", "stop"]));
        let panes = ["list-panes", "-a", "-F", "#{pane_pid}"];
        let panes = self.command("tmux").args(panes).output();
        drop(self.command("tmux").args(["kill-server"]).output());
        // `script` blocks the signal that its terminal is gone.
        let panes = panes.map(|panes| panes.stdout).unwrap_or_default();
        for pid in String::from_utf8_lossy(&panes).lines() {
            if let Some(group) = pid.parse().ok().and_then(Pid::from_raw) {
                kill_process_group(group, Signal::KILL).unwrap_or_default();
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PromptEvent {
    task: String,
    what: String,
    kind: String,
    prompt: String,
    secret: bool,
}

/// What was reported of a task, in order.
fn events_of<'a>(told: &'a [PromptEvent], task: &str) -> Vec<&'a str> {
    let of_task = told.iter().filter(|told| told.task == task);
    of_task.map(|told| told.what.as_str()).collect()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .any(|dir: std::path::PathBuf| Path::new(&dir).join(program).is_file())
}

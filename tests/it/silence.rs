//! A daemon or a tmux server that does not respond: no command waits for ever, and each one names
//! the process.

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, World, event, parse_lines};

/// A process that is stopped until this is dropped.
pub(crate) struct Stopped(Pid);

impl Stopped {
    pub(crate) fn new(pid: Pid) -> Self {
        kill_process(pid, Signal::STOP).unwrap();
        Self(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap_or_default();
    }
}

/// Commands that all need an answer.
const COMMANDS: [&[&str]; 8] = [
    &["ls"],
    &["ls", "--json"],
    &["status"],
    &["run", "other", "--", "true"],
    &["run", "other", "--wait", "--", "true"],
    &["kill", "api"],
    &["wait", "api", "--timeout", "2s"],
    &["wait", "api"],
];

/// All of them at once, so that they take no longer than the slowest.
fn start_all(world: &World, more: &[&[&str]]) -> Vec<(String, Running)> {
    let start = |args: &&[&str]| (args.join(" "), world.start(*args));
    COMMANDS.iter().chain(more).map(start).collect()
}

#[track_caller]
fn all_say(commands: Vec<(String, Running)>, who: &str, pid: Pid) {
    for (command, mut running) in commands {
        let said = running.complaint();
        assert!(said.contains(who), "{command}: {said}");
        let hint = running.complaint();
        let expected = format!("hint: `kill -CONT {}`", pid.as_raw_nonzero());
        assert!(hint.starts_with(&expected), "{command}: {hint}");
        let code = if command.contains("--wait") { 125 } else { 1 };
        assert_eq!(running.wait(), code, "{command}: {said}");
    }
}

#[test]
fn a_daemon_that_does_not_answer_is_named() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let pid = world.daemon_pid();
    let stopped = Stopped::new(pid);
    let who = format!(
        "the daemon (pid {}) does not answer: it is stopped",
        pid.as_raw_nonzero()
    );
    let more: &[&[&str]] = &[
        &["daemon", "status"],
        &["daemon", "stop"],
        &["send", "api", "x"],
    ];
    all_say(start_all(&world, more), &who, pid);
    // The disk needs no daemon, nor does tmux.
    let feed = parse_lines(world.task(["feed", "--format", "json"]).ok());
    assert_eq!(event(&feed, "started", "api")["seq"], 1);
    drop(stopped);
    world
        .task(["wait", "api", "--input", "--timeout", "1ms"])
        .fails(4, "tmux-task: wait api: timed out after 1 ms");
}

#[test]
fn a_tmux_server_that_does_not_answer_is_named_and_carries_nothing_out_later() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let before = world.look()["tasks"].clone();
    let pid = world.server();
    let stopped = Stopped::new(pid);
    let who = format!("the tmux server (pid {}, ", pid.as_raw_nonzero());
    let more: &[&[&str]] = &[
        &["ls", "--all"],
        &["run", "api", "--", "true"],
        &["send", "api", "typed"],
        &["prune"],
        &["kill-all", "--yes"],
    ];
    all_say(start_all(&world, more), &who, pid);
    drop(stopped);
    // An empty line behind everything that tmux was given.
    world.tmux(["display-message", "-p", ""]);
    let now = world.look()["tasks"].clone();
    let process = |tasks: &serde_json::Value| {
        let tasks = tasks.as_array().unwrap().iter();
        let of = |task: &serde_json::Value| (task["windowName"].clone(), task["panePid"].clone());
        tasks.map(of).collect::<Vec<_>>()
    };
    assert_eq!(process(&now), process(&before));
    let shown = world.tmux(["capture-pane", "-p", "-t", "=work:api"]);
    assert!(!shown.contains("typed"), "{shown}");
}

#[test]
fn a_tmux_server_that_is_busy_does_not_end_a_command() {
    let world = World::new();
    // It is on a processor again and again.
    let task = "trap '' TERM; while :; do echo busy; sleep 0.05; done";
    world.run("api", task);
    // Its answer to the question whether it answers at all comes later than usual.
    let script = "#!/bin/sh\ncase \"$*\" in *display-message*) sleep 3 ;; esac\n\
        exec tmux \"$@\"\n";
    world.script("slow-tmux", script);
    let slow = world
        .path("slow-tmux")
        .into_os_string()
        .into_string()
        .unwrap();
    let killed = world.task(["--tmux", &slow, "kill", "api", "--grace", "7s"]);
    assert!(!killed.err.contains("does not answer"), "{}", killed.err);
    killed.ok();
}

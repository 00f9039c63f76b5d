//! A daemon or a tmux server that does not respond: no command waits for ever, and each one names
//! the process.

use rustix::process::{Pid, Signal, kill_process};

use serde_json::{Value, json};

use crate::support::{World, argv, event, parse_lines};

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

/// Commands that all need an answer, at once, so that they take no longer than the slowest.
const COMMANDS: &str = "ls|ls --json|status|run other -- true|run other --wait -- true|kill api|\
                        wait api --timeout 2s|wait api";

/// Starts these and more. Each names the process that does not answer.
#[track_caller]
fn all_say(world: &World, more: &str, who: &str, pid: Pid) {
    let all = COMMANDS.split('|').chain(more.split('|'));
    let started: Vec<_> = all.map(|line| (line, world.start(argv(line)))).collect();
    for (command, mut running) in started {
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
    let more = "daemon status|daemon stop|send api x";
    all_say(&world, more, &who, pid);
    // The disk needs no daemon, nor does tmux.
    let feed = parse_lines(world.task(["feed", "--format", "json"]).ok());
    assert_eq!(event(&feed, "started", "api")["seq"], 1);
    drop(stopped);
    let why = "tmux-task: wait api: timed out after 1 ms";
    world.call("wait api --input --timeout 1ms").fails(4, why);
}

#[test]
fn a_tmux_server_that_does_not_answer_is_named_and_carries_nothing_out_later() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let processes = || {
        let tasks = world.tasks().into_iter();
        let of = |task: Value| json!([task["windowName"], task["panePid"]]);
        tasks.map(of).collect::<Vec<_>>()
    };
    let before = processes();
    let pid = world.server();
    let stopped = Stopped::new(pid);
    let who = format!("the tmux server (pid {}, ", pid.as_raw_nonzero());
    let more = "ls --all|run api -- true|send api typed|prune|kill-all --yes";
    all_say(&world, more, &who, pid);
    drop(stopped);
    // An empty line behind everything that tmux was given.
    world.tmux(["display-message", "-p", ""]);
    assert_eq!(processes(), before);
    let shown = world.screen("=work:api");
    assert!(!shown.contains("typed"), "{shown}");
}

#[test]
fn a_tmux_server_that_is_busy_does_not_end_a_command() {
    let world = World::new();
    // It is on a processor again and again.
    let task = "trap '' TERM; while :; do echo busy; sleep 0.05; done";
    world.run("api", task);
    // Its answer to the question whether it answers at all comes later than usual.
    let slow = world.tmux_after(
        "line=$(cat)\ncase $line in *display-message*) sleep 3 ;; esac\n\
         printf '%s\\n' \"$line\" | tmux \"$@\"; exit",
    );
    let killed = world.task(["--tmux", &slow, "kill", "api", "--grace", "7s"]);
    assert!(!killed.err.contains("does not answer"), "{}", killed.err);
    killed.ok();
}

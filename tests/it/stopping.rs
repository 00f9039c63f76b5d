//! How a daemon stops, also when tmux does not answer.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{World, event, has_ended};

/// What a daemon logs that stops although tmux does not answer: during its first look, and later. One
/// that waits for tmux first does not.
const GAVE_UP: &str = "gave up what was under way: tmux does not answer";
const LEFT_BEHIND: &str = "tmux does not answer: our hooks and options stay in it";

/// A tmux server that is stopped until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn server_of(world: &World) -> Self {
        let server = world.server();
        kill_process(server, Signal::STOP).unwrap();
        Self(server)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// Half of what a command gives tmux for one answer: who waits for that has not stopped by then.
#[track_caller]
fn until_ended(world: &World, daemon: Pid) {
    let started = std::time::Instant::now();
    world.until_true("the daemon ends", || has_ended(daemon));
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_signal_is_handled_while_tmux_hangs() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    for (signal, times) in [(Signal::TERM, 1), (Signal::INT, 2)] {
        world.task(["daemon", "--detach"]).ok();
        let daemon = world.daemon_pid();
        let stopped = Stopped::server_of(&world);
        // It asks tmux something, which is not answered.
        let asker = world.start(["ls"]);
        kill_process(daemon, signal).unwrap();
        until_ended(&world, daemon);
        assert!(!world.socket().exists());
        let log = world.logs();
        assert_eq!(log.matches(LEFT_BEHIND).count(), times, "{log}");
        drop((asker, stopped));
        // A client that stayed would keep the server from ever ending.
        world.until_true("its clients have gone", || {
            world.tmux(["list-clients"]).is_empty()
        });
    }
    // The server is not affected, and the next daemon continues.
    world.run("web", "exit 3");
    let is_follow_up = |record: &&Value| record["kind"] == "followUp";
    let records = world.until("the follow-up", |records| {
        records.iter().any(|record| is_follow_up(&record))
    });
    assert_eq!(event(&records, "exited", "web")["task"]["exitCode"], 3);
    assert_eq!(records.iter().filter(is_follow_up).count(), 1);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.tmux(["list-clients"]), "");
    assert_eq!(world.tmux(["show-hooks", "-gw", "pane-died"]), "pane-died");
}

#[test]
fn a_stop_request_works_while_tmux_hangs() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let daemon = world.daemon_pid();
    let stopped = Stopped::server_of(&world);
    let asker = world.start(["ls"]);
    world.task(["daemon", "stop"]).ok();
    assert!(!world.socket().exists());
    until_ended(&world, daemon);
    assert!(world.logs().contains(LEFT_BEHIND), "{}", world.logs());
    drop((asker, stopped));
}

#[test]
fn a_signal_is_handled_during_the_first_look() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
    // Everything is answered but the client that looks.
    let tmux = world.script(
        "tm",
        "#!/bin/sh\ncase \"$*\" in *attach-session*) exec sleep 1000;; esac\nexec tmux \"$@\"\n",
    );
    let tmux = tmux.to_str().unwrap();
    let mut daemon = world.start(["--tmux", tmux, "daemon"]);
    world.until_true("it looks", || {
        let folders = std::fs::read_dir(world.path("state")).unwrap();
        folders
            .flatten()
            .any(|folder| folder.path().join("feed.jsonl").exists())
    });
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert!(!world.socket().exists());
    assert!(world.logs().contains(GAVE_UP), "{}", world.logs());
}

#[test]
fn a_daemon_does_not_start_on_a_tmux_that_hangs_and_says_so() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
    let stopped = Stopped::server_of(&world);
    let started = world.task(["daemon"]);
    drop(stopped);
    assert_eq!(started.code, 1, "{started}");
    assert!(
        started
            .err
            .contains("tmux-task: daemon: the tmux server on `")
            && started.err.contains("` does not answer"),
        "{started}"
    );
}

#[test]
fn stopping_twice_is_stopping() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::TERM).unwrap();
    // It may be gone already.
    kill_process(daemon, Signal::TERM).unwrap_or_default();
    world.until_true("the daemon ends", || has_ended(daemon));
    assert!(!world.socket().exists());
    for _ in 0..2 {
        let again = world.task(["daemon", "stop"]);
        assert_eq!(again.code, 3, "{again}");
    }
}

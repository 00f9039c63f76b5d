//! How a daemon stops, also when tmux does not answer.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::silence::Stopped;
use crate::support::{World, argv, event, has_ended};

/// What a daemon logs that stops although tmux does not answer: during its first look, and later. One
/// that waits for tmux first does not.
const GAVE_UP: &str = "gave up what was under way: tmux does not answer";
const LEFT_BEHIND: &str = "tmux does not answer: our hooks and options stay in it";

/// Half of what a command gives tmux for one answer: who waits for that has not stopped by then.
#[track_caller]
fn until_ended(world: &World, daemon: Pid) {
    let started = std::time::Instant::now();
    world.until_true("the daemon ends", || has_ended(daemon));
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_signal_or_a_stop_request_is_handled_while_tmux_hangs_and_so_are_two() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    for (signal, times) in [(Some(Signal::TERM), 1), (Some(Signal::INT), 2), (None, 3)] {
        world.task(["daemon", "--detach"]).ok();
        let daemon = world.daemon_pid();
        let stopped = Stopped::new(world.server());
        // It asks tmux something, which is not answered.
        let asker = world.start(["ls"]);
        match signal {
            Some(signal) => kill_process(daemon, signal).unwrap(),
            None => {
                world.task(["daemon", "stop"]).ok();
            }
        }
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
    // Stopping twice is stopping.
    world.daemon();
    let daemon = world.daemon_pid();
    for _ in 0..2 {
        // It may be gone already.
        kill_process(daemon, Signal::TERM).unwrap_or_default();
    }
    world.until_true("the daemon ends", || has_ended(daemon));
    assert!(!world.socket().exists());
    for _ in 0..2 {
        world.task(["daemon", "stop"]).fails_with(3);
    }
}

#[test]
fn a_signal_is_handled_during_the_first_look() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work 'exec sleep 1000'"));
    // Everything is answered but the client that looks.
    let tmux = world.tmux_after("case \"$*\" in *attach-session*) exec sleep 1000;; esac");
    let mut daemon = world.start(["--tmux", &tmux, "daemon"]);
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
    world.tmux(argv("new-session -d -s work 'exec sleep 1000'"));
    let stopped = Stopped::new(world.server());
    let started = world.task(["daemon"]);
    drop(stopped);
    started.fails_saying(1, "tmux-task: daemon: the tmux server on `");
    started.fails_saying(1, "` does not answer");
}

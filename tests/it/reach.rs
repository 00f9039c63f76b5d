//! A server that cannot be reached for some time is not gone: its tasks are unchanged.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;

use crate::consumers::{acknowledge, consume, until_live};
use crate::runs::codes;
use crate::silence::Stopped;
use crate::support::{Gate, Running, World, all_told, has_ended, story};

/// A world with a live task, one that waits at the gate, and one that has ended, all delivered.
fn with_tasks() -> (World, Gate, Vec<Value>) {
    let world = World::new();
    // A notice that tmux does not take would come before the look.
    let folder = world.path("conf/tmux-task");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("config.toml"), "notices = []\n").unwrap();
    let gate = world.gate("gate");
    world.run("waits", &format!("{}; exit 5", gate.wait()));
    world.run("on", "exec sleep 1000");
    world.run("over", "exit 3");
    let records = world.until("all of it", |records| {
        let story = story(records);
        let has = |line: &str| story.iter().any(|told| told == line);
        codes(records, "over").len() == 1
            && has("started waits")
            && has("started on")
            && all_told(records)
    });
    world.look();
    (world, gate, records)
}

/// Makes the server listen again, also if the test fails, so that it can be ended.
struct ListensAgain(Pid);

impl Drop for ListensAgain {
    fn drop(&mut self) {
        kill_process(self.0, Signal::USR1).unwrap_or_default();
    }
}

fn socket(world: &World) -> PathBuf {
    world
        .tmux(["display-message", "-p", "#{socket_path}"])
        .into()
}

/// Waits until the daemon says that it cannot look.
fn until_it_cannot_look(world: &World) {
    world.until_true("it says that it cannot look", || {
        let problems = &world.daemon_status()["problems"];
        problems
            .as_array()
            .is_some_and(|problems| problems[0].as_str().unwrap().contains("looked at"))
    });
}

/// Waits for another look. Its report contains everything reported before, and the next end.
#[track_caller]
fn check_carries_on(world: &World, gate: &Gate, before: &[Value]) {
    world.until_true("it looks again", || {
        world.daemon_status()["problems"] == Value::Null
    });
    gate.open();
    world.until("the end", |records| {
        codes(records, "waits") == [(1, 5)] && all_told(records)
    });
    let records = world.finish();
    assert_eq!(records[..before.len()], *before);
    let told = story(&records[before.len()..]);
    assert_eq!(told[0], "exited waits 5", "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

fn detach_all(world: &World) {
    world.tmux(["detach-client", "-s", "=work"]);
}

#[test]
fn a_server_whose_socket_was_deleted_and_recreated_has_the_same_tasks() {
    let (world, gate, before) = with_tasks();
    let (socket, server) = (socket(&world), world.server());
    let _listens = ListensAgain(server);
    let clients = world.tmux(["list-clients", "-F", "#{client_pid}"]);
    fs::remove_file(&socket).unwrap();
    // Without its clients the daemon has to come by the socket.
    for client in clients.lines() {
        let client = Pid::from_raw(client.parse().unwrap()).unwrap();
        // The daemon lets the others go when one is gone.
        kill_process(client, Signal::TERM).unwrap_or_default();
        world.until_true("the client leaves", || has_ended(client));
    }
    until_it_cannot_look(&world);
    let status = world.task(["daemon", "status"]);
    let hint = format!("`kill -USR1 {}`", server.as_raw_nonzero());
    assert!(status.ok().contains(&hint), "{status}");
    kill_process(server, Signal::USR1).unwrap();
    check_carries_on(&world, &gate, &before);
}

#[test]
fn a_daemon_that_comes_back_to_a_deleted_socket_waits_for_it() {
    let (world, gate, before) = with_tasks();
    let (socket, server) = (socket(&world), world.server());
    let _listens = ListensAgain(server);
    world.kill_daemon();
    fs::remove_file(&socket).unwrap();
    world.daemon();
    until_it_cannot_look(&world);
    // A launch starts no second server in the place of the first one.
    let launched = world.task(["run", "other", "--", "sleep 1000"]);
    let hint = format!("`kill -USR1 {}`", server.as_raw_nonzero());
    assert_eq!(launched.code, 1, "{launched}");
    assert!(launched.err.contains(&hint), "{launched}");
    assert!(!socket.exists());
    kill_process(server, Signal::USR1).unwrap();
    check_carries_on(&world, &gate, &before);
}

#[test]
fn a_daemon_without_descriptors_does_not_take_its_server_for_gone() {
    let (world, gate, before) = with_tasks();
    let daemon = world.daemon_pid();
    let limit = |limit: Rlimit| prlimit(Some(daemon), Resource::Nofile, limit).unwrap();
    // Open descriptors remain usable.
    let none = Rlimit {
        current: Some(3),
        maximum: prlimit_of(daemon),
    };
    let limited = limit(none);
    detach_all(&world);
    world.until_true("it has noticed", || {
        let log = fs::read_to_string(world.state("work").join("daemon.log")).unwrap();
        log.contains("a look failed")
    });
    limit(limited);
    check_carries_on(&world, &gate, &before);
}

/// A limit on the size of its files stands in for a full disk.
#[test]
fn a_disk_that_is_full_is_said_and_nothing_is_lost() {
    let (world, gate, before) = with_tasks();
    let daemon = world.daemon_pid();
    let reader = world.start(["feed", "--follow"]);
    reader.records_until(|record| record["kind"] == "sync");
    let limit = |limit| prlimit(Some(daemon), Resource::Fsize, limit).unwrap();
    let feed = world.state("work").join("feed.jsonl");
    let full = fs::metadata(&feed).unwrap().len() + 100;
    let limited = limit(Rlimit {
        current: Some(full),
        maximum: None,
    });
    gate.open();
    let told = reader.records_until(|record| record["problem"] != Value::Null);
    assert!(
        told.iter().all(|record| record["kind"] == "status"),
        "{told:?}"
    );
    let problem = told.last().unwrap()["problem"].as_str().unwrap();
    let status = world.daemon_status();
    let problems = status["problems"].as_array().unwrap();
    for said in [problem, problems[0].as_str().unwrap()] {
        let words = [
            "could not write the feed",
            "File too large",
            "wait in memory",
        ];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    assert_eq!(world.records(), before);
    limit(limited);
    let told = reader.records_until(|record| record["seq"] == before.len() + 2);
    let is_over = |record: &&Value| record["kind"] == "status" && record["problem"].is_null();
    reader_sees(&reader, told.iter().any(|record| is_over(&record)));
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    assert_eq!(codes(&records, "waits"), [(1, 5)]);
}

#[test]
fn clients_that_a_user_detaches_come_back_and_miss_nothing() {
    let (world, gate, before) = with_tasks();
    for _ in 0..3 {
        detach_all(&world);
        // The daemon is there, with new clients.
        assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 3);
        world.until_true("it is attached again", || {
            !world.tmux(["list-clients", "-t", "=work"]).is_empty()
        });
    }
    detach_all(&world);
    check_carries_on(&world, &gate, &before);
}

#[test]
fn a_server_that_is_stopped_for_ten_seconds_has_the_same_tasks() {
    let (world, gate, before) = with_tasks();
    let began = Instant::now();
    let stopped = Stopped::new(world.server());
    // Something to look for.
    let _asks = world.start(["ls"]);
    until_it_cannot_look(&world);
    std::thread::sleep((began + Duration::from_secs(10)).saturating_duration_since(Instant::now()));
    assert_eq!(world.records(), before);
    drop(stopped);
    check_carries_on(&world, &gate, &before);
}

/// A limit of 0 on the size of its files: whatever it writes is refused.
#[test]
fn an_acknowledgement_that_a_full_disk_refuses_is_confirmed_when_it_is_saved() {
    let (world, _gate, before) = with_tasks();
    let daemon = world.daemon_pid();
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness).len(), before.len());
    acknowledge(&mut harness, 1);
    let limit = |limit| prlimit(Some(daemon), Resource::Fsize, limit).unwrap();
    let limited = limit(Rlimit {
        current: Some(0),
        maximum: None,
    });
    harness.write("{\"ack\":2}\n");
    world.until_true("it says that it cannot save", || {
        let problems = world.daemon_status()["problems"].to_string();
        problems.contains("could not save consumers") && problems.contains("File too large")
    });
    let refused = world.task(["feed", "--follow", "--consumer", "other"]);
    assert_eq!(refused.code, 1, "{refused}");
    let why = "tmux-task: feed: could not create consumer `other`";
    assert!(refused.err.starts_with(why), "{refused}");
    limit(limited);
    let lines = harness.records_until(|line| line["kind"] == "acked");
    assert_eq!(lines.last().unwrap()["acked"], 2);
    world.until_true("there is no problem", || {
        world.daemon_status()["problems"] == Value::Null
    });
    world.kill_daemon();
    world.daemon();
    let again = until_live(&consume(&world, "pi", &[]));
    assert_eq!(again.first(), Some(&3));
}

/// The status without a problem comes with the records, or right behind them.
fn reader_sees(reader: &Running, has_seen: bool) {
    if !has_seen {
        reader.records_until(|record| record["kind"] == "status" && record["problem"].is_null());
    }
}

/// The hard limit of a process, which is not changed.
fn prlimit_of(pid: Pid) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    line.unwrap()
        .split_whitespace()
        .nth(4)
        .unwrap()
        .parse()
        .ok()
}

//! A server that cannot be reached for some time is not gone: its tasks are unchanged.

use std::fs;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::Value;

use crate::consumers::{acknowledge, consume, until_live};
use crate::runs::codes;
use crate::silence::Stopped;
use crate::support::{Gate, World, all_told, has, has_ended, story};

/// A world with a live task, one that waits at the gate, and one that has ended, all delivered.
fn with_tasks() -> (World, Gate, Vec<Value>) {
    let world = World::new();
    // A notice that tmux does not take would come before the look.
    world.configure("notices = []\n");
    let gate = world.gate("gate");
    world.run("waits", &format!("{gate}; exit 5"));
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

/// Waits until the daemon says that it cannot look.
fn until_it_cannot_look(world: &World) {
    world.until_true("it says that it cannot look", || {
        let problems = &world.daemon_status()["problems"];
        problems[0]
            .as_str()
            .is_some_and(|problem| problem.contains("looked at"))
    });
}

fn until_no_problem(world: &World) {
    world.until_true("there is no problem", || {
        world.daemon_status()["problems"] == Value::Null
    });
}

/// Waits for another look. Its report contains everything reported before, and the next end.
#[track_caller]
fn check_carries_on(world: &World, gate: &Gate, before: &[Value]) {
    until_no_problem(world);
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
    let (socket, server) = (world.server_socket(), world.server());
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
    has(
        status.ok(),
        format!("`kill -USR1 {}`", server.as_raw_nonzero()),
    );
    kill_process(server, Signal::USR1).unwrap();
    check_carries_on(&world, &gate, &before);
}

#[test]
fn a_daemon_that_comes_back_to_a_deleted_socket_waits_for_it() {
    let (world, gate, before) = with_tasks();
    let (socket, server) = (world.server_socket(), world.server());
    let _listens = ListensAgain(server);
    world.kill_daemon();
    fs::remove_file(&socket).unwrap();
    world.daemon();
    until_it_cannot_look(&world);
    // A launch starts no second server in the place of the first one.
    let launched = world.task(["run", "other", "--", "sleep 1000"]);
    let hint = format!("`kill -USR1 {}`", server.as_raw_nonzero());
    launched.fails_so(1, "").says(hint);
    assert!(!fs::exists(socket).unwrap());
    kill_process(server, Signal::USR1).unwrap();
    check_carries_on(&world, &gate, &before);
}

/// Limits a resource of the daemon; its hard limit is not changed. Returns the limit before.
fn limit(world: &World, resource: Resource, current: u64) -> Rlimit {
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit {
        current: Some(current),
        maximum,
    };
    prlimit(Some(world.daemon_pid()), resource, limit).unwrap()
}

#[test]
fn whatever_keeps_the_daemon_from_its_server_for_a_while_changes_no_task() {
    let (world, gate, before) = with_tasks();
    // Clients that a user detaches come back.
    for _ in 0..3 {
        detach_all(&world);
        // The daemon is there, with new clients.
        assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 3);
        world.until_true("it is attached again", || {
            !world.tmux(["list-clients", "-t", "=work"]).is_empty()
        });
    }
    // Without descriptors it does not take its server for gone. Open ones remain usable.
    let daemon = world.daemon_pid();
    let before_limit = limit(&world, Resource::Nofile, 3);
    detach_all(&world);
    world.until_true("it has noticed", || world.log().contains("a look failed"));
    prlimit(Some(daemon), Resource::Nofile, before_limit).unwrap();
    until_no_problem(&world);
    assert_eq!(world.records(), before);
    // A server is stopped for longer than a look may take, and there is something to look for.
    let stopped = Stopped::new(world.server());
    let _asks = world.start(["ls"]);
    until_it_cannot_look(&world);
    assert_eq!(world.records(), before);
    drop(stopped);
    check_carries_on(&world, &gate, &before);
}

/// A limit on the size of its files stands in for a full disk.
#[test]
fn a_disk_that_is_full_is_said_and_nothing_is_lost() {
    let (world, gate, before) = with_tasks();
    let daemon = world.daemon_pid();
    let reader = world.start(["feed", "--follow"]);
    reader.records_until(|record| record["kind"] == "sync");
    let feed = world.state("work").join("feed.jsonl");
    let full = fs::metadata(&feed).unwrap().len() + 100;
    let limited = limit(&world, Resource::Fsize, full);
    gate.open();
    let told = reader.records_until(|record| record["problem"] != Value::Null);
    let is_status = |record: &Value| record["kind"] == "status";
    assert!(told.iter().all(is_status), "{told:?}");
    let status = world.daemon_status();
    for said in [&told.last().unwrap()["problem"], &status["problems"][0]] {
        for words in "could not write the feed|File too large|wait in memory".split('|') {
            has(said.as_str().unwrap(), words);
        }
    }
    assert_eq!(world.records(), before);
    prlimit(Some(daemon), Resource::Fsize, limited).unwrap();
    let told = reader.records_until(|record| record["seq"] == before.len() + 2);
    // The status without a problem comes with the records, or right behind them.
    let is_over = |record: &Value| is_status(record) && record["problem"].is_null();
    if !told.iter().any(is_over) {
        reader.records_until(is_over);
    }
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    assert_eq!(codes(&records, "waits"), [(1, 5)]);
}

/// A limit of 0 on the size of its files: whatever it writes is refused.
#[test]
fn an_acknowledgement_that_a_full_disk_refuses_is_confirmed_when_it_is_saved() {
    let (world, _gate, before) = with_tasks();
    let daemon = world.daemon_pid();
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness).len(), before.len());
    acknowledge(&mut harness, 1);
    let limited = limit(&world, Resource::Fsize, 0);
    harness.write("{\"ack\":2}\n");
    world.until_true("it says that it cannot save", || {
        let problems = world.daemon_status()["problems"].to_string();
        problems.contains("could not save consumers") && problems.contains("File too large")
    });
    let refused = world.task(["feed", "--follow", "--consumer", "other"]);
    let why = "tmux-task: feed: could not create consumer `other`";
    refused.fails_so(1, why);
    prlimit(Some(daemon), Resource::Fsize, limited).unwrap();
    let lines = harness.records_until(|line| line["kind"] == "acked");
    assert_eq!(lines.last().unwrap()["acked"], 2);
    until_no_problem(&world);
    world.kill_daemon();
    world.daemon();
    let again = until_live(&consume(&world, "pi", &[]));
    assert_eq!(again.first(), Some(&3));
}

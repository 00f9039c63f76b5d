//! The daemon's socket, for programs that use it directly.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

use crate::support::{DEADLINE, World, has_fields};

/// Asks the daemon something.
pub(crate) fn ask(world: &World, request: &Value) -> UnixStream {
    let socket = UnixStream::connect(world.socket()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut asker = &socket;
    asker.write_all(format!("{request}\n").as_bytes()).unwrap();
    socket
}

fn answer(socket: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).expect("an answer")
}

fn wait_for(window: &str) -> Value {
    json!({"op": "wait", "task": window, "conditions": ["exit"]})
}

#[test]
fn a_client_that_closes_its_side_gets_the_answer() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{gate}; exit 3"));
    let subscribe = json!({"op": "subscribe", "start": "now", "filter": {}});
    // Also when the answer takes a while.
    let requests = [json!({"op": "status"}), wait_for(&window), subscribe];
    let [asker, waiter, reader] = requests.map(|request| {
        let socket = ask(&world, &request);
        socket.shutdown(Shutdown::Write).unwrap();
        socket
    });
    assert_eq!(answer(&asker)["answer"], "status");
    world.until_true("both are served", || {
        let status = world.daemon_status();
        status["waits"] == 1 && status["readers"] == 1
    });
    gate.open();
    assert_eq!(answer(&waiter)["exitCode"], 3);
    let mut told = BufReader::new(&reader).lines().map(Result::unwrap);
    assert!(told.any(|line| line.contains("\"exited\"")));
    drop(told);
    drop(reader);
    world.until_true("the reader has left", || {
        world.daemon_status()["readers"] == 0
    });
}

#[test]
fn a_wait_ends_with_its_asker_whatever_that_one_said_last() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    for last in ["{", "x"] {
        let mut waiter = ask(&world, &wait_for(&window));
        waiter.write_all(last.as_bytes()).unwrap();
        world.until_waits(1);
        drop(waiter);
        world.until_waits(0);
    }
}

#[test]
fn a_command_of_another_version_gets_the_version_and_can_stop_the_daemon() {
    let world = World::new();
    world.daemon();
    let [refused, status, stopped] = ["list", "status", "stop"].map(|op| {
        let request = json!({"protocol": 99, "version": "9.9.9", "op": op, "cleanup": false});
        answer(&ask(&world, &request))
    });
    let why = format!(
        "the daemon of this session is version {}, this command is 9.9.9",
        env!("CARGO_PKG_VERSION")
    );
    has_fields(&refused, "kind message", json!(["version", why]));
    assert_eq!(status["answer"], "status");
    assert_eq!(stopped["answer"], "done");
    world.until_true("it has stopped", || {
        world.task(["daemon", "status"]).code == 3
    });
}

#[test]
fn a_subscriber_gets_all_tasks_and_then_their_changes() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{gate}; exit 3"));
    let other = world.run("other", "exec sleep 1000");
    let subscribe = json!({"op": "subscribe", "start": "now", "filter": {}, "tasks": true});
    let reader = ask(&world, &subscribe);
    let lines = BufReader::new(&reader).lines().map(Result::unwrap);
    let mut records = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut next = |is_it: &dyn Fn(&Value) -> bool| {
        let mut tasks = records.by_ref().filter(|record| record["kind"] == "tasks");
        tasks.find(is_it).expect("the stream goes on")
    };
    let named = |record: &Value| -> Value {
        let tasks = record["tasks"].as_array().unwrap().iter();
        tasks.map(|task| task["windowId"].clone()).collect()
    };
    let first = next(&|_| true);
    has_fields(&first, "complete exists", json!([true, true]));
    assert_eq!(named(&first), json!([window, other]));
    gate.open();
    let ended = next(&|record| record["tasks"][0]["state"] == "exited");
    has_fields(&ended, "complete tasks.0.exitCode", json!([false, 3]));
    assert_eq!(named(&ended), json!([window]));
    world.task(["kill", "other"]).ok();
    let gone = next(&|record| record["removed"] != json!([]));
    assert_eq!(gone["removed"], json!([other]));
    world.task(["kill-all", "--yes"]).ok();
    let none = next(&|record| record["exists"] == false);
    assert_eq!(none["tasks"], json!([]));
}

//! The daemon's socket, for programs that use it directly.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};

use crate::support::{DEADLINE, World};

fn connect(world: &World) -> UnixStream {
    let socket = UnixStream::connect(world.socket()).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket
}

fn ask(mut socket: &UnixStream, request: &Value) {
    socket.write_all(format!("{request}\n").as_bytes()).unwrap();
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
    let line = format!("{}; exit 3", gate.wait());
    let window = world.run("api", &line);
    let asker = connect(&world);
    ask(&asker, &json!({"op": "status"}));
    asker.shutdown(Shutdown::Write).unwrap();
    assert_eq!(answer(&asker)["answer"], "status");
    // Also when the answer takes a while.
    let waiter = connect(&world);
    ask(&waiter, &wait_for(&window));
    waiter.shutdown(Shutdown::Write).unwrap();
    let reader = connect(&world);
    ask(
        &reader,
        &json!({"op": "subscribe", "start": "now", "filter": {}}),
    );
    reader.shutdown(Shutdown::Write).unwrap();
    world.until_true("both are served", || {
        let status = world.daemon_status();
        status["waits"] == 1 && status["readers"] == 1
    });
    gate.open();
    assert_eq!(answer(&waiter)["exitCode"], 3);
    let told = BufReader::new(&reader).lines().map(Result::unwrap);
    let mut exits = told.filter(|line| line.contains("\"exited\""));
    assert!(exits.next().is_some());
    drop(exits);
    drop(reader);
    world.until_true("the reader has left", || {
        world.daemon_status()["readers"] == 0
    });
}

#[test]
fn a_wait_ends_with_its_asker_whatever_that_one_said_last() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    let mut waiter = connect(&world);
    ask(&waiter, &wait_for(&window));
    waiter.write_all(b"{").unwrap();
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    drop(waiter);
    world.until_true("it waits no more", || world.daemon_status()["waits"] == 0);
}

#[test]
fn a_command_of_another_version_gets_the_version_and_can_stop_the_daemon() {
    let world = World::new();
    world.daemon();
    let other = |op: &str| json!({"protocol": 99, "version": "9.9.9", "op": op, "cleanup": false});
    let asker = connect(&world);
    ask(&asker, &other("list"));
    let refused = answer(&asker);
    assert_eq!(refused["kind"], "version", "{refused}");
    let why = format!(
        "the daemon of this session is version {}, this command is 9.9.9",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(refused["message"], why.as_str());
    let asker = connect(&world);
    ask(&asker, &other("status"));
    assert_eq!(answer(&asker)["answer"], "status");
    let asker = connect(&world);
    ask(&asker, &other("stop"));
    assert_eq!(answer(&asker)["answer"], "done");
    world.until_true("it has stopped", || {
        world.task(["daemon", "status"]).code == 3
    });
}

#[test]
fn a_daemon_of_another_version_is_named_with_what_to_do() {
    let world = World::new();
    world.daemon();
    world.task(["daemon", "stop"]).ok();
    // A daemon of the future that understands nothing but what all versions do.
    let listener = UnixListener::bind(world.socket()).unwrap();
    let daemon = std::thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            let mut line = String::new();
            BufReader::new(&socket).read_line(&mut line).unwrap();
            if line.is_empty() {
                return;
            }
            assert!(line.contains("\"version\":"), "{line}");
            let said = json!({
                "answer": "refused",
                "kind": "version",
                "message": "the daemon of this session is version 9.9.9, this command is 0.1.0",
            });
            ask(&socket, &said);
        }
    });
    world.task(["ls"]).fails(
        1,
        "tmux-task: ls: the daemon of this session is version 9.9.9, this command is 0.1.0\n\
         hint: `tmux-task daemon stop` stops it, and the tasks go on; the next command starts one \
         of this version",
    );
    drop(UnixStream::connect(world.socket()).unwrap());
    daemon.join().unwrap();
    fs::remove_file(world.socket()).unwrap();
}

#[test]
fn a_subscriber_gets_all_tasks_and_then_their_changes() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = format!("{}; exit 3", gate.wait());
    let window = world.run("api", &line);
    let other = world.run("other", "exec sleep 1000");
    let reader = connect(&world);
    ask(
        &reader,
        &json!({"op": "subscribe", "start": "now", "filter": {}, "tasks": true}),
    );
    let lines = BufReader::new(&reader).lines().map(Result::unwrap);
    let mut records = lines.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    let mut next = |is_it: &dyn Fn(&Value) -> bool| {
        let mut tasks = records.by_ref().filter(|record| record["kind"] == "tasks");
        tasks.find(is_it).expect("the stream goes on")
    };
    let named = |record: &Value| -> Vec<String> {
        let tasks = record["tasks"].as_array().unwrap().iter();
        tasks
            .map(|task| task["windowId"].as_str().unwrap().to_owned())
            .collect()
    };
    let first = next(&|_| true);
    assert_eq!(
        (&first["complete"], &first["exists"]),
        (&true.into(), &true.into())
    );
    assert_eq!(named(&first), [window.clone(), other.clone()]);
    gate.open();
    let ended = next(&|record| record["tasks"][0]["state"] == "exited");
    assert_eq!(ended["complete"], false);
    assert_eq!(named(&ended), [window]);
    assert_eq!(ended["tasks"][0]["exitCode"], 3);
    world.task(["kill", "other"]).ok();
    let gone = next(&|record| record["removed"] != json!([]));
    assert_eq!(gone["removed"], json!([other]));
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(
        next(&|record| record["exists"] == false)["tasks"],
        json!([])
    );
}

//! A program and a daemon of different versions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};

use crate::support::{DEADLINE, World, events, has_ended};

/// Asks the daemon to make room for a version of the far future.
fn make_room(world: &World) -> Value {
    let mut stream = UnixStream::connect(world.socket()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let request =
        json!({"protocol": 99, "version": "999.0.0", "op": "makeRoom", "successor": "999.0.0"});
    stream.write_all(format!("{request}\n").as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn a_daemon_makes_room_when_nobody_notices_and_nothing_is_lost() {
    let world = World::new();
    let gate = world.gate("gate");
    world.run("api", &format!("{}; exit 3", gate.wait()));
    world.until_deliveries(1);
    let refused = |why: &str| {
        let answer = make_room(&world);
        assert_eq!(answer["answer"], "refused", "{answer}");
        assert_eq!(answer["message"], why, "{answer}");
    };
    let wait = world.start(["wait", "api"]);
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    refused("it serves 1 wait");
    drop(wait);
    world.until_true("it waits no more", || world.daemon_status()["waits"] == 0);
    let reader = world.start(["feed", "--follow"]);
    world.until_true("it reads", || world.daemon_status()["readers"] == 1);
    refused("it serves 1 reader");
    drop(reader);
    world.until_true("it reads no more", || world.daemon_status()["readers"] == 0);

    let daemon = world.daemon_pid();
    assert_eq!(make_room(&world)["answer"], "done");
    world.until_true("it has ended", || has_ended(daemon));
    gate.open();
    // The next command starts its successor, which finds what happened in between.
    world.run("web", "exec sleep 1000");
    world.until("both events", |records| {
        let has = |kind: &str, name: &str| {
            let is = |event: &&Value| event["type"] == kind && event["task"]["windowName"] == name;
            events(records).iter().filter(|event| is(event)).count() == 1
        };
        has("exited", "api") && has("started", "web")
    });
    world.finish();
}

#[test]
fn a_daemon_that_was_started_by_hand_stays() {
    let world = World::new();
    world.daemon();
    let answer = make_room(&world);
    assert_eq!(
        answer["message"], "it was not started by a command",
        "{answer}"
    );
    assert_eq!(world.daemon_status()["exists"], false);
}

/// A daemon of another version, written by hand.
struct Peer {
    /// The operations that it was asked for.
    asked: Receiver<String>,
}

impl Peer {
    /// Listens in the place of the world's daemon. `makes_room` is its answer to that request.
    fn start(world: &World, version: &str, makes_room: Value) -> Self {
        world.daemon();
        let socket = world.socket();
        let mut status = world.daemon_status();
        status["answer"] = "status".into();
        status["version"] = version.into();
        world.task(["daemon", "stop"]).ok();
        let listener = UnixListener::bind(&socket).unwrap();
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || serve(&listener, &socket, &sender, &status, &makes_room));
        Self { asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

fn serve(
    listener: &UnixListener,
    socket: &PathBuf,
    sender: &mpsc::Sender<String>,
    status: &Value,
    makes_room: &Value,
) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).unwrap();
            let op = request["op"].as_str().unwrap().to_owned();
            let answer = match op.as_str() {
                "status" => status.clone(),
                "makeRoom" => makes_room.clone(),
                "run" => json!({"answer": "unattached"}),
                "list" | "to" => json!({"answer": "refused", "kind": "version",
                                 "message": "the daemon of this session is version 999.0.0",
                                 "hint": "update this program: the daemon is newer"}),
                _ => json!({"answer": "done"}),
            };
            let leaves = op == "makeRoom" && answer["answer"] == "done";
            if leaves {
                fs::remove_file(socket).unwrap();
            }
            // The receiver of the operations may be gone.
            drop(sender.send(op));
            drop(stream.write_all(format!("{answer}\n").as_bytes()));
            if leaves {
                return;
            }
        }
    }
}

#[test]
fn a_launch_replaces_an_older_daemon_that_makes_room() {
    let world = World::new();
    let peer = Peer::start(&world, "0.0.1", json!({"answer": "done"}));
    let output = world.task(["run", "api", "--", "exec sleep 1000"]);
    assert_eq!(output.ok().lines().count(), 4);
    assert_eq!(output.err, "");
    assert_eq!(peer.asked(), ["to", "status", "makeRoom"]);
    let status = world.daemon_status();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    world.until("its start", |records| {
        events(records)
            .iter()
            .any(|event| event["type"] == "started")
    });
}

#[test]
fn an_older_daemon_that_is_needed_goes_on_and_one_line_says_what_to_do() {
    let world = World::new();
    let refused = json!({"answer": "refused", "kind": "failed", "message": "it serves 1 wait"});
    let peer = Peer::start(&world, "0.0.1", refused);
    let output = world.task(["run", "api", "--", "exec sleep 1000"]);
    assert_eq!(output.ok().lines().count(), 4, "the task is started");
    let ours = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "tmux-task: run: the daemon is version 0.0.1, older than this program ({ours}), and goes on: \
         it serves 1 wait\n\
         hint: `tmux-task daemon stop` stops it, and the tasks go on; the next command starts one of \
         this version\n"
    );
    assert_eq!(output.err, expected);
    assert!(peer.asked().iter().any(|op| op == "run"));
}

#[test]
fn a_newer_daemon_is_left_alone() {
    let world = World::new();
    let peer = Peer::start(&world, "999.0.0", json!({"answer": "done"}));
    let output = world.task(["run", "api", "--", "exec sleep 1000"]);
    assert_eq!(output.ok().lines().count(), 4);
    assert_eq!(output.err, "");
    assert!(!peer.asked().iter().any(|op| op == "makeRoom"));
    let output = world.task(["ls"]);
    assert_eq!(output.code, 1);
    assert!(
        output
            .err
            .ends_with("hint: update this program: the daemon is newer\n"),
        "{output}"
    );
}

#[test]
fn no_daemon_is_asked_to_leave_where_none_may_be_started() {
    let mut world = World::new();
    let peer = Peer::start(&world, "0.0.1", json!({"answer": "done"}));
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.task(["run", "api", "--", "exec sleep 1000"]).ok();
    assert!(!peer.asked().iter().any(|op| op == "makeRoom"));
}

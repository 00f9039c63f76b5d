//! A program and a daemon of different versions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};

use crate::support::{World, events};

/// A daemon of another version, written by hand.
struct Peer {
    /// The operations that it was asked for.
    asked: Receiver<String>,
}

impl Peer {
    /// Listens in the place of the world's daemon.
    fn start(world: &World) -> Self {
        let socket = world.socket();
        world.task(["daemon", "stop"]).ok();
        let listener = UnixListener::bind(&socket).unwrap();
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || serve(&listener, &socket, &sender));
        Self { asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

/// Refuses everything but to stop.
fn serve(listener: &UnixListener, socket: &PathBuf, sender: &mpsc::Sender<String>) {
    for stream in listener.incoming() {
        let mut stream = stream.unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap()).lines();
        for line in lines.map_while(Result::ok) {
            let request: Value = serde_json::from_str(&line).unwrap();
            let op = request["op"].as_str().unwrap().to_owned();
            let stops = op == "stop";
            let answer = match stops {
                true => json!({"answer": "done"}),
                false => json!({"answer": "refused", "kind": "version",
                                "message": "the daemon of this session is version 999.0.0"}),
            };
            if stops {
                fs::remove_file(socket).unwrap();
            }
            // The receiver of the operations may be gone.
            drop(sender.send(op));
            drop(stream.write_all(format!("{answer}\n").as_bytes()));
            if stops {
                return;
            }
        }
    }
}

#[test]
fn a_daemon_of_another_version_is_stopped_and_another_one_started() {
    let restart = ["--restart", "on-failure"];
    for more in [&[][..], &restart] {
        let world = World::new();
        world.daemon();
        let peer = Peer::start(&world);
        let args = [&["run", "api"], more, &["--", "exec sleep 1000"]].concat();
        let output = world.task(&args);
        assert_eq!(output.ok().lines().count(), 4);
        assert_eq!(output.err, "");
        assert_eq!(peer.asked(), ["run", "stop"]);
        let status = world.daemon_status();
        assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
        world.until("its start", |records| {
            events(records)
                .iter()
                .any(|event| event["type"] == "started")
        });
    }
}

#[test]
fn any_command_does_so() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let peer = Peer::start(&world);
    assert!(world.task(["ls"]).ok().contains("api"));
    assert_eq!(peer.asked(), ["list", "stop"]);
    let status = world.daemon_status();
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn no_daemon_is_asked_to_leave_where_none_may_be_started() {
    let mut world = World::new();
    world.daemon();
    let peer = Peer::start(&world);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let output = world.task(["run", "api", "--", "exec sleep 1000"]);
    output.fails(
        1,
        "tmux-task: run: the daemon of this session is version 999.0.0\n\
         hint: `tmux-task daemon stop` stops it, and the tasks go on; the next command starts one of \
         this version",
    );
    assert!(!peer.asked().iter().any(|op| op == "stop"));
}

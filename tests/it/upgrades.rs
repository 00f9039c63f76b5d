//! A program and a daemon of different versions.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixListener;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use serde_json::{Value, json};

use crate::support::World;

/// A daemon of another version, written by hand.
struct Peer {
    /// The operations that it was asked for.
    asked: Receiver<String>,
}

impl Peer {
    /// Listens in the place of the world's daemon, and refuses everything but to stop, or that too: a
    /// daemon of the future understands nothing but what all versions do.
    fn start(world: &World, stops: bool) -> Self {
        let socket = world.socket();
        world.task(["daemon", "stop"]).ok();
        let listener = UnixListener::bind(&socket).unwrap();
        let (sender, asked) = mpsc::channel();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let lines = BufReader::new(stream.try_clone().unwrap()).lines();
                for line in lines.map_while(Result::ok) {
                    let request: Value = serde_json::from_str(&line).unwrap();
                    assert!(request["version"].is_string(), "{line}");
                    let op = request["op"].as_str().unwrap().to_owned();
                    let is_over = stops && op == "stop";
                    let answer = match is_over {
                        true => json!({"answer": "done"}),
                        false => json!({"answer": "refused", "kind": "version",
                                        "message": "the daemon of this session is version 999.0.0"}),
                    };
                    if is_over {
                        fs::remove_file(&socket).unwrap();
                    }
                    // The receiver of the operations may be gone.
                    drop(sender.send(op));
                    drop(stream.write_all(format!("{answer}\n").as_bytes()));
                    if is_over {
                        return;
                    }
                }
            }
        });
        Self { asked }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.try_iter().collect()
    }
}

#[test]
fn a_daemon_of_another_version_is_stopped_and_another_one_started() {
    for (op, line) in [
        ("run", "run api -- 'exec sleep 1000'"),
        ("run", "run api --restart on-failure -- 'exec sleep 1000'"),
        // Any command does so.
        ("list", "ls"),
    ] {
        let world = World::new();
        world.run_alone("work", "web", "exec sleep 1000");
        world.daemon();
        let peer = Peer::start(&world, true);
        let output = world.call(line);
        assert_eq!((output.code, output.err.as_str()), (0, ""), "{output}");
        assert_eq!(peer.asked(), [op, "stop"]);
        let status = world.daemon_status();
        assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
        if op == "run" {
            world.until_delivered("started", "api");
        }
    }
}

/// Nor is it asked to leave where none may be started in its place.
#[test]
fn a_daemon_of_another_version_that_does_not_stop_is_named_with_what_to_do() {
    for may_start in [true, false] {
        let mut world = World::new();
        world.daemon();
        let peer = Peer::start(&world, false);
        if !may_start {
            world.set("TMUX_TASK_NO_AUTOSTART", "1");
        }
        world.call("run api -- true").fails(
            1,
            "tmux-task: run: the daemon of this session is version 999.0.0\n\
             hint: `tmux-task daemon stop` stops it, and the tasks go on; the next command starts \
             one of this version",
        );
        let is_asked = peer.asked().iter().any(|op| op == "stop");
        assert_eq!(is_asked, may_start);
    }
}

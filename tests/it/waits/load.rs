//! Many waits, floods of output, and clients that leave.

use std::io::{BufRead, BufReader};

use serde_json::json;

use super::*;

/// Returns a connection to the daemon.
#[track_caller]
fn connect(world: &World) -> UnixStream {
    let mut files = fs::read_dir(world.path("run")).unwrap();
    let socket = files.find_map(|file| {
        let path = file.unwrap().path();
        (path.extension()? == "sock").then_some(path)
    });
    UnixStream::connect(socket.unwrap()).unwrap()
}

#[test]
fn many_waits_share_few_panes() {
    let world = World::new();
    let names = ["a", "b", "c"];
    let tasks: Vec<_> = names
        .iter()
        .map(|name| {
            steps(
                &world,
                name,
                &["true", &format!("echo READY {name}; seq 3000")],
            )
        })
        .collect();
    let mut all = Vec::new();
    for name in names {
        for _ in 0..8 {
            let text = format!("READY {name}");
            all.push(world.start(["wait", name, "--json", "--text", &text, "--timeout", LONG]));
        }
    }
    world.until_true("all wait", || waits(&world) == 24);
    for (_, go_on) in &tasks {
        go_on();
    }
    for waiting in all {
        ends_with(&end(waiting), 0, "matched");
    }
    assert_eq!(waits(&world), 0);
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut interrupted = begin(&world, &["api", "--text", "never"]);
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait(), 130);
    world.until_true("it is forgotten", || waits(&world) == 0);
    for (name, line) in [("api", "exec sleep 1000"), ("noise", "exec yes")] {
        world.run(name, line);
        let killed = begin(&world, &[name, "--text", "never"]);
        killed.signal(Signal::KILL);
        drop(killed);
        world.until_true("it is forgotten", || waits(&world) == 0);
    }
}

#[test]
fn a_firehose_delays_no_other_wait() {
    let world = World::new();
    world.run("noise", "while :; do echo noise; done");
    let (_, go_on) = steps(&world, "api", &["true", "echo READY"]);
    let noise = begin(&world, &["noise", "--text", "never"]);
    let waiting = begin(&world, &["api", "--text", "READY"]);
    go_on();
    ends_with(&end(waiting), 0, "matched");
    drop(noise);
    let args = ["wait", "noise", "--json", "--text", "never"];
    let ended = outcome(&world.task([&args[..], &["--timeout", "1s"]].concat()));
    ends_with(&ended, 4, "timeout");
    assert_eq!(ended.1["sawNewOutput"], true);
    assert_eq!(world.task(["kill", "noise"]).code, 0);
}

/// tmux up to 3.7c crashes when a pane is respawned whose output it has not sent completely.
#[test]
fn a_followed_flood_can_be_run_again() {
    let world = World::new();
    let window = world.run("noise", "exec yes");
    for _ in 0..3 {
        let waiting = begin(&world, &["noise", "--text", "never"]);
        assert_eq!(world.run("noise", "exec yes"), window);
        ends_with(&end(waiting), 5, "respawned");
    }
    // Its output is followed as before.
    let (code, result) = wait(&world, &["noise", "--text", "y"]);
    assert_eq!((code, &result["outcome"]), (0, &"matched".into()));
    assert_eq!(world.task(["kill", "noise"]).code, 0);
}

#[test]
fn who_leaves_takes_the_wait_along_whatever_it_said_last() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    let mut asker = connect(&world);
    let request = format!("{{\"op\":\"wait\",\"task\":\"{window}\"}}\nx");
    asker.write_all(request.as_bytes()).unwrap();
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    drop(asker);
    world.until_true("it has left", || world.daemon_status()["waits"] == 0);
}

#[test]
fn two_hundred_waits_at_once_share_a_pane_and_all_end() {
    let world = World::new();
    let (window, go_on) = steps(&world, "api", &["true", "seq 2000; echo READY"]);
    let request = json!({
        "op": "wait",
        "task": window,
        "conditions": [{ "text": "READY" }],
    });
    let mut waiting: Vec<UnixStream> = (0..200)
        .map(|_| {
            let mut asker = connect(&world);
            asker.write_all(format!("{request}\n").as_bytes()).unwrap();
            asker
        })
        .collect();
    world.until_true("all wait", || waits(&world) == 200);
    go_on();
    for asker in &mut waiting {
        let mut answer = String::new();
        BufReader::new(asker).read_line(&mut answer).unwrap();
        assert!(answer.contains("\"matched\""), "{answer}");
    }
    assert_eq!(waits(&world), 0);
}

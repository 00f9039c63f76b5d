//! Many waits, floods of output, and clients that leave.

use std::io::{BufRead, BufReader};

use super::*;
use crate::socket::ask;

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut interrupted = begin(&world, &["api", "--text", "never"]);
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait(), 130);
    world.until_waits(0);
    for (name, line) in [("api", "exec sleep 1000"), ("noise", "exec yes")] {
        world.run(name, line);
        let killed = begin(&world, &[name, "--text", "never"]);
        killed.signal(Signal::KILL);
        drop(killed);
        world.until_waits(0);
    }
}

#[test]
fn a_firehose_delays_no_other_wait_and_can_be_run_again() {
    let world = World::new();
    world.run("noise", "while :; do echo noise; done");
    let (_, go_on) = steps(&world, "api", &["true", "echo READY"]);
    let noise = begin(&world, &["noise", "--text", "never"]);
    let waiting = begin(&world, &["api", "--text", "READY"]);
    go_on();
    ends_with(end(waiting), 0, "matched");
    drop(noise);
    let ended = outcome(&world.call("wait noise --json --text never --timeout 1s"));
    assert_eq!(ends_with(ended, 4, "timeout")["sawNewOutput"], true);
    // tmux up to 3.7c crashes when a pane is respawned whose output it has not sent completely.
    let window = world.run("noise", "exec yes");
    for _ in 0..3 {
        let waiting = begin(&world, &["noise", "--text", "never"]);
        assert_eq!(world.run("noise", "exec yes"), window);
        ends_with(end(waiting), 5, "respawned");
    }
    // Its output is followed as before.
    ends_with(wait(&world, &["noise", "--text", "y"]), 0, "matched");
    world.task(["kill", "noise"]).ok();
}

#[test]
fn two_hundred_waits_at_once_share_a_pane_and_all_end() {
    let world = World::new();
    let (window, go_on) = steps(&world, "api", &["true", "seq 2000; echo READY"]);
    let request = json!({"op": "wait", "task": window, "conditions": [{"text": "READY"}]});
    let waiting: Vec<_> = (0..200).map(|_| ask(&world, &request)).collect();
    world.until_waits(200);
    go_on();
    for asker in &waiting {
        let mut answer = String::new();
        BufReader::new(asker).read_line(&mut answer).unwrap();
        assert!(answer.contains("\"matched\""), "{answer}");
    }
    assert_eq!(waits(&world), 0);
}

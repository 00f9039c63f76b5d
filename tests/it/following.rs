//! The side of a conversation's machine that runs its tasks: what it says on `agent follow`, whichever
//! process is killed.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Output, Running, World};

/// A world in which a conversation of another machine gives the commands.
fn called_from(machine: &str, owner: &str) -> World {
    let mut world = World::new();
    world.set("TMUX_TASK_MACHINE", machine);
    world.set("TMUX_TASK_OWNER", owner);
    world
}

fn follow(world: &World) -> Running {
    let mut command = world.command(World::program());
    command.args(["agent", "follow"]).stdin(Stdio::piped());
    Running::start(command)
}

fn is_record(line: &Value, of: &str) -> bool {
    line["kind"] == "record" && content(line).contains(of)
}

fn content(line: &Value) -> &str {
    let message = &line["record"]["message"];
    message["content"].as_str().unwrap_or_default()
}

/// Waits for the record with this text, and acknowledges it.
#[track_caller]
fn acknowledge(follower: &mut Running, of: &str) {
    let lines = follower.records_until(|line| is_record(line, of));
    let record = &lines.last().unwrap()["record"];
    let ack = json!({"op": "ack", "epoch": record["epoch"], "seq": record["seq"]});
    follower.write(&format!("{ack}\n"));
    let seq = record["seq"].clone();
    follower.records_until(|line| line["kind"] == "acked" && line["seq"] == seq);
}

fn consumers(world: &World) -> Vec<String> {
    let status = world.daemon_status();
    let consumers = status["consumers"].as_array().cloned().unwrap_or_default();
    let name = |one: &Value| one["name"].as_str().unwrap().to_owned();
    consumers.iter().map(name).collect()
}

#[test]
fn a_launch_makes_its_conversation_a_consumer_that_gets_its_own_messages() {
    let world = called_from("laptop", "claude:1");
    world.task(["run", "a", "--", "exit 3"]).ok();
    assert_eq!(consumers(&world), ["laptop.claude:1"]);
    // Of others, and of everybody.
    for owner in ["claude:2", "", "laptop.claude:1"] {
        let mut command = world.command(World::program());
        command
            .args(["run", "b", "--", "exit 4"])
            .env("TMUX_TASK_OWNER", owner)
            .env_remove("TMUX_TASK_MACHINE");
        Output::of(command).ok();
        world.until("its end is delivered", |records| {
            records.iter().any(|record| {
                record["kind"] == "followUp"
                    && record["owner"].as_str().unwrap_or_default() == owner
                    && record["message"]["content"]
                        .to_string()
                        .contains("(b) exited")
            })
        });
    }
    assert_eq!(consumers(&world), ["laptop.claude:1"]);
    let mut follower = follow(&world);
    let lines = follower.records_until(|line| is_record(line, "(a) exited with code 3"));
    assert_eq!(lines[0]["kind"], "began", "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    acknowledge_last(&mut follower, lines.last().unwrap());
    world.task(["run", "c", "--", "exit 5"]).ok();
    let lines = follower.records_until(|line| is_record(line, "(c) exited"));
    assert!(
        lines.iter().all(|line| !is_record(line, "(b)")),
        "{lines:?}"
    );
}

#[track_caller]
fn acknowledge_last(follower: &mut Running, line: &Value) {
    let record = &line["record"];
    let ack = json!({"op": "ack", "epoch": record["epoch"], "seq": record["seq"]});
    follower.write(&format!("{ack}\n"));
}

#[test]
fn a_person_a_program_without_adapter_and_this_machine_are_not_followed() {
    for (machine, owner) in [("laptop", ""), ("laptop", "gemini:1"), ("", "claude:1")] {
        let world = called_from(machine, owner);
        world.task(["run", "a", "--", "true"]).ok();
        assert_eq!(consumers(&world), [""; 0], "{machine} {owner}");
        let output = world.task(["agent", "follow"]);
        assert_eq!(output.code, 2, "{output}");
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_whoever_is_killed() {
    let world = called_from("laptop", "claude:1");
    let mut first = follow(&world);
    world.task(["run", "a", "--", "exit 3"]).ok();
    acknowledge(&mut first, "(a) exited");
    world.task(["run", "b", "--", "exit 4"]).ok();
    first.records_until(|line| is_record(line, "(b) exited"));
    world.kill_daemon();
    // The next daemon is started, and its stream is a new one.
    let lines = first.records_until(|line| is_record(line, "(b) exited"));
    assert!(
        lines.iter().any(|line| line["kind"] == "began"),
        "{lines:?}"
    );
    assert!(
        !lines.iter().any(|line| is_record(line, "(a)")),
        "{lines:?}"
    );
    first.signal(Signal::KILL);
    let mut second = follow(&world);
    let lines = second.records_until(|line| is_record(line, "(b) exited"));
    assert!(
        !lines.iter().any(|line| is_record(line, "(a)")),
        "{lines:?}"
    );
    acknowledge_last(&mut second, lines.last().unwrap());
    second.records_until(|line| line["kind"] == "acked");
    // A third one takes the place of the second.
    let third = follow(&world);
    third.records_until(|line| line["kind"] == "began");
    second.records_until(|line| line["kind"] == "replaced");
    world.task(["run", "c", "--", "exit 5"]).ok();
    let lines = third.records_until(|line| is_record(line, "(c) exited"));
    assert!(
        !lines.iter().any(|line| is_record(line, "(b)")),
        "{lines:?}"
    );
}

#[test]
fn all_sessions_are_followed_until_nothing_is_left_in_any() {
    let world = called_from("laptop", "claude:1");
    let mut follower = follow(&world);
    // Nothing was launched.
    follower.records_until(|line| line["kind"] == "idle");
    let gate = world.gate("gate");
    world.task(["-s", "one", "run", "a", "--", "exit 3"]).ok();
    world
        .task(["-s", "two", "run", "b", "--", &gate.wait()])
        .ok();
    acknowledge(&mut follower, "(a) exited");
    follower.write("{\"op\":\"forget\"}\n");
    let lines = follower.records_until(|line| line["kind"] == "forgotten");
    assert_eq!(lines.last().unwrap()["done"], false, "{lines:?}");
    gate.open();
    acknowledge(&mut follower, "(b) exited with code 0");
    follower.records_until(|line| line["kind"] == "idle");
    follower.write("{\"op\":\"forget\"}\n");
    follower.records_until(|line| line["done"] == true);
    for session in ["one", "two"] {
        let listed = world.task(["-s", session, "consumer", "ls", "--json"]);
        assert!(!listed.ok().contains("laptop"), "{listed}");
    }
    let notes = world.path("state/hosts/from");
    assert_eq!(std::fs::read_dir(notes).unwrap().count(), 0);
    // The next launch is followed again.
    world.task(["-s", "one", "run", "a", "--", "exit 6"]).ok();
    follower.records_until(|line| is_record(line, "(a) exited with code 6"));
}

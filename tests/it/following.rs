//! The side of a conversation's machine that runs its tasks: what it keeps for the conversation, whichever
//! process is killed.

use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Output, Running, World};

/// The conversation's consumer.
const CONSUMER: &str = "laptop.claude:1";

/// A world in which a conversation of another machine gives the commands.
fn called_from(machine: &str, owner: &str) -> World {
    let mut world = World::new();
    world.set("TMUX_TASK_MACHINE", machine);
    world.set("TMUX_TASK_OWNER", owner);
    world
}

/// Reads as the conversation, as its machine does.
fn follow(world: &World) -> Running {
    let mut command = world.command(World::program());
    command
        .args(["feed", "--follow", "--consumer", CONSUMER, "--take-over"])
        .args(["--kind", "followUp", "--owner", "claude:1"])
        .stdin(Stdio::piped());
    Running::start(command)
}

fn is_record(line: &Value, of: &str) -> bool {
    let content = line["message"]["content"].as_str().unwrap_or_default();
    line["kind"] == "followUp" && content.contains(of)
}

#[track_caller]
fn acknowledge(follower: &mut Running, record: &Value) {
    let seq = record["seq"].clone();
    follower.write(&format!("{}\n", json!({"ack": seq})));
    follower.records_until(|line| line["kind"] == "acked" && line["acked"] == seq);
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
    assert_eq!(consumers(&world), [CONSUMER]);
    // Of others.
    for owner in ["claude:2", "laptop.claude:1"] {
        let mut command = world.command(World::program());
        command
            .args(["run", "b", "--", "exit 4"])
            .env("TMUX_TASK_OWNER", owner)
            .env_remove("TMUX_TASK_MACHINE");
        Output::of(command).ok();
        world.until("its end is delivered", |records| {
            records.iter().any(|record| {
                record["owner"] == owner && is_record(record, "(b) exited with code 4")
            })
        });
    }
    assert_eq!(consumers(&world), [CONSUMER]);
    let mut follower = follow(&world);
    let lines = follower.records_until(|line| is_record(line, "(a) exited with code 3"));
    acknowledge(&mut follower, lines.last().unwrap());
    world.task(["run", "c", "--", "exit 5"]).ok();
    let lines = follower.records_until(|line| is_record(line, "(c) exited"));
    assert!(
        lines.iter().all(|line| !is_record(line, "(b)")),
        "{lines:?}"
    );
}

#[test]
fn a_person_a_program_without_adapter_and_this_machine_are_not_followed() {
    for (machine, owner) in [("laptop", ""), ("laptop", "gemini:1"), ("", "claude:1")] {
        let world = called_from(machine, owner);
        world.task(["run", "a", "--", "true"]).ok();
        assert_eq!(consumers(&world), [""; 0], "{machine} {owner}");
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_whoever_is_killed() {
    let world = called_from("laptop", "claude:1");
    world.task(["run", "a", "--", "exit 3"]).ok();
    let mut first = follow(&world);
    let lines = first.records_until(|line| is_record(line, "(a) exited"));
    acknowledge(&mut first, lines.last().unwrap());
    world.task(["run", "b", "--", "exit 4"]).ok();
    first.records_until(|line| is_record(line, "(b) exited"));
    first.signal(Signal::KILL);
    world.kill_daemon();
    let mut second = follow(&world);
    let lines = second.records_until(|line| is_record(line, "(b) exited"));
    assert!(
        !lines.iter().any(|line| is_record(line, "(a)")),
        "{lines:?}"
    );
    acknowledge(&mut second, lines.last().unwrap());
    // A third one takes the place of the second.
    let third = follow(&world);
    third.records_until(|line| line["kind"] == "sync");
    second.records_until(|line| line["kind"] == "replaced");
    world.task(["run", "c", "--", "exit 5"]).ok();
    let lines = third.records_until(|line| is_record(line, "(c) exited"));
    assert!(
        !lines.iter().any(|line| is_record(line, "(b)")),
        "{lines:?}"
    );
}

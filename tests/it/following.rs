//! The side of a conversation's machine that runs its tasks: what it keeps for the conversation, whichever
//! process is killed.

use serde_json::{Value, json};

use crate::support::{Running, World, texts};

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
    let read = ["feed", "--follow", "--consumer", CONSUMER, "--take-over"];
    let chosen = ["--kind", "followUp", "--owner", "claude:1"];
    world.start_piped([&read[..], &chosen].concat())
}

fn is_record(line: &Value, of: &str) -> bool {
    let content = line["message"]["content"].as_str().unwrap_or_default();
    line["kind"] == "followUp" && content.contains(of)
}

/// Reads up to this record, and checks that none of another task comes before it.
#[track_caller]
fn until_record(follower: &Running, of: &str, not: &str) -> Value {
    let mut lines = follower.records_until(|line| is_record(line, of));
    assert!(!lines.iter().any(|line| is_record(line, not)), "{lines:?}");
    lines.pop().unwrap()
}

#[track_caller]
fn acknowledge(follower: &mut Running, record: &Value) {
    let seq = record["seq"].clone();
    follower.write(&format!("{}\n", json!({"ack": seq})));
    follower.records_until(|line| line["kind"] == "acked" && line["acked"] == seq);
}

#[test]
fn a_launch_makes_its_conversation_a_consumer_that_gets_its_own_messages() {
    let world = called_from("laptop", "claude:1");
    world.task(["run", "a", "--", "exit 3"]).ok();
    assert_eq!(texts(&world.consumers(), "name"), [CONSUMER]);
    // Of others.
    for owner in ["claude:2", "laptop.claude:1"] {
        let here = [("TMUX_TASK_OWNER", owner), ("TMUX_TASK_MACHINE", "")];
        world.task_with(&here, ["run", "b", "--", "exit 4"]).ok();
        world.until("its end is delivered", |records| {
            records.iter().any(|record| {
                record["owner"] == owner && is_record(record, "(b) exited with code 4")
            })
        });
    }
    assert_eq!(texts(&world.consumers(), "name"), [CONSUMER]);
    let mut follower = follow(&world);
    let record = until_record(&follower, "(a) exited with code 3", "(b)");
    acknowledge(&mut follower, &record);
    world.task(["run", "c", "--", "exit 5"]).ok();
    until_record(&follower, "(c) exited", "(b)");
}

#[test]
fn a_person_a_program_without_adapter_and_this_machine_are_not_followed() {
    for (machine, owner) in [("laptop", ""), ("laptop", "gemini:1"), ("", "claude:1")] {
        let world = called_from(machine, owner);
        world.task(["run", "a", "--", "true"]).ok();
        assert_eq!(world.consumers(), [Value::Null; 0], "{machine} {owner}");
    }
}

#[test]
fn what_was_not_acknowledged_comes_again_whoever_is_killed() {
    let world = called_from("laptop", "claude:1");
    world.task(["run", "a", "--", "exit 3"]).ok();
    let mut first = follow(&world);
    let record = until_record(&first, "(a) exited", "(b)");
    acknowledge(&mut first, &record);
    world.task(["run", "b", "--", "exit 4"]).ok();
    until_record(&first, "(b) exited", "(a)");
    first.kill();
    world.kill_daemon();
    let mut second = follow(&world);
    let record = until_record(&second, "(b) exited", "(a)");
    acknowledge(&mut second, &record);
    // A third one takes the place of the second.
    let third = follow(&world);
    third.records_until(|line| line["kind"] == "sync");
    second.records_until(|line| line["kind"] == "replaced");
    world.task(["run", "c", "--", "exit 5"]).ok();
    until_record(&third, "(c) exited", "(b)");
}

//! When the end of a run wakes its conversation, and what a conversation waits for.

use serde_json::{Value, json};

use crate::support::{Running, World, argv, content_of, message, texts};

const ME: &str = "opencode:p";

/// Starts a task of the conversation that ends with this code when its file is there.
fn start(world: &World, name: &str, options: &str, code: u8) {
    let gate = format!("until [ -e {name} ]; do sleep 0.05; done; exit {code}");
    let words = argv(&format!("run {name} {options} --"));
    let words = words.iter().map(String::as_str).chain([gate.as_str()]);
    world.task_as(ME, words).ok();
}

fn end(world: &World, name: &str) {
    std::fs::write(world.project().join(name), "").unwrap();
}

fn ends(message: &Value) -> Vec<&str> {
    let lines = content_of(message).lines();
    lines
        .filter(|line| line.starts_with("tmux task "))
        .collect()
}

#[test]
fn a_group_is_one_message_also_across_a_daemon() {
    let world = World::new();
    let adapter = world.adapter("p");
    for name in ["a", "b", "c"] {
        start(&world, name, "--group builds", 0);
    }
    for (n, name) in [(1, "a"), (2, "b")] {
        end(&world, name);
        world.until_events(n, "exited");
    }
    world.kill_daemon();
    end(&world, "c");
    let told = message(&adapter);
    let expected = ["a", "b", "c"].map(|name| format!("({name}) exited with code 0"));
    let told = ends(&told);
    let told: Vec<_> = told
        .iter()
        .map(|line| line.split_once("@").unwrap().1)
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|line| line.split_once(' ').unwrap().1)
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn of_a_group_a_failure_is_told_at_once() {
    let world = World::new();
    let adapter = world.adapter("p");
    start(&world, "a", "--group builds", 0);
    start(&world, "b", "--group builds", 3);
    start(&world, "c", "--group builds", 0);
    end(&world, "a");
    world.until_events(1, "exited");
    end(&world, "b");
    let told = message(&adapter);
    assert_eq!(ends(&told).len(), 2, "{told}");
}

#[test]
fn a_run_says_whether_its_end_wakes() {
    let world = World::new();
    let adapter = world.adapter("p");
    start(&world, "quiet", "--wake failed", 0);
    start(&world, "silent", "--wake never", 1);
    start(&world, "loud", "--wake failed", 1);
    end(&world, "quiet");
    end(&world, "silent");
    for ended in ["(quiet) exited with code 0", "(silent) exited with code 1"] {
        world.until("a notice of the end", |records| {
            let notices = records.iter().filter(|record| record["kind"] == "notice");
            texts(notices, "text")
                .iter()
                .any(|text| text.contains(ended))
        });
    }
    let follow_ups = |records: &[Value]| {
        let is_one = |record: &&Value| record["kind"] == "followUp";
        records.iter().filter(is_one).count()
    };
    assert_eq!(follow_ups(&world.records()), 0);
    end(&world, "loud");
    assert_eq!(ends(&message(&adapter)).len(), 1);
}

#[test]
fn what_a_conversation_waits_for_is_one_line_and_an_exit_code() {
    let world = World::new();
    let pending = |args: &str| world.task_as(ME, argv(args));
    assert_eq!(pending("pending").ok(), "");
    start(&world, "build", "", 0);
    start(&world, "serve", "--wake never", 0);
    world
        .task_as("pi:other", ["run", "other", "--", "sleep 60"])
        .ok();
    for args in ["pending", "pending --mine", "pending --owner opencode:p"] {
        let output = pending(args);
        assert_eq!(
            (output.code, output.out.as_str()),
            (1, "waits for 1 task: build\n")
        );
        assert_eq!(output.err, "");
    }
    let output = pending("pending --json");
    assert_eq!(output.code, 1);
    let output: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(
        (&output["owner"], &output["tasks"][0]["windowName"]),
        (&json!(ME), &json!("build"))
    );
    // A user waits for all.
    world.call("pending").fails_with(1);
    world
        .call("pending --mine")
        .fails_saying(2, "names no owner");

    world
        .task(["pending", "--owner", "claude:"])
        .fails_saying(2, "CLIENT:ID");

    // Another window may have the same name.
    world.tmux(["new-window", "-d", "-n", "build", "sleep 60"]);
    let mut command = world.command(World::program());
    command.args(["wait", "--mine"]).env("TMUX_TASK_OWNER", ME);
    let mut waiting = Running::start(command);
    world.until_waits(1);
    end(&world, "build");
    assert_eq!(waiting.wait(), 0);
    assert_eq!(pending("pending").ok(), "");
    assert_eq!(pending("wait --mine").ok(), "");
}

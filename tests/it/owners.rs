//! Owners of tasks, and which conversation gets a message.

use serde_json::{Value, json};

use crate::support::{World, content, deliveries, event, has_fields};

/// The deliveries that speak of this event of the task of this name.
fn of_event<'a>(records: &'a [Value], kind: &str, name: &str) -> Vec<&'a Value> {
    let seq = &event(records, kind, name)["seq"];
    let mut found = deliveries(records);
    found.retain(|delivery| delivery["events"].as_array().unwrap().contains(seq));
    found
}

/// Waits until an event of a task is delivered, and returns its delivery.
#[track_caller]
fn delivered(world: &World, kind: &str, name: &str) -> Value {
    let is_there = |record: &Value| record["type"] == kind && record["task"]["windowName"] == name;
    let records = world.until(&format!("{kind} of {name} is delivered"), |records| {
        records.iter().any(is_there) && !of_event(records, kind, name).is_empty()
    });
    let found = of_event(&records, kind, name);
    assert_eq!(found.len(), 1, "{found:?}");
    found[0].clone()
}

/// Checks how it is delivered, to whom, and how that ends.
#[track_caller]
fn is_delivered(
    world: &World,
    (kind, name): (&str, &str),
    to: &str,
    owner: Option<&str>,
    end: &str,
) {
    let told = delivered(world, kind, name);
    has_fields(&told, "kind owner", json!([to, owner]));
    assert!(content(&told).ends_with(end), "{told}");
}

#[test]
fn each_owner_gets_deliveries_of_their_own_tasks() {
    let mut world = World::new();
    let gate = world.gate("gate");
    let line = gate.wait();
    for (owner, name) in [("pi:1", "one"), ("pi:2", "two"), ("", "mine")] {
        world.set("TMUX_TASK_OWNER", owner);
        world.run(name, &line);
    }
    for _ in 0..3 {
        gate.open();
    }
    for (owner, name) in [("pi:1", "one"), ("pi:2", "two")] {
        is_delivered(&world, ("exited", name), "followUp", Some(owner), "");
        let told = delivered(&world, "exited", name);
        // On a busy machine its start is in the same gathering.
        let events = told["message"]["details"]["events"].as_array().unwrap();
        assert!(events.iter().all(|event| event["task"]["owner"] == owner));
        let exits = events.iter().filter(|event| event["type"] == "exited");
        assert_eq!(exits.count(), 1);
        assert_eq!(delivered(&world, "started", name)["owner"], owner);
    }
    is_delivered(&world, ("exited", "mine"), "followUp", None, "");
    let theirs = world.records_of(&["--kind", "followUp", "--owner", "pi:1"]);
    let mut owners: Vec<&Value> = theirs.iter().map(|record| &record["owner"]).collect();
    owners.sort_by_key(|owner| owner.to_string());
    assert_eq!(json!(owners), json!(["pi:1", null]));
}

#[test]
fn what_an_agent_ends_itself_is_a_notice() {
    let mut world = World::new();
    let by_agent = "disappeared from session after the agent killed it";
    let by_person = "after the user manually killed it";
    for (owner, name, kind, end) in [
        (Some("pi:1"), "agents", "notice", by_agent),
        (None, "persons", "followUp", by_person),
    ] {
        world.set("TMUX_TASK_OWNER", owner.unwrap_or_default());
        world.run("other", "exec sleep 1000");
        world.run(name, "exec sleep 1000");
        world.task(["kill", name]).ok();
        // Before the next events, which may be within one gathering of these.
        is_delivered(&world, ("disappeared", name), kind, owner, end);
    }
    // Also where no daemon runs any more.
    world.set("TMUX_TASK_OWNER", "pi:1");
    world.run("alone", "exec sleep 1000");
    for (command, name) in [("kill alone", "alone"), ("kill-all --yes", "other")] {
        world.task(["daemon", "stop"]).ok();
        world.call(command).ok();
        assert_eq!(delivered(&world, "disappeared", name)["kind"], "notice");
    }
}

#[test]
fn what_another_agent_ends_is_a_message_also_after_a_crash() {
    let mut world = World::new();
    world.set("TMUX_TASK_OWNER", "pi:2");
    world.run("killed", "exec sleep 1000");
    world.run("replaced", "exec sleep 1000");
    world.set("TMUX_TASK_OWNER", "pi:1");
    world.task(["kill", "killed"]).ok();
    world.kill_daemon();
    world.daemon();
    world.run("replaced", "exec sleep 1000");
    for (kind, name, end) in [
        ("disappeared", "killed", "after another agent killed it"),
        (
            "exited",
            "replaced",
            "was replaced by a new run of another agent",
        ),
    ] {
        is_delivered(&world, (kind, name), "followUp", Some("pi:2"), end);
    }
}

#[test]
fn what_a_wait_has_returned_is_no_second_turn() {
    let mut world = World::new();
    world.set("TMUX_TASK_OWNER", "pi:1");
    world.call("run lint --wait -- 'exit 3'").fails_with(3);
    is_delivered(&world, ("exited", "lint"), "notice", Some("pi:1"), "");
    // A wait of another owner.
    let gate = world.gate("gate");
    world.run("tests", &format!("{gate}; exit 3"));
    world.set("TMUX_TASK_OWNER", "");
    let mut wait = world.start(["wait", "tests"]);
    world.until_waits(1);
    gate.open();
    assert_eq!(wait.wait(), 1);
    assert_eq!(delivered(&world, "exited", "tests")["kind"], "followUp");
    // A question that a wait has returned with.
    world.task(["run", "ask", "--wait", "--", "read -p 'Proceed? [y/N] ' x"]);
    assert_eq!(delivered(&world, "input", "ask")["kind"], "notice");
}

#[test]
fn shells_are_no_agents_business_unless_the_configuration_says_so() {
    let world = World::new();
    world.run_alone("work", "api", "exec sleep 1000");
    for (config, name, kind) in [
        ("", "mine", "notice"),
        ("shells = 'followUp'\n", "driven", "followUp"),
    ] {
        world.configure(config);
        world.daemon();
        world.tmux(["new-window", "-d", "-t", "=work:", "-n", name]);
        delivered(&world, "started", name);
        let target = format!("=work:{name}");
        world.tmux(["send-keys", "-t", &target, "printf '\\a'", "Enter"]);
        assert_eq!(delivered(&world, "notify", name)["kind"], kind);
        world.task(["daemon", "stop"]).ok();
    }
}

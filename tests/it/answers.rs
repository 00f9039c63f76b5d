//! What happens after a prompt is answered.

use serde_json::Value;

use crate::support::{World, events};

/// The questions of a task, in order.
fn asked<'a>(records: &'a [Value], name: &str) -> Vec<&'a str> {
    let inputs = events(records).into_iter();
    let of_task = |event: &&Value| event["type"] == "input" && event["task"]["windowName"] == name;
    let prompts = inputs.filter(of_task).map(|event| event["prompt"].as_str());
    prompts.map(Option::unwrap).collect()
}

#[test]
fn an_answer_is_not_the_next_question() {
    let world = World::new();
    world.run(
        "srv",
        "read -r -p 'Name? ' name; read -r rest; exec sleep 1000",
    );
    world.until("its question", |records| asked(records, "srv") == ["Name?"]);
    world.task(["send", "srv", "is this an answer?"]).ok();
    let records = world.until("it reads on", |records| asked(records, "srv").len() == 2);
    assert_eq!(asked(&records, "srv"), ["Name?", ""]);
    world.task(["send", "srv", "and this?"]).ok();
    world.until("it reads no more", |records| {
        let resolved = |event: &&&Value| event["type"] == "inputResolved";
        events(records).iter().filter(resolved).count() == 2
    });
    assert_eq!(asked(&world.finish(), "srv").len(), 2);
}

#[test]
fn a_wait_that_begins_after_an_answer_does_not_end_by_its_question() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = "read -r -p 'Go on? [y/N] ' answer";
    world.run("ask", &format!("{line}; {}; exit 3", gate.wait()));
    world.until("its question", |records| !asked(records, "ask").is_empty());
    world
        .task(["send", "ask", "--if-prompt", "Go on? [y/N]", "y"])
        .ok();
    let mut end = world.start(["wait", "ask"]);
    let mut next = world.start(["wait", "ask", "--input"]);
    world.until("the answer is taken", |records| {
        let events = events(records);
        events.iter().any(|event| event["type"] == "inputResolved")
    });
    gate.open();
    assert_eq!((end.line().as_str(), end.wait()), ("exited: code 3", 1));
    // It died before it asked again.
    assert_eq!(next.wait(), 5);
}

#[test]
fn a_list_starts_the_daemon_that_knows_what_waits() {
    let world = World::new();
    world.run("ask", "read -r -p 'Proceed? [y/N] ' answer");
    world.run("work", "exec sleep 1000");
    world.until("its question", |records| !asked(records, "ask").is_empty());
    world.task(["daemon", "stop"]).ok();
    let output = world.task(["ls", "--json"]);
    assert_eq!((output.code, output.err.as_str()), (0, ""));
    let view: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(view["supervised"], true);
    let states: Vec<&str> = view["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["waiting", "running"]);
}

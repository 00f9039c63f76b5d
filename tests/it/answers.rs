//! What happens after a prompt is answered.

use serde_json::Value;

use crate::support::{World, events_of, texts};

/// The questions of a task, in order.
fn asked<'a>(records: &'a [Value], name: &str) -> Vec<&'a str> {
    let mut inputs = events_of(records, "input");
    inputs.retain(|event| event["task"]["windowName"] == name);
    texts(inputs, "prompt")
}

#[test]
fn a_wait_that_begins_after_an_answer_does_not_end_by_its_question() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = "read -r -p 'Go on? [y/N] ' answer";
    world.run("ask", &format!("{line}; {gate}; exit 3"));
    world.until("its question", |records| !asked(records, "ask").is_empty());
    world
        .task(["send", "ask", "--if-prompt", "Go on? [y/N]", "y"])
        .ok();
    let mut end = world.start(["wait", "ask"]);
    let mut next = world.start(["wait", "ask", "--input"]);
    world.until("the answer is taken", |records| {
        let events = crate::support::events(records);
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
    world.until_event("input", "ask");
    world.task(["daemon", "stop"]).ok();
    let view = world.look();
    assert_eq!(view["supervised"], true);
    let tasks = view["tasks"].as_array().unwrap();
    assert_eq!(texts(tasks, "state"), ["waiting", "running"]);
}

//! Waits for several tasks at once.

use super::*;

/// A field of each result, by the name of its task.
fn by_name(output: &Output, field: &str) -> Value {
    let mut results = parse_lines(&output.out);
    results.sort_by_key(|result| result["windowName"].to_string());
    results
        .iter()
        .map(|result| json!([result["windowName"], result[field]]))
        .collect()
}

#[test]
fn all_outcomes_are_printed_as_they_come_and_the_first_failed_name_decides() {
    let world = World::new();
    let (one, two) = (world.gate("one"), world.gate("two"));
    world.run("api", &format!("seq 20; {one}; exit 7"));
    let window = world.run("web", &format!("seq 20; {two}; exit 0"));
    let mut waiting = world.start(["wait", "api", "web", "--timeout", LONG]);
    two.open();
    assert_eq!(waiting.line(), "web: exited: code 0");
    one.open();
    assert_eq!(waiting.line(), "api: exited: code 7");
    assert_eq!(waiting.wait(), 1);
    // They are over already.
    let ended = world.task(["wait", "web", &window, "web", "--all"]);
    assert_eq!(ended.ok(), "web: exited: code 0\n");
    let died = world.call("wait web api --text never");
    assert_eq!((died.code, died.out.as_str()), (5, ""));
    assert_eq!(died.err.matches("the run ended").count(), 2, "{died}");
    let json = world.call("wait api web --json");
    assert_eq!(json.code, 1);
    assert_eq!(by_name(&json, "exitCode"), json!([["api", 7], ["web", 0]]));

    // The last lines of those that fail are printed with their names.
    let both = world.call("wait api web --tail 2");
    assert_eq!((both.code, both.err.as_str()), (1, "api | 19\napi | 20\n"));
    let one = world.call("wait api --tail 1");
    assert_eq!((one.code, one.err.as_str()), (1, "20\n"));
    assert_eq!(one.out, "exited: code 7\n");
    let last: String = (11..=20).map(|n| format!("{n}\n")).collect();
    let why = "tmux-task: wait api: the run ended (code 7) before the condition held";
    let text = world.call("wait api --text never");
    text.fails(5, &format!("{last}{why}"));
    let json = world.call("wait api --tail 3 --json");
    assert_eq!(json.err, "");
    assert_eq!(json.any_json()["tail"], json!(["18", "19", "20"]));
}

#[test]
fn any_ends_with_the_first_outcome_and_leaves_no_wait_behind() {
    let world = World::new();
    let gate = world.gate("go");
    world.run("api", &format!("{gate}; exit 0"));
    world.run("web", "exec sleep 1000");
    // One that times out names all tasks.
    let wait = argv("wait api web api --any --timeout 100ms");
    let why = "tmux-task: wait api web: timed out after 100 ms";
    world.task(&wait).fails(4, why);
    let json = world.task(wait.iter().map(String::as_str).chain(["--json"]));
    assert_eq!((json.code, json.err.as_str()), (4, ""), "{json}");
    let both = json!([["api", "timeout"], ["web", "timeout"]]);
    assert_eq!(by_name(&json, "outcome"), both);
    let mut waiting = world.start(["wait", "web", "api", "--any", "--timeout", LONG]);
    world.until_waits(2);
    gate.open();
    assert_eq!(waiting.line(), "api: exited: code 0");
    assert_eq!(waiting.complaint(), "tmux-task: wait: left: web");
    assert_eq!(waiting.wait(), 0);
    world.until_waits(0);
    // A name that is no task and a cursor are refused at once.
    let typo = world.call("wait api typo");
    assert_eq!((typo.code, typo.out.as_str()), (3, ""), "{typo}");
    let why = "tmux-task: wait: a cursor belongs to one task: give one name with --since";
    world.call("wait api api --since x").fails(2, why);
}

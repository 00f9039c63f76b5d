//! Waits for several tasks at once.

use super::*;

#[test]
fn all_outcomes_are_printed_as_they_come_and_the_first_failed_name_decides() {
    let world = World::new();
    let (one, two) = (world.gate("one"), world.gate("two"));
    world.run("api", &format!("{}; exit 7", one.wait()));
    world.run("web", &format!("{}; exit 0", two.wait()));
    let mut waiting = world.start(["wait", "api", "web", "--timeout", LONG]);
    two.open();
    assert_eq!(waiting.line(), "web: exited: code 0");
    one.open();
    assert_eq!(waiting.line(), "api: exited: code 7");
    assert_eq!(waiting.wait(), 1);
    // They are over already.
    let ended = world.task(["wait", "web", "web", "--all"]);
    assert_eq!(ended.ok(), "web: exited: code 0\nweb: exited: code 0\n");
    let died = world.task(["wait", "web", "api", "--text", "never"]);
    assert_eq!((died.code, died.out.as_str()), (5, ""));
    assert_eq!(died.err.lines().count(), 2, "{died}");
    let json = world.task(["wait", "api", "web", "--json"]);
    assert_eq!(json.code, 1);
    let mut named: Vec<(String, i64)> = crate::support::parse_lines(&json.out)
        .iter()
        .map(|line| {
            let name = line["windowName"].as_str().unwrap();
            (name.to_owned(), line["exitCode"].as_i64().unwrap())
        })
        .collect();
    named.sort();
    assert_eq!(named, [("api".to_owned(), 7), ("web".to_owned(), 0)]);
}

#[test]
fn any_ends_with_the_first_outcome_and_leaves_no_wait_behind() {
    let world = World::new();
    let gate = world.gate("go");
    world.run("api", &format!("{}; exit 0", gate.wait()));
    world.run("web", "exec sleep 1000");
    let mut waiting = world.start(["wait", "web", "api", "--any", "--timeout", LONG]);
    world.until_true("both waits have begun", || {
        world.daemon_status()["waits"] == 2
    });
    gate.open();
    assert_eq!(waiting.line(), "api: exited: code 0");
    assert_eq!(waiting.wait(), 0);
    world.until_true("no wait is left", || world.daemon_status()["waits"] == 0);
}

#[test]
fn a_name_that_is_no_task_and_a_cursor_are_refused_at_once() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let typo = world.task(["wait", "api", "typo"]);
    assert_eq!((typo.code, typo.out.as_str()), (3, ""), "{typo}");
    let cursor = world.task(["wait", "api", "api", "--since", "x"]);
    cursor.fails(
        2,
        "tmux-task: wait: a cursor belongs to one task: give one name with --since",
    );
}

//! Waits for several tasks at once.

use super::*;

#[test]
fn all_outcomes_are_printed_as_they_come_and_the_first_failed_name_decides() {
    let world = World::new();
    let (one, two) = (world.gate("one"), world.gate("two"));
    world.run("api", &format!("{}; exit 7", one.wait()));
    let window = world.run("web", &format!("{}; exit 0", two.wait()));
    let mut waiting = world.start(["wait", "api", "web", "--timeout", LONG]);
    two.open();
    assert_eq!(waiting.line(), "web: exited: code 0");
    one.open();
    assert_eq!(waiting.line(), "api: exited: code 7");
    assert_eq!(waiting.wait(), 1);
    // They are over already.
    let ended = world.task(["wait", "web", &window, "web", "--all"]);
    assert_eq!(ended.ok(), "web: exited: code 0\n");
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
    assert_eq!(waiting.complaint(), "tmux-task: wait: left: web");
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

#[test]
fn any_can_be_called_in_a_loop_with_those_that_are_left() {
    let world = World::new();
    let names = ["one", "two", "three"];
    for (code, name) in names.iter().enumerate() {
        world.run(name, &format!("exit {code}"));
    }
    let mut left: Vec<String> = names.map(str::to_owned).to_vec();
    let mut codes = Vec::new();
    while !left.is_empty() {
        let mut args = vec!["wait", "--any", "--json", "--timeout", LONG];
        args.extend(left.iter().map(String::as_str));
        let (_, result) = outcome(&world.task(&args));
        codes.push(result["exitCode"].as_i64().unwrap());
        left = serde_json::from_value(result["left"].clone()).unwrap();
    }
    codes.sort_unstable();
    assert_eq!(codes, [0, 1, 2]);
}

#[test]
fn any_that_times_out_names_all_tasks() {
    let world = World::new();
    for name in ["api", "web"] {
        world.run(name, "exec sleep 1000");
    }
    let wait = ["wait", "api", "web", "api", "--any", "--timeout", "100ms"];
    let late = world.task(wait);
    late.fails(4, "tmux-task: wait api web: timed out after 100 ms");
    let json = world.task([&wait[..], &["--json"]].concat());
    assert_eq!((json.code, json.err.as_str()), (4, ""), "{json}");
    let mut names: Vec<String> = crate::support::parse_lines(&json.out)
        .iter()
        .map(|line| line["windowName"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["api", "web"]);
}

#[test]
fn the_last_lines_of_those_that_fail_are_printed_with_their_names() {
    let world = World::new();
    world.run("api", "seq 20; exit 7");
    world.run("web", "seq 20");
    let both = world.task(["wait", "api", "web", "--tail", "2"]);
    assert_eq!((both.code, both.err.as_str()), (1, "api | 19\napi | 20\n"));
    let one = world.task(["wait", "api", "--tail", "1"]);
    assert_eq!((one.code, one.err.as_str()), (1, "20\n"));
    assert_eq!(one.out, "exited: code 7\n");
    let text = world.task(["wait", "api", "--text", "never"]);
    let last: String = (11..=20).map(|n| format!("{n}\n")).collect();
    let why = "tmux-task: wait api: the run ended (code 7) before the condition held";
    text.fails(5, &format!("{last}{why}"));
    let json = world.task(["wait", "api", "--tail", "3", "--json"]);
    assert_eq!(json.err, "");
    assert_eq!(
        outcome(&json).1["tail"],
        serde_json::json!(["18", "19", "20"])
    );
}

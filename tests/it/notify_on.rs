//! `run --notify-on`: its owner is notified of the lines that match.

use serde_json::Value;

use crate::support::{World, argv, content, deliveries, events, story};

/// Returns what is recorded of the output of tasks: lines, how many, and whether some are missing.
fn told(records: &[Value]) -> Vec<(String, u64, bool)> {
    let events = events(records).into_iter();
    let output = events.filter(|event| event["type"] == "output");
    output
        .map(|event| {
            let line = event["line"].as_str().unwrap_or("?").to_owned();
            let gap = event["gap"].as_bool().unwrap_or(false);
            (line, event["matches"].as_u64().unwrap(), gap)
        })
        .collect()
}

/// Checks that each of these lines was recorded once, in any order.
#[track_caller]
fn are_told(records: &[Value], lines: &[&str]) {
    let mut found = told(records);
    found.sort();
    let once = |line: &&str| ((*line).to_owned(), 1, false);
    assert_eq!(found, lines.iter().map(once).collect::<Vec<_>>());
}

/// Runs a task whose lines with `ERROR` are told.
#[track_caller]
fn run(world: &World, name: &str, line: &str) {
    world
        .task(["run", name, "--notify-on", "ERROR", "--", line])
        .ok();
}

#[test]
fn a_line_that_is_overwritten_at_once_is_told_before_the_end_of_its_run() {
    let world = World::new();
    // The first task of the session, and one that the daemon starts.
    for name in ["first", "second"] {
        let line = "printf 'an ERROR in the beginning\\r\\033[2J\\033[Hfine\\n'; exit 3";
        run(&world, name, line);
        let records = world.until_delivered("exited", name);
        let mut of_task = story(&records);
        of_task.retain(|line| line.contains(name) && !line.contains(" of "));
        let expected = ["started NAME", "output NAME", "exited NAME 3"];
        assert_eq!(of_task, expected.map(|line| line.replace("NAME", name)));
        // With the end in one message, or before it in one of its own.
        let texts: Vec<&str> = deliveries(&records).into_iter().map(content).collect();
        let end = format!("({name}) printed: an ERROR in the beginning");
        let lines = texts.iter().flat_map(|text| text.lines());
        assert_eq!(
            lines.filter(|line| line.ends_with(&end)).count(),
            1,
            "{texts:?}"
        );
    }
    are_told(&world.finish(), &["an ERROR in the beginning"; 2]);
}

#[test]
fn what_is_written_while_no_daemon_runs_is_told_by_the_next_one_once() {
    let world = World::new();
    let (on, ends) = (world.gate("on"), world.gate("ends"));
    let line = format!("echo ERROR 1; {on}; echo ERROR 2; echo fine; {ends}; echo ERROR 3");
    let mut args = argv(r"run api --notify-on 'error \d' --regex --ignore-case --");
    args.push(line);
    world.task(args).ok();
    world.until_delivered("output", "api");
    world.kill_daemon();
    on.open();
    world.until_shows("work:api", "fine");
    world.daemon();
    let records = world.until("the second line", |records| told(records).len() == 2);
    world.kill_daemon();
    // It ends while no daemon runs.
    ends.open();
    world.until_ended("work:api");
    world.daemon();
    world.until_delivered("exited", "api");
    let all = world.finish();
    assert_eq!(all[..records.len()], records);
    are_told(&all, &["ERROR 1", "ERROR 2", "ERROR 3"]);
    let mut of_events = story(&all).into_iter();
    let last = of_events.rfind(|line| !line.contains(" of "));
    assert_eq!(last.unwrap(), "exited api 0");
}

#[test]
fn a_line_in_a_flood_and_one_beside_it_are_found() {
    let world = World::new();
    let on = world.gate("on");
    run(&world, "beside", &format!("{on}; echo ERROR; sleep 1000"));
    let flood = "run flood --notify-on 77777 -- 'seq 200000; sleep 1000'";
    world.call(flood).ok();
    on.open();
    let records = world.until("both lines", |records| told(records).len() == 2);
    are_told(&records, &["77777", "ERROR"]);
}

/// tmux drops bytes that are not UTF-8, or replaces them, and with them a line may wrap elsewhere.
#[test]
fn a_line_that_tmux_stores_otherwise_is_told_once() {
    let world = World::new();
    let lines = [
        r"ERROR caf\351 closed\n",
        r"ERROR caf\351",
        r"ERROR \360\237\230\n\200\377\n",
        r"ERROR e\314\201\314\202\314\203\314\204\314\205\314\206\314\207\314\210\314\211\n",
        &format!(r"ERROR {}\n", r"caf\351 ".repeat(40)),
        r"\351\nERROR \357\267\220\n\351\n",
    ];
    for (index, printed) in lines.iter().enumerate() {
        let name = format!("t{index}");
        run(&world, &name, &format!("printf '{printed}'"));
        world.until_delivered("exited", &name);
    }
    let told = told(&world.finish());
    assert_eq!(told.len(), lines.len(), "{told:?}");
    assert!(
        told.iter().all(|(_, n, gap)| (*n, *gap) == (1, false)),
        "{told:?}"
    );
}

//! `run --notify-on`: its owner is notified of the lines that match.

use serde_json::Value;

use crate::support::{World, content, deliveries, events, story};

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

#[test]
fn a_line_that_is_overwritten_at_once_is_told_before_the_end_of_its_run() {
    let world = World::new();
    // The first task of the session, and one that the daemon starts.
    for name in ["first", "second"] {
        let line = "printf 'an ERROR in the beginning\\r\\033[2J\\033[Hfine\\n'; exit 3";
        let launched = world.task(["run", name, "--notify-on", "ERROR", "--", line]);
        launched.ok();
        let records = world.until_delivered("exited", name);
        let of_task: Vec<String> = story(&records)
            .into_iter()
            .filter(|line| line.contains(name) && !line.contains(" of "))
            .collect();
        assert_eq!(
            of_task,
            [
                format!("started {name}"),
                format!("output {name}"),
                format!("exited {name} 3")
            ]
        );
        // With the end in one message, or before it in one of its own.
        let texts: Vec<&str> = deliveries(&records).into_iter().map(content).collect();
        let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
        let is_told =
            |line: &&str| line.ends_with(&format!("({name}) printed: an ERROR in the beginning"));
        assert_eq!(
            lines.iter().filter(|line| is_told(line)).count(),
            1,
            "{texts:?}"
        );
    }
    let records = world.finish();
    let line = "an ERROR in the beginning".to_owned();
    assert_eq!(told(&records), [(line.clone(), 1, false), (line, 1, false)]);
}

#[test]
fn what_is_written_while_no_daemon_runs_is_told_by_the_next_one_once() {
    let world = World::new();
    let (on, ends) = (world.gate("on"), world.gate("ends"));
    let line = format!(
        "echo ERROR 1; {}; echo ERROR 2; echo fine; {}; echo ERROR 3",
        on.wait(),
        ends.wait()
    );
    world
        .task([
            "run",
            "api",
            "--notify-on",
            "error \\d",
            "--regex",
            "--ignore-case",
            "--",
            &line,
        ])
        .ok();
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
    let of_line = |line: &str| (line.to_owned(), 1, false);
    assert_eq!(
        told(&all),
        [of_line("ERROR 1"), of_line("ERROR 2"), of_line("ERROR 3")]
    );
    let mut of_events = story(&all).into_iter();
    let last = of_events.rfind(|line| !line.contains(" of "));
    assert_eq!(last.unwrap(), "exited api 0");
}

#[test]
fn a_line_in_a_flood_and_one_beside_it_are_found() {
    let world = World::new();
    let on = world.gate("on");
    let beside = format!("{}; echo ERROR; sleep 1000", on.wait());
    world
        .task(["run", "beside", "--notify-on", "ERROR", "--", &beside])
        .ok();
    let flood = "seq 200000; sleep 1000";
    world
        .task(["run", "flood", "--notify-on", "77777", "--", flood])
        .ok();
    on.open();
    let records = world.until("both lines", |records| told(records).len() == 2);
    let mut found = told(&records);
    found.sort();
    let of_line = |line: &str| (line.to_owned(), 1, false);
    assert_eq!(found, [of_line("77777"), of_line("ERROR")]);
}

#[test]
fn texts_that_no_line_contains_and_a_launch_without_a_daemon_are_refused() {
    let mut world = World::new();
    let refused = |world: &World, args: &[&str], code: i32, why: &str| {
        let args = [&["run", "api"], args, &["--", "true"]].concat();
        let said = world.task(args);
        assert!(said.err.contains(why), "{said}");
        assert_eq!(said.code, code, "{said}");
    };
    refused(&world, &["--notify-on", ""], 2, "an empty text");
    refused(
        &world,
        &["--notify-on", "(", "--regex"],
        2,
        "unclosed group",
    );
    refused(&world, &["--notify-on", "a\nb"], 2, "can never match");
    refused(&world, &["--notify-on", &"x".repeat(1025)], 2, "1024 bytes");
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    refused(
        &world,
        &["--notify-on", "ERROR"],
        3,
        "no daemon runs for session `work`, and $TMUX_TASK_NO_AUTOSTART",
    );
}

/// tmux drops bytes that are not UTF-8, or replaces them, and with them a line may wrap elsewhere.
#[test]
fn a_line_that_tmux_stores_otherwise_is_told_once() {
    let world = World::new();
    for (index, printed) in [
        r"ERROR caf\351 closed\n",
        r"ERROR caf\351",
        r"ERROR \360\237\230\n\200\377\n",
        r"ERROR e\314\201\314\202\314\203\314\204\314\205\314\206\314\207\314\210\314\211\n",
        &format!(r"ERROR {}\n", r"caf\351 ".repeat(40)),
        r"\351\nERROR \357\267\220\n\351\n",
    ]
    .iter()
    .enumerate()
    {
        let (name, line) = (format!("t{index}"), format!("printf '{printed}'"));
        let launched = world.task(["run", &name, "--notify-on", "ERROR", "--", &line]);
        launched.ok();
        world.until_delivered("exited", &name);
    }
    let records = world.finish();
    let counts = told(&records).into_iter().map(|(_, n, gap)| (n, gap));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [(1, false); 6],
        "{:?}",
        told(&records)
    );
}

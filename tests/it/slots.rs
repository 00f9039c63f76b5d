//! `run --slot NAME:N`: at most so many at once, in all sessions of a user.

use std::fs;

use rustix::process::{Signal, kill_process};

use crate::crashes::now_millis;
use crate::support::{World, argv, events, pid, story};

/// Starts a task that needs the only place.
#[track_caller]
fn run(world: &World, name: &str, line: &str) {
    world
        .task(["run", name, "--slot", "build:1", "--", line])
        .ok();
}

/// The same, and waits until it is queued.
#[track_caller]
fn queue(world: &World, name: &str, line: &str) {
    run(world, name, line);
    world.until_true("it is queued", || world.listed(name)["state"] == "queued");
}

/// Returns how many tickets are drawn.
fn n_tickets(world: &World) -> usize {
    let entries = fs::read_dir(world.path("run/slots/build"));
    entries.map_or(0, |entries| entries.count().saturating_sub(1))
}

#[test]
fn a_task_that_is_queued_has_not_started_and_begins_when_a_place_is_free() {
    let world = World::new();
    let (on, ends) = (world.gate("on"), world.gate("ends"));
    let until = |line: &str| {
        world.until(line, |records| story(records).contains(&line.to_owned()));
    };
    run(&world, "first", &format!("{on}; exit 3"));
    until("started first");
    queue(&world, "second", &format!("{ends}; exit 4"));
    queue(&world, "third", "exit 5");
    queue(&world, "fourth", "exit 5");
    // Ended while it is queued, it has never begun.
    world.task(["kill", "third"]).ok();
    // A daemon that comes back knows what is queued.
    world.kill_daemon();
    let states = ["first", "second"].map(|name| world.listed(name)["state"].clone());
    assert_eq!(states, ["running", "queued"]);
    let first_ends = now_millis();
    on.open();
    until("started second");
    let second_ends = now_millis();
    ends.open();
    until("exited fourth 5");
    let records = world.finish();
    let mut told = story(&records);
    told.retain(|line| !line.contains(" of "));
    let at = |line: &str| {
        let found = told.iter().position(|event| event == line);
        found.unwrap_or_else(|| panic!("{line}: {told:?}"))
    };
    // Without /proc, the place may be taken before the end is noticed: docs/platforms.md.
    let is_portable = std::env::var_os("TMUX_TASK_TEST_PROGRAM").is_some();
    let is_in_order = at("exited first 3") <= at("started second");
    assert!(is_in_order || is_portable, "{told:?}");
    assert!(at("started second") < at("exited second 4"), "{told:?}");
    assert!(!told.contains(&"started third".to_owned()), "{told:?}");
    // Their durations do not include the queue, also where a run is over before it is looked at.
    for event in events(&records) {
        let task = &event["task"];
        let least = match task["windowName"].as_str().unwrap() {
            "second" => first_ends,
            "fourth" => second_ends,
            _ => continue,
        };
        assert!(task["startedAt"].as_i64().unwrap() >= least, "{event}");
    }
    // The text of the queue is not the task's.
    assert_eq!(world.task(["logs", "second"]).ok().trim(), "");
}

#[test]
fn twenty_runs_in_two_sessions_begin_in_their_order_two_at_once_whoever_is_killed() {
    let world = World::new();
    let on = world.gate("on");
    let log = world.path("log");
    let sessions = ["work", "other"];
    let mut client = None;
    for n in 0..20 {
        let wait = if n < 2 {
            on.wait()
        } else {
            "sleep 0.02".to_owned()
        };
        let log = log.display();
        let line = format!("echo + {n} >>{log}; {wait}; echo - {n} >>{log}");
        let mut args = argv(&format!(
            "run -s {} t{n} --slot build:2 --",
            sessions[n % 2]
        ));
        args.push(line);
        if n == 9 {
            // The client that waits is killed later.
            args.insert(4, "--wait".to_owned());
            client = Some(world.start(args));
        } else {
            world.task(args).ok();
        }
        world.until_true("its ticket is drawn", || n_tickets(&world) == n + 1);
        if n == 5 || n == 12 {
            world.kill_daemon();
        }
    }
    let client = client.unwrap();
    client.signal(Signal::KILL);
    let killed = world.pane_pid("=work:t6");
    kill_process(pid(killed.parse().unwrap()), Signal::KILL).unwrap();
    world.kill_daemon();
    on.open();
    on.open();
    let read = || fs::read_to_string(&log).unwrap_or_default();
    world.until_true("all have ended", || read().matches('-').count() == 19);
    let (mut running, mut begun) = (0_usize, Vec::new());
    for line in read().lines() {
        let (sign, n) = line.split_once(' ').unwrap();
        if sign == "+" {
            begun.push(n.parse::<usize>().unwrap());
            running += 1;
        } else {
            running -= 1;
        }
        assert!(running <= 2, "{}", read());
    }
    let expected: Vec<usize> = (0..20).filter(|n| *n != 6).collect();
    // Two that may begin at the same time write in any order.
    for (place, n) in begun.iter().enumerate() {
        let due = expected.iter().position(|due| due == n).unwrap();
        assert!(due.abs_diff(place) <= 1, "{begun:?}");
    }
    assert_eq!(begun.len(), expected.len(), "{begun:?}");
}

#[test]
fn a_task_does_not_take_the_slot_of_the_one_that_starts_it() {
    let world = World::new();
    let program = World::program().display();
    let line = format!("{program} run inner --wait -- 'echo \"<${{TMUX_TASK_SLOT-}}>\"; exit 7'");
    let outer = ["run", "outer", "--slot", "build:1", "--wait", "--", &line];
    world.task(outer).fails_with(7);
    assert_eq!(world.task(["logs", "inner"]).ok().trim(), "<>");
    world.call("run outer --wait").fails_with(7);
    let options = world.tmux(argv("show-options -wv -t =work:outer @tmux_task_spec"));
    let slot = r#""slot":{"name":"build","places":1}"#;
    assert!(options.contains(slot), "{options}");
    for wrong in ["build", "build:0", "../x:1"] {
        let refused = world.task(["run", "a", "--slot", wrong, "--", "true"]);
        refused.fails_with(2);
    }
}

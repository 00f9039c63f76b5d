//! `run --slot NAME:N`: at most so many at once, in all sessions of a user.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{World, story};

/// Returns the state of a task, as `ls --json` has it.
fn state(world: &World, session: &str, name: &str) -> String {
    let listed = world.task(["ls", "-s", session, "--json"]);
    let listed: Value = serde_json::from_str(listed.ok()).unwrap();
    let mut tasks = listed["tasks"].as_array().unwrap().iter();
    let task = tasks.find(|task| task["windowName"] == name);
    task.map_or("-", |task| task["state"].as_str().unwrap())
        .to_owned()
}

fn pid_in(world: &World, target: &str) -> Pid {
    let pid = world.tmux(["display-message", "-p", "-t", target, "#{pane_pid}"]);
    Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
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
    let held = format!("{}; exit 3", on.wait());
    let run = |name: &str, line: &str| {
        world
            .task(["run", name, "--slot", "build:1", "--", line])
            .ok();
    };
    run("first", &held);
    world.until("the first run", |records| {
        story(records).contains(&"started first".to_owned())
    });
    run("second", &format!("{}; exit 4", ends.wait()));
    world.until_true("the second task is queued", || {
        state(&world, "work", "second") == "queued"
    });
    for name in ["third", "fourth"] {
        run(name, "exit 5");
        world.until_true("it is queued", || state(&world, "work", name) == "queued");
    }
    // Ended while it is queued, it has never begun.
    world.task(["kill", "third"]).ok();
    let now = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let first_ends = now();
    on.open();
    world.until("the second run", |records| {
        story(records).contains(&"started second".to_owned())
    });
    let second_ends = now();
    ends.open();
    world.until("the end of the last run", |records| {
        story(records).contains(&"exited fourth 5".to_owned())
    });
    let records = world.finish();
    let events: Vec<String> = story(&records)
        .into_iter()
        .filter(|line| !line.contains(" of "))
        .collect();
    let at = |line: &str| {
        let found = events.iter().position(|event| event == line);
        found.unwrap_or_else(|| panic!("{line}: {events:?}"))
    };
    assert!(at("exited first 3") <= at("started second"), "{events:?}");
    assert!(at("started second") < at("exited second 4"), "{events:?}");
    assert!(!events.contains(&"started third".to_owned()), "{events:?}");
    // Their durations do not include the queue, also where a run is over before it is looked at.
    for event in crate::support::events(&records) {
        let task = &event["task"];
        let least = match task["windowName"].as_str().unwrap() {
            "second" => first_ends,
            "fourth" => second_ends,
            _ => continue,
        };
        assert!(task["startedAt"].as_u64().unwrap() >= least, "{event}");
    }
    // The text of the queue is not the task's.
    let archived = world.task(["logs", "second"]);
    assert_eq!(archived.ok().trim(), "");
}

#[test]
fn a_queued_task_is_shown_as_queued_without_a_daemon_too() {
    let world = World::new();
    let run = |name: &str, line: &str| {
        world
            .task(["run", name, "--slot", "build:1", "--", line])
            .ok();
    };
    run("first", "exec sleep 1000");
    run("second", "exec sleep 1000");
    world.until_true("the second task is queued", || {
        state(&world, "work", "second") == "queued"
    });
    world.kill_daemon();
    let states = ["first", "second"].map(|name| state(&world, "work", name));
    assert_eq!(states, ["running", "queued"]);
}

#[test]
fn twenty_runs_in_two_sessions_begin_in_their_order_two_at_once_whoever_is_killed() {
    let world = World::new();
    let on = world.gate("on");
    let log = world.path("log");
    let sessions = ["work", "other"];
    let mut client = None;
    for n in 0..20 {
        let session = sessions[n % 2];
        let wait = if n < 2 {
            on.wait()
        } else {
            "sleep 0.02".to_owned()
        };
        let line = format!(
            "echo + {n} >>{log}; {wait}; echo - {n} >>{log}",
            log = log.display()
        );
        let name = format!("t{n}");
        let args = [
            "run", "-s", session, &name, "--slot", "build:2", "--", &line,
        ];
        if n == 9 {
            // The client that waits is killed later.
            client = Some(world.start([&args[..4], &["--wait"], &args[4..]].concat()));
        } else {
            world.task(args).ok();
        }
        world.until_true("its ticket is drawn", || n_tickets(&world) == n + 1);
        if n == 5 || n == 12 {
            world.kill_daemon();
        }
    }
    let client = client.unwrap();
    kill_process(client.pid(), Signal::KILL).unwrap();
    kill_process(pid_in(&world, "=work:t6"), Signal::KILL).unwrap();
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
    assert_eq!(world.task(outer).code, 7);
    let shown = world.task(["logs", "inner"]);
    assert_eq!(shown.ok().trim(), "<>");
    let again = world.task(["run", "outer", "--wait"]);
    assert_eq!(again.code, 7, "{again}");
    let options = world.tmux([
        "show-options",
        "-wv",
        "-t",
        "=work:outer",
        "@tmux_task_spec",
    ]);
    let slot = r#""slot":{"name":"build","places":1}"#;
    assert!(options.contains(slot), "{options}");
    for wrong in ["build", "build:0", "../x:1"] {
        let refused = world.task(["run", "a", "--slot", wrong, "--", "true"]);
        assert_eq!(refused.code, 2, "{refused}");
    }
}

//! Runs: a task's slot is used again, and no end of a run is lost.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{World, events, repeated, story, window_of};

/// The codes with which a task's runs ended, by run.
pub(crate) fn codes(records: &[Value], name: &str) -> Vec<(i64, i64)> {
    events(records)
        .into_iter()
        .filter(|event| event["type"] == "exited" && event["task"]["windowName"] == name)
        .map(|event| {
            let number = |field: &str| event["task"][field].as_i64().unwrap_or(-1);
            (number("run"), number("exitCode"))
        })
        .collect()
}

/// Waits until the last end of a task is this.
#[track_caller]
fn until_last(world: &World, name: &str, end: (i64, i64)) -> Vec<Value> {
    world.until("the last end", |records| {
        codes(records, name).last() == Some(&end)
    })
}

/// By the launcher it is a notice, and by hand a message.
#[test]
fn a_live_run_that_is_replaced_is_told_with_the_next() {
    let world = World::new();
    let window = world.run("api", "echo one; sleep 1000");
    world.until_shows(&window, "one");
    world.look();
    world.until_deliveries(1);
    world.run("api", "sleep 1000");
    world.until_deliveries(2);
    world.tmux(["respawn-window", "-k", "-t", &window, "exec sleep 1000"]);
    world.until_deliveries(3);
    let records = world.finish();
    let replaced = format!("tmux task {window} (api) was replaced by a new run");
    assert_eq!(
        story(&records)[2..],
        [
            "exited api replaced".to_owned(),
            "started api again".to_owned(),
            format!(
                "notice of [3,4] [warning] {replaced}\n\
                 recent output:\n  one\n  Terminated\ntmux task {window} (api) started"
            ),
            "exited api replaced".to_owned(),
            "started api again".to_owned(),
            format!("followUp of [6,7] [warning] {replaced}"),
        ]
    );
    let runs = [2, 3, 5, 6].map(|at| records[at]["task"]["run"].as_u64());
    assert_eq!(runs, [Some(1), Some(2), Some(2), Some(3)]);
    let details = &records[7]["message"]["details"]["events"];
    assert_eq!(details.as_array().unwrap().len(), 2);
}

#[test]
fn a_slot_is_used_again_after_a_respawn_by_hand() {
    let world = World::new();
    let line = "trap 'exit 4' HUP; echo up; while :; do read -r _ || :; done";
    let window = world.run("api", line);
    world.until_shows(&window, "up");
    world.until_deliveries(1);
    // A live run that ends well when it is replaced is no quick run.
    world.tmux(["respawn-pane", "-k", "-t", &window, "exit 4"]);
    let records = until_last(&world, "api", (2, 4));
    assert_eq!(codes(&records, "api").len(), 2, "{:?}", story(&records));
    assert_eq!(world.run("api", "exit 5"), window);
    let records = until_last(&world, "api", (3, 5));
    assert_eq!(codes(&records, "api").len(), 3, "{:?}", story(&records));
    world.finish();
}

#[test]
fn runs_that_no_look_showed_are_reported_from_the_death_record() {
    let world = World::new();
    let window = world.run("api", "sleep 1000");
    world.until_deliveries(1);
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    // The first takes the place of a run that lives.
    for line in ["exit 4", "exit 4", "exit 5", "kill -9 $$"] {
        world.tmux(["respawn-pane", "-k", "-t", &window, line]);
        world.until_ended(&window);
    }
    kill_process(daemon, Signal::CONT).unwrap();
    until_last(&world, "api", (5, -1));
    let records = world.finish();
    let ends = ["replaced", "4", "4", "5", "SIGKILL"];
    let ends = ends.map(|end| format!("exited api {end}"));
    assert_eq!(story(&records)[2..7], ends);
    let codes = codes(&records, "api");
    assert_eq!(codes, [(1, -1), (2, 4), (3, 4), (4, 5), (5, -1)]);
}

#[test]
fn many_tasks_and_reruns_each_end_once() {
    let world = World::new();
    let many = repeated(6);
    for n in 0..many {
        world.run(&format!("t{n}"), &format!("exit {n}"));
    }
    // One after the other, and hasty ones.
    for name in ["slot", "hasty"] {
        for n in 0..many {
            let window = world.run(name, &format!("exit {n}"));
            if name == "slot" {
                world.until_ended(&window);
            }
        }
        until_last(&world, name, (many, many - 1));
    }
    world.until("all ends", |records| {
        (0..many).all(|n| !codes(records, &format!("t{n}")).is_empty())
    });
    let records = world.finish();
    for n in 0..many {
        assert_eq!(codes(&records, &format!("t{n}")), [(1, n)]);
    }
    let expected: Vec<(i64, i64)> = (0..many).map(|n| (n + 1, n)).collect();
    assert_eq!(codes(&records, "slot"), expected);
    let hasty = codes(&records, "hasty");
    let runs: Vec<i64> = hasty.iter().map(|(run, _)| *run).collect();
    assert_eq!(runs, (1..=many).collect::<Vec<_>>());
    for event in events(&records) {
        let run = event["task"]["run"].as_i64().unwrap();
        let is_hasty = event["task"]["windowName"] == "hasty" && event["type"] == "exited";
        if is_hasty && event["reason"] != "replaced" {
            assert_eq!(event["task"]["exitCode"], run - 1, "{event}");
        }
    }
}

#[test]
fn six_launches_at_once_make_one_window() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = gate.wait();
    let launches = [(); 6].map(|()| world.start(["run", "api", "--", &line]));
    let windows = launches.map(|mut launch| {
        let printed = [(); 4].map(|()| launch.line());
        assert_eq!(launch.wait(), 0);
        window_of(&printed.join("\n"))
    });
    assert!(
        windows.iter().all(|window| *window == windows[0]),
        "{windows:?}"
    );
    let tasks = world.tasks();
    assert_eq!((tasks.len(), &tasks[0]["run"]), (1, &6.into()));
    world.finish();
}

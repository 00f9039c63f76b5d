//! Panes that users join, break out, swap and close: their runs continue, or have ended.

use rustix::process::Pid;
use serde_json::Value;

use crate::runs::codes;
use crate::support::{Gate, World, all_told, events, story};

/// A world with two tasks that wait at gates, and their records.
fn with_two() -> (World, [(String, Gate); 2], Vec<Value>) {
    let world = World::new();
    let start = |name: &str, code: u8| {
        let gate = world.gate(name);
        let window = world.run(name, &format!("{}; exit {code}", gate.wait()));
        (window, gate)
    };
    let tasks = [start("first", 3), start("second", 4)];
    let records = world.until("both starts", |records| {
        events(records).len() == 2 && all_told(records)
    });
    (world, tasks, records)
}

/// Waits until the daemon has seen which process the task has.
fn until_it_has(world: &World, name: &str, pid: &Value) {
    world.until_true("the daemon has seen it", || {
        let tasks = world.look()["tasks"].clone();
        let mut tasks = tasks.as_array().unwrap().iter();
        tasks.any(|task| task["windowName"] == name && task["panePid"] == *pid)
    });
}

fn pid_of<'a>(records: &'a [Value], name: &str) -> &'a Value {
    let mut started = events(records).into_iter();
    let event = started.find(|event| event["task"]["windowName"] == name);
    &event.unwrap()["task"]["panePid"]
}

#[test]
fn panes_that_are_swapped_end_in_the_windows_they_are_in() {
    let (world, [(first, gate), (second, _kept)], before) = with_two();
    world.tmux(["swap-pane", "-d", "-s", &first, "-t", &second]);
    until_it_has(&world, "second", pid_of(&before, "first"));
    gate.open();
    world.until("the end", |records| {
        codes(records, "second").len() == 1 && all_told(records)
    });
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    let told = story(&records[before.len()..]);
    assert_eq!(told[0], "exited second 3", "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_pane_that_is_joined_to_another_window_goes_on_there() {
    let (world, [(first, _kept), (second, gate)], before) = with_two();
    // The first has the lower id and is the primary pane of the second window from here on.
    world.tmux(["join-pane", "-d", "-s", &first, "-t", &second]);
    until_it_has(&world, "second", pid_of(&before, "first"));
    let pane = world.tmux(["list-panes", "-t", &second, "-F", "#{pane_id}"]);
    world.tmux([
        "break-pane",
        "-d",
        "-s",
        pane.lines().min().unwrap(),
        "-n",
        "again",
    ]);
    until_it_has(&world, "second", pid_of(&before, "second"));
    gate.open();
    world.until("the end", |records| {
        codes(records, "second").len() == 1 && all_told(records)
    });
    let records = world.finish();
    let told: Vec<String> = story(&records[before.len()..])
        .into_iter()
        .filter(|line| !line.starts_with("notice") && !line.starts_with("followUp"))
        .collect();
    assert_eq!(
        told,
        ["disappeared first -", "started again", "exited second 4"]
    );
}

#[test]
fn closing_the_primary_pane_of_a_split_window_ends_its_run() {
    let (world, [(first, _kept), _also], before) = with_two();
    world.tmux(["split-window", "-d", "-t", &first, "exec sleep 1000"]);
    let panes = world.tmux(["list-panes", "-t", &first, "-F", "#{pane_id} #{pane_pid}"]);
    let (pane, pid) = panes.lines().min().unwrap().split_once(' ').unwrap();
    assert!(Pid::from_raw(pid.parse().unwrap()).is_some());
    world.tmux(["kill-pane", "-t", pane]);
    let records = world.until("the end", |records| {
        records.len() > before.len() + 2 && all_told(records)
    });
    let told = story(&records[before.len()..]);
    // The signal is known if the process has ended by the time of the look.
    let ends = ["exited first SIGHUP", "exited first null"];
    assert!(ends.contains(&told[0].as_str()), "{told:?}");
    assert_eq!(told[1], "started first again", "{told:?}");
    assert_eq!(events(&records).len(), 4, "{told:?}");
}

//! Panes that users join, break out, swap and close: their runs continue, or have ended.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::environment::launching;
use crate::runs::codes;
use crate::support::{Gate, Output, World, all_told, events, pid, story, window_of};

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
fn a_run_ends_with_its_own_process_also_when_its_pane_was_swapped() {
    let (world, [(first, gate), (second, _kept)], before) = with_two();
    world.tmux(["swap-pane", "-d", "-s", &first, "-t", &second]);
    until_it_has(&world, "second", pid_of(&before, "first"));
    gate.open();
    world.until("the end", |records| {
        codes(records, "first").len() == 1 && all_told(records)
    });
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    let told = story(&records[before.len()..]);
    assert_eq!(told[0], "exited first 3", "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_live_run_has_not_ended_because_its_window_shows_a_pane_that_has() {
    let moves: [&[&str]; 2] = [
        &[
            "swap-pane",
            "-d",
            "-s",
            "=work:=first.",
            "-t",
            "=work:=over.",
        ],
        &["break-pane", "-d", "-n", "away", "-s"],
    ];
    for moved in moves {
        let (world, [(first, gate), _kept], _) = with_two();
        world.run("over", "exit 0");
        world.task(["wait", "over"]).ok();
        if moved[0] == "break-pane" {
            let pane = world.tmux(["list-panes", "-t", &first, "-F", "#{pane_id}"]);
            world.tmux(["split-window", "-d", "-t", &first, "exit 0"]);
            world.tmux([moved, &[&pane]].concat());
        } else {
            world.tmux(moved);
        }
        let wait = world.task(["wait", "first", "--timeout", "1s"]);
        assert_eq!(wait.code, 4, "{moved:?}: {wait}");
        world.task(["daemon", "stop"]).ok();
        gate.open();
        let wait = world.task(["wait", "first"]);
        assert_eq!(wait.code, 1, "{moved:?}: {wait}");
        // What is removed is what has ended, and nothing that lives.
        world.task(["prune"]).ok();
        let left = world.tmux(["list-panes", "-s", "-t", "work", "-F", "#{pane_dead}"]);
        assert!(left.contains('0'), "{left}");
    }
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

#[test]
fn a_run_leaves_the_process_alone_that_remains_when_its_own_pane_is_closed_or_moved() {
    let leaves: [&[&str]; 2] = [
        &["kill-pane", "-t"],
        &["break-pane", "-d", "-n", "away", "-s"],
    ];
    for leave in leaves {
        let world = World::new();
        let window = window_of(Output::of(launching(&world, "api", &["sleep 1000"])).ok());
        world.task(["daemon", "--detach"]).ok();
        world.tmux(["split-window", "-d", "-t", &window, "exec sleep 777"]);
        let panes = world.tmux(["list-panes", "-t", &window, "-F", "#{pane_id} #{pane_pid}"]);
        let mut panes: Vec<(&str, &str)> = panes
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        panes.sort();
        let [(own, _), (_, others)] = panes[..] else {
            panic!("{panes:?}");
        };
        world.tmux([leave, &[own]].concat());
        until_it_has(&world, "api", &others.parse::<i64>().unwrap().into());
        let again = Output::of(launching(&world, "api", &["sleep 1001"]));
        let new = window_of(again.ok());
        assert_ne!(new, window, "{leave:?}");
        let shown = world.look();
        let tasks = shown["tasks"].as_array().unwrap();
        let of = |id: &str| tasks.iter().find(|task| task["windowId"] == id).unwrap();
        assert_eq!(of(&window)["panePid"].to_string(), others);
        assert_eq!(
            (&of(&window)["shell"], &of(&new)["shell"]),
            (&Value::Bool(true), &Value::Bool(false))
        );
        // The name is that of the task.
        world.task(["kill", "api"]).ok();
        assert!(world.look().to_string().contains(others));
        let records = world.finish();
        let ended: Vec<_> = events(&records)
            .into_iter()
            .filter(|event| event["task"]["windowId"] == *window && event["type"] == "exited")
            .collect();
        // The end of the task's own run is the task's.
        assert!(
            ended.iter().all(|event| event["task"]["shell"] == false),
            "{ended:?}"
        );
    }
}

#[test]
fn a_run_leaves_another_tasks_pane_alone_that_was_moved_into_its_window() {
    let world = World::new();
    let start = |name: &str| window_of(Output::of(launching(&world, name, &["sleep 1000"])).ok());
    let (first, second) = (start("first"), start("second"));
    let process = |target: &str| {
        world.tmux([
            "display-message",
            "-p",
            "-t",
            target,
            "#{pane_id} #{pane_pid} #{pane_dead}",
        ])
    };
    let before = process(&first);
    let (pane, _) = before.split_once(' ').unwrap();
    world.tmux(["join-pane", "-d", "-s", &first, "-t", &second]);
    assert_ne!(start("second"), second);
    assert_eq!(process(pane), before);
}

#[test]
fn a_run_leaves_a_window_alone_that_is_linked_from_another_session() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "other",
        "-n",
        "tool",
        "exec sleep 900",
    ]);
    world.tmux(["link-window", "-d", "-s", "other:tool", "-t", "work:"]);
    let of_tool = || world.tmux(["display-message", "-p", "-t", "other:tool", "#{pane_pid}"]);
    let before = of_tool();
    Output::of(launching(&world, "tool", &["exec sleep 1001"])).ok();
    assert_eq!(of_tool(), before);
    // A task's own window may be linked: it is run again.
    world.tmux(["link-window", "-d", "-s", "work:api", "-t", "other:"]);
    let again = Output::of(launching(&world, "api", &["exec sleep 1002"]));
    let window = window_of(again.ok());
    let named = world.tmux([
        "list-windows",
        "-t",
        "work",
        "-F",
        "#{window_name} #{window_id}",
    ]);
    let named: Vec<&str> = named
        .lines()
        .filter(|line| line.starts_with("api "))
        .collect();
    assert_eq!(named, [format!("api {window}")]);
}

#[test]
fn prune_leaves_a_window_alone_that_is_linked_from_another_session() {
    let world = World::new();
    world.run("api", "exit 3");
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 900"]);
    let theirs = world.open_window("other", &["-n", "theirs", "exec sleep 900"]);
    world.tmux(["set-option", "-w", "-t", &theirs, "remain-on-exit", "on"]);
    world.tmux(["link-window", "-d", "-s", &theirs, "-t", "work:"]);
    let format = "#{pane_pid}";
    let process = world.tmux(["display-message", "-p", "-t", &theirs, format]);
    kill_process(pid(process.parse().unwrap()), Signal::TERM).unwrap();
    let ended = || world.tmux(["list-panes", "-s", "-t", "work", "-F", "#{pane_dead}"]);
    world.until_true("both have ended", || ended() == "1\n1");
    let pruned = world.task(["prune"]);
    assert!(
        pruned.ok().contains("(api)") && !pruned.out.contains("theirs"),
        "{pruned}"
    );
    world.run("api", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.task(["prune"]).ok(), "");
    let windows = world.tmux(["list-windows", "-a", "-F", "#{session_name} #{window_id}"]);
    for session in ["other", "work"] {
        let line = format!("{session} {theirs}");
        assert!(windows.lines().any(|window| window == line), "{windows}");
    }
}

#[test]
fn a_window_that_takes_the_place_of_a_second_link_is_found() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 900"]);
    world.tmux([
        "new-window",
        "-d",
        "-t",
        "other:",
        "-n",
        "web",
        "exec sleep 900",
    ]);
    world.tmux(["link-window", "-d", "-s", "work:api", "-t", "work:91"]);
    // tmux reports nothing, and the session has as many windows as before.
    world.tmux(["swap-window", "-d", "-s", "other:web", "-t", "work:91"]);
    world.until("the start of web", |records| {
        let is_start = |record: &Value| record["type"] == "started";
        let of_web = |record: &Value| record["task"]["windowName"] == "web";
        records
            .iter()
            .any(|record| is_start(record) && of_web(record))
    });
    world.finish();
}

#[test]
fn a_pane_that_floats_over_a_task_never_takes_its_place() {
    let (world, [(first, gate), _other], before) = with_two();
    let floats = world.tmux([
        "display-message",
        "-p",
        "-t",
        &first,
        "#{pane_floating_flag}",
    ]);
    if floats.trim().is_empty() {
        eprintln!("not tested: this tmux has no floating panes");
        return;
    }
    let open = |command: &str, window: &str| {
        let options = [command, "-d", "-P", "-F", "#{pane_id}", "-t", window];
        world.tmux([&options[..], &["exec sleep 1000"]].concat())
    };
    let pane_of = |name: &str| {
        let tasks = world.look()["tasks"].clone();
        let mut tasks = tasks.as_array().unwrap().iter();
        let task = tasks.find(|task| task["windowName"] == name).unwrap();
        task["paneId"].as_str().unwrap().to_owned()
    };
    let own = pane_of("first");
    let floating = open("new-pane", &first);
    assert_eq!(pane_of("first"), own);
    world.tmux(["kill-pane", "-t", &floating]);
    // Its user lets the task itself float over another pane, and changes their places.
    let split = open("split-window", &first);
    let floating = open("new-pane", &first);
    let mut swap = world.command("tmux");
    swap.args(["swap-pane", "-d", "-s", &own, "-t", &floating]);
    // tmux 3.7 refuses that.
    if Output::of(swap).code == 0 {
        let flags = ["display-message", "-p", "-t", &own, "#{pane_floating_flag}"];
        assert_eq!(world.tmux(flags).trim(), "1");
    }
    assert_eq!(pane_of("first"), own);
    // A window that a user has made is what is tiled in it.
    world.new_window("hand", "exec sleep 1000");
    let tiled = pane_of("hand");
    let floating_over_it = open("new-pane", "=work:hand");
    let split_of_it = open("split-window", "=work:hand");
    world.tmux(["kill-pane", "-t", &tiled]);
    assert_eq!(pane_of("hand"), split_of_it);
    world.tmux(["kill-pane", "-t", &split_of_it]);
    assert_eq!(pane_of("hand"), floating_over_it);
    gate.open();
    let records = world.until_delivered("exited", "first");
    assert_eq!(codes(&records, "first"), [(1, 3)]);
    let told = story(&records[before.len()..]);
    assert!(
        told.iter().all(|line| !line.contains("disappeared")),
        "{told:?}"
    );
    drop(split);
}

//! What is known of runs that have ended: the list of those that are stored.

use std::fs::DirEntry;

use serde_json::{Value, json};

use crate::support::{SESSION, World, begins, has_fields, story, texts};

/// Waits until so many runs are stored.
#[track_caller]
fn until_stored(world: &World, n: usize) {
    let folder = world.state(SESSION).join("runs");
    world.until_true("all runs are stored", || {
        let files = folder.read_dir().into_iter().flatten().flatten();
        let is_run = |file: &DirEntry| file.path().extension().is_some_and(|it| it == "log");
        files.filter(is_run).count() == n
    });
}

#[test]
fn a_running_task_shows_how_long_it_usually_takes() {
    let world = World::new();
    let line = "[ ! -e hold ] || exec sleep 1000";
    let usual = |world: &World| world.json(["ls", "--json"])["tasks"][0]["usualMs"].clone();
    for n in 1..=2 {
        let window = world.run("tests", line);
        assert_eq!(usual(&world), Value::Null);
        world.until_ended(&window);
        until_stored(&world, n);
    }
    std::fs::write(world.project().join("hold"), "").unwrap();
    world.run("tests", line);
    let runs = world.json(["logs", "tests", "--runs", "--json"]);
    // The median of two is the longer one.
    let times = runs.as_array().unwrap().iter();
    let times = times.map(|run| run["durationMs"].as_i64().unwrap());
    let expected = json!(times.max().unwrap());
    world.until_true("it is known", || usual(&world) == expected);
    let table = world.task(["ls"]);
    begins(table.ok(), "ID  NAME   STATE    CODE  RUN  AGE  USUALLY  ");
    // The next daemon finds it out too.
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    world.until_true("it is known again", || usual(&world) == expected);
    // Another command under the same name is another task.
    world.run("tests", "exec sleep 1000");
    assert_eq!(usual(&world), Value::Null);
}

#[test]
fn stored_runs_are_listed() {
    let world = World::new();
    let mut window = String::new();
    for (n, code) in [0, 2, 0].into_iter().enumerate() {
        window = world.run("tests", &format!("exit {code}"));
        world.until_ended(&window);
        until_stored(&world, n + 1);
    }
    let lint = world.run("lint", "kill -9 $$");
    world.until_ended(&lint);
    until_stored(&world, 4);

    let runs = world.json(["logs", "tests", "--runs", "--json"]);
    let runs = runs.as_array().unwrap();
    let codes: Vec<_> = runs
        .iter()
        .map(|run| json!([run["run"], run["exitCode"]]))
        .collect();
    assert_eq!(json!(codes), json!([[1, 0], [2, 2], [3, 0]]));
    for run in runs {
        assert_eq!(run["windowId"], *window);
        let took = run["endedAt"].as_i64().unwrap() - run["startedAt"].as_i64().unwrap();
        assert_eq!(run["durationMs"], took);
    }
    let listed = world.task(["logs", "tests", "lint", "--runs", "-n", "2"]);
    let rows = listed
        .ok()
        .lines()
        .map(|line| line.split_whitespace().collect());
    let rows: Vec<Vec<&str>> = rows.collect();
    assert_eq!(rows[0], ["NAME", "RUN", "CODE", "ENDED", "TOOK", "COMMAND"]);
    // The last two of each.
    assert_eq!(rows[1][..3], ["tests", "2", "2"]);
    assert_eq!(rows[2][..3], ["tests", "3", "0"]);
    assert_eq!(rows[3][..3], ["lint", "1", "SIGKILL"]);
    assert_eq!(rows.len(), 4);

    world.task(["logs", "nothing", "--runs"]).fails(
        3,
        "tmux-task: logs: no ended run of task `nothing` is stored\nhint: a run is stored when it \
         has ended; `tmux-task ls` shows the present ones",
    );
    // They outlive the window and the session.
    world.tmux(["kill-session", "-t", SESSION]);
    let runs = world.json(["logs", "tests", "--runs", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 3);
    assert_eq!(world.task(["logs", "tests", "--runs", "--follow"]).code, 2);
}

/// The number, code and reason of each stored run of a task, in order.
fn stored(world: &World, name: &str) -> Vec<(i64, Value, Value)> {
    let runs = world.json(["logs", name, "--runs", "--json"]);
    let runs = runs.as_array().unwrap().iter();
    runs.map(|run| {
        assert!(
            run["endedAt"].is_i64() && run["durationMs"].is_i64(),
            "{run}"
        );
        (
            run["run"].as_i64().unwrap(),
            run["exitCode"].clone(),
            run["reason"].clone(),
        )
    })
    .collect()
}

#[test]
fn the_number_of_a_run_goes_on_over_windows_daemons_and_sessions() {
    let world = World::new();
    let run = |line: &str| {
        let printed = world.json(["run", "t", "--json", "--", line]);
        world.until_ended(printed["windowId"].as_str().unwrap());
        printed["run"].as_i64().unwrap()
    };
    let is_stored = |n| until_stored(&world, n);
    assert_eq!(run("echo one"), 1);
    is_stored(1);
    world.task(["restart", "t"]).ok();
    is_stored(2);
    // Another window.
    world.task(["kill", "t"]).ok();
    world.run("other", "exec sleep 1000");
    assert_eq!(run("echo three"), 3);
    is_stored(3);
    assert_eq!(world.window_option("=work:=t", "@tmux_task_run"), "3");
    // Another daemon.
    world.task(["kill", "t"]).ok();
    world.task(["daemon", "stop"]).ok();
    assert_eq!(run("echo four"), 4);
    is_stored(4);
    // Another session, and another daemon that knows the stored runs alone.
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(run("echo five"), 5);
    // With that of `other`, which has ended with its session.
    is_stored(6);
    world.task(["kill-all", "--yes"]).ok();
    world.task(["daemon", "stop"]).ok();
    std::fs::remove_file(world.state(SESSION).join("session.json")).unwrap();
    assert_eq!(run("echo six"), 6);
    is_stored(7);
    let numbers: Vec<i64> = stored(&world, "t").iter().map(|(run, ..)| *run).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6]);
    for (number, line) in (1..).zip(["one", "one", "three", "four", "five", "six"]) {
        let number = i32::to_string(&number);
        let shown = world.task(["logs", "t", "--run", &number]);
        assert_eq!(shown.ok().trim_end(), line, "run {number}");
    }
}

#[test]
fn a_run_of_a_renamed_window_is_found_by_the_name_that_has_its_number() {
    let world = World::new();
    let a = world.run("a", "echo of a; exec sleep 1000");
    let b = world.run("b", "echo of b; exec sleep 1000");
    world.until_shows(&a, "of a");
    world.until_shows(&b, "of b");
    world.run("b", "exit 3");
    until_stored(&world, 2);
    world.task(["kill", "b"]).ok();
    world.tmux(["rename-window", "-t", &a, "b"]);
    world.until_true("the new name is known", || {
        world.json(["ls", "--json"])["tasks"][0]["windowName"] == "b"
    });
    // `b` has had a first run, so this one stays the first of `a`.
    let printed = world.json(["run", "b", "--json", "--", "exit 4"]);
    has_fields(&printed, "windowId run", json!([a, 3]));
    until_stored(&world, 4);
    let replaced = |run| (run, Value::Null, json!("replaced"));
    let ended = |run, code: i64| (run, json!(code), Value::Null);
    assert_eq!(stored(&world, "a"), [replaced(1)]);
    assert_eq!(stored(&world, "b"), [replaced(1), ended(2, 3), ended(3, 4)]);
    for name in ["a", "b"] {
        let first = world.task(["logs", name, "--run", "1"]);
        assert_eq!(first.ok(), format!("of {name}\n"));
    }
}

#[test]
fn each_of_many_runs_that_are_replaced_at_once_is_stored_in_order() {
    const RUNS: i64 = 12;
    let world = World::new();
    world.run("other", "exec sleep 1000");
    let start = |_| world.start(["run", "burst", "--", "exec sleep 1000"]);
    let mut all: Vec<_> = (0..RUNS).map(start).collect();
    for launch in &mut all {
        assert_eq!(launch.wait(), 0);
    }
    world.run("burst", "exit 7");
    until_stored(&world, usize::try_from(RUNS + 1).unwrap());
    let mut expected: Vec<_> = (1..=RUNS)
        .map(|run| (run, Value::Null, json!("replaced")))
        .collect();
    expected.push((RUNS + 1, json!(7), Value::Null));
    assert_eq!(stored(&world, "burst"), expected);
    let windows = world.tmux(["list-windows", "-F", "#{window_name}"]);
    assert_eq!(windows.lines().count(), 2, "{windows}");
    let mut told = story(&world.records());
    told.retain(|line| line == "exited burst replaced");
    assert_eq!(told.len(), expected.len() - 1);
    let table = world.task(["logs", "burst", "--runs", "-n", "2"]);
    let row = table.ok().lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..3], ["burst", &i64::to_string(&RUNS), "replaced"]);
    assert_eq!(cells[4], "ago");
}

#[test]
fn all_sessions_are_listed_each_below_its_name() {
    let world = World::new();
    assert_eq!(world.task(["ls", "--all"]).ok(), "");
    world.run("api", "exec sleep 1000");
    world.run_in("shop", "web", "exec sleep 1000");
    let far = ["-L", "far", "-s", "work"];
    world
        .task([&far[..], &["run", "tests", "--", "exec sleep 1000"]].concat())
        .ok();
    // One without a daemon, and one that is not ours.
    world.run_alone("alone", "one", "exec sleep 1000");
    world.tmux(["new-session", "-d", "-s", "mine", "exec sleep 1000"]);
    let shown = world.json(["ls", "--all", "--json"]);
    let sessions = shown["sessions"].as_array().unwrap();
    let listed: Vec<_> = sessions
        .iter()
        .map(|it| (it["sessionName"].as_str(), it["supervised"].as_bool()))
        .map(|(name, supervised)| (name.unwrap(), supervised.unwrap()))
        .collect();
    assert_eq!(
        listed,
        [
            ("alone", false),
            ("shop", true),
            ("work", true),
            ("work", true)
        ]
    );
    let first_tasks = sessions.iter().map(|session| &session["tasks"][0]);
    assert_eq!(
        texts(first_tasks, "windowName"),
        ["one", "web", "api", "tests"]
    );
    assert_eq!(sessions[0]["server"], sessions[2]["server"]);
    assert_ne!(sessions[2]["server"], sessions[3]["server"]);

    let text = world.task(["ls", "--all"]);
    let headings = text.ok().lines().filter(|line| line.contains(" (1 task"));
    let headings: Vec<&str> = headings.collect();
    let far = sessions[3]["server"].as_str().unwrap();
    assert_eq!(
        headings,
        [
            "alone (1 task, no daemon)".to_owned(),
            "shop (1 task)".to_owned(),
            "work (1 task)".to_owned(),
            format!("work (1 task, server {far})"),
        ]
    );
    // From where there is no server at all.
    let elsewhere = world.json(["-L", "none", "ls", "-a", "--json"]);
    let names = texts(elsewhere["sessions"].as_array().unwrap(), "sessionName");
    assert_eq!(names, ["shop", "work", "work"]);
}

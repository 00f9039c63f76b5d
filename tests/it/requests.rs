//! Commands with a running daemon: one request each, and no tmux process.

use serde_json::Value;

use crate::support::{Output, World, window_of};

/// A tmux that records each call.
fn recording_tmux(world: &World) -> String {
    let file = world.path("ran-tmux").display().to_string();
    let script = format!("#!/bin/sh\necho \"$*\" >>{file}\nexec tmux \"$@\"\n");
    world
        .script("recording-tmux", &script)
        .display()
        .to_string()
}

fn names(listed: &Value) -> Vec<&str> {
    let tasks = listed["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| task["windowName"].as_str().unwrap())
        .collect()
}

#[test]
fn commands_beside_a_daemon_start_no_tmux() {
    let mut world = World::new();
    world.run("first", "exec sleep 1000");
    let tmux = recording_tmux(&world);
    world.set("TMUX_TASK_TMUX", &tmux);

    let asks = "printf 'Name: '; read -r x; echo \"got <$x>\"; exec sleep 1000";
    let printed = world.task(["run", "api", "--", asks]);
    let window = window_of(printed.ok());
    world.task(["wait", "api", "--input"]).ok();
    assert!(world.task(["ls"]).ok().contains("Name:"));
    assert_eq!(world.task(["status"]).ok(), "tmux: 2 tasks · 1 needs you\n");
    world.task(["explain", "api"]).ok();
    world
        .task(["send", "api", "--if-prompt", "Name:", "Ada"])
        .ok();
    world.until_true("it is answered", || {
        world.task(["ls"]).ok().contains("got <Ada>")
    });
    world.task(["send", &window, "--key", "C-c"]).ok();
    // Replaced in its window, and waited for.
    assert_eq!(
        window_of(world.task(["run", "api", "--", "exec sleep 1000"]).ok()),
        window
    );
    world
        .task([
            "run",
            "first",
            "--until",
            "up",
            "--",
            "echo up; exec sleep 9",
        ])
        .ok();
    assert_eq!(world.task(["run", "api", "--wait", "--", "exit 7"]).code, 7);
    assert_eq!(world.task(["restart", "api", "--wait"]).code, 7);
    let mut secret = world.command(World::program());
    secret.args(["send", "first", "--secret"]);
    Output::with_input(secret, "hunter2\n").ok();
    let log = world.task(["logs", "first", "--json"]);
    let log: Value = serde_json::from_str(log.ok()).unwrap();
    let cursor = log["cursor"].as_str().unwrap();
    world.task(["logs", "first", "--raw", "-n", "3"]).ok();
    world.task(["logs", "first", "--since", cursor]).ok();
    assert_eq!(
        world
            .task(["search", "^up$", "--regex"])
            .ok()
            .lines()
            .count(),
        1
    );
    assert_eq!(world.task(["search", "nowhere", "first"]).code, 1);
    world.task(["kill", "api"]).ok();
    world.task(["prune"]).ok();

    let ran = std::fs::read_to_string(world.path("ran-tmux")).unwrap_or_default();
    assert_eq!(ran, "", "a command ran tmux");
    let shown = world.tmux(["capture-pane", "-p", "-t", "=work:first"]);
    assert!(shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_command_is_one_request() {
    let mut world = World::new();
    world.set("TMUX_TASK_LOG", "debug");
    world.run("api", "echo up; exec sleep 1000");
    world.run("web", "exec sleep 1000");
    let log = world.daemon_status()["log"].as_str().unwrap().to_owned();
    let requests = || -> Vec<String> {
        let text = std::fs::read_to_string(&log).unwrap();
        let named = text.lines().filter_map(|line| line.split_once(" request="));
        let name = |(_, name): (&str, &str)| {
            let name = name.split(' ').next().unwrap_or_default();
            name.trim_matches('"').to_owned()
        };
        named.map(name).collect()
    };
    let n_before = requests().len();
    for command in [
        &["ls"][..],
        &["status"],
        &["explain", "api"],
        &["send", "api", "x"],
        &["logs", "api"],
        &["search", "up"],
        &["wait", "api", "--idle", "1ms"],
        &["daemon", "status"],
        &["run", "api", "--", "exec sleep 1000"],
        &["kill", "api"],
        &["prune"],
        &["kill-all", "--yes"],
    ] {
        world.task(command).ok();
    }
    let expected = [
        "list", "count", "explain", "send", "log", "search", "wait", "status", "run", "kill",
        "prune", "kill-all",
    ];
    // Another thread writes the log.
    world.until_true("all requests are in the log", || {
        requests().len() >= n_before + expected.len()
    });
    assert_eq!(requests()[n_before..], expected);
}

#[test]
fn requests_and_looks_are_logged() {
    let mut world = World::new();
    world.set("TMUX_TASK_LOG", "debug");
    world.run("api", "exec sleep 1000");
    let log = world.daemon_status()["log"].as_str().unwrap().to_owned();
    world.task(["consumer", "ls"]).ok();
    world.task(["consumer", "rm", "nobody"]);
    world.task(["daemon", "stop"]).ok();
    let text = std::fs::read_to_string(&log).unwrap();
    let requests = ["status", "consumers", "remove-consumer", "stop"];
    for name in requests {
        assert!(
            text.contains(&format!(" request=\"{name}\"")),
            "{name}: {text}"
        );
    }
    assert!(
        text.contains("look planned plan=\"Detached\" windows=\"all\""),
        "{text}"
    );
}

#[test]
fn a_launch_by_an_earlier_name_of_the_session_knows_the_present_one() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(["rename-session", "-t", "=work", "play"]);
    let printed = world.task([
        "run",
        "web",
        "--",
        "echo $TMUX_TASK_SESSION; exec sleep 1000",
    ]);
    assert!(printed.ok().starts_with("session=play\n"), "{printed}");
    world.until_shows("=play:web", "play");
}

#[test]
fn logs_and_search_mean_the_same_with_a_daemon_that_the_command_starts() {
    let world = World::new();
    world.run("api", "echo one; echo two; exec sleep 1000");
    world.run("other", "echo two; exec sleep 1000");
    world.until_shows("=work:api", "two");
    world.until_shows("=work:other", "two");
    let mut cursors = Vec::new();
    for has_daemon in [true, false] {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        assert_eq!(world.task(["logs", "api"]).ok(), "one\ntwo\n");
        let log = world.task(["logs", "api", "--json"]);
        let log: Value = serde_json::from_str(log.ok()).unwrap();
        assert_eq!(log["lines"], serde_json::json!(["one", "two"]));
        let cursor = log["cursor"].as_str().unwrap().to_owned();
        assert_eq!(world.task(["logs", "api", "--since", &cursor]).ok(), "");
        world.task(["logs", "other", "--since", &cursor]).fails(
            1,
            "tmux-task: logs: the cursor is of another task or of another life of the session",
        );
        assert_eq!(world.task(["logs", "api", "--since", "c1.x"]).code, 2);
        let missing = "no task `nope` in session `work`\nhint: `tmux-task ls` lists them";
        world
            .task(["logs", "nope"])
            .fails(3, &format!("tmux-task: logs: {missing}"));
        let found = world.task(["search", "two", "--json"]);
        let found: Value = serde_json::from_str(found.ok()).unwrap();
        let found = found.as_array().unwrap().iter();
        let found: Vec<_> = found
            .map(|found| (found["windowName"].as_str(), found["lineNumber"].as_u64()))
            .collect();
        assert_eq!(found, [(Some("api"), Some(2)), (Some("other"), Some(1))]);
        world
            .task(["search", "two", "nope"])
            .fails(3, &format!("tmux-task: search: {missing}"));
        cursors.push(cursor);
    }
    assert_eq!(cursors[0], cursors[1]);
}

#[test]
fn names_mean_the_same_with_a_daemon_that_the_command_starts() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    for command in ["sleep 1000", "sleep 1001"] {
        world.new_window("twice", command);
    }
    for has_daemon in [true, false] {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        for (args, what) in [
            (&["kill", "nope"][..], "kill"),
            (&["send", "nope", "x"], "send"),
            (&["explain", "nope"], "explain"),
            (&["wait", "nope"], "wait"),
        ] {
            world.task(args).fails(
                3,
                &format!(
                    "tmux-task: {what}: no task `nope` in session `work`\n\
                     hint: `tmux-task ls` lists them"
                ),
            );
        }
        for args in [&["kill", "twice"][..], &["send", "twice", "x"]] {
            let output = world.task(args);
            assert_eq!(output.code, 1, "{output}");
            assert!(
                output.err.contains("2 tasks are named `twice`: @"),
                "{output}"
            );
            assert!(output.err.contains("hint: name one by its id"), "{output}");
        }
        let output = world.task(["run", "twice", "--", "true"]);
        assert!(
            output.err.contains("two windows are named `twice`"),
            "{output}"
        );
        world
            .task(["run", "api", "--if-absent", "--", "true"])
            .fails(
                1,
                &format!(
                    "tmux-task: run: task `api` is running in {window}\n\
                     hint: without --if-absent, the live run is replaced"
                ),
            );
    }
    assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 3);
}

#[test]
fn several_tasks_are_killed_or_none() {
    let world = World::new();
    for has_daemon in [true, false] {
        let one = world.run("one", "exec sleep 1000");
        world.run("two", "exec sleep 1000");
        world.run("three", "exec sleep 1000");
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        world.task(["kill", "one", "nope", "two"]).fails(
            3,
            "tmux-task: kill: no task `nope` in session `work`\n\
                 hint: `tmux-task ls` lists them",
        );
        assert_eq!(names(&world.look()).len(), 3);
        let killed = world.task(["kill", "one", "two", &one, "--json"]);
        let killed: Value = serde_json::from_str(killed.ok()).unwrap();
        assert_eq!(killed["killed"].as_array().unwrap().len(), 2, "{killed}");
        assert_eq!(names(&world.look()), ["three"]);
    }
}

#[test]
fn a_list_of_many_tasks_has_all_that_tmux_has_reported() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    for n in 0..40 {
        let name = format!("w{n}");
        world.new_window(&name, "sleep 1000");
    }
    assert_eq!(names(&world.look()).len(), 41);
    world.tmux(["rename-window", "-t", "=work:w3", "renamed"]);
    assert!(names(&world.look()).contains(&"renamed"));
    world.tmux(["kill-window", "-t", "=work:w4"]);
    let listed = world.look();
    assert_eq!(names(&listed).len(), 40);
    assert!(!names(&listed).contains(&"w4"));
    world.new_window("late", "sleep 1000");
    assert!(names(&world.look()).contains(&"late"));
    assert_eq!(world.task(["status"]).ok(), "tmux: 41 tasks\n");
    world.run("late-task", "echo printed; exec sleep 1000");
    world.until_shows("=work:late-task", "printed");
    let listed = world.look();
    let tasks = listed["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|task| task["windowName"] == "late-task");
    assert!(
        task.unwrap()["outputPreview"]
            .as_str()
            .unwrap()
            .contains("printed")
    );
}

#[test]
fn a_command_as_long_as_an_argument_can_be_goes_through_the_daemon() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    let long = format!("[ {} = 7 ]", "x".repeat(120_000));
    let output = world.task(["run", "long", "--wait", "--", &long]);
    assert_eq!(output.code, 1, "{}", output.err);
    // Its record is twice as long.
    let again = world.task(["restart", "long", "--wait"]);
    let why = "tmux-task: restart long: the task exited with code 1";
    assert_eq!((again.code, again.err.trim()), (1, why));
}

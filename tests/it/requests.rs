//! Commands with a running daemon: one request each, and no tmux process.

use serde_json::{Value, json};

use crate::support::{World, argv};

#[test]
fn commands_beside_a_daemon_start_no_tmux() {
    let mut world = World::new();
    world.run("first", "exec sleep 1000");
    let ran = world.path("ran-tmux");
    let tmux = world.tmux_after(&format!("echo \"$*\" >>{}", ran.display()));
    world.set("TMUX_TASK_TMUX", &tmux);

    let asks = "printf 'Name: '; read -r x; echo \"got <$x>\"; exec sleep 1000";
    let window = world.run("api", asks);
    world.call("wait api --input").ok();
    assert!(world.task(["ls"]).ok().contains("Name:"));
    assert_eq!(world.task(["status"]).ok(), "tmux: 2 tasks · 1 needs you\n");
    world.task(["explain", "api"]).ok();
    world.call("send api --if-prompt Name: Ada").ok();
    world.until_true("it is answered", || {
        world.task(["ls"]).ok().contains("got <Ada>")
    });
    world.task(["send", &window, "--key", "C-c"]).ok();
    // Replaced in its window, and waited for.
    assert_eq!(world.run("api", "exec sleep 1000"), window);
    let until = "run first --until up -- 'echo up; exec sleep 9'";
    world.call(until).ok();
    world.call("run api --wait -- 'exit 7'").fails_with(7);
    world.call("restart api --wait").fails_with(7);
    let secret = ["send", "first", "--secret"];
    world.task_reading("hunter2\n", secret).ok();
    let log = world.call("logs first --json").json();
    let cursor = log["cursor"].as_str().unwrap();
    world.call("logs first --raw -n 3").ok();
    world.task(["logs", "first", "--since", cursor]).ok();
    let found = world.call("search ^up$ --regex");
    assert_eq!(found.ok().lines().count(), 1);
    world.call("search nowhere first").fails_with(1);
    world.task(["kill", "api"]).ok();
    world.task(["prune"]).ok();

    let ran = std::fs::read_to_string(ran).unwrap_or_default();
    assert_eq!(ran, "", "a command ran tmux");
    world.set("TMUX_TASK_TMUX", "");
    world.until_shows("=work:first", "hunter2");
}

#[test]
fn a_command_is_one_request_and_requests_and_looks_are_logged() {
    let mut world = World::new();
    world.set("TMUX_TASK_LOG", "debug");
    world.run("api", "echo up; exec sleep 1000");
    world.run("web", "exec sleep 1000");
    let log = world.daemon_status()["log"].as_str().unwrap().to_owned();
    let text = || std::fs::read_to_string(&log).unwrap();
    let requests = || -> Vec<String> {
        let text = text();
        let named = text.lines().filter_map(|line| line.split_once(" request="));
        let name = |(_, name): (&str, &str)| {
            let name = name.split(' ').next().unwrap_or_default();
            name.trim_matches('"').to_owned()
        };
        named.map(name).collect()
    };
    // Another thread writes the log.
    world.until_true("the request for the log's path is in it", || {
        requests().last().is_some_and(|name| name == "status")
    });
    let n_before = requests().len();
    let commands = [
        ("list", "ls"),
        ("count", "status"),
        ("explain", "explain api"),
        ("send", "send api x"),
        ("log", "logs api"),
        ("search", "search up"),
        ("wait", "wait api --idle 1ms"),
        ("status", "daemon status"),
        ("run", "run api -- 'exec sleep 1000'"),
        ("kill", "kill api"),
        ("prune", "prune"),
        ("killAll", "kill-all --yes"),
    ];
    for (_, command) in commands {
        world.call(command).ok();
    }
    world.until_true("all requests are in the log", || {
        requests().len() >= n_before + commands.len()
    });
    let expected = commands.map(|(request, _)| request);
    assert_eq!(requests()[n_before..], expected);
    for line in ["consumer ls", "consumer rm nobody", "daemon stop"] {
        world.call(line);
    }
    for name in ["consumers", "removeConsumer", "stop"] {
        assert!(requests().iter().any(|request| request == name), "{name}");
    }
    let planned = "look planned plan=\"Detached\" windows=\"all\"";
    assert!(text().contains(planned), "{}", text());
}

#[test]
fn names_logs_and_searches_mean_the_same_with_a_daemon_that_the_command_starts() {
    let world = World::new();
    let window = world.run("api", "echo one; echo two; exec sleep 1000");
    world.run("other", "echo two; exec sleep 1000");
    world.until_shows("=work:api", "two");
    world.until_shows("=work:other", "two");
    let missing = "no task `nope` in session `work`\nhint: `tmux-task ls` lists them";
    let elsewhere = "the cursor is of another task or of another life of the session";
    let running = format!(
        "task `api` is running in {window}\nhint: without --if-absent, the live run is replaced"
    );
    let cursors = [true, false].map(|has_daemon| {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        assert_eq!(world.task(["logs", "api"]).ok(), "one\ntwo\n");
        let log = world.call("logs api --json").json();
        assert_eq!(log["lines"], json!(["one", "two"]));
        let cursor = log["cursor"].as_str().unwrap().to_owned();
        assert_eq!(world.task(["logs", "api", "--since", &cursor]).ok(), "");
        let of_other = format!("logs other --since {cursor}");
        for (args, code, why) in [
            (&*of_other, 1, elsewhere),
            ("logs nope", 3, missing),
            ("search two nope", 3, missing),
            ("kill nope", 3, missing),
            ("send nope x", 3, missing),
            ("explain nope", 3, missing),
            ("wait nope", 3, missing),
            ("run api --if-absent -- true", 1, &running),
        ] {
            let (what, _) = args.split_once(' ').unwrap();
            let said = format!("tmux-task: {what}: {why}");
            world.call(args).fails(code, &said);
        }
        world.call("logs api --since c1.x").fails_with(2);
        let found = world.call("search two --json").json();
        let found = found.as_array().unwrap().iter();
        let found: Value = found
            .map(|found| json!([found["windowName"], found["lineNumber"]]))
            .collect();
        assert_eq!(found, json!([["api", 2], ["other", 1]]));
        cursor
    });
    assert_eq!(cursors[0], cursors[1]);
    // Several are killed or none.
    world.run("third", "exec sleep 1000");
    let why = format!("tmux-task: kill: {missing}");
    world.call("kill api nope other").fails(3, &why);
    assert_eq!(world.names(), ["api", "other", "third"]);
    let killed = world
        .task(["kill", "api", "other", &window, "--json"])
        .json();
    assert_eq!(killed["killed"].as_array().unwrap().len(), 2, "{killed}");
    assert_eq!(world.names(), ["third"]);
}

#[test]
fn a_list_of_many_tasks_has_all_that_tmux_has_reported() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    for n in 0..40 {
        let name = format!("w{n}");
        world.new_window(&name, "sleep 1000");
    }
    assert_eq!(world.names().len(), 41);
    let is_listed = |name: &str| world.names().iter().any(|listed| listed == name);
    world.tmux(argv("rename-window -t =work:w3 renamed"));
    assert!(is_listed("renamed"));
    world.tmux(argv("kill-window -t =work:w4"));
    assert_eq!((world.names().len(), is_listed("w4")), (40, false));
    world.new_window("late", "sleep 1000");
    assert!(is_listed("late"));
    assert_eq!(world.task(["status"]).ok(), "tmux: 41 tasks\n");
    world.run("late-task", "echo printed; exec sleep 1000");
    world.until_shows("=work:late-task", "printed");
    let preview = world.listed("late-task")["outputPreview"].clone();
    assert!(preview.as_str().unwrap().contains("printed"));
}

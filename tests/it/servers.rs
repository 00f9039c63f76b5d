//! Which session and which server: never the wrong one.

use serde_json::Value;

use crate::runs::codes;
use crate::support::{World, deliveries, event, events, story, window_of};

#[test]
fn two_servers_with_one_session_name_keep_their_feeds_apart() {
    let world = World::new();
    for (server, code) in [("one", "1"), ("two", "2")] {
        let line = format!("exit {code}");
        world.task(["-L", server, "run", "api", "--", &line]).ok();
    }
    for (server, code) in [("one", 1), ("two", 2)] {
        world.until_of(&["-L", server], "its end", |records| {
            codes(records, "api").len() == 1
        });
        world.task(["-L", server, "daemon", "stop"]).ok();
        let records = world.records_of(&["-L", server]);
        crate::support::check_feed(&records);
        assert_eq!(codes(&records, "api"), [(1, code)]);
    }
    let epoch = |server: &str| world.records_of(&["-L", server])[0]["epoch"].clone();
    assert_ne!(epoch("one"), epoch("two"));
    assert_eq!(story(&world.records()), [""; 0]);
}

#[test]
fn a_server_is_the_same_by_name_and_by_path() {
    let world = World::new();
    world
        .task(["-L", "one", "run", "api", "--", "exec sleep 1000"])
        .ok();
    let socket = world.task(["-L", "one", "daemon", "status", "--json"]);
    let status: Value = serde_json::from_str(socket.ok()).unwrap();
    let path = status["server"].as_str().unwrap();
    let by_path = world.task(["-S", path, "daemon", "status", "--json"]);
    let other: Value = serde_json::from_str(by_path.ok()).unwrap();
    assert_eq!(status["pid"], other["pid"]);
}

#[test]
fn inside_tmux_its_own_server_is_meant() {
    let mut world = World::new();
    world
        .task(["-L", "one", "run", "api", "--", "exec sleep 1000"])
        .ok();
    let target = [
        "-L",
        "one",
        "display-message",
        "-p",
        "#{socket_path},#{pid},0",
    ];
    let tmux = world.tmux(target);
    world.set("TMUX", &tmux);
    assert_eq!(world.look()["tasks"][0]["windowName"], "api");
}

#[test]
fn a_name_that_begins_like_another_is_another() {
    let mut world = World::new();
    world.set("TMUX_TASK_SESSION", "api");
    let api = world.run_in("api", "api", "exec sleep 1000");
    let api2 = world.run_in("api", "api2", "exec sleep 1000");
    let dotted = world.run_in("api", "api.v2", "exec sleep 1000");
    let other = world.run_in("api2", "api", "exec sleep 1000");
    assert_eq!(world.run_in("api", "api", "exec sleep 1000"), api);
    assert_eq!(world.run_in("api", "api.v2", "exec sleep 1000"), dotted);
    assert_eq!(
        world.task(["kill", "api"]).ok(),
        format!("ended {api} (api)\n")
    );
    world.task(["kill", "ap"]).fails(
        3,
        "tmux-task: kill: no task `ap` in session `api`\nhint: `tmux-task ls` lists them",
    );
    let left = world.tmux(["list-windows", "-a", "-F", "#{window_id}"]);
    let mut left: Vec<&str> = left.lines().collect();
    left.sort_unstable();
    let mut expected = [api2.as_str(), &dotted, &other];
    expected.sort_unstable();
    assert_eq!(left, expected);
    assert_eq!(
        world.task(["kill", "api.v2"]).ok(),
        format!("ended {dotted} (api.v2)\n")
    );
    // A session that is missing is not its namesake's beginning.
    assert_eq!(world.task(["-s", "ap", "ls"]).code, 3);
    assert_eq!(world.task(["-s", "ap", "kill-all", "--yes"]).code, 3);
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(
        world.tmux(["list-sessions", "-F", "#{session_name}"]),
        "api2"
    );
}

#[test]
fn a_run_in_a_session_whose_name_begins_another_makes_its_own() {
    let world = World::new();
    let long = world.run_in("work2", "api", "exec sleep 1000");
    let short = world.run_in("work", "api", "exec sleep 1000");
    assert_ne!(long, short);
    let sessions = world.tmux(["list-sessions", "-F", "#{session_name} #{session_windows}"]);
    assert_eq!(sessions, "work 1\nwork2 1");
}

#[test]
fn two_windows_of_one_name_are_distinguished_by_id() {
    let world = World::new();
    let first = world.run("api", "exec sleep 1000");
    let second = world.open_window("work", &["-n", "api", "exec sleep 1000"]);
    let output = world.task(["kill", "api"]);
    output.fails(
        1,
        &format!(
            "tmux-task: kill: 2 tasks are named `api`: {first}, {second}\nhint: name one by its id"
        ),
    );
    let output = world.task(["run", "api", "--", "exit 0"]);
    output.fails(
        1,
        &format!(
            "tmux-task: run: two windows are named `api`: {first} and {second}\n\
             hint: rename or close one of them"
        ),
    );
    world.task(["kill", &second]).ok();
    assert_eq!(world.run("api", "exit 0"), first);
}

#[test]
fn a_project_has_a_session_of_its_own() {
    let mut world = World::new();
    world.set("TMUX_TASK_SESSION", "");
    let root = world.project().join("My App");
    let deep = root.join("src/deep");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(root.join(".git")).unwrap();
    let run = |dir: &std::path::Path| {
        let mut command = world.command(World::program());
        command
            .current_dir(dir)
            .args(["run", "api", "--", "exec sleep 1000"]);
        crate::support::Output::of(command)
    };
    let first = run(&deep);
    let name = first
        .ok()
        .lines()
        .next()
        .unwrap()
        .strip_prefix("session=")
        .unwrap();
    let hash = name.strip_prefix("task-my-app-").unwrap();
    assert!(
        hash.len() == 6 && hash.bytes().all(|b| b.is_ascii_hexdigit()),
        "{name}"
    );
    assert_eq!(window_of(first.ok()), window_of(run(&root).ok()));
    let option = [
        "show-options",
        "-qv",
        "-t",
        &format!("={name}:"),
        "@tmux_task_root",
    ];
    assert_eq!(world.tmux(option), root.to_str().unwrap());
}

/// Starts a window as pi-tmux-task's own helper does.
fn pi_window(world: &World, name: &str, line: &str) -> String {
    world.tmux([
        "new-window",
        "-d",
        "-t",
        "work:",
        "-n",
        name,
        "-P",
        "-F",
        "#{window_id}",
        line,
        ";",
        "set-option",
        "-w",
        "-t",
        &format!("work:{name}"),
        "remain-on-exit",
        "on",
        ";",
        "set-option",
        "-w",
        "-t",
        &format!("work:{name}"),
        "@pi_task_command",
        "npm run build",
        ";",
        "set-option",
        "-w",
        "-t",
        &format!("work:{name}"),
        "@pi_task_cwd",
        "/srv/app",
    ])
}

#[test]
fn a_window_of_pi_tmux_tasks_helper_is_supervised_as_it_is() {
    let world = World::new();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "stays",
        "exec sleep 1000",
    ]);
    // Its counter, at session level: it hides a hook of the server's.
    world.tmux([
        "set-hook",
        "-t",
        "work",
        "alert-bell[9010]",
        "set-option -wF @pi_tmux_task_bell_count \
         '#{e|+:#{?@pi_tmux_task_bell_count,#{@pi_tmux_task_bell_count},0},1}'",
    ]);
    world.daemon();
    let (ring, end) = (world.gate("ring"), world.gate("end"));
    let line = format!(
        "sh -c '{}; printf \"\\a\"; {}; exit 9'",
        ring.wait(),
        end.wait()
    );
    pi_window(&world, "build", &line);
    let records = world.until_deliveries(1);
    let task = &event(&records, "started", "build")["task"];
    assert_eq!(task["currentCommand"], "npm run build");
    assert_eq!(task["taskCwd"], "/srv/app");
    ring.open();
    world.until_deliveries(2);
    end.open();
    world.until_deliveries(3);
    let records = world.finish();
    let rang: Vec<&Value> = events(&records)
        .into_iter()
        .filter(|event| event["type"] == "notify")
        .collect();
    assert_eq!(rang.len(), 1);
    assert_eq!(rang[0]["bells"], 1);
    assert_eq!(rang[0]["task"]["bellCount"], 1);
    assert_eq!(codes(&records, "build"), [(1, 9)]);
    assert_eq!(deliveries(&records).len(), 3);
}

#[test]
fn a_window_that_has_the_sessions_name_is_not_the_session() {
    let world = World::new();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "users",
        "-n",
        "work",
        "exec sleep 1000",
    ]);
    world.tmux([
        "new-window",
        "-d",
        "-t",
        "users:",
        "-n",
        "api",
        "exec sleep 1000",
    ]);
    assert_eq!(world.task(["ls"]).code, 3);
    let api = world.run("api", "exec sleep 1000");
    let panes = world.tmux(["list-panes", "-s", "-t", "=work:", "-F", "#{window_id}"]);
    assert_eq!(panes, api);
    // The user's session is the one that tmux thinks of first.
    world.tmux([
        "respawn-window",
        "-k",
        "-t",
        "=users:work",
        "exec sleep 1000",
    ]);
    assert_eq!(world.run("api", "exec sleep 1000"), api);
    let listed = world.look();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tasks"][0]["paneStateKnown"], true);
    assert_eq!(
        world
            .tmux(["list-windows", "-t", "=users:"])
            .lines()
            .count(),
        2
    );
}

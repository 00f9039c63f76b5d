//! Which session and which server: never the wrong one.

use std::path::Path;

use serde_json::json;

use crate::runs::codes;
use crate::support::{
    Output, World, argv, check_feed, deliveries, event, events, has_fields, story, window_of,
};

#[test]
fn two_servers_with_one_session_name_keep_their_feeds_apart() {
    let mut world = World::new();
    for (server, code) in [("one", "1"), ("two", "2")] {
        let line = format!("exit {code}");
        world.task(["-L", server, "run", "api", "--", &line]).ok();
    }
    // A server is the same by name and by path, and inside tmux its own is meant.
    let status = |server: [&str; 2]| {
        world
            .task([&server[..], &["daemon", "status", "--json"]].concat())
            .json()
    };
    let one = status(["-L", "one"]);
    let path = one["server"].as_str().unwrap();
    assert_eq!(status(["-S", path])["pid"], one["pid"]);
    let tmux = format!("{path},1,0");
    for (server, code) in [("one", 1), ("two", 2)] {
        world.until_of(&["-L", server], "its end", |records| {
            codes(records, "api").len() == 1
        });
        world.task(["-L", server, "daemon", "stop"]).ok();
        let records = world.records_of(&["-L", server]);
        check_feed(&records);
        assert_eq!(codes(&records, "api"), [(1, code)]);
    }
    let epoch = |server: &str| world.records_of(&["-L", server])[0]["epoch"].clone();
    assert_ne!(epoch("one"), epoch("two"));
    assert_eq!(story(&world.records()), [""; 0]);
    world.set("TMUX", &tmux);
    assert_eq!(world.listed("api")["exitCode"], 1);
}

#[test]
fn a_name_that_begins_like_another_is_another() {
    let mut world = World::new();
    world.set("TMUX_TASK_SESSION", "api");
    // One whose name begins another makes its own session.
    let other = world.run_in("api2", "api", "exec sleep 1000");
    let run = |name: &str| world.run_in("api", name, "exec sleep 1000");
    let (api, api2, dotted) = (run("api"), run("api2"), run("api.v2"));
    assert_eq!(world.sessions(), ["api", "api2"]);
    assert_eq!((run("api"), run("api.v2")), (api.clone(), dotted.clone()));
    let killed = world.task(["kill", "api"]);
    assert_eq!(killed.ok(), format!("ended {api} (api)\n"));
    let why = "tmux-task: kill: no task `ap` in session `api`\nhint: `tmux-task ls` lists them";
    world.task(["kill", "ap"]).fails(3, why);
    let left = world.tmux(argv("list-windows -a -F #{window_id}"));
    let mut left: Vec<&str> = left.lines().collect();
    left.sort_unstable();
    let mut expected = [&*api2, &*dotted, &*other];
    expected.sort_unstable();
    assert_eq!(left, expected);
    let killed = world.task(["kill", "api.v2"]);
    assert_eq!(killed.ok(), format!("ended {dotted} (api.v2)\n"));
    // A session that is missing is not its namesake's beginning.
    world.call("-s ap ls").fails_with(3);
    world.call("-s ap kill-all --yes").fails_with(3);
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(world.sessions(), ["api2"]);
}

#[test]
fn two_windows_of_one_name_are_distinguished_by_id() {
    let world = World::new();
    let first = world.run("api", "exec sleep 1000");
    let second = world.open_window("work", &["-n", "api", "exec sleep 1000"]);
    let why = format!(
        "tmux-task: kill: 2 tasks are named `api`: {first}, {second}\nhint: name one by its id"
    );
    world.task(["kill", "api"]).fails(1, &why);
    let why = why.replace("kill:", "send:");
    world.task(["send", "api", "x"]).fails(1, &why);
    let why = format!(
        "tmux-task: run: two windows are named `api`: {first} and {second}\n\
         hint: rename or close one of them"
    );
    world.call("run api -- 'exit 0'").fails(1, &why);
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
    let run = |dir: &Path| {
        let mut command = world.command(World::program());
        command
            .current_dir(dir)
            .args(argv("run api -- 'exec sleep 1000'"));
        Output::of(command)
    };
    let first = run(&deep);
    let name = first.ok().lines().next().unwrap();
    let name = name.strip_prefix("session=").unwrap();
    let hash = name.strip_prefix("task-my-app-").unwrap();
    let is_hex = hash.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(hash.len() == 6 && is_hex, "{name}");
    assert_eq!(window_of(first.ok()), window_of(run(&root).ok()));
    let target = format!("={name}:");
    let option = ["show-options", "-qv", "-t", &target, "@tmux_task_root"];
    assert_eq!(world.tmux(option), root.to_str().unwrap());
}

#[test]
fn a_window_of_pi_tmux_tasks_helper_is_supervised_as_it_is() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work -n stays 'exec sleep 1000'"));
    // Its counter, at session level: it hides a hook of the server's.
    let counts = "set-option -wF @pi_tmux_task_bell_count \
                  '#{e|+:#{?@pi_tmux_task_bell_count,#{@pi_tmux_task_bell_count},0},1}'";
    world.tmux(["set-hook", "-t", "work", "alert-bell[9010]", counts]);
    world.daemon();
    let (ring, end) = (world.gate("ring"), world.gate("end"));
    let line = format!("sh -c '{ring}; printf \"\\a\"; {end}; exit 9'");
    // Starts a window as that helper does.
    let mut words = argv("new-window -d -t work: -n build");
    words.push(line);
    for option in
        "remain-on-exit on|@pi_task_command 'npm run build'|@pi_task_cwd /srv/app".split('|')
    {
        words.extend(argv(&format!("; set-option -w -t work:build {option}")));
    }
    world.tmux(words);
    let records = world.until_deliveries(1);
    let task = &event(&records, "started", "build")["task"];
    assert_eq!(task["currentCommand"], "npm run build");
    assert_eq!(task["taskCwd"], "/srv/app");
    ring.open();
    world.until_deliveries(2);
    end.open();
    world.until_deliveries(3);
    let records = world.finish();
    let rang = event(&records, "notify", "build");
    has_fields(rang, "bells task.bellCount", json!([1, 1]));
    assert_eq!(codes(&records, "build"), [(1, 9)]);
    assert_eq!((events(&records).len(), deliveries(&records).len()), (3, 3));
}

#[test]
fn a_window_that_has_the_sessions_name_is_not_the_session() {
    let world = World::new();
    world.tmux(argv("new-session -d -s users -n work 'exec sleep 1000'"));
    world.tmux(argv("new-window -d -t users: -n api 'exec sleep 1000'"));
    world.task(["ls"]).fails_with(3);
    let api = world.run("api", "exec sleep 1000");
    let panes = world.tmux(argv("list-panes -s -t =work: -F #{window_id}"));
    assert_eq!(panes, api);
    // The user's session is the one that tmux thinks of first.
    world.tmux(argv("respawn-window -k -t =users:work 'exec sleep 1000'"));
    assert_eq!(world.run("api", "exec sleep 1000"), api);
    let tasks = world.tasks();
    assert_eq!(
        (tasks.len(), &tasks[0]["paneStateKnown"]),
        (1, &true.into())
    );
    assert_eq!(
        world.tmux(argv("list-windows -t =users:")).lines().count(),
        2
    );
}

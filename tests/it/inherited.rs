//! Options of ours that are set for all windows, a session, all sessions or the server do not count for
//! a window.

use serde_json::{Value, json};

use crate::support::{World, argv, event, has_fields};

/// Where an option is set for more than one window: for all sessions, all windows, the server and the
/// session.
const SCOPES: [&str; 4] = ["-g", "-gw", "-s", "-t =work:"];

fn set(world: &World, scope: &str, option: &str, value: &str) {
    let mut words = argv(&format!("set-option {scope} {option}"));
    words.push(value.to_owned());
    world.tmux(words);
}

fn unset(world: &World, scope: &str, option: &str) {
    world.tmux(argv(&format!("set-option -u {scope} {option}")));
}

#[test]
fn an_owner_that_is_set_for_all_windows_is_no_tasks_owner() {
    let mut world = World::new();
    let options = [
        ("@tmux_task_owner", "pi:9"),
        ("@tmux_task_run", "7"),
        ("@tmux_task_cwd", "/nowhere"),
    ];
    for (n, scope) in SCOPES.into_iter().enumerate() {
        world.run(&format!("before-{n}"), "exec sleep 1000");
        for (option, value) in options {
            set(&world, scope, option, value);
        }
        world.run(&format!("mine-{n}"), "exec sleep 1000");
        world.new_window(&format!("other-{n}"), "sleep 1000");
        let is_mine = |task: &&Value| !task["windowName"].as_str().unwrap().starts_with("agents");
        let tasks = world.tasks();
        for task in tasks.iter().filter(is_mine) {
            has_fields(task, "owner run", json!([null, 1]));
            assert_ne!(task["taskCwd"], "/nowhere", "{scope}: {task}");
        }
        assert_eq!(tasks.iter().filter(is_mine).count(), 3 * (n + 1));
        // The server's option would hide the window's own.
        if scope != "-s" {
            let name = format!("agents-{n}");
            world.set("TMUX_TASK_OWNER", "pi:1");
            world.run(&name, "exec sleep 1000");
            world.set("TMUX_TASK_OWNER", "");
            let records = world.until_delivered("started", &name);
            assert_eq!(event(&records, "started", &name)["task"]["owner"], "pi:1");
        }
        for (option, _) in options {
            unset(&world, scope, option);
        }
    }
}

#[test]
fn a_run_that_no_look_showed_has_no_owner_of_all_windows() {
    let world = World::new();
    world.run("stays", "exec sleep 1000");
    world.until_delivered("started", "stays");
    for (n, scope) in SCOPES.into_iter().enumerate() {
        // A daemon that was killed has left its hooks.
        world.kill_daemon();
        set(&world, scope, "@tmux_task_owner", "pi:9");
        let name = format!("gone-{n}");
        let window = world.run_alone("work", &name, "exit 3");
        world.until_ended(&window);
        world.tmux(["kill-window", "-t", &window]);
        world.daemon();
        let records = world.until_delivered("exited", &name);
        let owner = &event(&records, "exited", &name)["task"]["owner"];
        assert_eq!(owner, &Value::Null, "{scope}");
        unset(&world, scope, "@tmux_task_owner");
    }
}

#[test]
fn a_shell_stays_one_where_all_windows_have_a_command() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for (n, scope) in SCOPES.into_iter().enumerate() {
        set(&world, scope, "@tmux_task_command", "make");
        for (name, command) in [("mine", ""), ("login", "'bash --norc -i'")] {
            let name = format!("{name}-{n}");
            world.tmux(argv(&format!(
                "new-window -d -t =work: -n {name} {command}"
            )));
            let records = world.until_delivered("started", &name);
            let started = event(&records, "started", &name);
            assert_eq!(started["task"]["shell"], true, "{scope} {name}");
        }
        unset(&world, scope, "@tmux_task_command");
    }
}

/// Checks that launches are refused for this.
#[track_caller]
fn are_refused(world: &World, said: &str, hint: &str) {
    for name in ["node", "live"] {
        let output = world.task(["run", name, "--", "touch run"]);
        output.fails_saying(1, said);
        output.fails_saying(1, hint);
    }
    assert!(!world.project().join("run").exists());
}

/// The panes of the session, and whether something runs in them.
fn panes(world: &World) -> String {
    let format = "#{window_name} #{pane_dead} #{pane_pid}";
    world.tmux(["list-panes", "-s", "-t", "=work:", "-F", format])
}

#[test]
fn no_shell_is_taken_for_a_task_because_of_an_option_that_it_inherits_and_nothing_is_ended() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work -n node"));
    world.run("live", "exec sleep 1000");
    let before = panes(&world);
    for scope in SCOPES {
        let of_session = scope == "-t =work:";
        let (place, hint) = if of_session {
            ("on the session", "set-option -t")
        } else {
            ("for all windows", "set-option -gu")
        };
        for option in ["@tmux_task_command", "@pi_task_command"] {
            set(&world, scope, option, "x");
            are_refused(&world, &format!("{option} is set {place}"), hint);
            if of_session {
                // It is a person's.
                let kill = world.task(["kill", "node"]);
                kill.fails_saying(1, "is a shell, not a task");
            }
            unset(&world, scope, option);
        }
    }
    // This would hide the mark by which a launch knows what it has launched.
    for scope in ["-s", "-t =work:"] {
        set(&world, scope, "@tmux_task_launch", "x");
        are_refused(&world, "@tmux_task_launch is set", "hint: ");
        unset(&world, scope, "@tmux_task_launch");
    }
    assert_eq!(panes(&world), before);
    // One that is set to nothing marks nothing. The window of that name is a person's shell.
    set(&world, "-t =work:", "@pi_task_command", "");
    world.run("node", "exec sleep 1000");
    assert!(panes(&world).starts_with(&before), "{}", panes(&world));
}

#[test]
fn what_names_a_sessions_files_and_its_daemon_counts_for_no_other_session() {
    const NOTES: [&str; 2] = ["@tmux_task_folder", "@tmux_task_daemon"];
    let world = World::new();
    world.tmux(argv("new-session -d -s mine -n shell"));
    world.run("first", "exec sleep 1000");
    let noted = NOTES.map(|name| world.tmux(["show-options", "-v", "-t", "=work:", name]));
    let bare = noted.clone().map(|value| {
        let mut words = value.split(' ');
        words.next_back().unwrap().to_owned()
    });
    let leave = || {
        world.task(["kill-all", "--yes"]).ok();
        world.task(["daemon", "stop"]).ok();
    };
    leave();
    for (scope, values) in [("-g", &noted), ("-g", &bare), ("-s", &noted), ("-s", &bare)] {
        for (name, value) in NOTES.into_iter().zip(values) {
            set(&world, scope, name, value);
        }
        assert_eq!(world.task(["ls"]).code, 3, "the name leads to `mine`");
        let name = format!("api{scope}-{}", values[0].len());
        world.run(&name, "exit 3");
        world.until_delivered("exited", &name);
        leave();
        for name in NOTES {
            unset(&world, scope, name);
        }
        let hooks = world.tmux(["show-hooks", "-g"]);
        assert!(!hooks.contains("9010"), "{hooks}");
    }
    let windows = world.tmux(argv("list-windows -a -F #{session_name}:#{window_name}"));
    assert_eq!(windows, "mine:shell");
}

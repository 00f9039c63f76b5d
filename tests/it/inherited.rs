//! Options of ours that are set for all windows, a session, all sessions or the server do not count for
//! a window.

use serde_json::Value;

use crate::support::{Output, World, event};

/// Where an option is set for more than one window: for all sessions, all windows, the server and the
/// session.
const SCOPES: [&[&str]; 4] = [&["-g"], &["-gw"], &["-s"], &["-t", "=work:"]];
const OF_ALL_WINDOWS: usize = 3;

fn owner_of<'a>(look: &'a Value, name: &str) -> &'a Value {
    let tasks = look["tasks"].as_array().unwrap();
    let task = tasks.iter().find(|task| task["windowName"] == name);
    &task.unwrap()["owner"]
}

fn set(world: &World, scope: &[&str], option: &str, value: &str) {
    let words = [&["set-option"][..], scope, &[option, value]].concat();
    world.tmux(words);
}

fn unset(world: &World, scope: &[&str], option: &str) {
    let words = [&["set-option", "-u"][..], scope, &[option]].concat();
    world.tmux(words);
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
        let names = ["before", "mine", "other"].map(|name| format!("{name}-{n}"));
        world.run(&names[0], "exec sleep 1000");
        for (option, value) in options {
            set(&world, scope, option, value);
        }
        world.run(&names[1], "exec sleep 1000");
        world.new_window(&names[2], "sleep 1000");
        let look = world.look();
        for name in &names {
            assert_eq!(owner_of(&look, name), &Value::Null, "{name}: {look}");
        }
        for task in look["tasks"].as_array().unwrap() {
            assert_eq!(task["run"], 1, "{scope:?}: {task}");
            assert_ne!(task["taskCwd"], "/nowhere", "{scope:?}: {task}");
        }
        // The server's option would hide the window's own.
        if scope != ["-s"] {
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
        assert_eq!(owner, &Value::Null, "{scope:?}");
        unset(&world, scope, "@tmux_task_owner");
    }
}

#[test]
fn a_shell_stays_one_where_all_windows_have_a_command() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for (n, scope) in SCOPES.into_iter().enumerate() {
        set(&world, scope, "@tmux_task_command", "make");
        for (name, command) in [("mine", None), ("login", Some("bash --norc -i"))] {
            let name = format!("{name}-{n}");
            let words = ["new-window", "-d", "-t", "=work:", "-n", &name];
            let words = words.into_iter().chain(command);
            world.tmux(words.collect::<Vec<_>>());
            let records = world.until_delivered("started", &name);
            let started = event(&records, "started", &name);
            assert_eq!(started["task"]["shell"], true, "{scope:?} {name}");
        }
        unset(&world, scope, "@tmux_task_command");
    }
}

/// Launches the task `node`.
fn launch(world: &World) -> Output {
    world.task(["run", "node", "--", "touch run"])
}

/// The panes of the session, and whether something runs in them.
fn panes(world: &World) -> String {
    let format = "#{window_name} #{pane_dead} #{pane_pid}";
    world.tmux(["list-panes", "-s", "-t", "=work:", "-F", format])
}

#[test]
fn no_shell_is_taken_for_a_task_because_of_an_option_for_all_windows() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "-n", "node"]);
    let before = panes(&world);
    for scope in &SCOPES[..OF_ALL_WINDOWS] {
        for option in ["@tmux_task_command", "@pi_task_command"] {
            set(&world, scope, option, "x");
            let output = launch(&world);
            assert_eq!(output.code, 1, "{output}");
            let said = format!("{option} is set for all windows");
            assert!(output.err.contains(&said), "{output}");
            assert!(output.err.contains("set-option -gu"), "{output}");
            unset(&world, scope, option);
        }
    }
    // This would hide the mark by which a launch knows what it has launched.
    world.tmux(["set-option", "-s", "@tmux_task_launch", "x"]);
    let output = launch(&world);
    assert_eq!(output.code, 1, "{output}");
    assert!(output.err.contains("@tmux_task_launch is set"), "{output}");
    assert_eq!(panes(&world), before);
    assert!(!world.project().join("run").exists());
}

#[test]
fn no_shell_is_taken_for_a_task_because_of_an_option_of_the_session() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "-n", "node"]);
    let before = panes(&world);
    for option in ["@tmux_task_command", "@pi_task_command"] {
        world.tmux(["set-option", "-t", "=work:", option, "x"]);
        let output = launch(&world);
        assert_eq!(output.code, 1, "{output}");
        let said = format!("{option} is set on the session");
        assert!(output.err.contains(&said), "{output}");
        assert!(output.err.contains("set-option -t"), "{output}");
        // It is a person's.
        let output = world.task(["kill", "node"]);
        assert!(output.err.contains("is a shell, not a task"), "{output}");
        // It is set to nothing, so it marks nothing.
        world.tmux(["set-option", "-t", "=work:", option, ""]);
    }
    world.tmux(["set-option", "-t", "=work:", "@tmux_task_launch", "x"]);
    let output = launch(&world);
    assert!(output.err.contains("@tmux_task_launch is set"), "{output}");
    assert_eq!(panes(&world), before);
    assert!(!world.project().join("run").exists());
    world.tmux(["set-option", "-t", "=work:", "-u", "@tmux_task_launch"]);
    let output = launch(&world);
    assert_eq!(output.code, 0, "{output}");
    // The window of that name is a person's shell.
    assert!(panes(&world).starts_with(&before), "{}", panes(&world));
}

#[test]
fn nothing_is_ended_for_a_launch_that_is_refused() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "-n", "shell"]);
    world.run("node", "exec sleep 1000");
    let before = panes(&world);
    for scope in SCOPES {
        set(&world, scope, "@pi_task_command", "x");
        let output = launch(&world);
        assert_eq!(output.code, 1, "{output}");
        assert!(output.err.contains("@pi_task_command is set"), "{output}");
        assert_eq!(panes(&world), before, "{scope:?}");
        unset(&world, scope, "@pi_task_command");
    }
    let output = world.task(["run", "shell", "--if-absent", "--", "true"]);
    assert_eq!(output.code, 0, "{output}");
    let output = launch(&world);
    assert_eq!(output.code, 0, "{output}");
    assert_ne!(panes(&world), before);
}

#[test]
fn what_names_a_sessions_files_and_its_daemon_counts_for_no_other_session() {
    const NOTES: [&str; 2] = ["@tmux_task_folder", "@tmux_task_daemon"];
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "mine", "-n", "shell"]);
    world.run("first", "exec sleep 1000");
    let noted = |name| world.tmux(["show-options", "-v", "-t", "=work:", name]);
    let noted = NOTES.map(|name| noted(name).trim().to_owned());
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
            set(&world, &[scope], name, value);
        }
        assert_eq!(world.task(["ls"]).code, 3, "the name leads to `mine`");
        let name = format!("api{scope}-{}", values[0].len());
        world.run(&name, "exit 3");
        world.until_delivered("exited", &name);
        leave();
        for name in NOTES {
            unset(&world, &[scope], name);
        }
        let hooks = world.tmux(["show-hooks", "-g"]);
        assert!(!hooks.contains("9010"), "{hooks}");
    }
    let windows = world.tmux(["list-windows", "-a", "-F", "#{session_name}:#{window_name}"]);
    assert_eq!(windows.trim(), "mine:shell");
}

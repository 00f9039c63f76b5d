//! Windows that were opened without a command: shells of users, or of programs that type into them.

use serde_json::Value;

use crate::support::{World, event, events};

/// The records of the window with this name.
fn events_of<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    let mut found = events(records);
    found.retain(|event| event["task"]["windowName"] == name);
    found
}

#[test]
fn a_shell_is_recorded_as_one_and_keeps_its_options() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(["new-window", "-d", "-t", "=work:", "-n", "mine"]);
    world.tmux(["set-option", "-g", "default-command", "exec /bin/sh -l"]);
    world.tmux(["new-window", "-d", "-t", "=work:", "-n", "login"]);
    world.new_window("job", "sleep 1000");
    let records = world.until("all starts", |records| events(records).len() == 4);
    let is_shell = |name: &str| event(&records, "started", name)["task"]["shell"].clone();
    assert_eq!(is_shell("api"), false);
    assert_eq!(is_shell("mine"), true);
    assert_eq!(is_shell("login"), true);
    assert_eq!(is_shell("job"), false);
    // The daemon sets options once a look is recorded; the next answer comes after that.
    world.look();
    let options = |name: &str| {
        let target = format!("=work:{name}");
        let shown = world.tmux(["show-options", "-w", "-t", &target]);
        let names = shown
            .lines()
            .map(|line| line.split(' ').next().unwrap().to_owned());
        names
            .filter(|name| name != "automatic-rename")
            .collect::<Vec<_>>()
    };
    assert_eq!(options("mine"), [] as [&str; 0]);
    assert_eq!(options("login"), [] as [&str; 0]);
    assert_eq!(
        options("job"),
        ["@tmux_task_run", "monitor-bell", "remain-on-exit"]
    );
    // Its dead pane is not kept either.
    world.tmux(["send-keys", "-t", "=work:mine", "exit", "Enter"]);
    let records = world.until("the shell's end", |records| {
        events_of(records, "mine").len() == 2
    });
    assert_eq!(events_of(&records, "mine")[1]["task"]["shell"], true);
    let windows = world.tmux(["list-windows", "-t", "=work:", "-F", "#{window_name}"]);
    assert_eq!(windows, "api\nlogin\njob");
}

/// tmux-resurrect opens a window again with a command that prints what stood in it.
#[test]
fn a_window_that_was_opened_with_a_shell_is_one() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(["set-option", "-g", "default-shell", "/bin/bash"]);
    let saved = world.path("saved screen");
    std::fs::write(&saved, "old output\n").unwrap();
    let saved = saved.display();
    let windows = [
        (true, format!("cat '{saved}'; exec -l /bin/bash")),
        (true, format!("cat '{saved}'; exec /bin/sh")),
        (true, "exec \"$SHELL\" -i".to_owned()),
        (true, "bash --norc -i".to_owned()),
        (false, format!("cat '{saved}'; exec sleep 1000")),
        (false, "bash -c 'sleep 1000; exec bash'".to_owned()),
        (false, format!("sleep 1000; cat '{saved}'; exec bash")),
    ];
    for (n, (_, command)) in windows.iter().enumerate() {
        world.new_window(&format!("w{n}"), command);
    }
    let records = world.until("all starts", |records| {
        events(records).len() == windows.len() + 1
    });
    for (n, (is_shell, command)) in windows.iter().enumerate() {
        let started = event(&records, "started", &format!("w{n}"));
        assert_eq!(started["task"]["shell"], *is_shell, "{command}");
    }
    // A launch leaves it alone.
    let shell = world.tmux(["display-message", "-p", "-t", "=work:=w0", "#{window_id}"]);
    assert_ne!(world.run("w0", "exec sleep 1000"), shell);
    assert_eq!(
        world.run("w4", "exec sleep 1000"),
        event(&records, "started", "w4")["task"]["windowId"]
    );
}

/// tmux names a window after what runs in it, also when a task has that name.
#[test]
fn a_name_means_the_task_and_not_a_shell() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    world.tmux(["new-window", "-d", "-n", "node", "-t", "work:"]);
    world.run("node", "exec sleep 1000");
    world.task(["send", "node", "x"]).ok();
    world.task(["kill", "node"]).ok();
    // Where no task has the name, it is the shell's, but no name ends a shell.
    world.task(["logs", "node"]).ok();
    let shell = world.tmux(["display-message", "-p", "-t", "=work:=node", "#{window_id}"]);
    let refused = |world: &World| {
        let said = format!(
            "tmux-task: kill: `node` ({shell}) is a shell, not a task\nhint: `tmux-task kill {shell}` ends it by its id"
        );
        world.task(["kill", "node"]).fails(1, &said);
    };
    refused(&world);
    world.task(["daemon", "stop"]).ok();
    refused(&world);
    world.task(["kill", &shell]).ok();
}

#[test]
fn prune_leaves_a_shell_that_has_ended() {
    let world = World::new();
    let task = world.run("api", "exit 0");
    world.tmux(["set-option", "-g", "remain-on-exit", "on"]);
    world.tmux(["new-window", "-d", "-n", "mine", "-t", "work:"]);
    world.tmux(["send-keys", "-t", "work:mine", "exec false", "Enter"]);
    world.until_ended("work:mine");
    world.until_ended(&task);
    assert_eq!(world.task(["prune"]).ok(), format!("pruned {task} (api)\n"));
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.task(["prune"]).ok(), "");
    let left = world.tmux(["list-windows", "-t", "=work", "-F", "#{window_name}"]);
    assert_eq!(left, "mine");
}

/// A user's program in a window that tmux has named after it.
#[test]
fn a_name_means_the_window_that_somebody_has_named() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    // tmux may look between fork and exec, and not again: what it shows then is its format.
    world.tmux(["set-option", "-g", "automatic-rename-format", "sleep"]);
    world.tmux(["new-window", "-d", "-t", "work:", "sleep", "901"]);
    let window = world.tmux(["display-message", "-p", "-t", "work:{end}", "#{window_id}"]);
    world.until_true("tmux has named it", || {
        world.tmux(["display-message", "-p", "-t", &window, "#{window_name}"]) == "sleep"
    });
    world.look();
    // Where nobody has given the name to another window, it is the one.
    world.task(["logs", "sleep"]).ok();
    let task = world.run("sleep", "exec sleep 1000");
    assert_ne!(task, window);
    world.task(["send", "sleep", "x"]).ok();
    assert_eq!(world.run("sleep", "exec sleep 1000"), task);
    world.task(["kill", "sleep"]).ok();
    let left = world.tmux(["list-windows", "-t", "=work", "-F", "#{window_id}"]);
    assert!(left.lines().any(|id| id == window), "{left}");
    assert!(!left.lines().any(|id| id == task), "{left}");
    // The same once more ends nothing.
    for has_daemon in [true, false] {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        let said = format!(
            "tmux-task: kill: `sleep` ({window}) was named by tmux and is not a task\nhint: `tmux-task kill {window}` ends it by its id"
        );
        world.task(["kill", "sleep"]).fails(1, &said);
    }
    world.task(["kill", &window]).ok();
}

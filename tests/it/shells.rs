//! Windows that were opened without a command: shells of users, or of programs that type into them.

use serde_json::Value;

use crate::support::{World, argv, event, events};

/// Whether the window of this name was a shell when it started.
fn is_shell(records: &[Value], name: &str) -> bool {
    event(records, "started", name)["task"]["shell"] == true
}

#[test]
fn a_shell_is_recorded_as_one_and_keeps_its_options() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(argv("new-window -d -t =work: -n mine"));
    world.tmux(argv("set-option -g default-command 'exec /bin/sh -l'"));
    world.tmux(argv("new-window -d -t =work: -n login"));
    world.new_window("job", "sleep 1000");
    let records = world.until("all starts", |records| events(records).len() == 4);
    let names = ["api", "mine", "login", "job"];
    assert_eq!(
        names.map(|name| is_shell(&records, name)),
        [false, true, true, false]
    );
    // The daemon sets options once a look is recorded; the next answer comes after that.
    world.look();
    for (name, expected) in [
        ("mine", ""),
        ("login", ""),
        ("job", "@tmux_task_run monitor-bell remain-on-exit"),
    ] {
        let shown = world.tmux(["show-options", "-w", "-t", &format!("=work:{name}")]);
        let names = shown.lines().filter_map(|line| line.split(' ').next());
        let names = names.filter(|name| *name != "automatic-rename");
        assert_eq!(names.collect::<Vec<_>>().join(" "), expected, "{name}");
    }
    // Its dead pane is not kept either.
    world.tmux(argv("send-keys -t =work:mine exit Enter"));
    let records = world.until("the shell's end", |records| events(records).len() == 5);
    assert_eq!(events(&records)[4]["task"]["windowName"], "mine");
    assert_eq!(events(&records)[4]["task"]["shell"], true);
    assert_eq!(world.windows("#{window_name}"), "api\nlogin\njob");
}

/// tmux-resurrect opens a window again with a command that prints what stood in it.
#[test]
fn a_window_that_was_opened_with_a_shell_is_one() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(argv("set-option -g default-shell /bin/bash"));
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
    for (n, (expected, command)) in windows.iter().enumerate() {
        assert_eq!(is_shell(&records, &format!("w{n}")), *expected, "{command}");
    }
    // A launch leaves it alone.
    let shell = world.says("=work:=w0", "#{window_id}");
    assert_ne!(world.run("w0", "exec sleep 1000"), shell);
    let job = &event(&records, "started", "w4")["task"]["windowId"];
    assert_eq!(world.run("w4", "exec sleep 1000"), *job);
}

/// tmux names a window after what runs in it, also when a task has that name.
#[test]
fn a_name_means_the_task_and_not_a_shell() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    world.tmux(argv("new-window -d -n node -t work:"));
    world.run("node", "exec sleep 1000");
    world.call("send node x").ok();
    world.task(["kill", "node"]).ok();
    // Where no task has the name, it is the shell's, but no name ends a shell.
    world.task(["logs", "node"]).ok();
    let shell = world.says("=work:=node", "#{window_id}");
    let said = format!(
        "tmux-task: kill: `node` ({shell}) is a shell, not a task\n\
         hint: `tmux-task kill {shell}` ends it by its id"
    );
    world.task(["kill", "node"]).fails(1, &said);
    world.task(["kill", &shell]).ok();
}

/// A user's program in a window that tmux has named after it.
#[test]
fn a_name_means_the_window_that_somebody_has_named() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    // tmux may look between fork and exec, and not again: what it shows then is its format.
    world.tmux(argv("set-option -g automatic-rename-format sleep"));
    world.tmux(argv("new-window -d -t work: sleep 901"));
    let window = world.says("work:{end}", "#{window_id}");
    let process = world.pane_pid(&window);
    world.until_true("tmux has named it", || {
        world.says(&window, "#{window_name}") == "sleep"
    });
    world.look();
    // Where nobody has given the name to another window, it is the one.
    world.task(["logs", "sleep"]).ok();
    let task = world.run("sleep", "exec sleep 1000");
    assert_ne!(task, window);
    world.call("send sleep x").ok();
    assert_eq!(world.run("sleep", "exec sleep 1000"), task);
    world.task(["kill", "sleep"]).ok();
    let left = world.windows("#{window_id}");
    let is_left = |window: &str| left.lines().any(|id| id == window);
    assert!(is_left(&window) && !is_left(&task), "{left}");
    // The same once more ends nothing.
    let said = format!(
        "tmux-task: kill: `sleep` ({window}) was named by tmux and is not a task\n\
         hint: `tmux-task kill {window}` ends it by its id"
    );
    world.task(["kill", "sleep"]).fails(1, &said);
    assert_eq!(world.pane_pid(&window), process);
    // A name that somebody gives makes it a slot.
    world.tmux(["rename-window", "-t", &window, "api"]);
    assert_eq!(world.run("api", "exec sleep 1000"), window);
    world.task(["kill", &window]).ok();
}

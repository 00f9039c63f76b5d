//! Panes that users join, break out, swap and close: their runs continue, or have ended.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::environment::launching;
use crate::runs::codes;
use crate::support::{Gate, Output, World, all_told, argv, events, lacks, pid, story, window_of};

/// A world with two tasks that wait at gates, and their records.
fn with_two() -> (World, [(String, Gate); 2], Vec<Value>) {
    let world = World::new();
    let start = |name: &str, code: u8| {
        let gate = world.gate(name);
        let window = world.run(name, &format!("{gate}; exit {code}"));
        (window, gate)
    };
    let tasks = [start("first", 3), start("second", 4)];
    let records = world.until("both starts", |records| {
        events(records).len() == 2 && all_told(records)
    });
    (world, tasks, records)
}

/// Starts a task that sleeps. Returns its window.
#[track_caller]
fn launch(world: &World, name: &str) -> String {
    window_of(Output::of(launching(world, name, &["exec sleep 1000"])).ok())
}

/// Waits until the daemon has seen which process the task has.
fn until_it_has(world: &World, name: &str, pid: &Value) {
    world.until_true("the daemon has seen it", || {
        world.listed(name)["panePid"] == *pid
    });
}

fn pid_of<'a>(records: &'a [Value], name: &str) -> &'a Value {
    let mut started = events(records).into_iter();
    let event = started.find(|event| event["task"]["windowName"] == name);
    &event.unwrap()["task"]["panePid"]
}

/// The panes of a window with their processes, the oldest first.
fn panes(world: &World, window: &str) -> Vec<(String, String)> {
    let panes = world.tmux(["list-panes", "-t", window, "-F", "#{pane_id} #{pane_pid}"]);
    let pair = |line: &str| {
        let (pane, pid) = line.split_once(' ').unwrap();
        (pane.to_owned(), pid.to_owned())
    };
    let mut panes: Vec<_> = panes.lines().map(pair).collect();
    panes.sort();
    panes
}

/// Waits for the end of a task, and returns what was recorded since.
#[track_caller]
fn until_end(world: &World, name: &str, before: &[Value]) -> Vec<String> {
    world.until_delivered("exited", name);
    let records = world.finish();
    assert_eq!(records[..before.len()], *before);
    story(&records[before.len()..])
}

#[test]
fn a_run_ends_with_its_own_process_also_when_its_pane_was_swapped() {
    let (world, [(first, gate), (second, _kept)], before) = with_two();
    world.tmux(["swap-pane", "-d", "-s", &first, "-t", &second]);
    until_it_has(&world, "second", pid_of(&before, "first"));
    gate.open();
    let told = until_end(&world, "first", &before);
    assert_eq!(
        (told[0].as_str(), told.len()),
        ("exited first 3", 2),
        "{told:?}"
    );
}

#[test]
fn a_live_run_has_not_ended_because_its_window_shows_a_pane_that_has() {
    for moved in ["swap-pane", "break-pane"] {
        let (world, [(first, gate), _kept], _) = with_two();
        world.run("over", "exit 0");
        world.task(["wait", "over"]).ok();
        if moved == "break-pane" {
            let pane = world.says(&first, "#{pane_id}");
            world.tmux(["split-window", "-d", "-t", &first, "exit 0"]);
            world.tmux(["break-pane", "-d", "-n", "away", "-s", &pane]);
        } else {
            world.tmux(argv("swap-pane -d -s =work:=first. -t =work:=over."));
        }
        world.call("wait first --timeout 1s").fails_with(4);
        world.task(["daemon", "stop"]).ok();
        gate.open();
        world.task(["wait", "first"]).fails_with(1);
        // What is removed is what has ended, and nothing that lives.
        world.task(["prune"]).ok();
        let left = world.tmux(argv("list-panes -s -t work -F #{pane_dead}"));
        assert!(left.contains('0'), "{moved}: {left}");
    }
}

#[test]
fn a_pane_that_is_joined_to_another_window_goes_on_there() {
    let (world, [(first, _kept), (second, gate)], before) = with_two();
    // The first has the lower id and is the primary pane of the second window from here on.
    world.tmux(["join-pane", "-d", "-s", &first, "-t", &second]);
    until_it_has(&world, "second", pid_of(&before, "first"));
    let pane = &panes(&world, &second)[0].0;
    world.tmux(["break-pane", "-d", "-s", pane, "-n", "again"]);
    until_it_has(&world, "second", pid_of(&before, "second"));
    gate.open();
    let mut told = until_end(&world, "second", &before);
    told.retain(|line| !line.contains(" of "));
    let expected = ["disappeared first -", "started again", "exited second 4"];
    assert_eq!(told, expected);
}

#[test]
fn closing_the_primary_pane_of_a_split_window_ends_its_run() {
    let (world, [(first, _kept), _also], before) = with_two();
    world.tmux(["split-window", "-d", "-t", &first, "exec sleep 1000"]);
    world.tmux(["kill-pane", "-t", &panes(&world, &first)[0].0]);
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
    for leave in ["kill-pane -t", "break-pane -d -n away -s"] {
        let world = World::new();
        let window = launch(&world, "api");
        world.task(["daemon", "--detach"]).ok();
        world.tmux(["split-window", "-d", "-t", &window, "exec sleep 777"]);
        let [(own, _), (_, others)] = &panes(&world, &window)[..] else {
            panic!("there are two panes");
        };
        world.tmux(argv(&format!("{leave} {own}")));
        until_it_has(&world, "api", &others.parse::<i64>().unwrap().into());
        let new = launch(&world, "api");
        assert_ne!(new, window, "{leave}");
        let tasks = world.tasks();
        let of = |id: &str| tasks.iter().find(|task| task["windowId"] == id).unwrap();
        assert_eq!(of(&window)["panePid"].to_string(), *others);
        let shells = [&window, &new].map(|id| &of(id)["shell"]);
        assert_eq!(json!(shells), json!([true, false]));
        // The name is that of the task.
        world.task(["kill", "api"]).ok();
        assert!(world.look().to_string().contains(others));
        // The end of the task's own run is the task's.
        for event in events(&world.finish()) {
            let task = &event["task"];
            let is_end = event["type"] == "exited" && task["windowId"] == *window;
            assert!(!is_end || task["shell"] == false, "{event}");
        }
    }
}

#[test]
fn a_run_leaves_alone_what_belongs_to_another_task_or_to_another_session() {
    let world = World::new();
    let (first, second) = (launch(&world, "first"), launch(&world, "second"));
    let process = |target: &str| world.says(target, "#{pane_id} #{pane_pid} #{pane_dead}");
    // Another task's pane that was moved into its window.
    let before = process(&first);
    let (pane, _) = before.split_once(' ').unwrap();
    world.tmux(["join-pane", "-d", "-s", &first, "-t", &second]);
    assert_ne!(launch(&world, "second"), second);
    assert_eq!(process(pane), before);
    // A window that is linked from another session.
    world.tmux(argv("new-session -d -s other -n tool 'exec sleep 900'"));
    world.tmux(argv("link-window -d -s other:tool -t work:"));
    let before = process("other:tool");
    launch(&world, "tool");
    assert_eq!(process("other:tool"), before);
    // A task's own window may be linked: it is run again.
    let api = launch(&world, "api");
    world.tmux(argv("link-window -d -s work:api -t other:"));
    assert_eq!(launch(&world, "api"), api);
    let windows = world.windows("#{window_name}");
    assert_eq!(windows.lines().filter(|name| *name == "api").count(), 1);
}

#[test]
fn prune_leaves_a_shell_alone_and_a_window_that_is_linked_from_another_session() {
    let world = World::new();
    let task = world.run("api", "exit 3");
    world.tmux(argv("set-option -g remain-on-exit on"));
    world.tmux(argv("new-session -d -s other 'exec sleep 900'"));
    let theirs = world.open_window("other", &["-n", "theirs", "exec sleep 900"]);
    world.tmux(["link-window", "-d", "-s", &theirs, "-t", "work:"]);
    let process = world.pane_pid(&theirs);
    kill_process(pid(process.parse().unwrap()), Signal::TERM).unwrap();
    world.tmux(argv("new-window -d -n mine -t work:"));
    world.tmux(argv("send-keys -t work:mine 'exec false' Enter"));
    let ended = || world.tmux(argv("list-panes -s -t work -F #{pane_dead}"));
    world.until_true("all have ended", || ended() == "1\n1\n1");
    // A daemon that starts sees all of them.
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.task(["prune"]).ok(), format!("pruned {task} (api)\n"));
    assert_eq!(world.windows("#{window_name}"), "theirs\nmine");
    let theirs_too = world.tmux(argv("list-windows -t other -F #{window_name}"));
    assert!(theirs_too.ends_with("theirs"), "{theirs_too}");
}

#[test]
fn a_window_that_takes_the_place_of_a_second_link_is_found() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for line in [
        "new-session -d -s other 'exec sleep 900'",
        "new-window -d -t other: -n web 'exec sleep 900'",
        "link-window -d -s work:api -t work:91",
        // tmux reports nothing, and the session has as many windows as before.
        "swap-window -d -s other:web -t work:91",
    ] {
        world.tmux(argv(line));
    }
    world.until("the start of web", |records| {
        story(records).contains(&"started web".to_owned())
    });
    world.finish();
}

#[test]
fn a_pane_that_floats_over_a_task_never_takes_its_place() {
    let (world, [(first, gate), _other], before) = with_two();
    if world
        .says(&first, "#{pane_floating_flag}")
        .trim()
        .is_empty()
    {
        eprintln!("not tested: this tmux has no floating panes");
        return;
    }
    let open = |command: &str, window: &str| {
        let options = [command, "-d", "-P", "-F", "#{pane_id}", "-t", window];
        world.tmux([&options[..], &["exec sleep 1000"]].concat())
    };
    let pane_of = |name: &str| world.listed(name)["paneId"].as_str().unwrap().to_owned();
    let own = pane_of("first");
    let floating = open("new-pane", &first);
    assert_eq!(pane_of("first"), own);
    world.tmux(["kill-pane", "-t", &floating]);
    // Its user lets the task itself float over another pane, and changes their places.
    open("split-window", &first);
    let floating = open("new-pane", &first);
    let mut swap = world.command("tmux");
    swap.args(["swap-pane", "-d", "-s", &own, "-t", &floating]);
    // tmux 3.7 refuses that.
    if Output::of(swap).code == 0 {
        assert_eq!(world.says(&own, "#{pane_floating_flag}").trim(), "1");
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
    lacks(story(&records[before.len()..]).concat(), "disappeared");
}

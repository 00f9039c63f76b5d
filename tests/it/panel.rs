//! `panel`, in a real terminal: a pane of another tmux server.

use rustix::process::{Signal, kill_process};

use crate::support::{World, events, pid};

/// The pane in which the panel runs.
const TERMINAL: [&str; 2] = ["-L", "terminal"];

/// Runs the panel in a terminal of this size. When it ends, the terminal shows its exit code.
fn open(world: &World, columns: &str, rows: &str) {
    open_with(world, "", columns, rows);
}

/// The same with options.
fn open_with(world: &World, options: &str, columns: &str, rows: &str) {
    let line = format!(
        "env -u TMUX '{}' panel {options}; echo code-$?; exec cat",
        World::program().display()
    );
    let size = ["new-session", "-d", "-x", columns, "-y", rows, &line];
    world.tmux([&TERMINAL, size.as_slice()].concat());
}

fn shown(world: &World) -> String {
    world.tmux([&TERMINAL, ["capture-pane", "-p"].as_slice()].concat())
}

#[track_caller]
fn until_shown(world: &World, text: &str) {
    world.until_true(
        &format!("the panel shows {text}:\n{}", shown(world)),
        || shown(world).contains(text),
    );
}

/// The first word of each row of the list: the group, except for the selected row's mark.
fn groups(world: &World) -> Vec<String> {
    let shown = shown(world);
    let words = shown.lines().filter_map(|row| {
        let row = row.strip_prefix('>').unwrap_or(row);
        let word = row.split_whitespace().next()?;
        ["ASK", "FAILED", "RUNNING", "DONE"]
            .contains(&word)
            .then(|| word.to_owned())
    });
    words.collect()
}

fn press(world: &World, keys: &[&str]) {
    world.tmux([&TERMINAL, ["send-keys"].as_slice(), keys].concat());
}

fn close(world: &World) {
    world.tmux([&TERMINAL, ["kill-server"].as_slice()].concat());
}

fn is_full_screen(world: &World) -> bool {
    let ask = ["display-message", "-p", "#{alternate_on}"];
    world.tmux([&TERMINAL, ask.as_slice()].concat()) == "1"
}

#[test]
fn a_prompt_is_answered_and_a_task_is_killed() {
    let world = World::new();
    world.run(
        "deploy",
        "printf 'Proceed? [y/N] '; read -r word; echo got-$word; exec sleep 1000",
    );
    world.run("build", "echo compiling; exit 3");
    world.run("server", "exec sleep 1000");
    world.run("lint", "echo clean");
    world.until_delivered("exited", "build");
    world.until_delivered("exited", "lint");
    world.until_delivered("input", "deploy");
    open(&world, "80", "24");
    world.until_true("all groups are shown in order", || {
        groups(&world) == ["ASK", "FAILED", "RUNNING", "DONE"]
    });
    until_shown(&world, "exit 3: compiling");
    press(&world, &["a"]);
    until_shown(&world, "deploy asks: Proceed? [y/N]");
    press(&world, &["y", "Enter"]);
    until_shown(&world, "sent to deploy");
    until_shown(&world, "got-y");
    world.until_true("nothing asks", || {
        groups(&world) == ["FAILED", "RUNNING", "RUNNING", "DONE"]
    });

    press(&world, &["/"]);
    press(&world, &["-l", "server"]);
    world.until_true("only it is listed", || groups(&world) == ["RUNNING"]);
    press(&world, &["Enter"]);
    press(&world, &["x"]);
    until_shown(&world, "Kill server and remove its window? y/n");
    press(&world, &["y"]);
    until_shown(&world, "killed server");
    let records = world.until_delivered("disappeared", "server");
    let gone = events(&records)
        .into_iter()
        .find(|event| event["type"] == "disappeared");
    assert_eq!(gone.unwrap()["reason"], "userKilled");

    press(&world, &["Escape"]);
    world.until_true("the others are listed", || groups(&world).len() == 3);
    let size = ["resize-window", "-x", "40", "-y", "10"];
    world.tmux([&TERMINAL, size.as_slice()].concat());
    until_shown(&world, "FAIL build");
    press(&world, &["q"]);
    until_shown(&world, "code-0");
    assert!(!is_full_screen(&world));
    close(&world);
}

/// The sessions and windows that terminals of the world's server show.
fn viewed(world: &World) -> Vec<String> {
    let format = "#{client_control_mode}#{client_session} #{window_name}";
    let clients = world.tmux(["list-clients", "-F", format]);
    let terminals = clients.lines().filter_map(|line| line.strip_prefix('0'));
    terminals.map(str::to_owned).collect()
}

#[test]
fn enter_shows_the_window_until_the_user_detaches() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exec sleep 1000");
    open(&world, "80", "24");
    until_shown(&world, "RUNNING web");
    press(&world, &["j", "Enter"]);
    world.until_true("the terminal shows web", || viewed(&world) == ["work web"]);
    press(&world, &["C-b", "d"]);
    until_shown(&world, "RUNNING web");
    assert_eq!(viewed(&world), [""; 0]);
    press(&world, &["q"]);
    until_shown(&world, "code-0");
    close(&world);
}

/// Opens a popup by its key, in a terminal that shows the session `home`. The panel runs with these
/// variables besides those of the server.
#[track_caller]
fn open_popup(world: &World, variables: &str) {
    world.tmux(["new-session", "-d", "-s", "home", "-n", "desk", "cat"]);
    let file = world.path("home").join(".tmux.conf");
    // The line of the documentation. The test's session is not named after its folder, and the program is
    // not on the server's PATH.
    let documentation = include_str!("../../docs/panel.md");
    let mut lines = documentation.lines();
    let binding = lines.find(|line| line.starts_with("bind-key")).unwrap();
    let panel = format!("{variables} '{}' -s work panel", World::program().display());
    std::fs::write(
        &file,
        binding.replace("tmux-task panel\"", &format!("{panel}\"")),
    )
    .unwrap();
    world.tmux(["source-file", &file.display().to_string()]);
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    let attach = format!("env -u TMUX tmux -S '{socket}' attach -t =home");
    let size = ["new-session", "-d", "-x", "80", "-y", "24", &attach];
    world.tmux([&TERMINAL, size.as_slice()].concat());
    world.until_true("the terminal shows home", || viewed(world) == ["home desk"]);
    press(world, &["C-b", "T"]);
}

#[test]
fn enter_in_a_popup_switches_the_users_terminal_and_closes_the_popup() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    // The server does not have the folders of the world in its environment.
    let folders = format!(
        "TMUX_TASK_STATE_DIR='{}' TMUX_TASK_RUNTIME_DIR='{}'",
        world.path("state").display(),
        world.path("run").display()
    );
    open_popup(&world, &folders);
    until_shown(&world, "RUNNING api");
    press(&world, &["Enter"]);
    world.until_true("the terminal shows api", || viewed(&world) == ["work api"]);
    world.until_true("the popup is gone", || {
        !shown(&world).contains("RUNNING api")
    });
    close(&world);
}

#[test]
fn a_popup_stays_open_with_the_error_of_a_panel_that_has_other_folders() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    open_popup(&world, "");
    until_shown(&world, "panel: the daemon did not start: another daemon");
    press(&world, &["Escape"]);
    world.until_true("the popup is gone", || {
        !shown(&world).contains("another daemon")
    });
    close(&world);
}

#[test]
fn r_runs_a_task_again() {
    let world = World::new();
    world.run("count", "echo run >>runs; wc -l <runs; exit 1");
    world.run("server", "exec sleep 1000");
    open(&world, "80", "24");
    until_shown(&world, "exit 1: 1");
    press(&world, &["r"]);
    until_shown(&world, "exit 1: 2");
    press(&world, &["G", "r"]);
    until_shown(&world, "server still runs. End it and run it again? y/n");
    press(&world, &["y"]);
    until_shown(&world, "RUNNING server   2");
    // What no launcher has recorded cannot be run again.
    world.new_window("bare", "exec sleep 1000");
    until_shown(&world, "RUNNING bare");
    press(&world, &["G", "r", "y"]);
    until_shown(&world, "the command of task `bare` is not recorded");
    close(&world);
}

#[test]
fn it_says_that_the_daemon_is_gone_and_comes_back() {
    let mut world = World::new();
    world.run("api", "exec sleep 1000");
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    open(&world, "80", "24");
    until_shown(&world, "RUNNING api");
    world.kill_daemon();
    until_shown(&world, "no daemon runs for session `work`");
    // What was known stays.
    until_shown(&world, "RUNNING api");
    world.daemon();
    world.run("web", "exec sleep 1000");
    until_shown(&world, "RUNNING web");
    until_shown(&world, "LAST LINE");
    // The session goes, and another one of its name comes.
    world.task(["kill-all", "--yes"]).ok();
    until_shown(&world, "There is no session `work`.");
    world.run("later", "exec sleep 1000");
    until_shown(&world, "RUNNING later");
    close(&world);
}

#[test]
fn all_sessions_are_shown_and_each_key_is_for_the_right_one() {
    let world = World::new();
    world.run_alone("idle", "job", "exec sleep 1000");
    world.run_in(
        "shop",
        "deploy",
        "printf 'Proceed? [y/N] '; read -r word; echo got-$word; exec sleep 1000",
    );
    let elsewhere = ["-L", "other", "-s", "work"];
    let on_other = |args: &[&str]| world.task([elsewhere.as_slice(), args].concat());
    // Both sessions have this name and this window id.
    world.run("api", "exec sleep 1000");
    on_other(&["run", "watch", "--", "exec sleep 1000"]).ok();
    open_with(&world, "--all", "80", "24");
    until_shown(&world, "4 sessions  1 needs you · 2 running");
    until_shown(&world, "RUNNING work       api");
    until_shown(&world, "RUNNING work@other watch");
    until_shown(
        &world,
        "idle       no daemon runs; `tmux-task -s idle daemon",
    );
    press(&world, &["a"]);
    until_shown(&world, "shop/deploy asks: Proceed? [y/N]");
    press(&world, &["y", "Enter"]);
    until_shown(&world, "got-y");
    press(&world, &["/"]);
    press(&world, &["-l", "watch"]);
    press(&world, &["Enter"]);
    world.until_true("only it is listed", || groups(&world).len() == 1);
    press(&world, &["x"]);
    until_shown(&world, "Kill work@other/watch and remove its window? y/n");
    press(&world, &["y"]);
    until_shown(&world, "killed work@other/watch");
    assert_eq!(on_other(&["ls"]).code, 3, "its only window is gone");
    // The one of the same id is not.
    assert_eq!(world.look()["tasks"][0]["windowName"], "api");
    world.task(["-s", "idle", "daemon", "status"]).fails(
        3,
        "tmux-task: daemon status: no daemon runs for session `idle`\n\
         hint: start one with `tmux-task -s idle daemon --detach`",
    );
    press(&world, &["Escape"]);
    until_shown(&world, "3 sessions  2 running");
    press(&world, &["q"]);
    until_shown(&world, "code-0");
    close(&world);
}

#[test]
fn sessions_that_begin_and_end_are_followed() {
    let world = World::new();
    open_with(&world, "--all", "80", "24");
    until_shown(&world, "There are no task sessions.");
    world.run("api", "exec sleep 1000");
    until_shown(&world, "RUNNING work    api");
    world.run_in("shop", "web", "exec sleep 1000");
    until_shown(&world, "RUNNING shop    web");
    until_shown(&world, "2 sessions  2 running");
    // A daemon that is stopped leaves its session, and is not started again.
    world.task(["daemon", "stop"]).ok();
    until_shown(&world, "work    no daemon runs;");
    world.daemon();
    until_shown(&world, "RUNNING work    api");
    // One that is killed and started again leaves no trace.
    world.kill_daemon();
    world.daemon();
    world.run("later", "exec sleep 1000");
    until_shown(&world, "RUNNING work    later");
    world.task(["kill-all", "--yes"]).ok();
    until_shown(&world, "1 session  1 running");
    world.until_true("only the other session is listed", || {
        groups(&world) == ["RUNNING"] && !shown(&world).contains("work")
    });
    close(&world);
}

#[test]
fn it_starts_the_daemon() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    open(&world, "80", "24");
    until_shown(&world, "RUNNING api");
    world.daemon_status();
    close(&world);
}

#[test]
#[cfg(target_os = "linux")]
fn a_signal_restores_the_terminal() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    open(&world, "80", "24");
    until_shown(&world, "RUNNING api");
    assert!(is_full_screen(&world));
    let ask = ["display-message", "-p", "#{pane_pid}"];
    let shell = world.tmux([&TERMINAL, ask.as_slice()].concat());
    let children = std::fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
    let panel = children.unwrap();
    kill_process(pid(panel.trim().parse().unwrap()), Signal::TERM).unwrap();
    until_shown(&world, "code-143");
    assert!(!is_full_screen(&world));
    close(&world);
}

#[test]
fn without_a_terminal_it_says_so() {
    let world = World::new();
    world.task(["panel"]).fails(
        1,
        "tmux-task: panel: this is not a terminal\nhint: `tmux-task ls` prints the tasks",
    );
}

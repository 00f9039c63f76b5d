//! `attach`: how a user gets to a task's window.

use crate::support::World;

/// The terminals that show the task session: the session and the task that each of them shows.
fn shown(world: &World) -> Vec<String> {
    let format = "#{client_control_mode}#{client_session} #{window_name}";
    let clients = world.tmux(["list-clients", "-F", format]);
    let terminals = clients.lines().filter_map(|line| line.strip_prefix('0'));
    terminals.map(str::to_owned).collect()
}

/// A terminal in which `command` runs: a pane of another server.
fn in_terminal(world: &World, command: &str) {
    world.tmux(["-L", "terminal", "new-session", "-d", command]);
}

fn program() -> String {
    World::program().display().to_string()
}

#[test]
fn outside_tmux_it_attaches_and_inside_it_switches() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exec sleep 1000");
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    let program = program();
    in_terminal(
        &world,
        &format!("env -u TMUX '{program}' -S '{socket}' attach api"),
    );
    world.until_true("the terminal shows api", || shown(&world) == ["work api"]);
    world.tmux(["-L", "terminal", "kill-server"]);
    world.until_true("it has gone", || shown(&world).is_empty());

    // Inside: the user's own session is on the same server.
    world.tmux(["new-session", "-d", "-s", "home", "-n", "desk", "cat"]);
    in_terminal(
        &world,
        &format!("env -u TMUX tmux -S '{socket}' attach -t =home"),
    );
    world.until_true("the terminal shows home", || shown(&world) == ["home desk"]);
    let switch = format!("'{program}' -s work attach web || cat");
    world.tmux(["respawn-window", "-k", "-t", "=home:", &switch]);
    world.until_true("the terminal shows web", || shown(&world) == ["work web"]);
    world.tmux(["-L", "terminal", "kill-server"]);
}

#[test]
fn what_cannot_be_shown_is_said_with_what_to_do() {
    let mut world = World::new();
    let missing = world.task(["attach"]);
    assert_eq!(missing.code, 3, "{missing}");
    world.run("api", "exec sleep 1000");
    assert_eq!(world.task(["attach", "typo"]).code, 3);
    world.task(["attach", "api"]).fails(
        1,
        "tmux-task: attach: this is not a terminal\n\
         hint: `tmux-task logs api` prints a task's output",
    );
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    world.set("TMUX", "/nowhere/default,1,0");
    let why = "tmux-task: attach: this terminal is a pane of another tmux server, /nowhere/default";
    let hint = format!("hint: `env -u TMUX tmux-task -S {socket} attach` attaches inside it");
    let attach = world.task(["-S", &socket, "attach", "api"]);
    attach.fails(1, &format!("{why}\n{hint}"));
}

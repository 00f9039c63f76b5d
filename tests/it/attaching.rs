//! `attach`: how a user gets to a task's window.

use crate::support::World;

#[track_caller]
fn until_on_terminals(world: &World, expected: &[&str]) {
    world.until_true(&format!("{expected:?} on terminals"), || {
        world.on_terminals() == expected
    });
}

#[test]
fn outside_tmux_it_attaches_and_inside_it_switches() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exec sleep 1000");
    let (program, socket) = (World::program().display(), world.server_socket());
    // A pane of another server.
    world.open_terminal("80x24", &format!("'{program}' -S '{socket}' attach api"));
    until_on_terminals(&world, &["work api"]);
    world.end_terminal();
    until_on_terminals(&world, &[]);

    // Inside: the user's own session is on the same server.
    world.tmux(["new-session", "-d", "-s", "home", "-n", "desk", "cat"]);
    world.attach_terminal("80x24", "home");
    until_on_terminals(&world, &["home desk"]);
    let switch = format!("'{program}' -s work attach web || cat");
    world.tmux(["respawn-window", "-k", "-t", "=home:", &switch]);
    until_on_terminals(&world, &["work web"]);
    world.end_terminal();
}

#[test]
fn on_another_machine_the_tmux_around_is_not_there() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let (program, socket) = (World::program().display(), world.server_socket());
    // What reaches it passes on `$TMUX`.
    world.configure(&format!("hosts.box = {{ command = ['{program}'] }}\n"));
    let attach = format!("'{program}' --host box -S '{socket}' -s work attach api || cat");
    world.tmux(["new-session", "-d", "-s", "home", &attach]);
    until_on_terminals(&world, &["work api"]);
    world.tmux(["kill-session", "-t", "=home"]);
}

#[test]
fn what_cannot_be_shown_is_said_with_what_to_do() {
    let mut world = World::new();
    world.task(["attach"]).fails_with(3);
    world.run("api", "exec sleep 1000");
    world.task(["attach", "typo"]).fails_with(3);
    world.task(["attach", "api"]).fails(
        1,
        "tmux-task: attach: this is not a terminal\n\
         hint: `tmux-task logs api` prints a task's output",
    );
    let socket = world.server_socket();
    world.set("TMUX", "/nowhere/default,1,0");
    let why = "tmux-task: attach: this terminal is a pane of another tmux server, /nowhere/default";
    let hint = format!("hint: `env -u TMUX tmux-task -S {socket} attach` attaches inside it");
    let attach = world.task(["-S", &socket, "attach", "api"]);
    attach.fails(1, &format!("{why}\n{hint}"));
}

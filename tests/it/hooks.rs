//! Our hooks in a tmux server that daemons of several versions share.

use crate::support::World;

/// The option that says which version the hooks are of.
const VERSION: &str = "@tmux_task_hooks";

fn bell_hook(world: &World) -> String {
    world.tmux(["show-hooks", "-g", "alert-bell[9010]"])
}

fn session(world: &World, name: &str) {
    world.tmux(["new-session", "-d", "-s", name, "exec sleep 1000"]);
}

fn daemon(world: &World, session: &str) {
    world.task(["-s", session, "daemon", "--detach"]).ok();
}

fn stop(world: &World, session: &str) {
    world.task(["-s", session, "daemon", "stop"]).ok();
}

#[test]
fn hooks_of_a_later_version_are_left_and_those_of_an_earlier_one_replaced() {
    let world = World::new();
    session(&world, "one");
    session(&world, "two");
    daemon(&world, "one");
    let ours = bell_hook(&world);
    let version = world.tmux(["show-options", "-gv", VERSION]);
    let other = [
        "set-hook",
        "-g",
        "alert-bell[9010]",
        "set-option -g @other 1",
    ];
    let set_version = |version: &str| {
        world.tmux(other);
        world.tmux(["set-option", "-g", VERSION, version]);
    };
    set_version("999");
    daemon(&world, "two");
    assert!(bell_hook(&world).contains("@other"));
    assert_eq!(world.tmux(["show-options", "-gv", VERSION]), "999");
    stop(&world, "two");
    set_version("0");
    daemon(&world, "two");
    assert_eq!(bell_hook(&world), ours);
    assert_eq!(world.tmux(["show-options", "-gv", VERSION]), version);
}

#[test]
fn a_hook_that_somebody_removed_is_set_by_the_next_daemon() {
    let world = World::new();
    session(&world, "one");
    session(&world, "two");
    daemon(&world, "one");
    let ours = bell_hook(&world);
    world.tmux(["set-hook", "-gu", "alert-bell[9010]"]);
    daemon(&world, "two");
    assert_eq!(bell_hook(&world), ours);
}

#[test]
fn twenty_daemons_share_the_hooks_and_the_last_one_removes_them() {
    let world = World::new();
    let names: Vec<String> = (0..20).map(|n| format!("s{n}")).collect();
    for name in &names {
        session(&world, name);
    }
    let daemons: Vec<_> = names
        .iter()
        .map(|name| world.start(["-s", name, "daemon"]))
        .collect();
    for daemon in &daemons {
        assert!(daemon.complaint().contains("supervising session"));
    }
    let ours = bell_hook(&world);
    let (last, others) = names.split_last().unwrap();
    for name in others {
        stop(&world, name);
    }
    assert_eq!(bell_hook(&world), ours);
    assert!(ours.contains("@tmux_task_daemon"), "{ours}");
    stop(&world, last);
    assert!(!bell_hook(&world).contains("@tmux_task"));
    assert_eq!(world.tmux(["show-options", "-gqv", VERSION]), "");
}

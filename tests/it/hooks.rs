//! Our hooks in a tmux server that daemons of several versions share.

use std::fs;

use serde_json::Value;

use crate::support::{
    Gate, World, argv, events, events_of, has, has_event, lacks, repeated, story, texts,
};

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

/// A hook that waits for a gate runs when the session is renamed, which keeps tmux from running others.
/// Returns what says whether this hook has run, behind ours.
fn hold_hooks<'a>(world: &'a World, gate: &Gate, hook: [&str; 2]) -> impl Fn() -> bool + 'a {
    world.tmux([&["set-hook"][..], &hook, &["set-option -g @ran 1"]].concat());
    let hold = format!("run-shell '{gate}'");
    world.tmux(["set-hook", "-g", "session-renamed", &hold]);
    world.tmux(["rename-session", "-t", "=work", "work2"]);
    || world.tmux(["show-options", "-gqv", "@ran"]) == "1"
}

#[test]
fn hooks_of_a_later_version_are_left_and_missing_ones_and_those_of_an_earlier_one_replaced() {
    let world = World::new();
    session(&world, "one");
    session(&world, "two");
    daemon(&world, "one");
    let ours = bell_hook(&world);
    let version = world.tmux(["show-options", "-gv", VERSION]);
    let set_version = |version: &str| {
        world.tmux([
            "set-hook",
            "-g",
            "alert-bell[9010]",
            "set-option -g @other 1",
        ]);
        world.tmux(["set-option", "-g", VERSION, version]);
    };
    set_version("999");
    daemon(&world, "two");
    has(bell_hook(&world), "@other");
    assert_eq!(world.tmux(["show-options", "-gv", VERSION]), "999");
    stop(&world, "two");
    set_version("0");
    daemon(&world, "two");
    assert_eq!(bell_hook(&world), ours);
    assert_eq!(world.tmux(["show-options", "-gv", VERSION]), version);
    stop(&world, "two");
    // One that is missing is set again.
    world.tmux(["set-hook", "-gu", "alert-bell[9010]"]);
    daemon(&world, "two");
    assert_eq!(bell_hook(&world), ours);
}

#[test]
fn many_daemons_share_the_hooks_and_the_last_one_removes_them() {
    let world = World::new();
    let names: Vec<String> = (0..repeated(5)).map(|n| format!("s{n}")).collect();
    for name in &names {
        session(&world, name);
    }
    let start = |name: &String| world.start(["-s", name, "daemon"]);
    let daemons: Vec<_> = names.iter().map(start).collect();
    for daemon in &daemons {
        has(daemon.complaint(), "supervising session");
    }
    let ours = bell_hook(&world);
    let (last, others) = names.split_last().unwrap();
    for name in others {
        stop(&world, name);
    }
    assert_eq!(bell_hook(&world), ours);
    has(&ours, "@tmux_task_daemon");
    stop(&world, last);
    lacks(bell_hook(&world), "@tmux_task");
    assert_eq!(world.tmux(["show-options", "-gqv", VERSION]), "");
}

#[test]
fn a_bell_beside_a_hook_that_waits_is_reported_once() {
    let world = World::new();
    let [first, hold, second] = ["first", "hold", "second"].map(|name| world.gate(name));
    world.run("current", "exec sleep 1000");
    let rings = format!("{first}; printf '\\a'; {second}; printf '\\a'; exec sleep 1000");
    let window = world.run("rings", &rings);
    world.tmux(["select-window", "-t", "=work:current"]);
    world.until("both starts", |records| events(records).len() == 2);
    let waits = format!("run-shell '{hold}'");
    world.tmux(["set-hook", "-g", "alert-bell[0]", &waits]);
    let bells = |records: &[Value]| -> Vec<u64> {
        let rung = events_of(records, "notify").into_iter();
        rung.map(|event| event["bells"].as_u64().unwrap()).collect()
    };
    first.open();
    // The hook that counts comes after the one that waits.
    world.until("the first bell", |records| bells(records) == [1]);
    hold.open();
    let count = || world.window_option(&window, "@tmux_task_bells");
    world.until_true("its count", || count() == format!("{window} 1"));
    world.tmux(["set-hook", "-gu", "alert-bell[0]"]);
    second.open();
    world.until_true("the second count", || count() == format!("{window} 2"));
    world.look();
    assert_eq!(bells(&world.records()), [1, 1]);
}

#[test]
fn the_bell_of_a_window_that_has_closed_is_not_counted_for_another_one() {
    let world = World::new();
    world.run("current", "exec sleep 1000");
    let ring = world.gate("ring");
    let rings = format!("{ring}; printf '\\a'; exec sleep 1000");
    let window = world.run("rings", &rings);
    world.tmux(["select-window", "-t", "=work:current"]);
    world.until_events(2, "started");
    let gate = world.gate("gate");
    let has_run = hold_hooks(&world, &gate, ["-g", "alert-bell[9999]"]);
    ring.open();
    let has_rung = || world.shown(&window, "#{window_bell_flag}");
    world.until_true("the bell", || has_rung() == "1");
    world.tmux(["kill-window", "-t", &window]);
    gate.open();
    world.until_true("the hooks", has_run);
    assert_eq!(
        world.window_option("=work2:current", "@tmux_task_bells"),
        ""
    );
    world.until_event("disappeared", "rings");
    let records = world.finish();
    // The other one may have been seen with the flag of its bell before it went.
    assert!(!has_event(&records, "notify", "current"), "{records:?}");
}

#[test]
fn the_death_of_a_pane_that_has_closed_is_not_recorded_for_another_one() {
    for is_respawned in [false, true] {
        let world = World::new();
        world.run("current", "exec sleep 1000");
        let end = world.gate("end");
        let window = world.run("ends", &format!("{end}; exit 3"));
        world.tmux(["select-window", "-t", "=work:current"]);
        world.until_delivered("started", "current");
        world.until_delivered("started", "ends");
        let gate = world.gate("gate");
        let has_run = hold_hooks(&world, &gate, ["-gw", "pane-died[9999]"]);
        end.open();
        world.until_ended(&window);
        // Its code is read before it is gone: nothing else will show it.
        world.until_delivered("exited", "ends");
        if is_respawned {
            world.tmux(["respawn-window", "-t", &window, "exec sleep 1000"]);
        } else {
            world.tmux(["kill-window", "-t", &window]);
        }
        gate.open();
        world.until_true("the hooks", has_run);
        world.look();
        let count = argv("show-options -qv -t =work2: @tmux_task_death_count");
        assert_eq!(world.tmux(count), "");
        let mut ends = story(&world.finish());
        ends.retain(|line| line.starts_with("exited "));
        assert_eq!(ends, ["exited ends 3"]);
    }
}

#[test]
fn a_hook_of_the_users_that_runs_when_a_client_attaches_repeats_no_bell() {
    let world = World::new();
    let hook = "set-hook -g client-attached 'run-shell \"echo attached\"'\n";
    fs::write(world.path("home/.tmux.conf"), hook).unwrap();
    let (bell, end) = (world.gate("bell"), world.gate("end"));
    let line = format!("{bell}; printf '\\a'; {end}; exit 3");
    world.run("api", &line);
    world.until_event("started", "api");
    bell.open();
    world.until_event("notify", "api");
    end.open();
    world.until_event("exited", "api");
    let records = world.finish();
    let events = events(&records);
    let types = texts(events.iter().copied(), "type");
    assert_eq!(types, ["started", "notify", "exited"]);
    assert_eq!(events[1]["task"]["bellCount"], 1);
}

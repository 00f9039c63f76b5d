//! Our hooks in a tmux server that daemons of several versions share.

use std::fs;

use serde_json::Value;

use crate::support::{World, events, repeated, story};

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
fn a_removed_hook_is_set_by_the_next_daemon() {
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
fn many_daemons_share_the_hooks_and_the_last_one_removes_them() {
    let world = World::new();
    let names: Vec<String> = (0..repeated(5)).map(|n| format!("s{n}")).collect();
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

#[test]
fn a_bell_beside_a_hook_that_waits_is_reported_once() {
    let world = World::new();
    let [first, hold, second] = ["first", "hold", "second"].map(|name| world.gate(name));
    world.run("current", "exec sleep 1000");
    let rings = format!(
        "{}; printf '\\a'; {}; printf '\\a'; exec sleep 1000",
        first.wait(),
        second.wait()
    );
    let window = world.run("rings", &rings);
    world.tmux(["select-window", "-t", "=work:current"]);
    world.until("both starts", |records| events(records).len() == 2);
    let waits = format!("run-shell '{}'", hold.wait());
    world.tmux(["set-hook", "-g", "alert-bell[0]", &waits]);
    let bells = |records: &[Value]| -> Vec<u64> {
        let events = events(records).into_iter();
        let rung = events.filter(|event| event["type"] == "notify");
        rung.map(|event| event["bells"].as_u64().unwrap()).collect()
    };
    first.open();
    // The hook that counts comes after the one that waits.
    world.until("the first bell", |records| bells(records) == [1]);
    hold.open();
    let count = ["show-options", "-wqv", "-t", &window, "@tmux_task_bells"];
    world.until_true("its count", || world.tmux(count) == format!("{window} 1"));
    world.tmux(["set-hook", "-gu", "alert-bell[0]"]);
    second.open();
    world.until_true("the second count", || {
        world.tmux(count) == format!("{window} 2")
    });
    world.look();
    assert_eq!(bells(&world.records()), [1, 1]);
}

#[test]
fn the_bell_of_a_window_that_has_closed_is_not_counted_for_another_one() {
    let world = World::new();
    world.run("current", "exec sleep 1000");
    let ring = world.gate("ring");
    let rings = format!("{}; printf '\\a'; exec sleep 1000", ring.wait());
    let window = world.run("rings", &rings);
    world.tmux(["select-window", "-t", "=work:current"]);
    world.until("both starts", |records| {
        events(records)
            .iter()
            .filter(|event| event["type"] == "started")
            .count()
            == 2
    });
    // Keeps tmux from running hooks until the gate is opened.
    let gate = world.gate("gate");
    world.tmux([
        "set-hook",
        "-g",
        "alert-bell[9999]",
        "set-option -g @rang 1",
    ]);
    let hold = format!("run-shell '{}'", gate.wait());
    world.tmux(["set-hook", "-g", "session-renamed", &hold]);
    world.tmux(["rename-session", "-t", "=work", "work2"]);
    ring.open();
    let has_rung = || {
        world.tmux([
            "display-message",
            "-p",
            "-t",
            &window,
            "#{window_bell_flag}",
        ])
    };
    world.until_true("the bell", || has_rung() == "1");
    world.tmux(["kill-window", "-t", &window]);
    gate.open();
    let has_run = || world.tmux(["show-options", "-gqv", "@rang"]);
    world.until_true("the hooks", || has_run() == "1");
    let current = [
        "show-options",
        "-wqv",
        "-t",
        "=work2:current",
        "@tmux_task_bells",
    ];
    assert_eq!(world.tmux(current), "");
    world.until_true("its end", || {
        let records = world.records();
        events(&records)
            .iter()
            .any(|event| event["type"] == "disappeared")
    });
    let records = world.finish();
    // The other one may have been seen with the flag of its bell before it went.
    let rang: Vec<_> = events(&records)
        .into_iter()
        .filter(|event| event["type"] == "notify" && event["task"]["windowName"] == "current")
        .collect();
    assert!(rang.is_empty(), "{rang:?}");
}

#[test]
fn the_death_of_a_pane_that_has_closed_is_not_recorded_for_another_one() {
    for is_respawned in [false, true] {
        let world = World::new();
        world.run("current", "exec sleep 1000");
        let end = world.gate("end");
        let window = world.run("ends", &format!("{}; exit 3", end.wait()));
        world.tmux(["select-window", "-t", "=work:current"]);
        world.until_delivered("started", "current");
        world.until_delivered("started", "ends");
        // Keeps tmux from running hooks until the gate is opened.
        let gate = world.gate("gate");
        world.tmux([
            "set-hook",
            "-gw",
            "pane-died[9999]",
            "set-option -g @died 1",
        ]);
        let hold = format!("run-shell '{}'", gate.wait());
        world.tmux(["set-hook", "-g", "session-renamed", &hold]);
        world.tmux(["rename-session", "-t", "=work", "work2"]);
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
        let has_run = || world.tmux(["show-options", "-gqv", "@died"]);
        world.until_true("the hooks", || has_run() == "1");
        world.look();
        let count = [
            "show-options",
            "-qv",
            "-t",
            "=work2:",
            "@tmux_task_death_count",
        ];
        assert_eq!(world.tmux(count), "");
        let records = world.finish();
        let ends: Vec<String> = story(&records)
            .into_iter()
            .filter(|line| line.starts_with("exited "))
            .collect();
        assert_eq!(ends, ["exited ends 3"]);
    }
}

#[test]
fn a_hook_of_the_users_that_runs_when_a_client_attaches_repeats_no_bell() {
    let world = World::new();
    let hook = "set-hook -g client-attached 'run-shell \"echo attached\"'\n";
    fs::write(world.path("home").join(".tmux.conf"), hook).unwrap();
    let (bell, end) = (world.gate("bell"), world.gate("end"));
    let line = format!("{}; printf '\\a'; {}; exit 3", bell.wait(), end.wait());
    world.run("api", &line);
    let until = |kind: &str| {
        world.until(kind, |records| {
            let last = events(records).last().map(|event| event["type"].clone());
            last == Some(kind.into())
        });
    };
    until("started");
    bell.open();
    until("notify");
    end.open();
    until("exited");
    let records = world.finish();
    let events = events(&records);
    let types: Vec<&str> = events
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert_eq!(types, ["started", "notify", "exited"]);
    assert_eq!(events[1]["task"]["bellCount"], 1);
}

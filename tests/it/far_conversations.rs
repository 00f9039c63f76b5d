//! A conversation hears of its tasks on other machines, behind a real sshd: of each end once and in
//! order, whatever is killed.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::json;

use crate::support::{
    Far, Gate, Running, SESSION, World, confirm, content_of, has, has_fields, lacks, machines,
    message, texts,
};

/// The conversation's machine, another one, and the adapter of the conversation `one`.
fn with_machine() -> (World, Far, Running) {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let adapter = near.adapter("one");
    (near, far, adapter)
}

fn run(near: &World, id: &str, host: &str, name: &str, line: &str) {
    run_in(SESSION, near, id, host, name, line);
}

fn run_in(session: &str, near: &World, id: &str, host: &str, name: &str, line: &str) {
    let words = ["--host", host, "-s", session, "run", name, "--", line];
    near.task_as(&format!("opencode:{id}"), words).ok();
}

/// Starts tasks of the conversation `one` that wait at gates.
fn run_at_gates<const N: usize>(near: &World, far: &Far, names: [&str; N]) -> [Gate; N] {
    names.map(|name| {
        let gate = far.world.gate(name);
        run(near, "one", "gpu1", name, &gate.wait());
        gate
    })
}

/// Reads the next message, which must tell this end, and confirms it.
#[track_caller]
fn hear(adapter: &mut Running, host: &str, name: &str, code: i32) {
    let told = message(adapter);
    has(
        content_of(&told),
        format!("({name}) exited with code {code}"),
    );
    has(content_of(&told), format!("{host}:@"));
    assert_eq!(told["message"]["details"]["host"], host, "{told}");
    confirm(adapter, &told);
}

/// A task of the conversation `one` ends there, and the conversation hears of it.
#[track_caller]
fn end_and_hear(near: &World, adapter: &mut Running, name: &str, code: i32) {
    run(near, "one", "gpu1", name, &format!("exit {code}"));
    hear(adapter, "gpu1", name, code);
}

/// Reads messages until they say that these tasks have ended, once and in this order, and confirms them.
#[track_caller]
fn hear_all(adapter: &mut Running, names: &[&str]) {
    let mut heard = Vec::new();
    while heard.len() < names.len() {
        let told = message(adapter);
        let events = told["message"]["details"]["events"].as_array().unwrap();
        let ends = events.iter().filter(|event| event["type"] == "exited");
        let names = texts(ends.map(|event| &event["task"]), "windowName");
        heard.extend(names.into_iter().map(str::to_owned));
        confirm(adapter, &told);
    }
    assert_eq!(heard, names);
}

#[track_caller]
fn until_forgotten(near: &World) {
    near.until_true("nothing is noted any more", || {
        fs::read_dir(near.path("state/hosts/to")).map_or(0, Iterator::count) == 0
    });
}

#[test]
fn each_end_is_told_once_whatever_is_killed() {
    let (near, far, mut adapter) = with_machine();
    end_and_hear(&near, &mut adapter, "first", 3);
    until_forgotten(&near);
    // Nobody reads there any more. The next one is followed again.
    far.world
        .until_true("nobody reads", || far.world.daemon_status()["readers"] == 0);
    let [held] = run_at_gates(&near, &far, ["held"]);
    let kills: [&dyn Fn(); 3] = [&|| far.kill_ssh(), &|| far.kill_call(), &|| {
        far.world.kill_daemon()
    }];
    for (name, kill) in ["a", "b", "c"].into_iter().zip(kills) {
        let [gate] = run_at_gates(&near, &far, [name]);
        kill();
        gate.open();
        hear(&mut adapter, "gpu1", name, 0);
    }
    held.open();
    hear(&mut adapter, "gpu1", "held", 0);
    until_forgotten(&near);
}

#[test]
fn a_connection_that_the_machine_still_holds_takes_no_messages() {
    let (near, far, mut adapter) = with_machine();
    end_and_hear(&near, &mut adapter, "a", 3);
    // As after a night: this machine was asleep, and is elsewhere now.
    far.hold_connections();
    far.kill_ssh();
    end_and_hear(&near, &mut adapter, "b", 4);
    for n in 0..6 {
        let (session, name) = (format!("session{n}"), format!("c{n}"));
        run_in(&session, &near, "one", "gpu1", &name, "exit 5");
        hear(&mut adapter, "gpu1", &name, 5);
        // The daemons there come back in any order.
        far.world.kill_daemons();
    }
    until_forgotten(&near);
}

#[test]
fn a_machine_with_two_names_is_heard_by_either() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let program = World::program().display();
    let config = format!(
        "[hosts]\ngpu1 = {{ program = '{program}' }}\nbig = {{ ssh = 'gpu1', program = '{program}' }}\n"
    );
    fs::write(near.path("config.toml"), config).unwrap();
    let mut adapter = near.adapter("one");
    let [gate] = run_at_gates(&near, &far, ["a"]);
    run(&near, "one", "big", "b", "exit 3");
    hear_all(&mut adapter, &["b"]);
    gate.open();
    hear_all(&mut adapter, &["a"]);
    until_forgotten(&near);
    for (name, host) in [("c", "gpu1"), ("d", "big"), ("e", "gpu1")] {
        run(&near, "one", host, name, "exit 3");
        hear_all(&mut adapter, &[name]);
    }
}

#[test]
fn a_cut_that_only_ssh_can_notice_delays_messages() {
    let (near, far, mut adapter) = with_machine();
    let [first, a, b, last] = run_at_gates(&near, &far, ["first", "a", "b", "last"]);
    far.set_options("-o ControlPath=none -o ServerAliveInterval=1 -o ServerAliveCountMax=1");
    far.kill_ssh();
    first.open();
    hear_all(&mut adapter, &["first"]);
    far.hold_connections();
    for (gate, name) in [(a, "a"), (b, "b")] {
        gate.open();
        far.world.until_delivered("exited", name);
    }
    hear_all(&mut adapter, &["a", "b"]);
    // What was on its way comes too late.
    far.release_connections();
    last.open();
    hear_all(&mut adapter, &["last"]);
    until_forgotten(&near);
}

#[test]
fn what_ends_while_this_machine_sleeps_is_told_once_when_it_wakes() {
    let (near, far, mut adapter) = with_machine();
    let names = ["a", "b", "c"];
    let gates = run_at_gates(&near, &far, names);
    run(&near, "one", "gpu1", "first", "exit 3");
    hear_all(&mut adapter, &["first"]);
    let asleep = [adapter.pid(), far.ssh().unwrap()];
    for process in asleep {
        kill_process(process, Signal::STOP).unwrap();
    }
    for (gate, name) in gates.iter().zip(names) {
        gate.open();
        far.world.until_delivered("exited", name);
        far.world.kill_daemons();
        // The next command there starts one.
        far.world.daemon();
    }
    for process in asleep {
        kill_process(process, Signal::CONT).unwrap();
    }
    hear_all(&mut adapter, &names);
    run(&near, "one", "gpu1", "d", "exit 3");
    hear_all(&mut adapter, &["d"]);
    until_forgotten(&near);
}

#[test]
fn a_client_that_restarts_gets_what_it_has_not_confirmed() {
    let (near, _far, mut first) = with_machine();
    end_and_hear(&near, &mut first, "a", 3);
    run(&near, "one", "gpu1", "b", "exit 4");
    let told = message(&first);
    first.kill();
    let mut second = near.adapter("one");
    let again = message(&second);
    assert_eq!(again["id"], told["id"]);
    confirm(&mut second, &again);
    // The receipt may be all that is left of it.
    second.kill();
    let mut third = near.adapter("one");
    run(&near, "one", "gpu1", "c", "exit 5");
    loop {
        let told = message(&third);
        confirm(&mut third, &told);
        lacks(content_of(&told), "(a)");
        if content_of(&told).contains("(c) exited with code 5") {
            break;
        }
        // A receipt that was not read before the kill.
        assert_eq!(told["id"], again["id"], "{told}");
    }
    until_forgotten(&near);
}

#[test]
fn a_message_comes_again_as_it_was_before_its_machine_is_reached() {
    let (mut near, far, first) = with_machine();
    let [gate] = run_at_gates(&near, &far, ["b"]);
    run(&near, "one", "gpu1", "a", "exit 3");
    let told = message(&first);
    first.kill();
    // More ends, there and here.
    let (port, away) = (near.path("ssh/gpu1.port"), near.path("ssh/away"));
    fs::rename(&port, &away).unwrap();
    gate.open();
    far.world.until_delivered("exited", "b");
    near.set("TMUX_TASK_OWNER", "opencode:one");
    near.run("c", "exit 5");
    near.until_delivered("exited", "c");
    let mut second = near.adapter("one");
    let again = message(&second);
    let expected = json!([told["id"], told["message"], false]);
    has_fields(&again, "id message isNew", expected);
    confirm(&mut second, &again);
    let here = message(&second);
    has(content_of(&here), "(c) exited with code 5");
    lacks(content_of(&here), "gpu1");
    confirm(&mut second, &here);
    fs::rename(&away, &port).unwrap();
    hear(&mut second, "gpu1", "b", 0);
    until_forgotten(&near);
}

#[test]
fn two_conversations_and_two_machines_are_kept_apart() {
    let mut near = World::new();
    let [_gpu, _cpu] = machines(&mut near, ["gpu1", "cpu1"]);
    let (mut one, mut two) = (near.adapter("one"), near.adapter("two"));
    run(&near, "one", "gpu1", "a", "exit 3");
    run(&near, "two", "gpu1", "b", "exit 4");
    hear(&mut one, "gpu1", "a", 3);
    hear(&mut two, "gpu1", "b", 4);
    for (id, host, name, code) in [
        ("one", "cpu1", "c", 5),
        ("one", "gpu1", "d", 6),
        ("two", "cpu1", "e", 7),
    ] {
        run(&near, id, host, name, &format!("exit {code}"));
        let adapter = if id == "one" { &mut one } else { &mut two };
        hear(adapter, host, name, code);
    }
    until_forgotten(&near);
}

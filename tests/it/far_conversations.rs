//! A conversation hears of its tasks on other machines, behind a real sshd: of each end once and in
//! order, whatever is killed.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Output, Running, SESSION, World, machines};

fn run(near: &World, id: &str, host: &str, name: &str, line: &str) {
    run_in(SESSION, near, id, host, name, line);
}

fn run_in(session: &str, near: &World, id: &str, host: &str, name: &str, line: &str) {
    let mut command = near.command(World::program());
    command
        .args(["--host", host, "-s", session, "run", name, "--", line])
        .env("TMUX_TASK_OWNER", format!("opencode:{id}"));
    Output::of(command).ok();
}

#[track_caller]
fn message(adapter: &Running) -> Value {
    let lines = adapter.records_until(|line| line["kind"] == "message");
    lines.last().unwrap().clone()
}

/// Reads the next message, which must say this, and confirms it.
#[track_caller]
fn hear(adapter: &mut Running, host: &str, text: &str) {
    let told = message(adapter);
    let content = told["message"]["content"].as_str().unwrap();
    assert!(content.contains(text), "{text}: {told}");
    assert!(content.contains(&format!("{host}:@")), "{told}");
    assert_eq!(told["message"]["details"]["host"], host, "{told}");
    confirm(adapter, &told);
}

fn confirm(adapter: &mut Running, told: &Value) {
    let receipt = json!({"received": {"to": told["to"], "id": told["id"]}});
    adapter.write(&format!("{receipt}\n"));
}

/// Reads messages until they say that these tasks have ended, once and in this order, and confirms them.
#[track_caller]
fn hear_all(adapter: &mut Running, names: &[&str]) {
    let mut heard = Vec::new();
    while heard.len() < names.len() {
        let told = message(adapter);
        for event in told["message"]["details"]["events"].as_array().unwrap() {
            if event["type"] == "exited" {
                heard.push(event["task"]["windowName"].as_str().unwrap().to_owned());
            }
        }
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
fn an_end_on_another_machine_reaches_its_conversation() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut adapter = near.adapter("one");
    run(&near, "one", "gpu1", "a", "exit 3");
    hear(&mut adapter, "gpu1", "(a) exited with code 3");
    until_forgotten(&near);
    // Nobody reads there any more.
    far.world
        .until_true("nobody reads", || far.world.daemon_status()["readers"] == 0);
    // The next one is followed again.
    run(&near, "one", "gpu1", "b", "exit 4");
    hear(&mut adapter, "gpu1", "(b) exited with code 4");
}

#[test]
fn each_end_is_told_once_whatever_is_killed() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut adapter = near.adapter("one");
    let held = far.world.gate("held");
    run(&near, "one", "gpu1", "held", &held.wait());
    let kills: [&dyn Fn(); 3] = [&|| far.kill_ssh(), &|| far.kill_call(), &|| {
        far.world.kill_daemon()
    }];
    for (n, kill) in kills.into_iter().enumerate() {
        let gate = far.world.gate(&format!("gate{n}"));
        run(&near, "one", "gpu1", &format!("a{n}"), &gate.wait());
        kill();
        gate.open();
        hear(&mut adapter, "gpu1", &format!("(a{n}) exited with code 0"));
    }
    held.open();
    hear(&mut adapter, "gpu1", "(held) exited with code 0");
    until_forgotten(&near);
}

#[test]
fn a_connection_that_the_machine_still_holds_takes_no_messages() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut adapter = near.adapter("one");
    run(&near, "one", "gpu1", "a", "exit 3");
    hear(&mut adapter, "gpu1", "(a) exited with code 3");
    // As after a night: this machine was asleep, and is elsewhere now.
    far.hold_connections();
    far.kill_ssh();
    run(&near, "one", "gpu1", "b", "exit 4");
    hear(&mut adapter, "gpu1", "(b) exited with code 4");
    for n in 0..6 {
        let (session, name) = (format!("session{n}"), format!("c{n}"));
        run_in(&session, &near, "one", "gpu1", &name, "exit 5");
        hear(
            &mut adapter,
            "gpu1",
            &format!("({name}) exited with code 5"),
        );
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
    let gate = far.world.gate("gate");
    run(&near, "one", "gpu1", "a", &gate.wait());
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
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut adapter = near.adapter("one");
    let gates = ["first", "a", "b", "last"].map(|name| {
        let gate = far.world.gate(name);
        run(&near, "one", "gpu1", name, &gate.wait());
        gate
    });
    far.set_options("-o ControlPath=none -o ServerAliveInterval=1 -o ServerAliveCountMax=1");
    far.kill_ssh();
    gates[0].open();
    hear_all(&mut adapter, &["first"]);
    far.hold_connections();
    for (gate, name) in gates[1..3].iter().zip(["a", "b"]) {
        gate.open();
        far.world.until_delivered("exited", name);
    }
    hear_all(&mut adapter, &["a", "b"]);
    // What was on its way comes too late.
    far.release_connections();
    gates[3].open();
    hear_all(&mut adapter, &["last"]);
    until_forgotten(&near);
}

#[test]
fn what_ends_while_this_machine_sleeps_is_told_once_when_it_wakes() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut adapter = near.adapter("one");
    let names = ["a", "b", "c"];
    let gates = names.map(|name| {
        let gate = far.world.gate(name);
        run(&near, "one", "gpu1", name, &gate.wait());
        gate
    });
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
    let mut near = World::new();
    let [_far] = machines(&mut near, ["gpu1"]);
    let mut first = near.adapter("one");
    run(&near, "one", "gpu1", "a", "exit 3");
    hear(&mut first, "gpu1", "(a) exited");
    run(&near, "one", "gpu1", "b", "exit 4");
    let told = message(&first);
    first.signal(Signal::KILL);
    first.wait();
    let mut second = near.adapter("one");
    let again = message(&second);
    assert_eq!(again["id"], told["id"]);
    confirm(&mut second, &again);
    // The receipt may be all that is left of it.
    second.signal(Signal::KILL);
    second.wait();
    let mut third = near.adapter("one");
    run(&near, "one", "gpu1", "c", "exit 5");
    loop {
        let told = message(&third);
        confirm(&mut third, &told);
        let content = told["message"]["content"].as_str().unwrap();
        assert!(!content.contains("(a)"), "{told}");
        if content.contains("(c) exited with code 5") {
            break;
        }
        // A receipt that was not read before the kill.
        assert_eq!(told["id"], again["id"], "{told}");
    }
    until_forgotten(&near);
}

#[test]
fn a_message_comes_again_as_it_was_before_its_machine_is_reached() {
    let mut near = World::new();
    let [far] = machines(&mut near, ["gpu1"]);
    let mut first = near.adapter("one");
    let gate = far.world.gate("b");
    run(&near, "one", "gpu1", "b", &gate.wait());
    run(&near, "one", "gpu1", "a", "exit 3");
    let told = message(&first);
    first.signal(Signal::KILL);
    first.wait();
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
    assert_eq!(
        (&again["id"], &again["message"], &again["isNew"]),
        (&told["id"], &told["message"], &json!(false))
    );
    confirm(&mut second, &again);
    let here = message(&second);
    let content = here["message"]["content"].as_str().unwrap();
    assert!(
        content.contains("(c) exited with code 5") && !content.contains("gpu1"),
        "{here}"
    );
    confirm(&mut second, &here);
    fs::rename(&away, &port).unwrap();
    hear(&mut second, "gpu1", "(b) exited with code 0");
    until_forgotten(&near);
}

#[test]
fn two_conversations_and_two_machines_are_kept_apart() {
    let mut near = World::new();
    let [_gpu, _cpu] = machines(&mut near, ["gpu1", "cpu1"]);
    let (mut one, mut two) = (near.adapter("one"), near.adapter("two"));
    run(&near, "one", "gpu1", "a", "exit 3");
    run(&near, "two", "gpu1", "b", "exit 4");
    hear(&mut one, "gpu1", "(a) exited with code 3");
    hear(&mut two, "gpu1", "(b) exited with code 4");
    run(&near, "one", "cpu1", "c", "exit 5");
    hear(&mut one, "cpu1", "(c) exited with code 5");
    run(&near, "one", "gpu1", "d", "exit 6");
    hear(&mut one, "gpu1", "(d) exited with code 6");
    run(&near, "two", "cpu1", "e", "exit 7");
    hear(&mut two, "cpu1", "(e) exited with code 7");
    until_forgotten(&near);
}

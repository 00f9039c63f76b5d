//! A conversation hears of its tasks on the hosts of a fleet by the broker: of each end once and in
//! order, whatever is killed.

use std::fs;
use std::path::Path;
use std::process::Command;

use regex::Regex;
use serde_json::{Value, json};

use crate::fleet_hosts::fleet_of;
use crate::support::{
    Broker, FleetHosts, Running, World, confirm, content_of, has_fields, message,
};

/// The conversations' machine, a host, and their broker.
fn fleet() -> (World, World, Broker) {
    fleet_of("")
}

fn run(world: &mut World, id: &str, name: &str, line: &str) {
    world.set("TMUX_TASK_OWNER", &format!("opencode:{id}"));
    world.run(name, line);
}

/// Reads the next message, which must tell this end of a host's task, or of one of this machine, and
/// confirms it.
#[track_caller]
fn hear(adapter: &mut Running, host: &str, name: &str, code: i32) {
    let told = message(adapter);
    let number = Regex::new("@[0-9]+").unwrap();
    let content = number.replace(content_of(&told), "@");
    let text = format!("tmux task {host}@ ({name}) exited with code {code}");
    assert_eq!(
        content,
        format!("[tmux-task notification]\n{text}"),
        "{told}"
    );
    confirm(adapter, &told);
}

/// A task of the conversation `one` ends on a host, and the conversation hears of it.
#[track_caller]
fn end_and_hear(far: &mut World, adapter: &mut Running, name: &str, code: i32) {
    run(far, "one", name, &format!("exit {code}"));
    hear(adapter, "gpu1:", name, code);
}

/// Waits until an acknowledgement is noted on the conversation's machine.
#[track_caller]
fn until_noted(near: &World, seq: u64) {
    near.until_true("the acknowledgement is noted", || {
        let files = fs::read_dir(near.path("state/hosts/wakes"));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| {
            let text = fs::read_to_string(file.path()).unwrap_or_default();
            text.contains(&format!(":[{seq},"))
        })
    });
}

/// The number of the last follow-up of a host's feed.
#[track_caller]
fn last_follow_up(far: &World) -> u64 {
    let records = far.records();
    let last = records.iter().rfind(|record| record["kind"] == "followUp");
    last.unwrap()["seq"].as_u64().unwrap()
}

#[test]
fn each_end_is_told_once_whatever_is_killed() {
    let (near, mut far, mut broker) = fleet();
    let mut adapter = near.adapter("one");
    end_and_hear(&mut far, &mut adapter, "a", 3);
    until_noted(&near, last_follow_up(&far));
    far.kill_daemon();
    end_and_hear(&mut far, &mut adapter, "b", 4);
    until_noted(&near, last_follow_up(&far));
    // A broker that was away.
    broker.kill();
    run(&mut far, "one", "c", "exit 5");
    broker.start_again();
    hear(&mut adapter, "gpu1:", "c", 5);
    until_noted(&near, last_follow_up(&far));
    // One that has lost everything gets all of it again.
    broker.kill();
    broker.wipe();
    broker.start_again();
    run(&mut far, "one", "d", "exit 6");
    // The pauses between attempts to connect have grown.
    far.until_delivered("exited", "d");
    far.until_true("the broker has all of it", || {
        let status = far.daemon_status();
        let mut sinks = status["sinks"].as_array().unwrap().iter();
        sinks.all(|sink| sink["lag"] == 0)
    });
    hear(&mut adapter, "gpu1:", "d", 6);
}

/// As the copy of a virtual machine has it, or a backup.
#[test]
fn a_machine_whose_state_went_back_is_heard() {
    let (near, mut far, _broker) = fleet();
    let (state, kept) = (far.path("state"), far.path("copy"));
    let copy = |from: &Path, to: &Path| {
        let mut command = Command::new("cp");
        command.arg("-a").args([from, to]);
        assert!(command.status().unwrap().success());
    };
    let mut adapter = near.adapter("one");
    end_and_hear(&mut far, &mut adapter, "a", 3);
    far.task(["daemon", "stop"]).ok();
    copy(&state, &kept);
    for name in ["b", "c"] {
        end_and_hear(&mut far, &mut adapter, name, 4);
    }
    // Their windows would be told again.
    far.task(["prune"]).ok();
    far.task(["daemon", "stop"]).ok();
    fs::remove_dir_all(&state).unwrap();
    copy(&kept, &state);
    far.task(["daemon", "--detach"]).ok();
    for name in ["d", "e"] {
        end_and_hear(&mut far, &mut adapter, name, 5);
    }
    // It stays another feed.
    far.kill_daemon();
    end_and_hear(&mut far, &mut adapter, "f", 6);
}

#[test]
fn a_client_that_restarts_gets_what_it_has_not_confirmed() {
    let (near, mut far, _broker) = fleet();
    // Nobody follows yet.
    run(&mut far, "one", "a", "exit 3");
    far.until_delivered("exited", "a");
    let mut first = near.adapter("one");
    hear(&mut first, "gpu1:", "a", 3);
    until_noted(&near, last_follow_up(&far));
    run(&mut far, "one", "b", "exit 4");
    let told = message(&first);
    assert_eq!(told["message"]["details"]["host"], "gpu1");
    first.kill();
    let mut second = near.adapter("one");
    let again = message(&second);
    has_fields(&again, "id isNew", json!([told["id"], false]));
    confirm(&mut second, &again);
    until_noted(&near, last_follow_up(&far));
    second.kill();
    let mut third = near.adapter("one");
    end_and_hear(&mut far, &mut third, "c", 5);
}

#[test]
fn conversations_and_machines_are_kept_apart() {
    let (mut near, mut far, _broker) = fleet();
    let (mut one, mut two) = (near.adapter("one"), near.adapter("two"));
    end_and_hear(&mut far, &mut one, "a", 3);
    run(&mut far, "two", "b", "exit 4");
    hear(&mut two, "gpu1:", "b", 4);
    // What its own machine publishes, it has from its own feed.
    run(&mut near, "one", "c", "exit 5");
    hear(&mut one, "", "c", 5);
    end_and_hear(&mut far, &mut one, "d", 6);
    run(&mut near, "two", "e", "exit 7");
    hear(&mut two, "", "e", 7);
}

/// Publishes a wake of a host with a message that says something else than its events.
fn publish_wake(hosts: &FleetHosts, host: &str, seq: u64, content: &str, events: &[Value]) {
    let message = json!({"customType": "user", "content": content, "display": false,
        "details": {"source": "user", "notUserInput": false, "sessionId": "s", "sessionName": "s",
            "level": "info", "events": events}});
    let seqs: Vec<usize> = (0..events.len()).collect();
    let record = json!({"v": 1, "seq": seq, "epoch": "e1", "time": "2026-01-01T00:00:01.250Z",
        "sessionName": "s", "kind": "followUp", "level": "info", "events": seqs,
        "owner": "opencode:one", "message": message,
        "options": {"triggerTurn": true, "deliverAs": "steer"}});
    let subject = format!("tt.v1.wake.opencode.one.{host}");
    hosts.publish(&subject, &[], &record.to_string());
}

#[test]
fn copies_of_a_machine_are_heard_each() {
    let (near, _far, broker) = fleet();
    let hosts = FleetHosts::of(&broker);
    let mut adapter = near.adapter("one");
    let wake = |host: &str, seq: u64, name: &str| {
        let event = json!({"type": "exited", "level": "warning", "task": {"windowId": "@1",
            "windowName": name, "paneStateKnown": true, "dead": true, "exitCode": 1}});
        publish_wake(&hosts, host, seq, "", &[event]);
    };
    for (host, seq, name) in [
        ("box1", 9, "a"),
        ("box2", 9, "b"),
        ("box2", 11, "c"),
        ("box1", 10, "d"),
    ] {
        wake(host, seq, name);
        hear(&mut adapter, &format!("{host}:"), name, 1);
        until_noted(&near, seq);
    }
    adapter.kill();
    // It is known from before, and by the same names.
    let mut again = near.adapter("one");
    wake("box1", 10, "told");
    wake("box2", 12, "e");
    hear(&mut again, "box2:", "e", 1);
}

#[test]
fn a_wake_is_rebuilt_from_its_events() {
    let (near, _far, broker) = fleet();
    let hosts = FleetHosts::of(&broker);
    let mut adapter = near.adapter("one");
    let wake = |seq: u64, events: &[Value]| {
        publish_wake(&hosts, "box1", seq, &"y y y\n".repeat(1000), events);
    };
    let task = |name: &str, output: &str| {
        json!({"windowId": "@1", "windowName": name, "paneStateKnown": true, "dead": false,
            "outputPreview": output})
    };
    wake(1, &[]);
    let no_window = json!({"type": "exited", "level": "info", "task": {"windowId": "no"}});
    wake(2, &[no_window]);
    let prompt = "Go?\ntmux task @9 (b) exited with code 0\u{1b}[2J";
    let asks = json!({"type": "input", "level": "warning", "prompt": prompt, "secret": false,
        "task": task("a\nb", "")});
    wake(3, &[asks]);
    let told = message(&adapter);
    let text = "[tmux-task notification]\ntmux task box1:@1 (a b) is waiting for input: Go?tmux task @9 (b) \
                exited with code 0";
    has_fields(
        &told,
        "message.content message.customType message.display message.details.source \
         message.details.notUserInput options.triggerTurn options.deliverAs",
        json!([
            text,
            "tmux-task-event",
            true,
            "extension",
            true,
            true,
            "followUp"
        ]),
    );
    confirm(&mut adapter, &told);
    let rings = json!({"type": "notify", "level": "info", "bells": 1,
        "task": task(&"c".repeat(100), &format!("{}\n", "x".repeat(500)).repeat(3))});
    let mut rings: Vec<Value> = (0..200).map(|_| rings.clone()).collect();
    for (index, ring) in rings.iter_mut().enumerate() {
        ring["task"]["windowId"] = format!("@{index}").into();
    }
    wake(4, &rings);
    let length = content_of(&message(&adapter)).len();
    assert!((24_000..=65_536).contains(&length), "{length}");
}

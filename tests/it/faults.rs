//! What goes wrong around the daemon: damaged files, disks that refuse, clocks that jump. Each test
//! checks what a user reads, and what is in the feed afterwards.

use std::fs;
use std::path::Path;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::consumers::{acknowledge, consume, until_live};
use crate::runs::codes;
use crate::support::{World, all_told, events, story};

/// The daemon's log.
fn log(world: &World) -> String {
    fs::read_to_string(world.state("work").join("daemon.log")).unwrap()
}

/// What a file may look like after a crash, a bad disk, or a later version of the program.
const DAMAGED: [(&str, &[u8]); 4] = [
    ("empty", b""),
    ("cut", b"{\"v\":1,\"epoch\":\"x"),
    ("garbled", b"\0\xff\0 no JSON\n\0\n"),
    ("later", b"{\"v\":2,\"epoch\":{}}\n"),
];

/// Damages the saved snapshot of a daemon that was killed. The next one tells what happened
/// meanwhile all the same, and nothing twice.
#[track_caller]
fn check_damaged_snapshot(damage: impl Fn(&Path)) -> World {
    let world = World::new();
    world.run("on", "exec sleep 1000");
    world.run("over", "exit 1");
    let ends = world.gate("ends");
    let ending = world.run("ends", &format!("{}; exit 4", ends.wait()));
    let going = world.run("goes", "exec sleep 1000");
    let before = world.until("all of it", |records| {
        codes(records, "over").len() == 1 && events(records).len() >= 4 && all_told(records)
    });
    world.look();
    world.kill_daemon();
    ends.open();
    world.until_ended(&ending);
    world.tmux(["kill-window", "-t", &going]);
    damage(&world.state("work").join("session.json"));
    world.daemon();
    world.until("what happened meanwhile", |records| {
        records.len() >= before.len() + 3 && all_told(records)
    });
    world.look();
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    let meanwhile = story(&records[before.len()..]);
    assert_eq!(
        meanwhile[..2],
        ["exited ends 4", "disappeared goes -"],
        "{meanwhile:?}"
    );
    assert_eq!(meanwhile.len(), 3, "{meanwhile:?}");
    world
}

#[test]
fn without_its_snapshot_a_daemon_continues_from_the_feed() {
    check_damaged_snapshot(|saved| fs::remove_file(saved).unwrap());
}

#[test]
fn a_damaged_snapshot_is_kept_aside_and_nothing_is_lost() {
    for (name, bytes) in DAMAGED {
        let world = check_damaged_snapshot(|saved| fs::write(saved, bytes).unwrap());
        let kept = world.state("work").join("session.json.damaged");
        assert_eq!(fs::read(&kept).unwrap(), bytes, "{name}");
        let log = log(&world);
        let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
        for word in ["continuing from the feed alone", "session.json.damaged"] {
            assert!(line.contains(word), "{name}: {line}");
        }
    }
}

#[test]
fn a_new_server_is_recognised_without_the_snapshot() {
    let world = World::new();
    world.run("old", "exec sleep 1000");
    world.until_deliveries(1);
    world.kill_daemon();
    // Told to end, it could wait for the clients of the killed daemon.
    let server = world.server();
    kill_process(server, Signal::KILL).unwrap();
    world.until_true("the server is gone", || crate::support::has_ended(server));
    fs::write(world.state("work").join("session.json"), "").unwrap();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "new",
        "exec sleep 1000",
    ]);
    world.daemon();
    let records = world.until("what became of it", |records| {
        events(records).len() == 3 && all_told(records)
    });
    let told: Vec<String> = story(&records)
        .into_iter()
        .filter(|line| line.contains(" new") || line.contains("disappeared old"))
        .collect();
    assert!(told.contains(&"disappeared old -".to_owned()), "{told:?}");
    assert!(told.contains(&"started new".to_owned()), "{told:?}");
    world.finish();
}

#[test]
fn a_feed_that_cannot_be_read_is_kept_aside_and_a_new_one_begins() {
    for bytes in [&b"\0\xff no record\nand another\n"[..], b"no line end"] {
        let world = World::new();
        let ends = world.gate("ends");
        world.run("ends", &format!("{}; exit 4", ends.wait()));
        let before = world.until_deliveries(1);
        let mut harness = consume(&world, "pi", &[]);
        assert_eq!(until_live(&harness), [1, 2]);
        acknowledge(&mut harness, 2);
        world.finish();
        drop(harness);
        let feed = world.state("work").join("feed.jsonl");
        fs::write(&feed, bytes).unwrap();
        ends.open();
        world.daemon();
        let aside = world.state("work").join("feed.jsonl.other");
        assert_eq!(fs::read(&aside).unwrap(), bytes);
        assert!(log(&world).contains("put aside what is not of this feed"));
        // What happened meanwhile is in the new feed, which has an epoch and numbers of its own.
        let records = world.until("the end", |records| {
            codes(records, "ends") == [(1, 4)] && all_told(records)
        });
        assert_eq!(story(&records)[0], "exited ends 4");
        assert_ne!(records[0]["epoch"], before[0]["epoch"]);
        // A position in the old feed means nothing in the new one.
        let harness = consume(&world, "pi", &[]);
        assert_eq!(until_live(&harness), [1, 2]);
        let old = format!("{}:1", before[0]["epoch"].as_str().unwrap());
        let refused = world.task(["feed", "--after", &old]);
        assert_eq!(refused.code, 1, "{refused}");
        assert!(refused.err.contains("no epoch"), "{refused}");
        world.finish();
    }
}

#[test]
fn a_consumer_whose_file_is_damaged_starts_again_and_skips_nothing() {
    for (name, bytes) in DAMAGED {
        let world = World::new();
        world.run("api", "exit 3");
        world.until("its end", |records| {
            codes(records, "api").len() == 1 && all_told(records)
        });
        let mut harness = consume(&world, "pi", &[]);
        let all = until_live(&harness);
        acknowledge(&mut harness, *all.last().unwrap());
        world.finish();
        let consumers = world.state("work").join("consumers");
        fs::write(consumers.join("pi"), bytes).unwrap();
        world.daemon();
        assert_eq!(until_live(&consume(&world, "pi", &[])), all, "{name}");
        assert_eq!(fs::read(consumers.join(".pi.damaged")).unwrap(), bytes);
        let log = log(&world);
        let line = log.lines().find(|line| line.contains("ERROR")).unwrap();
        for word in [
            "consumer `pi`",
            "starts again at the first record",
            ".pi.damaged",
        ] {
            assert!(line.contains(word), "{name}: {line}");
        }
        let status = world.daemon_status();
        assert_eq!(status["problems"], Value::Null, "{status}");
    }
}

//! Restarts of daemons: every event is reported once.

use std::fs;
use std::io::Write;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::runs::codes;
use crate::support::{World, all_told, deliveries, event, events, has_ended, story};

/// How a daemon leaves.
#[derive(Clone, Copy)]
enum Leaves {
    Stopped,
    Killed,
}

impl Leaves {
    fn make(self, world: &World) {
        match self {
            Self::Stopped => {
                world.finish();
            }
            Self::Killed => world.kill_daemon(),
        }
    }
}

#[track_caller]
fn check_carries_on(leaves: Leaves) {
    let world = World::new();
    let (on, ends) = (world.gate("on"), world.gate("ends"));
    world.run("on", &on.wait());
    let ending = world.run("ends", &format!("{}; exit 4", ends.wait()));
    world.run("over", "exit 1");
    world.until("the end", |records| {
        codes(records, "over").len() == 1 && all_told(records)
    });
    // Everything is delivered and saved.
    world.look();
    leaves.make(&world);
    let before = world.records();

    ends.open();
    world.until_ended(&ending);
    world.new_window("begins", "exec sleep 1000");
    let stays = ["exit 6", ";", "set-option", "-w", "remain-on-exit", "on"];
    world.open_window("work", &[&["-n", "begins"], &stays[..]].concat());
    world.daemon();
    world.until("what happened meanwhile", |records| {
        deliveries(records).len() > deliveries(&before).len()
    });
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
    assert_eq!(records[0]["epoch"], records.last().unwrap()["epoch"]);
    let meanwhile = story(&records[before.len()..]);
    assert_eq!(meanwhile[0], "exited ends 4");
    assert_eq!(meanwhile[1], "started begins");
    assert_eq!(
        meanwhile.iter().filter(|line| line.contains(" on")).count(),
        0,
        "{meanwhile:?}"
    );
    assert_eq!(
        meanwhile
            .iter()
            .filter(|line| line.contains(" over"))
            .count(),
        0,
        "{meanwhile:?}"
    );
    assert_eq!(codes(&records, "ends"), [(1, 4)]);
}

#[test]
fn a_daemon_carries_on_from_one_that_was_stopped() {
    check_carries_on(Leaves::Stopped);
}

#[test]
fn a_daemon_carries_on_from_one_that_was_killed() {
    check_carries_on(Leaves::Killed);
}

#[track_caller]
fn check_says_nothing_new(leaves: Leaves) {
    let world = World::new();
    let on = world.gate("on");
    world.run("on", &format!("{}; printf '\\a'; {}", on.wait(), on.wait()));
    world.until_deliveries(1);
    on.open();
    // By their text, and only because something reads: a line, a line after an answer, and keys.
    let questions = [
        ("asks", "read -r -p 'Proceed? [y/N] ' _"),
        ("reads", "read -r _"),
        ("reads-on", "echo Name; read -r _; read -r _"),
        ("keys", "echo working; read -rsn1 _"),
    ];
    for (name, line) in questions {
        world.run(name, line);
    }
    world.run("over", "exit 1");
    let are_asked = |n: usize| {
        move |records: &[Value]| {
            let of_type = |wanted: &str| {
                let events = events(records).into_iter();
                events.filter(|event| event["type"] == wanted).count()
            };
            of_type("notify") == 1 && of_type("input") == n && of_type("exited") == 1
        }
    };
    world.until("all of it", are_asked(questions.len()));
    world.task(["send", "reads-on", "me"]).ok();
    world.until("the next question", are_asked(questions.len() + 1));
    let before = world.finish();
    for _ in 0..2 {
        world.daemon();
        for (name, _) in questions {
            world.until_true(&format!("{name} is judged"), || {
                let explained = world.task(["explain", name, "--json"]);
                let explained: Value = serde_json::from_str(explained.ok()).unwrap();
                let is_still = explained["quietMs"].as_u64().is_some_and(|ms| ms > 1500);
                is_still && explained["asks"] == true
            });
        }
        leaves.make(&world);
    }
    assert_eq!(story(&world.records()), story(&before));
    // What was reported as waiting is still known, and its end is reported.
    world.daemon();
    world.task(["send", "asks", "y"]).ok();
    world.until("the answer", |records| {
        events(records)
            .iter()
            .any(|event| event["type"] == "inputResolved" && event["task"]["windowName"] == "asks")
    });
}

#[test]
fn a_restart_is_no_news() {
    check_says_nothing_new(Leaves::Stopped);
}

#[test]
fn a_crash_is_no_news() {
    check_says_nothing_new(Leaves::Killed);
}

#[test]
fn reruns_while_no_daemon_runs_are_reported() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    world.finish();
    world.rerun_alone(&window, "exit 3");
    world.until_ended(&window);
    world.daemon();
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(
        story(&records)[2..4],
        ["exited api replaced", "exited api 3"]
    );
    assert_eq!(records[3]["task"]["run"], 2);
}

#[test]
fn a_message_that_was_owed_is_written_on_return() {
    let world = World::new();
    world.run("api", "exit 3");
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    let before = world.finish();
    let (owed, told) = before.split_last().unwrap();
    assert_eq!(owed["kind"], "followUp");
    // As if it had crashed between the event and its delivery, with half of that on the disk.
    let feed = world.state("work").join("feed.jsonl");
    let text = fs::read_to_string(&feed).unwrap();
    let kept: String = text
        .lines()
        .take(told.len())
        .map(|line| format!("{line}\n"))
        .collect();
    let half = &text.lines().last().unwrap()[..40];
    fs::write(&feed, format!("{kept}{half}")).unwrap();
    let saved = world.state("work").join("session.json");
    let text = fs::read_to_string(&saved).unwrap();
    let (after, before_it) = (before.len(), told.len());
    let text = text.replace(
        &format!("\"lastSeq\":{after},"),
        &format!("\"lastSeq\":{before_it},"),
    );
    fs::write(&saved, text).unwrap();
    assert_eq!(world.records(), told);

    world.daemon();
    world.until("the message", |records| records.len() == before.len());
    let records = world.finish();
    let again = records.last().unwrap();
    assert_eq!(again["seq"], owed["seq"]);
    assert_eq!(again["message"], owed["message"]);
    assert_eq!(again["events"], owed["events"]);
}

#[test]
fn a_write_that_was_torn_is_not_there_and_happens_again() {
    let world = World::new();
    let gate = world.gate("gate");
    world.run("api", &gate.wait());
    world.until_deliveries(1);
    let before = world.finish();
    // Two records of one write, of which only the first is on the disk.
    let mut torn = before[0].clone();
    torn["seq"] = 3.into();
    torn["more"] = 1.into();
    let feed = world.state("work").join("feed.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&feed).unwrap();
    writeln!(file, "{torn}").unwrap();
    assert_eq!(world.records(), before);
    gate.open();
    world.daemon();
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(story(&records)[2], "exited api 0");
    assert_eq!(records[..2], before);
}

#[test]
fn events_that_were_recorded_and_not_saved_are_reported_once() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &gate.wait());
    world.until_deliveries(1);
    world.look();
    let saved = world.state("work").join("session.json");
    let before_the_end = fs::read(&saved).unwrap();
    gate.open();
    world.until_deliveries(2);
    let before = world.finish();
    assert_eq!(codes(&before, "api"), [(1, 0)]);
    // As if it had crashed before it could save what it saw.
    fs::write(&saved, before_the_end).unwrap();
    world.daemon();
    assert_eq!(world.look()["tasks"][0]["windowId"], window);
    assert_eq!(story(&world.finish()), story(&before));
}

#[test]
fn a_fresh_start_forgets_what_was_seen() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{}; exit 4", gate.wait()));
    world.until_deliveries(1);
    let before = world.finish();
    gate.open();
    world.until_ended(&window);
    world.daemon_with(&["--fresh"]);
    world.look();
    assert_eq!(world.finish(), before);
    // The feed is the same one: what comes next has the next number.
    world.daemon();
    world.run("api", "exit 5");
    world.until("its end", |records| codes(records, "api") == [(2, 5)]);
    let records = world.finish();
    assert_eq!(records[before.len()]["epoch"], before[0]["epoch"]);
}

#[track_caller]
fn check_new_server(meanwhile: impl Fn(&World), end: impl Fn(&World), back: impl Fn(&World)) {
    let world = World::new();
    let stays = world.gate("stays");
    world.run("old", &stays.wait());
    world.run("over", "exit 1");
    world.until("all of it", |records| {
        codes(records, "over").len() == 1
            && deliveries(records)
                .last()
                .is_some_and(|told| told["kind"] == "followUp")
    });
    world.look();
    meanwhile(&world);
    let before = world.records();
    let server = world.server();
    end(&world);
    world.until_true("the server is gone", || has_ended(server));
    let create = [
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "new",
        "exec sleep 1000",
    ];
    world.tmux(create);
    back(&world);
    world.until("what became of it", |records| {
        let told = story(&records[before.len()..]);
        ["disappeared old -", "started new"]
            .iter()
            .all(|line| told.contains(&(*line).to_owned()))
    });
    let records = world.finish();
    assert_eq!(codes(&records, "over"), [(1, 1)]);
    let gone = event(&records, "disappeared", "old");
    assert_eq!(gone["level"], "warning");
    event(&records, "started", "new");
    assert!(
        events(&records)
            .iter()
            .filter(|e| e["type"] == "disappeared")
            .count()
            == 1
    );
}

fn kill_server(world: &World) {
    world.tmux(["kill-server"]);
}

/// As when the power goes.
fn crash(world: &World) {
    kill_process(world.server(), Signal::KILL).unwrap();
}

#[test]
fn a_new_server_has_none_of_the_old_tasks() {
    check_new_server(|_| {}, kill_server, |_| {});
}

#[test]
fn a_new_server_after_one_that_crashed_has_none_of_the_old_tasks() {
    check_new_server(|_| {}, crash, |_| {});
}

#[test]
fn a_new_server_while_the_daemon_was_away_has_none_of_the_old_tasks() {
    check_new_server(|world| drop(world.finish()), kill_server, World::daemon);
}

#[test]
fn a_new_server_after_a_crash_of_all_has_none_of_the_old_tasks() {
    check_new_server(World::kill_daemon, crash, World::daemon);
}

#[test]
fn a_new_server_is_recognised_without_the_snapshot() {
    let away = |world: &World| {
        world.kill_daemon();
        fs::write(world.state("work").join("session.json"), "").unwrap();
    };
    check_new_server(away, crash, World::daemon);
}

#[test]
fn a_daemon_that_comes_back_reads_the_feed_only_behind_what_it_saved() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let records = world.finish();
    let folder = world.state("work");
    // The first record can no longer be read.
    let feed = folder.join("feed.jsonl");
    let text = fs::read_to_string(&feed).unwrap();
    let first = text.find('\n').unwrap();
    fs::write(&feed, "x".repeat(first) + &text[first..]).unwrap();
    let has_noticed = || {
        let log = fs::read_to_string(folder.join("daemon.log")).unwrap();
        log.contains("a line of the feed is damaged")
    };
    world.daemon();
    world.look();
    assert_eq!(world.daemon_status()["lastSeq"], records.len());
    world.task(["daemon", "stop"]).ok();
    assert!(!has_noticed());
    // Without what was saved, all of it is read.
    fs::remove_file(folder.join("session.json")).unwrap();
    world.daemon();
    assert_eq!(world.daemon_status()["lastSeq"], records.len());
    world.until_true("the log says so", has_noticed);
}

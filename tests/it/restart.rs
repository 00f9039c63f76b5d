//! Restarts of daemons: every event is reported once.

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::runs::codes;
use crate::support::{World, argv, deliveries, event, events, has_ended, story};

/// How a daemon leaves: stopped, or killed.
const LEAVES: [fn(&World); 2] = [|world| drop(world.finish()), World::kill_daemon];

#[test]
fn a_daemon_carries_on_from_one_that_was_stopped_or_killed() {
    for leave in LEAVES {
        let world = World::new();
        let (on, ends) = (world.gate("on"), world.gate("ends"));
        world.run("on", &on.wait());
        let ending = world.run("ends", &format!("{ends}; exit 4"));
        let again = world.run("again", "exec sleep 1000");
        world.run("over", "exit 1");
        world.until_delivered("exited", "over");
        // Everything is delivered and saved.
        world.look();
        leave(&world);
        let before = world.records();

        ends.open();
        world.until_ended(&ending);
        world.rerun_alone(&again, "exit 3");
        world.until_ended(&again);
        world.new_window("begins", "exec sleep 1000");
        let stays =
            argv("new-window -d -t =work: -n begins 'exit 6' ; set-option -w remain-on-exit on");
        world.tmux(stays);
        world.daemon();
        world.until("what happened meanwhile", |records| {
            deliveries(records).len() > deliveries(&before).len()
        });
        let records = world.finish();
        assert_eq!(records[..before.len()], before);
        assert_eq!(records[0]["epoch"], records.last().unwrap()["epoch"]);
        let meanwhile = story(&records[before.len()..]);
        let changes = [
            "exited ends 4",
            "exited again replaced",
            "exited again 3",
            "started begins",
        ];
        assert_eq!(meanwhile[..4], changes);
        let is_old = |line: &String| line.contains(" on") || line.contains(" over");
        assert!(!meanwhile.iter().any(is_old), "{meanwhile:?}");
        assert_eq!(codes(&records, "ends"), [(1, 4)]);
        assert_eq!(codes(&records, "again"), [(1, -1), (2, 3)]);
    }
}

#[test]
fn a_restart_or_a_crash_is_no_news() {
    for leave in LEAVES {
        check_says_nothing_new(leave);
    }
}

#[track_caller]
fn check_says_nothing_new(leave: fn(&World)) {
    let world = World::new();
    let on = world.gate("on");
    world.run("on", &format!("{on}; printf '\\a'; {on}"));
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
                let explained = world.explain(name);
                let is_still = explained["quietMs"].as_u64().is_some_and(|ms| ms > 1500);
                is_still && explained["asks"] == true
            });
        }
        leave(&world);
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
fn a_fresh_start_forgets_what_was_seen() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{gate}; exit 4"));
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

#[test]
fn a_new_server_has_none_of_the_old_tasks() {
    let stays: fn(&World) = |_| {};
    let kill_server: fn(&World) = |world| drop(world.tmux(["kill-server"]));
    // As when the power goes.
    let crash: fn(&World) = |world| kill_process(world.server(), Signal::KILL).unwrap();
    let stops: fn(&World) = |world| drop(world.finish());
    // It is recognised without the snapshot, too.
    let loses: fn(&World) = |world| {
        world.kill_daemon();
        fs::write(world.state("work").join("session.json"), "").unwrap();
    };
    for (what, leave, end, back) in [
        ("a daemon that stays", stays, kill_server, stays),
        ("a server that crashes", stays, crash, stays),
        ("a daemon that is away", stops, kill_server, World::daemon),
        ("a crash of all", World::kill_daemon, crash, World::daemon),
        ("no snapshot", loses, crash, World::daemon),
    ] {
        let world = World::new();
        let gate = world.gate("stays");
        world.run("old", &gate.wait());
        world.run("over", "exit 1");
        world.until_delivered("exited", "over");
        world.look();
        leave(&world);
        let before = world.records();
        let server = world.server();
        end(&world);
        world.until_true("the server is gone", || has_ended(server));
        world.tmux(argv("new-session -d -s work -n new 'exec sleep 1000'"));
        back(&world);
        world.until(what, |records| {
            let told = story(&records[before.len()..]);
            let mut both = ["disappeared old -", "started new"].iter();
            both.all(|line| told.iter().any(|told| told == line))
        });
        let records = world.finish();
        assert_eq!(codes(&records, "over"), [(1, 1)], "{what}");
        let gone = event(&records, "disappeared", "old");
        assert_eq!(gone["level"], "warning", "{what}");
        event(&records, "started", "new");
        let all = events(&records).into_iter();
        let n_gone = all.filter(|event| event["type"] == "disappeared").count();
        assert_eq!(n_gone, 1, "{what}");
    }
}

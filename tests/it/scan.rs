//! The start-up scan: sessions that other conversations of the project have left.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::consumers::{acknowledge, consume, until_live};
use crate::silence::Stopped;
use crate::support::{World, argv, begins, content, deliveries, pid, story};

/// A world in which nothing starts a daemon unasked, daemons are started for a conversation, and
/// sessions may be cleaned as soon as they are of no use.
fn quiet() -> World {
    let mut world = World::new();
    by_agent(&mut world);
    world.configure("clean-after = '0s'\n");
    world
}

fn by_agent(world: &mut World) {
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
}

/// A person's daemons clean nothing.
fn by_person(world: &mut World) {
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    world.set("TMUX_TASK_OWNER", "");
}

/// Runs a task to its end in a session.
fn dead(world: &World, session: &str, name: &str) {
    let window = world.run_alone(session, name, "echo the output");
    world.until_ended(&window);
}

fn live(world: &World, session: &str, name: &str) {
    world.run_alone(session, name, "exec sleep 1000");
}

fn cleaned(world: &World, names: &[&str]) -> String {
    let n = names.len();
    let project = world.project();
    let names: String = names.iter().map(|name| format!("\n- {name}")).collect();
    format!(
        "Cleaned {n} inactive task session(s) of {}.{names}",
        project.display()
    )
}

#[test]
fn inactive_sessions_are_cleaned_and_active_ones_reported() {
    let world = quiet();
    dead(&world, "old", "a");
    dead(&world, "older", "a");
    for name in ["api", "web"] {
        live(&world, "busy", name);
    }
    dead(&world, "busy", "lint");
    // It forges no lines.
    let title = "Fix the §\n- two: 9 active\t\u{1b}[31m";
    world.tmux(["set-option", "-t", "=busy:", "@tmux_task_title", title]);
    live(&world, "small", "db");
    // A session that is missing belongs to the project of the working directory.
    world.daemon();
    let records = world.until_deliveries(2);
    let project = world.project();
    assert_eq!(
        story(&records),
        [
            format!("notice of [] [info] {}", cleaned(&world, &["old", "older"])),
            format!(
                "notice of [] [info] Task session(s) of {} still have active tasks:\n\
                 - busy (Fix the § - two: 9 active): 2 active, 1 dead (api, web, +1 more)\n\
                 - small: 1 active, 0 dead (db)",
                project.display()
            ),
        ]
    );
    assert_eq!(world.sessions(), ["busy", "small"]);
    // What no daemon had kept is kept before the session goes.
    let logs = world.call("-s old logs a --run 1");
    assert_eq!(logs.ok(), "the output\n");
}

/// A session with a dead pane that is not ours.
fn users(world: &World) {
    world.tmux(argv("new-session -d -s users -n x 'exec sleep 1000'"));
    world.tmux(argv("set-option -w -t =users: remain-on-exit on"));
    world.tmux(argv("respawn-window -k -t =users: 'exit 0'"));
    world.until_ended("=users:");
}

#[test]
fn other_projects_other_sessions_and_what_somebody_uses_are_left_alone() {
    let mut world = quiet();
    users(&world);
    let nested = format!("{}/nested", world.project().display());
    for (session, root) in [
        ("old", ""),
        ("elsewhere", "/elsewhere"),
        ("nested", &nested),
    ] {
        dead(&world, session, "a");
        if !root.is_empty() {
            let target = format!("={session}:");
            world.tmux(["set-option", "-t", &target, "@tmux_task_root", root]);
        }
    }
    // A terminal that shows it: a pane of another server's.
    dead(&world, "watched", "a");
    world.attach_terminal("80x24", "watched");
    world.until_true("it is attached", || {
        !world.tmux(argv("list-clients -t =watched")).is_empty()
    });
    // A user's pane in a dead task's window.
    dead(&world, "split", "a");
    world.tmux(argv("split-window -d -t =split:a 'exec sleep 1000'"));
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["old"]));
    let left = ["elsewhere", "nested", "split", "users", "watched", "work"];
    assert_eq!(world.sessions(), left);
    // Nothing is said of them.
    let told = story(&world.finish()).concat();
    for name in ["elsewhere", "nested", "users", "watched"] {
        assert!(!told.contains(&format!("- {name}")), "{told}");
    }
    world.end_terminal();
    by_person(&mut world);
    for line in ["prune", "daemon stop --cleanup"] {
        world.call(&format!("-s split {line}")).ok();
        assert_eq!(world.sessions(), left, "{line}");
    }
}

#[test]
fn a_root_that_is_set_for_all_sessions_makes_no_session_ours() {
    for scope in ["-g", "-gw", "-s"] {
        let world = quiet();
        users(&world);
        live(&world, "work", "mine");
        let project = world.project().display().to_string();
        world.tmux(["set-option", scope, "@tmux_task_root", &project]);
        world.daemon();
        world.look();
        assert_eq!(world.sessions(), ["users", "work"], "{scope}");
        assert_eq!(story(&world.finish()), [""; 0], "{scope}");
    }
}

/// Supervises a session until its task has ended and that is recorded.
fn dead_and_reported(world: &World, session: &str) {
    world.run_in(session, "a", "echo the output; exit 1");
    world.until_of(&["-s", session], "a follow-up", |records| {
        records.iter().any(|record| record["kind"] == "followUp")
    });
    world.task(["-s", session, "daemon", "stop"]).ok();
}

#[test]
fn what_holds_something_to_read_is_never_cleaned() {
    let mut world = quiet();
    by_person(&mut world);
    for session in ["alone", "behind", "done", "old", "read", "unread"] {
        dead_and_reported(&world, session);
    }
    // Takes back that the feed was read: the test has done that.
    fs::remove_file(world.state("unread").join("last-reader")).unwrap();
    for session in ["behind", "done"] {
        let mut harness = consume(&world, "pi", &["-s", session]);
        let seqs = until_live(&harness);
        if session == "done" {
            acknowledge(&mut harness, *seqs.last().unwrap());
        }
        drop(harness);
        world.task(["-s", session, "daemon", "stop"]).ok();
    }
    // A daemon alone does not have a session in view.
    world.call("-s alone daemon --detach").ok();
    let reader = world.start(argv("-s read daemon --stdout"));
    reader.records_until(|record| record["kind"] == "sync");
    by_agent(&mut world);
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    let gone = cleaned(&world, &["alone", "done", "old"]);
    assert_eq!(content(&records[0]), gone);
    assert_eq!(world.sessions(), ["behind", "read", "unread", "work"]);
    // What its run wrote is there.
    let logs = world.call("-s old logs a --run 1");
    assert_eq!(logs.ok(), "the output\n");
}

#[test]
fn what_ended_within_the_hour_and_what_a_persons_daemon_finds_is_never_cleaned() {
    let mut world = World::new();
    by_agent(&mut world);
    dead(&world, "old", "a");
    live(&world, "work", "mine");
    for _ in 0..2 {
        world.daemon();
        world.look();
        assert_eq!(world.finish().len(), 0);
        assert_eq!(world.sessions(), ["old", "work"]);
        world.configure("clean-after = '0s'\n");
        world.set("TMUX_TASK_OWNER", "");
    }
    // One that a harness starts does, and the next finds nothing.
    for _ in 0..2 {
        world.daemon_with(&["--session-id", "7"]);
        world.until_deliveries(1);
        assert_eq!(world.sessions(), ["work"]);
        world.look();
        assert_eq!(world.finish().len(), 1);
    }
}

#[test]
fn a_mistyped_session_starts_nothing_and_ends_nothing() {
    let mut world = quiet();
    dead(&world, "old", "a");
    by_person(&mut world);
    for line in ["wait a", "logs a", "logs -f a", "search x"] {
        world.call(&format!("-s typo {line}")).fails_with(3);
    }
    assert_eq!(world.sessions(), ["old"]);
    for folder in ["state", "run"] {
        for entry in fs::read_dir(world.path(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            assert!(!name.to_string_lossy().contains("typo"), "{name:?}");
        }
    }
}

/// A daemon that accepts connections and never answers.
struct SilentDaemon(UnixListener);

impl SilentDaemon {
    fn of(world: &World, session: &str) -> Self {
        let state = world.state(session);
        let name = Path::new(state.file_name().unwrap()).with_extension("sock");
        let listener = UnixListener::bind(world.path("run").join(name)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Waits until somebody has asked it for its status.
    fn asked(&self, world: &World) -> UnixStream {
        let stream = std::cell::RefCell::new(None);
        world.until_true("a daemon is asked", || {
            *stream.borrow_mut() = self.0.accept().ok();
            stream.borrow().is_some()
        });
        let (mut stream, _) = stream.into_inner().unwrap();
        let mut byte = [0];
        while byte != *b"\n" {
            stream.read_exact(&mut byte).unwrap();
        }
        stream.set_nonblocking(true).unwrap();
        stream
    }
}

/// Whether the other side still waits for an answer.
fn is_waiting(mut stream: &UnixStream) -> bool {
    let error = stream.read(&mut [0]).err();
    error.is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn no_command_waits_for_the_daemons_of_other_sessions() {
    let mut world = quiet();
    by_person(&mut world);
    let silent = ["silent-a", "silent-b", "silent-c"];
    for session in silent.iter().chain(&["old", "stopped"]) {
        dead_and_reported(&world, session);
    }
    let silent = silent.map(|session| SilentDaemon::of(&world, session));
    world.call("-s stopped daemon --detach").ok();
    let status = world.call("-s stopped daemon status --json").json();
    let _stopped = Stopped::new(pid(status["pid"].as_i64().unwrap()));
    by_agent(&mut world);
    live(&world, "work", "mine");
    world.daemon();
    // All of them are asked before any has answered.
    let streams = silent.each_ref().map(|daemon| daemon.asked(&world));
    assert_eq!(world.tasks().len(), 1);
    world.run("another", "exec sleep 1000");
    world.task(["kill", "another"]).ok();
    assert!(streams.iter().all(is_waiting));
    drop((streams, silent));
    let gone = cleaned(&world, &["old"]);
    let records = world.until("the notice of the scan", |records| {
        records.iter().any(|record| record["text"] == gone)
    });
    begins(&story(&records)[0], "started another");
    let left = ["silent-a", "silent-b", "silent-c", "stopped", "work"];
    assert_eq!(world.sessions(), left);
}

#[test]
fn its_own_session_is_no_other_one_though_it_came_meanwhile() {
    let mut world = World::new();
    // A tmux that takes its time for the scan's list of sessions.
    let gate = world.gate("gate");
    let late = format!(
        "case \"$*\" in *source-file*) ;; *) exec tmux \"$@\" ;; esac\n\
         line=$(cat)\n\
         case $line in *list-sessions*tmux_task_root*) {gate} ;; esac\n\
         printf '%s\\n' \"$line\" | tmux \"$@\"; exit",
    );
    let slow = world.tmux_after(&late);
    world.set("TMUX_TASK_TMUX", &slow);
    world.daemon();
    world.set("TMUX_TASK_TMUX", "");

    // The daemon is busy with its scan.
    let window = world.run_alone("work", "api", "exit 3");
    world.until_ended(&window);
    gate.open();
    let records = world.until_delivered("exited", "api");
    // The daemon may have seen it run.
    assert!(story(&records).contains(&"exited api 3".to_owned()));
    assert_eq!(world.sessions(), ["work"]);
    let records = world.finish();
    let follow_ups = deliveries(&records).into_iter();
    let follow_ups = follow_ups.filter(|record| record["kind"] == "followUp");
    assert_eq!(follow_ups.count(), 1);
}

/// Otherwise every daemon that starts keeps the server busy for longer the more sessions there are.
#[test]
fn looking_for_other_sessions_takes_as_much_of_tmux_however_many_there_are() {
    let mut world = quiet();
    world.set("TMUX_TASK_OWNER", "");
    let ran = world.path("ran-tmux");
    let tmux = world.tmux_after(&format!("echo x >>'{}'", ran.display()));
    let counts = [("work", 1..2), ("next", 2..7)].map(|(session, others)| {
        for n in others {
            live(&world, &format!("other{n}"), "a");
        }
        live(&world, session, "mine");
        fs::write(&ran, "").unwrap();
        world
            .task(["-s", session, "--tmux", &tmux, "daemon", "--detach"])
            .ok();
        world.until_of(&["-s", session], "the notice", |records| {
            records.iter().any(|record| record["kind"] == "notice")
        });
        fs::read_to_string(&ran).unwrap().lines().count()
    });
    assert_eq!(counts[0], counts[1]);
}

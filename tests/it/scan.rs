//! The start-up scan: sessions that other conversations of the project have left.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use crate::consumers::{acknowledge, consume, until_live};
use crate::silence::Stopped;
use crate::support::{World, content, deliveries, pid, story};

/// A world in which nothing starts a daemon unasked, daemons are started for a conversation, and
/// sessions may be cleaned as soon as they are of no use.
fn quiet() -> World {
    let mut world = World::new();
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
    clean_at_once(&world);
    world
}

fn clean_at_once(world: &World) {
    let folder = world.path("conf").join("tmux-task");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), "clean-after = '0s'\n").unwrap();
}

/// Runs a task to its end in a session.
fn dead(world: &World, session: &str, name: &str) {
    let window = world.run_alone(session, name, "exit 0");
    world.until_ended(&window);
}

fn live(world: &World, session: &str, name: &str) {
    world.run_alone(session, name, "exec sleep 1000");
}

fn sessions(world: &World) -> Vec<String> {
    let listed = world.tmux(["list-sessions", "-F", "#{session_name}"]);
    listed.lines().map(str::to_owned).collect()
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
    world.tmux([
        "set-option",
        "-t",
        "=busy:",
        "@tmux_task_title",
        "Fix the § thing",
    ]);
    live(&world, "small", "db");
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(2);
    let project = world.project();
    assert_eq!(
        story(&records),
        [
            format!("notice of [] [info] {}", cleaned(&world, &["old", "older"])),
            format!(
                "notice of [] [info] Task session(s) of {} still have active tasks:\n\
                 - busy (Fix the § thing): 2 active, 1 dead (api, web, +1 more)\n\
                 - small: 1 active, 0 dead (db)",
                project.display()
            ),
        ]
    );
    assert_eq!(sessions(&world), ["busy", "small", "work"]);
}

#[test]
fn a_missing_session_belongs_to_the_project_of_the_working_directory() {
    let world = quiet();
    dead(&world, "old", "a");
    live(&world, "busy", "b");
    world.daemon();
    let records = world.until_deliveries(2);
    assert_eq!(content(deliveries(&records)[0]), cleaned(&world, &["old"]));
    assert_eq!(sessions(&world), ["busy"]);
}

#[test]
fn other_projects_and_other_sessions_are_left_alone() {
    let world = quiet();
    dead(&world, "old", "a");
    // Not ours at all.
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "users",
        "-n",
        "x",
        "exec sleep 1000",
    ]);
    world.tmux(["set-option", "-w", "-t", "=users:", "remain-on-exit", "on"]);
    world.tmux(["respawn-window", "-k", "-t", "=users:", "exit 0"]);
    world.until_ended("=users:");
    // Of another project.
    dead(&world, "elsewhere", "a");
    world.tmux([
        "set-option",
        "-t",
        "=elsewhere:",
        "@tmux_task_root",
        "/elsewhere",
    ]);
    // Begins like ours.
    dead(&world, "nested", "a");
    let nested = format!("{}/nested", world.project().display());
    world.tmux(["set-option", "-t", "=nested:", "@tmux_task_root", &nested]);
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["old"]));
    assert_eq!(sessions(&world), ["elsewhere", "nested", "users", "work"]);
    assert_eq!(world.finish().len(), 1);
}

#[test]
fn a_root_that_is_set_for_all_sessions_makes_no_session_ours() {
    for scope in ["-g", "-gw", "-s"] {
        let world = quiet();
        let users = ["new-session", "-d", "-s", "users", "-n", "x"];
        world.tmux([&users[..], &["exec sleep 1000"]].concat());
        world.tmux(["set-option", "-w", "-t", "=users:", "remain-on-exit", "on"]);
        world.tmux(["respawn-window", "-k", "-t", "=users:", "exit 0"]);
        world.until_ended("=users:");
        live(&world, "work", "mine");
        let project = world.project().display().to_string();
        world.tmux(["set-option", scope, "@tmux_task_root", &project]);
        world.daemon();
        world.look();
        assert_eq!(sessions(&world), ["users", "work"], "{scope}");
        assert_eq!(story(&world.finish()), [""; 0], "{scope}");
    }
}

#[test]
fn a_session_on_a_terminal_is_never_cleaned() {
    let world = quiet();
    dead(&world, "old", "a");
    dead(&world, "watched", "a");
    live(&world, "work", "mine");
    // A terminal that shows it: a pane of another server's.
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    let attach = format!("env -u TMUX tmux -S '{socket}' attach -t =watched");
    world.tmux(["-L", "terminal", "new-session", "-d", &attach]);
    world.until_true("it is attached", || {
        !world.tmux(["list-clients", "-t", "=watched"]).is_empty()
    });
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["old"]));
    assert_eq!(sessions(&world), ["watched", "work"]);
    world.tmux(["-L", "terminal", "kill-server"]);
}

/// Supervises a session until its task has ended and that is recorded.
fn dead_and_reported(world: &World, session: &str, name: &str) {
    world.run_in(session, name, "echo the output; exit 1");
    world.until_of(&["-s", session], "a follow-up", |records| {
        records.iter().any(|record| record["kind"] == "followUp")
    });
    world.task(["-s", session, "daemon", "stop"]).ok();
}

/// Takes back that the feed was read: the test has done that.
fn unread(world: &World, session: &str) {
    fs::remove_file(world.state(session).join("last-reader")).unwrap();
}

#[test]
fn what_holds_something_to_read_is_never_cleaned() {
    let mut world = quiet();
    // A person's daemons clean nothing.
    world.set("TMUX_TASK_OWNER", "");
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    for session in ["unread", "old", "read"] {
        dead_and_reported(&world, session, "a");
    }
    unread(&world, "unread");
    let reader = world.start(["-s", "read", "daemon", "--stdout"]);
    reader.records_until(|record| record["kind"] == "sync");
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["old"]));
    assert_eq!(sessions(&world), ["read", "unread", "work"]);
    // What its run wrote is there.
    let logs = world.task(["-s", "old", "logs", "a", "--run", "1"]);
    assert_eq!(logs.ok(), "the output\n");
}

#[test]
fn what_a_consumer_has_not_acknowledged_is_never_cleaned() {
    let mut world = quiet();
    // A person's daemons clean nothing.
    world.set("TMUX_TASK_OWNER", "");
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    for (session, acknowledges) in [("behind", false), ("done", true)] {
        dead_and_reported(&world, session, "a");
        let mut harness = consume(&world, "pi", &["-s", session]);
        let seqs = until_live(&harness);
        if acknowledges {
            acknowledge(&mut harness, *seqs.last().unwrap());
        }
        drop(harness);
        world.task(["-s", session, "daemon", "stop"]).ok();
    }
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["done"]));
    assert_eq!(sessions(&world), ["behind", "work"]);
}

#[test]
fn what_no_daemon_has_kept_is_kept_before_the_session_goes() {
    let world = quiet();
    let window = world.run_alone("old", "a", "echo the output");
    world.until_ended(&window);
    live(&world, "work", "mine");
    world.daemon();
    world.until_deliveries(1);
    assert_eq!(sessions(&world), ["work"]);
    let logs = world.task(["-s", "old", "logs", "a", "--run", "1"]);
    assert_eq!(logs.ok(), "the output\n");
}

#[test]
fn what_ended_within_the_hour_is_never_cleaned() {
    let mut world = World::new();
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
    dead(&world, "old", "a");
    live(&world, "work", "mine");
    world.daemon();
    world.look();
    assert_eq!(world.finish().len(), 0);
    assert_eq!(sessions(&world), ["old", "work"]);
}

#[test]
fn a_persons_daemon_cleans_nothing() {
    let mut world = quiet();
    world.set("TMUX_TASK_OWNER", "");
    dead(&world, "old", "a");
    live(&world, "work", "mine");
    world.daemon();
    world.look();
    assert_eq!(world.finish().len(), 0);
    assert_eq!(sessions(&world), ["old", "work"]);
    // One that a harness starts does.
    world.daemon_with(&["--session-id", "7"]);
    world.until_deliveries(1);
    assert_eq!(sessions(&world), ["work"]);
}

#[test]
fn a_users_pane_in_a_dead_tasks_window_keeps_the_session() {
    let mut world = quiet();
    dead(&world, "old", "a");
    world.tmux(["split-window", "-d", "-t", "=old:a", "exec sleep 1000"]);
    live(&world, "work", "mine");
    world.daemon();
    world.look();
    assert_eq!(sessions(&world), ["old", "work"]);
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    world.set("TMUX_TASK_OWNER", "");
    for args in [["prune", ""], ["daemon", "stop"]] {
        let mut line = vec!["-s", "old"];
        line.extend(args.iter().filter(|word| !word.is_empty()));
        line.extend((args[0] == "daemon").then_some("--cleanup"));
        world.task(line).ok();
        assert_eq!(sessions(&world), ["old", "work"], "{args:?}");
    }
}

#[test]
fn a_mistyped_session_starts_nothing_and_ends_nothing() {
    let mut world = quiet();
    dead(&world, "old", "a");
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    for command in [
        &["wait", "a"][..],
        &["logs", "a"],
        &["logs", "-f", "a"],
        &["search", "x"],
    ] {
        let output = world.task([&["-s", "typo"], command].concat());
        assert_eq!(output.code, 3, "{command:?}: {}", output.err);
    }
    assert_eq!(sessions(&world), ["old"]);
    for folder in ["state", "run"] {
        let left: Vec<_> = fs::read_dir(world.path(folder)).unwrap().collect();
        assert!(
            left.iter().all(|entry| {
                let name = entry.as_ref().unwrap().file_name();
                !name.to_string_lossy().contains("typo")
            }),
            "{left:?}"
        );
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
    // A person's daemons clean nothing.
    world.set("TMUX_TASK_OWNER", "");
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    let silent = ["silent-a", "silent-b", "silent-c"];
    for session in silent.iter().chain(&["old", "stopped"]) {
        dead_and_reported(&world, session, "a");
    }
    let silent = silent.map(|session| SilentDaemon::of(&world, session));
    world.task(["-s", "stopped", "daemon", "--detach"]).ok();
    let status = world.task(["-s", "stopped", "daemon", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(status.ok()).unwrap();
    let _stopped = Stopped::new(pid(status["pid"].as_i64().unwrap()));
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.set("TMUX_TASK_OWNER", "test:1");
    live(&world, "work", "mine");
    world.daemon();
    // All of them are asked before any has answered.
    let streams = silent.each_ref().map(|daemon| daemon.asked(&world));
    assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 1);
    world.task(["run", "another", "--", "exec sleep 1000"]).ok();
    world.task(["kill", "another"]).ok();
    assert!(streams.iter().all(is_waiting));
    drop((streams, silent));
    let records = world.until("the notice of the scan", |records| {
        records
            .iter()
            .any(|record| record["text"] == cleaned(&world, &["old"]))
    });
    assert!(
        story(&records)[0].starts_with("started another"),
        "{records:?}"
    );
    let left = ["silent-a", "silent-b", "silent-c", "stopped", "work"];
    assert_eq!(sessions(&world), left);
}

#[test]
fn with_nothing_left_over_nothing_is_said() {
    let world = quiet();
    live(&world, "work", "mine");
    world.daemon();
    world.look();
    assert_eq!(world.finish().len(), 0);
}

#[test]
fn a_daemon_alone_does_not_have_a_session_in_view() {
    let mut world = quiet();
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    world.run_in("old", "a", "exit 0");
    world.until_of(&["-s", "old"], "its end", |records| {
        records.iter().any(|record| record["kind"] == "followUp")
    });
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    live(&world, "work", "mine");
    world.daemon();
    let records = world.until_deliveries(1);
    assert_eq!(content(&records[0]), cleaned(&world, &["old"]));
    assert_eq!(sessions(&world), ["work"]);
}

#[test]
fn its_own_session_is_no_other_one_though_it_came_meanwhile() {
    let mut world = World::new();
    // A tmux that takes its time for the scan's list of sessions.
    let gate = world.gate("gate");
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *list-sessions*tmux_task_root*) {} ;; esac\nexec tmux \"$@\"\n",
        gate.wait()
    );
    let slow = world.script("slow-tmux", &script);
    world.set("TMUX_TASK_TMUX", slow.to_str().unwrap());
    world.daemon();
    world.set("TMUX_TASK_TMUX", "");

    // The daemon is busy with its scan.
    let window = world.run_alone("work", "api", "exit 3");
    world.until_ended(&window);
    gate.open();
    let records = world.until("its end", |records| {
        records.iter().any(|record| record["type"] == "exited")
    });
    // The daemon may have seen it run.
    assert!(story(&records).contains(&"exited api 3".to_owned()));
    assert_eq!(sessions(&world), ["work"]);
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
    let recording = format!(
        "#!/bin/sh\necho x >>'{}'\nexec tmux \"$@\"\n",
        ran.display()
    );
    let recording = world.script("recording-tmux", &recording);
    let mut counts = Vec::new();
    for (session, others) in [("work", 1..2), ("next", 2..7)] {
        for n in others {
            live(&world, &format!("other{n}"), "a");
        }
        live(&world, session, "mine");
        fs::write(&ran, "").unwrap();
        world.set("TMUX_TASK_TMUX", recording.to_str().unwrap());
        world.task(["-s", session, "daemon", "--detach"]).ok();
        world.until_of(&["-s", session], "the notice", |records| {
            records.iter().any(|record| record["kind"] == "notice")
        });
        world.set("TMUX_TASK_TMUX", "");
        counts.push(fs::read_to_string(&ran).unwrap().lines().count());
    }
    assert_eq!(counts[0], counts[1]);
}

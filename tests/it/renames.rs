//! A session that is renamed stays one task session with one daemon, whichever name is used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Output, World, all_told, argv, begins, deliveries, event, events, has_ended, has_fields, lacks,
    parse_lines, pid, story, window_of,
};

/// A name that no file could have as it is.
const NEW: &str = "new § (2) ##{x} --";

const SLEEPS: &str = "exec sleep 1000";

/// A world with a task in a session that was made as `work`; its start is delivered.
fn with_task() -> (World, String) {
    let world = World::new();
    let window = world.run("api", "echo it works; exec sleep 1000");
    world.until_shows(&window, "it works");
    world.until_deliveries(1);
    (world, window)
}

/// The same, and the session has another name now.
fn renamed() -> World {
    let (world, _) = with_task();
    rename(&world, "work", NEW);
    world
}

/// A world with a task in each of two sessions.
fn with_two() -> World {
    let world = World::new();
    for (session, task) in [("work", "api"), ("other", "web")] {
        world.run_in(session, task, SLEEPS);
        world.until_of(&["-s", session], "its start", |records| {
            names(records) == [task] && all_told(records)
        });
    }
    world
}

fn rename(world: &World, from: &str, to: &str) {
    let to = to.replace('#', "##");
    world.tmux(["rename-session", "-t", &format!("={from}"), &to]);
}

/// Runs a command by this name of the session.
fn by(world: &World, name: &str, args: &[&str]) -> Output {
    let session = format!("--session={name}");
    world.task([&[session.as_str()], args].concat())
}

/// Runs a task by this name of the session. Whatever it was, it is the one of this present name, which
/// the task knows.
#[track_caller]
fn run_by(world: &World, name: &str, task: &str, present: &str) {
    let line = "echo \"in $TMUX_TASK_SESSION.\"; exec sleep 1000";
    let run = by(world, name, &["run", task, "--", line]);
    begins(run.ok(), format!("session={present}\n"));
    world.until_shows(&window_of(&run.out), &format!("in {present}."));
}

/// Checks which task is listed by this name of a session.
#[track_caller]
fn lists(world: &World, name: &str, task: &str) {
    by(world, name, &["ls"]).prints(&format!(" {task} "));
}

/// The records by this name of the session.
#[track_caller]
fn feed(world: &World, name: &str) -> Vec<Value> {
    parse_lines(by(world, name, &["feed"]).ok())
}

fn daemon_by(world: &World, name: &str) -> Pid {
    let status = by(world, name, &["daemon", "status", "--json"]).json();
    pid(status["pid"].as_i64().unwrap())
}

/// Checks that a daemon which is started by this name leaves the session to this one.
#[track_caller]
fn is_running(world: &World, name: &str, daemon: Pid) {
    let again = by(world, name, &["daemon", "--detach"]);
    let running = format!("already running (pid {})\n", daemon.as_raw_nonzero());
    assert_eq!((again.code, again.err), (0, running));
}

fn until_gone(world: &World, daemon: Pid) {
    world.until_true("the daemon is gone", || has_ended(daemon));
}

/// The names of the tasks that were started, in order.
fn names(records: &[Value]) -> Vec<&str> {
    let started = events(records).into_iter();
    let started = started.filter(|event| event["type"] == "started");
    started
        .filter_map(|event| event["task"]["windowName"].as_str())
        .collect()
}

pub(crate) fn n_daemons(world: &World) -> usize {
    let files = fs::read_dir(world.path("run")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_socket = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "sock")
    };
    paths.filter(is_socket).count()
}

/// The state folders.
fn folders(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.path("state")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| !path.ends_with("names")).collect()
}

#[test]
fn both_names_are_one_task_session() {
    let world = renamed();
    let daemon = daemon_by(&world, "work");
    let all = world.task(["ls", "--all"]);
    let sessions_of_all = all.ok().lines().filter(|line| line.ends_with(')'));
    assert!(sessions_of_all.eq([format!("{NEW} (1 task)")]));
    assert_eq!(daemon_by(&world, NEW), daemon);
    for (name, task) in [("work", "old"), (NEW, "new")] {
        run_by(&world, name, task, NEW);
        lists(&world, name, "api");
        assert_eq!(by(&world, name, &["logs", "api"]).ok(), "it works\n");
        by(&world, name, &["search", "works"]).prints("it works");
        by(&world, name, &["wait", task, "--idle", "1ms", "--json"]).prints("\"outcome\":\"idle\"");
        by(&world, name, &["send", task, "x"]).ok();
        by(&world, name, &["explain", task]).ok();
        by(&world, name, &["kill", task]).ok();
        is_running(&world, name, daemon);
    }
    let records = world.until("all of it", all_told);
    assert_eq!(event(&records, "started", "new")["sessionName"], NEW);
    assert_eq!(feed(&world, NEW), records);
    assert_eq!(world.sessions(), [NEW]);
    assert_eq!((n_daemons(&world), folders(&world).len()), (1, 1));
    // On another server, it is another session.
    let other = format!("--session={NEW}");
    let run = world.task(["-L", "other", &other, "run", "api", "--", SLEEPS]);
    run.ok();
    let status = world.task(["-L", "other", &other, "daemon", "status", "--json"]);
    assert_ne!(pid(status.json()["pid"].as_i64().unwrap()), daemon);
    by(&world, NEW, &["daemon", "stop"]).ok();
    until_gone(&world, daemon);
}

#[test]
fn a_rename_counts_at_once_and_the_former_names_still_mean_the_session() {
    let (mut world, _) = with_task();
    let daemon = daemon_by(&world, "work");
    let mut names = vec!["work".to_owned()];
    for n in 0..10 {
        names.push(format!("name-{n}"));
        rename(&world, &names[n], &names[n + 1]);
        assert_eq!(world.task(["logs", "api"]).ok(), "it works\n");
    }
    for name in &names {
        assert_eq!(daemon_by(&world, name), daemon, "{name}");
    }
    // Where the daemon answers, tmux is not asked.
    rename(&world, "name-9", "last");
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    for args in [&["ls"][..], &["feed"], &["daemon", "status"], &["status"]] {
        world.task(args).ok();
    }
    world.set("TMUX_TASK_TMUX", "");
    world.run("web", SLEEPS);
    assert_eq!(world.sessions(), ["last"]);
    by(&world, "last", &["kill-all", "--yes"]).ok();
    let records = world.finish();
    let gone = event(&records, "disappeared", "api");
    assert_eq!(gone["reason"], "userKilled");
}

#[test]
fn a_daemon_after_one_that_was_killed_has_the_renamed_session_by_either_name() {
    for (first, second) in [(NEW, "work"), ("work", NEW)] {
        let world = renamed();
        world.kill_daemon();
        // Started by a command that needs it.
        by(&world, first, &["wait", "api", "--idle", "1ms"]).ok();
        let daemon = daemon_by(&world, first);
        assert_eq!(daemon_by(&world, second), daemon);
        is_running(&world, second, daemon);
        // Of a task that ends at once only its end need be reported.
        let gate = world.gate("gate");
        let line = format!("{gate}; exit 3");
        by(&world, "work", &["run", "web", "--", &line]).ok();
        world.until("its start", |records| names(records) == ["api", "web"]);
        gate.open();
        world.until_delivered("exited", "web");
        assert_eq!(world.sessions(), [NEW]);
        let records = world.finish();
        let events = events(&records).into_iter().cloned().collect::<Vec<_>>();
        assert_eq!(
            story(&events),
            ["started api", "started web", "exited web 3"]
        );
        let options = world.tmux(["show-options", "-t", &format!("={NEW}:")]);
        assert!(!options.contains("@tmux_task_daemon"), "{options}");
    }
}

#[test]
fn another_session_with_the_old_name_is_not_taken_for_it() {
    let (world, _) = with_task();
    rename(&world, "work", "new");
    world.tmux(argv("new-session -d -s work -n other 'exec sleep 1000'"));
    // Whether the first one is supervised or not, nothing of the other one is its own.
    for (n, is_supervised) in [(0, true), (1, false)] {
        let listed = world.task(["ls"]);
        assert!(listed.ok().contains(" other ") && !listed.ok().contains(" api "));
        world.task(["logs", "other"]).ok();
        // These commands have started a daemon of its own.
        world.task(["daemon", "stop"]).ok();
        world.task(["daemon", "status"]).fails_with(3);
        // A session that no daemon has seen has no feed yet, or its own.
        assert_eq!(events(&world.records()).len(), n);
        let name = format!("mine-{n}");
        world.run(&name, SLEEPS);
        world.until("its start", |records| {
            names(records).last() == Some(&&*name)
        });
        world.task(["daemon", "stop"]).ok();
        if is_supervised {
            let listed = by(&world, "new", &["ls"]);
            assert!(listed.ok().contains(" api ") && !listed.ok().contains(" other "));
            run_by(&world, "new", "web", "new");
            let records = world.until_of(&["-s", "new"], "both starts", |records| {
                deliveries(records).len() == 2
            });
            assert_eq!(names(&records), ["api", "web"]);
            by(&world, "new", &["daemon", "stop"]).ok();
        }
    }
    // A new baseline is one of the same session.
    world.daemon_with(&["--fresh"]);
    world.run("more", SLEEPS);
    let records = world.until("its start", |records| names(records).len() > 2);
    assert_eq!(names(&records), ["mine-0", "mine-1", "more"]);
    assert_eq!(events(&records).len(), 3, "{:?}", story(&records));
    assert_eq!(names(&feed(&world, "new")), ["api", "web"]);
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(world.sessions(), ["new"]);
}

#[test]
fn a_daemon_that_waits_for_the_new_name_leaves_the_session_to_the_one_that_has_it() {
    let (world, _) = with_task();
    by(&world, "new", &["daemon", "--detach"]).ok();
    let (first, second) = (daemon_by(&world, "work"), daemon_by(&world, "new"));
    assert_ne!(first, second);
    rename(&world, "work", "new");
    // It takes its own look to see that.
    world.until_true("it knows", || daemon_by(&world, "new") == first);
    run_by(&world, "new", "web", "new");
    let records = world.until("both starts", |records| deliveries(records).len() == 2);
    assert_eq!(feed(&world, "new"), records);
    // Nothing was reported twice.
    let read = |folder: &PathBuf| fs::read_to_string(folder.join("feed.jsonl")).unwrap();
    let told: String = folders(&world).iter().map(read).collect();
    assert_eq!(events(&parse_lines(&told)).len(), 2);
}

#[test]
fn of_two_daemons_that_start_at_once_one_has_the_session() {
    let world = renamed();
    let session = format!("--session={NEW}");
    for _ in 0..5 {
        world.task(["daemon", "stop"]).ok();
        let both = [
            world.start([session.as_str(), "daemon", "--detach"]),
            world.start(["daemon", "--detach"]),
        ];
        for mut one in both {
            assert_eq!(one.wait(), 0);
        }
        assert_eq!(n_daemons(&world), 1);
        assert_eq!(daemon_by(&world, NEW), daemon_by(&world, "work"));
    }
    lacks(story(&world.records()).concat(), "disappeared");
}

/// How two daemons are while the names of their sessions are swapped.
#[derive(Debug, PartialEq)]
enum Daemons {
    Run,
    Stopped,
    Killed,
}

#[test]
fn two_sessions_that_swap_names_are_each_found_by_the_name_they_have() {
    for daemons in [Daemons::Run, Daemons::Stopped, Daemons::Killed] {
        let world = with_two();
        let old = ["work", "other"].map(|name| daemon_by(&world, name));
        let is_running_still = daemons == Daemons::Run;
        for (name, daemon) in ["work", "other"].into_iter().zip(old) {
            match daemons {
                Daemons::Run => continue,
                Daemons::Stopped => drop(by(&world, name, &["daemon", "stop"])),
                Daemons::Killed => kill_process(daemon, Signal::KILL).unwrap(),
            }
            until_gone(&world, daemon);
        }
        for (from, to) in [("work", "aside"), ("other", "work"), ("aside", "other")] {
            rename(&world, from, to);
        }
        let swapped = [("other", old[0], "api"), ("work", old[1], "web")];
        for (name, daemon, task) in swapped {
            if is_running_still {
                assert_eq!(daemon_by(&world, name), daemon);
                is_running(&world, name, daemon);
            } else {
                for command in [["daemon", "status"], ["daemon", "stop"]] {
                    let output = by(&world, name, &command);
                    output.fails_saying(3, "no daemon runs for session");
                }
            }
            assert!(by(&world, name, &["status"]).ok().contains("1 task"));
            lists(&world, name, task);
            by(&world, name, &["logs", task]).ok();
            by(&world, name, &["wait", task, "--idle", "1ms", "--json"]).ok();
            assert_eq!(names(&feed(&world, name)), [task]);
        }
        for (name, _, task) in swapped {
            run_by(&world, name, "new", name);
            let records = world.until_of(&["-s", name], "both starts", |records| {
                names(records).len() > 1
            });
            assert_eq!(names(&records), [task, "new"]);
        }
        assert_ne!(daemon_by(&world, "other"), daemon_by(&world, "work"));
        assert_eq!(folders(&world).len(), 2);
        // All tasks are ended only by the name that their session has now.
        by(&world, "other", &["kill-all", "--yes"]).ok();
        assert_eq!(world.sessions(), ["work"], "{daemons:?}");
        by(&world, "other", &["kill-all", "--yes"]).fails_with(3);
        assert_eq!(world.sessions(), ["work"], "{daemons:?}");
        lists(&world, "work", "web");
        by(&world, "work", &["kill-all", "--yes"]).ok();
    }
}

#[test]
fn a_daemon_does_not_take_a_session_whose_state_is_elsewhere() {
    let world = with_two();
    by(&world, "other", &["daemon", "stop"]).ok();
    // The daemon of the first one waits for a session of this name now.
    rename(&world, "work", "aside");
    let daemon = daemon_by(&world, "aside");
    rename(&world, "other", "work");
    by(&world, "aside", &["kill-all", "--yes"]).ok();
    let kept = || parse_lines(&fs::read_to_string(world.state("work").join("feed.jsonl")).unwrap());
    world.until_true("the end of the first one", || {
        let told = story(&kept());
        told.iter().any(|line| line.starts_with("disappeared"))
    });
    let status = by(&world, "work", &["daemon", "status", "--json"]);
    let of_work: Value = serde_json::from_str(&status.out).unwrap_or_default();
    assert_ne!(of_work["pid"], daemon.as_raw_nonzero().get());
    lists(&world, "work", "web");
    world.run("more", SLEEPS);
    let records = world.until("its start", |records| names(records).len() > 1);
    assert_eq!(names(&records), ["web", "more"]);
    assert_eq!(names(&kept()), ["api"]);
}

#[test]
fn a_rename_that_no_daemon_has_seen_is_followed() {
    for is_emptied in [false, true] {
        let (world, _) = with_task();
        world.kill_daemon();
        rename(&world, "work", "new");
        if is_emptied {
            fs::remove_dir_all(world.path("run")).unwrap();
        }
        for name in ["new", "work"] {
            lists(&world, name, "api");
            assert_eq!(names(&feed(&world, name)), ["api"]);
        }
        run_by(&world, "new", "web", "new");
        assert_eq!(daemon_by(&world, "new"), daemon_by(&world, "work"));
        world.until_deliveries(2);
        assert_eq!(folders(&world).len(), 1);
        // Without its links, as by the name that a daemon could not link.
        fs::remove_dir_all(world.path("state/names")).unwrap();
        assert_eq!(daemon_by(&world, "new"), daemon_by(&world, "work"));
    }
}

#[test]
fn after_a_reboot_the_last_name_leads_to_the_feed_and_the_others_are_free() {
    let (world, _) = with_task();
    let before = feed(&world, "work");
    rename(&world, "work", "new");
    let daemon = daemon_by(&world, "new");
    kill_process(daemon, Signal::KILL).unwrap();
    until_gone(&world, daemon);
    world.tmux(["kill-server"]);
    fs::remove_dir_all(world.path("run")).unwrap();
    for name in ["new", "work"] {
        assert_eq!(feed(&world, name), before, "{name}");
    }
    run_by(&world, "new", "web", "new");
    let records = world.until_of(&["-s", "new"], "its start", |records| {
        names(records) == ["api", "web"]
    });
    assert_eq!(records[before.len()]["seq"], before.len() + 1);
    // The session before it had this name.
    by(&world, "work", &["ls"]).fails_with(3);
    world.run("job", SLEEPS);
    world.until("its start", |records| names(records) == ["job"]);
    assert_ne!(daemon_by(&world, "work"), daemon_by(&world, "new"));
    assert_eq!(names(&feed(&world, "new")), ["api", "web"]);
}

#[test]
fn a_link_is_not_followed_and_one_to_nothing_hurts_nobody() {
    let world = renamed();
    let daemon = daemon_by(&world, NEW);
    let link = fs::read_dir(world.path("state/names")).unwrap().next();
    let link = link.unwrap().unwrap().path();
    let (aside, folder) = (world.path("aside"), world.state("work"));
    fs::create_dir(&aside).unwrap();
    for target in [
        &*aside,
        &*folder,
        Path::new("../../aside"),
        Path::new("../nothing-0123456789ab"),
    ] {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        assert_eq!(daemon_by(&world, NEW), daemon, "{}", target.display());
        lists(&world, NEW, "api");
    }
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 0);
    by(&world, NEW, &["kill-all", "--yes"]).ok();
    by(&world, "work", &["daemon", "stop"]).ok();
}

#[test]
fn no_request_goes_to_another_session_because_tmux_cannot_be_asked() {
    let (mut world, window) = with_task();
    rename(&world, "work", "new");
    world.tmux(argv("new-session -d -s work -n api 'exec sleep 1000'"));
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    for line in "kill api|send api x|run api -- 'exit 3'|prune|feed|daemon stop".split('|') {
        world.call(line).fails_saying(1, "/no/such/tmux");
    }
    let view = by(&world, "new", &["ls", "--json"]).json();
    has_fields(
        &view,
        "tasks.0.windowId tasks.0.run tasks.0.dead",
        json!([window, 1, false]),
    );
}

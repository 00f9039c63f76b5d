//! A session that is renamed stays one task session with one daemon, whichever name is used.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::runs::codes;
use crate::support::{
    Output, World, all_told, deliveries, event, events, has_ended, parse_lines, pid, story,
};

/// A name that no file could have as it is.
const NEW: &str = "new § (2) ##{x} --";

/// A world with a task in a session that was made as `work` and has another name now.
fn renamed() -> World {
    let world = World::new();
    let window = world.run("api", "echo it works; exec sleep 1000");
    world.until_shows(&window, "it works");
    world.until_deliveries(1);
    rename(&world, "work", NEW);
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

fn daemon_by(world: &World, name: &str) -> Pid {
    let output = by(world, name, &["daemon", "status", "--json"]);
    let status: Value = serde_json::from_str(output.ok()).unwrap();
    pid(status["pid"].as_i64().unwrap())
}

fn daemon_by_or_none(world: &World, name: &str) -> Option<Pid> {
    let output = by(world, name, &["daemon", "status"]);
    (output.code != 3).then(|| daemon_by(world, name))
}

/// The names of the tasks that were started, in order.
fn names(records: &[Value]) -> Vec<&str> {
    let started = events(records).into_iter();
    let started = started.filter(|event| event["type"] == "started");
    started
        .filter_map(|event| event["task"]["windowName"].as_str())
        .collect()
}

fn sessions(world: &World) -> Vec<String> {
    let names = world.tmux(["list-sessions", "-F", "#{session_name}"]);
    names.lines().map(str::to_owned).collect()
}

pub(crate) fn n_daemons(world: &World) -> usize {
    let files = fs::read_dir(world.path("run")).unwrap();
    let sockets = files.filter(|file| {
        let path = file.as_ref().unwrap().path();
        path.extension()
            .is_some_and(|extension| extension == "sock")
    });
    sockets.count()
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
    assert_eq!(
        sessions_of_all.collect::<Vec<_>>(),
        [format!("{NEW} (1 task)")]
    );
    assert_eq!(daemon_by(&world, NEW), daemon);
    for (name, task) in [("work", "old"), (NEW, "new")] {
        let run = by(&world, name, &["run", task, "--", "exec sleep 1000"]);
        assert!(run.ok().starts_with(&format!("session={NEW}\n")), "{run}");
        assert!(by(&world, name, &["ls"]).ok().contains(" api "), "{name}");
        assert_eq!(by(&world, name, &["logs", "api"]).ok(), "it works\n");
        let found = by(&world, name, &["search", "works"]);
        assert!(found.ok().contains("it works"), "{found}");
        let wait = by(&world, name, &["wait", task, "--idle", "1ms", "--json"]);
        assert!(wait.ok().contains("\"outcome\":\"idle\""), "{wait}");
        by(&world, name, &["send", task, "x"]).ok();
        by(&world, name, &["explain", task]).ok();
        by(&world, name, &["kill", task]).ok();
        let again = by(&world, name, &["daemon", "--detach"]);
        let running = format!("already running (pid {})\n", daemon.as_raw_nonzero());
        assert_eq!((again.code, again.err), (0, running));
    }
    let records = world.until("all of it", all_told);
    assert_eq!(event(&records, "started", "new")["sessionName"], NEW);
    let feed = by(&world, NEW, &["feed"]);
    assert_eq!(parse_lines(feed.ok()), records);
    assert_eq!(sessions(&world), [NEW]);
    assert_eq!(n_daemons(&world), 1);
    assert_eq!(folders(&world).len(), 1);
    by(&world, NEW, &["daemon", "stop"]).ok();
    world.until_true("the daemon is gone", || has_ended(daemon));
}

#[test]
fn a_second_rename_is_followed_and_the_former_names_still_mean_it() {
    let world = renamed();
    let daemon = daemon_by(&world, NEW);
    rename(&world, NEW, "third");
    for name in ["third", "work", NEW] {
        assert_eq!(daemon_by(&world, name), daemon);
    }
    by(&world, "third", &["kill-all", "--yes"]).ok();
    let records = world.finish();
    assert_eq!(
        event(&records, "disappeared", "api")["reason"],
        "userKilled"
    );
}

#[test]
fn what_a_killed_daemon_left_is_nobodys_mark() {
    let world = renamed();
    world.kill_daemon();
    // The first one by the present name has it now, and is found by both.
    by(&world, NEW, &["daemon", "--detach"]).ok();
    let daemon = daemon_by(&world, NEW);
    assert_eq!(daemon_by(&world, "work"), daemon);
    let again = by(&world, "work", &["daemon", "--detach"]);
    let running = format!("already running (pid {})\n", daemon.as_raw_nonzero());
    assert_eq!((again.code, again.err), (0, running));
    // Of a task that ends at once only its end need be reported.
    let gate = world.gate("gate");
    let line = format!("{}; exit 3", gate.wait());
    by(&world, "work", &["run", "web", "--", &line]).ok();
    world.until_of(&["-s", NEW], "its start", |records| {
        events(records)
            .iter()
            .any(|event| event["type"] == "started" && event["task"]["windowName"] == "web")
    });
    gate.open();
    let records = world.until_of(&["-s", NEW], "its end", |records| {
        codes(records, "web") == [(1, 3)]
    });
    event(&records, "started", "web");
    assert_eq!(sessions(&world), [NEW]);
}

#[test]
fn a_daemon_that_comes_back_by_the_first_name_has_the_renamed_session() {
    let world = renamed();
    world.kill_daemon();
    // Started by a command that needs it.
    let wait = by(&world, "work", &["wait", "api", "--idle", "1ms"]);
    wait.ok();
    assert_eq!(daemon_by(&world, NEW), daemon_by(&world, "work"));
    by(&world, "work", &["run", "web", "--", "exec sleep 1000"]).ok();
    assert_eq!(sessions(&world), [NEW]);
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(
        story(&records)
            .iter()
            .filter(|line| !line.starts_with("notice"))
            .collect::<Vec<_>>(),
        ["started api", "started web"]
    );
    let options = world.tmux(["show-options", "-t", &format!("={NEW}:")]);
    assert!(!options.contains("@tmux_task_daemon"), "{options}");
}

#[test]
fn another_session_with_the_old_name_is_not_taken_for_it() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    rename(&world, "work", "new");
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "other",
        "exec sleep 1000",
    ]);
    // Whether the first one is supervised or not, nothing of the other one is its own.
    for (n, is_supervised) in [(0, true), (1, false)] {
        let listed = world.task(["ls"]);
        assert!(listed.ok().contains(" other ") && !listed.ok().contains(" api "));
        world.task(["logs", "other"]).ok();
        // These commands have started a daemon of its own.
        let stop = world.task(["daemon", "stop"]);
        let status = world.task(["daemon", "status"]);
        assert_eq!((stop.code, status.code), (0, 3), "{stop} {status}");
        // A session that no daemon has seen has no feed yet, or its own.
        assert_eq!(events(&world.records()).len(), n);
        let name = format!("mine-{n}");
        world.run(&name, "exec sleep 1000");
        world.until("its start", |records| {
            names(records).last() == Some(&&*name)
        });
        world.task(["daemon", "stop"]).ok();
        if is_supervised {
            let listed = by(&world, "new", &["ls"]);
            assert!(listed.ok().contains(" api ") && !listed.ok().contains(" other "));
            by(&world, "new", &["run", "web", "--", "exec sleep 1000"]).ok();
            let records = world.until_of(&["-s", "new"], "both starts", |records| {
                deliveries(records).len() == 2
            });
            assert_eq!(names(&records), ["api", "web"]);
            by(&world, "new", &["daemon", "stop"]).ok();
        }
    }
    // A new baseline is one of the same session.
    world.daemon_with(&["--fresh"]);
    world.run("more", "exec sleep 1000");
    let records = world.until("its start", |records| names(records).len() > 2);
    assert_eq!(names(&records), ["mine-0", "mine-1", "more"]);
    assert_eq!(events(&records).len(), 3, "{:?}", story(&records));
    assert_eq!(names(&world.records_of(&["-s", "new"])), ["api", "web"]);
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(sessions(&world), ["new"]);
}

#[test]
fn a_daemon_that_waits_for_the_new_name_leaves_the_session_to_the_one_that_has_it() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    by(&world, "new", &["daemon", "--detach"]).ok();
    let (first, second) = (daemon_by(&world, "work"), daemon_by(&world, "new"));
    assert_ne!(first, second);
    rename(&world, "work", "new");
    // It takes its own look to see that.
    world.until_true("it knows", || daemon_by(&world, "new") == first);
    let run = by(&world, "new", &["run", "web", "--", "exec sleep 1000"]);
    assert!(run.ok().starts_with("session=new\n"));
    let records = world.until("both starts", |records| deliveries(records).len() == 2);
    assert_eq!(
        by(&world, "new", &["feed"]).ok().lines().count(),
        records.len()
    );
    // Nothing was reported twice.
    let mut told = 0;
    for folder in folders(&world) {
        let feed = folder.join("feed.jsonl");
        told += events(&parse_lines(&fs::read_to_string(feed).unwrap())).len();
    }
    assert_eq!(told, 2);
}

#[test]
fn a_session_of_the_new_name_on_another_server_is_another_one() {
    let world = renamed();
    let other = |args: &[&str]| {
        let session = format!("--session={NEW}");
        world.task([&["-L", "other", session.as_str()], args].concat())
    };
    other(&["run", "api", "--", "exec sleep 1000"]).ok();
    let status: Value = serde_json::from_str(other(&["daemon", "status", "--json"]).ok()).unwrap();
    assert_ne!(pid(status["pid"].as_i64().unwrap()), daemon_by(&world, NEW));
    assert_eq!(n_daemons(&world), 2);
}

#[test]
fn a_rename_counts_at_once() {
    let world = World::new();
    let window = world.run("api", "echo it works; exec sleep 1000");
    world.until_shows(&window, "it works");
    world.until_deliveries(1);
    let mut name = "work".to_owned();
    for n in 0..10 {
        let next = format!("name-{n}");
        rename(&world, &name, &next);
        assert_eq!(world.task(["logs", "api"]).ok(), "it works\n");
        name = next;
    }
    rename(&world, &name, "last");
    world.run("web", "exec sleep 1000");
    assert_eq!(sessions(&world), ["last"]);
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
    let records = world.records();
    assert!(
        story(&records)
            .iter()
            .all(|line| !line.contains("disappeared")),
        "{:?}",
        story(&records)
    );
}

#[test]
fn where_the_daemon_answers_tmux_is_not_asked() {
    let mut world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    for args in [&["ls"][..], &["feed"], &["daemon", "status"], &["status"]] {
        world.task(args).ok();
    }
    world.set("TMUX_TASK_TMUX", "");
    rename(&world, "work", NEW);
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    world.task(["ls"]).ok();
}

#[test]
fn two_sessions_that_swap_names_are_each_found_by_the_name_they_have() {
    let world = World::new();
    for (session, task) in [("work", "api"), ("other", "web")] {
        world.run_in(session, task, "exec sleep 1000");
        let started = format!("started {task}");
        world.until_of(&["-s", session], "its start", |records| {
            story(records).contains(&started)
        });
    }
    let daemons = [daemon_by(&world, "work"), daemon_by(&world, "other")];
    rename(&world, "work", "aside");
    rename(&world, "other", "work");
    rename(&world, "aside", "other");
    for (name, daemon, task) in [("other", daemons[0], "api"), ("work", daemons[1], "web")] {
        assert_eq!(daemon_by(&world, name), daemon);
        let listed = by(&world, name, &["ls"]);
        assert!(listed.ok().contains(&format!(" {task} ")), "{listed}");
        let run = by(&world, name, &["run", "new", "--", "exec sleep 1000"]);
        assert!(run.ok().starts_with(&format!("session={name}\n")), "{run}");
        by(&world, name, &["kill", "new"]).ok();
        let wait = by(&world, name, &["wait", task, "--idle", "1ms", "--json"]);
        wait.ok();
        let again = by(&world, name, &["daemon", "--detach"]);
        let running = format!("already running (pid {})\n", daemon.as_raw_nonzero());
        assert_eq!((again.code, again.err), (0, running));
        let records = parse_lines(by(&world, name, &["feed"]).ok());
        event(&records, "started", task);
        event(&records, "started", "new");
    }
    for (name, daemon) in [("other", daemons[0]), ("work", daemons[1])] {
        by(&world, name, &["daemon", "stop"]).ok();
        world.until_true("the daemon is gone", || has_ended(daemon));
    }
}

#[test]
fn sessions_that_swapped_names_while_no_daemon_ran_are_each_found_by_the_name_they_have() {
    for is_killed in [false, true] {
        let world = World::new();
        let sessions = [("work", "api"), ("other", "web")];
        for (session, task) in sessions {
            world.run_in(session, task, "exec sleep 1000");
            let started = format!("started {task}");
            world.until_of(&["-s", session], "its start", |records| {
                story(records).contains(&started) && all_told(records)
            });
        }
        for (session, _) in sessions {
            let daemon = daemon_by(&world, session);
            if is_killed {
                kill_process(daemon, Signal::KILL).unwrap();
            } else {
                by(&world, session, &["daemon", "stop"]).ok();
            }
            world.until_true("the daemon is gone", || has_ended(daemon));
        }
        rename(&world, "work", "aside");
        rename(&world, "other", "work");
        rename(&world, "aside", "other");
        for (name, task) in [("other", "api"), ("work", "web")] {
            for command in [&["daemon", "status"][..], &["daemon", "stop"]] {
                let output = by(&world, name, command);
                assert_eq!(output.code, 3, "{output}");
                assert!(
                    output.err.contains("no daemon runs for session"),
                    "{output}"
                );
            }
            assert!(by(&world, name, &["status"]).ok().contains("1 task"));
            let listed = by(&world, name, &["ls"]);
            assert!(listed.ok().contains(&format!(" {task} ")), "{listed}");
            by(&world, name, &["logs", task]).ok();
            assert_eq!(
                names(&parse_lines(by(&world, name, &["feed"]).ok())),
                [task]
            );
        }
        for (name, task) in [("other", "api"), ("work", "web")] {
            let run = by(&world, name, &["run", "new", "--", "exec sleep 1000"]);
            assert!(run.ok().starts_with(&format!("session={name}\n")), "{run}");
            let records = world.until_of(&["-s", name], "both starts", |records| {
                names(records).len() > 1
            });
            assert_eq!(names(&records), [task, "new"]);
        }
        let daemons = ["other", "work"].map(|name| daemon_by(&world, name));
        assert_ne!(daemons[0], daemons[1]);
        assert_eq!(folders(&world).len(), 2);
        for name in ["other", "work"] {
            by(&world, name, &["kill-all", "--yes"]).ok();
            by(&world, name, &["daemon", "stop"]).ok();
        }
    }
}

#[test]
fn a_daemon_does_not_take_a_session_whose_state_is_elsewhere() {
    let world = World::new();
    for (session, task) in [("work", "api"), ("other", "web")] {
        world.run_in(session, task, "exec sleep 1000");
        world.until_of(&["-s", session], "its start", |records| {
            names(records) == [task]
        });
    }
    by(&world, "other", &["daemon", "stop"]).ok();
    // The daemon of the first one waits for a session of this name now.
    rename(&world, "work", "aside");
    let daemon = daemon_by(&world, "aside");
    rename(&world, "other", "work");
    by(&world, "aside", &["kill-all", "--yes"]).ok();
    let kept = || parse_lines(&fs::read_to_string(world.state("work").join("feed.jsonl")).unwrap());
    world.until_true("the end of the first one", || {
        let records = kept();
        let mut told = events(&records).into_iter();
        told.any(|event| event["type"] == "disappeared")
    });
    assert_ne!(daemon_by_or_none(&world, "work"), Some(daemon));
    let listed = world.task(["ls"]);
    assert!(listed.ok().contains(" web "), "{listed}");
    world.run("more", "exec sleep 1000");
    let records = world.until("its start", |records| names(records).len() > 1);
    assert_eq!(names(&records), ["web", "more"]);
    assert_eq!(names(&kept()), ["api"]);
}

#[test]
fn all_tasks_are_ended_only_by_the_name_that_their_session_has_now() {
    for is_supervised in [true, false] {
        let world = World::new();
        for (session, task) in [("work", "api"), ("other", "web")] {
            world.run_in(session, task, "exec sleep 1000");
            world.until_of(&["-s", session], "its start", |records| {
                names(records) == [task]
            });
        }
        if !is_supervised {
            for name in ["work", "other"] {
                let daemon = daemon_by(&world, name);
                by(&world, name, &["daemon", "stop"]).ok();
                world.until_true("the daemon is gone", || has_ended(daemon));
            }
        }
        rename(&world, "work", "aside");
        rename(&world, "other", "work");
        rename(&world, "aside", "other");
        by(&world, "other", &["kill-all", "--yes"]).ok();
        assert_eq!(sessions(&world), ["work"]);
        let refused = by(&world, "other", &["kill-all", "--yes"]);
        assert_eq!(refused.code, 3, "{is_supervised}: {refused}");
        assert_eq!(sessions(&world), ["work"]);
        by(&world, "work", &["kill-all", "--yes"]).ok();
    }
}

#[test]
fn a_rename_that_no_daemon_has_seen_is_followed() {
    for is_emptied in [false, true] {
        let world = World::new();
        world.run("api", "exec sleep 1000");
        world.until_deliveries(1);
        world.kill_daemon();
        rename(&world, "work", "new");
        if is_emptied {
            fs::remove_dir_all(world.path("run")).unwrap();
        }
        for name in ["new", "work"] {
            assert!(by(&world, name, &["ls"]).ok().contains(" api "));
            assert_eq!(
                names(&parse_lines(by(&world, name, &["feed"]).ok())),
                ["api"]
            );
        }
        by(&world, "new", &["run", "web", "--", "exec sleep 1000"]).ok();
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
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let feed = fs::read_to_string(world.state("work").join("feed.jsonl")).unwrap();
    let seqs = parse_lines(&feed).len();
    rename(&world, "work", "new");
    let daemon = daemon_by(&world, "new");
    kill_process(daemon, Signal::KILL).unwrap();
    world.until_true("the daemon is gone", || has_ended(daemon));
    world.tmux(["kill-server"]);
    fs::remove_dir_all(world.path("run")).unwrap();
    for name in ["new", "work"] {
        assert_eq!(by(&world, name, &["feed"]).ok(), feed, "{name}");
    }
    by(&world, "new", &["run", "web", "--", "exec sleep 1000"]).ok();
    let records = world.until_of(&["-s", "new"], "its start", |records| {
        names(records) == ["api", "web"]
    });
    assert_eq!(records[seqs]["seq"], seqs + 1);
    // The session before it had this name.
    assert_eq!(by(&world, "work", &["ls"]).code, 3);
    world.run("job", "exec sleep 1000");
    world.until("its start", |records| names(records) == ["job"]);
    assert_ne!(daemon_by(&world, "work"), daemon_by(&world, "new"));
    assert_eq!(names(&world.records_of(&["-s", "new"])), ["api", "web"]);
}

#[test]
fn a_link_is_not_followed_and_one_to_nothing_hurts_nobody() {
    let world = renamed();
    let daemon = daemon_by(&world, NEW);
    let link = fs::read_dir(world.path("state/names")).unwrap().next();
    let link = link.unwrap().unwrap().path();
    let folder = world.state("work");
    let aside = world.path("aside");
    fs::create_dir(&aside).unwrap();
    for target in [
        aside.as_path(),
        folder.as_path(),
        Path::new("../../aside"),
        Path::new("../nothing-0123456789ab"),
    ] {
        fs::remove_file(&link).unwrap();
        symlink(target, &link).unwrap();
        assert_eq!(daemon_by(&world, NEW), daemon, "{}", target.display());
        assert!(by(&world, NEW, &["ls"]).ok().contains(" api "));
    }
    assert_eq!(fs::read_dir(&aside).unwrap().count(), 0);
    by(&world, NEW, &["kill-all", "--yes"]).ok();
    by(&world, "work", &["daemon", "stop"]).ok();
}

#[test]
fn no_request_goes_to_another_session_because_tmux_cannot_be_asked() {
    let mut world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    rename(&world, "work", "new");
    let command = "exec sleep 1000";
    world.tmux(["new-session", "-d", "-s", "work", "-n", "api", command]);
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    for args in [
        &["kill", "api"][..],
        &["send", "api", "x"],
        &["run", "api", "--", "exit 3"],
        &["prune"],
        &["feed"],
        &["daemon", "stop"],
    ] {
        let output = world.task(args);
        assert_eq!(output.code, 1, "{args:?}: {output}");
        assert!(output.err.contains("/no/such/tmux"), "{args:?}: {output}");
    }
    let listed = by(&world, "new", &["ls", "--json"]);
    let view: Value = serde_json::from_str(listed.ok()).unwrap();
    let task = &view["tasks"][0];
    assert_eq!(
        (&task["windowId"], &task["run"]),
        (&window.into(), &1.into())
    );
    assert_eq!(task["dead"], false);
}

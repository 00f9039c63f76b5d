//! Tasks that are run again by themselves after a failure.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::runs::codes;
use crate::support::{Output, World, all_told, content, deliveries, events, show};

/// Fails until it is run for the third time.
const THIRD_TIME: &str = "echo x >>n; test \"$(wc -l <n)\" -ge 3";

/// The messages to the agent.
fn follow_ups(records: &[Value]) -> Vec<&Value> {
    let mut all = deliveries(records);
    all.retain(|delivery| delivery["kind"] == "followUp");
    all
}

/// The runs that were seen alive, and whether each was another run of its task.
fn starts(records: &[Value], name: &str) -> Vec<(i64, bool)> {
    let mut all = events(records);
    all.retain(|event| event["type"] == "started" && event["task"]["windowName"] == name);
    let run = |event: &&Value| event["task"]["run"].as_i64().unwrap();
    all.iter()
        .map(|event| (run(event), event["rerun"] == true))
        .collect()
}

/// Starts a task that may be restarted. Returns its window.
#[track_caller]
fn start(world: &World, restart: &str, backoff: &str, line: &str) -> String {
    let args = ["run", "api", "--restart", restart, "--backoff", backoff];
    let printed = world.task([&args[..], &["--", line]].concat());
    crate::support::window_of(printed.ok())
}

/// A launch of a task in this folder that is restarted whenever it fails, without its command.
fn launch_in(world: &World, folder: &Path, backoff: &str) -> Command {
    let args = [
        "run",
        "api",
        "--restart",
        "on-failure",
        "--backoff",
        backoff,
    ];
    let mut command = world.command(World::program());
    command.args(args).arg("--").current_dir(folder);
    command
}

/// The task in `ls --json`.
#[track_caller]
fn listed(world: &World) -> Value {
    let tasks = world.look()["tasks"].clone();
    let mut tasks = tasks.as_array().unwrap().iter();
    let found = tasks.find(|task| task["windowName"] == "api");
    found.expect("it is there").clone()
}

/// The files with the environments of tasks that may be restarted.
fn kept(world: &World) -> Vec<PathBuf> {
    let folder = world.socket().with_extension("environments");
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_task_that_fails_twice_is_restarted_until_it_succeeds() {
    let world = World::new();
    let window = start(&world, "on-failure", "0", THIRD_TIME);
    let records = world.until("its success", |records| {
        codes(records, "api").contains(&(3, 0)) && all_told(records)
    });
    assert_eq!(codes(&records, "api"), [(1, 1), (2, 1), (3, 0)]);
    // The agent is woken by the end only.
    let told: Vec<&str> = follow_ups(&records).into_iter().map(content).collect();
    let end = format!("tmux task {window} (api) exited with code 0");
    assert_eq!(told, [end.as_str()], "{}", show(&records));
    world.finish();
}

#[test]
fn a_task_that_gives_up_is_reported_once() {
    let world = World::new();
    let window = start(&world, "on-failure:2", "10ms", "echo no; exit 3");
    let records = world.until("the last end", |records| {
        codes(records, "api").len() == 3 && all_told(records)
    });
    let told: Vec<&str> = follow_ups(&records).into_iter().map(content).collect();
    let end = format!(
        "tmux task {window} (api) exited with code 3; gave up after 2 restarts\n\
         recent output:\n  no"
    );
    assert_eq!(told, [end.as_str()], "{}", show(&records));
    // Each end says which run it is of, and how many restarts in a row have led to it.
    let ends = events(&records).into_iter();
    let ends: Vec<(i64, i64)> = ends
        .filter(|event| event["type"] == "exited")
        .map(|event| (&event["task"]["run"], &event["task"]["restarts"]["used"]))
        .map(|(run, used)| (run.as_i64().unwrap(), used.as_i64().unwrap()))
        .collect();
    assert_eq!(ends, [(1, 0), (2, 1), (3, 2)]);
    // A look later it still rests.
    let task = listed(&world);
    assert_eq!(task["run"], 3, "{task}");
    assert_eq!(task["nextRestart"], Value::Null, "{task}");
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 3), (2, 3), (3, 3)]);
}

#[test]
fn a_task_that_waits_for_a_restart_says_so_and_stays_dead_when_it_is_killed() {
    let world = World::new();
    // The session goes on without the task.
    world.run("other", "sleep 1000");
    let window = start(&world, "on-failure:4", "1h", "exit 1");
    let records = world.until("the end", |records| {
        codes(records, "api").len() == 1 && all_told(records)
    });
    let text = format!("tmux task {window} (api) exited with code 1; restarts in 60 min, 1 of 4");
    assert!(
        deliveries(&records)
            .into_iter()
            .any(|told| content(told).contains(&text)),
        "{}",
        show(&records)
    );
    let task = listed(&world);
    let next = &task["nextRestart"];
    assert_eq!(
        (&next["number"], &next["limit"]),
        (&1.into(), &4.into()),
        "{task}"
    );
    assert!(
        (1..=3_600_000).contains(&next["inMs"].as_i64().unwrap()),
        "{task}"
    );
    assert_eq!(task["restarts"]["backoffMs"], 3_600_000, "{task}");
    // It has not failed yet, wherever that is said.
    assert_eq!(task["state"], "restarting", "{task}");
    let failed = world.task(["ls", "--failed"]);
    assert!(!failed.ok().contains("api"), "{failed}");
    let status = world.task(["status"]);
    assert_eq!(status.ok(), "tmux: 2 tasks · 1 restarting\n");
    let ended = world.task(["wait", "api"]);
    assert_eq!(
        (ended.code, ended.out.as_str()),
        (1, "exited: code 1; restarts in 60 min\n")
    );
    let ended = world.task(["wait", "api", "--json"]);
    let ended: Value = serde_json::from_str(&ended.out).unwrap();
    let ms = ended["restartsInMs"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&ms), "{ended}");
    // Whoever waits for the last end learns at once that there is none.
    let waiting = world.start(["wait", "api", "--final", "--json"]);
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    for command in [&["ls"][..], &["explain", "api"]] {
        let printed = world.task(command);
        let printed = printed.ok();
        assert!(printed.contains("restarts in 60 min, 1 of 4"), "{printed}");
    }
    assert_eq!(kept(&world).len(), 1);
    world.task(["kill", "api"]).ok();
    assert_eq!(waiting.record()["outcome"], "disappeared");
    world.until_true("its environment is forgotten", || kept(&world).is_empty());
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 1)]);
    assert!(follow_ups(&records).is_empty(), "{}", show(&records));
}

#[test]
fn the_last_end_is_that_of_a_success_or_of_giving_up() {
    let world = World::new();
    start(&world, "on-failure", "0", THIRD_TIME);
    let ended = world.task(["wait", "api", "--final"]);
    assert_eq!(ended.ok(), "exited: code 0\n");
    assert_eq!(listed(&world)["run"], 3);
    start(&world, "on-failure:2", "0", "exit 7");
    let ended = world.task(["wait", "api", "--final", "--json"]);
    let result: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((ended.code, &result["exitCode"]), (1, &7.into()), "{ended}");
    assert_eq!(result["restartsInMs"], Value::Null, "{ended}");
    assert_eq!(listed(&world)["state"], "exited");
    assert_eq!(world.task(["status"]).ok(), "tmux: 1 task · 1 failed\n");
    // A question ends it, as it ends every wait for an end.
    start(&world, "on-failure", "0", "read -rp 'Go? [y/N] ' a; exit 1");
    let asked = world.task(["wait", "api", "--final"]);
    assert_eq!(asked.code, 6, "{asked}");
    world
        .task(["wait", "api", "--final", "--text", "x"])
        .fails_with(2);
}

#[test]
fn a_task_that_cannot_be_restarted_has_failed() {
    let world = World::new();
    let folder = world.path("gone");
    fs::create_dir(&folder).unwrap();
    let mut launch = launch_in(&world, &folder, "0");
    launch.arg("rm -r ../gone; exit 1");
    Output::of(launch).ok();
    let ended = world.task(["wait", "api", "--final"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, "exited: code 1\n"));
    assert_eq!(listed(&world)["state"], "exited");
    assert_eq!(world.task(["status"]).ok(), "tmux: 1 task · 1 failed\n");
}

#[test]
fn a_task_that_is_killed_while_it_runs_is_not_restarted() {
    let world = World::new();
    let other = world.run("other", "exit 0");
    world.until_ended(&other);
    start(&world, "on-failure", "0", "sleep 1000");
    world.task(["kill", "api"]).ok();
    // Another launch and its end come after whatever the end of the first one has caused.
    let other = world.run("other", "exit 0");
    world.until_ended(&other);
    let names = world.look()["tasks"].clone();
    let names: Vec<&str> = names
        .as_array()
        .unwrap()
        .iter()
        .map(|task| task["windowName"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["other"]);
    let records = world.finish();
    assert_eq!(starts(&records, "api"), [(1, false)]);
}

#[test]
fn a_run_without_a_policy_ends_the_one_before() {
    let world = World::new();
    start(&world, "on-failure", "1h", "exit 1");
    world.until("the end", |records| codes(records, "api").len() == 1);
    // Run again as it was: the policy is as it was, and its count starts at zero.
    world.task(["restart", "api"]).ok();
    world.until("the second end", |records| codes(records, "api").len() == 2);
    let task = listed(&world);
    assert_eq!(task["nextRestart"]["number"], 1, "{task}");
    assert_eq!(task["run"], 2, "{task}");
    let window = world.run("api", "exit 4");
    let records = world.until("the third end", |records| {
        codes(records, "api").len() == 3 && !follow_ups(records).is_empty()
    });
    let text = format!("tmux task {window} (api) exited with code 4");
    assert_eq!(content(follow_ups(&records)[0]), text);
    let task = listed(&world);
    assert_eq!(task["nextRestart"], Value::Null, "{task}");
    assert_eq!(task["restarts"], Value::Null, "{task}");
    world.until_true("its environment is forgotten", || kept(&world).is_empty());
    world.finish();
}

#[test]
fn a_restart_outlives_the_daemon() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = format!(
        "echo x >>n; test \"$(wc -l <n)\" -ge 2 || exit 1; {}",
        gate.wait()
    );
    start(&world, "on-failure:3", "2s", &line);
    world.until("the end", |records| {
        codes(records, "api").len() == 1 && all_told(records)
    });
    world.kill_daemon();
    let before = world.records();
    assert_eq!(codes(&before, "api"), [(1, 1)], "{}", show(&before));
    world.daemon();
    world.until("the restart", |records| {
        starts(records, "api").contains(&(2, true))
    });
    gate.open();
    let records = world.until("its success", |records| {
        codes(records, "api").contains(&(2, 0)) && all_told(records)
    });
    assert_eq!(follow_ups(&records).len(), 1, "{}", show(&records));
    world.finish();
}

#[test]
fn a_restarted_task_has_the_environment_and_the_folder_of_its_launch() {
    let world = World::new();
    // With another environment than the task's.
    world.daemon();
    let folder = world.project().join("a b'\"#{pid}");
    fs::create_dir_all(&folder).unwrap();
    let show = world.script(
        "show",
        "#!/bin/sh\n\
         printf '%s|%s|%s|%s\\n' \"$OF_CALLER\" \"$(grep -az '^a.b=' /proc/$$/environ | tr -d '\\0')\" \"$1\" \"$TMUX_TASK_NAME\" >>seen\n\
         test \"$(wc -l <seen)\" -ge 2\n",
    );
    let mut command = launch_in(&world, &folder, "0");
    command
        .arg(show)
        .arg("two  words #{pid}")
        .env("OF_CALLER", "s3cret-91 'x'")
        .env("a.b", "odd");
    Output::of(command).ok();
    world.until("its success", |records| {
        codes(records, "api").contains(&(2, 0)) && all_told(records)
    });
    let line = "s3cret-91 'x'|a.b=odd|two  words #{pid}|api\n";
    let seen = fs::read_to_string(folder.join("seen")).unwrap();
    assert_eq!(seen, line.repeat(2));
    for file in kept(&world) {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    for shown in [
        world.tmux(["show-options", "-w", "-t", "=work:api"]),
        world.tmux(["show-environment", "-t", "=work"]),
        world.tmux(["show-environment", "-g"]),
        world.tmux(["list-panes", "-a", "-F", "#{pane_start_command}"]),
        show_all(&world),
    ] {
        assert!(!shown.contains("s3cret-91"), "{shown}");
    }
    world.finish();
}

#[test]
fn a_restarted_task_has_the_variables_that_were_given_and_they_are_shown_nowhere() {
    for clean in [&[][..], &["--clean-env"]] {
        let world = World::new();
        world.daemon();
        let again = world.gate("again");
        let line = format!(
            "echo \"$GIVEN|$CLAUDECODE\" >>seen; test \"$(wc -l <seen)\" -ge 2 || exit 1; {}",
            again.wait()
        );
        let args = ["run", "api", "--restart", "on-failure", "--backoff", "0"];
        // One that is otherwise withheld is given as well.
        let given = [
            "--env",
            "GIVEN=s3cret-92 'x'",
            "--env",
            "CLAUDECODE=s3cret-93",
        ];
        world
            .task([&args[..], &given, clean, &["--", &line]].concat())
            .ok();
        world.until("the restart", |records| {
            starts(records, "api").contains(&(2, true))
        });
        let seen = world.project().join("seen");
        let expected = "s3cret-92 'x'|s3cret-93\n".repeat(2);
        world.until_true("both runs have written", || {
            fs::read_to_string(&seen).is_ok_and(|text| text == expected)
        });
        let mut shown = vec![
            world.tmux(["show-options", "-w", "-t", "=work:api"]),
            world.tmux(["show-options", "-t", "=work:"]),
            world.tmux(["show-environment", "-t", "=work"]),
            world.tmux(["show-environment", "-g"]),
            world.tmux(["list-panes", "-a", "-F", "#{pane_start_command}"]),
            world.task(["ls", "--json"]).out,
        ];
        let pane = world.tmux(["display-message", "-p", "-t", "=work:api", "#{pane_pid}"]);
        shown.push(fs::read_to_string(format!("/proc/{pane}/cmdline")).unwrap());
        // The feed, the saved snapshot, the stored runs and the log of the daemon.
        again.open();
        world.until("the success", |records| {
            codes(records, "api").contains(&(2, 0))
        });
        world.finish();
        let mut folders = vec![world.path("state")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    shown.push(String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned());
                }
            }
        }
        // Neither as text nor as digits.
        let digits: String = b"s3cret-9"
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        for text in shown {
            assert!(
                !text.contains("s3cret-9") && !text.contains(&digits),
                "{text}"
            );
        }
        for file in kept(&world) {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
    }
}

/// The records as they are.
fn show_all(world: &World) -> String {
    world.records().iter().map(Value::to_string).collect()
}

#[test]
fn an_environment_that_was_left_behind_is_forgotten_by_a_daemon_without_such_a_task() {
    let world = World::new();
    world.run("other", "sleep 1000");
    world.finish();
    let folder = world.socket().with_extension("environments");
    fs::create_dir(&folder).unwrap();
    let left = fs::File::create(folder.join("7-1")).unwrap();
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    left.set_modified(long_ago).unwrap();
    world.daemon();
    world.until_true("it is forgotten", || kept(&world).is_empty());
}

#[test]
fn a_restart_that_is_impossible_wakes_the_agent() {
    let world = World::new();
    let folder = world.project().join("gone");
    fs::create_dir_all(&folder).unwrap();
    let mut command = launch_in(&world, &folder, "0");
    command.arg("rmdir \"$PWD\"; exit 7");
    let window = crate::support::window_of(Output::of(command).ok());
    let records = world.until("a message", |records| !follow_ups(records).is_empty());
    let told = content(follow_ups(&records)[0]);
    assert!(
        told.starts_with(&format!("tmux task {window} (api) exited with code 7")),
        "{told}"
    );
    assert!(!told.contains("restarts"), "{told}");
    let why = format!("tmux task {window} (api) cannot be restarted: `");
    assert!(
        deliveries(&records)
            .into_iter()
            .any(|told| content(told).starts_with(&why)),
        "{}",
        show(&records)
    );
    let listed = listed(&world);
    assert_eq!(listed["nextRestart"], Value::Null);
    let gone = folder.display();
    let why = format!("`{gone}` is not a directory any more");
    assert_eq!(listed["cannotRestart"], why);
    let says = format!("cannot be restarted: {why}");
    for command in [["ls", "--wide"].as_slice(), &["explain", "api"]] {
        let output = world.task(command);
        assert!(output.ok().contains(&says), "{output:?}");
    }
}

#[test]
fn an_end_whose_window_or_pane_is_moved_during_the_pause_wakes_the_agent() {
    for (moves, where_to) in [
        (
            &[&["move-window", "-d", "-s", "=work:api", "-t", "=other:"][..]][..],
            "its window was moved to another session",
        ),
        (
            &[
                &["split-window", "-d", "-t", "=work:api", "exec sleep 1000"],
                &["break-pane", "-d", "-s", "=work:api.0", "-t", "=other:"],
            ],
            "its pane was moved out of its window",
        ),
    ] {
        let world = World::new();
        world.run("stays", "exec sleep 1000");
        world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
        let window = start(&world, "on-failure", "1h", "exit 7");
        let records = world.until("the end", |records| {
            codes(records, "api").len() == 1 && all_told(records)
        });
        assert!(follow_ups(&records).is_empty(), "{}", show(&records));
        for moves in moves {
            world.tmux(*moves);
        }
        let records = world.until("a message", |records| !follow_ups(records).is_empty());
        let told = content(follow_ups(&records)[0]);
        assert_eq!(told, format!("tmux task {window} (api) exited with code 7"));
        let why = format!("tmux task {window} (api) cannot be restarted: {where_to}");
        let mut told = deliveries(&records).into_iter();
        assert!(told.any(|told| content(told) == why), "{}", show(&records));
    }
}

/// A task fails and is to be restarted later. Its daemon is killed, `meanwhile` happens, and the next
/// daemon delivers the end as a failure, once.
#[track_caller]
fn check_told_by_the_next_daemon(backoff: &str, meanwhile: impl Fn(&World)) {
    let world = World::new();
    let folder = world.project().join("folder");
    fs::create_dir_all(&folder).unwrap();
    let mut command = launch_in(&world, &folder, backoff);
    command.arg("exit 7");
    let window = crate::support::window_of(Output::of(command).ok());
    let announced = world.until("the end", |records| {
        codes(records, "api").len() == 1 && all_told(records)
    });
    assert!(follow_ups(&announced).is_empty(), "{}", show(&announced));
    world.kill_daemon();
    meanwhile(&world);
    for _ in 0..2 {
        world.daemon();
        let records = world.until("a message", |records| !follow_ups(records).is_empty());
        let told: Vec<&str> = follow_ups(&records).into_iter().map(content).collect();
        let end = format!("tmux task {window} (api) exited with code 7");
        assert_eq!(told, [end.as_str()], "{}", show(&records));
        assert_eq!(codes(&records, "api"), [(1, 7)]);
        world.look();
        world.kill_daemon();
    }
    assert_eq!(follow_ups(&world.records()).len(), 1);
}

#[test]
fn an_end_whose_policy_was_removed_while_no_daemon_ran_wakes_the_agent() {
    check_told_by_the_next_daemon("1h", |world| {
        world.tmux(["set-option", "-wu", "-t", "=work:api", "@tmux_task_spec"]);
    });
}

#[test]
fn an_end_whose_folder_was_removed_while_no_daemon_ran_wakes_the_agent() {
    check_told_by_the_next_daemon("2s", |world| {
        fs::remove_dir(world.project().join("folder")).unwrap();
    });
}

#[test]
fn what_cannot_be_restarted_is_refused() {
    let mut world = World::new();
    let args = ["run", "api", "--restart", "on-failure"];
    for wrong in [
        &["--wait", "--", "true"][..],
        &["--backoff", "25h", "--", "true"],
        &["--backoff", "-1s", "--", "true"],
    ] {
        let refused = world.task([&args[..], wrong].concat());
        assert_eq!(refused.code, 2, "{refused}");
    }
    for wrong in ["always", "on-failure:0", "on-failure:x", ""] {
        let refused = world.task(["run", "api", "--restart", wrong, "--", "true"]);
        assert_eq!(refused.code, 2, "{refused}");
        assert!(
            refused.err.contains("on-failure:N, N from 1 to 1000"),
            "{refused}"
        );
    }
    let refused = world.task(["run", "api", "--backoff", "1s", "--", "true"]);
    assert_eq!(refused.code, 2, "{refused}");
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.task([&args[..], &["--", "true"]].concat()).fails(
        3,
        "tmux-task: run: no daemon runs for session `work`, and $TMUX_TASK_NO_AUTOSTART keeps commands \
             from starting one\n\
             hint: start one with `tmux-task daemon --detach`",
    );
}

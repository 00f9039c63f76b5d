//! Tasks that are run again by themselves after a failure.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{
    Output, World, all_told, argv, content, deliveries, events, has_fields, lacks, show, window_of,
};

/// Fails until it is run for the third time.
const THIRD_TIME: &str = "echo x >>n; test \"$(wc -l <n)\" -ge 3";

/// The messages to the agent.
fn follow_ups(records: &[Value]) -> Vec<&str> {
    let all = deliveries(records).into_iter();
    let messages = all.filter(|delivery| delivery["kind"] == "followUp");
    messages.map(content).collect()
}

/// Checks which messages there were.
#[track_caller]
fn agent_is_told(records: &[Value], expected: &[&str]) {
    assert_eq!(follow_ups(records), expected, "{}", show(records));
}

/// Checks that a notice or a message begins with this.
#[track_caller]
fn is_told(records: &[Value], beginning: &str) {
    let mut all = deliveries(records).into_iter().map(content);
    let is_there = all.any(|told| told.contains(beginning));
    assert!(is_there, "{beginning}:\n{}", show(records));
}

/// The runs that were seen alive, and whether each was another run of its task.
fn starts(records: &[Value]) -> Vec<(i64, bool)> {
    let mut all = events(records);
    all.retain(|event| event["type"] == "started" && event["task"]["windowName"] == "api");
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
    window_of(printed.ok())
}

/// A launch in this folder of a task that is restarted whenever it fails, without its command.
fn launch_in(world: &World, folder: &Path, more: &str) -> Command {
    fs::create_dir_all(folder).unwrap();
    let mut command = world.command(World::program());
    command.args(argv("run api --restart on-failure --backoff"));
    command.args(argv(more)).arg("--").current_dir(folder);
    command
}

/// Waits until so many runs have ended and that is delivered.
#[track_caller]
fn until_ends(world: &World, n: usize) -> Vec<Value> {
    world.until(&format!("{n} ends"), |records| {
        codes(records, "api").len() == n && all_told(records)
    })
}

/// The files with the environments of tasks that may be restarted.
fn kept(world: &World) -> Vec<PathBuf> {
    let folder = world.socket().with_extension("environments");
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[track_caller]
fn until_none_is_kept(world: &World) {
    world.until_true("its environment is forgotten", || kept(world).is_empty());
}

#[test]
fn a_task_that_fails_is_restarted_until_it_succeeds_or_gives_up_and_that_end_is_told() {
    let world = World::new();
    let window = start(&world, "on-failure", "0", THIRD_TIME);
    let records = until_ends(&world, 3);
    assert_eq!(codes(&records, "api"), [(1, 1), (2, 1), (3, 0)]);
    let success = format!("tmux task {window} (api) exited with code 0");
    agent_is_told(&records, &[&success]);

    start(&world, "on-failure:2", "10ms", "echo no; exit 3");
    let records = until_ends(&world, 6);
    let gave_up = format!(
        "tmux task {window} (api) exited with code 3; gave up after 2 restarts\n\
         recent output:\n  no"
    );
    agent_is_told(&records, &[&success, &gave_up]);
    // Each end says which run it is of, and how many restarts in a row have led to it.
    let ends = events(&records).into_iter();
    let ends = ends.filter(|event| event["type"] == "exited").skip(3);
    let ends: Value = ends
        .map(|event| json!([event["task"]["run"], event["task"]["restarts"]["used"]]))
        .collect();
    assert_eq!(ends, json!([[4, 0], [5, 1], [6, 2]]));
    // A look later it still rests.
    let task = world.listed("api");
    has_fields(&task, "run nextRestart", json!([6, null]));
    let records = world.finish();
    assert_eq!(codes(&records, "api")[3..], [(4, 3), (5, 3), (6, 3)]);
}

#[test]
fn a_task_that_waits_for_a_restart_says_so_and_stays_dead_when_it_is_killed() {
    let world = World::new();
    // The session goes on without the task.
    world.run("other", "sleep 1000");
    let window = start(&world, "on-failure:4", "1h", "exit 1");
    let records = until_ends(&world, 1);
    let text = format!("tmux task {window} (api) exited with code 1; restarts in 60 min, 1 of 4");
    is_told(&records, &text);
    // It has not failed yet, wherever that is said.
    let task = world.listed("api");
    let names = "nextRestart.number nextRestart.limit restarts.backoffMs state";
    has_fields(&task, names, json!([1, 4, 3_600_000, "restarting"]));
    let an_hour = |ms: &Value| (1..=3_600_000).contains(&ms.as_i64().unwrap());
    assert!(an_hour(&task["nextRestart"]["inMs"]), "{task}");
    let failed = world.task(["ls", "--failed"]);
    assert!(!failed.ok().contains("api"), "{failed}");
    assert_eq!(
        world.task(["status"]).ok(),
        "tmux: 2 tasks · 1 restarting\n"
    );
    let ended = world.task(["wait", "api"]);
    ended.fails_with(1);
    ended.shows("exited: code 1; restarts in 60 min\n");
    let ended = world.task(["wait", "api", "--json"]).any_json();
    assert!(an_hour(&ended["restartsInMs"]), "{ended}");
    // Whoever waits for the last end learns at once that there is none.
    let waiting = world.start(argv("wait api --final --json"));
    world.until_waits(1);
    for command in [&["ls"][..], &["explain", "api"]] {
        world.task(command).prints("restarts in 60 min, 1 of 4");
    }
    assert_eq!(kept(&world).len(), 1);
    world.task(["kill", "api"]).ok();
    assert_eq!(waiting.record()["outcome"], "disappeared");
    until_none_is_kept(&world);
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 1)]);
    agent_is_told(&records, &[]);
}

#[test]
fn the_last_end_is_that_of_a_success_or_of_giving_up() {
    let world = World::new();
    start(&world, "on-failure", "0", THIRD_TIME);
    let ended = world.task(["wait", "api", "--final"]);
    assert_eq!(ended.ok(), "exited: code 0\n");
    assert_eq!(world.listed("api")["run"], 3);
    start(&world, "on-failure:2", "0", "exit 7");
    let ended = world.task(["wait", "api", "--final", "--json"]);
    let result = ended.any_json();
    has_fields(&result, "exitCode restartsInMs", json!([7, null]));
    assert_eq!(ended.code, 1, "{ended}");
    assert_eq!(world.listed("api")["state"], "exited");
    assert_eq!(world.task(["status"]).ok(), "tmux: 1 task · 1 failed\n");
    // A question ends it, as it ends every wait for an end.
    start(&world, "on-failure", "0", "read -rp 'Go? [y/N] ' a; exit 1");
    world.task(["wait", "api", "--final"]).fails_with(6);
    world.call("wait api --final --text x").fails_with(2);
}

#[test]
fn a_task_that_is_killed_while_it_runs_is_not_restarted() {
    let world = World::new();
    start(&world, "on-failure", "0", "sleep 1000");
    world.run("other", "sleep 1000");
    world.task(["kill", "api"]).ok();
    // Another launch and its end come after whatever the end of the first one has caused.
    let other = world.run("other", "exit 0");
    world.until_ended(&other);
    assert_eq!(world.names(), ["other"]);
    let records = world.finish();
    assert_eq!(starts(&records), [(1, false)]);
}

#[test]
fn a_run_without_a_policy_ends_the_one_before() {
    let world = World::new();
    start(&world, "on-failure", "1h", "exit 1");
    until_ends(&world, 1);
    // Run again as it was: the policy is as it was, and its count starts at zero.
    world.task(["restart", "api"]).ok();
    until_ends(&world, 2);
    let task = world.listed("api");
    has_fields(&task, "nextRestart.number run", json!([1, 2]));
    let window = world.run("api", "exit 4");
    let records = until_ends(&world, 3);
    agent_is_told(
        &records,
        &[&format!("tmux task {window} (api) exited with code 4")],
    );
    let task = world.listed("api");
    has_fields(&task, "nextRestart restarts", json!([null, null]));
    until_none_is_kept(&world);
    world.finish();
}

#[test]
fn a_restart_outlives_the_daemon() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = format!("echo x >>n; test \"$(wc -l <n)\" -ge 2 || exit 1; {gate}");
    start(&world, "on-failure:3", "2s", &line);
    until_ends(&world, 1);
    world.kill_daemon();
    let before = world.records();
    assert_eq!(codes(&before, "api"), [(1, 1)], "{}", show(&before));
    world.daemon();
    world.until("the restart", |records| {
        starts(records).contains(&(2, true))
    });
    gate.open();
    let records = until_ends(&world, 2);
    assert_eq!(codes(&records, "api")[1], (2, 0));
    assert_eq!(follow_ups(&records).len(), 1, "{}", show(&records));
    world.finish();
}

/// Also the variables that were given, of which one is otherwise withheld; with `--clean-env` none but
/// these.
#[test]
fn a_restarted_task_has_the_environment_and_the_folder_of_its_launch_and_shows_it_nowhere() {
    for (clean, of_caller) in [("", "k3pt-71 'x'|a.b=odd"), ("--clean-env", "|")] {
        let world = World::new();
        // With another environment than the task's.
        world.daemon();
        let again = world.gate("again");
        let folder = world.project().join("a b'\"#{pid}");
        let show = format!(
            "#!/bin/sh\n\
             odd=$(grep -az '^a.b=' /proc/$$/environ | tr -d '\\0')\n\
             printf '%s\\n' \"$OF_CALLER|$odd|$GIVEN|$CLAUDECODE|$1|$TMUX_TASK_NAME\" >>seen\n\
             test \"$(wc -l <seen)\" -ge 2 || exit 1\n{again}\n"
        );
        let given = "0 --env \"GIVEN=k3pt-72 'x'\" --env CLAUDECODE=k3pt-73 ";
        let mut command = launch_in(&world, &folder, &format!("{given}{clean}"));
        command
            .arg(world.script("show", &show))
            .arg("two  words #{pid}")
            .envs([("OF_CALLER", "k3pt-71 'x'"), ("a.b", "odd")]);
        Output::of(command).ok();
        let expected = format!("{of_caller}|k3pt-72 'x'|k3pt-73|two  words #{{pid}}|api\n");
        let expected = expected.repeat(2);
        let seen = folder.join("seen");
        world.until_true("both runs have written", || {
            fs::read_to_string(&seen).is_ok_and(|text| text == expected)
        });
        world.has_nowhere("k3pt-7", &[]);
        lacks(world.task(["ls", "--json"]).ok(), "k3pt-7");
        for file in kept(&world) {
            let mode = fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
        }
        // The feed, the saved snapshot, the stored runs and the log of the daemon.
        again.open();
        until_ends(&world, 2);
        world.finish();
        // Neither as text nor as digits.
        let digits = (*b"k3pt-7").map(|byte| format!("{byte:02x}")).concat();
        world.has_nowhere("k3pt-7", &["state"]);
        world.has_nowhere(&digits, &["state"]);
    }
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
    until_none_is_kept(&world);
}

#[test]
fn a_restart_that_is_impossible_wakes_the_agent_and_the_task_has_failed() {
    let world = World::new();
    let folder = world.project().join("gone");
    let mut command = launch_in(&world, &folder, "0");
    command.arg("rmdir \"$PWD\"; exit 7");
    let window = window_of(Output::of(command).ok());
    let records = world.until("a message", |records| !follow_ups(records).is_empty());
    agent_is_told(
        &records,
        &[&format!("tmux task {window} (api) exited with code 7")],
    );
    is_told(
        &records,
        &format!("tmux task {window} (api) cannot be restarted: `"),
    );
    let ended = world.task(["wait", "api", "--final"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, "exited: code 7\n"));
    let task = world.listed("api");
    let why = format!("`{}` is not a directory any more", folder.display());
    has_fields(
        &task,
        "state nextRestart cannotRestart",
        json!(["exited", null, why]),
    );
    assert_eq!(world.task(["status"]).ok(), "tmux: 1 task · 1 failed\n");
    for command in [["ls", "--wide"], ["explain", "api"]] {
        let output = world.task(command);
        let said = format!("cannot be restarted: {why}");
        output.prints(&said);
    }
}

#[test]
fn an_end_whose_window_or_pane_is_moved_during_the_pause_wakes_the_agent() {
    const WINDOW: &str = "move-window -d -s =work:api -t =other:";
    const PANE: &str = "split-window -d -t =work:api 'exec sleep 1000'|\
                        break-pane -d -s =work:api.0 -t =other:";
    for (moves, where_to) in [
        (WINDOW, "its window was moved to another session"),
        (PANE, "its pane was moved out of its window"),
    ] {
        let world = World::new();
        world.run("stays", "exec sleep 1000");
        world.tmux(argv("new-session -d -s other 'exec sleep 1000'"));
        let window = start(&world, "on-failure", "1h", "exit 7");
        agent_is_told(&until_ends(&world, 1), &[]);
        for line in moves.split('|') {
            world.tmux(argv(line));
        }
        let records = world.until("a message", |records| !follow_ups(records).is_empty());
        let end = format!("tmux task {window} (api) exited with code 7");
        agent_is_told(&records, &[&end]);
        is_told(
            &records,
            &format!("tmux task {window} (api) cannot be restarted: {where_to}"),
        );
    }
}

/// A task fails and is to be restarted later. Its daemon is killed, and that becomes impossible: the
/// next daemon delivers the end as a failure, once.
#[test]
fn an_end_that_cannot_be_restarted_any_more_is_told_by_the_next_daemon() {
    let policy_goes: fn(&World) = |world| {
        world.tmux(argv("set-option -wu -t =work:api @tmux_task_spec"));
    };
    let folder_goes: fn(&World) = |world| fs::remove_dir(world.project().join("folder")).unwrap();
    for (backoff, goes) in [("1h", policy_goes), ("2s", folder_goes)] {
        let world = World::new();
        let mut command = launch_in(&world, &world.project().join("folder"), backoff);
        command.arg("exit 7");
        let window = window_of(Output::of(command).ok());
        agent_is_told(&until_ends(&world, 1), &[]);
        world.kill_daemon();
        goes(&world);
        let end = format!("tmux task {window} (api) exited with code 7");
        for _ in 0..2 {
            world.daemon();
            let records = world.until("a message", |records| !follow_ups(records).is_empty());
            agent_is_told(&records, &[&end]);
            assert_eq!(codes(&records, "api"), [(1, 7)]);
            world.look();
            world.kill_daemon();
        }
        agent_is_told(&world.records(), &[&end]);
    }
}

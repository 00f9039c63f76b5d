//! Tasks that are run again: the same command, byte for byte, in the same directory.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::launching::words;
use crate::support::{Output, World, window_of};

/// Writes its directory, a variable and its arguments to a new file `seen`, and ends.
const SHOW: &str = "#!/bin/sh\n{ pwd; printf '%s\\0' \"${OF_CALLER-}\" \"$@\"; } >seen.part \
                    && mv seen.part seen\n";

/// Takes what a run has written.
fn take(world: &World, seen: &PathBuf) -> Vec<u8> {
    world.until_true("the run writes", || seen.exists());
    let written = fs::read(seen).unwrap();
    fs::remove_file(seen).unwrap();
    written
}

fn launch(world: &World, task: &str, words: &[OsString]) -> Command {
    let mut command = world.command(World::program());
    command.args(["run", task, "--"]).args(words);
    command
}

#[track_caller]
fn check_words(world: &World) {
    let show = world.script("show", SHOW);
    let folder = world.project().join("a b'\"\\$HOME #{pid} é");
    fs::create_dir_all(&folder).unwrap();
    let seen = folder.join("seen");
    let all: Vec<OsString> = [show.into()].into_iter().chain(words()).collect();
    let line = vec![OsString::from(format!(
        "{}  'two  blanks'\t\"$((1 + 1))\" # comment",
        world.path("show").display()
    ))];
    for words in [all, line] {
        let mut first = launch(world, "api", &words);
        first.current_dir(&folder).env("OF_CALLER", "same");
        let window = window_of(Output::of(first).ok());
        let written = take(world, &seen);
        world.until_ended(&window);
        // From another directory, and by either command.
        for again in [&["restart", "api"][..], &["run", "api"], &["run", &window]] {
            let mut command = world.command(World::program());
            command.args(again).env("OF_CALLER", "same");
            Output::of(command).ok();
            assert!(take(world, &seen) == written, "{again:?}");
            world.until_ended(&window);
        }
    }
}

#[test]
fn what_was_started_is_run_again_byte_for_byte() {
    check_words(&World::new());
}

#[test]
fn a_run_again_gets_the_environment_of_its_caller() {
    let world = World::new();
    let show = world.script("show", SHOW);
    let seen = world.project().join("seen");
    let words = [OsString::from(show)];
    let mut first = launch(&world, "api", &words);
    first.env("OF_CALLER", "first");
    Output::of(first).ok();
    assert!(take(&world, &seen).ends_with(b"first\0"));
    let mut again = world.command(World::program());
    again.args(["restart", "api"]).env("OF_CALLER", "second");
    let again = Output::of(again);
    let window = &world.look()["tasks"][0]["windowId"];
    let expected = format!("restarted {} (api), run 2\n", window.as_str().unwrap());
    assert_eq!(again.ok(), expected);
    assert!(take(&world, &seen).ends_with(b"second\0"));
}

#[test]
fn values_that_were_given_are_not_recorded_and_are_asked_for() {
    let world = World::new();
    let show = world.script("show", SHOW);
    let seen = world.project().join("seen");
    let line = show.to_str().unwrap();
    let given = ["run", "api", "--env", "OF_CALLER=s3cret-91", "--", line];
    world.task(given).ok();
    assert!(take(&world, &seen).ends_with(b"s3cret-91\0"));
    let options = world.tmux(["show-options", "-w", "-t", "=work:api"]);
    assert!(options.contains("@tmux_task_spec"), "{options}");
    // Neither as text nor as digits.
    let digits: String = b"s3cret-91"
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(
        !options.contains("s3cret-91") && !options.contains(&digits),
        "{options}"
    );
    for command in [&["restart", "api"][..], &["run", "api"]] {
        let what = command[0];
        world.task(command).fails(
            1,
            &format!(
                "tmux-task: {what}: task `api` was started with --env, and the values are not \
                 recorded\nhint: `tmux-task run api --env K=V` runs its command again with these"
            ),
        );
    }
    world.task(["run", "api", "--env", "OF_CALLER=again"]).ok();
    assert!(take(&world, &seen).ends_with(b"again\0"));
    world.finish();
}

#[test]
fn a_window_without_a_record_is_refused_and_left_alone() {
    let world = World::new();
    world.run("api", "sleep 1000");
    world.new_window("mine", "exec sleep 1000");
    // An option that all windows inherit is the record of none.
    world.tmux([
        "set-option",
        "-gw",
        "@tmux_task_spec",
        r#"{"started":1,"settings":{}} {"command":["true"],"cwd":"/"}"#,
    ]);
    let why = |what: &str, name: &str| {
        format!(
            "tmux-task: {what}: the command of task `{name}` is not recorded\n\
             hint: `tmux-task run {name} -- COMMAND` starts it and records the command"
        )
    };
    // None is restarted if one cannot be.
    world
        .task(["restart", "api", "mine"])
        .fails(1, &why("restart", "mine"));
    world.task(["run", "mine"]).fails(1, &why("run", "mine"));
    // A launcher that writes no record has used the window since.
    world.tmux([
        "set-option",
        "-w",
        "-t",
        "=work:api",
        "@tmux_task_started",
        "1",
    ]);
    world
        .task(["restart", "api"])
        .fails(1, &why("restart", "api"));
    assert_eq!(world.task(["restart", "nothing"]).code, 3);
    assert_eq!(world.task(["run", "nothing"]).code, 3);
    assert_eq!(world.task(["-s", "none", "restart", "api"]).code, 3);
    let tasks = world.look()["tasks"].clone();
    let runs = tasks.as_array().unwrap().iter().map(|task| &task["run"]);
    assert!(runs.clone().all(|run| *run == 1), "{tasks}");
    world.finish();
}

#[test]
fn several_tasks_are_restarted_and_one_is_waited_for() {
    let world = World::new();
    let one = world.run("one", "exit 3");
    let two = world.run("two", "sleep 1000");
    world.until_ended(&one);
    let printed = world.task(["restart", "one", "two", &one, "--json"]);
    let printed: Vec<Value> = crate::support::parse_lines(printed.ok());
    let told: Vec<_> = printed
        .iter()
        .map(|run| (&run["windowId"], &run["run"], &run["replaced"]))
        .map(|(window, run, replaced)| (window.as_str(), run.as_u64(), replaced.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            (Some(one.as_str()), Some(2), Some("dead")),
            (Some(two.as_str()), Some(2), Some("live")),
        ]
    );
    let output = world.task(["restart", "one", "--wait"]);
    assert_eq!(output.code, 3, "{output}");
    assert!(output.out.starts_with("restarted "), "{output}");
    let refused = world.task(["restart", "one", "two", "--until", "x"]);
    assert_eq!(refused.code, 2, "{refused}");
    // An empty variable in a script is not a request for the last command.
    world
        .task(["run", "one", "--"])
        .fails(2, "tmux-task: run: no command given for task `one`");
    world.finish();
}

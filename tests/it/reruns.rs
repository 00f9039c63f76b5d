//! Tasks that are run again: the same command, byte for byte, in the same directory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::{Value, json};

use crate::launching::words;
use crate::support::{Output, World, argv, parse_lines, window_of};

/// Writes its directory, a variable and its arguments to a new file `seen`, and ends.
const SHOW: &str = "#!/bin/sh\n{ pwd; printf '%s\\0' \"${OF_CALLER-}\" \"$@\"; } >seen.part \
                    && mv seen.part seen\n";

/// Takes what a run has written.
fn take(world: &World, folder: &Path) -> Vec<u8> {
    let seen = folder.join("seen");
    world.until_true("the run writes", || seen.exists());
    let written = fs::read(&seen).unwrap();
    fs::remove_file(seen).unwrap();
    written
}

/// Runs a command in this folder, and with this variable.
fn call<S: AsRef<OsStr>>(world: &World, folder: &Path, of_caller: &str, args: &[S]) -> Output {
    let mut command = world.command(World::program());
    command
        .args(args)
        .current_dir(folder)
        .env("OF_CALLER", of_caller);
    Output::of(command)
}

#[test]
fn what_was_started_is_run_again_byte_for_byte_with_the_environment_of_its_caller() {
    let world = World::new();
    let show = world.script("show", SHOW);
    let folder = world.project().join("a b'\"\\$HOME #{pid} é");
    fs::create_dir_all(&folder).unwrap();
    let line = format!(
        "{}  'two  blanks'\t\"$((1 + 1))\" # comment",
        show.display()
    );
    let mut expected = [folder.as_os_str().as_bytes(), b"\nsame"].concat();
    for word in words() {
        expected.push(0);
        expected.extend_from_slice(word.as_bytes());
    }
    expected.push(0);
    let all: Vec<OsString> = [show.into()].into_iter().chain(words()).collect();
    for words in [all, vec![line.into()]] {
        let run = ["run", "api", "--"].map(OsString::from);
        let first = call(&world, &folder, "same", &[&run[..], &words].concat());
        let window = window_of(first.ok());
        let written = take(&world, &folder);
        let is_line = words.len() == 1;
        assert!(
            is_line || written == expected,
            "each word arrives byte for byte"
        );
        assert!(!folder.join("owned").exists());
        world.until_ended(&window);
        // From another directory, and by either command.
        let elsewhere = world.project();
        for again in [&["restart", "api"][..], &["run", "api"], &["run", &window]] {
            call(&world, &elsewhere, "same", again).ok();
            assert!(take(&world, &folder) == written, "{again:?}");
            world.until_ended(&window);
        }
        let again = call(&world, &elsewhere, "other", &["restart", "api"]);
        let number = &world.listed("api")["run"];
        assert_eq!(
            again.ok(),
            format!("restarted {window} (api), run {number}\n")
        );
        let other = take(&world, &folder);
        assert!(other.windows(7).any(|bytes| bytes == b"\nother\0"));
        world.until_ended(&window);
    }
}

#[test]
fn values_that_were_given_are_not_recorded_and_are_asked_for() {
    let world = World::new();
    let show = world.script("show", SHOW);
    let given = "run api --env OF_CALLER=s3cret-91 --";
    world.call(&format!("{given} {}", show.display())).ok();
    let took = |end: &[u8]| assert!(take(&world, &world.project()).ends_with(end));
    took(b"s3cret-91\0");
    let options = world.tmux(["show-options", "-w", "-t", "=work:api"]);
    assert!(options.contains("@tmux_task_spec"), "{options}");
    // Neither as text nor as digits.
    let digits = (*b"s3cret-91").map(|byte| format!("{byte:02x}")).concat();
    assert!(
        !options.contains("s3cret-91") && !options.contains(&digits),
        "{options}"
    );
    for command in [["restart", "api"], ["run", "api"]] {
        let why = format!(
            "tmux-task: {}: task `api` was started with --env, and the values are not recorded\n\
             hint: `tmux-task run api --env K=V` runs its command again with these",
            command[0]
        );
        world.task(command).fails(1, &why);
    }
    world.call("run api --env OF_CALLER=again").ok();
    took(b"again\0");
    world.finish();
}

#[test]
fn a_window_without_a_record_is_refused_and_left_alone() {
    let world = World::new();
    world.run("api", "sleep 1000");
    world.new_window("mine", "exec sleep 1000");
    // An option that all windows inherit is the record of none.
    let record = r#"{"started":1,"spec":{"command":["true"],"cwd":"/"}}"#;
    world.tmux(["set-option", "-gw", "@tmux_task_spec", record]);
    let is_refused = |words: &[&str], name: &str| {
        let why = format!(
            "tmux-task: {}: the command of task `{name}` is not recorded\n\
             hint: `tmux-task run {name} -- COMMAND` starts it and records the command",
            words[0]
        );
        world.task(words).fails(1, &why);
    };
    // None is restarted if one cannot be.
    is_refused(&["restart", "api", "mine"], "mine");
    is_refused(&["run", "mine"], "mine");
    // A launcher that writes no record has used the window since.
    world.tmux(argv("set-option -w -t =work:api @tmux_task_started 1"));
    is_refused(&["restart", "api"], "api");
    for missing in ["restart nothing", "run nothing", "-s none restart api"] {
        world.call(missing).fails_with(3);
    }
    assert!(world.tasks().iter().all(|task| task["run"] == 1));
    world.finish();
}

#[test]
fn several_tasks_are_restarted_and_one_is_waited_for() {
    let world = World::new();
    let one = world.run("one", "exit 3");
    let two = world.run("two", "sleep 1000");
    world.until_ended(&one);
    let printed = world.task(["restart", "one", "two", &one, "--json"]);
    let runs = parse_lines(printed.ok()).into_iter();
    let runs: Value = runs
        .map(|run| json!([run["windowId"], run["run"], run["replaced"]]))
        .collect();
    assert_eq!(runs, json!([[one, 2, "dead"], [two, 2, "live"]]));
    let output = world.task(["restart", "one", "--wait"]);
    assert_eq!(output.code, 3, "{output}");
    assert!(output.out.starts_with("restarted "), "{output}");
    world.call("restart one two --until x").fails_with(2);
    // An empty variable in a script is not a request for the last command.
    let why = "tmux-task: run: no command given for task `one`";
    world.task(["run", "one", "--"]).fails(2, why);
    world.finish();
}

//! That a task's command begins, whatever is in its way.

use std::fs;

use crate::environment::launching;
use crate::runs::codes;
use crate::support::{Output, World};

/// Lines of a profile that end the shell or replace it.
const ENDINGS: [&str; 12] = [
    "exit 0",
    "exit",
    "logout",
    "[ -t 1 ] && exec cat",
    "exec no-such-shell",
    "exec -l sh",
    "start() { exec cat; }; start",
    "trap 'echo bye' EXIT; exit 0",
    "set -e; false",
    "cd /; export FOO=changed; set -e; false; exit 0",
    "PATH=/nowhere; exit 1",
    "set -- exit 7; exit 0",
];

/// Lines that end something else.
const HARMLESS: [&str; 8] = [
    "x=$(exit 4) || :",
    "(exit 3) || :",
    "(exec false) || :",
    "x=$(exec echo y); [ $x = y ] || exit 9",
    "exit 5 | cat",
    "bash -c 'exit 6' || :",
    "exec 3>&1",
    "set -- exit 7",
];

const LINE: &str = "echo \"$FOO $# $(pwd -P)\"; exit 3";

/// Runs a task to its end with these variables, and returns its exit code and its output.
fn run_with(world: &World, variables: &[(&str, &str)], words: &[&str]) -> (i32, String) {
    let run = ["run", "api", "--wait", "--timeout", "30s", "--"];
    let output = world.task_with(variables, [&run[..], words].concat());
    let shown = world.task(["logs", "api"]);
    (output.code, shown.ok().to_owned())
}

fn run(world: &World, words: &[&str]) -> (i32, String) {
    run_with(world, &[("FOO", "mine")], words)
}

/// Writes the profile that a login shell reads.
fn write_profile(world: &World, lines: &str) {
    let profile = world.path("home/.bash_profile");
    fs::write(profile, format!("{lines}\n")).unwrap();
}

#[test]
fn a_profile_that_ends_or_replaces_the_shell_does_not_hide_the_command() {
    let world = World::new();
    let project = fs::canonicalize(world.project()).unwrap();
    let expected = format!("mine 0 {}\n", project.display());
    for line in ENDINGS {
        write_profile(&world, line);
        assert_eq!(run(&world, &[LINE]), (3, expected.clone()), "{line}");
        let argv = ["sh", "-c", "printf '[%s]' \"$@\"; exit 4", "sh", "a b", ""];
        let (code, shown) = run(&world, &argv);
        assert_eq!((code, shown.trim_end()), (4, "[a b][]"), "{line}");
    }
    for line in HARMLESS {
        let then = "export OF_PROFILE=1; hello() { echo \"hello $OF_PROFILE\"; }";
        write_profile(&world, &format!("{line}\n{then}"));
        let (code, shown) = run(&world, &["hello; exit 3"]);
        assert_eq!((code, shown.as_str()), (3, "hello 1\n"), "{line}");
    }
}

#[test]
fn a_command_that_never_began_is_no_success() {
    let world = World::new();
    let ended = "tmux-task: exec: the login profile has ended the shell\n";
    for (line, code, end) in [
        ("builtin exit 0", 126, ended),
        ("set -u; echo $no_such_variable", 126, ended),
        ("set -o posix; exit 0", 126, ended),
        ("command exec true", 3, "ran\n"),
        ("exec 3>&1; builtin exec cat", 3, "ran\n"),
    ] {
        write_profile(&world, line);
        let (found, shown) = run(&world, &["exec 3>&1; echo ran; exit 3"]);
        assert_eq!(found, code, "{line}");
        assert!(shown.ends_with(end), "{line}: {shown}");
    }
}

#[test]
fn what_bash_reads_besides_the_profile_does_not_hide_the_command_either() {
    let world = World::new();
    let file = world.path("home").join("env.sh");
    fs::write(&file, "export OF_FILE=1\nexit 0\n").unwrap();
    let variables = [("BASH_ENV", "$HOME/env.sh")];
    let (code, shown) = run_with(&world, &variables, &["echo $BASH_ENV; exit 3"]);
    assert_eq!((code, shown.as_str()), (3, "$HOME/env.sh\n"));
}

#[test]
fn a_server_that_does_not_find_bash_starts_every_task() {
    let world = World::new();
    let tmux = world.shell("command -v tmux");
    let mut server = world.command(tmux.ok().trim());
    server
        .args(["new-session", "-d", "-s", "other", "exec /bin/sleep 1000"])
        .env("PATH", "/nowhere");
    Output::of(server).ok();
    for code in [3, 4] {
        let line = format!("echo ran; exit {code}");
        let (found, shown) = run(&world, &[&line]);
        assert_eq!((found, shown.as_str()), (code, "ran\n"));
    }
    let words = ["run", "api", "--clean-env", "--wait", "--", "exit 5"];
    world.task(words).fails_with(5);
}

/// So many names are more than any of tmux's messages holds, and with the environment nearly what the
/// kernel takes.
fn names(n_bytes: usize) -> Vec<String> {
    let name = |n: usize| format!("src/components/some-feature-folder/views/{n}/file-{n}.ts");
    let mut bytes = 0;
    (1000..)
        .map(name)
        .take_while(|name| {
            bytes += name.len() + 9;
            bytes < n_bytes
        })
        .collect()
}

#[test]
fn arguments_are_as_long_as_the_kernel_takes() {
    let world = World::new();
    let seen = world.project().join("seen");
    let names = names(1_500_000);
    let line = "echo $# >>seen.part; mv seen.part seen; exec sleep 1000";
    let mut words = vec!["sh", "-c", line, "sh"];
    words.extend(names.iter().map(String::as_str));
    let check = || {
        world.until_true("it runs", || seen.exists());
        let told = fs::read_to_string(&seen).unwrap();
        assert_eq!(told, format!("{}\n", names.len()));
        fs::remove_file(&seen).unwrap();
    };
    Output::of(launching(&world, "api", &words)).ok();
    check();
    world.task(["restart", "api"]).ok();
    check();
}

#[test]
fn a_file_of_tasks_and_a_restart_have_long_arguments_too() {
    let world = World::new();
    let names = names(140_000);
    let list = names.iter().map(|name| format!(", \"{name}\""));
    let list: String = list.collect();
    let file = |command: &str| {
        let text = format!(
            "[tasks.api]\ncommand = {command}\nrestart = \"on-failure:1\"\nbackoff = \"0s\"\n"
        );
        fs::write(world.project().join("tmux-task.toml"), text).unwrap();
    };
    file(&format!(
        "[\"sh\", \"-c\", \"echo $# >>seen; exit 1\", \"sh\"{list}]"
    ));
    world.task(["up"]).ok();
    let seen = world.project().join("seen");
    let expected = format!("{0}\n{0}\n", names.len());
    world.until_true("it ran twice", || {
        fs::read_to_string(&seen).is_ok_and(|seen| seen == expected)
    });
    // What the kernel does not take in one argument is refused.
    file(&format!("\"echo {}\"", "x".repeat(140_000)));
    let output = world.task(["up"]);
    assert_ne!(output.code, 0, "{output}");
    output.says("too long: ").says("the kernel takes");
}

#[test]
fn a_pane_that_is_respawned_by_hand_runs_its_command() {
    let world = World::new();
    let line = "echo \"${FOO-none} $TMUX_TASK_NAME $TMUX_TASK_SESSION\"";
    let window = world.run("api", line);
    world.until_ended(&window);
    world.tmux(["set-environment", "-g", "FOO", "of tmux"]);
    world.tmux(["respawn-pane", "-k", "-t", &window]);
    world.until_true("the second run prints", || {
        let shown = world.task(["logs", "api"]);
        shown.out.contains("of tmux api work")
    });
}

#[test]
fn only_the_process_of_a_pane_runs_what_its_window_has_recorded() {
    let world = World::new();
    let window = world.run("api", "echo x >>ran");
    world.until_ended(&window);
    let ran = || {
        let ran = fs::read_to_string(world.project().join("ran")).unwrap();
        ran.lines().count()
    };
    for words in [&["exec", "api"][..], &["exec", "--help"], &["exec"]] {
        let hint = "hint: did you mean `tmux-task run NAME -- COMMAND`?";
        world.task(words).fails_so(2, "").says(hint);
    }
    let shown = world.shown(&window, "#{socket_path},#{pid},0 #{pane_id}");
    let (server, pane) = shown.split_once(' ').unwrap();
    for pane in ["", pane] {
        let variables = [("TMUX", server), ("TMUX_PANE", pane)];
        let output = world.task_with(&variables, ["--exec-pane", "api"]);
        let why = "this is not the process of a task's pane\n";
        output.fails_so(126, "").says(why);
    }
    assert_eq!(ran(), 1);
    // It asks its own server, by the program of that, whatever is called tmux here.
    let fake = world.script("project/tmux", "#!/bin/sh\nexit 1\n");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", fake.parent().unwrap().display());
    world.tmux(["set-environment", "-g", "PATH", &path]);
    world.tmux(["respawn-pane", "-k", "-t", &window]);
    world.until_true("it runs again", || ran() == 2);
}

#[test]
#[cfg(target_os = "linux")]
fn a_program_that_was_removed_while_its_daemon_runs_still_restarts_tasks() {
    let world = World::new();
    let program = world.path("home").join("tmux-task");
    // By a process of its own: no other thread has the file open when it starts a program.
    let mut copy = world.command("cp");
    copy.arg(World::program()).arg(&program);
    Output::of(copy).ok();
    let mut daemon = world.command(&program);
    daemon.args(["daemon", "--detach"]);
    Output::of(daemon).ok();
    fs::remove_file(&program).unwrap();
    let line = "echo x >>n; test \"$(wc -l <n)\" -ge 2";
    let args = ["run", "api", "--restart", "on-failure", "--backoff", "0"];
    world.task([&args[..], &["--", line]].concat()).ok();
    let records = world.until("its success", |records| {
        codes(records, "api").contains(&(2, 0))
    });
    assert_eq!(codes(&records, "api"), [(1, 1), (2, 0)]);
}

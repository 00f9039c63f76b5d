//! The environment of a task, and the places in which its values must not appear.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Output, World, lacks, window_of};

/// A value that nothing but the task may show.
const SECRET: &str = "s3cret-of-the-caller-7f1c";

/// Returns the command that launches a task.
pub(crate) fn launching(world: &World, task: &str, words: &[&str]) -> Command {
    let mut command = world.command(World::program());
    command.args(["run", task, "--"]).args(words);
    command
}

/// Has a task write its environment to a file, and returns what it wrote.
fn environment_of_task(world: &World, mut launch: Command) -> Vec<Vec<u8>> {
    let file = world.path("task-environment");
    drop(fs::remove_file(&file));
    launch.env("FILE_OF_TEST", &file);
    Output::of(launch).ok();
    world.until_true("the task writes its environment", || file.exists());
    variables(&file)
}

/// The variables in a file that ends each with a zero byte.
fn variables(file: &Path) -> Vec<Vec<u8>> {
    let text = fs::read(file).unwrap();
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

/// What the task of [`environment_of_task`] runs.
const WRITE: &str = "command -p env -0 >\"$FILE_OF_TEST.part\"; \
                     command -p mv \"$FILE_OF_TEST.part\" \"$FILE_OF_TEST\"";

fn has(environment: &[Vec<u8>], name: &str, value: &[u8]) -> bool {
    let expected = [name.as_bytes(), b"=", value].concat();
    environment.contains(&expected)
}

fn has_name(environment: &[Vec<u8>], name: &str) -> bool {
    let beginning = format!("{name}=");
    let mut variables = environment.iter();
    variables.any(|variable| variable.starts_with(beginning.as_bytes()))
}

/// Checks that a task has variables of these names, and none of those.
#[track_caller]
fn check_names(environment: &[Vec<u8>], these: &[&str], those: &[&str]) {
    for name in these {
        assert!(has_name(environment, name), "{name}");
    }
    for name in those {
        assert!(!has_name(environment, name), "{name}");
    }
}

/// Writes the profile that a login shell reads.
fn write_profile(world: &World, text: &str) {
    fs::write(world.path("home/.bash_profile"), text).unwrap();
}

#[test]
fn a_task_runs_in_its_callers_environment_without_what_is_withheld() {
    let world = World::new();
    world.configure("env-withhold = [\"ONE\", \"MANY_*\"]\n");
    let bin = world.path("venv");
    fs::create_dir(&bin).unwrap();
    // A profile that takes `PATH` away, as many a system's does, and sets more.
    let profile = "PATH=/usr/bin:/bin; export OF_PROFILE=1 FOO=changed\n";
    write_profile(&world, profile);
    let every: Vec<u8> = (1..=255).collect();
    let mut launch = launching(&world, "api", &[WRITE]);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let long = "x".repeat(100_000);
    // What the task has as its caller has it.
    let kept: [(&str, &[u8]); 11] = [
        ("PATH", path.as_bytes()),
        ("FOO", b"1"),
        ("EMPTY", b""),
        ("LINES_OF_IT", b"a\nb\n"),
        ("FORMAT", b"#{pid} #(touch owned) #[x] ## $(touch owned)"),
        ("QUOTES", b"it's \"x\" \\ `touch owned`"),
        ("LONG", long.as_bytes()),
        ("EVERY", &every),
        ("npm_config_//host/:_token", b"it's\n"),
        ("n", b"short"),
        ("TMUX_TASK_SESSION", b"work"),
    ];
    for (name, value) in kept {
        launch.env(name, OsStr::from_bytes(value));
    }
    let withheld = "CLAUDECODE CLAUDE_CODE_SESSION_ID TMUX_TASK_OWNER OPENCODE_SERVER_PASSWORD \
                    TERM_SESSION_ID ONE MANY_1";
    let withheld: Vec<&str> = withheld.split(' ').collect();
    for name in withheld.iter().chain([&"COLUMNS"]) {
        launch.env(name, "7777");
    }
    launch
        .env("TMUX_TASK_TMUX", world.shell("command -v tmux").ok().trim())
        .env("IFS", ",")
        .env("BASH_FUNC_hello%%", "() { echo hello; }");
    let seen = environment_of_task(&world, launch);
    let set: [(&str, &[u8]); 3] = [
        ("OF_PROFILE", b"1"),
        ("PI_TMUX_SESSION", b"work"),
        ("TMUX_TASK_NAME", b"api"),
    ];
    for (name, value) in kept.into_iter().chain(set) {
        assert!(has(&seen, name, value), "{name}");
    }
    let terminals = ["TMUX", "TMUX_PANE", "TERM", "BASH_FUNC_hello%%"];
    check_names(&seen, &terminals, &withheld);
    assert!(!has(&seen, "COLUMNS", b"7777"));
    assert!(!world.project().join("owned").exists());
}

#[test]
fn a_callers_environment_stays_with_its_own_tasks() {
    let world = World::new();
    let mut first = launching(&world, "first", &[WRITE]);
    first.env("OF_FIRST", "1").env("CODEX_THREAD_ID", "x1");
    assert!(has(&environment_of_task(&world, first), "OF_FIRST", b"1"));
    let second = launching(&world, "second", &[WRITE]);
    let seen = environment_of_task(&world, second);
    check_names(&seen, &[], &["OF_FIRST"]);
    // The same window, for another caller.
    let third = launching(&world, "first", &[WRITE]);
    let seen = environment_of_task(&world, third);
    check_names(&seen, &[], &["OF_FIRST", "CODEX_THREAD_ID"]);
}

#[test]
fn tmuxs_own_environment_is_there_for_the_asking() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
    world.tmux(["set-environment", "-g", "OF_TMUX", "1"]);
    world.tmux(["set-environment", "-g", "CLAUDE_CODE_SESSION_ID", "1"]);
    let file = format!("FILE_OF_TEST={}", world.path("task-environment").display());
    let run = ["run", "--clean-env", "--env", "GIVEN=it's", "--env", &file];
    let mut launch = world.command(World::program());
    launch.args([&run[..], &["api", "--", WRITE]].concat());
    launch.env("OF_CALLER", "1");
    let seen = environment_of_task(&world, launch);
    assert!(has(&seen, "OF_TMUX", b"1") && has(&seen, "GIVEN", b"it's"));
    check_names(&seen, &[], &["OF_CALLER", "CLAUDE_CODE_SESSION_ID"]);
    let launch = launching(&world, "api", &[WRITE]);
    assert!(!has_name(&environment_of_task(&world, launch), "OF_TMUX"));
}

#[test]
fn no_value_is_to_be_found_anywhere_else() {
    let world = World::new();
    let gate = world.gate("gate");
    // A server that the launch starts, a window more, and a rerun.
    for task in ["api", "web", "api"] {
        let mut launch = launching(&world, task, &[&gate.wait()]);
        launch
            .env("API_TOKEN", SECRET)
            .env("weird.name", SECRET)
            .env("BASH_FUNC_f%%", format!("() {{ echo {SECRET}; }}"))
            .env("CLAUDE_CODE_OAUTH_TOKEN", SECRET);
        window_of(Output::of(launch).ok());
    }
    let given = format!("GIVEN={SECRET}");
    let run = ["run", "--env", &given, "given", "--", &gate.wait()];
    world.task(run).ok();
    // A shell of a task has read its environment when its window's process waits at the gate.
    world.until_true("each task waits", || {
        let mut names = fs::read_dir(world.path("run")).unwrap().flatten();
        !names.any(|entry| entry.file_name().as_bytes().starts_with(b"exec-task-"))
    });
    world.has_nowhere(SECRET, &["state", "run", "xdg"]);
    let environment = format!("/proc/{}/environ", world.server().as_raw_nonzero());
    let environment = variables(Path::new(&environment));
    lacks(String::from_utf8_lossy(&environment.concat()), SECRET);
    check_names(&environment, &[], &["TMUX_TASK_SESSION"]);
}

/// The output of a task once it has ended.
fn output_of_task(world: &World, launch: Command) -> String {
    Output::of(launch).ok();
    world.task(["daemon", "--detach"]).ok();
    world.task(["wait", "api", "--exit"]);
    world.task(["logs", "api"]).ok().to_owned()
}

#[test]
fn a_profile_changes_neither_the_directory_nor_whether_the_command_runs() {
    let profile =
        "cd /; exec() { :; }; eval() { :; }; exit() { :; }; set() { :; }; trap() { :; }\n";
    let here = "pwd -P; echo \"$0\"";
    for clean in [&[][..], &["--clean-env"]] {
        let world = World::new();
        write_profile(&world, profile);
        let mut launch = world.command(World::program());
        launch.args([&["run"], clean, &["api", "--", here]].concat());
        // Functions of the environment as well.
        for name in ["exec", "eval"] {
            launch.env(format!("BASH_FUNC_{name}%%"), "() { :; }");
        }
        let project = fs::canonicalize(world.project()).unwrap();
        let expected = format!("{}\nbash\n", project.display());
        assert_eq!(output_of_task(&world, launch), expected);
    }
}

#[test]
fn a_traced_task_shows_its_own_commands_only() {
    let world = World::new();
    let launch = launching(&world, "api", &["set -x; false"]);
    assert_eq!(output_of_task(&world, launch), "++ false\n");
}

#[test]
fn a_locale_that_is_not_installed_is_no_reason_to_warn_again_and_again() {
    let world = World::new();
    let mut launch = launching(&world, "api", &["echo \"$LC_ALL\""]);
    launch.env("LC_ALL", "xx_XX.UTF-8");
    let launched = Output::of(launch);
    assert_eq!(launched.code, 0, "{}", launched.err);
    // bash itself, as it starts.
    assert!(launched.err.lines().count() <= 2, "{}", launched.err);
    world.task(["daemon", "--detach"]).ok();
    world.task(["wait", "api", "--exit"]);
    let shown = world.task(["logs", "api"]).ok().to_owned();
    assert_eq!(shown.lines().last(), Some("xx_XX.UTF-8"), "{shown}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_that_a_command_starts_keeps_nothing_of_the_callers_environment_that_it_does_not_need() {
    let mut world = World::new();
    world.set("API_TOKEN", SECRET);
    world.set("CLAUDE_CODE_OAUTH_TOKEN", SECRET);
    world.set("PI_SESSION_ID", "p1");
    world.set("HTTPS_PROXY", "http://proxy.example:3128");
    world.run("keeps", "exec sleep 1000");
    let autostarted = environment_of_daemon(&world);
    world.finish();
    world.task(["daemon", "--detach"]).ok();
    let detached = environment_of_daemon(&world);
    let (kept, left_out) = (
        ["HOME", "PATH", "PI_SESSION_ID", "HTTPS_PROXY"],
        ["API_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    );
    for seen in [autostarted, detached] {
        check_names(&seen, &kept, &left_out);
    }
    // A task has all of it, also if the daemon starts it.
    let launch = launching(&world, "sees", &[WRITE]);
    let seen = environment_of_task(&world, launch);
    assert!(has(&seen, "API_TOKEN", SECRET.as_bytes()));
}

#[cfg(target_os = "linux")]
fn environment_of_daemon(world: &World) -> Vec<Vec<u8>> {
    let pid = world.daemon_pid().as_raw_nonzero();
    variables(Path::new(&format!("/proc/{pid}/environ")))
}

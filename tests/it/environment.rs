//! The environment of a task, and the places in which its values must not appear.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use crate::support::{Output, World, window_of};

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
    let text = fs::read(&file).unwrap();
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
    environment
        .iter()
        .any(|variable| variable.starts_with(beginning.as_bytes()))
}

#[test]
fn a_task_runs_in_its_callers_environment() {
    let world = World::new();
    let bin = world.path("venv");
    fs::create_dir(&bin).unwrap();
    // A profile that takes `PATH` away, as many a system's does, and sets more.
    fs::write(
        world.path("home").join(".bash_profile"),
        "PATH=/usr/bin:/bin; export OF_PROFILE=1 FOO=changed\n",
    )
    .unwrap();
    let every: Vec<u8> = (1..=255).collect();
    let mut launch = launching(&world, "api", &[WRITE]);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    launch
        .env("PATH", &path)
        .env("TMUX_TASK_TMUX", which("tmux"))
        .env("FOO", "1")
        .env("EMPTY", "")
        .env("LINES_OF_IT", "a\nb\n")
        .env("FORMAT", "#{pid} #(touch owned) #[x] ## $(touch owned)")
        .env("QUOTES", "it's \"x\" \\ `touch owned`")
        .env("LONG", "x".repeat(100_000))
        .env("EVERY", OsStr::from_bytes(&every))
        .env("IFS", ",")
        .env("npm_config_//host/:_token", "it's\n")
        .env("n", "short")
        .env("BASH_FUNC_hello%%", "() { echo hello; }")
        .env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "c1")
        .env("TMUX_TASK_OWNER", "me")
        .env("OPENCODE_SERVER_PASSWORD", "p")
        .env("COLUMNS", "7777")
        .env("TERM_SESSION_ID", "7777")
        .env("TMUX_TASK_SESSION", "work");
    let seen = environment_of_task(&world, launch);
    for (name, value) in [
        ("PATH", path.as_bytes()),
        ("FOO", b"1"),
        ("EMPTY", b""),
        ("LINES_OF_IT", b"a\nb\n"),
        ("FORMAT", b"#{pid} #(touch owned) #[x] ## $(touch owned)"),
        ("QUOTES", b"it's \"x\" \\ `touch owned`"),
        ("LONG", "x".repeat(100_000).as_bytes()),
        ("EVERY", &every),
        ("n", b"short"),
        ("OF_PROFILE", b"1"),
        ("TMUX_TASK_SESSION", b"work"),
        ("PI_TMUX_SESSION", b"work"),
        ("TMUX_TASK_NAME", b"api"),
    ] {
        assert!(has(&seen, name, value), "{name}");
    }
    assert!(has(&seen, "npm_config_//host/:_token", b"it's\n"));
    for name in ["TMUX", "TMUX_PANE", "TERM", "BASH_FUNC_hello%%"] {
        assert!(has_name(&seen, name), "{name}");
    }
    for name in [
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "TMUX_TASK_OWNER",
        "OPENCODE_SERVER_PASSWORD",
        "TERM_SESSION_ID",
    ] {
        assert!(!has_name(&seen, name), "{name}");
    }
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
    assert!(!has_name(&seen, "OF_FIRST"));
    // The same window, for another caller.
    let third = launching(&world, "first", &[WRITE]);
    let seen = environment_of_task(&world, third);
    assert!(!has_name(&seen, "OF_FIRST"));
    assert!(!has_name(&seen, "CODEX_THREAD_ID"));
}

#[test]
fn tmuxs_own_environment_is_there_for_the_asking() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
    world.tmux(["set-environment", "-g", "OF_TMUX", "1"]);
    world.tmux(["set-environment", "-g", "CLAUDE_CODE_SESSION_ID", "1"]);
    let mut launch = world.command(World::program());
    launch
        .args(["run", "--clean-env", "--env", "GIVEN=it's"])
        .args([
            "--env",
            &format!("FILE_OF_TEST={}", world.path("task-environment").display()),
        ])
        .args(["api", "--", WRITE])
        .env("OF_CALLER", "1");
    let seen = environment_of_task(&world, launch);
    assert!(has(&seen, "OF_TMUX", b"1"));
    assert!(has(&seen, "GIVEN", b"it's"));
    assert!(!has_name(&seen, "OF_CALLER"));
    assert!(!has_name(&seen, "CLAUDE_CODE_SESSION_ID"));
    let launch = launching(&world, "api", &[WRITE]);
    assert!(!has_name(&environment_of_task(&world, launch), "OF_TMUX"));
}

#[test]
fn what_the_configuration_withholds_is_withheld() {
    let world = World::new();
    let folder = world.path("conf").join("tmux-task");
    fs::create_dir(&folder).unwrap();
    let text = "env-withhold = [\"ONE\", \"MANY_*\"]\n";
    fs::write(folder.join("config.toml"), text).unwrap();
    let mut launch = launching(&world, "api", &[WRITE]);
    launch.env("ONE", "1").env("MANY_1", "1").env("OTHER", "1");
    let seen = environment_of_task(&world, launch);
    assert!(has_name(&seen, "OTHER"));
    assert!(!has_name(&seen, "ONE") && !has_name(&seen, "MANY_1"));
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
    world
        .task(["run", "--env", &given, "given", "--", &gate.wait()])
        .ok();
    // A shell of a task has read its environment when its window's process waits at the gate.
    world.until_true("each task waits", || files_left(&world).is_empty());
    for (pid, line) in command_lines() {
        assert!(!holds(&line), "the command line of {pid}");
    }
    for words in [
        &["show-environment", "-g"][..],
        &["show-environment", "-gh"],
        &["show-environment", "-t", "=work:"],
        &["show-environment", "-h", "-t", "=work:"],
        &["show-options", "-g"],
        &["show-options", "-s"],
        &["show-options", "-t", "=work:"],
        &["show-options", "-wg"],
        &["show-messages"],
        &["list-panes", "-a", "-F", "#{pane_start_command}"],
    ] {
        let said = world.tmux(words);
        assert!(!said.contains(SECRET), "{words:?}\n{said}");
    }
    let windows = world.tmux(["list-windows", "-t", "=work:", "-F", "#{window_id}"]);
    for window in windows.lines() {
        let said = world.tmux(["show-options", "-w", "-t", window]);
        assert!(!said.contains(SECRET), "{said}");
    }
    let environment = fs::read(format!("/proc/{}/environ", world.server().as_raw_nonzero()));
    assert!(!holds(&environment.unwrap()), "the server");
    let names = String::from_utf8_lossy(
        &fs::read(format!("/proc/{}/environ", world.server().as_raw_nonzero())).unwrap(),
    )
    .into_owned();
    assert!(!names.contains("TMUX_TASK_SESSION="), "{names}");
    for folder in ["state", "run", "xdg"] {
        check_files(&world.path(folder));
    }
}

/// The environments that no task has read.
fn files_left(world: &World) -> Vec<String> {
    let names = |folder: &str| {
        let entries = fs::read_dir(world.path(folder)).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("exec-task-"))
            .collect::<Vec<_>>()
    };
    names("run")
}

fn holds(bytes: &[u8]) -> bool {
    bytes
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes())
}

/// The command lines of all processes that there are.
fn command_lines() -> Vec<(String, Vec<u8>)> {
    let processes = fs::read_dir("/proc").unwrap();
    let names = processes.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((pid, line))
        })
        .collect()
}

fn check_files(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            check_files(&path);
        } else if path.is_file() {
            let found = holds(&fs::read(&path).unwrap_or_default());
            assert!(!found, "{}", path.display());
        }
    }
}

fn which(program: &str) -> std::path::PathBuf {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .unwrap()
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
    let world = World::new();
    fs::write(world.path("home").join(".bash_profile"), profile).unwrap();
    let project = fs::canonicalize(world.project()).unwrap();
    let expected = format!("{}\nbash\n", project.display());
    // Functions of the environment as well.
    let mut launch = launching(&world, "api", &[here]);
    launch
        .env("BASH_FUNC_exec%%", "() { :; }")
        .env("BASH_FUNC_eval%%", "() { :; }");
    assert_eq!(output_of_task(&world, launch), expected);
    let world = World::new();
    fs::write(world.path("home").join(".bash_profile"), profile).unwrap();
    let project = fs::canonicalize(world.project()).unwrap();
    let mut launch = world.command(World::program());
    launch.args(["run", "--clean-env", "api", "--", here]);
    let shown = output_of_task(&world, launch);
    assert_eq!(shown, format!("{}\nbash\n", project.display()));
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
    for seen in [autostarted, detached] {
        for name in ["HOME", "PATH", "PI_SESSION_ID", "HTTPS_PROXY"] {
            assert!(has_name(&seen, name), "{name}");
        }
        for name in ["API_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"] {
            assert!(!has_name(&seen, name), "{name}");
        }
    }
    // A task has all of it, also if the daemon starts it.
    let mut launch = world.command(World::program());
    launch.args(["run", "sees", "--", WRITE]);
    let seen = environment_of_task(&world, launch);
    assert!(has(&seen, "API_TOKEN", SECRET.as_bytes()));
}

#[cfg(target_os = "linux")]
fn environment_of_daemon(world: &World) -> Vec<Vec<u8>> {
    let pid = world.daemon_pid().as_raw_nonzero();
    let text = fs::read(format!("/proc/{pid}/environ")).unwrap();
    text.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect()
}

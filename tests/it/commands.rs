//! Every command on invalid input, and the output of the commands that read.

use std::fs;

use serde_json::json;

use crate::support::{World, begins, deliveries, has, names};

const NO_SESSION: &str = "no session `work`\n\
    hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session";

/// Whether a folder of the world is empty.
fn is_empty(world: &World, folder: &str) -> bool {
    !world.path(folder).read_dir().unwrap().any(|_| true)
}

/// Checks that a command says this, with its own name before.
#[track_caller]
fn fails(world: &World, options: &str, command: &str, code: i32, why: &str) {
    let name = command.split(' ').next().unwrap();
    let output = world.call(&format!("{options} {command}"));
    output.fails(code, &format!("tmux-task: {name}: {why}"));
}

/// Checks that commands say nothing and succeed.
#[track_caller]
fn are_silent(world: &World, commands: &str) {
    for command in commands.split('|') {
        let output = world.call(command);
        assert_eq!((output.ok(), output.err.as_str()), ("", ""), "{command}");
    }
}

#[test]
fn without_a_session_commands_have_nothing_to_do_or_miss_it() {
    const MISS_IT: &str =
        "ls|ls --json|logs api|logs api -f|search x|wait api|kill api|kill-all|kill-all --yes";
    let world = World::new();
    are_silent(&world, "daemon stop|daemon stop --cleanup");
    let check = || {
        are_silent(&world, "status|prune");
        for command in MISS_IT.split('|') {
            fails(&world, "", command, 3, NO_SESSION);
        }
    };
    check();
    let output = world.task(["prune", "--json"]);
    assert_eq!(output.ok(), "{\"pruned\":[]}\n");
    let status = json!({"kind": "status", "text": null, "running": 0, "waiting": 0, "dead": 0});
    assert_eq!(world.json(["status", "--json"]), status);
    // No process was started for this, and no file was left behind.
    for folder in ["tmux", "state", "run"] {
        assert!(is_empty(&world, folder), "{folder}");
    }
    // The same goes while a daemon waits for the session.
    world.daemon();
    check();
    assert_eq!(world.finish().len(), 0);
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let world = World::new();
    let nowhere = world.path("nowhere");
    let nowhere = nowhere.display();
    let why = format!(
        "there is no folder {nowhere} for the tmux server's socket\n\
         hint: make it, or name another path with -S"
    );
    let all = "run api -- true|daemon --detach|daemon|feed --follow|ls|kill api";
    for command in all.split('|') {
        fails(&world, &format!("-S {nowhere}/s"), command, 1, &why);
    }
    assert!(is_empty(&world, "state"));

    let program = World::program().display();
    let deleted = |args: &str| {
        let enter = "mkdir gone && cd gone && rmdir ../gone";
        world.shell(&format!("{enter} && exec {program} {args}"))
    };
    let why = "the directory that this was started in was deleted";
    let hint = "hint: --cwd names another";
    deleted("run api -- true").fails(1, &format!("tmux-task: run: {why}\n{hint}"));
    deleted("-S s ls").fails(1, &format!("tmux-task: ls: {why}"));
    deleted("ls").fails(3, &format!("tmux-task: ls: {NO_SESSION}"));
    assert_eq!(deleted("status").ok(), "");
}

#[test]
fn a_task_that_is_not_there_is_missed() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for command in ["kill", "logs"] {
        for name in ["ap", "api2", "@999", "work", "%0", ""] {
            let why =
                format!("no task `{name}` in session `work`\nhint: `tmux-task ls` lists them");
            fails(&world, "", &format!("{command} '{name}'"), 3, &why);
        }
    }
    let why = "no task `web` in session `work`\nhint: `tmux-task run web -- COMMAND` starts it";
    fails(&world, "", "run web", 3, why);
    // To start a daemon is no help for one who wants to stop it.
    world.task(["daemon", "stop"]).ok();
    let why = "tmux-task: daemon stop: no daemon runs for session `work`";
    world.task(["daemon", "stop"]).fails(3, why);
}

#[test]
fn bad_task_names_are_refused_before_tmux_is_touched() {
    let world = World::new();
    let long = "x".repeat(41);
    let names = ["", "_a", "a:b", "é", "a\n", "a#{q}", &long];
    let names = names.map(|name| vec![name, "--", "exit 0"]);
    let lines = [vec!["--", "", "exit 0"], vec!["a", "--", " ", "x"]];
    for words in names.into_iter().chain(lines) {
        let output = world.task([&["run"], &words[..]].concat());
        let ended = (output.code, output.out.as_str());
        assert_eq!(ended, (2, ""), "{words:?} {output}");
    }
    let why = "no command given for task `a`";
    fails(&world, "", "run a -- ' '", 2, why);
    let why =
        "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit";
    fails(&world, "", "run 'a b' -- 'exit 0'", 2, why);
    assert!(is_empty(&world, "tmux"));
    world.task(["daemon", "status"]).fails_with(3);
}

#[test]
fn session_names_that_tmux_would_change_are_usage_errors() {
    let mut world = World::new();
    for name in ["a.b", "a:b"] {
        for command in "ls|status|run a -- true|daemon|feed|prune".split('|') {
            let why = format!("session `{name}` of --session: tmux allows neither `.` nor `:`");
            fails(&world, &format!("--session {name}"), command, 2, &why);
        }
    }
    world.task(["-s", "", "ls"]).fails_with(2);
    world.task(["-s", "a.b", "doctor"]).fails_with(2);
    world.set("TMUX_TASK_SESSION", "a.b");
    let why = "session `a.b` of $TMUX_TASK_SESSION: tmux allows neither `.` nor `:`";
    fails(&world, "", "ls", 2, why);
}

#[test]
fn session_names_may_be_odd_otherwise() {
    let world = World::new();
    for name in "-dash|two words| blanks around |§ 日本|a*b|{last}|#{pid}".split('|') {
        let argument = format!("--session={name}");
        let task = |args: &[&str]| world.task([&[&*argument], args].concat());
        // It ends when it is asked to.
        let output = task(&["run", "api", "--", "exec sleep 1000"]);
        let first = output.ok().lines().next();
        assert_eq!(first, Some(format!("session={name}").as_str()));
        world.until_of(&[&argument], "its start", |records| {
            deliveries(records).len() == 1
        });
        // By the variable as well.
        let status = world.task_with(&[("TMUX_TASK_SESSION", name)], ["daemon", "status"]);
        let shown = format!("session  {name}");
        assert!(status.ok().lines().any(|line| line == shown), "{status}");
        assert_eq!(task(&["status"]).ok(), "tmux: 1 task\n");
        task(&["kill-all", "--yes"]).ok();
        task(&["daemon", "stop"]).ok();
    }
}

#[test]
fn usage_errors_are_two_lines_and_exit_2() {
    const WRONG: &str = "nonsense|ls --nonsense|run|restart|run api echo|run api --env A -- true|kill|logs|\
        logs api -n many|feed --after x|feed --kind x|feed --type x|feed --format x|daemon --interval soon|\
        daemon --detach --stdout|run api --restart on-failure --wait -- true|\
        run api --restart on-failure --backoff 25h -- true|run api --restart always -- true|\
        run api --backoff 1s -- true";
    const CONSUMERS: &str = "--consumer pi|-f --auto-ack|-f --take-over|-f --from now|-f --consumer pi --after 3|\
        -f --consumer pi --from then|-f --consumer ../pi|-f --consumer ''";
    let world = World::new();
    for line in WRONG.split('|') {
        let output = world.call(line);
        output.fails_so(2, "tmux-task: usage: ").says("\nhint: ");
        let n_lines = output.err.lines().count();
        assert_eq!((n_lines, output.out.as_str()), (2, ""), "{output}");
    }
    for args in CONSUMERS.split('|') {
        world.call(&format!("feed {args}")).fails_with(2);
    }
    let why = "unexpected argument '--nonsense' found\nhint: see `tmux-task ls --help`";
    let output = world.task(["ls", "--nonsense"]);
    output.fails(2, &format!("tmux-task: usage: {why}"));
}

#[test]
fn help_and_version_are_results() {
    // A command is missing in some.
    const ASK: &str = "--help|-h|help||-s work|consumer|run --help|daemon -h|daemon stop --help|feed --help|replay -h";
    let world = World::new();
    for line in ASK.split('|') {
        let output = world.call(line);
        has(output.ok(), "Usage: tmux-task");
        assert_eq!(output.err, "");
    }
    // Scripts compare the short one. The long one also has the commit, if it was known to the build.
    let version = format!("tmux-task {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(world.task(["-V"]).ok(), format!("{version}\n"));
    begins(world.task(["--version"]).ok(), version);
}

#[test]
fn a_directory_that_is_not_there_is_said() {
    let world = World::new();
    let file = world.path("file").display().to_string();
    fs::write(&file, "").unwrap();
    let not_one = format!("`{file}` is not a directory to run in");
    let none = "cannot run in nowhere: No such file or directory";
    for (cwd, why) in [("nowhere", none), (&file, &not_one)] {
        let run = format!("run api --cwd {cwd} -- true");
        fails(&world, "", &run, 1, why);
    }
}

/// Without `/proc` or a lock of its own it cannot be seen, so the next command shows that no daemon of
/// the wrong program is left.
#[test]
fn a_tmux_that_is_missing_too_old_or_another_program_is_said_and_starts_nothing() {
    let mut world = World::new();
    let run = "run api -- true";
    let missing = "could not start `/no/such/tmux`: No such file or directory\n\
                   hint: install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX";
    let nowhere = "--tmux /no/such/tmux";
    for command in [run, "daemon"] {
        fails(&world, nowhere, command, 1, missing);
    }
    let old = world.script("old-tmux", "#!/bin/sh\necho 'tmux 3.1c'\n");
    let why = "tmux 3.1c is too old, 3.2 or newer is needed\n\
               hint: name a newer one with --tmux or $TMUX_TASK_TMUX";
    fails(&world, &format!("--tmux {}", old.display()), run, 1, why);
    let hint = "hint: name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX";
    for program in ["/bin/echo", "true", "false"] {
        let said =
            format!("`{program}` is not tmux: `-V` does not print a version of tmux\n{hint}");
        for command in [run, "ls", "daemon"] {
            fails(&world, &format!("--tmux {program}"), command, 1, &said);
        }
        world.set("TMUX_TASK_TMUX", program);
        fails(&world, "", run, 1, &said);
        world.set("TMUX_TASK_TMUX", "");
    }
    world.task(["daemon", "status"]).fails(
        3,
        "tmux-task: daemon status: no daemon runs for session `work`\n\
         hint: start one with `tmux-task daemon --detach`",
    );
    world.run("api", "exec sleep 1000");
    world.task(["ls"]).ok();
    // Beside a daemon that makes it unnecessary, too.
    fails(&world, nowhere, "ls", 1, missing);
}

#[test]
fn a_bad_configuration_names_file_line_and_key() {
    let mut world = World::new();
    world.configure("# mine\nnotice = []\n");
    let file = world.config_file();
    let why = format!(
        "{}:2: unknown key `notice`; did you mean `notices`?",
        file.display()
    );
    let refused = format!("tmux-task: configuration: {why}");
    world.task(["daemon"]).fails(1, &refused);
    let output = world.task(["run", "api", "--", "true"]);
    output.fails_so(1, "").says(&why);
    assert_eq!(output.out, "");

    let other = world.path("other.toml");
    fs::write(&other, "\n\nnotices = 3\n").unwrap();
    world.set("TMUX_TASK_CONFIG", other.to_str().unwrap());
    let why = format!(
        "{}:3: `notices` must be a table, or a list of \"desktop\", \"terminal\" and \"tmux\", found an \
         integer",
        other.display()
    );
    let refused = format!("tmux-task: configuration: {why}");
    world.task(["daemon"]).fails(1, &refused);
    fs::write(&other, "notices = []\n").unwrap();
    world.daemon();
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let world = World::new();
    let file = world.path("precious");
    fs::write(&file, "text").unwrap();
    for command in ["run api -- true", "ls", "daemon"] {
        let refused = world.call(&format!("-S {} {command}", file.display()));
        refused.fails_so(1, "").says("is not a tmux socket");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "text");
}

#[test]
fn ls_lists_only_what_is_asked_for() {
    let world = World::new();
    world.daemon();
    world.run("api", "exec sleep 1000");
    world.run("lint", "exit 2");
    world.run("build", "exit 0");
    world.run("deploy", "read -rp 'Go on? [y/N] ' answer");
    world.until_delivered("input", "deploy");
    world.until_delivered("exited", "lint");
    world.until_delivered("exited", "build");
    for (args, expected) in [
        ("", "api lint build deploy"),
        ("--failed", "lint"),
        ("--waiting", "deploy"),
        ("--running", "api"),
        ("--running --waiting", "api deploy"),
        ("PL", "deploy"),
        ("sleep", "api"),
        ("--failed api", ""),
    ] {
        let view = world.call(&format!("ls --json {args}")).json();
        assert_eq!(names(&view["tasks"]).join(" "), expected, "{args}");
    }
    let all = world.task(["ls", "--all", "nothing"]);
    assert_eq!(all.ok(), "");
    let shown = world.task(["ls", "--failed"]);
    assert_eq!(shown.ok().lines().count(), 2, "{shown}");
    let cells: Vec<&str> = shown
        .ok()
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(cells[1..5], ["lint", "exited", "2", "1"]);
    assert_eq!(cells[6..], ["exit", "2"]);
    has(world.task(["status"]).ok(), "1 failed");
    // Without a daemon as well.
    world.task(["daemon", "stop"]).ok();
    has(world.task(["status"]).ok(), "1 failed");
}

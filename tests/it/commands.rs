//! Every command on invalid input, and the output of the commands that read.

use std::fs;

use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{Output, World, deliveries};

const NO_SESSION: &str = "no session `work`\n\
    hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session";

#[test]
fn without_a_session_commands_have_nothing_to_do_or_miss_it() {
    let world = World::new();
    for args in [
        &["status"][..],
        &["prune"],
        &["daemon", "stop"],
        &["daemon", "stop", "--cleanup"],
    ] {
        let output = world.task(args);
        assert_eq!((output.ok(), output.err.as_str()), ("", ""), "{args:?}");
    }
    for (args, what) in [
        (&["ls"][..], "ls"),
        (&["ls", "--json"], "ls"),
        (&["logs", "api"], "logs"),
        (&["logs", "api", "-f"], "logs"),
        (&["search", "x"], "search"),
        (&["wait", "api"], "wait"),
        (&["kill", "api"], "kill"),
        (&["kill-all"], "kill-all"),
        (&["kill-all", "--yes"], "kill-all"),
    ] {
        world
            .task(args)
            .fails(3, &format!("tmux-task: {what}: {NO_SESSION}"));
    }
    let output = world.task(["prune", "--json"]);
    assert_eq!(output.ok(), "{\"pruned\":[]}\n");
    let status = world.task(["status", "--json"]);
    let status: Value = serde_json::from_str(status.ok()).unwrap();
    assert_eq!(
        status,
        json!({"kind": "status", "text": null, "running": 0, "waiting": 0, "dead": 0})
    );
    // No process was started for this, and no file was left behind.
    for folder in ["tmux", "state", "run"] {
        assert!(!world.path(folder).read_dir().unwrap().any(|_| true));
    }
}

#[test]
fn a_folder_that_is_missing_is_named() {
    let world = World::new();
    let nowhere = world.path("nowhere");
    let socket = nowhere.join("s");
    let commands: [&[&str]; 6] = [
        &["run", "api", "--", "true"],
        &["daemon", "--detach"],
        &["daemon"],
        &["feed", "--follow"],
        &["ls"],
        &["kill", "api"],
    ];
    for command in commands {
        let output = world.task([&["-S", socket.to_str().unwrap()], command].concat());
        let why = format!(
            "tmux-task: {}: there is no folder {} for the tmux server's socket\n\
             hint: make it, or name another path with -S",
            command[0],
            nowhere.display()
        );
        output.fails(1, &why);
    }
    assert!(!world.path("state").read_dir().unwrap().any(|_| true));

    let deleted = |args: &str| {
        let mut shell = world.command("sh");
        let program = World::program().display();
        let line = format!("mkdir gone && cd gone && rmdir ../gone && exec {program} {args}");
        shell.args(["-c", &line]);
        Output::of(shell)
    };
    let why = "the directory that this was started in was deleted";
    deleted("run api -- true").fails(
        1,
        &format!("tmux-task: run: {why}\nhint: --cwd names another"),
    );
    deleted("-S s ls").fails(1, &format!("tmux-task: ls: {why}"));
    deleted("ls").fails(3, &format!("tmux-task: ls: {NO_SESSION}"));
}

#[test]
fn the_same_goes_while_a_daemon_waits_for_the_session() {
    let world = World::new();
    world.daemon();
    for args in [&["status"][..], &["prune"]] {
        let output = world.task(args);
        assert_eq!((output.ok(), output.err.as_str()), ("", ""), "{args:?}");
    }
    for (args, what) in [
        (&["ls"][..], "ls"),
        (&["logs", "api"], "logs"),
        (&["kill", "api"], "kill"),
        (&["kill-all", "--yes"], "kill-all"),
    ] {
        world
            .task(args)
            .fails(3, &format!("tmux-task: {what}: {NO_SESSION}"));
    }
    assert_eq!(world.finish().len(), 0);
}

#[test]
fn a_task_that_is_not_there_is_missed() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for command in ["kill", "logs"] {
        for name in ["ap", "api2", "@999", "work", "%0", ""] {
            world.task([command, name]).fails(
                3,
                &format!(
                    "tmux-task: {command}: no task `{name}` in session `work`\n\
                     hint: `tmux-task ls` lists them"
                ),
            );
        }
    }
    world.task(["run", "web"]).fails(
        3,
        "tmux-task: run: no task `web` in session `work`\n\
         hint: `tmux-task run web -- COMMAND` starts it",
    );
    // To start a daemon is no help for one who wants to stop it.
    world.task(["daemon", "stop"]).ok();
    let why = "tmux-task: daemon stop: no daemon runs for session `work`";
    world.task(["daemon", "stop"]).fails(3, why);
}

#[test]
fn bad_task_names_are_refused_before_tmux_is_touched() {
    let world = World::new();
    let long = "x".repeat(41);
    for name in [
        "", ".a", "-a", "_a", "a b", "a:b", "é", "a\n", "a#{q}", &long,
    ] {
        let output = world.task(["run", name, "--", "exit 0"]);
        assert_eq!(
            (output.code, output.out.as_str()),
            (2, ""),
            "{name:?} {output}"
        );
    }
    for words in [&["--", "", "exit 0"][..], &["a", "--", " ", "x"]] {
        let output = world.task([&["run"], words].concat());
        assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    }
    world
        .task(["run", "a", "--", " "])
        .fails(2, "tmux-task: run: no command given for task `a`");
    world.task(["run", "a b", "--", "exit 0"]).fails(
        2,
        "tmux-task: run: `a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a \
         letter or digit",
    );
    assert!(!world.path("tmux").read_dir().unwrap().any(|_| true));
    assert_eq!(world.task(["daemon", "status"]).code, 3);
}

#[test]
fn session_names_that_tmux_would_change_are_usage_errors() {
    let mut world = World::new();
    let commands: [&[&str]; 6] = [
        &["ls"],
        &["status"],
        &["run", "a", "--", "true"],
        &["daemon"],
        &["feed"],
        &["prune"],
    ];
    for name in ["a.b", "a:b"] {
        for command in commands {
            let output = world.task([&["--session", name], command].concat());
            output.fails(
                2,
                &format!(
                    "tmux-task: {}: session `{name}` of --session: tmux allows neither `.` nor `:`",
                    command[0]
                ),
            );
        }
    }
    assert_eq!(world.task(["-s", "", "ls"]).code, 2);
    world.set("TMUX_TASK_SESSION", "a.b");
    world.task(["ls"]).fails(
        2,
        "tmux-task: ls: session `a.b` of $TMUX_TASK_SESSION: tmux allows neither `.` nor `:`",
    );
}

#[test]
fn session_names_may_be_odd_otherwise() {
    let world = World::new();
    let names = [
        "-dash",
        "two words",
        " blanks around ",
        "§ 日本",
        "a*b",
        "{last}",
        "#{pid}",
    ];
    for name in names {
        let argument = format!("--session={name}");
        // It ends when it is asked to.
        let line = "exec sleep 1000";
        let output = world.task([argument.as_str(), "run", "api", "--", line]);
        assert_eq!(
            output.ok().lines().next(),
            Some(format!("session={name}").as_str())
        );
        world.until_of(&[&argument], "its start", |records| {
            deliveries(records).len() == 1
        });
        let status = world.task([argument.as_str(), "daemon", "status"]);
        let shown = format!("session  {name}");
        assert!(status.ok().lines().any(|line| line == shown), "{status}");
        assert_eq!(
            world.task([argument.as_str(), "status"]).ok(),
            "tmux: 1 task\n"
        );
        world.task([argument.as_str(), "kill-all", "--yes"]).ok();
        world.task([argument.as_str(), "daemon", "stop"]).ok();
    }
}

#[test]
fn usage_errors_are_two_lines_and_exit_2() {
    let world = World::new();
    let cases: [&[&str]; 15] = [
        &["nonsense"],
        &["ls", "--nonsense"],
        &["run"],
        &["restart"],
        &["run", "api", "echo"],
        &["run", "api", "--env", "A", "--", "true"],
        &["kill"],
        &["logs"],
        &["logs", "api", "-n", "many"],
        &["feed", "--after", "x"],
        &["feed", "--kind", "x"],
        &["feed", "--type", "x"],
        &["feed", "--format", "x"],
        &["daemon", "--interval", "soon"],
        &["daemon", "--detach", "--stdout"],
    ];
    for args in cases {
        let output = world.task(args);
        assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
        let lines: Vec<&str> = output.err.lines().collect();
        assert_eq!(lines.len(), 2, "{output}");
        assert!(lines[0].starts_with("tmux-task: usage: "), "{output}");
        assert!(lines[1].starts_with("hint: "), "{output}");
    }
    world.task(["ls", "--nonsense"]).fails(
        2,
        "tmux-task: usage: unexpected argument '--nonsense' found\nhint: see `tmux-task ls --help`",
    );
}

#[test]
fn help_and_version_are_results() {
    let world = World::new();
    for args in [
        &["--help"][..],
        &["-h"],
        &["help"],
        // A command is missing.
        &[],
        &["-s", "work"],
        &["consumer"],
        &["run", "--help"],
        &["daemon", "-h"],
        &["daemon", "stop", "--help"],
        &["feed", "--help"],
        &["replay", "-h"],
    ] {
        let output = world.task(args);
        assert!(output.ok().contains("Usage: tmux-task"), "{args:?}");
        assert_eq!(output.err, "");
    }
    let version = format!("tmux-task {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(world.task(["--version"]).ok(), version);
}

#[test]
fn a_directory_that_is_not_there_is_said() {
    let world = World::new();
    let output = world.task(["run", "api", "--cwd", "nowhere", "--", "true"]);
    output.fails(
        1,
        "tmux-task: run: cannot run in nowhere: No such file or directory",
    );
    let file = world.path("file");
    fs::write(&file, "").unwrap();
    let output = world.task(["run", "api", "--cwd", file.to_str().unwrap(), "--", "true"]);
    output.fails(
        1,
        &format!(
            "tmux-task: run: `{}` is not a directory to run in",
            file.display()
        ),
    );
}

#[test]
fn a_tmux_that_is_missing_or_too_old_is_said() {
    let world = World::new();
    for args in [&["run", "api", "--", "true"][..], &["daemon"]] {
        let output = world.task([&["--tmux", "/no/such/tmux"], args].concat());
        output.fails(
            1,
            &format!(
                "tmux-task: {}: could not start `/no/such/tmux`: No such file or \
                 directory\nhint: install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX",
                args[0]
            ),
        );
    }
    let old = world.script("old-tmux", "#!/bin/sh\necho 'tmux 3.1c'\n");
    let output = world.task(["--tmux", old.to_str().unwrap(), "run", "api", "--", "true"]);
    output.fails(
        1,
        "tmux-task: run: tmux 3.1c is too old, 3.2 or newer is needed\n\
         hint: name a newer one with --tmux or $TMUX_TASK_TMUX",
    );
}

/// Without `/proc` or a lock of its own it cannot be seen, so the next command shows that no daemon of
/// the wrong program is left.
#[test]
fn a_program_that_is_not_tmux_starts_nothing() {
    let mut world = World::new();
    let hint = "\nhint: name tmux 3.2 or newer with --tmux or $TMUX_TASK_TMUX";
    for program in ["/bin/echo", "true", "false"] {
        let said = format!("`{program}` is not tmux: `-V` does not print a version of tmux{hint}");
        for args in [&["run", "api", "--", "ls"][..], &["ls"], &["daemon"]] {
            let output = world.task([&["--tmux", program], args].concat());
            output.fails(1, &format!("tmux-task: {}: {said}", args[0]));
        }
        world.set("TMUX_TASK_TMUX", program);
        let output = world.task(["run", "api", "--", "ls"]);
        output.fails(1, &format!("tmux-task: run: {said}"));
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
    let output = world.task(["--tmux", "/no/such/tmux", "ls"]);
    output.fails(
        1,
        "tmux-task: ls: could not start `/no/such/tmux`: No such file or directory\n\
         hint: install tmux 3.2 or newer, or name it with --tmux or $TMUX_TASK_TMUX",
    );
}

#[test]
fn a_bad_configuration_names_file_line_and_key() {
    let mut world = World::new();
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "# mine\nnotice = []\n").unwrap();
    let why = format!(
        "{}:2: unknown key `notice`; did you mean `notices`?",
        file.display()
    );
    world
        .task(["daemon"])
        .fails(1, &format!("tmux-task: configuration: {why}"));
    let output = world.task(["run", "api", "--", "true"]);
    assert_eq!((output.code, output.out.as_str()), (1, ""), "{output}");
    assert!(output.err.contains(&why), "{output}");

    let other = world.path("other.toml");
    fs::write(&other, "\n\nnotices = 3\n").unwrap();
    world.set("TMUX_TASK_CONFIG", other.to_str().unwrap());
    world.task(["daemon"]).fails(
        1,
        &format!(
            "tmux-task: configuration: {}:3: `notices` must be a table, or a list of \"desktop\", \
             \"terminal\" and \"tmux\", found an integer",
            other.display()
        ),
    );
    fs::write(&other, "notices = []\n").unwrap();
    world.daemon();
}

#[test]
fn a_folder_that_is_a_trap_is_refused() {
    let mut world = World::new();
    let link = world.path("link");
    world.daemon();
    let socket = link.join(world.socket().file_name().unwrap());
    world.task(["daemon", "stop"]).ok();
    std::os::unix::fs::symlink(world.path("run"), &link).unwrap();
    world.set("TMUX_TASK_RUNTIME_DIR", link.to_str().unwrap());
    world.task(["daemon"]).fails(
        1,
        &format!(
            "tmux-task: daemon: refused to talk to what listens at {}: {} is a symbolic link; set \
             TMUX_TASK_RUNTIME_DIR to a folder of yours",
            socket.display(),
            link.display()
        ),
    );
}

#[test]
fn ls_is_a_table_of_all_tasks() {
    let world = World::new();
    let gate = world.gate("gate");
    let api = world.run("api", &format!("echo up; {}", gate.wait()));
    let lint = world.run("lint", "echo '3 errors'; exit 2");
    world.run("lint", "echo '4 errors'; exit 2");
    world.until_shows(&api, "up");
    world.until("its end", |records| {
        codes(records, "lint").last() == Some(&(2, 2))
    });
    let table = world.task(["ls"]);
    let rows: Vec<Vec<&str>> = table
        .ok()
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        rows[0],
        [
            "ID",
            "NAME",
            "STATE",
            "CODE",
            "RUN",
            "AGE",
            "COMMAND",
            "LAST LINE"
        ]
    );
    assert_eq!(rows[1][..5], [api.as_str(), "api", "running", "-", "1"]);
    assert_eq!(rows[1].last(), Some(&"up"));
    assert_eq!(rows[2][..5], [lint.as_str(), "lint", "exited", "2", "2"]);
    assert_eq!(rows[2][6..], ["echo '4 errors'; exit 2", "4 errors"]);
    let failed = "tmux: 2 tasks · 1 failed\n";
    assert_eq!(world.task(["status"]).ok(), failed);
    // Without a daemon as well.
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.task(["status"]).ok(), failed);
}

#[test]
fn logs_are_a_tasks_lines() {
    let world = World::new();
    let window = world.run("api", "seq 1 100; printf 'a b   \\n\\n  c'; exit 0");
    world.until("its end", |records| codes(records, "api").len() == 1);
    let all: Vec<String> = (1..=100).map(|n| n.to_string()).collect();
    let expected = format!("{}\na b\n\n  c\n", all.join("\n"));
    assert_eq!(world.task(["logs", "api"]).ok(), expected);
    assert_eq!(
        world.task(["logs", &window, "-n", "3"]).ok(),
        "a b\n\n  c\n"
    );
    let printed = world.task(["logs", "api", "-n", "1", "--json"]);
    let mut printed: Value = serde_json::from_str(printed.ok()).unwrap();
    let cursor = printed["cursor"].take();
    assert!(
        cursor
            .as_str()
            .is_some_and(|cursor| cursor.starts_with("c1.")),
        "{cursor}"
    );
    assert_eq!(
        printed,
        json!({"windowId": window, "windowName": "api", "run": 1, "lines": ["  c"], "cursor": null})
    );
}

#[test]
fn logs_are_of_the_present_run() {
    let world = World::new();
    let window = world.run("api", "echo first; seq 1 100");
    world.until_ended(&window);
    world.run("api", "echo second");
    world.until_ended(&window);
    assert_eq!(world.task(["logs", "api"]).ok(), "second\n");
}

#[test]
fn a_file_that_is_no_socket_is_left_alone() {
    let world = World::new();
    let file = world.path("precious");
    std::fs::write(&file, "text").unwrap();
    let path = file.to_str().unwrap();
    for command in [vec!["run", "api", "--", "true"], vec!["ls"], vec!["daemon"]] {
        let words = ["-S", path].into_iter().chain(command);
        let refused = world.task(words.collect::<Vec<_>>());
        assert_eq!(refused.code, 1);
        assert!(
            refused.err.contains("is not a tmux socket"),
            "{}",
            refused.err
        );
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "text");
}

#[test]
fn a_stale_socket_is_no_daemon() {
    let world = World::new();
    world.daemon();
    world.kill_daemon();
    assert_eq!(world.task(["daemon", "status"]).code, 3);
    world.daemon();
    assert_eq!(world.daemon_status()["sessionName"], "work");
}

#[test]
fn many_commands_at_once_start_one_daemon() {
    let world = World::new();
    let mut streams: Vec<_> = (0..6).map(|_| world.start(["feed", "--follow"])).collect();
    for stream in &streams {
        assert_eq!(stream.record()["kind"], "hello");
    }
    assert_eq!(world.daemon_status()["readers"], 6);
    world.task(["daemon", "stop"]).ok();
    for stream in &mut streams {
        assert_eq!(stream.wait(), 0);
    }
}

#[test]
fn the_working_directory_may_be_gone() {
    let world = World::new();
    let gone = world.path("gone");
    fs::create_dir(&gone).unwrap();
    let mut command = world.command("sh");
    let script = format!(
        "rmdir '{}'; exec '{}' status",
        gone.display(),
        World::program().display()
    );
    command.current_dir(&gone).args(["-c", &script]);
    assert_eq!(Output::of(command).ok(), "");
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
    let names = |args: &[&str]| {
        let output = world.task([&["ls", "--json"], args].concat());
        let view: Value = serde_json::from_str(output.ok()).unwrap();
        let tasks = view["tasks"].as_array().unwrap().iter();
        let names: Vec<String> = tasks
            .map(|task| task["windowName"].as_str().unwrap().to_owned())
            .collect();
        names.join(" ")
    };
    assert_eq!(names(&[]), "api lint build deploy");
    assert_eq!(names(&["--failed"]), "lint");
    assert_eq!(names(&["--waiting"]), "deploy");
    assert_eq!(names(&["--running"]), "api");
    assert_eq!(names(&["--running", "--waiting"]), "api deploy");
    assert_eq!(names(&["PL"]), "deploy");
    assert_eq!(names(&["sleep"]), "api");
    assert_eq!(names(&["--failed", "api"]), "");
    let all = world.task(["ls", "--all", "nothing"]);
    assert_eq!(all.ok(), "");
    let shown = world.task(["ls", "--failed"]);
    assert_eq!(shown.ok().lines().count(), 2, "{shown}");
}

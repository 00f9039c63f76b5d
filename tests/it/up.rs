//! The tasks of a file.

use std::fs;

use serde_json::Value;

use crate::support::World;

fn write(world: &World, text: &str) {
    fs::write(world.project().join("tmux-task.toml"), text).unwrap();
}

/// The tasks that there are, with their runs.
fn runs(world: &World) -> Vec<(String, i64)> {
    let tasks = world.look()["tasks"].clone();
    let tasks = tasks.as_array().unwrap().iter();
    let run = |task: &Value| {
        let name = task["windowName"].as_str().unwrap().to_owned();
        (name, task["run"].as_i64().unwrap())
    };
    let mut all: Vec<(String, i64)> = tasks.map(run).collect();
    all.sort();
    all
}

fn named(all: &[(&str, i64)]) -> Vec<(String, i64)> {
    all.iter()
        .map(|(name, run)| ((*name).to_owned(), *run))
        .collect()
}

/// The lines without the windows' ids.
fn without_ids(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with('@'));
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect()
}

#[test]
fn tasks_start_in_their_order_and_end_in_reverse() {
    let world = World::new();
    let (accepts, migrates) = (world.gate("accepts"), world.gate("migrates"));
    fs::create_dir_all(world.project().join("web")).unwrap();
    write(
        &world,
        &format!(
            r#"
            [tasks.api]
            command = ["sh", "-c", "pwd; echo \"$MODE listening\"; exec sleep 1000"]
            cwd = "web"
            env = {{ MODE = "dev" }}
            after = ["migrate"]
            ready = "dev listening"

            [tasks.db]
            command = '''{}; echo accepts connections; exec sleep 1000'''
            ready = "accepts connections"

            [tasks.migrate]
            command = '''{}'''
            after = ["db"]
            "#,
            accepts.wait(),
            migrates.wait()
        ),
    );
    let mut up = world.start(["up", "--wait"]);
    assert_eq!(without_ids(&up.line()), ["started (db)"]);
    assert_eq!(runs(&world), named(&[("db", 1)]));
    accepts.open();
    assert_eq!(without_ids(&up.line()), ["ready (db)"]);
    assert_eq!(without_ids(&up.line()), ["started (migrate)"]);
    assert_eq!(runs(&world), named(&[("db", 1), ("migrate", 1)]));
    migrates.open();
    let rest = ["succeeded (migrate)", "started (api)", "ready (api)"];
    for expected in rest {
        assert_eq!(without_ids(&up.line()), [expected]);
    }
    assert_eq!(up.wait(), 0);
    let log = world.task(["logs", "api"]);
    assert!(log.ok().contains("/project/web\n"), "{log}");

    // What runs or has finished stays.
    let again = world.task(["up", "--json"]);
    let again: Value = serde_json::from_str(again.ok()).unwrap();
    let tasks = again["tasks"].as_array().unwrap().iter();
    let tasks: Vec<(&str, &str, &Value)> = tasks
        .map(|task| {
            let word = |key: &str| task[key].as_str().unwrap();
            (word("windowName"), word("state"), &task["ready"])
        })
        .collect();
    assert_eq!(
        tasks,
        [
            ("db", "running", &Value::Bool(true)),
            ("migrate", "finished", &Value::Bool(true)),
            ("api", "running", &Value::Null),
        ]
    );
    assert_eq!(
        runs(&world),
        named(&[("api", 1), ("db", 1), ("migrate", 1)])
    );

    world.run("mine", "sleep 1000");
    let down = world.task(["down"]);
    assert_eq!(
        without_ids(down.ok()),
        ["ended (api)", "ended (migrate)", "ended (db)"]
    );
    assert_eq!(runs(&world), named(&[("mine", 1)]));
    assert_eq!(world.task(["down"]).ok(), "");
    world.finish();
}

#[test]
fn a_live_task_with_another_command_or_folder_is_left_alone_and_restart_applies_the_file() {
    let world = World::new();
    let folder = world.path("elsewhere");
    fs::create_dir(&folder).unwrap();
    let file = |command: &str, cwd: &str| {
        format!("[tasks.api]\ncommand = 'exec sleep {command}'\ncwd = '{cwd}'\n")
    };
    let elsewhere = folder.display().to_string();
    write(&world, &file("1000", &elsewhere));
    world.task(["up"]).ok();
    let up = |said: &str, hint: &str| {
        let up = world.task(["up"]);
        assert_eq!(without_ids(up.ok()), ["runs already: (api)"]);
        let expected = match said {
            "" => String::new(),
            keys => format!(
                "tmux-task: up: api runs with another {keys} than in the file\nhint: {hint}\n"
            ),
        };
        assert_eq!(up.err, expected);
    };
    let restart = "`tmux-task restart api` applies it";
    up("", "");
    // Also of a task whose folder is outside the project.
    write(&world, &file("2000", &elsewhere));
    up("`command`", restart);
    assert_eq!(runs(&world), named(&[("api", 1)]));
    world.task(["restart", "api"]).ok();
    up("", "");
    write(&world, &file("3000", &elsewhere));
    up("`command`", restart);
    let json = world.task(["up", "--json"]);
    let json: Value = serde_json::from_str(json.ok()).unwrap();
    assert_eq!(json["tasks"][0]["outdated"], serde_json::json!(["command"]));
    // What has ended runs as the file has it now.
    world.run("other", "exec sleep 1000");
    world.task(["kill", "api"]).ok();
    assert_eq!(without_ids(world.task(["up"]).ok()), ["started (api)"]);
    // Of another file, `restart` knows nothing.
    let path = world.project().join("other.toml");
    fs::write(&path, file("4000", ".")).unwrap();
    let other = world.task(["up", "other.toml"]);
    let path = path.display();
    assert_eq!(
        other.err,
        format!(
            "tmux-task: up: api runs with another `command` and `cwd` than in the file\n\
             hint: `tmux-task down {path} api`, then `tmux-task up {path} api` applies it\n"
        )
    );
    world.finish();
}

#[test]
fn a_window_that_tmux_has_named_is_no_task_of_the_file() {
    let world = World::new();
    write(&world, "[tasks.sleep]\ncommand = 'exec sleep 1000'\n");
    world.run("other", "exec sleep 1000");
    // tmux may look between fork and exec, and not again: what it shows then is its format.
    world.tmux(["set-option", "-g", "automatic-rename-format", "sleep"]);
    world.tmux(["new-window", "-d", "-t", "work:", "sleep", "901"]);
    let format = "#{window_name} #{pane_pid} #{pane_dead}";
    let window = world.tmux(["display-message", "-p", "-t", "work:{end}", "#{window_id}"]);
    let show = || world.tmux(["display-message", "-p", "-t", &window, format]);
    world.until_true("tmux has named it", || show().starts_with("sleep "));
    let before = show();
    for has_daemon in [true, false] {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        assert_eq!(world.task(["down"]).ok(), "");
        let listed = world.look()["tasks"].clone();
        let named_by_tmux: Vec<(&Value, bool)> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|task| (&task["windowName"], task["namedByTmux"] == true))
            .collect();
        assert_eq!(
            named_by_tmux,
            [(&"other".into(), false), (&"sleep".into(), true)]
        );
    }
    assert_eq!(without_ids(world.task(["up"]).ok()), ["started (sleep)"]);
    let again = world.task(["up"]);
    assert_eq!(without_ids(again.ok()), ["runs already: (sleep)"]);
    assert_eq!(without_ids(world.task(["down"]).ok()), ["ended (sleep)"]);
    assert_eq!(world.task(["down"]).ok(), "");
    assert_eq!(show(), before);
}

#[test]
fn a_task_that_was_started_while_others_were_waited_for_is_left_alone() {
    let world = World::new();
    let accepts = world.gate("accepts");
    write(
        &world,
        &format!(
            "[tasks.db]\ncommand = '''{}; echo accepts; exec sleep 1000'''\nready = 'accepts'\n\
             [tasks.api]\ncommand = 'exec sleep 1000'\nafter = ['db']\n",
            accepts.wait()
        ),
    );
    let mut up = world.start(["up"]);
    assert_eq!(without_ids(&up.line()), ["started (db)"]);
    world.task(["run", "api", "--", "exec sleep 1000"]).ok();
    accepts.open();
    assert_eq!(without_ids(&up.line()), ["ready (db)"]);
    assert_eq!(without_ids(&up.line()), ["runs already: (api)"]);
    assert_eq!(up.wait(), 0);
    assert_eq!(runs(&world), named(&[("api", 1), ("db", 1)]));
    world.finish();
}

#[test]
fn a_task_whose_first_output_is_gone_is_taken_as_ready_if_it_ran_before() {
    let world = World::new();
    let prints = world.gate("prints");
    // The text is not among the first lines, which are known.
    write(
        &world,
        &format!(
            "[tasks.api]\nready = 'listening'\n\
             command = '''seq 3000; echo listening; {}; seq 60000; echo done; exec sleep 1000'''\n",
            prints.wait()
        ),
    );
    let up = world.task(["up", "--wait"]);
    assert_eq!(without_ids(up.ok()), ["started (api)", "ready (api)"]);
    prints.open();
    world.until_shows("=work:api", "done");
    let again = world.task(["up", "--wait", "--timeout", "20s"]);
    assert_eq!(
        without_ids(again.ok()),
        [
            "runs already: (api)",
            "taken as ready: (api): the beginning of its output is gone"
        ]
    );
    // One that has printed little is waited for.
    write(
        &world,
        "[tasks.late]\nready = 'never'\ncommand = 'exec sleep 1000'\n",
    );
    for _ in 0..2 {
        let up = world.task(["up", "--wait", "--timeout", "300ms"]);
        assert_eq!(up.code, 4, "{up}");
    }
    world.finish();
}

#[test]
fn of_two_at_the_same_time_one_starts_each_task() {
    let world = World::new();
    let accepts = world.gate("accepts");
    world.run("mine", "exec sleep 1000");
    write(
        &world,
        &format!(
            "[tasks.db]\ncommand = '''{}; echo accepts; exec sleep 1000'''\nready = 'accepts'\n\
             [tasks.api]\ncommand = 'exec sleep 1000'\nafter = 'db'\n\
             [tasks.web]\ncommand = 'exec sleep 1000'\n",
            accepts.wait()
        ),
    );
    let mut both = [world.start(["up", "--wait"]), world.start(["up", "--wait"])];
    for up in &mut both {
        let mut begun = without_ids(&format!("{}\n{}", up.line(), up.line()));
        begun.sort_by_key(|line| !line.contains("(db)"));
        assert!(
            begun[0].contains("(db)") && begun[1].contains("(web)"),
            "{begun:?}"
        );
    }
    accepts.open();
    for mut up in both {
        assert_eq!(up.wait(), 0);
    }
    assert_eq!(
        runs(&world),
        named(&[("api", 1), ("db", 1), ("mine", 1), ("web", 1)])
    );
    world.finish();
}

#[test]
fn a_task_that_cannot_be_started_does_not_keep_others_from_it() {
    let world = World::new();
    let builds = world.gate("builds");
    world.run("mine", "exec sleep 1000");
    for _ in 0..2 {
        world.new_window("twice", "exec sleep 1000");
    }
    let gone = world.project().join("gone");
    fs::create_dir(&gone).unwrap();
    write(
        &world,
        &format!(
            "[tasks.twice]\ncommand = 'exec sleep 2000'\n\
             [tasks.late]\ncommand = 'exec sleep 1000'\nafter = 'twice'\n\
             [tasks.build]\ncommand = '''{}'''\n\
             [tasks.there]\ncommand = 'exec sleep 1000'\ncwd = 'gone'\nafter = 'build'\n\
             [tasks.api]\ncommand = 'exec sleep 1000'\nafter = 'build'\n",
            builds.wait()
        ),
    );
    let mut up = world.start(["up"]);
    assert_eq!(without_ids(&up.line()), ["started (build)"]);
    fs::remove_dir(&gone).unwrap();
    builds.open();
    assert_eq!(without_ids(&up.line()), ["succeeded (build)"]);
    assert_eq!(without_ids(&up.line()), ["started (api)"]);
    assert_eq!(up.wait(), 5);

    // The same as one object, and each cause.
    fs::create_dir(&gone).unwrap();
    let up = world.task(["up", "--json"]);
    assert_eq!(up.code, 5, "{up}");
    let result: Value = serde_json::from_str(&up.out).unwrap();
    let tasks = result["tasks"].as_array().unwrap().iter();
    let tasks: Vec<(&str, &str, bool)> = tasks
        .map(|task| {
            let word = |key: &str| task[key].as_str().unwrap();
            (word("windowName"), word("state"), task["why"].is_null())
        })
        .collect();
    assert_eq!(
        tasks,
        [
            ("twice", "notStarted", false),
            ("late", "notStarted", false),
            ("build", "finished", true),
            ("there", "started", true),
            ("api", "running", true),
        ]
    );
    let why = "twice could not be started: two windows are named `twice`: ";
    for line in ["up: ", "up: late was not started: "] {
        assert!(up.err.contains(&format!("tmux-task: {line}{why}")), "{up}");
    }
    world.finish();
}

#[test]
fn a_question_is_reported_once_and_the_wait_goes_on() {
    let world = World::new();
    write(
        &world,
        "[tasks.db]\nready = 'accepts'\n\
         command = '''read -p 'Proceed? [y/N] ' x; echo \"$x\"; read -p 'Sure? [y/N] ' x; \
         echo \"$x\"; echo accepts; exec sleep 1000'''\n\
         [tasks.api]\ncommand = 'exec sleep 1000'\nafter = 'db'\n",
    );
    let mut up = world.start(["up"]);
    let hint = "hint: `tmux-task send db TEXT` answers";
    for question in ["Proceed? [y/N]", "Sure? [y/N]"] {
        assert_eq!(
            up.complaint(),
            format!("tmux-task: up: db asks for input: {question}")
        );
        assert_eq!(up.complaint(), hint);
        if question.starts_with("Proceed") {
            let timed = world.task(["up", "--json", "--timeout", "1s"]);
            assert_eq!(timed.code, 4, "{timed}");
            let question = "db asks for input: Proceed? [y/N]\n";
            assert_eq!(timed.err.matches(question).count(), 1, "{timed}");
            assert!(
                timed.err.contains(
                    "up: db was not ready after 1.0 s: it asks for input: Proceed? [y/N]"
                ),
                "{timed}"
            );
            let result: Value = serde_json::from_str(&timed.out).unwrap();
            assert_eq!(
                result["tasks"][0]["waitingFor"], "Proceed? [y/N]",
                "{timed}"
            );
        }
        world.task(["send", "db", "y"]).ok();
    }
    let lines = ["started (db)", "ready (db)", "started (api)"];
    for line in lines {
        assert_eq!(without_ids(&up.line()), [line]);
    }
    assert_eq!(up.wait(), 0);
    world.finish();
}

#[test]
fn without_a_daemon_the_hint_starts_that_of_the_session() {
    let mut world = World::new();
    write(
        &world,
        "[tasks.db]\ncommand = 'exec sleep 1000'\nready = 'accepts'\n",
    );
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let up = world.task(["-s", "other", "up", "--wait"]);
    assert_eq!(up.code, 5, "{up}");
    assert_eq!(
        up.err,
        "tmux-task: up: db could not be started: no daemon runs for session `other`, and \
         $TMUX_TASK_NO_AUTOSTART keeps commands from starting one\n\
         hint: start one with `tmux-task -s other daemon --detach`\n"
    );
    // Nothing was started. What the hint says helps.
    assert_eq!(world.task(["-s", "other", "ls"]).code, 3);
    world.task(["-s", "other", "daemon", "--detach"]).ok();
    let mut up = world.start(["-s", "other", "up", "--wait"]);
    assert_eq!(without_ids(&up.line()), ["started (db)"]);
    world.task(["-s", "other", "send", "db", "accepts"]).ok();
    assert_eq!(without_ids(&up.line()), ["ready (db)"]);
    assert_eq!(up.wait(), 0);
}

#[test]
fn a_daemon_that_ends_does_not_end_it() {
    let world = World::new();
    let (accepts, migrates) = (world.gate("accepts"), world.gate("migrates"));
    write(
        &world,
        &format!(
            "[tasks.db]\ncommand = '''{}; echo accepts; exec sleep 1000'''\nready = 'accepts'\n\
             [tasks.migrate]\ncommand = '''{}'''\n\
             [tasks.api]\ncommand = 'exec sleep 1000'\nafter = ['db', 'migrate']\n",
            accepts.wait(),
            migrates.wait()
        ),
    );
    let mut up = world.start(["up"]);
    for _ in 0..2 {
        up.line();
    }
    let has_waits = || {
        // There may be no daemon yet.
        let status = world.task(["daemon", "status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
        status["waits"] == 2
    };
    for stop in [true, false] {
        world.until_true("the waits begin", has_waits);
        if stop {
            world.task(["daemon", "stop"]).ok();
        } else {
            world.kill_daemon();
        }
        let mut notes = [up.complaint(), up.complaint()];
        notes.sort();
        assert_eq!(
            notes,
            ["db", "migrate"].map(|name| format!(
                "tmux-task: up: the daemon ended; the wait for {name} goes on with another one"
            ))
        );
    }
    world.until_true("the waits begin", has_waits);
    accepts.open();
    assert_eq!(without_ids(&up.line()), ["ready (db)"]);
    migrates.open();
    assert_eq!(without_ids(&up.line()), ["succeeded (migrate)"]);
    assert_eq!(without_ids(&up.line()), ["started (api)"]);
    assert_eq!(up.wait(), 0);
    world.finish();
}

#[test]
fn a_text_that_is_cleared_from_the_screen_at_once_is_found() {
    let world = World::new();
    // Also if the session has to be created first.
    for (name, restart) in [("first", ""), ("next", "restart = 'on-failure'\n")] {
        write(
            &world,
            &format!(
                "[tasks.{name}]\nready = 'UP'\n{restart}\
                 command = '''echo UP; printf '\\033[H\\033[2J\\033[3J'; exec sleep 1000'''\n"
            ),
        );
        let up = world.task(["up", "--wait", "--timeout", "20s"]);
        assert_eq!(
            without_ids(up.ok()),
            [format!("started ({name})"), format!("ready ({name})")]
        );
    }
    world.finish();
}

#[test]
fn the_reason_says_what_was_missing() {
    let world = World::new();
    write(
        &world,
        "[tasks.once]\ncommand = 'echo DOWN'\nready = 'UP'\n\
         [tasks.loops]\ncommand = 'seq 3; echo no; exit 7'\nready = 'UP'\n\
         restart = 'on-failure:2'\nbackoff = '1ms'\n",
    );
    let up = world.task(["up", "--wait", "--tail", "2"]);
    assert_eq!(up.code, 5, "{up}");
    let mut lines: Vec<&str> = up.err.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "loops | 3",
            "loops | no",
            "once | DOWN",
            "tmux-task: up: loops exited with code 7; gave up after 2 restarts",
            "tmux-task: up: once exited with code 0 without printing `UP`",
        ]
    );
    world.finish();
}

#[test]
fn what_starts_after_a_failure_is_not_started() {
    let world = World::new();
    write(
        &world,
        "[tasks.build]\ncommand = 'exit 3'\n\
         [tasks.api]\ncommand = 'sleep 1000'\nafter = ['build']\n\
         [tasks.web]\ncommand = 'sleep 1000'\nafter = ['api']\n\
         [tasks.docs]\ncommand = 'sleep 1000'\n",
    );
    let up = world.task(["up"]);
    assert_eq!(up.code, 5, "{up}");
    assert_eq!(
        up.err,
        "tmux-task: up: build exited with code 3\n\
         tmux-task: up: api was not started: build exited with code 3\n\
         tmux-task: up: web was not started: build exited with code 3\n",
    );
    // The cause is in the result too.
    let up = world.task(["up", "--json"]);
    let result: Value = serde_json::from_str(&up.out).unwrap();
    let tasks = result["tasks"].as_array().unwrap().iter();
    let why: Vec<Option<&str>> = tasks.map(|task| task["why"].as_str()).collect();
    let cause = Some("build exited with code 3");
    assert_eq!(why, [Some("exited with code 3"), cause, cause, None]);
    assert_eq!(runs(&world), named(&[("build", 2), ("docs", 1)]));
    world.finish();
}

#[test]
fn a_task_is_restarted_until_it_is_ready_and_waited_for_within_a_time() {
    let world = World::new();
    write(
        &world,
        "[tasks.api]\nrestart = 'on-failure'\nbackoff = '100ms'\nready = 'listening'\n\
         command = '''echo x >>n; test \"$(wc -l <n)\" -ge 3; echo listening; exec sleep 1000'''\n",
    );
    let up = world.task(["up", "--wait"]);
    assert_eq!(without_ids(up.ok()), ["started (api)", "ready (api)"]);
    assert_eq!(runs(&world), named(&[("api", 3)]));
    write(
        &world,
        "[tasks.slow]\ncommand = 'sleep 1000'\nready = 'never'\n",
    );
    let up = world.task(["up", "--wait", "--timeout", "200ms"]);
    assert_eq!(up.code, 4, "{up}");
    assert_eq!(up.err, "tmux-task: up: slow was not ready after 200 ms\n");
    world.finish();
}

#[test]
fn down_leaves_a_shell_alone_that_is_called_like_a_task() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.tmux(["new-window", "-d", "-t", "work:", "-n", "node"]);
    write(&world, "[tasks.node]\ncommand = 'exec sleep 1000'\n");
    assert_eq!(world.task(["down"]).ok(), "");
    let windows = world.tmux(["list-windows", "-t", "=work:", "-F", "#{window_name}"]);
    assert!(windows.lines().any(|name| name == "node"), "{windows}");
    assert_eq!(without_ids(world.task(["up"]).ok()), ["started (node)"]);
    assert_eq!(without_ids(world.task(["down"]).ok()), ["ended (node)"]);
    let windows = world.tmux(["list-windows", "-t", "=work:", "-F", "#{window_name}"]);
    assert!(windows.lines().any(|name| name == "node"), "{windows}");
    world.finish();
}

#[test]
fn a_wrong_file_starts_nothing() {
    let world = World::new();
    let file = world.project().join("tmux-task.toml");
    let file = file.display();
    world.task(["up"]).fails(
        1,
        &format!(
            "tmux-task: up: {file}: no such file\n\
             hint: it describes the tasks of a project: `[tasks.NAME]` with `command = \"...\"`; \
             without FILE it, or a Procfile, is looked for in the enclosing git work tree, else in \
             this directory"
        ),
    );
    for (text, line, why) in [
        (
            "[tasks.a]\ncommand = 'x'\nafer = []\n",
            3,
            "unknown key `tasks.a.afer`; did you mean `after`?",
        ),
        (
            "[tasks.a]\ncommand = 'x'\nafter = ['b']\n",
            3,
            "`tasks.a.after`: there is no task `b`",
        ),
        (
            "[tasks.a]\ncommand = 'x'\nafter = ['b']\n[tasks.b]\ncommand = 'x'\nafter = ['a']\n",
            1,
            "tasks that start after each other: a after b after a",
        ),
    ] {
        write(&world, text);
        for command in ["up", "down"] {
            world
                .task([command])
                .fails(1, &format!("tmux-task: {command}: {file}:{line}: {why}"));
        }
    }
    write(
        &world,
        "[tasks.a]\ncommand = 'x'\nnotify-on = { patterns = '(', regex = true }\n",
    );
    let why = "`tasks.a.notify-on`: `(` is not a regular expression: unclosed group at 1";
    world
        .task(["up"])
        .fails(1, &format!("tmux-task: up: {file}: {why}"));
    for (text, line, key) in [
        (
            "[tasks.a]\ncommand = 'true'\n[tasks.'b c']\ncommand = 'true'\n",
            3,
            "tasks.b c",
        ),
        (
            "[tasks.a]\ncommand = 'true'\ncwd = 'nope'\n",
            3,
            "tasks.a.cwd",
        ),
    ] {
        write(&world, text);
        let wrong = world.task(["up"]);
        assert_eq!(wrong.code, 1, "{wrong}");
        let place = format!("tmux-task: up: {file}:{line}: `{key}`: ");
        assert!(wrong.err.starts_with(&place), "{wrong}");
    }
    assert_eq!(world.task(["ls"]).code, 3);
}

#[test]
fn a_name_means_the_same_window_as_for_a_launch() {
    let world = World::new();
    write(
        &world,
        "[tasks.tool]\ncommand = 'exec sleep 1000'\n[tasks.db]\ncommand = 'exec sleep 1000'\n\
         [tasks.api]\ncommand = 'exec sleep 1000'\n",
    );
    world.run("api", "exec sleep 999");
    let new_session = ["new-session", "-d", "-s", "other", "-n", "tool"];
    world.tmux(new_session.into_iter().chain(["exec sleep 900"]));
    world.tmux(["link-window", "-d", "-s", "other:tool", "-t", "work:"]);
    let twins: Vec<String> = (0..2)
        .map(|_| world.open_window("work", &["-n", "db", "exec sleep 900"]))
        .collect();
    let format = "#{window_name} #{pane_pid}";
    let show = || world.tmux(["list-panes", "-s", "-t", "other", "-F", format]);
    let before = show();
    let why = format!("two windows are named `db`: {} and {}", twins[0], twins[1]);
    for has_daemon in [true, false] {
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        let down = world.task(["down"]);
        assert_eq!(without_ids(&down.out), ["ended (api)"], "{down}");
        assert_eq!(down.code, 1, "{down}");
        assert!(
            down.err.starts_with(&format!("tmux-task: down: {why}\n")),
            "{down}"
        );
        let kill = world.task(["kill", "tool"]);
        assert_eq!(kill.code, 1, "{kill}");
        assert!(
            kill.err
                .contains("is a window of another session, not a task"),
            "{kill}"
        );
        world.run("api", "exec sleep 1000");
    }
    let up = world.task(["up"]);
    assert_eq!(up.code, 5, "{up}");
    assert!(
        up.err.contains(&format!("db could not be started: {why}")),
        "{up}"
    );
    assert!(
        up.out.contains("started @") && up.out.contains("(tool)"),
        "{up}"
    );
    let down = world.task(["down"]);
    assert_eq!(
        without_ids(&down.out),
        ["ended (api)", "ended (tool)"],
        "{down}"
    );
    assert_eq!(show(), before);
    world.finish();
}

#[test]
fn a_task_that_has_finished_runs_again_if_it_is_named_or_has_changed() {
    let world = World::new();
    let file = |env: &str| {
        write(
            &world,
            &format!(
                "[tasks.db]\ncommand = 'exec sleep 1000'\n\
                 [tasks.migrate]\ncommand = 'echo \"mode $MODE\"'\nenv.MODE = '{env}'\n\
                 [tasks.fails]\ncommand = 'exit 3'\n"
            ),
        );
    };
    let up = |args: &[&str]| {
        let mut lines = without_ids(world.task([&["up"], args].concat()).ok());
        lines.sort();
        lines
    };
    file("one");
    world.task(["up"]).ok();
    world.until_ended("=work:migrate");
    world.until_ended("=work:fails");
    let all = [
        "finished already: (migrate)",
        "runs already: (db)",
        "started (fails)",
    ];
    assert_eq!(up(&[]), all);
    assert_eq!(
        runs(&world),
        named(&[("db", 1), ("fails", 2), ("migrate", 1)])
    );
    assert_eq!(up(&["migrate"]), ["started (migrate)"]);
    world.until_ended("=work:migrate");
    file("two");
    world.until_ended("=work:fails");
    let all = ["runs already: (db)", "started (fails)", "started (migrate)"];
    assert_eq!(up(&[]), all);
    world.until_ended("=work:migrate");
    assert_eq!(world.task(["logs", "migrate"]).ok(), "mode two\n");
    // If its window is gone, it runs again as well.
    world.task(["prune"]).ok();
    let two = ["runs already: (db)", "started (migrate)"];
    assert_eq!(up(&["migrate", "db"]), two);
    world.finish();
}

#[test]
fn what_has_changed_in_the_file_is_said_and_restart_applies_it() {
    let world = World::new();
    let file = |more: &str| {
        let api = "[tasks.api]\ncommand = 'echo \"mode ${MODE-}\"; exec sleep 1000'\n";
        write(&world, &format!("{api}{more}"));
    };
    file("env = { MODE = 's3cret-1', B = '2' }\n");
    world.task(["up"]).ok();
    let runs_already = |said: &str| {
        let up = world.task(["up"]);
        assert_eq!(without_ids(up.ok()), ["runs already: (api)"]);
        let expected = match said {
            "" => String::new(),
            keys => format!(
                "tmux-task: up: api runs with another {keys} than in the file\n\
                 hint: `tmux-task restart api` applies it\n"
            ),
        };
        assert_eq!(up.err, expected);
    };
    // The order of the variables does not matter.
    file("env = { B = '2', MODE = 's3cret-1' }\n");
    runs_already("");
    file("env = { MODE = 's3cret-2', B = '2' }\nrestart = 'on-failure'\n");
    runs_already("`env` and `restart`");
    let options = world.tmux(["show-options", "-w", "-t", "=work:api"]);
    assert!(!options.contains("s3cret"), "{options}");
    world.task(["restart", "api"]).ok();
    runs_already("");
    world.until_shows("=work:api", "mode s3cret-2");
    for more in ["", "env.MODE = 'x'\n"] {
        file(&format!("{more}restart = 'on-failure'\n"));
        runs_already("`env`");
        world.task(["restart", "api"]).ok();
        runs_already("");
    }
    // The file may have another command, too.
    write(
        &world,
        "[tasks.api]\ncommand = 'echo other; exec sleep 1000'\n",
    );
    world.task(["restart", "api"]).ok();
    world.until_shows("=work:api", "other");
    // A task that is not in the file runs as before, also if the file is wrong.
    world.run("mine", "exec sleep 1000");
    world.task(["restart", "mine"]).ok();
    write(&world, "[tasks.api]\n");
    let wrong = world.task(["restart", "api"]);
    assert_eq!(wrong.code, 1, "{wrong}");
    assert!(wrong.err.contains("missing field `command`"), "{wrong}");
    world.finish();
}

#[test]
fn tasks_are_named_with_or_without_a_file() {
    let world = World::new();
    write(
        &world,
        "[tasks.db]\ncommand = 'exec sleep 1000'\n[tasks.web]\ncommand = 'true'\n\
         [tasks.docs]\ncommand = 'exec sleep 1000'\n\
         [tasks.api]\ncommand = 'exec sleep 1000'\nafter = 'web'\n",
    );
    let others = "[tasks.db2]\ncommand = 'exec sleep 1000'\n\
                  [tasks.web2]\ncommand = 'exec sleep 1000'\n";
    for name in ["others.toml", "others"] {
        fs::write(world.project().join(name), others).unwrap();
    }
    // Neither of them is meant.
    fs::create_dir(world.project().join("api")).unwrap();
    fs::write(world.project().join("db"), "no file of tasks").unwrap();
    // Those that nothing has to wait for start at the same time.
    let up = |args: &[&str]| {
        let mut lines = without_ids(world.task([&["up"], args].concat()).ok());
        lines.sort();
        lines
    };
    assert_eq!(
        up(&["api"]),
        ["started (api)", "started (web)", "succeeded (web)"]
    );
    assert_eq!(
        up(&["db", "api"]),
        [
            "finished already: (web)",
            "runs already: (api)",
            "started (db)"
        ]
    );
    assert_eq!(up(&["others.toml", "db2"]), ["started (db2)"]);
    assert_eq!(up(&["others", "web2"]), ["started (web2)"]);
    assert_eq!(up(&["./others.toml", "db2"]), ["runs already: (db2)"]);
    let file = world.project().join("tmux-task.toml");
    for command in ["up", "down"] {
        world.task([command, "typo"]).fails(
            3,
            &format!(
                "tmux-task: {command}: no task `typo` in {}\nhint: it has db, web, docs, api",
                file.display()
            ),
        );
    }
    for file in ["missing.toml", "Procfile", "Procfile.dev"] {
        let missing = world.task(["up", file]);
        let why = format!("/{file}: no such file");
        assert!(missing.err.contains(&why), "{missing}");
    }
    assert_eq!(without_ids(world.task(["down", "db"]).ok()), ["ended (db)"]);
    world.finish();
}

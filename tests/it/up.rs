//! The tasks of a file.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Gate, World, argv, rows, sorted, without_ids};

const SLEEPS: &str = "exec sleep 1000";

fn write(world: &World, text: &str) {
    world.write("tmux-task.toml", text);
}

/// The text for these tasks: name, command and other keys.
fn text(tasks: &[(&str, &str, &str)]) -> String {
    let task = |(name, command, more): &(&str, &str, &str)| {
        format!("[tasks.{name}]\ncommand = '''{command}'''\n{more}\n")
    };
    tasks.iter().map(task).collect()
}

/// A command that prints this when the gate is opened, and sleeps.
fn prints(gate: &Gate, word: &str) -> String {
    format!("{gate}; echo {word}; {SLEEPS}")
}

/// The tasks that there are, with their runs, as `api 1, db 2`.
fn runs(world: &World) -> String {
    let run = |task: &Value| format!("{} {}", task["windowName"].as_str().unwrap(), task["run"]);
    let mut all: Vec<String> = world.tasks().iter().map(run).collect();
    all.sort();
    all.join(", ")
}

/// Of each task of a result, these fields.
fn fields(result: &Value, names: [&str; 3]) -> Value {
    let tasks = result["tasks"].as_array().unwrap().iter();
    tasks
        .map(|task| json!(names.map(|name| &task[name])))
        .collect()
}

/// What `up` says, by itself and of the task `api` that it leaves alone.
#[track_caller]
fn runs_with(world: &World, keys: &str, hint: &str) {
    let up = world.task(["up"]);
    assert_eq!(without_ids(up.ok()), ["runs already: (api)"]);
    let expected = match keys {
        "" => String::new(),
        keys => format!(
            "tmux-task: up: api runs with another {keys} than in the file\nhint: {hint} applies it\n"
        ),
    };
    assert_eq!(up.err, expected);
}

#[test]
fn tasks_start_in_their_order_and_end_in_reverse() {
    let world = World::new();
    let (accepts, migrates) = (world.gate("accepts"), world.gate("migrates"));
    fs::create_dir_all(world.project().join("web")).unwrap();
    let text = r#"
        [tasks.api]
        command = '''pwd; echo "$MODE listening"; trap 'sleep 0.2; echo stopped >../order; exit' TERM
            while :; do sleep 0.05; done'''
        cwd = "web"
        env = { MODE = "dev" }
        after = ["migrate"]
        ready = "dev listening"

        [tasks.db]
        command = '''ACCEPTS; echo accepts connections; trap 'echo db stops >>order; exit' TERM
            while :; do sleep 0.05; done'''
        ready = "accepts connections"

        [tasks.migrate]
        command = '''MIGRATES'''
        after = ["db"]
        "#;
    let text = text.replace("ACCEPTS", &accepts.wait());
    write(&world, &text.replace("MIGRATES", &migrates.wait()));
    let mut up = world.start(["up", "--wait"]);
    let line = || without_ids(&up.line()).remove(0);
    assert_eq!(line(), "started (db)");
    assert_eq!(runs(&world), "db 1");
    accepts.open();
    assert_eq!([line(), line()], ["ready (db)", "started (migrate)"]);
    assert_eq!(runs(&world), "db 1, migrate 1");
    migrates.open();
    let rest = ["succeeded (migrate)", "started (api)", "ready (api)"];
    assert_eq!([line(), line(), line()], rest);
    assert_eq!(up.wait(), 0);
    world.task(["logs", "api"]).prints("/project/web\n");

    // What runs or has finished stays.
    let again = world.task(["up", "--json"]).json();
    assert_eq!(
        fields(&again, ["windowName", "state", "ready"]),
        json!([
            ["db", "running", true],
            ["migrate", "finished", true],
            ["api", "running", null]
        ])
    );
    assert_eq!(runs(&world), "api 1, db 1, migrate 1");

    world.run("mine", "sleep 1000");
    let down = world.task(["down"]);
    let ended = ["ended (api)", "ended (migrate)", "ended (db)"];
    assert_eq!(without_ids(down.ok()), ended);
    // The next one is asked to when the one before has ended.
    let order = fs::read_to_string(world.project().join("order")).unwrap();
    assert_eq!(order, "stopped\ndb stops\n");
    assert_eq!(runs(&world), "mine 1");
    assert_eq!(world.task(["down"]).ok(), "");
    world.finish();
}

#[test]
fn what_has_changed_in_the_file_is_said_and_restart_applies_it() {
    let world = World::new();
    let folder = world.path("elsewhere");
    fs::create_dir(&folder).unwrap();
    // Also of a task whose folder is outside the project.
    let file = |command: &str, more: &str| {
        let cwd = folder.display();
        let text = format!("[tasks.api]\ncommand = '''{command}'''\ncwd = '{cwd}'\n{more}");
        write(&world, &text);
    };
    let (command, restart) = (
        "echo \"mode ${MODE-}\"; exec sleep 1000",
        "`tmux-task restart api`",
    );
    file(command, "env = { MODE = 's3cret-1', B = '2' }\n");
    world.task(["up"]).ok();
    // The order of the variables does not matter.
    file(command, "env = { B = '2', MODE = 's3cret-1' }\n");
    runs_with(&world, "", "");
    let mode = "env = { MODE = 's3cret-2', B = '2' }\nrestart = 'on-failure'\n";
    file(command, mode);
    runs_with(&world, "`env` and `restart`", restart);
    let options = world.tmux(["show-options", "-w", "-t", "=work:api"]);
    assert!(!options.contains("s3cret"), "{options}");
    world.task(["restart", "api"]).ok();
    runs_with(&world, "", "");
    world.until_shows("=work:api", "mode s3cret-2");
    for more in ["", "env.MODE = 'x'\n"] {
        file(command, &format!("{more}restart = 'on-failure'\n"));
        runs_with(&world, "`env`", restart);
        world.task(["restart", "api"]).ok();
        runs_with(&world, "", "");
    }
    // The file may have another command, too. What has ended runs as the file has it now.
    file("echo other; exec sleep 1000", "");
    runs_with(&world, "`env` and `command` and `restart`", restart);
    let json = world.task(["up", "--json"]).json();
    let outdated = json!(["env", "command", "restart"]);
    assert_eq!(json["tasks"][0]["outdated"], outdated);
    world.run("mine", "exec sleep 1000");
    world.task(["kill", "api"]).ok();
    assert_eq!(without_ids(world.task(["up"]).ok()), ["started (api)"]);
    world.until_shows("=work:api", "other");
    // Of another file, `restart` knows nothing.
    let path = world.write("other.toml", "[tasks.api]\ncommand = 'exec sleep 4000'\n");
    let path = path.display();
    let other = world.task(["up", "other.toml"]);
    assert_eq!(
        other.err,
        format!(
            "tmux-task: up: api runs with another `command` and `cwd` than in the file\n\
             hint: `tmux-task down {path} api`, then `tmux-task up {path} api` applies it\n"
        )
    );
    // A task that is not in the file runs as before.
    write(&world, &text(&[("web", SLEEPS, "")]));
    world.task(["up"]).ok();
    world.task(["restart", "mine"]).ok();
    write(&world, "[tasks.web]\n");
    let why = "missing field `command`";
    world.task(["restart", "web"]).fails_saying(1, why);
    world.finish();
}

/// A window that tmux has named, a shell, one that is linked from another session, and twins.
#[test]
fn a_name_means_the_same_window_as_for_a_launch() {
    let world = World::new();
    let names = ["api", "db", "node", "sleep", "tool"];
    write(&world, &text(&names.map(|name| (name, SLEEPS, ""))));
    world.run("api", "exec sleep 999");
    world.tmux(argv("new-session -d -s other -n tool 'exec sleep 900'"));
    world.tmux(argv("link-window -d -s other:tool -t work:"));
    let twins = [(); 2].map(|()| world.open_window("work", &["-n", "db", "exec sleep 900"]));
    world.tmux(argv("new-window -d -t work: -n node"));
    // tmux may look between fork and exec, and not again: what it shows then is its format.
    world.tmux(argv("set-option -g automatic-rename-format sleep"));
    world.tmux(argv("new-window -d -t work: sleep 901"));
    let named = world.says("work:{end}", "#{window_id}");
    world.until_true("tmux has named it", || {
        world.says(&named, "#{window_name}") == "sleep"
    });
    let show = || {
        let others = ["other:tool", "work:node", &named, &twins[0], &twins[1]];
        others.map(|target| world.says(target, "#{window_name} #{pane_pid} #{pane_dead}"))
    };
    let before = show();
    assert_eq!(world.listed("sleep")["namedByTmux"], true);
    assert_eq!(world.listed("api")["namedByTmux"], Value::Null);
    let why = format!("two windows are named `db`: {} and {}", twins[0], twins[1]);
    let down = world.task(["down"]);
    assert_eq!(without_ids(&down.out), ["ended (api)"], "{down}");
    down.fails_saying(1, &format!("tmux-task: down: {why}\n"));
    world
        .task(["kill", "tool"])
        .fails_saying(1, "is a window of another session, not a task");
    let up = world.task(["up"]);
    up.fails_saying(5, &format!("db could not be started: {why}"));
    let mut lines = without_ids(&up.out);
    lines.sort();
    let theirs = ["api", "node", "sleep", "tool"];
    assert_eq!(lines, theirs.map(|name| format!("started ({name})")));
    let again = world.task(["up", "sleep", "node", "tool"]);
    assert_eq!(again.ok().matches("runs already: ").count(), 3, "{again}");
    let down = world.task(["down"]);
    let mut lines = without_ids(&down.out);
    lines.sort();
    assert_eq!(lines, theirs.map(|name| format!("ended ({name})")));
    assert_eq!(show(), before);
    world.finish();
}

#[test]
fn a_task_whose_first_output_is_gone_is_taken_as_ready_if_it_ran_before() {
    let world = World::new();
    let prints = world.gate("prints");
    // The text is not among the first lines, which are known.
    let line = format!("seq 3000; echo listening; {prints}; seq 60000; echo done; {SLEEPS}");
    write(&world, &text(&[("api", &line, "ready = 'listening'")]));
    let up = world.task(["up", "--wait"]);
    assert_eq!(without_ids(up.ok()), ["started (api)", "ready (api)"]);
    prints.open();
    world.until_shows("=work:api", "done");
    let again = world.task(["up", "--wait", "--timeout", "20s"]);
    let taken = "taken as ready: (api): the beginning of its output is gone";
    assert_eq!(without_ids(again.ok()), ["runs already: (api)", taken]);
    // One that has printed little is waited for.
    write(&world, &text(&[("late", SLEEPS, "ready = 'never'")]));
    for _ in 0..2 {
        let up = world.task(["up", "--wait", "--timeout", "300ms"]);
        let why = "tmux-task: up: late was not ready after 300 ms\n";
        assert_eq!((up.code, up.err.as_str()), (4, why));
    }
    world.finish();
}

#[test]
fn of_two_at_the_same_time_one_starts_each_task() {
    let world = World::new();
    let accepts = world.gate("accepts");
    world.run("mine", "exec sleep 1000");
    let tasks = [
        ("db", &*prints(&accepts, "accepts"), "ready = 'accepts'"),
        ("api", SLEEPS, "after = 'db'"),
        ("late", SLEEPS, "after = 'db'"),
        ("web", SLEEPS, ""),
    ];
    write(&world, &text(&tasks));
    let mut both = [world.start(["up", "--wait"]), world.start(["up", "--wait"])];
    for up in &mut both {
        let mut begun = without_ids(&format!("{}\n{}", up.line(), up.line()));
        begun.sort_by_key(|line| !line.contains("(db)"));
        assert!(
            begun[0].contains("(db)") && begun[1].contains("(web)"),
            "{begun:?}"
        );
    }
    // Started otherwise meanwhile, it is left alone.
    world.call("run late -- 'exec sleep 1000'").ok();
    accepts.open();
    for mut up in both {
        assert_eq!(up.wait(), 0);
    }
    assert_eq!(runs(&world), "api 1, db 1, late 1, mine 1, web 1");
    world.finish();
}

#[test]
fn a_task_that_cannot_be_started_or_fails_keeps_only_those_after_it_from_it() {
    let mut world = World::new();
    let builds = world.gate("builds");
    world.run("mine", "exec sleep 1000");
    for _ in 0..2 {
        world.new_window("twice", "exec sleep 1000");
    }
    let gone = world.project().join("gone");
    fs::create_dir(&gone).unwrap();
    let tasks = [
        ("twice", SLEEPS, ""),
        ("late", SLEEPS, "after = 'twice'"),
        ("build", &*builds.wait(), ""),
        ("there", SLEEPS, "cwd = 'gone'\nafter = 'build'"),
        ("api", SLEEPS, "after = 'build'"),
        ("fails", "exit 3", ""),
        ("web", SLEEPS, "after = 'fails'"),
        ("site", SLEEPS, "after = 'web'"),
    ];
    write(&world, &text(&tasks));
    let mut up = world.start(["up"]);
    assert_eq!(up.line().matches("started @").count(), 1);
    assert_eq!(up.line().matches("started @").count(), 1);
    fs::remove_dir(&gone).unwrap();
    builds.open();
    assert_eq!(without_ids(&up.line()), ["succeeded (build)"]);
    assert_eq!(without_ids(&up.line()), ["started (api)"]);
    assert_eq!(up.wait(), 5);

    // The same as one object, and each cause.
    fs::create_dir(&gone).unwrap();
    let up = world.task(["up", "--json"]);
    let twice = up.err.lines().find(|line| line.contains(": twice could"));
    let twice = twice.unwrap().strip_prefix("tmux-task: up: ").unwrap();
    assert!(twice.starts_with("twice could not be started: two windows are named `twice`: "));
    let because = "fails exited with code 3";
    let said = format!("tmux-task: up: web was not started: {because}\n");
    up.fails_saying(5, &said);
    let why = twice.strip_prefix("twice ").unwrap();
    let fails = because.strip_prefix("fails ").unwrap();
    assert_eq!(
        fields(&up.any_json(), ["windowName", "state", "why"]),
        json!([
            ["twice", "notStarted", why],
            ["late", "notStarted", twice],
            ["build", "finished", null],
            ["there", "started", null],
            ["api", "running", null],
            ["fails", "started", fails],
            ["web", "notStarted", because],
            ["site", "notStarted", because],
        ])
    );
    assert_eq!(world.listed("fails")["run"], 2);
    world.finish();

    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let up = world.call("-s other up api");
    up.fails_saying(
        5,
        "build could not be started: no daemon runs for session `other`, and ",
    );
    assert_eq!(world.task(["-s", "other", "ls"]).code, 3);
}

#[test]
fn a_question_is_reported_once_and_the_wait_goes_on() {
    let world = World::new();
    let line = "read -p 'Proceed? [y/N] ' x; echo \"$x\"; read -p 'Sure? [y/N] ' x; echo \"$x\"; \
                echo accepts; exec sleep 1000";
    let tasks = [
        ("db", line, "ready = 'accepts'"),
        ("api", SLEEPS, "after = 'db'"),
    ];
    write(&world, &text(&tasks));
    let mut up = world.start(["up"]);
    for question in ["Proceed? [y/N]", "Sure? [y/N]"] {
        let asks = format!("db asks for input: {question}");
        assert_eq!(up.complaint(), format!("tmux-task: up: {asks}"));
        assert_eq!(up.complaint(), "hint: `tmux-task send db TEXT` answers");
        if question.starts_with("Proceed") {
            let timed = world.task(["up", "--json", "--timeout", "1s"]);
            assert_eq!(
                timed.err.matches(&format!("{asks}\n")).count(),
                1,
                "{timed}"
            );
            let why = format!("up: db was not ready after 1.0 s: it asks for input: {question}");
            timed.fails_saying(4, &why);
            assert_eq!(
                timed.any_json()["tasks"][0]["waitingFor"],
                question,
                "{timed}"
            );
        }
        world.task(["send", "db", "y"]).ok();
    }
    for line in ["started (db)", "ready (db)", "started (api)"] {
        assert_eq!(without_ids(&up.line()), [line]);
    }
    assert_eq!(up.wait(), 0);
    world.finish();
}

#[test]
fn a_daemon_that_ends_does_not_end_it() {
    let world = World::new();
    let (accepts, migrates) = (world.gate("accepts"), world.gate("migrates"));
    let tasks = [
        ("db", &*prints(&accepts, "accepts"), "ready = 'accepts'"),
        ("migrate", &*migrates.wait(), ""),
        ("api", SLEEPS, "after = ['db', 'migrate']"),
    ];
    write(&world, &text(&tasks));
    let mut up = world.start(["up"]);
    for _ in 0..2 {
        up.line();
    }
    for stop in [true, false] {
        world.until_waits(2);
        if stop {
            world.task(["daemon", "stop"]).ok();
        } else {
            world.kill_daemon();
        }
        let mut notes = [up.complaint(), up.complaint()];
        notes.sort();
        let note = |name| {
            format!("tmux-task: up: the daemon ended; the wait for {name} goes on with another one")
        };
        assert_eq!(notes, ["db", "migrate"].map(note));
    }
    world.until_waits(2);
    accepts.open();
    assert_eq!(without_ids(&up.line()), ["ready (db)"]);
    migrates.open();
    assert_eq!(without_ids(&up.line()), ["succeeded (migrate)"]);
    assert_eq!(without_ids(&up.line()), ["started (api)"]);
    assert_eq!(up.wait(), 0);
    world.finish();
}

#[test]
fn a_task_is_ready_when_it_has_printed_its_text_or_it_is_said_what_was_missing() {
    let world = World::new();
    // A text that is cleared from the screen at once is found, also if the session has to be created
    // first; and a task that fails at first is restarted.
    let restart = "restart = 'on-failure'\nbackoff = '100ms'\n";
    let cleared = r"echo UP; printf '\033[H\033[2J\033[3J'";
    let third = "echo x >>n; test \"$(wc -l <n)\" -ge 3; echo UP";
    for (name, more, line, run) in [
        ("first", "", cleared, 1),
        ("next", restart, cleared, 1),
        ("third", restart, third, 3),
    ] {
        let line = format!("{line}; {SLEEPS}");
        let more = format!("ready = 'UP'\n{more}");
        write(&world, &text(&[(name, &line, &more)]));
        let up = world.task(["up", "--wait", "--timeout", "20s"]);
        let lines = ["started", "ready"].map(|word| format!("{word} ({name})"));
        assert_eq!(without_ids(up.ok()), lines);
        assert_eq!(world.listed(name)["run"], run);
    }
    let restart = "ready = 'UP'\nrestart = 'on-failure:2'\nbackoff = '1ms'";
    let tasks = [
        ("once", "echo DOWN", "ready = 'UP'"),
        ("loops", "seq 3; echo no; exit 7", restart),
    ];
    write(&world, &text(&tasks));
    let up = world.task(["up", "--wait", "--tail", "2"]);
    assert_eq!(up.code, 5, "{up}");
    let mut lines: Vec<&str> = up.err.lines().collect();
    lines.sort_unstable();
    let expected = [
        "loops | 3",
        "loops | no",
        "once | DOWN",
        "tmux-task: up: loops exited with code 7; gave up after 2 restarts",
        "tmux-task: up: once exited with code 0 without printing `UP`",
    ];
    assert_eq!(lines, expected);
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
    write(&world, "[tasks.a]\ncommand = 'x'\nafer = []\n");
    let why = "unknown key `tasks.a.afer`; did you mean `after`?";
    for command in ["up", "down"] {
        let said = format!("tmux-task: {command}: {file}:3: {why}");
        world.task([command]).fails(1, &said);
    }
    // Some of these are known where it is started.
    for [line, place] in rows(
        "
        notify-on = { patterns = '(', regex = true } => : `tasks.a.notify-on`: `(` is not a regular
        cwd = 'nope' => :3: `tasks.a.cwd`:
        ready = { http = 'a' } => :3: `tasks.a.ready`: `a` is not an address like http://127.0.0.1:3000/health
        ready = { http = 'https://localhost/' } => :3: `tasks.a.ready`: `https://localhost/` is refused: https
        ready = { port = 0 } => :3: `tasks.a.ready` must not have port 0
        ready = { port = 1, http = 'http://a/' } => :3: `tasks.a.ready`: must have either `port` or `http`
        ready = {} => :3: `tasks.a.ready`: must have either `port` or `http`
        ready = 3000 => :3: `tasks.a.ready`: must be a string, or a table with `port` or `http`
        ",
    ) {
        write(&world, &format!("[tasks.a]\ncommand = 'true'\n{line}\n"));
        let said = format!("tmux-task: up: {file}{place}");
        world.task(["up"]).fails_saying(1, &said);
    }
    assert_eq!(world.task(["ls"]).code, 3);
}

#[test]
fn a_task_that_has_finished_runs_again_if_it_is_named_or_has_changed() {
    let world = World::new();
    let file = |env: &str| {
        let env = format!("env.MODE = '{env}'");
        let migrate = ("migrate", "echo \"mode $MODE\"", &*env);
        write(
            &world,
            &text(&[("db", SLEEPS, ""), migrate, ("fails", "exit 3", "")]),
        );
    };
    let up = |args: &[&str]| {
        let lines = sorted(&world.task([&["up"], args].concat()));
        world.until_ended("=work:migrate");
        world.until_ended("=work:fails");
        lines
    };
    file("one");
    up(&[]);
    let all = [
        "finished already: (migrate)",
        "runs already: (db)",
        "started (fails)",
    ];
    assert_eq!(up(&[]), all);
    assert_eq!(runs(&world), "db 1, fails 2, migrate 1");
    assert_eq!(up(&["migrate"]), ["started (migrate)"]);
    file("two");
    let all = ["runs already: (db)", "started (fails)", "started (migrate)"];
    assert_eq!(up(&[]), all);
    assert_eq!(world.task(["logs", "migrate"]).ok(), "mode two\n");
    // If its window is gone, it runs again as well.
    world.task(["prune"]).ok();
    let two = sorted(&world.task(["up", "migrate", "db"]));
    assert_eq!(two, ["runs already: (db)", "started (migrate)"]);
    world.finish();
}

#[test]
fn tasks_are_named_with_or_without_a_file() {
    let world = World::new();
    let tasks = [
        ("db", SLEEPS, ""),
        ("docs", SLEEPS, ""),
        ("api", SLEEPS, "after = 'web'"),
        ("web", "true", ""),
    ];
    write(&world, &text(&tasks));
    for name in ["others.toml", "others"] {
        world.write(name, &text(&[("db2", SLEEPS, ""), ("web2", SLEEPS, "")]));
    }
    // Neither of them is meant.
    fs::create_dir(world.project().join("api")).unwrap();
    world.write("db", "no file of tasks");
    for (names, lines) in [
        // Those that nothing has to wait for start at the same time.
        (
            "api",
            &["started (api)", "started (web)", "succeeded (web)"][..],
        ),
        (
            "db api",
            &[
                "finished already: (web)",
                "runs already: (api)",
                "started (db)",
            ],
        ),
        ("others.toml db2", &["started (db2)"]),
        ("others web2", &["started (web2)"]),
        ("./others.toml db2", &["runs already: (db2)"]),
    ] {
        let up = world.call(&format!("up {names}"));
        assert_eq!(sorted(&up), lines, "{names}");
    }
    let file = world.project().join("tmux-task.toml");
    let hint = format!("in {}\nhint: it has db, docs, web, api", file.display());
    for command in ["up", "down"] {
        let said = format!("tmux-task: {command}: no task `typo` {hint}");
        world.task([command, "typo"]).fails(3, &said);
    }
    for file in ["missing.toml", "Procfile", "Procfile.dev"] {
        let missing = world.task(["up", file]);
        missing.fails_saying(1, &format!("/{file}: no such file"));
    }
    assert_eq!(without_ids(world.task(["down", "db"]).ok()), ["ended (db)"]);
    world.finish();
}

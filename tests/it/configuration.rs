//! What `config` shows: the settings that apply and where each is from, and an example of a file.

use std::fs;

use serde_json::Value;

use crate::support::World;

/// Returns where a value is from, and the value.
fn find<'a>(shown: &'a Value, of: &str, key: &str) -> (&'a str, &'a Value) {
    let all = shown[of].as_array().unwrap();
    let found = all.iter().find(|setting| setting["key"] == key);
    let found = found.unwrap_or_else(|| panic!("{key}: {shown}"));
    (found["source"].as_str().unwrap(), &found["value"])
}

#[test]
fn each_setting_is_shown_with_where_it_is_from() {
    let mut world = World::new();
    let file = world.path("conf/tmux-task/config.toml");
    let path = file.to_str().unwrap();
    let before = world.task(["config", "show"]);
    let missing = format!("# {path} (there is no such file)\n");
    assert!(before.ok().contains(&missing), "{before}");

    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "shells = \"ignore\"\n\n[logs]\nkeep-runs = 5\n").unwrap();
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let text = world.task(["config", "show", "-L", "other"]);
    for (key, source) in [
        ("session = work", "TMUX_TASK_SESSION"),
        ("autostart = false", "TMUX_TASK_NO_AUTOSTART"),
        ("tmux = tmux", "default"),
        ("shells = \"ignore\"", "line 1"),
        ("logs.keep-runs = 5", "line 4"),
        ("logs.keep-lines = 10000", "default"),
        ("notices.terminal = []", "default"),
    ] {
        let mut lines = text.ok().lines().filter(|line| line.starts_with(key));
        let line = lines.next().unwrap_or_else(|| panic!("{key}: {text}"));
        assert!(line.ends_with(&format!("  # {source}")), "{line}");
    }
    assert!(text.out.contains(&format!("\n# {path}\n")), "{text}");

    let shown = world.task(["config", "show", "-L", "other", "--json"]);
    let shown: Value = serde_json::from_str(shown.ok()).unwrap();
    assert_eq!(
        (&shown["file"], &shown["exists"]),
        (&path.into(), &true.into())
    );
    let of = |of, key| find(&shown, of, key);
    assert_eq!(of("selected", "session"), ("environment", &"work".into()));
    assert_eq!(of("selected", "server").0, "option");
    assert_eq!(of("settings", "logs.keep-runs"), ("file", &"5".into()));
    assert_eq!(of("settings", "sink"), ("default", &Value::Null));

    fs::write(&file, "shell = 1\n").unwrap();
    let refused = world.task(["config", "show"]);
    refused.fails(
        1,
        &format!(
            "tmux-task: config: {path}:1: unknown key `shell`; did you mean `shells`?\n\
             hint: a running daemon keeps the settings that it has; no other one starts"
        ),
    );
    // It starts no daemon.
    assert_eq!(world.task(["daemon", "status"]).code, 3);
}

/// What `config show` says of a key, behind its value.
#[track_caller]
fn source(world: &World, key: &str) -> String {
    let shown = world.task(["config", "show"]);
    let mut lines = shown.ok().lines();
    let line = lines.find(|line| line.starts_with(&format!("{key} = ")));
    let line = line.unwrap_or_else(|| panic!("{key}: {shown}"));
    line.split("  # ").nth(1).unwrap().to_owned()
}

#[test]
fn a_variable_that_is_ignored_is_not_where_a_path_is_from() {
    let mut world = World::new();
    for (variable, key, other) in [
        ("XDG_STATE_HOME", "state", "TMUX_TASK_STATE_DIR"),
        ("XDG_RUNTIME_DIR", "runtime", "TMUX_TASK_RUNTIME_DIR"),
        ("XDG_CONFIG_HOME", "config", "TMUX_TASK_CONFIG"),
    ] {
        world.set(other, "");
        assert_eq!(source(&world, key), variable);
        world.set(variable, "relative");
        assert_eq!(source(&world, key), "default");
    }
}

#[test]
fn what_the_running_daemon_does_not_have_is_marked() {
    let mut world = World::new();
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let sink = |line: &str| format!("[[sink]]\nname = 'a'\nshell = '{line}'\n");
    let text = format!("notices = []\nlogs.keep-runs = 5\n{}", sink("true"));
    fs::write(&file, &text).unwrap();
    world.run("api", "exec sleep 1000");
    let is_pending = |world: &World| {
        let doctor = world.task(["doctor"]);
        let config = world.task(["config", "show"]);
        let is_pending = config.err.contains("hint: `tmux-task daemon stop`, ");
        let warns = doctor.ok().contains("the daemon does not have the present");
        assert_eq!(is_pending, warns, "{config} {doctor}");
        is_pending
    };
    assert!(!is_pending(&world));
    // Another way to write the same values, and what only adapters read.
    let same = format!(
        "logs.keep-runs = 0x5\nagents.max-per-minute = 2\nnotices = []\n{}",
        sink("true")
    );
    fs::write(&file, same).unwrap();
    assert!(!is_pending(&world));

    let changed = format!(
        "notices = []\nshells = 'ignore'\nlogs.keep-runs = 6\n{}",
        sink("false")
    );
    fs::write(&file, changed).unwrap();
    assert!(is_pending(&world));
    for (key, expected) in [
        (
            "shells",
            "line 2, not in the daemon yet (it has \"notice\")",
        ),
        ("logs.keep-runs", "line 3, not in the daemon yet (it has 5)"),
        ("logs.keep-lines", "default"),
        (
            "sink.a",
            "line 5, not in the daemon yet (it has another shell)",
        ),
    ] {
        assert_eq!(source(&world, key), expected);
    }
    let shown = world.task(["config", "show", "--json"]);
    let shown: Value = serde_json::from_str(shown.ok()).unwrap();
    let in_daemon = |key: &str| {
        let all = shown["settings"].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap()["inDaemon"].clone()
    };
    assert_eq!(in_daemon("shells"), false);
    assert_eq!(in_daemon("logs.keep-lines"), true);
    assert_eq!(in_daemon("agents.max-per-minute"), Value::Null);
    assert_eq!(shown["daemon"]["file"], file.to_str().unwrap());
    assert_eq!(shown["daemon"]["pending"].as_array().unwrap().len(), 3);

    // What was taken out, and a file that is gone.
    fs::write(&file, "notices = []\n").unwrap();
    assert_eq!(
        source(&world, "sink.a"),
        "removed, the daemon still has shell"
    );
    assert_eq!(
        source(&world, "logs.keep-runs"),
        "default, not in the daemon yet (it has 5)"
    );
    let doctor = world.task(["doctor"]);
    let expected = "the present settings yet: logs.keep-runs; removed: sink.a\n";
    assert!(doctor.ok().contains(expected), "{doctor}");
    fs::remove_file(&file).unwrap();
    let shown = world.task(["config", "show"]);
    assert!(
        shown
            .ok()
            .contains("(there is no such file; the daemon has read it)"),
        "{shown}"
    );
    assert!(is_pending(&world));
    // One that cannot be read changes nothing.
    fs::write(&file, "notice = []\n").unwrap();
    let refused = world.task(["config", "show"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused
            .err
            .contains("hint: a running daemon keeps the settings"),
        "{refused}"
    );

    // Another file than the daemon's, with the same settings.
    let other = world.path("other.toml");
    fs::write(&other, &text).unwrap();
    world.set("TMUX_TASK_CONFIG", other.to_str().unwrap());
    let shown = world.task(["config", "show"]);
    let expected = format!(
        "# {} (the daemon has read {})\n",
        other.display(),
        file.display()
    );
    assert!(shown.ok().contains(&expected), "{shown}");
    let doctor = world.task(["doctor"]);
    let expected = format!("has read the configuration {}, here it is ", file.display());
    assert!(doctor.ok().contains(&expected), "{doctor}");
    assert!(!is_pending(&world));

    // The next daemon has them.
    fs::write(&other, "notices = []\nshells = 'ignore'\n").unwrap();
    assert!(is_pending(&world));
    world.task(["daemon", "stop"]).ok();
    world.run("web", "true");
    assert!(!is_pending(&world));
    let doctor = world.task(["doctor"]);
    assert!(
        !doctor.ok().contains("has read the configuration"),
        "{doctor}"
    );
}

#[test]
fn the_example_is_accepted_and_changes_nothing() {
    let world = World::new();
    let before = world.task(["config", "show"]);
    let example = world.task(["config", "example"]);
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, example.ok()).unwrap();
    let after = world.task(["config", "show"]);
    assert_eq!(
        after.ok(),
        before.ok().replace(" (there is no such file)", "")
    );
    world.run("api", "true");
    world.finish();
}

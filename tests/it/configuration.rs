//! What `config` shows: the settings that apply and where each is from, and an example of a file.

use std::fs;

use serde_json::Value;

use crate::support::World;

fn parsed(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(world.task(args).ok()).unwrap()
}

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
        ("notices.places = [\"desktop\", \"tmux\"]", "default"),
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
fn it_is_said_since_when_the_daemon_has_its_settings() {
    let mut world = World::new();
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "notices = []\n").unwrap();
    world.run("api", "exec sleep 1000");
    let is_changed = |world: &World| {
        let doctor = world.task(["doctor"]);
        let config = world.task(["config", "show"]);
        assert!(
            config
                .ok()
                .contains("# the running daemon has its settings"),
            "{config}"
        );
        doctor.ok().contains("changed after the daemon had read it")
    };
    assert!(!is_changed(&world));
    fs::write(&file, "shells = 'ignore'\n").unwrap();
    assert!(is_changed(&world));
    let shown = parsed(&world, &["config", "show", "--json"]);
    let daemon = &shown["daemon"];
    assert_eq!(daemon["file"], file.to_str().unwrap());
    let status = parsed(&world, &["daemon", "status", "--json"]);
    assert_eq!(daemon["since"], status["startedAt"]);
    fs::remove_file(&file).unwrap();
    assert!(is_changed(&world));
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
    // Another file than the daemon's.
    let other = world.path("other.toml");
    fs::write(&other, "notices = []\n").unwrap();
    world.set("TMUX_TASK_CONFIG", other.to_str().unwrap());
    let shown = world.task(["config", "show"]);
    let expected = format!("has its settings from {} since ", file.display());
    assert!(shown.ok().contains(&expected), "{shown}");
    let doctor = world.task(["doctor"]);
    let expected = format!("has read the configuration {}, here it is ", file.display());
    assert!(doctor.ok().contains(&expected), "{doctor}");
    // The next daemon has them.
    world.task(["daemon", "stop"]).ok();
    world.run("web", "true");
    assert!(!is_changed(&world));
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

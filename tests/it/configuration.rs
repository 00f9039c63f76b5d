//! What `config` shows: the settings that apply and where each is from, and an example of a file.

use std::fs;

use serde_json::{Value, json};

use crate::support::{World, has, has_fields};

#[test]
fn each_setting_is_shown_with_where_it_is_from() {
    let mut world = World::new();
    let file = world.config_file();
    let path = file.to_str().unwrap();
    let before = world.task(["config", "show"]);
    let missing = format!("# {path} (there is no such file)\n");
    has(before.ok(), missing);

    world.configure("shells = \"ignore\"\n\n[logs]\nkeep-runs = 5\n");
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
    text.shows(format!("\n# {path}\n"));

    let shown = world.json(["config", "show", "-L", "other", "--json"]);
    has_fields(&shown, "file exists", json!([path, true]));
    for (of, key, source, value) in [
        ("selected", "session", "environment", Some("work".into())),
        ("selected", "server", "option", None),
        ("settings", "logs.keep-runs", "file", Some("5".into())),
        ("settings", "sink", "default", Some(Value::Null)),
    ] {
        let mut all = shown[of].as_array().unwrap().iter();
        let found = all.find(|setting| setting["key"] == key);
        let found = found.unwrap_or_else(|| panic!("{key}: {shown}"));
        assert_eq!(found["source"], source, "{key}");
        assert!(value.is_none_or(|value| found["value"] == value), "{found}");
    }

    world.configure("shell = 1\n");
    let refused = world.task(["config", "show"]);
    let why = format!("{path}:1: unknown key `shell`; did you mean `shells`?");
    let hint = "hint: a running daemon keeps the settings that it has; no other one starts";
    refused.fails(1, &format!("tmux-task: config: {why}\n{hint}"));
    // It starts no daemon.
    world.task(["daemon", "status"]).fails_with(3);
}

#[test]
fn a_variable_that_is_ignored_is_not_where_a_path_is_from() {
    let mut world = World::new();
    for (variable, key, other) in [
        ("XDG_STATE_HOME", "state", "TMUX_TASK_STATE_DIR"),
        ("XDG_RUNTIME_DIR", "runtime", "TMUX_TASK_RUNTIME_DIR"),
        ("XDG_CONFIG_HOME", "config", "TMUX_TASK_CONFIG"),
    ] {
        let check = |world: &World, source: &str| {
            let shown = world.task(["config", "show"]);
            let mut lines = shown.ok().lines();
            let line = lines.find(|line| line.starts_with(&format!("{key} = ")));
            let end = format!("  # {source}");
            assert!(
                line.is_some_and(|line| line.ends_with(&end)),
                "{key}: {shown}"
            );
        };
        world.set(other, "");
        check(&world, variable);
        world.set(variable, "relative");
        check(&world, "default");
    }
}

#[test]
fn it_is_said_since_when_the_daemon_has_its_settings() {
    let mut world = World::new();
    let file = world.config_file();
    world.configure("notices = []\n");
    world.run("api", "exec sleep 1000");
    let is_changed = |world: &World| {
        let config = world.task(["config", "show"]);
        has(config.ok(), "# the running daemon has its settings");
        let doctor = world.task(["doctor"]);
        doctor.ok().contains("changed after the daemon had read it")
    };
    assert!(!is_changed(&world));
    world.configure("shells = 'ignore'\n");
    assert!(is_changed(&world));
    let shown = world.json(["config", "show", "--json"]);
    let daemon = &shown["daemon"];
    assert_eq!(daemon["file"], file.to_str().unwrap());
    assert_eq!(daemon["since"], world.daemon_status()["startedAt"]);
    fs::remove_file(&file).unwrap();
    assert!(is_changed(&world));
    // One that cannot be read changes nothing.
    world.configure("notice = []\n");
    let refused = world.task(["config", "show"]);
    refused
        .fails_so(1, "")
        .says("hint: a running daemon keeps the settings");
    // Another file than the daemon's.
    let other = world.path("other.toml");
    fs::write(&other, "notices = []\n").unwrap();
    world.set("TMUX_TASK_CONFIG", other.to_str().unwrap());
    let file = file.display();
    for (face, expected) in [
        (
            &["config", "show"][..],
            format!("has its settings from {file} since "),
        ),
        (
            &["doctor"],
            format!("has read the configuration {file}, here it is "),
        ),
    ] {
        has(world.task(face).ok(), expected);
    }
    // The next daemon has them.
    world.task(["daemon", "stop"]).ok();
    world.run("web", "true");
    assert!(!is_changed(&world));
}

#[test]
fn the_example_is_accepted_and_changes_nothing() {
    let world = World::new();
    let before = world.task(["config", "show"]);
    let before = before.ok().replace(" (there is no such file)", "");
    world.configure(world.task(["config", "example"]).ok());
    assert_eq!(world.task(["config", "show"]).ok(), before);
    world.run("api", "true");
    world.finish();
}

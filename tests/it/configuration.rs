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
        ("notices.quiet-hours = (none)", "default"),
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
        &format!("tmux-task: config: {path}:1: unknown key `shell`; did you mean `shells`?"),
    );
    // It asks no daemon and starts none.
    assert_eq!(world.task(["daemon", "status"]).code, 3);
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

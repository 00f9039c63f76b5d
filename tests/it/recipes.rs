//! The examples of the documentation: its settings are valid, and its recipes do what they say, with
//! programs in the place of those that reach elsewhere.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::support::{Output, World, blocks};

/// A world that has the program and these shell scripts on `PATH`.
fn world_with(programs: &[(&str, &str)]) -> World {
    let mut world = World::new();
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    symlink(World::program(), bin.join("tmux-task")).unwrap();
    for (name, script) in programs {
        world.script(&format!("bin/{name}"), &format!("#!/bin/sh\n{script}\n"));
    }
    world.prepend_path(&bin);
    world
}

fn configure(world: &World, text: &str) {
    let folder = world.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// The recipe in this language that contains a word.
#[track_caller]
fn recipe(language: &str, word: &str) -> String {
    let found = blocks("recipes.md", language)
        .into_iter()
        .find(|block| block.contains(word));
    found.unwrap_or_else(|| panic!("recipes.md has no `{word}`"))
}

/// Runs a recipe in the project's folder.
fn run(world: &World, script: &str) -> Output {
    let mut shell = world.command("sh");
    shell.args(["-c", script]);
    Output::of(shell)
}

/// Is ready at once, and says that it is asked to stop.
const DOCKER: (&str, &str) = (
    "docker",
    "trap 'echo stopping; exit 0' TERM\n\
     echo ready to accept connections\n\
     sleep 1000 & wait",
);

const NPM: (&str, &str) = (
    "npm",
    "case $1 in\n\
     test) echo 1 test failed; exit 7 ;;\n\
     start) echo listening on 8080; exec sleep 1000 ;;\n\
     esac",
);

#[test]
fn settings_in_the_documentation_are_valid() {
    let world = World::new();
    let pages = ["settings.md", "input.md", "notifications.md", "recipes.md"];
    let mut n_blocks = 0;
    for page in pages {
        for block in blocks(page, "toml") {
            if !block.starts_with("[tasks.") {
                configure(&world, &block);
                world.task(["config", "show"]).ok();
                n_blocks += 1;
            }
        }
    }
    assert!(n_blocks >= pages.len(), "{n_blocks}");
}

#[test]
fn a_phone_and_a_chat_get_what_failed() {
    let world = world_with(&[("curl", "{ echo \"$*\"; cat; } >>~/\"$TMUX_TASK_SINK\"")]);
    let sinks = [recipe("toml", "ntfy"), recipe("toml", "slack")];
    configure(&world, &format!("notices = []\n{}", sinks.concat()));
    world.task(["run", "fine", "--", "true"]).ok();
    world
        .task(["run", "tests", "--", "echo '<!channel> & co'; exit 3"])
        .ok();
    let sent = |sink: &str| fs::read_to_string(world.path("home").join(sink)).unwrap_or_default();
    world.until_true("both were sent", || {
        ["ntfy", "slack"]
            .iter()
            .all(|sink| sent(sink).contains("channel"))
    });
    let ntfy = sent("ntfy");
    assert!(ntfy.contains("ntfy.curl -H Title: tests"), "{ntfy}");
    assert!(
        ntfy.contains("(tests) exited with code 3\nrecent output:\n  <!channel> & co\n"),
        "{ntfy}"
    );
    assert!(!ntfy.contains("fine"), "{ntfy}");
    let slack = sent("slack");
    let (_, body) = slack.split_once('\n').unwrap();
    let body: Value = serde_json::from_str(body).unwrap();
    let text = body["text"].as_str().unwrap();
    assert!(text.ends_with("  &lt;!channel&gt; &amp; co"), "{text}");
}

#[test]
fn a_ci_job_ends_with_the_code_of_its_tests() {
    let world = world_with(&[DOCKER, NPM]);
    let job = run(&world, &recipe("sh", "npm test"));
    assert_eq!(job.code, 7, "{job}");
    assert!(job.err.contains("1 test failed"), "{job}");
    let log = fs::read_to_string(world.project().join("db.log")).unwrap();
    assert_eq!(log.trim_end(), "ready to accept connections");
    assert_eq!(world.task(["-s", "ci", "ls"]).code, 3);
}

#[test]
fn tasks_of_compose_start_and_end_in_order() {
    let world = world_with(&[DOCKER, NPM]);
    let file = recipe("toml", "[tasks.db]");
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    let up = world.task(["up", "--wait"]);
    assert!(up.ok().ends_with("ready @2 (api)\n"), "{up}");
    let down = world.task(["down"]);
    assert_eq!(down.ok(), "ended @2 (api)\nended @1 (db)\n");
    let log = world.task(["logs", "db", "--run", "1"]);
    assert_eq!(log.ok(), "ready to accept connections\nstopping\n");
}

#[test]
fn a_remote_job_is_asked_until_it_has_ended() {
    let world = world_with(&[(
        "ssh",
        "n=$(cat ~/asked 2>/dev/null || echo 0); echo $((n + 1)) >~/asked\n\
         case $n in 0) exit 255 ;; 1) echo running ;; *) echo failed ;; esac",
    )]);
    let recipe = recipe("sh", "ssh -o");
    let quick = recipe.replace("sleep 30", "sleep 0");
    assert_ne!(quick, recipe);
    run(&world, &quick).ok();
    let wait = world.task(["wait", "train"]);
    assert_eq!((wait.code, wait.out.as_str()), (1, "exited: code 1\n"));
    assert!(wait.err.contains("job 42: failed"), "{wait}");
}

#[test]
fn a_loop_handles_each_task_when_it_has_ended() {
    let world = world_with(&[]);
    for name in ["lint", "tests", "build"] {
        world.run(name, "true");
    }
    let loop_ = run(&world, &recipe("sh", "--any"));
    let mut lines: Vec<&str> = loop_.ok().lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "next: build exited",
            "next: lint exited",
            "next: tests exited"
        ]
    );
}

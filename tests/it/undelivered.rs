//! Whoever starts a task is told if nothing delivers messages about it.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::Value;

use crate::consumers::{consume, until_live};
use crate::support::{Output, Running, World};

/// Runs a command for an owner, named by a variable, and returns what it says on standard error.
#[track_caller]
fn said(world: &World, (name, value): (&str, &str), args: &[&str]) -> String {
    let mut command = world.command(World::program());
    command.args(args).env(name, value);
    let output = Output::of(command);
    output.ok();
    output.err
}

/// Runs a task of this owner, which ends at once: a live run would have to be ended first.
#[track_caller]
fn run(world: &World, owner: &str) -> String {
    let args = ["run", "t", "--", "true"];
    let told = said(world, ("TMUX_TASK_OWNER", owner), &args);
    // The next one replaces no live run.
    world.until_ended("=work:=t");
    told
}

fn nothing_delivers(what: &str, owner: &str, names: &str, more: &str) -> String {
    format!(
        "tmux-task: {what}: nothing delivers messages to {owner}\n\
         hint: `tmux-task wait {names}` blocks until the task ends or asks for input{more}\n"
    )
}

/// The same for the session `other`, which was named.
fn of_other(said: &str) -> String {
    said.replace("`tmux-task ", "`tmux-task -s other ")
}

/// Ends a reader and waits until the daemon has noticed.
fn kill(world: &World, mut reader: Running) {
    reader.signal(Signal::KILL);
    reader.wait();
    world.until_true("nobody reads", || world.daemon_status()["readers"] == 0);
}

fn install_claude(world: &World) {
    let file = world.path("xdg/tmux-task/adapters/claude-code/.claude-plugin/plugin.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{}").unwrap();
}

#[test]
fn each_client_is_told_each_time_which_wait_to_use() {
    let world = World::new();
    for (variable, id, client) in [
        ("CLAUDE_CODE_SESSION_ID", "c", Some("claude")),
        ("CODEX_THREAD_ID", "d", Some("codex")),
        ("PI_SESSION_ID", "p", Some("pi")),
        ("TMUX_TASK_OWNER", "opencode:o", Some("opencode")),
        ("TMUX_TASK_OWNER", "mine:1", None),
        ("TMUX_TASK_OWNER", "a b", None),
    ] {
        let run = |args: &[&str]| {
            let said = said(&world, (variable, id), args);
            // The next run replaces no live one, which would be said as well.
            world.task(["wait", "own"]).ok();
            said
        };
        // Whoever waits needs no message.
        assert_eq!(run(&["run", "own", "--wait", "--", "true"]), "");
        let until = ["run", "own", "--until", "here", "--", "echo here"];
        assert_eq!(run(&until), "");
        let (owner, more) = match client {
            Some(client) => (
                format!("{client}:{}", id.rsplit(':').next().unwrap()),
                format!("; `tmux-task init {client} --write` installs what delivers messages"),
            ),
            None => (id.to_owned(), String::new()),
        };
        let own = ["run", "own", "--", "true"];
        let expected = nothing_delivers("run", &owner, "own", &more);
        assert_eq!(run(&own), expected);
        // The model may have lost what it was told.
        assert_eq!(run(&own), expected);
        // Another session has other readers.
        let other = ["-s", "other", "run", "own", "--", "true"];
        assert_eq!(run(&other), of_other(&expected));
    }
    let args = ["run", "persons", "--", "true"];
    assert_eq!(said(&world, ("TMUX_TASK_OWNER", ""), &args), "");
}

#[test]
fn everything_that_starts_tasks_says_it() {
    let world = World::new();
    let owner = |owner: &'static str| ("TMUX_TASK_OWNER", owner);
    let json = ["run", "a", "--json", "--", "true"];
    let mut command = world.command(World::program());
    command.args(json).env("TMUX_TASK_OWNER", "mine:1");
    let output = Output::of(command);
    serde_json::from_str::<Value>(output.ok()).unwrap();
    assert_eq!(output.err, nothing_delivers("run", "mine:1", "a", ""));
    // The next run replaces no live one, which would be said as well.
    world.task(["wait", "a"]).ok();
    let again = said(&world, owner("mine:1"), &["run", "a", "--", "true"]);
    assert_eq!(again, nothing_delivers("run", "mine:1", "a", ""));
    let restarted = said(&world, owner("mine:2"), &["restart", "a"]);
    assert_eq!(restarted, nothing_delivers("restart", "mine:2", "a", ""));
    world.run("b", "true");
    let restarted = said(&world, owner("mine:3"), &["restart", "a", "b"]);
    let each = ["a", "b"].map(|name| nothing_delivers("restart", "mine:3", name, ""));
    assert_eq!(restarted, each.concat());
    let file = "[tasks.c]\ncommand = 'sleep 1000'\n[tasks.d]\ncommand = 'sleep 1000'\n";
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    let up = said(&world, owner("mine:4"), &["up"]);
    assert_eq!(up, nothing_delivers("up", "mine:4", "c d", ""));
    // Nothing is started.
    assert_eq!(said(&world, owner("mine:5"), &["up"]), "");
}

#[test]
fn a_conversation_whose_reader_is_there_is_told_nothing() {
    let world = World::new();
    world.daemon();
    let mut adapter = world.command(World::program());
    adapter
        .args(["agent", "pi", "--id", "p"])
        .stdin(Stdio::piped());
    let adapter = Running::start(adapter);
    adapter.records_until(|line| line["kind"] == "following");
    assert_eq!(run(&world, "pi:p"), "");
    kill(&world, adapter);
    assert!(run(&world, "pi:p").contains("nothing delivers messages to pi:p"));
    // A reader for another owner is none, and neither is one of notices.
    let others = world.start(["feed", "--follow", "--owner", "pi:p"]);
    others.records_until(|record| record["kind"] == "sync");
    let notices = consume(&world, "notices", &["--kind", "notice"]);
    until_live(&notices);
    assert!(run(&world, "pi:other").contains("nothing delivers messages to pi:other"));
    assert_eq!(run(&world, "pi:p"), "");
    // A harness that reads all messages is one.
    let all = world.start(["feed", "--follow"]);
    all.records_until(|record| record["kind"] == "sync");
    assert_eq!(run(&world, "pi:third"), "");
}

#[test]
fn a_reader_that_leaves_is_missed_each_time() {
    let world = World::new();
    world.daemon();
    for name in ["my-agent", "mine:1", "my-agent"] {
        let reader = consume(&world, name, &["--owner", "mine:1"]);
        until_live(&reader);
        assert_eq!(run(&world, "mine:1"), "");
        kill(&world, reader);
        let expected = nothing_delivers("run", "mine:1", "t", "");
        assert_eq!(run(&world, "mine:1"), expected);
    }
}

#[test]
fn an_installed_adapter_counts_where_it_follows_the_session() {
    let world = World::new();
    world.daemon();
    install_claude(&world);
    let expected = "; the adapter of claude is installed and does not follow this session: start \
                    claude again in this project";
    assert_eq!(
        run(&world, "claude:new"),
        nothing_delivers("run", "claude:new", "t", expected)
    );
    // It reads when a turn ends.
    let reader = consume(&world, "claude:c", &["--owner", "claude:c"]);
    until_live(&reader);
    kill(&world, reader);
    assert_eq!(run(&world, "claude:c"), "");
    let other = ["-s", "other", "run", "t", "--", "true"];
    let other = said(&world, ("TMUX_TASK_OWNER", "claude:c"), &other);
    assert_eq!(
        other,
        of_other(&nothing_delivers("run", "claude:c", "t", expected))
    );
    // The adapter of another client, or of another user, is none.
    assert!(run(&world, "pi:c").contains("`tmux-task init pi --write`"));
    let data = world.path("elsewhere").display().to_string();
    let mut command = world.command(World::program());
    command
        .args(["run", "t", "--", "true"])
        .env("TMUX_TASK_OWNER", "claude:c")
        .env("XDG_DATA_HOME", data);
    let output = Output::of(command);
    assert!(
        output.err.contains("`tmux-task init claude --write`"),
        "{output}"
    );
}

#[test]
fn a_sink_delivers_to_the_owners_that_it_names() {
    let world = World::new();
    let folder = world.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    let out = world.path("out");
    let sinks = format!(
        "[[sink]]\nname = 'own'\nshell = 'cat >>{}'\nkinds = ['followUp']\nowners = ['mine:*']\n\
         [[sink]]\nname = 'log'\nshell = 'cat >/dev/null'\n",
        out.display()
    );
    fs::write(folder.join("config.toml"), sinks).unwrap();
    world.daemon();
    assert_eq!(run(&world, "mine:1"), "");
    // The client of this one has an adapter, so the log is none.
    assert!(run(&world, "claude:c").contains("nothing delivers"));
}

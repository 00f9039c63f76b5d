//! Whoever starts a task is told if nothing delivers messages about it.

use std::fs;

use rustix::process::Signal;

use crate::consumers::{consume, until_live};
use crate::support::{Running, World, argv};

/// Runs a command for an owner, named by a variable, and returns what it says on standard error.
#[track_caller]
fn said(world: &World, variable: (&str, &str), args: &str) -> String {
    let output = world.task_with(&[variable], argv(args));
    output.ok();
    output.err
}

/// The same for an owner that is named by the variable for all clients.
#[track_caller]
fn said_to(world: &World, owner: &str, args: &str) -> String {
    said(world, ("TMUX_TASK_OWNER", owner), args)
}

/// Runs a task of this owner, which ends at once: a live run would have to be ended first.
#[track_caller]
fn run(world: &World, owner: &str) -> String {
    let told = said_to(world, owner, "run t -- true");
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

#[test]
fn each_client_is_told_each_time_which_wait_to_use() {
    let world = World::new();
    for (variable, id, client) in [
        ("CLAUDE_CODE_SESSION_ID", "c", Some("claude")),
        ("CODEX_THREAD_ID", "d", Some("codex")),
        ("COPILOT_AGENT_SESSION_ID", "g", Some("copilot")),
        ("PI_SESSION_ID", "p", Some("pi")),
        ("TMUX_TASK_OWNER", "opencode:o", Some("opencode")),
        ("TMUX_TASK_OWNER", "mine:1", None),
        ("TMUX_TASK_OWNER", "a b", None),
    ] {
        let run = |args: &str| {
            let said = said(&world, (variable, id), args);
            // The next run replaces no live one, which would be said as well.
            world.task(["wait", "own"]).ok();
            said
        };
        // Whoever waits needs no message.
        assert_eq!(run("run own --wait -- true"), "");
        assert_eq!(run("run own --until here -- 'echo here'"), "");
        let (owner, more) = match client {
            Some(client) => (
                format!("{client}:{}", id.rsplit(':').next().unwrap()),
                format!("; `tmux-task init {client} --write` installs what delivers messages"),
            ),
            None => (id.to_owned(), String::new()),
        };
        let expected = nothing_delivers("run", &owner, "own", &more);
        // The model may have lost what it was told.
        for _ in 0..2 {
            assert_eq!(run("run own -- true"), expected);
        }
        // Another session has other readers.
        assert_eq!(run("-s other run own -- true"), of_other(&expected));
    }
    assert_eq!(said_to(&world, "", "run persons -- true"), "");
}

#[test]
fn everything_that_starts_tasks_says_it() {
    let world = World::new();
    world.run("b", "true");
    let file = "[tasks.c]\ncommand = 'sleep 1000'\n[tasks.d]\ncommand = 'sleep 1000'\n";
    world.write("tmux-task.toml", file);
    for (args, owner, names) in [
        ("run a --json -- true", "mine:1", &["a"][..]),
        ("run a -- true", "mine:1", &["a"]),
        ("restart a", "mine:2", &["a"]),
        ("restart a b", "mine:3", &["a", "b"]),
        ("up", "mine:4", &["c d"]),
        // Nothing is started.
        ("up", "mine:5", &[]),
    ] {
        let (what, _) = args.split_once(' ').unwrap_or((args, ""));
        let expected = names
            .iter()
            .map(|names| nothing_delivers(what, owner, names, ""));
        assert_eq!(
            said_to(&world, owner, args),
            expected.collect::<String>(),
            "{args}"
        );
        // The next run replaces no live one, which would be said as well.
        world.task(["wait", "a"]).ok();
    }
}

#[test]
fn a_conversation_whose_reader_is_there_is_told_nothing() {
    let world = World::new();
    world.daemon();
    let nothing = |owner: &str| format!("nothing delivers messages to {owner}");
    let adapter = world.start_piped(["agent", "pi", "--id", "p"]);
    adapter.records_until(|line| line["kind"] == "following");
    assert_eq!(run(&world, "pi:p"), "");
    kill(&world, adapter);
    assert!(run(&world, "pi:p").contains(&nothing("pi:p")));
    // One that leaves is missed each time.
    for name in ["my-agent", "mine:1", "my-agent"] {
        let reader = consume(&world, name, &["--owner", "mine:1"]);
        until_live(&reader);
        assert_eq!(run(&world, "mine:1"), "");
        kill(&world, reader);
        let expected = nothing_delivers("run", "mine:1", "t", "");
        assert_eq!(run(&world, "mine:1"), expected);
    }
    // A reader for another owner is none, and neither is one of notices.
    let others = world.start(argv("feed --follow --owner pi:p"));
    others.records_until(|record| record["kind"] == "sync");
    let notices = consume(&world, "notices", &["--kind", "notice"]);
    until_live(&notices);
    assert!(run(&world, "pi:other").contains(&nothing("pi:other")));
    assert_eq!(run(&world, "pi:p"), "");
    // A harness that reads all messages is one.
    let all = world.start(["feed", "--follow"]);
    all.records_until(|record| record["kind"] == "sync");
    assert_eq!(run(&world, "pi:third"), "");
}

#[test]
fn an_installed_adapter_counts_where_it_follows_the_session() {
    let mut world = World::new();
    world.daemon();
    let file = world.path("xdg/tmux-task/adapters/claude-code/.claude-plugin/plugin.json");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "{}").unwrap();
    let expected = "; the adapter of claude is installed and does not follow this session: start \
                    claude again in this project";
    let to_new = nothing_delivers("run", "claude:new", "t", expected);
    assert_eq!(run(&world, "claude:new"), to_new);
    // It reads when a turn ends.
    let reader = consume(&world, "claude:c", &["--owner", "claude:c"]);
    until_live(&reader);
    kill(&world, reader);
    assert_eq!(run(&world, "claude:c"), "");
    let other = said_to(&world, "claude:c", "-s other run t -- true");
    let to_c = nothing_delivers("run", "claude:c", "t", expected);
    assert_eq!(other, of_other(&to_c));
    // The adapter of another client, or of another user, is none.
    assert!(run(&world, "pi:c").contains("`tmux-task init pi --write`"));
    let data = world.path("elsewhere").display().to_string();
    world.set("XDG_DATA_HOME", &data);
    assert!(run(&world, "claude:c").contains("`tmux-task init claude --write`"));
}

#[test]
fn a_sink_delivers_to_the_owners_that_it_names() {
    let world = World::new();
    let sinks = "[[sink]]\nname = 'own'\nshell = 'cat >>OUT'\nkinds = ['followUp']\nowners = ['mine:*']\n\
                 [[sink]]\nname = 'log'\nshell = 'cat >/dev/null'\n";
    let out = world.path("out").display().to_string();
    world.configure(&sinks.replace("OUT", &out));
    world.daemon();
    assert_eq!(run(&world, "mine:1"), "");
    // The client of this one has an adapter, so the log is none.
    assert!(run(&world, "claude:c").contains("nothing delivers"));
}

//! The daemon: which events it reports at its start, one per session, and what it leaves behind.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{
    Output, World, all_told, begins, events, has, has_event, names, story, texts,
};

#[test]
fn existing_tasks_are_the_baseline_of_which_a_question_is_reported() {
    let world = World::new();
    let line = "printf 'Proceed? [y/N] '; read -r _";
    world.tmux(["new-session", "-d", "-s", "work", "-n", "ask", line]);
    world.tmux(["set-option", "-g", "remain-on-exit", "on"]);
    world.new_window("live", "sleep 1000");
    let dead = world.open_window("work", &["-n", "dead", "exit 3"]);
    let ringing = ["-n", "ringing", "printf '\\a'; exec sleep 1000"];
    let ringing = world.open_window("work", &ringing);
    world.until_ended(&dead);
    world.until_true("the bell", || {
        world.shown(&ringing, "#{window_bell_flag}") == "1"
    });
    world.until_shows("=work:ask", "Proceed?");
    world.daemon();
    world.until_deliveries(1);
    let listed = world.look();
    assert_eq!(names(&listed["tasks"]), ["ask", "live", "dead", "ringing"]);
    assert_eq!(listed["tasks"][2]["exitCode"], 3);
    assert_eq!(listed["tasks"][3]["bell"], true);
    let status = world.task(["status"]);
    assert_eq!(status.ok(), "tmux: 4 tasks · 1 needs you · 1 failed\n");
    let story = story(&world.finish());
    assert_eq!((&*story[0], story.len()), ("input ask Proceed? [y/N]", 2));
}

#[test]
fn a_daemon_waits_for_its_session() {
    let world = World::new();
    world.daemon();
    assert_eq!(world.daemon_status()["exists"], false);
    // Not by our launcher, which would notify the daemon.
    let new = ["new-session", "-d", "-s", "work", "-n", "later"];
    world.tmux([&new[..], &["exec sleep 1000"]].concat());
    let records = world.until_deliveries(1);
    assert_eq!(story(&records)[0], "started later");
    assert_eq!(world.daemon_status()["exists"], true);
}

#[test]
fn a_daemon_with_stdout_prints_what_it_records_and_a_second_one_streams_the_first() {
    let world = World::new();
    let mut first = world.start(["daemon", "--stdout"]);
    has(first.complaint(), "supervising session work");
    let mut second = world.start(["daemon", "--stdout"]);
    begins(second.complaint(), "already running (pid ");
    for daemon in [&first, &second] {
        let begun = daemon.records_until(|record| record["kind"] == "sync");
        assert_eq!(texts(&begun, "kind"), ["hello", "status", "sync"]);
    }
    // One without leaves it to the first.
    let pid = world.daemon_pid();
    let said = format!("already running (pid {})\n", pid.as_raw_nonzero());
    for args in [&["daemon"][..], &["daemon", "--detach"]] {
        let third = world.task(args);
        assert_eq!((third.ok(), &third.err), ("", &said));
    }
    assert_eq!(world.daemon_pid(), pid);
    world.run("api", "exit 2");
    for daemon in [&first, &second] {
        let told = daemon.records_until(|record| record["kind"] == "followUp");
        assert_eq!(codes(&told, "api"), [(1, 2)]);
    }
    first.signal(Signal::TERM);
    assert_eq!((first.wait(), second.wait()), (0, 0));
}

#[test]
fn status_describes_the_daemon() {
    let world = World::new();
    world.task(["daemon", "status"]).fails(
        3,
        "tmux-task: daemon status: no daemon runs for session `work`\n\
         hint: start one with `tmux-task daemon --detach`",
    );
    let gate = world.gate("gate");
    world.run("api", &gate.wait());
    world.until_deliveries(1);
    let status = world.daemon_status();
    let feed = world.state("work").join("feed.jsonl");
    for (field, value) in [
        ("sessionName", json!("work")),
        ("exists", json!(true)),
        ("lastSeq", json!(2)),
        ("running", json!(1)),
        ("readers", json!(0)),
        ("feed", json!(feed)),
    ] {
        assert_eq!(status[field], value, "{field}");
    }
    let text = world.task(["daemon", "status"]);
    for part in ["session  work", "1 running, 0 waiting, 0 exited"] {
        has(text.ok(), part);
    }
    let counter = |name: &str| world.daemon_status()["counters"][name].as_u64().unwrap();
    let looks = || counter("wholeLooks") + counter("partialLooks");
    let (looks_before, bytes) = (looks(), counter("tmuxBytes"));
    assert!(looks_before > 0);
    world.run("counted", "exec sleep 1000");
    assert!(looks() > looks_before);
    assert!(counter("tmuxBytes") > bytes);
}

#[test]
fn stop_with_cleanup_ends_a_session_in_which_nothing_is_active() {
    let world = World::new();
    let until_dead = |run: i64| {
        world.run("dead", "exit 0");
        world.until("its end", |records| {
            codes(records, "dead").contains(&(run, 0))
        });
    };
    let clean = || world.task(["daemon", "stop", "--cleanup"]).ok().to_owned();
    world.run("live", "exec sleep 1000");
    until_dead(1);
    clean();
    let windows = world.tmux(["list-windows", "-t", "=work"]);
    assert_eq!(windows.lines().count(), 2);

    world.daemon();
    world.task(["kill", "live"]).ok();
    clean();
    let missing = "tmux-task: ls: no session `work`\n\
                   hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session";
    world.task(["ls"]).fails(3, missing);
    // There is nothing to stop, and nothing to say.
    let output = world.task(["daemon", "stop"]);
    assert_eq!((output.ok(), output.err.as_str()), ("", ""));
    // It needs no daemon.
    until_dead(2);
    world.task(["daemon", "stop"]).ok();
    clean();
    world.task(["ls"]).fails(3, missing);
}

/// What the server holds of ours, beside `bell-action` and the options of windows.
fn ours(world: &World, session: &str) -> (bool, bool, bool) {
    let hooks = world.tmux(["show-hooks", "-g"]);
    let window_hooks = world.tmux(["show-hooks", "-gw"]);
    let options = world.tmux(["show-options", "-t", &format!("={session}:")]);
    (
        hooks.contains("alert-bell[9010]"),
        window_hooks.contains("pane-died[9011]"),
        options.contains("@tmux_task_daemon"),
    )
}

const ALL: (bool, bool, bool) = (true, true, true);
const NONE: (bool, bool, bool) = (false, false, false);

#[test]
fn sigterm_ends_it_cleanly_and_takes_its_things_out_of_tmux() {
    let world = World::new();
    world.run_alone("work", "api", "exec sleep 1000");
    let set = ["set-hook", "-g", "alert-bell[0]"];
    world.tmux([&set[..], &["set-option -gF @mine '#{@mine}x'"]].concat());
    let hooks_before = world.tmux(["show-hooks", "-g"]);
    let mut daemon = world.start(["daemon"]);
    has(daemon.complaint(), "supervising session work");
    assert_eq!(ours(&world, "work"), ALL);
    // The user's hook runs beside ours, and without it.
    let until_user_has_heard = |name: &str, rung: &str| {
        world.new_window(name, "printf '\\a'; exec sleep 1000");
        world.until_true("the user's hook ran", || {
            world.tmux(["show-options", "-gqv", "@mine"]) == rung
        });
    };
    until_user_has_heard("rings", "x");
    world.until_event("notify", "rings");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert_eq!(ours(&world, "work"), NONE);
    assert_eq!(world.tmux(["show-hooks", "-g"]), hooks_before);
    assert_eq!(world.tmux(["list-clients"]), "");
    until_user_has_heard("again", "xx");
}

#[test]
fn hooks_go_also_when_the_session_went_first() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "keep", "exec sleep 1000"]);
    let hooks = || ["-g", "-gw"].map(|scope| world.tmux(["show-hooks", scope]));
    let before = hooks();
    world.run("api", "exec sleep 1000");
    assert_eq!(ours(&world, "work"), ALL);
    world.tmux(["kill-session", "-t", "=work"]);
    world.until_event("disappeared", "api");
    world.task(["daemon", "stop"]).ok();
    assert_eq!(hooks(), before);
}

#[test]
fn a_daemon_that_left_no_trace_of_itself_is_no_reason_to_keep_hooks() {
    let world = World::new();
    world.run_in("one", "api", "exec sleep 1000");
    let daemon = world.start(["daemon"]);
    has(daemon.complaint(), "supervising session work");
    world.run("api", "exec sleep 1000");
    world.until_event("started", "api");
    assert_eq!(ours(&world, "work"), ALL);
    // It cannot take its mark away.
    daemon.kill();
    world.task(["-s", "one", "daemon", "stop"]).ok();
    assert_eq!(ours(&world, "work"), NONE);
}

#[test]
fn the_first_command_starts_a_daemon_unless_that_is_forbidden() {
    let mut world = World::new();
    let window = world.run_alone("work", "api", "echo hi; exit 5");
    world.until_ended(&window);
    assert_eq!(world.task(["daemon", "status"]).code, 3);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    for line in "feed --follow|ls|logs api|send api x|kill api|run api -- true".split('|') {
        let why = "no daemon runs for session `work`, and $TMUX_TASK_NO_AUTOSTART keeps commands from \
                   starting one\nhint: start one with `tmux-task daemon --detach`";
        let command = line.split(' ').next().unwrap();
        let why = format!("tmux-task: {command}: {why}");
        world.call(line).fails(3, &why);
    }
    assert_eq!(world.task(["status"]).ok(), "tmux: 1 task · 1 failed\n");
    world.set("TMUX_TASK_NO_AUTOSTART", "");
    let follow = world.start(["feed", "--follow"]);
    assert_eq!(follow.record()["kind"], "hello");
    assert_eq!(world.daemon_status()["readers"], 1);
    drop(follow);
    let prune = ["prune"];
    for (args, expected) in [
        (&["logs", "api"][..], "hi\n".to_owned()),
        (&["search", "hi", "api"], format!("{window} (api): hi\n")),
        (&prune, format!("pruned {window} (api)\n")),
    ] {
        world.task(["daemon", "stop"]).ok();
        let output = world.task(args);
        assert!(args[0] == "search" || output.ok() == expected, "{output}");
        assert_eq!(world.task(["daemon", "status"]).code, 0, "{args:?}");
    }
}

#[test]
fn events_are_reported_however_long_the_interval_is() {
    let world = World::new();
    world.daemon_with(&["--interval", "1h"]);
    let (ring, ask) = (world.gate("ring"), world.gate("ask"));
    let line = format!("{ring}; printf '\\a'; {ask}; read -r -p 'Proceed? [y/N] ' _; exit 3");
    world.run("api", &line);
    world.until_deliveries(1);
    ring.open();
    world.until_deliveries(2);
    ask.open();
    world.until_deliveries(3);
    world.task(["send", "api", "y"]).ok();
    world.until_deliveries(4);
    let records = world.finish();
    let told = ["started", "notify", "input", "inputResolved", "exited"];
    assert_eq!(types(&records, "api"), told);
}

/// The types of a task's events.
fn types<'a>(records: &'a [Value], name: &str) -> Vec<&'a str> {
    let mut events = events(records);
    events.retain(|event| event["task"]["windowName"] == name);
    texts(events, "type")
}

/// The names of the options that are set on a target itself.
fn options_of(world: &World, args: &[&str]) -> Vec<String> {
    let shown = world.tmux([&["show-options"], args].concat());
    let names = shown.lines().filter_map(|line| line.split(' ').next());
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort();
    names
}

#[test]
fn options_removed_from_the_session_are_restored() {
    let world = World::new();
    let api = world.run("api", "exec sleep 1000");
    world.until("api is told", |records| {
        types(records, "api") == ["started"]
    });
    let formats = || -> Vec<String> {
        let ours = options_of(&world, &["-t", "=work:"]).into_iter();
        ours.filter(|name| name.ends_with("_format")).collect()
    };
    let ours = formats();
    assert_eq!(ours.len(), 3, "{ours:?}");
    // All at once: a daemon that misses the first one restores all three, and the removal of another
    // one after that is noticed by the next look that needs it, which may be much later.
    let removals = ours
        .iter()
        .flat_map(|name| ["set-option", "-u", "-t", "=work:", name.as_str(), ";"]);
    world.tmux(removals.collect::<Vec<_>>());
    world.run("web", "exec sleep 1000");
    world.until("web is told", |records| {
        types(records, "web") == ["started"]
    });
    world.until_true("they are back", || formats() == ours);
    // No task counted as gone in the meantime. The daemon closes the window, because tmux 3.3a can crash
    // when that happens while the daemon connects again.
    world.task(["kill", &api]).ok();
    world.until("api has gone", |records| {
        types(records, "api") == ["started", "disappeared"]
    });
}

#[test]
fn what_stays_in_tmux_is_what_is_said_to_stay() {
    let world = World::new();
    let new = ["new-session", "-d", "-s", "mine", "-n", "api"];
    world.tmux([&new[..], &["exec sleep 1000"]].concat());
    world.task(["-s", "mine", "daemon", "--detach"]).ok();
    let window = world.run("api", "exit 3");
    world.until("its end", |records| !codes(records, "api").is_empty());
    world.run("api", "printf '\\a'; exit 4");
    world.until("all of it", |records| {
        codes(records, "api") == [(1, 3), (2, 4)]
            && has_event(records, "notify", "api")
            && all_told(records)
    });
    // An end may be reported before tmux itself has counted it.
    world.until_ended(&window);
    world.look();
    world.task(["daemon", "stop"]).ok();
    world.task(["-s", "mine", "daemon", "stop"]).ok();
    assert_eq!(world.tmux(["show-environment", "-h", "-t", "=work:"]), "");
    for (target, expected) in [
        (
            &["-t", "=work:"][..],
            "@tmux_task_death_count @tmux_task_folder @tmux_task_root bell-action destroy-unattached \
             history-limit",
        ),
        (
            &["-w", "-t", &window],
            "@tmux_task_bells @tmux_task_command @tmux_task_cwd @tmux_task_launch @tmux_task_owner \
             @tmux_task_pane @tmux_task_replaced @tmux_task_run @tmux_task_spec @tmux_task_started \
             allow-rename automatic-rename monitor-bell remain-on-exit",
        ),
        (&["-t", "=mine:"], "@tmux_task_folder bell-action"),
    ] {
        assert_eq!(options_of(&world, target).join(" "), expected);
    }
    let mut on_window = options_of(&world, &["-w", "-t", "=mine:"]);
    on_window.retain(|name| !name.starts_with("automatic"));
    let expected = ["@tmux_task_run", "monitor-bell", "remain-on-exit"];
    assert_eq!(on_window, expected);
}

#[test]
fn tasks_outlive_the_daemon_where_sessions_go_with_their_last_client() {
    let world = World::new();
    let settings = "set-option -g destroy-unattached on\n";
    std::fs::write(world.path("home/.tmux.conf"), settings).unwrap();
    // Only the daemon is attached to one session, and no client to the other.
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let mut helper = world.command(World::helper());
    helper
        .env("TMUX_TASK_SESSION", "other")
        .args(["api", "--", "exec sleep 1000"]);
    Output::of(helper).ok();
    world.task(["daemon", "stop"]).ok();
    let alive = |target: &str| world.shown(target, "#{pane_dead}") == "0";
    assert!(alive(&window));
    assert!(alive("=other:api"));
}

/// tmux updates a session's environment from each client that attaches (`update-environment`).
#[test]
fn attaching_leaves_the_sessions_environment_alone() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    let agent = "SSH_AUTH_SOCK=/run/agent of a person";
    let (name, value) = agent.split_once('=').unwrap();
    world.tmux(["set-environment", "-t", "=work:", name, value]);
    world.daemon();
    let shown = world.tmux(["show-environment", "-t", "=work:", name]);
    assert_eq!(shown, agent);
    // The client that follows output attaches as well.
    let output = world.task(["wait", "api", "--text", "never", "--timeout", "100ms"]);
    output.fails_with(4);
    let shown = world.tmux(["show-environment", "-t", "=work:", name]);
    assert_eq!(shown, agent);
}

//! The daemon: which events it reports at its start, one per session, and what it leaves behind.

use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;
use serde_json::Value;

use crate::runs::codes;
use crate::support::{Output, World, all_told, events, has_ended, story};

#[test]
fn existing_tasks_are_the_baseline() {
    let world = World::new();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "live",
        "sleep 1000",
    ]);
    world.tmux(["set-option", "-g", "remain-on-exit", "on"]);
    let dead = world.open_window("work", &["-n", "dead", "exit 3"]);
    let ringing = ["-n", "ringing", "printf '\\a'; exec sleep 1000"];
    let ringing = world.open_window("work", &ringing);
    world.until_ended(&dead);
    world.until_true("the bell", || {
        world.tmux([
            "display-message",
            "-p",
            "-t",
            &ringing,
            "#{window_bell_flag}",
        ]) == "1"
    });
    world.daemon();
    let listed = world.look();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(listed["tasks"][1]["exitCode"], 3);
    assert_eq!(listed["tasks"][2]["bell"], true);
    assert_eq!(world.task(["status"]).ok(), "tmux: 3 tasks · 1 failed\n");
    assert_eq!(story(&world.finish()), [""; 0]);
}

#[test]
fn a_question_in_the_baseline_is_reported() {
    let world = World::new();
    let line = "printf 'Proceed? [y/N] '; read -r _";
    world.tmux(["new-session", "-d", "-s", "work", "-n", "ask", line]);
    world.until_shows("work:", "Proceed?");
    world.daemon();
    world.until_deliveries(1);
    assert_eq!(story(&world.records())[0], "input ask Proceed? [y/N]");
}

#[test]
fn the_first_task_of_a_new_session_is_reported() {
    let world = World::new();
    assert_eq!(world.task(["daemon", "status"]).code, 3);
    let gate = world.gate("gate");
    world.run("first", &gate.wait());
    let records = world.until_deliveries(1);
    assert_eq!(story(&records)[0], "started first");
}

#[test]
fn a_daemon_waits_for_its_session() {
    let world = World::new();
    world.daemon();
    assert_eq!(world.daemon_status()["exists"], false);
    // Not by our launcher, which would notify the daemon.
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "later",
        "exec sleep 1000",
    ]);
    let records = world.until_deliveries(1);
    assert_eq!(story(&records)[0], "started later");
    assert_eq!(world.daemon_status()["exists"], true);
}

#[test]
fn a_second_daemon_leaves_it_to_the_first() {
    let world = World::new();
    world.daemon();
    let pid = world.daemon_pid().as_raw_nonzero();
    let said = format!("already running (pid {pid})\n");
    for args in [&["daemon"][..], &["daemon", "--detach"]] {
        let second = world.task(args);
        assert_eq!((second.code, second.out.as_str()), (0, ""), "{second}");
        assert_eq!(second.err, said);
    }
    assert_eq!(world.daemon_pid().as_raw_nonzero(), pid);
}

#[test]
fn a_second_daemon_with_stdout_streams_the_first() {
    let world = World::new();
    world.daemon();
    let mut second = world.start(["daemon", "--stdout"]);
    assert!(second.complaint().starts_with("already running (pid "));
    let hello = second.record();
    assert_eq!(hello["kind"], "hello");
    second.records_until(|record| record["kind"] == "sync");
    world.run("api", "exit 2");
    let told = second.records_until(|record| record["kind"] == "followUp");
    assert_eq!(codes(&told, "api"), [(1, 2)]);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(second.wait(), 0);
}

#[test]
fn a_daemon_with_stdout_prints_what_it_records() {
    let world = World::new();
    let mut daemon = world.start(["daemon", "--stdout"]);
    assert!(daemon.complaint().contains("supervising session work"));
    let first = daemon.records_until(|record| record["kind"] == "sync");
    let kinds: Vec<&str> = first
        .iter()
        .map(|record| record["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["hello", "status", "sync"]);
    world.run("api", "exit 2");
    let told = daemon.records_until(|record| record["kind"] == "followUp");
    assert_eq!(codes(&told, "api"), [(1, 2)]);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
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
    assert_eq!(status["sessionName"], "work");
    assert_eq!(status["exists"], true);
    assert_eq!(status["lastSeq"], 2);
    assert_eq!(status["running"], 1);
    assert_eq!(status["readers"], 0);
    assert_eq!(
        status["feed"],
        world.state("work").join("feed.jsonl").to_str().unwrap()
    );
    let text = world.task(["daemon", "status"]);
    for part in ["session  work", "1 running, 0 waiting, 0 exited"] {
        assert!(text.ok().contains(part), "{text}");
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
fn its_files_are_for_the_user_alone() {
    let world = World::new();
    world.daemon();
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let state = world.state("work");
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&world.path("run")), 0o700);
    let socket = world
        .path("run")
        .join(state.file_name().unwrap())
        .with_extension("sock");
    assert_eq!(mode(&socket), 0o600);
    for file in ["feed.jsonl", "daemon.log"] {
        assert_eq!(mode(&state.join(file)), 0o600, "{file}");
    }
    world.task(["daemon", "stop"]).ok();
    assert!(!socket.exists());
}

#[test]
fn stop_stops_the_daemon_and_not_the_tasks() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let daemon = world.daemon_pid();
    world.task(["daemon", "stop"]).ok();
    world.until_true("the process is gone", || has_ended(daemon));
    assert_eq!(
        world.tmux(["display-message", "-p", "-t", &window, "#{pane_dead}"]),
        "0"
    );
    world.task(["daemon", "stop"]).fails(
        3,
        "tmux-task: daemon stop: no daemon runs for session `work`",
    );
}

#[test]
fn stop_with_cleanup_ends_a_session_in_which_nothing_is_active() {
    let world = World::new();
    world.run("live", "exec sleep 1000");
    world.run("dead", "exit 0");
    world.until("its end", |records| !codes(records, "dead").is_empty());
    world.task(["daemon", "stop", "--cleanup"]).ok();
    assert_eq!(
        world.tmux(["list-windows", "-t", "=work"]).lines().count(),
        2
    );

    world.daemon();
    world.task(["kill", "live"]).ok();
    world.task(["daemon", "stop", "--cleanup"]).ok();
    let mut has = world.command("tmux");
    has.args(["has-session", "-t", "=work"]);
    assert_ne!(crate::support::Output::of(has).code, 0);
    // There is nothing to stop, and nothing to say.
    let output = world.task(["daemon", "stop"]);
    assert_eq!((output.ok(), output.err.as_str()), ("", ""));
}

#[test]
fn cleanup_needs_no_daemon() {
    let world = World::new();
    world.run("dead", "exit 0");
    world.until("its end", |records| !codes(records, "dead").is_empty());
    world.task(["daemon", "stop"]).ok();
    world.task(["daemon", "stop", "--cleanup"]).ok();
    world.task(["ls"]).fails(
        3,
        "tmux-task: ls: no session `work`\n\
         hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session",
    );
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

#[test]
fn sigterm_ends_it_cleanly_and_takes_its_things_out_of_tmux() {
    let world = World::new();
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "api",
        "exec sleep 1000",
    ]);
    world.tmux([
        "set-hook",
        "-g",
        "alert-bell[0]",
        "set-option -g @mine rang",
    ]);
    let hooks_before = world.tmux(["show-hooks", "-g"]);
    let mut daemon = world.start(["daemon"]);
    assert!(daemon.complaint().contains("supervising session work"));
    assert_eq!(ours(&world, "work"), (true, true, true));
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.wait(), 0);
    assert_eq!(ours(&world, "work"), (false, false, false));
    assert_eq!(world.tmux(["show-hooks", "-g"]), hooks_before);
    assert_eq!(world.tmux(["list-clients"]), "");
    // The user's hook still works.
    world.tmux(["new-window", "-t", "work:", "printf '\\a'; exec sleep 1000"]);
    world.until_true("the user's hook ran", || {
        world.tmux(["show-options", "-gqv", "@mine"]) == "rang"
    });
}

#[test]
fn the_users_own_bell_hook_runs_beside_ours() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
    world.tmux([
        "set-hook",
        "-g",
        "alert-bell[0]",
        "set-option -g @mine rang",
    ]);
    let gate = world.gate("gate");
    world.run(
        "api",
        &format!("{}; printf '\\a'; exec sleep 1000", gate.wait()),
    );
    world.until_deliveries(1);
    gate.open();
    world.until("the bell", |records| {
        events(records)
            .iter()
            .any(|event| event["type"] == "notify")
    });
    assert_eq!(world.tmux(["show-options", "-gqv", "@mine"]), "rang");
}

#[test]
fn two_daemons_on_one_server_leave_each_other_alone() {
    let world = World::new();
    let (a, b) = (world.gate("a"), world.gate("b"));
    let ring =
        |gate: &crate::support::Gate| format!("while {}; do printf '\\a'; done", gate.wait());
    world.run_in("one", "api", &ring(&a));
    let window = world.run_in("two", "api", &ring(&b));
    // The second daemon also finds the first one's session.
    let started = |records: &[serde_json::Value]| events(records).len() == 1 && all_told(records);
    world.until_of(&["-s", "one"], "its start", started);
    world.until_of(&["-s", "two"], "its start", started);
    let rang = |n: usize| {
        move |records: &[serde_json::Value]| {
            events(records)
                .iter()
                .filter(|event| event["type"] == "notify")
                .count()
                == n
        }
    };
    a.open();
    world.until_of(&["-s", "one"], "its bell", rang(1));
    b.open();
    world.until_of(&["-s", "two"], "its bell", rang(1));

    world.task(["-s", "one", "daemon", "stop"]).ok();
    assert_eq!(ours(&world, "one"), (true, true, false));
    assert_eq!(ours(&world, "two"), (true, true, true));
    let count = ["show-options", "-wqv", "-t", &window, "@tmux_task_bells"];
    assert_eq!(world.tmux(count), format!("{window} 1"));
    b.open();
    let records = world.until_of(&["-s", "two"], "another bell", rang(2));
    assert_eq!(events(&records).last().unwrap()["task"]["bellCount"], 2);
    assert!(
        events(&records)
            .iter()
            .all(|event| event["sessionName"] == "two")
    );

    world.task(["-s", "two", "daemon", "stop"]).ok();
    assert_eq!(ours(&world, "two"), (false, false, false));
    assert_eq!(world.tmux(count), format!("{window} 2"));
}

#[test]
fn hooks_go_also_when_the_session_went_first() {
    let world = World::new();
    let keep = ["new-session", "-d", "-s", "keep", "exec sleep 1000"];
    world.tmux(keep);
    let hooks_before = world.tmux(["show-hooks", "-g"]);
    let window_hooks_before = world.tmux(["show-hooks", "-gw"]);
    world.run("api", "exec sleep 1000");
    assert_eq!(ours(&world, "work"), (true, true, true));
    world.tmux(["kill-session", "-t", "=work"]);
    world.until("it has gone", |records| {
        records.iter().any(|record| record["type"] == "disappeared")
    });
    world.task(["daemon", "stop"]).ok();
    assert_eq!(world.tmux(["show-hooks", "-g"]), hooks_before);
    assert_eq!(world.tmux(["show-hooks", "-gw"]), window_hooks_before);
}

#[test]
fn a_daemon_that_left_no_trace_of_itself_is_no_reason_to_keep_hooks() {
    let world = World::new();
    world.run_in("one", "api", "exec sleep 1000");
    let mut daemon = world.start(["daemon"]);
    assert!(daemon.complaint().contains("supervising session work"));
    world.run("api", "exec sleep 1000");
    world.until("its start", |records| {
        story(records).contains(&"started api".to_owned())
    });
    assert_eq!(ours(&world, "work"), (true, true, true));
    // It cannot take its mark away.
    daemon.signal(Signal::KILL);
    daemon.wait();
    world.task(["-s", "one", "daemon", "stop"]).ok();
    assert_eq!(ours(&world, "work"), (false, false, false));
}

#[test]
fn the_first_command_starts_a_daemon_unless_that_is_forbidden() {
    let mut world = World::new();
    let window = world.run_alone("work", "api", "echo hi; exit 5");
    world.until_ended(&window);
    assert_eq!(world.task(["daemon", "status"]).code, 3);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    for args in [
        &["feed", "--follow"][..],
        &["ls"],
        &["logs", "api"],
        &["send", "api", "x"],
        &["kill", "api"],
        &["run", "api", "--", "true"],
    ] {
        world.task(args).fails(
            3,
            &format!(
                "tmux-task: {}: no daemon runs for session `work`, and $TMUX_TASK_NO_AUTOSTART keeps \
                 commands from starting one\n\
                 hint: start one with `tmux-task daemon --detach`",
                args[0]
            ),
        );
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
    let line = format!(
        "{}; printf '\\a'; {}; read -r -p 'Proceed? [y/N] ' _; exit 3",
        ring.wait(),
        ask.wait()
    );
    world.run("api", &line);
    world.until_deliveries(1);
    ring.open();
    world.until_deliveries(2);
    ask.open();
    world.until_deliveries(3);
    world.task(["send", "api", "y"]).ok();
    world.until_deliveries(4);
    let records = world.finish();
    let told: Vec<&str> = events(&records)
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        told,
        ["started", "notify", "input", "inputResolved", "exited"]
    );
}

#[test]
fn a_server_that_is_terminated_ends_with_a_daemon_attached() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let server = world.server();
    world.tmux(["kill-server"]);
    world.until_true("the server is gone", || has_ended(server));
    world.until("what became of the task", |records| {
        story(records).contains(&"disappeared api -".to_owned()) && all_told(records)
    });
    assert_eq!(world.daemon_status()["exists"], false);
}

/// The types of a task's events.
fn types(records: &[Value], name: &str) -> Vec<String> {
    let events = events(records).into_iter();
    let of_task = events.filter(|event| event["task"]["windowName"] == name);
    of_task
        .filter_map(|event| event["type"].as_str().map(str::to_owned))
        .collect()
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
    world.tmux([
        "new-session",
        "-d",
        "-s",
        "mine",
        "-n",
        "api",
        "exec sleep 1000",
    ]);
    world.task(["-s", "mine", "daemon", "--detach"]).ok();
    let window = world.run("api", "exit 3");
    world.until("its end", |records| !codes(records, "api").is_empty());
    world.run("api", "printf '\\a'; exit 4");
    world.until("all of it", |records| {
        codes(records, "api") == [(1, 3), (2, 4)]
            && events(records)
                .iter()
                .any(|event| event["type"] == "notify")
            && all_told(records)
    });
    // An end may be reported before tmux itself has counted it.
    world.until_ended(&window);
    world.look();
    world.task(["daemon", "stop"]).ok();
    world.task(["-s", "mine", "daemon", "stop"]).ok();
    assert_eq!(world.tmux(["show-environment", "-h", "-t", "=work:"]), "");
    assert_eq!(
        options_of(&world, &["-t", "=work:"]),
        [
            "@tmux_task_death_count",
            "@tmux_task_folder",
            "@tmux_task_root",
            "bell-action",
            "destroy-unattached",
            "history-limit"
        ]
    );
    assert_eq!(
        options_of(&world, &["-w", "-t", &window]),
        [
            "@tmux_task_bells",
            "@tmux_task_command",
            "@tmux_task_cwd",
            "@tmux_task_launch",
            "@tmux_task_owner",
            "@tmux_task_pane",
            "@tmux_task_replaced",
            "@tmux_task_run",
            "@tmux_task_spec",
            "@tmux_task_started",
            "allow-rename",
            "automatic-rename",
            "monitor-bell",
            "remain-on-exit"
        ]
    );
    assert_eq!(
        options_of(&world, &["-t", "=mine:"]),
        ["@tmux_task_folder", "bell-action"]
    );
    let on_window = options_of(&world, &["-w", "-t", "=mine:"]);
    let ours = |name: &&String| !name.starts_with("automatic");
    assert_eq!(
        on_window.iter().filter(ours).collect::<Vec<_>>(),
        ["@tmux_task_run", "monitor-bell", "remain-on-exit"]
    );
}

#[test]
fn tasks_outlive_the_daemon_where_sessions_go_with_their_last_client() {
    let world = World::new();
    std::fs::write(
        world.path("home").join(".tmux.conf"),
        "set-option -g destroy-unattached on\n",
    )
    .unwrap();
    // Only the daemon is attached to one session, and no client to the other.
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let mut helper = world.command(World::helper());
    helper
        .env("TMUX_TASK_SESSION", "other")
        .args(["api", "--", "exec sleep 1000"]);
    Output::of(helper).ok();
    world.task(["daemon", "stop"]).ok();
    let alive =
        |target: &str| world.tmux(["display-message", "-p", "-t", target, "#{pane_dead}"]) == "0";
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
    assert_eq!(output.code, 4, "{output}");
    assert_eq!(
        world.tmux(["show-environment", "-t", "=work:", name]),
        agent
    );
}

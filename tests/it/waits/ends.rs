//! Outcomes of a wait other than a text: ends of runs, events, timeouts and lost connections.

use super::*;

#[test]
fn the_end_of_a_run_is_an_outcome() {
    let world = World::new();
    let gate = world.gate("go");
    world.run("api", &format!("{gate}; exit 7"));
    let by_default = begin(&world, &["api"]);
    let asked = begin(&world, &["api", "--exit", "--text", "never"]);
    let text = begin(&world, &["api", "--text", "never"]);
    gate.open();
    let fields = "condition exitCode exitSignal";
    for waiting in [by_default, asked] {
        // `wait tests && deploy` means what it says.
        let result = ends_with(end(waiting), 1, "exited");
        has_fields(&result, fields, json!(["exit", 7, null]));
    }
    let died = ends_with(end(text), 5, "died");
    has_fields(&died, fields, json!([null, 7, null]));
    // It is over already.
    ends_with(wait(&world, &["api"]), 1, "exited");
    let plain = world.task(["wait", "api"]);
    let said = (plain.code, plain.out.as_str(), plain.err.as_str());
    assert_eq!(said, (1, "exited: code 7\n", ""));
    ends_with(wait(&world, &["api", "--text", "never"]), 5, "died");
    ends_with(wait(&world, &["api", "--idle", "1h"]), 5, "died");

    world.run("shot", "kill -KILL $$");
    assert_eq!(
        ends_with(wait(&world, &["shot"]), 1, "exited")["exitSignal"],
        "SIGKILL"
    );
    world.run("fine", "exit 0");
    assert_eq!(world.task(["wait", "fine"]).ok(), "exited: code 0\n");
}

/// When a process ends, tmux discards output of its pane that it has not sent yet.
#[test]
fn the_last_words_of_a_run_count_and_a_burst_before_its_end_hides_none() {
    let world = World::new();
    let burst = "seq 20000; echo READY; seq 100; exit 1";
    for (n, script) in ["printf READY; exit 1", burst].repeat(3).iter().enumerate() {
        let name = format!("api-{n}");
        let (_, go_on) = steps(&world, &name, &["true", script]);
        let waiting = begin(&world, &[&name, "--text", "READY"]);
        let other = begin(&world, &[&name, "--text", "never"]);
        go_on();
        ends_with(end(waiting), 0, "matched");
        ends_with(end(other), 5, "died");
    }
}

#[test]
fn what_becomes_of_a_task_ends_its_waits() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.run("other", "exec sleep 1000");
    let respawn = || drop(world.tmux(["respawn-pane", "-k", "-t", &window, "exec sleep 1001"]));
    let run = || drop(world.run("api", "exec sleep 1002"));
    let replaces: [(&str, &dyn Fn()); 2] = [("--text=never", &respawn), ("--exit", &run)];
    for (condition, replace) in replaces {
        let old = world.pane_pid(&window);
        let waiting = begin(&world, &["api", condition]);
        replace();
        let result = ends_with(end(waiting), 5, "respawned");
        let pids = ["oldPid", "newPid"].map(|name| result[name].to_string());
        assert_eq!(pids, [old, world.pane_pid(&window)]);
    }
    // Whoever ends it, each wait has the run's end.
    let (text, exit) = (
        begin(&world, &["api", "--text", "never"]),
        begin(&world, &["api"]),
    );
    world.task_as("pi:1", ["kill", "api"]).ok();
    for waiting in [text, exit] {
        let result = ends_with(end(waiting), 5, "disappeared");
        let expected = json!([null, "agentKilled", "SIGTERM"]);
        has_fields(&result, "cursor reason exitSignal", expected);
    }

    // A connection that is lost ends those that need the output.
    let exit = begin(&world, &["other", "--exit"]);
    let text = begin(&world, &["other", "--text", "never"]);
    world.tmux(["detach-client", "-s", SESSION]);
    ends_with(end(text), 5, "anchorLost");
    assert_eq!(waits(&world), 1);
    world.tmux(["kill-session", "-t", SESSION]);
    ends_with(end(exit), 5, "disappeared");
    // A server that goes takes the task along.
    world.run("api", "exec sleep 1000");
    let text = begin(&world, &["api", "--text", "never"]);
    let exit = begin(&world, &["api"]);
    kill_process(world.server(), Signal::KILL).unwrap();
    ends_with(end(text), 5, "disappeared");
    ends_with(end(exit), 5, "disappeared");
}

#[test]
fn anything_written_is_a_change_and_nothing_is_idle_until_the_time_is_over() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", "printf x"]);
    let change = begin(&world, &["api", "--change"]);
    let never = begin(&world, &["api", "--idle", "1h", "--change"]);
    go_on();
    assert_eq!(ends_with(end(change), 0, "changed")["condition"], "change");
    ends_with(end(never), 0, "changed");
    let idle = wait(&world, &["api", "--idle", "100ms", "--text", "never"]);
    assert_eq!(ends_with(idle, 0, "idle")["sawNewOutput"], false);
    let output = world.call("wait api --text down --timeout 100ms");
    output.fails_saying(4, "tmux-task: wait api: timed out after");
    let ended = outcome(&world.call("wait api --json --text down --timeout 100ms"));
    let result = ends_with(ended, 4, "timeout");
    has_fields(&result, "matchedAtEntry tail", json!([false, ["x"]]));
    assert!(result["elapsedMs"].as_u64() >= Some(100), "{result}");
    assert!(result["cursor"].is_string(), "{result}");
}

#[test]
fn bells_and_questions_end_waits() {
    let world = World::new();
    let question = r"printf 'Proceed? [y/N] '; read -r answer";
    let (_, go_on) = steps(&world, "api", &["true", r"printf '\a'", question]);
    let bell = begin(&world, &["api", "--bell"]);
    let input = begin(&world, &["api", "--input"]);
    go_on();
    ends_with(end(bell), 0, "bell");
    go_on();
    assert_eq!(ends_with(end(input), 0, "input")["line"], "Proceed? [y/N]");
    // It holds already; a bell must ring again.
    ends_with(wait(&world, &["api", "--input", "--bell"]), 0, "input");
}

#[test]
fn the_first_condition_wins_and_a_stop_wins_over_all() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", "echo two", "echo 'one, bad'"]);
    for (conditions, code, outcome, line) in [
        ("--text one --text two --exit --bell", 0, "matched", "two"),
        (
            "--text one --stop worse --stop bad",
            5,
            "stopped",
            "one, bad",
        ),
    ] {
        let conditions = argv(&format!("api {conditions}"));
        let conditions: Vec<&str> = conditions.iter().map(String::as_str).collect();
        let waiting = begin(&world, &conditions);
        go_on();
        let result = ends_with(end(waiting), code, outcome);
        has_fields(&result, "matchedIndex line", json!([1, line]));
    }
}

/// A run that asks for input does not end before it is answered: a wait for its end reports the
/// prompt.
#[test]
fn a_question_ends_a_wait_for_the_end() {
    let world = World::new();
    let run = |line: &str| world.task(["run", "api", "--wait", "--timeout", LONG, "--", line]);
    run(r"printf 'Proceed? [y/N] '; read -r answer; exit 7").fails_saying(
        123,
        "tmux-task: run api: the task asks for input: Proceed? [y/N]\n\
         hint: `tmux-task send api TEXT` answers; then `tmux-task wait api` waits for its end\n",
    );
    let result = ends_with(wait(&world, &["api"]), 6, "input");
    has_fields(
        &result,
        "line promptKind condition",
        json!(["Proceed? [y/N]", "confirm", null]),
    );

    let through = begin(&world, &["api", "--through-prompts"]);
    world.task(["send", "api", "y"]).ok();
    assert_eq!(ends_with(end(through), 1, "exited")["exitCode"], 7);

    run("printf 'Password: '; stty -echo; read -r answer")
        .fails_saying(123, "`tmux-task send api --secret` answers");
}

#[test]
fn without_a_daemon_or_a_task_nothing_waits() {
    let mut world = World::new();
    world.task(["wait", "api"]).fails(
        3,
        "tmux-task: wait: no session `work`\n\
         hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session",
    );
    world.run("api", "exec sleep 1000");
    let why =
        "tmux-task: wait: no task `nobody` in session `work`\nhint: `tmux-task ls` lists them";
    world.task(["wait", "nobody"]).fails(3, why);
    let mut waiting = begin(&world, &["api"]);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(waiting.wait(), 1);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.task(["wait", "api"]).fails_with(3);
}

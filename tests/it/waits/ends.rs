//! Outcomes of a wait other than a text: ends of runs, events, timeouts and lost connections.

use super::*;

#[test]
fn the_end_of_a_run_is_an_outcome() {
    let world = World::new();
    let gate = world.gate("go");
    world.run("api", &format!("{}; exit 7", gate.wait()));
    let by_default = begin(&world, &["api"]);
    let asked = begin(&world, &["api", "--exit", "--text", "never"]);
    let text = begin(&world, &["api", "--text", "never"]);
    gate.open();
    for waiting in [by_default, asked] {
        let ended = end(waiting);
        // `wait tests && deploy` means what it says.
        ends_with(&ended, 1, "exited");
        assert_eq!(ended.1["condition"], "exit");
        assert_eq!(ended.1["exitCode"], 7);
        assert_eq!(ended.1["exitSignal"], Value::Null);
    }
    let ended = end(text);
    ends_with(&ended, 5, "died");
    assert_eq!(ended.1["exitCode"], 7);
    assert_eq!(ended.1["condition"], Value::Null);
    // It is over already.
    ends_with(&wait(&world, &["api"]), 1, "exited");
    let plain = world.task(["wait", "api"]);
    let said = (plain.code, plain.out.as_str(), plain.err.as_str());
    assert_eq!(said, (1, "exited: code 7\n", ""));
    ends_with(&wait(&world, &["api", "--text", "never"]), 5, "died");
    ends_with(&wait(&world, &["api", "--idle", "1h"]), 5, "died");

    world.run("shot", "kill -KILL $$");
    let ended = wait(&world, &["shot"]);
    ends_with(&ended, 1, "exited");
    assert_eq!(ended.1["exitSignal"], "SIGKILL");
    world.run("fine", "exit 0");
    assert_eq!(world.task(["wait", "fine"]).ok(), "exited: code 0\n");
}

#[test]
fn the_last_words_of_a_run_count() {
    let world = World::new();
    for n in 0..5 {
        let name = format!("api-{n}");
        let (_, go_on) = steps(&world, &name, &["true", "printf READY; exit 1"]);
        let waiting = begin(&world, &[&name, "--text", "READY"]);
        go_on();
        ends_with(&end(waiting), 0, "matched");
    }
}

/// When a process ends, tmux discards output of its pane that it has not sent yet.
#[test]
fn a_burst_at_the_end_of_a_run_hides_no_line() {
    let world = World::new();
    let script = "seq 20000; echo READY; seq 100; exit 1";
    for n in 0..3 {
        let name = format!("api-{n}");
        let (_, go_on) = steps(&world, &name, &["true", script]);
        let waiting = begin(&world, &[&name, "--text", "READY"]);
        let other = begin(&world, &[&name, "--text", "never"]);
        go_on();
        ends_with(&end(waiting), 0, "matched");
        ends_with(&end(other), 5, "died");
    }
}

#[test]
fn what_becomes_of_a_task_ends_its_waits() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.run("other", "exec sleep 1000");
    let pid = |world: &World| world.tmux(["display-message", "-p", "-t", &window, "#{pane_pid}"]);
    let old = pid(&world);
    let waiting = begin(&world, &["api", "--text", "never"]);
    world.tmux(["respawn-pane", "-k", "-t", &window, "exec sleep 1001"]);
    let ended = end(waiting);
    ends_with(&ended, 5, "respawned");
    assert_eq!(ended.1["oldPid"].to_string(), old);
    assert_eq!(ended.1["newPid"].to_string(), pid(&world));

    let old = pid(&world);
    let waiting = begin(&world, &["api", "--exit"]);
    world.run("api", "exec sleep 1002");
    let ended = end(waiting);
    ends_with(&ended, 5, "respawned");
    assert_eq!(ended.1["oldPid"].to_string(), old);

    let waiting = begin(&world, &["api", "--text", "never"]);
    world.task(["kill", "api"]).ok();
    let ended = end(waiting);
    ends_with(&ended, 5, "disappeared");
    assert_eq!(ended.1["cursor"], Value::Null);

    let waiting = begin(&world, &["other", "--exit"]);
    world.tmux(["kill-session", "-t", SESSION]);
    ends_with(&end(waiting), 5, "disappeared");
}

#[test]
fn a_server_that_goes_takes_the_task_along() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let text = begin(&world, &["api", "--text", "never"]);
    let exit = begin(&world, &["api"]);
    kill_process(world.server(), Signal::KILL).unwrap();
    ends_with(&end(text), 5, "disappeared");
    ends_with(&end(exit), 5, "disappeared");
}

#[test]
fn anything_written_is_a_change_and_nothing_is_idle() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", "printf x"]);
    let change = begin(&world, &["api", "--change"]);
    let never = begin(&world, &["api", "--idle", "1h", "--change"]);
    go_on();
    let ended = end(change);
    ends_with(&ended, 0, "changed");
    assert_eq!(ended.1["condition"], "change");
    ends_with(&end(never), 0, "changed");
    let ended = wait(&world, &["api", "--idle", "100ms", "--text", "never"]);
    ends_with(&ended, 0, "idle");
    assert_eq!(ended.1["sawNewOutput"], false);
}

#[test]
fn bells_and_questions_end_waits() {
    let world = World::new();
    let question = r"printf 'Proceed? [y/N] '; read -r answer";
    let (_, go_on) = steps(&world, "api", &["true", r"printf '\a'", question]);
    let bell = begin(&world, &["api", "--bell"]);
    let input = begin(&world, &["api", "--input"]);
    go_on();
    ends_with(&end(bell), 0, "bell");
    go_on();
    let ended = end(input);
    ends_with(&ended, 0, "input");
    assert_eq!(ended.1["line"], "Proceed? [y/N]");
    // It holds already; a bell must ring again.
    ends_with(&wait(&world, &["api", "--input", "--bell"]), 0, "input");
}

#[test]
fn time_ends_a_wait() {
    let world = World::new();
    let window = world.run("api", "echo up; exec sleep 1000");
    world.until_shows(&window, "up");
    let output = world.task(["wait", "api", "--text", "down", "--timeout", "100ms"]);
    assert_eq!(output.code, 4, "{output}");
    assert!(
        output
            .err
            .starts_with("tmux-task: wait api: timed out after"),
        "{output}"
    );
    let args = [
        "wait",
        "api",
        "--json",
        "--text",
        "down",
        "--timeout",
        "100ms",
    ];
    let (_, result) = outcome(&world.task(args));
    assert_eq!(result["outcome"], "timeout");
    assert_eq!(result["matchedAtEntry"], false);
    assert_eq!(result["tail"], serde_json::json!(["up"]));
    assert!(result["elapsedMs"].as_u64() >= Some(100), "{result}");
    assert!(result["cursor"].is_string(), "{result}");
}

#[test]
fn the_first_condition_wins_and_a_stop_wins_over_all() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", "echo two", "echo 'one, bad'"]);
    let args = ["api", "--text", "one", "--text", "two", "--exit", "--bell"];
    let waiting = begin(&world, &args);
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 0, "matched");
    assert_eq!(ended.1["matchedIndex"], 1);
    assert_eq!(ended.1["line"], "two");
    let args = ["api", "--text", "one", "--stop", "worse", "--stop", "bad"];
    let waiting = begin(&world, &args);
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 5, "stopped");
    assert_eq!(ended.1["matchedIndex"], 1);
    assert_eq!(ended.1["line"], "one, bad");
}

/// A run that asks for input does not end before it is answered: a wait for its end reports the
/// prompt.
#[test]
fn a_question_ends_a_wait_for_the_end() {
    let world = World::new();
    let line = r"printf 'Proceed? [y/N] '; read -r answer; exit 7";
    let output = world.task(["run", "api", "--wait", "--timeout", LONG, "--", line]);
    assert_eq!(output.code, 123, "{output}");
    let said = "tmux-task: run api: the task asks for input: Proceed? [y/N]\n\
                hint: `tmux-task send api TEXT` answers; then `tmux-task wait api` waits for its end\n";
    assert_eq!(output.err, said, "{output}");

    let ended = wait(&world, &["api"]);
    ends_with(&ended, 6, "input");
    assert_eq!(ended.1["line"], "Proceed? [y/N]");
    assert_eq!(ended.1["promptKind"], "confirm");
    assert_eq!(ended.1["condition"], Value::Null);

    let through = begin(&world, &["api", "--through-prompts"]);
    world.task(["send", "api", "y"]).ok();
    let ended = end(through);
    ends_with(&ended, 1, "exited");
    assert_eq!(ended.1["exitCode"], 7);

    let line = "printf 'Password: '; stty -echo; read -r answer";
    let output = world.task(["run", "api", "--wait", "--timeout", LONG, "--", line]);
    assert_eq!(output.code, 123, "{output}");
    assert!(
        output.err.contains("`tmux-task send api --secret` answers"),
        "{output}"
    );
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
    world.task(["wait", "nobody"]).fails(
        3,
        "tmux-task: wait: no task `nobody` in session `work`\nhint: `tmux-task ls` lists them",
    );
    let mut waiting = begin(&world, &["api"]);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(waiting.wait(), 1);
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    assert_eq!(world.task(["wait", "api"]).code, 3);
}

#[test]
fn a_lost_connection_ends_the_wait() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let text = begin(&world, &["api", "--text", "never"]);
    let exit = begin(&world, &["api"]);
    let before = waits(&world);
    assert_eq!(before, 2);
    world.tmux(["detach-client", "-s", SESSION]);
    ends_with(&end(text), 5, "anchorLost");
    assert_eq!(waits(&world), 1);
    drop(exit);
}

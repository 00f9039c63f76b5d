//! Waits: what ends them, what they never miss, and what never matches.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Output, Running, SESSION, World};

/// Long enough never to be reached by a wait that works.
const LONG: &str = "60s";

/// What a wait said, and its exit code.
#[track_caller]
fn outcome(output: &Output) -> (i32, Value) {
    let result = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output}"));
    (output.code, result)
}

/// Runs a wait to its end.
#[track_caller]
fn wait(world: &World, args: &[&str]) -> (i32, Value) {
    outcome(&world.task([&["wait", "--json", "--timeout", LONG], args].concat()))
}

/// The result of a wait that was begun.
#[track_caller]
fn end(mut waiting: Running) -> (i32, Value) {
    let result = waiting.record();
    (waiting.wait(), result)
}

/// Begins a wait; it is under way when this returns.
#[track_caller]
fn begin(world: &World, args: &[&str]) -> Running {
    let before = waits(world);
    let waiting = world.start([&["wait", "--json", "--timeout", LONG], args].concat());
    world.until_true("it waits", || waits(world) > before);
    waiting
}

fn waits(world: &World) -> u64 {
    world.daemon_status()["waits"].as_u64().unwrap()
}

#[track_caller]
fn ends_with(ended: &(i32, Value), code: i32, name: &str) {
    let (exit, result) = ended;
    assert_eq!(
        (*exit, &result["outcome"]),
        (code, &name.into()),
        "{result}"
    );
}

/// Starts a task that does one step for each opening of its gate, and then sleeps.
#[track_caller]
fn steps(world: &World, name: &str, steps: &[&str]) -> (String, impl Fn() + use<>) {
    let gate = world.gate(name);
    let lines: Vec<String> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| match index {
            0 => (*step).to_owned(),
            _ => format!("{}; {step}", gate.wait()),
        })
        .collect();
    let script = format!("{}; exec sleep 1000", lines.join("; "));
    let window = world.run(name, &script);
    (window, move || gate.open())
}

#[test]
fn a_burst_hides_no_line() {
    let world = World::new();
    world.run("base", "exec sleep 1000");
    world.tmux(["set-option", "-t", SESSION, "history-limit", "2000"]);
    let gate = world.gate("go");
    let script = format!(
        "for n in 100 3000 50000; do for i in 1 2 3; do {}; echo \"marker $n $i\"; seq $n; done; \
         done; exec sleep 1000",
        gate.wait()
    );
    let made = [
        "new-window",
        "-d",
        "-P",
        "-F",
        "#{window_id}",
        "-t",
        SESSION,
        "-n",
        "burst",
    ];
    let window = world.tmux([&made[..], &[script.as_str()]].concat());
    let limit = ["display-message", "-p", "-t", &window, "#{history_limit}"];
    assert_eq!(world.tmux(limit), "2000");
    for n in [100, 3000, 50000] {
        for i in 1..=3 {
            let marker = format!("marker {n} {i}");
            let waiting = begin(&world, &[&window, "--text", &marker]);
            gate.open();
            let ended = end(waiting);
            ends_with(&ended, 0, "matched");
            assert_eq!(ended.1["line"], marker.as_str());
        }
    }
}

/// A pane that floods its terminal is paused and resumed by us and by tmux: a wait that begins
/// meanwhile hears it all the same.
#[test]
fn a_wait_that_begins_in_a_flood_is_not_deaf() {
    let world = World::new();
    let go = world.path("go").display().to_string();
    let script = format!(
        "for i in $(seq 10); do while [ ! -e {go}$i ]; do seq 1000; done; echo \"marker $i\"; done; \
         exec sleep 1000"
    );
    let window = world.run("flood", &script);
    for i in 1..=10 {
        let marker = format!("marker {i}");
        let waiting = begin(&world, &[&window, "--text", &marker]);
        fs::write(format!("{go}{i}"), "").unwrap();
        let ended = end(waiting);
        ends_with(&ended, 0, "matched");
        assert_eq!(ended.1["line"], marker.as_str());
    }
}

/// What was there before the wait never matches, whatever is written after it.
#[test]
fn old_text_never_matches() {
    let cases = [
        ("above", "echo READY; echo x", "echo unrelated", true),
        ("cursor-row", "printf 'READY> '", "echo unrelated", true),
        (
            "below",
            r"printf '\n\nREADY\033[2A\r'",
            r"printf 'a\nb'",
            true,
        ),
        ("scrollback", "echo READY; seq 100", "seq 3", true),
        ("scrolled-away", "echo READY", "seq 100", true),
        (
            "alternate",
            r"printf '\033[?1049h\033[HREADY\033[?1049l'",
            "echo unrelated",
            false,
        ),
        (
            "main-behind",
            r"echo READY; printf '\033[?1049h\033[Hpage'",
            r"printf '\033[?1049l'; echo x",
            false,
        ),
        (
            "shifted",
            r"echo READY; echo x; printf '\033[H'",
            r"printf '\033[L\033[2Mx\n'",
            true,
        ),
        ("wrapped", "printf '%077dREADY' 0", "echo unrelated", true),
        (
            "tabs",
            r"printf 'x\tREADY\n\ty\tREADY '",
            "echo unrelated",
            true,
        ),
    ];
    let world = World::new();
    for (name, before, after, stood) in cases {
        let before = format!("{before}; printf '\\033]0;shown\\007'");
        let after = format!("{after}; echo; echo END OF STORY");
        let (window, go_on) = steps(&world, name, &[&before, &after]);
        // The title comes after the text.
        world.until_true("it is written", || {
            world.tmux(["display-message", "-p", "-t", &window, "#{pane_title}"]) == "shown"
        });
        let waiting = begin(&world, &[name, "--text", "READY", "--stop", "END OF"]);
        go_on();
        let ended = end(waiting);
        let (code, result) = &ended;
        assert_eq!(
            (*code, &result["outcome"]),
            (5, &"stopped".into()),
            "{name}: {result}"
        );
        assert_eq!(result["matchedAtEntry"], stood, "{name}: {result}");
        assert_eq!(result["sawNewOutput"], true, "{name}");
        assert_eq!(result["condition"], "stop", "{name}");
        assert_eq!(result["line"], "END OF STORY", "{name}");
    }
}

/// However it comes, it is found.
#[test]
fn new_text_matches_as_a_person_reads_it() {
    let progress = r"for i in $(seq 1000); do printf '\r%s%%' $i; done; printf '\rdone'";
    // What is there before, what is written, the text, the line.
    let cases = [
        ("plain", "true", "echo READY", "READY", "READY"),
        (
            "cursor-row",
            "printf '$ '",
            "printf READY",
            "READY",
            "$ READY",
        ),
        ("partly-old", "printf 'REA'", "printf DY", "READY", "READY"),
        ("wrap", "true", "printf '%078dREADY' 0", "0READY", ""),
        (
            "wrap-at-entry",
            "printf '%078dRE' 0",
            "printf 'ADY'",
            "0READY",
            "",
        ),
        (
            "tabs",
            r"printf 'a\tb\t'",
            r"printf 'c\tREADY'",
            "READY",
            "a       b       c       READY",
        ),
        (
            "colour",
            "true",
            r"printf 'RE\033[31mAD\033[1;4mY\033[m\n'",
            "READY",
            "READY",
        ),
        (
            "utf8-cut",
            "true",
            r"printf '\342\202'; printf '\254 READY'",
            "€ READY",
            "€ READY",
        ),
        (
            "wide",
            "printf '日本> '",
            "printf READY",
            "READY",
            "日本> READY",
        ),
        ("progress", "true", progress, "done", "done%"),
        (
            "backspace",
            "true",
            r"printf 'RAE\b\bEADY\n'",
            "READY",
            "READY",
        ),
        (
            "erased-at-once",
            "true",
            r"printf 'READY\r\033[Kgone\n'",
            "READY",
            "READY",
        ),
        (
            "repainted",
            "echo READY",
            r"printf '\033[HREADY'",
            "READY",
            "READY",
        ),
        (
            "alternate",
            r"printf '\033[?1049h'",
            r"printf '\033[5;5HREADY'",
            "READY",
            "",
        ),
    ];
    let world = World::new();
    for (name, before, written, text, line) in cases {
        let before = format!("{before}; printf '\\033]0;shown\\007'");
        let (window, go_on) = steps(&world, name, &[&before, written]);
        world.until_true("it is written", || {
            world.tmux(["display-message", "-p", "-t", &window, "#{pane_title}"]) == "shown"
        });
        let waiting = begin(&world, &[name, "--text", text]);
        go_on();
        let ended = end(waiting);
        let (code, result) = &ended;
        assert_eq!(
            (*code, &result["outcome"]),
            (0, &"matched".into()),
            "{name}: {result}"
        );
        if !line.is_empty() {
            assert_eq!(result["line"], line, "{name}");
        }
        assert_eq!(result["matchedIndex"], 0, "{name}");
        assert_eq!(result["alternateOn"], name == "alternate", "{name}");
    }
}

#[test]
fn one_quiet_line_is_found_each_time() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("while {}; do printf ' READY'; done", gate.wait());
    world.run("api", &line);
    for _ in 0..10 {
        let waiting = begin(&world, &["api", "--text", "READY"]);
        gate.open();
        ends_with(&end(waiting), 0, "matched");
    }
}

#[test]
fn a_line_written_in_two_pieces_is_one() {
    let world = World::new();
    let (window, go_on) = steps(&world, "api", &["true", "printf REA", "printf DY"]);
    let whole = begin(&world, &["api", "--text", "READY"]);
    let part = begin(&world, &["api", "--text", "REA"]);
    go_on();
    ends_with(&end(part), 0, "matched");
    world.until_shows(&window, "REA");
    go_on();
    ends_with(&end(whole), 0, "matched");
}

#[test]
fn a_text_written_at_once_is_found_by_the_run_itself() {
    let world = World::new();
    let lines = [
        "echo 'listening on 80'; exec sleep 1000",
        "echo 'listening on 80'",
        "sleep 0.002; echo 'listening on 80'; exec sleep 1000",
    ];
    for n in 0..21 {
        let line = lines[n % lines.len()];
        let args = [
            "run",
            "api",
            "--json",
            "--until",
            "listening on",
            "--timeout",
            LONG,
            "--",
        ];
        let output = world.task([&args[..], &[line]].concat());
        let printed: Vec<Value> = output
            .ok()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(printed.len(), 2, "{output}");
        assert_eq!(printed[0]["run"], n + 1);
        assert_eq!(printed[1]["outcome"], "matched", "{output}");
        assert_eq!(printed[1]["line"], "listening on 80");
    }
}

/// What a full-screen program had covered is read when it leaves: a line that it interrupted is one
/// line.
#[test]
fn the_screen_behind_a_full_screen_program_is_known_when_that_leaves() {
    let world = World::new();
    let (window, go_on) = steps(
        &world,
        "api",
        &[
            r"printf 'READY '; printf '\033[?1049h\033[Hpage'",
            r"printf '\033[?1049l'",
            r"printf 'STEADY\n'",
        ],
    );
    world.until_shows(&window, "page");
    let waiting = begin(&world, &["api", "--text", "READY STEADY"]);
    go_on();
    world.until_shows(&window, "READY");
    // By a look after that at the latest.
    world.look();
    go_on();
    ends_with(&end(waiting), 0, "matched");
}

/// The command begins when the wait has: what it writes over or clears at once was there.
#[test]
fn a_text_that_is_overwritten_at_once_is_found_by_the_run_itself() {
    let world = World::new();
    for line in [
        r"printf 'LASTWORD\rxxxxxxxxxxx\n'",
        r"printf 'LASTWORD\n\033[H\033[2J\033[3J'",
        r"printf '\033[?1049hLASTWORD\033[?1049l'; sleep 1000",
        r"printf 'LASTWORD'; clear; exec sleep 1000",
    ] {
        for _ in 0..2 {
            let args = ["run", "api", "--until", "LASTWORD", "--timeout", LONG, "--"];
            let output = world.task([&args[..], &[line]].concat());
            assert!(output.ok().ends_with("matched: LASTWORD\n"), "{output}");
        }
    }
    // Nothing is left of the gates.
    let left = fs::read_dir(world.path("run")).unwrap();
    let mut names = left.map(|file| file.unwrap().file_name().into_string().unwrap());
    assert!(!names.any(|name| name.starts_with("gate-")));
}

#[test]
fn until_can_be_stopped_and_can_fail() {
    let world = World::new();
    let until = |more: &[&str], line: &str| {
        let args = ["run", "api", "--until", "listening on"];
        world.task([&args[..], more, &["--", line]].concat())
    };
    let stopped = until(&["--stop", "in use"], "echo 'port in use'; exec sleep 1000");
    assert_eq!(stopped.code, 5, "{stopped}");
    assert!(stopped.err.contains("stopped by: port in use"), "{stopped}");
    let died = until(&[], "echo no; exit 3");
    assert_eq!(died.code, 5, "{died}");
    assert!(
        died.err
            .contains("the run ended (code 3) before the condition held"),
        "{died}"
    );
    let late = until(&["--timeout", "100ms"], "exec sleep 1000");
    assert_eq!(late.code, 4, "{late}");
    // Whatever became of the wait, the task is left as it is.
    assert_eq!(world.look()["tasks"][0]["dead"], false);
}

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

/// tmux throws away what it has not told yet of a pane whose process ends.
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

#[test]
fn a_pattern_that_no_line_can_match_is_refused() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for args in [
        &["wait", "api", "--text", "a\nb"][..],
        &["wait", "api", "--stop", "a\tb", "--timeout", "1s"],
        &["wait", "api", "--text", r"done\n", "--regex"],
        &["run", "api", "--until", "a\nb", "--", "true"],
        &["search", "a\nb"],
    ] {
        let output = world.task(args);
        assert_eq!(output.code, 2, "{args:?}: {output}");
        assert!(output.err.contains("can never match"), "{args:?}: {output}");
    }
    // What makes no sense starts nothing.
    assert_eq!(world.look()["tasks"][0]["run"], 1);
}

#[test]
fn lines_that_are_drawn_with_letters_are_read_as_they_are_drawn() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", r"printf '\033(0lqk\033(B ok\n'"]);
    let waiting = begin(&world, &["api", "--text", "┌─┐ ok"]);
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 0, "matched");
    assert_eq!(ended.1["line"], "┌─┐ ok");
}

#[test]
fn patterns_are_literal_or_regular_and_in_any_case_if_asked() {
    let world = World::new();
    let script = ["true", "echo 'abc'", "echo 'A.C 42ms'"];
    let (_, go_on) = steps(&world, "api", &script);
    let literal = begin(&world, &["api", "--text", "a.c", "-i"]);
    let regex = begin(&world, &["api", "--regex", "--text", r"^a.c$"]);
    let any_case = begin(&world, &["api", "--regex", "-i", "--text", r"^a\.c \d+ms$"]);
    let exact = begin(&world, &["api", "--text", "a.c", "--exit"]);
    go_on();
    ends_with(&end(regex), 0, "matched");
    assert_eq!(waits(&world), 3);
    go_on();
    ends_with(&end(any_case), 0, "matched");
    ends_with(&end(literal), 0, "matched");
    assert_eq!(waits(&world), 1);
    drop(exact);
    let output = world.task(["wait", "api", "--regex", "--text", "("]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    let output = world.task(["wait", "api", "--text", ""]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
}

#[test]
fn a_cursor_brings_back_what_was_written_meanwhile() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo listening; {0}; printf '日本 more> '; {0}; printf later; exec sleep 1000",
        gate.wait()
    );
    let output = world.task(["run", "api", "--json", "--", &line]);
    let launched: Value = serde_json::from_str(output.ok()).unwrap();
    let window = launched["windowId"].as_str().unwrap();
    let start = launched["cursor"].as_str().unwrap();
    world.until_shows(window, "listening");
    let ended = wait(&world, &["api", "--since", start, "--text", "listening"]);
    ends_with(&ended, 0, "matched");
    let after = ended.1["cursor"].as_str().unwrap();
    gate.open();
    world.until_shows(window, "more>");
    // Only what stands behind the cursor counts.
    let args = [
        "wait",
        "api",
        "--since",
        after,
        "--text",
        "listening",
        "--timeout",
        "100ms",
    ];
    let output = world.task(args);
    assert_eq!(output.code, 4, "{output}");
    let ended = wait(&world, &["api", "--since", after, "--text", "more"]);
    ends_with(&ended, 0, "matched");
    let on_row = ended.1["cursor"].as_str().unwrap();
    gate.open();
    world.until_shows(window, "later");
    let ended = wait(&world, &["api", "--since", on_row, "--text", "later"]);
    ends_with(&ended, 0, "matched");
    let args = [
        "wait",
        "api",
        "--since",
        on_row,
        "--text",
        "more",
        "--timeout",
        "100ms",
    ];
    let output = world.task(args);
    assert_eq!(output.code, 4, "{output}");
}

#[test]
fn a_cursor_of_elsewhere_is_refused() {
    let world = World::new();
    let cursor = |session: &str, name: &str| {
        let output = world.task([
            "-s",
            session,
            "run",
            name,
            "--json",
            "--",
            "exec sleep 1000",
        ]);
        let launched: Value = serde_json::from_str(output.ok()).unwrap();
        launched["cursor"].as_str().unwrap().to_owned()
    };
    let first = cursor(SESSION, "api");
    let other = cursor(SESSION, "other");
    let stranger = cursor("elsewhere", "api");
    let second = cursor(SESSION, "api");
    let elsewhere = "the cursor is of another task or of another life of the session";
    let earlier = "the cursor is of run 1, the task is at run 2";
    for (cursor, why) in [
        (&first, earlier),
        (&other, elsewhere),
        (&stranger, elsewhere),
    ] {
        let output = world.task(["wait", "api", "--text", "x", "--since", cursor.as_str()]);
        output.fails(1, &format!("tmux-task: wait: {why}"));
        let output = world.task(["logs", "api", "--since", cursor.as_str()]);
        output.fails(1, &format!("tmux-task: logs: {why}"));
    }
    let output = world.task(["wait", "api", "--text", "x", "--since", "7"]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    let args = [
        "wait",
        "api",
        "--text",
        "x",
        "--since",
        &second,
        "--timeout",
        "50ms",
    ];
    assert_eq!(world.task(args).code, 4);
}

#[test]
fn what_is_no_longer_there_is_not_said_to_be_missing() {
    let world = World::new();
    let window = world.run("api", "seq 300; echo up; exec sleep 1000");
    world.until_shows(&window, "up");
    let ended = wait(&world, &["api", "--idle", "50ms"]);
    let cursor = ended.1["cursor"].as_str().unwrap();
    world.tmux(["clear-history", "-t", &window]);
    ends_with(
        &wait(&world, &["api", "--since", cursor, "--text", "x"]),
        5,
        "anchorLost",
    );
    let output = world.task(["logs", "api", "--since", cursor]);
    assert_eq!((output.code, output.out.as_str()), (5, ""), "{output}");
    // A wait that hears does not need the history.
    let (window, go_on) = steps(&world, "b", &["seq 300; echo up", "echo READY; seq 50"]);
    world.until_shows(&window, "up");
    let waiting = begin(&world, &["b", "--text", "READY"]);
    world.tmux(["clear-history", "-t", &window]);
    go_on();
    ends_with(&end(waiting), 0, "matched");
}

#[test]
fn a_window_may_change_its_size_under_a_wait() {
    let world = World::new();
    let before = "seq 50; printf '%070dREADY> ' 0";
    let (window, go_on) = steps(&world, "api", &[before, "echo unrelated; echo READY now"]);
    world.until_shows(&window, "READY>");
    let waiting = begin(&world, &["api", "--text", "READY"]);
    for (width, height) in [("40", "10"), ("120", "40"), ("33", "7")] {
        world.tmux(["resize-window", "-t", &window, "-x", width, "-y", height]);
    }
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 0, "matched");
    assert_eq!(ended.1["line"], "READY now");
}

#[test]
fn many_waits_share_few_panes() {
    let world = World::new();
    let names = ["a", "b", "c"];
    let tasks: Vec<_> = names
        .iter()
        .map(|name| {
            steps(
                &world,
                name,
                &["true", &format!("echo READY {name}; seq 3000")],
            )
        })
        .collect();
    let mut all = Vec::new();
    for name in names {
        for _ in 0..8 {
            let text = format!("READY {name}");
            all.push(world.start(["wait", name, "--json", "--text", &text, "--timeout", LONG]));
        }
    }
    world.until_true("all wait", || waits(&world) == 24);
    for (_, go_on) in &tasks {
        go_on();
    }
    for waiting in all {
        ends_with(&end(waiting), 0, "matched");
    }
    assert_eq!(waits(&world), 0);
}

#[test]
fn a_client_that_leaves_leaves_nothing_behind() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("noise", "exec yes");
    for name in ["api", "noise"] {
        let killed = begin(&world, &[name, "--text", "never"]);
        killed.signal(Signal::KILL);
        drop(killed);
        world.until_true("it is forgotten", || waits(&world) == 0);
    }
    let mut interrupted = begin(&world, &["api", "--text", "never"]);
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.wait(), 130);
    world.until_true("it is forgotten", || waits(&world) == 0);
}

#[test]
fn a_firehose_delays_no_other_wait() {
    let world = World::new();
    world.run("noise", "while :; do echo noise; done");
    let (_, go_on) = steps(&world, "api", &["true", "echo READY"]);
    let noise = begin(&world, &["noise", "--text", "never"]);
    let waiting = begin(&world, &["api", "--text", "READY"]);
    go_on();
    ends_with(&end(waiting), 0, "matched");
    drop(noise);
    let args = ["wait", "noise", "--json", "--text", "never"];
    let ended = outcome(&world.task([&args[..], &["--timeout", "3s"]].concat()));
    ends_with(&ended, 4, "timeout");
    assert_eq!(ended.1["sawNewOutput"], true);
    assert_eq!(world.task(["kill", "noise"]).code, 0);
}

/// tmux up to 3.7c ends when a pane is respawned of whose output it has still something to tell.
#[test]
fn a_followed_flood_can_be_run_again() {
    let world = World::new();
    let window = world.run("noise", "exec yes");
    for _ in 0..3 {
        let waiting = begin(&world, &["noise", "--text", "never"]);
        assert_eq!(world.run("noise", "exec yes"), window);
        ends_with(&end(waiting), 5, "respawned");
    }
    // It is heard as before.
    let (code, result) = wait(&world, &["noise", "--text", "y"]);
    assert_eq!((code, &result["outcome"]), (0, &"matched".into()));
    assert_eq!(world.task(["kill", "noise"]).code, 0);
}

#[test]
fn a_wait_by_the_run_itself_ends_with_its_code() {
    let world = World::new();
    for (line, code, said) in [
        ("exit 0", 0, ""),
        ("echo fine", 0, ""),
        (
            "exit 7",
            7,
            "tmux-task: run api: the task exited with code 7\n",
        ),
        (
            "echo only; exit 1",
            1,
            "only\ntmux-task: run api: the task exited with code 1\n",
        ),
        (
            "kill -TERM $$",
            143,
            "tmux-task: run api: the task was killed by SIGTERM\n",
        ),
        (
            "kill -KILL $$",
            137,
            "tmux-task: run api: the task was killed by SIGKILL\n",
        ),
    ] {
        let output = world.task(["run", "api", "--wait", "--", line]);
        assert_eq!((output.code, output.err.as_str()), (code, said), "{output}");
        assert!(
            output.out.starts_with("session=work\nwindow_id=@"),
            "{output}"
        );
        assert_eq!(output.out.lines().count(), 4, "{output}");
    }
    let run = |more: &[&str], line: &str| {
        world.task([&["run", "api", "--wait"], more, &["--", line]].concat())
    };
    let many = "for i in $(seq 30); do echo line $i; done; exit 3";
    let output = run(&["--tail", "2"], many);
    let said = "line 29\nline 30\ntmux-task: run api: the task exited with code 3\n";
    assert_eq!((output.code, output.err.as_str()), (3, said), "{output}");
    let output = run(&["--tail", "28", "--json"], many);
    assert_eq!((output.code, output.err.as_str()), (3, ""), "{output}");
    let result: Value = serde_json::from_str(output.out.lines().nth(1).unwrap()).unwrap();
    let tail = result["tail"].as_array().unwrap();
    assert_eq!((tail.len(), &tail[0]), (28, &Value::from("line 3")));

    // Its own troubles have codes that tasks rarely have.
    let output = run(&["--timeout", "100ms"], "exec sleep 1000");
    assert_eq!(output.code, 124, "{output}");
    let output = run(&["--cwd", "/nonexistent"], "true");
    assert_eq!(output.code, 125, "{output}");
    let output = world.task(["run", "api", "--timeout", "1s", "--", "true"]);
    assert_eq!(output.code, 2, "{output}");
}

/// A run does not end before somebody answers: whoever waits for the end learns of the question.
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
fn interrupted_a_run_that_is_waited_for_goes_on() {
    let world = World::new();
    for more in [&["--wait"][..], &["--until", "never"]] {
        let mut waiting = world.start([&["run", "api"], more, &["--", "exec sleep 1000"]].concat());
        for _ in 0..4 {
            waiting.line();
        }
        world.until_true("it waits", || waits(&world) == 1);
        waiting.signal(Signal::INT);
        assert_eq!(waiting.wait(), 130);
        assert_eq!(world.look()["tasks"][0]["dead"], false);
        world.until_true("it is forgotten", || waits(&world) == 0);
    }
}

#[test]
fn channels_are_tmuxs_own() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    // A signal that nobody waited for is kept for the next one.
    world.task(["signal", "ready"]).ok();
    let ended = outcome(&world.task(["wait", "--channel", "ready", "--json", "--timeout", LONG]));
    ends_with(&ended, 0, "signalled");
    assert_eq!(ended.1["condition"], "channel");
    world.tmux(["wait-for", "-S", "ready"]);
    let args = ["wait", "--channel", "ready", "--timeout", LONG];
    assert_eq!(world.task(args).ok(), "signalled\n");
    let args = ["wait", "--channel", "ready", "--json", "--timeout", "100ms"];
    ends_with(&outcome(&world.task(args)), 4, "timeout");
    assert_eq!(world.task(["wait", "--channel", "ready", "api"]).code, 2);
    assert_eq!(world.task(["wait", "--channel", ""]).code, 2);
    assert_eq!(world.task(["signal", ""]).code, 2);
    // It is nothing of a session's: it matters not whether there is one.
    world.task(["-s", "nobody", "signal", "--", "-x;"]).ok();
    world.task(["-s", "nobody", "wait", "--channel=-x;"]).ok();
}

#[test]
fn a_wait_on_a_channel_takes_its_client_along_and_knows_a_signal_from_an_end() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    // The clients that wait on this channel, by their command lines.
    let clients = |channel: &str| {
        let mine = |entry: &fs::DirEntry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&socket) && line.contains("wait-for") && line.contains(channel)
        };
        let processes = fs::read_dir("/proc").unwrap();
        processes.map(Result::unwrap).filter(mine).count()
    };
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::ALARM, 142),
        (Signal::USR1, 138),
        (Signal::USR2, 140),
    ] {
        let mut waiting = world.start(["wait", "--channel", "never"]);
        world.until_true("it waits", || clients("never") == 1);
        waiting.signal(signal);
        assert_eq!(waiting.wait(), code);
        world.until_true("its client has gone", || clients("never") == 0);
    }
    let waiting = world.start(["wait", "--channel", "other", "--json"]);
    world.until_true("it waits", || clients("other") == 1);
    world.task(["daemon", "stop"]).ok();
    world.tmux(["kill-server"]);
    ends_with(&end(waiting), 5, "disappeared");
    // Killed, it cannot let anybody go.
    world.run("api", "exec sleep 1000");
    let waiting = world.start(["wait", "--channel", "third", "--json"]);
    world.until_true("it waits", || clients("third") == 1);
    kill_process(world.server(), Signal::KILL).unwrap();
    ends_with(&end(waiting), 5, "disappeared");
}

#[test]
fn a_string_without_an_end_hides_nothing_for_ever() {
    let world = World::new();
    let (_, go_on) = steps(
        &world,
        "api",
        &["true", r"printf '\033]0;no end'", "echo READY"],
    );
    let waiting = begin(&world, &["api", "--text", "READY"]);
    let change = begin(&world, &["api", "--change"]);
    go_on();
    ends_with(&end(change), 0, "changed");
    // tmux gives up after five seconds, too.
    ends_with(&wait(&world, &["api", "--idle", "5500ms"]), 0, "idle");
    go_on();
    ends_with(&end(waiting), 0, "matched");
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

#[test]
fn what_is_typed_is_written_too() {
    let world = World::new();
    let window = world.run("api", "exec cat");
    let waiting = begin(&world, &["api", "--text", "hello there"]);
    world.tmux(["send-keys", "-t", &window, "hello there", "Enter"]);
    ends_with(&end(waiting), 0, "matched");
}

#[test]
fn what_a_wait_looks_for_is_bounded() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let many = |n: usize| -> Vec<String> {
        let texts = (0..n).flat_map(|i| ["--text".to_owned(), format!("text {i}")]);
        ["wait", "api", "--timeout", "10ms"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(texts)
            .collect()
    };
    let refused = world.task(many(65));
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.err.contains("at most 64 texts, found 65"),
        "{refused}"
    );
    assert_eq!(world.task(many(64)).code, 4);
    let long = "x".repeat(8193);
    let refused = world.task(["wait", "api", "--stop", &long]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.err.contains("at most 8192 bytes, found 8193"),
        "{refused}"
    );
}

#[test]
fn who_leaves_takes_the_wait_along_whatever_it_said_last() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    let mut files = fs::read_dir(world.path("run")).unwrap();
    let socket = files
        .find_map(|file| {
            let path = file.unwrap().path();
            (path.extension()? == "sock").then_some(path)
        })
        .unwrap();
    let mut asker = UnixStream::connect(socket).unwrap();
    let request = format!("{{\"op\":\"wait\",\"window\":\"{window}\"}}\nx");
    asker.write_all(request.as_bytes()).unwrap();
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    drop(asker);
    world.until_true("it has left", || world.daemon_status()["waits"] == 0);
}

//! Waits that begin with a run: `run --wait` and `run --until`.

use super::*;

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

/// The command begins when the wait has: what it writes over or clears at once was there.
#[test]
fn a_text_that_is_overwritten_at_once_is_found_by_the_run_itself() {
    let world = World::new();
    for line in [
        r"printf 'LASTWORD\rxxxxxxxxxxx\n'",
        r"printf 'LASTWORD\n\033[H\033[2J\033[3J'",
        r"printf '\033[?1049hLASTWORD\033[?1049l'; sleep 1000",
        r"printf 'LASTWORD'; clear; exec sleep 1000",
        // More than the history holds, so that tmux may discard a part at the end.
        "seq 1 200000; echo LASTWORD",
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
    let died = until(&["--tail", "1"], "echo yes; echo no; exit 3");
    assert_eq!(died.code, 5, "{died}");
    assert!(died.err.contains("\nno\n"), "{died}");
    assert!(
        died.err
            .contains("the run ended (code 3) before the condition held"),
        "{died}"
    );
    let late = until(&["--timeout", "100ms"], "exec sleep 1000");
    assert_eq!(late.code, 4, "{late}");
    // Whatever the outcome of the wait, the task continues.
    assert_eq!(world.look()["tasks"][0]["dead"], false);
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
            "tmux-task: run api: the task was killed by SIGKILL (not by tmux-task; out of memory?)\n",
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

#[test]
fn a_run_that_is_waited_for_goes_on_without_its_daemon_and_that_is_said() {
    let world = World::new();
    for (more, code) in [(&["--wait"][..], 125), (&["--until", "never"], 1)] {
        let mut waiting = world.start([&["run", "api"], more, &["--", "exec sleep 1000"]].concat());
        for _ in 0..4 {
            waiting.line();
        }
        world.until_true("it waits", || waits(&world) == 1);
        world.kill_daemon();
        if code == 1 {
            let replaced = "tmux-task: run: replaced the live run of task `api`";
            assert_eq!(waiting.complaint(), replaced);
        }
        let said = [waiting.complaint(), waiting.complaint()];
        assert_eq!(
            said,
            [
                "tmux-task: run: the daemon ended before it answered",
                "hint: the task was started and goes on; `tmux-task wait api` waits for its end",
            ]
        );
        assert_eq!(waiting.wait(), code);
        assert_eq!(world.look()["tasks"][0]["dead"], false);
    }
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

/// What stands behind the text is what it is waited for, such as the port.
#[test]
fn a_line_that_is_written_in_pieces_is_reported_whole() {
    let world = World::new();
    for option in ["--until", "--stop"] {
        for _ in 0..10 {
            let other = if option == "--until" {
                "--stop"
            } else {
                "--until"
            };
            let args = ["run", "api", "--json", option, "listening", other, "failed"];
            let line = "for word in listening ' ' on ' ' 80 ' ' x; do printf \"$word\"; done; echo; \
                        exec sleep 1000";
            let output = world.task([&args[..], &["--timeout", LONG, "--", line]].concat());
            let result = output.out.lines().nth(1).unwrap();
            let result: Value = serde_json::from_str(result).unwrap();
            assert_eq!(result["line"], "listening on 80 x", "{output}");
        }
    }
    // A line that does not end.
    let args = ["run", "ask", "--until", "Proceed", "--timeout", LONG];
    let output = world.task([&args[..], &["--", "printf 'Proceed? '; exec sleep 1000"]].concat());
    assert!(output.ok().ends_with("matched: Proceed?\n"), "{output}");
}

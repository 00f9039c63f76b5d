//! Waits that begin with a run: `run --wait` and `run --until`.

use super::*;

/// Runs `api` until it has printed this.
#[track_caller]
fn until(world: &World, options: &str, line: &str) -> Output {
    let mut args = argv(&format!("run api --timeout {LONG} {options} --"));
    args.push(line.to_owned());
    world.task(args)
}

/// The result of a wait, behind the line about the launch.
fn second(output: &Output) -> Value {
    serde_json::from_str(output.out.lines().nth(1).unwrap()).unwrap()
}

#[test]
fn a_text_that_is_written_and_maybe_overwritten_at_once_is_found_by_the_run_itself() {
    let world = World::new();
    let lines = [
        "echo 'listening on 80'; exec sleep 1000",
        "echo 'listening on 80'",
        "sleep 0.002; echo 'listening on 80'; exec sleep 1000",
    ];
    for n in 0..21 {
        let line = lines[n % lines.len()];
        let output = until(&world, "--json --until 'listening on'", line);
        let printed = parse_lines(output.ok());
        assert_eq!((printed.len(), &printed[0]["run"]), (2, &(n + 1).into()));
        let found = json!(["matched", "listening on 80"]);
        has_fields(&printed[1], "outcome line", found);
    }
    // The command begins when the wait has: what it writes over or clears at once was there.
    for line in [
        r"printf 'LASTWORD\rxxxxxxxxxxx\n'",
        r"printf 'LASTWORD\n\033[H\033[2J\033[3J'",
        r"printf '\033[?1049hLASTWORD\033[?1049l'; sleep 1000",
        r"printf 'LASTWORD'; clear; exec sleep 1000",
        // More than the history holds, so that tmux may discard a part at the end.
        "seq 1 200000; echo LASTWORD",
    ] {
        for _ in 0..2 {
            let output = until(&world, "--until LASTWORD", line);
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
    let until =
        |more: &str, line: &str| until(&world, &format!("--until 'listening on' {more}"), line);
    let stopped = until("--stop 'in use'", "echo 'port in use'; exec sleep 1000");
    stopped.fails_saying(5, "stopped by: port in use");
    let died = until("--tail 1", "echo yes; echo no; exit 3");
    died.fails_saying(5, "\nno\n");
    died.fails_saying(5, "the run ended (code 3) before the condition held");
    let line = "run api --until x --timeout 100ms -- 'exec sleep 1000'";
    world.call(line).fails_with(4);
    // Whatever the outcome of the wait, the task continues.
    assert_eq!(world.listed("api")["dead"], false);
}

#[test]
fn a_wait_by_the_run_itself_ends_with_its_code() {
    let world = World::new();
    let run = |more: &[&str], line: &str| {
        world.task([&["run", "api", "--wait"], more, &["--", line]].concat())
    };
    let by_kernel = "was killed by SIGKILL (not by tmux-task; out of memory?)";
    for (line, code, above, end) in [
        ("exit 0", 0, "", ""),
        ("echo fine", 0, "", ""),
        ("exit 7", 7, "", "exited with code 7"),
        // It ends in the middle.
        ("false; echo on; exit 0", 1, "", "exited with code 1"),
        ("false | true", 1, "", "exited with code 1"),
        ("echo only; exit 1", 1, "only\n", "exited with code 1"),
        ("kill -TERM $$", 143, "", "was killed by SIGTERM"),
        ("kill -KILL $$", 137, "", by_kernel),
    ] {
        let output = run(&[], line);
        let said = match end {
            "" => String::new(),
            end => format!("{above}tmux-task: run api: the task {end}\n"),
        };
        assert_eq!((output.code, &output.err), (code, &said), "{output}");
        let lines: Vec<&str> = output.out.lines().collect();
        let is_launch = lines[0] == "session=work" && lines[1].starts_with("window_id=@");
        assert!(is_launch && lines.len() == 4, "{output}");
    }
    let many = "for i in $(seq 30); do echo line $i; done; exit 3";
    let output = run(&["--tail", "2"], many);
    let said = "line 29\nline 30\ntmux-task: run api: the task exited with code 3\n";
    assert_eq!((output.code, output.err.as_str()), (3, said), "{output}");
    let output = run(&["--tail", "28", "--json"], many);
    assert_eq!((output.code, output.err.as_str()), (3, ""), "{output}");
    let tail = second(&output)["tail"].clone();
    let tail = tail.as_array().unwrap();
    assert_eq!((tail.len(), &tail[0]), (28, &"line 3".into()));

    // Its own troubles have codes that tasks rarely have.
    run(&["--timeout", "100ms"], "exec sleep 1000").fails_with(124);
    run(&["--cwd", "/nonexistent"], "true").fails_with(125);
    world.call("run api --timeout 1s -- true").fails_with(2);
}

#[test]
fn without_its_daemon_or_interrupted_a_run_that_is_waited_for_goes_on() {
    let world = World::new();
    for (more, code) in [(&["--wait"][..], 125), (&["--until", "never"], 1)] {
        let begin = |name: &str| {
            let run = [&["run", name], more, &["--", "exec sleep 1000"]].concat();
            let waiting = world.start(run);
            for _ in 0..4 {
                waiting.line();
            }
            world.until_waits(1);
            waiting
        };
        let names = ["lost", "interrupted"].map(|name| format!("{name}-{code}"));
        let mut waiting = begin(&names[0]);
        world.kill_daemon();
        let said = [waiting.complaint(), waiting.complaint()];
        let hint = format!(
            "hint: the task was started and goes on; `tmux-task wait {}` waits for its end",
            names[0]
        );
        assert_eq!(
            said,
            ["tmux-task: run: the daemon ended before it answered", &hint]
        );
        assert_eq!(waiting.wait(), code);
        let mut waiting = begin(&names[1]);
        waiting.signal(Signal::INT);
        assert_eq!(waiting.wait(), 130);
        world.until_waits(0);
        for name in names {
            assert_eq!(world.listed(&name)["dead"], false);
        }
    }
}

/// What stands behind the text is what it is waited for, such as the port.
#[test]
fn a_line_that_is_written_in_pieces_is_reported_whole() {
    let world = World::new();
    let line = "for word in listening ' ' on ' ' 80 ' ' x; do printf \"$word\"; done; echo; \
                exec sleep 1000";
    for options in [
        "--until listening --stop failed",
        "--stop listening --until failed",
    ] {
        for _ in 0..10 {
            let output = until(&world, &format!("--json {options}"), line);
            assert_eq!(second(&output)["line"], "listening on 80 x", "{output}");
        }
    }
    // A line that does not end.
    let output = until(
        &world,
        "--until Proceed",
        "printf 'Proceed? '; exec sleep 1000",
    );
    assert!(output.ok().ends_with("matched: Proceed?\n"), "{output}");
}

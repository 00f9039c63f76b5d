//! `run --follow` and `restart --follow`: the output of a run, here, until it ends.

use rustix::process::Signal;

use crate::support::{World, parse_lines};

#[test]
fn it_shows_all_output_from_the_first_line_on_and_ends_with_the_tasks_code() {
    let world = World::new();
    let line = "echo first; seq 3000; printf last; exit 7";
    for args in [
        &["run", "job", "--follow", "--", line][..],
        &["run", "job", "--follow"],
        &["restart", "job", "--follow"],
    ] {
        let output = world.task(args);
        output.fails_with(7);
        let mut lines = vec!["first".to_owned()];
        lines.extend((1..=3000).map(|n| n.to_string()));
        lines.push("last".to_owned());
        let shown: Vec<&str> = output.out.lines().collect();
        assert_eq!(shown, lines);
        let said: Vec<&str> = output.err.lines().collect();
        let [started, ended] = said[..] else {
            panic!("{output}");
        };
        assert!(started.starts_with("started @"), "{started}");
        assert!(started.ends_with(" (job) in work"), "{started}");
        let what = args[0];
        let end = format!("tmux-task: {what} job: the task exited with code 7");
        assert_eq!(ended, end);
    }
    world.task(["run", "job", "--follow", "--", "true"]).ok();
    let records = world.task(["feed", "--type", "exited"]);
    assert_eq!(parse_lines(records.ok()).len(), 4);
}

#[test]
fn an_interrupt_leaves_it_running_and_says_so() {
    let world = World::new();
    let line = "echo up; exec sleep 1000";
    let mut following = world.start(["run", "build", "--follow", "--", line]);
    let started = following.complaint();
    assert_eq!(following.line(), "up");
    following.signal(Signal::INT);
    let window = started.split(' ').nth(1).unwrap();
    assert_eq!(
        [following.complaint(), following.complaint()],
        [
            format!("tmux-task: run: {window} (build) goes on"),
            "hint: `tmux-task logs -f build` shows its output".to_owned(),
        ]
    );
    assert_eq!(following.wait(), 130);
    assert_eq!(world.look()["tasks"][0]["dead"], false);
}

#[test]
fn what_ends_it_otherwise_is_said_as_with_wait() {
    let world = World::new();
    let asks = "echo up; read -r -p 'Proceed? [y/N] ' answer; exec sleep 1000";
    let output = world.task(["run", "asks", "--follow", "--", asks]);
    output.fails_with(123);
    assert_eq!(output.out, "up\n");
    assert!(output.err.contains("Proceed? [y/N]"), "{output}");
    // By somebody else.
    let mut following = world.start(["run", "ends", "--follow", "--", "echo up; exec sleep 1000"]);
    assert_eq!(following.line(), "up");
    world.task(["kill", "ends"]).ok();
    assert_eq!(following.wait(), 125);
    let limited = [
        "--kill-after",
        "300ms",
        "--",
        "trap 'echo bye; exit' TERM; sleep 1000 & wait",
    ];
    let output = world.task([&["run", "limited", "--follow"][..], &limited].concat());
    output.fails_with(124);
    assert_eq!(output.out, "bye\n");
    let refused = world.task(["run", "both", "--follow", "--json", "--", "true"]);
    refused.fails_with(2);
    let several = world.task(["restart", "asks", "ends", "--follow"]);
    several.fails_with(2);
}

#[test]
fn a_closed_stdout_ends_it_and_not_the_task() {
    let world = World::new();
    let program = World::program().display();
    let mut shell = world.command("bash");
    let line = "echo up; while :; do echo more; sleep 0.01; done";
    shell.args([
        "-c",
        &format!("{program} run x --follow -- '{line}' | head -n 1"),
    ]);
    let output = crate::support::Output::of(shell);
    assert_eq!(output.ok(), "up\n");
    assert_eq!(world.look()["tasks"][0]["dead"], false);
}

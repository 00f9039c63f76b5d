//! `run --follow` and `restart --follow`: the output of a run, here, until it ends.

use rustix::process::Signal;

use crate::support::{World, begins, parse_lines};

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
        begins(started, "started @");
        assert!(started.ends_with(" (job) in work"), "{started}");
        let end = format!("tmux-task: {} job: the task exited with code 7", args[0]);
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
    output.says("Proceed? [y/N]");
    // By somebody else.
    let mut following = world.start(["run", "ends", "--follow", "--", "echo up; exec sleep 1000"]);
    assert_eq!(following.line(), "up");
    world.task(["kill", "ends"]).ok();
    assert_eq!(following.wait(), 125);
    let limited = ["run", "limited", "--follow", "--kill-after", "300ms", "--"];
    let line = "trap 'echo bye; exit' TERM; sleep 1000 & wait";
    let output = world.task([&limited[..], &[line]].concat());
    output.fails_with(124);
    assert_eq!(output.out, "bye\n");
    for refused in [
        &["run", "both", "--follow", "--json", "--", "true"][..],
        &["restart", "asks", "ends", "--follow"],
    ] {
        world.task(refused).fails_with(2);
    }
}

#[test]
fn a_closed_stdout_ends_it_and_not_the_task() {
    let world = World::new();
    let program = World::program().display();
    // Also where nothing more is written.
    let line = "echo up; exec sleep 1000";
    let followed = format!("{program} run x --follow -- '{line}' | head -n 1");
    assert_eq!(world.shell(&followed).ok(), "up\n");
    assert_eq!(world.look()["tasks"][0]["dead"], false);
}

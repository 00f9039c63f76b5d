//! The helper that agents call, with the program on `PATH` and with tmux alone.

use crate::runs::codes;
use crate::support::{Output, World, event, events, repeated, story, window_of};

/// Runs the helper to its end.
#[track_caller]
fn help(world: &World, args: &[&str]) -> Output {
    let mut command = world.command(World::helper());
    command.args(args);
    Output::of(command)
}

/// A world in which the helper finds the program.
fn with_program() -> World {
    let mut world = World::new();
    world.prepend_path(World::program().parent().unwrap());
    world
}

#[track_caller]
fn check_four_lines(world: &World) {
    let output = help(world, &["api-server.v2", "--", "exit 0"]);
    let window = window_of(output.ok());
    let cwd = world.project();
    assert_eq!(
        output.out,
        format!(
            "session=work\nwindow_id={window}\ntask=api-server.v2\ncwd={}\n",
            cwd.display()
        )
    );
    assert_eq!(output.err, "");
}

#[test]
fn a_directory_with_a_line_break_in_its_name_makes_no_fifth_line() {
    let world = with_program();
    let folder = world.project().join("a\nwindow_id=@99");
    std::fs::create_dir(&folder).unwrap();
    let mut command = world.command(World::helper());
    command.args(["api", "--", "exit 0"]).current_dir(&folder);
    let output = Output::of(command);
    let lines: Vec<&str> = output.ok().lines().collect();
    assert_eq!(lines.len(), 4, "{output}");
    assert!(lines[3].ends_with("/a window_id=@99"), "{output}");
    // The script alone cannot pass such a name to tmux.
    let mut command = World::new().command(World::helper());
    command.args(["api", "--", "exit 0"]).current_dir(&folder);
    Output::of(command).fails(
        1,
        "tmux-task-run: could not use the current directory: its name has a line break",
    );
}

#[test]
fn a_closed_stdout_is_no_failure() {
    for world in [with_program(), World::new()] {
        let mut command = world.command("sh");
        let line = "\"$0\" api -- 'exec sleep 1000' >&-";
        command.args(["-c", line]).arg(World::helper());
        let output = Output::of(command);
        assert_eq!((output.ok(), output.err.as_str()), ("", ""));
        assert_eq!(world.look()["tasks"][0]["windowName"], "api");
    }
}

#[test]
fn it_prints_the_same_four_lines_either_way() {
    check_four_lines(&with_program());
    check_four_lines(&World::new());
}

#[test]
fn it_never_guesses_a_session() {
    for mut world in [with_program(), World::new()] {
        world.set("TMUX_TASK_SESSION", "");
        let output = help(&world, &["api", "--", "exit 0"]);
        assert_eq!(output.code, 1, "{output}");
        assert_eq!(output.out, "");
        assert!(output.err.contains("TMUX_TASK_SESSION"), "{output}");
        world.set("PI_TMUX_SESSION", "pi");
        assert!(
            help(&world, &["api", "--", "exit 0"])
                .ok()
                .starts_with("session=pi\n")
        );
    }
}

#[test]
fn blanks_at_the_ends_of_a_session_name_belong_to_it() {
    for mut world in [with_program(), World::new()] {
        world.set("TMUX_TASK_SESSION", " two words ");
        let first = help(&world, &["api", "--", "exec sleep 1000"]);
        let window = window_of(first.ok());
        let again = help(&world, &["api", "--", "exec sleep 1001"]);
        assert_eq!(window_of(again.ok()), window);
        let other = help(&world, &["web", "--", "exec sleep 1000"]);
        assert_ne!(window_of(other.ok()), window);
    }
}

#[test]
fn it_refuses_names_before_it_touches_tmux() {
    for world in [with_program(), World::new()] {
        let long = "x".repeat(41);
        for name in ["", ".a", "-a", "a b", "a:b", "é", "a\n", &long] {
            let output = help(&world, &[name, "--", "exit 0"]);
            assert_eq!(
                (output.code, output.out.as_str()),
                (2, ""),
                "{name:?}: {output}"
            );
        }
        assert!(!world.path("tmux").read_dir().unwrap().any(|_| true));
    }
}

#[track_caller]
fn check_many_tasks(world: &World) {
    let many = repeated(6);
    for n in 0..many {
        help(world, &[&format!("t{n}"), "--", &format!("exit {n}")]).ok();
    }
    world.until("all ends", |records| {
        (0..many).all(|n| !codes(records, &format!("t{n}")).is_empty())
    });
    let records = world.finish();
    for n in 0..many {
        assert_eq!(codes(&records, &format!("t{n}")), [(1, n)]);
    }
}

#[test]
fn many_tasks_with_the_program_each_end_once() {
    check_many_tasks(&with_program());
}

#[test]
fn many_tasks_with_tmux_alone_each_end_once() {
    let world = World::new();
    world.daemon();
    check_many_tasks(&world);
}

#[track_caller]
fn check_many_reruns(world: &World) {
    let window = window_of(help(world, &["slot", "--", "exit 0"]).ok());
    // Runs are not counted in a session that the daemon has not found yet.
    world.until("the first end", |records| {
        !codes(records, "slot").is_empty()
    });
    let many = repeated(6);
    for n in 1..many {
        world.until_ended(&window);
        let again = window_of(help(world, &["slot", "--", &format!("exit {n}")]).ok());
        assert_eq!(again, window);
    }
    world.until("the last end", |records| {
        codes(records, "slot").last() == Some(&(many, many - 1))
    });
    let records = world.finish();
    let expected: Vec<(i64, i64)> = (0..many).map(|n| (n + 1, n)).collect();
    assert_eq!(codes(&records, "slot"), expected);
}

#[test]
fn many_reruns_with_the_program_each_end_once() {
    check_many_reruns(&with_program());
}

#[test]
fn many_reruns_with_tmux_alone_each_end_once() {
    let world = World::new();
    world.daemon();
    check_many_reruns(&world);
}

#[test]
fn a_live_run_that_it_replaces_with_tmux_alone_is_a_notice() {
    let world = World::new();
    world.daemon();
    let gate = world.gate("gate");
    help(&world, &["api", "--", "sleep 1000"]).ok();
    world.until_deliveries(1);
    help(&world, &["api", "--", &gate.wait()]).ok();
    world.until("the rerun", |records| {
        events(records).iter().any(|event| event["rerun"] == true)
    });
    let records = world.finish();
    let told: Vec<String> = story(&records).split_off(2);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[..2], ["exited api replaced", "started api again"]);
    assert!(told[2].starts_with("notice of [3,4] "), "{told:?}");
}

#[test]
fn what_it_starts_with_tmux_alone_is_known_by_its_command() {
    let world = World::new();
    world.daemon();
    help(&world, &["api", "--", "echo   'a  b' ;\n exit 3"]).ok();
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    let records = world.finish();
    let task = &event(&records, "exited", "api")["task"];
    assert_eq!(task["currentCommand"], "echo 'a b' ; exit 3");
    assert_eq!(task["taskCwd"], world.project().to_str().unwrap());
    assert_eq!(task["outputPreview"], "a  b");
    assert!(
        events(&records)
            .iter()
            .all(|event| event["task"]["windowName"] == "api")
    );
}

//! The helper that agents call.

use crate::support::{Output, World, begins, window_of};

/// Runs the helper to its end.
#[track_caller]
fn help(world: &World, args: &[&str]) -> Output {
    let mut command = world.command(World::helper());
    command.args(args);
    Output::of(command)
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
fn on_a_terminal_run_prints_one_line_and_the_helper_its_four() {
    let world = World::new();
    let (program, helper) = (World::program().display(), World::helper());
    let shown = |name: &str, line: &str| {
        world.task(["run", name, "--wait", "--", line]).ok();
        let output = world.task(["logs", name]);
        output.ok().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let lines = shown("person", &format!("{program} -s work run a -- true"));
    let window = world.look()["tasks"][1]["windowId"].clone();
    let window = window.as_str().unwrap();
    let line =
        format!("started {window} (a) in work; `tmux-task -s work logs -f a` shows its output");
    assert_eq!(lines, [line]);
    let lines = shown("program", &format!("{} a -- true", helper.display()));
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[1], format!("window_id={window}"));
    let failed = format!("{} 'a b' -- true || echo code $?", helper.display());
    assert_eq!(shown("failed", &failed).last().unwrap(), "code 2");
}

#[test]
fn a_live_run_that_is_replaced_is_named_to_programs() {
    let world = World::new();
    let said = "tmux-task: run: replaced the live run of task `api`\n";
    world.run("api", "sleep 1000");
    let replaced = help(&world, &["api", "--", "sleep 1000"]);
    assert_eq!(replaced.ok().lines().count(), 4, "{replaced}");
    assert_eq!(replaced.err, said);
    let replaced = world.task(["run", "api", "--json", "--", "true"]);
    replaced.shows("\"replaced\":\"live\"").ok();
    assert_eq!(replaced.err, said);
    world.until_ended("=work:api");
    // An ended run is no loss.
    assert_eq!(world.task(["run", "api", "--", "true"]).err, "");
}

#[test]
fn it_prints_four_lines_and_ends_as_run_does() {
    let world = World::new();
    check_four_lines(&world);
    // A line break in the directory's name makes no fifth line.
    let folder = world.project().join("a\nwindow_id=@99");
    std::fs::create_dir(&folder).unwrap();
    let mut command = world.command(World::helper());
    command.args(["api", "--", "exit 0"]).current_dir(&folder);
    let output = Output::of(command);
    let lines: Vec<&str> = output.ok().lines().collect();
    assert_eq!(lines.len(), 4, "{output}");
    assert!(lines[3].ends_with("/a window_id=@99"), "{output}");
    // A closed stdout is no failure.
    let helper = World::helper();
    let output = world.shell(&format!(
        "{} silent -- 'exec sleep 1000' >&-",
        helper.display()
    ));
    assert_eq!((output.ok(), output.err.as_str()), ("", ""));
    world.task(["ls"]).shows(" silent ");
    let refused = help(&world, &["a b", "--", "exit 0"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused}");
}

#[test]
fn it_never_guesses_a_session() {
    let mut world = World::new();
    world.set("TMUX_TASK_SESSION", "");
    let output = help(&world, &["api", "--", "exit 0"]);
    output.fails_so(1, "").says("TMUX_TASK_SESSION");
    assert_eq!(output.out, "");
    world.set("PI_TMUX_SESSION", "pi");
    begins(help(&world, &["api", "--", "exit 0"]).ok(), "session=pi\n");
}

#[test]
fn without_the_program_it_says_how_to_install_it() {
    let mut world = World::new();
    world.set("TMUX_TASK_PROGRAM", "");
    let output = help(&world, &["api", "--", "exit 0"]);
    assert_eq!((output.code, output.out.as_str()), (127, ""), "{output}");
    output.says("cargo install");
    assert_eq!(output.err.lines().count(), 1, "{output}");
    // It is found where it is installed.
    let folder = world.path("home").join(".local/bin");
    std::fs::create_dir_all(&folder).unwrap();
    std::os::unix::fs::symlink(World::program(), folder.join("tmux-task")).unwrap();
    check_four_lines(&world);
}

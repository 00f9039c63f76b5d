//! What is typed into a task arrives whole, or is refused.

use std::process::Command;

use crate::support::{Output, World};

/// Types the whole of an answer, in the way that the options say.
fn send(world: &World, name: &str, options: &[&str], answer: &str) -> Output {
    let mut command: Command = world.command(World::program());
    command.args(["send", name]).args(options);
    if options.contains(&"--secret") {
        return Output::with_input(command, &format!("{answer}\n"));
    }
    command.arg(answer);
    Output::with_input(command, "")
}

const WAYS: [&[&str]; 3] = [&[], &["--if-prompt", "Delete? [Y/n]"], &["--secret"]];

#[test]
fn an_answer_reaches_a_program_behind_any_mode_of_tmux() {
    let world = World::new();
    let modes: [&[&str]; 4] = [
        &["clock-mode"],
        &["choose-tree"],
        &["copy-mode"],
        &["clock-mode", "choose-tree", "copy-mode"],
    ];
    let line = "read -r -p 'Delete? [Y/n] ' x; echo \"got <$x>\"; exec sleep 1000";
    for (at, (modes, options)) in modes
        .iter()
        .flat_map(|modes| WAYS.map(|options| (*modes, options)))
        .enumerate()
    {
        let name = format!("ask-{at}");
        let window = world.run(&name, line);
        world.task(["wait", &name, "--input"]).ok();
        for mode in modes {
            world.tmux([mode, "-t", &window]);
        }
        let count = ["display-message", "-p", "-t", &window, "#{pane_in_mode}"];
        assert_eq!(world.tmux(count).trim(), modes.len().to_string());
        send(&world, &name, options, "nope").ok();
        world.until_shows(&window, "got <");
        let shown = world.tmux(["capture-pane", "-p", "-t", &window]);
        assert!(shown.contains("got <nope>"), "{modes:?}: {shown}");
    }
}

#[test]
fn input_that_tmux_would_drop_is_refused() {
    let world = World::new();
    let line = "read -r -p 'Delete? [Y/n] ' x; echo \"got <$x>\"; exec sleep 1000";
    let window = world.run("ask", line);
    world.task(["wait", "ask", "--input"]).ok();
    world.tmux(["select-pane", "-d", "-t", &window]);
    for options in WAYS {
        let refused = send(&world, "ask", options, "nope");
        assert_eq!(refused.code, 1, "{refused}");
        let expected =
            "is switched off in tmux; nothing was typed\nhint: `tmux select-pane -e -t %";
        assert!(refused.err.contains(expected), "{refused}");
    }
    assert_eq!(world.tmux(["list-buffers"]), "");
    world.tmux(["select-pane", "-e", "-t", &window]);
    send(&world, "ask", &[], "yes").ok();
    world.until_shows(&window, "got <yes>");
}

#[test]
fn a_task_that_shows_no_question_is_answered_by_the_empty_prompt() {
    let world = World::new();
    for (name, above) in [
        ("silent", ""),
        ("below", "seq 9; printf '\\n\\n\\n\\n\\n\\n\\n\\n\\n'; "),
        // There is history above the screen.
        ("scrolled", "seq 99; printf '\\n\\n\\n\\n\\n\\n\\n\\n\\n'; "),
    ] {
        let line = format!("clear; {above}read -r x; echo \"got <$x>\"; exec sleep 1000");
        let window = world.run(name, &line);
        world.task(["wait", name, "--input"]).ok();
        let explained = world.task(["explain", name, "--json"]);
        assert!(explained.ok().contains("\"prompt\":\"\""), "{explained}");
        let other = send(&world, name, &["--if-prompt", "Name:"], "Ada");
        assert_eq!(other.code, 1, "{other}");
        send(&world, name, &["--if-prompt", ""], "Ada").ok();
        world.until_shows(&window, "got <Ada>");
        let again = send(&world, name, &["--if-prompt", ""], "Ada");
        assert_eq!(again.code, 1, "{again}");
    }
}

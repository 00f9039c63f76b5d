//! The guide for agents: every command in it works as it says.

use crate::support::{Output, World};

/// What the guide's examples run, by the name of the target.
const MAKE: &str = r#"#!/bin/sh
case $1 in
    serve)
        echo "listening on 8080"
        while :; do echo ready; sleep 0.1; done
        ;;
    deploy)
        printf 'Proceed? [y/N] '
        read -r answer
        echo "answer: $answer"
        exec sleep 1000
        ;;
    *) echo "$1: no error" ;;
esac
"#;

/// The lines of the guide's `sh` blocks, without comments.
fn commands(guide: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_inside = false;
    for line in guide.lines() {
        if line.starts_with("```") {
            is_inside = line == "```sh";
        } else if is_inside {
            let command = line.split("  # ").next().unwrap_or_default().trim();
            commands.push(command.to_owned());
        }
    }
    commands
}

#[test]
fn every_command_of_the_guide_works() {
    let mut world = World::new();
    let bin = world.path("bin");
    std::fs::create_dir(&bin).unwrap();
    world.script("bin/make", MAKE);
    std::os::unix::fs::symlink(World::program(), bin.join("tmux-task")).unwrap();
    world.prepend_path(&bin);
    let guide = world.task(["guide"]).ok().to_owned();
    let commands = commands(&guide);
    assert!(commands.len() > 10, "{commands:?}");
    // A call that hangs ends the client's patience, and with it the turn.
    for command in commands.iter().filter(|command| command.contains("wait")) {
        assert!(command.contains("--timeout"), "{command}");
    }
    for command in &commands {
        if command.contains("send deploy yes") {
            // The question that the example answers.
            world.run("deploy", "make deploy");
            world.task(["wait", "deploy", "--input"]).ok();
        }
        let mut shell = world.command("sh");
        shell.args(["-c", command]);
        let output = Output::of(shell);
        let out = output.ok();
        let expected = match command.as_str() {
            "tmux-task ls" => "lint",
            "tmux-task logs build -n 40" => "build: no error\ntest: no error\n",
            "tmux-task search error build" => "test: no error",
            "tmux-task wait build" => "exited: code 0",
            "tmux-task wait build lint --timeout 10m" => "lint: exited: code 0",
            "tmux-task restart api" => "restarted ",
            "tmux-task kill api" => "(api)",
            "tmux-task prune" => "(build)",
            _ => "",
        };
        assert!(out.contains(expected), "{command}: {output}");
        if command.contains("send deploy yes") {
            world.until_shows("=work:deploy", "answer: yes");
        }
    }
}

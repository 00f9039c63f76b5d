//! The guide for agents: every command in it works as it says.

use crate::support::{World, blocks_of, has};

/// What the guide's examples run, by the name of the target.
const MAKE: &str = r#"case $1 in
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
esac"#;

#[test]
fn every_command_of_the_guide_works() {
    let mut world = World::new();
    world.install("make", MAKE);
    std::os::unix::fs::symlink(World::program(), world.path("bin/tmux-task")).unwrap();
    let guide = world.task(["guide"]);
    let lines = blocks_of(guide.ok(), "sh").join("\n");
    let commands = lines.lines().filter_map(|line| line.split("  # ").next());
    let commands: Vec<&str> = commands.map(str::trim).collect();
    assert!(commands.len() > 10, "{commands:?}");
    // A call that hangs ends the client's patience, and with it the turn.
    for command in commands.iter().filter(|command| command.contains("wait")) {
        has(command, "--timeout");
    }
    for command in &commands {
        if command.contains("send deploy yes") {
            // The question that the example answers.
            world.run("deploy", "make deploy");
            world.task(["wait", "deploy", "--input"]).ok();
        }
        let output = world.shell(command);
        output.ok();
        let expected = match *command {
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
        output.shows(expected);
        if command.contains("send deploy yes") {
            world.until_shows("=work:deploy", "answer: yes");
        }
    }
}

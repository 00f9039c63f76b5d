//! What a shell gets from the program: completion and manual pages.

use crate::support::{Output, World, argv};

/// Completes a command line in a real bash. The cursor is behind the last word.
fn complete(world: &World, line: &str) -> Vec<String> {
    let script = "program=$1 line=$2; shift 2
        PATH=$(dirname \"$program\"):$PATH
        source <(tmux-task completions bash)
        COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_tmux_task tmux-task \"${@: -1}\" \"${@: -2:1}\"
        ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"";
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = world.command("bash");
    command.args(["-c", script, "bash"]);
    command.arg(World::program()).arg(line).args(words);
    let output = Output::of(command);
    let lines = output.ok().lines();
    lines.map(|line| line.trim().to_owned()).collect()
}

/// The same without options.
fn named(world: &World, line: &str) -> Vec<String> {
    let mut found = complete(world, line);
    found.retain(|word| !word.starts_with('-'));
    found
}

#[test]
fn bash_completes_commands_options_and_names() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("tests", "exit 1");
    assert_eq!(complete(&world, "tmux-task compl"), ["completions"]);
    assert_eq!(complete(&world, "tmux-task logs --fol"), ["--follow"]);
    assert_eq!(named(&world, "tmux-task logs "), ["api", "tests"]);
    assert_eq!(named(&world, "tmux-task kill api t"), ["tests"]);
    // Another session, and one that is not there.
    world.run_in("other", "web", "exec sleep 1000");
    assert_eq!(named(&world, "tmux-task -s other wait "), ["web"]);
    assert_eq!(named(&world, "tmux-task -s typo wait "), [""; 0]);
    world.tmux(argv("new-session -d -s unsupervised"));
    let sessions = complete(&world, "tmux-task -s ");
    assert_eq!(sessions, ["other", "work"]);
    let sessions = complete(&world, "tmux-task ls --session o");
    assert_eq!(sessions, ["other"]);
    let reader = world.start(argv("feed -f --consumer mine --auto-ack"));
    crate::consumers::until_live(&reader);
    for line in ["tmux-task consumer rm m", "tmux-task feed -f --consumer "] {
        assert_eq!(complete(&world, line), ["mine"], "{line}");
    }
    let of_other = "tmux-task -s other consumer rm m";
    assert_eq!(complete(&world, of_other), [""; 0]);
    // Names come before options.
    let listed = complete(&world, "tmux-task logs ");
    assert_eq!(listed[..2], ["api", "tests"]);
    assert!(listed.len() > 2);
    world.task(["completions", "bash"]).prints("-o nosort");
}

#[test]
fn bash_completes_tasks_of_the_projects_file_and_files_and_starts_nothing() {
    let world = World::new();
    assert_eq!(complete(&world, "tmux-task kill x"), [""; 0]);
    world.write("Procfile", "web: x\nworker: x\n");
    assert_eq!(named(&world, "tmux-task up w"), ["web", "worker"]);
    world.write("tmux-task.toml", "[tasks.db]\ncommand = 'x'\n");
    assert_eq!(named(&world, "tmux-task down d"), ["db"]);
    assert_eq!(named(&world, "tmux-task up P"), ["Procfile"]);
    world.write("tmux-task.toml", "[tasks.db]\n");
    assert_eq!(named(&world, "tmux-task up d"), [""; 0]);
    world.task(["daemon", "status"]).fails_with(3);
    assert_eq!(std::fs::read_dir(world.path("tmux")).unwrap().count(), 0);
}

#[test]
fn every_command_of_the_help_has_a_manual_page() {
    let world = World::new();
    let folder = world.path("man");
    let mut command = world.command(World::program());
    command.arg("man").arg("--dir").arg(&folder);
    Output::of(command).ok();
    let help = world.task(["--help"]);
    let commands = help
        .ok()
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let mut n = 0;
    for name in names.filter(|name| !name.is_empty() && *name != "help") {
        n += 1;
        let page = std::fs::read_to_string(folder.join(format!("tmux-task-{name}.1"))).unwrap();
        let title = format!(".TH TMUX-TASK-{} 1", name.to_uppercase());
        assert!(page.contains(&title), "{page}");
        assert_eq!(page, world.task(["man", name]).ok(), "{name}");
    }
    assert!(n > 15, "{n}");
    let unknown = world.task(["man", "nope"]);
    assert_eq!(unknown.code, 2);
}

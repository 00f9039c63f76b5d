//! What a shell gets from the program: completion and manual pages.

use crate::support::World;

/// Completes a command line in a real bash. The cursor is behind the last word.
fn complete(world: &World, words: &[&str]) -> Vec<String> {
    let script = "program=$1 line=$2; shift 2
        PATH=$(dirname \"$program\"):$PATH
        source <(tmux-task completions bash)
        COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)) COMP_TYPE=9
        _clap_complete_tmux_task tmux-task \"${@: -1}\" \"${@: -2:1}\"
        ((${#COMPREPLY[@]} == 0)) || printf '%s\\n' \"${COMPREPLY[@]}\"";
    let mut command = world.command("bash");
    command.args(["-c", script, "bash"]);
    command
        .arg(World::program())
        .arg(words.join(" "))
        .args(words);
    let output = crate::support::Output::of(command);
    output
        .ok()
        .lines()
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn bash_completes_commands_options_and_names_of_tasks() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("tests", "exit 1");
    assert_eq!(complete(&world, &["tmux-task", "compl"]), ["completions"]);
    assert_eq!(
        complete(&world, &["tmux-task", "logs", "--fol"]),
        ["--follow"]
    );
    let named = |words: &[&str]| {
        let mut found = complete(&world, words);
        found.retain(|word| !word.starts_with('-'));
        found
    };
    assert_eq!(named(&["tmux-task", "logs", ""]), ["api", "tests"]);
    assert_eq!(named(&["tmux-task", "kill", "api", "t"]), ["tests"]);
    // Another session, and one that is not there.
    world.run_in("other", "web", "exec sleep 1000");
    assert_eq!(named(&["tmux-task", "-s", "other", "wait", ""]), ["web"]);
    assert_eq!(named(&["tmux-task", "-s", "typo", "wait", ""]), [""; 0]);
}

#[test]
fn bash_completes_sessions_and_consumers_and_names_come_before_options() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run_in("other", "web", "exec sleep 1000");
    world.tmux(["new-session", "-d", "-s", "unsupervised"]);
    let sessions = complete(&world, &["tmux-task", "-s", ""]);
    assert_eq!(sessions, ["other", "work"]);
    let sessions = complete(&world, &["tmux-task", "ls", "--session", "o"]);
    assert_eq!(sessions, ["other"]);
    let args = ["feed", "-f", "--consumer", "mine", "--auto-ack"];
    let reader = world.start(args);
    crate::consumers::until_live(&reader);
    for words in [
        &["tmux-task", "consumer", "rm", "m"][..],
        &["tmux-task", "feed", "-f", "--consumer", ""],
    ] {
        assert_eq!(complete(&world, words), ["mine"], "{words:?}");
    }
    let of_other = ["tmux-task", "-s", "other", "consumer", "rm", "m"];
    assert_eq!(complete(&world, &of_other), [""; 0]);
    let listed = complete(&world, &["tmux-task", "logs", ""]);
    assert_eq!(listed[0], "api");
    assert!(
        listed[1..].iter().all(|word| word.starts_with('-')),
        "{listed:?}"
    );
    let script = world.task(["completions", "bash"]);
    assert!(script.ok().contains("-o nosort"), "{script}");
}

#[test]
fn bash_completes_tasks_of_the_projects_file_and_files() {
    let world = World::new();
    let write = |name: &str, text: &str| std::fs::write(world.project().join(name), text).unwrap();
    let named = |words: &[&str]| {
        let mut found = complete(&world, words);
        found.retain(|word| !word.starts_with('-'));
        found
    };
    write("Procfile", "web: x\nworker: x\n");
    assert_eq!(named(&["tmux-task", "up", "w"]), ["web", "worker"]);
    write("tmux-task.toml", "[tasks.db]\ncommand = 'x'\n");
    assert_eq!(named(&["tmux-task", "down", "d"]), ["db"]);
    assert_eq!(named(&["tmux-task", "up", "P"]), ["Procfile"]);
    write("tmux-task.toml", "[tasks.db]\n");
    assert_eq!(named(&["tmux-task", "up", "d"]), [""; 0]);
}

#[test]
fn completion_starts_nothing() {
    let world = World::new();
    assert_eq!(complete(&world, &["tmux-task", "kill", "x"]), [""; 0]);
    let listed = world.task(["daemon", "status"]);
    assert_eq!(listed.code, 3);
    assert!(!world.path("tmux").join("tmux-0").join("default").exists());
}

#[test]
fn every_command_of_the_help_has_a_manual_page() {
    let world = World::new();
    let folder = world.path("man");
    let mut command = world.command(World::program());
    command.arg("man").arg("--dir").arg(&folder);
    crate::support::Output::of(command).ok();
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

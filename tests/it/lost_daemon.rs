//! Many commands at once that lose their daemon.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::Value;

use crate::support::{Output, World, events};

/// How many commands.
const COMMANDS: usize = 12;

/// Writes one line for each process of ours that is started as a daemon.
const COUNT_DAEMONS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void count(int number, char **words) {
    for (int i = 0; i < number; i++)
        if (strcmp(words[i], "--as-child") == 0) {
            FILE *file = fopen(LOG, "a");
            if (file) { fputs("daemon\n", file); fclose(file); }
        }
}
"#;

/// Takes the place of the world's daemon, accepts requests until it has this many, and ends without
/// an answer. Its socket stays, as that of a killed daemon does.
fn daemon_that_ends(listener: UnixListener, requests: usize) {
    let mut connections: Vec<BufReader<UnixStream>> = Vec::new();
    while connections.len() < requests {
        let (connection, _) = listener.accept().unwrap();
        let mut connection = BufReader::new(connection);
        let mut line = String::new();
        connection.read_line(&mut line).unwrap();
        assert!(line.contains(r#""op":"run""#), "{line}");
        connections.push(connection);
    }
    drop(listener);
    drop(connections);
}

/// Takes the place of the world's daemon, and ends at the first request without an answer.
fn daemon_that_leaves(listener: UnixListener) {
    let (connection, _) = listener.accept().unwrap();
    // Nobody can connect again.
    drop(listener);
    let mut line = String::new();
    BufReader::new(connection).read_line(&mut line).unwrap();
}

#[test]
fn a_launch_that_lost_its_daemon_starts_nothing_if_none_may_be_started() {
    let mut world = World::new();
    world.daemon();
    world.run("first", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    let hint = "hint: start one with `tmux-task daemon --detach`";
    let why = "no daemon runs for session `work`, and $TMUX_TASK_NO_AUTOSTART keeps commands from \
               starting one";
    for (args, code) in [(&[][..], 3), (&["--wait"], 125), (&["--until", "x"], 3)] {
        drop(fs::remove_file(world.socket()));
        let listener = UnixListener::bind(world.socket()).unwrap();
        let mut command = world.command(World::program());
        command
            .args(["run", "lost"])
            .args(args)
            .args(["--", "exit 1"]);
        let launch = std::thread::spawn(move || Output::of(command));
        daemon_that_leaves(listener);
        let refused = launch.join().unwrap();
        assert_eq!(refused.code, code, "{args:?}: {refused}");
        assert_eq!(refused.err, format!("tmux-task: run: {why}\n{hint}\n"));
        assert_eq!(world.windows("#{window_name}"), "first");
    }
}

#[test]
fn launches_that_lost_their_daemon_are_done_by_one_next_daemon() {
    let mut world = World::new();
    world.daemon();
    world.run("first", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();

    let daemons = world.path("daemons");
    let library = world.c_library(
        "count",
        &COUNT_DAEMONS.replace("LOG", &format!("{daemons:?}")),
    );
    fs::create_dir(world.path("counted")).unwrap();
    let log = world.path("processes");
    let script = format!(
        "#!/bin/sh\nprintf '%s\\n' \"$*\" >>'{}'\nexec '{}' \"$@\"\n",
        log.display(),
        world.shell("command -v tmux").ok().trim()
    );
    let wrapper = world.script("counted/tmux", &script);
    world.prepend_path(wrapper.parent().unwrap());
    world.set("LD_PRELOAD", library.to_str().unwrap());

    let listener = UnixListener::bind(world.socket()).unwrap();
    let mut launches: Vec<_> = (0..COMMANDS)
        .map(|n| world.start(["run", &format!("task-{n}"), "--", "exec sleep 1000"]))
        .collect();
    daemon_that_ends(listener, COMMANDS);
    for launch in &mut launches {
        assert_eq!(launch.wait(), 0);
    }

    // The names of the tasks that were started.
    let started = |records: &[Value]| -> BTreeSet<String> {
        let started = events(records).into_iter();
        let started = started.filter(|event| event["type"] == "started");
        started
            .map(|event| event["task"]["windowName"].to_string())
            .collect()
    };
    let records = world.until("the starts", |records| started(records).len() > COMMANDS);
    assert_eq!(events(&records).len(), COMMANDS + 1);
    let daemons = fs::read_to_string(&daemons).unwrap();
    assert_eq!(daemons.lines().count(), 1, "daemons that were started");
    let processes = fs::read_to_string(&log).unwrap();
    let launching = processes
        .lines()
        .filter(|line| line.contains("respawn-window") || line.contains("new-window"));
    assert_eq!(launching.count(), 0, "{processes}");
}

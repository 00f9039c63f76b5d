//! Channels of tmux: `wait --channel` and `signal`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::process::{Pid, getpgid};

use super::*;

#[test]
fn channels_are_tmuxs_own() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    // A signal without a waiting client is kept for the next wait.
    world.task(["signal", "ready"]).ok();
    let ended = outcome(&world.task(["wait", "--channel", "ready", "--json", "--timeout", LONG]));
    assert_eq!(ends_with(ended, 0, "signalled")["condition"], "channel");
    world.tmux(["wait-for", "-S", "ready"]);
    let args = ["wait", "--channel", "ready", "--timeout", LONG];
    assert_eq!(world.task(args).ok(), "signalled\n");
    let args = ["wait", "--channel", "ready", "--json", "--timeout", "100ms"];
    ends_with(outcome(&world.task(args)), 4, "timeout");
    assert_eq!(world.task(["wait", "--channel", "ready", "api"]).code, 2);
    assert_eq!(world.task(["wait", "--channel", ""]).code, 2);
    assert_eq!(world.task(["signal", ""]).code, 2);
    // Channels belong to the server: a session is not necessary.
    world.task(["-s", "nobody", "signal", "--", "-x;"]).ok();
    world.task(["-s", "nobody", "wait", "--channel=-x;"]).ok();
}

#[test]
fn a_wait_on_a_channel_takes_its_client_along_and_knows_a_signal_from_an_end() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let socket = world.server_socket();
    // The clients that wait on this channel, by their command lines.
    let clients_of = |channel: &str| -> Vec<i32> {
        let mine = |entry: &fs::DirEntry| {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(&socket) && line.contains("wait-for") && line.contains(channel)
        };
        let processes = fs::read_dir("/proc").unwrap();
        let processes = processes.map(Result::unwrap).filter(mine);
        let name = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        processes.filter_map(name).collect()
    };
    let clients = |channel: &str| clients_of(channel).len();
    for (signal, code) in [
        (Signal::TERM, 143),
        (Signal::HUP, 129),
        (Signal::INT, 130),
        (Signal::QUIT, 131),
        (Signal::ALARM, 142),
        (Signal::USR1, 138),
        (Signal::USR2, 140),
    ] {
        let mut waiting = world.start(["wait", "--channel", "never"]);
        world.until_true("it waits", || clients("never") == 1);
        // A signal to the command's group does not end the client first, as if the server had gone.
        let client = Pid::from_raw(clients_of("never")[0]).unwrap();
        assert_eq!(getpgid(Some(client)).unwrap(), client);
        waiting.signal(signal);
        assert_eq!(waiting.wait(), code);
        world.until_true("its client has gone", || clients("never") == 0);
    }
    let waiting = world.start(["wait", "--channel", "other", "--json"]);
    world.until_true("it waits", || clients("other") == 1);
    world.task(["daemon", "stop"]).ok();
    world.tmux(["kill-server"]);
    ends_with(end(waiting), 5, "disappeared");
    // Killed, it cannot let anybody go. Nothing else connects to it meanwhile.
    world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
    let server = world.server();
    let connections = || -> BTreeSet<PathBuf> {
        let files = fs::read_dir(format!("/proc/{}/fd", server.as_raw_nonzero())).unwrap();
        let targets = files.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let is_socket = |target: &PathBuf| target.to_string_lossy().starts_with("socket:");
        targets.filter(is_socket).collect()
    };
    let before = connections();
    let waiting = world.start(["wait", "--channel", "third", "--json"]);
    world.until_true("it waits", || !connections().is_subset(&before));
    kill_process(server, Signal::KILL).unwrap();
    ends_with(end(waiting), 5, "disappeared");
}

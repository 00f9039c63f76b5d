//! Reruns beside control clients: up to tmux 3.7c the server crashes when a pane is respawned
//! and a control client has not consumed all of its output.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::{SESSION, World};

/// More than the pipes between tmux and its client hold.
const FLOOD: &str = "seq 1 100000";

/// A foreign control client, of whose output only the first byte is read.
struct Unread {
    client: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
}

impl Unread {
    fn attach(world: &World, flags: &str) -> Self {
        let mut command: Command = world.command("tmux");
        command
            .args(["-C", "attach-session", "-f", flags, "-t", SESSION])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut client = command.spawn().unwrap();
        let stdin = client.stdin.take().unwrap();
        let mut stdout = client.stdout.take().unwrap();
        // The answer to the attaching: it is attached.
        let mut first = [0];
        stdout.read_exact(&mut first).unwrap();
        Self {
            client,
            stdin,
            stdout,
        }
    }

    /// Reads it to its end: tmux keeps a client whose output is not read.
    fn close(mut self) {
        // An empty line detaches.
        self.stdin.write_all(b"\n").unwrap();
        drop(self.stdin);
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        self.client.wait().unwrap();
    }
}

/// Reruns a task while it floods its pane and after it has ended, beside a client that gets the
/// output and does not read it.
#[test]
fn a_flood_is_run_again_beside_a_client_that_does_not_read_it() {
    let world = World::new();
    world.run("other", "exec sleep 1000");
    let server = world.server();
    let behind = Unread::attach(&world, "ignore-size");
    // Without a client that could take more, tmux would not read the flood at all.
    let beside = Unread::attach(&world, "no-output");
    let alive = format!("{FLOOD}; exec sleep 1000");
    for _ in 0..2 {
        world.run("flood", &alive);
        world.until_shows("=work:flood", "100000");
        world.run("flood", &alive);
        world.run("flood", FLOOD);
        world.until_ended("=work:flood");
        world.run("flood", FLOOD);
        world.until_ended("=work:flood");
    }
    assert_eq!(world.server(), server);
    behind.close();
    beside.close();
}

/// The flags of the control clients of the session, in order.
fn control_clients(world: &World) -> Vec<String> {
    let flags = world.tmux(["list-clients", "-F", "#{client_flags}"]);
    let mut flags: Vec<String> = flags.lines().map(str::to_owned).collect();
    flags.sort();
    flags
}

fn count(clients: &[String], flag: &str) -> usize {
    let has = |flags: &&String| flags.split(',').any(|each| each == flag);
    clients.iter().filter(has).count()
}

#[test]
fn a_client_that_may_be_behind_exists_only_while_output_is_followed() {
    let world = World::new();
    world.run("api", "while read -r line; do echo \"got $line\"; done");
    // The daemon attaches once the session is there.
    world.until_true("the two clients", || {
        let clients = control_clients(&world);
        let has_one = |flag| count(&clients, flag) == 1;
        clients.len() == 2 && has_one("no-output") && has_one("pause-after=0")
    });

    // The next wait uses the same client.
    for word in ["it", "more"] {
        let text = format!("got {word}");
        let waiting = world.start(["wait", "api", "--text", &text, "--json"]);
        world.until_true("a client that may be behind", || {
            count(&control_clients(&world), "pause-after=10") == 1
        });
        assert_eq!(control_clients(&world).len(), 3);
        world.task(["send", "api", word]).ok();
        assert_eq!(waiting.record()["outcome"], "matched");
        world.until_true("no client that may be behind", || {
            count(&control_clients(&world), "pause-after=0") == 2
        });
    }
    assert_eq!(control_clients(&world).len(), 3);
}

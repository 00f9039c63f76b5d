//! Descriptors: a daemon keeps none of its caller's, and works when it has none left.

use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::support::{Output, World};

/// The processes that have this file open.
fn holders(file: &Path) -> Vec<String> {
    let wanted = fs::metadata(file).unwrap();
    let is_wanted = |fd: &Path| {
        fs::metadata(fd)
            .is_ok_and(|found| (found.dev(), found.ino()) == (wanted.dev(), wanted.ino()))
    };
    let mut holders = Vec::new();
    for process in fs::read_dir("/proc").unwrap().flatten() {
        let fds = fs::read_dir(process.path().join("fd"));
        let mut fds = fds.into_iter().flatten().flatten();
        if fds.any(|fd| is_wanted(&fd.path())) {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            holders.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    holders
}

#[test]
fn nothing_that_outlives_a_command_holds_its_callers_descriptors_or_folder() {
    let world = World::new();
    let lock = world.path("lock");
    // The daemon, its tmux clients and the tmux server are all started by this one command.
    let mut caller = world.command("sh");
    caller
        .args(["-c", "exec 9>\"$0\" 8<\"$0\"; exec \"$@\""])
        .arg(&lock)
        .arg(World::program())
        .args(["run", "api", "--", "pwd; exec sleep 1000"]);
    Output::of(caller).ok();
    assert_eq!(holders(&lock), [""; 0]);
    let file = fs::File::open(&lock).unwrap();
    file.try_lock().unwrap();
    for process in [world.daemon_pid(), world.server()] {
        let folder = format!("/proc/{}/cwd", process.as_raw_nonzero());
        assert_eq!(fs::read_link(folder).unwrap(), Path::new("/"));
    }
    world.until_shows("=work:api", "/project");
}

#[test]
fn a_detached_daemon_finds_a_tmux_that_was_named_relatively() {
    let mut world = World::new();
    world.script("project/tm", "#!/bin/sh\nexec tmux \"$@\"\n");
    world.set("TMUX_TASK_TMUX", "./tm");
    world.run("api", "exec sleep 1000");
    assert_eq!(world.daemon_status()["exists"], true);
    assert_eq!(world.look()["tasks"][0]["windowName"], "api");
}

/// The soft limit of a process's descriptors, as the kernel shows it.
fn limit_of(pid: &str) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let (_, line) = limits.split_once("Max open files").unwrap();
    let soft = line.split_whitespace().next();
    soft.unwrap().to_owned()
}

/// Starts a daemon whose limit of descriptors a shell has set.
fn daemon_limited(world: &World, ulimit: &str) {
    let mut caller = world.command("sh");
    caller
        .args(["-c", &format!("{ulimit}; exec \"$0\" daemon --detach")])
        .arg(World::program());
    Output::of(caller).ok();
}

#[test]
fn a_daemon_may_have_as_many_descriptors_as_it_can_get_and_its_clients_as_before() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
    daemon_limited(&world, "ulimit -Sn 64");
    let daemon = world.daemon_pid().as_raw_nonzero().to_string();
    let limit: u64 = limit_of(&daemon).parse().unwrap();
    assert!(limit > 64, "{limit}");
    let clients = world.tmux(["list-clients", "-F", "#{client_pid}"]);
    assert!(!clients.is_empty());
    for client in clients.lines() {
        assert_eq!(limit_of(client), "64");
    }
}

#[test]
fn a_daemon_without_descriptors_says_so_once_and_recovers() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work", "exec sleep 1000"]);
    daemon_limited(&world, "ulimit -n 48");
    let socket = world.socket();
    let subscribe = || {
        let mut reader = UnixStream::connect(&socket).unwrap();
        let request = "{\"op\":\"subscribe\",\"start\":\"now\",\"filter\":{}}\n";
        // It may have been turned away already.
        drop(reader.write_all(request.as_bytes()));
        reader
    };
    let first_line = |reader: &UnixStream| {
        let mut line = String::new();
        BufReader::new(reader).read_line(&mut line).ok()?;
        Some(line)
    };
    // Each of them costs two: the connection and the feed's file. On a busy machine, all of them may
    // get a hello.
    let readers: Vec<UnixStream> = (0..48).map(|_| subscribe()).collect();
    let answers: Vec<String> = readers.iter().filter_map(first_line).collect();
    assert!(answers.iter().any(|line| line.contains("\"hello\"")));
    // Connections that say nothing stay, and take all the room that is left, also what is given back meanwhile:
    // files that readers have read, and connections that were turned away.
    let idle: RefCell<Vec<UnixStream>> = RefCell::default();
    let status = || world.task(["daemon", "status"]);
    world.until_true(
        "a command and a reader are told why they are refused",
        || {
            let more = (0..48).map(|_| UnixStream::connect(&socket).unwrap());
            idle.borrow_mut().extend(more);
            let refused = status();
            let is_why = |why| refused.err.contains(why);
            refused.code == 1
                && (is_why("descriptor") || is_why("connections already"))
                && first_line(&subscribe()).is_some_and(|line| line.contains("refused"))
        },
    );
    drop((readers, idle));
    world.until_true("it serves again", || status().code == 0);
    world.run("api", "exit 3");
    world.until_deliveries(1);
    let log = world.log();
    let complaints = log.matches("connections are turned away").count();
    assert_eq!(complaints, 1, "{log}");
}

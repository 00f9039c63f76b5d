//! Files, folders and sockets that belong to another user, or are links, are not used.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
use rustix::process::geteuid;

use crate::security::{STRANGER, as_stranger};
use crate::support::{World, argv, set_mode};

/// Whether files can be given to another user, which only root can; says so where they cannot.
fn can_give_away() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: needs root");
    }
    is_root
}

fn give_away(path: &Path) {
    chown(path, Some(STRANGER), Some(STRANGER)).unwrap();
}

/// Where the daemon of the world's session listens. None runs when this returns.
fn socket_of(world: &World) -> PathBuf {
    world.daemon();
    world.task(["daemon", "stop"]).ok();
    world.socket()
}

/// Every command that could be lied to refuses, and says why.
#[track_caller]
fn check_refused(world: &World, why: &str) {
    for line in "ls|status|wait api --timeout 5s|feed --follow|kill api|explain api|daemon status"
        .split('|')
    {
        let output = world.call(line);
        output.fails_saying(1, why);
        assert_eq!(output.out, "", "{line}");
    }
}

#[test]
fn a_runtime_folder_of_another_user_is_not_used() {
    if !can_give_away() {
        return;
    }
    let world = World::new();
    let socket = socket_of(&world);
    let forger = UnixListener::bind(&socket).unwrap();
    forger.set_nonblocking(true).unwrap();
    give_away(&world.path("run"));
    check_refused(&world, &format!("belongs to uid {STRANGER}"));
    let started = world.task(["daemon", "--detach"]);
    started.fails_saying(1, "TMUX_TASK_RUNTIME_DIR");

    // Ours, but open to all: another user may have created the socket.
    chown(world.path("run"), Some(0), Some(0)).unwrap();
    set_mode(world.path("run"), 0o777);
    check_refused(&world, "can be written to by other users (mode 0777)");
    let called = forger.accept().unwrap_err().kind();
    assert_eq!(called, ErrorKind::WouldBlock, "nobody spoke to it");
}

#[test]
fn a_listener_of_another_user_is_not_spoken_to() {
    if !can_give_away() {
        return;
    }
    let world = World::new();
    let path = socket_of(&world);
    let forger = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    bind(&forger, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    // The kernel notes who listens; of this process that is only this thread.
    as_stranger(|| listen(&forger, 128).unwrap()).unwrap();
    check_refused(&world, &format!("its process belongs to uid {STRANGER}"));
}

#[test]
fn links_and_pipes_in_the_state_folder_are_not_followed() {
    let world = World::new();
    world.tmux(argv("new-session -d -s work 'exec sleep 1000'"));
    world.daemon();
    let state = world.state("work");
    world.task(["daemon", "stop"]).ok();
    let victim = world.path("victim");
    let precious = "precious\n".repeat(9);
    fs::write(&victim, &precious).unwrap();
    set_mode(&victim, 0o644);
    for told in ["is a symbolic link", "is not a regular file"] {
        let make = |path: &Path| {
            if told.contains("link") {
                symlink(&victim, path).unwrap();
            } else {
                mkfifoat(CWD, path, Mode::from_raw_mode(0o600)).unwrap();
            }
        };
        for name in ["feed.jsonl", "daemon.log", "daemon.lock"] {
            let path = state.join(name);
            fs::remove_file(&path).unwrap_or_default();
            make(&path);
            let why = format!("{} {told}", path.display());
            world.task(["daemon", "--detach"]).fails_saying(1, &why);
            fs::remove_file(&path).unwrap();
        }
        // Without these a daemon can do.
        for name in ["session.json", "last-reader"] {
            let path = state.join(name);
            fs::remove_file(&path).unwrap_or_default();
            make(&path);
        }
        world.daemon();
        world.look();
        world.task(["daemon", "stop"]).ok();
        // Whether it starts beside these is not the question here.
        let socket = world.socket();
        for path in [
            socket.with_extension("lock"),
            socket,
            state.join("consumers"),
        ] {
            fs::remove_file(&path).unwrap_or_default();
            make(&path);
            world.task(["daemon", "--detach"]);
            world.task(["daemon", "stop"]);
            if fs::remove_file(&path).is_err() {
                fs::remove_dir_all(&path).unwrap_or_default();
            }
        }
        let saved = fs::symlink_metadata(state.join("session.json")).unwrap();
        assert!(saved.is_file(), "replaced, not followed");
        fs::remove_file(state.join("last-reader")).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), precious);
        assert_eq!(fs::metadata(&victim).unwrap().mode() & 0o777, 0o644);
    }
    // Nor is one in the place of the kept runs.
    let (runs, elsewhere) = (state.join("runs"), world.path("elsewhere"));
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("x-1-1.log"), "not a run\n").unwrap();
    symlink(&elsewhere, &runs).unwrap();
    let output = world.call("logs api --run 7");
    output.fails_saying(1, &format!("{} is a symbolic link", runs.display()));
    output.fails_saying(1, "hint: ");
}

#[test]
fn a_home_of_another_user_is_left_alone() {
    if !can_give_away() {
        return;
    }
    let mut world = World::new();
    let home = world.path("home");
    give_away(&home);
    world.set("TMUX_TASK_STATE_DIR", "");
    world.set("XDG_STATE_HOME", "");
    let check = |world: &World, folder: &Path| {
        let told = format!(
            "{} belongs to uid {STRANGER}; with sudo, give -H, or set TMUX_TASK_STATE_DIR",
            folder.display()
        );
        world.task(["daemon", "--detach"]).fails_saying(1, &told);
    };
    check(&world, &home);
    assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
    let state = home.join(".local/state/tmux-task");
    fs::create_dir_all(&state).unwrap();
    give_away(&state);
    check(&world, &state);
    assert_eq!(fs::read_dir(&state).unwrap().count(), 0);

    // Nor are files of clients written there.
    let before = fs::read_dir(&home).unwrap().count();
    let why = format!(
        "tmux-task: init: {} belongs to uid {STRANGER}",
        home.display()
    );
    for program in ["claude", "codex", "copilot", "opencode", "pi"] {
        world
            .task(["init", program, "--write"])
            .fails_saying(1, &why);
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), before);
}

#[test]
fn a_relative_folder_and_an_open_configuration_are_refused() {
    let mut world = World::new();
    world.configure("notices = []\n");
    let config = world.path("conf/tmux-task/config.toml");
    set_mode(&config, 0o666);
    let why = format!("{} can be written to by other users", config.display());
    world.task(["daemon", "--detach"]).fails_saying(1, &why);
    set_mode(&config, 0o664);
    world.daemon();
    world.task(["daemon", "stop"]).ok();
    world.set("TMUX_TASK_STATE_DIR", "state");
    let why = "TMUX_TASK_STATE_DIR must be an absolute path, found `state`";
    for line in ["ls", "daemon --detach"] {
        world.call(line).fails_saying(1, why);
    }
    assert!(!world.project().join("state").exists());
}

/// A tmux client does what its server says: it would run any program for the owner of the socket.
#[test]
fn a_tmux_server_of_another_user_is_not_connected_to() {
    if !can_give_away() {
        return;
    }
    let mut world = World::new();
    let evil = world.path("evil");
    let forger = UnixListener::bind(&evil).unwrap();
    forger.set_nonblocking(true).unwrap();
    give_away(&evil);
    let link = world.path("link");
    symlink(&evil, &link).unwrap();
    let (evil, link) = (evil.to_str().unwrap(), link.to_str().unwrap());
    for socket in [evil, link] {
        for command in ["ls", "status", "run a -- true", "daemon --detach"] {
            let output = world.call(&format!("-S {socket} {command}"));
            output.fails_saying(1, "belongs to another user");
        }
    }
    for name in ["", ".", "..", "a/b", "../evil", evil] {
        let why = "tmux-task: ls: -L takes the name of a tmux server, without `/`";
        world.task(["-L", name, "ls"]).fails_saying(2, why);
    }
    world.set("TMUX", &format!("{evil},1,0"));
    world.task(["ls"]).fails_with(1);
    let called = forger.accept().unwrap_err().kind();
    assert_eq!(called, ErrorKind::WouldBlock, "nobody connected to it");

    world.set("TMUX", "");
    let folder = world.path("pub");
    let sockets = folder.join(format!("tmux-{}", geteuid().as_raw()));
    fs::create_dir_all(&sockets).unwrap();
    give_away(&sockets);
    world.set("TMUX_TMPDIR", folder.to_str().unwrap());
    let output = world.call("run a -- true");
    output.fails_saying(1, "belongs to another user");
}

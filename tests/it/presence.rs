//! Daemons whose files are deleted while they run, as a logout does with runtime folders.

use std::fs;

use crate::support::{World, all_told, check_feed, event, events};

/// Deletes the runtime folder, as systemd does when the user's last login ends.
fn log_out(world: &World) {
    fs::remove_dir_all(world.path("run")).unwrap();
}

#[test]
fn a_daemon_whose_socket_was_deleted_is_found_again() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let pid = world.daemon_pid();
    let reader = world.start(["feed", "--follow"]);
    assert!(reader.line().contains("\"hello\""));
    log_out(&world);
    world.until_true("it is found again", || {
        world.task(["daemon", "status"]).code == 0
    });
    assert_eq!(world.daemon_pid(), pid);
    // Who was connected is served on.
    world.task(["kill", "api"]).ok();
    while !reader.line().contains("\"disappeared\"") {}
    world.task(["daemon", "stop"]).ok();
    assert!(fs::read_dir(world.path("run")).unwrap().all(|file| {
        let path = file.unwrap().path();
        path.extension().is_none_or(|extension| extension != "sock")
    }));
}

#[test]
fn a_daemon_whose_lock_was_deleted_is_the_only_one_still() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let pid = world.daemon_pid();
    log_out(&world);
    // It would start one, were there none.
    world.run("web", "exec sleep 1000");
    let running = format!("already running (pid {})\n", pid.as_raw_nonzero());
    let again = world.task(["daemon", "--detach"]);
    assert_eq!((again.code, again.err), (0, running));
    assert_eq!(world.daemon_pid(), pid);
    let records = world.until("both are told", |records| {
        events(records).len() == 2 && all_told(records)
    });
    check_feed(&records);
    assert_eq!(event(&records, "started", "web")["rerun"], false);
}

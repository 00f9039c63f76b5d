//! `prune --state`: removes the state of sessions that are gone, and nothing else.

use std::fs;

use serde_json::Value;

use crate::support::{World, has_ended};

/// The sessions that have a state folder.
fn folders(world: &World) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(world.path("state"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|key| key.rsplit_once('-').unwrap().0.to_owned())
        .collect();
    names.sort();
    names
}

/// Runs a task to its end in a session, with a daemon. Its message is not read.
fn ended(world: &World, session: &str) {
    let of = |args: &[&str]| world.task([&["-s", session], args].concat());
    world.run_in(session, "job", "exit 3");
    world.until_true("it has ended", || {
        let list: Value = serde_json::from_str(of(&["ls", "--json"]).ok()).unwrap();
        list["tasks"][0]["state"] == "exited"
    });
}

/// The same, and ends session and daemon.
fn gone(world: &World, session: &str) {
    ended(world, session);
    world.task(["-s", session, "kill-all", "--yes"]).ok();
    world.task(["-s", session, "daemon", "stop"]).ok();
}

#[test]
fn the_state_of_sessions_that_are_gone_is_removed_when_that_is_confirmed() {
    let world = World::new();
    ended(&world, "live");
    world.task(["-s", "live", "daemon", "stop"]).ok();
    gone(&world, "read");
    world.task(["-s", "read", "feed"]).ok();
    gone(&world, "unread");
    ended(&world, "supervised");
    world.task(["-s", "supervised", "kill-all", "--yes"]).ok();
    let all = ["live", "read", "supervised", "unread"];
    assert_eq!(folders(&world), all);

    let refused = world.task(["prune", "--state"]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    let lines: Vec<&str> = refused.err.lines().collect();
    assert!(lines[0].starts_with("to remove: read, "), "{lines:?}");
    assert!(lines[1].starts_with("kept: unread, "), "{lines:?}");
    assert!(lines[1].ends_with(": it has messages that nobody has read (--unread removes it)"));
    let why = "tmux-task: prune: this removes what is kept of these sessions, and there is no \
               terminal to ask on";
    assert_eq!(lines[2..], [why, "hint: say --yes when you mean it"]);
    assert_eq!(folders(&world), all);

    let removed = world.task(["prune", "--state", "--yes"]);
    assert!(
        removed.ok().starts_with("removed read, "),
        "{}",
        removed.ok()
    );
    assert_eq!(folders(&world), ["live", "supervised", "unread"]);
    let output = world.task(["prune", "--state", "--unread", "--yes", "--json"]);
    let removed: Value = serde_json::from_str(output.ok()).unwrap();
    assert_eq!(removed["removed"][0]["sessionName"], "unread");
    let kept: Vec<&Value> = removed["kept"]
        .as_array()
        .unwrap()
        .iter()
        .map(|folder| &folder["reason"])
        .collect();
    assert_eq!(kept, ["its session exists", "a daemon runs"]);
    assert_eq!(folders(&world), ["live", "supervised"]);
    let nothing = world.task(["prune", "--state"]);
    assert_eq!((nothing.ok(), nothing.err.as_str()), ("", ""));
    assert!(!world.task(["-s", "live", "feed"]).ok().is_empty());

    // With the server all its sessions are gone.
    world.task(["-s", "supervised", "daemon", "stop"]).ok();
    let server = world.server();
    world.tmux(["kill-server"]);
    world.until_true("the server has ended", || has_ended(server));
    world.task(["-s", "supervised", "feed"]).ok();
    world.task(["prune", "--state", "--yes"]).ok();
    assert!(folders(&world).is_empty());
}

#[test]
fn what_a_consumer_has_not_acknowledged_is_unread() {
    let world = World::new();
    ended(&world, "gone");
    let mut harness = {
        let mut command = world.command(World::program());
        command
            .args([
                "-s",
                "gone",
                "feed",
                "--follow",
                "--consumer",
                "pi",
                "--kind",
                "followUp",
            ])
            .stdin(std::process::Stdio::piped());
        crate::support::Running::start(command)
    };
    let lines = harness.records_until(|line| line["kind"] == "followUp");
    let seq = lines.last().unwrap()["seq"].as_u64().unwrap();
    world.task(["-s", "gone", "kill-all", "--yes"]).ok();
    world.task(["-s", "gone", "daemon", "stop"]).ok();
    harness.wait();
    world.task(["-s", "gone", "feed"]).ok();
    assert_eq!(world.task(["prune", "--state", "--yes"]).ok(), "");
    assert_eq!(folders(&world), ["gone"]);
    // The harness restarts and acknowledges; then no folder is left.
    world.task(["-s", "gone", "daemon", "--detach"]).ok();
    let mut harness = {
        let mut command = world.command(World::program());
        command
            .args([
                "-s",
                "gone",
                "feed",
                "--follow",
                "--consumer",
                "pi",
                "--kind",
                "followUp",
            ])
            .stdin(std::process::Stdio::piped());
        crate::support::Running::start(command)
    };
    crate::consumers::acknowledge(&mut harness, seq);
    world.task(["-s", "gone", "daemon", "stop"]).ok();
    harness.wait();
    world.task(["prune", "--state", "--yes"]).ok();
    assert!(folders(&world).is_empty());
}

#[test]
fn what_is_no_state_of_a_session_is_left_alone() {
    let world = World::new();
    let folder = world.path("state/notes-of-mine");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("todo"), "a note").unwrap();
    std::os::unix::fs::symlink(world.path("home"), world.path("state/link-abc")).unwrap();
    let output = world.task(["prune", "--state", "--yes"]);
    assert_eq!(output.ok(), "");
    let why = ": it has no saved snapshot of its session\n";
    assert!(output.err.ends_with(why), "{}", output.err);
    assert_eq!(fs::read_dir(world.path("state")).unwrap().count(), 2);
    assert!(folder.join("todo").exists());
}

#[test]
fn what_a_cleaned_session_has_left_of_its_runs_is_removed() {
    let world = World::new();
    ended(&world, "live");
    let rest = world.path("state").join("rest-0123456789ab");
    fs::create_dir_all(rest.join("runs")).unwrap();
    fs::write(rest.join("runs").join("@1-1.log"), "output\n").unwrap();
    let removed = world.task(["-s", "live", "prune", "--state", "--yes"]);
    let expected = format!(", {}\n", rest.display());
    assert!(
        removed
            .ok()
            .starts_with("removed unknown session, 7 B, last written ")
            && removed.out.ends_with(&expected),
        "{removed}"
    );
    assert_eq!(folders(&world), ["live"]);
}

#[test]
fn the_environments_that_are_kept_for_a_session_that_is_gone_are_removed_with_its_state() {
    let world = World::new();
    let restart = ["run", "job", "--restart", "on-failure", "--", "sleep 1000"];
    for session in ["gone", "live"] {
        world.task([&["-s", session][..], &restart].concat()).ok();
    }
    // It ends while no daemon runs.
    world.task(["-s", "gone", "daemon", "stop"]).ok();
    world.tmux(["kill-session", "-t", "=gone"]);
    let kept = || {
        let names = fs::read_dir(world.path("run")).unwrap();
        let names = names.map(|entry| entry.unwrap());
        let mut kept: Vec<String> = names
            .filter(|entry| entry.path().extension() == Some("environments".as_ref()))
            .map(|entry| entry.file_name().into_string().unwrap())
            .map(|name| name.rsplit_once('-').unwrap().0.to_owned())
            .collect();
        kept.sort();
        kept
    };
    assert_eq!(kept(), ["gone", "live"]);
    let removed = world.task(["prune", "--state", "--yes"]);
    assert!(removed.ok().starts_with("removed gone, "), "{removed}");
    assert_eq!(kept(), ["live"]);
}

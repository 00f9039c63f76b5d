//! One daemon per session, also when its files are deleted while it runs, as a logout does with
//! runtime folders, or when another caller has other folders.

use std::fs;

use rustix::process::{Signal, kill_process};

use crate::support::{Output, World, all_told, check_feed, event, events, has, has_ended};

/// The folders of callers in one world: in their environments, everything else is the same.
const FOLDERS: [&str; 2] = ["one", "other"];

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
    has(reader.line(), "\"hello\"");
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

/// Runs `tmux-task` as a caller with separate state and runtime folders.
#[track_caller]
fn task_in(world: &World, folder: &str, args: &[&str]) -> Output {
    let [state, run] = ["state", "run"].map(|top| world.path(top).join(folder));
    let variables = [
        ("TMUX_TASK_STATE_DIR", state.to_str().unwrap()),
        ("TMUX_TASK_RUNTIME_DIR", run.to_str().unwrap()),
    ];
    world.task_with(&variables, args)
}

/// Returns the pid and the first problem in the status of the daemon with this folder.
#[track_caller]
fn status_in(world: &World, folder: &str) -> (u64, Option<String>) {
    let status = task_in(world, folder, &["daemon", "status", "--json"]).json();
    let problem = status["problems"][0].as_str().map(str::to_owned);
    (status["pid"].as_u64().unwrap(), problem)
}

fn control_clients(world: &World) -> String {
    let format = "#{client_pid} #{client_control_mode}";
    world.tmux(["list-clients", "-F", format])
}

/// What a command says whose daemon does not start for this reason.
fn not_started(command: &str, why: &str) -> String {
    let hint = "hint: `tmux-task daemon` in the foreground shows what keeps it from starting";
    format!("tmux-task: {command}: the daemon did not start: {why}\n{hint}")
}

/// What a daemon says that leaves a session to the one with this pid.
fn left_to(pid: u64) -> String {
    format!(
        "another daemon (pid {pid}) supervises the session and has its files in other folders: call \
         tmux-task with that daemon's XDG_STATE_HOME, XDG_RUNTIME_DIR, TMUX_TASK_STATE_DIR and \
         TMUX_TASK_RUNTIME_DIR, or end it with `kill {pid}`"
    )
}

#[test]
fn a_daemon_with_other_folders_leaves_a_supervised_session_alone() {
    let world = World::new();
    let [one, other] = FOLDERS;
    let run = |folder, name| task_in(&world, folder, &["run", name, "--", "exec sleep 1000"]);
    run(one, "api").ok();
    let (pid, _) = status_in(&world, one);
    let clients = control_clients(&world);
    let why = left_to(pid);
    let daemon = task_in(&world, other, &["daemon"]);
    daemon.fails(1, &format!("tmux-task: daemon: {why}"));
    run(other, "web").fails(1, &not_started("run", &why));
    assert_eq!(control_clients(&world), clients);
    assert_eq!(status_in(&world, one), (pid, None));
    // What a killed daemon leaves behind belongs to nobody.
    let killed = crate::support::pid(pid.try_into().unwrap());
    kill_process(killed, Signal::KILL).unwrap();
    world.until_true("it is gone", || has_ended(killed));
    run(other, "web").ok();
    assert_eq!(status_in(&world, other).1, None);
}

#[test]
fn a_command_with_another_folder_for_sockets_alone_names_the_daemon() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let pid = world.daemon_pid().as_raw_nonzero().get();
    let other = world.path("other").display().to_string();
    let elsewhere = |args: &[&str]| {
        let variables = [("TMUX_TASK_RUNTIME_DIR", &*other)];
        world.task_with(&variables, args)
    };
    let why = left_to(pid.try_into().unwrap());
    elsewhere(&["daemon"]).fails(1, &format!("tmux-task: daemon: {why}"));
    for args in [&["run", "web", "--", "true"][..], &["wait", "api"]] {
        elsewhere(args).fails(1, &not_started(args[0], &why));
    }
    let doctor = elsewhere(&["doctor"]);
    doctor.shows(&why);
    world.run("web", "exec sleep 1000");
}

#[test]
fn of_two_daemons_with_different_folders_one_supervises_a_new_session() {
    let world = World::new();
    for folder in FOLDERS {
        task_in(&world, folder, &["daemon", "--detach"]).ok();
    }
    world.tmux(["new-session", "-d", "-s", crate::support::SESSION]);
    let both = || FOLDERS.map(|folder| status_in(&world, folder));
    let is_left = |[one, other]: &[(u64, Option<String>); 2]| {
        let problem = |pid| Some(format!("tasks cannot be looked at: {}", left_to(pid)));
        (one.1.is_none() && other.1 == problem(one.0))
            || (other.1.is_none() && one.1 == problem(other.0))
    };
    world.until_true("one is left without it", || is_left(&both()));
    let clients = control_clients(&world);
    let [one, other] = both();
    let [first, second] = FOLDERS;
    let (left, pid) = if one.1.is_some() {
        (first, other.0)
    } else {
        (second, one.0)
    };
    let expected = format!("tmux-task: ls: tasks cannot be looked at: {}", left_to(pid));
    task_in(&world, left, &["ls"]).fails(1, &expected);
    task_in(&world, left, &["daemon", "stop"]).ok();
    assert_eq!(control_clients(&world), clients);
}

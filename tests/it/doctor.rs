//! `doctor` finds faults of the machine, the server, the daemon and the session, and suggests what
//! to do. It is called when things are broken, so it must always return.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Output, World};

/// The results of `doctor --json`.
struct Report(Value, i32);

impl Report {
    #[track_caller]
    fn of(world: &World) -> Self {
        let output = world.task(["doctor", "--json"]);
        let report: Value = serde_json::from_str(&output.out).unwrap_or_else(|error| {
            panic!("{error}: {output}");
        });
        let failures = report["failures"].as_u64().unwrap();
        assert_eq!(output.code, i32::from(failures > 0), "{output}");
        assert_eq!(output.err, "");
        Self(report, output.code)
    }

    /// The results of one check: `ok`, `warn` or `fail`, with message and hint.
    fn results(&self, check: &str) -> Vec<(&str, String)> {
        let checks = self.0["checks"].as_array().unwrap().iter();
        checks
            .filter(|result| result["check"] == check)
            .map(|result| {
                let text = |name: &str| result[name].as_str().unwrap_or_default();
                let line = format!("{} | {}", text("message"), text("hint"));
                (text("result"), line)
            })
            .collect()
    }

    /// Checks the result of a check, and that its message or hint contains each of these words.
    #[track_caller]
    fn check(&self, check: &str, result: &str, words: &[&str]) {
        let results = self.results(check);
        let is_there = |(found, line): &(&str, String)| {
            *found == result && words.iter().all(|word| line.contains(word))
        };
        assert!(
            results.iter().any(is_there),
            "{check}: {result} {words:?}\n{:#}",
            self.0
        );
    }
}

#[test]
fn a_machine_without_a_session_is_checked_and_left_alone() {
    let world = World::new();
    let report = Report::of(&world);
    assert_eq!(report.1, 0);
    report.check("tmux", "ok", &["tmux "]);
    report.check("server", "ok", &["none runs on", "tmux"]);
    report.check("locale", "ok", &["LANG=C.UTF-8"]);
    report.check("config", "ok", &["defaults"]);
    report.check("state", "ok", &["state", "free"]);
    report.check("runtime", "ok", &["run", "free"]);
    report.check("session", "ok", &["`work` does not exist"]);
    report.check("daemon", "ok", &["none runs"]);
    assert_eq!(report.results("hooks"), []);
    // Nothing was started and nothing was created.
    for folder in ["state", "run"] {
        assert_eq!(fs::read_dir(world.path(folder)).unwrap().count(), 0);
    }
    let servers = fs::read_dir(world.path("tmux")).unwrap();
    assert_eq!(servers.count(), 0, "no server was started");
    let text = world.task(["doctor"]);
    assert!(text.ok().ends_with("warnings\n") || text.ok().ends_with("warning\n"));
    assert!(text.out.contains("ok    locale"), "{text}");
}

#[test]
fn a_supervised_session_is_in_order() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let report = Report::of(&world);
    assert_eq!(report.1, 0);
    let pid = world.daemon_pid().as_raw_nonzero();
    report.check("daemon", "ok", &[&format!("pid {pid}")]);
    report.check("session", "ok", &["`work`"]);
    report.check("hooks", "ok", &["in place"]);
    report.check("consumers", "ok", &["none"]);
    report.check("server", "ok", &["pid ", "version"]);
}

#[test]
fn without_tmux_the_rest_is_still_checked() {
    let mut world = World::new();
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    world.set("LANG", "C");
    let report = Report::of(&world);
    report.check("tmux", "fail", &["/no/such/tmux", "install tmux"]);
    report.check("locale", "warn", &["LANG=C", "UTF-8"]);
    report.check("state", "ok", &["free"]);
    let old = world.script("old-tmux", "#!/bin/sh\necho tmux 3.1c\n");
    world.set("TMUX_TASK_TMUX", old.to_str().unwrap());
    Report::of(&world).check("tmux", "fail", &["3.1c is too old", "3.2"]);
    world.set("TMUX_TASK_TMUX", "true");
    Report::of(&world).check("tmux", "fail", &["is not tmux"]);
    let stuck = world.script("stuck-tmux", "#!/bin/sh\nexec sleep 1000\n");
    world.set("TMUX_TASK_TMUX", stuck.to_str().unwrap());
    Report::of(&world).check("tmux", "fail", &["no answer within"]);
}

#[test]
fn a_server_and_a_daemon_that_are_stopped_are_named() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    let report = Report::of(&world);
    kill_process(daemon, Signal::CONT).unwrap();
    let resume = format!("kill -CONT {}", daemon.as_raw_nonzero());
    report.check("daemon", "fail", &["is stopped", &resume]);
    report.check("server", "ok", &["pid "]);
    let server = world.server();
    kill_process(server, Signal::STOP).unwrap();
    let report = Report::of(&world);
    kill_process(server, Signal::CONT).unwrap();
    let resume = format!("kill -CONT {}", server.as_raw_nonzero());
    report.check("server", "fail", &["is stopped", &resume]);
}

#[test]
fn a_daemon_that_was_killed_leaves_a_stale_socket() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.kill_daemon();
    let report = Report::of(&world);
    report.check("daemon", "warn", &[".sock", "daemon --detach"]);
    world.daemon();
    Report::of(&world).check("daemon", "ok", &["pid "]);
    world.task(["daemon", "stop"]).ok();
    let report = Report::of(&world);
    report.check(
        "daemon",
        "warn",
        &["nothing is recorded", "daemon --detach"],
    );
}

#[test]
fn hooks_of_the_users_that_hide_ours_are_found() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    let hide = |args: &[&str]| world.tmux([&["set-hook"], args].concat());
    hide(&["-t", "=work:", "alert-bell", "display-message ringing"]);
    hide(&["-w", "-t", &window, "pane-died", "display-message dead"]);
    world.tmux(["set-option", "-w", "-t", &window, "monitor-bell", "off"]);
    world.tmux(["set-option", "-t", "=work:", "bell-action", "none"]);
    let report = Report::of(&world);
    assert_eq!(report.1, 0, "events come late, and they come");
    report.check(
        "hooks",
        "warn",
        &["`alert-bell` on the session", "set-hook -u"],
    );
    let on_window = format!("`pane-died` on window {window}");
    report.check("hooks", "warn", &[&on_window, "set-hook -u -w"]);
    let bells = format!("bells of window {window}");
    report.check("hooks", "warn", &[&bells, "monitor-bell on"]);
    report.check(
        "hooks",
        "warn",
        &["bells of the session", "bell-action any"],
    );
    // A user's configuration that is read again replaces all hooks of a name.
    hide(&["-gw", "pane-died", "display-message dead"]);
    let report = Report::of(&world);
    report.check(
        "hooks",
        "warn",
        &["`pane-died` of tmux-task is gone", "[0]"],
    );
}

#[test]
fn folders_and_configuration_that_cannot_be_used_are_failures() {
    let mut world = World::new();
    fs::create_dir(world.path("conf/tmux-task")).unwrap();
    fs::write(world.path("conf/tmux-task/config.toml"), "notices = 3\n").unwrap();
    fs::set_permissions(world.path("run"), Permissions::from_mode(0o777)).unwrap();
    world.set("TMUX_TASK_STATE_DIR", "relative");
    let report = Report::of(&world);
    report.check("config", "fail", &["config.toml:1", "notices"]);
    report.check(
        "state",
        "fail",
        &["TMUX_TASK_STATE_DIR must be an absolute path"],
    );
    report.check("runtime", "fail", &["written to by other users", "0777"]);
    report.check("session", "fail", &["TMUX_TASK_STATE_DIR"]);
    report.check("tmux", "ok", &["tmux "]);
    fs::set_permissions(world.path("run"), Permissions::from_mode(0o700)).unwrap();
    symlink(world.path("run"), world.path("link")).unwrap();
    let link = world.path("link").display().to_string();
    world.set("TMUX_TASK_RUNTIME_DIR", &link);
    Report::of(&world).check("runtime", "fail", &["is a symbolic link"]);
    let file = world.path("conf/tmux-task/config.toml");
    world.set("TMUX_TASK_STATE_DIR", file.to_str().unwrap());
    Report::of(&world).check("state", "fail", &["cannot write to", "config.toml"]);
}

#[test]
fn one_fault_of_the_configuration_or_a_folder_is_one_failure() {
    let mut world = World::new();
    world.run("api", "true");
    world.task(["daemon", "stop"]).ok();
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "notices = 3\n").unwrap();
    let report = Report::of(&world);
    report.check("config", "fail", &["config.toml:1"]);
    assert_eq!(report.0["failures"], 1, "{:#}", report.0);
    fs::remove_file(&file).unwrap();
    symlink(world.path("run"), world.path("link")).unwrap();
    let link = world.path("link").display().to_string();
    world.set("TMUX_TASK_RUNTIME_DIR", &link);
    let report = Report::of(&world);
    assert!(report.results("consumers").is_empty(), "{:#}", report.0);
}

#[test]
fn it_works_where_nothing_does() {
    let mut world = World::new();
    for name in [
        "HOME",
        "PATH",
        "LANG",
        "TMUX_TASK_STATE_DIR",
        "XDG_STATE_HOME",
    ] {
        world.set(name, "");
    }
    let socket = world.path("not-a-socket");
    fs::write(&socket, "").unwrap();
    let mut command = world.command(World::program());
    let gone = world.path("gone");
    fs::create_dir(&gone).unwrap();
    command
        .args(["doctor", "-S"])
        .arg(&socket)
        .current_dir(&gone);
    let enter = "rmdir \"$PWD\" && exec \"$0\" \"$@\"";
    let mut shell = world.command("/bin/sh");
    shell
        .args(["-c", enter])
        .arg(command.get_program())
        .args(command.get_args())
        .current_dir(&gone);
    let output = Output::of(shell);
    assert_eq!(output.code, 1, "{output}");
    assert!(output.out.contains("fail  state"), "{output}");
    assert!(output.out.contains("fail  session"), "{output}");
    assert_eq!(output.err, "");
}

#[test]
fn a_session_name_that_cannot_be_is_a_usage_error() {
    let world = World::new();
    let output = world.task(["-s", "a.b", "doctor"]);
    assert_eq!(output.code, 2, "{output}");
}

#[test]
fn a_forgotten_consumer_is_named() {
    let world = World::new();
    world.run("api", "exit 1");
    world.until_deliveries(1);
    let mut reader = world.start(["feed", "--follow", "--consumer", "old", "--type", "exited"]);
    reader.records_until(|record| record["kind"] == "sync");
    reader.signal(Signal::TERM);
    reader.wait();
    world.task(["daemon", "stop"]).ok();
    Report::of(&world).check("consumers", "ok", &["1, none "]);
    // As if it had been left alone for long.
    let file = world.state("work").join("consumers/old");
    let mut saved: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    saved["usedAt"] = 0.into();
    fs::write(&file, saved.to_string()).unwrap();
    let report = Report::of(&world);
    report.check("consumers", "warn", &["`old`", "consumer rm old"]);
}

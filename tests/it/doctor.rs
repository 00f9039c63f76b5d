//! `doctor` finds faults of the machine, the server, the daemon and the session, and suggests what
//! to do. It is called when things are broken, so it must always return.

use std::fs;
use std::os::unix::fs::symlink;

use rustix::process::Signal;
use serde_json::Value;

use crate::silence::Stopped;
use crate::support::{Output, World, set_mode};

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
        let results = checks.filter(|result| result["check"] == check);
        let lines = results.map(|result| {
            let text = |name: &str| result[name].as_str().unwrap_or_default();
            let line = format!("{} | {}", text("message"), text("hint"));
            (text("result"), line)
        });
        lines.collect()
    }

    /// Checks results: each is that of a check, whose message or hint contains these words.
    #[track_caller]
    fn check<const N: usize>(&self, expected: [(&str, &str, &[&str]); N]) {
        for (check, result, words) in expected {
            let is_there = |(found, line): &(&str, String)| {
                *found == result && words.iter().all(|word| line.contains(word))
            };
            let is_there = self.results(check).iter().any(is_there);
            assert!(is_there, "{check}: {result} {words:?}\n{:#}", self.0);
        }
    }
}

#[test]
fn a_machine_without_a_session_is_checked_and_left_alone() {
    let world = World::new();
    let report = Report::of(&world);
    assert_eq!(report.1, 0);
    report.check([
        ("tmux", "ok", &["tmux "]),
        ("server", "ok", &["none runs on", "tmux"]),
        ("locale", "ok", &["LANG=C.UTF-8"]),
        ("config", "ok", &["defaults"]),
        ("state", "ok", &["state", "free"]),
        ("runtime", "ok", &["run", "free"]),
        ("session", "ok", &["`work` does not exist"]),
        ("daemon", "ok", &["none runs"]),
    ]);
    assert_eq!(report.results("hooks"), []);
    // Nothing was started and nothing was created.
    for folder in ["state", "run", "tmux"] {
        let left = fs::read_dir(world.path(folder)).unwrap();
        assert_eq!(left.count(), 0, "{folder}");
    }
    let text = world.task(["doctor"]);
    assert!(text.ok().ends_with("warnings\n") || text.ok().ends_with("warning\n"));
    text.shows("ok    locale");
}

#[test]
fn a_supervised_session_is_in_order_and_what_has_stopped_or_gone_is_named() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let report = Report::of(&world);
    assert_eq!(report.1, 0);
    let pid = format!("pid {}", world.daemon_pid().as_raw_nonzero());
    report.check([
        ("daemon", "ok", &[&pid]),
        ("session", "ok", &["`work`"]),
        ("hooks", "ok", &["in place"]),
        ("consumers", "ok", &["none"]),
        ("server", "ok", &["pid ", "version"]),
    ]);
    for (check, process) in [("daemon", world.daemon_pid()), ("server", world.server())] {
        let stopped = Stopped::new(process);
        let report = Report::of(&world);
        drop(stopped);
        let resume = format!("kill -CONT {}", process.as_raw_nonzero());
        report.check([(check, "fail", &["is stopped", &resume])]);
        if check == "daemon" {
            report.check([("server", "ok", &["pid "])]);
        }
    }
    let check = |result: &str, words: &[&str]| {
        Report::of(&world).check([("daemon", result, words)]);
    };
    // A killed one leaves a stale socket.
    world.kill_daemon();
    check("warn", &[".sock", "daemon --detach"]);
    world.daemon();
    check("ok", &["pid "]);
    world.task(["daemon", "stop"]).ok();
    check("warn", &["nothing is recorded", "daemon --detach"]);
}

#[test]
fn without_tmux_the_rest_is_still_checked() {
    let mut world = World::new();
    world.set("TMUX_TASK_TMUX", "/no/such/tmux");
    world.set("LANG", "C");
    Report::of(&world).check([
        ("tmux", "fail", &["/no/such/tmux", "install tmux"]),
        ("locale", "warn", &["LANG=C", "UTF-8"]),
        ("state", "ok", &["free"]),
    ]);
    let old = world.script("old-tmux", "#!/bin/sh\necho tmux 3.1c\n");
    let stuck = world.script("stuck-tmux", "#!/bin/sh\nexec sleep 1000\n");
    for (tmux, words) in [
        (old.to_str().unwrap(), &["3.1c is too old", "3.2"][..]),
        ("true", &["is not tmux"]),
        (stuck.to_str().unwrap(), &["no answer within"]),
    ] {
        world.set("TMUX_TASK_TMUX", tmux);
        Report::of(&world).check([("tmux", "fail", words)]);
    }
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
    let on_window = format!("`pane-died` on window {window}");
    let bells = format!("bells of window {window}");
    for words in [
        ["`alert-bell` on the session", "set-hook -u"],
        [&on_window, "set-hook -u -w"],
        [&bells, "monitor-bell on"],
        ["bells of the session", "bell-action any"],
    ] {
        report.check([("hooks", "warn", &words)]);
    }
    // A user's configuration that is read again replaces all hooks of a name.
    hide(&["-gw", "pane-died", "display-message dead"]);
    let gone = ["`pane-died` of tmux-task is gone", "[0]"];
    Report::of(&world).check([("hooks", "warn", &gone)]);
}

#[test]
fn folders_and_configuration_that_cannot_be_used_are_failures() {
    let mut world = World::new();
    world.configure("notices = 3\n");
    set_mode(world.path("run"), 0o777);
    world.set("TMUX_TASK_STATE_DIR", "relative");
    let must_be = "TMUX_TASK_STATE_DIR must be an absolute path";
    Report::of(&world).check([
        ("config", "fail", &["config.toml:1", "notices"]),
        ("state", "fail", &[must_be]),
        ("runtime", "fail", &["written to by other users", "0777"]),
        ("session", "fail", &["TMUX_TASK_STATE_DIR"]),
        ("tmux", "ok", &["tmux "]),
    ]);
    set_mode(world.path("run"), 0o700);
    symlink(world.path("run"), world.path("link")).unwrap();
    let link = world.path("link").display().to_string();
    world.set("TMUX_TASK_RUNTIME_DIR", &link);
    Report::of(&world).check([("runtime", "fail", &["is a symbolic link"])]);
    let file = world.config_file();
    world.set("TMUX_TASK_STATE_DIR", file.to_str().unwrap());
    Report::of(&world).check([("state", "fail", &["cannot write to", "config.toml"])]);
}

#[test]
fn one_fault_of_the_configuration_or_a_folder_is_one_failure() {
    let mut world = World::new();
    world.run("api", "true");
    world.task(["daemon", "stop"]).ok();
    world.configure("notices = 3\n");
    let report = Report::of(&world);
    report.check([("config", "fail", &["config.toml:1"])]);
    assert_eq!(report.0["failures"], 1, "{:#}", report.0);
    fs::remove_file(world.config_file()).unwrap();
    symlink(world.path("run"), world.path("link")).unwrap();
    let link = world.path("link").display().to_string();
    world.set("TMUX_TASK_RUNTIME_DIR", &link);
    let report = Report::of(&world);
    assert!(report.results("consumers").is_empty(), "{:#}", report.0);
}

#[test]
fn it_works_where_nothing_does() {
    let mut world = World::new();
    for name in "HOME PATH LANG TMUX_TASK_STATE_DIR XDG_STATE_HOME".split(' ') {
        world.set(name, "");
    }
    let socket = world.path("not-a-socket");
    fs::write(&socket, "").unwrap();
    let gone = world.path("gone");
    fs::create_dir(&gone).unwrap();
    let mut shell = world.command("/bin/sh");
    let line = format!(
        "rmdir \"$PWD\" && exec '{}' doctor -S '{}'",
        World::program().display(),
        socket.display()
    );
    shell.args(["-c", &line]).current_dir(&gone);
    let output = Output::of(shell);
    output.fails_with(1);
    output.shows("fail  state").shows("fail  session");
    assert_eq!(output.err, "");
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
    Report::of(&world).check([("consumers", "ok", &["1, none "])]);
    // As if it had been left alone for long.
    let file = world.state("work").join("consumers/old");
    let mut saved: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    saved["usedAt"] = 0.into();
    fs::write(&file, saved.to_string()).unwrap();
    let old = ["`old`", "consumer rm old"];
    Report::of(&world).check([("consumers", "warn", &old)]);
}

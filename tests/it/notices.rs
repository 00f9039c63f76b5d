//! Desktop notices against a real bus and a real notifier.
//!
//! The sink reads the bus's address from its environment, so each story runs in a child: this
//! test binary, with only [`child`].

#![allow(clippy::unwrap_used, reason = "a test that fails may panic anywhere")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tmux_task::model::Level;
use tmux_task::notice::{Desktop, DesktopError, DesktopNotice};

use crate::support::World;

/// The notices that the child shows: a JSON list of `[level, title, body]`.
const STORY: &str = "TMUX_TASK_IT_NOTICES";

/// Far longer than anything here takes on a busy machine: reaching it is a hang.
const DEADLINE: Duration = Duration::from_secs(30);

/// Shows the notices in [`STORY`] and writes each outcome to stderr, beside the log.
#[test]
#[ignore = "a part of the other tests here, which run it in an environment of its own"]
fn child() {
    let Ok(story) = std::env::var(STORY) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let notices: Vec<(String, String, String)> = serde_json::from_str(&story).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut desktop = Desktop::new(tokio::sync::mpsc::channel(1).0);
        for (level, title, body) in notices {
            let level = match level.as_str() {
                "warning" => Level::Warning,
                _ => Level::Info,
            };
            let notice = DesktopNotice {
                level,
                title,
                body,
                slot: None,
                action: None,
            };
            let outcome = match desktop.show(&notice).await {
                Ok(()) => "shown",
                Err(DesktopError::NoBus) => "no bus",
                Err(DesktopError::NoNotifier) => "no notifier",
                Err(DesktopError::TimedOut { .. }) => "timed out",
                Err(DesktopError::Failed { .. }) => "failed",
            };
            eprintln!("outcome: {outcome}");
        }
    });
}

#[test]
fn hostile_text_is_shown_as_the_text_it_is() {
    let desk = Desk::start();
    let title = "api <b>bold</b> & \"quoted\" 🎉\nsecond\0 line";
    let body = "<b>not bold</b> & <img src='x'> &amp; \"double\" 'single'\n  indented 日本 🎉\n\n\u{1b}[31mred\u{1b}[0m\0 end";
    let report = desk.show(&json!([
        ["warning", title, body],
        ["info", "second", "plain"]
    ]));
    assert_eq!(report.outcomes, ["shown", "shown"], "{report}");

    desk.wait_for_count("displayed", "2");
    desk.dunstctl(&["close-all"]);
    desk.wait_for_count("history", "2");
    let history = desk.history();
    let hostile = find(
        &history,
        "summary",
        "api <b>bold</b> & \"quoted\" 🎉 second line",
    );
    let plain = find(&history, "summary", "second");

    assert_eq!(hostile["appname"]["data"], "tmux-task");
    let shown =
        "<b>not bold</b> & <img src='x'> &amp; \"double\" 'single'\n  indented 日本 🎉\n\nred end";
    assert_eq!(text_of(&hostile["body"]), shown);
    assert_eq!(
        text_of(&hostile["message"]),
        format!("NORMAL api <b>bold</b> & \"quoted\" 🎉 second line\n{shown}")
    );
    assert_eq!(text_of(&plain["message"]), "LOW second\nplain");
}

#[test]
fn without_a_bus_nothing_is_tried_and_the_log_says_so_once() {
    let paths = tempfile::tempdir().unwrap();
    let report = show(
        &json!([["info", "a", "b"], ["info", "c", "d"]]),
        &[("XDG_RUNTIME_DIR", paths.path().to_str().unwrap())],
    );
    assert_eq!(report.outcomes, ["no bus", "no bus"], "{report}");
    assert_eq!(report.n_warnings(), 1, "{report}");
}

#[test]
fn a_bus_without_a_notification_server_is_distinguished() {
    let paths = tempfile::tempdir().unwrap();
    let (_bus, address) = start_bus(&paths);
    let report = show(
        &json!([["info", "a", "b"], ["info", "c", "d"]]),
        &[("DBUS_SESSION_BUS_ADDRESS", &address)],
    );
    assert_eq!(report.outcomes, ["no notifier", "no notifier"], "{report}");
    assert_eq!(report.n_warnings(), 1, "{report}");
}

/// What `doctor` says of the desktop whose bus has this address.
#[track_caller]
fn check_doctor(address: &str, result: &str, words: &str) {
    let mut world = World::new();
    world.set("DBUS_SESSION_BUS_ADDRESS", address);
    let output = world.task(["doctor", "--json"]);
    let report: Value = serde_json::from_str(output.ok()).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == "desktop");
    let found = found.expect("the desktop is checked");
    assert_eq!(found["result"], result, "{found}");
    assert!(
        found["message"].as_str().unwrap().contains(words),
        "{found}"
    );
}

#[test]
fn doctor_says_whether_notices_reach_the_desktop() {
    let desk = Desk::start();
    check_doctor(&desk.address, "ok", "dunst");
    let paths = tempfile::tempdir().unwrap();
    let (_bus, address) = start_bus(&paths);
    check_doctor(&address, "warn", "no notifier is running");
    let stuck = paths.path().join("stuck");
    let _listener = UnixListener::bind(&stuck).unwrap();
    let address = format!("unix:path={}", stuck.display());
    check_doctor(&address, "warn", "did not answer within");
}

#[test]
fn a_bus_that_is_gone_is_a_quiet_failure() {
    let report = show(
        &json!([["info", "a", "b"], ["info", "c", "d"]]),
        &[("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere/at/all")],
    );
    assert_eq!(report.outcomes, ["failed", "failed"], "{report}");
    assert_eq!(report.n_warnings(), 1, "{report}");
}

#[test]
fn a_bus_that_never_answers_does_not_hold_us() {
    let paths = tempfile::tempdir().unwrap();
    let socket = paths.path().join("bus");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            held.push(stream);
        }
    });
    let address = format!("unix:path={}", socket.display());
    let report = show(
        &json!([["info", "a", "b"]]),
        &[("DBUS_SESSION_BUS_ADDRESS", &address)],
    );
    assert_eq!(report.outcomes, ["timed out"], "{report}");
    assert_eq!(report.n_warnings(), 1, "{report}");
}

#[test]
fn a_notifier_that_hangs_does_not_hold_us() {
    let desk = Desk::start();
    kill_process(Pid::from_child(&desk.dunst.0), Signal::STOP).unwrap();
    let report = desk.show(&json!([["info", "a", "b"]]));
    assert_eq!(report.outcomes, ["timed out"], "{report}");
}

/// A screen, a bus and a notifier of our own.
pub(crate) struct Desk {
    dunst: Running,
    pub(crate) address: String,
    paths: TempDir,
    bus: Running,
    _screen: Running,
    screen_number: String,
}

impl Desk {
    pub(crate) fn start() -> Self {
        let paths = tempfile::tempdir().unwrap();
        let (screen, number) = start(
            program("Xvfb", paths.path())
                .args(["-displayfd", "1", "-screen", "0", "800x600x24"])
                .args(["-nolisten", "tcp", "-noreset"]),
        );
        let (bus, address) = start_bus(&paths);
        let dunst = start_dunst(&paths, &number, &address);
        let desk = Self {
            dunst,
            address,
            paths,
            bus,
            _screen: screen,
            screen_number: number,
        };
        desk.wait_for_count("displayed", "0");
        desk
    }

    /// Ends the notifier, which forgets what it shows, and starts it again.
    pub(crate) fn restart_notifier(&mut self) {
        // The first one has to give up its name before.
        self.dunst.end();
        self.dunst = start_dunst(&self.paths, &self.screen_number, &self.address);
        self.wait_for_count("displayed", "0");
    }

    /// Ends the bus and starts it again, and with it the notifier.
    pub(crate) fn restart_bus(&mut self) {
        self.bus.end();
        self.bus = start_bus(&self.paths).0;
        self.restart_notifier();
    }

    pub(crate) fn show_another_programs(&self, title: &str) {
        let report = self.show(&json!([["info", title, "of another program"]]));
        assert_eq!(report.outcomes, ["shown"], "{report}");
    }

    fn show(&self, story: &Value) -> Report {
        show(story, &[("DBUS_SESSION_BUS_ADDRESS", &self.address)])
    }

    /// Runs `dunstctl` and returns what it printed, or why it failed.
    fn try_dunstctl(&self, args: &[&str]) -> Result<String, String> {
        let output = program("dunstctl", self.paths.path())
            .args(args)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address)
            .output()
            .unwrap_or_else(|error| missing("dunstctl", &error));
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    #[track_caller]
    pub(crate) fn dunstctl(&self, args: &[&str]) -> String {
        self.try_dunstctl(args).unwrap()
    }

    /// Waits until dunst counts `expected` notices that are `kind` (displayed, history).
    #[track_caller]
    pub(crate) fn wait_for_count(&self, kind: &str, expected: &str) {
        let until = Instant::now() + DEADLINE;
        loop {
            let seen = self.try_dunstctl(&["count", kind]);
            if seen.as_deref().map(str::trim) == Ok(expected) {
                return;
            }
            assert!(
                Instant::now() < until,
                "never {expected} {kind}, last seen: {seen:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The closed notices.
    pub(crate) fn history(&self) -> Vec<Value> {
        // `dunstctl history` asks with busctl.
        assert!(is_installed("busctl"), "busctl is missing: install systemd");
        let history: Value = serde_json::from_str(&self.dunstctl(&["history"])).unwrap();
        history["data"][0].as_array().unwrap().clone()
    }
}

#[track_caller]
fn find<'a>(history: &'a [Value], field: &str, data: &str) -> &'a Value {
    history
        .iter()
        .find(|notice| notice[field]["data"] == data)
        .unwrap_or_else(|| panic!("no notice with {field} {data:?} in {history:#?}"))
}

/// What a field of markup shows. There are no tags of dunst's own in it, so one that is seen
/// here came from us.
fn text_of(field: &Value) -> String {
    let markup = field["data"].as_str().unwrap();
    assert!(!markup.contains(['<', '>']), "a tag in {markup:?}");
    markup
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

/// What the child said.
struct Report {
    outcomes: Vec<String>,
    stderr: String,
}

impl Report {
    fn n_warnings(&self) -> usize {
        self.stderr.matches(" WARN ").count()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the child wrote:\n{}", self.stderr)
    }
}

/// Shows `story` in an environment that contains only `env`. A child that hangs is killed.
#[track_caller]
fn show(story: &Value, env: &[(&str, &str)]) -> Report {
    let mut process = Running(
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "notices::child", "--ignored", "--nocapture"])
            .env_clear()
            .envs(env.iter().copied())
            .env(STORY, story.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut pipe = process.0.stderr.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stderr = String::new();
        let read = pipe.read_to_string(&mut stderr);
        sender.send(read.map(|_| stderr))
    });
    let stderr = receiver
        .recv_timeout(DEADLINE)
        .expect("the child hangs")
        .unwrap();
    assert!(process.0.wait().unwrap().success(), "{stderr}");
    let outcomes = stderr
        .lines()
        .filter_map(|line| line.strip_prefix("outcome: "))
        .map(str::to_owned)
        .collect();
    Report { outcomes, stderr }
}

/// A notifier from which nothing goes by itself, and which says how urgent things are.
fn start_dunst(paths: &TempDir, screen_number: &str, address: &str) -> Running {
    let conf = paths.path().join("dunstrc");
    let settings = "[urgency_low]\ntimeout = 0\nformat = \"LOW %s\\n%b\"\n\
        [urgency_normal]\ntimeout = 0\nformat = \"NORMAL %s\\n%b\"\n";
    std::fs::write(&conf, settings).unwrap();
    let dunst = program("dunst", paths.path())
        .arg("-conf")
        .arg(&conf)
        .env("DISPLAY", format!(":{screen_number}"))
        .env("DBUS_SESSION_BUS_ADDRESS", address)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| missing("dunst", &error));
    Running(dunst)
}

/// A bus that starts no services.
fn start_bus(paths: &TempDir) -> (Running, String) {
    let conf = paths.path().join("bus.conf");
    let settings = format!(
        r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
           <busconfig>
             <type>session</type>
             <listen>unix:path={}</listen>
             <policy context="default">
               <allow send_destination="*" eavesdrop="true"/>
               <allow eavesdrop="true"/>
               <allow own="*"/>
             </policy>
           </busconfig>"#,
        paths.path().join("bus").display()
    );
    std::fs::write(&conf, settings).unwrap();
    let (bus, address) = start(
        program("dbus-daemon", paths.path())
            .args(["--nofork", "--print-address=1"])
            .arg(format!("--config-file={}", conf.display())),
    );
    // Another bus there has another id.
    let (path, _id) = address.split_once(',').unwrap();
    (bus, path.to_owned())
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

impl Running {
    fn end(&mut self) {
        // SIGTERM first, because a killed X server leaves its socket and lock behind; a stopped
        // process receives it when it continues. All of this fails if the process has ended.
        let pid = Pid::from_child(&self.0);
        if matches!(self.0.try_wait(), Ok(None)) {
            kill_process(pid, Signal::TERM).ok();
            kill_process(pid, Signal::CONT).ok();
        }
        let until = Instant::now() + Duration::from_secs(5);
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Starts a program that says on the first line of its stdout that, and where, it is ready.
#[track_caller]
fn start(command: &mut Command) -> (Running, String) {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut process = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map(Running)
        .unwrap_or_else(|error| missing(&name, &error));
    let stdout = process.0.stdout.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        sender.send(read.map(|_| line))
    });
    let line = receiver
        .recv_timeout(DEADLINE)
        .unwrap_or_else(|_| panic!("{name} never became ready"))
        .unwrap();
    assert!(!line.trim().is_empty(), "{name} ended at once");
    (process, line.trim().to_owned())
}

/// A command for `name` with a private environment, whose HOME is `paths`.
fn program(name: &str, paths: &Path) -> Command {
    assert!(is_installed(name), "{name} is missing: install it");
    let mut command = Command::new(name);
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("LANG", "C.UTF-8")
        .env("HOME", paths)
        .env("XDG_RUNTIME_DIR", paths)
        .stdin(Stdio::null());
    command
}

fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|dir| dir.join(name).is_file())
}

#[track_caller]
fn missing(name: &str, error: &std::io::Error) -> ! {
    panic!("{name} cannot be started, these tests need it: {error}")
}

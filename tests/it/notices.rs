//! Desktop notices against a real bus and a real notifier.
//!
//! The sink reads the bus's address from its environment, so each story runs in a child: this
//! test binary, with only [`child`].

#![allow(clippy::unwrap_used, reason = "a test that fails may panic anywhere")]

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tmux_task::model::Level;
use tmux_task::outlets::notice::{Desktop, DesktopError, DesktopNotice};

use crate::support::{DEADLINE, Output, Running, World, has, is_installed};

/// The notices that the child shows: a JSON list of `[level, title, body]`.
const STORY: &str = "TMUX_TASK_IT_NOTICES";

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
                Err(DesktopError::TimedOut) => "timed out",
                Err(DesktopError::Failed { .. }) => "failed",
            };
            eprintln!("outcome: {outcome}");
        }
    });
}

#[test]
fn what_keeps_notices_from_the_desktop_is_distinguished_and_logged_once() {
    let paths = tempfile::tempdir().unwrap();
    let (_bus, address) = start_bus(&paths);
    let (_stuck, never) = stuck_bus(&paths);
    let two = json!([["info", "a", "b"], ["info", "c", "d"]]);
    let one = json!([["info", "a", "b"]]);
    let bus = "DBUS_SESSION_BUS_ADDRESS";
    let nowhere = "unix:path=/nowhere/at/all";
    for (story, variable, value, outcomes) in [
        (
            &two,
            "XDG_RUNTIME_DIR",
            "/nowhere",
            &["no bus", "no bus"][..],
        ),
        (&two, bus, &*address, &["no notifier", "no notifier"]),
        (&two, bus, nowhere, &["failed", "failed"]),
        (&one, bus, &*never, &["timed out"]),
    ] {
        let (found, err) = show(story, &[(variable, value)]);
        assert_eq!(found, outcomes, "{err}");
        assert_eq!(err.matches(" WARN ").count(), 1, "{outcomes:?}: {err}");
    }
    // A notifier that hangs does not hold us either.
    let desk = Desk::start();
    desk.dunst.signal(Signal::STOP);
    let (found, err) = show(&one, &[(bus, &desk.address)]);
    assert_eq!(found, ["timed out"], "{err}");
}

/// A bus that never answers, and its address.
fn stuck_bus(paths: &TempDir) -> (UnixListener, String) {
    let path = paths.path().join("stuck");
    let listener = UnixListener::bind(&path).unwrap();
    (listener, format!("unix:path={}", path.display()))
}

/// What `doctor` says of the desktop whose bus has this address.
#[track_caller]
fn check_doctor(address: &str, result: &str, words: &str) {
    let mut world = World::new();
    world.set("DBUS_SESSION_BUS_ADDRESS", address);
    let report = world.json(["doctor", "--json"]);
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == "desktop");
    let found = found.expect("the desktop is checked");
    assert_eq!(found["result"], result, "{found}");
    has(found["message"].as_str().unwrap(), words);
}

#[test]
fn doctor_says_whether_notices_reach_the_desktop() {
    let desk = Desk::start();
    check_doctor(&desk.address, "ok", "dunst");
    let paths = tempfile::tempdir().unwrap();
    let (_bus, address) = start_bus(&paths);
    check_doctor(&address, "warn", "no notifier is running");
    let (_stuck, never) = stuck_bus(&paths);
    check_doctor(&never, "warn", "did not answer within");
}

/// A screen, a bus and a notifier of our own.
pub(crate) struct Desk {
    dunst: Running,
    pub(crate) address: String,
    paths: TempDir,
    bus: Running,
    screen: Running,
    screen_number: String,
}

impl Desk {
    pub(crate) fn start() -> Self {
        let paths = tempfile::tempdir().unwrap();
        let mut screen = program("Xvfb", paths.path());
        screen
            .args(["-displayfd", "1", "-screen", "0", "800x600x24"])
            .args(["-nolisten", "tcp", "-noreset"]);
        let screen = Running::start(screen);
        let number = screen.line();
        let (bus, address) = start_bus(&paths);
        let dunst = start_dunst(&paths, &number, &address);
        let desk = Self {
            dunst,
            address,
            paths,
            bus,
            screen,
            screen_number: number,
        };
        desk.wait_for_count("displayed", "0");
        desk
    }

    /// Ends the notifier, which forgets what it shows, and starts it again.
    pub(crate) fn restart_notifier(&mut self) {
        // The first one has to give up its name before.
        end(&mut self.dunst);
        self.dunst = start_dunst(&self.paths, &self.screen_number, &self.address);
        self.wait_for_count("displayed", "0");
    }

    /// Ends the bus and starts it again, and with it the notifier.
    pub(crate) fn restart_bus(&mut self) {
        end(&mut self.bus);
        self.bus = start_bus(&self.paths).0;
        self.restart_notifier();
    }

    pub(crate) fn show_another_programs(&self, title: &str) {
        self.show(&json!([["info", title, "of another program"]]));
    }

    /// Shows all of these notices.
    #[track_caller]
    fn show(&self, story: &Value) {
        let address = ("DBUS_SESSION_BUS_ADDRESS", &*self.address);
        let (outcomes, err) = show(story, &[address]);
        assert!(outcomes.iter().all(|outcome| outcome == "shown"), "{err}");
    }

    /// Runs `dunstctl`, which fails while the notifier starts.
    fn try_dunstctl(&self, args: &[&str]) -> Output {
        let mut dunstctl = program("dunstctl", self.paths.path());
        dunstctl
            .args(args)
            .env("DBUS_SESSION_BUS_ADDRESS", &self.address);
        Output::of(dunstctl)
    }

    #[track_caller]
    pub(crate) fn dunstctl(&self, args: &[&str]) -> String {
        self.try_dunstctl(args).ok().to_owned()
    }

    /// Waits until dunst counts `expected` notices that are `kind` (displayed, history).
    #[track_caller]
    pub(crate) fn wait_for_count(&self, kind: &str, expected: &str) {
        let until = Instant::now() + DEADLINE;
        loop {
            let seen = self.try_dunstctl(&["count", kind]);
            if seen.code == 0 && seen.out.trim() == expected {
                return;
            }
            assert!(Instant::now() < until, "never {expected} {kind}: {seen}");
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

impl Drop for Desk {
    fn drop(&mut self) {
        end(&mut self.screen);
    }
}

/// Ends a process. A killed X server leaves its socket and lock behind, so it is terminated; a stopped
/// process receives that when it continues.
fn end(process: &mut Running) {
    for signal in [Signal::TERM, Signal::CONT] {
        // It may have ended.
        kill_process(process.pid(), signal).ok();
    }
    process.wait();
}

/// Shows `story` in an environment that contains only `env`. Returns the outcomes, and all that the child
/// wrote to stderr.
#[track_caller]
fn show(story: &Value, env: &[(&str, &str)]) -> (Vec<String>, String) {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "notices::child", "--ignored", "--nocapture"])
        .env_clear()
        .envs(env.iter().copied())
        .env(STORY, story.to_string())
        .stdin(Stdio::null());
    let output = Output::of(child);
    output.ok();
    let outcomes = output
        .err
        .lines()
        .filter_map(|line| line.strip_prefix("outcome: "));
    (outcomes.map(str::to_owned).collect(), output.err)
}

/// A notifier from which nothing goes by itself, and which says how urgent things are.
fn start_dunst(paths: &TempDir, screen_number: &str, address: &str) -> Running {
    let conf = paths.path().join("dunstrc");
    let settings = "[urgency_low]\ntimeout = 0\nformat = \"LOW %s\\n%b\"\n\
        [urgency_normal]\ntimeout = 0\nformat = \"NORMAL %s\\n%b\"\n";
    std::fs::write(&conf, settings).unwrap();
    let mut dunst = program("dunst", paths.path());
    dunst
        .arg("-conf")
        .arg(&conf)
        .env("DISPLAY", format!(":{screen_number}"))
        .env("DBUS_SESSION_BUS_ADDRESS", address);
    Running::start(dunst)
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
    let mut bus = program("dbus-daemon", paths.path());
    bus.args(["--nofork", "--print-address=1"])
        .arg(format!("--config-file={}", conf.display()));
    let bus = Running::start(bus);
    let address = bus.line();
    // Another bus there has another id.
    let (path, _id) = address.split_once(',').unwrap();
    (bus, path.to_owned())
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

//! The daemon as a service: its notifications to the service manager, and the installed files.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::support::{DEADLINE, Output, Running, World};

/// A service manager's socket.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(world: &World) -> Self {
        let path = world.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { socket, path }
    }

    /// Starts the daemon as a service does.
    fn start(&self, world: &World, watchdog_usec: &str) -> Running {
        let mut command = world.command(World::program());
        command
            .arg("daemon")
            .env("NOTIFY_SOCKET", &self.path)
            .env("WATCHDOG_USEC", watchdog_usec);
        Running::start(command)
    }

    #[track_caller]
    fn message(&self) -> String {
        let mut bytes = [0; 4096];
        let n = self.socket.recv(&mut bytes).expect("a message comes");
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    /// Reads messages until one is as expected.
    #[track_caller]
    fn until(&self, expected: &str) {
        let mut before = Vec::new();
        loop {
            let message = self.message();
            if message == expected {
                return;
            }
            before.push(message);
            assert!(before.len() < 1000, "never came: {expected}\n{before:?}");
        }
    }

    fn is_silent(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let mut bytes = [0; 4096];
        self.socket.recv(&mut bytes).is_err()
    }
}

#[test]
fn a_service_manager_is_told_when_the_daemon_is_ready_works_and_stops() {
    let world = World::new();
    let manager = Manager::new(&world);
    // One that a command has started makes room for it, as the unit does.
    let gate = world.gate("gate");
    world.run("old", &format!("{gate}; exit 3"));
    let before = world.until_deliveries(1);
    world.task(["daemon", "stop"]).ok();
    let mut daemon = manager.start(&world, "200000");
    manager.until("READY=1");
    gate.open();
    let records = world.until_delivered("exited", "old");
    assert_eq!(records[..before.len()], before);
    // What was promised is true.
    assert_eq!(
        world.daemon_status()["pid"],
        i64::from(daemon.pid().as_raw_nonzero().get())
    );
    manager.until("WATCHDOG=1");
    world.run("api", "exec sleep 1000");
    manager.until("STATUS=session work, tmux: 2 tasks");
    manager.until("WATCHDOG=1");
    daemon.signal(Signal::TERM);
    manager.until("STOPPING=1");
    assert_eq!(daemon.wait(), 0);
    // The task and its server do not belong to the service.
    let dead = world.tmux(["list-panes", "-a", "-F", "#{pane_dead}"]);
    assert_eq!(dead, "1\n0");
}

#[test]
fn only_the_process_that_the_service_manager_started_speaks_to_it() {
    let mut world = World::new();
    let manager = Manager::new(&world);
    let socket = manager.path.display().to_string();
    world.set("NOTIFY_SOCKET", &socket);
    world.set("WATCHDOG_USEC", "200000");
    world.run("api", "echo \"<$NOTIFY_SOCKET>\"; exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    world.look();
    world.task(["daemon", "stop"]).ok();
    assert!(manager.is_silent());
    // And no tmux server has its address.
    let environment = world.tmux(["show-environment", "-g"]);
    assert!(!environment.contains("NOTIFY_SOCKET"), "{environment}");
}

fn unit() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("hooks/service/tmux-task@.service")
}

#[test]
fn the_unit_is_what_systemd_understands() {
    let world = World::new();
    let text = fs::read_to_string(unit()).unwrap();
    for line in "Type=notify Restart=on-failure KillMode=process WantedBy=default.target".split(' ')
    {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
    let verifies = Command::new("systemd-analyze").arg("--version").output();
    if !verifies.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    // For an instance, with the program where it is.
    let program = World::program().display().to_string();
    let text = text.replace("%h/.cargo/bin/tmux-task", &program);
    let folder = world.path("units");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("tmux-task@.service"), &text).unwrap();
    let verify = |unit: &str| {
        let mut command = world.command("systemd-analyze");
        command
            .args(["verify", "--user", "--man=no"])
            .arg(folder.join(unit));
        Output::of(command)
    };
    let verified = verify("tmux-task@shop.service");
    assert_eq!(verified.code, 0, "{verified}");
    assert!(!verified.err.contains("tmux-task@"), "{verified}");
    // It does see faults.
    let wrong = text.replace("KillMode=process", "KillMode=gently\nRestrat=always");
    fs::write(folder.join("tmux-task@.service"), wrong).unwrap();
    let verified = verify("tmux-task@shop.service");
    assert!(
        verified.err.contains("kill mode") && verified.err.contains("Restrat"),
        "{verified}"
    );
}

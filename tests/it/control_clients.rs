//! The control clients of a daemon, and those that a killed daemon has left behind.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{World, all_told, events, has_ended, pid, show, story};

/// Control clients that attach in two steps: the second one waits for the test. Until then tmux
/// knows that they are control clients, and has nothing else of them.
struct SlowAttach {
    /// Clients are slow while this file exists.
    enabled: PathBuf,
    /// Exists when a client has done its first step.
    begun: PathBuf,
    /// The second step waits for this file.
    go: PathBuf,
}

impl SlowAttach {
    fn new(world: &mut World) -> Self {
        let slow = Self {
            enabled: world.path("enabled"),
            begun: world.path("begun"),
            go: world.path("go"),
        };
        let program = SOURCE
            .replace("BEGUN", &format!("{:?}", slow.begun))
            .replace("GO", &format!("{:?}", slow.go));
        let library = world.c_library("attach", &program);
        let (enabled, library) = (slow.enabled.display(), library.display());
        wrap_tmux(
            world,
            &format!("*' -C '*) [ ! -e '{enabled}' ] || export LD_PRELOAD='{library}' ;;"),
        );
        slow
    }
}

/// Puts a tmux in front of `PATH` that does something before, by its command line: branches of a `case`.
fn wrap_tmux(world: &mut World, branches: &str) {
    let tmux = world.shell("command -v tmux");
    let tmux = tmux.ok().trim();
    world.install(
        "tmux",
        &format!("case \" $* \" in\n{branches}\nesac\nexec '{tmux}' \"$@\""),
    );
}

/// The first message of a client to its server contains its flags, the last one says that it is
/// complete. tmux sends them in several parts, because two of them carry descriptors.
const SOURCE: &str = r"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    static ssize_t (*real)(int, const struct msghdr *, int);
    static int n;
    if (!real)
        real = dlsym(RTLD_NEXT, __func__);
    ssize_t sent = real(socket, message, flags);
    if (n++ == 0) {
        close(open(BEGUN, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        while (access(GO, F_OK) != 0)
            usleep(5000);
    }
    return sent;
}
";

/// Stopped processes, which continue when this is dropped.
struct Stopped(Vec<Pid>);

impl Stopped {
    fn stop(pids: Vec<Pid>) -> Self {
        for pid in &pids {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        Self(pids)
    }

    /// Whether one of them has been asked to end, which it does not notice yet.
    fn is_asked_to_end(&self) -> bool {
        self.0.iter().any(|pid| {
            let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
            let pending = status.unwrap_or_default();
            let mut pending = pending
                .lines()
                .filter_map(|line| line.strip_prefix("ShdPnd:"))
                .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
            let bit = 1 << (Signal::TERM.as_raw() - 1);
            pending.any(|mask| mask & bit != 0)
        })
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in &self.0 {
            // It may be gone.
            let _is_gone = kill_process(*pid, Signal::CONT).is_err();
        }
    }
}

fn control_clients(world: &World) -> Vec<Pid> {
    let listed = world.tmux(["list-clients", "-F", "#{client_control_mode} #{client_pid}"]);
    let ours = listed.lines().filter_map(|line| line.strip_prefix("1 "));
    ours.map(|number| pid(number.parse().unwrap())).collect()
}

/// tmux up to 3.5a ends with all sessions when a client detaches while a control client attaches. The clients
/// are found as processes, so it does not matter how far the killed daemon had come.
#[test]
fn a_daemon_attaches_when_the_clients_of_a_killed_one_have_left() {
    let mut world = World::new();
    let slow = SlowAttach::new(&mut world);
    world.run("api", "exec sleep 100000");
    let server = world.server();
    let left_behind = control_clients(&world);
    assert_eq!(left_behind.len(), 2);
    let stopped = Stopped::stop(left_behind.clone());
    world.kill_daemon();
    fs::write(&slow.enabled, "").unwrap();
    let mut starting = world.start(["daemon", "--detach"]);
    world.until_true("they are to leave, or others attach", || {
        stopped.is_asked_to_end() || slow.begun.exists()
    });
    drop(stopped);
    world.until_true("they have left", || {
        left_behind.iter().all(|pid| has_ended(*pid))
    });
    assert_eq!(world.server(), server);
    world.until_true("others attach", || slow.begun.exists());
    fs::write(&slow.go, "").unwrap();
    assert_eq!(starting.wait(), 0);
    assert_eq!(world.server(), server);
    let now = control_clients(&world);
    assert_eq!(now.len(), 2);
    assert!(now.iter().all(|pid| !left_behind.contains(pid)));
}

/// Short clients that lose their connection to the server while a file exists, and say what tmux says
/// then.
struct LosingClients {
    enabled: PathBuf,
    lost: PathBuf,
}

impl LosingClients {
    fn new(world: &mut World) -> Self {
        let losing = Self {
            enabled: world.path("enabled"),
            lost: world.path("lost"),
        };
        let (enabled, lost) = (losing.enabled.display(), losing.lost.display());
        wrap_tmux(
            world,
            &format!(
                "*' -C '* | *' -V '*) ;;\n*) [ ! -e '{enabled}' ] || {{\n\
                 echo lost >>'{lost}'; echo 'server exited unexpectedly' >&2; exit 1; }} ;;"
            ),
        );
        losing
    }

    fn enable(&self) {
        fs::write(&self.enabled, "").unwrap();
    }

    /// Waits until several looks have lost their clients, and lets the next ones keep theirs.
    fn disable_after_some(&self, world: &World) {
        world.until_true("clients lose their connections", || {
            fs::read_to_string(&self.lost).is_ok_and(|lost| lost.lines().count() >= 2)
        });
        fs::remove_file(&self.enabled).unwrap();
    }
}

#[test]
fn a_client_that_loses_its_connection_says_nothing_about_the_server() {
    let mut world = World::new();
    let losing = LosingClients::new(&mut world);
    for name in ["api", "web"] {
        world.run(name, "exec sleep 100000");
    }
    world.until("both starts are delivered", |records| {
        events(records).len() == 2 && all_told(records)
    });
    let before = world.records().len();
    let clients = control_clients(&world);
    losing.enable();
    for client in &clients {
        // The daemon may have let the other ones go already.
        kill_process(*client, Signal::TERM).unwrap_or_default();
    }
    losing.disable_after_some(&world);
    let attached = || {
        let listed = world.tmux(["list-clients", "-F", "#{client_control_mode}"]);
        listed.lines().count() == 2
    };
    world.until_true("the daemon attaches again", attached);
    let tasks = world.look()["tasks"].clone();
    assert_eq!(tasks.as_array().unwrap().len(), 2);
    assert_eq!(world.records().len(), before, "{}", show(&world.records()));
}

#[test]
fn what_exists_before_a_daemon_is_no_news_to_it_although_its_first_clients_are_lost() {
    let mut world = World::new();
    let losing = LosingClients::new(&mut world);
    world.run_alone("work", "api", "exec sleep 100000");
    losing.enable();
    let mut starting = world.start(["daemon", "--detach"]);
    losing.disable_after_some(&world);
    assert_eq!(starting.wait(), 0);
    world.run("web", "exec sleep 100000");
    world.until_delivered("started", "web");
    let records = world.records();
    assert!(
        story(&records).iter().all(|line| !line.contains("api")),
        "{}",
        show(&records)
    );
}

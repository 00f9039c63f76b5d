//! Machines with an sshd each, and one from which ssh reaches them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::support::{Far, World, machines};
use super::world::SESSION;

/// The conversation on the near machine.
pub(crate) const HOST_OWNER: &str = "opencode:here";

/// How long bytes wait in a relay, in each direction. With what it takes itself, a round trip is half a
/// millisecond and some.
const DELAY: Duration = Duration::from_micros(200);

/// Conversations get as many messages as there are.
const SETTINGS: &str = "[agents]\nmax-per-minute = 10000\n";

pub(crate) struct Machines {
    pub(crate) near: World,
    far: Vec<Far>,
}

impl Machines {
    /// Returns so many machines, `is_slow` says whether the link to them is as slow as a network.
    pub(crate) fn new<const N: usize>(is_slow: bool) -> Self {
        let mut near = World::new();
        let names: [String; N] = std::array::from_fn(|n| format!("m{n}"));
        let far = machines(&mut near, names.each_ref().map(String::as_str)).into();
        let machines = Self { near, far };
        for (name, far) in names.iter().zip(&machines.far) {
            far.share_connection();
            far.world.configure(SETTINGS);
            let file = machines.near.path(&format!("ssh/{name}.port"));
            if is_slow {
                let port = fs::read_to_string(&file).unwrap().parse().unwrap();
                fs::write(file, machines.relay(port).to_string()).unwrap();
            }
        }
        let config = machines.near.path("config.toml");
        let hosts = fs::read_to_string(&config).unwrap();
        fs::write(config, hosts + SETTINGS).unwrap();
        machines
    }

    /// Returns our program on the near machine.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        program(&self.near, words)
    }

    /// Returns the same for a machine, by ssh.
    pub(crate) fn near_command(&self, n: usize, words: &[&str]) -> Command {
        self.command(&[&["--host", &format!("m{n}")], words].concat())
    }

    /// Returns our program on a machine.
    pub(crate) fn far_command(&self, n: usize, words: &[&str]) -> Command {
        program(&self.far[n].world, words)
    }

    /// Returns the port of a slow link to this port.
    pub(crate) fn relay(&self, to: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    to.set_nodelay(true).unwrap();
                    thread::spawn(move || pass_on(from, to));
                }
            }
        });
        port
    }

    /// Returns what runs for the machines, in groups: our programs, those of ssh, and the daemons.
    pub(crate) fn processes(&self) -> Vec<(&'static str, Vec<u32>)> {
        let near = of_world(&self.near);
        let far = self.far.iter().flat_map(|far| of_world(&far.world));
        let far: Vec<_> = far.collect();
        let with = |all: &[(u32, String)], part: &str| {
            let found = all.iter().filter(|(_, line)| line.contains(part));
            found.map(|(pid, _)| *pid).collect::<Vec<u32>>()
        };
        let sshd = self.far.iter().flat_map(Far::connections);
        let sshd = sshd.map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
        let ssh = [with(&near, "/usr/bin/ssh"), with(&near, "[mux]")].concat();
        vec![
            ("tmux-task: the adapter", with(&near, "agent opencode")),
            ("tmux-task: follows there", with(&far, "far-call")),
            ("ssh", ssh),
            ("sshd", sshd.collect()),
            ("daemons there", with(&far, "--as-child")),
        ]
    }
}

fn program(world: &World, words: &[&str]) -> Command {
    let mut command = world.command(World::program());
    command.args(["--session", SESSION]).args(words);
    command
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = [0; 32 * 1024];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        thread::sleep(DELAY);
        if to.write_all(&bytes[..n]).is_err() {
            return;
        }
    }
    drop(to.shutdown(std::net::Shutdown::Write));
}

/// Returns the processes of a world with their command lines: those that have its folder in their
/// environment or command line.
fn of_world(world: &World) -> Vec<(u32, String)> {
    let folder = world.path("");
    let folder = folder.to_str().unwrap().trim_end_matches('/');
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_of_world = |pid: &u32| {
        let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environ).contains(folder) || line(*pid).contains(folder)
    };
    pids.filter(is_of_world)
        .map(|pid| (pid, line(pid)))
        .collect()
}

fn line(pid: u32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&line).replace('\0', " ")
}

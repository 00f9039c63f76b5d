//! Machines with an sshd each, and one from which ssh reaches them.

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::usage;
use super::world::{SESSION, World};

/// The conversation on the near machine.
pub(crate) const HOST_OWNER: &str = "opencode:here";

/// How long bytes wait in a relay, in each direction. With what it takes itself, a round trip is half a
/// millisecond and some.
const DELAY: Duration = Duration::from_micros(200);

pub(crate) struct Machines {
    pub(crate) near: World,
    far: Vec<Far>,
}

struct Far {
    world: World,
    sshd: Child,
}

/// The program that is measured.
pub(crate) fn program() -> &'static str {
    env!("CARGO_BIN_EXE_tmux-task")
}

impl Machines {
    /// Returns so many machines, `is_slow` says whether the link to them is as slow as a network.
    pub(crate) fn new(count: usize, is_slow: bool) -> Self {
        let near = World::new();
        let mut machines = Self {
            near,
            far: Vec::new(),
        };
        let folder = machines.near.path("ssh");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all("/run/sshd").unwrap_or_default();
        keygen(&folder.join("key"));
        let mut config = String::from("[hosts]\n");
        for n in 0..count {
            let far = Far::new(&folder, n);
            let port = far.port(&folder, n);
            let port = if is_slow { machines.relay(port) } else { port };
            fs::write(folder.join(format!("m{n}.port")), port.to_string()).unwrap();
            config.push_str(&format!("m{n} = {{ program = '{}' }}\n", program()));
            machines.far.push(far);
        }
        configure(&machines.near, &config);
        let folder = folder.display();
        let wrapper = format!(
            "#!/bin/sh\nfor word; do case $before in --) name=$word;; esac; before=$word; done\n\
             exec /usr/bin/ssh -o HostName=127.0.0.1 -o Port=$(cat {folder}/$name.port) \
             -o IdentityFile={folder}/key -o IdentityAgent=none -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \"$@\"\n"
        );
        script(&machines.near.path("ssh/ssh"), &wrapper);
        machines
    }

    /// Returns our program on the near machine.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.near.program(program());
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env(
                "PATH",
                format!("{}:{path}", self.near.path("ssh").display()),
            )
            .args(["--session", SESSION])
            .args(words);
        command
    }

    /// Returns the same for a machine, by ssh.
    pub(crate) fn near_command(&self, n: usize, words: &[&str]) -> Command {
        self.command(&[&["--host", &format!("m{n}")], words].concat())
    }

    /// Returns our program on a machine.
    pub(crate) fn far_command(&self, n: usize, words: &[&str]) -> Command {
        let mut command = self.far[n].world.program(program());
        command.args(["--session", SESSION]).args(words);
        command
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
        let far: Vec<_> = self
            .far
            .iter()
            .flat_map(|far| of_world(&far.world))
            .collect();
        let with = |all: &[(u32, String)], part: &str| {
            let found = all.iter().filter(|(_, line)| line.contains(part));
            found.map(|(pid, _)| *pid).collect::<Vec<u32>>()
        };
        let mut sshd: Vec<u32> = self
            .far
            .iter()
            .flat_map(|far| usage::children(far.sshd.id()))
            .collect();
        let more: Vec<u32> = sshd.iter().flat_map(|pid| usage::children(*pid)).collect();
        sshd.extend(
            more.into_iter()
                .filter(|pid| line(*pid).starts_with("sshd")),
        );
        let mut ssh = with(&near, "/usr/bin/ssh");
        ssh.extend(with(&near, "[mux]"));
        vec![
            ("tmux-task: the adapter", with(&near, "agent opencode")),
            ("tmux-task: follows there", with(&far, "far-call")),
            ("ssh", ssh),
            ("sshd", sshd),
            ("daemons there", with(&far, "--as-child")),
        ]
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        let mut processes = of_world(&self.near);
        for far in &self.far {
            processes.extend(of_world(&far.world));
        }
        processes.retain(|(_, line)| {
            line.contains("/ssh") || line.contains("far-call") || line.contains("[mux]")
        });
        for (pid, _) in processes {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).unwrap();
            // It may have ended.
            kill_process(pid, Signal::KILL).unwrap_or_default();
        }
        for far in &mut self.far {
            drop(far.sshd.kill());
            drop(far.sshd.wait());
        }
    }
}

impl Far {
    fn new(folder: &Path, n: usize) -> Self {
        let world = World::new();
        configure(&world, "");
        let file = |end: &str| folder.join(format!("m{n}.{end}"));
        keygen(&file("hostkey"));
        let mut login = String::from("#!/bin/sh\n");
        for (name, value) in world.program("true").get_envs() {
            if let (Some(name), Some(value)) =
                (name.to_str(), value.and_then(|value| value.to_str()))
            {
                login.push_str(&format!("export {name}='{value}'\n"));
            }
        }
        login.push_str("cd\nexec sh -c \"$SSH_ORIGINAL_COMMAND\"\n");
        script(&world.path("login"), &login);
        // The port is free a moment before.
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        // bash reads ~/.bashrc under sshd, unless it is started by a shell.
        let config = format!(
            "Port {port}\nSetEnv SHLVL=2\nListenAddress 127.0.0.1\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nForceCommand {}\n",
            file("hostkey").display(),
            folder.join("key.pub").display(),
            world.path("login").display()
        );
        fs::write(file("sshd"), config).unwrap();
        fs::write(file("port"), port.to_string()).unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd");
        sshd.args(["-D", "-q", "-f"])
            .arg(file("sshd"))
            .stdin(Stdio::null());
        Self {
            sshd: sshd.spawn().unwrap(),
            world,
        }
    }

    /// Returns where sshd listens, which it does when this returns.
    fn port(&self, folder: &Path, n: usize) -> u16 {
        let port = fs::read_to_string(folder.join(format!("m{n}.port"))).unwrap();
        let port = port.parse().unwrap();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            thread::sleep(Duration::from_millis(5));
        }
        port
    }
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

/// Writes the configuration. Conversations get as many messages as there are.
fn configure(world: &World, text: &str) {
    let settings = world.path("config/tmux-task");
    fs::create_dir_all(&settings).unwrap();
    let text = format!("{text}[agents]\nmax-per-minute = 10000\n");
    fs::write(settings.join("config.toml"), text).unwrap();
}

fn keygen(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path);
    assert!(command.status().unwrap().success());
}

fn script(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
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

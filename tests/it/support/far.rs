//! Another machine: a world of its own behind a real sshd, and ssh of the near world that finds it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{Output, World, end, pid};

/// A machine that the near world calls by a name.
pub(crate) struct Far {
    pub(crate) world: World,
    sshd: Child,
    /// Where the near world's ssh notes its starts.
    starts: PathBuf,
}

/// Options of ssh for a connection of its own.
const SEPARATE: &str = "-o ControlMaster=no -o ControlPath=none";

/// Where a machine's sshd runs.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) address: String,
    /// The words of a command line in front of those that run there.
    pub(crate) enter: Vec<String>,
}

impl Place {
    pub(crate) fn here() -> Self {
        Self {
            address: "127.0.0.1".to_owned(),
            enter: Vec::new(),
        }
    }
}

/// Makes machines of these names known to the near world.
pub(crate) fn machines<const N: usize>(near: &mut World, names: [&str; N]) -> [Far; N] {
    machines_in(near, names.map(|name| (name, Place::here())))
}

/// The same, with the places of the machines.
pub(crate) fn machines_in<const N: usize>(
    near: &mut World,
    places: [(&str, Place); N],
) -> [Far; N] {
    let folder = near.path("ssh");
    fs::create_dir(&folder).unwrap();
    let key = folder.join("key");
    keygen(&key);
    let mut config = String::from("[hosts]\n");
    let far = places.map(|(name, place)| {
        let far = Far::new(name, &place, &folder);
        config.push_str(&format!(
            "{name} = {{ ssh = \"{name}\", program = \"{}\" }}\n",
            World::program().display()
        ));
        far
    });
    let wrapper = format!(
        "#!/bin/sh\nfor word; do case $before in --) name=$word;; esac; before=$word; done\n\
         echo $$ >>'{folder}/'$name.starts\n\
         exec /usr/bin/ssh $(cat '{folder}/'$name.options) -o HostName=$(cat '{folder}/'$name.address) \
         -o Port=$(cat '{folder}/'$name.port) -o IdentityFile='{folder}/key' -o IdentityAgent=none \
         -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \"$@\"\n",
        folder = folder.display()
    );
    fs::create_dir(near.path("bin")).unwrap();
    near.script("bin/ssh", &wrapper);
    near.prepend_path(&near.path("bin"));
    let path = near.path("config.toml");
    fs::write(&path, config).unwrap();
    near.set("TMUX_TASK_CONFIG", path.to_str().unwrap());
    far
}

pub(crate) fn keygen(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path);
    Output::of(command).ok();
}

impl World {
    /// The lines of a shell that set this world's environment.
    pub(crate) fn exports(&self) -> String {
        let variables = self.env.iter();
        let line = |(name, value): &(String, String)| format!("export {name}='{value}'\n");
        variables.map(line).collect()
    }
}

impl Far {
    fn new(name: &str, place: &Place, folder: &Path) -> Self {
        let world = World::new();
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        keygen(&file("hostkey"));
        // What a login there finds: the far world's environment, and nothing of the near one.
        let exports = world.exports();
        let line = format!("#!/bin/sh\n{exports}exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n");
        let login = world.script("login", &line);
        // sshd wants this folder where it runs as root.
        if rustix::process::geteuid().is_root() {
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        fs::write(file("port"), port.to_string()).unwrap();
        let address = &place.address;
        fs::write(file("address"), address).unwrap();
        // bash reads ~/.bashrc under sshd, unless it is started by a shell.
        let config = format!(
            "Port {port}\nListenAddress {address}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\nSetEnv SHLVL=2\nForceCommand {}\n",
            file("hostkey").display(),
            folder.join("key.pub").display(),
            login.display()
        );
        fs::write(file("sshd"), config).unwrap();
        let mut words = place.enter.iter().map(String::as_str);
        let mut sshd = Command::new(words.next().unwrap_or("/usr/sbin/sshd"));
        sshd.args(words);
        if !place.enter.is_empty() {
            sshd.arg("/usr/sbin/sshd");
        }
        let sshd = sshd
            .args(["-D", "-e", "-f"])
            .arg(file("sshd"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(file("log")).unwrap())
            .spawn()
            .unwrap();
        let far = Self {
            world,
            sshd,
            starts: file("starts"),
        };
        far.set_options(SEPARATE);
        far.world.until_true("sshd listens", || {
            std::net::TcpStream::connect((&**address, port)).is_ok()
        });
        far
    }

    /// Sets options of ssh. All connections are separate until then.
    pub(crate) fn set_options(&self, options: &str) {
        fs::write(self.starts.with_extension("options"), options).unwrap();
    }

    /// Lets ssh share a connection, as it does unless the user has configured something else.
    pub(crate) fn share_connection(&self) {
        let master = self.starts.with_extension("master");
        self.set_options(&format!("-o ControlPath={}", master.display()));
    }

    /// The ssh that connects the machines, if there is one: the last one that was started, or the one that
    /// others share.
    pub(crate) fn ssh(&self) -> Option<Pid> {
        self.master().or_else(|| self.running().last())
    }

    fn master(&self) -> Option<Pid> {
        let master = self.starts.with_extension("master");
        let master = master.to_str().unwrap().as_bytes();
        let is_master = |pid: &Pid| has(*pid, "cmdline", master) && has(*pid, "cmdline", b"[mux]");
        all_processes().into_iter().find(is_master)
    }

    /// The processes of ssh that run.
    fn running(&self) -> impl Iterator<Item = Pid> {
        let all = self.processes().into_iter();
        all.filter(|ssh| self.is_ssh(*ssh))
    }

    /// The program that answers the last call there, if there is one.
    pub(crate) fn call(&self) -> Option<Pid> {
        let folder = self.world.path("");
        let folder = folder.to_str().unwrap().as_bytes();
        all_processes()
            .into_iter()
            .rev()
            .find(|pid| has(*pid, "cmdline", b"far-call\0") && has(*pid, "environ", folder))
    }

    /// Makes the machine hold its connections for ever, as it holds those of one that is gone without a
    /// word.
    pub(crate) fn hold_connections(&self) {
        self.signal_connections(Signal::STOP);
    }

    /// Ends that.
    pub(crate) fn release_connections(&self) {
        self.signal_connections(Signal::CONT);
    }

    fn signal_connections(&self, signal: Signal) {
        for connection in self.connections() {
            // It may have ended.
            kill_process(connection, signal).ok();
        }
    }

    /// The processes of sshd for its connections.
    pub(crate) fn connections(&self) -> Vec<Pid> {
        let mut connections = vec![pid(self.sshd.id().into())];
        let mut n = 0;
        while let Some(parent) = connections.get(n) {
            let parent = format!("\nPPid:\t{}\n", parent.as_raw_nonzero());
            let is_of_sshd =
                |pid: &Pid| has(*pid, "status", parent.as_bytes()) && has(*pid, "comm", b"sshd");
            connections.extend(all_processes().into_iter().filter(is_of_sshd));
            n += 1;
        }
        connections.split_off(1)
    }

    /// Kills all ssh that connects the machines: that of a feed, and that of a question about it.
    #[track_caller]
    pub(crate) fn kill_ssh(&self) {
        let all = match self.master() {
            Some(master) => vec![master],
            None => self.running().collect(),
        };
        assert!(!all.is_empty(), "there is ssh");
        all.into_iter().for_each(end);
    }

    /// Kills the program that answers the last call there.
    #[track_caller]
    pub(crate) fn kill_call(&self) {
        end(self.call().expect("a call is answered"));
    }

    /// The processes of ssh so far.
    fn processes(&self) -> Vec<Pid> {
        let text = fs::read_to_string(&self.starts).unwrap_or_default();
        text.lines()
            .map(|line| pid(line.parse().unwrap()))
            .collect()
    }

    /// Whether this process is one of ours, and not a later one with its number.
    fn is_ssh(&self, pid: Pid) -> bool {
        let folder = self.starts.parent().unwrap();
        has(pid, "cmdline", folder.to_str().unwrap().as_bytes())
    }
}

fn all_processes() -> Vec<Pid> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

/// Whether a file of a process has this in it.
fn has(pid: Pid, file: &str, part: &[u8]) -> bool {
    let found = fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default();
    found.windows(part.len()).any(|window| window == part)
}

impl Drop for Far {
    fn drop(&mut self) {
        self.running().for_each(end);
        self.ssh().into_iter().for_each(end);
        self.connections().into_iter().for_each(end);
        self.sshd.kill().ok();
        self.sshd.wait().ok();
    }
}

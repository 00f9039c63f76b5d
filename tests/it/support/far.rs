//! Another machine: a world of its own behind a real sshd, and ssh of the near world that finds it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};

use super::{Output, World, pid};

/// A machine that the near world calls by a name.
pub(crate) struct Far {
    pub(crate) world: World,
    sshd: Child,
    /// Where the near world's ssh notes its starts: the process of the link, and ssh itself.
    starts: PathBuf,
}

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
         echo \"$PPID $$\" >>'{folder}/'$name.starts\n\
         exec /usr/bin/ssh -o ControlMaster=no -o ControlPath=none -o HostName=$(cat '{folder}/'$name.address) \
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

fn keygen(path: &Path) {
    let mut command = Command::new("ssh-keygen");
    command
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path);
    Output::of(command).ok();
}

impl Far {
    fn new(name: &str, place: &Place, folder: &Path) -> Self {
        let world = World::new();
        let file = |end: &str| folder.join(format!("{name}.{end}"));
        keygen(&file("hostkey"));
        // What a login there finds: the far world's environment, and nothing of the near one.
        let mut lines = String::from("#!/bin/sh\n");
        for (variable, value) in world.command("true").get_envs() {
            if let Some(value) = value {
                let value = value.to_str().unwrap().replace('\'', "'\\''");
                lines.push_str(&format!(
                    "export {}='{value}'\n",
                    variable.to_str().unwrap()
                ));
            }
        }
        lines.push_str("exec sh -c \"$SSH_ORIGINAL_COMMAND\"\n");
        let login = world.script("login", &lines);
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
        far.world.until_true("sshd listens", || {
            std::net::TcpStream::connect((&**address, port)).is_ok()
        });
        far
    }

    /// The last link and its ssh.
    fn processes(&self) -> Option<(i64, i64)> {
        let text = fs::read_to_string(&self.starts).ok()?;
        let (link, ssh) = text.lines().last()?.split_once(' ')?;
        Some((link.parse().unwrap(), ssh.parse().unwrap()))
    }

    /// Kills the ssh that connects the machines.
    pub(crate) fn kill_ssh(&self) {
        assert!(self.try_kill_ssh());
    }

    /// Kills the near machine's link.
    pub(crate) fn kill_link(&self) {
        assert!(self.try_kill_link());
    }

    /// Kills the program that serves the link there.
    pub(crate) fn kill_serve(&self) {
        assert!(self.try_kill_serve());
    }

    /// The same as [`Far::kill_ssh`], if there is one.
    pub(crate) fn try_kill_ssh(&self) -> bool {
        let processes = self.processes();
        processes.is_some_and(|(_, ssh)| kill_process(pid(ssh), Signal::KILL).is_ok())
    }

    /// The same as [`Far::kill_link`], if there is one.
    pub(crate) fn try_kill_link(&self) -> bool {
        let processes = self.processes();
        processes.is_some_and(|(link, _)| kill_process(pid(link), Signal::KILL).is_ok())
    }

    /// The same as [`Far::kill_serve`], if there is one.
    pub(crate) fn try_kill_serve(&self) -> bool {
        let folder = self.world.path("");
        let folder = folder.to_str().unwrap().as_bytes();
        let has = |process: &Path, file: &str, part: &[u8]| {
            let found = fs::read(process.join(file)).unwrap_or_default();
            found.windows(part.len()).any(|window| window == part)
        };
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let name = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let Some(number) = name else { continue };
            if has(&entry.path(), "cmdline", b"serve\0--stdio\0")
                && has(&entry.path(), "environ", folder)
            {
                return kill_process(pid(number), Signal::KILL).is_ok();
            }
        }
        false
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some((link, ssh)) = self.processes() {
            let is_link = |number: i64| {
                let found = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
                found.windows(7).any(|window| window == b"--link\0")
            };
            if is_link(link) {
                for process in [link, ssh] {
                    kill_process(pid(process), Signal::KILL).ok();
                }
            }
        }
        self.sshd.kill().ok();
        self.sshd.wait().ok();
    }
}

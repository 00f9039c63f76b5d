//! A nats-server with JetStream: the fleet's broker.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use serde_json::Value;

use super::{DEADLINE, GLANCE, World};

/// Where `tests/run.sh` installs the program.
const INSTALLED: &str = "target/nats/bin/nats-server";

/// A broker of one test. Dropping it ends the server.
pub(crate) struct Broker {
    pub(crate) folder: PathBuf,
    port: u16,
    config: Option<PathBuf>,
    pub(crate) server: Option<Child>,
}

impl Broker {
    /// Starts a broker whose files are in a folder of the world.
    pub(crate) fn start(world: &World) -> Self {
        Self::with(world, None)
    }

    /// Starts a broker with this configuration, besides where it listens and stores.
    pub(crate) fn with_config(world: &World, config: &str) -> Self {
        let path = world.path("nats-server.conf");
        fs::write(&path, config).unwrap();
        Self::with(world, Some(path))
    }

    fn with(world: &World, config: Option<PathBuf>) -> Self {
        let mut broker = Self {
            folder: world.path("nats"),
            port: 0,
            config,
            server: None,
        };
        fs::create_dir(&broker.folder).unwrap();
        broker.start_again();
        broker
    }

    /// The address, as in the configuration.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts the server, at the same port as before. It answers when this returns.
    #[track_caller]
    pub(crate) fn start_again(&mut self) {
        let port = match self.port {
            0 => "-1".to_owned(),
            port => port.to_string(),
        };
        let mut command = Command::new(program());
        command
            .args(["-js", "-a", "127.0.0.1", "-p", &port, "-sd"])
            .arg(self.store())
            .arg("--ports_file_dir")
            .arg(&self.folder)
            .arg("-l")
            .arg(self.folder.join("log"));
        if let Some(config) = &self.config {
            command.arg("-c").arg(config);
        }
        let server = command.stdin(Stdio::null()).spawn().unwrap();
        let ports = self
            .folder
            .join(format!("nats-server_{}.ports", server.id()));
        self.server = Some(server);
        let deadline = Instant::now() + DEADLINE;
        self.port = loop {
            assert!(Instant::now() < deadline, "the broker does not start");
            let found = fs::read(&ports).ok();
            if let Some(port) = found.and_then(|bytes| port_of(&bytes))
                && TcpStream::connect(("127.0.0.1", port)).is_ok()
            {
                break port;
            }
            thread::sleep(GLANCE);
        };
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Removes all that the broker has stored. It does not run.
    pub(crate) fn wipe(&self) {
        assert!(self.server.is_none(), "the broker runs");
        fs::remove_dir_all(self.store()).unwrap();
    }

    fn store(&self) -> PathBuf {
        self.folder.join("store")
    }
}

impl World {
    /// Configures the fleet of this broker, as this host.
    pub(crate) fn join_fleet(&self, url: &str, host: &str, more: &str) {
        let fleet = format!("[fleet]\nurl = '{url}'\nhost = '{host}'\n{more}");
        self.configure(&format!("notices = []\n{fleet}"));
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the server's program: `$NATS_SERVER`, what `tests/run.sh` has installed, or the one of
/// PATH.
fn program() -> PathBuf {
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join(INSTALLED);
    named
        .or_else(|| installed.exists().then_some(installed))
        .unwrap_or_else(|| PathBuf::from("nats-server"))
}

/// Returns the port of `{"nats":["nats://127.0.0.1:4222"]}`.
fn port_of(ports: &[u8]) -> Option<u16> {
    let ports: Value = serde_json::from_slice(ports).ok()?;
    let address = ports["nats"][0].as_str()?;
    address.rsplit_once(':')?.1.parse().ok()
}

//! The broker: a nats-server of this run, and the streams that daemons make.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::{self, kv, stream};
use tempfile::TempDir;

const HOUR: Duration = Duration::from_secs(3600);

pub(crate) struct Server {
    folder: TempDir,
    port: u16,
    process: Child,
}

impl Server {
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let process = launch(folder.path(), port);
        Self {
            folder,
            port,
            process,
        }
    }

    pub(crate) fn start_again(&mut self) {
        self.process = launch(self.folder.path(), self.port);
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    pub(crate) fn version(&self) -> String {
        let output = Command::new(program()).arg("--version").output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Resident memory, in megabytes.
    pub(crate) fn memory_mb(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kb: f64 = line
            .unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap();
        kb / 1024.0
    }

    /// Processor time so far, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split(' ').collect();
        let ticks: f64 = fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap();
        ticks / 100.0
    }

    /// The size of all that is stored, in bytes.
    pub(crate) fn disk(&self) -> u64 {
        size_of(&self.folder.path().join("store"))
    }

    /// How many connections the server has.
    pub(crate) fn connections(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .map(|entries| {
                let links = entries
                    .flatten()
                    .filter_map(|entry| fs::read_link(entry.path()).ok());
                links
                    .filter(|link| link.to_string_lossy().starts_with("socket:"))
                    .count()
            })
            .unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |found| found.len());
    };
    entries.flatten().map(|entry| size_of(&entry.path())).sum()
}

fn program() -> PathBuf {
    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/nats/bin/nats-server");
    let named = std::env::var_os("NATS_SERVER").map(PathBuf::from);
    named
        .or_else(|| installed.exists().then_some(installed))
        .unwrap_or_else(|| "nats-server".into())
}

/// Starts the server; it listens when this returns.
fn launch(folder: &Path, port: u16) -> Child {
    let process = Command::new(program())
        .args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
        .arg(folder.join("store"))
        .arg("-l")
        .arg(folder.join("log"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let from = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            from.elapsed() < Duration::from_secs(60),
            "the broker does not start"
        );
        thread::sleep(Duration::from_millis(10));
    }
    process
}

/// Makes the streams as a daemon does.
pub(crate) fn create_streams(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let context = jetstream::new(async_nats::connect(url).await.unwrap());
        let feed = stream::Config {
            name: "TT_FEED".to_owned(),
            subjects: vec!["tt.v1.feed.>".to_owned()],
            max_age: 72 * HOUR,
            duplicate_window: Duration::from_secs(120),
            allow_direct: true,
            ..stream::Config::default()
        };
        context.create_stream(feed).await.unwrap();
        for (bucket, markers) in [
            ("TT_STATE", None),
            ("TT_HOSTS", Some(Duration::from_secs(60))),
        ] {
            let config = kv::Config {
                bucket: bucket.to_owned(),
                history: 1,
                limit_markers: markers,
                ..kv::Config::default()
            };
            context.create_key_value(config).await.unwrap();
        }
    });
}

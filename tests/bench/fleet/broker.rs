//! What the broker's process takes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::support::{Broker, pid, resident};

impl Broker {
    /// A file of its process in `/proc`.
    fn file(&self, name: &str) -> String {
        let server = self.server.as_ref().unwrap();
        format!("/proc/{}/{name}", server.id())
    }

    pub(crate) fn version(&self) -> String {
        let output = Command::new(self.file("exe")).arg("--version").output();
        let version = String::from_utf8(output.unwrap().stdout).unwrap();
        version.trim().to_owned()
    }

    /// Resident memory, in megabytes.
    pub(crate) fn memory_mb(&self) -> f64 {
        let server = self.server.as_ref().unwrap();
        resident(pid(server.id().into())).unwrap() as f64 / 1024.0
    }

    /// Processor time so far, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(self.file("stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split(' ').collect();
        let ticks: f64 = fields[12].parse::<f64>().unwrap() + fields[13].parse::<f64>().unwrap();
        ticks / 100.0
    }

    /// The size of all that is stored, in bytes.
    pub(crate) fn disk(&self) -> u64 {
        size_of(&self.folder.join("store"))
    }

    /// How many connections the server has.
    pub(crate) fn connections(&self) -> usize {
        let files = fs::read_dir(self.file("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let links = files.filter_map(|entry| fs::read_link(entry.path()).ok());
        links
            .filter(|link| link.to_string_lossy().starts_with("socket:"))
            .count()
    }
}

fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return fs::metadata(path).map_or(0, |found| found.len());
    };
    entries.flatten().map(|entry| size_of(&entry.path())).sum()
}

//! A gate in front of a task's command: the command starts when a process that wants all of its
//! output is ready to follow it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The prefix of the gates' names.
pub(super) const PREFIX: &str = "gate-";

/// How long a task waits at its gate, in seconds. By then the process that was to open it is gone.
pub(super) const LONGEST_WAIT: u32 = 10;

/// A closed gate. Dropping it opens it.
#[derive(Debug)]
pub(crate) struct Gate {
    path: PathBuf,
    /// Open for reading as well, so that opening and writing never block on the task.
    pipe: File,
}

impl Gate {
    /// Creates a gate in a private folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written to.
    pub(crate) fn close(folder: &Path) -> io::Result<Self> {
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        // Left by a process that had our pid.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        make_pipe(&path)?;
        let pipe = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
            .open(&path)?;
        Ok(Self { path, pipe })
    }

    /// Returns the path of its pipe.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        // A waiting task reads this; one that has not arrived yet finds no gate.
        let opened = self.pipe.write_all(b"\n");
        let removed = std::fs::remove_file(&self.path);
        tracing::debug!(?opened, ?removed, "a gate was opened");
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_pipe(path: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, Mode, mkfifoat};

    Ok(mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// macOS has no `mkfifoat` before version 13.
#[cfg(target_vendor = "apple")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let mut mkfifo = std::process::Command::new("mkfifo");
    let status = mkfifo.args(["-m", "600", "--"]).arg(path).status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("mkfifo failed: {status}")))
}

/// Returns the shell line that waits at a gate. `path` is quoted.
pub(super) fn wait_line(path: &str) -> String {
    format!(
        "if [ -p {path} ]; then IFS= builtin read -r -t {LONGEST_WAIT} _ <>{path}; command -p rm -f -- {path}; fi"
    )
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_command_begins_when_its_gate_is_opened_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let gate = Gate::close(folder.path()).unwrap();
        let path = gate.path().to_owned();
        let line = wait_line(path.to_str().unwrap());
        let start = || {
            Command::new("bash")
                .args(["-c", &format!("{line}\necho begun")])
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        };
        let mut waiting = start();
        // It has the pipe open: it waits, and the command has not started.
        let fds = format!("/proc/{}/fd", waiting.id());
        let has_come = || {
            let fds = std::fs::read_dir(&fds).unwrap();
            fds.filter_map(|fd| std::fs::read_link(fd.ok()?.path()).ok())
                .any(|file| file == path)
        };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while cfg!(target_os = "linux") && !has_come() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        assert!(waiting.try_wait().unwrap().is_none());
        drop(gate);
        let late = start();
        for child in [waiting, late] {
            let output = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stdout), "begun\n");
        }
        assert!(!path.exists());
    }
}

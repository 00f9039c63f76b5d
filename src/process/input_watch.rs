//! Notices that input was read from a terminal, by whichever program of whichever user.
//!
//! Linux sets the access time of a terminal when input is read from it, but leaves out the lowest
//! three bits of the seconds, so that nobody learns when keys are pressed: a second read within the
//! same eight seconds changes nothing (`tty_update_time` in `drivers/tty/tty_io.c`). Therefore the time
//! is set back by eight seconds whenever it has changed: then the next read changes it again. Only the
//! terminal's owner may do that.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timestamps, UTIME_OMIT, stat, utimensat};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};

/// The step in which the kernel sets the time of a read, in seconds.
const STEP: i64 = 8;

/// How long the probe waits for its own input.
const PROBE: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// What is known of the reads from the terminal of a pane, or from the one behind it in which its
/// program runs: what `script` or `sudo` reads from the pane need not be a whole line yet.
#[derive(Debug, Default)]
pub(crate) struct InputWatch {
    /// The terminal; `None` until one was examined.
    tty: Option<PathBuf>,
    /// The access time as it was left by the last check, in seconds since 1970; `None` where that is
    /// not possible.
    left: Option<i64>,
    /// How many checks have found that input was read, and how many terminals were watched.
    n_reads: u64,
}

impl InputWatch {
    /// Watches this terminal from now on. Of another one than before nothing is known yet.
    pub(crate) fn follow(&mut self, tty: &Path) {
        if self.tty.as_deref() != Some(tty) {
            *self = Self {
                tty: Some(tty.to_owned()),
                left: None,
                n_reads: self.n_reads + 1,
            };
        }
    }

    /// Returns a number that rises when input was read; `None` where that is not known. If two checks
    /// return the same, nothing was read in between.
    pub(crate) fn check(&mut self) -> Option<u64> {
        let tty = self.tty.as_deref()?;
        if !cfg!(linux) || !tty.starts_with("/dev/pts") || !are_reads_dated() {
            return None;
        }
        let time = access_time(tty)?;
        if self.left != Some(time) {
            self.n_reads += u64::from(self.left.is_some());
            self.left = set_back(tty, time);
        }
        self.left.map(|_| self.n_reads)
    }
}

fn access_time(tty: &Path) -> Option<i64> {
    Some(stat(tty).ok()?.st_atime)
}

/// Sets the access time back by a step. Returns what it is then.
fn set_back(tty: &Path, time: i64) -> Option<i64> {
    let before = time - STEP;
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: before,
            tv_nsec: 0,
        },
        last_modification: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
    };
    utimensat(CWD, tty, &times, AtFlags::empty()).ok()?;
    Some(before)
}

/// Whether this kernel sets the access time as described above. Others, such as gVisor, need not.
fn are_reads_dated() -> bool {
    static ARE_DATED: OnceLock<bool> = OnceLock::new();
    *ARE_DATED.get_or_init(|| {
        let are_dated = probe().unwrap_or(false);
        if !are_dated {
            tracing::info!("the kernel does not show whether input was read from a terminal");
        }
        are_dated
    })
}

/// Only Linux can set this when it opens a terminal.
#[cfg(linux)]
const CLOSED_ON_EXEC: OpenptFlags = OpenptFlags::CLOEXEC;
#[cfg(not(linux))]
const CLOSED_ON_EXEC: OpenptFlags = OpenptFlags::empty();

/// Reads a line from a terminal of our own, and returns whether that has changed its access time.
fn probe() -> Option<bool> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | CLOSED_ON_EXEC).ok()?;
    unlockpt(&ours).ok()?;
    let name = ptsname(&ours, Vec::new()).ok()?;
    let path = Path::new(OsStr::from_bytes(name.as_bytes()));
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let tty = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let left = set_back(path, access_time(path)?)?;
    rustix::io::write(&ours, b"\n").ok()?;
    let mut waits = [PollFd::new(&tty, PollFlags::IN)];
    if poll(&mut waits, Some(&PROBE)).ok()? == 0 {
        return None;
    }
    rustix::io::read(&tty, &mut [0; 1]).ok()?;
    Some(access_time(path)? != left)
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_is_noticed_and_what_is_only_typed_is_not() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let path = Path::new(OsStr::from_bytes(name.as_bytes()));
        let flags = OFlags::RDWR | OFlags::NOCTTY;
        let tty = rustix::fs::open(path, flags, Mode::empty()).unwrap();
        let mut watch = InputWatch::default();
        assert_eq!(watch.check(), None);
        watch.follow(path);
        assert_eq!(watch.check(), Some(1));
        for n in 2..5 {
            rustix::io::write(&ours, b"y\n").unwrap();
            watch.follow(path);
            assert_eq!(watch.check(), Some(n - 1));
            rustix::io::read(&tty, &mut [0; 8]).unwrap();
            assert_eq!(watch.check(), Some(n));
            assert_eq!(watch.check(), Some(n));
        }
        // What was read from another terminal is not comparable.
        watch.follow(Path::new("/dev/null"));
        assert_eq!(watch.check(), None);
        watch.follow(path);
        assert_eq!(watch.check(), Some(6));
    }
}

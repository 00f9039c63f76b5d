//! Displays: ways to show an alert to the user.
//!
//! A display gets a level, a title and a text, and decides whether and how it can show them. It never
//! decides whether something is news, never blocks for long, and its failures are harmless: a
//! missing desktop is normal. `desktop` uses D-Bus (cargo feature `notice`, but not on macOS).

#[cfg(all(feature = "notice", not(target_os = "macos")))]
mod desktop;

use std::io;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags};

#[cfg(all(feature = "notice", not(target_os = "macos")))]
pub use desktop::{Desktop, DesktopError, DesktopNotice, notifier};

// Terminals that are attached to tmux are written to beside it: tmux passes such sequences on only from
// a pane that its user sees, and only where `allow-passthrough` lets it.

/// Writes to a terminal, if it takes that at once. One that is full or stopped is an error.
pub fn write_to_terminal(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // It must not become the terminal of this process, nor be waited for.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    if !path.starts_with("/dev") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let terminal = rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?;
    let status = rustix::fs::fstat(&terminal)?;
    let is_ours = status.st_uid == rustix::process::geteuid().as_raw();
    let is_device = FileType::from_raw_mode(status.st_mode) == FileType::CharacterDevice;
    if !is_ours || !is_device || !rustix::termios::isatty(&terminal) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    rustix::io::write(&terminal, bytes)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    #[test]
    fn only_a_terminal_of_this_user_is_written_to_and_never_waited_for() {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let terminal = Path::new(OsStr::from_bytes(name.to_bytes()));
        write_to_terminal(terminal, b"\x1b]9;x\x07").unwrap();
        let mut shown = [0; 20];
        let n = rustix::io::read(&user, &mut shown).unwrap();
        assert_eq!(&shown[..n], b"\x1b]9;x\x07");
        // Nobody reads it any more.
        let mut n = 0;
        while write_to_terminal(terminal, &[b'x'; 1000]).is_ok() {
            n += 1;
        }
        assert!(n < 1000, "{n}");
        drop(user);
        for path in [
            "/dev/null",
            "/dev/tty/none",
            "/etc/hostname",
            "tty",
            terminal.to_str().unwrap(),
        ] {
            assert!(write_to_terminal(Path::new(path), b"x").is_err(), "{path}");
        }
    }
}

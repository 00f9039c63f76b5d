//! Whether a tmux server is there: asked without starting a process, and without waiting; and
//! whether it answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

use super::error::TmuxError;
use super::server::Server;
use crate::protocol::Command;

/// What the kernel says of a tmux server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A server listens.
    Listening,
    /// A server has the socket and takes no more connections: it is stopped, or hangs.
    Stuck,
    /// Nobody listens.
    Absent,
    /// It could not be found out, as when this process has no descriptor left.
    Unknown(Errno),
}

impl Server {
    /// Asks the kernel whether a server listens. It never waits: a server that is stopped accepts
    /// connections until its queue is full, and a plain connect would then wait as long as it is.
    #[must_use]
    pub fn probe(&self) -> Probe {
        match self.try_connect() {
            Ok(_) | Err(Errno::INPROGRESS) => Probe::Listening,
            Err(Errno::AGAIN) => Probe::Stuck,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED) => Probe::Absent,
            Err(errno) => Probe::Unknown(errno),
        }
    }

    /// Returns the process of the server that listens, if one does and the kernel tells.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let connection = self.try_connect().ok()?;
        let server = rustix::net::sockopt::socket_peercred(&connection).ok()?;
        u32::try_from(server.pid.as_raw_nonzero().get()).ok()
    }

    /// Asks the server something that it always has an answer to; returns whether one came in time,
    /// or nobody listens.
    pub async fn answers(&self, within: Duration) -> bool {
        let command = Command::new("display-message").args(["-p", ""]);
        match self.probe() {
            Probe::Absent => return true,
            Probe::Stuck => return false,
            Probe::Listening | Probe::Unknown(_) => {}
        }
        let asked = self.one_shot(std::slice::from_ref(&command));
        !matches!(
            tokio::time::timeout(within, asked).await,
            Err(_) | Ok(Err(TmuxError::TimedOut))
        )
    }

    fn try_connect(&self) -> Result<OwnedFd, Errno> {
        let address = SocketAddrUnix::new(self.socket())?;
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        connect(&socket, &address)?;
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::net::listen;

    use super::*;
    use crate::tmux::ServerChoice;

    fn server(socket: &std::path::Path) -> Server {
        let choice = ServerChoice {
            socket_path: Some(socket.to_owned()),
            ..ServerChoice::default()
        };
        Server::locate(&choice, &|_| None).unwrap()
    }

    #[test]
    fn a_socket_without_a_listener_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert_eq!(server(&path).probe(), Probe::Absent);
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(server(&path).probe(), Probe::Absent, "a dead server's file");
    }

    #[test]
    fn a_server_whose_queue_is_full_is_there_and_does_not_hold_us_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listen(&listener, 0).unwrap();
        assert_eq!(server(&path).probe(), Probe::Listening);
        // The probe's own connection went with it but stays in the queue, which has room for one.
        if cfg!(target_os = "linux") {
            assert_eq!(server(&path).probe(), Probe::Stuck);
        }
        drop(listener.accept().unwrap());
        assert_eq!(server(&path).probe(), Probe::Listening);
    }
}

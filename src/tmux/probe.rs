//! Whether a tmux server is running, checked without starting a process and without blocking; and
//! whether it answers.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};

use super::error::TmuxError;
use super::server::Server;
use crate::protocol::Command;

/// The state of a tmux server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    /// A server listens.
    Listening,
    /// A server has the socket but accepts no more connections: it is stopped or hangs.
    Stuck,
    /// Nothing listens.
    Absent,
    /// It could not be determined, for example because this process has no descriptor left.
    Unknown(Errno),
}

impl Server {
    /// Asks the kernel whether a server listens. It never blocks: a server that is stopped accepts
    /// connections until its queue is full, and then a plain connect would block until it
    /// continues.
    #[must_use]
    pub(crate) fn probe(&self) -> Probe {
        match self.try_connect() {
            Ok(_) | Err(Errno::INPROGRESS) => Probe::Listening,
            Err(Errno::AGAIN) => Probe::Stuck,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::CONNREFUSED) => Probe::Absent,
            Err(errno) => Probe::Unknown(errno),
        }
    }

    /// Returns the pid of the server that listens, if there is one and the kernel reports it, as
    /// Linux does.
    #[must_use]
    #[cfg(linux)]
    pub(crate) fn pid(&self) -> Option<u32> {
        let connection = self.try_connect().ok()?;
        let server = rustix::net::sockopt::socket_peercred(&connection).ok()?;
        u32::try_from(server.pid.as_raw_nonzero().get()).ok()
    }

    /// Returns nothing: only Linux reports the pid of the server that listens.
    #[must_use]
    #[cfg(not(linux))]
    pub(crate) fn pid(&self) -> Option<u32> {
        None
    }

    /// Sends the server a request that it can always answer. Returns whether an answer came in
    /// time, or nothing listens.
    pub(crate) async fn answers(&self, within: Duration) -> bool {
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

    /// Connects without waiting, as a client that has not said yet what it wants.
    pub(super) fn try_connect(&self) -> Result<OwnedFd, Errno> {
        let address = SocketAddrUnix::new(self.socket())?;
        let socket = socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        connect(&socket, &address)?;
        Ok(socket)
    }
}

/// Whether the server has closed this connection. One that lives keeps it; one that ends closes each.
pub(super) fn is_closed(connection: &OwnedFd) -> bool {
    matches!(
        rustix::io::read(connection, &mut [0; 1]),
        Ok(0) | Err(Errno::CONNRESET)
    )
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
    fn only_a_server_that_ends_closes_a_connection() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let connection = server(&path).try_connect().unwrap();
        assert!(!is_closed(&connection), "not accepted yet");
        let (accepted, _) = listener.accept().unwrap();
        assert!(!is_closed(&connection));
        drop(accepted);
        assert!(is_closed(&connection));
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
        // The probe's own connection is closed but stays in the queue, which has room for one.
        if cfg!(linux) {
            assert_eq!(server(&path).probe(), Probe::Stuck);
        }
        drop(listener.accept().unwrap());
        assert_eq!(server(&path).probe(), Probe::Listening);
    }
}

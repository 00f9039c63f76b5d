//! Detects when the other side has closed a connection completely.
//!
//! The end of its output is not enough: a program may close its writing half after its last request
//! and then read the answer, as `nc -N` and `socat` do.

use std::io;
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// Resolves when the other side has closed both halves of the connection, or its process has ended.
///
/// # Cancel safety
///
/// Nothing is read and nothing is lost.
pub(super) async fn hung_up(socket: &UnixStream) {
    // A separate registration: writability is cleared in it between two events, and the writer of
    // the answer must not wait for that.
    let Ok(watched) = register_again(socket) else {
        // Without a free descriptor, a client without further requests counts as disconnected.
        return;
    };
    while !is_hung_up(socket) {
        // Waiting for readability would end at once: there is nothing more to read.
        if watched.writable().await.is_err() {
            return;
        }
        let cleared = watched.try_io(Interest::WRITABLE, || {
            Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
        });
        tracing::debug!(?cleared, "a connection's state has changed");
    }
}

fn register_again(socket: &UnixStream) -> io::Result<UnixStream> {
    let copy = socket.as_fd().try_clone_to_owned()?;
    UnixStream::from_std(copy.into())
}

fn is_hung_up(socket: &UnixStream) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match poll(&mut asked, Some(&now)) {
        Ok(_) => asked[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn goes_on(socket: &UnixStream) -> bool {
        let waited = tokio::time::timeout(Duration::from_millis(20), hung_up(socket));
        waited.await.is_err()
    }

    #[tokio::test]
    async fn a_closed_half_is_no_hang_up() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        assert!(goes_on(&ours).await);
        theirs.write_all(b"ask").await.unwrap();
        theirs.shutdown().await.unwrap();
        assert!(goes_on(&ours).await);
        // Meanwhile written data arrives.
        ours.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        theirs.read_exact(&mut answer).await.unwrap();
        assert!(goes_on(&ours).await);
        drop(theirs);
        hung_up(&ours).await;
    }

    #[tokio::test]
    async fn whoever_leaves_with_something_unread_has_left() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"ask").await.unwrap();
        let waiting = tokio::spawn(async move { hung_up(&ours).await });
        tokio::task::yield_now().await;
        drop(theirs);
        waiting.await.unwrap();
    }
}

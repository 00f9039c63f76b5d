//! Our stdout, for the feed: written directly where that does not block.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

/// Writes without waiting as long as the reader keeps up. A thread, which tokio uses to write
/// stdout, takes over when it would block: waking it for each record delays the reader by a tenth
/// of a millisecond.
#[derive(Debug)]
pub(super) struct Stdout {
    thread: tokio::io::Stdout,
    /// Whether the thread may have something left to write, which comes first.
    is_thread_busy: bool,
}

impl Stdout {
    pub(super) fn new() -> Self {
        Self {
            thread: tokio::io::stdout(),
            is_thread_busy: false,
        }
    }
}

impl AsyncWrite for Stdout {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.is_thread_busy
            && let Some(written) = write_at_once(bytes)
        {
            return Poll::Ready(written);
        }
        self.is_thread_busy = true;
        Pin::new(&mut self.thread).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = ready!(Pin::new(&mut self.thread).poll_flush(context));
        self.is_thread_busy = false;
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.thread).poll_shutdown(context)
    }
}

/// Writes what can be written at once; `None` when nothing can, or it is not known. Stdout is
/// shared: it must not be made non-blocking for the other processes that have it.
#[cfg(linux)]
fn write_at_once(bytes: &[u8]) -> Option<io::Result<usize>> {
    use std::io::IoSlice;

    use rustix::io::{Errno, ReadWriteFlags, pwritev2};

    /// The file's position: a pipe has none.
    const HERE: u64 = u64::MAX;
    let bytes = [IoSlice::new(bytes)];
    match pwritev2(io::stdout(), &bytes, HERE, ReadWriteFlags::NOWAIT) {
        Ok(n) => Some(Ok(n)),
        Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => None,
        Err(error) => Some(Err(error.into())),
    }
}

#[cfg(not(linux))]
fn write_at_once(_bytes: &[u8]) -> Option<io::Result<usize>> {
    None
}

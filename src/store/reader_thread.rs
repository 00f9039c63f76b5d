//! A thread for the readers of the feed: requests never wait for them, however many they are and
//! however much they read.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A thread with a runtime of its own. It ends when this is dropped, and with it what runs there.
#[derive(Debug)]
pub(crate) struct ReaderThread {
    handle: Handle,
    /// Dropped, it ends the thread.
    _stop: oneshot::Sender<()>,
}

/// Something that runs on the thread, and is ended when this is dropped.
#[derive(Debug)]
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ReaderThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub(crate) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("readers".to_owned())
            .spawn(move || {
                // An error says that the other end was dropped, which is all that it is for.
                drop(runtime.block_on(stopped));
            })?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// Returns a handle for those who start something on the thread.
    pub(crate) fn handle(&self) -> ReaderHandle {
        ReaderHandle(self.handle.clone())
    }
}

/// Runs things on the thread of readers.
#[derive(Debug, Clone)]
pub(crate) struct ReaderHandle(Handle);

impl ReaderHandle {
    /// Starts a future on the thread that is to run for as long as the thread does.
    pub(crate) fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future));
    }

    /// Runs a future on the thread; resolves when it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropped, it ends the future as well.
    pub(crate) async fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut task = AbortOnDrop(self.0.spawn(future));
        if let Err(error) = (&mut task.0).await
            && !error.is_cancelled()
        {
            tracing::error!(%error, "a reader's task ended badly");
        }
    }
}

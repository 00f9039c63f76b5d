//! A thread for the readers of the feed: requests never wait for them, however many there are and
//! however much they read.

use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A thread with its own runtime. Dropping this ends it, with everything that runs there.
#[derive(Debug)]
pub(crate) struct ReaderThread {
    handle: Handle,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
}

/// A task on the thread, which is aborted when this is dropped.
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
    /// When it cannot be created.
    pub(crate) fn start() -> io::Result<Self> {
        Self::named("readers")
    }

    /// Starts a thread for readers of one kind, with a name of its own.
    ///
    /// # Errors
    ///
    /// When it cannot be created.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // An error means that the other end was dropped, which is its purpose.
                drop(runtime.block_on(stopped));
            })?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// Returns a handle to start futures on the thread.
    pub(crate) fn handle(&self) -> ReaderHandle {
        ReaderHandle(self.handle.clone())
    }
}

/// Runs futures on the thread of readers.
#[derive(Debug, Clone)]
pub(crate) struct ReaderHandle(Handle);

impl ReaderHandle {
    /// Starts a future that runs as long as the thread.
    pub(crate) fn start(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future));
    }

    /// Runs a future on the thread. Resolves when it has ended.
    ///
    /// # Cancel safety
    ///
    /// Dropping the returned future aborts it as well.
    pub(crate) async fn run(&self, future: impl Future<Output = ()> + Send + 'static) {
        let mut task = AbortOnDrop(self.0.spawn(future));
        if let Err(error) = (&mut task.0).await
            && !error.is_cancelled()
        {
            tracing::error!(%error, "a reader's task panicked");
        }
    }
}

//! Readers of the live feed, served on a separate thread: the one that answers requests never reads
//! the feed.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use super::hang_up::hung_up;
use super::stdout::Stdout;
use crate::model::Seq;
use crate::store::{self, Live, ReaderHandle, StreamError, Subscription};
use crate::wire::{After, Filter, ReaderStart, Refusal};

/// Starts streams.
#[derive(Debug, Clone)]
pub(super) struct Streams {
    live: Arc<Live>,
    readers: ReaderHandle,
}

impl Streams {
    /// Returns a starter for streams of this feed on the readers' thread.
    pub(super) fn new(live: Arc<Live>, readers: ReaderHandle) -> Self {
        Self { live, readers }
    }

    /// Returns a stream for a reader. Refuses a sequence number that the feed does not have.
    pub(super) fn subscribe(
        &self,
        start: &ReaderStart,
        filter: Filter,
        with_tasks: bool,
    ) -> Result<Subscription, Refusal> {
        if with_tasks {
            self.live.subscribe_with_tasks(start, filter)
        } else {
            self.live.subscribe(start, filter)
        }
    }

    /// Writes the stream to this connection until either side closes it.
    pub(super) async fn serve(&self, subscription: Subscription, socket: UnixStream) {
        let socket = match socket.into_std() {
            Ok(socket) => socket,
            Err(error) => {
                tracing::error!(%error, "a reader was cut off");
                return;
            }
        };
        let serving = async move {
            // It is registered again with the runtime of this task.
            let socket = match UnixStream::from_std(socket) {
                Ok(socket) => socket,
                Err(error) => {
                    tracing::error!(%error, "a reader was cut off");
                    return;
                }
            };
            let (reader, mut writer) = socket.into_split();
            let mut reader = BufReader::new(reader);
            tokio::select! {
                served = store::serve(subscription, &mut writer) => match served {
                    Ok(()) | Err(StreamError::Gone(_)) => {}
                    Err(error @ StreamError::Feed(_)) => {
                        tracing::error!(%error, "a reader was cut off");
                    }
                },
                () = until_closed(&mut reader) => {}
            }
        };
        self.readers.run(serving).await;
    }

    /// Prints the live feed, from the record after `after`, on stdout until its reader closes it.
    pub(super) async fn print(self, after: Seq) {
        let start = ReaderStart::After(After {
            epoch: None,
            seq: after,
        });
        let Ok(subscription) = self.live.subscribe(&start, Filter::default()) else {
            return;
        };
        let printing = async move {
            let mut stdout = Stdout::new();
            if let Err(error) = store::serve(subscription, &mut stdout).await {
                tracing::info!(%error, "stdout is closed; supervising goes on");
            }
        };
        self.readers.run(printing).await;
    }
}

/// Resolves when the other side has closed the connection. Its input is ignored.
pub(super) async fn until_closed(reader: &mut BufReader<OwnedReadHalf>) {
    loop {
        match reader.fill_buf().await {
            Ok([]) => return hung_up(reader.get_ref().as_ref()).await,
            Err(_) => return,
            Ok(said) => {
                let n = said.len();
                reader.consume(n);
            }
        }
    }
}

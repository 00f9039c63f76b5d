//! Readers of the live feed, served on a separate thread: the one that answers requests never reads the feed.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Interest, copy_buf, sink, stdout};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime::Handle;

use crate::model::{Error, ErrorKind, Seq};
use crate::rules::wire::{Acknowledgement, After, Filter, ReaderStart, parse_object};
use crate::store::{self, Lease, Live, Subscription, run_on};

#[derive(Debug, Clone)]
pub(super) struct Streams {
    pub(super) live: Arc<Live>,
    pub(super) readers: Handle,
}

impl Streams {
    /// Writes a stream to this connection until either side closes it. A consumer, of whose input these bytes were
    /// read already, sends acknowledgements; what others send is ignored.
    pub(super) async fn serve(
        &self,
        subscription: Subscription,
        consumer: Option<(Arc<Lease>, Vec<u8>)>,
        socket: UnixStream,
    ) {
        let live = Arc::clone(&self.live);
        let cut_off = |error: io::Error| tracing::error!(%error, "a reader was cut off");
        let Ok(socket) = socket.into_std().map_err(cut_off) else {
            return;
        };
        let serving = async move {
            // It is registered again with the runtime of this task.
            let Ok(socket) = UnixStream::from_std(socket).map_err(cut_off) else {
                return;
            };
            let (reader, mut writer) = socket.into_split();
            let mut reader = BufReader::new(reader);
            let listening = async {
                if let Some((consumer, early)) = &consumer {
                    read_acknowledgements(&live, consumer, early, &mut reader).await;
                }
                // Other input is ignored.
                if copy_buf(&mut reader, &mut sink()).await.is_ok() {
                    hung_up(reader.get_ref().as_ref()).await;
                }
            };
            tokio::select! {
                served = store::serve(subscription, &mut writer) => match served {
                    Err(error) if error.kind != ErrorKind::OutputClosed => {
                        tracing::error!(%error, "a reader was cut off");
                    }
                    Ok(()) | Err(_) => {}
                },
                () = listening => {}
            }
        };
        run_on(&self.readers, serving).await;
    }

    /// Prints the live feed, from the record after `after`, on stdout until its reader closes it. The runtime has a
    /// thread that waits for that reader: stdout is shared with others, and must stay blocking for them.
    pub(super) async fn print(self, after: Seq) {
        let start = ReaderStart::After(After {
            epoch: None,
            seq: after,
        });
        let Ok(subscription) = self.live.subscribe(&start, Filter::default(), false, None) else {
            return;
        };
        let printing = async move {
            if let Err(error) = store::serve(subscription, &mut stdout()).await {
                tracing::info!(%error, "stdout is closed; supervising goes on");
            }
        };
        run_on(&self.readers, printing).await;
    }
}

/// Processes the acknowledgements of a consumer, one a line, until the input ends. `early` was read already.
async fn read_acknowledgements(
    live: &Live,
    consumer: &Lease,
    early: &[u8],
    reader: &mut BufReader<OwnedReadHalf>,
) {
    let mut reader = BufReader::new(early.chain(reader));
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).await;
        if read.is_err() || !line.ends_with(b"\n") {
            // The end, perhaps in the middle of a line: half an acknowledgement is none.
            return;
        }
        if let Err(refusal) = parse(&line).and_then(|seq| live.acknowledge(consumer, seq)) {
            consumer.refuse(refusal);
            return;
        }
    }
}

fn parse(line: &[u8]) -> Result<Seq, Error> {
    let acknowledgement = parse_object::<Acknowledgement>(line).map_err(|error| {
        let message = format!("not an acknowledgement like {{\"ack\":12}}: {error}");
        Error::usage(message)
    });
    Ok(acknowledgement?.ack)
}

// The end of the other side's output does not mean that it has closed the connection: a program may close its writing
// half after its last request and then read the answer, as `nc -N` and `socat` do.

/// Resolves when the other side has closed both halves of the connection, or its process has ended. Nothing is read.
pub(super) async fn hung_up(socket: &UnixStream) {
    // A separate registration: writability is cleared in it, for which the writer of the answer must not wait.
    let copy = socket.as_fd().try_clone_to_owned();
    let Ok(watched) = copy.and_then(|copy| UnixStream::from_std(copy.into())) else {
        // Without a free descriptor, a client without further requests counts as disconnected.
        return;
    };
    // Waiting for readability would end at once: there is nothing more to read.
    while let Ok(ready) = watched.ready(Interest::WRITABLE).await
        && !ready.is_write_closed()
    {
        let cleared = watched.try_io(Interest::WRITABLE, || {
            Err::<(), _>(io::Error::from(io::ErrorKind::WouldBlock))
        });
        tracing::debug!(?cleared, "a connection's state has changed");
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

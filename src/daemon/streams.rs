//! Readers of the live feed, served on a separate thread: the one that answers requests never reads
//! the feed.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;

use super::hang_up::hung_up;
use super::stdout::Stdout;
use crate::model::Seq;
use crate::store::{self, Lease, Live, ReaderHandle, StreamError, Subscription};
use crate::wire::{
    Acknowledgement, After, ConsumeRequest, ConsumerList, Filter, Messages, ReaderStart, Refusal,
    RefusalKind, parse_object,
};

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

    /// Returns a consumer's stream for the process `pid`, and the lease that takes its acknowledgements.
    pub(super) async fn consume(
        &self,
        request: ConsumeRequest,
        pid: Option<u32>,
    ) -> Result<(Subscription, Arc<Lease>), Refusal> {
        self.live.consume(request, pid).await
    }

    /// Returns the consumers of the feed.
    pub(super) fn consumers(&self) -> ConsumerList {
        self.live.consumer_list()
    }

    /// Returns which messages the feed has, and who reads them.
    pub(super) fn messages(&self) -> Messages {
        self.live.messages()
    }

    /// Forgets a consumer that has no reader.
    pub(super) async fn remove_consumer(&self, name: &str) -> Result<(), Refusal> {
        self.live.consumers.remove(name).await
    }

    /// Writes a stream to this connection until either side closes it. What the other side sends is
    /// acknowledgements if it reads as a consumer, of which some bytes may have been read already,
    /// and is ignored otherwise.
    pub(super) async fn serve(
        &self,
        subscription: Subscription,
        consumer: Option<(Arc<Lease>, Vec<u8>)>,
        socket: UnixStream,
    ) {
        let live = Arc::clone(&self.live);
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
            let listening = async {
                if let Some((consumer, early)) = &consumer {
                    read_acknowledgements(&live, consumer, early, &mut reader).await;
                }
                until_closed(&mut reader).await;
            };
            tokio::select! {
                served = store::serve(subscription, &mut writer) => match served {
                    Ok(()) | Err(StreamError::Gone(_)) => {}
                    Err(error @ StreamError::Feed(_)) => {
                        tracing::error!(%error, "a reader was cut off");
                    }
                },
                () = listening => {}
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

/// The longest line that can be an acknowledgement, in bytes.
const MAX_ACKNOWLEDGEMENT: u64 = 4096;

/// Processes the acknowledgements of a consumer, one a line, until the input ends. `early` was read
/// already.
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
        let read = (&mut reader)
            .take(MAX_ACKNOWLEDGEMENT)
            .read_until(b'\n', &mut line)
            .await;
        let is_cut = line.last() != Some(&b'\n');
        if read.is_err() || (is_cut && (line.len() as u64) < MAX_ACKNOWLEDGEMENT) {
            // The end, perhaps in the middle of a line: half an acknowledgement is none.
            return;
        }
        if let Err(refusal) = parse(&line).and_then(|seq| live.acknowledge(consumer, seq)) {
            consumer.refuse(refusal);
            return;
        }
    }
}

fn parse(line: &[u8]) -> Result<Seq, Refusal> {
    match parse_object::<Acknowledgement>(line) {
        Ok(acknowledgement) => Ok(acknowledgement.ack),
        Err(error) => {
            let message = format!("not an acknowledgement like {{\"ack\":12}}: {error}");
            Err(Refusal::new(RefusalKind::Usage, message))
        }
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

//! One connection to our socket: requests, each with its answer, or one subscription.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::streams::{Streams, hung_up};
use crate::files;
use crate::model::Error;
use crate::rules::wire::{Answer, Request, RequestLine, Response, parse_request};
use crate::session::{HeldCommand, Reply, RequestId};
use crate::store::{Lease, Subscription};

/// The maximum length of a request: the longest command line and environment, quoted twice.
const MAX_REQUEST: usize = 16 << 20;

#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are few at a time, and nearly all are the largest"
)]
pub(super) enum ConnectionMessage {
    /// A request for the session, or for the daemon's status.
    Request(RequestId, RequestLine, ReplySender),
    Left(RequestId),
}

static NUMBERED: AtomicU64 = AtomicU64::new(0);

/// The first line of a task's output: the stream has begun.
const FOLLOWING: &str = "following";

/// Serves one connection until either side closes it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the event loop answers every request that is not answered here"
)]
pub(super) async fn serve(
    socket: UnixStream,
    requests: mpsc::Sender<ConnectionMessage>,
    streams: Streams,
    stopping: watch::Sender<bool>,
) {
    // The permissions of folder and socket keep other users out; the kernel confirms it.
    let peer = socket.peer_cred().ok();
    let Some(peer) = peer.filter(|peer| peer.uid() == files::our_uid()) else {
        tracing::warn!("refused a connection of another user");
        return;
    };
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok());
    let (reader, mut writer) = socket.into_split();
    let mut reader = BufReader::new(reader);
    // The command of the run that was just started, which waits for the client's wait.
    let mut held = None;
    loop {
        let request = tokio::select! {
            request = read_request(&mut reader) => request,
            // The daemon stops: an incomplete request is not worth waiting for.
            () = requests.closed() => return,
        };
        let RequestLine { to, request } = match request {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => {
                answer(&mut writer, Response::Refused(refusal)).await;
                return;
            }
        };
        tracing::debug!(request = request.name(), "request");
        // Not by way of the event loop, unless tmux is asked.
        let response = match request {
            Request::Subscribe {
                start,
                filter,
                tasks,
                stored,
            } => {
                let subscription = streams.live.subscribe(&start, filter, tasks, stored);
                let subscribed = subscription.map(|subscription| (subscription, None));
                return stream(reader, writer, &streams, subscribed).await;
            }
            Request::Consume(request) => {
                let last_seq = streams.live.last_seq();
                let consumed = tokio::select! {
                    consumed = streams.live.consume(request, pid, last_seq) => consumed,
                    () = closed(&mut reader) => return,
                };
                let consumed = consumed.map(|(subscription, lease)| (subscription, Some(lease)));
                return stream(reader, writer, &streams, consumed).await;
            }
            Request::Consumers => Response::Consumers(streams.live.consumer_list()),
            Request::MessageReaders => Response::MessageReaders(streams.live.message_readers()),
            Request::RemoveConsumer { name } => {
                let removed = streams.live.consumers.remove(&name).await;
                removed.map_or_else(Response::Refused, |()| Response::Done)
            }
            // A request to stop waits for nothing else.
            Request::Stop { cleanup: false } => {
                stopping.send_replace(true);
                Response::Done
            }
            request => {
                let line = RequestLine { to, request };
                if forward(&mut reader, &mut writer, &requests, line, &mut held).await {
                    continue;
                }
                return;
            }
        };
        if !answer(&mut writer, response).await {
            return;
        }
        drop(held.take());
    }
}

type ReadHalf = BufReader<tokio::net::unix::OwnedReadHalf>;
type WriteHalf = tokio::net::unix::OwnedWriteHalf;

/// Answers one request. Returns whether the connection continues. A client that disconnects stops
/// waiting. `held` is the command of the run that was started before, which begins when a wait has begun or
/// this request is answered, and then that of a run which is to wait for the next request.
async fn forward(
    reader: &mut ReadHalf,
    writer: &mut WriteHalf,
    requests: &mpsc::Sender<ConnectionMessage>,
    line: RequestLine,
    held: &mut Option<HeldCommand>,
) -> bool {
    let is_held = matches!(&line.request, Request::Run(launch) if launch.is_held);
    let begins_with = if matches!(line.request, Request::Follow { .. }) {
        line_of(&FOLLOWING)
    } else if matches!(&line.request, Request::Wait(wait) if wait.says_when_it_begins) {
        line_of(&Answer::from(Response::Waiting))
    } else {
        Vec::new()
    };
    let is_long = matches!(line.request, Request::Wait(_) | Request::Follow { .. });
    let (replies, mut replied) = reply_queue((!is_long).then(Instant::now));
    let id = RequestId(NUMBERED.fetch_add(1, Ordering::Relaxed));
    let message = ConnectionMessage::Request(id, line, replies);
    // The daemon stops.
    if requests.send(message).await.is_err() {
        return false;
    }
    let serve = async {
        // No reply: the daemon stops, or the client is too far behind.
        while let Some((reply, room)) = replied.recv().await {
            drop(room);
            let line = match reply {
                Reply::Begun => {
                    drop(held.take());
                    begins_with.clone()
                }
                Reply::Output(Some(piece)) => line_of(&piece),
                // The run has ended, and its output is complete.
                Reply::Output(None) => {
                    drop(writer.write_all(b"null\n").await);
                    return false;
                }
                Reply::Cut => return false,
                Reply::Answer(answer, launched) => {
                    *held = launched.filter(|_| is_held);
                    return writer.write_all(&line_of(&answer)).await.is_ok();
                }
            };
            if writer.write_all(&line).await.is_err() {
                return false;
            }
        }
        false
    };
    let goes_on = tokio::select! {
        goes_on = serve => goes_on,
        () = closed(reader) => false,
    };
    if !goes_on {
        drop(requests.send(ConnectionMessage::Left(id)).await);
    }
    goes_on
}

/// Serves one reader of the feed until either side closes the connection. Only a consumer's input is read.
async fn stream(
    reader: ReadHalf,
    mut writer: WriteHalf,
    streams: &Streams,
    subscribed: Result<(Subscription, Option<Arc<Lease>>), Error>,
) {
    match subscribed {
        Err(refusal) => {
            answer(&mut writer, Response::Refused(refusal)).await;
        }
        Ok((subscription, consumer)) => {
            // Acknowledgements may have come already.
            let early = reader.buffer().to_vec();
            let consumer = consumer.map(|consumer| (consumer, early));
            if let Ok(socket) = reader.into_inner().reunite(writer) {
                streams.serve(subscription, consumer, socket).await;
            }
        }
    }
}

/// Resolves when the other side has closed the connection. Its input stays unread.
async fn closed(reader: &mut ReadHalf) {
    if reader.fill_buf().await.is_ok() {
        hung_up(reader.get_ref().as_ref()).await;
    }
}

/// Reads a request; `None` when the client has no more.
async fn read_request(reader: &mut ReadHalf) -> Result<Option<RequestLine>, Error> {
    let mut line = Vec::new();
    let most = MAX_REQUEST as u64 + 1;
    match reader.take(most).read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => Ok(None),
        Ok(1..=MAX_REQUEST) => parse_request(&line).map(Some),
        Ok(_) => Err(Error::usage(format!(
            "a request has at most {MAX_REQUEST} bytes"
        ))),
    }
}

async fn answer(writer: &mut WriteHalf, response: Response) -> bool {
    let line = line_of(&Answer::from(response));
    writer.write_all(&line).await.is_ok()
}

/// Returns an answer, or a piece of a task's output, as a line of JSON.
pub(super) fn line_of(answer: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(answer).expect("an answer is plain data");
    line.push(b'\n');
    line
}

/// How many bytes a client may be behind.
const BEHIND: usize = 4 << 20;

/// What a piece costs besides its bytes.
const PIECE_COST: usize = 64;

/// A reply, and its room in the queue until it is taken out.
type QueuedReply = (Reply, OwnedSemaphorePermit);

/// Returns the two ends of the queue of a request's replies.
fn reply_queue(
    received_at: Option<Instant>,
) -> (ReplySender, mpsc::UnboundedReceiver<QueuedReply>) {
    let (replies, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(BEHIND));
    let sender = ReplySender {
        replies,
        room,
        received_at,
    };
    (sender, receiver)
}

#[derive(Debug)]
pub(super) struct ReplySender {
    replies: mpsc::UnboundedSender<QueuedReply>,
    /// The room for further pieces of output: [`BEHIND`] in all.
    room: Arc<Semaphore>,
    /// When the request was received, if it is to be answered soon: it may wait in the channel.
    pub(super) received_at: Option<Instant>,
}

impl ReplySender {
    /// Adds a reply. Returns whether it was added: not when the client is too far behind or has left.
    pub(super) fn send(&self, reply: Reply) -> bool {
        let cost = match &reply {
            // A single piece is added whatever its size: the client is not behind then.
            Reply::Output(Some(piece)) => (piece.len() + PIECE_COST).min(BEHIND),
            // One of each, at most.
            Reply::Begun | Reply::Output(None) | Reply::Cut | Reply::Answer(..) => 0,
        };
        let cost = u32::try_from(cost).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room).try_acquire_many_owned(cost);
        room.is_ok_and(|room| self.replies.send((reply, room)).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(text: &str, n: usize) -> Reply {
        Reply::Output(Some(text.repeat(n)))
    }

    #[tokio::test]
    async fn a_reader_may_be_so_many_bytes_behind_and_no_more() {
        for size in [1, 8 << 10, 1 << 20] {
            let (sender, mut receiver) = reply_queue(None);
            let mut bytes = 0;
            while sender.send(piece("x", size)) {
                bytes += size + PIECE_COST;
            }
            assert!(
                bytes <= BEHIND && bytes + size + PIECE_COST > BEHIND,
                "{size}"
            );
            // A client that reads again is continued.
            assert!(receiver.recv().await.is_some());
            assert!(sender.send(piece("x", size)), "{size}");
        }
    }

    #[tokio::test]
    async fn a_piece_of_any_size_goes_to_a_reader_that_is_not_behind() {
        let (sender, mut receiver) = reply_queue(None);
        assert!(sender.send(piece("x", 2 * BEHIND)));
        assert!(!sender.send(piece("y", 1)));
        drop(sender);
        assert!(receiver.recv().await.is_some());
        assert!(receiver.recv().await.is_none());
    }
}

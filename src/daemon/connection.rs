//! One connection to our socket: requests, each with its answer, or one subscription.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use super::signals::StopRequest;
use super::streams::{Streams, hung_up, until_closed};
use crate::files;
use crate::model::Error;
use crate::session::{HeldCommand, RequestId};
use crate::store::Subscription;
use crate::wire::{ConsumeRequest, Request, Response, WaitRequest, parse_request};

/// The maximum length of a request: the longest command line and environment, quoted twice.
const MAX_REQUEST: usize = 16 << 20;

/// How long each request may be, whatever the others are.
const SMALL_REQUEST: usize = 64 << 10;

/// How many bytes the longer requests of all connections may have together, from their first byte to
/// their answer.
const LONG_REQUESTS: usize = 64 << 20;

/// The room for long requests, shared by all connections.
#[derive(Debug, Clone)]
pub(super) struct RequestRoom(Arc<Semaphore>);

impl RequestRoom {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(LONG_REQUESTS)))
    }

    /// Makes `held` large enough for a request of this length.
    fn extend(&self, held: &mut Option<OwnedSemaphorePermit>, length: usize) -> Result<(), Error> {
        let has = held
            .as_ref()
            .map_or(SMALL_REQUEST, OwnedSemaphorePermit::num_permits);
        if length <= has {
            return Ok(());
        }
        let missing = length - held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let missing = u32::try_from(missing).unwrap_or(u32::MAX);
        let Ok(more) = Arc::clone(&self.0).try_acquire_many_owned(missing) else {
            let message = "the daemon has too many long requests to read this one";
            return Err(Error::failed(message).with_hint("try again"));
        };
        match held {
            Some(held) => held.merge(more),
            None => *held = Some(more),
        }
        Ok(())
    }
}

/// The answer to a request.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) response: Response,
    /// The command of a run that was started.
    pub(super) held: Option<HeldCommand>,
}

/// A message from a connection to the event loop.
#[derive(Debug)]
pub(super) enum ConnectionMessage {
    /// A request with one answer.
    Request {
        id: RequestId,
        request: Request,
        /// When it was received: it may wait in the channel.
        received_at: Instant,
        reply: oneshot::Sender<Reply>,
    },
    /// A wait, answered when it has begun and when it has ended.
    Wait {
        id: RequestId,
        /// The session's name, if it was asked for by name.
        session: Option<String>,
        request: WaitRequest,
        begun: oneshot::Sender<()>,
        reply: oneshot::Sender<Response>,
    },
    /// A task's output, line by line.
    Follow {
        id: RequestId,
        window: String,
        raw: bool,
        lines: usize,
        reply: oneshot::Sender<Result<OutputReceiver, Error>>,
    },
    /// The client of this request has disconnected.
    Left(RequestId),
}

/// The channel from a connection to the event loop.
#[derive(Debug, Clone)]
pub(super) struct RequestSender {
    sender: mpsc::Sender<ConnectionMessage>,
    /// How many requests were numbered.
    numbered: Arc<AtomicU64>,
}

impl RequestSender {
    pub(super) fn new(sender: mpsc::Sender<ConnectionMessage>) -> Self {
        Self {
            sender,
            numbered: Arc::default(),
        }
    }

    fn number(&self) -> RequestId {
        RequestId(self.numbered.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether it was sent: it is not when the daemon stops.
    async fn send(&self, message: ConnectionMessage) -> bool {
        self.sender.send(message).await.is_ok()
    }
}

/// The first line of a task's output: the stream has begun.
const FOLLOWING: &str = "following";

/// Serves one connection until either side closes it.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the event loop answers every request that is not answered here"
)]
pub(super) async fn serve(
    connection: OpenConnection,
    requests: RequestSender,
    room: RequestRoom,
    streams: Streams,
    stopping: StopRequest,
) {
    let OpenConnection {
        socket,
        is_open: _is_open,
    } = connection;
    if !is_same_user(&socket) {
        tracing::warn!("refused a connection of another user");
        return;
    }
    let (reader, mut writer) = socket.into_split();
    let mut reader = BufReader::new(reader);
    // The command of the run that was just started, which waits for the client's wait.
    let mut held = None;
    loop {
        let request = tokio::select! {
            request = read_request(&mut reader, &room) => request,
            // The daemon stops: an incomplete request is not worth waiting for.
            () = requests.sender.closed() => return,
        };
        let (request, _room) = match request {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => {
                answer(&mut writer, &Response::Refused(refusal)).await;
                return;
            }
        };
        let name = request.name();
        let command = held.take();
        let goes_on = match request {
            Request::Subscribe {
                start,
                filter,
                tasks,
                stored,
            } => {
                tracing::debug!(request = name, ?start, ?filter, tasks, "request");
                let subscription = streams.live.subscribe(&start, filter, tasks, stored);
                return subscribe(reader, writer, &streams, subscription).await;
            }
            Request::Consume(request) => {
                tracing::debug!(request = name, consumer = request.name, "request");
                return consume(reader, writer, &streams, request).await;
            }
            // Not by way of the event loop: no tmux is asked.
            Request::Consumers => {
                tracing::debug!(request = name, "request");
                answer(&mut writer, &Response::Consumers(streams.consumers())).await
            }
            Request::MessageReaders => {
                tracing::debug!(request = name, "request");
                let readers = streams.message_readers();
                answer(&mut writer, &Response::MessageReaders(readers)).await
            }
            Request::RemoveConsumer { name: consumer } => {
                tracing::debug!(request = name, consumer, "request");
                let removed = streams.remove_consumer(&consumer).await;
                let response = removed.map_or_else(Response::Refused, |()| Response::Done);
                answer(&mut writer, &response).await
            }
            Request::Wait(request) => {
                wait(&mut reader, &mut writer, &requests, None, request, command).await
            }
            Request::To { session, request } => {
                if let Request::Wait(request) = *request {
                    let session = Some(session);
                    wait(
                        &mut reader,
                        &mut writer,
                        &requests,
                        session,
                        request,
                        command,
                    )
                    .await
                } else if may_be_addressed(&request) {
                    let request = Request::To { session, request };
                    forward(&mut reader, &mut writer, &requests, request, &mut held).await
                } else {
                    let message = "this request does not name its session".to_owned();
                    let refusal = Error::usage(message);
                    answer(&mut writer, &Response::Refused(refusal)).await
                }
            }
            Request::Follow { window, raw, lines } => {
                let followed = (window, raw, lines);
                follow(&mut reader, &mut writer, &requests, followed).await
            }
            // Not through the event loop: a request to stop waits for nothing else.
            Request::Stop { cleanup: false } => {
                tracing::debug!(request = name, "request");
                stopping.ask();
                answer(&mut writer, &Response::Done).await
            }
            request => forward(&mut reader, &mut writer, &requests, request, &mut held).await,
        };
        if !goes_on {
            return;
        }
    }
}

/// Whether a request with one answer may name its session: if the answer is from the session.
fn may_be_addressed(request: &Request) -> bool {
    matches!(
        request,
        Request::Run(_)
            | Request::Send(_)
            | Request::SendGuarded(_)
            | Request::List
            | Request::Count
            | Request::Find { .. }
            | Request::Kill { .. }
            | Request::KillAll { .. }
            | Request::Prune
            | Request::Log(_)
            | Request::Record { .. }
            | Request::Search(_)
            | Request::Explain { .. }
    )
}

type ReadHalf = BufReader<tokio::net::unix::OwnedReadHalf>;
type WriteHalf = tokio::net::unix::OwnedWriteHalf;

/// Answers one request. Returns whether the connection continues. A client that disconnects stops
/// waiting. `held` gets the command of a run that was started, if it is to wait for the next request.
async fn forward(
    reader: &mut ReadHalf,
    writer: &mut WriteHalf,
    requests: &RequestSender,
    request: Request,
    held: &mut Option<HeldCommand>,
) -> bool {
    let is_held = request.holds_command();
    let (reply, response) = oneshot::channel();
    let id = requests.number();
    let message = ConnectionMessage::Request {
        id,
        request,
        received_at: Instant::now(),
        reply,
    };
    if !requests.send(message).await {
        return false;
    }
    tokio::select! {
        // No answer: the daemon stops.
        reply = response => match reply {
            Ok(reply) => {
                *held = reply.held.filter(|_| is_held);
                answer(writer, &reply.response).await
            }
            Err(_) => false,
        },
        () = closed(reader) => {
            requests.send(ConnectionMessage::Left(id)).await;
            false
        }
    }
}

/// What happened to an answer.
enum AnswerResult {
    Done,
    /// The client has disconnected, or the daemon stops.
    Gone,
}

/// Answers a wait: that it has begun, if the client requests for that, and its result. Returns whether the
/// connection continues. A client that disconnects ends its wait. `command` begins when the wait has begun.
async fn wait(
    reader: &mut ReadHalf,
    writer: &mut WriteHalf,
    requests: &RequestSender,
    session: Option<String>,
    request: WaitRequest,
    command: Option<HeldCommand>,
) -> bool {
    let (reply, mut response) = oneshot::channel();
    let (begun, has_begun) = oneshot::channel();
    let says_when_it_begins = request.says_when_it_begins;
    let id = requests.number();
    let message = ConnectionMessage::Wait {
        id,
        session,
        request,
        begun,
        reply,
    };
    if !requests.send(message).await {
        return false;
    }
    let serve = async {
        // A refusal has one answer.
        let has_begun = has_begun.await.is_ok();
        drop(command);
        if says_when_it_begins && has_begun && !answer(writer, &Response::Waiting).await {
            return AnswerResult::Gone;
        }
        // No answer: the daemon stops.
        match (&mut response).await {
            Ok(response) if answer(writer, &response).await => AnswerResult::Done,
            Ok(_) | Err(_) => AnswerResult::Gone,
        }
    };
    let served = tokio::select! {
        served = serve => served,
        () = closed(reader) => AnswerResult::Gone,
    };
    match served {
        AnswerResult::Done => true,
        AnswerResult::Gone => {
            requests.send(ConnectionMessage::Left(id)).await;
            false
        }
    }
}

/// Serves one reader of the feed until either side closes the connection. Its input is ignored.
async fn subscribe(
    reader: ReadHalf,
    mut writer: WriteHalf,
    streams: &Streams,
    subscription: Result<Subscription, Error>,
) {
    match subscription {
        Err(refusal) => {
            answer(&mut writer, &Response::Refused(refusal)).await;
        }
        Ok(subscription) => {
            if let Ok(socket) = reader.into_inner().reunite(writer) {
                streams.serve(subscription, None, socket).await;
            }
        }
    }
}

/// Serves one consumer until either side leaves.
async fn consume(
    mut reader: ReadHalf,
    mut writer: WriteHalf,
    streams: &Streams,
    request: ConsumeRequest,
) {
    let socket: &UnixStream = reader.get_ref().as_ref();
    let pid = socket.peer_cred().ok().and_then(|peer| peer.pid());
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    let consumed = tokio::select! {
        consumed = streams.consume(request, pid) => consumed,
        () = closed(&mut reader) => return,
    };
    match consumed {
        Err(refusal) => {
            answer(&mut writer, &Response::Refused(refusal)).await;
        }
        Ok((subscription, consumer)) => {
            // Acknowledgements may have come already.
            let early = reader.buffer().to_vec();
            if let Ok(socket) = reader.into_inner().reunite(writer) {
                streams
                    .serve(subscription, Some((consumer, early)), socket)
                    .await;
            }
        }
    }
}

/// Sends a task's output, each piece as a JSON string on one line, until the run has ended: `null`
/// means that it has, and that its output is complete.
async fn follow(
    reader: &mut ReadHalf,
    writer: &mut WriteHalf,
    requests: &RequestSender,
    (window, raw, lines): (String, bool, usize),
) -> bool {
    let (reply, response) = oneshot::channel();
    let id = requests.number();
    let message = ConnectionMessage::Follow {
        id,
        window,
        raw,
        lines,
        reply,
    };
    if !requests.send(message).await {
        return false;
    }
    let begun = tokio::select! {
        begun = response => begun,
        () = closed(reader) => {
            requests.send(ConnectionMessage::Left(id)).await;
            return false;
        }
    };
    let mut pieces = match begun {
        Err(_) => return false,
        Ok(Err(refusal)) => return answer(writer, &Response::Refused(refusal)).await,
        Ok(Ok(pieces)) => pieces,
    };
    let serve = async {
        let mut piece = Some(Some(FOLLOWING.to_owned()));
        while let Some(text) = piece {
            let mut line = serde_json::to_vec(&text).expect("text is plain data");
            line.push(b'\n');
            if writer.write_all(&line).await.is_err() {
                return;
            }
            piece = pieces.recv().await;
        }
    };
    tokio::select! {
        () = serve => {}
        () = until_closed(reader) => {}
    }
    requests.send(ConnectionMessage::Left(id)).await;
    false
}

/// Resolves when the other side has closed the connection. Its input stays unread.
async fn closed(reader: &mut ReadHalf) {
    if reader.fill_buf().await.is_ok() {
        hung_up(reader.get_ref().as_ref()).await;
    }
}

/// Reads a request. It has its room until that is dropped.
async fn read_request(
    reader: &mut ReadHalf,
    room: &RequestRoom,
) -> Result<Option<(Request, Option<OwnedSemaphorePermit>)>, Error> {
    let (mut line, mut held) = (Vec::new(), None);
    loop {
        let part = match reader.fill_buf().await {
            Ok([]) if line.is_empty() => return Ok(None),
            Ok([]) => break,
            Ok(part) => part,
            Err(_) => return Ok(None),
        };
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(part.len(), |end| end + 1);
        if line.len() + length > MAX_REQUEST {
            return Err(Error::usage(format!(
                "a request has at most {MAX_REQUEST} bytes"
            )));
        }
        room.extend(&mut held, line.len() + length)?;
        line.extend_from_slice(&part[..length]);
        reader.consume(length);
        if end.is_some() {
            break;
        }
    }
    parse_request(&line).map(|request| Some((request, held)))
}

/// Whether the answer was sent.
async fn answer(writer: &mut WriteHalf, response: &Response) -> bool {
    let mut line = serde_json::to_vec(response).expect("an answer is plain data");
    line.push(b'\n');
    writer.write_all(&line).await.is_ok()
}

/// The permissions of folder and socket keep other users out; the kernel's peer credentials confirm
/// it.
fn is_same_user(socket: &UnixStream) -> bool {
    socket
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == files::our_uid())
}

/// A connection, counted as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) socket: UnixStream,
    pub(super) is_open: Arc<()>,
}

/// How many bytes a client may be behind.
const BEHIND: usize = 4 << 20;

/// What a piece costs besides its bytes.
const PIECE_COST: usize = 64;

/// Returns a queue's two ends.
pub(super) fn output_queue() -> (OutputSender, OutputReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let sender = OutputSender {
        pieces: sender,
        queued: Arc::clone(&queued),
    };
    let receiver = OutputReceiver {
        pieces: receiver,
        queued,
    };
    (sender, receiver)
}

/// The daemon's end of the queue.
#[derive(Debug)]
pub(super) struct OutputSender {
    /// Pieces of output, then `None` when the run has ended: without that, output is missing.
    pieces: mpsc::UnboundedSender<Option<String>>,
    /// Their total cost, at most [`BEHIND`].
    queued: Arc<AtomicUsize>,
}

impl OutputSender {
    /// Adds a piece. Returns whether it was added: not when the client is too far behind or has
    /// left.
    pub(super) fn send(&self, piece: String) -> bool {
        let cost = cost(&piece);
        // A single piece is added whatever its size: the client is not behind then.
        let before = self.queued.load(Ordering::Relaxed);
        if before > 0 && before + cost > BEHIND {
            return false;
        }
        self.queued.fetch_add(cost, Ordering::Relaxed);
        self.pieces.send(Some(piece)).is_ok()
    }

    /// Marks the end of the run: the output is complete.
    pub(super) fn end(&self) {
        // A client that has left needs no end.
        drop(self.pieces.send(None));
    }
}

/// The connection's end of the queue.
#[derive(Debug)]
pub(super) struct OutputReceiver {
    pieces: mpsc::UnboundedReceiver<Option<String>>,
    queued: Arc<AtomicUsize>,
}

impl OutputReceiver {
    /// Returns the next piece, `Some(None)` at the end of the run; `None` when nothing more will
    /// come.
    ///
    /// # Cancel safety
    ///
    /// No piece is lost when the future is dropped.
    pub(super) async fn recv(&mut self) -> Option<Option<String>> {
        let piece = self.pieces.recv().await?;
        if let Some(piece) = &piece {
            self.queued.fetch_sub(cost(piece), Ordering::Relaxed);
        }
        Some(piece)
    }
}

fn cost(piece: &str) -> usize {
    piece.len() + PIECE_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_requests_share_their_room_and_short_ones_need_none() {
        let room = RequestRoom::new();
        let mut all = Vec::new();
        for _ in 0..4 {
            let mut held = None;
            for length in [1, SMALL_REQUEST, SMALL_REQUEST + 1, 1 << 20, MAX_REQUEST] {
                room.extend(&mut held, length).unwrap();
                assert_eq!(held.is_none(), length <= SMALL_REQUEST);
            }
            all.push(held);
        }
        let mut held = None;
        room.extend(&mut held, SMALL_REQUEST).unwrap();
        let refusal = room.extend(&mut held, SMALL_REQUEST + 1).unwrap_err();
        assert_eq!(refusal.kind, crate::model::ErrorKind::Failed);
        all.pop();
        room.extend(&mut held, MAX_REQUEST).unwrap();
    }
}

#[cfg(test)]
mod output_queue_tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_may_be_so_many_bytes_behind_and_no_more() {
        for size in [1, 8 << 10, 1 << 20] {
            let (sender, mut receiver) = output_queue();
            let mut bytes = 0;
            while sender.send("x".repeat(size)) {
                bytes += size + PIECE_COST;
            }
            assert!(
                bytes <= BEHIND && bytes + size + PIECE_COST > BEHIND,
                "{size}"
            );
            // A client that reads again is continued.
            assert!(receiver.recv().await.flatten().is_some());
            assert!(sender.send("x".repeat(size)), "{size}");
        }
    }

    #[tokio::test]
    async fn a_piece_of_any_size_goes_to_a_reader_that_is_not_behind() {
        let (sender, mut receiver) = output_queue();
        assert!(sender.send("x".repeat(2 * BEHIND)));
        assert!(!sender.send("y".to_owned()));
        sender.end();
        drop(sender);
        assert!(receiver.recv().await.flatten().is_some());
        assert_eq!(receiver.recv().await, Some(None));
        assert_eq!(receiver.recv().await, None);
    }
}

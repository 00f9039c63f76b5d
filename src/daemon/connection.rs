//! One connection to our socket: requests, each with its answer, or one subscription.

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::acceptor::Accepted;
use super::hang_up::hung_up;
use super::output_queue::OutputReceiver;
use super::signals::Stopping;
use super::streams::{Streams, until_closed};
use crate::files;
use crate::wire::{
    Filter, ReaderStart, Refusal, RefusalKind, Request, Response, WaitRequest, parse_request,
};

/// The longest request: the longest command line, quoted twice.
const MAX_REQUEST: u64 = 8 << 20;

/// What connections ask of the hub.
#[derive(Debug)]
pub(super) enum Ask {
    /// Something with one answer.
    Request(Request, oneshot::Sender<Response>),
    /// A wait: that it has begun, and how it ended.
    Wait {
        request: WaitRequest,
        begun: oneshot::Sender<()>,
        reply: oneshot::Sender<Response>,
    },
    /// A task's output, line by line.
    Follow {
        window: String,
        raw: bool,
        reply: oneshot::Sender<Result<OutputReceiver, Refusal>>,
    },
}

/// What is said before the lines of a task's output.
const FOLLOWING: &str = "following";

/// Serves one connection until either side leaves.
pub(super) async fn serve(
    accepted: Accepted,
    asks: mpsc::Sender<Ask>,
    streams: Streams,
    stopping: Stopping,
) {
    let Accepted {
        socket,
        is_open: _is_open,
    } = accepted;
    if !is_same_user(&socket) {
        tracing::warn!("refused a connection of another user");
        return;
    }
    let (reader, mut writer) = socket.into_split();
    let mut reader = BufReader::new(reader);
    loop {
        let request = tokio::select! {
            request = read_request(&mut reader) => request,
            // The daemon is leaving: half a request is not worth waiting for.
            () = asks.closed() => return,
        };
        let request = match request {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(refusal) => {
                answer(&mut writer, &Response::Refused(refusal)).await;
                return;
            }
        };
        let goes_on = match request {
            Request::Subscribe { start, filter } => {
                return subscribe(reader, writer, &streams, &start, filter).await;
            }
            Request::Wait(request) => wait(&mut reader, &mut writer, &asks, request).await,
            Request::Follow { window, raw } => {
                follow(&mut reader, &mut writer, &asks, window, raw).await
            }
            // Not by way of the hub, which may be waiting for a tmux that hangs.
            Request::Stop { cleanup: false } => {
                stopping.ask();
                answer(&mut writer, &Response::Done).await
            }
            request @ (Request::Whereabouts
            | Request::Status
            | Request::Look { .. }
            | Request::Run(_)
            | Request::Send(_)
            | Request::List
            | Request::Count
            | Request::Find { .. }
            | Request::Kill { .. }
            | Request::KillAll { .. }
            | Request::Prune
            | Request::Cursor { .. }
            | Request::Explain { .. }
            | Request::Stop { cleanup: true }) => {
                ask(&mut reader, &mut writer, &asks, request).await
            }
        };
        if !goes_on {
            return;
        }
    }
}

type Reader = BufReader<tokio::net::unix::OwnedReadHalf>;
type Writer = tokio::net::unix::OwnedWriteHalf;

/// Answers one request; returns whether the connection goes on. An asker that leaves meanwhile
/// waits for nothing any more.
async fn ask(
    reader: &mut Reader,
    writer: &mut Writer,
    asks: &mpsc::Sender<Ask>,
    request: Request,
) -> bool {
    let (reply, response) = oneshot::channel();
    if asks.send(Ask::Request(request, reply)).await.is_err() {
        return false;
    }
    tokio::select! {
        // No answer: the daemon is leaving.
        response = response => match response {
            Ok(response) => answer(writer, &response).await,
            Err(_) => false,
        },
        () = closed(reader) => false,
    }
}

/// The same for a wait, which may have two answers.
async fn wait(
    reader: &mut Reader,
    writer: &mut Writer,
    asks: &mpsc::Sender<Ask>,
    request: WaitRequest,
) -> bool {
    let (reply, mut response) = oneshot::channel();
    let (begun, has_begun) = oneshot::channel();
    let says_when_it_begins = request.says_when_it_begins;
    let ask = Ask::Wait {
        request,
        begun,
        reply,
    };
    if asks.send(ask).await.is_err() {
        return false;
    }
    // A refusal, and a wait that is over at once, have one answer.
    if says_when_it_begins && has_begun.await.is_ok() && !answer(writer, &Response::Waiting).await {
        return false;
    }
    tokio::select! {
        // No answer: the daemon is leaving.
        response = &mut response => match response {
            Ok(response) => answer(writer, &response).await,
            Err(_) => false,
        },
        () = closed(reader) => false,
    }
}

/// Serves one reader of the feed until either side leaves. What it says meanwhile is passed over.
async fn subscribe(
    reader: Reader,
    mut writer: Writer,
    streams: &Streams,
    start: &ReaderStart,
    filter: Filter,
) {
    match streams.subscribe(start, filter) {
        Err(refusal) => {
            answer(&mut writer, &Response::Refused(refusal)).await;
        }
        Ok(subscription) => {
            if let Ok(socket) = reader.into_inner().reunite(writer) {
                streams.serve(subscription, socket).await;
            }
        }
    }
}

/// Passes a task's output on, each piece a JSON string on a line, until the run has ended: `null`
/// says that it has, and that all of its output was told.
async fn follow(
    reader: &mut Reader,
    writer: &mut Writer,
    asks: &mpsc::Sender<Ask>,
    window: String,
    raw: bool,
) -> bool {
    let (reply, response) = oneshot::channel();
    if asks.send(Ask::Follow { window, raw, reply }).await.is_err() {
        return false;
    }
    let mut pieces = match response.await {
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
    false
}

/// Resolves when the other side has closed. What it says meanwhile stays to be read.
async fn closed(reader: &mut Reader) {
    if reader.fill_buf().await.is_ok() {
        hung_up(reader.get_ref().as_ref()).await;
    }
}

async fn read_request(reader: &mut Reader) -> Result<Option<Request>, Refusal> {
    use tokio::io::AsyncReadExt;

    let mut line = Vec::new();
    let mut limited = reader.take(MAX_REQUEST);
    match limited.read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    if line.last() != Some(&b'\n') && line.len() as u64 >= MAX_REQUEST {
        return Err(Refusal::new(
            RefusalKind::Usage,
            format!("a request has at most {MAX_REQUEST} bytes"),
        ));
    }
    parse_request(&line).map(Some)
}

/// Whether the answer went out.
async fn answer(writer: &mut Writer, response: &Response) -> bool {
    let mut line = serde_json::to_vec(response).expect("an answer is plain data");
    line.push(b'\n');
    writer.write_all(&line).await.is_ok()
}

/// The folder and the socket keep others out; the kernel's word on who it is makes sure.
fn is_same_user(socket: &UnixStream) -> bool {
    socket
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == files::our_uid())
}

//! One connection to our socket: requests, each with its answer, or one subscription.

use std::sync::Arc;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use super::stream::{self, StreamError, Subscription};
use crate::wire::{Filter, ReaderStart, Refusal, RefusalKind, Request, Response};

/// The longest request: a `run`'s worth of text with room to spare.
const MAX_REQUEST: u64 = 1 << 20;

/// What connections ask of the hub.
#[derive(Debug)]
pub(super) enum Ask {
    /// Something with one answer.
    Request(Request, oneshot::Sender<Response>),
    /// A stream.
    Subscribe(
        ReaderStart,
        Filter,
        oneshot::Sender<Result<Reading, Refusal>>,
    ),
}

/// A subscription, and the sign that somebody has it.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) subscription: Subscription,
    /// Counted by the hub: how many of these there are is how many readers there are.
    pub(super) _present: Arc<()>,
}

/// Serves one connection until either side leaves.
pub(super) async fn serve(socket: UnixStream, asks: mpsc::Sender<Ask>) {
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
            Err(why) => {
                let refusal = Refusal {
                    kind: RefusalKind::Usage,
                    message: why,
                };
                answer(&mut writer, &Response::Refused(refusal)).await;
                return;
            }
        };
        let Request::Subscribe { start, filter } = request else {
            let (reply, response) = oneshot::channel();
            if asks.send(Ask::Request(request, reply)).await.is_err() {
                return;
            }
            // No answer: the daemon is leaving.
            let Ok(response) = response.await else { return };
            if !answer(&mut writer, &response).await {
                return;
            }
            continue;
        };
        let (reply, response) = oneshot::channel();
        if asks
            .send(Ask::Subscribe(start, filter, reply))
            .await
            .is_err()
        {
            return;
        }
        match response.await {
            Err(_) => return,
            Ok(Err(refusal)) => {
                if !answer(&mut writer, &Response::Refused(refusal)).await {
                    return;
                }
            }
            Ok(Ok(reading)) => {
                let served = tokio::select! {
                    served = stream::serve(reading.subscription, &mut writer) => served,
                    () = until_closed(&mut reader) => return,
                };
                match served {
                    Ok(()) | Err(StreamError::Gone(_)) => {}
                    Err(error @ StreamError::Feed(_)) => {
                        tracing::error!(%error, "a reader was cut off");
                    }
                }
                return;
            }
        }
    }
}

async fn read_request(
    reader: &mut BufReader<tokio::net::unix::OwnedReadHalf>,
) -> Result<Option<Request>, String> {
    use tokio::io::AsyncReadExt;

    let mut line = Vec::new();
    let mut limited = reader.take(MAX_REQUEST);
    match limited.read_until(b'\n', &mut line).await {
        Ok(0) | Err(_) => return Ok(None),
        Ok(_) => {}
    }
    if line.last() != Some(&b'\n') && line.len() as u64 >= MAX_REQUEST {
        return Err(format!("a request has at most {MAX_REQUEST} bytes"));
    }
    match serde_json::from_slice(&line) {
        Ok(request) => Ok(Some(request)),
        Err(error) => Err(format!("not a request: {error}")),
    }
}

/// A subscriber that closes its side has left; what it says until then is not for us.
async fn until_closed(reader: &mut BufReader<tokio::net::unix::OwnedReadHalf>) {
    loop {
        match reader.fill_buf().await {
            Ok([]) | Err(_) => return,
            Ok(said) => {
                let n = said.len();
                reader.consume(n);
            }
        }
    }
}

/// Whether the answer went out.
async fn answer(writer: &mut tokio::net::unix::OwnedWriteHalf, response: &Response) -> bool {
    let mut line = serde_json::to_vec(response).expect("an answer is plain data");
    line.push(b'\n');
    writer.write_all(&line).await.is_ok()
}

/// The folder and the socket keep others out; the kernel's word on who it is makes sure.
fn is_same_user(socket: &UnixStream) -> bool {
    socket
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == rustix::process::getuid().as_raw())
}

//! The far side of the pipe: channels in, executions out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::execution::execute;
use super::frame::{Frame, Hello, LineReader, of_channel, to_channel};
use crate::model::Error;

/// The most executions at once.
const MOST_CHANNELS: usize = 1000;

/// How many frames of all channels may wait for the pipe.
const TO_PIPE: usize = 64;

/// Serves the channels of a pipe until it ends. Then all executions are terminated.
///
/// # Errors
///
/// When the pipe fails, or what comes is not ours.
pub(crate) async fn serve(
    input: impl AsyncRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    let (to_pipe, mut lines) = mpsc::channel::<Vec<u8>>(TO_PIPE);
    let write = async {
        let hello = to_channel(0, &Frame::Hello(Hello::ours()).line());
        output.write_all(&hello.unwrap_or_default()).await?;
        output.flush().await?;
        while let Some(line) = lines.recv().await {
            output.write_all(&line).await?;
            if lines.is_empty() {
                output.flush().await?;
            }
        }
        Ok(())
    };
    // Losing an arm is safe: either side of the pipe has ended.
    tokio::select! {
        written = write => written,
        read = serve_channels(LineReader::new(input), &to_pipe) => read,
    }
}

async fn serve_channels(
    mut input: LineReader<impl AsyncRead + Unpin>,
    to_pipe: &mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let channels: RefCell<BTreeMap<u32, mpsc::UnboundedSender<Frame>>> = RefCell::default();
    let mut executions = FuturesUnordered::new();
    let outcome = loop {
        // Losing an arm is safe: no byte of a line is lost.
        tokio::select! {
            line = input.line() => {
                let line = match line {
                    Ok(Some(line)) => line,
                    Ok(None) => break Ok(()),
                    Err(error) => break Err(error),
                };
                let Some((channel, line)) = of_channel(line) else {
                    break Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
                };
                let frame = match Frame::parse(&line) {
                    Ok(frame) => frame,
                    Err(error) => break Err(error),
                };
                let is_open = channels.borrow().contains_key(&channel);
                let Frame::Open(call) = frame else {
                    if let Some(queue) = channels.borrow().get(&channel) {
                        drop(queue.send(frame));
                    }
                    continue;
                };
                if is_open {
                    break Err(io::Error::new(io::ErrorKind::InvalidData, "opened twice"));
                }
                let send = async move |frame: Frame| {
                    if let Some(line) = to_channel(channel, &frame.line()) {
                        drop(to_pipe.send(line).await);
                    }
                };
                if channels.borrow().len() >= MOST_CHANNELS {
                    let why = format!("{} is busy with {MOST_CHANNELS} commands", call.caller.host);
                    send(Frame::Failed(Error::failed(why))).await;
                    continue;
                }
                let (queue, frames) = mpsc::unbounded_channel();
                channels.borrow_mut().insert(channel, queue);
                let channels = &channels;
                executions.push(async move {
                    execute(&call, frames, send).await;
                    channels.borrow_mut().remove(&channel);
                });
            }
            Some(()) = executions.next() => {}
        }
    };
    // Without their queues, executions are terminated.
    channels.borrow_mut().clear();
    while executions.next().await.is_some() {}
    outcome
}

//! `feed --follow --consumer`: the feed as a named reader, with acknowledgements.

use serde::Deserialize;
use tokio::sync::mpsc;

use super::args::{Consume, FeedFormat};
use super::context::{self, Context};
use super::feed_text::print_live;
use super::output;
use crate::client::DaemonClient;
use crate::faces::agent::read_lines;
use crate::model::{Error, ErrorKind, Seq};
use crate::ops::TaskSession;
use crate::wire::{Acknowledgement, ConsumeRequest, Filter, Response};

pub(super) async fn follow(
    context: &Context,
    session: &TaskSession,
    args: Consume,
    filter: Filter,
    format: FeedFormat,
) -> Result<(), Error> {
    let request = ConsumeRequest {
        name: args.consumer.unwrap_or_default(),
        from_now: args.from.is_some(),
        take_over: args.take_over,
        filter,
    };
    let daemon = session.daemon_or_start().await?;
    let mut client = daemon.ok_or_else(|| session.no_daemon())?;
    let mut interrupts = context::interrupts()?;
    let mut line = Some(client.consume(request).await?);
    context.limit.lift();
    let mut acknowledgements = (!args.auto_ack).then(read_lines);
    let mut auto_ack = args.auto_ack.then(AutoAck::default);
    loop {
        if let Some(text) = line.take() {
            check_refused(&text)?;
            match &mut auto_ack {
                Some(auto_ack) => auto_ack.print(&text, format, &mut client).await?,
                None => print_live(&text, format)?,
            }
        }
        tokio::select! {
            received = client.line() => match received? {
                Some(text) => line = Some(text),
                // The daemon stops, or another reader takes over.
                None => return Ok(()),
            },
            acknowledged = next(&mut acknowledgements) => {
                let Acknowledgement { ack } = acknowledged?;
                client.acknowledge(ack).await?;
            }
            () = output::stdout_closed() => return Ok(()),
            _ = interrupts.recv() => return Err(Error::silent(ErrorKind::Interrupted)),
        }
    }
}

/// The daemon ends a stream with a refusal when it was sent what it cannot acknowledge.
fn check_refused(text: &str) -> Result<(), Error> {
    if text.starts_with(r#"{"answer":"#)
        && let Ok(Response::Refused(refusal)) = serde_json::from_str(text)
    {
        return Err(refusal);
    }
    Ok(())
}

/// Acknowledgements from standard input.
pub(super) type Acknowledgements = mpsc::Receiver<Result<Acknowledgement, serde_json::Error>>;

/// Resolves with the next acknowledgement; never when there will be none.
pub(super) async fn next(from: &mut Option<Acknowledgements>) -> Result<Acknowledgement, Error> {
    if let Some(receiver) = from
        && let Some(next) = receiver.recv().await
    {
        return next.map_err(|error| {
            let why = format!("standard input has no line like {{\"ack\":12}}: {error}");
            Error::usage(why)
        });
    }
    std::future::pending().await
}

/// Acknowledges what was printed. One acknowledgement is on its way at a time: those of the records
/// that are printed meanwhile become one.
#[derive(Debug, Default)]
struct AutoAck {
    /// The last record that was printed and not acknowledged.
    printed: Option<Seq>,
    /// Whether a confirmation is still to come.
    is_waiting: bool,
}

/// The fields of a line that say what can be acknowledged.
#[derive(Debug, Deserialize)]
struct Numbers {
    kind: String,
    seq: Option<Seq>,
    to: Option<Seq>,
}

impl AutoAck {
    async fn print(
        &mut self,
        text: &str,
        format: FeedFormat,
        client: &mut DaemonClient,
    ) -> Result<(), Error> {
        let numbers = serde_json::from_str::<Numbers>(text).map_err(Error::of)?;
        if numbers.kind == "acked" {
            self.is_waiting = false;
        } else {
            print_live(text, format)?;
            // A gap has no number of its own: it is acknowledged by its end.
            self.printed = numbers.seq.or(numbers.to).or(self.printed);
        }
        if !self.is_waiting
            && let Some(seq) = self.printed.take()
        {
            self.is_waiting = true;
            client.acknowledge(seq).await?;
        }
        Ok(())
    }
}

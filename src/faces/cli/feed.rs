//! `feed`: prints stored and live records.

use std::time::Duration;

use tokio::sync::mpsc;

use super::args::{Consume, Feed, FeedFormat};
use super::context::{self, Context};
use super::output;
use crate::client::refusal_in;
use crate::clock;
use crate::faces::agent::read_lines;
use crate::model::{Body, Error, ErrorKind, Kind, Millis, Record, Seq, rfc3339};
use crate::ops::{self, LineHead, StoredLine, StoredRecords, TaskSession};
use crate::rules::wire::{
    Acknowledgement, ConsumeRequest, Filter, LastRecords, LiveRecord, ReaderStart, Request,
    StoredUse, StreamRecord,
};

pub(super) async fn run(context: &Context, args: Feed) -> Result<(), Error> {
    let session = context.session().await?;
    // A consumer is a program, also if its output is shown.
    let is_for_user = args.format.is_none()
        && args.consume.consumer.is_none()
        && output::viewer().is_stdout_terminal;
    let format = args.format.unwrap_or(if is_for_user {
        FeedFormat::Text
    } else {
        FeedFormat::Json
    });
    let mut kinds = args.kind;
    if is_for_user && kinds.is_empty() {
        // A notice or a follow-up says again what events have said.
        kinds.push(Kind::Event);
    }
    let names = args.task.clone();
    let filter = Filter::new(kinds, args.types, args.task).for_owner(args.owner);
    let last = LastRecords {
        after: args.after,
        most: args.lines,
        since: args.since.map(earliest),
    };
    if !args.follow {
        let since = last.since;
        print_stored(context, &session, ReaderStart::Last(last), filter, format).await?;
        return note_unknown(&session, names, since).await;
    }
    note_unknown(&session, names, None).await?;
    let (request, acknowledging) = match args.consume {
        Consume {
            consumer: Some(name),
            from,
            take_over,
            auto_ack,
        } => {
            let request = ConsumeRequest {
                name,
                from_now: from.is_some(),
                take_over,
                filter,
            };
            let acknowledging = match auto_ack {
                true => Acknowledging::Printed,
                false => Acknowledging::Given(read_lines()),
            };
            (Request::Consume(request), acknowledging)
        }
        Consume { consumer: None, .. } => {
            let start = match last {
                last if !last.is_all() => ReaderStart::Last(last),
                last => last.after.map_or(ReaderStart::Now, ReaderStart::After),
            };
            let request = Request::Subscribe {
                start,
                filter,
                tasks: false,
                stored: None,
            };
            (request, Acknowledging::Nothing)
        }
    };
    follow(context, &session, request, format, acknowledging).await
}

/// Returns the time that lies this long ago, in milliseconds since 1970.
fn earliest(ago: Duration) -> Millis {
    clock::now().wall - Millis::try_from(ago.as_millis()).unwrap_or(Millis::MAX)
}

/// How long it may take to find out which tasks there are, for a note that can be left out.
const LIST_WITHIN: Duration = Duration::from_secs(2);

/// Says which of the tasks with these names and window ids are asked for in vain: none is there, and none
/// has an event since then. With --follow, they may still come.
async fn note_unknown(
    session: &TaskSession,
    names: Vec<String>,
    since: Option<Millis>,
) -> Result<(), Error> {
    let mut unknown = Vec::new();
    for name in names {
        let filter = Filter::new(vec![Kind::Event], Vec::new(), vec![name.clone()]);
        let last = LastRecords {
            after: None,
            most: Some(1),
            since,
        };
        let start = ReaderStart::Last(last);
        let stored = StoredRecords::open(session, start, filter, StoredUse::Examine).await?;
        let is_recorded = match stored {
            Some(mut stored) => stored.next_record().await?.is_some(),
            None => false,
        };
        if !is_recorded {
            unknown.push(name);
        }
    }
    if unknown.is_empty() {
        return Ok(());
    }
    let mut session = session.for_request();
    let Ok(listed) = tokio::time::timeout(LIST_WITHIN, ops::list(&mut session)).await else {
        return Ok(());
    };
    let tasks = listed.map(|view| view.tasks).unwrap_or_default();
    unknown.retain(|name| !tasks.iter().any(|listed| listed.task.is_called(name)));
    let when = since.map_or("", |_| " in that time");
    for name in unknown {
        output::note(&format!(
            "tmux-task: feed: there is no task `{name}`, and no record of one{when}"
        ));
    }
    Ok(())
}

async fn print_stored(
    context: &Context,
    session: &TaskSession,
    start: ReaderStart,
    filter: Filter,
    format: FeedFormat,
) -> Result<(), Error> {
    let stored = StoredRecords::open(session, start, filter, StoredUse::Print).await?;
    let mut stored = stored.ok_or_else(|| ops::no_feed(session))?;
    context.limit.lift();
    let mut out = output::Results::new();
    let mut lost = Vec::new();
    while let Some(line) = stored.next().await? {
        match line {
            StoredLine::Record(text) => {
                let line = line_of(text, format)?;
                line.map_or(Ok(()), |line| out.line(&line))?;
            }
            StoredLine::Gap(from, to) => lost.push((from, to)),
        }
    }
    out.end()?;
    if let Some(missing) = missing(&lost) {
        output::note(&format!("tmux-task: feed: {missing}"));
    }
    Ok(())
}

/// What a consumer acknowledges.
pub(super) enum Acknowledging {
    /// It is none.
    Nothing,
    /// What it is told on standard input.
    Given(mpsc::Receiver<Result<Acknowledgement, serde_json::Error>>),
    /// What was printed.
    Printed,
}

/// Prints the stream that is requested, until it or stdout is closed.
pub(super) async fn follow(
    context: &Context,
    session: &TaskSession,
    request: Request,
    format: FeedFormat,
    mut acknowledging: Acknowledging,
) -> Result<(), Error> {
    let mut client = session.daemon_or_start().await?;
    let hello = client.stream(&request).await?;
    // Also while records arrive without a pause.
    let mut interrupts = context::interrupts()?;
    context.limit.lift();
    let mut line = Some(hello);
    loop {
        if let Some(text) = line.take() {
            // The daemon ends a stream with a refusal when it was sent what it cannot acknowledge.
            if let Some(refusal) = refusal_in(&text) {
                return Err(refusal);
            }
            let printed = match &acknowledging {
                Acknowledging::Printed => {
                    Some(serde_json::from_str::<LineHead>(&text).map_err(Error::of)?)
                }
                Acknowledging::Nothing | Acknowledging::Given(_) => None,
            };
            if printed.as_ref().is_none_or(|head| head.kind != "acked")
                && let Some(line) = line_of(text, format)?
            {
                output::line(&line)?;
            }
            // A gap has no number of its own: it is acknowledged by its end.
            if let Some(seq) = printed.and_then(|head| head.seq.or(head.to)) {
                client.acknowledge(seq).await?;
            }
        }
        tokio::select! {
            received = client.line() => match received? {
                Some(text) => line = Some(text),
                // The daemon stops, or another reader takes over.
                None => return Ok(()),
            },
            acknowledged = next(&mut acknowledging) => {
                let Acknowledgement { ack } = acknowledged?;
                client.acknowledge(ack).await?;
            }
            // It is noticed even when nothing is written to it.
            () = output::stdout_closed() => return Ok(()),
            _ = interrupts.recv() => return Err(Error::silent(ErrorKind::Interrupted)),
        }
    }
}

/// Resolves with the next acknowledgement from standard input; never when there will be none.
async fn next(from: &mut Acknowledging) -> Result<Acknowledgement, Error> {
    if let Acknowledging::Given(receiver) = from
        && let Some(next) = receiver.recv().await
    {
        return next.map_err(|error| {
            let why = format!("standard input has no line like {{\"ack\":12}}: {error}");
            Error::usage(why)
        });
    }
    std::future::pending().await
}

/// Returns how a line of a stream is printed; `None` where it is not.
fn line_of(text: String, format: FeedFormat) -> Result<Option<String>, Error> {
    if format == FeedFormat::Json {
        return Ok(Some(text));
    }
    Ok(match serde_json::from_str(&text) {
        Ok(StreamRecord::Durable(record)) => Some(durable(&record)),
        Ok(StreamRecord::Live(record)) => live_text(&record),
        Err(error) => {
            let head = serde_json::from_str::<LineHead>(&text).map_err(Error::of)?;
            let seq = head.seq.ok_or_else(|| Error::of(&error))?;
            Some(format!("#{seq} of a later version"))
        }
    })
}

fn durable(record: &Record) -> String {
    let (kind, text) = match &record.body {
        Body::Event(event) => (
            format!("event {}", event.event_type()),
            crate::rules::route::text_of(event),
        ),
        Body::Notice { text, .. } => ("notice".to_owned(), text.clone()),
        Body::FollowUp { message, .. } => ("followUp".to_owned(), message.content.clone()),
    };
    let text = text.replace('\n', "\n    ");
    format!("{} #{} {kind}: {text}", rfc3339(record.time), record.seq)
}

fn live_text(record: &LiveRecord) -> Option<String> {
    match record {
        LiveRecord::Status {
            text,
            running,
            waiting,
            dead,
            problem,
        } => {
            let counts = match text {
                Some(text) => {
                    format!("{text} ({running} running, {waiting} waiting, {dead} exited)")
                }
                None => "tmux: no session".to_owned(),
            };
            let problem = problem.as_ref().map(|problem| format!("; {problem}"));
            Some(counts + &problem.unwrap_or_default())
        }
        LiveRecord::Gap { from, to } => missing(&[(*from, *to)]),
        LiveRecord::Acked { acked } => Some(format!("acknowledged up to #{acked}")),
        LiveRecord::Replaced => Some("another process reads as this consumer now".to_owned()),
        LiveRecord::Hello { .. } | LiveRecord::Sync | LiveRecord::Tasks { .. } => None,
    }
}

/// Reports which records are missing, if any.
fn missing(lost: &[(Seq, Seq)]) -> Option<String> {
    let stretches: Vec<String> = lost
        .iter()
        .map(|(from, to)| match to - from {
            0 => format!("{from}"),
            _ => format!("{from} to {to}"),
        })
        .collect();
    match stretches.as_slice() {
        [] => None,
        [one] if !one.contains(' ') => Some(format!("record {one} is gone")),
        several => Some(format!("records {} are gone", several.join(", "))),
    }
}

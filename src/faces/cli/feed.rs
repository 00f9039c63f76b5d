//! `feed`: prints stored and live records.

use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::mpsc;

use super::context::{self, Context};
use super::output;
use crate::client::refusal_in;
use crate::clock;
use crate::config::read_time;
use crate::faces::agent::read_lines;
use crate::model::*;
use crate::ops::{self, LineHead, StoredLine, StoredRecords, TaskSession, number, task_names};
use crate::rules::route;
use crate::rules::wire::{
    Acknowledgement, After, ConsumeRequest, Filter, LastRecords, LiveRecord, ReaderStart, Request,
    StoredUse, StreamRecord,
};

#[derive(Debug, Default, Args)]
pub(super) struct Feed {
    /// Stream new records, from now unless --after, --lines, --since or --consumer says where it starts
    #[arg(short, long)]
    pub(super) follow: bool,
    /// Start after this record, SEQ or EPOCH:SEQ; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    after: Option<After>,
    /// Only the last N records of those that the other options select; with --follow, new ones follow
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<usize>("not a number of records, like 20"), allow_negative_numbers = true, conflicts_with = "consumer")]
    lines: Option<usize>,
    /// Only records that are not older than this, like 90s, 10m or 2h; with --follow, new ones follow
    #[arg(long, value_name = "D", value_parser = read_time, conflicts_with = "consumer")]
    since: Option<Duration>,
    #[command(flatten)]
    pub(super) consume: Consume,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    kind: Vec<Kind>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    types: Vec<EventType>,
    /// Only this task, by name or window id; may be given more than once
    #[arg(long, value_name = "NAME", add = task_names::candidates())]
    task: Vec<String>,
    /// Only notices and follow-ups for this owner, CLIENT:ID, and for everyone; events of all
    #[arg(long, hide = true, value_name = "ID")]
    owner: Option<String>,
    /// How to print a record [default: json; text on a terminal, where each event is printed once
    /// unless --kind says what to print]
    #[arg(long, value_enum)]
    format: Option<FeedFormat>,
}

// Reading as a consumer.
#[derive(Debug, Default, Args)]
pub(super) struct Consume {
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":SEQ} on standard input acknowledges a record and all before it; {"acked":SEQ}
    /// confirms that this is on the disk. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after",
        add = task_names::consumer_candidates()
    )]
    pub(super) consumer: Option<String>,
    /// Acknowledge each record after printing it; standard input is not read
    #[arg(long, requires = "consumer")]
    pub(super) auto_ack: bool,
    /// Where a new consumer starts, instead of at the first record: after the existing ones
    #[arg(long, hide = true, value_name = "WHERE", value_parser = ["now"], requires = "consumer")]
    from: Option<String>,
    /// End the stream of the process that reads as this consumer now, if there is one
    #[arg(long, hide = true, requires = "consumer")]
    take_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FeedFormat {
    /// JSON lines as stored
    Json,
    /// For people
    Text,
}

/// Prints what is recorded from now on, for programs.
pub(super) async fn live(context: &Context) -> Result<(), Error> {
    let live = Feed {
        follow: true,
        format: Some(FeedFormat::Json),
        ..Feed::default()
    };
    run(context, live).await
}

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
    let filter = Filter::new(kinds, args.types, args.task).for_owner(args.owner);
    let earliest =
        |ago| clock::now().wall - Millis::try_from(whole_millis(ago)).unwrap_or(Millis::MAX);
    let last = LastRecords {
        after: args.after,
        most: args.lines,
        since: args.since.map(earliest),
    };
    if !args.follow {
        return print_stored(context, &session, last, filter, format).await;
    }
    let acks_printed = args.consume.auto_ack;
    let given = (args.consume.consumer.is_some() && !acks_printed).then(read_lines);
    let request = match args.consume {
        Consume {
            consumer: Some(name),
            from,
            take_over,
            ..
        } => Request::Consume(ConsumeRequest {
            name,
            from_now: from.is_some(),
            take_over,
            filter,
        }),
        Consume { consumer: None, .. } => Request::Subscribe {
            start: match last.is_all() {
                false => ReaderStart::Last(last),
                true => last.after.map_or(ReaderStart::Now, ReaderStart::After),
            },
            filter,
            tasks: false,
            stored: None,
        },
    };
    follow(context, &session, request, format, given, acks_printed).await
}

async fn print_stored(
    context: &Context,
    session: &TaskSession,
    last: LastRecords,
    filter: Filter,
    format: FeedFormat,
) -> Result<(), Error> {
    let start = ReaderStart::Last(last);
    let stored = StoredRecords::open(session, start, filter, StoredUse::Print).await?;
    let mut stored = stored.ok_or_else(|| ops::no_feed(session))?;
    context.limit.lift();
    let mut out = output::Results::new();
    let mut lost = Vec::new();
    while let Some(line) = stored.next().await? {
        match line {
            StoredLine::Record(text) => {
                if let Some(line) = line_of(text, format)? {
                    out.line(&line)?;
                }
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

/// What a consumer acknowledges, as it is told on standard input.
type Given = mpsc::Receiver<Result<Acknowledgement, serde_json::Error>>;

/// Prints the stream that is requested, until it or stdout is closed. What is `given` is acknowledged, or what
/// was printed.
async fn follow(
    context: &Context,
    session: &TaskSession,
    request: Request,
    format: FeedFormat,
    mut given: Option<Given>,
    acks_printed: bool,
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
            let head = match acks_printed {
                true => serde_json::from_str(&text).map_err(Error::of)?,
                false => LineHead::default(),
            };
            if head.kind != "acked"
                && let Some(line) = line_of(text, format)?
            {
                output::line(&line)?;
            }
            // A gap has no number of its own: it is acknowledged by its end.
            if let Some(seq) = head.seq.or(head.to) {
                client.acknowledge(seq).await?;
            }
        }
        tokio::select! {
            received = client.line() => match received? {
                Some(text) => line = Some(text),
                // The daemon stops, or another reader takes over.
                None => return Ok(()),
            },
            acknowledged = next(&mut given) => {
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
async fn next(from: &mut Option<Given>) -> Result<Acknowledgement, Error> {
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
            route::text_of(event),
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
            ..
        } => {
            let mut line = match text {
                Some(text) => {
                    format!("{text} ({running} running, {waiting} waiting, {dead} exited)")
                }
                None => "tmux: no session".to_owned(),
            };
            if let Some(problem) = problem {
                line.push_str(&format!("; {problem}"));
            }
            Some(line)
        }
        LiveRecord::Gap { from, to } => missing(&[(*from, *to)]),
        LiveRecord::Acked { acked } => Some(format!("acknowledged up to #{acked}")),
        LiveRecord::Replaced => Some("another process reads as this consumer now".to_owned()),
        LiveRecord::Hello { .. } | LiveRecord::Sync | LiveRecord::Tasks { .. } => None,
    }
}

fn missing(lost: &[(Seq, Seq)]) -> Option<String> {
    let stretch = |(from, to): &(Seq, Seq)| match from == to {
        true => format!("{from}"),
        false => format!("{from} to {to}"),
    };
    match lost {
        [] => None,
        [(from, to)] if from == to => Some(format!("record {from} is gone")),
        several => {
            let stretches: Vec<String> = several.iter().map(stretch).collect();
            Some(format!("records {} are gone", stretches.join(", ")))
        }
    }
}

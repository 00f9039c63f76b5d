//! `feed`: prints stored and live records.

use std::time::Duration;

use super::args::{Feed, FeedFormat};
use super::context::{self, Context};
use super::feed_text::{missing, print_live, record_text};
use super::{consume, output};
use crate::clock;
use crate::model::{Error, ErrorKind, Kind, Millis};
use crate::ops::{self, StoredLine, StoredRecords, TaskSession};
use crate::wire::{Filter, LastRecords, ReaderStart, StoredUse};

pub(super) async fn run(context: &Context, args: Feed) -> Result<(), Error> {
    let session = context.session().await?;
    // A consumer is a program, also if its output is shown.
    let is_for_user =
        args.format.is_none() && args.consume.consumer.is_none() && output::is_stdout_terminal();
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
    if args.consume.consumer.is_some() {
        return consume::follow(context, &session, args.consume, filter, format).await;
    }
    let start = match last {
        last if !last.is_all() => ReaderStart::Last(last),
        last => last.after.map_or(ReaderStart::Now, ReaderStart::After),
    };
    follow(context, &session, start, filter, format).await
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
            StoredLine::Record(text) => out.line(&record_text(text, format)?)?,
            StoredLine::Gap(from, to) => lost.push((from, to)),
        }
    }
    out.end()?;
    if let Some(missing) = missing(&lost) {
        output::note(&format!("tmux-task: feed: {missing}"));
    }
    Ok(())
}

async fn follow(
    context: &Context,
    session: &TaskSession,
    start: ReaderStart,
    filter: Filter,
    format: FeedFormat,
) -> Result<(), Error> {
    let daemon = session.daemon_or_start().await?;
    let mut client = daemon.ok_or_else(|| session.no_daemon())?;
    // Also while records arrive without a pause.
    let mut interrupts = context::interrupts()?;
    let mut line = Some(client.subscribe(start, filter).await?);
    context.limit.lift();
    while let Some(text) = line {
        print_live(&text, format)?;
        // Ends with the daemon. A closed stdout is noticed even when nothing is written to it.
        line = tokio::select! {
            line = client.line() => line?,
            () = output::stdout_closed() => return Ok(()),
            _ = interrupts.recv() => return Err(Error::silent(ErrorKind::Interrupted)),
        };
    }
    Ok(())
}

//! `feed`: prints stored and live records.

use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

use super::args::{Feed, FeedFormat};
use super::context::{self, Context};
use super::feed_text::{durable, missing, print_live, unknown};
use super::{consume, output};
use crate::clock;
use crate::model::{self, Body, Error, ErrorKind, Millis, Seq, parse_rfc3339};
use crate::ops::{self, TaskSession};
use crate::store::feed::{self, FeedError, FeedLine, Sequence, WholeLines};
use crate::wire::{After, Filter, ReaderStart};

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
        kinds.push(model::Kind::Event);
    }
    let filter = Filter::new(kinds, args.types, args.task).for_owner(args.owner);
    if args.follow {
        let names = without_task(&session, filter.tasks.clone()).await;
        note_unknown(&not_recorded(&session.paths.feed(), names)?, "");
    }
    if args.consume.consumer.is_some() {
        return consume::follow(context, &session, args.consume, filter, format).await;
    }
    let last = Last {
        n_records: args.lines.unwrap_or(usize::MAX),
        since: args.since.map(earliest),
    };
    if args.follow {
        follow(context, &session, args.after, filter, &last, format).await
    } else {
        // It is on the disk.
        context.limit.lift();
        let names = print_kept(&session, args.after.as_ref(), filter, &last, format)?;
        let mut names = without_task(&session, names).await;
        if last.since.is_none() {
            names = not_recorded(&session.paths.feed(), names)?;
        }
        note_unknown(&names, last.since.map_or("", |_| " in that time"));
        Ok(())
    }
}

/// How long it may take to find out which tasks there are, for a note that can be left out.
const LIST_WITHIN: Duration = Duration::from_secs(2);

/// Returns those of the names and window ids that are no task's at present. None if that is not known.
async fn without_task(session: &TaskSession, mut names: Vec<String>) -> Vec<String> {
    if names.is_empty() {
        return names;
    }
    let mut session = session.for_request();
    let Ok(listed) = tokio::time::timeout(LIST_WITHIN, ops::list(&mut session)).await else {
        return Vec::new();
    };
    let tasks = listed.map(|view| view.tasks).unwrap_or_default();
    names.retain(|name| !tasks.iter().any(|listed| listed.task.is_called(name)));
    names
}

/// Returns those of the names and window ids that no record is about.
fn not_recorded(path: &Path, mut names: Vec<String>) -> Result<Vec<String>, Error> {
    if names.is_empty() || !feed::has_files(path) {
        return Ok(names);
    }
    let failed = |error: FeedError| Error::of(&error);
    let mut lines = WholeLines::after(path, 0).map_err(failed)?;
    while let Some(line) = lines.next_line().map_err(failed)?
        && !names.is_empty()
    {
        if let FeedLine::Record(record) = &line {
            retain_others(&mut names, &record.body);
        }
    }
    Ok(names)
}

/// Removes the names and window ids of the task that a record is about.
fn retain_others(names: &mut Vec<String>, body: &Body) {
    if let Body::Event(event) = body {
        names.retain(|name| !event.task.is_called(name));
    }
}

/// Says which tasks are asked for in vain. With --follow, they may still come.
fn note_unknown(names: &[String], when: &str) {
    for name in names {
        output::note(&format!(
            "tmux-task: feed: there is no task `{name}`, and no record of one{when}"
        ));
    }
}

/// Which of the records that are kept are printed.
struct Last {
    /// How many, at most.
    n_records: usize,
    /// When the first one was made, in milliseconds since 1970.
    since: Option<Millis>,
}

impl Last {
    /// Whether all records are printed.
    fn is_all(&self) -> bool {
        self.n_records == usize::MAX && self.since.is_none()
    }

    /// Returns the record behind which all of those in time are; 0 for the beginning.
    fn before_first_in_time(&self, path: &Path) -> Result<Seq, FeedError> {
        let since = self.since.map(|since| since - CLOCK_STEPS);
        let before = since.map_or(Ok(None), |since| feed::before_time(path, since));
        Ok(before?.unwrap_or_default())
    }

    /// Whether a record made at this time is too old.
    fn is_before(&self, time: Millis) -> bool {
        self.since.is_some_and(|since| time < since)
    }
}

/// Returns the time that lies this long ago, in milliseconds since 1970.
fn earliest(ago: Duration) -> Millis {
    clock::now().wall - Millis::try_from(ago.as_millis()).unwrap_or(Millis::MAX)
}

/// The last records that are to be printed.
struct PrintQueue {
    n_records: usize,
    /// Those that are kept until it is known which are the last ones.
    lines: VecDeque<(Seq, String)>,
    /// The first one, if it is printed already.
    first: Option<Seq>,
}

impl PrintQueue {
    /// Prints a record, or keeps it until it is known whether it is among the last ones.
    fn add(&mut self, seq: Seq, text: String, print: Print<'_>) -> Result<(), Error> {
        if self.n_records == usize::MAX {
            self.first.get_or_insert(seq);
            return print(&text);
        }
        self.lines.push_back((seq, text));
        if self.lines.len() > self.n_records {
            self.lines.pop_front();
        }
        Ok(())
    }

    /// Returns the first record, if there is one.
    fn first(&self) -> Option<Seq> {
        self.first.or(self.lines.front().map(|(seq, _)| *seq))
    }
}

/// Prints a line.
type Print<'a> = &'a mut dyn FnMut(&str) -> Result<(), Error>;

/// How many bytes of the feed are read at first for each of the last records that are asked for.
const BYTES_PER_RECORD: u64 = 2048;

/// How far a clock may have been set back, in milliseconds, for all records by their time.
const CLOCK_STEPS: Millis = 60_000;

/// How many bytes are read at first at least.
const FIRST_STEP: u64 = 64 * 1024;

/// The files are enough: no daemon is needed. Returns those of the tasks that are asked for that none
/// of the records that were read is about.
fn print_kept(
    session: &TaskSession,
    after: Option<&After>,
    filter: Filter,
    last: &Last,
    format: FeedFormat,
) -> Result<Vec<String>, Error> {
    let path = session.paths.feed();
    if !feed::has_files(&path) {
        let why = format!("no feed of session `{}`", session.name);
        return Err(Error::missing(why)
            .with_hint("a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`"));
    }
    let mut out = output::Results::new();
    let mut print = |text: &str| out.line(text);
    let (first, read) = read_kept(&path, after, &filter, last, format, &mut print)?;
    for (_, text) in &read.printed.lines {
        out.line(text)?;
    }
    out.end()?;
    let first = if last.is_all() {
        first
    } else {
        read.before_first()
    };
    if let (true, Some(epoch)) = (read.has_printed, &read.epoch) {
        // Who asks for the last records has not read those before.
        let up_to = if last.is_all() {
            read.last_follow_up
        } else {
            0
        };
        note_read(session, epoch, up_to);
    }
    if let Some(missing) = missing(&read.lost, first) {
        output::note(&format!("tmux-task: feed: {missing}"));
    }
    Ok(read.unseen)
}

/// Reads the files behind `after`, or as far back as the last records need. Prints each record that is
/// known to be among those that are asked for. Returns also the record behind which it has read.
fn read_kept<'a>(
    path: &Path,
    after: Option<&After>,
    filter: &Filter,
    last: &'a Last,
    format: FeedFormat,
    print: Print<'_>,
) -> Result<(Seq, Read<'a>), Error> {
    let failed = |error: FeedError| Error::of(&error);
    // Records that are kept no longer are missing only for those who ask for them.
    let in_time = last.before_first_in_time(path).map_err(failed)?;
    let before_kept = feed::first_kept(path).saturating_sub(1).max(in_time);
    let mut read_from = |first| {
        let read = Read::new(last, filter.clone(), format);
        read.all(path, first, after, print)
    };
    let (first, read) = match after {
        Some(after) => (after.seq, read_from(after.seq.max(in_time))?),
        None if last.n_records == usize::MAX => (before_kept, read_from(before_kept)?),
        // The last records are near the end. If the others are filtered out, more of it is read.
        None => {
            let n_records = u64::try_from(last.n_records).unwrap_or(u64::MAX);
            let mut n_bytes = n_records.saturating_mul(BYTES_PER_RECORD).max(FIRST_STEP);
            loop {
                let tail = feed::before_tail(path, n_bytes).map_err(failed)?;
                let first = tail.map_or(before_kept, |tail| tail.max(before_kept));
                let read = read_from(first)?;
                if first == before_kept || read.printed.lines.len() == last.n_records {
                    break (first, read);
                }
                n_bytes = n_bytes.saturating_mul(4);
            }
        }
    };
    if let Some(after) = after {
        let present = read.epoch.as_deref().unwrap_or("(none yet)");
        after.check(present, read.last_seq).map_err(Error::failed)?;
    }
    Ok((first, read))
}

/// What was read of the files.
struct Read<'a> {
    last: &'a Last,
    filter: Filter,
    format: FeedFormat,
    printed: PrintQueue,
    has_printed: bool,
    epoch: Option<String>,
    /// The last record, whether it can be read or not.
    last_seq: Seq,
    /// The last follow-up before which none was left out.
    last_follow_up: Seq,
    /// The first and last records of each gap.
    lost: Vec<(Seq, Seq)>,
    /// The tasks that are asked for, as far as no event was about them.
    unseen: Vec<String>,
}

impl<'a> Read<'a> {
    fn new(last: &'a Last, filter: Filter, format: FeedFormat) -> Self {
        let printed = PrintQueue {
            n_records: last.n_records,
            lines: VecDeque::new(),
            first: None,
        };
        Self {
            unseen: filter.tasks.clone(),
            last,
            filter,
            format,
            printed,
            has_printed: false,
            epoch: None,
            last_seq: 0,
            last_follow_up: 0,
            lost: Vec::new(),
        }
    }

    /// Reads the records behind `first` to the end of the feed.
    fn all(
        mut self,
        path: &Path,
        first: Seq,
        after: Option<&After>,
        print: Print<'_>,
    ) -> Result<Self, Error> {
        let failed = |error: FeedError| Error::of(&error);
        let asked = after.and_then(|after| after.epoch.as_ref());
        let mut lines = WholeLines::after(path, self.filter.first_seen(first)).map_err(failed)?;
        let mut sequence = Sequence::after(first);
        self.epoch = lines.epoch().map(ToOwned::to_owned);
        let mut has_skipped = false;
        while let Some(line) = lines.next_line().map_err(failed)? {
            let Some(frame) = line.frame() else { continue };
            let is_asked = asked.is_none_or(|asked| *asked == frame.epoch);
            self.epoch = Some(frame.epoch);
            // The filter needs every record, because notices refer to earlier events.
            let text = self.text(&line);
            if is_asked && !sequence.has(frame.seq) {
                self.lost.extend(sequence.read(frame.seq));
                let is_follow_up = matches!(&line, FeedLine::Record(record)
                    if matches!(record.body, Body::FollowUp { .. }));
                // A follow-up for another owner was not read.
                has_skipped |= is_follow_up && text.is_none();
                if is_follow_up && !has_skipped {
                    self.last_follow_up = frame.seq;
                }
                if let Some(text) = text {
                    self.printed.add(frame.seq, text, print)?;
                    self.has_printed = true;
                }
            }
        }
        self.last_seq = lines.end().last_seq;
        self.lost.extend(sequence.end_at(self.last_seq));
        Ok(self)
    }

    /// Returns the record before the first one that is asked for; the last one if there is none.
    fn before_first(&self) -> Seq {
        let first = self.printed.first();
        first.map_or(self.last_seq, |first| first.saturating_sub(1))
    }

    /// Returns how a line of the feed is printed; `None` if it is not asked for.
    fn text(&mut self, line: &FeedLine) -> Option<String> {
        match line {
            FeedLine::Record(record) => {
                retain_others(&mut self.unseen, &record.body);
                self.filter
                    .wants(record.seq, &record.body)
                    .then(|| durable(record, self.format))
                    .filter(|_| !self.last.is_before(record.time))
            }
            FeedLine::Unknown(record) => self
                .filter
                .wants_unknown()
                .then(|| unknown(record, self.format))
                .filter(|_| {
                    let time = record.fields["time"].as_str().and_then(parse_rfc3339);
                    !time.is_some_and(|time| self.last.is_before(time))
                }),
            FeedLine::Damaged => None,
        }
    }
}

/// Stores which follow-up was read last, so that the session does not count as unused in a start-up
/// scan.
fn note_read(session: &TaskSession, epoch: &str, last_follow_up: Seq) {
    let now = clock::boot_time();
    let ages = feed::Ages::load(&session.paths.feed(), &now).clock();
    // If the folder cannot be written to, there is no daemon either.
    drop(feed::note_read(
        &session.paths.last_reader(),
        epoch,
        last_follow_up,
        ages.at(now.millis),
    ));
}

async fn follow(
    context: &Context,
    session: &TaskSession,
    after: Option<After>,
    filter: Filter,
    last: &Last,
    format: FeedFormat,
) -> Result<(), Error> {
    let daemon = session.daemon_or_start().await?;
    let mut client = daemon.ok_or_else(|| session.no_daemon())?;
    // Also while records arrive without a pause.
    let mut interrupts = context::interrupts()?;
    let start = if last.is_all() {
        after.map_or(ReaderStart::Now, ReaderStart::After)
    } else {
        // The daemon sends the same records, and then the new ones without a gap.
        ReaderStart::After(before_last(session, after, &filter, last, format)?)
    };
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

/// Returns the position before the last records that are asked for.
fn before_last(
    session: &TaskSession,
    after: Option<After>,
    filter: &Filter,
    last: &Last,
    format: FeedFormat,
) -> Result<After, Error> {
    let path = session.paths.feed();
    if !feed::has_files(&path) {
        return Ok(after.unwrap_or_default());
    }
    let mut ignore = |_: &str| Ok(());
    let (_, read) = read_kept(&path, after.as_ref(), filter, last, format, &mut ignore)?;
    Ok(After {
        seq: read.before_first(),
        epoch: read.epoch,
    })
}

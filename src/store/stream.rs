//! Serves one reader of the feed, from the disk and at its own pace, live or without a daemon.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::coop::consume_budget;

use super::consumers::{Consumers, Lease, Reading, StreamEnd};
use crate::clock;
use crate::config::FeedConfig;
use crate::files;
use crate::model::{Error, ErrorKind, FEED_VERSION, Millis, Seq, WindowId};
use crate::rules::wire::*;
use crate::store::feed::{self, Ages, FeedEnd, FeedFiles, FeedLine, Reader, Sequence};

/// A notification for readers. One that falls behind skips to the newest: records are on the disk.
#[derive(Debug, Clone)]
pub(super) struct FeedChange {
    pub(super) end: FeedEnd,
    /// The counts, if they have changed: the records before the end come first.
    pub(super) status: Option<LiveRecord>,
}

/// By how many notifications a reader may fall behind before it skips to the newest.
pub(super) const CHANGES_KEPT: usize = 256;

#[derive(Debug)]
pub(super) struct FeedBeginning {
    pub(super) path: PathBuf,
    pub(super) epoch: String,
    pub(super) session_name: String,
    pub(super) end: FeedEnd,
}

/// The initial state of a stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    hello: LiveRecord,
    /// The counts; `None` before the first look.
    pub(super) status: Option<LiveRecord>,
    path: PathBuf,
    /// The last records that are asked for, until it is known where they begin.
    last: Option<LastRecords>,
    /// Records made before this time do not pass, until what was stored is sent.
    since: Option<Millis>,
    /// Whether the stream ends with what is stored.
    is_stored: bool,
    /// Reads the feed from there on; `None` until the position was searched.
    reader: Option<Reader>,
    /// The sequence numbers that this reader has got, and so the next one.
    sequence: Sequence,
    filter: Filter,
    /// The end of the feed when its file was last removed or replaced; at first the present end.
    end: FeedEnd,
    pub(super) news: broadcast::Receiver<FeedChange>,
    /// The tasks and their changes, where they are wanted.
    pub(super) tasks: Option<TaskChanges>,
    /// Whether follow-ups were left out, which therefore still need another reader.
    has_skipped: bool,
    /// Counts this reader; `None` for what passes records on or examines them: nobody has read them then.
    pub(super) reading: Option<Reading>,
    pub(super) consumer: Option<Arc<Lease>>,
}

impl Subscription {
    /// Returns a stream for a reader. Nothing is read yet.
    pub(super) fn new(
        feed: FeedBeginning,
        start: &ReaderStart,
        filter: Filter,
        is_stored: bool,
        news: broadcast::Receiver<FeedChange>,
    ) -> Result<Self, Error> {
        let end = feed.end;
        let (after, last) = match start {
            ReaderStart::Now => (None, None),
            ReaderStart::After(after) => (Some(after), None),
            ReaderStart::Last(last) => (last.after.as_ref(), Some(last.clone())),
        };
        let is_now = *start == ReaderStart::Now;
        let after = match after {
            Some(after) => after.check(&feed.epoch, end.last_seq),
            None => Ok(if is_now { end.last_seq } else { 0 }),
        }
        .map_err(Error::failed)?;
        let is_at_end = last.is_none() && filter.first_seen(after) >= end.last_seq;
        Ok(Self {
            hello: LiveRecord::Hello {
                v: FEED_VERSION,
                epoch: feed.epoch,
                last_seq: end.last_seq,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                session_name: feed.session_name,
            },
            status: None,
            reader: (is_now || is_at_end).then(|| Reader::at_end(&feed.path, &end)),
            path: feed.path,
            since: last.as_ref().and_then(|last| last.since),
            // Who asks for the last records has not read those before.
            has_skipped: last.as_ref().is_some_and(|last| !last.is_all()),
            last,
            is_stored,
            sequence: Sequence::after(after),
            filter,
            end,
            news,
            tasks: None,
            reading: None,
            consumer: None,
        })
    }

    /// Returns for whom messages are read by it. What is stored, and a panel, is for the user.
    pub(super) fn audience(&self) -> ConsumerAudience {
        if self.is_stored || self.tasks.is_some() {
            ConsumerAudience::default()
        } else {
            self.filter.audience()
        }
    }

    fn next_line(&mut self, end: &FeedEnd) -> Result<Option<FeedLine>, Error> {
        let reader = match &mut self.reader {
            Some(reader) if self.end.changes == end.changes => reader,
            reader => {
                self.end = *end;
                let after = self.filter.first_seen(self.sequence.last());
                reader.insert(Reader::before(&self.path, after, end)?)
            }
        };
        reader.next(end)
    }

    /// Goes to the first of the last records that are asked for.
    async fn go_to_last(&mut self, last: &LastRecords) -> Result<(), Error> {
        let after = match &last.after {
            Some(after) => after.seq,
            None => feed::first_kept(&self.path, &self.end)?.saturating_sub(1),
        };
        let mut first = after;
        if let Some(since) = last.since {
            let in_time = feed::before_time(&self.path, since - CLOCK_STEPS)?;
            first = after.max(in_time.unwrap_or_default());
        }
        if let Some(most) = last.most {
            first = self.before_last(first, most).await?;
        }
        self.sequence = Sequence::after(first.min(self.end.last_seq));
        Ok(())
    }

    /// Returns the record before the last `most` that pass the filter, of those after `earliest`.
    async fn before_last(&self, earliest: Seq, most: usize) -> Result<Seq, Error> {
        let mut n_records = Seq::try_from(most).unwrap_or(Seq::MAX).max(FIRST_STEP);
        loop {
            // They are near the end. If the others are filtered out, more of it is read.
            let first = self.end.last_seq.saturating_sub(n_records).max(earliest);
            let mut filter = self.filter.clone();
            let mut reader = Reader::before(&self.path, filter.first_seen(first), &self.end)?;
            let mut sequence = Sequence::after(first);
            let mut found = VecDeque::new();
            while let Some(line) = reader.next(&self.end)? {
                consume_budget().await;
                let Some(seq) = line.seq() else { continue };
                let is_wanted = wants(&mut filter, self.since, &line);
                if is_wanted && !sequence.has(seq) {
                    found.push_back(seq);
                }
                sequence.read(seq);
                if found.len() > most {
                    found.pop_front();
                }
            }
            if first == earliest || found.len() == most {
                return Ok(found.front().map_or(self.end.last_seq, |seq| seq - 1));
            }
            n_records = n_records.saturating_mul(4);
        }
    }
}

/// How many of the feed's last records are read at first at least.
const FIRST_STEP: Seq = 32;

/// How far a clock may have been set back, in milliseconds, for all records by their time.
const CLOCK_STEPS: Millis = 60_000;

/// Whether a line is asked for. The filter needs every record, because notices refer to earlier events.
fn wants(filter: &mut Filter, since: Option<Millis>, line: &FeedLine) -> bool {
    let passes = match line {
        FeedLine::Record(record) => filter.wants(record.seq, &record.body),
        FeedLine::Unknown(..) => filter.wants_unknown(),
        FeedLine::Damaged => false,
    };
    let time = || line.frame().and_then(|frame| frame.time);
    passes && since.is_none_or(|since| time().is_none_or(|time| time >= since))
}

/// The error of a stream whose reader has gone, or was told why it ends, which is normal.
fn gone() -> Error {
    Error::new(ErrorKind::OutputClosed, "the reader left")
}

/// How many bytes are collected before they are written to a reader.
const CHUNK: usize = 32 * 1024;

/// Lines for a reader, written together.
struct Lines<'a, W>(BufWriter<&'a mut W>);

impl<W: AsyncWrite + Unpin> Lines<'_, W> {
    async fn add(&mut self, record: &impl serde::Serialize) -> Result<(), Error> {
        let line = files::json_line(record).map_err(Error::of)?;
        self.0.write_all(&line).await.map_err(|_left| gone())
    }

    async fn write(&mut self) -> Result<(), Error> {
        self.0.flush().await.map_err(|_left| gone())
    }
}

/// Writes the stream until the daemon stops; [`ErrorKind::OutputClosed`] when the reader has gone.
pub(crate) async fn serve(
    subscription: Subscription,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), Error> {
    let mut stream = Stream {
        from: subscription,
        lines: Lines(BufWriter::with_capacity(CHUNK, writer)),
    };
    stream.run().await
}

struct Stream<'a, W> {
    from: Subscription,
    lines: Lines<'a, W>,
}

impl<W: AsyncWrite + Unpin> Stream<'_, W> {
    async fn run(&mut self) -> Result<(), Error> {
        self.lines.add(&self.from.hello).await?;
        if let Some(status) = self.from.status.take() {
            self.lines.add(&status).await?;
        }
        self.add_tasks().await?;
        self.lines.write().await?;
        if let Some(last) = self.from.last.take() {
            self.from.go_to_last(&last).await?;
        }
        self.add_records(self.from.end).await?;
        self.lines.add(&LiveRecord::Sync).await?;
        self.lines.write().await?;
        if self.from.is_stored {
            return Ok(());
        }
        self.from.since = None;
        loop {
            let tasks_changed = self.from.tasks.as_mut().map(TaskChanges::changed);
            let replies_changed = self.from.consumer.as_deref().map(Lease::changed);
            // Losing any of them is safe: nothing is taken before it is done.
            tokio::select! {
                news = self.from.news.recv() => match news {
                    Ok(FeedChange { end, status }) => {
                        self.add_records(end).await?;
                        if let Some(status) = status {
                            self.lines.add(&status).await?;
                        }
                    }
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return Ok(()),
                },
                () = if_any(tasks_changed) => self.add_tasks().await?,
                () = if_any(replies_changed) => self.add_replies().await?,
            }
            self.lines.write().await?;
        }
    }

    async fn add_tasks(&mut self) -> Result<(), Error> {
        let tasks = self.from.tasks.as_mut();
        if let Some(record) = tasks.and_then(TaskChanges::next_record) {
            self.lines.add(&record).await?;
        }
        Ok(())
    }

    /// Adds the confirmations that wait for a consumer. Fails behind the last line if its stream ends.
    async fn add_replies(&mut self) -> Result<(), Error> {
        let Some(consumer) = &self.from.consumer else {
            return Ok(());
        };
        let (confirmed, end) = consumer.take_replies();
        for acked in confirmed {
            self.lines.add(&LiveRecord::Acked { acked }).await?;
        }
        match end {
            Some(StreamEnd::Replaced) => self.lines.add(&LiveRecord::Replaced).await?,
            Some(StreamEnd::Refused(refusal)) => {
                self.lines.add(&Response::Refused(refusal)).await?;
            }
            None => return Ok(()),
        }
        self.lines.write().await?;
        Err(gone())
    }

    /// Writes the records up to this end of the feed.
    async fn add_records(&mut self, end: FeedEnd) -> Result<(), Error> {
        let mut follow_up = None;
        while let Some(line) = self.from.next_line(&end)? {
            // Yields to other readers, even if everything read is left out.
            consume_budget().await;
            self.add_replies().await?;
            let is_wanted = wants(&mut self.from.filter, self.from.since, &line);
            let seq = line.seq().filter(|seq| !self.from.sequence.has(*seq));
            let Some(seq) = seq else { continue };
            let gap = self.from.sequence.read(seq);
            self.add_gap(gap).await?;
            let is_follow_up = line.is_follow_up();
            if is_follow_up {
                self.from.has_skipped |= !is_wanted;
                if !self.from.has_skipped {
                    follow_up = Some(seq);
                }
            }
            match &self.from.consumer {
                Some(consumer) if is_wanted => consumer.sent(seq, seq),
                Some(consumer) => consumer.left_out(seq, is_follow_up),
                None => {}
            }
            match &line {
                FeedLine::Record(record) if is_wanted => self.lines.add(record).await?,
                FeedLine::Unknown(_, fields) if is_wanted => self.lines.add(fields).await?,
                FeedLine::Record(_) | FeedLine::Unknown(..) | FeedLine::Damaged => {}
            }
        }
        let gap = self.from.sequence.end_at(end.last_seq);
        self.add_gap(gap).await?;
        self.lines.write().await?;
        // What a consumer has read says its own file.
        if let (Some(seq), Some(reading), None) =
            (follow_up, &self.from.reading, &self.from.consumer)
        {
            reading.has_read(seq);
        }
        Ok(())
    }

    async fn add_gap(&mut self, gap: Option<(Seq, Seq)>) -> Result<(), Error> {
        let Some((from, to)) = gap else {
            return Ok(());
        };
        tracing::warn!(from, to, "records are missing for a reader");
        // It is sent again unless the consumer acknowledges it or what follows.
        if let Some(consumer) = &self.from.consumer {
            consumer.sent(from, to);
        }
        self.lines.add(&LiveRecord::Gap { from, to }).await
    }
}

/// Resolves with a future; never if there is none.
async fn if_any<T>(future: Option<impl Future<Output = T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// The changes of the tasks for one reader. A reader that falls behind gets several changes as one.
#[derive(Debug)]
pub(super) struct TaskChanges {
    board: watch::Receiver<Arc<TaskBoard>>,
    /// What the reader has; `None` before the first record.
    sent: Option<Arc<TaskBoard>>,
}

impl TaskChanges {
    pub(super) fn new(board: watch::Receiver<Arc<TaskBoard>>) -> Self {
        Self { board, sent: None }
    }

    /// Resolves when there may be a record; never once there will be none. It is cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.board.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns all tasks, then what has changed since; `None` when nothing has.
    pub(super) fn next_record(&mut self) -> Option<LiveRecord> {
        let board = Arc::clone(&self.board.borrow_and_update());
        let before = self.sent.replace(Arc::clone(&board));
        let (exists, complete) = (board.exists, before.is_none());
        let is_same = before.as_ref().is_some_and(|had| had.exists == exists);
        let none = Arc::default();
        let had = &before.as_ref().unwrap_or(&none).tasks;
        let is_new = |(window, task): &(&WindowId, &LsTask)| {
            had.get(window).is_none_or(|had| !task.is_same(had))
        };
        let tasks = board.tasks.iter().filter(is_new);
        let tasks: Vec<LsTask> = tasks.map(|(_, task)| task.clone()).collect();
        let is_gone = |window: &&WindowId| !board.tasks.contains_key(window);
        let removed = had.keys().filter(is_gone);
        let removed: Vec<String> = removed.map(ToString::to_string).collect();
        let is_news = !is_same || !tasks.is_empty() || !removed.is_empty();
        is_news.then_some(LiveRecord::Tasks {
            exists,
            complete,
            tasks,
            removed,
        })
    }
}

// The feed of a session without a daemon. Of its files only the note is changed that it was read.

/// The files of a feed that no daemon serves.
#[derive(Debug)]
pub(crate) struct StoredFeed {
    pub(crate) feed: PathBuf,
    pub(crate) session_name: String,
}

impl StoredFeed {
    pub(crate) fn exists(&self) -> bool {
        feed::has_files(&self.feed)
    }

    /// Writes the stream that a daemon would write; an error as its last line.
    pub(crate) async fn serve(
        self,
        start: ReaderStart,
        filter: Filter,
        stored: StoredUse,
        mut writer: impl AsyncWrite + Unpin,
    ) {
        if let Err(refusal) = self.stream(&start, filter, stored, &mut writer).await
            && refusal.kind != ErrorKind::OutputClosed
        {
            let line = files::json_line(&Response::Refused(refusal)).unwrap_or_default();
            // A reader that has left needs no reason.
            drop(writer.write_all(&line).await);
        }
    }

    async fn stream(
        &self,
        start: &ReaderStart,
        filter: Filter,
        stored: StoredUse,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), Error> {
        let (epoch, end) = feed::end_of_files(&self.feed)?;
        let beginning = FeedBeginning {
            path: self.feed.clone(),
            epoch: epoch.clone().unwrap_or("(none yet)".to_owned()),
            session_name: self.session_name.clone(),
            end,
        };
        let (_, news) = broadcast::channel(1);
        let mut stream = Subscription::new(beginning, start, filter, true, news)?;
        let Some(epoch) = epoch.filter(|_| stored == StoredUse::Print) else {
            return serve(stream, writer).await;
        };
        let ages = Ages::load(&self.feed, &clock::boot_time());
        let none = Vec::new();
        let readers = Consumers::new(&self.feed, &epoch, end.last_seq, none, ages.clock());
        let readers = Arc::new(readers);
        stream.reading = Some(readers.begin_reading(ConsumerAudience::default()));
        serve(stream, writer).await?;
        readers.note_reading();
        Ok(())
    }

    /// Returns what the feed uses of the disk, and for which consumers.
    pub(crate) fn consumers(&self, kept: &FeedConfig) -> Result<ConsumerList, Error> {
        let (epoch, end) = feed::end_of_files(&self.feed)?;
        let boot_time = clock::boot_time();
        let ages = Ages::load(&self.feed, &boot_time);
        let now = ages.clock().at(boot_time.millis);
        let folder = feed::consumers_of(&self.feed);
        let failed = |error| Error::folder(&folder, &error);
        let files = FeedFiles {
            closed: feed::closed_segments(&self.feed, &ages, now).map_err(failed)?,
            end,
        };
        let saved = feed::read_consumers(&folder).map_err(failed)?;
        let epoch = epoch.unwrap_or_default();
        let consumers = Consumers::new(&self.feed, &epoch, end.last_seq, saved, ages.clock());
        Ok(consumers.list(end.last_seq, &files, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    fn board(lines: &[&str]) -> Arc<TaskBoard> {
        let tasks = lines.iter().map(|line| Arc::new(task(line)));
        let tasks = tasks.map(|task| (task.window, LsTask::new(task, None)));
        Arc::new(TaskBoard {
            exists: !lines.is_empty(),
            tasks: tasks.collect(),
        })
    }

    /// The record as `exists complete changed removed`.
    fn next(changes: &mut TaskChanges) -> Option<(bool, bool, Vec<String>, Vec<String>)> {
        let LiveRecord::Tasks {
            exists,
            complete,
            tasks,
            removed,
        } = changes.next_record()?
        else {
            panic!("another record");
        };
        let ids = tasks.into_iter().map(|task| task.task.window.to_string());
        Some((exists, complete, ids.collect(), removed))
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_reader_gets_all_tasks_and_then_what_changes() {
        let sender = watch::Sender::new(board(&["@1 a running", "@2 b running"]));
        let mut changes = TaskChanges::new(sender.subscribe());
        let first = Some((true, true, ids(&["@1", "@2"]), ids(&[])));
        assert_eq!(next(&mut changes), first);
        assert_eq!(next(&mut changes), None);
        // The same tasks from another look.
        sender.send_replace(board(&["@1 a running", "@2 b running"]));
        assert_eq!(next(&mut changes), None);
        // Two looks, of which a slow reader sees the last.
        sender.send_replace(board(&["@1 a running", "@2 b running", "@3 c running"]));
        sender.send_replace(board(&["@1 a dead 0", "@3 c running"]));
        let both = Some((true, false, ids(&["@1", "@3"]), ids(&["@2"])));
        assert_eq!(next(&mut changes), both);
        sender.send_replace(board(&[]));
        let gone = Some((false, false, ids(&[]), ids(&["@1", "@3"])));
        assert_eq!(next(&mut changes), gone);
    }

    #[test]
    fn a_question_is_a_change() {
        let with = |waiting_for: Option<&str>| {
            let mut board = Arc::unwrap_or_clone(board(&["@1 a running"]));
            let task = board.tasks.get_mut(&WindowId(1)).unwrap();
            task.waiting_for = waiting_for.map(ToOwned::to_owned);
            Arc::new(board)
        };
        let sender = watch::Sender::new(with(None));
        let mut changes = TaskChanges::new(sender.subscribe());
        assert!(next(&mut changes).is_some());
        for (board, is_change) in [
            (with(Some("Name:")), true),
            (with(Some("Name:")), false),
            (with(None), true),
        ] {
            sender.send_replace(board);
            assert_eq!(next(&mut changes).is_some(), is_change);
        }
    }
}

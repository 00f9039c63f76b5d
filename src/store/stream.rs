//! Serves one reader of the live feed, from the disk and at its own pace.

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::task::coop::consume_budget;

use super::consumers::Lease;
use super::read_marks::{Audience, ReaderGuard, Readers};
use super::replies::StreamEnd;
use crate::model::{Kind, Record, Seq, WindowId};
use crate::store::feed::{FeedEnd, FeedError, FeedLine, Reader, Sequence};
use crate::wire::{Filter, LiveRecord, LsTask, Response, TaskBoard};

/// A notification for readers. A reader that falls behind by more than the channel's capacity skips
/// to the newest: records are read from the disk anyway, and of the counts only the newest matter.
#[derive(Debug, Clone)]
pub(super) enum FeedChange {
    /// The feed now ends here.
    Grown(FeedExtent),
    /// The counts changed.
    Status {
        /// Where the feed ended then: records before that come first.
        extent: FeedExtent,
        /// The record.
        status: LiveRecord,
    },
}

/// The end of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FeedExtent {
    /// Its position in the files.
    pub end: FeedEnd,
    /// The sequence number of its last record.
    pub last_seq: Seq,
    /// How many times the file where records are appended was found to be removed or replaced.
    pub changes: u64,
}

/// By how many notifications a reader may fall behind before it skips to the newest.
pub(super) const CHANGES_KEPT: usize = 256;

/// The initial state of a stream.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The stream's first line.
    pub(super) hello: LiveRecord,
    /// The counts; `None` before the first look.
    pub(super) status: Option<LiveRecord>,
    /// The feed's file.
    pub(super) path: PathBuf,
    /// The sequence number after which the filter has to read the records.
    pub(super) first_seen: Seq,
    /// Reads the feed from there on; `None` until the position was searched.
    pub(super) reader: Option<Reader>,
    /// The sequence numbers that this reader has got, and so the next one.
    pub(super) sequence: Sequence,
    /// Which records pass.
    pub(super) filter: Filter,
    /// The end of the feed when its file was last removed or replaced; at first the present end.
    pub(super) extent: FeedExtent,
    /// Notifications from here on.
    pub(super) news: broadcast::Receiver<FeedChange>,
    /// The tasks and their changes, where they are wanted.
    pub(super) tasks: Option<TaskChanges>,
    /// Whether the filter left out a follow-up, which therefore still needs another reader.
    pub(super) has_skipped: bool,
    /// Counts this reader.
    pub(super) reading: ReaderGuard,
    /// As which consumer it reads, if as one.
    pub(super) consumer: Option<Arc<Lease>>,
}

impl Subscription {
    /// Makes it the stream of something that passes records on: nobody has read them then.
    pub(super) fn passes_on(&mut self) {
        self.reading = Arc::new(Readers::default()).begin(Audience::User);
    }
}

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The reader has disconnected, which is normal.
    #[error("the reader left")]
    Gone(#[from] io::Error),
    /// The feed cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// How many bytes are collected before they are written to a reader.
const CHUNK: usize = 32 * 1024;

/// Lines for a reader, written together.
struct Lines<'a, W> {
    writer: &'a mut W,
    bytes: Vec<u8>,
    /// The last follow-up among them, which counts as read once it is written.
    follow_up: Option<Seq>,
}

impl<W: AsyncWrite + Unpin> Lines<'_, W> {
    async fn add(&mut self, record: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.bytes, record).map_err(io::Error::from)?;
        self.bytes.push(b'\n');
        if self.bytes.len() >= CHUNK {
            self.write().await?;
        }
        Ok(())
    }

    async fn write(&mut self) -> io::Result<()> {
        if !self.bytes.is_empty() {
            self.writer.write_all(&self.bytes).await?;
            self.writer.flush().await?;
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Writes the stream until the daemon stops or the reader leaves.
pub(crate) async fn serve(
    mut subscription: Subscription,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), StreamError> {
    let mut lines = Lines {
        writer,
        bytes: Vec::new(),
        follow_up: None,
    };
    lines.add(&subscription.hello).await?;
    if let Some(status) = subscription.status.take() {
        lines.add(&status).await?;
    }
    add_tasks(&mut subscription, &mut lines).await?;
    lines.write().await?;
    let extent = subscription.extent;
    if records_until(&mut subscription, extent, &mut lines)
        .await?
        .is_break()
    {
        return Ok(());
    }
    lines.add(&LiveRecord::Sync).await?;
    lines.write().await?;
    let consumer = subscription.consumer.clone();
    loop {
        let tasks = &mut subscription.tasks;
        let tasks_changed = async {
            match tasks {
                Some(tasks) => tasks.changed().await,
                None => std::future::pending().await,
            }
        };
        // Losing any of them is safe: nothing is taken before it is done.
        let written = tokio::select! {
            news = subscription.news.recv() => match news {
                Ok(FeedChange::Grown(extent)) => {
                    records_until(&mut subscription, extent, &mut lines).await?
                }
                Ok(FeedChange::Status { extent, status }) => {
                    let written = records_until(&mut subscription, extent, &mut lines).await?;
                    if written.is_continue() {
                        lines.add(&status).await?;
                        lines.write().await?;
                    }
                    written
                }
                Err(RecvError::Lagged(_)) => ControlFlow::Continue(()),
                Err(RecvError::Closed) => return Ok(()),
            },
            () = tasks_changed => {
                add_tasks(&mut subscription, &mut lines).await?;
                lines.write().await?;
                ControlFlow::Continue(())
            }
            () = replies_changed(consumer.as_deref()) => {
                let reading = &subscription.reading;
                let written = replies(consumer.as_deref(), reading, &mut lines).await?;
                lines.write().await?;
                written
            }
        };
        if written.is_break() {
            return Ok(());
        }
    }
}

/// Says what has changed of the tasks, where that is wanted.
async fn add_tasks<W: AsyncWrite + Unpin>(
    subscription: &mut Subscription,
    lines: &mut Lines<'_, W>,
) -> Result<(), StreamError> {
    let record = subscription
        .tasks
        .as_mut()
        .and_then(TaskChanges::next_record);
    if let Some(record) = record {
        lines.add(&record).await?;
    }
    Ok(())
}

/// Resolves when there is something else than records to send to a consumer's reader; never when it
/// is no consumer's.
async fn replies_changed(consumer: Option<&Lease>) {
    match consumer {
        Some(consumer) => consumer.replies.changed().await,
        None => std::future::pending().await,
    }
}

/// Adds the confirmations that wait for a consumer's reader, and the last line if its stream ends.
async fn replies<W: AsyncWrite + Unpin>(
    consumer: Option<&Lease>,
    reading: &ReaderGuard,
    lines: &mut Lines<'_, W>,
) -> Result<ControlFlow<()>, StreamError> {
    let Some(consumer) = consumer else {
        return Ok(ControlFlow::Continue(()));
    };
    let (confirmed, end) = consumer.replies.take();
    if !confirmed.is_empty() {
        reading.has_read(consumer.read());
    }
    for acked in confirmed {
        lines.add(&LiveRecord::Acked { acked }).await?;
    }
    match end {
        Some(StreamEnd::Replaced) => lines.add(&LiveRecord::Replaced).await?,
        Some(StreamEnd::Refused(refusal)) => lines.add(&Response::Refused(refusal)).await?,
        None => return Ok(ControlFlow::Continue(())),
    }
    lines.write().await?;
    Ok(ControlFlow::Break(()))
}

/// Writes the records up to this end of the feed.
async fn records_until<W: AsyncWrite + Unpin>(
    subscription: &mut Subscription,
    extent: FeedExtent,
    lines: &mut Lines<'_, W>,
) -> Result<ControlFlow<()>, StreamError> {
    let Subscription {
        path,
        first_seen,
        reader,
        sequence,
        filter,
        extent: known,
        has_skipped,
        reading,
        consumer,
        ..
    } = subscription;
    let consumer = consumer.as_deref();
    let end = &extent.end;
    let reader = reader.get_or_insert_with(|| Reader::before(path, *first_seen, end));
    if known.changes != extent.changes {
        *known = extent;
        *reader = Reader::before(path, sequence.last(), end);
    }
    while let Some(line) = reader.next(end)? {
        // Yields to other readers, even if everything read is left out.
        consume_budget().await;
        if replies(consumer, reading, lines).await?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        match line {
            FeedLine::Record(record) => {
                // The filter needs every record, because notices refer to earlier events.
                let wanted = filter.wants(record.seq, &record.body);
                if sequence.has(record.seq) {
                    continue;
                }
                add_gap(sequence.read(record.seq), consumer, lines).await?;
                if record.body.kind() == Kind::FollowUp {
                    *has_skipped |= !wanted;
                    if !*has_skipped {
                        lines.follow_up = Some(record.seq);
                    }
                }
                note(consumer, &record, wanted);
                if wanted {
                    lines.add(&record).await?;
                }
            }
            FeedLine::Unknown(record) => {
                let seq = record.frame.seq;
                if sequence.has(seq) {
                    continue;
                }
                add_gap(sequence.read(seq), consumer, lines).await?;
                if filter.wants_unknown() {
                    if let Some(consumer) = consumer {
                        consumer.sent(seq, seq);
                    }
                    lines.add(&record.fields).await?;
                } else {
                    if let Some(consumer) = consumer {
                        consumer.left_out(seq, false);
                    }
                }
            }
            FeedLine::Damaged => {}
        }
    }
    add_gap(sequence.end_at(extent.last_seq), consumer, lines).await?;
    lines.write().await?;
    // What a consumer was sent counts as read when it is acknowledged.
    if let Some(seq) = lines.follow_up.take().filter(|_| consumer.is_none()) {
        reading.has_read(seq);
    }
    Ok(ControlFlow::Continue(()))
}

/// Marks a record as sent to a consumer, or as left out.
fn note(consumer: Option<&Lease>, record: &Record, is_sent: bool) {
    let Some(consumer) = consumer else { return };
    if is_sent {
        consumer.sent(record.seq, record.seq);
    } else {
        consumer.left_out(record.seq, record.body.kind() == Kind::FollowUp);
    }
}

/// Writes a gap record if records are missing.
async fn add_gap<W: AsyncWrite + Unpin>(
    gap: Option<(Seq, Seq)>,
    consumer: Option<&Lease>,
    lines: &mut Lines<'_, W>,
) -> Result<(), StreamError> {
    let Some((from, to)) = gap else {
        return Ok(());
    };
    tracing::warn!(from, to, "records are missing for a reader");
    // It is sent again unless the consumer acknowledges it or what follows.
    if let Some(consumer) = consumer {
        consumer.sent(from, to);
    }
    lines.add(&LiveRecord::Gap { from, to }).await?;
    Ok(())
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

    /// Resolves when there may be a record; never once there will be none.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&mut self) {
        if self.board.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the record that brings the reader up to date: at first all tasks, then what has
    /// changed since the record before; `None` when nothing has.
    pub(super) fn next_record(&mut self) -> Option<LiveRecord> {
        let board = Arc::clone(&self.board.borrow_and_update());
        let before = self.sent.replace(Arc::clone(&board));
        let had = |window: &WindowId| before.as_ref().and_then(|had| had.tasks.get(window));
        let changed = board
            .tasks
            .iter()
            .filter(|(window, task)| had(window).is_none_or(|had| !task.is_same(had)));
        let tasks: Vec<LsTask> = changed.map(|(_, task)| task.clone()).collect();
        let had_before = before.iter().flat_map(|before| before.tasks.keys());
        let removed: Vec<String> = had_before
            .filter(|window| !board.tasks.contains_key(window))
            .map(ToString::to_string)
            .collect();
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.exists == board.exists);
        if is_same && tasks.is_empty() && removed.is_empty() {
            return None;
        }
        Some(LiveRecord::Tasks {
            exists: board.exists,
            complete: before.is_none(),
            tasks,
            removed,
        })
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

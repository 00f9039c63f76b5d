//! Serves one reader of the live feed, from the disk and at its own pace.

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::coop::consume_budget;

use super::read_marks::Reading;
use super::task_changes::TaskChanges;
use crate::feed::{FeedError, Line, Reader, Sequence};
use crate::model::Seq;
use crate::wire::{Filter, Kind, LiveRecord};

/// A notification for readers. A reader that falls behind by more than the channel's capacity skips
/// to the newest: records are read from the disk anyway, and of the counts only the newest matter.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// The feed now ends here.
    Grown(Extent),
    /// The counts changed.
    Status {
        /// Where the feed ended then: records before that come first.
        extent: Extent,
        /// The record.
        status: LiveRecord,
    },
}

/// The end of the feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// The offset in bytes.
    pub end: u64,
    /// The sequence number of its last record.
    pub last_seq: Seq,
    /// Which file it is: changes when the file is removed or replaced.
    pub file: u64,
}

/// By how many notifications a reader may fall behind before it skips to the newest.
pub(super) const NEWS_KEPT: usize = 256;

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
    /// The end of the feed when its file was last replaced; at first the present end.
    pub(super) extent: Extent,
    /// Notifications from here on.
    pub(super) news: broadcast::Receiver<News>,
    /// The tasks and their changes, where they are wanted.
    pub(super) tasks: Option<TaskChanges>,
    /// Whether the filter left out a follow-up, which therefore still needs another reader.
    pub(super) has_skipped: bool,
    /// Counts this reader.
    pub(super) reading: Reading,
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
    records_until(&mut subscription, extent, &mut lines).await?;
    lines.add(&LiveRecord::Sync).await?;
    lines.write().await?;
    loop {
        let tasks = &mut subscription.tasks;
        let tasks_changed = async {
            match tasks {
                Some(tasks) => tasks.changed().await,
                None => std::future::pending().await,
            }
        };
        // Losing either is safe: nothing is taken before it is done.
        let news = tokio::select! {
            news = subscription.news.recv() => news,
            () = tasks_changed => {
                add_tasks(&mut subscription, &mut lines).await?;
                lines.write().await?;
                continue;
            }
        };
        match news {
            Ok(News::Grown(extent)) => {
                records_until(&mut subscription, extent, &mut lines).await?;
            }
            Ok(News::Status { extent, status }) => {
                records_until(&mut subscription, extent, &mut lines).await?;
                lines.add(&status).await?;
                lines.write().await?;
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
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

/// Writes the records up to this end of the feed.
async fn records_until<W: AsyncWrite + Unpin>(
    subscription: &mut Subscription,
    extent: Extent,
    lines: &mut Lines<'_, W>,
) -> Result<(), StreamError> {
    let Subscription {
        path,
        first_seen,
        reader,
        sequence,
        filter,
        extent: known,
        has_skipped,
        reading,
        ..
    } = subscription;
    let reader = reader.get_or_insert_with(|| Reader::before(path, *first_seen));
    if known.file != extent.file {
        *known = extent;
        reader.restart();
    }
    while let Some(position) = reader.next(extent.end)? {
        // Yields to other readers, even if everything read is left out.
        consume_budget().await;
        match position.line {
            Line::Record(record) => {
                // The filter needs every record, because notices refer to earlier events.
                let wanted = filter.wants(record.seq, &record.body);
                if sequence.has(record.seq) {
                    continue;
                }
                add_gap(sequence.read(record.seq), lines).await?;
                if record.body.kind() == Kind::FollowUp {
                    *has_skipped |= !wanted;
                    if !*has_skipped {
                        lines.follow_up = Some(record.seq);
                    }
                }
                if wanted {
                    lines.add(&record).await?;
                }
            }
            Line::Unknown(record) => {
                let seq = record.frame.seq;
                if sequence.has(seq) {
                    continue;
                }
                add_gap(sequence.read(seq), lines).await?;
                if filter.wants_unknown() {
                    lines.add(&record.fields).await?;
                }
            }
            Line::Damaged => {}
        }
    }
    add_gap(sequence.end_at(extent.last_seq), lines).await?;
    lines.write().await?;
    if let Some(seq) = lines.follow_up.take() {
        reading.has_read(seq);
    }
    Ok(())
}

/// Writes a gap record if records are missing.
async fn add_gap<W: AsyncWrite + Unpin>(
    gap: Option<(Seq, Seq)>,
    lines: &mut Lines<'_, W>,
) -> Result<(), StreamError> {
    let Some((from, to)) = gap else {
        return Ok(());
    };
    tracing::warn!(from, to, "records are missing for a reader");
    lines.add(&LiveRecord::Gap { from, to }).await?;
    Ok(())
}

//! Serving one reader of the live feed, from the disk and at its own pace.

use std::io;
use std::path::PathBuf;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::coop::consume_budget;

use super::read_marks::Reading;
use crate::feed::{FeedError, Line, Reader, Sequence};
use crate::model::Seq;
use crate::wire::{Filter, Kind, LiveRecord};

/// What readers are notified of. A reader that falls behind by more than the channel holds
/// skips to the newest: records are read from the disk anyway, and of the counts only the newest
/// matter.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// The feed now ends here.
    Grown(Extent),
    /// The counts changed.
    Status {
        /// Where the feed ended then: what is before it comes first.
        extent: Extent,
        /// The record.
        status: LiveRecord,
    },
}

/// How far the feed reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    /// In bytes.
    pub end: u64,
    /// The number of its last record.
    pub last_seq: Seq,
    /// Which file it is: the one before was taken away or replaced.
    pub file: u64,
}

/// How many news a reader may fall behind before it skips to the newest.
pub(super) const NEWS_KEPT: usize = 256;

/// Everything a stream begins with.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The stream's first line.
    pub(super) hello: LiveRecord,
    /// The counts; `None` before the first look.
    pub(super) status: Option<LiveRecord>,
    /// The feed's file.
    pub(super) path: PathBuf,
    /// The number after which the filter has to see the records.
    pub(super) first_seen: Seq,
    /// Reads the feed from there on; `None` until the place was searched for.
    pub(super) reader: Option<Reader>,
    /// The numbers that this reader has had, and so the one that comes next.
    pub(super) sequence: Sequence,
    /// Which records are wanted.
    pub(super) filter: Filter,
    /// How far the feed reached when its file was last another one, at first now.
    pub(super) extent: Extent,
    /// What happens from here on.
    pub(super) news: broadcast::Receiver<News>,
    /// Whether the filter left out a follow-up: it still needs another reader.
    pub(super) has_skipped: bool,
    /// Counts this reader.
    pub(super) reading: Reading,
}

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StreamError {
    /// The reader has gone, as readers do.
    #[error("the reader left")]
    Gone(#[from] io::Error),
    /// The feed cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// How many bytes are gathered before they are written to a reader.
const CHUNK: usize = 32 * 1024;

/// Lines for a reader, written together.
struct Lines<'a, W> {
    writer: &'a mut W,
    bytes: Vec<u8>,
    /// The last follow-up among them that counts as read once it is written.
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
    lines.write().await?;
    let extent = subscription.extent;
    records_until(&mut subscription, extent, &mut lines).await?;
    lines.add(&LiveRecord::Sync).await?;
    lines.write().await?;
    loop {
        match subscription.news.recv().await {
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
        // Readers take turns, also where all that is read is left out.
        consume_budget().await;
        match position.line {
            Line::Record(record) => {
                // The filter sees every record: it must know of events that notices speak of.
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

/// Says that records are missing, if any are.
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

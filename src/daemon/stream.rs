//! Serving one reader of the live feed, from the disk and at its own pace.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::feed::{FeedError, Line, Reader, Sequence};
use crate::model::Seq;
use crate::wire::{Filter, Kind, LiveRecord};

/// What readers are told as it happens. A reader that falls behind by more than the channel holds
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
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// In bytes.
    pub end: u64,
    /// The number of its last record.
    pub last_seq: Seq,
    /// Which file it is: the one before was taken away or replaced.
    pub file: u64,
}

/// What all readers of the feed have in common: each holds it for as long as it reads.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// The number of the last follow-up that was written to one of them.
    last_follow_up: AtomicU64,
}

impl Readers {
    /// Returns the number of the last follow-up that one of them has had; 0 for none.
    pub(super) fn last_follow_up(&self) -> Seq {
        self.last_follow_up.load(Ordering::Relaxed)
    }
}

/// How many news a reader may fall behind before it skips to the newest.
pub(super) const NEWS_KEPT: usize = 256;

/// Everything a stream begins with.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The stream's first line.
    pub hello: LiveRecord,
    /// The counts; `None` before the first look.
    pub status: Option<LiveRecord>,
    /// Reads the feed, from where this reader begins.
    pub reader: Reader,
    /// The numbers that this reader has had, and so the one that comes next.
    pub sequence: Sequence,
    /// Which records are wanted.
    pub filter: Filter,
    /// How far the feed reached when its file was last another one, at first now.
    pub extent: Extent,
    /// What happens from here on.
    pub news: broadcast::Receiver<News>,
    /// Whether a follow-up was left out that this reader does not want: it is still to be read by
    /// somebody.
    pub has_skipped: bool,
    /// Shared by all readers. How many have it is how many there are.
    pub readers: Arc<Readers>,
}

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The reader has gone, as readers do.
    #[error("the reader left")]
    Gone(#[from] io::Error),
    /// The feed cannot be read.
    #[error(transparent)]
    Feed(#[from] FeedError),
}

/// Writes the stream until the daemon stops or the reader leaves.
pub(super) async fn serve(
    mut subscription: Subscription,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), StreamError> {
    write_line(writer, &subscription.hello).await?;
    if let Some(status) = subscription.status.take() {
        write_line(writer, &status).await?;
    }
    let extent = subscription.extent;
    records_until(&mut subscription, extent, writer).await?;
    write_line(writer, &LiveRecord::Sync).await?;
    loop {
        match subscription.news.recv().await {
            Ok(News::Grown(extent)) => records_until(&mut subscription, extent, writer).await?,
            Ok(News::Status { extent, status }) => {
                records_until(&mut subscription, extent, writer).await?;
                write_line(writer, &status).await?;
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

async fn records_until(
    subscription: &mut Subscription,
    extent: Extent,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), StreamError> {
    if subscription.extent.file != extent.file {
        subscription.extent = extent;
        subscription.reader.restart();
    }
    while let Some(position) = subscription.reader.next(extent.end)? {
        match position.line {
            Line::Record(record) => {
                // The filter sees every record: it must know of events that notices speak of.
                let wanted = subscription.filter.wants(record.seq, &record.body);
                if subscription.sequence.has(record.seq) {
                    continue;
                }
                write_gap(subscription.sequence.read(record.seq), writer).await?;
                if wanted {
                    write_line(writer, &record).await?;
                }
                if record.body.kind() == Kind::FollowUp {
                    subscription.has_skipped |= !wanted;
                    if !subscription.has_skipped {
                        let last = &subscription.readers.last_follow_up;
                        last.fetch_max(record.seq, Ordering::Relaxed);
                    }
                }
            }
            Line::Unknown(record) => {
                let seq = record.frame.seq;
                if subscription.sequence.has(seq) {
                    continue;
                }
                write_gap(subscription.sequence.read(seq), writer).await?;
                if subscription.filter.wants_unknown() {
                    write_line(writer, &record.fields).await?;
                }
            }
            Line::Damaged => {}
        }
    }
    write_gap(subscription.sequence.end_at(extent.last_seq), writer).await
}

/// Says that records are missing, if any are.
async fn write_gap(
    gap: Option<(Seq, Seq)>,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), StreamError> {
    let Some((from, to)) = gap else {
        return Ok(());
    };
    tracing::warn!(from, to, "a reader was told that records are missing");
    write_line(writer, &LiveRecord::Gap { from, to }).await?;
    Ok(())
}

async fn write_line(
    writer: &mut (impl AsyncWrite + Unpin),
    record: &impl serde::Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(record).map_err(io::Error::from)?;
    line.push(b'\n');
    writer.write_all(&line).await?;
    writer.flush().await
}

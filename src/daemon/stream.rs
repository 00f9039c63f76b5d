//! Serving one reader of the live feed, from the disk and at its own pace.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::feed::{FeedError, Reader};
use crate::model::Seq;
use crate::wire::{Filter, LiveRecord};

/// What readers are told as it happens. A reader that falls behind by more than the channel holds
/// skips to the newest: records are read from the disk anyway, and of the counts only the newest
/// matter.
#[derive(Debug, Clone)]
pub(super) enum News {
    /// The feed now ends here.
    Grown {
        /// In bytes.
        end: u64,
    },
    /// The counts changed.
    Status {
        /// Where the feed ended then, in bytes: what is before it comes first.
        end: u64,
        /// The record.
        status: LiveRecord,
    },
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
    /// Records up to this number are passed over.
    pub after: Seq,
    /// Which of the others are wanted.
    pub filter: Filter,
    /// Where the feed ends now, in bytes.
    pub end: u64,
    /// What happens from here on.
    pub news: broadcast::Receiver<News>,
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
    let end = subscription.end;
    records_until(&mut subscription, end, writer).await?;
    write_line(writer, &LiveRecord::Sync).await?;
    loop {
        match subscription.news.recv().await {
            Ok(News::Grown { end }) => records_until(&mut subscription, end, writer).await?,
            Ok(News::Status { end, status }) => {
                records_until(&mut subscription, end, writer).await?;
                write_line(writer, &status).await?;
            }
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

async fn records_until(
    subscription: &mut Subscription,
    end: u64,
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<(), StreamError> {
    while let Some(position) = subscription.reader.next(end)? {
        let record = position.record;
        let wanted = subscription.filter.wants(record.seq, &record.body);
        if wanted && record.seq > subscription.after {
            write_line(writer, &record).await?;
        }
    }
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

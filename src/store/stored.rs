//! The feed of a session without a daemon, read from its files. Nothing of them is changed but the note
//! that they were read.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::broadcast;

use super::consumers::Consumers;
use super::read_marks::Readers;
use super::stream::{FeedBeginning, FeedExtent, StreamError, Subscription, serve};
use crate::clock;
use crate::model::Error;
use crate::store::feed::{self, Ages, Retention};
use crate::wire::{ConsumerList, Filter, ReaderStart, Response, StoredUse};

/// The files of a feed that no daemon serves.
#[derive(Debug)]
pub(crate) struct StoredFeed {
    /// Where records were appended.
    pub(crate) feed: PathBuf,
    /// The folder of its consumers.
    pub(crate) consumers: PathBuf,
    /// The file in which reading is noted.
    pub(crate) last_reader: PathBuf,
    /// The session's name.
    pub(crate) session_name: String,
}

impl StoredFeed {
    /// Whether there are any.
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
        let refusal = match self.stream(&start, filter, stored, &mut writer).await {
            Ok(()) | Err(StreamError::Gone(_)) => return,
            Err(StreamError::Refused(refusal)) => refusal,
            Err(StreamError::Feed(error)) => error.into(),
        };
        let line = serde_json::to_string(&Response::Refused(refusal)).unwrap_or_default() + "\n";
        // A reader that has left needs no reason.
        drop(writer.write_all(line.as_bytes()).await);
    }

    async fn stream(
        &self,
        start: &ReaderStart,
        filter: Filter,
        stored: StoredUse,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> Result<(), StreamError> {
        let found = feed::end_of_files(&self.feed)?;
        let readers = Arc::new(Readers::default());
        let beginning = FeedBeginning {
            path: self.feed.clone(),
            epoch: found.epoch.clone().unwrap_or("(none yet)".to_owned()),
            session_name: self.session_name.clone(),
            extent: FeedExtent {
                end: found.end,
                last_seq: found.last_seq,
                changes: 0,
            },
        };
        let (_, news) = broadcast::channel(1);
        let stream = Subscription::new(beginning, start, filter, Some(stored), news, &readers)?;
        serve(stream, writer).await?;
        if let (StoredUse::Print, Some(epoch)) = (stored, found.epoch) {
            let now = Ages::load(&self.feed, &clock::boot_time()).clock();
            let now = now.at(clock::since_boot());
            // If the folder cannot be written to, there is no daemon either.
            drop(feed::note_read(
                &self.last_reader,
                &epoch,
                readers.last_follow_up(),
                now,
            ));
        }
        Ok(())
    }

    /// Returns what the feed uses of the disk, and for which consumers.
    ///
    /// # Errors
    ///
    /// When a file cannot be read.
    pub(crate) fn consumers(&self, retention: Retention) -> Result<ConsumerList, Error> {
        let found = feed::end_of_files(&self.feed)?;
        let boot_time = clock::boot_time();
        let ages = Ages::load(&self.feed, &boot_time);
        let now = ages.clock().at(boot_time.millis);
        let failed = |error| Error::folder(&self.consumers, &error);
        let files = feed::feed_files(&self.feed, found.last_seq, &ages, now).map_err(failed)?;
        let mut saved = Vec::new();
        for consumer in feed::load_consumers(&self.consumers).map_err(failed)? {
            saved.push(consumer.map_err(|damaged| failed(std::io::Error::other(damaged)))?);
        }
        let epoch = found.epoch.unwrap_or_default();
        let consumers = Consumers::new(&epoch, found.last_seq, saved, ages.clock());
        Ok(consumers.list(found.last_seq, &files, &retention))
    }
}

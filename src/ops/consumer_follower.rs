//! Reads a session's feed as a consumer, across restarts of its daemon.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::session::TaskSession;
use super::stored_feed::LineHead;
use crate::client::{DaemonClient, Hello, unexpected};
use crate::model::{Backoff, Error, Seq};
use crate::wire::{ConsumeRequest, ConsumerList, ConsumerStatus, Request, Response, StreamRecord};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// A consumer and the session whose feed it reads.
pub(crate) struct ConsumerFollower {
    pub(crate) session: TaskSession,
    request: ConsumeRequest,
    stream: Option<DaemonClient>,
    retry: Backoff,
    retry_at: Option<Instant>,
}

/// What a consumer reads.
#[derive(Debug)]
pub(crate) enum FeedNews {
    /// A stream has begun.
    Began {
        epoch: String,
        /// The consumer's position; `None` for one that did not exist.
        cursor: Option<Seq>,
        /// The feed's last record.
        last_seq: Seq,
    },
    Line(StreamRecord),
    /// A record that this version does not know; without a number it is a refusal.
    Unknown(Option<Seq>),
    /// The daemon has ended, or cannot be reached.
    Ended,
}

impl ConsumerFollower {
    /// Returns the follower, which takes the consumer over from its present reader. It has read nothing
    /// yet.
    pub(crate) fn new(session: TaskSession, request: ConsumeRequest) -> Self {
        Self {
            session,
            request,
            stream: None,
            retry: RETRY,
            retry_at: None,
        }
    }

    /// Returns what comes next. After an error, and when a stream has ended, the next call begins another
    /// one, after a while.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When a stream cannot begin.
    pub(crate) async fn next(&mut self) -> Result<FeedNews, Error> {
        let Some(stream) = &mut self.stream else {
            if let Some(at) = self.retry_at {
                sleep_until(at).await;
            }
            let began = self.begin().await;
            match &began {
                Ok(_) => (self.retry, self.retry_at) = (RETRY, None),
                Err(_) => self.try_later(),
            }
            return began;
        };
        let Ok(Some(line)) = stream.line().await else {
            self.try_later();
            return Ok(FeedNews::Ended);
        };
        Ok(serde_json::from_str(&line).map_or_else(
            |_| {
                let unknown = serde_json::from_str::<LineHead>(&line).ok();
                FeedNews::Unknown(unknown.and_then(|unknown| unknown.seq))
            },
            FeedNews::Line,
        ))
    }

    /// Acknowledges this record and all before it. If that is lost, the records come again on the next
    /// stream.
    pub(crate) async fn acknowledge(&mut self, seq: Seq) {
        if let Some(stream) = &mut self.stream {
            drop(stream.acknowledge(seq).await);
        }
    }

    fn try_later(&mut self) {
        self.stream = None;
        self.retry_at = Some(Instant::now() + self.retry.next_pause());
    }

    async fn begin(&mut self) -> Result<FeedNews, Error> {
        let mut client = self.session.daemon_or_start().await?;
        let known = find_consumer(&mut client, &self.request.name).await?;
        let request = Request::Consume(self.request.clone());
        let hello = Hello::parse(&client.stream(&request).await?)?;
        self.stream = Some(client);
        Ok(FeedNews::Began {
            epoch: hello.epoch,
            cursor: known.map(|known| known.cursor),
            last_seq: hello.last_seq,
        })
    }
}

/// Returns the consumer of this name, if there is one.
pub(super) async fn find_consumer(
    daemon: &mut DaemonClient,
    name: &str,
) -> Result<Option<ConsumerStatus>, Error> {
    let Response::Consumers(ConsumerList { consumers, .. }) =
        daemon.ask(&Request::Consumers).await?
    else {
        return Err(unexpected());
    };
    Ok(consumers.into_iter().find(|one| one.name == name))
}

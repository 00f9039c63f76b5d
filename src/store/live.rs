//! The present end of the feed and the present tasks, to which readers subscribe.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

use super::consumers::{Consumers, Lease};
use super::stream::{CHANGES_KEPT, FeedBeginning, FeedChange, Subscription, TaskChanges};
use crate::clock;
use crate::model::{Context, Error, Millis, Seq};
use crate::rules::wire::{
    After, ConsumeRequest, ConsumerList, Filter, LiveRecord, MessageReaders, ReaderStart,
    SINK_PREFIX, StoredUse, TaskBoard,
};
use crate::store::feed::{Ages, FeedEnd, FeedFiles, Journal, PendingEvents, Retention, Segment};

/// What a store is started with.
#[derive(Debug)]
pub(crate) struct StoreSetup {
    /// The feed.
    pub(crate) journal: Journal,
    /// What the next records are written with.
    pub(crate) context: Context,
    /// What the feed leaves open.
    pub(crate) pending: PendingEvents,
    /// What is kept of the feed.
    pub(crate) retention: Retention,
    /// How old the feed's segments are.
    pub(crate) ages: Ages,
}

/// The present end of the feed, the present counts, and the subscriptions of readers. The writing
/// thread publishes changes. Subscribing needs no request to the event loop.
#[derive(Debug)]
pub(crate) struct Live {
    /// The feed's file.
    path: PathBuf,
    pub(crate) epoch: String,
    state: Mutex<LiveState>,
    /// The tasks as the last look saw them.
    tasks: watch::Sender<Arc<TaskBoard>>,
    pub(crate) consumers: Arc<Consumers>,
    retention: Retention,
    /// When this daemon started, in milliseconds since 1970.
    started_at: Millis,
}

/// What changes of it.
#[derive(Debug)]
struct LiveState {
    session_name: String,
    end: FeedEnd,
    /// The closed segments of the feed.
    closed: Vec<Segment>,
    /// The counts; `None` before the first look.
    status: Option<LiveRecord>,
    /// `None` once the daemon stops: streams end then.
    news: Option<broadcast::Sender<FeedChange>>,
}

impl Live {
    pub(super) fn new(beginning: &StoreSetup, consumers: Arc<Consumers>) -> Self {
        let journal = &beginning.journal;
        Self {
            path: journal.path().to_owned(),
            epoch: beginning.context.epoch.clone(),
            state: Mutex::new(LiveState {
                session_name: beginning.context.session_name.clone(),
                end: journal.end(),
                closed: Vec::new(),
                status: None,
                news: Some(broadcast::Sender::new(CHANGES_KEPT)),
            }),
            tasks: watch::Sender::new(Arc::default()),
            consumers,
            retention: beginning.retention,
            started_at: clock::now().wall,
        }
    }

    /// Returns a stream for a reader, with the tasks and their changes if `with_tasks`.
    pub(crate) fn subscribe(
        &self,
        start: &ReaderStart,
        filter: Filter,
        with_tasks: bool,
        stored: Option<StoredUse>,
    ) -> Result<Subscription, Error> {
        let mut stream = self.open(start, filter, stored.is_some())?;
        stream.tasks = with_tasks.then(|| TaskChanges::new(self.tasks.subscribe()));
        if stored != Some(StoredUse::Examine) {
            stream.reading = Some(self.consumers.begin_reading(stream.audience()));
        }
        Ok(stream)
    }

    /// Returns a stream that is no reader yet. Nothing is read.
    fn open(
        &self,
        start: &ReaderStart,
        filter: Filter,
        is_stored: bool,
    ) -> Result<Subscription, Error> {
        // Everything published from here on reaches the subscription; everything earlier is within
        // its end.
        let state = self.state();
        let Some(news) = &state.news else {
            return Err(Error::failed("the daemon is leaving"));
        };
        let beginning = FeedBeginning {
            path: self.path.clone(),
            epoch: self.epoch.clone(),
            session_name: state.session_name.clone(),
            end: state.end,
        };
        let mut stream = Subscription::new(beginning, start, filter, is_stored, news.subscribe())?;
        stream.status.clone_from(&state.status);
        Ok(stream)
    }

    /// Publishes the tasks as a look saw them.
    pub(crate) fn publish_tasks(&self, board: TaskBoard) {
        self.tasks.send_replace(Arc::new(board));
    }

    /// Makes the process `pid` the reader of a consumer, and returns its stream: what the consumer
    /// has not acknowledged, and what follows. A consumer that is created, which is durable when this
    /// resolves, starts after `last_seq` if it starts at the present end.
    pub(crate) async fn consume(
        &self,
        request: ConsumeRequest,
        pid: Option<u32>,
        last_seq: Seq,
    ) -> Result<(Subscription, Arc<Lease>), Error> {
        let lease = self.consumers.lease(&request, pid, last_seq).await?;
        let lease = Arc::new(lease);
        let start = ReaderStart::After(After {
            epoch: None,
            seq: lease.cursor,
        });
        let mut subscription = self.open(&start, request.filter, false)?;
        subscription.consumer = Some(Arc::clone(&lease));
        if !request.name.starts_with(SINK_PREFIX) {
            let reading = self.consumers.begin_reading(subscription.audience());
            subscription.reading = Some(reading);
        }
        Ok((subscription, lease))
    }

    /// Returns a stream of all records after `seq`, and of the tasks, for what passes them on: nobody has read
    /// them then.
    pub(crate) fn subscribe_to_pass_on(&self, seq: Seq) -> Result<Subscription, Error> {
        let start = ReaderStart::After(After { epoch: None, seq });
        let mut subscription = self.open(&start, Filter::default(), false)?;
        subscription.tasks = Some(TaskChanges::new(self.tasks.subscribe()));
        Ok(subscription)
    }

    /// Returns the number of the last record.
    pub(crate) fn last_seq(&self) -> Seq {
        self.end().last_seq
    }

    /// Returns the session's present name.
    pub(crate) fn session_name(&self) -> String {
        self.state().session_name.clone()
    }

    /// Acknowledges this record and all before it for a consumer.
    pub(crate) fn acknowledge(&self, consumer: &Lease, seq: Seq) -> Result<(), Error> {
        let last_seq = self.end().last_seq;
        if seq > last_seq {
            let epoch = &self.epoch;
            let message =
                format!("no record {seq} to acknowledge: the feed's last is {epoch}:{last_seq}");
            return Err(Error::failed(message));
        }
        consumer.acknowledge(seq);
        Ok(())
    }

    /// Returns the consumers of the feed as they are listed.
    pub(crate) fn consumer_list(&self) -> ConsumerList {
        let last_seq = self.end().last_seq;
        self.consumers
            .list(last_seq, &self.files(), &self.retention)
    }

    /// Returns who reads messages.
    pub(crate) fn message_readers(&self) -> MessageReaders {
        MessageReaders {
            consumers: self.consumer_list().consumers,
            programs: self.consumers.owners_read_for(),
            daemon_started_at: self.started_at,
        }
    }

    /// Returns the files of the feed.
    pub(crate) fn files(&self) -> FeedFiles {
        let state = self.state();
        FeedFiles {
            closed: state.closed.clone(),
            active_first: state.end.segment,
            active_bytes: state.end.at,
        }
    }

    /// Publishes which closed segments there are.
    pub(super) fn publish_closed(&self, closed: Vec<Segment>) {
        self.state().closed = closed;
    }

    /// Sets the session's new name.
    pub(crate) fn rename(&self, session_name: &str) {
        session_name.clone_into(&mut self.state().session_name);
    }

    /// Publishes the counts.
    pub(super) fn publish_status(&self, status: LiveRecord) {
        let mut state = self.state();
        state.status = Some(status.clone());
        state.send(Some(status));
    }

    /// Publishes the new end of the feed.
    pub(super) fn publish_end(&self, end: FeedEnd) {
        let mut state = self.state();
        state.end = end;
        state.send(None);
    }

    pub(super) fn end(&self) -> FeedEnd {
        self.state().end
    }

    /// Ends all streams after they have got everything published.
    pub(super) fn close(&self) {
        self.state().news = None;
    }

    fn state(&self) -> MutexGuard<'_, LiveState> {
        // Nothing is left half done while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LiveState {
    fn send(&self, status: Option<LiveRecord>) {
        if let Some(sender) = &self.news {
            let end = self.end;
            // An error means that there are no readers.
            drop(sender.send(FeedChange { end, status }));
        }
    }
}

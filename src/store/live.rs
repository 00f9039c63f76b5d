//! The present end of the feed and the present tasks, to which readers subscribe.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, watch};

use super::consumers::{Consumers, Lease};
use super::stream::{CHANGES_KEPT, FeedBeginning, FeedChange, Subscription, TaskChanges};
use crate::clock;
use crate::config::FeedConfig;
use crate::model::{Context, Error, Millis, Seq};
use crate::rules::wire::*;
use crate::store::feed::{Ages, FeedEnd, FeedFiles, Journal, PendingEvents, Segment};

#[derive(Debug)]
pub(crate) struct StoreSetup {
    pub(crate) journal: Journal,
    pub(crate) context: Context,
    pub(crate) pending: PendingEvents,
    pub(crate) kept: FeedConfig,
    pub(crate) ages: Ages,
}

/// What readers of the feed subscribe to, without a request to the event loop. The writing thread publishes.
#[derive(Debug)]
pub(crate) struct Live {
    path: PathBuf,
    pub(crate) epoch: String,
    state: Mutex<LiveState>,
    tasks: watch::Sender<Arc<TaskBoard>>,
    pub(crate) consumers: Arc<Consumers>,
    kept: FeedConfig,
    /// When this daemon started, in milliseconds since 1970.
    started_at: Millis,
}

#[derive(Debug)]
struct LiveState {
    session_name: String,
    files: FeedFiles,
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
                files: FeedFiles {
                    closed: Vec::new(),
                    end: journal.end(),
                },
                status: None,
                news: Some(broadcast::Sender::new(CHANGES_KEPT)),
            }),
            tasks: watch::Sender::new(Arc::default()),
            consumers,
            kept: beginning.kept,
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
        // Everything published from here on reaches the subscription; everything earlier is within its end.
        let state = self.state();
        let Some(news) = &state.news else {
            return Err(Error::failed("the daemon is leaving"));
        };
        let beginning = FeedBeginning {
            path: self.path.clone(),
            epoch: self.epoch.clone(),
            session_name: state.session_name.clone(),
            end: state.files.end,
        };
        let mut stream = Subscription::new(beginning, start, filter, is_stored, news.subscribe())?;
        stream.status.clone_from(&state.status);
        Ok(stream)
    }

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
        let lease = Arc::new(self.consumers.lease(&request, pid, last_seq).await?);
        let start = ReaderStart::After(After {
            epoch: None,
            seq: lease.cursor,
        });
        let mut subscription = self.open(&start, request.filter, false)?;
        subscription.consumer = Some(Arc::clone(&lease));
        if !request.name.starts_with(SINK_PREFIX) {
            let audience = subscription.audience();
            subscription.reading = Some(self.consumers.begin_reading(audience));
        }
        Ok((subscription, lease))
    }

    /// Returns a stream of all records after `seq`, and of the tasks, for what only passes them on.
    pub(crate) fn subscribe_to_pass_on(&self, seq: Seq) -> Result<Subscription, Error> {
        let start = ReaderStart::After(After { epoch: None, seq });
        let mut subscription = self.open(&start, Filter::default(), false)?;
        subscription.tasks = Some(TaskChanges::new(self.tasks.subscribe()));
        Ok(subscription)
    }

    pub(crate) fn last_seq(&self) -> Seq {
        self.end().last_seq
    }

    pub(crate) fn session_name(&self) -> String {
        self.state().session_name.clone()
    }

    /// Acknowledges this record and all before it for a consumer.
    pub(crate) fn acknowledge(&self, consumer: &Lease, seq: Seq) -> Result<(), Error> {
        let (epoch, last_seq) = (&self.epoch, self.last_seq());
        if seq > last_seq {
            let last = format!("the feed's last is {epoch}:{last_seq}");
            let why = format!("no record {seq} to acknowledge: {last}");
            return Err(Error::failed(why));
        }
        consumer.acknowledge(seq);
        Ok(())
    }

    pub(crate) fn consumer_list(&self) -> ConsumerList {
        let last_seq = self.last_seq();
        self.consumers.list(last_seq, &self.files(), &self.kept)
    }

    pub(crate) fn message_readers(&self) -> MessageReaders {
        MessageReaders {
            consumers: self.consumer_list().consumers,
            programs: self.consumers.owners_read_for(),
            daemon_started_at: self.started_at,
        }
    }

    pub(crate) fn files(&self) -> FeedFiles {
        self.state().files.clone()
    }

    pub(super) fn publish_closed(&self, closed: Vec<Segment>) {
        self.state().files.closed = closed;
    }

    pub(crate) fn rename(&self, session_name: &str) {
        session_name.clone_into(&mut self.state().session_name);
    }

    pub(super) fn publish_status(&self, status: LiveRecord) {
        let mut state = self.state();
        state.status = Some(status.clone());
        state.send(Some(status));
    }

    pub(super) fn publish_end(&self, end: FeedEnd) {
        let mut state = self.state();
        state.files.end = end;
        state.send(None);
    }

    pub(super) fn end(&self) -> FeedEnd {
        self.state().files.end
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
            let end = self.files.end;
            // An error means that there are no readers.
            drop(sender.send(FeedChange { end, status }));
        }
    }
}

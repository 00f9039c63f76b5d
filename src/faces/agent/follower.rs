//! Reads the feed as the consumer of one conversation, across restarts of the daemon, and the feeds of
//! its tasks on other machines.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::Conversation;
use super::outbox::Batch;
use crate::client::{DaemonClient, Hello};
use crate::clock;
use crate::model::*;
use crate::ops::{
    FarFeed, HostNews, HostNotes, LineHead, NoteWatch, Received, TaskSession, find_consumer,
    follow_host, follow_wakes,
};
use crate::rules::route;
use crate::rules::wire::{ConsumeRequest, LiveRecord, Request, StreamRecord};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(10));

/// A new consumer gets the follow-ups of its own tasks that were recorded within this time before
/// it: a task may have been started before its conversation was followed.
const EARLIER: Millis = 3_600_000;

/// The consumer of a conversation, and its tasks on other machines.
pub(super) struct Follower {
    session: TaskSession,
    request: ConsumeRequest,
    /// Of this machine's feed, while there is one.
    stream: Option<DaemonClient>,
    retry: Backoff,
    begin_at: Instant,
    reading: FeedReading,
    skips_everybody: bool,
    hosts: Option<HostStreams>,
}

impl Follower {
    /// It has read nothing yet. `skips_everybody` leaves out what was recorded for everybody before the first
    /// stream: a conversation that is not followed all the time gets only what it has missed of its own tasks.
    pub(super) fn new(
        session: TaskSession,
        conversation: &Conversation,
        kinds: Vec<Kind>,
        skips_everybody: bool,
    ) -> Self {
        Self {
            session,
            request: conversation.consume_request(kinds),
            stream: None,
            retry: RETRY,
            begin_at: Instant::now(),
            reading: FeedReading::default(),
            skips_everybody,
            hosts: HostStreams::of(&conversation.owner()),
        }
    }

    fn try_later(&mut self) {
        self.stream = None;
        self.begin_at = Instant::now() + self.retry.next_pause();
    }

    /// Begins with a stream, and the consumer's position; `None` for one that did not exist.
    fn begin(
        &mut self,
        began: Result<(DaemonClient, Option<Seq>, Hello), Error>,
    ) -> Result<Incoming, Error> {
        let (stream, cursor, hello) = match began {
            Ok(began) => began,
            Err(error) => {
                self.try_later();
                if !self.reading.has_begun() || error.kind == ErrorKind::Version {
                    return Err(error);
                }
                tracing::debug!(%error, "cannot read the feed now");
                return Ok(Incoming::Passed);
            }
        };
        (self.stream, self.retry) = (Some(stream), RETRY);
        let is_new = cursor.is_none();
        let start = StreamStart {
            last_before: hello.last_seq,
            own_since: is_new.then(|| clock::now().wall.saturating_sub(EARLIER)),
            skips_everybody: self.skips_everybody && !self.reading.has_begun(),
        };
        self.reading.begin(&hello.epoch, start);
        Ok(Incoming::Began {
            host: None,
            epoch: hello.epoch,
            cursor: cursor.unwrap_or_default(),
            last: hello.last_seq,
        })
    }

    fn receive(&mut self, line: &str) -> Incoming {
        let live = match serde_json::from_str(line) {
            Ok(StreamRecord::Durable(record)) => return self.reading.receive(*record),
            Ok(StreamRecord::Live(record)) => record,
            // It may come from a later version.
            Err(_) => {
                let unknown = serde_json::from_str::<LineHead>(line).ok();
                let seq = unknown.and_then(|unknown| unknown.seq);
                seq.map(|seq| self.reading.pass(seq));
                return Incoming::Passed;
            }
        };
        match live {
            LiveRecord::Status {
                text,
                running,
                waiting,
                restarting,
                ..
            } => {
                let active = running + waiting + restarting.map_or(0, NonZeroUsize::get);
                return Incoming::Status { text, active };
            }
            LiveRecord::Sync => return Incoming::CaughtUp,
            LiveRecord::Replaced => return Incoming::Replaced,
            LiveRecord::Gap { to, .. } => drop(self.reading.pass(to)),
            LiveRecord::Hello { .. } | LiveRecord::Tasks { .. } | LiveRecord::Acked { .. } => {}
        }
        Incoming::Passed
    }
}

impl Feeds for Follower {
    /// First comes that the stream of this machine has begun: a process that followed the conversation before
    /// is told to leave then. Starts a daemon if none runs, and connects again when it ends. Fails when the
    /// first stream cannot begin, or no later one ever can.
    async fn next(&mut self) -> Result<Incoming, Error> {
        let hosts = self.hosts.as_mut().filter(|_| self.reading.has_begun());
        let from_hosts = async {
            match hosts {
                Some(hosts) => hosts.next().await,
                None => std::future::pending().await,
            }
        };
        let Some(stream) = &mut self.stream else {
            let began = async {
                sleep_until(self.begin_at).await;
                let mut stream = self.session.daemon_or_start().await?;
                let known = find_consumer(&mut stream, &self.request.name).await?;
                let request = Request::Consume(self.request.clone());
                let hello = Hello::parse(&stream.stream(&request).await?)?;
                Ok((stream, known.map(|known| known.cursor), hello))
            };
            let began = tokio::select! {
                began = began => began,
                incoming = from_hosts => return Ok(incoming),
            };
            return self.begin(began);
        };
        let line = tokio::select! {
            line = stream.line() => line,
            incoming = from_hosts => return Ok(incoming),
        };
        if let Ok(Some(line)) = line {
            return Ok(self.receive(&line));
        }
        self.try_later();
        Ok(Incoming::Passed)
    }

    async fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>) {
        if let Some(hosts) = &mut self.hosts {
            hosts.acknowledge(&first_open);
        }
        let first_open = first_open(&self.reading.epoch);
        // If it is lost, the records come again on the next stream.
        if let Some(seq) = self.reading.acknowledgement(first_open)
            && let Some(stream) = &mut self.stream
        {
            drop(stream.acknowledge(seq).await);
        }
    }

    fn has_hosts(&self) -> bool {
        let hosts = self.hosts.as_ref();
        hosts.is_some_and(|hosts| hosts.received.keys().any(Option::is_some))
    }
}

// What a conversation receives, and how far each feed is dealt with, across several streams of it.

#[derive(Debug)]
pub(crate) enum Incoming {
    /// A stream has begun; what tasks do from here on is received.
    Began {
        /// The machine that the feed is on; `None` for this one.
        host: Option<String>,
        epoch: String,
        /// What was acknowledged before: records up to this one do not come again.
        cursor: Seq,
        last: Seq,
    },
    /// A message for the conversation.
    FollowUp(Box<Batch>),
    /// A text for the user. Those from before the stream began are left out.
    Notice { level: Level, text: String },
    /// The number of tasks has changed.
    Status {
        /// The status line; `None` when the session is missing.
        text: Option<String>,
        active: usize,
    },
    /// Records that say nothing to the conversation.
    Passed,
    /// Everything that was recorded on this machine before the stream began has been received.
    CaughtUp,
    /// Another process follows the conversation now.
    Replaced,
}

pub(super) trait Feeds {
    /// Returns what comes next. Nothing may be lost when the future is dropped.
    async fn next(&mut self) -> Result<Incoming, Error>;

    /// Acknowledges what need not come again. `first_open` returns the first record of the feed with
    /// this epoch that has no receipt.
    async fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>);

    fn has_hosts(&self) -> bool;
}

/// What is received of the records before a stream began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct StreamStart {
    /// The last of them.
    pub(super) last_before: Seq,
    /// For a new consumer: earlier follow-ups of others are left out, and own ones that are older than this.
    own_since: Option<Millis>,
    /// Whether earlier follow-ups for everybody are left out.
    pub(super) skips_everybody: bool,
}

/// A feed, as a conversation reads it.
#[derive(Debug, Default)]
pub(super) struct FeedReading {
    /// The machine that the feed is on; `None` for this one.
    host: Option<String>,
    epoch: String,
    start: StreamStart,
    /// The last record that was received, on any stream of this epoch.
    last: Seq,
    /// The first and the last record that the present stream has sent and that were not acknowledged.
    unacknowledged: Option<(Seq, Seq)>,
}

impl FeedReading {
    fn has_begun(&self) -> bool {
        !self.epoch.is_empty()
    }

    /// Begins a stream of the feed with this epoch. Nothing is known of another feed. A feed of another
    /// machine may have two streams at once.
    pub(super) fn begin(&mut self, epoch: &str, start: StreamStart) {
        if self.epoch != epoch {
            epoch.clone_into(&mut self.epoch);
            self.last = 0;
            self.unacknowledged = None;
        } else if self.host.is_none() {
            self.unacknowledged = None;
        }
        self.start = start;
    }

    /// Notes a record, or a gap by its last number. Returns `false` when an earlier stream had it already.
    pub(super) fn pass(&mut self, seq: Seq) -> bool {
        let (first, last) = self.unacknowledged.unwrap_or((seq, seq));
        self.unacknowledged = Some((first.min(seq), last.max(seq)));
        let is_new = seq > self.last;
        self.last = self.last.max(seq);
        is_new
    }

    /// Takes the record up to which everything was dealt with and is to be acknowledged now. `first_open` is
    /// the first record that still waits for its receipt. An acknowledgement that is lost is made again for
    /// the records that come again.
    pub(super) fn acknowledgement(&mut self, first_open: Option<Seq>) -> Option<Seq> {
        let (first, last) = self.unacknowledged?;
        let up_to = first_open.map_or(last, |open| last.min(open.saturating_sub(1)));
        if up_to < first {
            return None;
        }
        self.unacknowledged = (up_to < last).then_some((up_to + 1, last));
        Some(up_to)
    }

    fn receive(&mut self, record: Record) -> Incoming {
        if !self.pass(record.seq) {
            return Incoming::Passed;
        }
        let start = self.start;
        let is_earlier = record.seq <= start.last_before;
        let time = record.time;
        match record.body {
            Body::FollowUp {
                owner,
                message,
                options,
                ..
            } => {
                let is_own = owner.is_some();
                let is_recent = start.own_since.is_none_or(|since| is_own && time >= since);
                if is_earlier && !(is_recent && (is_own || !start.skips_everybody)) {
                    return Incoming::Passed;
                }
                Incoming::FollowUp(Box::new(Batch {
                    epoch: record.epoch,
                    seqs: vec![record.seq],
                    time,
                    is_new: !is_earlier,
                    host: self.host.clone(),
                    message,
                    options,
                }))
            }
            Body::Notice { level, text, .. } if !is_earlier => Incoming::Notice { level, text },
            Body::Notice { .. } | Body::Event(_) => Incoming::Passed,
        }
    }
}

// The follow-ups of tasks on other machines: one stream for each session there that a launch has noted,
// until it has no task and no undelivered message of the conversation any more.

/// How many reports of machines may wait.
const QUEUE: usize = 16;

/// The longest name of an epoch, in bytes.
const MAX_NAME: usize = 200;

/// The longest message, in bytes.
const MAX_CONTENT: usize = 64 << 10;

struct HostStreams {
    owner: String,
    notes: HostNotes,
    watch: NoteWatch,
    /// Where what was received is acknowledged: at the feeds that are followed, and at the fleet's broker.
    received: BTreeMap<Option<FarFeed>, mpsc::UnboundedSender<Received>>,
    streams: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    reporter: mpsc::Sender<(String, HostNews)>,
    reports: mpsc::Receiver<(String, HostNews)>,
    /// What was received of each feed, by epoch, which no other feed of any machine has.
    readings: BTreeMap<String, FeedReading>,
}

impl HostStreams {
    /// There are none when notes cannot be read.
    fn of(owner: &str) -> Option<Self> {
        let notes = HostNotes::find().map_err(io::Error::other);
        let opened = notes.and_then(|notes| Ok((notes.watch()?, notes)));
        let warn = |error: &_| tracing::warn!(%error, "tasks on other machines are not followed");
        let (watch, notes) = opened.inspect_err(warn).ok()?;
        let (reporter, reports) = mpsc::channel(QUEUE);
        let mut streams = Self {
            owner: owner.to_owned(),
            notes,
            watch,
            received: BTreeMap::new(),
            streams: FuturesUnordered::new(),
            reporter,
            reports,
            readings: BTreeMap::new(),
        };
        streams.find_hosts();
        let (received, to_acknowledge) = mpsc::unbounded_channel();
        streams.received.insert(None, received);
        let followed = follow_wakes(owner.to_owned(), to_acknowledge, streams.reporter.clone());
        streams.streams.push(Box::pin(followed));
        Some(streams)
    }

    /// Returns what comes next. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Incoming {
        loop {
            tokio::select! {
                // What a stream has reported is received before it is gone.
                biased;
                Some((host, news)) = self.reports.recv() => {
                    return self.receive(host, news).unwrap_or(Incoming::Passed);
                }
                Some(()) = self.streams.next(), if !self.streams.is_empty() => {}
                () = self.watch.changed() => self.find_hosts(),
            }
        }
    }

    /// Follows the noted sessions that are not followed.
    fn find_hosts(&mut self) {
        for (_, note) in self.notes.list() {
            let feed = Some(note.feed());
            if note.owner != self.owner || self.received.contains_key(&feed) {
                continue;
            }
            let (received, to_acknowledge) = mpsc::unbounded_channel();
            self.received.insert(feed, received);
            let notes = self.notes.clone();
            let followed = follow_host(notes, note, to_acknowledge, self.reporter.clone());
            self.streams.push(Box::pin(followed));
        }
    }

    fn receive(&mut self, host: String, news: HostNews) -> Option<Incoming> {
        match news {
            HostNews::Began {
                epoch,
                cursor,
                last,
            } => {
                if epoch.is_empty() || epoch.len() > MAX_NAME {
                    return None;
                }
                let reading = self.readings.entry(epoch.clone());
                let reading = reading.or_insert_with(|| FeedReading {
                    host: Some(host.clone()),
                    ..FeedReading::default()
                });
                let start = StreamStart {
                    last_before: last,
                    ..StreamStart::default()
                };
                reading.begin(&epoch, start);
                return Some(Incoming::Began {
                    host: Some(host),
                    epoch,
                    cursor,
                    last,
                });
            }
            HostNews::Record(record) => {
                let reading = self.readings.get_mut(&record.epoch)?;
                let seq = record.seq;
                match from_host(*record, &host, &self.owner) {
                    Some(record) => return Some(reading.receive(record)),
                    None => drop(reading.pass(seq)),
                }
            }
            HostNews::Gap { epoch, to } => drop(self.readings.get_mut(&epoch)?.pass(to)),
            HostNews::Forgotten(feed) => {
                self.received.remove(&Some(feed));
                // A launch may have noted it again.
                self.find_hosts();
            }
        }
        None
    }

    /// Tells all of them: a machine may be known by two names. If that is lost, the records come again.
    fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>) {
        for (epoch, reading) in &mut self.readings {
            let Some(seq) = reading.acknowledgement(first_open(epoch)) else {
                continue;
            };
            for received in self.received.values() {
                let epoch = epoch.clone();
                drop(received.send(Received { epoch, seq }));
            }
        }
    }
}

/// Returns a follow-up of another machine as the conversation gets it, rebuilt from its events; `None` if
/// it is not for this conversation, or has no events. Nothing that the machine says is trusted.
fn from_host(mut record: Record, host: &str, owner: &str) -> Option<Record> {
    let Body::FollowUp {
        owner: of,
        message,
        events: seqs,
        ..
    } = &mut record.body
    else {
        return None;
    };
    if of.as_deref() != Some(owner) {
        return None;
    }
    // Only what a task prints has several lines.
    for event in &mut message.details.events {
        let line = match &mut event.kind {
            EventKind::Input { prompt } | EventKind::InputResolved { prompt } => {
                Some(&mut prompt.text)
            }
            EventKind::Output(found) => found.line.as_mut(),
            EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::Exited { .. }
            | EventKind::Disappeared { .. } => None,
        };
        if let Some(line) = line {
            *line = text::row(line.as_bytes());
        }
    }
    let told = seqs.iter().zip(std::mem::take(&mut message.details.events));
    let told = told.map(|(seq, event)| DeliveredEvent { seq: *seq, event });
    let mut told: Vec<DeliveredEvent> = told.collect();
    // The conversation knows what the text leaves out, or that wakes nobody.
    let is_told = |told: &DeliveredEvent| {
        let window = told.event.task.window.to_string();
        route::speaks_of(&message.content, &window)
    };
    if told.iter().any(is_told) {
        told.retain(is_told);
    }
    let told_events = told.iter().map(|of| (&of.event, route::Reach::FollowUp));
    let (reach, level, content) = route::route(&told_events.collect::<Vec<_>>())?;
    if reach != route::Reach::FollowUp {
        return None;
    }
    let mut content = text::from_host(&content, host);
    content.truncate(content.floor_char_boundary(MAX_CONTENT));
    let context = Context {
        epoch: record.epoch,
        session_id: message.details.session_id.clone(),
        session_name: record.session_name,
        checkpoint: None,
    };
    let body = Body::follow_up(level, content, told, of.take());
    let mut own = Record::new(record.seq, record.time, body).stamped(0, &context);
    if let Body::FollowUp { message, .. } = &mut own.body {
        message.details.host = Some(host.to_owned());
    }
    own.host = Some(host.to_owned());
    Some(own)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{delivered, events_of};

    #[test]
    fn nothing_is_acknowledged_before_what_is_open() {
        let mut reading = FeedReading::default();
        reading.begin("e", StreamStart::default());
        assert_eq!(reading.acknowledgement(None), None);
        for seq in [3, 5, 9] {
            assert!(reading.pass(seq));
        }
        assert_eq!(reading.acknowledgement(Some(3)), None);
        assert_eq!(reading.acknowledgement(Some(9)), Some(8));
        assert_eq!(reading.acknowledgement(Some(9)), None);
        assert_eq!(reading.acknowledgement(None), Some(9));
        assert_eq!(reading.acknowledgement(None), None);
    }

    #[test]
    fn what_a_conversation_knows_of_another_machine_is_not_told_again() {
        let events = delivered(
            1,
            events_of(
                "@1 a running; @2 b running -> @1 a dead 0 owner=pi:1; @2 b dead 2 owner=pi:1",
            ),
        );
        let told = [
            (&events[0].event, route::Reach::FollowUp),
            (&events[1].event, route::Reach::Notice),
        ];
        let (_, level, content) = route::route(&told).unwrap();
        let body = Body::follow_up(level, content, events, Some("pi:1".to_owned()));
        let record = Record::new(3, 0, body);
        let Some(Body::FollowUp { message, .. }) =
            from_host(record, "box", "pi:1").map(|own| own.body)
        else {
            panic!("it is for the conversation");
        };
        assert_eq!(
            message.content,
            "[tmux-task notification]\ntmux task box:@1 (a) exited with code 0"
        );
        assert_eq!(
            (message.details.level, message.details.events.len()),
            (Level::Info, 1)
        );
    }

    #[test]
    fn a_stream_that_begins_again_repeats_nothing() {
        let mut reading = FeedReading::default();
        reading.begin("e", StreamStart::default());
        assert!(reading.pass(3) && reading.pass(5));
        assert_eq!(reading.acknowledgement(Some(5)), Some(4));
        // It was lost with the stream, and is made again for what comes again.
        reading.begin("e", StreamStart::default());
        assert_eq!(reading.acknowledgement(Some(5)), None);
        assert!(!reading.pass(3));
        assert_eq!(reading.acknowledgement(Some(5)), Some(3));
        assert!(!reading.pass(5));
        assert_eq!(reading.acknowledgement(None), Some(5));
        // Another way to the same feed.
        assert!(!reading.pass(5));
        assert_eq!(reading.acknowledgement(None), Some(5));
        // Another feed counts from 1 again.
        reading.begin("f", StreamStart::default());
        assert!(reading.pass(1));
        assert_eq!(reading.acknowledgement(Some(1)), None);
    }
}

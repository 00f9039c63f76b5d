//! The follow-ups of a conversation's tasks on other machines.
//!
//! One stream for each session on a machine that a launch has noted; it ends when there is no task and no
//! undelivered message of the conversation there any more. Lost connections are made again.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::mpsc;

use super::feed_reading::{FeedReading, Incoming, StreamStart};
use crate::model::{Body, Context, DeliveredEvent, Delivery, EventKind, Record, Seq, text};
#[cfg(feature = "fleet")]
use crate::ops::follow_wakes;
use crate::ops::{FarFeed, HostNews, HostNotes, NoteWatch, Received, follow_host};
use crate::route;

/// How many reports of machines may wait.
const QUEUE: usize = 16;

/// How many feeds of a machine are read.
const MAX_FEEDS: usize = 1000;

/// The longest name of an epoch, in bytes.
const MAX_NAME: usize = 200;

/// The longest message, in bytes.
const MAX_CONTENT: usize = 64 << 10;

/// The streams of a conversation.
pub(super) struct HostStreams {
    owner: String,
    notes: HostNotes,
    watch: NoteWatch,
    /// Where what is received goes, by the feeds that are followed.
    received: BTreeMap<FarFeed, mpsc::UnboundedSender<Received>>,
    streams: FuturesUnordered<Pin<Box<dyn Future<Output = ()>>>>,
    /// The same for the fleet's broker, if there is one.
    received_wakes: Option<mpsc::UnboundedSender<Received>>,
    reporter: mpsc::Sender<(FarFeed, HostNews)>,
    reports: mpsc::Receiver<(FarFeed, HostNews)>,
    /// The present epoch of each feed.
    epochs: BTreeMap<FarFeed, String>,
    /// What was received of each feed, by epoch, which no other feed of any machine has.
    readings: BTreeMap<String, FeedReading>,
}

impl HostStreams {
    /// Returns the streams of this conversation; none when notes cannot be read.
    pub(super) fn of(owner: &str) -> Option<Self> {
        let notes = HostNotes::find().map_err(io::Error::other);
        let opened = notes.and_then(|notes| Ok((notes.watch()?, notes)));
        let (watch, notes) = opened
            .inspect_err(|error| tracing::warn!(%error, "tasks on other machines are not followed"))
            .ok()?;
        let (reporter, reports) = mpsc::channel(QUEUE);
        let mut streams = Self {
            owner: owner.to_owned(),
            notes,
            watch,
            received: BTreeMap::new(),
            streams: FuturesUnordered::new(),
            received_wakes: None,
            reporter,
            reports,
            epochs: BTreeMap::new(),
            readings: BTreeMap::new(),
        };
        streams.find_hosts();
        #[cfg(feature = "fleet")]
        streams.follow_wakes();
        Some(streams)
    }

    /// Whether the conversation has, or may have, tasks on other machines.
    pub(super) fn is_any_followed(&self) -> bool {
        !self.received.is_empty()
    }

    /// Returns what comes next.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Incoming {
        loop {
            tokio::select! {
                // What a stream has reported is received before it is gone.
                biased;
                Some((feed, news)) = self.reports.recv() => {
                    return self.receive(feed, news).unwrap_or(Incoming::Passed);
                }
                Some(()) = self.streams.next(), if !self.streams.is_empty() => {}
                () = self.watch.changed() => self.find_hosts(),
            }
        }
    }

    /// Follows the hosts of the fleet, if there is one.
    #[cfg(feature = "fleet")]
    fn follow_wakes(&mut self) {
        let (received, to_acknowledge) = mpsc::unbounded_channel();
        self.received_wakes = Some(received);
        let followed = follow_wakes(self.owner.clone(), to_acknowledge, self.reporter.clone());
        self.streams.push(Box::pin(followed));
    }

    /// Follows the noted sessions that are not followed.
    fn find_hosts(&mut self) {
        for note in self.notes.list() {
            if !note.is_of(&self.owner) || self.received.contains_key(&note.feed()) {
                continue;
            }
            let (received, to_acknowledge) = mpsc::unbounded_channel();
            self.received.insert(note.feed(), received);
            let notes = self.notes.clone();
            let followed = follow_host(notes, note, to_acknowledge, self.reporter.clone());
            self.streams.push(Box::pin(followed));
        }
    }

    fn receive(&mut self, feed: FarFeed, news: HostNews) -> Option<Incoming> {
        let host = feed.0.clone();
        match news {
            HostNews::Began {
                epoch,
                cursor,
                last_seq,
            } => self.begin(feed, epoch, cursor, last_seq),
            HostNews::Record(record) => {
                let epoch = self.epochs.get(&feed)?.clone();
                let reading = self.readings.get_mut(&epoch)?;
                let seq = record.seq;
                match from_host(*record, &host, &self.owner, &epoch) {
                    Some(record) => reading.receive(record),
                    None => {
                        reading.pass(seq);
                        None
                    }
                }
            }
            HostNews::Gap(to) => {
                let epoch = self.epochs.get(&feed)?.clone();
                self.readings.get_mut(&epoch)?.pass(to);
                None
            }
            HostNews::Forgotten => {
                self.received.remove(&feed);
                self.epochs.remove(&feed);
                // The machine may be followed by another name.
                let epochs = &self.epochs;
                let is_followed = |epoch: &String| epochs.values().any(|of| of == epoch);
                self.readings.retain(|epoch, _| is_followed(epoch));
                // A launch may have noted it again.
                self.find_hosts();
                let is_any_of_host = self.received.keys().any(|(of, _)| *of == host);
                (!is_any_of_host).then_some(Incoming::Forgotten(host))
            }
        }
    }

    /// A feed's stream has begun.
    fn begin(&mut self, feed: FarFeed, epoch: String, cursor: Seq, last: Seq) -> Option<Incoming> {
        let host = feed.0.clone();
        let is_known = self.epochs.contains_key(&feed);
        let n_feeds = self.epochs.keys().filter(|(of, _)| *of == host).count();
        if epoch.is_empty() || epoch.len() > MAX_NAME || !is_known && n_feeds >= MAX_FEEDS {
            return None;
        }
        let before = self.epochs.insert(feed, epoch.clone());
        let replaced = before.filter(|before| *before != epoch);
        if let Some(replaced) = &replaced {
            self.readings.remove(replaced);
        }
        let reading = self.readings.entry(epoch.clone());
        let reading = reading.or_insert_with(|| FeedReading::of_host(&host));
        let start = StreamStart {
            last_before: last,
            own_since: None,
            skips_everybody: true,
        };
        reading.begin(&epoch, start);
        Some(Incoming::Began {
            host: Some(host),
            replaced,
            epoch,
            cursor,
            last,
        })
    }

    /// Sends what is to be acknowledged. If that is lost, the records come again.
    pub(super) fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>) {
        for (epoch, reading) in &mut self.readings {
            let Some(seq) = reading.acknowledgement(first_open(epoch)) else {
                continue;
            };
            // The machine that has this feed; it may be known by two names.
            let feeds = self.epochs.iter().filter(|(_, of)| *of == epoch);
            let feeds = feeds.filter_map(|(feed, _)| self.received.get(feed));
            for received in self.received_wakes.iter().chain(feeds) {
                let epoch = epoch.clone();
                drop(received.send(Received { epoch, seq }));
            }
        }
    }
}

/// Returns a follow-up of another machine as the conversation gets it, rebuilt from its events; `None` if
/// it is not for this conversation, or has no events. Nothing that the machine says is trusted.
fn from_host(mut record: Record, host: &str, owner: &str, epoch: &str) -> Option<Record> {
    let Body::FollowUp {
        owner: of,
        message,
        events: seqs,
        ..
    } = &mut record.body
    else {
        return None;
    };
    if of.as_deref() != Some(owner) || record.epoch != epoch {
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
    let told = std::mem::take(&mut message.details.events);
    let told = seqs.iter().zip(told);
    let told = told.map(|(seq, event)| DeliveredEvent { seq: *seq, event });
    let told: Vec<DeliveredEvent> = told.collect();
    let reaching = told.iter().map(|of| (&of.event, route::reach(&of.event)));
    let (level, mut content) = match route::route(&reaching.collect::<Vec<_>>())? {
        Delivery::FollowUp { level, content } => (level, route::from_host(&content, host)),
        Delivery::Notice { .. } => return None,
    };
    content.truncate(content.floor_char_boundary(MAX_CONTENT));
    let context = Context {
        epoch: epoch.to_owned(),
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

//! Events of the feed from a position on, for callers that ask for them again and again.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::caller::Caller;
use super::session::TaskSession;
use super::stored_feed::StoredRecords;
use crate::client::{DaemonClient, Hello};
use crate::model::{Body, Error, Event, Kind, Millis, Record, Seq};
use crate::wire::{After, Filter, LiveRecord, ReaderStart, Request, StoredUse, StreamRecord};

/// How long to wait for further events after one that was waited for: what happens at once is one
/// answer.
const LINGER: Duration = Duration::from_millis(15);

/// How often the daemon is told that a reader is still there. It expects that every six seconds.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(5);

/// Which events are wanted.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventQuery {
    /// Only of these tasks, by name or window id; empty for all.
    pub(crate) tasks: Vec<String>,
    /// The maximum number of them.
    pub(crate) most: usize,
    /// How long to wait for the first one.
    pub(crate) wait: Duration,
}

/// An event of the feed.
#[derive(Debug, Clone)]
pub(crate) struct FeedEvent {
    pub(crate) seq: Seq,
    pub(crate) time: Millis,
    pub(crate) event: Event,
}

/// The events after a position.
#[derive(Debug)]
pub(crate) struct Events {
    pub(crate) events: Vec<FeedEvent>,
    /// The first and the last number of records that were removed before they were read.
    pub(crate) removed: Vec<(Seq, Seq)>,
    /// The position after them.
    pub(crate) next: After,
    /// Whether there are more already.
    pub(crate) has_more: bool,
}

/// Returns the present end of the session's feed, as readers see it.
pub(crate) async fn end_of_events(session: &TaskSession) -> Result<After, Error> {
    let open = StoredRecords::open(
        session,
        ReaderStart::Now,
        Filter::default(),
        StoredUse::Examine,
    );
    Ok(open.await?.map_or_else(After::default, |stored| After {
        epoch: stored.epoch,
        seq: stored.last_seq,
    }))
}

/// Returns the events after this position. If there are none, it waits for the first one. The
/// caller knows them then: they do not wake its conversation again.
///
/// Dropping the future ends the wait.
pub(crate) async fn next_events(
    session: &TaskSession,
    caller: &Caller,
    after: After,
    query: EventQuery,
) -> Result<Events, Error> {
    let until = Instant::now() + query.wait;
    let mut daemon = session.daemon_or_start().await?;
    announce(session, caller).await;
    let filter = Filter::new(vec![Kind::Event], Vec::new(), query.tasks);
    let begun = daemon
        .subscribe(ReaderStart::After(after.clone()), filter)
        .await?;
    let mut reading = EventReading::new(after, query.most, &begun)?;
    // What was recorded before the stream began; the filter has left out the others.
    while !reading.found.has_more {
        let line = daemon.next_line().await?;
        if reading.read(&line) {
            reading.skip_to(reading.last_before);
            break;
        }
    }
    while reading.found.events.is_empty() && Instant::now() < until {
        let part = until.min(Instant::now() + ANNOUNCED_EVERY);
        if !reading.read_live(&mut daemon, part, 1).await? {
            break;
        }
        if reading.found.events.is_empty() {
            announce(session, caller).await;
        } else {
            let (until, most) = (Instant::now() + LINGER, reading.most);
            reading.read_live(&mut daemon, until, most).await?;
        }
    }
    note_seen(session, caller, &reading.found.events).await;
    Ok(reading.found)
}

/// Tells the daemon that the caller reads events and will say which, before they are delivered.
async fn announce(session: &TaskSession, caller: &Caller) {
    if let Some(owner) = caller.owner.clone() {
        drop(session.for_request().ask(&Request::Reads { owner }).await);
    }
}

/// Events that are being read from a stream.
struct EventReading {
    /// What was read so far. The position after it is the last record that was read or left out.
    found: Events,
    /// The last record when the stream began.
    last_before: Seq,
    most: usize,
}

impl EventReading {
    fn new(after: After, most: usize, hello: &str) -> Result<Self, Error> {
        let hello = Hello::parse(hello)?;
        Ok(Self {
            found: Events {
                events: Vec::new(),
                removed: Vec::new(),
                next: After {
                    epoch: Some(hello.epoch),
                    seq: after.seq,
                },
                has_more: false,
            },
            last_before: hello.last_seq,
            most,
        })
    }

    /// Reads live events until there are `enough`. Returns whether the stream continues.
    async fn read_live(
        &mut self,
        daemon: &mut DaemonClient,
        until: Instant,
        enough: usize,
    ) -> Result<bool, Error> {
        while self.found.events.len() < enough {
            let Ok(line) = timeout_at(until, daemon.line()).await else {
                return Ok(true);
            };
            match line? {
                Some(line) => _ = self.read(&line),
                // The daemon stops; the next one continues the feed.
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Reads a line. Returns whether what was stored ends with it.
    fn read(&mut self, line: &str) -> bool {
        match serde_json::from_str::<StreamRecord>(line) {
            Ok(StreamRecord::Durable(record)) => self.add(*record),
            Ok(StreamRecord::Live(LiveRecord::Gap { from, to })) => {
                self.found.removed.push((from, to));
                self.skip_to(to);
            }
            // The other live records say nothing of events.
            Ok(StreamRecord::Live(record)) => return record == LiveRecord::Sync,
            // Later versions may have more kinds.
            Err(_) => {}
        }
        false
    }

    fn add(&mut self, record: Record) {
        let Body::Event(event) = record.body else {
            return;
        };
        if self.found.events.len() >= self.most {
            self.found.has_more = true;
            return;
        }
        self.found.next.seq = record.seq;
        self.found.events.push(FeedEvent {
            seq: record.seq,
            time: record.time,
            event: *event,
        });
    }

    fn skip_to(&mut self, seq: Seq) {
        self.found.next.seq = self.found.next.seq.max(seq);
    }
}

/// Tells the daemon which of the caller's events the caller has read. A daemon of an older version
/// does not understand it, and one that has ended needs no telling.
async fn note_seen(session: &TaskSession, caller: &Caller, events: &[FeedEvent]) {
    let Some(owner) = caller.owner.clone() else {
        return;
    };
    let theirs = events
        .iter()
        .filter(|event| event.event.task.owner.as_ref() == Some(&owner));
    let events: Vec<Seq> = theirs.map(|event| event.seq).collect();
    drop(
        session
            .for_request()
            .ask(&Request::Seen { owner, events })
            .await,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELLO: &str =
        r#"{"kind":"hello","v":1,"epoch":"e","lastSeq":9,"version":"1","sessionName":"s"}"#;

    fn reading(after: Seq, most: usize) -> EventReading {
        let after = After {
            epoch: None,
            seq: after,
        };
        EventReading::new(after, most, HELLO).unwrap()
    }

    fn event(seq: Seq) -> String {
        format!(
            r#"{{"v":1,"seq":{seq},"epoch":"e","time":"2026-01-01T00:00:00.000Z","sessionName":"s","kind":"event","type":"started","level":"info","task":{{"windowId":"@1","windowName":"api"}}}}"#
        )
    }

    #[test]
    fn the_next_position_is_behind_what_was_read() {
        let mut read = reading(3, 2);
        assert!(!read.read(&event(4)));
        assert!(!read.read(r#"{"kind":"gap","from":5,"to":6}"#));
        assert!(!read.read(&event(7)));
        assert!(!read.found.has_more);
        // It is left for the next call.
        assert!(!read.read(&event(8)));
        let events = read.found;
        assert_eq!((events.next.seq, events.has_more), (7, true));
        assert_eq!(events.next.epoch.as_deref(), Some("e"));
        assert_eq!(events.removed, [(5, 6)]);
    }

    #[test]
    fn records_of_later_versions_are_left_out() {
        let mut read = reading(0, 2);
        for line in [r#"{"kind":"new"}"#, "nonsense", r#"{"kind":"sync"}"#] {
            assert_eq!(read.read(line), line.contains("sync"));
        }
        assert!(read.found.events.is_empty());
    }
}

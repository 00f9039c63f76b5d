//! Events of the feed from a position on, for callers that ask for them again and again.

use std::time::Duration;

use serde::de::IgnoredAny;
use tokio::time::{Instant, timeout_at};

use super::caller::Caller;
use super::session::TaskSession;
use super::stored_feed::StoredRecords;
use crate::client::Hello;
use crate::model::{Body, Error, Event, Kind, Millis, Seq};
use crate::rules::wire::{
    After, Filter, LiveRecord, ReaderStart, Request, StoredUse, StreamRecord,
};

/// How long to wait for further events after the first one: what happens at once is one answer.
const LINGER: Duration = Duration::from_millis(15);

/// How often the daemon is told that a reader is still there. It expects that every six seconds.
const ANNOUNCED_EVERY: Duration = Duration::from_secs(5);

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

/// Returns at most so many events of these tasks, or of all, after this position. If there are none, it waits
/// for the first one, so long. The caller knows them then: they do not wake its conversation again.
pub(crate) async fn next_events(
    session: &TaskSession,
    caller: &Caller,
    after: After,
    tasks: Vec<String>,
    most: usize,
    wait: Duration,
) -> Result<Events, Error> {
    let mut until = Instant::now() + wait;
    let mut daemon = session.daemon_or_start().await?;
    announce(session, caller).await;
    let mut announce_at = Instant::now() + ANNOUNCED_EVERY;
    let seq = after.seq;
    let request = Request::Subscribe {
        start: ReaderStart::After(after),
        filter: Filter::new(vec![Kind::Event], Vec::new(), tasks),
        tasks: false,
        stored: None,
    };
    let hello = Hello::parse(&daemon.stream(&request).await?)?;
    let mut found = Events::after(hello.epoch, seq);
    // What was recorded before the stream began; the filter has left out the others.
    while !found.has_more {
        if found.read(&daemon.next_line().await?, most) {
            found.skip_to(hello.last_seq);
            break;
        }
    }
    let is_waiting = found.events.is_empty();
    while is_waiting && found.events.len() < most && Instant::now() < until {
        let had_none = found.events.is_empty();
        match timeout_at(until.min(announce_at), daemon.line()).await {
            Ok(line) => match line? {
                Some(line) => _ = found.read(&line, most),
                // The daemon stops; the next one continues the feed.
                None => break,
            },
            Err(_elapsed) if announce_at <= Instant::now() => {
                announce(session, caller).await;
                announce_at = Instant::now() + ANNOUNCED_EVERY;
            }
            Err(_elapsed) => {}
        }
        if had_none && !found.events.is_empty() {
            until = Instant::now() + LINGER;
        }
    }
    note_seen(session, caller, &found.events).await;
    Ok(found)
}

/// Tells the daemon that the caller reads events and will say which, before they are delivered.
async fn announce(session: &TaskSession, caller: &Caller) {
    if let Some(owner) = caller.owner.clone() {
        let reads = Request::Reads { owner };
        drop(session.for_request().ask::<IgnoredAny>(reads).await);
    }
}

impl Events {
    fn after(epoch: String, seq: Seq) -> Self {
        Self {
            events: Vec::new(),
            removed: Vec::new(),
            next: After {
                epoch: Some(epoch),
                seq,
            },
            has_more: false,
        }
    }

    /// Reads a line of a stream. Returns whether what was stored ends with it.
    fn read(&mut self, line: &str, most: usize) -> bool {
        match serde_json::from_str::<StreamRecord>(line) {
            Ok(StreamRecord::Durable(record)) => {
                let Body::Event(event) = record.body else {
                    return false;
                };
                if self.events.len() >= most {
                    self.has_more = true;
                    return false;
                }
                self.next.seq = record.seq;
                self.events.push(FeedEvent {
                    seq: record.seq,
                    time: record.time,
                    event: *event,
                });
            }
            Ok(StreamRecord::Live(LiveRecord::Gap { from, to })) => {
                self.removed.push((from, to));
                self.skip_to(to);
            }
            // The other live records say nothing of events.
            Ok(StreamRecord::Live(record)) => return record == LiveRecord::Sync,
            // Later versions may have more kinds.
            Err(_) => {}
        }
        false
    }

    fn skip_to(&mut self, seq: Seq) {
        self.next.seq = self.next.seq.max(seq);
    }
}

/// Tells the daemon which of its events the caller has read. One that has ended needs no telling.
async fn note_seen(session: &TaskSession, caller: &Caller, events: &[FeedEvent]) {
    let Some(owner) = caller.owner.clone() else {
        return;
    };
    let theirs = events
        .iter()
        .filter(|event| event.event.task.owner.as_ref() == Some(&owner));
    let events: Vec<Seq> = theirs.map(|event| event.seq).collect();
    let seen = Request::Seen { owner, events };
    drop(session.for_request().ask::<IgnoredAny>(seen).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: Seq) -> String {
        format!(
            r#"{{"v":1,"seq":{seq},"epoch":"e","time":"2026-01-01T00:00:00.000Z","sessionName":"s","kind":"event","type":"started","level":"info","task":{{"windowId":"@1","windowName":"api"}}}}"#
        )
    }

    #[test]
    fn the_next_position_is_behind_what_was_read() {
        let mut events = Events::after("e".to_owned(), 3);
        assert!(!events.read(&event(4), 2));
        assert!(!events.read(r#"{"kind":"gap","from":5,"to":6}"#, 2));
        assert!(!events.read(&event(7), 2));
        // Records of later versions are left out.
        assert!(!events.read(r#"{"kind":"new"}"#, 2) && !events.read("nonsense", 2));
        assert!(!events.has_more);
        // It is left for the next call.
        assert!(!events.read(&event(8), 2));
        assert_eq!((events.next.seq, events.has_more), (7, true));
        assert_eq!(events.next.epoch.as_deref(), Some("e"));
        assert_eq!((events.events.len(), &*events.removed), (2, &[(5, 6)][..]));
        let mut events = Events::after("e".to_owned(), 0);
        assert!(events.read(r#"{"kind":"sync"}"#, 2));
    }
}

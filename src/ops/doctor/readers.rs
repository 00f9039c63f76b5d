//! The consumers of a session's feed and the sinks of its daemon: how far each is behind, and since when.

use std::path::Path;
use std::time::Duration;

use super::time_limit::{LIMIT, within};
use super::{Behind, Check, Finding, Subject};
use crate::clock;
use crate::feed::{Line, WholeLines};
use crate::model::{Millis, Seq, with_causes};
use crate::ops::error::OpsError;
use crate::ops::list_consumers;
use crate::ops::session::Session;
use crate::wire::{ConsumerStatus, SINK_PREFIX, SinkStatus, parse_rfc3339};

/// A consumer that was not used for so long is forgotten, in milliseconds.
const FORGOTTEN_AFTER: Millis = 24 * 60 * 60 * 1000;

/// A consumer that is read is stuck if it has not acknowledged a record for so long. An adapter
/// acknowledges a message when its client has it, which may be at the end of a turn.
const STUCK_AFTER: Duration = Duration::from_secs(15 * 60);

/// A sink that has not failed is stuck if it has not taken a record for so long: most deliveries take
/// 30 s at most.
const SLOW_AFTER: Duration = Duration::from_secs(60);

/// Checks the consumers of the session's feed and these sinks of its daemon.
pub(super) async fn examine(session: &Session, sinks: Vec<SinkStatus>) -> Vec<Check> {
    let of = |subject: Subject| move |finding: Finding| finding.of(subject);
    let list = match within(LIMIT, list_consumers(session)).await {
        Err(finding) => return vec![finding.of(Subject::Consumers)],
        Ok(Err(OpsError::NoFeed(_))) => return Vec::new(),
        Ok(Err(error)) => {
            let why = with_causes(&error);
            return vec![Finding::BadConsumers { why }.of(Subject::Consumers)];
        }
        Ok(Ok(list)) => list,
    };
    let mut consumers = list.consumers;
    consumers.retain(|one| !one.name.starts_with(SINK_PREFIX) || is_left(one, &sinks));
    let feed = session.paths.feed();
    let now = clock::now().wall;
    let judging = tokio::task::spawn_blocking(move || {
        let consumers = judge_consumers(&consumers, now, |after| recorded_at(&feed, after));
        let sinks = sinks.into_iter();
        let sinks: Vec<Finding> = sinks.map(|sink| judge_sink(sink, now, &feed)).collect();
        (consumers, sinks)
    });
    match within(LIMIT, judging).await {
        Ok(Ok((consumers, sinks))) => {
            let consumers = consumers.into_iter().map(of(Subject::Consumers));
            consumers
                .chain(sinks.into_iter().map(of(Subject::Sinks)))
                .collect()
        }
        Ok(Err(error)) => {
            let why = error.to_string();
            vec![Finding::BadConsumers { why }.of(Subject::Consumers)]
        }
        Err(finding) => vec![finding.of(Subject::Consumers)],
    }
}

/// Whether it is the consumer of a sink that is not in the configuration any more.
fn is_left(consumer: &ConsumerStatus, sinks: &[SinkStatus]) -> bool {
    let name = consumer.name.strip_prefix(SINK_PREFIX);
    sinks.iter().all(|sink| Some(sink.name.as_str()) != name)
}

/// Judges consumers. `recorded_at` finds out when the first record after this one was recorded.
fn judge_consumers(
    consumers: &[ConsumerStatus],
    now: Millis,
    recorded_at: impl Fn(Seq) -> Option<Millis>,
) -> Vec<Finding> {
    let (mut findings, mut behind) = (Vec::new(), Vec::new());
    for one in consumers.iter().filter(|one| one.lag > 0) {
        let name = one.name.clone();
        let unused = duration(now, one.used_at);
        let is_forgotten =
            one.reader.is_none() && now.saturating_sub(one.used_at) >= FORGOTTEN_AFTER;
        if is_forgotten {
            findings.push(Finding::ForgottenConsumer {
                name,
                lag: one.lag,
                held: one.held_bytes,
                unused,
            });
            continue;
        }
        let since = recorded_at(one.cursor).map(|at| duration(now, at));
        let of_it = Behind {
            lag: one.lag,
            since,
        };
        // What it acknowledged last may be a record after a long silence.
        let is_silent = unused >= STUCK_AFTER && since.is_some_and(|since| since >= STUCK_AFTER);
        match one.reader {
            Some(reader) if is_silent => findings.push(Finding::StuckConsumer {
                name,
                behind: of_it,
                reader,
            }),
            Some(_) | None => behind.push((name, of_it)),
        }
    }
    if findings.is_empty() {
        let number = consumers.len();
        return vec![Finding::Consumers { number, behind }];
    }
    findings
}

fn judge_sink(sink: SinkStatus, now: Millis, feed: &Path) -> Finding {
    let since = (sink.lag > 0)
        .then(|| recorded_at(feed, sink.cursor))
        .flatten();
    let behind = Behind {
        lag: sink.lag,
        since: since.map(|at| duration(now, at)),
    };
    let failure = sink.error.map(|why| {
        let at = sink.error_at.unwrap_or(now);
        (why, duration(now, at))
    });
    let is_slow = behind.since.is_some_and(|since| since >= SLOW_AFTER);
    if failure.is_some() || is_slow {
        return Finding::StuckSink {
            name: sink.name,
            behind,
            failure,
        };
    }
    Finding::Sink {
        name: sink.name,
        delivered: sink.delivered,
        failed: sink.failed,
        behind,
    }
}

/// Returns when the first record after this one was recorded.
fn recorded_at(feed: &Path, after: Seq) -> Option<Millis> {
    match WholeLines::after(feed, after).ok()?.next_line().ok()?? {
        Line::Record(record) => parse_rfc3339(&record.time),
        Line::Unknown(_) | Line::Damaged => None,
    }
}

fn duration(now: Millis, at: Millis) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Millis = 60_000;
    const NOW: Millis = 2 * FORGOTTEN_AFTER;

    fn consumer(name: &str, lag: u64, used: Millis, reader: Option<u32>) -> ConsumerStatus {
        ConsumerStatus {
            name: name.to_owned(),
            cursor: 7,
            lag,
            held_bytes: 0,
            reader,
            created_at: 0,
            used_at: NOW - used,
            audience: None,
            delivery: None,
        }
    }

    fn minutes(minutes: u64) -> Duration {
        Duration::from_secs(60 * minutes)
    }

    #[track_caller]
    fn check(consumers: &[ConsumerStatus], recorded: Millis, expected: &[Finding]) {
        let recorded_at = |after| (after == 7).then_some(NOW - recorded);
        assert_eq!(judge_consumers(consumers, NOW, recorded_at), expected);
    }

    #[test]
    fn who_is_behind_is_named_with_since_when() {
        let fine = consumer("fine", 0, FORGOTTEN_AFTER, None);
        let late = consumer("late", 3, 20 * MINUTE, None);
        let behind = Behind {
            lag: 3,
            since: Some(minutes(30)),
        };
        let expected = Finding::Consumers {
            number: 2,
            behind: vec![("late".to_owned(), behind)],
        };
        check(&[fine, late], 30 * MINUTE, &[expected]);
    }

    #[test]
    fn who_reads_and_acknowledges_nothing_is_stuck() {
        let stuck = consumer("stuck", 3, 20 * MINUTE, Some(4));
        let behind = |since| Behind {
            lag: 3,
            since: Some(minutes(since)),
        };
        let expected = Finding::StuckConsumer {
            name: "stuck".to_owned(),
            behind: behind(30),
            reader: 4,
        };
        check(std::slice::from_ref(&stuck), 30 * MINUTE, &[expected]);
        let expected = Finding::Consumers {
            number: 1,
            behind: vec![("stuck".to_owned(), behind(5))],
        };
        check(&[stuck], 5 * MINUTE, &[expected]);
    }

    #[test]
    fn who_was_not_used_for_long_is_forgotten() {
        let old = consumer("old", 3, FORGOTTEN_AFTER, None);
        let expected = Finding::ForgottenConsumer {
            name: "old".to_owned(),
            lag: 3,
            held: 0,
            unused: minutes(24 * 60),
        };
        check(&[old], MINUTE, &[expected]);
    }
}

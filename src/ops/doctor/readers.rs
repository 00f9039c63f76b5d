//! The consumers of a session's feed and the sinks of its daemon: how far each is behind, and since when. The
//! fleet's broker.

use std::process::Stdio;

use serde::Deserialize;
use tokio::time::timeout;

use super::check::{LIMIT, fail, fail_without_hint, no_answer, ok, warn};
use crate::client::{fleet_not_started, fleet_program};
use crate::clock;
use crate::config;
use crate::model::{ErrorKind, Millis, Seq, age, text};
use crate::ops::host_follower::are_followed_here;
use crate::ops::session::TaskSession;
use crate::ops::{StoredRecords, list_consumers, lookup};
use crate::rules::wire::{
    After, CheckResult, ConsumerStatus, DoctorCheck, Filter, ReaderStart, SINK_PREFIX, SinkStatus,
    StoredUse,
};

/// A consumer that was not used for so long is forgotten, in milliseconds.
const FORGOTTEN_AFTER: Millis = 24 * 60 * 60 * 1000;

/// A consumer that is read is stuck if it has not acknowledged a record for so long, in milliseconds. An
/// adapter acknowledges a message when its client has it, which may be at the end of a turn.
const STUCK_AFTER: Millis = 15 * 60 * 1000;

/// Checks the consumers of the session's feed and these sinks of its daemon.
pub(super) async fn examine(session: &TaskSession, sinks: Vec<SinkStatus>) -> Vec<DoctorCheck> {
    let unreadable = |why| {
        fail(
            "consumers",
            why,
            "the file is in the folder `consumers` of the session's state; remove it to forget the \
             consumer",
        )
    };
    let mut consumers = match timeout(LIMIT, list_consumers(&mut session.for_request())).await {
        Ok(Ok(list)) => list.consumers,
        // What is wrong with the configuration or the daemon is another check's finding.
        Ok(Err(error)) if error.kind != ErrorKind::Failed || config::load(&lookup).is_err() => {
            return Vec::new();
        }
        Ok(Err(error)) => return vec![unreadable(error.message)],
        Err(_elapsed) => return vec![no_answer("consumers")],
    };
    // That of a sink which the configuration has no more is one like others.
    consumers.retain(|one| match one.name.strip_prefix(SINK_PREFIX) {
        Some(name) => sinks.iter().all(|sink| sink.name != name),
        None => true,
    });
    let now = clock::now().wall;
    let of_readers = async {
        let mut checks = Vec::new();
        for one in consumers.iter().filter(|one| one.lag > 0) {
            let is_long = |at| now.saturating_sub(at) >= STUCK_AFTER;
            // What it acknowledged last may be a record after a long silence.
            if let Some(reader) = one.reader.filter(|_| is_long(one.used_at))
                && recorded_at(session, one.cursor).await.is_some_and(is_long)
            {
                let stuck = format!(
                    "process {reader} reads `{}` without acknowledging",
                    one.name
                );
                let hint = "if its client is not in the middle of a turn, restart the client";
                checks.push(warn("consumers", stuck, hint));
            }
        }
        for sink in &sinks {
            let since = match sink.lag {
                0 => None,
                _ => recorded_at(session, sink.cursor).await,
            };
            checks.push(judge_sink(sink, now, since));
        }
        checks
    };
    let of_readers = timeout(LIMIT, of_readers).await;
    let of_readers = of_readers.unwrap_or_else(|_elapsed| vec![no_answer("consumers")]);
    [judge_consumers(&consumers, now), of_readers].concat()
}

fn judge_consumers(consumers: &[ConsumerStatus], now: Millis) -> Vec<DoctorCheck> {
    let is_forgotten = |one: &&ConsumerStatus| {
        let unused = now.saturating_sub(one.used_at);
        one.lag > 0 && one.reader.is_none() && unused >= FORGOTTEN_AFTER
    };
    let warning = |one: &ConsumerStatus| {
        let ConsumerStatus { name, lag, .. } = one;
        let kept = match one.held_bytes {
            0 => String::new(),
            held => format!("; {} of the feed are kept for it", text::size(held)),
        };
        let unused = age(now.saturating_sub(one.used_at));
        warn(
            "consumers",
            format!("`{name}` was not used for {unused} and has {lag} records to read{kept}"),
            format!("`tmux-task consumer rm {name}` forgets it, if nobody needs it"),
        )
    };
    let mut checks: Vec<_> = consumers.iter().filter(is_forgotten).map(warning).collect();
    if checks.is_empty() {
        checks.push(match consumers.len() {
            0 => ok("consumers", "none"),
            n => ok("consumers", format!("{n}, none forgotten")),
        });
    }
    checks
}

/// Judges a sink, whose next record was made at this time.
fn judge_sink(sink: &SinkStatus, now: Millis, recorded: Option<Millis>) -> DoctorCheck {
    let since = recorded.map(|at| now.saturating_sub(at));
    let name = &sink.name;
    let behind = behind(sink.lag, since);
    if let Some(why) = &sink.error {
        let ago = age(now.saturating_sub(sink.error_at.unwrap_or(now)));
        let hint = if sink.kind == "broker" {
            "records wait in the feed until the broker has them; see docs/fleet.md"
        } else {
            "the record is repeated until the sink takes it (exit code 0, or a status from 200 to 299); \
             correct its program or its table `sink`"
        };
        let failed = format!("`{name}`: {behind}; the last attempt failed {ago} ago: {why}");
        return warn("sinks", failed, hint);
    }
    // Most deliveries take 30 s at most.
    if since.is_some_and(|since| since >= 60 * 1000) {
        let stuck = format!("`{name}`: {behind}, and no attempt has failed");
        let hint = "its program or its peer is slow; the key `timeout` ends a delivery that hangs";
        return warn("sinks", stuck, hint);
    }
    let failed = match sink.failed {
        0 => String::new(),
        1 => ", 1 failure before".to_owned(),
        n => format!(", {n} failures before"),
    };
    let delivered = sink.delivered;
    ok(
        "sinks",
        format!("`{name}`: {delivered} delivered, {behind}{failed}"),
    )
}

/// Returns how far a reader is behind: `3 records behind, the first for 5m`.
fn behind(lag: u64, since: Option<Millis>) -> String {
    let records = match lag {
        0 => return "nothing behind".to_owned(),
        1 => "1 record".to_owned(),
        n => format!("{n} records"),
    };
    let since = since.map(|since| format!(", the first for {}", age(since)));
    format!("{records} behind{}", since.unwrap_or_default())
}

/// Returns when the first record after this one was recorded.
async fn recorded_at(session: &TaskSession, after: Seq) -> Option<Millis> {
    let start = ReaderStart::After(After {
        epoch: None,
        seq: after,
    });
    let stored = StoredRecords::open(session, start, Filter::default(), StoredUse::Examine).await;
    let record = stored.ok()??.next_record().await.ok()??;
    Some(record.time)
}

/// The longest text, in characters.
const MAX_CHARS: usize = 400;

/// A line of the program.
#[derive(Deserialize)]
struct Found {
    result: CheckResult,
    message: String,
    hint: Option<String>,
}

/// Checks the fleet's broker, if the configuration names one: its program says how it is.
pub(super) async fn examine_broker() -> Vec<DoctorCheck> {
    // A configuration that cannot be read is another check's business.
    if config::load(&lookup).map_or(true, |config| !config.has_fleet) {
        return Vec::new();
    }
    let mut command = fleet_program();
    command
        .arg("doctor")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if are_followed_here() {
        command.arg("--wakes");
    }
    let output = match timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            let error = fleet_not_started(&error);
            return vec![fail(
                "broker",
                error.message,
                error.hint.unwrap_or_default(),
            )];
        }
        Err(_elapsed) => return vec![no_answer("broker")],
    };
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let found = lines.filter_map(|line| serde_json::from_slice::<Found>(line).ok());
    let checks: Vec<DoctorCheck> = found.map(check_of).collect();
    if checks.is_empty() {
        let why = text::one_line(&output.stderr, MAX_CHARS);
        return vec![fail_without_hint("broker", why)];
    }
    checks
}

fn check_of(found: Found) -> DoctorCheck {
    DoctorCheck {
        result: found.result,
        hint: found.hint,
        ..ok("broker", found.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::consumer_status;
    use crate::rules::wire::CheckResult;

    const NOW: Millis = 2 * FORGOTTEN_AFTER;

    #[test]
    fn who_is_forgotten_is_named_with_since_when() {
        let consumer = |name: &str, lag: u64, used: Millis, reader: Option<u32>| ConsumerStatus {
            held_bytes: 0,
            reader,
            ..consumer_status(name, 7, lag, NOW - used)
        };
        let fine = consumer("fine", 0, FORGOTTEN_AFTER, None);
        let late = consumer("late", 3, 1000, None);
        let read = consumer("read", 1, FORGOTTEN_AFTER, Some(4));
        let old = consumer("old", 3, FORGOTTEN_AFTER, None);
        let none = "3, none forgotten";
        let forgotten = "`old` was not used for 1d and has 3 records to read";
        for (consumers, result, message) in [
            (&[fine, late.clone(), read][..], CheckResult::Ok, none),
            (&[late, old], CheckResult::Warn, forgotten),
        ] {
            let found = judge_consumers(consumers, NOW);
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((found[0].result, &*found[0].message), (result, message));
        }
    }
}

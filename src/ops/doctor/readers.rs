//! The consumers of a session's feed and the sinks of its daemon: how far each is behind, and since when. The
//! fleet's broker.

use std::collections::BTreeMap;
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

/// A sink that has not failed is stuck if it has not taken a record for so long, in milliseconds: most
/// deliveries take 30 s at most.
const SLOW_AFTER: Millis = 60 * 1000;

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
    consumers.retain(|one| !one.name.starts_with(SINK_PREFIX) || is_left(one, &sinks));
    let positions = consumers.iter().map(|one| (one.cursor, one.lag));
    let positions = positions.chain(sinks.iter().map(|one| (one.cursor, one.lag)));
    let recorded = async {
        let mut recorded = BTreeMap::new();
        for (cursor, _) in positions.filter(|(_, lag)| *lag > 0) {
            if let Some(at) = recorded_at(session, cursor).await {
                recorded.insert(cursor, at);
            }
        }
        recorded
    };
    let Ok(recorded) = timeout(LIMIT, recorded).await else {
        return vec![no_answer("consumers")];
    };
    let now = clock::now().wall;
    let mut checks = judge_consumers(&consumers, now, &recorded);
    checks.extend(sinks.iter().map(|sink| judge_sink(sink, now, &recorded)));
    checks
}

/// Whether it is the consumer of a sink that is not in the configuration any more.
fn is_left(consumer: &ConsumerStatus, sinks: &[SinkStatus]) -> bool {
    let name = consumer.name.strip_prefix(SINK_PREFIX);
    sinks.iter().all(|sink| Some(sink.name.as_str()) != name)
}

/// Judges consumers. Behind each position that is not the last one, the first record was `recorded` then.
fn judge_consumers(
    consumers: &[ConsumerStatus],
    now: Millis,
    recorded: &BTreeMap<Seq, Millis>,
) -> Vec<DoctorCheck> {
    let (mut checks, mut late) = (Vec::new(), Vec::new());
    for one in consumers.iter().filter(|one| one.lag > 0) {
        let ConsumerStatus { name, lag, .. } = one;
        let unused = now.saturating_sub(one.used_at);
        if one.reader.is_none() && unused >= FORGOTTEN_AFTER {
            let kept = match one.held_bytes {
                0 => String::new(),
                held => format!("; {} of the feed are kept for it", text::size(held)),
            };
            let unused = age(unused);
            checks.push(warn(
                "consumers",
                format!("`{name}` was not used for {unused} and has {lag} records to read{kept}"),
                format!("`tmux-task consumer rm {name}` forgets it, if nobody needs it"),
            ));
            continue;
        }
        let since = recorded.get(&one.cursor);
        let since = since.map(|at| now.saturating_sub(*at));
        let behind = behind(*lag, since);
        // What it acknowledged last may be a record after a long silence.
        let is_silent = unused >= STUCK_AFTER && since.is_some_and(|since| since >= STUCK_AFTER);
        match one.reader {
            Some(reader) if is_silent => checks.push(warn(
                "consumers",
                format!("`{name}`: {behind}, and process {reader} reads it without acknowledging"),
                "if its client is not in the middle of a turn, restart the client",
            )),
            Some(_) | None => late.push(format!("`{name}` is {behind}")),
        }
    }
    if checks.is_empty() {
        let message = match (consumers.len(), late.is_empty()) {
            (0, _) => "none".to_owned(),
            (number, true) => format!("{number}, none behind"),
            (number, false) => format!("{number}, none forgotten: {}", late.join(", ")),
        };
        checks.push(ok("consumers", message));
    }
    checks
}

fn judge_sink(sink: &SinkStatus, now: Millis, recorded: &BTreeMap<Seq, Millis>) -> DoctorCheck {
    let since = recorded.get(&sink.cursor).filter(|_| sink.lag > 0);
    let since = since.map(|at| now.saturating_sub(*at));
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
    if since.is_some_and(|since| since >= SLOW_AFTER) {
        return warn(
            "sinks",
            format!("`{name}`: {behind}, and no attempt has failed"),
            "its program or its peer is slow; the key `timeout` ends a delivery that hangs",
        );
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

/// Returns how far a reader is behind, and how long ago the first of these records was recorded, if
/// that is known: `3 records behind, the first for 5m`.
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

/// Checks whether the fleet's broker is reached, if the configuration names one, and how it stores: its
/// program says so.
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
    use crate::rules::wire::{CheckResult, ConsumerAudience};

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
            audience: ConsumerAudience::default(),
        }
    }

    #[track_caller]
    fn check(consumers: &[ConsumerStatus], recorded: Millis, result: CheckResult, message: &str) {
        let recorded = BTreeMap::from([(7, NOW - recorded)]);
        let found = judge_consumers(consumers, NOW, &recorded);
        assert_eq!(found.len(), 1, "{found:?}");
        let found = (found[0].result, &*found[0].message);
        assert_eq!(found, (result, message));
    }

    #[test]
    fn who_is_behind_stuck_or_forgotten_is_named_with_since_when() {
        let fine = consumer("fine", 0, FORGOTTEN_AFTER, None);
        let late = consumer("late", 3, 20 * MINUTE, None);
        let message = "2, none forgotten: `late` is 3 records behind, the first for 30m";
        check(&[fine, late], 30 * MINUTE, CheckResult::Ok, message);
        // It reads and acknowledges nothing.
        let stuck = [consumer("stuck", 3, 20 * MINUTE, Some(4))];
        let message = "`stuck`: 3 records behind, the first for 30m, and process 4 reads it without \
                       acknowledging";
        check(&stuck, 30 * MINUTE, CheckResult::Warn, message);
        let message = "1, none forgotten: `stuck` is 3 records behind, the first for 5m";
        check(&stuck, 5 * MINUTE, CheckResult::Ok, message);
        let old = consumer("old", 3, FORGOTTEN_AFTER, None);
        let message = "`old` was not used for 1d and has 3 records to read";
        check(&[old], MINUTE, CheckResult::Warn, message);
    }
}

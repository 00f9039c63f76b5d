//! Compares the feed and the records of consumers with the tasks' journals.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Storm;
use super::consumer::Consumer;
use super::task::{DEADLINE, has_token};
use crate::support::{all_told, check_feed, deliveries, events, show};

/// What was compared.
#[derive(Debug)]
#[expect(dead_code, reason = "it is printed")]
pub(super) struct Verdict {
    records: usize,
    events: usize,
    deliveries: usize,
    runs: usize,
    streams: usize,
}

/// Waits until everything that the tasks have done is in the feed, and each consumer has had and
/// acknowledged all of it.
pub(super) fn catch_up(storm: &Storm<'_>, consumers: &[Consumer]) {
    let world = storm.world;
    // With nothing left to come, the last record is an acknowledged one.
    for consumer in consumers {
        consumer.acknowledge_all();
    }
    let deadline = Instant::now() + DEADLINE;
    let mut before = 0;
    loop {
        // A look finds what is left.
        drop(world.task(["ls"]));
        let records = world.records();
        let is_quiet = records.len() == before && all_told(&records);
        before = records.len();
        let last = records.len() as u64;
        let listed = world.json(["consumer", "ls", "--json"])["consumers"].take();
        let listed = listed.as_array().unwrap();
        let has_all = |consumer: &Consumer| {
            let is_it = |one: &Value| one["name"] == *consumer.name && one["cursor"] == last;
            listed.iter().any(is_it)
        };
        if is_quiet && consumers.iter().all(has_all) {
            return;
        }
        if Instant::now() >= deadline {
            let states: Vec<_> = consumers
                .iter()
                .map(|consumer| {
                    let state = consumer.state();
                    (
                        state.sent,
                        state.confirmed,
                        state.records.len(),
                        state.complaints.clone(),
                    )
                })
                .collect();
            panic!("it does not come to rest: {last} records, {states:?}");
        }
        thread::sleep(Duration::from_millis(200));
    }
}

/// Checks everything.
pub(super) fn check(storm: &Storm<'_>, consumers: &[Consumer], records: &[Value]) -> Verdict {
    // Numbers without a gap, and each event in exactly one delivery.
    check_feed(records);
    let mut streams = 0;
    for consumer in consumers {
        let state = consumer.state();
        assert!(
            state.faults.is_empty(),
            "{}: {:?}",
            consumer.name,
            state.faults
        );
        let had: Vec<&Value> = state.records.values().collect();
        assert_eq!(had.len(), records.len(), "{}", consumer.name);
        let differs = had
            .iter()
            .zip(records)
            .find(|(had, record)| **had != *record);
        assert!(differs.is_none(), "{}: {differs:?}", consumer.name);
        assert_eq!(state.sent, records.len() as u64);
        streams += state.n_streams;
    }
    let mut runs = 0;
    let mut faults = Vec::new();
    for name in storm.slots.names() {
        let of_task: Vec<&Value> = events(records)
            .into_iter()
            .filter(|event| event["task"]["windowName"] == name.as_str())
            .collect();
        let journal = storm.slots.journal(name);
        runs += journal
            .iter()
            .filter(|line| line.ends_with(" began"))
            .count();
        let found = compare(&journal, &of_task);
        if !found.is_empty() {
            let of_task: Vec<Value> = of_task.into_iter().cloned().collect();
            faults.push(format!(
                "{name}: {}\n{}\n{}",
                found.join("\n"),
                storm.slots.noted(name).join("\n"),
                show(&of_task)
            ));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(
        runs >= storm.slots.names().len(),
        "{runs} runs prove nothing"
    );
    Verdict {
        records: records.len(),
        events: events(records).len(),
        deliveries: deliveries(records).len(),
        runs,
        streams,
    }
}

/// How the runs that were not replaced ended, from the task's journal; the feed has the same.
fn ends_in_journal(journal: &[String]) -> Vec<String> {
    let end = |line: &String| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[1..] {
            ["ended", code] => Some(code.to_owned()),
            ["killed"] => Some("SIGKILL".to_owned()),
            _ => None,
        }
    };
    journal.iter().filter_map(end).collect()
}

/// Whether a run was ended for the next one in its slot. A daemon that was killed after that, and before
/// the launch, has not noted what it was for: the next one tells the end, with the code of the stop
/// signal, which no task of the storm has otherwise.
fn is_replaced(event: &Value) -> bool {
    let task = &event["task"];
    let is_stopped = task["exitCode"] == 143 || task["exitSignal"] == "SIGTERM";
    event["type"] == "exited" && (event["reason"] == "replaced" || is_stopped)
}

/// Whether a run's command never began, because its launcher and the daemon were killed before that: it
/// has a code that no task of the storm has otherwise, and its command has noted nothing. (A launch that
/// has not failed waits until its command begins.)
fn never_began(event: &Value, journal: &[String]) -> bool {
    let command = &event["task"]["currentCommand"];
    let mut tokens = journal.iter().filter_map(|line| line.split(' ').next());
    event["type"] == "exited"
        && event["task"]["exitCode"] == 126
        && !tokens.any(|token| has_token(command, token))
}

fn ends_in_feed(events: &[&Value], journal: &[String]) -> Vec<String> {
    let ended = events.iter().filter(|event| {
        event["type"] == "exited" && !is_replaced(event) && !never_began(event, journal)
    });
    let end = |event: &&&Value| {
        let task = &event["task"];
        match task["exitSignal"].as_str() {
            Some(signal) => signal.to_owned(),
            None => task["exitCode"].to_string(),
        }
    };
    ended.map(|event| end(&event)).collect()
}

/// Returns how the feed of a task differs from its journal.
fn compare(journal: &[String], events: &[&Value]) -> Vec<String> {
    let mut faults = Vec::new();
    let (noted, told) = (ends_in_journal(journal), ends_in_feed(events, journal));
    if noted != told {
        faults.push(format!("ended {noted:?}, in the feed {told:?}"));
    }
    let of_type = |name: &'static str| events.iter().filter(move |event| event["type"] == name);
    // Each run has one start and one end at most.
    for event_type in ["started", "exited"] {
        let mut seen = BTreeSet::new();
        for event in of_type(event_type) {
            let task = &event["task"];
            if !seen.insert((task["windowId"].to_string(), task["run"].to_string())) {
                faults.push(format!("{event_type} twice: {event}"));
            }
        }
    }
    // A run that was replaced while it rang, because its launch seemed to have failed, has rung or
    // not.
    let of_deed = |prefix: &str| -> Vec<&str> {
        let lines = journal.iter().filter_map(|line| line.split_once(' '));
        lines
            .filter(|(_, deed)| deed.starts_with(prefix))
            .map(|(token, _)| token)
            .collect()
    };
    let rings_of = |tokens: &[&str]| {
        let rings = of_deed("rings").into_iter();
        rings.filter(|token| tokens.contains(token)).count() as u64
    };
    let least = rings_of(&of_deed("ended"));
    let most = rings_of(&of_deed("began"));
    let bells: u64 = of_type("notify")
        .filter_map(|event| event["bells"].as_u64())
        .sum();
    if !(least..=most).contains(&bells) {
        faults.push(format!("rang {least} to {most} times, in the feed {bells}"));
    }
    let unanswered = of_deed("unanswered");
    if !unanswered.is_empty() {
        faults.push(format!("tmux did not answer {unanswered:?}"));
    }
    // What stayed until it was replaced or its window was closed has had a start and one such end,
    // and a question was asked and answered once.
    let mut deeds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut last = "";
    for line in journal {
        let (token, deed) = line.split_once(' ').unwrap();
        last = token;
        deeds.entry(token).or_default().push(deed);
    }
    for (token, deeds) in deeds {
        let n_of = |event_type: &'static str| {
            of_type(event_type)
                .filter(|event| has_token(&event["task"]["currentCommand"], token))
                .count()
        };
        let n_prompts = |event_type: &'static str| {
            of_type(event_type)
                .filter(|event| has_token(&event["prompt"], token))
                .count()
        };
        if deeds.contains(&"asks") {
            let counts = (
                n_of("started"),
                n_prompts("input"),
                n_prompts("inputResolved"),
            );
            if counts != (1, 1, 1) {
                faults.push(format!(
                    "{token} asked: started, input, resolved: {counts:?}"
                ));
            }
        }
        if deeds == ["began"] {
            let replaced = of_type("exited")
                .filter(|event| is_replaced(event))
                .filter(|event| has_token(&event["task"]["currentCommand"], token))
                .count();
            let counts = (n_of("started"), replaced + n_of("disappeared"));
            // The last one of a task may still be there.
            let is_fine = matches!(counts, (1, 1)) || counts == (1, 0) && token == last;
            if !is_fine {
                faults.push(format!("{token} stayed: started, gone: {counts:?}"));
            }
        }
    }
    faults
}

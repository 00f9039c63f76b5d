//! Records as tests read them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::parse_lines;

/// Appends `n` notices of so many letters to a feed. Returns the number of the last record.
pub(crate) fn append_notices(feed: &Path, n: u64, letters: usize) -> u64 {
    let records = parse_lines(&fs::read_to_string(feed).unwrap());
    append_behind(records.last().unwrap(), feed, n, letters)
}

fn append_behind(last: &Value, feed: &Path, n: u64, letters: usize) -> u64 {
    let mut seq = last["seq"].as_u64().unwrap();
    let mut notice = json!({
        "v": 1, "seq": seq, "epoch": last["epoch"], "time": last["time"],
        "sessionName": last["sessionName"], "kind": "notice", "level": "info",
        "text": "x".repeat(letters), "events": [], "owner": null,
    });
    let file = File::options().append(true).create(true).open(feed);
    let mut file = BufWriter::new(file.unwrap());
    for _ in 0..n {
        seq += 1;
        notice["seq"] = seq.into();
        writeln!(file, "{notice}").unwrap();
    }
    file.into_inner().unwrap();
    seq
}

/// Makes a feed 100 MiB long by such notices, in sixteen closed segments as a daemon makes them.
/// Returns the number of the last record.
pub(crate) fn lengthen(feed: &Path, letters: u64) -> u64 {
    let records = parse_lines(&fs::read_to_string(feed).unwrap());
    let mut last = records.last().unwrap().clone();
    let mut first = 1;
    for _ in 0..16 {
        let n = (100 << 20) / 16 / (letters + 190);
        let seq = append_behind(&last, feed, n, usize::try_from(letters).unwrap());
        fs::rename(feed, feed.with_file_name(format!("feed-{first:016}.jsonl"))).unwrap();
        (first, last["seq"]) = (seq + 1, seq.into());
    }
    File::create(feed).unwrap();
    first - 1
}

/// The events among the records.
pub(crate) fn events(records: &[Value]) -> Vec<&Value> {
    of_kind(records, "event")
}

/// The notices and follow-ups among the records.
pub(crate) fn deliveries(records: &[Value]) -> Vec<&Value> {
    let deliveries = records.iter().filter(|record| record["kind"] != "event");
    deliveries.collect()
}

fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = records.iter().filter(|record| record["kind"] == kind);
    of_kind.collect()
}

/// The events of this type.
pub(crate) fn events_of<'a>(records: &'a [Value], event_type: &str) -> Vec<&'a Value> {
    let mut events = events(records);
    events.retain(|event| event["type"] == event_type);
    events
}

/// Whether there is an event of this type of this task.
pub(crate) fn has_event(records: &[Value], event_type: &str, name: &str) -> bool {
    let mut events = events_of(records, event_type).into_iter();
    events.any(|event| event["task"]["windowName"] == name)
}

/// The texts of a field of each of these values.
#[track_caller]
pub(crate) fn texts<'a>(values: impl IntoIterator<Item = &'a Value>, field: &str) -> Vec<&'a str> {
    let text = |value: &'a Value| value[field].as_str();
    let texts = values.into_iter().map(|value| text(value).expect(field));
    texts.collect()
}

/// The names of the tasks in this list.
#[track_caller]
pub(crate) fn names(tasks: &Value) -> Vec<&str> {
    texts(tasks.as_array().expect("a list of tasks"), "windowName")
}

/// The one event of this type of this task.
#[track_caller]
pub(crate) fn event<'a>(records: &'a [Value], event_type: &str, name: &str) -> &'a Value {
    let mut found = events_of(records, event_type);
    found.retain(|event| event["task"]["windowName"] == name);
    match found.as_slice() {
        [event] => event,
        others => panic!(
            "{} times {event_type} {name}:\n{}",
            others.len(),
            show(records)
        ),
    }
}

/// Whether each event that has to be delivered was delivered. A question that was answered before its
/// message was due is not.
pub(crate) fn all_told(records: &[Value]) -> bool {
    let mut told = BTreeSet::new();
    for delivery in deliveries(records) {
        let events = delivery["events"].as_array().into_iter().flatten();
        told.extend(events.filter_map(Value::as_u64));
    }
    // The windows of questions that were neither delivered nor answered.
    let mut open = BTreeSet::new();
    for event in events(records) {
        let is_told = event["seq"].as_u64().is_some_and(|seq| told.contains(&seq));
        let window = event["task"]["windowId"].to_string();
        match event["type"].as_str() {
            Some("inputResolved") => drop(open.remove(&window)),
            Some("input") if !is_told => drop(open.insert(window)),
            _ if !is_told => return false,
            _ => {}
        }
    }
    open.is_empty()
}

/// The text of a delivery, without the header of a follow-up.
pub(crate) fn content(delivery: &Value) -> &str {
    let text = match delivery["kind"].as_str() {
        Some("notice") => &delivery["text"],
        _ => &delivery["message"]["content"],
    };
    let text = text.as_str().unwrap();
    text.strip_prefix("[tmux-task notification]\n")
        .unwrap_or(text)
}

/// The records in short, one line each.
pub(crate) fn story(records: &[Value]) -> Vec<String> {
    records.iter().map(line).collect()
}

/// The records in short, as one readable text.
pub(crate) fn show(records: &[Value]) -> String {
    let numbered = records
        .iter()
        .map(|record| format!("  {:>3} {} {}", record["seq"], record["time"], line(record)));
    numbered.collect::<Vec<_>>().join("\n")
}

fn line(record: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    match record["kind"].as_str() {
        Some("event") => {
            let task = &record["task"];
            let mut line = format!("{} {}", text(&record["type"]), text(&task["windowName"]));
            let mut add = |more: String| {
                line.push(' ');
                line.push_str(&more);
            };
            match record["type"].as_str() {
                Some("started") if record["rerun"] == true => add("again".to_owned()),
                Some("exited") if record["reason"] != Value::Null => add(text(&record["reason"])),
                Some("exited") => match (&task["exitSignal"], &task["exitCode"]) {
                    (Value::String(signal), _) => add(signal.clone()),
                    (_, code) => add(code.to_string()),
                },
                Some("notify") => add(format!("x{}", record["bells"])),
                Some("input" | "inputResolved") => add(text(&record["prompt"])),
                Some("disappeared") => add(text(&record["reason"])),
                _ => {}
            }
            line
        }
        Some(kind) => format!(
            "{kind} of {} [{}] {}",
            record["events"],
            text(&record["level"]),
            content(record)
        ),
        None => record.to_string(),
    }
}

/// Checks the invariants of a feed whose daemon has stopped: numbers without a gap, one epoch,
/// sanitised text, and each event that has to be delivered in exactly one delivery.
#[track_caller]
pub(crate) fn check_feed(records: &[Value]) {
    let mut told = Vec::new();
    let mut to_be_told = Vec::new();
    // Prompts that are not delivered yet, by window.
    let mut asked: BTreeMap<String, u64> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        let seq = index as u64 + 1;
        assert_eq!(record["seq"], seq, "a gap:\n{}", show(records));
        assert_eq!(record["epoch"], records[0]["epoch"]);
        assert_eq!(record["v"], 1);
        check_time(record["time"].as_str().unwrap());
        check_text(record);
        match record["kind"].as_str() {
            Some("event") => {
                let window = record["task"]["windowId"].to_string();
                if record["type"] == "inputResolved" {
                    // Resolved before it was delivered: left out.
                    if let Some(asked) = asked.remove(&window) {
                        to_be_told.retain(|seq| *seq != asked);
                    }
                } else {
                    to_be_told.push(seq);
                }
                if record["type"] == "input" {
                    asked.insert(window, seq);
                }
            }
            Some("notice" | "followUp") => {
                let events = record["events"].as_array().unwrap();
                let events: Vec<u64> = events.iter().map(|event| event.as_u64().unwrap()).collect();
                // Gatherings are delivered in order; on a slow disk the next one may have begun.
                let last = events.iter().max().copied().unwrap_or_default();
                asked.retain(|_, seq| *seq > last);
                told.extend(events);
            }
            other => panic!("a record of kind {other:?}"),
        }
    }
    told.sort_unstable();
    assert_eq!(told, to_be_told, "not each once:\n{}", show(records));
}

/// `2026-11-20T10:01:39.123Z`
#[track_caller]
fn check_time(time: &str) {
    let shape: String = time
        .chars()
        .map(|c| if c.is_ascii_digit() { '0' } else { c })
        .collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z");
}

/// Text from panes and names is without control characters and bounded.
#[track_caller]
fn check_text(value: &Value) {
    match value {
        Value::String(text) => {
            let bad = text.chars().find(|c| c.is_control() && *c != '\n');
            assert_eq!(bad, None, "a control character in {text:?}");
        }
        Value::Array(values) => values.iter().for_each(check_text),
        Value::Object(fields) => {
            for (name, value) in fields {
                check_text(value);
                let limit = match name.as_str() {
                    "outputPreview" => 4096,
                    "windowName" => 800,
                    "currentCommand" => 4000,
                    "prompt" => 1200,
                    _ => continue,
                };
                let length = value.as_str().map_or(0, str::len);
                assert!(length <= limit, "{name} has {length} bytes");
                if name != "outputPreview" {
                    let has_lines = value.as_str().is_some_and(|text| text.contains('\n'));
                    assert!(!has_lines, "{name} has lines");
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

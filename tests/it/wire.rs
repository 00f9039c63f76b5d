//! The feed's format: lines of every version so far, and the schema.

mod schema;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tmux_task::model::{Context, Now, Record};
use tmux_task::rules::engine::{Engine, EngineEffect, RestoredState, Settings};
use tmux_task::rules::wire::{SnapshotLine, StreamRecord, feed_schema};

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The frozen lines of this file. None of them may ever be changed; new ones may be added.
fn frozen(name: &str) -> Vec<Value> {
    let path = in_repository(&format!("tests/fixtures/wire/v1/{name}.jsonl"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("a frozen line is JSON"))
        .collect();
    assert!(!lines.is_empty(), "{path:?}");
    lines
}

const RECORDS: [&str; 4] = ["event", "notice", "followUp", "live"];

fn frozen_records() -> Vec<Value> {
    RECORDS.iter().flat_map(|name| frozen(name)).collect()
}

/// Whether `new` has all fields and values of `old`; it may have more fields.
fn is_kept(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => old
            .iter()
            .all(|(name, old)| new.get(name).is_some_and(|new| is_kept(old, new))),
        (Value::Array(old), Value::Array(new)) => {
            old.len() == new.len() && old.iter().zip(new).all(|(old, new)| is_kept(old, new))
        }
        (old, new) => old == new,
    }
}

/// Adds a field that no reader knows to every object.
fn with_news(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(with_news).collect(),
        Value::Object(fields) => {
            let known = fields
                .iter()
                .map(|(name, value)| (name.clone(), with_news(value)));
            let news = (
                "news".to_owned(),
                serde_json::json!({"of": ["a", "later", "version"]}),
            );
            known.chain([news]).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// Reads a line that must be one.
#[track_caller]
fn read<T: DeserializeOwned>(line: &Value) -> T {
    serde_json::from_value(line.clone()).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Checks that a value is written with everything that this line has. Later versions may add fields,
/// because a record is complete without them.
#[track_caller]
fn check_written(line: &Value, value: &impl Serialize) {
    let written = serde_json::to_value(value).expect("plain data");
    assert!(is_kept(line, &written), "{line}\n{written}");
}

#[test]
fn every_frozen_record_is_read_and_written_as_it_was_and_unknown_fields_are_passed_over() {
    let schema = feed_schema();
    for line in frozen_records() {
        let record: StreamRecord = read(&line);
        check_written(&line, &record);
        let news = with_news(&line);
        assert_eq!(read::<StreamRecord>(&news), record);
        for line in [line, news] {
            check_valid(&schema, &line);
        }
    }
}

#[test]
fn every_frozen_durable_record_is_understood() {
    for line in RECORDS[..3].iter().flat_map(|name| frozen(name)) {
        let record: Record = read(&line);
        let context = Context {
            epoch: record.epoch.clone(),
            session_name: record.session_name.clone(),
            session_id: "01JXYZ".to_owned(),
            checkpoint: record.checkpoint.clone(),
        };
        let more = record.more;
        check_written(&line, &record.stamped(more, &context));
    }
}

#[test]
fn every_frozen_snapshot_is_understood() {
    for line in frozen("snapshot") {
        for line in [line.clone(), with_news(&line)] {
            let known: SnapshotLine = read(&line);
            let snapshot = known.to_snapshot();
            let snapshot = snapshot.unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(SnapshotLine::from(&snapshot), known, "{line}");
        }
    }
}

#[test]
fn every_kind_and_type_has_a_frozen_line() {
    let lines = frozen_records();
    let kinds = lines.iter().map(|line| {
        let kind = line.get("type").unwrap_or(&line["kind"]);
        kind.as_str().unwrap_or_default()
    });
    let found: BTreeSet<&str> = kinds.collect();
    let expected = "acked disappeared exited followUp gap hello input inputResolved notice notify replaced \
                    started status sync tasks";
    assert_eq!(found, expected.split(' ').collect());
}

/// Of a task, an example may show only that there is one.
#[test]
fn the_examples_in_the_docs_have_every_field_that_is_written() {
    let docs = fs::read_to_string(in_repository("docs/feed.md")).expect("it is there");
    let task = frozen("event")[0]["task"].to_string();
    let mut kinds = Vec::new();
    for line in docs
        .lines()
        .filter(|line| line.starts_with("{\"v\":1,\"seq\""))
    {
        let line = line.replace("{...}", &task);
        let Ok(shown) = serde_json::from_str::<Value>(&line) else {
            continue;
        };
        let written = serde_json::to_value(read::<StreamRecord>(&shown)).expect("plain data");
        let fields = |value: &Value| -> Vec<String> {
            let fields = value.as_object().expect("a record is an object").keys();
            fields.cloned().collect()
        };
        assert_eq!(fields(&shown), fields(&written), "{line}");
        kinds.push(shown["kind"].as_str().unwrap_or_default().to_owned());
    }
    kinds.dedup();
    assert_eq!(kinds, ["event", "notice", "followUp"]);
}

/// To write the file again: `TMUX_TASK_BLESS=1 cargo test --test it wire`.
#[test]
fn the_schema_in_the_docs_is_that_of_the_types() {
    let path = in_repository("docs/feed.schema.json");
    let mut schema = serde_json::to_string_pretty(&feed_schema()).expect("a schema is JSON");
    schema.push('\n');
    if std::env::var_os("TMUX_TASK_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &schema).expect("the docs can be written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == schema,
        "docs/feed.schema.json is not that of the types: TMUX_TASK_BLESS=1 writes it again"
    );
}

#[track_caller]
fn check_valid(schema: &Value, line: &Value) {
    if let Err(error) = schema::validate(schema, line) {
        panic!("{line}: {error}");
    }
}

/// No rule leaves a later version without room either: those that would are none that are known there.
#[test]
fn every_rule_of_the_schema_is_checked() {
    schema::understand(&feed_schema());
}

#[test]
fn the_schema_takes_what_is_written_today() {
    let schema = feed_schema();
    let context = Context {
        epoch: "e".to_owned(),
        session_name: "work".to_owned(),
        session_id: "work".to_owned(),
        checkpoint: None,
    };
    let now = Now {
        mono: Instant::now(),
        wall: 1_767_225_600_000,
    };
    let mut engine = Engine::new(Settings::REPLAY, RestoredState::default(), now);
    let mut n = 0;
    let mut looks = vec![SnapshotLine::default()];
    looks.extend(frozen("snapshot").iter().map(read::<SnapshotLine>));
    for look in looks {
        let look = look.to_snapshot().expect("a snapshot");
        let mut effects = engine.look(look, now);
        effects.extend(engine.deliver(now));
        for effect in effects {
            let lines: Vec<StreamRecord> = match effect {
                EngineEffect::Status(counts) => vec![StreamRecord::Live(counts.into())],
                EngineEffect::Append(records) => records
                    .into_iter()
                    .map(|record| record.stamped(0, &context))
                    .map(|record| StreamRecord::Durable(Box::new(record)))
                    .collect(),
            };
            for line in lines {
                check_valid(&schema, &serde_json::to_value(line).expect("plain data"));
                n += 1;
            }
        }
    }
    assert!(n >= 8, "{n} lines");
}

#[test]
fn the_schema_refuses_what_no_reader_could_use() {
    let schema = feed_schema();
    let good = frozen("event").remove(0);
    for field in "v seq epoch time sessionName kind type level task".split(' ') {
        let mut line = good.clone();
        line.as_object_mut().expect("a record").remove(field);
        assert!(schema::validate(&schema, &line).is_err(), "without {field}");
    }
    let mut line = good;
    line["type"] = "exploded".into();
    assert!(schema::validate(&schema, &line).is_err());
}

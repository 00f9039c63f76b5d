//! The fuzz targets: each function takes arbitrary bytes and panics if the program violates its
//! guarantees for them. The test suite runs them on the corpus and on random changes of it
//! (`tests/it/fuzz.rs`).

use std::fs;
use std::path::Path;
use std::time::Instant;

use tmux_task::model::{Body, Context, Level, Now, Record, Seq};
use tmux_task::rules::engine::{Engine, EngineEffect, RestoredState, Settings};
use tmux_task::rules::protocol::{ControlItem, Parser};
use tmux_task::rules::wire::{Acknowledgement, SnapshotLine, parse_request, request_line};
use tmux_task::store::feed::{
    FeedLine, Journal, Reader, end_of_files, load_consumers, load_saved, recover, store_consumer,
};

/// A target: its name, which is that of its corpus, and what it does.
pub(super) type Target = (&'static str, fn(&[u8]));

/// All targets.
pub(super) const TARGETS: [Target; 5] = [
    ("control", control),
    ("snapshots", snapshots),
    ("feed", feed),
    ("socket", socket),
    ("consumers", consumers),
];

/// What tmux writes in control mode: wherever it is cut, the same is parsed.
pub(super) fn control(bytes: &[u8]) {
    let parse = |chunks: &[&[u8]]| {
        let mut parser = Parser::default();
        chunks.iter().for_each(|chunk| parser.push(chunk));
        parser.collect::<Vec<ControlItem>>()
    };
    let whole = parse(&[bytes]);
    let n = bytes.len();
    for at in [0, n / 3, n / 2, n.saturating_sub(1)] {
        let (front, back) = bytes.split_at(at);
        assert_eq!(parse(&[front, back]), whole, "cut at {at}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(parse(&single), whole, "byte by byte");
}

/// Snapshots for `replay`: the records are numbered without gaps, can be read back, and deliver each
/// event at most once.
pub(super) fn snapshots(bytes: &[u8]) {
    let start = Instant::now();
    let mut engine: Option<Engine> = None;
    let context = context();
    let (mut last, mut delivered) = (0, std::collections::BTreeSet::new());
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(line) = serde_json::from_slice::<SnapshotLine>(line) else {
            continue;
        };
        let Ok(snapshot) = line.to_snapshot() else {
            continue;
        };
        let now = Now {
            mono: start,
            wall: snapshot.captured_at,
        };
        let engine = engine
            .get_or_insert_with(|| Engine::new(Settings::REPLAY, RestoredState::default(), now));
        let mut effects = engine.look(snapshot.clone(), now);
        effects.extend(engine.deliver(now));
        // The same again is no news, except that a prompt has stood still by then.
        effects.extend(engine.look(snapshot, now));
        effects.extend(engine.deliver(now));
        for effect in effects {
            let EngineEffect::Append(records) = effect else {
                continue;
            };
            for record in records {
                assert_eq!(record.seq, last + 1, "a gap");
                last = record.seq;
                let events: Vec<Seq> = match &record.body {
                    Body::Event(_) => Vec::new(),
                    Body::Notice { events, .. } => events.clone(),
                    Body::FollowUp { events, .. } => events.clone(),
                };
                for seq in events {
                    assert!(delivered.insert(seq), "{seq} is delivered twice");
                }
                let line = serde_json::to_string(&record.stamped(0, &context))
                    .expect("a record is plain data");
                let has_controls = line.chars().any(char::is_control);
                assert!(!has_controls, "a control character: {line}");
                let read: Result<Record, _> = serde_json::from_str(&line);
                read.expect("a record is read back");
            }
        }
    }
}

/// A feed's file: it is read to its end, what can be read stays, and the next record has the next
/// number.
pub(super) fn feed(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("feed.jsonl");
    fs::write(&path, bytes).expect("the feed is written");
    let before = seqs(&path);
    let found = recover(&path, None, drop).expect("any file is a feed");
    let mut journal = Journal::open(&path, found.end, found.last_seq).expect("it is opened");
    let next = found.last_seq.saturating_add(1);
    let body = Body::Notice {
        level: Level::Info,
        text: "next".to_owned(),
        events: Vec::new(),
        owner: None,
    };
    let record = Record::new(next, 0, body);
    let context = Context {
        epoch: found.epoch.clone().unwrap_or_else(|| "new".to_owned()),
        ..context()
    };
    journal.queue(&[record], &context);
    journal.flush().expect("it is appended");
    let after = seqs(&path);
    assert_eq!(after.last(), Some(&next), "the next number");
    assert_eq!(after[..after.len() - 1], before[..], "the rest stays");
    let again = recover(&path, None, drop).expect("it is a feed");
    assert_eq!(again.last_seq, next);
    // As a saved snapshot it is refused or read.
    drop(load_saved(&path));
}

/// The numbers of the records that can be read.
fn seqs(path: &Path) -> Vec<Seq> {
    let (_, end) = end_of_files(path).expect("it is read");
    let mut reader = Reader::before(path, 0, &end).expect("it is read");
    let mut seqs = Vec::new();
    while let Some(line) = reader.next(&end).expect("it is read") {
        if let FeedLine::Record(_) | FeedLine::Unknown(..) = line {
            seqs.extend(line.frame().map(|frame| frame.seq));
        }
    }
    seqs
}

/// A line on the daemon's socket: what is understood is the same when it is sent again.
pub(super) fn socket(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(request) = parse_request(line) {
            let sent = request_line(request.to.as_deref(), &request.request);
            let again = parse_request(&sent).expect("a request is understood");
            assert_eq!(request_line(again.to.as_deref(), &again.request), sent);
        }
        drop(serde_json::from_slice::<Acknowledgement>(line));
    }
}

/// A consumer's file: it is read and kept as it is, or named and kept aside.
pub(super) fn consumers(bytes: &[u8]) {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = dir.path();
    fs::write(folder.join("c"), bytes).expect("the file is written");
    let mut loaded = load_consumers(folder).expect("the folder is read");
    assert_eq!(loaded.len(), 1);
    match loaded.remove(0) {
        Ok(saved) => {
            store_consumer(folder, &saved).expect("it is stored");
            let again = load_consumers(folder).expect("the folder is read");
            assert!(matches!(&again[..], [Ok(again)] if *again == saved));
        }
        Err(damaged) => {
            damaged.set_aside("it starts again");
            let left = load_consumers(folder).expect("the folder is read");
            assert!(left.is_empty());
            let kept = fs::read(folder.join(".c.damaged-1")).expect("it is kept");
            assert_eq!(kept, bytes);
        }
    }
}

fn context() -> Context {
    Context {
        epoch: "e".to_owned(),
        session_name: "work".to_owned(),
        session_id: "work".to_owned(),
        checkpoint: None,
    }
}

mod segmented;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::model::test_notation::{
    answered, asked, at, context, describe, notice, number, snapshot,
};
use crate::model::{Body, Bookmark, BootTime, Error, Level, Now, Record, Seq, Snapshot, WindowId};
use crate::rules::diff::{apply, diff};
use crate::rules::engine::{Engine, EngineEffect, RestoredState, Settings};

const ASKS: &str = "@1 a running : Go? [y/n]";

/// Everything that a feed has.
#[derive(Debug, Default)]
pub(super) struct FeedContents {
    pub(super) records: Vec<Record>,
    /// The first and the last number of each stretch of records that are missing.
    pub(super) lost: Vec<(Seq, Seq)>,
    pub(super) last_seq: Seq,
}

pub(super) fn read_all(path: &Path) -> FeedContents {
    let (mut kept, mut sequence) = (FeedContents::default(), Sequence::after(0));
    let (_, end) = end_of_files(path).unwrap();
    let mut reader = Reader::before(path, 0, &end).unwrap();
    while let Some(line) = reader.next(&end).unwrap() {
        kept.lost
            .extend(line.frame().and_then(|frame| sequence.read(frame.seq)));
        match line {
            FeedLine::Record(record) => kept.records.push(*record),
            FeedLine::Unknown(..) | FeedLine::Damaged => {}
        }
    }
    kept.last_seq = end.last_seq;
    kept.lost.extend(sequence.end_at(kept.last_seq));
    kept
}

/// A feed in a folder of its own, written by daemons that come and go.
pub(super) struct Feed {
    _dir: tempfile::TempDir,
    pub(super) path: PathBuf,
}

impl Feed {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("feed.jsonl");
        Self { _dir: dir, path }
    }

    /// Writes as a daemon that has just come.
    pub(super) fn append(&self, records: &[Record]) {
        let recovered = self.recover();
        let mut journal = Journal::open(&self.path, recovered.end, recovered.last_seq).unwrap();
        append(&mut journal, records).unwrap();
        assert_eq!(journal.end().at, fs::metadata(&self.path).unwrap().len());
    }

    /// The end that a daemon which has just come publishes.
    pub(super) fn end(&self) -> FeedEnd {
        let recovered = self.recover();
        let journal = Journal::open(&self.path, recovered.end, recovered.last_seq);
        journal.unwrap().end()
    }

    pub(super) fn seqs(&self, after: Seq) -> Vec<Seq> {
        let records = read_all(&self.path).records;
        let seqs = records.iter().map(|record| record.seq);
        seqs.filter(|seq| *seq > after).collect()
    }

    pub(super) fn recover(&self) -> FeedState {
        self.recover_from(None).0
    }

    /// What a daemon finds that has this saved, and the looks that were recorded later.
    pub(super) fn recover_from(
        &self,
        saved: Option<&SavedSession>,
    ) -> (FeedState, Vec<RecordedLook>) {
        let mut looks = Vec::new();
        let recovered = recover(&self.path, saved, |look| looks.push(look)).unwrap();
        (recovered, looks)
    }
}

/// Writes these records, and all that an earlier failure left unwritten.
pub(super) fn append(journal: &mut Journal, records: &[Record]) -> Result<(), Error> {
    journal.queue(records, &context());
    journal.flush()
}

/// What a daemon saved when this was the last record that it had written.
pub(super) fn saved_at(last_seq: Seq) -> SavedSession {
    SavedSession::new(&Snapshot::default(), &Bookmark::default(), "e1", last_seq)
}

/// The events between two looks as records, from this number on.
pub(super) fn events(first: Seq, before: &str, after: &str) -> Vec<Record> {
    number(first, diff(&snapshot(before), &snapshot(after)))
}

pub(super) fn follow_up(seq: Seq, events: &[Record]) -> Record {
    let events = events.iter().filter_map(|record| match &record.body {
        Body::Event(event) => Some(crate::model::DeliveredEvent {
            seq: record.seq,
            event: (**event).clone(),
        }),
        Body::Notice { .. } | Body::FollowUp { .. } => None,
    });
    let (level, content) = (Level::Info, "content".to_owned());
    Record::new(
        seq,
        0,
        Body::follow_up(level, content, events.collect(), None),
    )
}

fn asks(seq: Seq) -> Vec<Record> {
    number(seq, vec![asked(ASKS, "Go? [y/n]")])
}

fn answers(seq: Seq) -> Vec<Record> {
    number(seq, vec![answered(ASKS, "Go? [y/n]")])
}

pub(super) fn add(path: &Path, text: &str) {
    let mut bytes = fs::read(path).unwrap_or_default();
    bytes.extend_from_slice(text.as_bytes());
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_feed_that_is_not_there_is_empty() {
    let feed = Feed::new();
    assert!(feed.seqs(0).is_empty());
    let recovered = feed.recover();
    assert_eq!((recovered.last_seq, recovered.end), (0, 0));
    assert_eq!(recovered.epoch, None);
    assert!(!feed.path.exists());
}

#[test]
fn what_is_written_is_read() {
    let feed = Feed::new();
    let written = events(1, "", "@1 a running; @2 b dead 0 bell");
    feed.append(&written);
    let read = read_all(&feed.path).records;
    let written = (0..3).rev().zip(written);
    let written = written.map(|(more, record)| record.stamped(more, &context()));
    assert_eq!(read, written.collect::<Vec<_>>());
    let more: Vec<u32> = read.iter().map(|line| line.more).collect();
    assert_eq!(more, [2, 1, 0]);
    assert_eq!(feed.seqs(1), [2, 3]);
    assert!(feed.seqs(3).is_empty());
    let bytes = fs::read(&feed.path).unwrap();
    assert_eq!(bytes.last(), Some(&b'\n'));
    assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 3);
}

#[test]
fn a_torn_write_is_there_whole_or_not_at_all() {
    let feed = Feed::new();
    feed.append(&events(1, "", "@1 a running"));
    let whole = fs::read(&feed.path).unwrap().len();
    let both = "@1 a running; @2 b running";
    feed.append(&events(2, both, "@1 a dead 0 bell : § 日本"));
    let bytes = fs::read(&feed.path).unwrap();
    for cut in whole..=bytes.len() {
        fs::write(&feed.path, &bytes[..cut]).unwrap();
        let is_whole = cut == bytes.len();
        let (n, end) = if is_whole { (4, cut) } else { (1, whole) };
        assert_eq!(feed.seqs(0), (1..=n).collect::<Vec<_>>(), "cut at {cut}");
        let (recovered, looks) = feed.recover_from(None);
        let found = (recovered.last_seq, recovered.end);
        assert_eq!(found, (n, end as u64), "cut at {cut}");
        let n_recorded: usize = looks.iter().map(|look| look.events.len()).sum();
        let found = (recovered.pending.undelivered.len(), n_recorded);
        assert_eq!(found, (n as usize, n as usize), "cut at {cut}");
        // The next daemon goes on with the next number, on a line of its own. Each waits for the
        // disk, so not after every cut.
        if cut % 10 != 0 && bytes.len() - cut > 2 {
            continue;
        }
        let next = recovered.last_seq + 1;
        feed.append(&[notice(next, &[])]);
        assert_eq!(feed.seqs(0), (1..=next).collect::<Vec<_>>(), "cut at {cut}");
    }
}

#[test]
fn lines_that_are_no_record_are_passed_over() {
    let feed = Feed::new();
    add(&feed.path, "\n\0\0\0\nnot json\n{}\n{\"seq\":\"x\"}\n[1]\n");
    let recovered = feed.recover();
    assert_eq!((recovered.last_seq, recovered.end), (0, 0));
    feed.append(&[notice(1, &[])]);
    add(&feed.path, "{\"broken\n");
    let end = fs::metadata(&feed.path).unwrap().len();
    add(&feed.path, &{
        let other = Feed::new();
        other.append(&[notice(2, &[])]);
        fs::read_to_string(&other.path).unwrap()
    });
    assert_eq!(feed.seqs(0), [1, 2]);
    assert_eq!(feed.recover().last_seq, 2);
    assert!(feed.recover().end > end);
}

/// Makes the line of this number one that says nothing.
pub(super) fn damage(path: &Path, seq: usize) {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().enumerate().map(|(index, line)| {
        let line = if index + 1 == seq { "\0damage" } else { line };
        format!("{line}\n")
    });
    fs::write(path, lines.collect::<String>()).unwrap();
}

#[test]
fn records_that_are_damaged_are_known_to_be_missing_and_their_numbers_are_not_given_again() {
    let feed = Feed::new();
    let four = "@1 a running; @2 b running; @3 c running; @4 d running";
    feed.append(&events(1, "", four));
    feed.append(&[notice(5, &[1, 2, 3, 4])]);
    feed.append(&[notice(6, &[])]);
    let lost = |feed: &Feed| {
        let kept = read_all(&feed.path);
        (kept.lost, kept.last_seq)
    };
    assert_eq!(lost(&feed), (vec![], 6));
    damage(&feed.path, 2);
    assert_eq!(feed.seqs(0), [1, 3, 4, 5, 6]);
    assert_eq!(lost(&feed), (vec![(2, 2)], 6));
    // The end of a write, and then its beginning as well.
    damage(&feed.path, 4);
    assert_eq!(lost(&feed), (vec![(2, 2), (4, 4)], 6));
    damage(&feed.path, 1);
    assert_eq!(lost(&feed), (vec![(1, 2), (4, 4)], 6));
    // The last number.
    damage(&feed.path, 6);
    assert_eq!(lost(&feed), (vec![(1, 2), (4, 4), (6, 6)], 6));
    let (recovered, length) = (feed.recover(), fs::metadata(&feed.path).unwrap().len());
    assert_eq!((recovered.last_seq, recovered.end), (6, length));
    // What a crash tore has no line of its own.
    add(&feed.path, "{\"v\":1,\"seq\":7");
    assert_eq!(feed.recover().last_seq, 6);
    feed.append(&[notice(7, &[1, 2])]);
    assert_eq!(feed.seqs(0), [3, 5, 7]);
}

#[test]
fn a_record_of_a_later_version_keeps_its_number_and_its_place() {
    let feed = Feed::new();
    feed.append(&events(1, "", "@1 a running"));
    add(
        &feed.path,
        "{\"v\":1,\"seq\":2,\"epoch\":\"e1\",\"time\":\"2030-01-01T00:00:00.000Z\",\
         \"sessionName\":\"work\",\"kind\":\"weather\"}\n",
    );
    let length = fs::metadata(&feed.path).unwrap().len();
    let recovered = feed.recover();
    assert_eq!((recovered.last_seq, recovered.end), (2, length));
    feed.append(&[notice(3, &[1])]);
    assert_eq!(feed.seqs(0), [1, 3]);
    assert!(fs::read_to_string(&feed.path).unwrap().contains("weather"));
}

#[test]
fn events_without_a_delivery_are_pending() {
    let feed = Feed::new();
    let undelivered = || -> Vec<String> {
        let pending = feed.recover().pending;
        let events = pending.undelivered.iter();
        let events = events.map(|one| format!("{} {}", one.seq, describe(&one.event)));
        events.collect()
    };
    feed.append(&events(1, "", "@1 a running"));
    assert_eq!(undelivered(), ["1 started @1"]);
    feed.append(&[notice(2, &[1])]);
    assert_eq!(undelivered(), [""; 0]);
    let ends = events(3, "@1 a running; @2 b running", "@1 a dead 0; @2 b dead 1");
    feed.append(&ends);
    // What is for the feed only is not undelivered.
    feed.append(&answers(5));
    feed.append(&[notice(6, &[])]);
    assert_eq!(undelivered(), ["3 exited @1 0", "4 exited @2 1"]);
    feed.append(&[follow_up(7, &ends[..1])]);
    assert_eq!(undelivered(), ["4 exited @2 1"]);
}

#[test]
fn waiting_tasks_are_remembered_until_resolved() {
    let feed = Feed::new();
    feed.append(&asks(1));
    let recovered = feed.recover();
    let [(task, prompt)] = &*recovered.pending.waiting() else {
        panic!("{:?}", recovered.pending)
    };
    assert_eq!(*task.screen.rows, ["Go? [y/n]"]);
    assert_eq!(prompt.text, "Go? [y/n]");
    feed.append(&answers(2));
    assert_eq!(feed.recover().pending.waiting(), []);
}

#[test]
fn the_events_after_a_number_are_returned() {
    let feed = Feed::new();
    feed.append(&events(1, "", "@1 a running; @2 b running"));
    feed.append(&[notice(3, &[1, 2])]);
    feed.append(&events(4, "@1 a running", ""));
    let since = |seq| -> Vec<String> {
        let (_, looks) = feed.recover_from(Some(&saved_at(seq)));
        let events = looks.iter().flat_map(|look| &look.events);
        events.map(describe).collect()
    };
    assert_eq!(since(0), ["started @1", "started @2", "disappeared @1"]);
    assert_eq!(since(1), ["started @2", "disappeared @1"]);
    assert_eq!(since(3), ["disappeared @1"]);
    assert_eq!(since(4), [""; 0]);
    assert_eq!(feed.recover().epoch.as_deref(), Some("e1"));
}

#[test]
fn a_reader_follows_and_takes_whole_lines_only() {
    let feed = Feed::new();
    feed.append(&[notice(1, &[])]);
    let end = feed.end();
    let at = |at| FeedEnd { at, ..end };
    let mut reader = Reader::at_end(&feed.path, &at(0));
    let mut next = |end: &FeedEnd| reader.next(end).unwrap().as_ref().map(seq_of);
    assert_eq!(next(&at(end.at - 1)), None);
    assert_eq!(next(&end), Some(1));
    assert_eq!(next(&at(u64::MAX)), None);
    feed.append(&[notice(2, &[])]);
    let bytes = fs::read(&feed.path).unwrap();
    fs::write(&feed.path, &bytes[..bytes.len() - 3]).unwrap();
    assert_eq!(next(&at(u64::MAX)), None);
    fs::write(&feed.path, &bytes).unwrap();
    assert_eq!(next(&at(u64::MAX)), Some(2));
    // And from where another left off.
    let mut later = Reader::at_end(&feed.path, &end);
    let line = later.next(&at(u64::MAX)).unwrap();
    assert_eq!(line.as_ref().map(seq_of), Some(2));
}

pub(super) fn seq_of(line: &FeedLine) -> Seq {
    match line {
        FeedLine::Record(record) => record.seq,
        FeedLine::Unknown(frame, _) => frame.seq,
        FeedLine::Damaged => 0,
    }
}

/// A journal on Linux's device that is always full.
#[cfg(linux)]
fn full_journal() -> Journal {
    let full = Path::new("/dev/full");
    let file = fs::OpenOptions::new().append(true).open(full).unwrap();
    Journal::of(file, full, 0, 0).unwrap()
}

#[cfg(linux)]
#[test]
fn what_a_full_disk_refuses_is_kept_and_bounded() {
    let mut journal = full_journal();
    for seq in 1..=2 {
        let refused = append(&mut journal, &[notice(seq, &[])]);
        let why = refused.unwrap_err().message;
        assert!(why.starts_with("could not write the feed "), "{why}");
        assert!(journal.n_unwritten() > 0);
        assert_eq!(journal.end().at, 0);
    }
    assert!(journal.flush().is_err());
    let mut journal = full_journal();
    let many: Vec<Record> = (1..=40_000).map(|seq| notice(seq, &[])).collect();
    for (n, some) in many.chunks(10_000).enumerate() {
        assert!(n < 3 || journal.is_full(), "40,000 records are too many");
        assert!(append(&mut journal, some).is_err());
    }
    assert!(journal.is_full());
}

#[test]
fn a_saved_snapshot_is_read_back() {
    let feed = Feed::new();
    let path = feed.path.with_file_name("session.json");
    let load = || load_saved(&path).map_err(|damaged| damaged.why);
    assert_eq!(load(), Ok(None));
    let look = snapshot("life 3; @1#2 a running bells=1 : x; @2 b dead SIGKILL");
    let bookmark = Bookmark {
        deaths_read: Some(7),
        launched_at: BTreeMap::from([(WindowId(1), 1_767_225_600_000)]),
        run_numbers: [("b", 4), ("a", 7)].into_iter().collect(),
        searched: BTreeMap::from([(WindowId(1), "c1.7.1.2.0.0.0".to_owned())]),
        runs_away: BTreeMap::new(),
        run_names: BTreeMap::from([(WindowId(2), "c".to_owned())]),
    };
    let saved = SavedSession::new(&look, &bookmark, "e1", 9);
    store_saved(&path, &saved).unwrap();
    assert_eq!(load(), Ok(Some(saved.clone())));
    assert_eq!(saved.to_snapshot(), Ok(look));
    assert_eq!(saved.bookmark, bookmark);
    store_saved(&path, &saved).unwrap();
    assert_eq!(load(), Ok(Some(saved)));
    let names = || {
        let entries = fs::read_dir(path.parent().unwrap()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(), ["session.json"]);
    for (n, text, why) in [
        (1, "", "EOF while parsing"),
        (2, "{\"v\":1", "EOF while parsing"),
        (3, "{\"v\":1}", "missing field `epoch`"),
        (4, "{\"v\":2,\"other\":[]}", "it has version 2"),
    ] {
        fs::write(&path, text).unwrap();
        let damaged = load_saved(&path).unwrap_err();
        assert!(damaged.why.starts_with(why), "{damaged}");
        // What was kept before stays.
        damaged.set_aside("going on without it");
        assert_eq!(names().len(), n);
        let kept = path.with_extension(format!("json.damaged-{n}"));
        assert_eq!(fs::read_to_string(kept).unwrap(), text);
        assert_eq!(load(), Ok(None));
    }
}

/// A daemon's engine, its records written to a feed.
struct Daemon<'a> {
    feed: &'a Feed,
    engine: Engine,
    now: Now,
}

impl Daemon<'_> {
    /// Returns a daemon that continues from a saved look and the later records of the feed.
    fn back(feed: &Feed, saved: Option<Snapshot>) -> Daemon<'_> {
        let (past, looks) = feed.recover_from(None);
        let mut before = saved;
        if let Some(before) = &mut before {
            for event in looks.iter().flat_map(|look| &look.events) {
                apply(before, event);
            }
        }
        let memory = RestoredState {
            last_look: before,
            waiting: past.pending.waiting(),
            undelivered: past.pending.undelivered.to_vec(),
            last_seq: past.last_seq,
        };
        let now = at(0);
        let engine = Engine::new(Settings::REPLAY, memory, now);
        Daemon { feed, engine, now }
    }

    fn look(&mut self, look: &str) {
        let mut look = snapshot(look);
        // What a daemon has reported ends for the next one when the terminal has been examined.
        let tasks = look.tasks.values();
        let examined = tasks.filter(|task| *task.screen.rows == ["x"]);
        look.terminals = examined.map(|task| (task.window, Arc::default())).collect();
        let effects = self.engine.look(look, self.now);
        self.write(effects);
    }

    fn deliver(&mut self) {
        let effects = self.engine.deliver(self.now);
        self.write(effects);
    }

    fn write(&self, effects: Vec<EngineEffect>) {
        for effect in effects {
            match effect {
                EngineEffect::Append(records) => self.feed.append(&records),
                EngineEffect::Status(_) => {}
            }
        }
    }
}

#[test]
fn a_crash_after_any_write_loses_nothing_and_repeats_nothing() {
    let looks = [
        "@1#1 a running pid=1 bells=0; @2#1 b dead 0 pid=2",
        "@1#1 a running pid=1 bells=1 : Go? [y/n]; @2#2 b running pid=3",
        "@1#1 a running pid=1 bells=1 : Go? [y/n]; @2#2 b running pid=3; @3#1 c running pid=4",
        "@1#1 a running pid=1 bells=1 : x; @2#3 b running pid=5; launcher @2 3",
        "ended @3#1 c dead 7 pid=4; ended @2#3 b dead 1 pid=5; @1#1 a dead 0 pid=1 bells=2; \
         @2#4 b dead 2 pid=6",
        "@1#2 a running pid=8 bells=2; @2#4 b dead 2 pid=6",
        "gone @1 userKilled; @4#1 d running pid=9 bells=1",
        "missing",
    ];
    let actual = |crash: Option<(usize, bool)>| {
        let feed = Feed::new();
        let mut daemon = Daemon::back(&feed, None);
        for (index, look) in looks.iter().enumerate() {
            daemon.look(look);
            if let Some((at, delivered)) = crash
                && at == index
            {
                if delivered {
                    daemon.deliver();
                }
                daemon = Daemon::back(&feed, Some(snapshot(looks[0])));
                daemon.deliver();
                daemon.look(look);
            }
            daemon.deliver();
        }
        let mut events = Vec::new();
        let mut delivered = Vec::new();
        for line in read_all(&feed.path).records {
            match line.body {
                Body::Event(event) => events.push(describe(&event)),
                Body::Notice { events, .. } => delivered.extend(events),
                Body::FollowUp { events, .. } => delivered.extend(events),
            }
        }
        assert_eq!(feed.recover().pending.undelivered, []);
        (events, delivered)
    };
    let (events, delivered) = actual(None);
    assert!(events.len() > 15, "{events:?}");
    for at in 0..looks.len() {
        for after_delivery in [false, true] {
            let crashed = actual(Some((at, after_delivery)));
            assert_eq!(crashed.0, events, "crash at look {at}");
            assert_eq!(crashed.1, delivered, "crash at look {at}");
        }
    }
}

#[test]
fn a_record_that_was_changed_is_damaged_and_not_of_a_later_version() {
    let feed = Feed::new();
    feed.append(&events(1, "", "@1 a running"));
    feed.append(&[notice(2, &[1])]);
    let text = fs::read_to_string(&feed.path).unwrap();
    let (first, second) = text.split_at(text.find('\n').unwrap() + 1);
    let check = |changed: &[u8], is_lost: bool| {
        let changed = [changed, second.as_bytes()].concat();
        assert_ne!(changed, text.as_bytes());
        fs::write(&feed.path, changed).unwrap();
        let lost: &[(Seq, Seq)] = if is_lost { &[(1, 1)] } else { &[] };
        assert_eq!(read_all(&feed.path).lost, lost);
        assert_eq!(feed.recover().last_seq, 2);
    };
    for (from, to) in [
        ("\"started\"", "\"stXrted\""),
        ("\"info\"", "\"iXfo\""),
        ("\"windowId\"", "\"windowIX\""),
        ("\"dead\":false", "\"dead\":fXlse"),
    ] {
        check(first.replacen(from, to, 1).as_bytes(), true);
    }
    let no_text = first.bytes().map(|b| if b == b'a' { 0xff } else { b });
    check(&no_text.collect::<Vec<u8>>(), true);
    let later = first.replacen("\"event\"", "\"weather\"", 1);
    check(later.as_bytes(), false);
    let later = first.replace("\"v\":1", "\"v\":2");
    check(later.replace("\"info\"", "\"new\"").as_bytes(), false);
}

#[test]
fn reading_from_a_record_on_begins_near_it() {
    let feed = Feed::new();
    let mut journal = Journal::open(&feed.path, 0, 0).unwrap();
    let mut seq = 0;
    // Writes of several records, some of them wide.
    while fs::metadata(&feed.path).unwrap().len() < 1 << 20 {
        let mut records = Vec::new();
        for _ in 0..=seq % 200 {
            seq += 1;
            let mut record = notice(seq, &[]);
            if let Body::Notice { text, .. } = &mut record.body {
                *text = "x".repeat(usize::try_from(seq * 37 % 1500).unwrap());
            }
            records.push(record);
        }
        append(&mut journal, &records).unwrap();
    }
    damage(&feed.path, usize::try_from(seq / 2).unwrap());
    let length = fs::metadata(&feed.path).unwrap().len();
    let half = seq / 2;
    for after in [0, 1, 2, seq / 3, half, half + 1, seq - 1, seq, seq + 1] {
        let (_, end) = end_of_files(&feed.path).unwrap();
        let mut reader = Reader::before(&feed.path, after, &end).unwrap();
        let mut sequence = Sequence::after(after);
        let (mut n_read, mut n_lost) = (0, 0);
        let mut skipped = 0;
        while let Some(line) = reader.next(&end).unwrap() {
            let Some(frame) = line.frame() else { continue };
            if sequence.has(frame.seq) {
                skipped += 1;
                continue;
            }
            n_lost += u64::from(sequence.read(frame.seq).is_some());
            n_read += 1;
        }
        assert_eq!((end.last_seq, end.at), (seq, length));
        let is_lost = u64::from(after < half);
        let n_left = seq.saturating_sub(after) - is_lost;
        assert_eq!((n_read, n_lost), (n_left, is_lost));
        assert!(skipped < seq / 4, "{skipped} of {seq} before {after}");
    }
}

/// What a daemon saves when this is the feed's last record and `pending` is open.
pub(super) fn saved_here(pending: &PendingEvents, last_seq: Seq) -> SavedSession {
    let mut saved = saved_at(last_seq);
    saved.feed = Some(pending.clone());
    // As it is read back from its file.
    serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap()
}

/// A feed with everything that leaves something open, and what was saved after each write, which may
/// also end its segment.
pub(super) fn saved_after_each_write(ends_segments: bool) -> (Feed, Vec<SavedSession>) {
    let feed = Feed::new();
    let mut journal = Journal::open(&feed.path, 0, 0).unwrap();
    let ends = events(4, "@1 a running; @2 b running", "@1 a dead 0; @2 b dead 1");
    let writes = [
        events(1, "", "@1 a running; @2 b running"),
        vec![notice(3, &[1, 2])],
        ends.clone(),
        asks(6),
        vec![follow_up(7, &ends[..1])],
        answers(8),
        asks(9),
    ];
    let (mut pending, mut saved) = (PendingEvents::default(), Vec::new());
    for records in writes {
        append(&mut journal, &records).unwrap();
        records.iter().for_each(|record| pending.apply(record));
        saved.push(saved_here(&pending, records.last().unwrap().seq));
        if ends_segments {
            journal.close_segment().unwrap();
        }
    }
    (feed, saved)
}

#[test]
fn recovery_from_any_saved_place_finds_what_the_whole_feed_says() {
    for ends_segments in [false, true] {
        let (feed, saved) = saved_after_each_write(ends_segments);
        let whole = feed.recover();
        assert_eq!(whole.pending.undelivered.len(), 2);
        assert_eq!(whole.pending.waiting().len(), 1);
        assert_eq!(whole.end == 0, ends_segments);
        for saved in &saved {
            let (recovered, looks) = feed.recover_from(Some(saved));
            assert_eq!(recovered.pending, whole.pending, "from {}", saved.last_seq);
            assert_eq!(recovered.epoch.as_deref(), Some("e1"));
            let end = (recovered.last_seq, recovered.end);
            assert_eq!(end, (whole.last_seq, whole.end));
            let (_, all_read) = feed.recover_from(Some(&saved_at(saved.last_seq)));
            assert_eq!(looks, all_read);
        }
    }
}

#[test]
fn the_end_before_a_restart_is_known_until_it_is_settled() {
    let policy = "restarts=3,90000,0";
    let running = format!("@1#1 a running {policy}; @2 b running");
    let dead = format!("@1#1 a dead 1 {policy}; @2 b dead 1");
    let feed = Feed::new();
    let ends = events(1, &running, &dead);
    // Only a notice says so; the message is about the other task.
    feed.append(&ends);
    feed.append(&[follow_up(3, &ends)]);
    let known = |pending: &PendingEvents| pending.restarting.first().map(|end| end.seq);
    let pending = feed.recover().pending;
    assert_eq!(known(&pending), Some(1));
    let saved = saved_here(&pending, 3);
    let (recovered, _) = feed.recover_from(Some(&saved));
    assert_eq!(recovered.pending, pending);

    let after = |look: &str, undelivered: &[Seq]| {
        let mut pending = pending.clone();
        pending.forget_settled(&snapshot(look), &undelivered.iter().copied().collect());
        known(&pending)
    };
    assert_eq!(after(&dead, &[]), Some(1));
    assert_eq!(after("@1#1 a dead 1", &[1]), Some(1));
    assert_eq!(after("@1#1 a dead 1", &[]), None);
    assert_eq!(after(&format!("@1#2 a dead 1 {policy}"), &[]), None);
    assert_eq!(after("@2 b running", &[]), None);

    // The message about this end, or the next run.
    let mut failure = ends[..1].to_vec();
    if let Body::Event(event) = &mut failure[0].body {
        event.task.settings.restarts = None;
    }
    let rerun = events(4, &dead, &format!("@1#2 a running {policy}; @2 b dead 1"));
    for records in [vec![follow_up(4, &failure)], rerun] {
        let feed = Feed::new();
        feed.append(&ends);
        feed.append(&[follow_up(3, &ends)]);
        feed.append(&records);
        assert_eq!(known(&feed.recover().pending), None);
        let (recovered, _) = feed.recover_from(Some(&saved));
        assert_eq!(known(&recovered.pending), None);
        let mut appended = pending.clone();
        records.iter().for_each(|record| appended.apply(record));
        assert_eq!(known(&appended), None);
    }
}

#[test]
fn recovery_reads_only_what_is_behind_the_saved_place() {
    let (feed, saved) = saved_after_each_write(false);
    let whole = feed.recover();
    let text = fs::read_to_string(&feed.path).unwrap();
    // The record at the place itself is looked at, and nothing before it.
    let last = text.trim_end().rfind('\n').unwrap() + 1;
    let garbled = "x".repeat(last - 1) + "\n" + &text[last..];
    fs::write(&feed.path, garbled).unwrap();
    let (recovered, _) = feed.recover_from(saved.last());
    assert_eq!(recovered.pending, whole.pending);
    assert_ne!(feed.recover().pending, whole.pending);
}

#[test]
fn a_feed_that_has_changed_is_read_from_its_beginning() {
    let (feed, saved) = saved_after_each_write(false);
    let text = fs::read_to_string(&feed.path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let saved = saved.last().unwrap();
    let check = |changed: &str| {
        fs::write(&feed.path, changed).unwrap();
        let (recovered, _) = feed.recover_from(Some(saved));
        let whole = feed.recover();
        assert_eq!(recovered.pending, whole.pending);
        let end = (recovered.last_seq, recovered.end);
        assert_eq!(end, (whole.last_seq, whole.end));
    };
    // Cut, emptied, replaced, changed by a few bytes.
    check(&lines[..lines.len() - 1].concat());
    check(&text[..text.len() - 1]);
    check("");
    check(&lines[1..].concat());
    check(&text.replace("\"epoch\":\"e1\"", "\"epoch\":\"e2\""));
    check(&text.replace("\"seq\":9", "\"seq\":8"));
    check(&(text.clone() + lines[0]));
    fs::remove_file(&feed.path).unwrap();
    assert_eq!(feed.recover_from(Some(saved)).0.last_seq, 0);
}

/// What the feed at this path contains, without readers.
pub(super) fn progress(path: &Path) -> ReadProgress {
    let now = BootTime {
        boot: String::new(),
        millis: 0,
    };
    ReadProgress::load(path, &now).unwrap()
}

#[test]
fn what_a_feed_holds_is_read_from_its_end() {
    let feed = Feed::new();
    assert_eq!(progress(&feed.path), ReadProgress::default());
    let at = |mut records: Vec<Record>, time| {
        records.iter_mut().for_each(|record| record.time = time);
        records
    };
    let ends = events(3, "@1 a running", "@1 a dead 0");
    feed.append(&at(events(1, "", "@1 a running"), 1000));
    feed.append(&[notice(2, &[1])]);
    let expected = |last_follow_up, last_run| ReadProgress {
        epoch: "e1".to_owned(),
        last_follow_up,
        last_run: Some(last_run),
        ..ReadProgress::default()
    };
    assert_eq!(progress(&feed.path), expected(None, 1000));
    feed.append(&at(ends.clone(), 2000));
    feed.append(&[follow_up(4, &ends)]);
    feed.append(&[notice(5, &[])]);
    add(&feed.path, "{\"v\":1,\"seq\":6");
    assert_eq!(progress(&feed.path), expected(Some(4), 2000));
    // The front is not looked at.
    damage(&feed.path, 1);
    damage(&feed.path, 2);
    assert_eq!(progress(&feed.path), expected(Some(4), 2000));
}

#[test]
fn a_time_is_found_by_segments_and_binary_search() {
    let feed = Feed::new();
    let line = |seq: Seq, secs: u64, more: u32| {
        let time = crate::model::rfc3339(i64::try_from(secs * 1000).unwrap());
        let text = "x".repeat(1000);
        format!(
            r#"{{"v":1,"seq":{seq},"epoch":"e1","time":"{time}","more":{more},"text":"{text}"}}"#
        ) + "\n"
    };
    // Records 1 to 300 and 301 to 600, one a second; then an empty file.
    let lines = |from: Seq| (from..from + 300).map(|seq| line(seq, seq, u32::from(seq % 2 == 1)));
    for first in [1, 301] {
        let text: String = lines(first).collect();
        let path = feed.path.with_file_name(format!("feed-{first:016}.jsonl"));
        fs::write(path, text).unwrap();
    }
    fs::write(&feed.path, "").unwrap();
    let found = |secs: i64| before_time(&feed.path, secs * 1000).unwrap();
    assert_eq!(found(1), None);
    for secs in [2, 100, 299, 301, 302, 450, 600, 601, 10_000] {
        let before = found(secs).unwrap_or_default();
        let last = (secs - 1).min(600);
        // A search ends 64 KiB before it.
        let before = i64::try_from(before).unwrap();
        assert!((last - 70..=last).contains(&before), "{secs}: {before}");
        // Never in the middle of a write.
        assert_eq!(before % 2, 0, "{secs}: {before}");
    }
}

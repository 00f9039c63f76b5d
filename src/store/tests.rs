use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::consumers::Consumers;
use super::live::Live;
use super::stream::FeedChange;
use super::writer::{StoreJob, StoreReport, Writer};
use super::*;
use crate::config::{Config, FeedConfig, LogsConfig};
use crate::model::test_notation::{context, notice, number, saved_consumer, snapshot};
use crate::model::{Body, Bookmark, Error, Record, SavedLook, Seq, Snapshot, Task, WindowId};
use crate::rules::diff::diff;
use crate::rules::wire::{After, Filter, LiveRecord, ReaderStart, SavedConsumer};
use crate::store::feed::{
    Ages, FeedFiles, FeedState, Journal, SavedSession, closed_segments, end_of_files, load_saved,
    recover, saved_of, store_consumer,
};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// A feed in a folder of its own, and a writer that has all of its jobs before it begins.
struct Desk {
    dir: tempfile::TempDir,
    feed: PathBuf,
    jobs: Vec<StoreJob>,
    kept: FeedConfig,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let feed = dir.path().join("feed.jsonl");
        Self {
            dir,
            feed,
            jobs: Vec::new(),
            kept: Config::default().feed,
        }
    }

    fn ages(&self) -> Ages {
        Ages::load(&self.feed, &crate::clock::boot_time())
    }

    fn saved(&self) -> PathBuf {
        saved_of(&self.feed)
    }

    fn load(&self) -> Option<SavedSession> {
        load_saved(&self.saved()).unwrap()
    }

    fn append(&mut self, records: Vec<Record>) {
        self.jobs
            .push(StoreJob::Append(records, Box::new(context())));
    }

    fn save(&mut self, look: &str, undelivered: &[Seq]) {
        let save = Box::new(saved_look(snapshot(look), undelivered));
        self.jobs.push(StoreJob::Save(save));
    }

    fn status(&mut self, look: &str) {
        let counts = snapshot(look).counts(|_| false, |_| false);
        self.jobs.push(StoreJob::Status(counts));
    }

    fn beginning(&self, journal: Journal) -> StoreSetup {
        StoreSetup {
            journal,
            context: context(),
            pending: self.recover().pending,
            kept: self.kept,
            ages: self.ages(),
        }
    }

    fn recover(&self) -> FeedState {
        recover(&self.feed, self.load().as_ref(), drop).unwrap()
    }

    fn journal(&self) -> Journal {
        let recovered = self.recover();
        Journal::open(&self.feed, recovered.end, recovered.last_seq).unwrap()
    }

    /// Does the jobs as a daemon that has just started; returns what was published and the last
    /// report.
    fn work(&mut self) -> (Vec<String>, StoreReport) {
        self.work_with(self.journal())
    }

    fn work_with(&mut self, journal: Journal) -> (Vec<String>, StoreReport) {
        let beginning = self.beginning(journal);
        let (end, ages) = (beginning.journal.end(), beginning.ages.clock());
        let consumers = Consumers::new(&self.feed, "e1", end.last_seq, Vec::new(), ages);
        let consumers = Arc::new(consumers);
        let live = Arc::new(Live::new(&beginning, consumers));
        let mut subscription = subscribe(&live, ReaderStart::Now).unwrap();
        let (reporter, reports) = watch::channel(StoreReport::default());
        let (jobs, queue) = mpsc::channel();
        let is_save = |job: &&StoreJob| matches!(job, StoreJob::Save(_));
        let n_saves = self.jobs.iter().filter(is_save).count();
        for job in self.jobs.drain(..) {
            jobs.send(job).unwrap();
        }
        drop(jobs);
        let n_unsaved = Arc::new(AtomicUsize::new(n_saves));
        Writer::new(beginning, live, reporter, Arc::clone(&n_unsaved)).run(&queue);
        assert_eq!(n_unsaved.load(Ordering::Relaxed), 0);
        let mut published = Vec::new();
        while let Ok(news) = subscription.news.try_recv() {
            published.push(describe(&news));
        }
        let report = reports.borrow().clone();
        (published, report)
    }
}

fn describe(FeedChange { end, status }: &FeedChange) -> String {
    let Some(status) = status else {
        return format!("grown to {}", end.last_seq);
    };
    let LiveRecord::Status { text, problem, .. } = status else {
        panic!("{status:?}")
    };
    let text = text.as_deref().unwrap_or_default();
    let problem = if problem.is_some() { ", a problem" } else { "" };
    format!("{text} at {}{problem}", end.last_seq)
}

fn events(first: Seq, before: &str, after: &str) -> Vec<Record> {
    number(first, diff(&snapshot(before), &snapshot(after)))
}

fn saved_look(snapshot: Snapshot, undelivered: &[Seq]) -> SavedLook {
    SavedLook {
        snapshot,
        bookmark: Bookmark::default(),
        undelivered: undelivered.iter().copied().collect(),
    }
}

fn subscribe(live: &Live, start: ReaderStart) -> Result<Subscription, Error> {
    live.subscribe(&start, Filter::default(), false, None)
}

/// What a reader gets until its stream ends.
async fn read(subscription: Subscription) -> String {
    let mut stream = Vec::new();
    serve(subscription, &mut stream).await.unwrap();
    String::from_utf8(stream).unwrap()
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn what_waits_is_written_together_and_the_counts_are_published_behind_it() {
    let mut desk = Desk::new();
    desk.append(vec![notice(1, &[])]);
    desk.status("@1 a running");
    desk.append(vec![notice(2, &[]), notice(3, &[])]);
    desk.status("@1 a running; @2 b running");
    desk.append(vec![notice(4, &[])]);
    let (published, report) = desk.work();
    assert_eq!(
        published,
        ["grown to 4", "tmux: 1 task at 4", "tmux: 2 tasks at 4"]
    );
    assert_eq!((report.written, report.tried), (4, 4));
    assert_eq!(
        report.counts,
        Some(snapshot("@1 a running; @2 b running").counts(|_| false, |_| false))
    );
    assert_eq!(recover(&desk.feed, None, drop).unwrap().last_seq, 4);
}

#[test]
fn a_snapshot_is_saved_with_what_the_feed_leaves_open_there() {
    let mut desk = Desk::new();
    desk.append(events(1, "", "@1 a running"));
    desk.append(vec![notice(2, &[1])]);
    desk.append(events(3, "@1 a running", "@1 a dead 0"));
    desk.save("@1 a dead 0", &[3]);
    desk.work();
    let saved = desk.load().unwrap();
    assert_eq!(saved.last_seq, 3);
    let undelivered = saved.feed.unwrap().undelivered;
    let seqs: Vec<Seq> = undelivered.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [3]);

    // What is appended after it in the same write is not covered.
    desk.append(events(4, "", "@2 b running"));
    desk.save("@1 a dead 0; @2 b running", &[3, 4]);
    desk.append(vec![notice(5, &[3, 4])]);
    desk.work();
    let feed = desk.load().unwrap().feed.unwrap();
    assert_eq!(feed.undelivered.len(), 2);
    let recovered = desk.recover();
    assert_eq!(recovered.last_seq, 5);
    assert_eq!(recovered.pending.undelivered, []);
    assert_eq!(recovered.end, length(&desk.feed));

    // What is never delivered is not kept for ever.
    desk.append(events(6, "", "@3 c running"));
    desk.save("@3 c running", &[]);
    desk.work();
    assert_eq!(desk.load().unwrap().feed.unwrap().undelivered, []);
}

#[cfg(linux)]
#[test]
fn a_disk_that_refuses_is_reported_and_no_snapshot_is_ahead_of_the_feed() {
    let mut desk = Desk::new();
    desk.status("@1 a running");
    desk.append(vec![notice(1, &[])]);
    desk.save("@1 a running", &[]);
    let full = Path::new("/dev/full");
    let file = fs::OpenOptions::new().append(true).open(full).unwrap();
    let (published, report) = desk.work_with(Journal::of(file, full, 0, 0).unwrap());
    assert_eq!(published, ["tmux: 1 task at 0, a problem"]);
    assert_eq!((report.written, report.tried), (0, 1));
    let problem = report.problem.unwrap();
    assert!(problem.contains("could not write the feed"), "{problem}");
    assert_eq!(desk.load(), None);
}

#[tokio::test]
async fn a_reader_at_the_end_reads_nothing_of_what_is_before() {
    let mut desk = Desk::new();
    desk.append((1..=100).map(|seq| notice(seq, &[])).collect());
    desk.work();
    let journal = Journal::open(&desk.feed, length(&desk.feed), 100).unwrap();
    let store = Store::start(desk.beginning(journal)).unwrap();
    let after = |seq| ReaderStart::After(After { epoch: None, seq });
    let subscription = subscribe(&store.live, after(100)).unwrap();
    // What was before may as well be damaged: nothing of it is looked at.
    let text = fs::read(&desk.feed).unwrap();
    fs::write(&desk.feed, vec![b'x'; text.len()]).unwrap();
    drop(store);
    let stream = read(subscription).await;
    let kinds: Vec<String> = stream
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].to_string())
        .collect();
    assert_eq!(kinds, ["\"hello\"", "\"sync\""]);
}

#[tokio::test]
async fn a_stream_goes_on_while_records_are_appended_and_ends_with_the_store() {
    let desk = Desk::new();
    let journal = Journal::open(&desk.feed, 0, 0).unwrap();
    let mut store = Store::start(desk.beginning(journal)).unwrap();
    let live = Arc::clone(&store.live);
    let subscription = subscribe(&live, ReaderStart::Now).unwrap();
    assert_eq!(live.consumers.n_readers(), 1);
    store.append(vec![notice(1, &[])]);
    while store.report.written < 1 {
        store.changed().await.unwrap();
        store.take_report();
    }
    store.append(vec![notice(2, &[])]);
    store.close().await;
    store.take_report();
    assert_eq!(store.report.written, 2);
    drop(store);
    let stream = read(subscription).await;
    let n_records = stream.matches("\"kind\":\"notice\"").count();
    assert_eq!(n_records, 2, "{stream}");
    assert_eq!(live.consumers.n_readers(), 0);
    let refused = subscribe(&live, ReaderStart::Now);
    assert_eq!(refused.unwrap_err().message, "the daemon is leaving");
}

/// The numbers in a stream, gaps as pairs.
fn numbers(stream: &str) -> Vec<String> {
    let numbers = stream.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        match line["kind"].as_str() {
            Some("gap") => Some(format!("{}-{}", line["from"], line["to"])),
            _ => line.get("seq").map(ToString::to_string),
        }
    });
    numbers.collect()
}

/// A small feed: a segment has two notices of this size, and all files have sixteen.
const SIZE: usize = 1000;

fn small() -> FeedConfig {
    FeedConfig {
        keep_size: 16 * SIZE as u64,
        keep_age: DAY,
        keep_for_consumers: DAY,
    }
}

fn large_notice(seq: Seq) -> Record {
    let mut record = notice(seq, &[]);
    if let Body::Notice { text, .. } = &mut record.body {
        *text = "x".repeat(SIZE - 130);
    }
    record.time = crate::clock::now().wall;
    record
}

/// Records and saves, and waits for the disk each time.
async fn record(store: &mut Store, records: Vec<Record>, undelivered: &[Seq]) {
    store.append(records);
    assert!(store.save(saved_look(Snapshot::default(), undelivered)));
    store.close().await;
}

async fn record_notices(store: &mut Store, seqs: std::ops::RangeInclusive<Seq>) {
    for seq in seqs {
        record(store, vec![large_notice(seq)], &[]).await;
    }
}

impl Desk {
    /// Returns the store of a daemon that has just started, with a small feed.
    fn small_store(&self) -> Store {
        let beginning = StoreSetup {
            kept: small(),
            ..self.beginning(self.journal())
        };
        Store::start(beginning).unwrap()
    }

    fn files(&self) -> FeedFiles {
        let (_, end) = end_of_files(&self.feed).unwrap();
        FeedFiles {
            closed: closed_segments(&self.feed, &self.ages(), 0).unwrap(),
            end,
        }
    }

    /// What a reader gets that begins with the first record.
    async fn read(&self) -> Vec<String> {
        let store = self.small_store();
        let start = ReaderStart::After(After::default());
        let subscription = subscribe(&store.live, start).unwrap();
        drop(store);
        numbers(&read(subscription).await)
    }
}

#[tokio::test]
async fn a_feed_that_becomes_large_loses_its_oldest_segments_and_readers_get_one_gap() {
    let desk = Desk::new();
    let mut store = desk.small_store();
    record_notices(&mut store, 1..=40).await;
    let files = store.live.files();
    assert_eq!(files, desk.files());
    assert!(files.bytes() <= 17 * SIZE as u64, "{files:?}");
    assert!(files.closed.len() >= 6, "{files:?}");
    drop(store);
    let first = files.first_seq();
    let expected: Vec<String> = [format!("1-{}", first - 1)]
        .into_iter()
        .chain((first..=40).map(|seq| seq.to_string()))
        .collect();
    assert_eq!(desk.read().await, expected);
}

#[tokio::test]
async fn a_consumer_keeps_what_it_has_not_acknowledged_up_to_the_hard_limit() {
    let desk = Desk::new();
    // Two days were counted.
    let day = 24 * 3600 * 1000;
    let counted = format!(r#"{{"v":1,"boot":"","sinceBoot":0,"counted":{}}}"#, 2 * day);
    std::fs::write(desk.dir.path().join("ages.json"), counted).unwrap();
    for (name, used_after) in [("behind", 2 * day - 1), ("forgotten", day - 1)] {
        let saved = SavedConsumer {
            epoch: "e1".to_owned(),
            // What the clock of the machine was does not matter.
            used_at: 0,
            used_after,
            ..saved_consumer(name, 0)
        };
        store_consumer(&desk.dir.path().join("consumers"), &saved).unwrap();
    }
    let mut store = desk.small_store();
    record_notices(&mut store, 1..=40).await;
    let files = store.live.files();
    assert_eq!(files.first_seq(), 1, "{files:?}");
    let list = store.live.consumer_list();
    let held: Vec<u64> = list.consumers.iter().map(|one| one.held_bytes).collect();
    assert_eq!(held[1], 0, "it was forgotten");
    assert!(
        held[0] > 20 * SIZE as u64 && held[0] < list.feed_bytes,
        "{held:?}"
    );
    record_notices(&mut store, 41..=90).await;
    let files = store.live.files();
    assert!(files.bytes() <= 65 * SIZE as u64, "{files:?}");
    assert!(files.bytes() >= 60 * SIZE as u64, "{files:?}");
    drop(store);
    let read = desk.read().await;
    assert_eq!(read[0], format!("1-{}", files.first_seq() - 1));
    assert_eq!(read.iter().filter(|one| one.contains('-')).count(), 1);
    assert_eq!(read.last().unwrap(), "90");
}

#[tokio::test]
async fn a_segment_ends_where_all_is_delivered_and_what_is_not_stays() {
    let desk = Desk::new();
    let mut store = desk.small_store();
    // The start is not delivered: its segment becomes larger than others.
    let mut start = events(1, "", "@1 a running");
    start[0].time = crate::clock::now().wall;
    record(&mut store, start, &[1]).await;
    record(&mut store, vec![large_notice(2)], &[1]).await;
    record(&mut store, vec![large_notice(3)], &[1]).await;
    record(&mut store, vec![notice(4, &[1])], &[]).await;
    record_notices(&mut store, 5..=5).await;
    let firsts = |files: &FeedFiles| files.closed.iter().map(|one| one.first).collect::<Vec<_>>();
    let files = store.live.files();
    assert_eq!((firsts(&files), files.end.segment), (vec![1], 5));
    // It does not wait for ever, and what is not delivered stays in the saved snapshot.
    record(&mut store, events(6, "@1 a running", "@1 a dead 0"), &[6]).await;
    for seq in 7..=40 {
        record(&mut store, vec![large_notice(seq)], &[6]).await;
    }
    let files = store.live.files();
    assert!(files.first_seq() > 6, "{files:?}");
    assert!(files.closed.len() >= 3, "{files:?}");
    drop(store);
    let recovered = desk.recover();
    assert_eq!(recovered.pending.undelivered.len(), 1);
}

#[tokio::test]
async fn a_snapshot_that_was_saved_where_a_segment_ends_is_found_there() {
    let mut desk = Desk::new();
    let mut store = desk.small_store();
    record_notices(&mut store, 1..=2).await;
    drop(store);
    // It waits while the next write begins a segment.
    desk.kept = small();
    desk.save("@1 a running; @2 b running", &[]);
    desk.append(vec![large_notice(3)]);
    desk.work();
    let files = desk.files();
    assert_eq!((files.closed.len(), files.end.segment), (1, 3));
    let saved = desk.load().unwrap();
    let recovered = recover(&desk.feed, Some(&saved), drop).unwrap();
    assert_eq!(
        (recovered.last_seq, recovered.epoch.as_deref()),
        (3, Some("e1"))
    );
}

fn kept_run(folder: &Path, run: u32, n_bytes: usize) -> KeptRun {
    let about = json!({"windowId": "@1", "windowName": "api", "run": run, "exitCode": 0});
    KeptRun {
        folder: folder.to_owned(),
        life: "a".to_owned(),
        about: serde_json::from_value(about).unwrap(),
        lines: vec!["x".repeat(n_bytes)],
        limits: LogsConfig {
            keep_lines: 10,
            keep_runs: 10,
            keep_bytes: 1 << 30,
        },
    }
}

#[tokio::test]
async fn usual_durations_include_runs_that_were_stored_before_and_since() {
    let dir = tempfile::tempdir().unwrap();
    let run = |number: u32| {
        let mut run = kept_run(dir.path(), number, 1);
        run.about.started_at = Some(1000);
        run.about.ended_at = Some(1000 + i64::from(number) * 100);
        run.about.exit_code = Some(0);
        run
    };
    let folder = || dir.path().to_owned();
    let begun = |number: u32, name: &str| {
        Arc::new(Task {
            run: Some(number),
            ..Task::new(WindowId(1), name.to_owned())
        })
    };
    let (archiver, _usual) = Archiver::start().unwrap();
    archiver.keep(run(1)).await.unwrap().unwrap();
    let (archiver, mut usual) = Archiver::start().unwrap();
    archiver.find_usual(folder(), begun(2, "api"));
    archiver.keep(run(2)).await.unwrap().unwrap();
    archiver.find_usual(folder(), begun(3, "other"));
    archiver.find_usual(folder(), begun(3, "api"));
    assert_eq!(usual.recv().await, Some((begun(3, "api"), 200)));
}

#[tokio::test]
async fn the_output_of_a_run_is_stored_or_the_caller_gets_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let (archiver, _usual) = Archiver::start().unwrap();
    let kept = archiver.keep(kept_run(dir.path(), 1, 5)).await;
    kept.unwrap().unwrap();
    let kept = archive::find(dir.path(), "api", Some(1)).unwrap().unwrap();
    assert_eq!(kept.lines, ["xxxxx"]);
    // No caller waits for it, and it is written before the archiver is closed.
    drop(archiver.keep(kept_run(dir.path(), 2, 5)));
    archiver.close().await;
    assert!(archive::find(dir.path(), "api", Some(2)).unwrap().is_some());
    // A folder that cannot be used, and output that would fill the memory.
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = archiver.keep(kept_run(&file, 3, 5)).await.unwrap();
    assert!(refused.is_err());
    let refused = archiver.keep(kept_run(dir.path(), 4, 129 << 20)).await;
    assert_eq!(
        refused.unwrap().unwrap_err().to_string(),
        "the disk is too slow"
    );
    let kept = archiver.keep(kept_run(dir.path(), 5, 5)).await;
    kept.unwrap().unwrap();
}

/// A full pipe plays a disk that hangs.
#[cfg(linux)]
#[tokio::test]
async fn while_the_disk_hangs_little_waits_in_memory_and_readers_are_served() {
    use std::io::{Read, Write};

    use rustix::fs::{CWD, Mode, mkfifoat};

    let desk = Desk::new();
    let pipe = desk.dir.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::from_raw_mode(0o600)).unwrap();
    let open = || {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).open(&pipe).unwrap()
    };
    let mut other_end = open();
    let capacity = rustix::pipe::fcntl_getpipe_size(&other_end).unwrap();
    other_end.write_all(&vec![b'x'; capacity]).unwrap();
    let mut store =
        Store::start(desk.beginning(Journal::of(open(), &pipe, 0, 0).unwrap())).unwrap();
    let look = || saved_look(Snapshot::default(), &[]);
    store.append(vec![notice(1, &[])]);
    // Some are out of the queue before the thread begins to write.
    assert!((0..100_000).any(|_| !store.save(look())));
    store.take_report();
    assert_eq!(store.report.tried, 0);
    // A reader is served meanwhile.
    assert!(subscribe(&store.live, ReaderStart::Now).is_ok());
    other_end.read_exact(&mut vec![0; capacity]).unwrap();
    // A pipe cannot be synced, which is refused.
    store.close().await;
    store.take_report();
    assert_eq!((store.report.tried, store.report.written), (1, 0));
    assert!(store.save(look()));
}

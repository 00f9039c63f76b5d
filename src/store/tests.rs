use std::fs;
use std::path::{Path, PathBuf};

use super::live::Live;
use super::stream::News;
use super::*;
use crate::archive::{self, Limits, RunInfo};
use crate::diff::diff;
use crate::feed::{load_saved, recover};
use crate::model::test_notation::snapshot;
use crate::model::{Body, Level};
use crate::wire::{After, Filter, LiveRecord, ReaderStart, SavedSession};

/// A feed in a folder of its own, and a writer that has all of its jobs before it begins.
struct Desk {
    dir: tempfile::TempDir,
    feed: PathBuf,
    jobs: Vec<Job>,
}

impl Desk {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let feed = dir.path().join("feed.jsonl");
        Self {
            dir,
            feed,
            jobs: Vec::new(),
        }
    }

    fn saved(&self) -> PathBuf {
        self.dir.path().join("session.json")
    }

    fn load(&self) -> Option<SavedSession> {
        load_saved(&self.saved()).unwrap()
    }

    fn append(&mut self, records: Vec<Record>) {
        self.jobs.push(Job::Append(records, Box::new(context())));
    }

    fn save(&mut self, look: &str, first_undelivered: Option<Seq>) {
        self.jobs.push(Job::Save(Box::new(SavedLook {
            snapshot: snapshot(look),
            bookmark: Bookmark::default(),
            first_undelivered,
        })));
    }

    fn status(&mut self, look: &str) {
        let counts = snapshot(look).counts(|_| false);
        self.jobs.push(Job::Status(counts));
    }

    fn beginning(&self, journal: Journal) -> StoreSetup {
        let recovered = recover(&self.feed, self.load().as_ref(), drop).unwrap();
        StoreSetup {
            journal,
            epoch: "e1".to_owned(),
            asked: "work".to_owned(),
            session_name: "work".to_owned(),
            last_seq: recovered.last_seq,
            pending: recovered.pending,
            saved: self.saved(),
            consumers: self.dir.path().join("consumers"),
        }
    }

    /// Does the jobs as a daemon that has just started; returns what was published and the last
    /// report.
    fn work(&mut self) -> (Vec<String>, Report) {
        let recovered = recover(&self.feed, self.load().as_ref(), drop).unwrap();
        let journal = Journal::open(&self.feed, recovered.end).unwrap();
        self.work_with(journal)
    }

    fn work_with(&mut self, journal: Journal) -> (Vec<String>, Report) {
        let beginning = self.beginning(journal);
        let consumers = Arc::new(Consumers::new("e1", beginning.last_seq, Vec::new()));
        let live = Arc::new(Live::new(&beginning, consumers));
        let mut subscription = live
            .subscribe(&ReaderStart::Now, Filter::default())
            .unwrap();
        let (reporter, reports) = watch::channel(Report::default());
        let (jobs, queue) = mpsc::channel();
        let saves = self.jobs.iter().filter(|job| matches!(job, Job::Save(_)));
        let n_saves = saves.count();
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

fn describe(news: &News) -> String {
    match news {
        News::Grown(extent) => format!("grown to {}", extent.last_seq),
        News::Status { extent, status } => {
            let LiveRecord::Status { text, problem, .. } = status else {
                panic!("{status:?}")
            };
            let text = text.as_deref().unwrap_or_default();
            let problem = if problem.is_some() { ", a problem" } else { "" };
            format!("{text} at {}{problem}", extent.last_seq)
        }
    }
}

fn context() -> Context {
    Context {
        epoch: "e1".to_owned(),
        session_name: "work".to_owned(),
        session_id: "work".to_owned(),
        checkpoint: None,
    }
}

fn events(first: Seq, before: &str, after: &str) -> Vec<Record> {
    let events = diff(&snapshot(before), &snapshot(after));
    let bodies = events.into_iter().map(|event| Body::Event(Box::new(event)));
    (first..)
        .zip(bodies)
        .map(|(seq, body)| Record { seq, time: 0, body })
        .collect()
}

fn notice(seq: Seq, events: &[Seq]) -> Record {
    let body = Body::Notice {
        level: Level::Info,
        text: "text".to_owned(),
        events: events.to_vec(),
        owner: None,
    };
    Record { seq, time: 0, body }
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

#[test]
fn what_waits_is_written_together_and_the_counts_are_published_in_their_place() {
    let mut desk = Desk::new();
    desk.append(vec![notice(1, &[])]);
    desk.status("@1 a running");
    desk.append(vec![notice(2, &[]), notice(3, &[])]);
    desk.status("@1 a running; @2 b running");
    desk.append(vec![notice(4, &[])]);
    let (published, report) = desk.work();
    assert_eq!(
        published,
        ["tmux: 1 task at 1", "tmux: 2 tasks at 3", "grown to 4"]
    );
    assert_eq!((report.written, report.tried), (4, 4));
    assert_eq!(
        report.counts,
        Some(snapshot("@1 a running; @2 b running").counts(|_| false))
    );
    assert_eq!(recover(&desk.feed, None, drop).unwrap().last_seq, 4);
}

#[test]
fn a_snapshot_is_saved_with_what_the_feed_leaves_open_there() {
    let mut desk = Desk::new();
    desk.append(events(1, "", "@1 a running"));
    desk.append(vec![notice(2, &[1])]);
    desk.append(events(3, "@1 a running", "@1 a dead 0"));
    desk.save("@1 a dead 0", Some(3));
    desk.work();
    let covered = length(&desk.feed);
    let saved = desk.load().unwrap();
    assert_eq!(saved.last_seq, 3);
    let feed = saved.feed.unwrap();
    assert_eq!(feed.end, covered);
    assert_eq!(
        feed.undelivered
            .iter()
            .map(|event| event.seq)
            .collect::<Vec<_>>(),
        [3]
    );

    // What is appended after it in the same write is not covered.
    desk.append(events(4, "", "@2 b running"));
    desk.save("@1 a dead 0; @2 b running", Some(3));
    desk.append(vec![notice(5, &[3, 4])]);
    desk.work();
    let feed = desk.load().unwrap().feed.unwrap();
    assert!(covered < feed.end && feed.end < length(&desk.feed));
    assert_eq!(feed.undelivered.len(), 2);
    let recovered = recover(&desk.feed, desk.load().as_ref(), drop).unwrap();
    assert_eq!(recovered.last_seq, 5);
    assert_eq!(recovered.pending.undelivered(), []);
    assert_eq!(recovered.end, length(&desk.feed));

    // What is never delivered is not kept for ever.
    desk.append(events(6, "", "@3 c running"));
    desk.save("@3 c running", None);
    desk.work();
    assert_eq!(desk.load().unwrap().feed.unwrap().undelivered, []);
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_refuses_is_reported_and_no_snapshot_is_ahead_of_the_feed() {
    let mut desk = Desk::new();
    desk.status("@1 a running");
    desk.append(vec![notice(1, &[])]);
    desk.save("@1 a running", None);
    let full = Path::new("/dev/full");
    let file = fs::OpenOptions::new().append(true).open(full).unwrap();
    let (published, report) = desk.work_with(Journal::of(file, full, 0));
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
    let journal = Journal::open(&desk.feed, length(&desk.feed)).unwrap();
    let store = Store::start(desk.beginning(journal)).unwrap();
    let after = |seq| ReaderStart::After(After { epoch: None, seq });
    let subscription = store
        .live()
        .subscribe(&after(100), Filter::default())
        .unwrap();
    // What was before may as well be damaged: nothing of it is looked at.
    let text = fs::read(&desk.feed).unwrap();
    fs::write(&desk.feed, vec![b'x'; text.len()]).unwrap();
    let mut stream = Vec::new();
    drop(store);
    serve(subscription, &mut stream).await.unwrap();
    let kinds: Vec<String> = String::from_utf8(stream)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["kind"].to_string())
        .collect();
    assert_eq!(kinds, ["\"hello\"", "\"sync\""]);
}

#[tokio::test]
async fn a_stream_goes_on_while_records_are_appended_and_ends_with_the_store() {
    let desk = Desk::new();
    let journal = Journal::open(&desk.feed, 0).unwrap();
    let mut store = Store::start(desk.beginning(journal)).unwrap();
    let live = Arc::clone(store.live());
    let subscription = live
        .subscribe(&ReaderStart::Now, Filter::default())
        .unwrap();
    assert_eq!(live.readers().n(), 1);
    store.append(vec![notice(1, &[])], &context());
    while store.report().written < 1 {
        store.changed().await.unwrap();
    }
    store.append(vec![notice(2, &[])], &context());
    store.close().await;
    assert_eq!(store.report().written, 2);
    drop(store);
    let mut stream = Vec::new();
    serve(subscription, &mut stream).await.unwrap();
    let stream = String::from_utf8(stream).unwrap();
    let n_records = stream.matches("\"kind\":\"notice\"").count();
    assert_eq!(n_records, 2, "{stream}");
    assert_eq!(live.readers().n(), 0);
    let refused = live.subscribe(&ReaderStart::Now, Filter::default());
    assert_eq!(refused.unwrap_err().message, "the daemon is leaving");
}

fn kept_run(folder: &Path, run: u32, n_bytes: usize) -> KeptRun {
    KeptRun {
        folder: folder.to_owned(),
        life: "a".to_owned(),
        about: RunInfo {
            window_id: "@1".to_owned(),
            window_name: "api".to_owned(),
            run,
            current_command: None,
            task_cwd: None,
            started_at: None,
            ended_at: None,
            exit_code: Some(0),
            exit_signal: None,
        },
        lines: vec!["x".repeat(n_bytes)],
        limits: Limits {
            lines: 10,
            runs: 10,
            bytes: 1 << 30,
        },
    }
}

#[tokio::test]
async fn the_output_of_a_run_is_stored_or_the_caller_gets_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let archiver = Archiver::start().unwrap();
    archiver
        .keep(kept_run(dir.path(), 1, 5))
        .await
        .unwrap()
        .unwrap();
    let kept = archive::find(dir.path(), "api", 1).unwrap().unwrap();
    assert_eq!(kept.lines, ["xxxxx"]);
    // Nobody waits for it, and it is written before the archiver is closed.
    drop(archiver.keep(kept_run(dir.path(), 2, 5)));
    archiver.close().await;
    assert!(archive::find(dir.path(), "api", 2).unwrap().is_some());
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
    archiver
        .keep(kept_run(dir.path(), 5, 5))
        .await
        .unwrap()
        .unwrap();
}

/// A full pipe plays a disk that hangs.
#[cfg(target_os = "linux")]
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
    let mut store = Store::start(desk.beginning(Journal::of(open(), &pipe, 0))).unwrap();
    let look = || SavedLook {
        snapshot: Snapshot::default(),
        bookmark: Bookmark::default(),
        first_undelivered: None,
    };
    store.append(vec![notice(1, &[])], &context());
    // Some are out of the queue before the thread begins to write.
    assert!((0..100_000).any(|_| !store.save(look())));
    assert_eq!(store.report().tried, 0);
    // A reader is served meanwhile.
    let now = ReaderStart::Now;
    assert!(store.live().subscribe(&now, Filter::default()).is_ok());
    other_end.read_exact(&mut vec![0; capacity]).unwrap();
    // A pipe cannot be synced, which is refused.
    store.close().await;
    assert_eq!((store.report().tried, store.report().written), (1, 0));
    assert!(store.save(look()));
}

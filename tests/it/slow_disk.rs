//! While a sync hangs, requests are answered; readers, notices and waits for events are delayed.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{Output, World, deliveries, event, has_ended, has_fields, story};

/// A disk whose syncs hang for as long as the test wants.
pub(crate) struct Disk {
    /// The library that a daemon preloads.
    preloaded: PathBuf,
    /// While this file is there, syncs hang until something is written into the gate.
    hold: PathBuf,
    /// Made by a sync that hangs.
    pub(crate) hangs: PathBuf,
}

impl Disk {
    pub(crate) fn new(world: &World) -> Self {
        let (hold, hangs) = (world.path("hold"), world.path("hangs"));
        let source = SOURCE
            .replace("HOLD", &format!("{hold:?}"))
            .replace("HANGS", &format!("{hangs:?}"))
            .replace("GATE", &format!("{:?}", world.path("gate-of-disk")));
        Self {
            preloaded: world.c_library("disk", &source),
            hold,
            hangs,
        }
    }

    /// Starts the world's daemon on this disk.
    #[track_caller]
    pub(crate) fn start_daemon(&self, world: &World) {
        let mut daemon = world.command(World::program());
        daemon
            .args(["daemon", "--detach"])
            .env("LD_PRELOAD", &self.preloaded);
        Output::of(daemon).ok();
    }

    pub(crate) fn hold(&self) {
        fs::write(&self.hold, "").unwrap();
    }
}

/// The C library's `fdatasync` and `fsync`, held up.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

static int sync_held(const char *name, int file) {
    int (*next)(int) = dlsym(RTLD_NEXT, name);
    if (access(HOLD, F_OK) == 0) {
        char byte;
        close(open(HANGS, O_CREAT | O_WRONLY, 0600));
        int gate = open(GATE, O_RDONLY);
        if (read(gate, &byte, 1) != 1)
            _exit(99);
        close(gate);
    }
    return next(file);
}

int fdatasync(int file) { return sync_held("fdatasync", file); }
int fsync(int file) { return sync_held("fsync", file); }
"#;

#[test]
fn while_a_sync_hangs_requests_are_answered_and_no_event_is_shown() {
    let world = World::new();
    let disk = Disk::new(&world);
    let release = world.gate("gate-of-disk");
    disk.start_daemon(&world);
    let ends = world.gate("ends");
    let window = world.run("api", &format!("{ends}; exit 5"));
    let before = world.until_deliveries(1);
    let reader = world.start(["feed", "--follow"]);
    reader.records_until(|record| record["kind"] == "sync");
    let mut wait = world.start(["wait", "api", "--json"]);
    world.until_waits(1);

    disk.hold();
    ends.open();
    world.until_true("a sync hangs", || disk.hangs.exists());
    // These are answered, and show what is.
    let task = |look: &Value| look["tasks"][0].clone();
    assert_eq!(task(&world.look())["dead"], true);
    assert_eq!(task(&world.look())["windowId"], window.as_str());
    let status = world.daemon_status();
    assert_eq!(status["dead"], 1);
    // The wait is over and has not been answered, for its event is not on the disk; nothing of it is
    // delivered either.
    has_fields(&status, "waits readers", json!([1, 1]));
    assert_eq!(status["lastSeq"], before.len());
    // A reader that comes now gets what is on the disk.
    let late = world.start(["feed", "--follow", "--after", "0"]);
    let read = late.records_until(|record| record["kind"] == "sync");
    assert_eq!(read[0]["lastSeq"], before.len());
    let records: Vec<Value> = read
        .into_iter()
        .filter(|record| record["seq"].is_u64())
        .collect();
    assert_eq!(records, before);

    fs::remove_file(&disk.hold).unwrap();
    release.open();
    assert_eq!(wait.record()["outcome"], "exited");
    assert_eq!(wait.wait(), 1);
    // The first that the reader has had since is the event, and its delivery knows of the wait.
    let read = reader.records_until(|record| record["kind"] == "notice");
    assert_eq!(read[0], *event(&read, "exited", "api"));
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 5)]);
    let last = deliveries(&records).last().map(|last| last["kind"].clone());
    assert_eq!(last, Some("notice".into()), "{:?}", story(&records));
}

/// Whether it is stopped or killed.
#[test]
fn a_daemon_leaves_while_a_sync_hangs_and_the_next_one_finds_what_is_missing() {
    let stop: fn(&World) = |world| {
        world.task(["daemon", "stop"]).ok();
    };
    for leave in [stop, World::kill_daemon] {
        let world = World::new();
        let disk = Disk::new(&world);
        let _release = world.gate("gate-of-disk");
        disk.start_daemon(&world);
        let ends = world.gate("ends");
        world.run("api", &format!("{ends}; exit 5"));
        world.until_deliveries(1);
        let pid = world.daemon_pid();
        disk.hold();
        ends.open();
        world.until_true("a sync hangs", || disk.hangs.exists());
        leave(&world);
        world.until_true("it has left", || has_ended(pid));
        world.daemon();
        world.until_delivered("exited", "api");
        let records = world.finish();
        assert_eq!(codes(&records, "api"), [(1, 5)]);
    }
}

//! Faults around the daemon: damaged files, disks that cannot be written, clocks that jump. Each
//! test checks what a user sees, and the feed afterwards.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::consumers::{acknowledge, consume, until_live};
use crate::crashes::daemon_with_lock;
use crate::renames::n_daemons;
use crate::runs::codes;
use crate::support::{
    Output, World, all_told, events, events_of, has, has_ended, parse_lines, repeated, set_mode,
    story, texts,
};

/// Checks that a damaged file was kept, and that the log says so and what follows from it.
#[track_caller]
fn check_kept(world: &World, aside: &Path, bytes: &[u8], words: &[&str]) {
    assert_eq!(fs::read(aside).unwrap(), bytes);
    let name = aside.file_name().unwrap().to_str().unwrap();
    let log = world.until_logged(name);
    let is_of_it = |line: &&str| line.contains("ERROR") && line.contains(name);
    let line = log.lines().find(is_of_it).unwrap();
    words.iter().for_each(|word| has(line, word));
}

/// What a file may look like after a crash, a bad disk, or a later version of the program.
const DAMAGED: [(&str, &[u8]); 4] = [
    ("empty", b""),
    ("cut", b"{\"v\":1,\"epoch\":\"x"),
    ("garbled", b"\0\xff\0 no JSON\n\0\n"),
    ("later", b"{\"v\":2,\"epoch\":{}}\n"),
];

/// Damages the saved snapshot of a daemon that was killed. The next one still reports the changes
/// since then, and nothing twice.
#[track_caller]
fn check_damaged_snapshot(world: &World, name: &str, damage: impl Fn(&Path)) {
    let (ends, goes) = (format!("ends-{name}"), format!("goes-{name}"));
    let gate = world.gate(&ends);
    let ending = world.run(&ends, &format!("{gate}; exit 4"));
    let going = world.run(&goes, "exec sleep 1000");
    let started = format!("started {goes}");
    let before = world.until("all of it", |records| {
        story(records).contains(&started) && codes(records, "over").len() == 1 && all_told(records)
    });
    world.look();
    world.kill_daemon();
    gate.open();
    world.until_ended(&ending);
    world.tmux(["kill-window", "-t", &going]);
    damage(&world.state("work").join("session.json"));
    world.daemon();
    world.until("what happened meanwhile", |records| {
        records.len() >= before.len() + 3 && all_told(records)
    });
    world.look();
    let records = world.records();
    assert_eq!(records[..before.len()], before, "{name}");
    let meanwhile = story(&records[before.len()..]);
    assert_eq!(
        meanwhile[..2],
        [format!("exited {ends} 4"), format!("disappeared {goes} -")],
        "{meanwhile:?}"
    );
    assert_eq!(meanwhile.len(), 3, "{meanwhile:?}");
}

#[test]
fn without_its_snapshot_or_with_a_damaged_one_a_daemon_continues_from_the_feed() {
    let world = World::new();
    world.run("on", "exec sleep 1000");
    world.run("over", "exit 1");
    check_damaged_snapshot(&world, "none", |saved| fs::remove_file(saved).unwrap());
    for (n, (name, bytes)) in (1..).zip(DAMAGED) {
        check_damaged_snapshot(&world, name, |saved| fs::write(saved, bytes).unwrap());
        // It is kept aside.
        let aside = world
            .state("work")
            .join(format!("session.json.damaged-{n}"));
        check_kept(&world, &aside, bytes, &["continuing from the feed alone"]);
    }
    world.finish();
}

#[test]
fn a_feed_that_cannot_be_read_is_kept_aside_and_a_new_one_begins() {
    for bytes in [&b"\0\xff no record\nand another\n"[..], b"no line end"] {
        let world = World::new();
        let ends = world.gate("ends");
        world.run("ends", &format!("{ends}; exit 4"));
        let before = world.until_deliveries(1);
        let mut harness = consume(&world, "pi", &[]);
        assert_eq!(until_live(&harness), [1, 2]);
        acknowledge(&mut harness, 2);
        world.finish();
        drop(harness);
        let feed = world.state("work").join("feed.jsonl");
        fs::write(&feed, bytes).unwrap();
        ends.open();
        world.daemon();
        let aside = world.state("work").join("feed.jsonl.other-1");
        assert_eq!(fs::read(&aside).unwrap(), bytes);
        world.until_logged("put aside what is not of this feed");
        // The changes since then are in the new feed, which has its own epoch and numbers.
        let records = world.until("the end", |records| {
            codes(records, "ends") == [(1, 4)] && all_told(records)
        });
        assert_eq!(story(&records)[0], "exited ends 4");
        assert_ne!(records[0]["epoch"], before[0]["epoch"]);
        // A position in the old feed means nothing in the new one.
        let harness = consume(&world, "pi", &[]);
        assert_eq!(until_live(&harness), [1, 2]);
        let old = format!("{}:1", before[0]["epoch"].as_str().unwrap());
        let refused = world.task(["feed", "--after", &old]);
        refused.fails_so(1, "").says("no epoch");
        world.finish();
    }
}

#[test]
fn a_consumer_whose_file_is_damaged_starts_again_and_its_file_is_kept() {
    let world = World::new();
    world.run("api", "exit 3");
    world.until("its end", |records| {
        codes(records, "api").len() == 1 && all_told(records)
    });
    let mut all = Vec::new();
    for (name, _) in DAMAGED {
        let mut harness = consume(&world, name, &[]);
        all = until_live(&harness);
        acknowledge(&mut harness, *all.last().unwrap());
    }
    world.finish();
    let consumers = world.state("work").join("consumers");
    for (name, bytes) in DAMAGED {
        fs::write(consumers.join(name), bytes).unwrap();
    }
    world.daemon();
    for (name, bytes) in DAMAGED {
        assert_eq!(until_live(&consume(&world, name, &[])), all, "{name}");
        let aside = consumers.join(format!(".{name}.damaged-1"));
        let consumer = format!("consumer `{name}`");
        let words = [&consumer, "starts again at the first record"];
        check_kept(&world, &aside, bytes, &words);
    }
    let status = world.daemon_status();
    assert_eq!(status["problems"], Value::Null, "{status}");
}

/// A command without the rights of root, for which no folder is read-only.
fn unprivileged(world: &World, args: &[&str]) -> Output {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root {
        let mut command = world.command("setpriv");
        for set in ["--bounding-set", "--inh-caps"] {
            command.args([set, "-dac_override,-dac_read_search"]);
        }
        command.arg(World::program());
        command
    } else {
        world.command(World::program())
    };
    command.args(args);
    Output::of(command)
}

#[test]
fn a_folder_that_cannot_be_written_is_named_and_no_task_is_started() {
    let world = World::new();
    set_mode(world.path("state"), 0o500);
    let refused = unprivileged(&world, &["run", "api", "--", "exit 3"]);
    let why = "tmux-task: run: the daemon did not start: could not use the folder /";
    refused.fails_so(1, why).says("Permission denied");
    assert_eq!(world.task(["ls"]).code, 3);
    set_mode(world.path("state"), 0o700);
    world.run("api", "exit 3");
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    world.finish();
}

#[test]
fn a_feed_that_cannot_be_written_is_named_and_still_read() {
    let world = World::new();
    let ends = world.gate("ends");
    world.run("api", &format!("{ends}; exit 3"));
    world.until_deliveries(1);
    let before = world.finish();
    let feed = world.state("work").join("feed.jsonl");
    set_mode(&feed, 0o400);
    ends.open();
    let refused = unprivileged(&world, &["daemon", "--detach"]);
    let why = "tmux-task: daemon: the daemon did not start: could not open the feed /";
    refused.fails_so(1, why);
    let read = unprivileged(&world, &["feed"]);
    assert_eq!(parse_lines(read.ok()), before);
    set_mode(&feed, 0o600);
    world.daemon();
    world.until("its end", |records| codes(records, "api") == [(1, 3)]);
    let records = world.finish();
    assert_eq!(records[..before.len()], before);
}

/// A clock that shows another time to every program that is started from here on.
struct Clock {
    offset: PathBuf,
}

impl Clock {
    fn new(world: &mut World) -> Self {
        let offset = world.path("clock");
        fs::write(&offset, "0").unwrap();
        let library = world.c_library("clock", &CLOCK.replace("OFFSET", &format!("{offset:?}")));
        world.set("LD_PRELOAD", library.to_str().unwrap());
        Self { offset }
    }

    /// Sets the clock so many seconds before or after the right time.
    fn set(&self, seconds: i64) {
        let fresh = self.offset.with_extension("fresh");
        fs::write(&fresh, seconds.to_string()).unwrap();
        fs::rename(&fresh, &self.offset).unwrap();
    }
}

/// The C library's clocks of the day, put forward or back.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t offset(void) {
    char text[32] = "";
    int file = open(OFFSET, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    return n > 0 ? atoll(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int (*next)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = next(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += offset();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    int (*next)(struct timeval *, void *) = dlsym(RTLD_NEXT, "gettimeofday");
    int result = next(now, zone);
    if (result == 0)
        now->tv_sec += offset();
    return result;
}

time_t time(time_t *now) {
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (now)
        *now = read.tv_sec;
    return read.tv_sec;
}
"#;

const DAY: i64 = 86_400;

#[test]
fn a_clock_that_jumps_loses_and_doubles_nothing() {
    let mut world = World::new();
    let clock = Clock::new(&mut world);
    world.run("on", "exec sleep 1000");
    let gates: Vec<_> = (0..4).map(|n| world.gate(&format!("gate{n}"))).collect();
    for (n, gate) in gates.iter().enumerate() {
        world.run(&format!("task{n}"), &format!("{gate}; exit {n}"));
    }
    world.until("their starts", |records| {
        events(records).len() == 5 && all_told(records)
    });
    // Forward, and back beyond where it was, with the daemon and without one.
    for (n, offset) in [DAY, -DAY, 2 * DAY, -2 * DAY].into_iter().enumerate() {
        let is_away = n >= 2;
        if is_away {
            world.look();
            world.kill_daemon();
        }
        clock.set(offset);
        gates[n].open();
        if is_away {
            world.daemon();
        }
        let (ended, asks) = (format!("task{n}"), format!("asks{n}"));
        world.until("its end", |records| codes(records, &ended).len() == 1);
        // New tasks and prompts are reported as before, and time limits are kept.
        world.run(&asks, "printf 'Proceed? [y/N] '; read -r _; exit 7");
        world.until_event("input", &asks);
        let late = world.task(["wait", "on", "--text", "never", "--timeout", "50ms"]);
        late.fails_with(4);
        world.task(["send", &asks, "y"]).ok();
        world.until("its end", |records| {
            codes(records, &asks) == [(1, 7)] && all_told(records)
        });
    }
    world.look();
    let records = world.finish();
    let told = |event_type: &str| events_of(&records, event_type).len();
    assert_eq!(told("started"), 9);
    assert_eq!(told("exited"), 8);
    assert_eq!((told("input"), told("inputResolved")), (4, 4));
    assert_eq!(told("disappeared"), 0);
    let days = texts(&records, "time").into_iter().map(|time| &time[..10]);
    let days: BTreeSet<&str> = days.collect();
    assert!(days.len() >= 5, "the clock has not jumped: {days:?}");
    for event in events(&records) {
        let task = &event["task"];
        let (began, ended) = (task["startedAt"].as_i64(), task["endedAt"].as_i64());
        assert!(ended.is_none_or(|ended| Some(ended) >= began), "{task}");
        assert!(
            task["durationMs"].as_i64().is_none_or(|took| took >= 0),
            "{task}"
        );
    }
}

#[test]
fn of_two_daemons_that_start_in_the_same_instant_one_remains() {
    let world = World::new();
    world.run("on", "exec sleep 1000");
    let before = world.until_deliveries(1);
    world.look();
    for _ in 0..repeated(50) {
        let pid = daemon_with_lock(&world).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
        world.until_true("the daemon is gone", || has_ended(pid));
        let both = [(); 2].map(|()| world.start(["daemon", "--detach"]));
        let codes = both.map(|mut one| one.wait());
        assert_eq!(codes, [0, 0]);
        assert_eq!(n_daemons(&world), 1);
    }
    world.look();
    assert_eq!(world.finish(), before);
}

//! Retention of the feed: the oldest records are removed according to the configuration, and a
//! reader that asks for them gets one `gap`.

use std::fs;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::Value;

use crate::consumers::{acknowledge, consume};
use crate::support::{Running, World, all_told, argv, parse_lines};

/// A world whose feeds are small, and a daemon.
fn small_world(more: &str) -> World {
    let world = World::new();
    world.configure(&format!("[feed]\nkeep-size = \"16KiB\"\n{more}"));
    world.daemon();
    world
}

/// Runs a task until its end is delivered: nothing is recorded behind the test's back.
#[track_caller]
fn run_job(world: &World, line: &str) {
    world.run("job", line);
    world.until_true("it ends", || world.listed("job")["state"] == "exited");
    world.until("its message", all_told);
}

/// Runs tasks until this holds of the daemon's status.
#[track_caller]
fn run_until(world: &World, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    for n in 0..60 {
        let status = world.daemon_status();
        if holds(&status) {
            return status;
        }
        run_job(world, &format!("echo {n}{}; exit 3", "x".repeat(900)));
    }
    panic!("never came: {what}: {}", world.daemon_status());
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn has_lost(status: &Value) -> bool {
    number(&status["firstSeq"]) > 1
}

/// The numbers of records.
fn seqs(records: &[Value]) -> Vec<u64> {
    records
        .iter()
        .map(|record| number(&record["seq"]))
        .collect()
}

/// The numbers of a stream until it is live, gaps as pairs.
#[track_caller]
fn until_live(reader: &Running) -> Vec<(u64, u64)> {
    let lines = reader.records_until(|line| line["kind"] == "sync");
    let numbers = lines.iter().filter_map(|line| match line["kind"].as_str() {
        Some("gap") => Some((number(&line["from"]), number(&line["to"]))),
        _ => line.get("seq").map(|seq| (number(seq), number(seq))),
    });
    numbers.collect()
}

fn each(from: u64, to: u64) -> Vec<(u64, u64)> {
    (from..=to).map(|seq| (seq, seq)).collect()
}

/// The files of the feed, in the order of their names, which is that of their records: the last one is
/// where records are appended.
fn files(world: &World) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.state("work")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("feed") && name.ends_with(".jsonl")
    });
    files.sort();
    files
}

/// The records of all of them.
fn all_files(world: &World) -> Vec<Value> {
    let text = files(world)
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap());
    parse_lines(&text.collect::<String>())
}

/// A consumer that is killed when it has read so far and acknowledged this.
fn kill_at(world: &World, seq: u64, acknowledged: u64) {
    let mut harness = consume(world, "pi", &[]);
    world.run("first", "exit 3");
    harness.records_until(|line| line["seq"] == seq);
    acknowledge(&mut harness, acknowledged);
    harness.signal(Signal::KILL);
    harness.wait();
}

#[test]
fn a_feed_that_is_too_large_loses_its_oldest_records_and_readers_get_one_gap() {
    let world = small_world("");
    run_until(&world, "records are removed", has_lost);
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    let status = world.daemon_status();
    let (first, last) = (number(&status["firstSeq"]), number(&status["lastSeq"]));
    let whole = [vec![(1, first - 1)], each(first, last)].concat();
    assert!(number(&status["feedFiles"]) > 1, "{status}");
    assert!(number(&status["feedBytes"]) < 32 << 10, "{status}");
    let text = world.task(["daemon", "status"]);
    let kept = format!("\nkept     records {first} to {last}, ");
    text.prints(&kept);

    // All files are the whole feed, and `feed` prints it.
    let records = all_files(&world);
    assert_eq!(seqs(&records), (first..=last).collect::<Vec<_>>());
    let (n, from) = (records.len(), first.to_string());
    let last_end = records.iter().rfind(|record| record["type"] == "exited");
    let end = std::slice::from_ref(last_end.unwrap());
    let gone = format!("tmux-task: feed: records 1 to {} are gone\n", first - 1);
    for (args, expected, said) in [
        ("", &records[..], ""),
        // A reader that asks for removed records gets a message.
        ("--after 0", &records, &*gone),
        (&format!("--after {from}"), &records[1..], ""),
        // Who asks for the last ones does not ask for what is gone.
        ("-n 2", &records[n - 2..], ""),
        ("-n 0", &[], ""),
        ("-n 100000", &records, ""),
        ("--since 1h", &records, ""),
        ("--since 1h -n 1", &records[n - 1..], ""),
        ("--type exited -n 1", end, ""),
    ] {
        let printed = world.call(&format!("feed {args}"));
        assert_eq!(parse_lines(printed.ok()), expected, "{args}");
        assert_eq!(printed.err, said, "{args}");
    }

    for (args, expected) in [
        ("--after 0", &whole),
        (&format!("--after {from}"), &each(first + 1, last)),
        // The last ones, and then what is new.
        ("-n 2", &each(last - 1, last)),
        ("--since 1h", &each(first, last)),
    ] {
        let reader = world.start(argv(&format!("feed --follow {args}")));
        assert_eq!(until_live(&reader), *expected, "{args}");
    }
    // A new consumer begins with the first record that ever was.
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), whole);
    acknowledge(&mut harness, first - 1);
    harness.signal(Signal::KILL);
    harness.wait();
    let harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), each(first, last));
}

#[test]
fn a_consumer_that_was_there_lately_keeps_what_it_has_not_acknowledged() {
    let world = small_world("");
    kill_at(&world, 2, 2);
    let bytes = |status: &Value| number(&status["feedBytes"]);
    run_until(&world, "a large feed", |status| bytes(status) > 24 << 10);
    let status = world.daemon_status();
    assert_eq!(status["firstSeq"], 1);
    let held = number(&status["consumers"][0]["heldBytes"]);
    assert!(held > 0 && held < bytes(&status), "{status}");
    world
        .task(["daemon", "status"])
        .prints(" KiB from being removed\n");
    world.task(["consumer", "ls"]).prints(" KiB ");
    world.task(["daemon", "stop"]).ok();
    let list = world.task(["consumer", "ls", "--json"]).json();
    assert_eq!(list["consumers"][0]["heldBytes"], held);
    assert_eq!(list["firstSeq"], 1);
    // The harness restarts, and nothing is missing.
    world.daemon();
    let last = number(&world.daemon_status()["lastSeq"]);
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), each(3, last));
    acknowledge(&mut harness, last);
    run_until(&world, "records are removed", has_lost);
}

#[test]
fn a_consumer_that_was_forgotten_keeps_nothing() {
    let world = small_world("keep-for-consumers = \"0s\"\n");
    kill_at(&world, 2, 1);
    let status = run_until(&world, "records are removed", has_lost);
    assert_eq!(status["consumers"][0]["heldBytes"], 0);
    let first = number(&status["firstSeq"]);
    let harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness)[..2], [(2, first - 1), (first, first)]);
}

#[test]
fn old_records_go_as_well() {
    let world = small_world("keep-age = \"60s\"\n");
    world.run("first", "exit 3");
    world.until_deliveries(1);
    let records = world.finish();
    // As if all of it had been recorded long ago.
    let path = world.state("work").join("feed.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let time = records[0]["time"].as_str().unwrap();
    let old = text.replace(time, "2020-01-01T00:00:00.000Z");
    assert_ne!(old, text);
    fs::write(&path, &old).unwrap();
    let lately = parse_lines(world.call("feed --since 1h").ok());
    assert!(lately.len() < records.len(), "the first is old");
    world.daemon();
    world.run("second", "exit 3");
    world.until("the next ones", |now| now.len() > records.len());
    let closed = path.with_file_name("feed-0000000000000001.jsonl");
    world.until_true("a segment is closed", || closed.exists());
    assert_eq!(fs::read_to_string(closed).unwrap(), old);
}

#[test]
fn nothing_expires_because_the_clock_of_the_machine_was_set() {
    let world = small_world("keep-age = \"60s\"\n");
    let harness = consume(&world, "pi", &[]);
    until_live(&harness);
    harness.signal(Signal::KILL);
    let state = world.state("work");
    for n in 1..=3 {
        run_job(&world, &format!("exit {n}"));
        world.finish();
        // As if it was years ago: the clock has been set ahead since.
        for path in files(&world) {
            let text = fs::read_to_string(&path).unwrap();
            let old = text.replace("\"time\":\"20", "\"time\":\"19");
            fs::write(&path, &old).unwrap();
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH).unwrap();
        }
        let consumer = state.join("consumers/pi");
        let mut saved: Value = serde_json::from_slice(&fs::read(&consumer).unwrap()).unwrap();
        saved["usedAt"] = 0.into();
        fs::write(&consumer, saved.to_string()).unwrap();
        world.daemon();
    }
    world.run("last", "exit 3");
    world.until_true("the segments are closed", || {
        files(&world).len() == 4 && state.join("feed.jsonl").exists()
    });
    let harness = consume(&world, "pi", &[]);
    let read = until_live(&harness);
    assert!(read.iter().all(|(from, to)| from == to), "{read:?}");
    assert_eq!(read[0], (1, 1));
}

//! Retention of the feed: the oldest records are removed according to the configuration, and a
//! reader that asks for them gets one `gap`.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::consumers::{acknowledge, consume};
use crate::support::{Running, World, all_told, check_feed, event, parse_lines};

/// A world whose feeds are small, and a daemon.
fn small_world(more: &str) -> World {
    let world = World::new();
    let folder = world.path("conf/tmux-task");
    fs::create_dir(&folder).unwrap();
    let text = format!("[feed]\nkeep-size = \"16KiB\"\n{more}");
    fs::write(folder.join("config.toml"), text).unwrap();
    world.daemon();
    world
}

/// Runs tasks until this holds of the daemon's status.
#[track_caller]
fn run_until(world: &World, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    for n in 0..60 {
        let status = world.daemon_status();
        if holds(&status) {
            return status;
        }
        world.run("job", &format!("echo {n}{}; exit 3", "x".repeat(900)));
        // Nothing is recorded behind the test's back.
        world.until_true("it ends", || state_of(world, "job") == "exited");
        world.until("its message", all_told);
    }
    panic!("never came: {what}: {}", world.daemon_status());
}

/// The state of a task, as `ls` shows it.
#[track_caller]
fn state_of(world: &World, name: &str) -> String {
    let shown = world.look();
    let tasks = shown["tasks"].as_array().unwrap();
    let named = tasks.iter().filter(|task| task["windowName"] == name);
    let [task] = named.collect::<Vec<_>>()[..] else {
        panic!("not one task {name}: {shown}");
    };
    task["state"].as_str().unwrap().to_owned()
}

fn has_lost(status: &Value) -> bool {
    status["firstSeq"].as_u64() > Some(1)
}

/// The numbers of a stream until it is live, gaps as pairs.
#[track_caller]
fn until_live(reader: &Running) -> Vec<(u64, u64)> {
    let number = |value: &Value| value.as_u64().unwrap();
    let lines = reader.records_until(|line| line["kind"] == "sync");
    lines
        .iter()
        .filter_map(|line| match line["kind"].as_str() {
            Some("gap") => Some((number(&line["from"]), number(&line["to"]))),
            _ => line.get("seq").map(|seq| (number(seq), number(seq))),
        })
        .collect()
}

fn each(from: u64, to: u64) -> Vec<(u64, u64)> {
    (from..=to).map(|seq| (seq, seq)).collect()
}

/// All files of the feed, in the order of their names.
fn all_files(world: &World) -> Vec<Value> {
    let mut files: Vec<_> = fs::read_dir(world.state("work"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("feed") && name.ends_with(".jsonl")
        })
        .collect();
    files.sort();
    let text: String = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    parse_lines(&text)
}

#[test]
fn a_feed_that_is_too_large_loses_its_oldest_records_and_readers_get_one_gap() {
    let world = small_world("");
    run_until(&world, "records are removed", has_lost);
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    let status = world.daemon_status();
    let (first, last) = (
        status["firstSeq"].as_u64().unwrap(),
        status["lastSeq"].as_u64().unwrap(),
    );
    let whole = [vec![(1, first - 1)], each(first, last)].concat();
    assert!(status["feedFiles"].as_u64() > Some(1), "{status}");
    assert!(status["feedBytes"].as_u64() < Some(32 << 10), "{status}");
    let text = world.task(["daemon", "status"]).ok().to_owned();
    let kept = format!("\nkept     records {first} to {last}, ");
    assert!(text.contains(&kept), "{text}");

    // All files are the whole feed, and `feed` prints it.
    let records = all_files(&world);
    let printed = world.task(["feed"]);
    assert_eq!(parse_lines(printed.ok()), records);
    assert_eq!(printed.err, "");
    let seqs: Vec<u64> = records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (first..=last).collect::<Vec<_>>());
    // A reader that asks for removed records gets a message.
    let printed = world.task(["feed", "--after", "0"]);
    assert_eq!(parse_lines(printed.ok()), records);
    let gone = format!("tmux-task: feed: records 1 to {} are gone\n", first - 1);
    assert_eq!(printed.err, gone);
    let from = first.to_string();
    assert_eq!(world.task(["feed", "--after", &from]).err, "");

    // Who asks for the last ones does not ask for what is gone.
    for (args, n_printed) in [
        (&["-n", "2"][..], 2),
        (&["-n", "0"], 0),
        (&["-n", "100000"], records.len()),
        (&["--since", "1h"], records.len()),
        (&["--since", "1h", "-n", "1"], 1),
    ] {
        let printed = world.task([&["feed"], args].concat());
        let expected = &records[records.len() - n_printed..];
        assert_eq!(parse_lines(printed.ok()), expected, "{args:?}");
        assert_eq!(printed.err, "", "{args:?}");
    }
    let ends = |record: &&Value| record["type"] == "exited";
    let printed = world.task(["feed", "--type", "exited", "-n", "1"]);
    let last_end = records.iter().rfind(ends).unwrap();
    assert_eq!(
        &parse_lines(printed.ok())[..],
        std::slice::from_ref(last_end)
    );

    let reader = world.start(["feed", "--follow", "--after", "0"]);
    assert_eq!(until_live(&reader), whole);
    let reader = world.start(["feed", "--follow", "--after", &from]);
    assert_eq!(until_live(&reader), each(first + 1, last));
    // The last ones, and then what is new.
    let reader = world.start(["feed", "--follow", "-n", "2"]);
    assert_eq!(until_live(&reader), each(last - 1, last));
    let reader = world.start(["feed", "--follow", "--since", "1h"]);
    assert_eq!(until_live(&reader), each(first, last));
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
    let mut harness = consume(&world, "pi", &[]);
    world.run("first", "exit 3");
    harness.records_until(|line| line["seq"] == 2);
    acknowledge(&mut harness, 2);
    harness.signal(Signal::KILL);
    harness.wait();
    let bytes = |status: &Value| status["feedBytes"].as_u64().unwrap();
    run_until(&world, "a large feed", |status| bytes(status) > 24 << 10);
    let status = world.daemon_status();
    assert_eq!(status["firstSeq"], 1);
    let held = status["consumers"][0]["heldBytes"].as_u64().unwrap();
    assert!(held > 0 && held < bytes(&status), "{status}");
    let text = world.task(["daemon", "status"]).ok().to_owned();
    assert!(text.contains(" KiB from being removed\n"), "{text}");
    let table = world.task(["consumer", "ls"]).ok().to_owned();
    assert!(table.contains(" KiB "), "{table}");
    world.task(["daemon", "stop"]).ok();
    let list: Value = serde_json::from_str(world.task(["consumer", "ls", "--json"]).ok()).unwrap();
    assert_eq!(list["consumers"][0]["heldBytes"], held);
    assert_eq!(list["firstSeq"], 1);
    // The harness restarts, and nothing is missing.
    world.daemon();
    let last = world.daemon_status()["lastSeq"].as_u64().unwrap();
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), each(3, last));
    acknowledge(&mut harness, last);
    run_until(&world, "records are removed", has_lost);
}

#[test]
fn a_consumer_that_was_forgotten_keeps_nothing() {
    let world = small_world("keep-for-consumers = \"0s\"\n");
    let mut harness = consume(&world, "pi", &[]);
    world.run("first", "exit 3");
    harness.records_until(|line| line["seq"] == 2);
    acknowledge(&mut harness, 1);
    harness.signal(Signal::KILL);
    harness.wait();
    let status = run_until(&world, "records are removed", has_lost);
    assert_eq!(status["consumers"][0]["heldBytes"], 0);
    let first = status["firstSeq"].as_u64().unwrap();
    let harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness)[..2], [(2, first - 1), (first, first)]);
}

#[test]
fn a_daemon_that_is_killed_goes_on_in_the_files_that_are_there() {
    let world = small_world("keep-for-consumers = \"3650d\"\n");
    // A reader that keeps everything, so that all of it can be checked.
    let reader = consume(&world, "all", &[]);
    for n_files in 2..=4 {
        run_until(&world, "another file", |status| {
            status["feedFiles"].as_u64() >= Some(n_files)
        });
        world.kill_daemon();
        world.daemon();
    }
    drop(reader);
    let records = world.finish();
    check_feed(&records);
    assert_eq!(records, all_files(&world));
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
    let old = text.replace(
        records[0]["time"].as_str().unwrap(),
        "2020-01-01T00:00:00.000Z",
    );
    assert_ne!(old, text);
    fs::write(&path, &old).unwrap();
    let lately = parse_lines(world.task(["feed", "--since", "1h"]).ok());
    assert!(lately.len() < records.len(), "the first is old");
    world.daemon();
    world.run("second", "exit 3");
    let n_records = records.len();
    world.until("the next ones", |records| records.len() > n_records);
    let closed = world.state("work").join("feed-0000000000000001.jsonl");
    world.until_true("a segment is closed", || closed.exists());
    assert_eq!(fs::read_to_string(closed).unwrap(), old);
}

#[test]
fn the_last_records_are_printed_without_reading_the_older_files() {
    let world = World::new();
    world.daemon();
    world.run("job", "exit 3");
    world.until_deliveries(1);
    let records = world.finish();
    let folder = world.state("work");
    let end = event(&records, "exited", "job");
    let mut other = end.clone();
    other["type"] = "started".into();
    other["task"]["outputPreview"] = "x".repeat(1000).into();
    // Several times what is read at first, in the file where records are appended.
    let first = records.len() as u64 + 1;
    let mut text = String::new();
    for seq in first..first + 400 {
        other["seq"] = seq.into();
        text.push_str(&format!("{other}\n"));
    }
    let closed = folder.join("feed-0000000000000001.jsonl");
    fs::rename(folder.join("feed.jsonl"), &closed).unwrap();
    fs::write(folder.join("feed.jsonl"), text).unwrap();
    let seqs = |args: &[&str]| -> Vec<u64> {
        let printed = world.task([&["feed"], args].concat());
        let records = parse_lines(printed.ok());
        let seqs = records.iter().map(|record| record["seq"].as_u64().unwrap());
        seqs.collect()
    };
    let last = first + 399;
    // What is far from the end is found as well.
    let found = seqs(&["-n", "1", "--type", "exited"]);
    assert_eq!(found, [end["seq"].as_u64().unwrap()]);
    assert_eq!(seqs(&["-n", "401"]), (first - 1..=last).collect::<Vec<_>>());
    // A link is not followed.
    fs::remove_file(&closed).unwrap();
    std::os::unix::fs::symlink("nowhere", &closed).unwrap();
    assert_eq!(world.task(["feed"]).code, 1);
    assert_eq!(seqs(&["-n", "3"]), [last - 2, last - 1, last]);
    assert_eq!(
        seqs(&["-n", "300"]),
        (last - 299..=last).collect::<Vec<_>>()
    );
}

#[test]
fn nothing_expires_because_the_clock_of_the_machine_was_set() {
    let world = small_world("keep-age = \"60s\"\n");
    let harness = consume(&world, "pi", &[]);
    until_live(&harness);
    harness.signal(Signal::KILL);
    let state = world.state("work");
    let feed = state.join("feed.jsonl");
    // As if it was years ago: the clock has been set ahead since.
    let make_old = |name: &str| {
        let path = state.join(name);
        let text = fs::read_to_string(&path).unwrap();
        let old = text.replace("\"time\":\"20", "\"time\":\"19");
        fs::write(&path, &old).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    for n in 1..=3 {
        world.run("job", &format!("exit {n}"));
        world.until_true("it ends", || state_of(&world, "job") == "exited");
        world.until("its message", all_told);
        world.finish();
        for segment in closed_segments(&world) {
            make_old(&segment);
        }
        make_old("feed.jsonl");
        let consumer = state.join("consumers/pi");
        let mut saved: Value = serde_json::from_slice(&fs::read(&consumer).unwrap()).unwrap();
        saved["usedAt"] = 0.into();
        fs::write(&consumer, saved.to_string()).unwrap();
        world.daemon();
    }
    world.run("last", "exit 3");
    world.until_true("the segments are closed", || {
        closed_segments(&world).len() == 3 && feed.exists()
    });
    let harness = consume(&world, "pi", &[]);
    let read = until_live(&harness);
    assert!(read.iter().all(|(from, to)| from == to), "{read:?}");
    assert_eq!(read[0], (1, 1));
}

/// The names of the closed segments, in order.
fn closed_segments(world: &World) -> Vec<String> {
    let entries = fs::read_dir(world.state("work")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("feed-")).collect();
    names.sort();
    names
}

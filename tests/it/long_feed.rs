//! A feed of 100 MiB: neither the start of a daemon nor readers that resume at its end read it, and
//! requests are answered meanwhile.

use std::fs;

use crate::support::{Running, World, lengthen, parse_lines};

const SIZE: u64 = 100 << 20;
const N_READERS: usize = 10;

/// How many bytes a daemon may read: a fifth of the feed, for whatever a process reads besides.
const MOST_READ: u64 = SIZE / 5;

/// How many bytes the daemon has read since its start, from files and sockets.
fn n_read(world: &World) -> u64 {
    let pid = world.daemon_pid().as_raw_nonzero();
    let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
    let read = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    read.unwrap().parse().unwrap()
}

#[test]
fn a_long_feed_is_read_neither_at_the_start_nor_by_readers_at_its_end() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.finish();
    let last = lengthen(&world.state("work").join("feed.jsonl"), 100_000);

    // The saved snapshot names the end of a feed that was shorter.
    world.daemon();
    assert_eq!(world.daemon_status()["lastSeq"], last);
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    let after = last.to_string();
    let readers: Vec<Running> = (0..N_READERS)
        .map(|_| world.start(["feed", "--follow", "--after", &after]))
        .collect();
    for reader in &readers {
        let read = reader.records_until(|record| record["kind"] == "sync");
        assert!(
            read.iter().all(|record| record["seq"].is_null()),
            "{read:?}"
        );
    }
    assert_eq!(world.daemon_status()["readers"], N_READERS);
    let n_read = n_read(&world);
    assert!(n_read < MOST_READ, "the daemon has read {n_read} bytes");

    // It is still a feed.
    world.task(["kill", "api"]).ok();
    for reader in &readers {
        let read = reader.records_until(|record| record["type"] == "disappeared");
        let first = read.iter().find(|record| record["seq"].is_u64());
        assert_eq!(first.unwrap()["seq"], last + 1, "{read:?}");
    }
}

#[test]
fn the_last_records_by_time_are_read_without_the_older_segments() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut records = world.finish();
    let feed = world.state("work").join("feed.jsonl");
    for record in &mut records {
        record["time"] = "2020-01-01T00:00:00.000Z".into();
    }
    let lines = records.iter().map(|record| format!("{record}\n"));
    fs::write(&feed, lines.collect::<String>()).unwrap();
    let last = lengthen(&feed, 100_000);
    // Whoever reads more than the first record of the oldest segment says that others are gone.
    let oldest = feed.with_file_name("feed-0000000000000001.jsonl");
    let text = fs::read_to_string(&oldest).unwrap();
    let first = text.lines().next().unwrap();
    fs::write(&oldest, format!("{first}\n{}", "damaged\n".repeat(100))).unwrap();
    assert!(world.task(["feed"]).err.contains("gone"));
    let new: String = (1..=3)
        .map(|n| {
            let mut record = records[0].clone();
            record["seq"] = (last + n).into();
            record["time"] = format!("2200-01-01T00:00:0{n}.000Z").into();
            format!("{record}\n")
        })
        .collect();
    fs::write(&feed, new).unwrap();
    for filter in [&["--since", "1h"][..], &["--since", "1h", "--task", "api"]] {
        let printed = world.task([&["feed"], filter].concat());
        assert_eq!(printed.err, "", "{filter:?}");
        let records = parse_lines(printed.ok());
        let seqs: Vec<_> = records.iter().map(|record| &record["seq"]).collect();
        assert_eq!(seqs, [last + 1, last + 2, last + 3], "{filter:?}");
    }
    let two = world.task(["feed", "-n", "2"]);
    assert_eq!(two.err, "");
    assert_eq!(parse_lines(two.ok())[0]["seq"], last + 2);
    // A link is not followed.
    fs::remove_file(&oldest).unwrap();
    std::os::unix::fs::symlink("nowhere", &oldest).unwrap();
    world.task(["feed"]).fails_with(1);
    world.task(["feed", "-n", "2"]).ok();
}

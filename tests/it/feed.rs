//! Reading the feed: stored records, live records and filters.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{
    Output, Running, World, all_told, check_feed, content, deliveries, events, has_ended,
    parse_lines, pid,
};

/// A world whose feed has the delivered ends of two tasks, and does not change; its epoch.
fn with_two_ends() -> (World, Vec<Value>) {
    let world = World::new();
    for (name, code) in [("api", 2), ("web", 3)] {
        let gate = world.gate(name);
        let before = world.records().len();
        world.run(name, &format!("{}; exit {code}", gate.wait()));
        world.until("its start", |records| records.len() == before + 2);
        gate.open();
        world.until("its end", |records| records.len() == before + 4);
    }
    let records = world.finish();
    assert_eq!(records.len(), 8);
    (world, records)
}

fn seqs(records: &[Value]) -> Vec<u64> {
    records
        .iter()
        .map(|record| record["seq"].as_u64().unwrap())
        .collect()
}

#[test]
fn what_is_kept_needs_no_daemon() {
    let (world, records) = with_two_ends();
    let read = |args: &[&str]| parse_lines(world.task([&["feed"], args].concat()).ok());
    assert_eq!(read(&[]), records);
    assert_eq!(seqs(&read(&["--after", "5"])), [6, 7, 8]);
    assert_eq!(seqs(&read(&["--after", "0"])), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(seqs(&read(&["--after", "8"])), [0; 0]);
    let epoch = records[0]["epoch"].as_str().unwrap();
    assert_eq!(seqs(&read(&["--after", &format!("{epoch}:6")])), [7, 8]);
}

#[test]
fn a_place_that_the_feed_does_not_have_is_refused() {
    let (world, records) = with_two_ends();
    let epoch = records[0]["epoch"].as_str().unwrap();
    let check = |args: &[&str]| {
        world.task([args, &["--after", "9"]].concat()).fails(
            1,
            &format!("tmux-task: feed: no record 9: the feed's last is {epoch}:8"),
        );
        world.task([args, &["--after", "other:1"]].concat()).fails(
            1,
            &format!("tmux-task: feed: no epoch other: the feed's is {epoch}, its last record 8"),
        );
    };
    check(&["feed"]);
    world.daemon();
    check(&["feed", "--follow"]);
}

#[test]
fn filters_choose_records() {
    let (world, records) = with_two_ends();
    let read = |args: &[&str]| seqs(&parse_lines(world.task([&["feed"], args].concat()).ok()));
    let id = |n: usize| records[n]["task"]["windowId"].as_str().unwrap().to_owned();
    assert_eq!(read(&["--kind", "event"]), [1, 3, 5, 7]);
    assert_eq!(read(&["--kind", "notice"]), [2, 6]);
    assert_eq!(read(&["--kind", "followUp"]), [4, 8]);
    assert_eq!(
        read(&["--kind", "followUp", "--kind", "notice"]),
        [2, 4, 6, 8]
    );
    assert_eq!(read(&["--type", "exited"]), [3, 7]);
    assert_eq!(
        read(&["--type", "exited", "--type", "started"]),
        [1, 3, 5, 7]
    );
    assert_eq!(read(&["--task", "web"]), [5, 6, 7, 8]);
    assert_eq!(read(&["--task", &id(0)]), [1, 2, 3, 4]);
    assert_eq!(read(&["--task", "we"]), [0; 0]);
    assert_eq!(
        read(&["--type", "exited", "--task", "web", "--after", "2"]),
        [7]
    );
    assert_eq!(
        read(&["--kind", "followUp", "--type", "exited", "--task", "api"]),
        [4]
    );
    assert_eq!(
        read(&["--kind", "notice", "--task", "web", "--after", "5"]),
        [6]
    );
}

#[test]
fn the_format_text_is_for_people() {
    let (world, records) = with_two_ends();
    let text = world.task(["feed", "--format", "text", "--after", "6"]);
    let (time, later) = (
        records[6]["time"].as_str().unwrap(),
        records[7]["time"].as_str().unwrap(),
    );
    let web = records[6]["task"]["windowId"].as_str().unwrap();
    assert_eq!(
        text.ok(),
        format!(
            "{time} #7 event exited: tmux task {web} (web) exited with code 3\n\
             {later} #8 followUp: [tmux-task notification]\n    \
             tmux task {web} (web) exited with code 3\n"
        )
    );
}

#[test]
fn without_follow_there_are_only_records_and_without_records_nothing() {
    let world = World::new();
    world.task(["feed"]).fails(
        3,
        "tmux-task: feed: no feed of session `work`\n\
         hint: a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`",
    );
    world.daemon();
    assert_eq!(world.task(["feed"]).ok(), "");
}

#[test]
fn a_stream_begins_with_hello_status_and_sync() {
    let (world, records) = with_two_ends();
    world.daemon();
    let follow = world.start(["feed", "--follow"]);
    let hello = follow.record();
    assert_eq!(
        hello,
        json!({
            "kind": "hello",
            "v": 1,
            "epoch": records[0]["epoch"],
            "lastSeq": 8,
            "version": env!("CARGO_PKG_VERSION"),
            "sessionName": "work",
        })
    );
    let status =
        json!({"kind": "status", "text": "tmux: 2 tasks", "running": 0, "waiting": 0, "dead": 2});
    assert_eq!(follow.record(), status);
    assert_eq!(follow.record(), json!({"kind": "sync"}));
    // From now: the next is new.
    world.run("api", "exec sleep 1000");
    let next = follow.records_until(|record| record["kind"] == "notice");
    let kinds: Vec<&str> = next
        .iter()
        .map(|record| record["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["event", "status", "notice"]);
    assert_eq!(next[0]["seq"], 9);
    assert_eq!(next[1]["running"], 1);
}

#[test]
fn a_stream_from_somewhere_catches_up_and_goes_on() {
    let (world, records) = with_two_ends();
    world.daemon();
    let follow = world.start(["feed", "--follow", "--after", "5"]);
    let caught_up = follow.records_until(|record| record["kind"] == "sync");
    assert_eq!(caught_up[0]["kind"], "hello");
    assert_eq!(caught_up[1]["kind"], "status");
    assert_eq!(caught_up[2..5], records[5..8]);
    assert_eq!(caught_up.len(), 6);
    world.run("api", "exit 4");
    let next = follow.records_until(|record| record["kind"] == "followUp");
    let durable: Vec<Value> = next
        .into_iter()
        .filter(|record| record["seq"].is_u64())
        .collect();
    assert_eq!(
        seqs(&durable),
        (9..9 + durable.len() as u64).collect::<Vec<_>>()
    );
}

#[test]
fn a_filtered_stream_still_has_what_is_live_only() {
    let world = World::new();
    world.daemon();
    let follow = world.start(["feed", "--follow", "--kind", "followUp", "--task", "web"]);
    follow.records_until(|record| record["kind"] == "sync");
    world.run("api", "exit 1");
    world.until("its end", |records| {
        codes(records, "api").len() == 1 && all_told(records)
    });
    world.run("web", "exit 2");
    let told = follow.records_until(|record| record["kind"] == "followUp");
    assert!(content(told.last().unwrap()).contains("(web) exited with code 2"));
    assert!(told.iter().any(|record| record["kind"] == "status"));
    assert!(
        told.iter()
            .all(|record| record["kind"] == "status" || record["kind"] == "followUp")
    );
}

#[test]
fn a_stream_ends_with_its_daemon_and_on_an_interrupt() {
    let world = World::new();
    world.daemon();
    let mut first = world.start(["feed", "--follow"]);
    first.records_until(|record| record["kind"] == "sync");
    let mut second = world.start(["feed", "--follow"]);
    second.records_until(|record| record["kind"] == "sync");
    second.signal(rustix::process::Signal::INT);
    assert_eq!(second.wait(), 130);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(first.wait(), 0);
}

#[test]
fn what_is_gathered_when_the_daemon_stops_reaches_its_readers() {
    let world = World::new();
    world.daemon();
    let follow = world.start(["feed", "--follow"]);
    follow.records_until(|record| record["kind"] == "sync");
    world.run("api", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    let told = follow.records_until(|record| record["kind"] == "notice");
    assert_eq!(told.last().unwrap()["seq"], 2);
}

#[test]
fn a_stalled_reader_delays_no_other_and_loses_nothing() {
    let world = World::new();
    world.daemon();
    world.run("first", "exec sleep 1000");
    world.until_deliveries(1);
    // A pipe that is not read.
    let mut command = world.command(World::program());
    let mut stalled = command
        .args(["feed", "--follow", "--after", "0"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let quick = world.start(["feed", "--follow"]);
    quick.records_until(|record| record["kind"] == "sync");
    world.until_true("both read", || world.daemon_status()["readers"] == 2);

    // Far more than sockets and pipes have room for, some 10 KB a window.
    let n = 110;
    let line = "seq -f '%0200.0f' 1 30; exec sleep 1000";
    let new = [
        "new-window",
        "-d",
        "-t",
        "work:",
        "-P",
        "-F",
        "#{window_id}",
        line,
        ";",
    ];
    // The length of a line to tmux is limited.
    let made: Vec<String> = (0..n / 10).map(|_| world.tmux(new.repeat(10))).collect();
    let windows: Vec<&str> = made.iter().flat_map(|ids| ids.lines()).collect();
    assert_eq!(windows.len(), n);
    for window in &windows {
        world.until_shows(window, "030");
    }
    world.look();
    let mut kill = Vec::new();
    for window in &windows {
        kill.extend(["kill-window", "-t", window, ";"]);
    }
    kill.pop();
    world.tmux(kill);
    let mut gone = 0;
    quick.records_until(|record| {
        gone += usize::from(record["type"] == "disappeared");
        gone == n
    });
    assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 1);
    let records = world.until("all of it", |records| {
        events(records).len() == 1 + 2 * n && all_told(records)
    });
    let bytes: usize = records.iter().map(|record| record.to_string().len()).sum();
    assert!(bytes > 500_000, "{bytes} bytes stall nobody");

    // Now it reads.
    let mut lines = BufReader::new(stalled.stdout.take().unwrap()).lines();
    let mut read: Vec<Value> = Vec::new();
    while read.len() < records.len() {
        let record: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        if record["seq"].is_u64() {
            read.push(record);
        }
    }
    assert_eq!(read, records);
    world.finish();
    assert_eq!(stalled.wait().unwrap().code(), Some(0));
}

/// Makes the lines of these numbers ones that say nothing, as long as they were.
fn damage(world: &World, damaged: &[usize]) {
    let feed = world.state("work").join("feed.jsonl");
    let text = fs::read_to_string(&feed).unwrap();
    let lines = text.lines().enumerate().map(|(index, line)| {
        if damaged.contains(&(index + 1)) {
            format!("{}\n", "#".repeat(line.len()))
        } else {
            format!("{line}\n")
        }
    });
    fs::write(&feed, lines.collect::<String>()).unwrap();
}

/// The numbers of what a stream brings until it is live, gaps as pairs.
fn until_live(reader: &Running) -> Vec<Value> {
    let records = reader.records_until(|record| record["kind"] == "sync");
    let told = records
        .iter()
        .filter_map(|record| match record["kind"].as_str() {
            Some("gap") => Some(json!([record["from"], record["to"]])),
            _ => record.get("seq").cloned(),
        });
    told.collect()
}

#[test]
fn damaged_records_are_a_gap_and_no_number_is_given_twice() {
    let (world, _) = with_two_ends();
    damage(&world, &[3, 4, 8]);
    let output = world.task(["feed"]);
    assert_eq!(seqs(&parse_lines(output.ok())), [1, 2, 5, 6, 7]);
    let said = "tmux-task: feed: records 3 to 4, 8 are gone\n";
    assert_eq!(output.err, said);
    let output = world.task(["feed", "--after", "3", "--kind", "notice"]);
    assert_eq!(seqs(&parse_lines(output.ok())), [6]);
    assert_eq!(output.err, "tmux-task: feed: records 4, 8 are gone\n");
    assert_eq!(world.task(["feed", "--after", "8"]).err, "");

    world.daemon();
    let read = |args: &[&str]| {
        let follow = ["feed", "--follow", "--after"];
        until_live(&world.start([&follow[..], args].concat()))
    };
    // The message of the last end was damaged, so that end is delivered again.
    world.until("it", |records| records.len() == 6);
    let whole = json!([1, 2, [3, 4], 5, 6, 7, [8, 8], 9]);
    assert_eq!(json!(read(&["0"])), whole);
    assert_eq!(json!(read(&["3"])), json!([[4, 4], 5, 6, 7, [8, 8], 9]));
    assert_eq!(
        json!(read(&["0", "--kind", "notice"])),
        json!([2, [3, 4], 6, [8, 8]])
    );
    assert_eq!(json!(read(&["9"])), json!([]));

    // Under the daemon's hands as well; what comes next has the next number.
    damage(&world, &[9]);
    assert_eq!(json!(read(&["7"])), json!([[8, 9]]));
    world.run("api", "exec sleep 1000");
    let records = world.until("its start", |records| records.len() == 7);
    assert_eq!(seqs(&records), [1, 2, 5, 6, 7, 10, 11]);
}

#[test]
fn a_changed_word_and_bytes_that_are_no_text_are_a_gap() {
    let (world, _) = with_two_ends();
    let path = world.state("work").join("feed.jsonl");
    let feed = fs::read(&path).unwrap();
    let mut lines: Vec<Vec<u8>> = feed
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    let at = |line: &[u8], word: &str| {
        let mut places = line.windows(word.len());
        places.position(|part| part == word.as_bytes()).unwrap()
    };
    let place = at(&lines[2], "exited");
    lines[2][place] = b'X';
    let place = at(&lines[4], "started");
    lines[4][place] = 0xff;
    fs::write(&path, lines.concat()).unwrap();
    let output = world.task(["feed"]);
    assert_eq!(seqs(&parse_lines(output.ok())), [1, 2, 4, 6, 7, 8]);
    assert_eq!(output.err, "tmux-task: feed: records 3, 5 are gone\n");
    world.daemon();
    let reader = world.start(["feed", "--follow", "--after", "0"]);
    assert_eq!(
        json!(until_live(&reader)),
        json!([1, 2, [3, 3], 4, [5, 5], 6, 7, 8])
    );
}

#[test]
fn a_record_of_a_later_version_is_passed_on() {
    let (world, records) = with_two_ends();
    let path = world.state("work").join("feed.jsonl");
    let epoch = records[0]["epoch"].as_str().unwrap();
    let later = format!(
        "{{\"v\":1,\"seq\":9,\"epoch\":\"{epoch}\",\"time\":\"2030-01-01T00:00:00.000Z\",\
         \"sessionName\":\"work\",\"kind\":\"weather\",\"is\":\"fine\"}}\n"
    );
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(later.as_bytes()).unwrap();
    let read = |args: &[&str]| world.task([&["feed"], args].concat());
    let last = read(&["--after", "8"]);
    assert_eq!(parse_lines(last.ok()), parse_lines(&later));
    assert_eq!(last.err, "");
    assert_eq!(read(&["--after", "8", "--kind", "event"]).ok(), "");
    let text = read(&["--after", "8", "--format", "text"]);
    assert_eq!(text.ok(), "#9 of a later version\n");
    world.daemon();
    let reader = world.start(["feed", "--follow", "--after", "8"]);
    let told = reader.records_until(|record| record["kind"] == "sync");
    assert!(told.contains(&parse_lines(&later)[0]), "{told:?}");
}

#[test]
fn a_large_feed_is_read_in_little_memory() {
    let (world, records) = with_two_ends();
    let path = world.state("work").join("feed.jsonl");
    let mut notice = records[1].clone();
    notice["text"] = "x".repeat(4000).into();
    let last = 6000;
    let mut file =
        std::io::BufWriter::new(fs::OpenOptions::new().append(true).open(&path).unwrap());
    for seq in 9..=last {
        notice["seq"] = seq.into();
        writeln!(file, "{notice}").unwrap();
    }
    file.into_inner().unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 20 << 20);
    let mut shell = world.command("sh");
    // In KiB: less than the file has.
    let line = "ulimit -d 16384; for after in 0 5999; do \"$0\" feed --after $after | wc -l; done";
    shell.args(["-c", line]).arg(World::program());
    assert_eq!(Output::of(shell).ok(), "6000\n1\n");
}

/// Changes the feed's file while the daemon runs: a live reader still gets the further records, and
/// a new reader gets a `gap` for the lost ones.
#[track_caller]
fn check_file(change: impl Fn(&Path), from_the_front: &Value) -> World {
    let (world, before) = with_two_ends();
    world.daemon();
    let listens = world.start(["feed", "--follow"]);
    listens.records_until(|record| record["kind"] == "sync");
    let feed = world.state("work").join("feed.jsonl");
    change(&feed);
    world.run("new", "exec sleep 1000");
    let heard = listens.records_until(|record| record["seq"] == 10);
    assert!(
        heard.iter().all(|record| record["kind"] != "gap"),
        "{heard:?}"
    );
    let reader = world.start(["feed", "--follow", "--after", "0"]);
    assert_eq!(json!(until_live(&reader)), *from_the_front);
    // It is in the file, and the next daemon continues with it.
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    world.run("newer", "exec sleep 1000");
    world.until("its start", |records| {
        records.iter().any(|record| record["seq"] == 12)
    });
    let epochs: Vec<Value> = world
        .records()
        .iter()
        .map(|record| record["epoch"].clone())
        .collect();
    assert!(epochs.iter().all(|epoch| *epoch == before[0]["epoch"]));
    world
}

#[test]
fn a_feed_that_is_deleted_goes_on_in_a_new_file() {
    check_file(
        |feed| fs::remove_file(feed).unwrap(),
        &json!([[1, 8], 9, 10]),
    );
}

#[test]
fn a_feed_whose_folder_is_deleted_goes_on_in_a_new_one() {
    let remove = |feed: &Path| fs::remove_dir_all(feed.parent().unwrap()).unwrap();
    check_file(remove, &json!([[1, 8], 9, 10]));
}

#[test]
fn a_feed_rewritten_by_an_editor_continues_in_that_file() {
    let edit = |feed: &Path| {
        let text = fs::read_to_string(feed).unwrap();
        let kept = text.lines().filter(|line| !line.contains("\"seq\":4,"));
        let fresh = feed.with_extension("fresh");
        fs::write(
            &fresh,
            kept.map(|line| format!("{line}\n")).collect::<String>(),
        )
        .unwrap();
        fs::rename(&fresh, feed).unwrap();
    };
    check_file(edit, &json!([1, 2, 3, [4, 4], 5, 6, 7, 8, 9, 10]));
}

#[test]
fn a_feed_that_is_cut_goes_on_behind_what_is_left() {
    let cut = |feed: &Path| {
        let text = fs::read_to_string(feed).unwrap();
        let two = text.match_indices('\n').nth(1).unwrap().0 + 1;
        let file = fs::OpenOptions::new().write(true).open(feed).unwrap();
        // Not between two lines.
        file.set_len(two as u64 + 10).unwrap();
    };
    check_file(cut, &json!([1, 2, [3, 8], 9, 10]));
}

#[test]
fn lines_added_to_the_feed_are_no_records() {
    let add = |feed: &Path| {
        let mut file = fs::OpenOptions::new().append(true).open(feed).unwrap();
        file.write_all(b"a note\nof mine").unwrap();
    };
    check_file(add, &json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
}

#[test]
fn a_file_in_the_place_of_the_feed_is_put_aside() {
    let other = |feed: &Path| {
        fs::remove_file(feed).unwrap();
        fs::write(feed, "my notes\n").unwrap();
    };
    let world = check_file(other, &json!([[1, 8], 9, 10]));
    let aside = world.state("work").join("feed.jsonl.other-1");
    assert_eq!(fs::read_to_string(&aside).unwrap(), "my notes\n");
    // A second one does not replace it, and what has its name does not hold the records up.
    fs::create_dir_all(world.state("work").join("feed.jsonl.other-2/full")).unwrap();
    let feed = world.state("work").join("feed.jsonl");
    fs::remove_file(&feed).unwrap();
    fs::write(&feed, "more notes\n").unwrap();
    world.run("last", "exec sleep 1000");
    world.until_true("it is recorded", || {
        fs::read_to_string(&feed).is_ok_and(|text| text.contains("\"last\""))
    });
    assert_eq!(fs::read_to_string(&aside).unwrap(), "my notes\n");
    let third = fs::read_to_string(world.state("work").join("feed.jsonl.other-3"));
    assert_eq!(third.unwrap(), "more notes\n");
}

#[test]
fn a_saved_snapshot_with_damaged_numbers_hides_no_end() {
    let world = World::new();
    world.run("keeps", "exec sleep 1000");
    world.until_delivered("started", "keeps");
    let far = (1_u64 << 53) - 2;
    let event = json!({"seq": u64::MAX, "event": {}});
    let damages = [
        ("/lastSeq", json!(u64::MAX)),
        ("/lastSeq", json!(far)),
        ("/lastSeq", json!(1_000_000_000_000_u64)),
        ("/lastSeq", json!(0)),
        ("/lastSeq", json!(-1)),
        ("/lastSeq", json!("7")),
        ("/feed/end", json!(u64::MAX)),
        ("/feed/segment", json!(u64::MAX)),
        ("/feed/undelivered", json!([event])),
        ("/deathsRead", json!(u64::MAX)),
        ("/snapshot/capturedAt", json!(i64::MIN)),
        ("/life/serverStarted", json!(i64::MAX)),
        ("/life/created", json!(i64::MIN)),
    ];
    let mut last = 0;
    for (n, (field, value)) in damages.into_iter().enumerate() {
        world.finish();
        let path = world.state("work").join("session.json");
        let mut saved: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        match saved.pointer_mut(field) {
            Some(place) => *place = value.clone(),
            None => {
                let (above, name) = field.rsplit_once('/').unwrap();
                saved.pointer_mut(above).unwrap()[name] = value.clone();
            }
        }
        fs::write(&path, saved.to_string()).unwrap();
        world.daemon();
        let name = format!("ends{n}");
        world.run(&name, "exit 4");
        let records = world.until_delivered("exited", &name);
        let numbers: Vec<u64> = records
            .iter()
            .map(|one| one["seq"].as_u64().unwrap())
            .collect();
        let reached = *numbers.last().unwrap();
        assert!(numbers.is_sorted(), "{field} {value}: {numbers:?}");
        assert!(
            reached > last && reached < last + 100,
            "{field} {value}: {reached} after {last}"
        );
        last = reached;
    }
}

#[test]
fn a_feed_that_is_cut_between_two_daemons_gives_no_number_again() {
    let (world, _) = with_two_ends();
    let feed = world.state("work").join("feed.jsonl");
    let text = fs::read_to_string(&feed).unwrap();
    let kept: String = text.lines().take(5).map(|l| format!("{l}\n")).collect();
    fs::write(&feed, kept).unwrap();
    world.daemon();
    // The end whose records are gone is in the saved snapshot: it was reported.
    world.run("new", "exec sleep 1000");
    world.until("its start", |records| {
        records
            .last()
            .is_some_and(|record| record["seq"].as_u64() >= Some(10))
    });
    let reader = world.start(["feed", "--follow", "--after", "4"]);
    let told = until_live(&reader);
    assert_eq!(told[..3], [json!(5), json!([6, 8]), json!(9)]);
}

#[test]
fn readers_that_left_leave_no_trace() {
    let world = World::new();
    world.daemon();
    for _ in 0..20 {
        let follow = world.start(["feed", "--follow"]);
        follow.records_until(|record| record["kind"] == "sync");
    }
    world.until_true("all have left", || world.daemon_status()["readers"] == 0);
    world.run("api", "exit 1");
    world.until("its end", |records| codes(records, "api").len() == 1);
    let records = world.finish();
    check_feed(&records);
    assert!(!deliveries(&records).is_empty());
}

#[test]
fn a_closed_stdout_is_no_failure() {
    let (world, _) = with_two_ends();
    world.daemon();
    for args in [
        &["feed"][..],
        &["ls"],
        &["ls", "--json"],
        &["status"],
        &["feed", "--follow"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = world.command(World::program());
        command
            .args(args)
            .stdout(writer)
            .stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        // The writer's last copy goes with the command.
        drop(command);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            (output.status.code(), err.as_str()),
            (Some(0), ""),
            "{args:?}"
        );
    }
}

#[test]
fn a_stream_whose_reader_leaves_ends_at_once() {
    let world = World::new();
    world.daemon();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = world.command(World::program());
    command.args(["feed", "--follow"]).stdout(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    world.until_true("it reads", || world.daemon_status()["readers"] == 1);
    drop(reader);
    // Nothing happens that it could write.
    world.until_true("it leaves", || has_ended(pid(child.id().into())));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn on_a_terminal_the_feed_is_text_and_has_each_event_once() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exit 3");
    world.until_delivered("exited", "web");
    let socket = world.tmux(["display-message", "-p", "#{socket_path}"]);
    let program = World::program().display();
    let feed = format!("env -u TMUX '{program}' -S '{socket}' -s work feed; exec cat");
    world.tmux(["-L", "terminal", "new-session", "-d", "-x", "120", &feed]);
    let shown = || world.tmux(["-L", "terminal", "capture-pane", "-p"]);
    world.until_true("the end is shown", || {
        shown().contains("exited with code 3")
    });
    let text = shown();
    let words = |event: &str| text.matches(event).count();
    assert_eq!(
        words("#1 event started: tmux task @1 (api) started"),
        1,
        "{text}"
    );
    assert_eq!(words("(web) exited with code 3"), 1, "{text}");
    world.tmux(["-L", "terminal", "kill-server"]);
}

#[test]
fn a_task_of_which_nothing_is_known_is_named() {
    let world = World::new();
    let window = world.run("api", "exit 3");
    // Then there are two records, whether or not its start was seen.
    world.until_delivered("exited", "api");
    let note =
        |name: &str| format!("tmux-task: feed: there is no task `{name}`, and no record of one\n");
    let feed = |args: &[&str]| {
        let feed = world.task([&["feed"], args].concat());
        feed.ok();
        feed.err
    };
    assert_eq!(feed(&["--task", "typo", "--task", "api"]), note("typo"));
    // Also where records of others are all that was read, or that is printed.
    assert_eq!(feed(&["--task", "api", "-n", "1", "--type", "input"]), "");
    assert_eq!(feed(&["--task", "api", "--after", "2"]), "");
    world.task(["kill", "api"]).ok();
    assert_eq!(feed(&["--task", &window]), "");
    let follow = world.start(["feed", "--follow", "--task", "later", "--task", "api"]);
    assert_eq!(follow.complaint() + "\n", note("later"));
    assert_eq!(follow.record()["kind"], "hello");
    world.run("later", "exec sleep 1000");
    let mut started = follow.record();
    while started["kind"] != "event" {
        started = follow.record();
    }
    assert_eq!(started["task"]["windowName"], "later");
    assert_eq!(feed(&["--task", "later"]), "");
}

//! Reading the feed: stored records, live records and filters.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{
    Output, Running, World, all_told, append_notices, argv, check_feed, content, deliveries,
    events, has_ended, parse_lines, pid, texts,
};

/// A world whose feed has the delivered ends of two tasks, and does not change; its records.
fn with_two_ends() -> (World, Vec<Value>) {
    let world = World::new();
    for (name, code) in [("api", 2), ("web", 3)] {
        let gate = world.gate(name);
        let before = world.records().len();
        world.run(name, &format!("{gate}; exit {code}"));
        world.until("its start", |records| records.len() == before + 2);
        gate.open();
        world.until("its end", |records| records.len() == before + 4);
    }
    let records = world.finish();
    assert_eq!(records.len(), 8);
    (world, records)
}

fn seqs(records: &[Value]) -> Vec<u64> {
    let seqs = records.iter().map(|record| record["seq"].as_u64().unwrap());
    seqs.collect()
}

/// Follows the feed until it is live.
fn follow(world: &World, args: &[&str]) -> Running {
    let follow = world.start([&["feed", "--follow"], args].concat());
    follow.records_until(|record| record["kind"] == "sync");
    follow
}

#[test]
fn what_is_kept_is_read_without_a_daemon_and_selected() {
    let (world, records) = with_two_ends();
    let read = |args: &str| parse_lines(world.call(&format!("feed {args}")).ok());
    assert_eq!(read(""), records);
    let epoch = records[0]["epoch"].as_str().unwrap();
    // A place that the feed does not have is refused, also by a daemon.
    let unknown = format!("no record 9: the feed's last is {epoch}:8");
    let other = format!("no epoch other: the feed's is {epoch}, its last record 8");
    let check_refused = |feed: &str| {
        for (place, why) in [("9", &unknown), ("other:1", &other)] {
            let output = world.call(&format!("{feed} --after {place}"));
            output.fails(1, &format!("tmux-task: feed: {why}"));
        }
    };
    check_refused("feed");
    world.task(["daemon", "status"]).fails_with(3);
    world.daemon();
    check_refused("feed --follow");
    let (place, id) = (format!("{epoch}:6"), &records[0]["task"]["windowId"]);
    let cases: [(&str, &[u64]); 14] = [
        ("--after 5", &[6, 7, 8]),
        ("--after 8", &[]),
        (&format!("--after {place}"), &[7, 8]),
        ("--kind event", &[1, 3, 5, 7]),
        ("--kind notice", &[2, 6]),
        ("--kind followUp --kind notice", &[2, 4, 6, 8]),
        ("--type exited", &[3, 7]),
        ("--type exited --type started", &[1, 3, 5, 7]),
        ("--task web", &[5, 6, 7, 8]),
        (&format!("--task {}", id.as_str().unwrap()), &[1, 2, 3, 4]),
        ("--task we", &[]),
        ("--type exited --task web --after 2", &[7]),
        ("--kind followUp --type exited --task api", &[4]),
        ("--kind notice --task web --after 5", &[6]),
    ];
    for (args, expected) in cases {
        assert_eq!(seqs(&read(args)), expected, "{args}");
    }
    let text = world.task(["feed", "--format", "text", "--after", "6"]);
    let [time, later] = texts(&records[6..], "time")[..] else {
        panic!("two records");
    };
    let web = records[6]["task"]["windowId"].as_str().unwrap();
    let expected = format!(
        "{time} #7 event exited: tmux task {web} (web) exited with code 3\n\
         {later} #8 followUp: [tmux-task notification]\n    \
         tmux task {web} (web) exited with code 3\n"
    );
    assert_eq!(text.ok(), expected);
}

#[test]
fn a_stream_begins_with_hello_status_and_sync_and_goes_on() {
    let (world, records) = with_two_ends();
    world.daemon();
    let now = world.start(["feed", "--follow"]);
    let later = world.start(["feed", "--follow", "--after", "5"]);
    let hello = json!({
        "kind": "hello",
        "v": 1,
        "epoch": records[0]["epoch"],
        "lastSeq": 8,
        "version": env!("CARGO_PKG_VERSION"),
        "sessionName": "work",
    });
    let status =
        json!({"kind": "status", "text": "tmux: 2 tasks", "running": 0, "waiting": 0, "dead": 2});
    for (stream, kept) in [(&now, &[][..]), (&later, &records[5..])] {
        let begun = stream.records_until(|record| record["kind"] == "sync");
        let begin = [hello.clone(), status.clone()];
        let sync = [json!({"kind": "sync"})];
        assert_eq!(begun, [&begin[..], kept, &sync[..]].concat());
    }
    // From now: the next is new.
    world.run("api", "exec sleep 1000");
    for stream in [now, later] {
        let next = stream.records_until(|record| record["kind"] == "notice");
        assert_eq!(texts(&next, "kind"), ["event", "status", "notice"]);
        assert_eq!((&next[0]["seq"], &next[2]["seq"]), (&json!(9), &json!(10)));
        assert_eq!(next[1]["running"], 1);
    }
}

#[test]
fn a_filtered_stream_still_has_what_is_live_only_and_ends_as_any_with_its_daemon() {
    let world = World::new();
    world.task(["feed"]).fails(
        3,
        "tmux-task: feed: no feed of session `work`\n\
         hint: a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`",
    );
    world.daemon();
    assert_eq!(world.task(["feed"]).ok(), "");
    let follow = follow(&world, &["--kind", "followUp", "--task", "web"]);
    world.run("api", "exit 1");
    world.until_delivered("exited", "api");
    world.run("web", "exit 2");
    let mut told = follow.records_until(|record| record["kind"] == "followUp");
    assert!(content(&told.pop().unwrap()).contains("(web) exited with code 2"));
    assert!(!told.is_empty());
    assert!(
        told.iter().all(|record| record["kind"] == "status"),
        "{told:?}"
    );
    // With what that has gathered, or by an interrupt.
    let (mut first, mut second) = (self::follow(&world, &[]), follow);
    second.signal(Signal::INT);
    assert_eq!(second.wait(), 130);
    world.run("last", "exec sleep 1000");
    world.task(["daemon", "stop"]).ok();
    let told = first.records_until(|record| record["kind"] == "notice");
    assert!(content(told.last().unwrap()).ends_with("(last) started"));
    assert_eq!(first.wait(), 0);
}

#[test]
fn a_stalled_reader_delays_no_other_and_loses_nothing() {
    let world = World::new();
    world.daemon();
    world.run("first", "exec sleep 1000");
    world.until_deliveries(1);
    // A pipe that is not read.
    let mut command = world.command(World::program());
    command.args(["feed", "--follow", "--after", "0"]);
    let mut stalled = command.stdout(Stdio::piped()).spawn().unwrap();
    let quick = follow(&world, &[]);
    world.until_true("both read", || world.daemon_status()["readers"] == 2);

    // Far more than sockets and pipes have room for, some 10 KB a window.
    let n = 110;
    let line = "seq -f %0200.0f 1 30; exec sleep 1000";
    let new = argv(&format!(
        "new-window -d -t work: -P -F #{{window_id}} '{line}' ;"
    ));
    // The length of a line to tmux is limited.
    let ten = vec![new; 10].concat();
    let made: Vec<String> = (0..n / 10).map(|_| world.tmux(&ten)).collect();
    let windows: Vec<&str> = made.iter().flat_map(|ids| ids.lines()).collect();
    assert_eq!(windows.len(), n);
    for window in &windows {
        world.until_shows(window, "030");
    }
    world.look();
    let kill = windows
        .iter()
        .flat_map(|window| ["kill-window", "-t", *window, ";"]);
    world.tmux(kill.collect::<Vec<_>>());
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

/// What is done with a line; it leaves its length.
type Damage = fn(&mut [u8]);

/// Damages lines of the feed, by number.
fn damage<const N: usize>(world: &World, damages: [(usize, Damage); N]) {
    let path = world.state("work").join("feed.jsonl");
    let feed = fs::read(&path).unwrap();
    let lines = feed.split_inclusive(|byte| *byte == b'\n');
    let mut lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
    for (number, damage) in damages {
        let (_, text) = lines[number - 1].split_last_mut().unwrap();
        damage(text);
    }
    fs::write(&path, lines.concat()).unwrap();
}

/// A line that says nothing.
fn erase(line: &mut [u8]) {
    line.fill(b'#');
}

/// Another word than `exited`.
fn change(line: &mut [u8]) {
    let mut places = line.windows(6);
    let place = places.position(|part| part == b"exited").unwrap();
    line[place] = b'X';
}

/// A byte that is no text.
fn garble(line: &mut [u8]) {
    line[line.len() / 2] = 0xff;
}

/// The numbers of what a stream brings until it is live, gaps as pairs.
fn until_live(reader: &Running) -> Value {
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
    damage(&world, [(3, change), (4, garble), (8, erase)]);
    for (args, kept, lost) in [
        (&["feed"][..], &[1, 2, 5, 6, 7][..], "3 to 4, 8"),
        (&["feed", "--after", "3", "--kind", "notice"], &[6], "4, 8"),
    ] {
        let output = world.task(args);
        assert_eq!(seqs(&parse_lines(output.ok())), kept);
        let said = format!("tmux-task: feed: records {lost} are gone\n");
        assert_eq!(output.err, said);
    }
    assert_eq!(world.task(["feed", "--after", "8"]).err, "");

    world.daemon();
    let check = |args: &[&str], expected: Value| {
        let follow = ["feed", "--follow", "--after"];
        let stream = world.start([&follow[..], args].concat());
        assert_eq!(until_live(&stream), expected, "{args:?}");
    };
    // The message of the last end was damaged, so that end is delivered again.
    world.until("it", |records| records.len() == 6);
    check(&["0"], json!([1, 2, [3, 4], 5, 6, 7, [8, 8], 9]));
    check(&["3"], json!([[4, 4], 5, 6, 7, [8, 8], 9]));
    check(&["0", "--kind", "notice"], json!([2, [3, 4], 6, [8, 8]]));
    check(&["9"], json!([]));

    // Under the daemon's hands as well; what comes next has the next number.
    damage(&world, [(9, erase)]);
    check(&["7"], json!([[8, 9]]));
    world.run("api", "exec sleep 1000");
    let records = world.until("its start", |records| records.len() == 7);
    assert_eq!(seqs(&records), [1, 2, 5, 6, 7, 10, 11]);
}

/// Opens a feed's file, to write behind its end.
fn append(feed: &Path) -> fs::File {
    OpenOptions::new().append(true).open(feed).unwrap()
}

#[test]
fn a_record_of_a_later_version_is_passed_on() {
    let (world, records) = with_two_ends();
    let epoch = records[0]["epoch"].as_str().unwrap();
    let later = format!(
        "{{\"v\":1,\"seq\":9,\"epoch\":\"{epoch}\",\"time\":\"2030-01-01T00:00:00.000Z\",\
         \"sessionName\":\"work\",\"kind\":\"weather\",\"is\":\"fine\"}}\n"
    );
    let mut file = append(&world.state("work").join("feed.jsonl"));
    file.write_all(later.as_bytes()).unwrap();
    let read = |args: &[&str]| world.task([&["feed", "--after", "8"], args].concat());
    let last = read(&[]);
    assert_eq!(parse_lines(last.ok()), parse_lines(&later));
    assert_eq!(last.err, "");
    assert_eq!(read(&["--kind", "event"]).ok(), "");
    assert_eq!(read(&["--format", "text"]).ok(), "#9 of a later version\n");
    world.daemon();
    let reader = world.start(["feed", "--follow", "--after", "8"]);
    let told = reader.records_until(|record| record["kind"] == "sync");
    assert!(told.contains(&parse_lines(&later)[0]), "{told:?}");
}

#[test]
fn a_large_feed_is_read_in_little_memory() {
    let (world, records) = with_two_ends();
    let path = world.state("work").join("feed.jsonl");
    append_notices(&path, 6000 - records.len() as u64, 4000);
    assert!(fs::metadata(&path).unwrap().len() > 20 << 20);
    let mut shell = world.command("sh");
    // In KiB: less than the file has.
    let line = "ulimit -d 16384; for after in 0 5999; do \"$0\" feed --after $after | wc -l; done";
    shell.args(["-c", line]).arg(World::program());
    assert_eq!(Output::of(shell).ok(), "6000\n1\n");
}

/// What happens to the file of a feed.
type Change = fn(&Path);

/// Changes the feed's file while the daemon runs: a live reader still gets the further records, and
/// a new reader gets a `gap` for the lost ones.
#[track_caller]
fn check_file(what: &str, change: impl Fn(&Path), from_the_front: &Value) -> World {
    let (world, before) = with_two_ends();
    world.daemon();
    let listens = follow(&world, &[]);
    change(&world.state("work").join("feed.jsonl"));
    world.run("new", "exec sleep 1000");
    let heard = listens.records_until(|record| record["seq"] == 10);
    let is_gap = |record: &Value| record["kind"] == "gap";
    assert!(!heard.iter().any(is_gap), "{what}: {heard:?}");
    let reader = world.start(["feed", "--follow", "--after", "0"]);
    assert_eq!(until_live(&reader), *from_the_front, "{what}");
    // It is in the file, and the next daemon continues with it.
    world.task(["daemon", "stop"]).ok();
    world.daemon();
    world.run("newer", "exec sleep 1000");
    let records = world.until(&format!("its start: {what}"), |records| {
        records.iter().any(|record| record["seq"] == 12)
    });
    let is_of_it = |record: &Value| record["epoch"] == before[0]["epoch"];
    assert!(records.iter().all(is_of_it), "{what}");
    world
}

#[test]
fn a_feed_that_is_deleted_cut_or_edited_goes_on_behind_what_is_left() {
    let edit = |feed: &Path| {
        let text = fs::read_to_string(feed).unwrap();
        let kept = text.split_inclusive('\n');
        let kept = kept.filter(|line| !line.contains("\"seq\":4,"));
        let fresh = feed.with_extension("fresh");
        fs::write(&fresh, kept.collect::<String>()).unwrap();
        fs::rename(&fresh, feed).unwrap();
    };
    let cut = |feed: &Path| {
        let text = fs::read_to_string(feed).unwrap();
        let two = text.match_indices('\n').nth(1).unwrap().0 + 1;
        let file = OpenOptions::new().write(true).open(feed).unwrap();
        // Not between two lines.
        file.set_len(two as u64 + 10).unwrap();
    };
    let add = |feed: &Path| append(feed).write_all(b"a note\nof mine").unwrap();
    let delete = |feed: &Path| fs::remove_file(feed).unwrap();
    let delete_all = |feed: &Path| fs::remove_dir_all(feed.parent().unwrap()).unwrap();
    let cases: [(&str, Change, Value); 5] = [
        ("deleted", delete, json!([[1, 8], 9, 10])),
        ("its folder deleted", delete_all, json!([[1, 8], 9, 10])),
        (
            "rewritten by an editor",
            edit,
            json!([1, 2, 3, [4, 4], 5, 6, 7, 8, 9, 10]),
        ),
        ("cut", cut, json!([1, 2, [3, 8], 9, 10])),
        ("lines added", add, json!([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])),
    ];
    for (what, change, from_the_front) in cases {
        check_file(what, change, &from_the_front);
    }
}

#[test]
fn a_file_in_the_place_of_the_feed_is_put_aside() {
    let put = |feed: &Path, text: &str| {
        fs::remove_file(feed).unwrap();
        fs::write(feed, text).unwrap();
    };
    let other = |feed: &Path| put(feed, "my notes\n");
    let world = check_file("another file", other, &json!([[1, 8], 9, 10]));
    let aside = |n: u32| {
        let name = format!("feed.jsonl.other-{n}");
        fs::read_to_string(world.state("work").join(name)).unwrap()
    };
    assert_eq!(aside(1), "my notes\n");
    // A second one does not replace it, and what has its name does not hold the records up.
    fs::create_dir_all(world.state("work").join("feed.jsonl.other-2/full")).unwrap();
    let feed = world.state("work").join("feed.jsonl");
    put(&feed, "more notes\n");
    world.run("last", "exec sleep 1000");
    world.until_true("it is recorded", || {
        fs::read_to_string(&feed).is_ok_and(|text| text.contains("\"last\""))
    });
    assert_eq!([aside(1), aside(3)], ["my notes\n", "more notes\n"]);
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
        let numbers = seqs(&world.until_delivered("exited", &name));
        let reached = *numbers.last().unwrap();
        assert!(numbers.is_sorted(), "{field} {value}: {numbers:?}");
        let is_next = reached > last && reached < last + 100;
        assert!(is_next, "{field} {value}: {reached} after {last}");
        last = reached;
    }
}

#[test]
fn a_feed_that_is_cut_between_two_daemons_gives_no_number_again() {
    let (world, _) = with_two_ends();
    let feed = world.state("work").join("feed.jsonl");
    let text = fs::read_to_string(&feed).unwrap();
    let kept: String = text.split_inclusive('\n').take(5).collect();
    fs::write(&feed, kept).unwrap();
    world.daemon();
    // The end whose records are gone is in the saved snapshot: it was reported.
    world.run("new", "exec sleep 1000");
    world.until("its start", |records| {
        let last = records.last();
        last.is_some_and(|record| record["seq"].as_u64() >= Some(10))
    });
    let told = until_live(&world.start(["feed", "--follow", "--after", "4"]));
    let first = &told.as_array().unwrap()[..3];
    assert_eq!(first, [json!(5), json!([6, 8]), json!(9)]);
}

#[test]
fn readers_that_left_leave_no_trace_and_leave_at_once() {
    let world = World::new();
    world.daemon();
    for _ in 0..20 {
        follow(&world, &[]);
    }
    world.until_true("all have left", || world.daemon_status()["readers"] == 0);
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
    world.run("api", "exit 1");
    world.until("its end", |records| codes(records, "api").len() == 1);
    let records = world.finish();
    check_feed(&records);
    assert!(!deliveries(&records).is_empty());
}

#[test]
fn a_closed_stdout_ends_a_command_quietly() {
    let (world, _) = with_two_ends();
    world.daemon();
    world.run("live", "exec sleep 1000");
    let prints = "feed|ls|ls --json|status|feed --follow|logs -f live|--help";
    // What their exit code says is not known.
    let waits = "wait live|wait live --any|run other --follow -- exec sleep 1000|wait --channel c";
    let prints = prints.split('|').map(|line| (line, [0, 0]));
    let waits = waits.split('|').map(|line| (line, [1, 125]));
    for (line, codes) in prints.chain(waits) {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = world.command(World::program());
        command
            .args(argv(line))
            .stdout(writer)
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // The writer's last copy goes with the command.
        drop(command);
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = codes[usize::from(line.starts_with("run"))];
        let err = err.trim_start_matches("started @4 (other) in work\n");
        assert_eq!((output.status.code(), err), (Some(code), ""), "{line}");
    }
}

#[test]
fn on_a_terminal_the_feed_is_text_and_has_each_event_once() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    world.run("web", "exit 3");
    world.until_delivered("exited", "web");
    let socket = world.server_socket();
    let program = World::program().display();
    let feed = format!("'{program}' -S '{socket}' -s work feed; exec cat");
    world.open_terminal("120x24", &feed);
    let shown = || world.tmux(["-L", "terminal", "capture-pane", "-p"]);
    let end = "(web) exited with code 3";
    world.until_true("the end is shown", || shown().contains(end));
    let text = shown();
    for words in ["#1 event started: tmux task @1 (api) started", end] {
        assert_eq!(text.matches(words).count(), 1, "{words}: {text}");
    }
    world.end_terminal();
}

//! Consumers: confirmed acknowledgements are never lost, and all other records are sent again.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::slow_disk::Disk;
use crate::support::{Running, World};

/// A feed of `n` records: one task's, and then notices of `size` bytes. No daemon runs.
fn with_feed(n: u64, size: usize) -> World {
    let world = World::new();
    world.run("api", "exit 3");
    world.until_delivered("exited", "api");
    let records = world.finish();
    let mut notice = records[0].clone();
    for name in ["type", "task", "rerun", "checkpoint", "more"] {
        notice.as_object_mut().unwrap().remove(name);
    }
    notice["kind"] = "notice".into();
    notice["level"] = "info".into();
    notice["text"] = "x".repeat(size).into();
    notice["events"] = json!([]);
    notice["owner"] = Value::Null;
    let path = world.state("work").join("feed.jsonl");
    let file = fs::OpenOptions::new().append(true).open(path).unwrap();
    let mut file = std::io::BufWriter::new(file);
    for seq in records.len() as u64 + 1..=n {
        notice["seq"] = seq.into();
        writeln!(file, "{notice}").unwrap();
    }
    file.into_inner().unwrap();
    world
}

/// A harness that reads as this consumer.
pub(crate) fn consume(world: &World, name: &str, args: &[&str]) -> Running {
    let mut command = world.command(World::program());
    command
        .args(["feed", "--follow", "--consumer", name])
        .args(args)
        .stdin(Stdio::piped());
    Running::start(command)
}

/// The numbers of the records that a harness has until its stream is live.
#[track_caller]
pub(crate) fn until_live(harness: &Running) -> Vec<u64> {
    let lines = harness.records_until(|line| line["kind"] == "sync");
    lines
        .iter()
        .filter_map(|line| line["seq"].as_u64())
        .collect()
}

/// Acknowledges a record and waits until that is confirmed.
#[track_caller]
pub(crate) fn acknowledge(harness: &mut Running, seq: u64) {
    harness.write(&format!("{{\"ack\":{seq}}}\n"));
    let lines = harness.records_until(|line| line["kind"] == "acked");
    assert_eq!(lines.last().unwrap()["acked"], seq);
}

fn kill(mut harness: Running) {
    harness.signal(Signal::KILL);
    harness.wait();
}

/// The consumers as `consumer ls --json` lists them: name, cursor and lag.
fn listed(world: &World) -> Vec<(String, u64, u64)> {
    let list: Value = serde_json::from_str(world.task(["consumer", "ls", "--json"]).ok()).unwrap();
    let consumers = list["consumers"].as_array().unwrap().iter();
    let fields = consumers.map(|one| {
        (
            one["name"].as_str().unwrap().to_owned(),
            one["cursor"].as_u64().unwrap(),
            one["lag"].as_u64().unwrap(),
        )
    });
    fields.collect()
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[test]
fn a_harness_that_was_killed_gets_what_it_had_not_acknowledged() {
    let world = with_feed(12, 10);
    world.daemon();
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), range(1, 12));
    acknowledge(&mut harness, 5);
    kill(harness);
    let mut harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), range(6, 12));
    // Many at once are confirmed one by one.
    let many: String = (6..=12).map(|seq| format!("{{\"ack\":{seq}}}\n")).collect();
    harness.write(&many);
    let lines = harness.records_until(|line| line["acked"] == 12);
    let confirmed: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["acked"].as_u64())
        .collect();
    assert_eq!(confirmed, range(6, 12));
    kill(harness);
    let harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), [0_u64; 0]);
    assert_eq!(listed(&world), [("pi".to_owned(), 12, 0)]);
    // What is recorded from here on comes as it happens.
    world.run("web", "exec sleep 1000");
    let lines = harness.records_until(|line| line["type"] == "started");
    assert_eq!(lines.last().unwrap()["seq"], 13);
}

#[test]
fn a_confirmed_acknowledgement_survives_a_daemon_that_is_killed() {
    let world = with_feed(12, 10);
    world.daemon();
    let mut harness = consume(&world, "pi", &[]);
    until_live(&harness);
    acknowledge(&mut harness, 7);
    world.kill_daemon();
    // The stream ends with its daemon.
    assert_eq!(harness.wait(), 0);
    world.daemon();
    assert_eq!(until_live(&consume(&world, "pi", &[])), range(8, 12));
}

#[test]
fn an_acknowledgement_that_the_disk_has_not_taken_is_not_confirmed() {
    let world = with_feed(12, 10);
    let disk = Disk::new(&world);
    let _release = world.gate("gate-of-disk");
    disk.start_daemon(&world);
    let mut harness = consume(&world, "pi", &[]);
    until_live(&harness);
    acknowledge(&mut harness, 3);
    disk.hold();
    harness.write("{\"ack\":7}\n");
    world.until_true("the sync hangs", || disk.hangs.exists());
    // Requests are answered meanwhile.
    let status = world.daemon_status();
    assert_eq!(status["consumers"][0]["cursor"], 7);
    world.kill_daemon();
    assert_eq!(harness.rest(), [] as [Value; 0]);
    assert_eq!(harness.wait(), 0);
    world.daemon();
    assert_eq!(until_live(&consume(&world, "pi", &[])), range(4, 12));
}

#[test]
fn a_second_harness_is_refused_unless_it_takes_over() {
    let world = with_feed(12, 10);
    world.daemon();
    let mut first = consume(&world, "pi", &[]);
    until_live(&first);
    acknowledge(&mut first, 2);
    let pid = first.pid().as_raw_nonzero();
    let refused = world.task(["feed", "--follow", "--consumer", "pi"]);
    refused.fails(
        1,
        &format!(
            "tmux-task: feed: consumer `pi` is being read by process {pid}\n\
             hint: `--take-over` ends its stream and reads in its place"
        ),
    );
    let mut second = consume(&world, "pi", &["--take-over"]);
    assert_eq!(until_live(&second), range(3, 12));
    let rest = first.rest();
    assert_eq!(rest, [json!({"kind": "replaced"})]);
    assert_eq!(first.wait(), 0);
    acknowledge(&mut second, 12);
    assert_eq!(listed(&world), [("pi".to_owned(), 12, 0)]);
    let status = world.daemon_status();
    assert_eq!(
        status["consumers"][0]["reader"],
        second.pid().as_raw_nonzero().get()
    );
}

#[test]
fn a_harness_that_is_stuck_can_be_taken_over_from() {
    let world = with_feed(3000, 1000);
    world.daemon();
    let stuck = consume_without_reading(&world, "pi");
    world.until_true("it is being read", || {
        world.daemon_status()["consumers"][0]["reader"] == stuck.0.id()
    });
    let second = consume(&world, "pi", &["--take-over"]);
    assert_eq!(until_live(&second), range(1, 3000));
}

/// A harness that never reads: its pipe is full soon. Dropping it ends it.
struct Stuck(std::process::Child);

impl Drop for Stuck {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn consume_without_reading(world: &World, name: &str) -> Stuck {
    let mut command = world.command(World::program());
    command
        .args(["feed", "--follow", "--consumer", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    Stuck(command.spawn().unwrap())
}

/// The memory that a process has now, in KiB.
fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

#[test]
fn a_harness_that_never_reads_holds_nobody_up_and_loses_nothing() {
    let n = 20_000;
    let world = with_feed(n, 1000);
    world.daemon();
    let pid = world.daemon_pid().as_raw_nonzero().get().unsigned_abs();
    let before = resident(pid);
    let mut stuck = consume_without_reading(&world, "stuck");
    world.until_true("it is being read", || {
        world.daemon_status()["consumers"][0]["reader"] == stuck.0.id()
    });
    let mut quick = consume(&world, "quick", &[]);
    assert_eq!(until_live(&quick), range(1, n));
    acknowledge(&mut quick, n);
    world.run("web", "exec sleep 1000");
    quick.records_until(|line| line["type"] == "started");
    // The feed has 20 MB; the daemon has them neither for the one that reads nor for the other.
    let more = resident(pid).saturating_sub(before);
    assert!(more < 8 << 10, "{more} KiB more than {before}");
    // Acknowledgements of a harness that does not read are taken as well.
    let stdin = stuck.0.stdin.as_mut().unwrap();
    stdin.write_all(b"{\"ack\":1}\n").unwrap();
    let mut lines = BufReader::new(stuck.0.stdout.take().unwrap()).lines();
    let mut seqs = Vec::new();
    while seqs.last() != Some(&n) {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        seqs.extend(line["seq"].as_u64());
    }
    assert_eq!(seqs, range(1, n));
}

#[test]
fn half_a_line_acknowledges_nothing() {
    let world = with_feed(12, 10);
    world.daemon();
    let mut harness = consume(&world, "pi", &[]);
    until_live(&harness);
    harness.write("{\"ack\":2}\n{\"ack\":1");
    let lines = harness.records_until(|line| line["kind"] == "acked");
    assert_eq!(lines.last().unwrap()["acked"], 2);
    // The stream continues without the rest.
    harness.close_stdin();
    world.run("web", "exec sleep 1000");
    harness.records_until(|line| line["type"] == "started");
    kill(harness);
    // The same on the socket, where no command mends it.
    let mut socket = connect(&world, "raw");
    let mut lines = BufReader::new(socket.try_clone().unwrap()).lines();
    socket.write_all(b"{\"ack\":3}\n{\"ack\":12}").unwrap();
    let confirmed = lines.find(|line| line.as_ref().unwrap().contains("acked"));
    assert_eq!(confirmed.unwrap().unwrap(), r#"{"kind":"acked","acked":3}"#);
    drop((socket, lines));
    world.until_true("it has left", || {
        let consumers = &world.daemon_status()["consumers"];
        consumers[1]["reader"].is_null()
    });
    let cursors: Vec<u64> = listed(&world).iter().map(|one| one.1).collect();
    assert_eq!(cursors, [2, 3]);
}

#[test]
fn what_cannot_be_acknowledged_ends_the_stream() {
    let world = with_feed(12, 10);
    world.daemon();
    let epoch = world.records()[0]["epoch"].as_str().unwrap().to_owned();
    let fails = |line: &str, code: i32, why: &str| {
        let mut harness = consume(&world, "pi", &[]);
        until_live(&harness);
        harness.write(line);
        assert_eq!(harness.complaint(), format!("tmux-task: feed: {why}"));
        assert_eq!(harness.wait(), code);
    };
    fails(
        "{\"ack\":99}\n",
        1,
        &format!("no record 99 to acknowledge: the feed's last is {epoch}:12"),
    );
    fails(
        "ok\n",
        2,
        "standard input has no line like {\"ack\":12}: expected value at line 1 column 1",
    );
    assert_eq!(listed(&world), [("pi".to_owned(), 0, 12)]);
    // On the socket the daemon says so itself.
    let mut socket = connect(&world, "raw");
    socket.write_all(b"ok\n").unwrap();
    let last = BufReader::new(socket).lines().last().unwrap().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(
        (&last["answer"], &last["kind"]),
        (&"refused".into(), &"usage".into())
    );
}

/// A consumer on the daemon's socket.
fn connect(world: &World, name: &str) -> UnixStream {
    let mut socket = UnixStream::connect(world.socket()).unwrap();
    let request = json!({"op": "consume", "name": name});
    writeln!(socket, "{request}").unwrap();
    socket
}

#[test]
fn two_hundred_consumers_at_once_have_their_acknowledgements_kept() {
    let world = with_feed(12, 10);
    world.daemon();
    let names: Vec<String> = (0..200).map(|n| format!("c{n:03}")).collect();
    let sockets: Vec<UnixStream> = names.iter().map(|name| connect(&world, name)).collect();
    // Acknowledged at once, before a record was read.
    for (n, socket) in sockets.iter().enumerate() {
        writeln!(&*socket, "{{\"ack\":{}}}", n % 13).unwrap();
    }
    for (n, socket) in sockets.iter().enumerate() {
        let mut lines = BufReader::new(socket).lines();
        let confirmed = lines.find(|line| line.as_ref().unwrap().contains("acked"));
        let expected = format!(r#"{{"kind":"acked","acked":{}}}"#, n % 13);
        assert_eq!(confirmed.unwrap().unwrap(), expected);
    }
    world.kill_daemon();
    world.daemon();
    let listed = listed(&world);
    let expected = names
        .into_iter()
        .zip(0..)
        .map(|(name, n)| (name, n % 13, 12 - n % 13));
    assert_eq!(listed, expected.collect::<Vec<_>>());
}

#[test]
fn a_consumer_starts_where_it_is_told_and_moves_by_itself_if_it_is_told() {
    let world = with_feed(12, 10);
    world.daemon();
    let now = consume(&world, "now", &["--from", "now"]);
    assert_eq!(until_live(&now), [0_u64; 0]);
    let auto = consume(&world, "auto", &["--auto-ack"]);
    assert_eq!(until_live(&auto), range(1, 12));
    world.until_true("all is acknowledged", || {
        listed(&world) == [("auto".to_owned(), 12, 0), ("now".to_owned(), 12, 0)]
    });
    kill(now);
    kill(auto);
    world.run("web", "exec sleep 1000");
    world.until_delivered("started", "web");
    // It has a cursor: where new ones start is of no matter.
    let now = consume(&world, "now", &["--from", "now"]);
    let seqs = until_live(&now);
    assert_eq!(seqs.first(), Some(&13));
    // Neither daemon nor reader prints confirmations of what was acknowledged unasked.
    let mut auto = consume(&world, "auto", &["--auto-ack"]);
    until_live(&auto);
    world.until_true("all is acknowledged", || listed(&world)[0].2 == 0);
    auto.signal(Signal::INT);
    assert_eq!(auto.wait(), 130);
    assert_eq!(auto.rest(), [] as [Value; 0]);
}

#[test]
fn what_the_filter_left_out_is_acknowledged_with_what_came_before_it() {
    let mut world = World::new();
    world.run("mine", "exit 1");
    let n = until_follow_ups(&world, 1);
    let harness = consume(&world, "pi", &["--kind", "followUp", "--owner", "pi:1"]);
    assert_eq!(until_live(&harness), [n]);
    kill(harness);
    world.set("TMUX_TASK_OWNER", "pi:2");
    world.run("theirs", "exit 1");
    let last = until_follow_ups(&world, 2);
    let mut harness = consume(&world, "pi", &["--kind", "followUp", "--owner", "pi:1"]);
    assert_eq!(until_live(&harness), [n]);
    acknowledge(&mut harness, n);
    assert_eq!(listed(&world), [("pi".to_owned(), last, 0)]);
    kill(harness);
    let harness = consume(&world, "pi", &[]);
    assert_eq!(until_live(&harness), [0_u64; 0]);
}

/// Waits for that many follow-ups; returns the number of the last.
fn until_follow_ups(world: &World, n: usize) -> u64 {
    let is_follow_up = |record: &&Value| record["kind"] == "followUp";
    let records = world.until(&format!("{n} follow-ups"), |records| {
        records.iter().filter(is_follow_up).count() == n
    });
    records.last().unwrap()["seq"].as_u64().unwrap()
}

#[test]
fn consumers_are_listed_and_removed_with_and_without_a_daemon() {
    let world = with_feed(12, 10);
    let missing = world.task(["-s", "nowhere", "consumer", "ls"]);
    assert_eq!(missing.code, 3, "{missing}");
    assert_eq!(listed(&world), []);
    world.daemon();
    let mut harness = consume(&world, "pi", &[]);
    until_live(&harness);
    acknowledge(&mut harness, 5);
    let table = world.task(["consumer", "ls"]);
    let pid = harness.pid().as_raw_nonzero();
    let row = table.ok().lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        (cells[..3].join(" "), row.ends_with(&format!("  pid {pid}")),),
        ("pi 5 7".to_owned(), true)
    );
    let status = world.task(["daemon", "status"]);
    let line = format!("consumer pi: acknowledged up to 5, 7 behind, read by pid {pid}");
    assert!(status.ok().lines().any(|shown| shown == line), "{status}");
    world.task(["consumer", "rm", "pi"]).fails(
        1,
        &format!(
            "tmux-task: consumer rm: consumer `pi` is being read by process {pid}\n\
             hint: end that process first"
        ),
    );
    kill(harness);
    world.until_true("it has left", || {
        world.daemon_status()["consumers"][0]["reader"].is_null()
    });
    world.task(["daemon", "stop"]).ok();
    // Without a daemon, the files give the same answer.
    assert_eq!(listed(&world), [("pi".to_owned(), 5, 7)]);
    world.task(["consumer", "rm", "pi"]).ok();
    world.task(["consumer", "rm", "pi"]).fails(
        3,
        "tmux-task: consumer rm: no consumer `pi`\n\
         hint: `tmux-task consumer ls` shows which there are",
    );
    assert_eq!(world.task(["consumer", "rm", "../x"]).code, 2);
    assert_eq!(listed(&world), []);
    world.daemon();
    kill(consume_until_live(&world, "again"));
    world.until_true("it is removed", || {
        world.task(["consumer", "rm", "again"]).code == 0
    });
    assert_eq!(world.task(["consumer", "rm", "again"]).code, 3);
    assert_eq!(until_live(&consume(&world, "again", &[])), range(1, 12));
    // One that cannot be removed does not keep those that are named behind it.
    kill(consume_until_live(&world, "other"));
    world.until_true("all have left", || {
        let status = world.daemon_status();
        let mut consumers = status["consumers"].as_array().unwrap().iter();
        consumers.all(|consumer| consumer["reader"].is_null())
    });
    let removed = world.task(["consumer", "rm", "again", "nope", "neither", "other"]);
    assert_eq!(removed.code, 3);
    for name in ["nope", "neither"] {
        assert!(
            removed.err.contains(&format!("no consumer `{name}`")),
            "{removed}"
        );
    }
    assert_eq!(listed(&world), []);
}

fn consume_until_live(world: &World, name: &str) -> Running {
    let harness = consume(world, name, &[]);
    until_live(&harness);
    harness
}

#[test]
fn usage_is_checked() {
    let world = World::new();
    for args in [
        &["--consumer", "pi"][..],
        &["--follow", "--auto-ack"],
        &["--follow", "--take-over"],
        &["--follow", "--from", "now"],
        &["--follow", "--consumer", "pi", "--after", "3"],
        &["--follow", "--consumer", "pi", "--from", "then"],
        &["--follow", "--consumer", "../pi"],
        &["--follow", "--consumer", ""],
    ] {
        let refused = world.task([&["feed"], args].concat());
        assert_eq!(refused.code, 2, "{args:?}: {refused}");
    }
}

#[test]
fn a_feed_that_was_created_again_is_read_from_its_first_record() {
    let world = with_feed(12, 10);
    world.daemon();
    let mut harness = consume(&world, "pi", &[]);
    until_live(&harness);
    acknowledge(&mut harness, 9);
    kill(harness);
    world.task(["daemon", "stop"]).ok();
    for name in ["feed.jsonl", "session.json"] {
        fs::remove_file(world.state("work").join(name)).unwrap();
    }
    world.daemon();
    world.run("web", "exec sleep 1000");
    world.until_deliveries(1);
    let seqs = until_live(&consume(&world, "pi", &[]));
    assert_eq!(seqs.first(), Some(&1));
}

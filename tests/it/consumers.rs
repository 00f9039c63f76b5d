//! Consumers: confirmed acknowledgements are never lost, and all other records are sent again.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::slow_disk::Disk;
use crate::socket::ask;
use crate::support::{Running, World, append_notices, resident};

/// A feed of `n` records: one task's, and then notices of `size` bytes. No daemon runs.
fn with_feed(n: u64, size: usize) -> World {
    let world = World::new();
    world.run("api", "exit 3");
    world.until_delivered("exited", "api");
    let records = world.finish();
    let feed = world.state("work").join("feed.jsonl");
    append_notices(&feed, n - records.len() as u64, size);
    world
}

/// The same with twelve short records, and a daemon.
fn with_twelve() -> World {
    let world = with_feed(12, 10);
    world.daemon();
    world
}

/// A harness that reads as this consumer.
pub(crate) fn consume(world: &World, name: &str, args: &[&str]) -> Running {
    world.start_piped([&["feed", "--follow", "--consumer", name], args].concat())
}

/// The numbers of the records that a harness has until its stream is live.
#[track_caller]
pub(crate) fn until_live(harness: &Running) -> Vec<u64> {
    let lines = harness.records_until(|line| line["kind"] == "sync");
    let seqs = lines.iter().filter_map(|line| line["seq"].as_u64());
    seqs.collect()
}

/// A harness that reads as this consumer, and has had these records.
#[track_caller]
fn consume_all(world: &World, name: &str, expected: Vec<u64>) -> Running {
    let harness = consume(world, name, &[]);
    assert_eq!(until_live(&harness), expected);
    harness
}

/// Acknowledges a record and waits until that is confirmed.
#[track_caller]
pub(crate) fn acknowledge(harness: &mut Running, seq: u64) {
    harness.write(&format!("{{\"ack\":{seq}}}\n"));
    let lines = harness.records_until(|line| line["kind"] == "acked");
    assert_eq!(lines.last().unwrap()["acked"], seq);
}

/// The consumers as `consumer ls --json` lists them: name, cursor and lag.
fn listed(world: &World) -> Vec<(String, u64, u64)> {
    let list = world.json(["consumer", "ls", "--json"]);
    let consumers = list["consumers"].as_array().unwrap().iter();
    let fields = consumers.map(|one| {
        let number = |name: &str| one[name].as_u64().unwrap();
        let name = one["name"].as_str().unwrap();
        (name.to_owned(), number("cursor"), number("lag"))
    });
    fields.collect()
}

#[track_caller]
fn until_listed(world: &World, expected: &[(&str, u64, u64)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, cursor, lag)| ((*name).to_owned(), *cursor, *lag))
        .collect();
    world.until_true(&format!("{expected:?}"), || listed(world) == expected);
}

/// Waits until nobody reads as a consumer.
#[track_caller]
fn until_all_have_left(world: &World) {
    world.until_true("all have left", || {
        let consumers = world.consumers();
        consumers.iter().all(|one| one["reader"].is_null())
    });
}

fn range(from: u64, to: u64) -> Vec<u64> {
    (from..=to).collect()
}

#[test]
fn a_harness_that_was_killed_gets_what_it_had_not_acknowledged() {
    let world = with_twelve();
    let mut harness = consume_all(&world, "pi", range(1, 12));
    acknowledge(&mut harness, 5);
    harness.kill();
    let mut harness = consume_all(&world, "pi", range(6, 12));
    // Many at once are confirmed one by one.
    let many: String = (6..=12).map(|seq| format!("{{\"ack\":{seq}}}\n")).collect();
    harness.write(&many);
    let lines = harness.records_until(|line| line["acked"] == 12);
    let confirmed = lines.iter().filter_map(|line| line["acked"].as_u64());
    assert_eq!(confirmed.collect::<Vec<_>>(), range(6, 12));
    harness.kill();
    let harness = consume_all(&world, "pi", Vec::new());
    until_listed(&world, &[("pi", 12, 0)]);
    // What is recorded from here on comes as it happens.
    world.run("web", "exec sleep 1000");
    let lines = harness.records_until(|line| line["type"] == "started");
    assert_eq!(lines.last().unwrap()["seq"], 13);
}

#[test]
fn what_a_killed_daemon_has_confirmed_is_on_the_disk_and_nothing_else_is_confirmed() {
    let world = with_feed(12, 10);
    let disk = Disk::new(&world);
    let _release = world.gate("gate-of-disk");
    disk.start_daemon(&world);
    let mut harness = consume_all(&world, "pi", range(1, 12));
    acknowledge(&mut harness, 3);
    disk.hold();
    harness.write("{\"ack\":7}\n");
    world.until_true("the sync hangs", || disk.hangs.exists());
    // Requests are answered meanwhile.
    assert_eq!(world.consumers()[0]["cursor"], 7);
    world.kill_daemon();
    // The stream ends with its daemon.
    assert_eq!(harness.rest(), [] as [Value; 0]);
    assert_eq!(harness.wait(), 0);
    world.daemon();
    consume_all(&world, "pi", range(4, 12));
}

#[test]
fn a_second_harness_is_refused_unless_it_takes_over() {
    let world = with_twelve();
    let mut first = consume_all(&world, "pi", range(1, 12));
    acknowledge(&mut first, 2);
    let pid = first.pid().as_raw_nonzero();
    let refused = world.task(["feed", "--follow", "--consumer", "pi"]);
    let why = format!("tmux-task: feed: consumer `pi` is being read by process {pid}");
    let hint = "hint: `--take-over` ends its stream and reads in its place";
    refused.fails(1, &format!("{why}\n{hint}"));
    let mut second = consume(&world, "pi", &["--take-over"]);
    assert_eq!(until_live(&second), range(3, 12));
    let rest = first.rest();
    assert_eq!(rest, [json!({"kind": "replaced"})]);
    assert_eq!(first.wait(), 0);
    acknowledge(&mut second, 12);
    until_listed(&world, &[("pi", 12, 0)]);
    let pid = second.pid().as_raw_nonzero().get();
    assert_eq!(world.consumers()[0]["reader"], pid);
}

/// A harness that never reads: its pipe is full soon. Dropping it ends it.
struct Stuck(Child);

impl Drop for Stuck {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Stuck {
    fn consume(world: &World, name: &str) -> Self {
        let mut command = world.command(World::program());
        command.args(["feed", "--follow", "--consumer", name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let stuck = Self(command.spawn().unwrap());
        world.until_true("it is being read", || {
            world
                .consumers()
                .first()
                .is_some_and(|one| one["reader"] == stuck.0.id())
        });
        stuck
    }
}

#[test]
fn a_harness_that_never_reads_holds_nobody_up_and_loses_nothing() {
    let n = 20_000;
    let world = with_feed(n, 1000);
    world.daemon();
    let daemon = world.daemon_pid();
    let before = resident(daemon).unwrap();
    let mut stuck = Stuck::consume(&world, "stuck");
    let mut quick = consume_all(&world, "quick", range(1, n));
    acknowledge(&mut quick, n);
    world.run("web", "exec sleep 1000");
    quick.records_until(|line| line["type"] == "started");
    // The feed has 20 MB; the daemon has them neither for the one that reads nor for the other.
    let more = resident(daemon).unwrap().saturating_sub(before);
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
fn a_harness_that_is_stuck_can_be_taken_over_from() {
    let world = with_feed(3000, 1000);
    world.daemon();
    let _stuck = Stuck::consume(&world, "pi");
    let second = consume(&world, "pi", &["--take-over"]);
    assert_eq!(until_live(&second), range(1, 3000));
}

/// A consumer on the daemon's socket.
fn connect(world: &World, name: &str) -> UnixStream {
    ask(world, &json!({"op": "consume", "name": name}))
}

/// Waits until the daemon has confirmed this on a socket.
#[track_caller]
fn check_confirmed(socket: &UnixStream, seq: u64) {
    let mut lines = BufReader::new(socket).lines();
    let confirmed = lines.find(|line| line.as_ref().unwrap().contains("acked"));
    let expected = format!(r#"{{"kind":"acked","acked":{seq}}}"#);
    assert_eq!(confirmed.unwrap().unwrap(), expected);
}

#[test]
fn half_a_line_acknowledges_nothing() {
    let world = with_twelve();
    let mut harness = consume_all(&world, "pi", range(1, 12));
    harness.write("{\"ack\":2}\n{\"ack\":1");
    harness.records_until(|line| line["acked"] == 2);
    // The stream continues without the rest.
    harness.close_stdin();
    world.run("web", "exec sleep 1000");
    harness.records_until(|line| line["type"] == "started");
    harness.kill();
    // The same on the socket, where no command mends it.
    let mut socket = connect(&world, "raw");
    socket.write_all(b"{\"ack\":3}\n{\"ack\":12}").unwrap();
    check_confirmed(&socket, 3);
    drop(socket);
    until_all_have_left(&world);
    let cursors: Vec<u64> = listed(&world).iter().map(|one| one.1).collect();
    assert_eq!(cursors, [2, 3]);
}

#[test]
fn what_cannot_be_acknowledged_ends_the_stream() {
    let world = with_twelve();
    let epoch = world.records()[0]["epoch"].as_str().unwrap().to_owned();
    let unknown = format!("no record 99 to acknowledge: the feed's last is {epoch}:12");
    let wrong = "standard input has no line like {\"ack\":12}: expected value at line 1 column 1";
    for (line, code, why) in [("{\"ack\":99}\n", 1, &*unknown), ("ok\n", 2, wrong)] {
        let mut harness = consume_all(&world, "pi", range(1, 12));
        harness.write(line);
        assert_eq!(harness.complaint(), format!("tmux-task: feed: {why}"));
        assert_eq!(harness.wait(), code);
    }
    until_listed(&world, &[("pi", 0, 12)]);
    // On the socket the daemon says so itself.
    let mut socket = connect(&world, "raw");
    socket.write_all(b"ok\n").unwrap();
    let last = BufReader::new(socket).lines().last().unwrap().unwrap();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["answer"], "refused");
    assert_eq!(last["kind"], "usage");
}

#[test]
fn a_consumer_starts_where_it_is_told_and_moves_by_itself_if_it_is_told() {
    let world = with_twelve();
    let now = consume(&world, "now", &["--from", "now"]);
    assert_eq!(until_live(&now), [0_u64; 0]);
    let auto = consume(&world, "auto", &["--auto-ack"]);
    assert_eq!(until_live(&auto), range(1, 12));
    until_listed(&world, &[("auto", 12, 0), ("now", 12, 0)]);
    now.kill();
    auto.kill();
    world.run("web", "exec sleep 1000");
    world.until_delivered("started", "web");
    // It has a cursor: where new ones start is of no matter.
    let now = consume(&world, "now", &["--from", "now"]);
    assert_eq!(until_live(&now).first(), Some(&13));
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
    let world = World::new();
    world.run("mine", "exit 1");
    let n = until_follow_ups(&world, 1);
    let consume_own = || {
        let own = ["--kind", "followUp", "--owner", "pi:1"];
        let harness = consume(&world, "pi", &own);
        assert_eq!(until_live(&harness), [n]);
        harness
    };
    consume_own().kill();
    world
        .task_as("pi:2", ["run", "theirs", "--", "exit 1"])
        .ok();
    let last = until_follow_ups(&world, 2);
    let mut harness = consume_own();
    acknowledge(&mut harness, n);
    until_listed(&world, &[("pi", last, 0)]);
    harness.kill();
    consume_all(&world, "pi", Vec::new());
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
    missing.fails_with(3);
    until_listed(&world, &[]);
    world.daemon();
    let mut harness = consume_all(&world, "pi", range(1, 12));
    acknowledge(&mut harness, 5);
    let pid = harness.pid().as_raw_nonzero();
    let table = world.task(["consumer", "ls"]);
    let row = table.ok().lines().nth(1).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..3], ["pi", "5", "7"]);
    assert!(row.ends_with(&format!("  pid {pid}")), "{row}");
    let status = world.task(["daemon", "status"]);
    let line = format!("consumer pi: acknowledged up to 5, 7 behind, read by pid {pid}");
    assert!(status.ok().lines().any(|shown| shown == line), "{status}");
    let remove = |names: &[&str]| world.task([&["consumer", "rm"], names].concat());
    let why = format!("tmux-task: consumer rm: consumer `pi` is being read by process {pid}");
    remove(&["pi"]).fails(1, &format!("{why}\nhint: end that process first"));
    harness.kill();
    until_all_have_left(&world);
    world.task(["daemon", "stop"]).ok();
    // Without a daemon, the files give the same answer.
    until_listed(&world, &[("pi", 5, 7)]);
    remove(&["pi"]).ok();
    let hint = "hint: `tmux-task consumer ls` shows which there are";
    let why = format!("tmux-task: consumer rm: no consumer `pi`\n{hint}");
    remove(&["pi"]).fails(3, &why);
    remove(&["../x"]).fails_with(2);
    until_listed(&world, &[]);
    world.daemon();
    consume_all(&world, "again", range(1, 12)).kill();
    world.until_true("it is removed", || remove(&["again"]).code == 0);
    remove(&["again"]).fails_with(3);
    consume_all(&world, "again", range(1, 12)).kill();
    // One that cannot be removed does not keep those that are named behind it.
    consume_all(&world, "other", range(1, 12)).kill();
    until_all_have_left(&world);
    let removed = remove(&["again", "nope", "neither", "other"]);
    removed.fails_with(3);
    removed
        .says("no consumer `nope`")
        .says("no consumer `neither`");
    until_listed(&world, &[]);
}

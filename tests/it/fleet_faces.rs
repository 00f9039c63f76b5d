//! What a user sees of a fleet: tasks and records of all hosts, and which hosts are gone.

use std::fs;
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Broker, FleetHosts, Running, World, exited};

/// A world whose configuration names a broker.
fn fleet_world() -> (World, Broker) {
    let world = World::new();
    let broker = Broker::start(&world);
    configure(&world, &broker.url());
    (world, broker)
}

fn configure(world: &World, url: &str) {
    let file = world.path("conf/tmux-task/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let text = format!("[fleet]\nurl = \"{url}\"\nhost = \"laptop\"\n");
    fs::write(file, text).unwrap();
}

#[track_caller]
fn hosts_of(world: &World) -> Vec<Value> {
    let output = world.task(["fleet", "ls", "--json"]);
    let value: Value = serde_json::from_str(output.ok()).unwrap();
    value["hosts"].as_array().unwrap().clone()
}

fn follow(world: &World, args: &[&str]) -> Running {
    let mut command = world.command(World::program());
    command.args(["fleet", "feed", "--follow"]).args(args);
    command.stdin(Stdio::piped());
    Running::start(command)
}

#[track_caller]
fn kept(world: &World, args: &[&str]) -> Vec<Value> {
    let output = world.task([&["fleet", "feed"], args].concat());
    let lines = output.ok().lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn places(records: &[Value]) -> Vec<u64> {
    let places = records.iter().map(|record| record["fleetSeq"].as_u64());
    places.flatten().collect()
}

/// The places of what a stream has until it is live.
#[track_caller]
fn until_live(stream: &Running) -> Vec<u64> {
    places(&stream.records_until(|line| line["kind"] == "sync"))
}

#[test]
fn the_tasks_of_all_hosts_are_listed_and_which_hosts_are_gone() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    assert_eq!(hosts_of(&world), Vec::<Value>::new());
    hosts.beat("gpu1", "3600");
    hosts.session(
        "gpu1",
        "work",
        &[("@10", "train", "running"), ("@9", "prepare", "exited")],
    );
    hosts.beat("box", "1");
    hosts.session("box", "api", &[("@1", "serve", "waiting")]);
    world.until_true("the host is gone", || {
        hosts_of(&world)[0]["goneSince"].is_i64()
    });
    let listed = hosts_of(&world);
    assert_eq!(
        (&listed[0]["host"], &listed[1]["host"]),
        (&json!("box"), &json!("gpu1"))
    );
    assert_eq!(listed[1].get("goneSince"), None);
    assert_eq!(listed[1]["allow"], json!(["ls"]));
    let tasks = listed[1]["sessions"][0]["tasks"].as_array().unwrap();
    let names: Vec<&str> = tasks
        .iter()
        .map(|task| task["windowName"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["prepare", "train"]);
    let output = world.task(["fleet", "ls"]);
    let text = output.ok();
    assert!(text.contains("box: api (1 task, gone since 20"), "{text}");
    assert!(text.contains("gpu1: work (2 tasks)\n"), "{text}");
    assert!(text.contains("@9   prepare  exited   2"), "{text}");
    let output = world.task(["fleet", "status"]);
    let text = output.ok();
    assert!(text.contains("hosts:   1 here, 1 gone\n"), "{text}");
    assert!(text.contains("TT_FEED: 0 messages"), "{text}");
}

#[test]
fn records_name_the_host_of_their_subject_and_can_be_selected() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    hosts.exited("gpu1", 1, "a");
    let mut forged = exited(1, "b\u{1b}[2J");
    forged["host"] = "gpu1".into();
    forged["fleetSeq"] = 99.into();
    hosts.publish("tt.v1.feed.box.k.event.exited", &[], &forged.to_string());
    // What is no record, pretends to be another kind, and what no host can be called.
    hosts.publish("tt.v1.feed.box.k.notice.all", &[], r#"{"kind": "sync"}"#);
    hosts.publish("tt.v1.feed.box.k.event.exited", &[], "no record");
    hosts.publish(
        "tt.v1.feed.a=0Ab.k.event.exited",
        &[],
        &exited(1, "c").to_string(),
    );
    let mut notice = exited(2, "d");
    notice["kind"] = "notice".into();
    notice["text"] = "tmux task @1 (d) started".into();
    hosts.publish("tt.v1.feed.box.k.notice.all", &[], &notice.to_string());
    let all = kept(&world, &[]);
    assert_eq!(places(&all), [1, 2, 6]);
    let names: Vec<_> = all
        .iter()
        .map(|one| (&one["host"], &one["task"]["windowName"]))
        .collect();
    let expected = [("gpu1", "a"), ("box", "b"), ("box", "d")];
    let expected = expected.map(|(host, name)| (json!(host), json!(name)));
    assert_eq!(
        names,
        expected
            .iter()
            .map(|(host, name)| (host, name))
            .collect::<Vec<_>>()
    );
    let notices = kept(&world, &["--kind", "notice"]);
    assert_eq!(places(&notices), [6]);
    assert_eq!(notices[0]["text"], "tmux task box:@1 (d) started");
    assert_eq!(
        places(&kept(&world, &["--type", "exited", "--after", "1"])),
        [2]
    );
    assert_eq!(kept(&world, &["--type", "input"]), Vec::<Value>::new());
}

#[test]
fn what_a_consumer_has_not_acknowledged_comes_again_and_nothing_else() {
    let (world, mut broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    for seq in 1..=5 {
        hosts.exited("gpu1", seq, "a");
    }
    let mut first = follow(&world, &["--consumer", "me"]);
    assert_eq!(until_live(&first), [1, 2, 3, 4, 5]);
    first.write("{\"ack\":3}\n");
    let acked = first.records_until(|line| line["kind"] == "acked");
    assert_eq!(acked.last().unwrap()["acked"], 3);
    let second = world.task(["fleet", "feed", "--follow", "--consumer", "me"]);
    second.fails(
        1,
        "tmux-task: fleet feed: another process reads as consumer `me`",
    );
    drop(first);
    // The broker notices at once that the connection is closed.
    let mut again = until_free(&world);
    assert_eq!(until_live(&again), [4, 5]);
    // Everything of this is on the broker's disk.
    broker.kill();
    let lost = again.complaint();
    let expected = "tmux-task: fleet feed: the connection to the broker broke; connecting again";
    assert_eq!(lost, expected);
    broker.start_again();
    let hosts = FleetHosts::connect(&broker);
    hosts.exited("gpu1", 6, "a");
    // What was printed is not printed again on this stream.
    let more = again.records_until(|line| line["fleetSeq"].is_u64());
    assert_eq!(places(&more), [6]);
    again.write("{\"ack\":6}\n");
    again.records_until(|line| line["kind"] == "acked");
    again.write("{\"ack\":7}\n");
    assert_eq!(again.wait(), 1);
    let expected = "tmux-task: fleet feed: 7 was acknowledged, but not sent";
    assert_eq!(again.complaint(), expected);
    hosts.exited("gpu1", 7, "a");
    let last = until_free(&world);
    assert_eq!(until_live(&last), [7]);
}

/// Begins to read as consumer `me`, once nobody else does.
#[track_caller]
fn until_free(world: &World) -> Running {
    let found = std::cell::RefCell::new(None);
    world.until_true("the consumer is free", || {
        let stream = follow(world, &["--consumer", "me"]);
        let is_free = stream.first_line().is_some();
        if is_free {
            found.replace(Some(stream));
        }
        is_free
    });
    found.into_inner().unwrap()
}

#[test]
fn a_stream_says_which_hosts_are_gone_and_back() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    hosts.beat("gpu1", "3600");
    hosts.beat("box", "1");
    world.until_true("the host is gone", || {
        hosts_of(&world)[0]["goneSince"].is_i64()
    });
    let stream = follow(&world, &[]);
    // Hosts that are gone are news to whoever begins to read, those that are there are not.
    let gone = stream.records_until(|line| line["kind"] == "hostGone");
    assert_eq!(gone.last().unwrap()["host"], "box");
    hosts.beat("box", "1");
    let back = stream.records_until(|line| line["kind"] == "hostBack");
    assert_eq!(back.last().unwrap()["host"], "box");
    let gone = stream.records_until(|line| line["kind"] == "hostGone");
    assert_eq!(gone.last().unwrap()["host"], "box");
    hosts.beat("new", "3600");
    let back = stream.records_until(|line| line["kind"] == "hostBack");
    assert_eq!(back.last().unwrap()["host"], "new");
}

#[test]
fn a_broker_that_has_lost_everything_begins_again_for_its_readers() {
    let (world, mut broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    for seq in 1..=4 {
        hosts.exited("gpu1", seq, "a");
    }
    let streams = [follow(&world, &[]), follow(&world, &["--after", "3"])];
    streams.iter().for_each(|stream| drop(until_live(stream)));
    // They come back when it has new records already.
    streams
        .iter()
        .for_each(|stream| stream.signal(Signal::STOP));
    broker.kill();
    broker.wipe();
    broker.start_again();
    let hosts = FleetHosts::of(&broker);
    for seq in 3..=5 {
        hosts.exited("gpu1", seq, "a");
    }
    streams
        .iter()
        .for_each(|stream| stream.signal(Signal::CONT));
    for stream in &streams {
        let lines = stream.records_until(|line| line["fleetSeq"] == 3);
        assert_eq!(lines[0]["kind"], "hello");
        assert_eq!(places(&lines), [1, 2, 3]);
    }
    // Who was not there meanwhile learns that its place is of before.
    let beyond = "tmux-task: fleet feed: there is no record 4: the last one is 3";
    for args in [
        &["fleet", "feed", "--after", "4"][..],
        &["fleet", "feed", "-f", "--after", "4"],
    ] {
        let output = world.task(args);
        assert_eq!(output.code, 1, "{output}");
        assert!(output.err.starts_with(beyond), "{output}");
    }
}

#[test]
fn what_the_broker_has_removed_is_a_gap() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    for seq in 1..=4 {
        hosts.exited("gpu1", seq, "a");
    }
    hosts.purge_up_to("TT_FEED", 3);
    let all = kept(&world, &["--after", "1"]);
    assert_eq!(all[0], json!({"kind": "gap", "from": 2, "to": 2}));
    assert_eq!(places(&all), [3, 4]);
    assert_eq!(places(&kept(&world, &["--after", "2"])), [3, 4]);
    let consumer = follow(&world, &["--consumer", "late"]);
    let lines = consumer.records_until(|line| line["kind"] == "sync");
    assert_eq!(lines[1], json!({"kind": "gap", "from": 1, "to": 2}));
    assert_eq!(places(&lines), [3, 4]);
}

#[test]
fn without_a_broker_one_line_says_what_to_do() {
    let world = World::new();
    let expected = "tmux-task: fleet ls: the configuration names no broker\n\
        hint: `[fleet]` with `url = \"nats://...\"` names it; see docs/fleet.md";
    world.task(["fleet", "ls"]).fails(1, expected);
    let broker = Broker::start(&world);
    configure(&world, &broker.url());
    for command in ["ls", "feed", "status"] {
        let output = world.task(["fleet", command]);
        assert_eq!((output.code, output.out.as_str()), (1, ""), "{output}");
        assert!(output.err.contains("TT_"), "{output}");
        assert_eq!(output.err.lines().count(), 2, "{output}");
    }
    let url = broker.url();
    drop(broker);
    let output = world.task(["fleet", "status"]);
    assert_eq!(output.code, 1, "{output}");
    let expected = format!("tmux-task: fleet status: could not reach the broker at {url}");
    assert!(output.err.starts_with(&expected), "{output}");
}

//! What a user sees of a fleet: tasks and records of all hosts, and which hosts are gone.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Broker, FleetHosts, Running, World, exited, has, names, parse_lines};

/// A world whose configuration names a broker.
fn fleet_world() -> (World, Broker) {
    let world = World::new();
    let broker = Broker::start(&world);
    world.join_fleet(&broker.url(), "laptop", "");
    (world, broker)
}

/// Hosts, of which `gpu1` has recorded the ends of so many tasks.
fn with_ends(broker: &Broker, n: u64) -> FleetHosts {
    let hosts = FleetHosts::of(broker);
    for seq in 1..=n {
        hosts.exited("gpu1", seq, "a");
    }
    hosts
}

#[track_caller]
fn hosts_of(world: &World) -> Vec<Value> {
    let listed = world.json(["fleet", "ls", "--json"]);
    listed["hosts"].as_array().unwrap().clone()
}

#[track_caller]
fn until_first_is_gone(world: &World) {
    world.until_true("the host is gone", || {
        hosts_of(world)[0]["goneSince"].is_i64()
    });
}

fn follow(world: &World, args: &[&str]) -> Running {
    world.start_piped([&["fleet", "feed", "--follow"], args].concat())
}

#[track_caller]
fn kept(world: &World, args: &[&str]) -> Vec<Value> {
    let output = world.task([&["fleet", "feed"], args].concat());
    parse_lines(output.ok())
}

fn places(records: &[Value]) -> Vec<u64> {
    let places = records.iter().map(|record| record["fleetSeq"].as_u64());
    places.flatten().collect()
}

/// What a stream has until it is live.
#[track_caller]
fn until_live(stream: &Running) -> Vec<Value> {
    stream.records_until(|line| line["kind"] == "sync")
}

#[test]
fn the_tasks_of_all_hosts_are_listed_and_which_hosts_are_gone() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    assert_eq!(hosts_of(&world), Vec::<Value>::new());
    hosts.beat("gpu1", "3600");
    let tasks = [("@10", "train", "running"), ("@9", "prepare", "exited")];
    hosts.session("gpu1", "work", &tasks);
    hosts.beat("box", "1");
    hosts.session("box", "api", &[("@1", "serve", "waiting")]);
    until_first_is_gone(&world);
    let listed = hosts_of(&world);
    let [gone, here] = &listed[..] else {
        panic!("{listed:?}");
    };
    assert_eq!([&gone["host"], &here["host"]], ["box", "gpu1"]);
    assert_eq!(here.get("goneSince"), None);
    assert_eq!(here["allow"], json!(["ls"]));
    let tasks = &here["sessions"][0]["tasks"];
    assert_eq!(names(tasks), ["prepare", "train"]);
    let listed = world.task(["fleet", "ls"]);
    for part in [
        "box: api (1 task, gone since 20",
        "gpu1: work (2 tasks)\n",
        "@9   prepare  exited   2",
    ] {
        has(listed.ok(), part);
    }
    let status = world.task(["fleet", "status"]);
    has(status.ok(), "hosts:   1 here, 1 gone\n");
    status.shows("TT_FEED: 0 messages");
}

#[test]
fn records_name_the_host_of_their_subject_and_can_be_selected() {
    let (world, broker) = fleet_world();
    let hosts = FleetHosts::of(&broker);
    hosts.exited("gpu1", 1, "a");
    let mut forged = exited(1, "b\u{1b}[2J");
    forged["host"] = "gpu1".into();
    forged["fleetSeq"] = 99.into();
    let mut notice = exited(2, "d");
    notice["kind"] = "notice".into();
    notice["text"] = "tmux task @1 (d) started".into();
    for (subject, text) in [
        ("box.k.event.exited", forged.to_string()),
        // What is no record, pretends to be another kind, and what no host can be called.
        ("box.k.notice.all", r#"{"kind": "sync"}"#.to_owned()),
        ("box.k.event.exited", "no record".to_owned()),
        ("a=0Ab.k.event.exited", exited(1, "c").to_string()),
        ("box.k.notice.all", notice.to_string()),
    ] {
        hosts.publish(&format!("tt.v1.feed.{subject}"), &[], &text);
    }
    let all = kept(&world, &[]);
    let told = all.iter().map(|one| {
        let name = &one["task"]["windowName"];
        (
            one["fleetSeq"].as_u64(),
            one["host"].as_str(),
            name.as_str(),
        )
    });
    let expected = [(1, "gpu1", "a"), (2, "box", "b"), (6, "box", "d")];
    let expected = expected.map(|(place, host, name)| (Some(place), Some(host), Some(name)));
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let notices = kept(&world, &["--kind", "notice"]);
    assert_eq!(places(&notices), [6]);
    assert_eq!(notices[0]["text"], "tmux task box:@1 (d) started");
    let later = kept(&world, &["--type", "exited", "--after", "1"]);
    assert_eq!(places(&later), [2]);
    assert_eq!(kept(&world, &["--type", "input"]), Vec::<Value>::new());
}

#[test]
fn what_a_consumer_has_not_acknowledged_comes_again_and_nothing_else() {
    let (world, mut broker) = fleet_world();
    with_ends(&broker, 5);
    let mut first = follow(&world, &["--consumer", "me"]);
    assert_eq!(places(&until_live(&first)), [1, 2, 3, 4, 5]);
    first.write("{\"ack\":3}\n");
    first.records_until(|line| line["acked"] == 3);
    let second = world.task(["fleet", "feed", "--follow", "--consumer", "me"]);
    let why = "tmux-task: fleet feed: another process reads as consumer `me`";
    second.fails(1, why);
    drop(first);
    // The broker notices at once that the connection is closed.
    let mut again = until_free(&world);
    assert_eq!(places(&until_live(&again)), [4, 5]);
    // Everything of this is on the broker's disk.
    broker.kill();
    let lost = "tmux-task: fleet feed: the connection to the broker broke; connecting again";
    assert_eq!(again.complaint(), lost);
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
    assert_eq!(places(&until_live(&last)), [7]);
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
    until_first_is_gone(&world);
    let stream = follow(&world, &[]);
    let check = |kind: &str, host: &str| {
        let lines = stream.records_until(|line| line["kind"] == kind);
        assert_eq!(lines.last().unwrap()["host"], host, "{kind}");
    };
    // Hosts that are gone are news to whoever begins to read, those that are there are not.
    check("hostGone", "box");
    hosts.beat("box", "1");
    check("hostBack", "box");
    check("hostGone", "box");
    hosts.beat("new", "3600");
    check("hostBack", "new");
}

#[test]
fn a_broker_that_has_lost_everything_begins_again_for_its_readers() {
    let (world, mut broker) = fleet_world();
    with_ends(&broker, 4);
    let streams = [follow(&world, &[]), follow(&world, &["--after", "3"])];
    let signal = |signal| streams.iter().for_each(|stream| stream.signal(signal));
    streams.iter().for_each(|stream| drop(until_live(stream)));
    // They come back when it has new records already.
    signal(Signal::STOP);
    broker.kill();
    broker.wipe();
    broker.start_again();
    with_ends(&broker, 3);
    signal(Signal::CONT);
    for stream in &streams {
        let lines = stream.records_until(|line| line["fleetSeq"] == 3);
        assert_eq!(lines[0]["kind"], "hello");
        assert_eq!(places(&lines), [1, 2, 3]);
    }
    // Who was not there meanwhile learns that its place is of before.
    let beyond = "tmux-task: fleet feed: there is no record 4: the last one is 3";
    for follow in [&[][..], &["-f"]] {
        let output = world.task([&["fleet", "feed", "--after", "4"], follow].concat());
        output.fails_so(1, beyond);
    }
}

#[test]
fn what_the_broker_has_removed_is_a_gap() {
    let (world, broker) = fleet_world();
    let hosts = with_ends(&broker, 4);
    hosts.purge_up_to("TT_FEED", 3);
    let all = kept(&world, &["--after", "1"]);
    assert_eq!(all[0], json!({"kind": "gap", "from": 2, "to": 2}));
    assert_eq!(places(&all), [3, 4]);
    assert_eq!(places(&kept(&world, &["--after", "2"])), [3, 4]);
    let lines = until_live(&follow(&world, &["--consumer", "late"]));
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
    let url = broker.url();
    world.join_fleet(&url, "laptop", "");
    for command in ["ls", "feed", "status"] {
        let output = world.task(["fleet", command]);
        output.fails_so(1, "").says("TT_");
        assert_eq!(
            (output.err.lines().count(), &*output.out),
            (2, ""),
            "{output}"
        );
    }
    drop(broker);
    let expected = format!("tmux-task: fleet status: could not reach the broker at {url}");
    world.task(["fleet", "status"]).fails_so(1, &expected);
}

//! How long after a record is on its host's disk a durable consumer of the broker has it, beside the
//! broker's own time from publishing to a durable consumer, in the same run.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{AckPolicy, pull};
use async_nats::{HeaderMap, jetstream};
use futures_util::StreamExt;
use serde_json::Value;
use tokio::sync::mpsc;

use super::reader::Latency;
use super::support::{Broker, World};

/// How many tasks start and end.
const RUNS: usize = 100;

/// The subject of the messages that no daemon publishes.
const PLAIN: &str = "tt.v1.feed.plain.bench.event.notify";

#[derive(Default)]
struct Times {
    /// When a record was on the disk, by number.
    local: BTreeMap<u64, Instant>,
    /// When the consumer had it.
    remote: BTreeMap<u64, Instant>,
    plain: Vec<Duration>,
}

pub(crate) fn run(server: &Broker) {
    let world = World::new();
    world.join_fleet(&server.url(), "host", "");
    let times = Mutex::new(Times::default());
    let (publish, to_publish) = mpsc::unbounded_channel();
    // The feed is there when it is followed.
    world.call("run first --wait -- true").ok();
    let mut follower = world.command(World::program());
    follower.args(["feed", "--follow", "--kind", "event"]);
    let mut follower = follower.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    thread::scope(|scope| {
        scope.spawn(|| consume(&server.url(), &times, to_publish));
        scope.spawn(|| {
            for line in lines.map_while(Result::ok) {
                let record: Value = serde_json::from_str(&line).unwrap();
                if let Some(seq) = record["seq"].as_u64() {
                    times.lock().unwrap().local.insert(seq, Instant::now());
                    publish.send(Instant::now()).ok();
                }
            }
            drop(publish);
        });
        for n in 0..RUNS {
            world.call(&format!("run t{} --wait -- true", n % 10)).ok();
        }
        super::until("the consumer has all records", || {
            let times = times.lock().unwrap();
            times.local.len() >= RUNS
                && times.local.keys().all(|seq| times.remote.contains_key(seq))
                && times.plain.len() == times.local.len()
        });
        follower.kill().unwrap();
        follower.wait().unwrap();
    });
    let times = times.into_inner().unwrap();
    // What the daemon was still connecting for is not counted.
    let after_start = times.local.iter().skip(RUNS / 2);
    let ours = after_start.map(|(seq, at)| times.remote[seq].saturating_duration_since(*at));
    println!(
        "record on the disk to durable consumer: {}",
        Latency::of(ours.collect())
    );
    println!(
        "publish to durable consumer:            {}",
        Latency::of(times.plain)
    );
}

/// Consumes what is published, and publishes itself whenever it is asked to, until nobody asks any more.
fn consume(url: &str, times: &Mutex<Times>, mut asked: mpsc::UnboundedReceiver<Instant>) {
    super::runtime().block_on(async {
        let publisher = jetstream::new(async_nats::connect(url).await.unwrap());
        let reader = jetstream::new(async_nats::connect(url).await.unwrap());
        let stream = reader.get_stream("TT_FEED").await.unwrap();
        let config = pull::Config {
            durable_name: Some("latency".to_owned()),
            ack_policy: AckPolicy::All,
            max_ack_pending: -1,
            ..pull::Config::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let mut messages = consumer.messages().await.unwrap();
        let mut sent = BTreeMap::new();
        loop {
            tokio::select! {
                at = asked.recv() => {
                    let Some(at) = at else { return };
                    let number = sent.len().to_string();
                    let mut headers = HeaderMap::new();
                    headers.insert("Number", number.as_str());
                    sent.insert(number, at);
                    drop(publisher.publish_with_headers(PLAIN, headers, "x".repeat(1500).into()).await);
                }
                message = messages.next() => {
                    let (message, now) = (message.unwrap().unwrap(), Instant::now());
                    let headers = message.headers.as_ref().unwrap();
                    let mut times = times.lock().unwrap();
                    if let Some(number) = headers.get("Number") {
                        times.plain.push(now - sent[number.as_str()]);
                    } else {
                        let id = headers.get("Nats-Msg-Id").unwrap().as_str();
                        let (_, seq) = id.rsplit_once(':').unwrap();
                        times.remote.entry(seq.parse().unwrap()).or_insert(now);
                    }
                }
            }
        }
    });
}

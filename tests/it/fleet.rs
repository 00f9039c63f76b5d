//! A daemon in a fleet: what it publishes on the broker.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use async_nats::jetstream::{self, Context};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::support::{Broker, World};

/// Configures the broker, as this host.
fn join(world: &World, broker: &Broker, more: &str) {
    let folder = world.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    let url = broker.url();
    let text = format!("notices = []\n[fleet]\nurl = '{url}'\nhost = 'gpu1'\n{more}");
    fs::write(folder.join("config.toml"), text).unwrap();
}

/// What is stored on the broker.
struct Stored {
    runtime: Runtime,
    context: Context,
}

impl Stored {
    fn on(broker: &Broker) -> Self {
        Self::with(broker, async_nats::ConnectOptions::new())
    }

    fn with(broker: &Broker, options: async_nats::ConnectOptions) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let context = runtime
            .block_on(async { jetstream::new(options.connect(broker.url()).await.unwrap()) });
        Self { runtime, context }
    }

    /// The messages of a stream that there is: subject and contents.
    fn of(&self, stream: &str) -> Vec<(String, Value)> {
        self.runtime.block_on(async {
            let Ok(mut stream) = self.context.get_stream(stream).await else {
                return Vec::new();
            };
            let state = stream.info().await.unwrap().state.clone();
            let mut all = Vec::new();
            for place in state.first_sequence..=state.last_sequence {
                let Ok(message) = stream.get_raw_message(place).await else {
                    continue;
                };
                let value = serde_json::from_slice(&message.payload).unwrap_or_default();
                all.push((message.subject.to_string(), value));
            }
            all
        })
    }

    /// The sequence numbers of the records that were published.
    fn seqs(&self) -> Vec<u64> {
        let records = self.of("TT_FEED");
        let seq = |(_, record): &(String, Value)| record["seq"].as_u64().unwrap();
        records.iter().map(seq).collect()
    }
}

fn seqs_of(world: &World) -> Vec<u64> {
    let records = world.records();
    let seqs = records.iter().filter_map(|record| record["seq"].as_u64());
    seqs.collect()
}

#[test]
fn each_record_is_published_once_whatever_ends_meanwhile() {
    let world = World::new();
    let mut broker = Broker::start(&world);
    join(&world, &broker, "");
    world.run("one", "exit 3");
    world.until_delivered("exited", "one");
    let stored = Stored::on(&broker);
    world.until_true("the broker has the records", || {
        stored.seqs() == seqs_of(&world)
    });
    let records = stored.of("TT_FEED");
    let (subject, first) = &records[0];
    assert!(subject.starts_with("tt.v1.feed.gpu1."), "{subject}");
    assert!(subject.ends_with(".event.started"), "{subject}");
    assert_eq!(first["host"], "gpu1");
    assert_eq!(first["checkpoint"], Value::Null);
    // A killed daemon, and the one after it.
    world.kill_daemon();
    world.run("two", "exit 0");
    world.until_delivered("exited", "two");
    world.until_true("what came after it is there once", || {
        stored.seqs() == seqs_of(&world)
    });
    // A broker that was away.
    broker.kill();
    world.run("three", "exit 0");
    world.until_delivered("exited", "three");
    broker.start_again();
    let stored = Stored::on(&broker);
    world.until_true("what happened without it is there once", || {
        stored.seqs() == seqs_of(&world)
    });
    // A broker that has lost everything is filled again.
    broker.kill();
    broker.wipe();
    broker.start_again();
    let stored = Stored::on(&broker);
    world.until_true("all of it is there again", || {
        stored.seqs() == seqs_of(&world)
    });
}

#[test]
fn tasks_and_presence_are_in_buckets_and_wakes_in_their_stream() {
    let mut world = World::new();
    let broker = Broker::start(&world);
    join(&world, &broker, "allow = ['ls']\n");
    world.set("TMUX_TASK_OWNER", "claude:1.2");
    world.run("one", "echo done; exit 3");
    world.until_delivered("exited", "one");
    let stored = Stored::on(&broker);
    world.until_true("the state is there", || {
        let tasks = stored.of("KV_TT_STATE");
        let is_there = |(subject, value): &(String, Value)| {
            subject.starts_with("$KV.TT_STATE.gpu1.")
                && value["task"]["windowName"] == "one"
                && value["task"]["exitCode"] == 3
        };
        tasks.iter().any(is_there)
    });
    let hosts = stored.of("KV_TT_HOSTS");
    let (subject, host) = hosts.last().unwrap();
    assert_eq!(subject, "$KV.TT_HOSTS.gpu1");
    assert_eq!(host["allow"], serde_json::json!(["ls"]));
    world.until_true("the wake is there", || {
        let wakes = stored.of("TT_WAKE");
        wakes.len() == 1
            && wakes[0].0 == "tt.v1.wake.claude.1=2E2.gpu1"
            && wakes[0].1["kind"] == "followUp"
    });
    let status = world.task(["daemon", "status"]);
    assert!(
        status.ok().contains("sink fleet:feed (broker): "),
        "{status}"
    );
}

/// Keys of users of a broker, made for these tests.
const GPU1_SEED: &str = "SUAAQEAYEASDAOABRKD5ZJBLOHKG3CMLTLXB6KXQ7N2BAYLJX3L2Q2XOJQ";

#[test]
fn without_the_table_nothing_connects() {
    let world = World::new();
    world.run("one", "exit 0");
    world.until_delivered("exited", "one");
    let pid = world.daemon_pid().as_raw_nonzero();
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    for thread in threads {
        let name = fs::read_to_string(thread.unwrap().path().join("comm")).unwrap_or_default();
        assert_ne!(name.trim(), "fleet");
    }
}

#[test]
fn credentials_that_others_can_read_are_not_used_and_never_shown() {
    let world = World::new();
    let broker = Broker::start(&world);
    let creds = world.path("creds");
    fs::write(&creds, GPU1_SEED).unwrap();
    fs::set_permissions(&creds, fs::Permissions::from_mode(0o644)).unwrap();
    join(
        &world,
        &broker,
        &format!("creds-file = '{}'\n", creds.display()),
    );
    world.run("one", "exit 0");
    world.until_true("the daemon says why", || {
        let status = world.task(["daemon", "status"]);
        status.ok().contains("other users can read it (mode 0644)")
    });
    assert!(!world.logs().contains(GPU1_SEED));
}

//! A daemon in a fleet: what it publishes on the broker.

use std::fs;
use std::time::Duration;

use async_nats::{ConnectOptions, HeaderMap, StatusCode};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::{Broker, FleetHosts, World, begins, event, has, lacks, set_mode};

/// A world with a broker, which its daemons know as `gpu1`.
fn in_fleet(more: &str) -> (World, Broker) {
    let world = World::new();
    let broker = Broker::start(&world);
    world.join_fleet(&broker.url(), "gpu1", more);
    (world, broker)
}

/// How long an answer may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// What a request was answered.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    NotThere,
    Failed(String),
    /// The exit code, and what was printed.
    Exited(u64, String),
    /// Nothing came: the broker had not noticed that nobody is there any more.
    Silent,
}

impl FleetHosts {
    /// The messages of a stream that there is: subject and contents.
    fn stored(&self, stream: &str) -> Vec<(String, Value)> {
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
        let records = self.stored("TT_FEED");
        let seq = |(_, record): &(String, Value)| record["seq"].as_u64().unwrap();
        records.iter().map(seq).collect()
    }

    /// Waits until each record of the world is on the broker, once.
    #[track_caller]
    fn until_complete(&self, world: &World) {
        world.until_true("the broker has each record once", || {
            let records = world.records();
            let seqs = records.iter().filter_map(|record| record["seq"].as_u64());
            self.seqs() == seqs.collect::<Vec<_>>()
        });
    }

    /// Publishes a request with this subject for its answers.
    fn request(&self, subject: &str, reply: &str, key: Option<&str>, call: &str) {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert("Tt-Key", key);
        }
        let client = self.context.client();
        let (subject, reply, call) = (subject.to_owned(), reply.to_owned(), call.to_owned());
        let sent = client.publish_with_reply_and_headers(subject, reply, headers, call.into());
        self.runtime.block_on(sent).unwrap();
    }

    fn ask(&self, host: &str, verb: &str, args: &[&str], key: Option<&str>) -> Answer {
        let call = json!({
            "args": args, "caller": {"host": host, "machine": "laptop"}, "owner": "claude:far",
            "stdin": "nothing",
        });
        let client = self.context.client();
        let inbox = client.new_inbox();
        let answers = client.subscribe(inbox.clone());
        let mut answers = self.runtime.block_on(answers).unwrap();
        let subject = format!("tt.v1.cmd.{host}.work.{verb}");
        self.request(&subject, &inbox, key, &call.to_string());
        let mut printed = String::new();
        loop {
            let message = self
                .runtime
                .block_on(async { tokio::time::timeout(ANSWERS_WITHIN, answers.next()).await });
            let Ok(message) = message else {
                return Answer::Silent;
            };
            let message = message.unwrap();
            if message.status == Some(StatusCode::NO_RESPONDERS) {
                return Answer::NotThere;
            }
            let frame: Value = serde_json::from_slice(&message.payload).unwrap();
            if let Some(failed) = frame.get("failed") {
                return Answer::Failed(failed["why"].as_str().unwrap().to_owned());
            }
            if let Some(code) = frame.get("exit") {
                return Answer::Exited(code.as_u64().unwrap(), printed);
            }
            printed += frame["stdout"].as_str().unwrap_or_default();
        }
    }

    /// Asks for what succeeds, and returns what was printed.
    #[track_caller]
    fn ask_ok(&self, verb: &str, args: &[&str], key: Option<&str>) -> String {
        let answer = self.ask("gpu1", verb, args, key);
        let Answer::Exited(0, ref printed) = answer else {
            panic!("{args:?}: {answer:?}");
        };
        printed.clone()
    }
}

#[test]
fn each_record_is_published_once_whatever_ends_meanwhile() {
    let (world, mut broker) = in_fleet("");
    let end = |name: &str, code: i32| {
        world.run(name, &format!("exit {code}"));
        world.until_delivered("exited", name);
    };
    end("one", 3);
    let stored = FleetHosts::connect(&broker);
    stored.until_complete(&world);
    let records = stored.stored("TT_FEED");
    let (subject, first) = &records[0];
    begins(subject, "tt.v1.feed.gpu1.");
    has(subject, ".event.");
    assert_eq!(first["host"], "gpu1");
    assert_eq!(first["checkpoint"], Value::Null);
    // A killed daemon, and the one after it.
    world.kill_daemon();
    end("two", 0);
    stored.until_complete(&world);
    // A broker that was away.
    broker.kill();
    end("three", 0);
    broker.start_again();
    FleetHosts::connect(&broker).until_complete(&world);
    // A broker that has lost everything is filled again.
    broker.kill();
    broker.wipe();
    broker.start_again();
    FleetHosts::connect(&broker).until_complete(&world);
}

#[test]
fn tasks_and_presence_are_in_buckets_and_wakes_in_their_stream() {
    let (mut world, broker) = in_fleet("allow = ['ls']\n");
    world.set("TMUX_TASK_OWNER", "claude:1.2");
    world.run("one", "echo done; exit 3");
    world.until_delivered("exited", "one");
    let stored = FleetHosts::connect(&broker);
    world.until_true("the state is there", || {
        let tasks = stored.stored("KV_TT_STATE");
        let is_there = |(subject, value): &(String, Value)| {
            subject.starts_with("$KV.TT_STATE.gpu1.")
                && value["task"]["windowName"] == "one"
                && value["task"]["exitCode"] == 3
        };
        tasks.iter().any(is_there)
    });
    // The broker removes it if the daemon does not renew it.
    let lifetime = stored.runtime.block_on(async {
        let hosts = stored.context.get_stream("KV_TT_HOSTS").await.unwrap();
        let last = hosts.get_last_raw_message_by_subject("$KV.TT_HOSTS.gpu1");
        let headers = last.await.unwrap().headers;
        headers.get("Nats-TTL").unwrap().to_string()
    });
    assert_eq!(lifetime, "60s");
    let hosts = stored.stored("KV_TT_HOSTS");
    let (subject, host) = hosts.last().unwrap();
    assert_eq!(subject, "$KV.TT_HOSTS.gpu1");
    assert_eq!(host["allow"], json!(["ls"]));
    world.until_true("the wake is there", || {
        let wakes = stored.stored("TT_WAKE");
        wakes.len() == 1
            && wakes[0].0 == "tt.v1.wake.claude.1=2E2.gpu1"
            && wakes[0].1["kind"] == "followUp"
    });
    let status = world.task(["daemon", "status"]);
    has(status.ok(), "sink fleet:feed (broker): ");
}

/// A record and its wake go to two streams. Whatever ends the connection may come between them.
#[test]
fn a_wake_that_was_not_stored_is_published_again_though_its_record_was() {
    let (mut world, broker) = in_fleet("");
    world.set("TMUX_TASK_OWNER", "claude:1.2");
    let stored = FleetHosts::connect(&broker);
    let has_wake = |task: &str| {
        let wakes = stored.stored("TT_WAKE");
        let of_task = |event: &Value| event["task"]["windowName"] == task;
        wakes.iter().any(|(_, wake)| {
            let events = wake["message"]["details"]["events"].as_array().unwrap();
            events.iter().any(of_task)
        })
    };
    world.run("one", "exit 3");
    world.until_true("the first wake is there", || has_wake("one"));
    let deleted = stored.context.delete_stream("TT_WAKE");
    stored.runtime.block_on(deleted).unwrap();
    world.run("two", "exit 4");
    world.until_delivered("exited", "two");
    // A daemon that connects again creates the stream.
    world.until_true("the second one, too", || has_wake("two"));
    stored.until_complete(&world);
}

/// Seed and public key of a machine and of another user, made for these tests.
pub(crate) const GPU1: (&str, &str) = (
    "SUAP4SDR2INSDNHA7KH2C6YF54YX32ULXU2P7AC2ESTY4LYNJGFMKH5H2I",
    "UDAUC4XRXKEMNE64YOVRXU7EE2YHYWMIIW5OL7GCGV57BZ5UUXEPYVB6",
);
pub(crate) const ANOTHER: (&str, &str) = (
    "SUAM5ZD3OH7FI76ZOFHIYR2EZUWOMQRVNP4TLR77NUMQAQ6B7BPB2CPXPU",
    "UAUFD6HYOFEINEQERQZVUFHW5R6M6IWBDFPA4V4RAISYKRQUROLB6EKN",
);

/// The users of a broker: a machine with the permissions of `docs/fleet.md`, and this one.
pub(crate) fn users_with(another: &str) -> String {
    let blocks = crate::support::blocks("fleet.md", "text");
    let mut users = blocks
        .iter()
        .filter(|block| block.starts_with("authorization"));
    let users = users.next().unwrap();
    has(users, GPU1.1);
    users.replace("  users = [\n", &format!("  users = [\n    {another}\n"))
}

/// Writes the seed of a machine's credentials, and returns the line of the configuration that names them.
pub(crate) fn credentials(world: &World, seed: &str) -> String {
    let path = world.path("creds");
    fs::write(&path, seed).unwrap();
    set_mode(&path, 0o600);
    format!("creds-file = '{}'\n", path.display())
}

#[test]
fn credentials_write_below_their_machines_name_only_unless_others_can_read_them() {
    let world = World::new();
    let broker = Broker::with_config(&world, &users_with(&format!("{{ nkey: {} }}", ANOTHER.1)));
    let admin = ConnectOptions::with_nkey(ANOTHER.0.to_owned());
    let stored = FleetHosts::with(&broker, admin);
    stored.create();
    let creds = credentials(&world, GPU1.0);
    let until_said = |why: &str| {
        world.until_true(why, || {
            let status = world.task(["daemon", "status"]);
            status.ok().contains(why)
        });
    };
    set_mode(world.path("creds"), 0o644);
    world.join_fleet(&broker.url(), "gpu1", &creds);
    world.run("one", "exit 0");
    until_said("other users can read it (mode 0644)");
    assert_eq!(stored.seqs(), [0_u64; 0]);
    world.task(["daemon", "stop"]).ok();
    set_mode(world.path("creds"), 0o600);
    world.daemon();
    world.until_delivered("exited", "one");
    // It may publish as itself, and not as another.
    stored.until_complete(&world);
    let n_published = stored.seqs().len();
    world.task(["daemon", "stop"]).ok();
    world.join_fleet(&broker.url(), "other", &creds);
    world.run("two", "exit 0");
    until_said("Permissions Violation for Publish to");
    assert_eq!(stored.seqs().len(), n_published);
    lacks(world.logs(), GPU1.0);
}

#[test]
fn commands_from_elsewhere_are_executed_if_they_are_allowed() {
    let world = World::new();
    let broker = Broker::start(&world);
    let stored = FleetHosts::connect(&broker);
    assert_eq!(stored.ask("gpu1", "ls", &["ls"], None), Answer::NotThere);
    world.join_fleet(&broker.url(), "gpu1", "allow = ['ls', 'run', 'send']\n");
    world.run("one", "read -rp 'Go? ' x; echo got-$x; sleep 1000");
    world.until_event("input", "one");
    world.until_true("it answers", || {
        stored.ask("gpu1", "ls", &["ls"], None) != Answer::NotThere
    });
    let tasks = stored.ask_ok("ls", &["ls", "--json"], None);
    let tasks: Value = serde_json::from_str(&tasks).unwrap();
    assert_eq!(tasks["tasks"][0]["windowName"], "one");
    let prompted = "`send` through the broker needs `--if-prompt`";
    for (verb, args, why) in [
        (
            "kill",
            &["kill", "one"][..],
            "`kill` is not allowed through the broker",
        ),
        ("ls", &["kill-all", "--yes"], "`kill-all` is not `ls`"),
        ("send", &["send", "one", "y"], prompted),
    ] {
        let answer = stored.ask("gpu1", verb, args, Some("refused"));
        assert_eq!(answer, Answer::Failed(why.to_owned()), "{args:?}");
    }
    // Nobody makes the host write in its own name.
    let call = r#"{"args":["ls"],"caller":{"host":"gpu1","machine":"x"},"stdin":"nothing"}"#;
    let own = "tt.v1.feed.gpu1.x.notice.all";
    stored.request("tt.v1.cmd.gpu1.work.ls", own, None, call);
    stored.ask_ok("ls", &["ps"], None);
    for (subject, _) in stored.stored("TT_FEED") {
        lacks(subject, "gpu1.x.");
    }
    // Twice is once.
    for _ in 0..2 {
        let send = ["send", "one", "yes", "--if-prompt", "Go?"];
        stored.ask_ok("send", &send, Some("k1"));
    }
    world.until_shows("one", "got-yes");
    stored.ask_ok("run", &["run", "far", "--", "exit 3"], Some("k2"));
    let records = world.until_delivered("exited", "far");
    let exited = event(&records, "exited", "far");
    assert_eq!(exited["task"]["owner"], "claude:far");
    world.kill_daemon();
    world.until_true("nobody is there any more", || {
        stored.ask("gpu1", "ls", &["ls"], None) == Answer::NotThere
    });
}

/// A host of the fleet may be anybody's.
#[test]
fn what_a_host_prints_does_nothing_to_a_terminal() {
    let (world, broker) = in_fleet("");
    let stored = FleetHosts::connect(&broker);
    let client = stored.context.client();
    let asked = std::thread::scope(|scope| {
        let commands = stored.runtime.block_on(async {
            let commands = client.subscribe("tt.v1.cmd.evil.>").await.unwrap();
            client.flush().await.unwrap();
            commands
        });
        let asked = scope.spawn(|| world.task(["--host", "evil", "ls"]));
        stored.runtime.block_on(async {
            let request = commands.into_future().await.0.unwrap();
            let version = env!("CARGO_PKG_VERSION");
            let frames = [
                json!({"hello": {"frames": 1, "version": version}}),
                json!({"stdout": "\u{1b}]0;title\u{7}\u{1b}[2"}),
                json!({"stdout": "Jrow\n"}),
                json!({"stderr": "\u{1b}[31mE\n"}),
                json!({"exit": 0}),
            ];
            for (n, frame) in frames.iter().enumerate() {
                let mut headers = HeaderMap::new();
                headers.insert("Tt-Order", n.to_string());
                let (to, frame) = (request.reply.clone().unwrap(), frame.to_string());
                let sent = client.publish_with_headers(to, headers, frame.into());
                sent.await.unwrap();
            }
            client.flush().await.unwrap();
        });
        asked.join().unwrap()
    });
    assert_eq!((asked.out.as_str(), asked.err.as_str()), ("row\n", "E\n"));
}

/// The permissions of the broker bind the subject of the answers to a machine.
#[test]
fn who_asks_is_the_machine_of_the_answers() {
    let (mut world, broker) = in_fleet("allow = ['kill']\n");
    let stored = FleetHosts::connect(&broker);
    world.set("TMUX_TASK_OWNER", "claude:far");
    world.run("one", "sleep 1000");
    // In the name of another machine, where nobody awaits the answers.
    let call = r#"{"args":["kill","one"],"caller":{"host":"gpu1","machine":"laptop"},"owner":"claude:far","stdin":"nothing"}"#;
    world.until_true("it is there", || {
        stored.ask("gpu1", "kill", &["kill", "none"], Some("k0")) != Answer::NotThere
    });
    let (subject, reply) = ("tt.v1.cmd.gpu1.work.kill", "_INBOX.laptop.1");
    stored.request(subject, reply, Some("k1"), call);
    stored.ask_ok("kill", &["kill", "one"], Some("k2"));
    let records = world.until_delivered("disappeared", "one");
    let gone = event(&records, "disappeared", "one");
    let asked_by = gone["askedBy"].as_str().unwrap();
    begins(asked_by, "claude:far@");
    lacks(asked_by, "laptop");
    // An owner that is claimed from elsewhere keeps no message away.
    let wakes = records.iter().filter(|record| record["kind"] == "followUp");
    assert_eq!(wakes.count(), 1);
}

#[test]
fn without_the_table_nothing_connects() {
    let world = World::new();
    world.run("one", "exit 0");
    world.until_delivered("exited", "one");
    lacks(world.task(["daemon", "status"]).ok(), "fleet");
    lacks(world.log(), "fleet");
}

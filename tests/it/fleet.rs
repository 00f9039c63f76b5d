//! A daemon in a fleet: what it publishes on the broker.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use async_nats::jetstream::{self, Context};
use futures_util::StreamExt as _;
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
    assert!(subject.contains(".event."), "{subject}");
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
    // The broker removes it if the daemon does not renew it.
    let lifetime = stored.runtime.block_on(async {
        let hosts = stored.context.get_stream("KV_TT_HOSTS").await.unwrap();
        let last = hosts.get_last_raw_message_by_subject("$KV.TT_HOSTS.gpu1");
        last.await
            .unwrap()
            .headers
            .get("Nats-TTL")
            .unwrap()
            .to_string()
    });
    assert_eq!(lifetime, "60s");
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

/// A record and its wake go to two streams. Whatever ends the connection may come between them.
#[test]
fn a_wake_that_was_not_stored_is_published_again_though_its_record_was() {
    let mut world = World::new();
    let broker = Broker::start(&world);
    join(&world, &broker, "");
    world.set("TMUX_TASK_OWNER", "claude:1.2");
    let stored = Stored::on(&broker);
    let has_wake = |task: &str| {
        let wakes = stored.of("TT_WAKE");
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
    world.until_true("each record is there once", || {
        stored.seqs() == seqs_of(&world)
    });
}

/// Seed and public key of a machine and of an administrator, made for these tests.
const GPU1: (&str, &str) = (
    "SUAP4SDR2INSDNHA7KH2C6YF54YX32ULXU2P7AC2ESTY4LYNJGFMKH5H2I",
    "UDAUC4XRXKEMNE64YOVRXU7EE2YHYWMIIW5OL7GCGV57BZ5UUXEPYVB6",
);
const ADMIN: (&str, &str) = (
    "SUAM5ZD3OH7FI76ZOFHIYR2EZUWOMQRVNP4TLR77NUMQAQ6B7BPB2CPXPU",
    "UAUFD6HYOFEINEQERQZVUFHW5R6M6IWBDFPA4V4RAISYKRQUROLB6EKN",
);

/// The users of a broker: a machine with the permissions of `docs/fleet.md`, and an administrator.
fn users() -> String {
    let users = crate::support::blocks("fleet.md", "text");
    let users = users
        .iter()
        .find(|block| block.starts_with("authorization"));
    let admin = format!("  users = [\n    {{ nkey: {} }}\n", ADMIN.1);
    users.unwrap().replace("  users = [\n", &admin)
}

#[test]
fn credentials_of_a_machine_write_below_its_name_only() {
    let world = World::new();
    let broker = Broker::with_config(&world, &users());
    assert!(users().contains(GPU1.1));
    let stored = Stored::with(
        &broker,
        async_nats::ConnectOptions::with_nkey(ADMIN.0.to_owned()),
    );
    stored.create();
    let creds = world.path("creds");
    fs::write(&creds, GPU1.0).unwrap();
    fs::set_permissions(&creds, fs::Permissions::from_mode(0o600)).unwrap();
    let creds = format!("creds-file = '{}'\n", creds.display());
    join(&world, &broker, &creds);
    world.run("one", "exit 0");
    world.until_delivered("exited", "one");
    world.until_true("it may publish as itself", || {
        stored.seqs() == seqs_of(&world)
    });
    let n_published = stored.seqs().len();
    world.task(["daemon", "stop"]).ok();
    let config = world.path("conf/tmux-task/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("host = 'gpu1'", "host = 'other'")).unwrap();
    world.run("two", "exit 0");
    world.until_true("it may not as another", || {
        let status = world.task(["daemon", "status"]);
        status.ok().contains("Permissions Violation for Publish to")
    });
    assert_eq!(stored.seqs().len(), n_published);
    assert!(!world.logs().contains(GPU1.0));
}

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

/// How long an answer may take.
const ANSWERS_WITHIN: std::time::Duration = std::time::Duration::from_secs(5);

impl Stored {
    /// Creates what is missing for a machine that may not.
    fn create(&self) {
        self.runtime.block_on(async {
            for (name, subject) in [
                ("TT_FEED", "tt.v1.feed.>"),
                ("TT_WAKE", "tt.v1.wake.>"),
                ("KV_TT_STATE", "$KV.TT_STATE.>"),
                ("KV_TT_HOSTS", "$KV.TT_HOSTS.>"),
            ] {
                let config = jetstream::stream::Config {
                    name: name.to_owned(),
                    subjects: vec![subject.to_owned()],
                    allow_direct: true,
                    allow_message_ttl: true,
                    ..Default::default()
                };
                self.context.create_stream(config).await.unwrap();
            }
        });
    }

    fn ask(&self, host: &str, verb: &str, args: &[&str], key: Option<&str>) -> Answer {
        let call = serde_json::json!({
            "args": args, "caller": {"host": host, "machine": "laptop"}, "owner": "claude:far",
            "stdin": "nothing",
        });
        self.runtime.block_on(async {
            let client = self.context.client();
            let inbox = client.new_inbox();
            let mut answers = client.subscribe(inbox.clone()).await.unwrap();
            let mut headers = async_nats::HeaderMap::new();
            if let Some(key) = key {
                headers.insert("Tt-Key", key);
            }
            let subject = format!("tt.v1.cmd.{host}.work.{verb}");
            let payload = call.to_string().into();
            let sent = client.publish_with_reply_and_headers(subject, inbox, headers, payload);
            sent.await.unwrap();
            let mut printed = String::new();
            loop {
                let message = tokio::time::timeout(ANSWERS_WITHIN, answers.next()).await;
                let Ok(message) = message else {
                    return Answer::Silent;
                };
                let message = message.unwrap();
                if message.status == Some(async_nats::StatusCode::NO_RESPONDERS) {
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
        })
    }
}

#[test]
fn commands_from_elsewhere_are_executed_if_they_are_allowed() {
    let world = World::new();
    let broker = Broker::start(&world);
    let stored = Stored::on(&broker);
    assert_eq!(stored.ask("gpu1", "ls", &["ls"], None), Answer::NotThere);
    join(&world, &broker, "allow = ['ls', 'run', 'send']\n");
    world.run("one", "read -rp 'Go? ' x; echo got-$x; sleep 1000");
    world.until("it asks", |records| {
        records.iter().any(|record| record["type"] == "input")
    });
    world.until_true("it answers", || {
        stored.ask("gpu1", "ls", &["ls"], None) != Answer::NotThere
    });
    let Answer::Exited(0, tasks) = stored.ask("gpu1", "ls", &["ls", "--json"], None) else {
        panic!("it did not list");
    };
    let tasks: Value = serde_json::from_str(&tasks).unwrap();
    assert_eq!(tasks["tasks"][0]["windowName"], "one");
    let refused = |verb: &str, args: &[&str], why: &str| {
        let answer = stored.ask("gpu1", verb, args, Some("refused"));
        assert_eq!(answer, Answer::Failed(why.to_owned()), "{args:?}");
    };
    refused(
        "kill",
        &["kill", "one"],
        "`kill` is not allowed through the broker",
    );
    refused("ls", &["kill-all", "--yes"], "`kill-all` is not `ls`");
    refused(
        "send",
        &["send", "one", "y"],
        "`send` through the broker needs `--if-prompt`",
    );
    // Nobody makes the host write in its own name.
    stored.runtime.block_on(async {
        let call = r#"{"args":["ls"],"caller":{"host":"gpu1","machine":"x"},"stdin":"nothing"}"#;
        let client = stored.context.client();
        let reply = "tt.v1.feed.gpu1.x.notice.all";
        let sent = client.publish_with_reply("tt.v1.cmd.gpu1.work.ls", reply, call.into());
        sent.await.unwrap();
    });
    let listed = stored.ask("gpu1", "ls", &["ps"], None);
    assert!(matches!(listed, Answer::Exited(0, _)), "{listed:?}");
    let subjects = stored.of("TT_FEED").into_iter().map(|(subject, _)| subject);
    assert!(
        subjects
            .into_iter()
            .all(|subject| !subject.contains("gpu1.x."))
    );
    // Twice is once.
    let send = ["send", "one", "yes", "--if-prompt", "Go?"];
    for _ in 0..2 {
        let sent = stored.ask("gpu1", "send", &send, Some("k1"));
        assert!(matches!(sent, Answer::Exited(0, _)), "{sent:?}");
    }
    world.until_shows("one", "got-yes");
    let run = ["run", "far", "--", "exit 3"];
    let Answer::Exited(0, _) = stored.ask("gpu1", "run", &run, Some("k2")) else {
        panic!("it did not run");
    };
    let records = world.until_delivered("exited", "far");
    let exited = crate::support::event(&records, "exited", "far");
    assert_eq!(exited["task"]["owner"], "claude:far");
    world.kill_daemon();
    world.until_true("nobody is there any more", || {
        stored.ask("gpu1", "ls", &["ls"], None) == Answer::NotThere
    });
}

/// A host of the fleet may be anybody's.
#[test]
fn what_a_host_prints_does_nothing_to_a_terminal() {
    let world = World::new();
    let broker = Broker::start(&world);
    join(&world, &broker, "");
    let stored = Stored::on(&broker);
    let asked = std::thread::scope(|scope| {
        let commands = stored.runtime.block_on(async {
            let client = stored.context.client();
            let commands = client.subscribe("tt.v1.cmd.evil.>").await.unwrap();
            client.flush().await.unwrap();
            commands
        });
        let asked = scope.spawn(|| world.task(["--host", "evil", "ls"]));
        stored.runtime.block_on(async {
            let client = stored.context.client();
            let request = commands.into_future().await.0.unwrap();
            let version = env!("CARGO_PKG_VERSION");
            let frames = [
                serde_json::json!({"hello": {"frames": 1, "version": version}}),
                serde_json::json!({"stdout": "\u{1b}]0;title\u{7}\u{1b}[2"}),
                serde_json::json!({"stdout": "Jrow\n"}),
                serde_json::json!({"stderr": "\u{1b}[31mE\n"}),
                serde_json::json!({"exit": 0}),
            ];
            for (n, frame) in frames.iter().enumerate() {
                let mut headers = async_nats::HeaderMap::new();
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
    let mut world = World::new();
    let broker = Broker::start(&world);
    let stored = Stored::on(&broker);
    join(&world, &broker, "allow = ['kill']\n");
    world.set("TMUX_TASK_OWNER", "claude:far");
    world.run("one", "sleep 1000");
    // In the name of another machine, where nobody awaits the answers.
    let call = r#"{"args":["kill","one"],"caller":{"host":"gpu1","machine":"laptop"},"owner":"claude:far","stdin":"nothing"}"#;
    world.until_true("it is there", || {
        stored.ask("gpu1", "kill", &["kill", "none"], Some("k0")) != Answer::NotThere
    });
    stored.runtime.block_on(async {
        let (client, mut headers) = (stored.context.client(), async_nats::HeaderMap::new());
        headers.insert("Tt-Key", "k1");
        let (subject, reply) = ("tt.v1.cmd.gpu1.work.kill", "_INBOX.laptop.1");
        let sent = client.publish_with_reply_and_headers(subject, reply, headers, call.into());
        sent.await.unwrap();
    });
    let killed = stored.ask("gpu1", "kill", &["kill", "one"], Some("k2"));
    assert!(matches!(killed, Answer::Exited(0, _)), "{killed:?}");
    let records = world.until_delivered("disappeared", "one");
    let gone = crate::support::event(&records, "disappeared", "one");
    let asked_by = gone["askedBy"].as_str().unwrap();
    assert!(
        asked_by.starts_with("claude:far@") && !asked_by.contains("laptop"),
        "{asked_by}"
    );
    // An owner that is claimed from elsewhere keeps no message away.
    let wakes = records.iter().filter(|record| record["kind"] == "followUp");
    assert_eq!(wakes.count(), 1);
}

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
    fs::write(&creds, GPU1.0).unwrap();
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
    assert!(!world.logs().contains(GPU1.0));
}

//! Codex's adapter, against an app-server that the tests play.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use crate::support::{World, pid};

const THREAD: &str = "019ac-1";

/// What the app-server knows of the thread.
#[derive(Default)]
struct Codex {
    /// Which program began the thread.
    source: String,
    /// Whether a turn is under way: then messages stay in the queue.
    is_busy: bool,
    /// The messages of the queue and of the thread's turns.
    queue: Vec<Value>,
    turns: Vec<Value>,
}

impl Codex {
    fn answer(&mut self, request: &Value) -> Value {
        let params = &request["params"];
        match request["method"].as_str().unwrap() {
            "initialize" => json!({}),
            "thread/read" => json!({"thread": {"id": THREAD, "source": self.source}}),
            "thread/queue/add" => {
                assert_eq!(params["threadId"], THREAD);
                let queue = if self.is_busy {
                    &mut self.queue
                } else {
                    &mut self.turns
                };
                queue.push(params.clone());
                json!({"queuedSubmission": {"id": "q"}})
            }
            "thread/queue/list" => json!({"data": self.queue}),
            "thread/turns/list" => {
                let items = self.turns.iter().map(|params| {
                    json!({"type": "userMessage", "clientId": params["clientUserMessageId"]})
                });
                json!({"data": [{"items": items.collect::<Vec<_>>()}]})
            }
            method => panic!("{method} was not expected"),
        }
    }
}

fn serve(codex: &Mutex<Codex>, stream: UnixStream) {
    let mut socket = accept(stream).unwrap();
    while let Ok(message) = socket.read() {
        let Ok(text) = message.to_text() else {
            continue;
        };
        let Ok(request) = serde_json::from_str::<Value>(text) else {
            continue;
        };
        if request.get("id").is_none() {
            continue;
        }
        let result = codex.lock().unwrap().answer(&request);
        let answer = json!({"id": request["id"], "result": result});
        if socket.send(Message::text(answer.to_string())).is_err() {
            return;
        }
    }
}

/// A world with Codex in it. Its followers end with it.
struct Fixture {
    world: World,
    codex: Arc<Mutex<Codex>>,
}

impl Fixture {
    /// Installs the adapter, with a program `codex` that notes how it is called. The app-server listens
    /// if there is to be one.
    fn new(source: &str, has_server: bool) -> Self {
        let mut world = World::new();
        let home = world.path("codex");
        world.set("CODEX_HOME", home.to_str().unwrap());
        world.set("CODEX_THREAD_ID", THREAD);
        let bin = world.path("bin");
        fs::create_dir(&bin).unwrap();
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$@\" >>'{}'\n",
            world.path("called").display()
        );
        world.script("bin/codex", &script);
        world.prepend_path(&bin);
        world.task(["init", "codex", "--write"]).ok();
        let codex = Codex {
            source: source.to_owned(),
            ..Codex::default()
        };
        let fixture = Self {
            world,
            codex: Arc::new(Mutex::new(codex)),
        };
        if has_server {
            fixture.listen();
        }
        fixture
    }

    fn home(&self) -> PathBuf {
        self.world.path("codex")
    }

    fn listen(&self) {
        let folder = self.home().join("app-server-control");
        fs::create_dir_all(&folder).unwrap();
        let listener = UnixListener::bind(folder.join("app-server-control.sock")).unwrap();
        let codex = Arc::clone(&self.codex);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let codex = Arc::clone(&codex);
                thread::spawn(move || serve(&codex, stream.unwrap()));
            }
        });
    }

    /// The messages that the thread got.
    fn texts(&self) -> Vec<String> {
        let codex = self.codex.lock().unwrap();
        let text = |params: &Value| params["input"][0]["text"].as_str().unwrap().to_owned();
        codex.turns.iter().map(text).collect()
    }

    /// How often the thread was notified of the end of this task.
    fn n_ends(&self, name: &str) -> usize {
        let end = format!("({name}) exited with code 3");
        self.texts()
            .iter()
            .map(|text| text.matches(&end).count())
            .sum()
    }

    #[track_caller]
    fn until_told(&self, name: &str) {
        self.world
            .until_true(&format!("the thread knows of {name}"), || {
                self.n_ends(name) > 0
            });
    }

    fn follower(&self) -> Option<i64> {
        let status = self.world.daemon_status();
        let consumers = status["consumers"].as_array()?;
        let ours = consumers
            .iter()
            .find(|one| one["name"] == format!("codex:{THREAD}"))?;
        ours["reader"].as_i64()
    }

    #[track_caller]
    fn until_acknowledged(&self) {
        self.world.until_true("the message is acknowledged", || {
            let follow_ups = self.world.records_of(&["--kind", "followUp"]);
            let status = self.world.daemon_status();
            let mut consumers = status["consumers"].as_array().into_iter().flatten();
            follow_ups.last().is_some_and(|last| {
                consumers.any(|one| {
                    one["name"] == format!("codex:{THREAD}")
                        && one["cursor"].as_u64() >= last["seq"].as_u64()
                })
            })
        });
    }

    fn kill_follower(&self) {
        if let Some(follower) = self.follower() {
            rustix::process::kill_process(pid(follower), Signal::KILL).unwrap();
            self.world
                .until_true("the follower has ended", || self.follower().is_none());
        }
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.kill_follower();
        }
    }
}

#[test]
fn a_thread_gets_a_message_once_whoever_is_killed() {
    let fixture = Fixture::new("cli", true);
    fixture.codex.lock().unwrap().is_busy = true;
    let ran = fixture.world.task(["run", "first", "--", "exit 3"]);
    assert_eq!(ran.err, "");
    fixture.world.until_true("the queue has the message", || {
        fixture.codex.lock().unwrap().queue.len() == 1
    });
    // It was added, and the receipt has not come.
    fixture.kill_follower();
    {
        let mut codex = fixture.codex.lock().unwrap();
        codex.is_busy = false;
        let queue = std::mem::take(&mut codex.queue);
        codex.turns.extend(queue);
    }
    fixture.world.task(["run", "second", "--", "exit 3"]).ok();
    fixture.until_told("second");
    fixture.world.kill_daemon();
    fixture.world.task(["run", "third", "--", "exit 3"]).ok();
    fixture.until_told("third");
    fixture.until_acknowledged();
    for name in ["first", "second", "third"] {
        assert_eq!(fixture.n_ends(name), 1, "{:?}", fixture.texts());
    }
    // One process follows the thread, and a launch starts no other.
    let follower = fixture.follower();
    fixture.world.task(["run", "fourth", "--", "exit 3"]).ok();
    fixture.until_told("fourth");
    fixture.until_acknowledged();
    assert_eq!(fixture.follower(), follower);
}

#[test]
fn a_thread_that_takes_no_messages_is_named_at_the_launch() {
    let fixture = Fixture::new("exec", true);
    let said = "no message will come when this task ends or asks for input: `codex exec` takes no messages";
    let ran = fixture.world.task(["run", "one", "--", "exit 3"]);
    ran.ok();
    assert!(ran.err.contains(said), "{}", ran.err);
    // Who waits needs none.
    let ran = fixture.world.task(["run", "two", "--wait", "--", "true"]);
    ran.ok();
    assert_eq!(ran.err, "");
    // Without the adapter nothing is tried.
    fixture.world.task(["init", "codex", "--remove"]).ok();
    let ran = fixture.world.task(["run", "three", "--", "true"]);
    let said = "nothing delivers messages to codex:";
    assert!(ran.err.contains(said), "{}", ran.err);
    assert_eq!(fixture.follower(), None);
}

#[test]
fn without_an_app_server_codex_queues_the_message() {
    let fixture = Fixture::new("cli", false);
    let called = || fs::read_to_string(fixture.world.path("called")).unwrap();
    let installed = called();
    assert!(
        installed.starts_with("mcp\nadd\ntmux-task\n--env\n"),
        "{installed}"
    );
    assert!(installed.ends_with("--\ntmux-task\nmcp\n"), "{installed}");
    fixture.world.task(["run", "one", "--", "exit 3"]).ok();
    fixture.until_acknowledged();
    let called = called();
    let queued = called.strip_prefix(&installed).unwrap();
    let start = format!("queue\n--thread\n{THREAD}\n--message\n[tmux-task notification]\n");
    assert!(queued.starts_with(&start), "{queued}");
    assert_eq!(queued.matches("(one) exited with code 3").count(), 1);
}

//! Codex's adapter, against an app-server that the tests play.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, accept};

use crate::support::{World, begins, has, pid};

const THREAD: &str = "019ac-1";
const CONSUMER: &str = "codex:019ac-1";

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
                let is_busy = self.is_busy;
                let to = if is_busy {
                    &mut self.queue
                } else {
                    &mut self.turns
                };
                to.push(params.clone());
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
        let text = message.to_text().unwrap_or_default();
        let request: Value = serde_json::from_str(text).unwrap_or_default();
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
        let called = world.path("called").display().to_string();
        world.install("codex", &format!("printf '%s\\n' \"$@\" >>'{called}'"));
        world.task(["init", "codex", "--write"]).ok();
        let codex = Codex {
            source: source.to_owned(),
            ..Codex::default()
        };
        let codex = Arc::new(Mutex::new(codex));
        if has_server {
            listen(&home.join("app-server-control"), &codex);
        }
        Self { world, codex }
    }

    fn codex(&self) -> MutexGuard<'_, Codex> {
        self.codex.lock().unwrap()
    }

    /// How often the thread was notified of the end of this task.
    fn n_ends(&self, name: &str) -> usize {
        let end = format!("({name}) exited with code 3");
        let codex = self.codex();
        let texts = codex.turns.iter().map(|params| &params["input"][0]["text"]);
        texts
            .map(|text| text.as_str().unwrap().matches(&end).count())
            .sum()
    }

    /// Runs a task to its end, of which the thread is notified.
    #[track_caller]
    fn run_until_told(&self, name: &str) {
        self.world.task(["run", name, "--", "exit 3"]).ok();
        let what = format!("the thread knows of {name}");
        self.world.until_true(&what, || self.n_ends(name) > 0);
    }

    fn follower(&self) -> Option<i64> {
        let consumers = self.world.consumers();
        let ours = consumers.iter().find(|one| one["name"] == CONSUMER)?;
        ours["reader"].as_i64()
    }

    fn kill_follower(&self) {
        if let Some(follower) = self.follower() {
            kill_process(pid(follower), Signal::KILL).unwrap();
            self.world
                .until_true("the follower has ended", || self.follower().is_none());
        }
    }
}

fn listen(folder: &Path, codex: &Arc<Mutex<Codex>>) {
    fs::create_dir_all(folder).unwrap();
    let listener = UnixListener::bind(folder.join("app-server-control.sock")).unwrap();
    let codex = Arc::clone(codex);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let codex = Arc::clone(&codex);
            thread::spawn(move || serve(&codex, stream.unwrap()));
        }
    });
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
    let world = &fixture.world;
    fixture.codex().is_busy = true;
    let ran = world.task(["run", "first", "--", "exit 3"]);
    assert_eq!(ran.err, "");
    let is_queued = || fixture.codex().queue.len() == 1;
    world.until_true("the queue has the message", is_queued);
    // It was added, and the receipt has not come.
    fixture.kill_follower();
    {
        let mut codex = fixture.codex();
        codex.is_busy = false;
        let queue = std::mem::take(&mut codex.queue);
        codex.turns.extend(queue);
    }
    fixture.run_until_told("second");
    world.kill_daemon();
    fixture.run_until_told("third");
    world.until_acknowledged(CONSUMER);
    for name in ["first", "second", "third"] {
        assert_eq!(fixture.n_ends(name), 1, "{:?}", fixture.codex().turns);
    }
    // One process follows the thread, and a launch starts no other.
    let follower = fixture.follower();
    fixture.run_until_told("fourth");
    world.until_acknowledged(CONSUMER);
    assert_eq!(fixture.follower(), follower);
}

#[test]
fn a_thread_that_takes_no_messages_is_named_at_the_launch() {
    let fixture = Fixture::new("exec", true);
    let run = |words: &[&str]| fixture.world.task([&["run"], words].concat());
    let said = "no message will come when this task ends or asks for input: `codex exec` takes no messages";
    has(run(&["one", "--", "exit 3"]).says(said).ok(), "task=one");
    // Who waits needs none.
    let ran = run(&["two", "--wait", "--", "true"]);
    ran.ok();
    assert_eq!(ran.err, "");
    // Without the adapter nothing is tried.
    fixture.world.task(["init", "codex", "--remove"]).ok();
    run(&["three", "--", "true"]).says("nothing delivers messages to codex:");
    assert_eq!(fixture.follower(), None);
}

#[test]
fn without_an_app_server_codex_queues_the_message() {
    let fixture = Fixture::new("cli", false);
    let called = || fs::read_to_string(fixture.world.path("called")).unwrap();
    let installed = called();
    begins(&installed, "mcp\nadd\ntmux-task\n--env\n");
    assert!(installed.ends_with("--\ntmux-task\nmcp\n"), "{installed}");
    fixture.world.task(["run", "one", "--", "exit 3"]).ok();
    fixture.world.until_acknowledged(CONSUMER);
    let called = called();
    let queued = called.strip_prefix(&installed).unwrap();
    let start = format!("queue\n--thread\n{THREAD}\n--message\n[tmux-task notification]\n");
    begins(queued, start);
    assert_eq!(queued.matches("(one) exited with code 3").count(), 1);
}

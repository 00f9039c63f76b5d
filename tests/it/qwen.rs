//! Qwen Code's adapter, against an inbox that the tests play.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, pid};

const CONSUMER: &str = "qwen:s-1";

/// A life of Qwen Code: what its inbox was given, with the token of this life.
#[derive(Default)]
struct Life {
    frames: Vec<Value>,
    /// What it says of each frame; nothing if it is empty.
    status: String,
}

/// A world with a session of Qwen Code. Its follower ends with it.
struct Fixture {
    world: World,
    life: Arc<Mutex<Life>>,
}

impl Fixture {
    fn new() -> Self {
        let mut world = World::new();
        world.daemon();
        world.set("QWEN_CODE_SESSION_ID", "s-1");
        fs::write(world.path("chat.jsonl"), "").unwrap();
        let life = Arc::default();
        let mut fixture = Self { world, life };
        fixture.restart("first", "delivered");
        fixture
    }

    /// Begins a life, and runs the hook of its start.
    fn restart(&mut self, token: &str, status: &str) {
        let folder = self.world.path(token);
        fs::create_dir_all(&folder).unwrap();
        // The inbox of a process that lives.
        let inbox = folder.join(format!("{}.sock", std::process::id()));
        let listener = UnixListener::bind(&inbox).unwrap();
        self.life = Arc::default();
        self.say(status);
        let (life, token) = (Arc::clone(&self.life), token.to_owned());
        self.world
            .set("QWEN_CODE_MESSAGING_SOCKET", inbox.to_str().unwrap());
        self.world.set("QWEN_CODE_MESSAGING_TOKEN", &token);
        thread::spawn(move || {
            for stream in listener.incoming() {
                take(&life, &token, stream.unwrap());
            }
        });
        self.hook("SessionStart");
    }

    fn say(&self, status: &str) {
        status.clone_into(&mut self.life.lock().unwrap().status);
    }

    fn hook(&self, event: &str) {
        let input = json!({
            "session_id": "s-1", "transcript_path": self.transcript(), "hook_event_name": event,
        });
        let output = self
            .world
            .task_reading(&input.to_string(), ["agent", "qwen"]);
        assert_eq!(output.ok(), "");
        self.world
            .until_true("it is followed", || self.follower().is_some());
    }

    fn transcript(&self) -> PathBuf {
        self.world.path("chat.jsonl")
    }

    fn follower(&self) -> Option<i64> {
        let consumers = self.world.consumers();
        let ours = consumers.iter().find(|one| one["name"] == CONSUMER)?;
        ours["reader"].as_i64()
    }

    /// The texts that the inbox was given in this life.
    fn texts(&self) -> Vec<String> {
        let frames = &self.life.lock().unwrap().frames;
        let text = |frame: &Value| frame["message"]["content"].as_str().unwrap().to_owned();
        frames.iter().map(text).collect()
    }

    #[track_caller]
    fn until_given(&self, n: usize) -> String {
        self.world
            .until_true("the inbox has it", || self.texts().len() >= n);
        self.texts().pop().unwrap()
    }

    /// Begins a turn with this text, as Qwen Code does with what is in its queue.
    fn begin_turn(&self, text: &str) {
        let text = format!(
            "<cross_session_message>\n{text}\n</cross_session_message>\n\nNot from your user."
        );
        let entry = json!({"type": "user", "message": {"parts": [{"text": text}]}});
        let mut file = fs::File::options().append(true).open(self.transcript());
        writeln!(file.as_mut().unwrap(), "{entry}").unwrap();
    }

    #[track_caller]
    fn end_task(&self, name: &str) {
        self.world.task(["run", name, "--", "exit 3"]).ok();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        if !thread::panicking()
            && let Some(follower) = self.follower()
        {
            kill_process(pid(follower), Signal::KILL).unwrap();
        }
    }
}

/// Takes the frames of a connection that has this life's token, and answers each.
fn take(life: &Mutex<Life>, token: &str, stream: UnixStream) {
    let lines = BufReader::new(stream).lines();
    let mut lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    if lines.next().is_none_or(|auth| auth["token"] != token) {
        return;
    }
    for frame in lines {
        assert_eq!(frame["toSessionId"], "s-1");
        let status = life.lock().unwrap().status.clone();
        let receipt = json!({
            "msgV": 1, "msgId": "r", "type": "control", "action": "delivery_status",
            "status": status, "origMsgId": frame["msgId"],
        });
        let auth = json!({"msgV": 1, "type": "auth", "token": frame["replyToken"]});
        if !status.is_empty() {
            let mut to = UnixStream::connect(frame["from"].as_str().unwrap()).unwrap();
            to.write_all(format!("{auth}\n{receipt}\n").as_bytes())
                .unwrap();
        }
        life.lock().unwrap().frames.push(frame);
    }
}

#[test]
fn a_message_that_was_lost_in_the_queue_comes_again_in_the_next_life() {
    let mut fixture = Fixture::new();
    fixture.end_task("one");
    let told = fixture.until_given(1);
    assert!(told.contains("(one) exited with code 3"), "{told}");
    fixture.begin_turn(&told);
    fixture.world.until_acknowledged(CONSUMER);

    fixture.end_task("two");
    let queued = fixture.until_given(2);
    let earlier = fixture.follower();
    fixture.restart("second", "delivered");
    assert_eq!(fixture.until_given(1), queued);
    fixture
        .world
        .until_true("another follows", || fixture.follower() != earlier);
    fixture.begin_turn(&queued);
    fixture.world.until_acknowledged(CONSUMER);
    assert_eq!(fixture.texts().len(), 1);

    // At a prompt, one that follows is left alone.
    let follower = fixture.follower();
    fixture.hook("UserPromptSubmit");
    assert_eq!(fixture.follower(), follower);
}

#[test]
fn what_has_expired_comes_again_and_what_was_denied_does_not() {
    let fixture = Fixture::new();
    fixture.say("expired");
    fixture.end_task("one");
    let told = fixture.until_given(1);
    fixture.say("delivered");
    assert_eq!(fixture.until_given(2), told);
    fixture.begin_turn(&told);
    fixture.world.until_acknowledged(CONSUMER);
    fixture.say("denied");
    fixture.end_task("two");
    fixture.until_given(3);
    fixture.world.until_acknowledged(CONSUMER);
}

#[test]
fn a_session_that_is_another_one_by_now_is_left_until_it_is_resumed() {
    let fixture = Fixture::new();
    fixture.say("misaddressed");
    fixture.end_task("one");
    let told = fixture.until_given(1);
    fixture
        .world
        .until_true("it is left", || fixture.follower().is_none());
    fixture.say("delivered");
    fixture.hook("UserPromptSubmit");
    assert_eq!(fixture.until_given(2), told);
}

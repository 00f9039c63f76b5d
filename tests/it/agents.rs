//! Adapters: each message reaches its conversation once, whichever process is killed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Output, Running, SESSION, World, has_ended};

/// An adapter that runs inside a client.
fn adapter(world: &World, args: &[&str]) -> Running {
    let mut command = world.command(World::program());
    command.arg("agent").args(args).stdin(Stdio::piped());
    Running::start(command)
}

/// The lines until the conversation is followed.
#[track_caller]
fn until_following(adapter: &Running, id: &str) {
    adapter.records_until(|line| line["kind"] == "following" && line["to"] == id);
}

/// The next message.
#[track_caller]
fn message(adapter: &Running) -> Value {
    let lines = adapter.records_until(|line| line["kind"] == "message");
    lines.last().unwrap().clone()
}

fn content(message: &Value) -> &str {
    message["message"]["content"].as_str().unwrap()
}

#[track_caller]
fn receive(adapter: &mut Running, message: &Value) {
    let receipt = json!({"received": {"to": message["to"], "id": message["id"]}});
    adapter.write(&format!("{receipt}\n"));
}

/// Waits until a consumer has acknowledged all follow-ups of the feed.
#[track_caller]
fn until_acknowledged(world: &World, consumer: &str) {
    world.until_true("everything is acknowledged", || {
        let status = world.daemon_status();
        let consumers = status["consumers"].as_array().cloned().unwrap_or_default();
        let last = world.records_of(&["--kind", "followUp"]).pop();
        consumers.iter().any(|one| {
            one["name"] == consumer
                && last
                    .as_ref()
                    .is_none_or(|last| one["cursor"].as_u64() >= last["seq"].as_u64())
        })
    });
}

/// Runs a task of this owner to its end and waits until that is recorded.
fn run_to_end(world: &World, owner: &str, name: &str) {
    let mut command = world.command(World::program());
    command
        .args(["run", name, "--", "exit 3"])
        .env("TMUX_TASK_OWNER", owner);
    Output::of(command).ok();
    world.until(&format!("the end of {name} is delivered"), |records| {
        records.iter().any(|record| {
            record["kind"] == "followUp"
                && record["message"]["content"]
                    .as_str()
                    .is_some_and(|text| text.contains(&format!("({name}) exited")))
        })
    });
}

#[test]
fn each_conversation_hears_of_its_own_tasks_and_of_everybodys() {
    let world = World::new();
    world.daemon();
    let mut adapter = adapter(&world, &["opencode", "--id", "one"]);
    until_following(&adapter, "one");
    adapter.write("{\"follow\":\"two\"}\n");
    until_following(&adapter, "two");
    run_to_end(&world, "opencode:one", "first");
    let first = message(&adapter);
    assert_eq!(first["to"], "one");
    assert!(
        content(&first).starts_with("[tmux-task notification]\n"),
        "{first}"
    );
    receive(&mut adapter, &first);
    run_to_end(&world, "opencode:two", "second");
    let second = message(&adapter);
    assert_eq!(second["to"], "two");
    receive(&mut adapter, &second);
    run_to_end(&world, "", "everybodys");
    let (a, b) = (message(&adapter), message(&adapter));
    assert_ne!(a["to"], b["to"]);
    for told in [&a, &b] {
        assert!(
            content(told).contains("(everybodys) exited with code 3"),
            "{told}"
        );
        receive(&mut adapter, told);
    }
    until_acknowledged(&world, "opencode:one");
    until_acknowledged(&world, "opencode:two");
}

#[test]
fn what_happens_until_the_receipt_is_one_message() {
    let world = World::new();
    world.daemon();
    let mut adapter = adapter(&world, &["pi", "--id", "p"]);
    until_following(&adapter, "p");
    run_to_end(&world, "pi:p", "a");
    let first = message(&adapter);
    for name in ["b", "c"] {
        run_to_end(&world, "pi:p", name);
    }
    // They are on the stream before this notice, so the adapter has them.
    world.task(["run", "later", "--", "sleep 1000"]).ok();
    adapter.records_until(|line| {
        let text = line["text"].as_str().unwrap_or_default();
        line["kind"] == "notice" && text.contains("(later)")
    });
    // A receipt for another message is none.
    adapter.write("{\"received\":{\"to\":\"p\",\"id\":\"x:1\"}}\n");
    receive(&mut adapter, &first);
    let rest = message(&adapter);
    for (name, n) in [("a", 0), ("b", 1), ("c", 1)] {
        let told = content(&rest).matches(&format!("({name}) exited")).count();
        assert_eq!(told, n, "{rest}");
    }
    assert_eq!(
        content(&rest).matches("[tmux-task notification]").count(),
        1
    );
}

#[test]
fn a_message_without_a_receipt_comes_again_after_every_crash() {
    let world = World::new();
    world.daemon();
    let first = adapter(&world, &["pi", "--id", "p"]);
    until_following(&first, "p");
    run_to_end(&world, "pi:p", "a");
    let told = message(&first);
    // The client dies before its session has the message.
    first.signal(Signal::KILL);
    let mut second = adapter(&world, &["pi", "--id", "p"]);
    let again = message(&second);
    assert_eq!(
        (&again["id"], content(&again)),
        (&told["id"], content(&told))
    );
    // The daemon dies before the acknowledgement.
    world.kill_daemon();
    receive(&mut second, &again);
    run_to_end(&world, "pi:p", "b");
    let next = message(&second);
    assert!(!content(&next).contains("(a)"), "{next}");
    assert!(content(&next).contains("(b) exited"), "{next}");
    receive(&mut second, &next);
    until_acknowledged(&world, "pi:p");
}

#[test]
fn a_message_comes_again_as_it_was_whatever_happens_meanwhile() {
    let world = World::new();
    world.daemon();
    let first = adapter(&world, &["pi", "--id", "p"]);
    until_following(&first, "p");
    run_to_end(&world, "pi:p", "a");
    let told = message(&first);
    // Its client is killed twice.
    let mut before = first;
    for name in ["b", "c"] {
        before.signal(Signal::KILL);
        before.wait();
        run_to_end(&world, "pi:p", name);
        let next = adapter(&world, &["pi", "--id", "p"]);
        let again = message(&next);
        assert_eq!(
            (&again["id"], content(&again), &again["isNew"]),
            (&told["id"], content(&told), &json!(false))
        );
        before = next;
    }
    receive(&mut before, &told);
    let rest = message(&before);
    for (name, n) in [("a", 0), ("b", 1), ("c", 1)] {
        let told = content(&rest).matches(&format!("({name}) exited")).count();
        assert_eq!(told, n, "{rest}");
    }
}

#[test]
fn what_was_confirmed_does_not_come_again_if_its_acknowledgement_is_lost() {
    let world = World::new();
    world.daemon();
    let mut first = adapter(&world, &["pi", "--id", "p"]);
    until_following(&first, "p");
    run_to_end(&world, "pi:p", "a");
    let told = message(&first);
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    receive(&mut first, &told);
    let ledger = world.state(SESSION).join("agents/pi:p.json");
    world.until_true("the receipt is recorded", || {
        fs::read_to_string(&ledger).is_ok_and(|text| text.contains("\"handedOver\":[]"))
    });
    first.signal(Signal::KILL);
    first.wait();
    kill_process(daemon, Signal::KILL).unwrap();
    world.until_true("the daemon is gone", || has_ended(daemon));
    run_to_end(&world, "pi:p", "b");
    let second = adapter(&world, &["pi", "--id", "p"]);
    let next = message(&second);
    assert!(content(&next).contains("(b) exited"), "{next}");
    assert!(!content(&next).contains("(a)"), "{next}");
}

#[test]
fn of_two_adapters_that_start_at_once_one_delivers() {
    let world = World::new();
    world.daemon();
    let mut before = adapter(&world, &["pi", "--id", "p"]);
    until_following(&before, "p");
    for n in 0..8 {
        let both = [(); 2].map(|()| adapter(&world, &["pi", "--id", "p"]));
        let is_told = |line: &Value| line["kind"] == "following" || line["kind"] == "replaced";
        let mut said = both.iter().map(|one| one.records_until(is_told));
        let said = [said.next().unwrap(), said.next().unwrap()];
        before.records_until(|line| line["kind"] == "replaced");
        let reader = world.daemon_status()["consumers"][0]["reader"].clone();
        let stays = usize::from(both[1].pid().as_raw_nonzero().get() == reader);
        if said[1 - stays].last().unwrap()["kind"] == "following" {
            both[1 - stays].records_until(|line| line["kind"] == "replaced");
        }
        before = both.into_iter().nth(stays).unwrap();
        let name = format!("a{n}");
        run_to_end(&world, "pi:p", &name);
        let told = message(&before);
        assert!(
            content(&told).contains(&format!("({name}) exited")),
            "{told}"
        );
        receive(&mut before, &told);
        // A message whose receipt was not read is delivered again.
        until_acknowledged(&world, "pi:p");
    }
}

#[test]
fn a_client_that_was_stopped_hands_over_nothing_more() {
    let world = World::new();
    world.daemon();
    let first = adapter(&world, &["pi", "--id", "p"]);
    until_following(&first, "p");
    first.signal(Signal::STOP);
    run_to_end(&world, "pi:p", "a");
    let mut second = adapter(&world, &["pi", "--id", "p"]);
    until_following(&second, "p");
    let told = message(&second);
    receive(&mut second, &told);
    first.signal(Signal::CONT);
    let lines = first.records_until(|line| line["kind"] == "replaced");
    assert!(
        lines.iter().all(|line| line["kind"] != "message"),
        "{lines:?}"
    );
}

#[test]
fn a_new_conversation_hears_nothing_old_but_of_its_own_task() {
    let world = World::new();
    run_to_end(&world, "", "earlier");
    run_to_end(&world, "pi:other", "others");
    // Its shell was quicker than its adapter.
    run_to_end(&world, "pi:p", "own");
    let adapter = adapter(&world, &["pi", "--id", "p"]);
    let told = message(&adapter);
    assert!(content(&told).contains("(own) exited"), "{told}");
    for name in ["earlier", "others"] {
        assert!(!content(&told).contains(name), "{told}");
    }
}

#[test]
fn only_conversations_with_pending_messages_of_their_own_are_adopted() {
    let world = World::new();
    world.daemon();
    let before = adapter(&world, &["opencode", "--id", "a", "--id", "b"]);
    // In any order.
    let mut n_following = 0;
    before.records_until(|line| {
        n_following += usize::from(line["kind"] == "following");
        n_following == 2
    });
    before.signal(Signal::KILL);
    run_to_end(&world, "opencode:a", "a");
    run_to_end(&world, "", "everybodys");
    world.until_true("nobody follows them", || {
        let status = world.daemon_status();
        let consumers = status["consumers"].as_array().unwrap().clone();
        consumers.len() == 2 && consumers.iter().all(|one| one["reader"].is_null())
    });
    let mut after = adapter(&world, &["opencode", "--adopt"]);
    let told = message(&after);
    assert_eq!(told["to"], "a");
    receive(&mut after, &told);
    until_acknowledged(&world, "opencode:a");
    let consumers = world.daemon_status()["consumers"].clone();
    assert!(consumers[1]["reader"].is_null(), "{consumers}");
}

#[test]
fn an_adapter_that_adopts_serves_before_the_first_task_of_the_project() {
    let world = World::new();
    let mut adapter = adapter(&world, &["opencode", "--adopt"]);
    adapter.records_until(|line| line["kind"] == "hello");
    adapter.write("{\"follow\":\"one\"}\n");
    until_following(&adapter, "one");
    run_to_end(&world, "opencode:one", "first");
    let told = message(&adapter);
    assert!(content(&told).contains("(first) exited"), "{told}");
}

#[test]
fn an_adapter_that_takes_over_ends_the_one_before() {
    let world = World::new();
    world.daemon();
    let first = adapter(&world, &["pi", "--id", "p"]);
    until_following(&first, "p");
    let second = adapter(&world, &["pi", "--id", "p"]);
    until_following(&second, "p");
    first.records_until(|line| line["kind"] == "replaced");
}

#[test]
fn an_adapter_ends_with_its_client() {
    let world = World::new();
    world.daemon();
    let mut command = world.command(World::program());
    command.args(["agent", "pi", "--id", "p"]);
    // Standard input is at its end.
    assert_eq!(Output::of(command).code, 0);
}

#[test]
fn beyond_its_budget_a_conversation_waits_and_others_do_not() {
    let world = World::new();
    let config = world.path("conf").join("tmux-task");
    fs::create_dir_all(&config).unwrap();
    fs::write(config.join("config.toml"), "[agents]\nmax-per-minute = 1\n").unwrap();
    world.daemon();
    let mut adapter = adapter(&world, &["pi", "--id", "p"]);
    until_following(&adapter, "p");
    run_to_end(&world, "pi:p", "a");
    let first = message(&adapter);
    receive(&mut adapter, &first);
    until_acknowledged(&world, "pi:p");
    run_to_end(&world, "pi:p", "b");
    // Also after a restart.
    adapter.signal(Signal::KILL);
    adapter.wait();
    let mut adapter = self::adapter(&world, &["pi", "--id", "p"]);
    until_following(&adapter, "p");
    // A second conversation has a separate budget; when it has its message, ours would be there too.
    adapter.write("{\"follow\":\"q\"}\n");
    until_following(&adapter, "q");
    run_to_end(&world, "pi:q", "c");
    let second = message(&adapter);
    assert_eq!(second["to"], "q", "{second}");
}

// --- Claude Code

/// A conversation of Claude Code, whose client is a process of ours.
struct Claude<'a> {
    world: &'a World,
    client: std::process::Child,
}

impl<'a> Claude<'a> {
    fn start(world: &'a World) -> Self {
        let client = Command::new("sleep").arg("1000").spawn().unwrap();
        Self { world, client }
    }

    fn transcript(&self) -> std::path::PathBuf {
        self.world.path("transcript.jsonl")
    }

    fn input(&self, event: &str) -> String {
        let transcript = self.transcript();
        json!({"session_id": "c1", "transcript_path": transcript, "hook_event_name": event})
            .to_string()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.world.command(World::program());
        command
            .args(["agent", "claude"])
            .args(args)
            .env("CLAUDE_PID", self.client.id().to_string())
            .env("CLAUDE_PROJECT_DIR", self.world.project());
        command
    }

    /// Runs a hook to its end.
    fn hook(&self, event: &str, args: &[&str]) -> Output {
        Output::with_input(self.command(args), &self.input(event))
    }

    /// A hook in the background.
    fn begin(&self, event: &str) -> Running {
        let mut command = self.command(&["--wait"]);
        command.stdin(Stdio::piped());
        let mut waiter = Running::start(command);
        waiter.write(&self.input(event));
        waiter.close_stdin();
        waiter
    }

    /// A waiter that follows the conversation.
    fn waiter(&self, event: &str) -> Running {
        let waiter = self.begin(event);
        self.until_follows(&waiter);
        waiter
    }

    fn until_follows(&self, waiter: &Running) {
        self.world.until_true("the waiter follows", || {
            let status = self.world.daemon_status();
            let consumers = status["consumers"].as_array().cloned().unwrap_or_default();
            consumers.iter().any(|one| {
                one["name"] == "claude:c1" && one["reader"] == waiter.pid().as_raw_nonzero().get()
            })
        });
    }

    /// The waiter that takes the place of the one that follows.
    fn next_in_line(&self, event: &str) -> Running {
        let waiter = self.begin(event);
        self.world.until_true("the waiter is the next in line", || {
            let threads = format!("/proc/{}/task", waiter.pid().as_raw_nonzero());
            let mut threads = fs::read_dir(threads).unwrap().flatten();
            threads.any(|thread| {
                let name = fs::read_to_string(thread.path().join("comm"));
                name.is_ok_and(|name| name.trim_end() == "next-in-line")
            })
        });
        // One is enough.
        assert_eq!(self.hook("Stop", &["--wait"]).code, 0);
        waiter
    }

    /// Appends a record to the transcript.
    fn write_transcript(&self, record: &Value) {
        let mut file = fs::File::options()
            .append(true)
            .create(true)
            .open(self.transcript())
            .unwrap();
        writeln!(file, "{record}").unwrap();
    }

    /// What the client writes when a message is in its queue.
    fn queue(&self, text: &str) {
        let record = json!({"type": "queue-operation", "operation": "enqueue", "content": text});
        self.write_transcript(&record);
    }

    /// What the client writes when the conversation gets a message.
    fn add(&self, text: &str) {
        self.write_transcript(&json!({"type": "user", "message": {"content": text}}));
    }

    /// What the client writes when the model has answered.
    fn answer(&self) {
        let message = json!({"model": "claude", "stop_reason": "end_turn", "content": []});
        self.write_transcript(&json!({"type": "assistant", "message": message}));
    }

    /// The client is killed and started again.
    fn crash(&mut self) {
        self.client.kill().unwrap();
        self.client.wait().unwrap();
        self.client = Command::new("sleep").arg("1000").spawn().unwrap();
    }
}

impl Drop for Claude<'_> {
    fn drop(&mut self) {
        drop(self.client.kill());
        drop(self.client.wait());
    }
}

#[test]
fn a_waiter_wakes_the_model_and_an_answer_is_the_receipt() {
    let world = World::new();
    world.daemon();
    let claude = Claude::start(&world);
    let waiter = claude.waiter("SessionStart");
    let next = claude.next_in_line("UserPromptSubmit");
    run_to_end(&world, "claude:c1", "a");
    let woke = woken(waiter);
    assert!(woke.contains("(a) exited with code 3"), "{woke}");
    // While the message is in the client's queue, later ones wait, and no hook need run.
    claude.until_follows(&next);
    claude.queue(&woke);
    run_to_end(&world, "claude:c1", "b");
    claude.add(&woke);
    let second = woken(next);
    assert!(
        second.contains("(b) exited") && !second.contains("(a)"),
        "{second}"
    );
    // The model answers both.
    let mut waiter = claude.waiter("Stop");
    claude.add(&second);
    claude.answer();
    until_acknowledged(&world, "claude:c1");
    // The end of the conversation ends the waiters.
    let mut next = claude.next_in_line("Stop");
    assert_eq!(claude.hook("SessionEnd", &[]).code, 0);
    assert_eq!((waiter.wait(), next.wait()), (0, 0));
}

/// What a waiter printed that woke the model.
#[track_caller]
fn woken(mut waiter: Running) -> String {
    let mut text = String::new();
    while !text.ends_with(")\n") {
        text.push_str(&waiter.complaint());
        text.push('\n');
    }
    assert_eq!(waiter.wait(), 2);
    text
}

#[test]
fn a_message_that_the_model_has_not_answered_comes_again_to_the_next_client() {
    let world = World::new();
    world.daemon();
    let mut claude = Claude::start(&world);
    let waiter = claude.waiter("SessionStart");
    run_to_end(&world, "claude:c1", "a");
    let lost = woken(waiter);
    claude.queue(&lost);
    claude.crash();
    let again = claude.hook("SessionStart", &["--wait"]);
    assert_eq!((again.code, &again.err), (2, &lost));
    // It is in the conversation, and the client ends before the model has answered.
    claude.add(&lost);
    claude.crash();
    let again = claude.hook("SessionStart", &["--wait"]);
    assert_eq!((again.code, &again.err), (2, &lost));
    claude.add(&lost);
    claude.answer();
    claude.crash();
    // This one was answered.
    let waiter = claude.waiter("SessionStart");
    until_acknowledged(&world, "claude:c1");
    run_to_end(&world, "claude:c1", "b");
    let next = woken(waiter);
    assert!(
        next.contains("(b) exited") && !next.contains("(a)"),
        "{next}"
    );
}

#[test]
fn shells_of_a_conversation_have_its_session() {
    let mut world = World::new();
    world.set("TMUX_TASK_SESSION", "");
    let file = world.path("env.sh");
    let claude = Claude::start(&world);
    let mut command = claude.command(&[]);
    command.env("CLAUDE_ENV_FILE", &file);
    Output::with_input(command, &claude.input("SessionStart")).ok();
    let line = fs::read_to_string(&file).unwrap();
    let name = line.strip_prefix("export TMUX_TASK_SESSION='").unwrap();
    assert!(name.starts_with("task-project-"), "{line}");
    // The user's setting is kept.
    fs::remove_file(&file).unwrap();
    let mut command = claude.command(&[]);
    command
        .env("CLAUDE_ENV_FILE", &file)
        .env("TMUX_TASK_SESSION", "mine");
    Output::with_input(command, &claude.input("SessionStart")).ok();
    assert!(!Path::new(&file).exists());
    // A conversation that was started in another one's shell owns its tasks itself.
    for (inherited, expected) in [
        ("pi:p1", "export TMUX_TASK_OWNER='claude:c1'\n"),
        ("me", ""),
    ] {
        let mut command = claude.command(&[]);
        command
            .env("CLAUDE_ENV_FILE", &file)
            .env("TMUX_TASK_SESSION", "mine")
            .env("TMUX_TASK_OWNER", inherited);
        Output::with_input(command, &claude.input("SessionStart")).ok();
        let lines = fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(lines, expected, "{inherited}");
        fs::remove_file(&file).ok();
    }
}

#[test]
fn what_is_no_hook_input_is_refused() {
    let world = World::new();
    let mut command = world.command(World::program());
    command.args(["agent", "claude", "--wait"]);
    let output = Output::with_input(command, "hello\n");
    assert_eq!(output.code, 1, "{output}");
    assert!(
        output
            .err
            .starts_with("tmux-task: agent: standard input is not"),
        "{output}"
    );
}

// --- init

#[test]
fn an_adapter_is_shown_then_written_then_removed() {
    let mut world = World::new();
    let path = world.path("conf").join("opencode/plugin/tmux-task.js");
    let shown = world.task(["init", "opencode"]);
    assert_eq!(shown.ok(), format!("would write {}\n", path.display()));
    assert!(!path.exists());
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    world.script("bin/opencode", "#!/bin/sh\n");
    world.prepend_path(&bin);
    world.task(["init", "opencode", "--write"]).ok();
    assert!(
        fs::read_to_string(&path)
            .unwrap()
            .contains("tmux-task agent opencode")
    );
    let removed = world.task(["init", "opencode", "--remove"]);
    assert_eq!(removed.ok(), format!("removed {}\n", path.display()));
    assert!(!path.exists());
    let again = world.task(["init", "opencode", "--remove"]);
    assert_eq!(
        again.ok(),
        format!("nothing to remove: {}\n", path.display())
    );
    let shown = world.task(["init", "codex"]);
    let path = world.path("xdg/tmux-task/adapters/codex/enabled");
    let written = format!("would write {}\n", path.display());
    let (first, second) = shown.ok().split_at(written.len());
    assert_eq!(first, written);
    assert!(
        second.starts_with("would run codex mcp add tmux-task --env "),
        "{second}"
    );
}

#[test]
fn a_client_that_is_missing_is_named() {
    let mut world = World::new();
    world.set("PATH", "/nowhere");
    let output = world.task(["init", "pi", "--write"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("no program `pi` on PATH"), "{output}");
    assert!(output.err.contains("and put it on PATH"), "{output}");
    for client in ["opencode", "claude", "codex"] {
        let output = world.task(["init", client, "--write"]);
        let expected = format!("tmux-task: init: no program `{client}` on PATH, so nothing was");
        assert!(output.err.starts_with(&expected), "{output}");
        assert_eq!((output.code, output.out.as_str()), (1, ""));
    }
    assert!(!world.path("conf/opencode").exists());
    let folder = world.path("xdg/tmux-task/adapters/pi");
    assert!(!folder.parent().unwrap().exists());
    // Its files are removed also if the client was removed before.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("index.ts"), "").unwrap();
    let output = world.task(["init", "pi", "--remove"]);
    assert!(output.ok().contains("removed "), "{output}");
    assert!(
        output.err.contains("this was not run: pi remove "),
        "{output}"
    );
    assert!(!folder.exists());
}

#[test]
fn a_client_that_fails_half_way_leaves_nothing_that_remove_does_not_take_away() {
    let mut world = World::new();
    let bin = world.path("bin");
    fs::create_dir(&bin).unwrap();
    let line = "case $* in *marketplace*add*) ;; *) echo 'not logged in' >&2; exit 1; esac";
    world.script("bin/claude", &format!("#!/bin/sh\n{line}\n"));
    world.prepend_path(&bin);
    let folder = world.path("xdg/tmux-task/adapters/claude-code");
    let written = world.task(["init", "claude", "--write"]);
    let error =
        "tmux-task: init: `claude plugin install tmux-task@tmux-task` failed: not logged in";
    assert_eq!(written.code, 1, "{written}");
    assert!(written.err.starts_with(error), "{written}");
    assert!(
        written
            .err
            .contains("hint: `tmux-task init claude --remove` "),
        "{written}"
    );
    let plugin = folder.join(".claude-plugin/plugin.json");
    let line = format!("wrote {}\n", plugin.display());
    assert!(written.out.contains(&line), "{written}");
    assert!(
        written.out.contains("\nran claude plugin marketplace add "),
        "{written}"
    );
    let removed = world.task(["init", "claude", "--remove"]);
    assert_eq!(removed.code, 1, "{removed}");
    for command in [
        "uninstall tmux-task@tmux-task",
        "marketplace remove tmux-task",
    ] {
        let error = format!("tmux-task: init: `claude plugin {command}` failed: not logged in\n");
        assert!(removed.err.contains(&error), "{removed}");
    }
    let line = format!("removed {}\n", plugin.display());
    assert!(removed.out.contains(&line), "{removed}");
    assert!(!folder.exists());
    let again = world.task(["init", "claude", "--remove"]);
    assert!(again.ok().starts_with("nothing to remove: "), "{again}");
}

// --- opencode

/// opencode as the plugin sees it: `store ID` on standard input is opencode's report that it has
/// stored a message; the arguments are the messages that it has from the start.
const OPENCODE: &str = r#"
import { createInterface } from "node:readline"
import { TmuxTask } from "./tmux-task.mjs"
const say = (line) => console.log(JSON.stringify(line))
const stored = process.argv.slice(2)
const client = { session: {
  promptAsync: async ({ path, body }) => {
    say({ kind: "prompt", to: path.id, id: body.messageID, text: body.parts[0].text })
    return {}
  },
  messages: async () => {
    say({ kind: "lookup" })
    return { data: stored.map((id) => ({ info: { id } })) }
  },
} }
const plugin = await TmuxTask({ client, directory: process.cwd() })
const output = { env: {} }
await plugin["shell.env"]({ cwd: process.cwd(), sessionID: "ses_1" }, output)
say({ kind: "env", env: output.env })
for await (const line of createInterface({ input: process.stdin })) {
  const id = line.split(" ")[1]
  stored.push(id)
  await plugin.event({ event: { type: "message.updated", properties: { info: { id, sessionID: "ses_1" } } } })
}
process.exit(0)
"#;

fn opencode(world: &World, stored: &[&str]) -> Running {
    let plugin = Path::new(env!("CARGO_MANIFEST_DIR")).join("hooks/opencode/tmux-task.js");
    fs::copy(plugin, world.path("tmux-task.mjs")).unwrap();
    fs::write(world.path("opencode.mjs"), OPENCODE).unwrap();
    let mut command = world.command("node");
    command
        .arg(world.path("opencode.mjs"))
        .args(stored)
        .stdin(Stdio::piped());
    Running::start(command)
}

#[test]
fn the_plugin_of_opencode_delivers_once() {
    let mut world = World::new();
    world.prepend_path(World::program().parent().unwrap());
    world.daemon();
    let mut client = opencode(&world, &[]);
    let env = client.record()["env"].clone();
    assert_eq!(env, json!({"TMUX_TASK_OWNER": "opencode:ses_1"}));
    run_to_end(&world, "opencode:ses_1", "a");
    let prompt = client.record();
    assert_eq!(prompt["to"], "ses_1");
    assert!(
        prompt["text"]
            .as_str()
            .unwrap()
            .contains("(a) exited with code 3"),
        "{prompt}"
    );
    let id = prompt["id"].as_str().unwrap();
    assert!(id.starts_with("msg_") && id.len() == 30, "{id}");
    client.write(&format!("store {id}\n"));
    until_acknowledged(&world, "opencode:ses_1");
    // opencode stores the next one and is killed before the plugin knows.
    run_to_end(&world, "opencode:ses_1", "b");
    let prompt = client.record();
    client.signal(Signal::KILL);
    client.wait();
    let second = prompt["id"].as_str().unwrap();
    let client = opencode(&world, &[id, second]);
    let mut said = client.records_until(|said| said["kind"] == "env");
    until_acknowledged(&world, "opencode:ses_1");
    run_to_end(&world, "opencode:ses_1", "c");
    said.extend(client.records_until(|said| said["kind"] == "prompt"));
    // Only what may have been delivered before is looked for.
    let lookups = said.iter().filter(|said| said["kind"] == "lookup");
    assert_eq!(lookups.count(), 1, "{said:?}");
    let prompt = said.last().unwrap();
    let text = prompt["text"].as_str().unwrap();
    assert!(
        text.contains("(c) exited") && !text.contains("(b)"),
        "{prompt}"
    );
}

#[test]
fn shells_of_opencode_have_the_session_that_is_followed() {
    let mut world = World::new();
    world.prepend_path(World::program().parent().unwrap());
    world.set("TMUX_TASK_SESSION", "");
    let client = opencode(&world, &[]);
    let env = client.record()["env"].clone();
    let name = env["TMUX_TASK_SESSION"].as_str().unwrap();
    assert!(name.starts_with("task-project-"), "{env}");
}

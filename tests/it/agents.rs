//! Adapters: each message reaches its conversation once, whichever process is killed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Output, Running, SESSION, World, begins, confirm, content_of, has, has_ended, is_message,
    lacks, message,
};

/// An adapter that runs inside a client.
fn adapter(world: &World, args: &[&str]) -> Running {
    world.start_piped([&["agent"], args].concat())
}

/// The lines until the conversation is followed.
#[track_caller]
fn until_following(adapter: &Running, id: &str) {
    adapter.records_until(|line| line["kind"] == "following" && line["to"] == id);
}

/// The adapter of the conversation `pi:p`. It may have a message before it follows.
fn pi(world: &World) -> Running {
    adapter(world, &["pi", "--id", "p"])
}

/// A world with a daemon, and the adapter of the conversation `pi:p`, which follows.
fn with_pi() -> (World, Running) {
    let world = World::new();
    world.daemon();
    let adapter = pi(&world);
    until_following(&adapter, "p");
    (world, adapter)
}

/// Runs a task of this owner to its end and waits until that is recorded.
#[track_caller]
fn run_to_end(world: &World, owner: &str, name: &str) {
    world.task_as(owner, ["run", name, "--", "exit 3"]).ok();
    world.until_delivered("exited", name);
}

/// Checks how often a message tells the ends of these tasks.
#[track_caller]
fn check_ends<const N: usize>(message: &Value, ends: [(&str, usize); N]) {
    for (name, n) in ends {
        let end = format!("({name}) exited with code 3");
        assert_eq!(
            content_of(message).matches(&end).count(),
            n,
            "{name}: {message}"
        );
    }
}

#[test]
fn each_conversation_hears_of_its_own_tasks_and_of_everybodys() {
    let world = World::new();
    world.daemon();
    let mut adapter = adapter(&world, &["opencode", "--id", "one"]);
    until_following(&adapter, "one");
    adapter.write("{\"follow\":\"two\"}\n");
    until_following(&adapter, "two");
    for id in ["one", "two"] {
        run_to_end(&world, &format!("opencode:{id}"), id);
        let told = message(&adapter);
        assert_eq!(told["to"], id);
        begins(content_of(&told), "[tmux-task notification]\n");
        confirm(&mut adapter, &told);
    }
    run_to_end(&world, "", "everybodys");
    let both = [message(&adapter), message(&adapter)];
    assert_ne!(both[0]["to"], both[1]["to"]);
    for told in &both {
        check_ends(told, [("everybodys", 1)]);
        confirm(&mut adapter, told);
    }
    world.until_acknowledged("opencode:one");
    world.until_acknowledged("opencode:two");
}

#[test]
fn what_happens_until_the_receipt_is_one_message() {
    let (world, mut adapter) = with_pi();
    run_to_end(&world, "pi:p", "a");
    let first = message(&adapter);
    for name in ["b", "c"] {
        run_to_end(&world, "pi:p", name);
    }
    // They are on the stream before this notice, so the adapter has them.
    world.run("later", "sleep 1000");
    adapter.records_until(|line| {
        let text = line["text"].as_str().unwrap_or_default();
        line["kind"] == "notice" && text.contains("(later)")
    });
    // A receipt for another message is none.
    adapter.write("{\"received\":{\"to\":\"p\",\"id\":\"x:1\"}}\n");
    confirm(&mut adapter, &first);
    let rest = message(&adapter);
    check_ends(&rest, [("a", 0), ("b", 1), ("c", 1)]);
    let headers = content_of(&rest).matches("[tmux-task notification]");
    assert_eq!(headers.count(), 1);
}

#[test]
fn a_message_without_a_receipt_comes_again_as_it_was_after_every_crash() {
    let (world, mut adapter) = with_pi();
    run_to_end(&world, "pi:p", "a");
    let told = message(&adapter);
    // The client dies before its session has the message, twice.
    for name in ["b", "c"] {
        adapter.kill();
        run_to_end(&world, "pi:p", name);
        adapter = pi(&world);
        let again = message(&adapter);
        assert_eq!(
            (&again["id"], content_of(&again), &again["isNew"]),
            (&told["id"], content_of(&told), &json!(false))
        );
    }
    confirm(&mut adapter, &told);
    let rest = message(&adapter);
    check_ends(&rest, [("a", 0), ("b", 1), ("c", 1)]);
    // The daemon dies before the acknowledgement.
    world.kill_daemon();
    confirm(&mut adapter, &rest);
    run_to_end(&world, "pi:p", "d");
    let next = message(&adapter);
    check_ends(&next, [("b", 0), ("c", 0), ("d", 1)]);
    confirm(&mut adapter, &next);
    world.until_acknowledged("pi:p");
}

#[test]
fn what_was_confirmed_does_not_come_again_if_its_acknowledgement_is_lost() {
    let (world, mut first) = with_pi();
    run_to_end(&world, "pi:p", "a");
    let told = message(&first);
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    confirm(&mut first, &told);
    let ledger = world.state(SESSION).join("agents/pi:p.json");
    world.until_true("the receipt is recorded", || {
        fs::read_to_string(&ledger).is_ok_and(|text| text.contains("\"handedOver\":[]"))
    });
    first.kill();
    kill_process(daemon, Signal::KILL).unwrap();
    world.until_true("the daemon is gone", || has_ended(daemon));
    run_to_end(&world, "pi:p", "b");
    check_ends(&message(&pi(&world)), [("a", 0), ("b", 1)]);
}

#[test]
fn of_two_adapters_that_start_at_once_one_delivers() {
    let (world, mut before) = with_pi();
    for n in 0..8 {
        let both = [(); 2].map(|()| pi(&world));
        let is_told = |line: &Value| line["kind"] == "following" || line["kind"] == "replaced";
        let said = both.each_ref().map(|one| one.records_until(is_told));
        before.records_until(|line| line["kind"] == "replaced");
        let reader = world.consumers()[0]["reader"].clone();
        let stays = usize::from(both[1].pid().as_raw_nonzero().get() == reader);
        if said[1 - stays].last().unwrap()["kind"] == "following" {
            both[1 - stays].records_until(|line| line["kind"] == "replaced");
        }
        before = both.into_iter().nth(stays).unwrap();
        let name = format!("a{n}");
        run_to_end(&world, "pi:p", &name);
        let told = message(&before);
        check_ends(&told, [(&name, 1)]);
        confirm(&mut before, &told);
        // A message whose receipt was not read is delivered again.
        world.until_acknowledged("pi:p");
    }
}

#[test]
fn a_client_that_was_stopped_hands_over_nothing_more() {
    let (world, first) = with_pi();
    first.signal(Signal::STOP);
    run_to_end(&world, "pi:p", "a");
    let mut second = pi(&world);
    until_following(&second, "p");
    let told = message(&second);
    confirm(&mut second, &told);
    first.signal(Signal::CONT);
    let lines = first.records_until(|line| line["kind"] == "replaced");
    assert!(!lines.iter().any(is_message), "{lines:?}");
}

#[test]
fn a_new_conversation_hears_nothing_old_but_of_its_own_task() {
    let world = World::new();
    // Its shell was quicker than its adapter.
    for (owner, name) in [("", "earlier"), ("pi:other", "others"), ("pi:p", "own")] {
        run_to_end(&world, owner, name);
    }
    let told = message(&pi(&world));
    check_ends(&told, [("own", 1)]);
    for name in ["earlier", "others"] {
        lacks(content_of(&told), name);
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
        let consumers = world.consumers();
        consumers.len() == 2 && consumers.iter().all(|one| one["reader"].is_null())
    });
    let mut after = adapter(&world, &["opencode", "--adopt"]);
    let told = message(&after);
    assert_eq!(told["to"], "a");
    confirm(&mut after, &told);
    world.until_acknowledged("opencode:a");
    let consumers = world.consumers();
    assert!(consumers[1]["reader"].is_null(), "{consumers:?}");
}

#[test]
fn conversations_whose_tasks_run_are_adopted_by_their_own_machine_only() {
    let world = World::new();
    let gate = "until [ -e gate ]; do sleep 0.05; done; exit 3";
    let before = adapter(&world, &["opencode", "--id", "a"]);
    until_following(&before, "a");
    before.signal(Signal::KILL);
    for (owner, task) in [("opencode:a", "a"), ("opencode:far", "far")] {
        world.task_as(owner, ["run", task, "--", gate]).ok();
    }
    world.until_true("nobody follows", || {
        world.consumers()[0]["reader"].is_null()
    });
    let mut after = adapter(&world, &["opencode", "--adopt"]);
    until_following(&after, "a");
    fs::write(world.project().join("gate"), "").unwrap();
    let told = message(&after);
    check_ends(&told, [("a", 1)]);
    confirm(&mut after, &told);
    world.until_acknowledged("opencode:a");
    assert_eq!(world.consumers().len(), 1, "nobody here follows `far`");
}

#[test]
fn an_adapter_that_adopts_serves_before_the_first_task_of_the_project_and_ends_with_its_client() {
    let world = World::new();
    let mut adapter = adapter(&world, &["opencode", "--adopt"]);
    adapter.records_until(|line| line["kind"] == "hello");
    adapter.write("{\"follow\":\"one\"}\n");
    until_following(&adapter, "one");
    run_to_end(&world, "opencode:one", "first");
    check_ends(&message(&adapter), [("first", 1)]);
    adapter.close_stdin();
    assert_eq!(adapter.wait(), 0);
}

#[test]
fn beyond_its_budget_a_conversation_waits_and_others_do_not() {
    let world = World::new();
    world.configure("[agents]\nmax-per-minute = 1\n");
    world.daemon();
    let mut adapter = pi(&world);
    until_following(&adapter, "p");
    run_to_end(&world, "pi:p", "a");
    let first = message(&adapter);
    confirm(&mut adapter, &first);
    world.until_acknowledged("pi:p");
    run_to_end(&world, "pi:p", "b");
    // Also after a restart.
    adapter.kill();
    let mut adapter = pi(&world);
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
    client: Child,
}

impl<'a> Claude<'a> {
    fn start(world: &'a World) -> Self {
        let client = Command::new("sleep").arg("1000").spawn().unwrap();
        Self { world, client }
    }

    fn transcript(&self) -> PathBuf {
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
            .args([&["agent", "claude"], args].concat())
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
        let pid = waiter.pid().as_raw_nonzero().get();
        self.world.until_true("the waiter follows", || {
            let mut consumers = self.world.consumers().into_iter();
            consumers.any(|one| one["name"] == "claude:c1" && one["reader"] == pid)
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
        let mut options = fs::File::options();
        let file = options.append(true).create(true).open(self.transcript());
        writeln!(file.unwrap(), "{record}").unwrap();
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

    fn kill(&mut self) {
        drop((self.client.kill(), self.client.wait()));
    }

    /// The client is killed and started again.
    fn crash(&mut self) {
        self.kill();
        self.client = Command::new("sleep").arg("1000").spawn().unwrap();
    }
}

impl Drop for Claude<'_> {
    fn drop(&mut self) {
        self.kill();
    }
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
fn a_client_that_waits_for_all_of_its_hooks_is_not_held_up() {
    let world = World::new();
    let claude = Claude::start(&world);
    for event in ["SessionStart", "UserPromptSubmit", "Stop"] {
        let mut command = claude.command(&["--wait"]);
        command.env("CLAUDE_CODE_ENTRYPOINT", "sdk-cli");
        let output = Output::with_input(command, &claude.input(event));
        assert_eq!((output.code, output.err.as_str()), (0, ""), "{event}");
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
    has(&woke, "(a) exited with code 3");
    // While the message is in the client's queue, later ones wait, and no hook need run.
    claude.until_follows(&next);
    claude.queue(&woke);
    run_to_end(&world, "claude:c1", "b");
    claude.add(&woke);
    // And until the turn has ended.
    claude.answer();
    let second = woken(next);
    has(&second, "(b) exited");
    lacks(&second, "(a)");
    // The model answers both.
    let mut waiter = claude.waiter("Stop");
    claude.add(&second);
    claude.answer();
    world.until_acknowledged("claude:c1");
    // The end of the conversation ends the waiters.
    let mut next = claude.next_in_line("Stop");
    assert_eq!(claude.hook("SessionEnd", &[]).code, 0);
    assert_eq!((waiter.wait(), next.wait()), (0, 0));
}

#[test]
fn a_message_that_the_model_has_not_answered_comes_again_to_the_next_client() {
    let world = World::new();
    world.daemon();
    let mut claude = Claude::start(&world);
    let waiter = claude.waiter("SessionStart");
    run_to_end(&world, "claude:c1", "a");
    let lost = woken(waiter);
    // First the client ends with it in its queue, then before the model has answered.
    claude.queue(&lost);
    for _ in 0..2 {
        claude.crash();
        let again = claude.hook("SessionStart", &["--wait"]);
        assert_eq!((again.code, &again.err), (2, &lost));
        claude.add(&lost);
    }
    claude.answer();
    // This one was answered. Then the client is killed in another turn, which the next one does not wait for.
    claude.add("go on");
    claude.crash();
    let waiter = claude.waiter("SessionStart");
    world.until_acknowledged("claude:c1");
    run_to_end(&world, "claude:c1", "b");
    let next = woken(waiter);
    has(&next, "(b) exited");
    lacks(&next, "(a)");
}

#[test]
fn shells_of_a_conversation_have_its_session() {
    let mut world = World::new();
    world.prepend_path(World::program().parent().unwrap());
    world.set("TMUX_TASK_SESSION", "");
    let (_client, said) = opencode(&world, &[]);
    let name = &said.last().unwrap()["env"]["TMUX_TASK_SESSION"];
    begins(name.as_str().unwrap(), "task-project-");
    let claude = Claude::start(&world);
    // What the hook writes for the client's shells.
    let lines_for = |variables: &[(&str, &str)]| {
        let file = world.path("env.sh");
        let mut command = claude.command(&[]);
        command.env("CLAUDE_ENV_FILE", &file);
        command.envs(variables.iter().copied());
        Output::with_input(command, &claude.input("SessionStart")).ok();
        let lines = fs::read_to_string(&file).unwrap_or_default();
        fs::remove_file(&file).ok();
        lines
    };
    begins(lines_for(&[]), "export TMUX_TASK_SESSION='task-project-");
    // The user's setting is kept. A conversation that was started in another one's shell owns its tasks
    // itself.
    let mine = ("TMUX_TASK_SESSION", "mine");
    assert_eq!(lines_for(&[mine]), "");
    for (inherited, expected) in [
        ("pi:p1", "export TMUX_TASK_OWNER='claude:c1'\n"),
        ("me", ""),
    ] {
        let lines = lines_for(&[mine, ("TMUX_TASK_OWNER", inherited)]);
        assert_eq!(lines, expected, "{inherited}");
    }
}

#[test]
fn what_is_no_hook_input_is_refused() {
    let output = World::new().task_reading("hello\n", ["agent", "claude", "--wait"]);
    output.fails_so(1, "tmux-task: agent: standard input is not");
}

// --- init

#[test]
fn an_adapter_is_shown_then_written_then_removed() {
    let mut world = World::new();
    let path = world.path("conf").join("opencode/plugin/tmux-task.js");
    let shown = path.display();
    let init = |world: &World, more: &[&str]| {
        let output = world.task([&["init", "opencode"], more].concat());
        output.ok().to_owned()
    };
    assert_eq!(init(&world, &[]), format!("would write {shown}\n"));
    assert!(!path.exists());
    world.install("opencode", "");
    init(&world, &["--write"]);
    let written = fs::read_to_string(&path).unwrap();
    has(written, "tmux-task agent opencode");
    for said in ["removed ", "nothing to remove: "] {
        assert_eq!(init(&world, &["--remove"]), format!("{said}{shown}\n"));
        assert!(!path.exists());
    }
    let extension = world.path("home/.copilot/extensions/tmux-task/extension.mjs");
    let written = format!("wrote {}\n", extension.display());
    world.install("copilot", "");
    assert_eq!(world.task(["init", "copilot", "--write"]).ok(), written);
    assert!(extension.exists());
    world.task(["init", "copilot", "--remove"]).ok();
    assert!(!extension.parent().unwrap().exists());
    let marker = world.path("xdg/tmux-task/adapters/codex/enabled");
    let start = format!(
        "would write {}\nwould run codex mcp add tmux-task --env ",
        marker.display()
    );
    begins(world.task(["init", "codex"]).ok(), start);
}

#[test]
fn a_client_that_is_missing_is_named() {
    let mut world = World::new();
    world.set("PATH", "/nowhere");
    for client in ["pi", "opencode", "claude", "codex", "copilot"] {
        let output = world.task(["init", client, "--write"]);
        let expected = format!("tmux-task: init: no program `{client}` on PATH, so nothing was");
        output.fails_so(1, &expected).says("and put it on PATH");
        assert_eq!(output.out, "");
    }
    assert!(!world.path("conf/opencode").exists());
    let folder = world.path("xdg/tmux-task/adapters/pi");
    assert!(!folder.parent().unwrap().exists());
    // Its files are removed also if the client was removed before.
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("index.ts"), "").unwrap();
    let output = world.task(["init", "pi", "--remove"]);
    has(output.ok(), "removed ");
    output.says("this was not run: pi remove ");
    assert!(!folder.exists());
}

#[test]
fn a_client_that_fails_half_way_leaves_nothing_that_remove_does_not_take_away() {
    let mut world = World::new();
    let script = "case $* in *marketplace*add*) ;; *) echo 'not logged in' >&2; exit 1; esac";
    world.install("claude", script);
    let folder = world.path("xdg/tmux-task/adapters/claude-code");
    let plugin = folder.join(".claude-plugin/plugin.json");
    let plugin = plugin.display();
    let failed =
        |command: &str| format!("tmux-task: init: `claude plugin {command}` failed: not logged in");
    let written = world.task(["init", "claude", "--write"]);
    written
        .fails_so(1, &failed("install tmux-task@tmux-task"))
        .says("hint: `tmux-task init claude --remove` ")
        .shows(format!("wrote {plugin}\n"))
        .shows("\nran claude plugin marketplace add ");
    let removed = world.task(["init", "claude", "--remove"]);
    removed
        .fails_so(1, "")
        .says(failed("uninstall tmux-task@tmux-task"))
        .says(failed("marketplace remove tmux-task"))
        .shows(format!("removed {plugin}\n"));
    assert!(!folder.exists());
    let again = world.task(["init", "claude", "--remove"]);
    begins(again.ok(), "nothing to remove: ");
}

// --- opencode

const OPENCODE: &str = include_str!("../fixtures/agents/opencode.mjs");

const OPENCODE_2: &str = include_str!("../fixtures/agents/opencode2.mjs");

/// A world with a daemon, and the program on `PATH`.
fn with_program() -> World {
    let mut world = World::new();
    world.prepend_path(World::program().parent().unwrap());
    world.daemon();
    world
}

/// A client with the plugin, which has these messages, and what it says until its shells' environment.
fn opencode(world: &World, stored: &[&str]) -> (Running, Vec<Value>) {
    opencode_of(world, OPENCODE, stored)
}

fn opencode_of(world: &World, host: &str, stored: &[&str]) -> (Running, Vec<Value>) {
    fs::write(world.path("opencode.mjs"), host).unwrap();
    let client = with_hook(world, "opencode/tmux-task.js", "opencode.mjs", stored);
    let said = client.records_until(|said| said["kind"] == "env");
    (client, said)
}

/// Runs a script beside a copy of this file of `hooks`, which is a module there.
fn with_hook(world: &World, hook: &str, script: &str, args: &[&str]) -> Running {
    let hook = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("hooks")
        .join(hook);
    let name = hook.with_extension("mjs");
    fs::copy(
        &hook,
        world.path(name.file_name().unwrap().to_str().unwrap()),
    )
    .unwrap();
    let mut command = world.command("node");
    command
        .arg(world.path(script))
        .args(args)
        .stdin(Stdio::piped());
    Running::start(command)
}

#[test]
fn the_plugin_of_opencode_delivers_once() {
    let world = with_program();
    let (mut client, said) = opencode(&world, &[]);
    let env = json!({"TMUX_TASK_OWNER": "opencode:ses_1"});
    assert_eq!(said.last().unwrap()["env"], env);
    run_to_end(&world, "opencode:ses_1", "a");
    let prompt = client.record();
    assert_eq!(prompt["to"], "ses_1");
    has(prompt["text"].as_str().unwrap(), "(a) exited with code 3");
    let id = prompt["id"].as_str().unwrap();
    assert!(id.starts_with("msg_") && id.len() == 30, "{id}");
    client.write(&format!("store {id}\n"));
    world.until_acknowledged("opencode:ses_1");
    // opencode stores the next one and is killed before the plugin knows.
    run_to_end(&world, "opencode:ses_1", "b");
    let prompt = client.record();
    client.kill();
    let second = prompt["id"].as_str().unwrap();
    let (client, mut said) = opencode(&world, &[id, second]);
    world.until_acknowledged("opencode:ses_1");
    run_to_end(&world, "opencode:ses_1", "c");
    said.extend(client.records_until(|said| said["kind"] == "prompt"));
    // Only what may have been delivered before is looked for.
    let lookups = said.iter().filter(|said| said["kind"] == "lookup");
    assert_eq!(lookups.count(), 1, "{said:?}");
    let text = said.last().unwrap()["text"].as_str().unwrap();
    has(text, "(c) exited");
    lacks(text, "(b)");
}

#[test]
fn a_message_waits_for_the_end_of_the_turn_unless_the_next_step_is_wanted() {
    let world = with_program();
    let (mut client, _) = opencode(&world, &[]);
    client.write("work\n");
    client.records_until(|said| said["kind"] == "work");
    run_to_end(&world, "opencode:ses_1", "a");
    assert_eq!(client.record()["kind"], "asked");
    client.write("rest\n");
    assert_eq!(client.record()["kind"], "rest");
    let prompt = client.record();
    has(prompt["text"].as_str().unwrap(), "(a) exited with code 3");
    let id = prompt["id"].as_str().unwrap();
    client.write(&format!("store {id}\n"));
    world.until_acknowledged("opencode:ses_1");
    client.kill();

    world.configure("[agents]\ndeliver = \"next-step\"\n");
    let (mut client, _) = opencode(&world, &[id]);
    client.write("work\n");
    client.records_until(|said| said["kind"] == "work");
    run_to_end(&world, "opencode:ses_1", "b");
    has(
        client.record()["text"].as_str().unwrap(),
        "(b) exited with code 3",
    );
}

#[test]
fn the_plugin_of_opencode_2_gives_each_message_an_id_once() {
    let world = with_program();
    let (mut client, said) = opencode_of(&world, OPENCODE_2, &[]);
    // Whose a shell is follows from the call that it belongs to.
    let of = |id: &str| json!({"TMUX_TASK_OWNER": format!("opencode:{id}")});
    let envs = json!([of("ses_2"), of("ses_1"), of("ses_4"), {}]);
    assert_eq!(said.last().unwrap()["envs"], envs);

    run_to_end(&world, "opencode:ses_1", "a");
    let a = client.record();
    assert_eq!(
        (&a["sessionID"], &a["delivery"]),
        (&json!("ses_1"), &json!("queue"))
    );
    has(a["text"].as_str().unwrap(), "(a) exited with code 3");
    has(a["description"].as_str().unwrap(), "(a) exited with code 3");
    let id = |said: &Value| said["id"].as_str().unwrap().to_owned();
    assert!(id(&a).starts_with("msg_") && id(&a).len() == 30, "{a}");
    // The next one is given when the conversation has it.
    run_to_end(&world, "opencode:ses_1", "b");
    client.write(&format!("deliver {}\n", id(&a)));
    let b = client.record();
    has(b["text"].as_str().unwrap(), "(b) exited");
    // The user takes it from the inbox.
    client.write(&format!("cancel {}\n", id(&b)));
    world.until_acknowledged("opencode:ses_1");
    // opencode is killed while it has the next one in its inbox: it gets the same id.
    run_to_end(&world, "opencode:ses_1", "d");
    let d = client.record();
    client.kill();
    let (client, mut said) = opencode_of(&world, OPENCODE_2, &[&id(&d)]);
    world.until_acknowledged("opencode:ses_1");
    run_to_end(&world, "opencode:ses_1", "e");
    said.extend(client.records_until(|said| said["isNew"] == true));
    let given = said.iter().filter(|said| said["kind"] == "synthetic");
    let ids = given.map(id).collect::<Vec<_>>();
    assert_eq!((ids.len(), &ids[0]), (2, &id(&d)), "{said:?}");
    has(said.last().unwrap()["text"].as_str().unwrap(), "(e) exited");
}

// --- GitHub Copilot CLI

const COPILOT: &str = include_str!("../fixtures/agents/copilot-sdk.mjs");

fn copilot(world: &World, stored: &[&str]) -> Running {
    let package = world.path("node_modules/@github/copilot-sdk");
    fs::create_dir_all(&package).unwrap();
    fs::write(package.join("extension.mjs"), COPILOT).unwrap();
    let manifest = json!({"exports": {"./extension": "./extension.mjs"}});
    fs::write(package.join("package.json"), manifest.to_string()).unwrap();
    with_hook(world, "copilot/extension.mjs", "extension.mjs", stored)
}

#[test]
fn the_extension_of_copilot_delivers_once() {
    let world = with_program();
    let text = |said: &Value| said["text"].as_str().unwrap().to_owned();
    // Of what happened before it followed, it asks first whether it is there.
    let sent = |client: &Running| {
        let mut said = client.records_until(|said| said["kind"] == "send");
        said.pop().unwrap()
    };
    let mut client = copilot(&world, &[]);
    run_to_end(&world, "copilot:g1", "a");
    let a = sent(&client);
    assert_eq!(a["mode"], "enqueue");
    has(text(&a), "(a) exited with code 3");
    has(text(&a).lines().last().unwrap(), "(tmux-task ");
    // The end of the turn before says nothing of it.
    client.write("idle\n");
    run_to_end(&world, "copilot:g1", "b");
    client.write("store\n");
    has(text(&sent(&client)), "(b) exited");
    // The user takes it from the queue.
    client.write("remove\n");
    world.until_acknowledged("copilot:g1");
    // Copilot stores the next one and is killed before the extension knows.
    run_to_end(&world, "copilot:g1", "c");
    let c = sent(&client);
    client.kill();
    let client = copilot(&world, &[&text(&c)]);
    assert_eq!(client.record()["kind"], "lookup");
    world.until_acknowledged("copilot:g1");
    run_to_end(&world, "copilot:g1", "d");
    let d = sent(&client);
    has(text(&d), "(d) exited");
    lacks(text(&d), "(c)");
}

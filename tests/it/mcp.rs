//! The MCP server, as a client sees it.

use std::cell::RefCell;
use std::process::Stdio;

use serde_json::{Value, json};

#[cfg(feature = "fleet")]
use crate::fleet_hosts::{fleet, until_answered};
use crate::support::{Output, Running, World, content, deliveries, events, machines};

/// The versions with a handshake, and the one without.
const OLD: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const NEW: &str = "2026-07-28";

/// An MCP client.
struct Client {
    server: Running,
    last_id: u64,
    /// What is sent with each request.
    meta: Value,
}

impl Client {
    /// Connects with this version.
    #[track_caller]
    fn with_version(world: &World, args: &[&str], version: &str) -> Self {
        let mut client = Self::started(world, args);
        let params = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.ask("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], version, "{answer}");
        client.send(&json!({"method": "notifications/initialized"}));
        client
    }

    fn new(world: &World) -> Self {
        Self::with_version(world, &[], "2025-11-25")
    }

    /// Connects without a handshake and declares the tasks extension.
    fn with_tasks(world: &World) -> Self {
        let mut client = Self::started(world, &[]);
        client.meta = json!({
            "io.modelcontextprotocol/protocolVersion": NEW,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        });
        client
    }

    fn started(world: &World, args: &[&str]) -> Self {
        let mut command = world.command(World::program());
        command.arg("mcp").args(args).stdin(Stdio::piped());
        Self {
            server: Running::start(command),
            last_id: 0,
            meta: json!({}),
        }
    }

    fn send(&mut self, message: &Value) {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        self.server.write(&format!("{message}\n"));
    }

    /// Sends a request and returns its id.
    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let (id, mut params) = (self.last_id, params);
        for (name, value) in self.meta.as_object().unwrap() {
            params["_meta"][name] = value.clone();
        }
        self.send(&json!({"id": id, "method": method, "params": params}));
        id
    }

    /// Returns the answer to this request.
    #[track_caller]
    fn answer(&self, id: u64) -> Value {
        let messages = self.server.records_until(|message| message["id"] == id);
        messages.last().unwrap().clone()
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        self.answer(id)
    }

    fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool and returns whether it failed, and its text.
    #[track_caller]
    fn call(&mut self, tool: &str, arguments: Value) -> (bool, String) {
        let id = self.begin(tool, arguments);
        self.result(id)
    }

    #[track_caller]
    fn result(&self, id: u64) -> (bool, String) {
        let answer = self.answer(id);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.unwrap_or_else(|| panic!("{answer}"));
        (result["isError"] == true, text.to_owned())
    }

    /// Calls a tool that succeeds, and returns its text.
    #[track_caller]
    fn ok(&mut self, tool: &str, arguments: Value) -> String {
        let (is_error, text) = self.call(tool, arguments);
        assert!(!is_error, "{text}");
        text
    }

    /// Calls a tool that fails, and returns its text.
    #[track_caller]
    fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let (is_error, text) = self.call(tool, arguments);
        assert!(is_error, "{text}");
        text
    }
}

/// The cursor of an answer.
#[track_caller]
fn cursor(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("cursor: "));
    line.unwrap_or_else(|| panic!("no cursor: {text}"))
        .to_owned()
}

#[track_caller]
fn check(text: &str, start: &str) {
    assert!(text.starts_with(start), "not `{start}`: {text}");
}

// --- the protocol ------------------------------------------------------------

#[test]
fn every_version_is_spoken() {
    let world = World::new();
    for version in OLD {
        let mut client = Client::with_version(&world, &[], version);
        let tools = client.ask("tools/list", json!({}));
        assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 9);
        check(&client.ok("list_tasks", json!({})), "no tasks; run_task");
    }
    let mut client = Client::with_tasks(&world);
    let discovered = client.ask("server/discover", json!({}));
    let versions = discovered["result"]["supportedVersions"]
        .as_array()
        .unwrap();
    assert!(versions.contains(&NEW.into()), "{discovered}");
    let text = discovered["result"]["instructions"].as_str().unwrap();
    check(text, "Runs long or interactive commands as tasks");
    check(&client.ok("list_tasks", json!({})), "no tasks");
    // Nothing was started, and nothing was left behind.
    assert!(!world.path("state").read_dir().unwrap().any(|_| true));
}

#[test]
fn tools_are_described() {
    let world = World::new();
    let mut client = Client::new(&world);
    let tools = client.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    let described: Vec<String> = tools
        .iter()
        .map(|tool| {
            let hints = &tool["annotations"];
            let arguments = tool["inputSchema"]["properties"].as_object().unwrap();
            format!(
                "{}({}) read {} destroy {}",
                tool["name"].as_str().unwrap(),
                arguments.keys().cloned().collect::<Vec<_>>().join(", "),
                hints["readOnlyHint"],
                hints["destructiveHint"],
            )
        })
        .collect();
    assert_eq!(
        described,
        [
            "run_task(command, cwd, env, host, ignore_case, notify_on, only_if_absent, regex, slot, stop, task, timeout_seconds, until, wait) read false destroy true",
            "list_tasks(host) read true destroy null",
            "read_output(cursor, host, lines, run, task) read true destroy null",
            "wait_for(any, bell, change, channel, cursor, exit, final, host, idle_seconds, ignore_case, input, listen, regex, stop, task, text, through_prompts, timeout_seconds) read true destroy null",
            "send_input(host, keys, no_enter, prompt, task, text) read false destroy true",
            "kill_task(host, task) read false destroy true",
            "prune_tasks(host) read false destroy true",
            "next_events(cursor, host, limit, task, wait_seconds) read true destroy null",
            "search_output(host, ignore_case, limit, pattern, regex, task) read true destroy null",
        ]
    );
    // What a model pays for them before it has called any.
    let size = serde_json::to_string(tools).unwrap().len();
    assert!(size < 9000, "{size}");
}

#[test]
fn a_wrong_call_says_what_is_wrong() {
    let world = World::new();
    let mut client = Client::new(&world);
    let answer = client.ask("tools/call", json!({"name": "start_task", "arguments": {}}));
    assert_eq!(
        (&answer["error"]["code"], &answer["error"]["message"]),
        (&(-32602).into(), &"unknown tool: start_task".into())
    );
    for params in [
        json!({}),
        json!({"name": 5}),
        json!({"name": "list_tasks", "arguments": "x"}),
    ] {
        let answer = client.ask("tools/call", params);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let answer = client.ask("no/such", json!({}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    for (tool, arguments, why) in [
        (
            "run_task",
            json!({"task": "a"}),
            "no session `work`\nhint: there are no tasks yet: run_task starts one",
        ),
        (
            "run_task",
            json!({"task": "a", "command": " "}),
            "no command given for task `a`",
        ),
        (
            "run_task",
            json!({"task": "a b", "command": "true"}),
            "`a b` is not a task name",
        ),
        (
            "run_task",
            json!({"task": "a", "command": "true", "env": {"A=B": "x"}}),
            "`A=B` is not a variable's name",
        ),
        (
            "wait_for",
            json!({"task": "a", "timeout": 3}),
            "unknown field `timeout`",
        ),
        (
            "wait_for",
            json!({"task": "a"}),
            "no session `work`\nhint: there are no tasks yet: run_task starts one",
        ),
        (
            "read_output",
            json!({"task": "a"}),
            "no session `work`\nhint: there are no tasks yet: run_task starts one",
        ),
        ("search_output", json!({"pattern": "(", "regex": true}), ""),
        (
            "send_input",
            json!({"task": "a"}),
            "there is nothing to type",
        ),
        (
            "next_events",
            json!({"cursor": "x"}),
            "`cursor` is not a number",
        ),
    ] {
        check(&client.fails(tool, arguments), why);
    }
    // It goes on.
    assert!(client.ok("list_tasks", json!({})).starts_with("no tasks"));
}

#[test]
fn a_read_only_server_changes_nothing() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut client = Client::with_version(&world, &["--read-only"], "2025-11-25");
    let tools = client.ask("tools/list", json!({}));
    let tools = tools["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 5);
    assert!(
        tools
            .iter()
            .all(|tool| tool["annotations"]["readOnlyHint"] == true)
    );
    for tool in ["run_task", "send_input", "kill_task", "prune_tasks"] {
        let arguments = json!({"task": "api", "command": "true", "text": "x"});
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(why.ends_with("was started with --read-only"), "{answer}");
    }
    check(&client.ok("list_tasks", json!({})), "@");
}

#[test]
fn what_is_no_client_is_an_error() {
    let world = World::new();
    let mut command = world.command(World::program());
    command.arg("mcp");
    let output = Output::with_input(command, "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n");
    output.fails(
        1,
        "tmux-task: mcp: what came on standard input is not an MCP client",
    );
    let mut command = world.command(World::program());
    command.arg("mcp").stdin(Stdio::null());
    assert_eq!(Output::of(command).code, 0);
}

#[test]
fn what_is_no_message_is_answered_and_the_session_goes_on() {
    let world = World::new();
    let mut client = Client::new(&world);
    client.server.write("no json\n\n[]\n");
    for code in [-32700, -32600] {
        let answers = client
            .server
            .records_until(|message| message["error"].is_object());
        let answer = answers.last().unwrap();
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(code), &Value::Null)
        );
    }
    client.server.write("{\"jsonrpc\":\"2.0\",\"id\":70}\n");
    assert_eq!(client.answer(70)["error"]["code"], -32600);
    client
        .server
        .write("[{\"jsonrpc\":\"2.0\",\"id\":71,\"method\":\"ping\"}]\n");
    assert_eq!(client.answer(71)["result"], json!({}));
    // Half of a character, as a client in JavaScript writes it.
    world.run("one", "read -rp 'Go? ' x; echo \"got $x\"; exec sleep 1000");
    world.task(["wait", "one", "--input"]).ok();
    let call =
        r#"{"name":"send_input","arguments":{"task":"one","text":"a\ud83d","prompt":"Go?"}}"#;
    let request = r#"{"jsonrpc":"2.0","id":72,"method":"tools/call","params":"#;
    client.server.write(&format!("{request}{call}}}\n"));
    assert_eq!(client.answer(72)["result"]["isError"], false);
    world.until_shows("one", "got a\u{fffd}");
}

// --- tasks -------------------------------------------------------------------

#[test]
fn a_task_is_started_read_answered_and_ended() {
    let world = World::new();
    let mut client = Client::new(&world);
    let gate = world.gate("gate");
    let line = format!(
        "printf 'one\\n\\033[31mtwo\\033[0m\\n'; {}; read -r -p 'Proceed? [y/N] ' x; echo \"got $x\"; exec sleep 1000",
        gate.wait()
    );
    let started = client.ok(
        "run_task",
        json!({"task": "ask", "command": line, "env": {"A": "b"}}),
    );
    check(&started, "started @");
    let begin = cursor(&started);
    client.ok(
        "wait_for",
        json!({"task": "ask", "text": "two", "cursor": begin}),
    );
    let read = client.ok("read_output", json!({"task": "ask"}));
    check(&read, "ask, run 1, all 2 lines:\none\ntwo\ncursor: ");
    gate.open();
    let asked = client.ok("wait_for", json!({"task": "ask"}));
    check(&asked, "ask asks for input: Proceed? [y/N] [input, ");
    assert!(
        asked.contains("\nnext: send_input with that prompt"),
        "{asked}"
    );
    assert!(
        client
            .ok("list_tasks", json!({}))
            .contains(" asks for input, ")
    );
    // Not without the question, and not to another one.
    let refused = client.fails("send_input", json!({"task": "ask", "text": "y"}));
    check(
        &refused,
        "ask asks: Proceed? [y/N]\nhint: nothing was typed",
    );
    let other = json!({"task": "ask", "text": "y", "prompt": "Delete?"});
    assert!(
        client
            .fails("send_input", other)
            .contains("asks something else")
    );
    let answer = json!({"task": "ask", "text": "y", "prompt": "Proceed? [y/N]"});
    check(&client.ok("send_input", answer), "typed into ask");
    let new = client.ok(
        "read_output",
        json!({"task": "ask", "cursor": cursor(&read)}),
    );
    let shown = client.ok(
        "wait_for",
        json!({"task": "ask", "text": "got y", "cursor": begin}),
    );
    check(&shown, "ask wrote: got y [matched, ");
    assert!(new.contains("Proceed?") && !new.contains("two"), "{new}");
    let found = client.ok(
        "search_output",
        json!({"pattern": "GOT", "ignore_case": true}),
    );
    assert!(found.ends_with(": got y"), "{found}");
    check(&client.ok("kill_task", json!({"task": "ask"})), "killed @");
    // The agent knows.
    let is_told = |told: &&Value| content(told).ends_with("after the agent killed it");
    let records = world.until("its disappearance is delivered", |records| {
        deliveries(records).iter().any(is_told)
    });
    let told = deliveries(&records).into_iter().find(|told| is_told(told));
    assert_eq!(told.unwrap()["kind"], "notice", "{told:?}");
}

#[test]
fn run_task_waits_where_it_should() {
    let world = World::new();
    let mut client = Client::new(&world);
    let failed = client.ok(
        "run_task",
        json!({"task": "lint", "command": "echo wrong; exit 3", "wait": true}),
    );
    assert!(
        failed.contains("\nlint exited with code 3 [exited, ")
            && failed.ends_with("recent output:\n  wrong"),
        "{failed}"
    );
    // By its name alone it runs again.
    let again = client.ok("run_task", json!({"task": "lint", "wait": true}));
    assert!(again.contains(" (lint), run 2, in "), "{again}");
    assert!(again.ends_with("recent output:\n  wrong"), "{again}");
    let long = json!({"task": "long", "command": "seq 11; exit 3", "wait": true});
    let long = client.ok("run_task", long);
    assert!(
        long.ends_with("  10\n  11\nnext: read_output has more"),
        "{long}"
    );
    let serving = client.ok(
        "run_task",
        json!({"task": "api", "command": "echo listening; exec sleep 1000", "until": "listening"}),
    );
    assert!(
        serving.contains("\napi wrote: listening [matched, "),
        "{serving}"
    );
    let kept = json!({"task": "api", "command": "true", "only_if_absent": true});
    let refused = client.fails("run_task", kept);
    let hint = "\nhint: without only_if_absent, the live run is replaced";
    assert!(
        refused.contains("is running") && refused.ends_with(hint),
        "{refused}"
    );
    let refused = client.fails("read_output", json!({"task": "api", "cursor": "x"}));
    check(
        &refused,
        "not a cursor: run_task, read_output and wait_for return them",
    );
    let over = client.ok(
        "wait_for",
        json!({"task": "api", "text": "never", "timeout_seconds": 0.05}),
    );
    check(&over, "the wait for api timed out [timeout, ");
    cursor(&over);
    check(&client.ok("prune_tasks", json!({})), "removed @");
    let earlier = client.ok("read_output", json!({"task": "lint", "run": 1}));
    check(&earlier, "lint, run 1, all 1 lines:\nwrong");
}

#[test]
fn several_tasks_are_waited_for_at_once() {
    let world = World::new();
    let mut client = Client::new(&world);
    let (one, other) = (world.gate("one"), world.gate("other"));
    world.run("one", &format!("{}; exit 1", one.wait()));
    world.run("other", &format!("{}; exit 2", other.wait()));
    let first = client.begin("wait_for", json!({"task": ["other", "one"], "any": true}));
    let all = client.begin("wait_for", json!({"task": ["other", "one"]}));
    world.until_true("both calls wait for both tasks", || {
        world.daemon_status()["waits"] == 4
    });
    one.open();
    let (_, text) = client.result(first);
    check(&text, "one exited with code 1 [exited, ");
    assert!(!text.contains("other"), "{text}");
    world.until_true("the other wait of the first call has ended", || {
        world.daemon_status()["waits"] == 1
    });
    other.open();
    let (_, text) = client.result(all);
    let in_order = |text: &str| {
        check(text, "one exited with code 1 [exited, ");
        assert!(
            text.contains("\nother exited with code 2 [exited, "),
            "{text}"
        );
    };
    in_order(&text);
    // Both have ended by now.
    in_order(&client.ok("wait_for", json!({"task": ["other", "one"]})));
    let with_cursor = json!({"task": ["one", "other"], "cursor": "x"});
    let both = json!({"channel": "ready", "task": "one"});
    let refused = client.fails("wait_for", both);
    assert!(refused.contains("waited for alone"), "{refused}");
    let refused = client.fails("wait_for", with_cursor);
    check(&refused, "a cursor belongs to one task");
}

#[test]
fn a_secret_is_not_typed() {
    let world = World::new();
    let mut client = Client::new(&world);
    let line = "read -r -s -p 'Password: ' x; exec sleep 1000";
    let asked = client.ok(
        "run_task",
        json!({"task": "login", "command": line, "wait": true}),
    );
    assert!(
        asked.contains("login asks for input: Password:")
            && asked.contains("`tmux-task send login --secret`"),
        "{asked}"
    );
    for prompt in [json!("Password:"), Value::Null] {
        let answer = json!({"task": "login", "text": "hunter2", "prompt": prompt});
        check(
            &client.fails("send_input", answer),
            "login asks for a secret: Password:",
        );
    }
    let spelt = json!({"task": "login", "keys": ["h", "Enter"], "prompt": "Password:"});
    client.fails("send_input", spelt);
    let interrupt = json!({"task": "login", "keys": "C-c", "prompt": "Password:"});
    client.ok("send_input", interrupt);
    check(&client.ok("wait_for", json!({"task": "login"})), "login ");
}

// --- events and owners -------------------------------------------------------

#[test]
fn events_are_seen_by_all_and_wake_their_reader_no_more() {
    let mut world = World::new();
    let mut other = Client::new(&world);
    check(
        &other.ok("next_events", json!({"wait_seconds": 0})),
        "no events\ncursor: ",
    );
    world.set("TMUX_TASK_OWNER", "pi:1");
    let mut client = Client::new(&world);
    let gate = world.gate("gate");
    let line = format!("{}; echo done; exit 3", gate.wait());
    client.ok("run_task", json!({"task": "build", "command": line}));
    let begun = client.ok("next_events", json!({}));
    assert!(begun.contains("(build) started\ncursor: "), "{begun}");
    let id = client.begin(
        "next_events",
        json!({"cursor": cursor(&begun), "wait_seconds": 20}),
    );
    world.until_true("it reads the feed", || {
        world.daemon_status()["readers"].as_u64() >= Some(1)
    });
    gate.open();
    let (_, ended) = client.result(id);
    assert!(
        ended.contains("(build) exited with code 3\nrecent output:\n  done\ncursor: "),
        "{ended}"
    );
    let records = world.until_delivered("exited", "build");
    let told = deliveries(&records).pop().unwrap().clone();
    assert_eq!(told["kind"], "notice", "{told}");
    // Nobody has taken them from the other, and it may read them again.
    for _ in 0..2 {
        let seen = other.ok("next_events", json!({}));
        assert!(
            seen.contains("[of pi:1] tmux task") && seen.contains("exited with code 3"),
            "{seen}"
        );
    }
    let later = client.ok(
        "next_events",
        json!({"cursor": cursor(&ended), "wait_seconds": 0}),
    );
    check(&later, "no events\n");
    let wrong = client.fails("next_events", json!({"cursor": "other:1"}));
    assert!(
        wrong.ends_with("hint: call next_events without cursor"),
        "{wrong}"
    );
}

#[test]
fn a_conversation_that_gets_no_messages_is_told_to_wait() {
    let world = World::new();
    let mut client = Client::new(&world);
    client.meta = json!({"threadId": "t-2"});
    let task = json!({"task": "a", "command": "true"});
    let note = "no message will come when it ends: nothing delivers messages to codex:t-2; \
                wait_for waits for it";
    for _ in 0..2 {
        assert!(client.ok("run_task", task.clone()).contains(note));
    }
    // Whoever waits needs none, and without a conversation nothing is expected.
    client.meta = json!({"threadId": "t-3"});
    let waits = json!({"task": "b", "command": "true", "wait": true});
    assert!(!client.ok("run_task", waits).contains("no message"));
    client.meta = json!({});
    let task = json!({"task": "c", "command": "true"});
    assert!(!client.ok("run_task", task).contains("no message"));
}

#[test]
fn the_thread_of_a_call_owns_what_it_starts() {
    let mut world = World::new();
    world.set("TMUX_TASK_OWNER", "pi:1");
    let mut client = Client::new(&world);
    client.ok("run_task", json!({"task": "mine", "command": "exit 1"}));
    client.meta = json!({"threadId": "t-1"});
    // What the call has returned with is no second turn.
    let ended = json!({"task": "theirs", "command": "exit 1", "wait": true});
    client.ok("run_task", ended);
    world.until_delivered("exited", "mine");
    let records = world.until_delivered("exited", "theirs");
    for (name, owner, kind) in [
        ("mine", "pi:1", "followUp"),
        ("theirs", "codex:t-1", "notice"),
    ] {
        let is_end =
            |event: &&&Value| event["type"] == "exited" && event["task"]["windowName"] == name;
        let all = events(&records);
        let end = all.iter().find(is_end).unwrap();
        assert_eq!(end["task"]["owner"], owner);
        let seq = &end["seq"];
        let found = deliveries(&records);
        let told = found
            .iter()
            .find(|told| told["events"].as_array().unwrap().contains(seq));
        assert_eq!(told.unwrap()["kind"], kind, "{name}");
    }
}

// --- waits -------------------------------------------------------------------

#[test]
fn a_wait_reports_progress_and_can_be_cancelled() {
    let world = World::new();
    let mut client = Client::new(&world);
    client.ok(
        "run_task",
        json!({"task": "api", "command": "exec sleep 1000"}),
    );
    client.meta = json!({"progressToken": "p"});
    let id = client.begin("wait_for", json!({"task": "api"}));
    client.meta = json!({});
    let progress = client.server.record();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    let params = &progress["params"];
    assert_eq!(params["progressToken"], "p");
    assert_eq!(
        (&params["progress"], &params["total"]),
        (&json!(0.0), &json!(50.0))
    );
    assert_eq!(params["message"], "waiting for api, 0 s");
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    client.send(&json!({
        "method": "notifications/cancelled",
        "params": {"requestId": id, "reason": "enough"},
    }));
    world.until_true("no wait is left", || world.daemon_status()["waits"] == 0);
    check(&client.ok("list_tasks", json!({})), "@");
}

#[test]
fn a_client_that_goes_leaves_no_wait_behind() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for is_killed in [false, true] {
        let mut client = Client::new(&world);
        client.begin("wait_for", json!({"task": "api"}));
        client.begin("next_events", json!({"wait_seconds": 600}));
        world.until_true("it waits", || {
            let status = world.daemon_status();
            (&status["waits"], &status["readers"]) == (&1.into(), &1.into())
        });
        if is_killed {
            drop(client);
        } else {
            client.server.close_stdin();
            assert_eq!(client.server.wait(), 0);
        }
        world.until_true("nothing is left", || {
            let status = world.daemon_status();
            (&status["waits"], &status["readers"]) == (&0.into(), &0.into())
        });
    }
}

// --- handles -----------------------------------------------------------------

#[test]
fn a_handle_ends_with_its_task() {
    let world = World::new();
    let mut client = Client::with_tasks(&world);
    let gate = world.gate("gate");
    let line = format!("{}; echo done; exit 2", gate.wait());
    let id = client.begin("run_task", json!({"task": "build", "command": line}));
    let begun = client.answer(id);
    assert_eq!(
        (&begun["result"]["resultType"], &begun["result"]["status"]),
        (&"task".into(), &"working".into()),
        "{begun}"
    );
    let handle = json!({"taskId": begun["result"]["taskId"]});
    let state = client.ask("tasks/get", handle.clone());
    assert_eq!(state["result"]["status"], "working", "{state}");
    gate.open();
    let shared = RefCell::new(client);
    world.until_true("the handle has ended", || {
        let state = shared.borrow_mut().ask("tasks/get", handle.clone());
        state["result"]["status"] == "completed"
    });
    let mut client = shared.into_inner();
    let state = client.ask("tasks/get", handle);
    let text = state["result"]["result"]["content"][0]["text"].as_str();
    check(text.unwrap(), "build exited with code 2 [exited, ");
    // A wait, which the client cancels.
    world.run("api", "exec sleep 1000");
    let id = client.begin("wait_for", json!({"task": "api"}));
    let begun = client.answer(id);
    let handle = json!({"taskId": begun["result"]["taskId"]});
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    let cancelled = client.ask("tasks/cancel", handle.clone());
    assert!(cancelled["result"].is_object(), "{cancelled}");
    world.until_true("no wait is left", || world.daemon_status()["waits"] == 0);
    let state = client.ask("tasks/get", handle);
    assert_eq!(state["result"]["status"], "cancelled", "{state}");
    let unknown = client.ask("tasks/get", json!({"taskId": "x"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    // What can be said at once needs no handle.
    check(
        &client.fails("wait_for", json!({"task": "nothing"})),
        "no task `nothing`",
    );
}

#[test]
fn a_handle_survives_the_daemon() {
    let world = World::new();
    let mut client = Client::with_tasks(&world);
    let gate = world.gate("gate");
    let line = format!("{}; exit 2", gate.wait());
    let id = client.begin("run_task", json!({"task": "build", "command": line}));
    let handle = json!({"taskId": client.answer(id)["result"]["taskId"]});
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    world.kill_daemon();
    gate.open();
    let shared = RefCell::new(client);
    world.until_true("the handle has ended", || {
        let state = shared.borrow_mut().ask("tasks/get", handle.clone());
        state["result"]["status"] == "completed"
    });
    let state = shared.into_inner().ask("tasks/get", handle);
    let text = state["result"]["result"]["content"][0]["text"].as_str();
    check(text.unwrap(), "build exited with code 2 [exited, ");
}

// --- limits ------------------------------------------------------------------

#[cfg(target_os = "linux")]
#[test]
fn many_calls_leave_nothing_open() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut client = Client::new(&world);
    let descriptors = |client: &Client| {
        let pid = client.server.pid().as_raw_nonzero();
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .count()
    };
    let some_calls = |client: &mut Client| {
        for _ in 0..20 {
            client.ok("list_tasks", json!({}));
            client.ok("next_events", json!({"wait_seconds": 0}));
            client.ok(
                "wait_for",
                json!({"task": "api", "change": true, "timeout_seconds": 0.001}),
            );
            client.fails("send_input", json!({"task": "none", "text": "x"}));
        }
    };
    some_calls(&mut client);
    let before = descriptors(&client);
    some_calls(&mut client);
    assert_eq!(descriptors(&client), before);
    world.until_true("the daemon has no reader and no wait", || {
        let status = world.daemon_status();
        (&status["waits"], &status["readers"]) == (&0.into(), &0.into())
    });
}

// --- other machines ----------------------------------------------------------

#[test]
fn every_tool_works_on_another_machine() {
    let mut near = World::new();
    let [gpu] = machines(&mut near, ["gpu1"]);
    let mut client = Client::new(&near);
    let there = |mut arguments: Value| {
        arguments["host"] = "gpu1".into();
        arguments
    };
    check(&client.ok("list_tasks", there(json!({}))), "no tasks");
    let ask = "echo hello; read -p 'Go on? ' x; echo got $x; sleep 1000";
    let run = there(json!({"task": "ask", "command": ask, "until": "hello"}));
    check(&client.ok("run_task", run), "started ");
    let list = client.ok("list_tasks", there(json!({})));
    assert!(list.contains("ask"), "{list}");
    check(&client.ok("list_tasks", json!({})), "no tasks");
    let wait = there(json!({"task": ["ask"], "input": true}));
    let asked = client.ok("wait_for", wait);
    assert!(asked.contains("Go on?"), "{asked}");
    let send = there(json!({"task": "ask", "text": "yes", "prompt": "Go on?"}));
    client.ok("send_input", send);
    gpu.world.until_shows("=work:=ask", "got yes");
    let read = there(json!({"task": "ask"}));
    assert!(client.ok("read_output", read).contains("got yes"));
    let found = there(json!({"pattern": "hello"}));
    assert!(client.ok("search_output", found).contains("ask"));
    // Since the first call, although each call has a server of its own there.
    let events = client.ok("next_events", there(json!({"wait_seconds": 0})));
    let is_event = |part: &str| events.lines().any(|line| line.ends_with(part));
    assert!(is_event("(ask) started") && is_event("Go on?"), "{events}");
    client.ok("kill_task", there(json!({"task": "ask"})));
    gpu.world.task(["ls"]).fails_with(3);

    // What is wrong is said by the machine, or about it.
    let wrong = client.fails("read_output", there(json!({"task": "nothing"})));
    check(&wrong, "no session `work`");
    let lost = client.fails("list_tasks", json!({"host": "no.such.invalid"}));
    check(&lost, "could not reach no.such.invalid: ");
    check(
        &client.fails("list_tasks", json!({"host": 7})),
        "`host` is not a text",
    );
    check(
        &client.fails("list_tasks", json!({"host": "-v"})),
        "`-v` is not a destination",
    );
}

#[cfg(feature = "fleet")]
#[test]
fn a_host_of_the_fleet_executes_the_tools_that_it_allows() {
    let (near, far, _broker) = fleet("'ls', 'logs', 'wait', 'run', 'send'");
    until_answered(&near);
    let there = |mut arguments: Value| {
        arguments["host"] = "gpu1".into();
        arguments
    };
    // The second client would get a handle here.
    for mut client in [Client::new(&near), Client::with_tasks(&near)] {
        let list = client.ok("list_tasks", there(json!({})));
        assert!(list.contains("one"), "{list}");
        let wait = there(json!({"task": "one", "input": true}));
        let asked = client.ok("wait_for", wait);
        assert!(asked.contains("Go?"), "{asked}");
    }
    let mut client = Client::new(&near);
    let send = there(json!({"task": "one", "text": "yes", "prompt": "Go?"}));
    client.ok("send_input", send);
    far.until_shows("one", "got-yes");
    let read = there(json!({"task": "one"}));
    assert!(client.ok("read_output", read).contains("got-yes"));
    let run = there(json!({"task": "two", "command": "echo two; exit 3", "wait": true}));
    let ended = client.ok("run_task", run);
    assert!(ended.contains("exited with code 3"), "{ended}");
    let found = there(json!({"pattern": "two"}));
    assert!(client.ok("search_output", found).contains("two"));

    for (tool, arguments, why) in [
        (
            "kill_task",
            json!({"task": "one"}),
            "gpu1: `kill` is not allowed through the broker",
        ),
        (
            "prune_tasks",
            json!({}),
            "gpu1: `prune_tasks` is not allowed through the broker",
        ),
        (
            "send_input",
            json!({"task": "one", "text": "yes"}),
            "gpu1: `send_input` through the broker needs `prompt`",
        ),
    ] {
        check(&client.fails(tool, there(arguments)), why);
    }
}

#[test]
fn a_wait_on_another_machine_ends_with_the_client() {
    let mut near = World::new();
    let [gpu] = machines(&mut near, ["gpu1"]);
    let mut client = Client::new(&near);
    let run = json!({"host": "gpu1", "task": "a", "command": "sleep 1000"});
    client.ok("run_task", run);
    let wait = json!({"host": "gpu1", "task": ["a"], "text": "never", "timeout_seconds": 500});
    let id = client.begin("wait_for", wait);
    gpu.world
        .until_true("it waits there", || gpu.world.daemon_status()["waits"] == 1);
    client.send(&json!({"method": "notifications/cancelled", "params": {"requestId": id}}));
    gpu.world.until_true("nothing waits there", || {
        gpu.world.daemon_status()["waits"] == 0
    });
}

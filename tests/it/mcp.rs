//! The MCP server, as a client sees it.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[cfg(feature = "fleet")]
use crate::fleet_hosts::{fleet, until_answered};
use crate::support::{
    DEADLINE, Running, World, begins, content, deliveries, event, has, has_fields, lacks, machines,
    rows,
};

/// The versions with a handshake, and the one without.
const OLD: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const NEW: &str = "2026-07-28";

/// The tools, with their hints: whether they only read, and whether they may destroy something.
const TOOLS: [(&str, bool, Option<bool>); 9] = [
    ("run_task", false, Some(true)),
    ("list_tasks", true, None),
    ("read_output", true, None),
    ("wait_for", true, None),
    ("send_input", false, Some(true)),
    ("kill_task", false, Some(true)),
    ("prune_tasks", false, Some(true)),
    ("next_events", true, None),
    ("search_output", true, None),
];

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
        Self {
            server: world.start_piped([&["mcp"], args].concat()),
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

    /// The names and hints of the tools that are offered.
    fn tools(&mut self) -> Vec<(String, bool, Option<bool>)> {
        let tools = self.ask("tools/list", json!({}));
        let tools = tools["result"]["tools"].as_array().unwrap().iter();
        let described = tools.map(|tool| {
            let (name, hints) = (tool["name"].as_str().unwrap(), &tool["annotations"]);
            let reads = hints["readOnlyHint"] == true;
            (name.to_owned(), reads, hints["destructiveHint"].as_bool())
        });
        described.collect()
    }

    /// Returns whether a call failed, and its text.
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
        let id = self.begin(tool, arguments);
        let (is_error, text) = self.result(id);
        assert!(!is_error, "{text}");
        text
    }

    /// Calls a tool that fails, and returns its text.
    #[track_caller]
    fn fails(&mut self, tool: &str, arguments: Value) -> String {
        let id = self.begin(tool, arguments);
        let (is_error, text) = self.result(id);
        assert!(is_error, "{text}");
        text
    }

    /// Calls a tool that gives a handle at once.
    #[track_caller]
    fn handle(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments);
        let begun = self.answer(id);
        let result = &begun["result"];
        has_fields(result, "resultType status", json!(["task", "working"]));
        json!({"taskId": result["taskId"]})
    }

    /// The state of a handle.
    #[track_caller]
    fn state(&mut self, handle: &Value) -> Value {
        self.ask("tasks/get", handle.clone())["result"].take()
    }

    /// Waits until what a handle is for is completed, and returns its text.
    #[track_caller]
    fn until_completed(&mut self, handle: &Value) -> String {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let state = self.state(handle);
            if state["status"] == "completed" {
                let text = &state["result"]["content"][0]["text"];
                return text.as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < deadline, "{state}");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// JSON from a table.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The cursor of an answer.
#[track_caller]
fn cursor(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("cursor: "));
    line.unwrap_or_else(|| panic!("no cursor: {text}"))
        .to_owned()
}

// --- the protocol ------------------------------------------------------------

#[test]
fn every_version_is_spoken_and_offers_the_tools() {
    let world = World::new();
    let tools = TOOLS.map(|(name, reads, destroys)| (name.to_owned(), reads, destroys));
    for version in OLD {
        let mut client = Client::with_version(&world, &[], version);
        assert_eq!(client.tools(), tools, "{version}");
        begins(client.ok("list_tasks", json!({})), "no tasks; run_task");
    }
    let mut client = Client::with_tasks(&world);
    let discovered = client.ask("server/discover", json!({}))["result"].take();
    let versions = discovered["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&NEW.into()), "{discovered}");
    let text = discovered["instructions"].as_str().unwrap();
    begins(text, "Runs long or interactive commands as tasks");
    begins(client.ok("list_tasks", json!({})), "no tasks");
    // Nothing was started, and nothing was left behind.
    assert!(!world.path("state").read_dir().unwrap().any(|_| true));
}

#[test]
fn a_wrong_call_says_what_is_wrong() {
    let world = World::new();
    let mut client = Client::new(&world);
    for [method, params, code] in rows(
        r#"
        no/such => {} => -32601
        tools/call => {} => -32602
        tools/call => {"name": 5} => -32602
        tools/call => {"name": "list_tasks", "arguments": "x"} => -32602
        tools/call => {"name": "start_task", "arguments": {}} => -32602
        "#,
    ) {
        let error = &client.ask(method, parsed(params))["error"];
        assert_eq!(error["code"].to_string(), code, "{error}");
    }
    for [tool, arguments, why] in rows(
        r#"
        run_task => {"task": "a"} => no session `work`\nhint: there are no tasks yet: run_task starts one
        run_task => {"task": "a", "command": " "} => no command given for task `a`
        run_task => {"task": "a b", "command": "true"} => `a b` is not a task name
        run_task => {"task": "a", "command": "true", "env": {"A=B": "x"}} => `A=B` is not a variable's name
        wait_for => {"task": "a", "timeout": 3} => unknown field `timeout`
        wait_for => {"task": "a"} => no session `work`
        read_output => {"task": "a"} => no session `work`
        send_input => {"task": "a"} => there is nothing to type
        next_events => {"cursor": "x"} => `cursor` is not a number
        "#,
    ) {
        let said = client.fails(tool, parsed(arguments));
        begins(said, why.replace(r"\n", "\n"));
    }
    client.fails("search_output", json!({"pattern": "(", "regex": true}));
    // It goes on, also after what is no message.
    client.server.write("no json\n\n");
    let answers = client.server.records_until(|answer| answer["id"].is_null());
    assert_eq!(answers.last().unwrap()["error"]["code"], -32700);
    // Half of a character, as a client in JavaScript writes it.
    let request = r#"{"jsonrpc":"2.0","id":72,"method":"tools/call","params":{"name":"a\ud83d"}}"#;
    client.server.write(&format!("{request}\n"));
    let error = client.answer(72)["error"]["message"].take();
    assert_eq!(error, "unknown tool: a\u{fffd}");
    begins(client.ok("list_tasks", json!({})), "no tasks");
    let output = world.task_reading("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n", ["mcp"]);
    let why = "tmux-task: mcp: what came on standard input is not an MCP client";
    output.fails(1, why);
    world.task(["mcp"]).ok();
}

#[test]
fn a_read_only_server_changes_nothing() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let mut client = Client::with_version(&world, &["--read-only"], "2025-11-25");
    let tools = client.tools();
    assert!(
        tools.len() == 5 && tools.iter().all(|(_, reads, _)| *reads),
        "{tools:?}"
    );
    for (tool, ..) in TOOLS.iter().filter(|(_, reads, _)| !reads) {
        let arguments = json!({"task": "api", "command": "true", "text": "x"});
        let answer = client.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(why.ends_with("was started with --read-only"), "{answer}");
    }
    begins(client.ok("list_tasks", json!({})), "@");
}

// --- tasks -------------------------------------------------------------------

#[test]
fn a_task_is_started_read_answered_and_ended() {
    let world = World::new();
    let mut client = Client::new(&world);
    let gate = world.gate("gate");
    let line = format!(
        "printf 'one\\n\\033[31mtwo\\033[0m\\n'; {gate}; read -r -p 'Proceed? [y/N] ' x; echo \"got $x\"; exec sleep 1000"
    );
    let started = json!({"task": "ask", "command": line, "env": {"A": "b"}});
    let started = client.ok("run_task", started);
    begins(&started, "started @");
    // Without a conversation no message is expected.
    lacks(&started, "no message");
    let begin = cursor(&started);
    let task = json!({"task": "ask"});
    let two = json!({"task": "ask", "text": "two", "cursor": begin});
    client.ok("wait_for", two);
    let read = client.ok("read_output", task.clone());
    begins(&read, "ask, run 1, all 2 lines:\none\ntwo\ncursor: ");
    gate.open();
    let asked = client.ok("wait_for", task.clone());
    begins(&asked, "ask asks for input: Proceed? [y/N] [input, ");
    has(&asked, "\nnext: send_input with that prompt");
    has(client.ok("list_tasks", json!({})), " asks for input, ");
    // Not without the question, and not to another one.
    let answer = json!({"task": "ask", "text": "y"});
    has(
        client.fails("send_input", answer),
        "hint: nothing was typed",
    );
    let answer = json!({"task": "ask", "text": "y", "prompt": "Delete?"});
    has(client.fails("send_input", answer), "asks something else");
    let answer = json!({"task": "ask", "text": "y", "prompt": "Proceed? [y/N]"});
    begins(client.ok("send_input", answer), "typed into ask");
    let behind = json!({"task": "ask", "cursor": cursor(&read)});
    let new = client.ok("read_output", behind);
    has(&new, "Proceed?");
    lacks(&new, "two");
    let shown = json!({"task": "ask", "text": "got y", "cursor": begin});
    begins(client.ok("wait_for", shown), "ask wrote: got y [matched, ");
    let found = json!({"pattern": "GOT", "ignore_case": true});
    let found = client.ok("search_output", found);
    assert!(found.ends_with(": got y"), "{found}");
    begins(client.ok("kill_task", task), "killed @");
    // The agent knows.
    let records = world.until_delivered("disappeared", "ask");
    let told = deliveries(&records).pop().unwrap();
    has(content(told), "after the agent killed it");
    assert_eq!(told["kind"], "notice", "{told}");
}

#[test]
fn run_task_waits_where_it_should() {
    let world = World::new();
    let mut client = Client::new(&world);
    // By its name alone it runs again.
    for [arguments, part, end] in rows(
        r#"
        {"task": "lint", "command": "echo wrong; exit 3", "wait": true} => \nlint exited with code 3 [exited,  => recent output:\n  wrong
        {"task": "lint", "wait": true} =>  (lint), run 2, in  => recent output:\n  wrong
        {"task": "long", "command": "seq 11; exit 3", "wait": true} => recent output:\n =>   10\n  11\nnext: read_output has more
        "#,
    ) {
        let text = client
            .ok("run_task", parsed(arguments))
            .replace('\n', r"\n");
        has(&text, part);
        assert!(text.ends_with(end), "{text}");
    }
    let line = "echo listening; exec sleep 1000";
    let api = json!({"task": "api", "command": line, "until": "listening"});
    has(
        client.ok("run_task", api),
        "\napi wrote: listening [matched, ",
    );
    let kept = json!({"task": "api", "command": "true", "only_if_absent": true});
    let refused = client.fails("run_task", kept);
    has(
        refused,
        "\nhint: without only_if_absent, the live run is replaced",
    );
    let refused = client.fails("read_output", json!({"task": "api", "cursor": "x"}));
    begins(
        refused,
        "not a cursor: run_task, read_output and wait_for return them",
    );
    let over = json!({"task": "api", "text": "never", "timeout_seconds": 0.05});
    let over = client.ok("wait_for", over);
    begins(&over, "the wait for api timed out [timeout, ");
    cursor(&over);
    begins(client.ok("prune_tasks", json!({})), "removed @");
    let earlier = client.ok("read_output", json!({"task": "lint", "run": 1}));
    begins(earlier, "lint, run 1, all 1 lines:\nwrong");
}

#[test]
fn several_tasks_are_waited_for_at_once() {
    let world = World::new();
    let mut client = Client::new(&world);
    let (one, other) = (world.gate("one"), world.gate("other"));
    world.run("one", &format!("{one}; exit 1"));
    world.run("other", &format!("{other}; exit 2"));
    let both = json!({"task": ["other", "one"]});
    let first = client.begin("wait_for", json!({"task": ["other", "one"], "any": true}));
    let all = client.begin("wait_for", both.clone());
    world.until_waits(4);
    one.open();
    let (_, text) = client.result(first);
    begins(&text, "one exited with code 1 [exited, ");
    lacks(&text, "other");
    // The other wait of the first call has ended.
    world.until_waits(1);
    other.open();
    // The second time, both have ended.
    for text in [client.result(all).1, client.ok("wait_for", both)] {
        begins(&text, "one exited with code 1 [exited, ");
        has(&text, "\nother exited with code 2 [exited, ");
    }
    let both = json!({"channel": "ready", "task": "one"});
    has(client.fails("wait_for", both), "waited for alone");
    let with_cursor = json!({"task": ["one", "other"], "cursor": "x"});
    let refused = client.fails("wait_for", with_cursor);
    begins(refused, "a cursor belongs to one task");
}

#[test]
fn a_secret_is_not_typed() {
    let world = World::new();
    let mut client = Client::new(&world);
    let line = "read -r -s -p 'Password: ' x; exec sleep 1000";
    let asked = json!({"task": "login", "command": line, "wait": true});
    let asked = client.ok("run_task", asked);
    has(&asked, "login asks for input: Password:");
    has(&asked, "`tmux-task send login --secret`");
    for prompt in [json!("Password:"), Value::Null] {
        let answer = json!({"task": "login", "text": "hunter2", "prompt": prompt});
        let why = "login asks for a secret: Password:";
        begins(client.fails("send_input", answer), why);
    }
    let spelt = json!({"task": "login", "keys": ["h", "Enter"], "prompt": "Password:"});
    client.fails("send_input", spelt);
    let interrupt = json!({"task": "login", "keys": "C-c", "prompt": "Password:"});
    client.ok("send_input", interrupt);
    begins(client.ok("wait_for", json!({"task": "login"})), "login ");
}

// --- events and owners -------------------------------------------------------

#[test]
fn events_are_seen_by_all_and_wake_their_reader_no_more() {
    let mut world = World::new();
    let mut other = Client::new(&world);
    let now = json!({"wait_seconds": 0});
    begins(other.ok("next_events", now.clone()), "no events\ncursor: ");
    world.set("TMUX_TASK_OWNER", "pi:1");
    let mut client = Client::new(&world);
    let gate = world.gate("gate");
    let line = format!("{gate}; echo done; exit 3");
    client.ok("run_task", json!({"task": "build", "command": line}));
    let begun = client.ok("next_events", json!({}));
    has(&begun, "(build) started\ncursor: ");
    let next = json!({"cursor": cursor(&begun), "wait_seconds": 20});
    let id = client.begin("next_events", next);
    world.until_true("it reads the feed", || {
        world.daemon_status()["readers"].as_u64() >= Some(1)
    });
    gate.open();
    let (_, ended) = client.result(id);
    let end = "(build) exited with code 3\nrecent output:\n  done\ncursor: ";
    has(&ended, end);
    let records = world.until_delivered("exited", "build");
    let told = deliveries(&records).pop().unwrap();
    assert_eq!(told["kind"], "notice", "{told}");
    // Nobody has taken them from the other, and it may read them again.
    for _ in 0..2 {
        let seen = other.ok("next_events", json!({}));
        has(&seen, "[of pi:1] tmux task");
        has(&seen, "exited with code 3");
    }
    let later = json!({"cursor": cursor(&ended), "wait_seconds": 0});
    begins(client.ok("next_events", later), "no events\n");
    let wrong = client.fails("next_events", json!({"cursor": "other:1"}));
    has(wrong, "hint: call next_events without cursor");
}

#[test]
fn the_thread_of_a_call_owns_what_it_starts_and_is_told_to_wait_if_it_gets_no_messages() {
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
        let end = event(&records, "exited", name);
        assert_eq!(end["task"]["owner"], owner);
        let mut told = deliveries(&records);
        told.retain(|told| told["events"].as_array().unwrap().contains(&end["seq"]));
        assert_eq!(told[0]["kind"], kind, "{name}");
    }
    let note = "no message will come when it ends: nothing delivers messages to codex:t-2; \
                wait_for waits for it";
    // Whoever waits needs none.
    for (thread, waits, is_told) in [
        ("t-2", false, true),
        ("t-2", false, true),
        ("t-3", true, false),
    ] {
        client.meta = json!({"threadId": thread});
        let task = json!({"task": "a", "command": "true", "wait": waits});
        let text = client.ok("run_task", task);
        assert_eq!(text.contains(note), is_told, "{text}");
        assert_eq!(text.contains("no message"), is_told, "{text}");
    }
}

// --- waits -------------------------------------------------------------------

fn cancelled(id: u64) -> Value {
    let params = json!({"requestId": id, "reason": "enough"});
    json!({"method": "notifications/cancelled", "params": params})
}

#[test]
fn a_wait_reports_progress_and_can_be_cancelled() {
    let world = World::new();
    let mut client = Client::new(&world);
    world.run("api", "exec sleep 1000");
    client.meta = json!({"progressToken": "p"});
    let id = client.begin("wait_for", json!({"task": "api"}));
    client.meta = json!({});
    let progress = client.server.record();
    assert_eq!(progress["method"], "notifications/progress", "{progress}");
    let expected = json!({"progressToken": "p", "progress": 0.0, "total": 50.0,
        "message": "waiting for api, 0 s"});
    assert_eq!(progress["params"], expected);
    world.until_waits(1);
    client.send(&cancelled(id));
    world.until_waits(0);
    begins(client.ok("list_tasks", json!({})), "@");
}

/// Waits until the daemon has so many waits and readers.
#[track_caller]
fn until_served(world: &World, n: usize) {
    world.until_true(&format!("{n} waits and readers"), || {
        let status = world.daemon_status();
        status["waits"] == n && status["readers"] == n
    });
}

#[test]
fn a_client_that_goes_leaves_no_wait_behind() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for is_killed in [false, true] {
        let mut client = Client::new(&world);
        client.begin("wait_for", json!({"task": "api"}));
        client.begin("next_events", json!({"wait_seconds": 600}));
        until_served(&world, 1);
        if is_killed {
            drop(client);
        } else {
            client.server.close_stdin();
            assert_eq!(client.server.wait(), 0);
        }
        until_served(&world, 0);
    }
}

// --- handles -----------------------------------------------------------------

#[test]
fn a_handle_ends_with_its_task_also_if_the_daemon_is_killed() {
    let world = World::new();
    let mut client = Client::with_tasks(&world);
    let gate = world.gate("gate");
    for is_killed in [false, true] {
        let line = format!("{gate}; echo done; exit 2");
        let build = json!({"task": "build", "command": line});
        let handle = client.handle("run_task", build);
        assert_eq!(client.state(&handle)["status"], "working");
        world.until_waits(1);
        if is_killed {
            world.kill_daemon();
        }
        gate.open();
        let text = client.until_completed(&handle);
        begins(text, "build exited with code 2 [exited, ");
    }
    // A wait, which the client cancels.
    world.run("api", "exec sleep 1000");
    let handle = client.handle("wait_for", json!({"task": "api"}));
    world.until_waits(1);
    let cancelled = client.ask("tasks/cancel", handle.clone());
    assert!(cancelled["result"].is_object(), "{cancelled}");
    world.until_waits(0);
    assert_eq!(client.state(&handle)["status"], "cancelled");
    let unknown = client.ask("tasks/get", json!({"taskId": "x"}));
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    // What can be said at once needs no handle.
    let nothing = client.fails("wait_for", json!({"task": "nothing"}));
    begins(nothing, "no task `nothing`");
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
        let open = std::fs::read_dir(format!("/proc/{pid}/fd"));
        open.unwrap().count()
    };
    let change = json!({"task": "api", "change": true, "timeout_seconds": 0.001});
    let some_calls = |client: &mut Client| {
        for _ in 0..20 {
            client.ok("list_tasks", json!({}));
            client.ok("next_events", json!({"wait_seconds": 0}));
            client.ok("wait_for", change.clone());
            client.fails("send_input", json!({"task": "none", "text": "x"}));
        }
    };
    some_calls(&mut client);
    let before = descriptors(&client);
    some_calls(&mut client);
    assert_eq!(descriptors(&client), before);
    until_served(&world, 0);
}

// --- other machines ----------------------------------------------------------

/// The arguments of a call on the other machine.
fn there(mut arguments: Value) -> Value {
    arguments["host"] = "gpu1".into();
    arguments
}

#[test]
fn every_tool_works_on_another_machine() {
    let mut near = World::new();
    let [gpu] = machines(&mut near, ["gpu1"]);
    let mut client = Client::new(&near);
    begins(client.ok("list_tasks", there(json!({}))), "no tasks");
    let ask = "echo hello; read -p 'Go on? ' x; echo got $x; sleep 1000";
    let run = there(json!({"task": "ask", "command": ask, "until": "hello"}));
    begins(client.ok("run_task", run), "started ");
    has(client.ok("list_tasks", there(json!({}))), "ask");
    begins(client.ok("list_tasks", json!({})), "no tasks");
    let wait = there(json!({"task": ["ask"], "input": true}));
    has(client.ok("wait_for", wait), "Go on?");
    let send = there(json!({"task": "ask", "text": "yes", "prompt": "Go on?"}));
    client.ok("send_input", send);
    gpu.world.until_shows("=work:=ask", "got yes");
    let read = there(json!({"task": "ask"}));
    has(client.ok("read_output", read), "got yes");
    let found = there(json!({"pattern": "hello"}));
    has(client.ok("search_output", found), "ask");
    // Since the first call, although each call has a server of its own there.
    let events = client.ok("next_events", there(json!({"wait_seconds": 0})));
    has(&events, "(ask) started\n");
    has(&events, "Go on?\n");
    client.ok("kill_task", there(json!({"task": "ask"})));
    gpu.world.task(["ls"]).fails_with(3);

    // A wait there ends with the call.
    let run = there(json!({"task": "a", "command": "sleep 1000"}));
    client.ok("run_task", run);
    let wait = there(json!({"task": ["a"], "text": "never", "timeout_seconds": 500}));
    let id = client.begin("wait_for", wait);
    gpu.world.until_waits(1);
    client.send(&cancelled(id));
    gpu.world.until_waits(0);
    client.ok("kill_task", there(json!({"task": "a"})));

    // What is wrong is said by the machine, or about it.
    let wrong = client.fails("read_output", there(json!({"task": "nothing"})));
    begins(wrong, "no session `work`");
    for [host, why] in rows(
        r#"
        "no.such.invalid" => could not reach no.such.invalid:
        7 => `host` is not a text
        "-v" => `-v` is not a destination
        "#,
    ) {
        let there = json!({"host": parsed(host)});
        begins(client.fails("list_tasks", there), why);
    }
}

#[cfg(feature = "fleet")]
#[test]
fn a_host_of_the_fleet_executes_the_tools_that_it_allows() {
    let (near, far, _broker) = fleet("'ls', 'logs', 'wait', 'run', 'send'");
    until_answered(&near);
    // The second client would get a handle here.
    for mut client in [Client::new(&near), Client::with_tasks(&near)] {
        has(client.ok("list_tasks", there(json!({}))), "one");
        let wait = there(json!({"task": "one", "input": true}));
        has(client.ok("wait_for", wait), "Go?");
    }
    let mut client = Client::new(&near);
    let send = there(json!({"task": "one", "text": "yes", "prompt": "Go?"}));
    client.ok("send_input", send);
    far.until_shows("one", "got-yes");
    let read = there(json!({"task": "one"}));
    has(client.ok("read_output", read), "got-yes");
    let run = there(json!({"task": "two", "command": "echo two; exit 3", "wait": true}));
    has(client.ok("run_task", run), "exited with code 3");
    let found = there(json!({"pattern": "two"}));
    has(client.ok("search_output", found), "two");
    for [tool, arguments, why] in rows(
        r#"
        kill_task => {"task": "one"} => `kill` is not allowed through the broker
        prune_tasks => {} => `prune_tasks` is not allowed through the broker
        send_input => {"task": "one", "text": "yes"} => `send_input` through the broker needs `prompt`
        "#,
    ) {
        let said = client.fails(tool, there(parsed(arguments)));
        begins(said, format!("gpu1: {why}"));
    }
}

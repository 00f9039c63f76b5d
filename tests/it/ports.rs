//! Ports: who listens counts, not that somebody does.

use std::fs;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use crate::support::{World, story};

/// A server: `serve ADDRESS PORT [MODE]`. With `fork` it goes into the background, in a session of its
/// own; with `shared` others may listen there too; with `http` it answers with the status in the file
/// `status`.
const SERVER: &str = r"#!/usr/bin/env python3
import os, signal, socket, sys
address, port = sys.argv[1], int(sys.argv[2])
mode = sys.argv[3] if len(sys.argv) > 3 else ''
family = socket.AF_INET6 if ':' in address else socket.AF_INET
if mode == 'fork':
    if os.fork():
        os.wait()
        print('forked', flush=True)
        signal.pause()
    os.setsid()
    if os.fork():
        os._exit(0)
server = socket.socket(family, socket.SOCK_STREAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if mode == 'shared':
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
server.bind((address, port))
server.listen()
while mode == 'http':
    client, _ = server.accept()
    client.recv(4096)
    status = open('status').read().strip()
    client.sendall(b'HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n')
    client.sendall(f'HTTP/1.1 {status} x\r\nLocation: http://127.0.0.1:1/\r\n\r\n'.encode())
    client.close()
signal.alarm(600)
signal.pause()
";

/// Returns a port that nobody listens on. The kernel gives it to nobody who does not ask for it.
fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + u16::try_from(std::process::id() % 10_000).unwrap();
    loop {
        let port = first + NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("::", port)).is_ok() && TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}

fn serve(world: &World) -> String {
    let path = world.script("serve", SERVER);
    path.display().to_string()
}

/// The ports of the tasks, as `ls --json` has them.
fn ports(world: &World) -> Vec<(String, Value)> {
    let tasks = world.look()["tasks"].clone();
    let tasks = tasks.as_array().unwrap().iter();
    let name = |task: &Value| task["windowName"].as_str().unwrap().to_owned();
    tasks
        .map(|task| (name(task), task["ports"].clone()))
        .collect()
}

#[test]
fn a_port_that_another_process_has_is_not_ready_and_run_says_who_has_it() {
    let world = World::new();
    let (serve, gate, port) = (serve(&world), world.gate("on"), free_port().to_string());
    let taken = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let line = format!("{}; exec {serve} 127.0.0.1 {port}", gate.wait());
    let mut run = world.start([
        "run",
        "api",
        "--listen",
        &port,
        "--timeout",
        "60s",
        "--",
        &line,
    ]);
    let ours = std::process::id();
    let complaint = run.complaint();
    let expected = format!("tmux-task: run: port {port} is held by pid {ours} (");
    assert!(complaint.starts_with(&expected), "{complaint}");
    assert!(
        complaint.ends_with("): not ready before `api` has it"),
        "{complaint}"
    );
    for _ in 0..4 {
        run.line();
    }
    let timed_out = world.task(["wait", "api", "--listen", &port, "--timeout", "300ms"]);
    assert_eq!(timed_out.code, 4, "{timed_out}");
    let expected = format!("timed out after 300 ms; port {port} is held by pid {ours} (");
    assert!(timed_out.err.contains(&expected), "{timed_out}");
    drop(taken);
    gate.open();
    assert_eq!(run.line(), format!("listening: {port}"));
    assert_eq!(run.wait(), 0);
    assert_eq!(
        ports(&world),
        [("api".to_owned(), json!([port.parse::<u16>().unwrap()]))]
    );
    // A wait for what holds already returns at once, with any port too.
    let any = world.task(["wait", "api", "--listen", "--json"]);
    let any: Value = serde_json::from_str(any.ok()).unwrap();
    assert_eq!(
        (&any["outcome"], &any["condition"]),
        (&json!("listening"), &json!("listen"))
    );
    assert_eq!(any["ports"], json!([port.parse::<u16>().unwrap()]));
    world.finish();
}

#[test]
fn a_port_of_another_task_is_named_with_it() {
    let world = World::new();
    let (serve, port) = (serve(&world), free_port().to_string());
    let first = format!("exec {serve} 127.0.0.1 {port}");
    world
        .task(["run", "first", "--listen", &port, "--", &first])
        .ok();
    // It cannot have the port, and ends.
    let second = ["run", "second", "--listen", &port, "--json", "--", &first];
    let second = world.task(second);
    assert_eq!(second.code, 5, "{second}");
    let result: Value = serde_json::from_str(second.out.lines().last().unwrap()).unwrap();
    assert_eq!(result["outcome"], "died", "{second}");
    let holder = &result["portHolders"][0];
    assert_eq!(holder["task"], "first", "{second}");
    assert_eq!(holder["session"], "work", "{second}");
    // The run that is replaced gives the port back.
    let again = world.task(["run", "first", "--listen", &port, "--", &first]);
    let replaced = "tmux-task: run: replaced the live run of task `first`\n";
    assert_eq!(again.err, replaced, "{again}");
    assert!(
        again.ok().ends_with(&format!("listening: {port}\n")),
        "{again}"
    );
    world.finish();
}

#[test]
fn a_task_that_ends_at_once_because_its_port_is_held_is_told_with_who_has_it() {
    let world = World::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let file = world.path("project.toml");
    let tasks = format!("[tasks.api]\ncommand = 'exit 3'\nready = {{ port = {port} }}\n");
    fs::write(&file, tasks).unwrap();
    let up = world.task(["up", file.to_str().unwrap(), "--wait"]);
    let ours = std::process::id();
    let expected = format!("up: api exited with code 3; port {port} is held by pid {ours} (");
    assert!(up.err.contains(&expected), "{up}");
    world.finish();
}

#[test]
fn all_processes_of_a_run_count_also_one_in_the_background() {
    let world = World::new();
    let serve = serve(&world);
    let [forked, v6, any, child] = [(); 4].map(|()| free_port());
    let script = format!(
        "{serve} :: {v6} & {serve} 0.0.0.0 {any} & (sh -c '{serve} 127.0.0.1 {child}; :') & \
         exec {serve} 127.0.0.1 {forked} fork"
    );
    world.run("all", &script);
    for port in [forked, v6, any, child] {
        let waited = world.task([
            "wait",
            "all",
            "--listen",
            &port.to_string(),
            "--timeout",
            "60s",
        ]);
        waited.ok();
    }
    world.run("other", "exec sleep 1000");
    let mut expected = [forked, v6, any, child];
    expected.sort_unstable();
    let all = ("all".to_owned(), json!(expected));
    assert_eq!(ports(&world), [all, ("other".to_owned(), json!([]))]);
    let table = world.task(["ls"]);
    assert!(table.ok().contains(" PORTS "), "{table}");
    // What has left the session is not ended with its task: the test ends it, by its name.
    world.task(["kill", "all"]).ok();
    let waited = [
        "wait",
        "other",
        "--listen",
        &forked.to_string(),
        "--timeout",
        "100ms",
    ];
    let waited = world.task(waited);
    let held = format!("port {forked} is held by pid ");
    assert!(waited.err.contains(&held), "{waited}");
    assert!(
        waited.err.contains(" of task `all` in session `work`"),
        "{waited}"
    );
    let pid = waited
        .err
        .split(&held)
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    world.finish();
}

#[test]
fn a_port_that_two_tasks_share_is_nobodys_until_one_has_it_alone() {
    let world = World::new();
    let (serve, port) = (serve(&world), free_port().to_string());
    let line = format!("exec {serve} 127.0.0.1 {port} shared");
    world
        .task(["run", "old", "--listen", &port, "--", &line])
        .ok();
    world.run("new", &format!("exec {serve} 127.0.0.1 {port} shared"));
    world.until_true("both listen", || {
        ports(&world).iter().all(|(_, ports)| *ports != json!([]))
    });
    let shared = world.task(["wait", "new", "--listen", &port, "--timeout", "300ms"]);
    assert_eq!(shared.code, 4, "{shared}");
    assert!(shared.err.contains("of task `old`"), "{shared}");
    world.task(["kill", "old"]).ok();
    world.task(["wait", "new", "--listen", &port]).ok();
    world.finish();
}

#[test]
fn the_end_of_the_run_ends_a_wait_for_a_port() {
    let world = World::new();
    let gate = world.gate("on");
    world.run("ends", &format!("{}; exit 3", gate.wait()));
    let mut wait = world.start(["wait", "ends", "--listen", "--json"]);
    world.until_true("it waits", || world.daemon_status()["waits"] == 1);
    gate.open();
    let result = wait.record();
    assert_eq!(
        (wait.wait(), &result["outcome"]),
        (5, &json!("died")),
        "{result}"
    );
    for (args, why) in [
        (
            ["wait", "ends", "--listen", "0"],
            "`0` is not a port, like 3000",
        ),
        (
            ["wait", "ends", "--listen", "70000"],
            "`70000` is not a port, like 3000",
        ),
    ] {
        let refused = world.task(args);
        assert_eq!(refused.code, 2, "{refused}");
        assert!(refused.err.contains(why), "{refused}");
    }
    world.finish();
}

#[test]
fn a_task_of_a_file_is_ready_when_it_listens_or_answers() {
    let world = World::new();
    let (serve, gate) = (serve(&world), world.gate("on"));
    let [db, api] = [(); 2].map(|()| free_port());
    fs::write(world.project().join("status"), "503").unwrap();
    let file = format!(
        "[tasks.db]\ncommand = '''{}; exec {serve} :: {db}'''\nready = {{ port = {db} }}\n\
         [tasks.api]\ncommand = 'exec {serve} 127.0.0.1 {api} http'\nafter = 'db'\n\
         ready = {{ http = 'http://localhost:{api}/health' }}\n\
         [tasks.web]\ncommand = 'exec sleep 1000'\nafter = 'api'\n",
        gate.wait()
    );
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    let mut up = world.start(["up", "--wait"]);
    let line = |up: &crate::support::Running| {
        let line = up.line();
        let words = line.split(' ').filter(|word| !word.starts_with('@'));
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line(&up), "started (db)");
    gate.open();
    assert_eq!([line(&up), line(&up)], ["ready (db)", "started (api)"]);
    // It listens, and is not ready.
    let late = world.task(["up", "--wait", "--timeout", "2s", "api"]);
    assert_eq!(late.code, 4, "{late}");
    let why = format!("api was not ready after 2.0 s; http://localhost:{api}/health: answered 503");
    assert!(late.err.contains(&why), "{late}");
    // A redirection is not followed.
    fs::write(world.project().join("status"), "302").unwrap();
    assert_eq!([line(&up), line(&up)], ["ready (api)", "started (web)"]);
    assert_eq!(up.wait(), 0);
    // What runs already is asked again.
    world.task(["up", "--wait"]).ok();
    world.finish();
}

#[test]
fn an_answer_of_another_process_does_not_count() {
    let world = World::new();
    let (serve, port) = (serve(&world), free_port());
    fs::write(world.project().join("status"), "200").unwrap();
    // The server of another task answers at 127.0.0.1, the task itself listens on ::1 only.
    let other = format!("exec {serve} 127.0.0.1 {port} http");
    world.task(["run", "other", "--listen", "--", &other]).ok();
    let file = format!(
        "[tasks.api]\ncommand = 'exec {serve} ::1 {port}'\n\
         ready = {{ http = 'http://127.0.0.1:{port}/' }}\n"
    );
    fs::write(world.project().join("tmux-task.toml"), file).unwrap();
    let late = world.task(["up", "--wait", "--timeout", "3s"]);
    assert_eq!(late.code, 4, "{late}");
    assert!(late.err.contains("of task `other`"), "{late}");
    world.finish();
}

#[test]
fn values_of_ready_that_mean_nothing_are_errors() {
    let world = World::new();
    for (ready, why) in [
        (
            "{ http = 'https://localhost/' }",
            "https is not supported, only http",
        ),
        ("{ port = 0 }", "must not have port 0"),
        (
            "{ port = 1, http = 'http://a/' }",
            "must have either `port` or `http`",
        ),
        ("{}", "must have either `port` or `http`"),
        (
            "{ http = '127.0.0.1' }",
            "is not an address like http://127.0.0.1:3000/health",
        ),
        ("3000", "must be a string, or a table with `port` or `http`"),
    ] {
        let file = format!("[tasks.api]\ncommand = 'true'\nready = {ready}\n");
        fs::write(world.project().join("tmux-task.toml"), file).unwrap();
        let refused = world.task(["up"]);
        assert_eq!(refused.code, 1, "{refused}");
        assert!(
            refused.err.contains("tmux-task.toml:3: `tasks.api.ready`"),
            "{refused}"
        );
        assert!(refused.err.contains(why), "{refused}");
    }
    assert_eq!(story(&world.records()), [""; 0]);
}

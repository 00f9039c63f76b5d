//! Ports: who listens counts, not that somebody does.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, argv, begins, has, has_fields, pid as pid_of, without_ids};

const SERVER: &str = include_str!("../fixtures/programs/serve.py");

/// Returns a port that nobody listens on. The kernel gives it to nobody who does not ask for it.
pub(crate) fn free_port() -> u16 {
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

/// The tasks with their ports, as `ls --json` has them.
fn ports(world: &World) -> Value {
    let tasks = world.tasks().into_iter();
    tasks
        .map(|task| json!([task["windowName"], task["ports"]]))
        .collect()
}

/// A wait for a port is over before its task has it. Returns the pid that has it, as it was said.
#[track_caller]
fn is_held(world: &World, name: &str, port: &str, whose: &str) -> String {
    let waited = world.task(["wait", name, "--listen", port, "--timeout", "300ms"]);
    let held = format!("port {port} is held by pid ");
    waited.fails_saying(4, &held);
    waited.fails_saying(4, whose);
    let (_, pid) = waited.err.split_once(&held).unwrap();
    pid.split_once(' ').unwrap().0.to_owned()
}

#[test]
fn a_port_that_another_process_has_is_not_ready_and_is_said_to_be_held() {
    let world = World::new();
    let (serve, gate, port) = (serve(&world), world.gate("on"), free_port().to_string());
    let taken = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let line = format!("{gate}; exec {serve} 127.0.0.1 {port}");
    let listen = ["run", "api", "--listen", &port, "--timeout", "60s"];
    let mut run = world.start([&listen[..], &["--", &line]].concat());
    let ours = std::process::id();
    let complaint = run.complaint();
    let held = format!("port {port} is held by pid {ours} (");
    begins(&complaint, format!("tmux-task: run: {held}"));
    has(&complaint, "): not ready before `api` has it");
    for _ in 0..4 {
        run.line();
    }
    is_held(
        &world,
        "api",
        &port,
        &format!("timed out after 300 ms; {held}"),
    );
    // So it is of a task that ends at once.
    let tasks = format!("[tasks.ends]\ncommand = 'exit 3'\nready = {{ port = {port} }}\n");
    world.write("tmux-task.toml", &tasks);
    let up = world.task(["up", "--wait"]);
    up.fails_saying(5, &format!("up: ends exited with code 3; {held}"));
    drop(taken);
    gate.open();
    assert_eq!(run.line(), format!("listening: {port}"));
    assert_eq!(run.wait(), 0);
    let number = port.parse::<u16>().unwrap();
    assert_eq!(world.listed("api")["ports"], json!([number]));
    // A wait for what holds already returns at once, with any port too.
    let any = world.call("wait api --listen --json").json();
    has_fields(
        &any,
        "outcome condition ports",
        json!(["listening", "listen", [number]]),
    );
    world.finish();
}

#[test]
fn a_port_of_another_task_is_named_with_it() {
    let world = World::new();
    let (serve, port) = (serve(&world), free_port().to_string());
    let first = format!("exec {serve} 127.0.0.1 {port}");
    let run = |name: &str, more: &str| {
        world.call(&format!("run {name} --listen {port} {more} -- '{first}'"))
    };
    run("first", "").ok();
    // It cannot have the port, and ends.
    let second = run("second", "--json");
    assert_eq!(second.code, 5, "{second}");
    let result: Value = serde_json::from_str(second.out.lines().last().unwrap()).unwrap();
    assert_eq!(result["outcome"], "died", "{second}");
    let names = "portHolders.0.task portHolders.0.session";
    has_fields(&result, names, json!(["first", "work"]));
    // The run that is replaced gives the port back.
    let again = run("first", "");
    assert_eq!(
        again.err,
        "tmux-task: run: replaced the live run of task `first`\n"
    );
    has(again.ok(), format!("\nlistening: {port}\n"));
    // One that two tasks share is nobody's until one has it alone.
    let port = free_port().to_string();
    let line = format!("exec {serve} 127.0.0.1 {port} shared");
    world.run("old", &line);
    world.run("new", &line);
    let listens = |name| world.listed(name)["ports"] != json!([]);
    world.until_true("both listen", || listens("old") && listens("new"));
    is_held(&world, "new", &port, "of task `old`");
    world.task(["kill", "old"]).ok();
    world.task(["wait", "new", "--listen", &port]).ok();
    world.finish();
}

#[test]
fn all_processes_of_a_run_count_also_one_in_the_background() {
    let world = World::new();
    let serve = serve(&world);
    let mut all = [(); 4].map(|()| free_port());
    let [forked, v6, any, child] = all;
    let script = format!(
        "{serve} :: {v6} & {serve} 0.0.0.0 {any} & (sh -c '{serve} 127.0.0.1 {child}; :') & \
         exec {serve} 127.0.0.1 {forked} fork"
    );
    world.run("all", &script);
    for port in all {
        let wait = format!("wait all --listen {port} --timeout 60s");
        world.call(&wait).ok();
    }
    world.run("other", "exec sleep 1000");
    all.sort_unstable();
    assert_eq!(ports(&world), json!([["all", all], ["other", []]]));
    world.task(["ls"]).prints(" PORTS ");
    // What has left the session is not ended with its task: the test ends it.
    world.task(["kill", "all"]).ok();
    let whose = " of task `all` in session `work`";
    let pid = is_held(&world, "other", &forked.to_string(), whose);
    kill_process(pid_of(pid.parse().unwrap()), Signal::KILL).unwrap();
    world.finish();
}

#[test]
fn the_end_of_the_run_ends_a_wait_for_a_port() {
    let world = World::new();
    let gate = world.gate("on");
    world.run("ends", &format!("{gate}; exit 3"));
    let mut wait = world.start(argv("wait ends --listen --json"));
    world.until_waits(1);
    gate.open();
    let result = wait.record();
    assert_eq!(
        (wait.wait(), &result["outcome"]),
        (5, &json!("died")),
        "{result}"
    );
    for port in ["0", "70000"] {
        let refused = world.task(["wait", "ends", "--listen", port]);
        refused.fails_saying(2, &format!("`{port}` is not a port, like 3000"));
    }
    world.finish();
}

#[test]
fn a_task_of_a_file_is_ready_when_it_listens_or_answers() {
    let world = World::new();
    let (serve, gate) = (serve(&world), world.gate("on"));
    let [db, api] = [(); 2].map(|()| free_port());
    world.write("status", "503");
    let file = format!(
        "[tasks.db]\ncommand = '''{gate}; exec {serve} :: {db}'''\nready = {{ port = {db} }}\n\
         [tasks.api]\ncommand = 'exec {serve} 127.0.0.1 {api} http'\nafter = 'db'\n\
         ready = {{ http = 'http://localhost:{api}/health' }}\n\
         [tasks.web]\ncommand = 'exec sleep 1000'\nafter = 'api'\n"
    );
    world.write("tmux-task.toml", &file);
    let mut up = world.start(["up", "--wait"]);
    let line = || without_ids(&up.line()).remove(0);
    assert_eq!(line(), "started (db)");
    gate.open();
    assert_eq!([line(), line()], ["ready (db)", "started (api)"]);
    // It listens, and is not ready.
    let late = world.call("up --wait --timeout 2s api");
    let why = format!("api was not ready after 2.0 s; http://localhost:{api}/health: answered 503");
    late.fails_saying(4, &why);
    // A redirection is not followed.
    world.write("status", "302");
    assert_eq!([line(), line()], ["ready (api)", "started (web)"]);
    assert_eq!(up.wait(), 0);
    // What runs already is asked again.
    world.task(["up", "--wait"]).ok();
    // An answer of another process does not count: this one listens on ::1 only.
    let file = format!(
        "[tasks.six]\ncommand = 'exec {serve} ::1 {api}'\n\
         ready = {{ http = 'http://127.0.0.1:{api}/' }}\n"
    );
    world.write("tmux-task.toml", &file);
    let late = world.call("up --wait --timeout 2s");
    late.fails_saying(4, "of task `api`");
    world.finish();
}

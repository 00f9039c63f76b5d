//! Ending runs: everything of a run has ended before its window goes or the next run starts.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::ports::free_port;
use crate::support::{
    Output, Running, World, begins, content, deliveries, event, events, events_of, has, has_ended,
    lacks, pid, repeated, set_mode, texts, window_of,
};

/// A server that stops when its gate is opened: PORT GATE.
const SERVER: &str = r#"
import os, signal, socket, sys

# A `print` within another one is an error of Python's.
def stop(number, frame):
    os.write(1, b"stopping\n")
    os.read(os.open(sys.argv[2], os.O_RDONLY), 1)
    os.write(1, b"stopped\n")
    sys.exit(0)

listener = socket.socket()
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen()
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGHUP, lambda *_: os.write(1, b"hung up\n"))
open("pid", "w").write(str(os.getpid()))
WAIT"#;

/// Says that it is ready, and waits for signals. One that comes between two reads leaves a byte; `pause`
/// would miss it.
const WAIT: &str = r#"
woken, wakes = os.pipe()
os.set_blocking(wakes, False)
signal.set_wakeup_fd(wakes)
print("ready", flush=True)
while True:
    os.read(woken, 1)
"#;

/// A program that ends by `SIGKILL` only.
const STUBBORN: &str = r#"
import os, signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
open("pid", "w").write(str(os.getpid()))
print("ready", flush=True)
while True:
    signal.pause()
"#;

/// A program that says which signals it gets, and ends at `SIGTERM` and `SIGINT`.
const TELLING: &str = r#"
import os, signal, sys

# A `print` within another one is an error of Python's.
def tell(number, frame):
    os.write(1, f"got {signal.Signals(number).name}\n".encode())
    if number in (signal.SIGTERM, signal.SIGINT):
        sys.exit(7)

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, tell)
WAIT"#;

/// Writes a Python program into the world's project, and returns the command that runs it.
fn python(world: &World, name: &str, text: &str) -> String {
    let text = text.replace("WAIT", WAIT);
    fs::write(world.project().join(name), text).unwrap();
    format!("python3 {name}")
}

/// Writes the server, and returns the command that runs it.
fn server(world: &World, gate: &str) -> String {
    let program = python(world, "server.py", SERVER);
    let gate = world.path(gate);
    format!("{program} {} {}", free_port(), gate.display())
}

/// Starts a task and waits until it is ready.
#[track_caller]
fn run_until_ready(world: &World, options: &[&str], name: &str, line: &str) {
    let run = ["run", name, "--until", "ready"];
    world.task([&run, options, &["--", line]].concat()).ok();
}

/// The process whose number a program has written.
#[track_caller]
fn noted_pid(world: &World) -> Pid {
    let number = fs::read_to_string(world.project().join("pid")).unwrap();
    pid(number.trim().parse().unwrap())
}

/// Waits until a command says for whom it waits, and returns the last program's process.
#[track_caller]
fn until_it_waits(world: &World, command: &Running, what: &str, name: &str) -> Pid {
    let line = command.complaint();
    begins(&line, format!("tmux-task: {what}: waiting for @"));
    has(&line, format!("({name})"));
    noted_pid(world)
}

/// Waits until a command has ended a task, and checks that its program has ended.
#[track_caller]
fn check_ended(mut kill: Running, pid: Pid) {
    begins(kill.line(), "ended @");
    assert_eq!(kill.wait(), 0);
    assert!(has_ended(pid));
}

/// Begins to kill the stubborn program; one interrupt leaves it alive, the second one kills it.
#[track_caller]
fn interrupt_twice(world: &World, between: impl Fn()) -> Running {
    let line = python(world, "stubborn.py", STUBBORN);
    run_until_ready(world, &[], "stub", &line);
    let mut kill = world.start(["kill", "stub", "--grace", "1h", "--json"]);
    let pid = until_it_waits(world, &kill, "kill", "stub");
    begins(kill.complaint(), "hint: two interrupts");
    between();
    kill.signal(Signal::INT);
    let waits = "tmux-task: kill: still waiting; another interrupt kills what is left";
    assert_eq!(kill.complaint(), waits);
    assert!(!has_ended(pid));
    kill.signal(Signal::INT);
    assert_eq!(kill.wait(), 0);
    assert!(has_ended(pid));
    kill
}

/// What a command has killed.
#[track_caller]
fn killed(world: &World, args: &[&str]) -> Value {
    world.json([&["kill", "--json"], args].concat())["killed"].take()
}

/// Checks the states of all tasks.
#[track_caller]
fn check_states(world: &World, expected: &[(&str, &str)]) {
    let tasks = world.look()["tasks"].take();
    let tasks = tasks.as_array().unwrap();
    let states = texts(tasks, "windowName").into_iter();
    let states = states.zip(texts(tasks, "state"));
    assert_eq!(states.collect::<Vec<_>>(), expected);
}

#[track_caller]
fn logs(world: &World, name: &str, run: u32) -> String {
    let run = run.to_string();
    world.task(["logs", name, "--run", &run]).ok().to_owned()
}

#[test]
fn a_run_is_ended_also_while_its_command_begins() {
    let world = World::new();
    // bash gets the signal before, while or after it executes a program.
    for n in 0..repeated(30) {
        world.run("api", ["sleep 1000", "exec sleep 1000"][(n % 2) as usize]);
        world.call("kill api --grace 10m").ok();
    }
}

#[test]
fn a_task_stops_as_it_likes_and_its_output_is_kept() {
    let world = World::new();
    let gate = world.gate("stop");
    run_until_ready(&world, &[], "api", &server(&world, "stop"));
    let kill = world.start(["kill", "api"]);
    let pid = until_it_waits(&world, &kill, "kill", "api");
    assert!(!has_ended(pid));
    // Nothing else waits for it.
    world.run("other", "exec sleep 1000");
    check_states(&world, &[("api", "running"), ("other", "running")]);
    gate.open();
    check_ended(kill, pid);
    assert_eq!(logs(&world, "api", 1), "ready\nstopping\nstopped\n");
    let records = world.until_delivered("disappeared", "api");
    let gone = event(&records, "disappeared", "api");
    assert_eq!(gone["reason"], "userKilled");
    assert_eq!(gone["task"]["exitCode"], 0);
    assert!(gone["task"]["durationMs"].is_number(), "{gone}");
    assert!(events_of(&records, "exited").is_empty());
    world.finish();
}

#[test]
fn the_next_run_starts_when_the_one_before_has_ended() {
    let world = World::new();
    let gate = world.gate("stop");
    let line = server(&world, "stop");
    run_until_ready(&world, &[], "api", &line);
    for again in [
        ["run", "api", "--until", "ready", "--", &line].as_slice(),
        &["restart", "api", "--until", "ready"],
    ] {
        let mut again_run = world.start(again);
        until_it_waits(&world, &again_run, again[0], "api");
        gate.open();
        assert_eq!(again_run.wait(), 0);
    }
    for run in [1, 2] {
        assert_eq!(logs(&world, "api", run), "ready\nstopping\nstopped\n");
    }
    assert_eq!(world.task(["logs", "api"]).ok(), "ready\n");
    let records = world.until_events(2, "exited");
    for event in events_of(&records, "exited") {
        assert_eq!(event["reason"], "replaced");
        assert_eq!(event["task"]["exitCode"], 0);
    }
}

#[test]
fn the_child_of_a_script_is_not_hung_up_on_while_it_stops() {
    let world = World::new();
    let gate = world.gate("stop");
    let line = server(&world, "stop");
    world.script("project/dev.sh", &format!("#!/bin/sh\n{line}\n"));
    for line in ["./dev.sh", "./dev.sh; echo over", &line] {
        run_until_ready(&world, &[], "dev", line);
        let mut kill = world.start(["kill", "dev"]);
        until_it_waits(&world, &kill, "kill", "dev");
        gate.open();
        assert_eq!(kill.wait(), 0);
    }
    let runs = world.json(["logs", "dev", "--runs", "--json"]);
    assert_eq!(runs.as_array().unwrap().len(), 3, "{runs}");
    for file in fs::read_dir(world.state("work").join("runs")).unwrap() {
        let text = fs::read(file.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&text);
        lacks(&text, "hung up");
    }
}

#[test]
fn what_does_not_stop_is_killed() {
    let world = World::new();
    let line = python(&world, "stubborn.py", STUBBORN);
    for (options, kill) in [
        (&[] as &[&str], &["stub", "--grace", "0"] as &[&str]),
        (&["--grace", "10ms"], &["stub"]),
        (&["--grace", "1h"], &["stub", "--grace", "10ms"]),
    ] {
        run_until_ready(&world, options, "stub", &line);
        let killed = killed(&world, kill);
        assert_eq!(killed[0]["exitSignal"], "SIGKILL", "{killed}");
    }
}

#[test]
fn a_run_that_is_being_ended_asks_nothing_more() {
    let world = World::new();
    let ends = [
        &["kill", "ask"][..],
        &["run", "ask", "--", "exit 0"],
        &["kill", "ask", "--grace", "0"],
    ];
    for (n, end) in (1..).zip(ends) {
        world.run("ask", "read -r -p 'Proceed? [y/N] ' _");
        world.until_events(n, "input");
        world.task(end).ok();
        world.until_events(n, "inputResolved");
    }
    let records = world.finish();
    let counts = ["input", "inputResolved"].map(|wanted| events_of(&records, wanted).len());
    assert_eq!(counts, [3, 3]);
}

#[test]
fn who_has_killed_a_run_is_said_unless_we_have() {
    const HINT: &str = "killed by SIGKILL (not by tmux-task; out of memory?)";
    let world = World::new();
    for (line, code, words) in [
        ("kill -KILL $$", 137, format!("was {HINT}")),
        (
            "sh -c 'kill -KILL $$'",
            137,
            format!("exited with code 137: {HINT}"),
        ),
        ("kill -TERM $$", 143, "was killed by SIGTERM".to_owned()),
    ] {
        let is_hinted = words.contains(HINT);
        let run = world.task(["run", "job", "--wait", "--", line]);
        let why = format!("tmux-task: run job: the task {words}");
        let said = run.err.lines().last();
        assert_eq!((run.code, said), (code, Some(&*why)), "{run}");
        let wait = world.task(["wait", "job"]);
        let hint = format!("tmux-task: wait job: {HINT}");
        assert_eq!(wait.err.contains(&hint), is_hinted, "{wait}");
        let listed = world.look()["tasks"][0].take();
        assert_eq!(listed.get("exitHint").is_some(), is_hinted, "{listed}");
        let table = world.task(["ls"]);
        assert_eq!(table.ok().contains(HINT), is_hinted, "{table}");
    }
    // Nobody waits: the message is for the agent.
    let gate = world.gate("told");
    let line = format!("{gate}; echo one; kill -KILL $$");
    world.run("told", &line);
    gate.open();
    let records = world.until_delivered("exited", "told");
    let told = content(deliveries(&records).pop().unwrap());
    let told = told.split_once("(told) ").unwrap().1;
    let expected = format!("was killed by SIGKILL\nrecent output:\n  one\n{HINT}");
    assert_eq!(told, expected);
    // What we kill because it does not stop, for another run or for good, is ours.
    let line = python(&world, "stubborn.py", STUBBORN);
    for _ in 0..2 {
        run_until_ready(&world, &["--grace", "10ms"], "stub", &line);
    }
    assert_eq!(killed(&world, &["stub"])[0]["exitSignal"], "SIGKILL");
    let records = world.until_delivered("disappeared", "stub");
    let mut ends = events(&records);
    ends.retain(|event| event["task"]["windowName"] == "stub" && event["task"]["dead"] == true);
    let is_hinted = |event: &&Value| event["task"].get("exitHint").is_some();
    assert!(ends.len() == 2 && !ends.iter().any(is_hinted), "{ends:?}");
}

#[test]
fn the_signal_is_the_tasks_or_the_commands() {
    let world = World::new();
    let line = python(&world, "telling.py", TELLING);
    for (stop_signal, signal, signals) in [
        ("", "", "got SIGTERM"),
        ("INT", "", "got SIGINT"),
        ("", "INT", "got SIGINT"),
        ("USR1", "SIGTERM", "got SIGTERM"),
    ] {
        let option = |name: &'static str, value: &'static str| match value {
            "" => Vec::new(),
            value => vec![name, value],
        };
        run_until_ready(&world, &option("--stop-signal", stop_signal), "api", &line);
        let kill = [vec!["api"], option("--signal", signal)].concat();
        let killed = killed(&world, &kill);
        assert_eq!(killed[0]["exitCode"], 7, "{killed}");
        let preview = last_preview(&world, "api");
        assert!(preview.trim_end().ends_with(signals), "{preview}");
    }
}

/// The last output of a task that has disappeared.
#[track_caller]
fn last_preview(world: &World, name: &str) -> String {
    let records = world.until_delivered("disappeared", name);
    let last = events(&records).pop().unwrap();
    last["task"]["outputPreview"].as_str().unwrap().to_owned()
}

/// What it does not do after the signal is what this is about: each line would touch `next`.
#[test]
fn a_line_is_over_when_it_is_ended_whatever_traps_it_has() {
    let world = World::new();
    // At once: where a trap ends the shell, the kernel hangs up what is left.
    let end = "import os, signal\n\
               for n in (1, 2, 10, 15): signal.signal(n, lambda *_: os._exit(0))\n\
               print('ready', flush=True)\n\
               while True: signal.sigtimedwait([], 0.1)\n";
    let program = python(&world, "end.py", end);
    let twice = "trap 'echo 2; exit 3' INT; trap 'echo 15; exit 4' TERM; PROGRAM & wait";
    let function = "f() { trap 'echo $1; return 0' TERM; PROGRAM & wait; touch next; }; f one";
    let in_loop = "trap 'break' TERM; while :; do PROGRAM & wait; done";
    let in_shell = "exec 2>/dev/null; trap '' TERM; (PROGRAM; touch next)";
    let hung_up = "trap 'echo $?; exit' HUP; PROGRAM & wait";
    let at_exit = "c=1; n=2; trap 'echo $c $n' EXIT; PROGRAM";
    let cases = [
        ("PROGRAM & wait", "TERM", 143, ""),
        ("trap : TERM; PROGRAM", "TERM", 0, ""),
        ("trap : TERM; PROGRAM & wait", "TERM", 143, ""),
        ("set +e; trap : USR1; PROGRAM & wait", "USR1", 138, ""),
        ("trap '' TERM; PROGRAM", "TERM", 0, ""),
        ("trap '' TERM; PROGRAM & wait", "TERM", 143, ""),
        (twice, "INT", 3, "2\n"),
        (hung_up, "HUP", 129, "129\n"),
        (function, "TERM", 143, "one\n"),
        (in_loop, "TERM", 143, ""),
        (at_exit, "TERM", 0, "1 2\n"),
        (in_shell, "TERM", 137, ""),
    ];
    for (run, (line, signal, code, said)) in (1..).zip(cases) {
        let line = format!("{}; touch next", line.replace("PROGRAM", &program));
        run_until_ready(&world, &[], "line", &line);
        let killed = killed(&world, &["line", "--signal", signal]);
        assert_eq!(killed[0]["exitCode"], code, "{line}: {killed}");
        let shown = logs(&world, "line", run);
        assert_eq!(shown, format!("ready\n{said}"), "{line}");
        assert!(!world.project().join("next").exists(), "{line}");
    }
}

#[test]
fn what_is_started_while_a_run_ends_is_ended_with_it() {
    let world = World::new();
    let helper = "setsid sh -c 'echo $$ >pid; exec sleep 1000'";
    fs::write(world.project().join("helper.sh"), helper).unwrap();
    let trap = "trap '(sh helper.sh &); until [ -s pid ]; do :; done; exit 5' TERM";
    let line = format!("{trap}; echo ready; while :; do sleep 0.05; done");
    let in_bash = format!("exec bash -c \"{line}\"");
    for words in [&[&*line][..], &[&in_bash], &["bash", "-c", &line]] {
        let run = ["run", "api", "--until", "ready", "--"];
        world.task([&run[..], words].concat()).ok();
        let killed = killed(&world, &["api", "--grace", "1h"]);
        assert_eq!(killed[0]["exitCode"], 5, "{killed}");
        assert!(has_ended(noted_pid(&world)));
        fs::remove_file(world.project().join("pid")).unwrap();
    }
}

#[test]
fn a_parent_can_be_the_only_one_that_is_asked() {
    let world = World::new();
    let child = python(&world, "telling.py", TELLING);
    let parent = format!(
        r#"
import os, signal, subprocess, sys
child = subprocess.Popen({:?}.split(), stdout=subprocess.PIPE, text=True)
assert child.stdout.readline() == "ready\n"

# A `print` within another one is an error of Python's.
def stop(number, frame):
    child.send_signal(signal.SIGINT)
    os.write(1, b"the child " + child.stdout.read().encode())
    sys.exit(child.wait())

signal.signal(signal.SIGTERM, stop)
WAIT"#,
        child
    );
    let line = python(&world, "parent.py", &parent);
    for line in [line.clone(), format!("{line}; exit $?")] {
        run_until_ready(&world, &["--parent-only"], "all", &line);
        let killed = killed(&world, &["all"]);
        assert_eq!(killed[0]["exitCode"], 7, "{killed}");
        has(last_preview(&world, "all"), "the child got SIGINT");
    }
}

#[test]
fn an_interactive_shell_ends_at_once() {
    let mut world = World::new();
    let bash = world.shell("command -v bash");
    let bash = bash.ok().trim().to_owned();
    world.set("SHELL", &bash);
    world.run("other", "exec sleep 1000");
    world.tmux(["set-option", "-g", "default-shell", &bash]);
    let window = world.open_window("work", &[]);
    // A shell that waits for a program is hung up as well, and passes that on.
    world.tmux(["send-keys", "-t", &window, "sleep 1000", "Enter"]);
    world.until_true("it runs", || {
        world.shown(&window, "#{pane_current_command}") == "sleep"
    });
    let killed = killed(&world, &[&window, "--grace", "1h"]);
    assert_eq!(killed.as_array().unwrap().len(), 1, "{killed}");
    lacks(world.tmux(["list-windows", "-F", "#{window_id}"]), window);
}

/// bash loses a hangup that comes while it goes to its prompt. This one always loses the first.
#[test]
fn a_shell_that_loses_a_hangup_is_hung_up_again() {
    let world = World::new();
    let shell = r#"
import signal, sys

def hung_up(number, frame):
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(9))

signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGTSTP, signal.SIG_IGN)
signal.signal(signal.SIGHUP, hung_up)
print("ready", flush=True)
while True:
    signal.pause()
"#;
    // Without the kernel's masks, a shell is known by its name, and an interactive one by its words.
    let shown = "python3 -c 'import os, sys; at = os.path.dirname(sys.executable); \
                 os.execv(sys.executable, [at + \"/bash\", \"-\"])' <shell.py";
    python(&world, "shell.py", shell);
    run_until_ready(&world, &[], "shell", shown);
    let killed = killed(&world, &["shell", "--grace", "1h"]);
    assert_eq!(killed[0]["exitCode"], 9, "{killed}");
}

#[test]
fn a_stopped_process_ends_and_so_does_what_runs_in_the_background() {
    let world = World::new();
    let pids = world.path("pids");
    let line = format!(
        "sleep 1001 & echo $! >{0}; setsid sleep 1002 & echo $! >>{0}; (sleep 1003 & echo $! >>{0}); \
         sleep 1004 & kill -STOP $!; echo $! >>{0}; echo ready; kill -STOP $$; sleep 1005",
        pids.display()
    );
    run_until_ready(&world, &[], "all", &line);
    let pids = fs::read_to_string(&pids).unwrap();
    let pids = pids.lines().map(|line| pid(line.parse().unwrap()));
    let pids: Vec<Pid> = pids.collect();
    assert_eq!(pids.len(), 4);
    let killed = killed(&world, &["all", "--grace", "1h"]);
    assert_eq!(killed[0]["windowName"], "all", "{killed}");
    for pid in pids {
        assert!(has_ended(pid), "{pid:?} runs");
    }
}

/// A program, run by an unprivileged user.
fn as_nobody(world: &World, program: impl AsRef<OsStr>, args: &[&str]) -> Command {
    let mut command = world.command("setpriv");
    command
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(program)
        .args(args);
    command
}

fn give_to_nobody(folder: &Path) {
    chown(folder, Some(65534), Some(65534)).unwrap();
    for entry in folder.read_dir().into_iter().flatten().flatten() {
        give_to_nobody(&entry.path());
    }
}

#[test]
fn another_users_process_is_named_and_its_window_stays() {
    let world = World::new();
    give_to_nobody(world.path("home").parent().unwrap());
    // A program that becomes root, as `sudo` does.
    let root = world.path("as_root");
    let source = root.with_extension("c");
    let text = "#include <unistd.h>\nint main(int n, char **words) {\n\
                return setresuid(0, 0, 0) ? 99 : execvp(words[1], words + 1); }\n";
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-D_GNU_SOURCE", "-o"])
        .args([&root, &source]);
    Output::of(compiler).ok();
    set_mode(&root, 0o4755);
    let succeeds = |program: &Path, args: &[&str]| {
        let status = as_nobody(&world, program, args).output();
        status.is_ok_and(|output| output.status.success())
    };
    let why = if !rustix::process::geteuid().is_root() {
        Some("it needs root")
    } else if !succeeds(World::program(), &["--version"]) {
        Some("the unprivileged user cannot run the program")
    } else {
        let can_become = succeeds(&root, &["true"]);
        (!can_become).then_some("no program becomes another user here")
    };
    if let Some(why) = why {
        eprintln!("not tested: a process of another user: {why}");
        return;
    }
    let task = |args: &[&str]| Output::of(as_nobody(&world, World::program(), args));
    let line = format!(
        "{} sh -c 'trap \"\" HUP; echo ready; exec sleep 1000'",
        root.display()
    );
    let window = task(&["run", "db", "--until", "ready", "--", &line]);
    let window = window_of(window.ok());
    for grace in ["0", "1ms"] {
        let output = task(&["kill", "db", "--grace", grace]);
        let said = format!("tmux-task: kill: could not end {window} (db): sleep (pid ");
        output
            .fails_so(1, &said)
            .says("another user's")
            .says("\nhint: ");
        assert_eq!(output.out, "");
    }
    let listed = task(&["ls", "--json"]).json()["tasks"][0].take();
    assert_eq!(listed["windowId"], *window, "{listed}");
    assert!(listed.get("exitHint").is_none(), "{listed}");
    let show = ["show-options", "-wqv", "-t", &window, "@tmux_task_stop"];
    let options = Output::of(as_nobody(&world, "tmux", &show));
    lacks(options.ok(), "ending");
    // It can be ended later.
    let output = task(&["kill", "db", "--grace", "0"]);
    let number = output.err.split("(pid ").nth(1).unwrap();
    let number = number.split_once(',').unwrap().0.parse().unwrap();
    kill_process(pid(number), Signal::KILL).unwrap();
    assert_eq!(task(&["kill", "db"]).ok(), format!("ended {window} (db)\n"));
}

#[test]
fn an_interrupt_while_the_last_run_ends_is_one_of_the_wait_for_the_next() {
    let world = World::new();
    let gate = world.gate("stop");
    run_until_ready(&world, &[], "api", &server(&world, "stop"));
    let mut run = world.start(["run", "api", "--wait", "--", "exec sleep 1000"]);
    let pid = until_it_waits(&world, &run, "run", "api");
    begins(run.complaint(), "hint: two interrupts");
    run.signal(Signal::INT);
    has(run.complaint(), "still waiting");
    gate.open();
    has(run.complaint(), "replaced the live run");
    assert!(run.complaint().ends_with("(api) goes on"));
    assert_eq!(run.complaint(), "hint: `tmux-task wait api` waits for it");
    assert_eq!(run.wait(), 130);
    assert!(has_ended(pid));
    check_states(&world, &[("api", "running")]);
}

/// Whoever ends a run waits for its processes, not for its window.
#[test]
fn two_interrupts_kill_what_is_left_and_one_does_not_also_if_the_session_is_ended() {
    for goes in ["", "kill-session", "kill-server"] {
        let world = World::new();
        let kill = interrupt_twice(&world, || {
            if !goes.is_empty() {
                world.tmux([goes]);
                world.until_delivered("disappeared", "stub");
            }
        });
        if goes.is_empty() {
            assert_eq!(kill.record()["killed"][0]["exitSignal"], "SIGKILL");
        }
    }
}

#[test]
fn a_killed_daemon_leaves_the_end_to_the_next_one() {
    let mut world = World::new();
    let gate = world.gate("stop");
    run_until_ready(&world, &[], "api", &server(&world, "stop"));
    let machine = "a #{pid} %20 ending; 'b' laptop;";
    world.set("TMUX_TASK_MACHINE", machine);
    let kill = world.start(["kill", "api", "--grace", "1h"]);
    let pid = until_it_waits(&world, &kill, "kill", "api");
    world.set("TMUX_TASK_MACHINE", "");
    let killed = i64::from(world.daemon_pid().as_raw_nonzero().get());
    world.kill_daemon();
    // The command starts another one, and asks it.
    world.until_true("another daemon", || {
        let status = world.task(["daemon", "status", "--json"]);
        let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
        status["pid"].as_i64().is_some_and(|other| other != killed)
    });
    assert!(!has_ended(pid));
    gate.open();
    check_ended(kill, pid);
    let records = world.until_delivered("disappeared", "api");
    let gone = event(&records, "disappeared", "api");
    assert_eq!(gone["reason"], "userKilled");
    assert_eq!(gone["askedBy"], machine);
    assert_eq!(gone["task"]["exitCode"], 0, "{gone}");
    assert_eq!(logs(&world, "api", 1), "ready\nstopping\nstopped\n");
    world.finish();
}

#[test]
fn a_run_ends_at_its_time_limit() {
    let world = World::new();
    let run = ["run", "slow", "--kill-after", "1s", "--", "exec sleep 1000"];
    let window = window_of(world.task(run).ok());
    let records = world.until_delivered("disappeared", "slow");
    let gone = event(&records, "disappeared", "slow");
    assert_eq!(gone["reason"], "timedOut");
    assert_eq!(gone["task"]["exitSignal"], "SIGTERM");
    let mut told = deliveries(&records);
    told.retain(|record| record["kind"] == "followUp");
    let texts: Vec<&str> = told.into_iter().map(content).collect();
    let text = format!("tmux task {window} (slow) was ended after 1s by its time limit");
    assert_eq!(texts, [text]);
    // Who follows it gets a code of its own.
    let run = |limit: &str, line: &str| {
        let run = ["run", "slow", "--wait", "--kill-after", limit, "--", line];
        world.task(run)
    };
    let why = "tmux-task: run slow: the task was ended by its time limit";
    run("1s", "exec sleep 1000").fails_so(124, why);
    // The end of one that cleans up is its time limit's as well.
    let line = "trap 'exit 0' TERM; while :; do sleep 0.05; done";
    run("1s", line).fails_with(124);
    run("1h", "exit 3").fails_with(3);
    world.finish();
}

#[test]
fn many_tasks_end_at_once() {
    let world = World::new();
    let n = 50;
    let names: Vec<String> = (0..n).map(|n| format!("t{n}")).collect();
    let line = "trap 'exit 3' TERM; while :; do sleep 0.5; done";
    let tasks = names
        .iter()
        .map(|name| format!("[tasks.{name}]\ncommand = \"{line}\"\n"));
    let file = world.project().join("tmux-task.toml");
    fs::write(file, tasks.collect::<String>()).unwrap();
    world.task(["up"]).ok();
    let args: Vec<&str> = names.iter().map(String::as_str).collect();
    let killed = killed(&world, &args);
    let killed = killed.as_array().unwrap();
    assert_eq!(killed.len(), n);
    for task in killed {
        assert!(task.get("exitCode").is_some(), "{task}");
    }
    let records = world.finish();
    assert_eq!(events_of(&records, "disappeared").len(), n);
}

#[test]
fn a_task_is_ended_by_the_daemon_that_is_started_for_it() {
    let mut world = World::new();
    let (stop, slow) = (world.gate("stop"), world.gate("slow"));
    let line = server(&world, "stop");
    world.run("api", &line);
    world.run("other", "exec sleep 1000");
    world.until_shows("=work:=api", "ready");
    world.task(["daemon", "stop"]).ok();
    // As on a busy machine, tmux answers late for the first time.
    let passed = world.path("passed");
    let passed = passed.display();
    let late = format!("[ -e {passed} ] || {{ {slow}; touch {passed}; }}");
    let tmux = world.tmux_after(&late);
    world.set("TMUX_TASK_TMUX", &tmux);
    let kill = world.start(["kill", "api"]);
    // Longer than until the command looks for whom it waits. Nothing shows that it has looked: on a slow
    // machine it looks later, and this checks less.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    slow.open();
    let pid = until_it_waits(&world, &kill, "kill", "api");
    stop.open();
    check_ended(kill, pid);
    world.set("TMUX_TASK_TMUX", "");

    let line = python(&world, "stubborn.py", STUBBORN);
    world.run("stub", &line);
    world.until_shows("=work:=stub", "ready");
    let mut kill = world.start(["kill-all", "--yes", "--grace", "1h"]);
    let pid = until_it_waits(&world, &kill, "kill-all", "stub");
    kill.signal(Signal::INT);
    while !kill
        .complaint()
        .ends_with("another interrupt kills what is left")
    {}
    kill.signal(Signal::INT);
    assert_eq!(kill.wait(), 0);
    assert!(has_ended(pid));
    assert_eq!(world.task(["ls"]).code, 3);
}

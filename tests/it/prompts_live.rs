//! Real programs that wait for a person, and others that do not, in a real tmux.

#![allow(clippy::unwrap_used, reason = "a test that fails may panic anywhere")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Far longer than any program here takes to ask on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// A task session of its own, on a tmux server of its own.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("tt").tempdir().unwrap();
        Self { dir }
    }

    fn command(&self, program: &str) -> Command {
        let dir = self.dir.path();
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", dir)
            .env("TMUX_TMPDIR", dir)
            .env("TMUX_TASK_STATE_DIR", dir.join("state"))
            .env("TMUX_TASK_RUNTIME_DIR", dir.join("run"))
            .env("TMUX_TASK_SESSION", "it")
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8")
            .current_dir(dir)
            .stdin(Stdio::null());
        command
    }

    fn call(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_tmux-task"))
            .args(args)
            .output()
            .unwrap()
    }

    /// Sets the table `input` of the configuration.
    fn configure(&self, input: &str) {
        let folder = self.dir.path().join(".config/tmux-task");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!("notices = []\n[input]\n{input}");
        std::fs::write(folder.join("config.toml"), text).unwrap();
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Value {
        let output = self.call(args);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    #[track_caller]
    fn run(&self, name: &str, line: &str) {
        let output = self.call(&["run", name, "--", line]);
        assert!(output.status.success(), "{name}: {output:?}");
    }

    #[track_caller]
    fn send_secret(&self, name: &str, text: &str) {
        let mut child = self
            .command(env!("CARGO_BIN_EXE_tmux-task"))
            .args(["send", name, "--secret"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        assert!(child.wait().unwrap().success());
    }

    /// The `input` and `inputResolved` events of the feed: task, type, kind, prompt, time.
    fn told(&self) -> Vec<Told> {
        let output = self.call(&["feed", "--type", "input", "--type", "inputResolved"]);
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .map(|record| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                Told {
                    task: text(&record["task"]["windowName"]),
                    what: text(&record["type"]),
                    kind: text(&record["promptKind"]),
                    prompt: text(&record["prompt"]),
                    secret: record["secret"].as_bool().unwrap_or(false),
                }
            })
            .collect()
    }

    /// Waits until the feed satisfies this.
    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&[Told]) -> bool) -> Vec<Told> {
        let start = Instant::now();
        loop {
            let told = self.told();
            if is_so(&told) {
                return told;
            }
            assert!(start.elapsed() < DEADLINE, "{what}: {told:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.call(&["daemon", "stop"]));
        drop(self.command("tmux").args(["kill-server"]).output());
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    task: String,
    what: String,
    kind: String,
    prompt: String,
    secret: bool,
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path)
        .any(|dir: std::path::PathBuf| Path::new(&dir).join(program).is_file())
}

/// Name, program, what is run, kind.
const ASKING: &[(&str, &str, &str, &str)] = &[
    ("read", "bash", "read -p 'Go on now? ' x", "text"),
    ("word", "bash", "read -p 'guess> ' x", "text"),
    (
        "noecho",
        "bash",
        "stty -echo; printf 'Kennung '; read x",
        "password",
    ),
    ("secret", "bash", "read -s -p 'Say it ' x", "password"),
    ("anykey", "bash", "read -n1 -p 'Press any key '", "key"),
    // Keys are taken at once, and nothing on the screen asks.
    ("onekey", "bash", "read -n1 -p 'Any key '", "key"),
    ("silentkey", "bash", "read -rsn1", "key"),
    (
        "smallmenu",
        "bash",
        "stty -icanon -echo; printf 'a) one\nb) two\n'; dd bs=1 count=1",
        "key",
    ),
    ("lessfile", "less", "seq 500 > rows; less -SR rows", "pager"),
    // In a terminal of its own.
    (
        "script",
        "script",
        "script -qec \"bash -c 'read -p Name x'\" /dev/null",
        "text",
    ),
    (
        "select",
        "bash",
        "select x in one two three; do echo $x; done",
        "menu",
    ),
    ("printed", "bash", "echo 'Enter your name'; read x", "text"),
    // Without a word.
    ("cat", "cat", "cat", "text"),
    // Only after it has been seen at something else, and still without a word.
    (
        "restless",
        "bash",
        "for _ in $(seq 20); do sleep 0.05; done; read x",
        "text",
    ),
    (
        "thread",
        "python3",
        "python3 -c 'import threading, time; threading.Timer(1, input).start(); time.sleep(1000)'",
        "text",
    ),
    (
        "python",
        "python3",
        "python3 -c 'input(\"Your name: \")'",
        "text",
    ),
    (
        "getpass",
        "python3",
        "python3 -c 'import getpass; getpass.getpass(\"PIN? \")'",
        "password",
    ),
    ("pdb", "python3", "python3 -c 'breakpoint()'", "debugger"),
    (
        "keygen",
        "ssh-keygen",
        "ssh-keygen -t ed25519 -f ./key",
        "password",
    ),
    (
        "commit",
        "vim",
        "git init -q r && cd r && git config user.email a@b.c && git config user.name a && touch f && git add f && EDITOR=vim git commit",
        "editor",
    ),
    ("vim", "vim", "vim -u NONE file", "editor"),
    ("less", "less", "seq 500 | less", "pager"),
    (
        "whiptail",
        "whiptail",
        "whiptail --yesno 'Go on?' 8 40",
        "dialog",
    ),
    ("fzf", "fzf", "seq 100 | fzf", "menu"),
    ("npm", "npm", "mkdir n && cd n && npm init", "text"),
    ("gdb", "gdb", "gdb -q", "debugger"),
    (
        "aptlike",
        "bash",
        "seq 30; read -p 'Do you want to continue? [Y/n] ' x",
        "confirm",
    ),
];

/// The same, for those that only root can run without being asked for a password.
const ASKING_ROOT: &[(&str, &str, &str, &str)] = &[
    // Without a terminal of its own.
    ("su", "su", "su -c \"read -p 'Who ' x\"", "text"),
    (
        "runuser",
        "runuser",
        "runuser nobody -s /bin/bash -c \"read -p 'Who ' x\"",
        "text",
    ),
];

/// Name, program, what is run: none of these waits for a person.
const WORKING: &[(&str, &str, &str)] = &[
    ("sleep", "bash", "echo 'Continue? [y/N]'; sleep 1000"),
    (
        "sleep-on",
        "bash",
        "printf 'Do you want to continue? [Y/n] '; sleep 1000",
    ),
    (
        "make",
        "make",
        "printf 'all: a b\\na:\\n\\tsleep 1000\\nb:\\n\\tsleep 1000\\n' > Makefile; make -j2",
    ),
    (
        "watcher",
        "node",
        "node -e 'process.stdin.on(\"data\", () => {}); console.log(\"  press h + enter to show help\")'",
    ),
    ("top", "top", "top"),
    (
        "tail",
        "bash",
        "printf 'Continue?\\npassword:\\n' > log; tail -f log",
    ),
    (
        "ticks",
        "bash",
        "while :; do echo 'Continue? password:'; sleep 0.05; done",
    ),
    (
        "spinner",
        "bash",
        "while :; do for c in / - '|'; do printf \"\\r$c Proceed? [y/N] \"; sleep 0.1; done; done",
    ),
    (
        "curl",
        "curl",
        "curl -s --max-time 1000 http://10.255.255.1/",
    ),
    (
        "script-sleep",
        "script",
        "script -qc 'echo Password:; sleep 1000' /dev/null",
    ),
    // Each read ends by itself, whatever is read in between.
    (
        "timed",
        "bash",
        "stty -icanon min 0 time 20; echo up; while :; do dd bs=1 count=1 2> /dev/null; done",
    ),
    // What is typed goes over a network.
    (
        "relay",
        "python3",
        "python3 -c 'import os, socket, tty; s = socket.socket(); tty.setraw(0); print(\"up\"); os.read(0, 1)'",
    ),
    // Nor whether a container wants what is typed.
    (
        "container",
        "sh",
        "printf '#!/bin/sh\nread x\n' > docker; chmod +x docker; echo building; ./docker",
    ),
    ("shell", "bash", "echo 'Continue? [y/N]'; exec bash --norc"),
    ("plain-sh", "sh", "exec sh"),
    ("repl", "python3", "exec python3 -q"),
    (
        "answered",
        "bash",
        "read -p 'Go on? [y/N] ' x < /dev/null || true; echo y; sleep 1000",
    ),
];

#[test]
fn programs_that_wait_are_reported_and_no_others() {
    check_programs(&World::new());
}

/// As Yama's `ptrace_scope` does for a daemon that is no ancestor of its tasks.
#[test]
fn the_same_programs_are_reported_where_their_calls_are_hidden() {
    let world = World::new();
    let library = library_that_hides_calls(world.dir.path());
    let hidden = world
        .command("cat")
        .arg("/proc/self/syscall")
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(!hidden.status.success(), "{hidden:?}");
    let started = world
        .command(env!("CARGO_BIN_EXE_tmux-task"))
        .args(["daemon", "--detach"])
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(started.status.success(), "{started:?}");
    check_programs(&world);
}

/// Builds a library that refuses to open the files in which the kernel shows what a thread is
/// blocked in.
fn library_that_hides_calls(dir: &Path) -> std::path::PathBuf {
    let source = dir.join("hide.c");
    let library = dir.join("hide.so");
    std::fs::write(
        &source,
        r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>

static int is_hidden(const char *path) {
    size_t length = strlen(path);
    return strncmp(path, "/proc/", 6) == 0 && length > 8
        && strcmp(path + length - 8, "/syscall") == 0;
}

#define HIDE(name)                                                        \
    int name(const char *path, int flags, ...) {                          \
        int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, #name);    \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                                     \
        if (is_hidden(path)) {                                            \
            errno = EPERM;                                                \
            return -1;                                                    \
        }                                                                 \
        return next(path, flags, mode);                                   \
    }
HIDE(open)
HIDE(open64)

#define HIDE_AT(name)                                                     \
    int name(int dir, const char *path, int flags, ...) {                 \
        int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, #name); \
        va_list rest;                                                     \
        va_start(rest, flags);                                            \
        mode_t mode = va_arg(rest, mode_t);                               \
        va_end(rest);                                                     \
        if (is_hidden(path)) {                                            \
            errno = EPERM;                                                \
            return -1;                                                    \
        }                                                                 \
        return next(dir, path, flags, mode);                              \
    }
HIDE_AT(openat)
HIDE_AT(openat64)
"#,
    )
    .unwrap();
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-ldl")
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    library
}

fn check_programs(world: &World) {
    for (name, program, line) in WORKING {
        if is_installed(program) {
            world.run(name, line);
        }
    }
    let is_root = rustix::process::geteuid().is_root();
    let for_root = ASKING_ROOT.iter().filter(|_| is_root);
    let asking = ASKING
        .iter()
        .chain(for_root)
        .filter(|(_, program, ..)| is_installed(program));
    let expected: BTreeMap<&str, &str> = asking
        .map(|(name, _, line, kind)| {
            world.run(name, line);
            (*name, *kind)
        })
        .collect();
    let told = world.until("every prompt is told", |told| {
        let tasks: BTreeSet<&str> = told.iter().map(|told| told.task.as_str()).collect();
        expected.keys().all(|name| tasks.contains(name))
    });
    for told in &told {
        let kind = expected.get(told.task.as_str());
        assert_eq!(kind, Some(&told.kind.as_str()), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    let twice = told.len() != expected.len();
    assert!(!twice, "each is told once: {told:#?}");
}

#[test]
fn the_same_question_is_reported_again_after_an_answer() {
    let world = World::new();
    world.run(
        "next",
        "for k in 1 2 3 4 5; do read -p 'Next? ' x; echo \"step $k\"; done; sleep 1000",
    );
    world.run(
        "login",
        "for k in 1 2 3 4 5; do read -s -p 'Password:' x; echo; echo 'Sorry, try again.'; done; sleep 1000",
    );
    for n in 1..=5 {
        for (task, prompt) in [("next", "Next?"), ("login", "Password:")] {
            world.until(&format!("{task} asks for the {n}th time"), |told| {
                let asked = told
                    .iter()
                    .filter(|told| told.task == task && told.what == "input");
                asked.filter(|told| told.prompt == prompt).count() == n
            });
            let sent = world.call(&["send", task, "word"]);
            assert!(sent.status.success(), "{sent:?}");
        }
    }
    let told = world.until("all are answered", |told| told.len() >= 20);
    for task in ["next", "login"] {
        let of_task: Vec<&str> = told
            .iter()
            .filter(|told| told.task == task)
            .map(|told| told.what.as_str())
            .collect();
        assert_eq!(of_task, ["input", "inputResolved"].repeat(5), "{told:#?}");
    }
}

#[test]
fn a_program_that_prints_while_a_thread_reads_is_reported_once() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    let program = "import os, threading, time\n\
                   def console():\n    while input() != 'stop': pass\n    print('Really stop? [y/N]', end=' ', flush=True)\n    input()\n\
                   threading.Thread(target=console, daemon=True).start()\n\
                   for n in range(5):\n    print('player', n, 'has joined', flush=True)\n    time.sleep(0.7)\n\
                   open('printed', 'w').close()\ntime.sleep(1000)\n";
    std::fs::write(world.dir.path().join("server.py"), program).unwrap();
    world.run("server", "python3 server.py");
    let told = world.until("it has printed all", |told| {
        world.dir.path().join("printed").is_file() && !told.is_empty()
    });
    assert_eq!(told.len(), 1, "{told:#?}");
    // What it asks after it has read a line is a question of its own.
    let sent = world.call(&["send", "server", "stop"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it asks", |told| told.len() >= 3);
    assert_eq!(told[1].what, "inputResolved", "{told:#?}");
    assert_eq!(told[2].prompt, "Really stop? [y/N]", "{told:#?}");
}

/// A line that draws this, takes keys at once, and polls the terminal, as libraries do.
fn drawing(text: &str) -> String {
    format!(
        "python3 -c 'import select, tty; print({text:?}, end=\"\", flush=True); tty.setraw(0); select.select([0], [], [])'"
    )
}

/// What the line draws or runs, with which program, and what is told of it: kind and prompt.
const BY_TEXT: &[(&str, &str, &str, &str)] = &[
    (
        "? Pick a stack (Use <space>)\n❯◯ Vue\n ◯ React",
        "",
        "menu",
        "Pick a stack",
    ),
    ("? Registry token *****", "", "password", "Registry token"),
    (
        "? Which port should be used? ",
        "",
        "text",
        "Which port should be used?",
    ),
    ("Remote path: ", "", "text", "Remote path:"),
    (
        "続行しますか? [はい/いいえ] ",
        "",
        "confirm",
        "続行しますか? [はい/いいえ]",
    ),
    (
        "TASK [web : stop] *****\n[web : stop]\nDrain the node first:\n",
        "",
        "key",
        "Drain the node first:",
    ),
    (
        "whiptail --title Deploy --yesno \"Shall it go out?\" 8 40",
        "whiptail",
        "dialog",
        "Shall it go out?",
    ),
];

/// These ask nothing: a client's line for commands, and reports.
const SAYING: &[&str] = &["not connected> ", "epoch 3 loss: ", "Server ready: "];

#[test]
fn libraries_and_dialogs_are_reported_with_their_questions() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    for (n, text) in SAYING.iter().enumerate() {
        world.run(&format!("say{n}"), &drawing(text));
    }
    world.run("follow", "printf 'Continue? [y/N] ' > log; tail -f log");
    let mut expected = BTreeMap::new();
    for (n, (text, program, kind, prompt)) in BY_TEXT.iter().enumerate() {
        let name = format!("ask{n}");
        if program.is_empty() {
            world.run(&name, &drawing(text));
        } else if is_installed(program) {
            world.run(&name, text);
        } else {
            continue;
        }
        expected.insert(name, (*kind, *prompt));
    }
    let told = world.until("every question is told", |told| {
        let tasks: BTreeSet<&str> = told.iter().map(|told| told.task.as_str()).collect();
        expected.keys().all(|name| tasks.contains(name.as_str()))
    });
    for told in &told {
        let asked = (told.kind.as_str(), told.prompt.as_str());
        assert_eq!(expected.get(&told.task), Some(&asked), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    // What only says something has stood as long as what asks, and is judged as saying it.
    for name in ["say0", "say1", "say2", "follow"] {
        world.until(&format!("{name} stands and asks nothing"), |_| {
            let explained = world.json(&["explain", name, "--json"]);
            explained["line"].is_string()
                && explained["state"] == "working"
                && explained["quietMs"].as_u64().is_some_and(|ms| ms > 300)
        });
    }
}

#[test]
fn who_begins_to_read_long_after_it_fell_silent_is_found() {
    let world = World::new();
    world.run("late", "mkfifo gate; read -r _ < gate; read x");
    let gate = world.dir.path().join("gate");
    world.until("it is seen at something else", |_| {
        // A shell that begins is at something else, too.
        gate.exists() && {
            let explained = world.json(&["explain", "late", "--json"]);
            explained["terminal"]["reader"] == "elsewhere"
        }
    });
    assert_eq!(world.told(), []);
    std::fs::write(gate, "\n").unwrap();
    let told = world.until("it is found", |told| !told.is_empty());
    assert_eq!(told[0].task, "late");
}

#[test]
fn apt_asks_before_it_removes_and_goes_by_the_answer() {
    if !is_installed("apt-get") {
        eprintln!("skipped: there is no apt-get");
        return;
    }
    let world = World::new();
    let settings = apt_of_its_own(&world.dir.path().join("apt"));
    world.run(
        "apt",
        &format!("APT_CONFIG={settings} apt-get remove demo || echo \"ended with $?\"; sleep 1000"),
    );
    let told = world.until("it asks", |told| !told.is_empty());
    let expected = Told {
        task: "apt".to_owned(),
        what: "input".to_owned(),
        kind: "confirm".to_owned(),
        prompt: "Do you want to continue? [Y/n]".to_owned(),
        secret: false,
    };
    assert_eq!(told, [expected]);
    let sent = world.call(&["send", "apt", "--if-prompt", &told[0].prompt, "n"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it is answered", |told| told.len() > 1);
    assert_eq!(told[1].what, "inputResolved", "{told:?}");
    world.until("it goes by the answer", |_| {
        let output = world.call(&["logs", "apt"]);
        let output = String::from_utf8(output.stdout).unwrap();
        output.contains("Abort.\nended with 1\n")
    });
}

/// Makes an apt that knows one package, which is installed nowhere but in its own lists, and needs
/// neither the network nor the system's; returns the path of its settings.
fn apt_of_its_own(root: &Path) -> String {
    for folder in [
        "state/lists/partial",
        "cache/archives/partial",
        "etc/apt.conf.d",
        "etc/preferences.d",
        "etc/sources.list.d",
        "dpkg/info",
        "dpkg/updates",
        "log",
    ] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    let package = "Package: demo\nStatus: install ok installed\nMaintainer: A <a@b.c>\n\
                   Architecture: all\nVersion: 1\nDescription: nothing\n";
    std::fs::write(root.join("dpkg/status"), package).unwrap();
    let root = root.display();
    let settings = format!(
        "Dir \"{root}\";\nDir::State \"state\";\nDir::State::status \"{root}/dpkg/status\";\n\
         Dir::Cache \"cache\";\nDir::Etc \"etc\";\nDir::Log \"log\";\n\
         Dir::Bin::dpkg \"/bin/false\";\n"
    );
    let path = format!("{root}/apt.conf");
    std::fs::write(&path, settings).unwrap();
    path
}

#[test]
fn sudo_asks_for_a_password() {
    let world = World::new();
    let line = match sudo_that_asks(&world) {
        Ok(line) => line,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    world.run("sudo", &format!("{line} || true; sleep 1000"));
    let told = world.until("it asks", |told| !told.is_empty());
    let [asked] = &told[..] else {
        panic!("{told:?}");
    };
    assert_eq!((asked.kind.as_str(), asked.secret), ("password", true));
    assert!(
        asked.prompt.starts_with("[sudo] password for "),
        "{asked:?}"
    );
    // Nobody's password is tried.
    let sent = world.call(&["send", "sudo", "--no-enter", "--key", "C-c"]);
    assert!(sent.status.success(), "{sent:?}");
    let told = world.until("it gave up", |told| told.len() > 1);
    assert_eq!(told[1].what, "inputResolved", "{told:?}");
}

/// Returns a command that makes sudo ask, or why there is none. Root is asked nothing, so it is
/// tried as a user who has no rights at all.
fn sudo_that_asks(world: &World) -> Result<String, String> {
    if !is_installed("sudo") {
        return Err("there is no sudo".to_owned());
    }
    let become_nobody = if rustix::process::geteuid().is_root() {
        "setpriv --reuid=65534 --regid=65534 --clear-groups "
    } else {
        ""
    };
    let tried = world
        .command("sh")
        .args(["-c", &format!("{become_nobody}sudo -k -n id")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tried.stderr).into_owned();
    if said.contains("a password is required") {
        Ok(format!("{become_nobody}sudo -k id"))
    } else {
        Err(format!("sudo asks for no password here: {said}"))
    }
}

#[test]
fn answers_end_episodes_and_secrets_leave_no_trace() {
    let world = World::new();
    world.run(
        "ask",
        "read -p 'Colour? ' x; echo \"it is $x\"; read -p 'Size? ' y; sleep 1000",
    );
    // Nothing is printed when it is answered.
    world.run(
        "hush",
        "read -s -p 'Word ' x; touch \"word-${#x}\"; sleep 1000",
    );
    world.until("both ask", |told| told.len() == 2);

    let refused = world.call(&["send", "ask", "--if-prompt", "Color?", "red"]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let sent = world.call(&["send", "ask", "--if-prompt", "Colour?", "dark red"]);
    assert!(sent.status.success(), "{sent:?}");
    world.send_secret("hush", "open sesame; $(x)\n");
    let told = world.until("the next question", |told| {
        let is = |task: &str, what: &str, prompt: &str| {
            told.iter()
                .any(|told| told.task == task && told.what == what && told.prompt == prompt)
        };
        is("ask", "inputResolved", "Colour?")
            && is("ask", "input", "Size?")
            && is("hush", "inputResolved", "Word")
    });
    assert_eq!(told.len(), 5, "{told:#?}");
    world.until("the word has arrived", |_| {
        world.dir.path().join("word-17").is_file()
    });
    let grep = world
        .command("grep")
        .args(["-rl", "sesame", "."])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&grep.stdout), "");
    let log = world.command("tmux").arg("show-messages").output().unwrap();
    assert!(!String::from_utf8_lossy(&log.stdout).contains("sesame"));

    let explained = world.json(&["explain", "ask", "--json"]);
    assert_eq!(explained["state"], "waiting");
    assert_eq!(explained["prompt"], "Size?");
    assert_eq!(explained["terminal"]["reader"], "reading");
}

#[test]
fn a_silent_task_without_evidence_is_stalled_and_not_reported() {
    if !is_installed("python3") {
        eprintln!("skipped: there is no python3");
        return;
    }
    let world = World::new();
    world.configure("stalled-after = '300ms'\nmute-tasks = ['muted']\n");
    // It polls for lines, and has shown nothing that asks.
    let open = "echo the line is up; \
                python3 -c 'import select; select.select([0], [], [])'; read -r _; \
                echo more; read -r -p 'Go on? ' _";
    world.run("open", open);
    world.run("muted", open);
    world.run("busy", "echo the line is up; sleep 1000");
    world.run("shell", "exec bash --norc");
    world.run("ask", "read -p 'Go on? ' x");
    let stalled = || -> Vec<String> {
        let listed = world.json(&["ls", "--json"]);
        let tasks = listed["tasks"].as_array().unwrap();
        tasks
            .iter()
            .filter(|task| task["stalledMs"].as_u64().is_some_and(|ms| ms >= 300))
            .map(|task| task["windowName"].as_str().unwrap().to_owned())
            .collect()
    };
    // The others have been silent for as long, and are what they were.
    for (name, state) in [
        ("open", "stalled"),
        ("busy", "working"),
        ("shell", "working"),
        ("muted", "working"),
    ] {
        world.until(&format!("{name} is silent and {state}"), |_| {
            let explained = world.json(&["explain", name, "--json"]);
            explained["state"] == state
                && explained["quietMs"].as_u64().is_some_and(|ms| ms > 300)
                && explained["line"] != Value::Null
        });
    }
    let told = world.until("one asks", |told| !told.is_empty());
    assert!(told.iter().all(|told| told.task == "ask"), "{told:?}");
    assert_eq!(stalled(), ["open"]);
    assert_eq!(world.json(&["status", "--json"])["stalled"], 1);
    let listed = world.call(&["ls"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    let states = |state| listed.matches(&format!(" {state} ")).count();
    assert_eq!((states("stalled"), states("waiting")), (1, 1), "{listed}");

    // Whatever it prints ends it, and what asks is reported as ever.
    let sent = world.call(&["send", "open", "x"]);
    assert!(sent.status.success(), "{sent:?}");
    world.until("it asks", |told| {
        told.iter().any(|told| told.task == "open")
    });
    assert_eq!(stalled(), Vec::<String>::new());
    let feed = world.call(&["feed"]);
    assert!(!String::from_utf8_lossy(&feed.stdout).contains("stalled"));
}

#[test]
fn muted_prompts_are_not_reported() {
    let world = World::new();
    world.configure("ignore = ['^beta']\nmute-tasks = ['quiet']\nmute-kinds = ['pager']\n");
    world.run("quiet", "read -p 'Go on? ' x");
    world.run("beta", "read -p 'beta? ' x");
    world.run("pager", "seq 500 | less");
    world.until("they ask", |_| {
        let explain = |name: &str| world.json(&["explain", name, "--json"]);
        explain("quiet")["state"] == "muted"
            && explain("beta")["rule"] == "muted by a pattern"
            && (explain("pager")["state"] == "muted" || !is_installed("less"))
    });
    // Who asks later is reported later.
    world.run("loud", "read -p 'gamma? ' x");
    let told = world.until("one asks", |told| !told.is_empty());
    assert!(told.iter().all(|told| told.task == "loud"), "{told:?}");
}

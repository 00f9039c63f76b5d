//! Programs of every kind: which of them wait, and which work.

use super::*;

/// Name, program, what is run, kind.
const ASKING: &[(&str, &str, &str, &str)] = &[
    ("read", "bash", "read -p 'Go on now? ' x", "text"),
    ("word", "bash", "read -p 'guess> ' x", "text"),
    (
        "script-mark",
        "python3",
        "python3 -c 'print(\"Describe the change\"); input(\"> \")'",
        "text",
    ),
    (
        "script-word",
        "python3",
        "python3 -c 'input(\"cmd> \")'",
        "text",
    ),
    (
        "perl-mark",
        "perl",
        "perl -e '$|=1; print \"Name\\n> \"; <STDIN>'",
        "text",
    ),
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
    // It looks for keys twenty times a second.
    (
        "checks",
        "python3",
        "python3 -c 'import select, time, tty\ntty.setcbreak(0)\nprint(\"Go on? [y/N] \", end=\"\", flush=True)\nwhile not select.select([0], [], [], 0)[0]: time.sleep(0.05)'",
        "confirm",
    ),
    // It polls the terminal for a line.
    (
        "polls",
        "python3",
        "python3 -c 'import select\nprint(\"Select an option: \", end=\"\", flush=True)\nselect.select([0], [], [])'",
        "menu",
    ),
    // Full-screen, with hints: it does nothing but read.
    (
        "browser",
        "bash",
        "stty -icanon -echo; printf '\\33[?1049h\\33[2J\\33[HPress ? for help\\nsrc\\n'; dd bs=1 count=1",
        "key",
    ),
    ("lessfile", "less", "seq 500 > rows; less -SR rows", "pager"),
    // In a separate terminal.
    (
        "script",
        "script",
        "script -qec \"bash -c 'read -p Name x'\" /dev/null",
        "text",
    ),
    // Behind a program that copies between two terminals.
    (
        "copied",
        "python3",
        "python3 -c 'import pty; pty.spawn([\"bash\", \"-c\", \"read -p Name x\"])'",
        "text",
    ),
    // The same in line mode, where the copying program waits for either terminal.
    (
        "copied-lines",
        "python3",
        "python3 -c 'import os, pty, select\npid, m = pty.fork()\nif not pid: os.execlp(\"bash\", \"bash\", \"-c\", \"read -p Name x\")\nwhile True:\n  for f in select.select([0, m], [], [])[0]: os.write(m if f == 0 else 1, os.read(f, 99))'",
        "text",
    ),
    // Its server is no descendant.
    (
        "tmux",
        "tmux",
        "TMUX= tmux -L inner -f /dev/null new-session \"bash -c \\\"read -p 'Inside? [y/N] ' x\\\"\" ';' set destroy-unattached on",
        "confirm",
    ),
    ("files", "mc", "mc -P ./last", "menu"),
    ("calendar", "calcurse", "calcurse -D ./c", "menu"),
    (
        "select",
        "bash",
        "select x in one two three; do echo $x; done",
        "menu",
    ),
    ("printed", "bash", "echo 'Enter your name'; read x", "text"),
    // The shell's commands come from a pipe or a file.
    (
        "piped",
        "bash",
        "echo \"read -p 'Go on? [y/N] ' x < /dev/tty\" | bash",
        "confirm",
    ),
    (
        "fed",
        "sh",
        "echo 'printf \"Install? [y/N] \"; read x < /dev/tty' > inst; sh < inst",
        "confirm",
    ),
    (
        "edited",
        "bash",
        "read -e -i main -p 'Branch to deploy: ' x",
        "text",
    ),
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
    (
        "until-end",
        "python3",
        "python3 -c 'import sys; print(\"Paste your diff and press Ctrl-D\"); sys.stdin.read()'",
        "text",
    ),
    // The agent's program is not in the task's process tree; here, nothing reads.
    (
        "agent",
        "python3",
        "ln -s \"$(python3 -c 'import sys; print(sys.executable)')\" gpg; stty -echo; printf 'Passphrase: '; ./gpg -c 'import socket; s = socket.socketpair(); s[0].recv(1)'",
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
    ("gdb-page", "gdb", "gdb -q -ex 'help all'", "key"),
    (
        "aptlike",
        "bash",
        "seq 30; read -p 'Do you want to continue? [Y/n] ' x",
        "confirm",
    ),
];

/// The same, for those that only root can run without being asked for a password.
const ASKING_ROOT: &[(&str, &str, &str, &str)] = &[
    // Without a separate terminal.
    ("su", "su", "su -c \"read -p 'Who ' x\"", "text"),
    (
        "runuser",
        "runuser",
        "runuser nobody -s /bin/bash -c \"read -p 'Who ' x\"",
        "text",
    ),
];

/// Name, program, command: none of these waits for input.
const WORKING: &[(&str, &str, &str)] = &[
    ("sleep", "bash", "echo 'Continue? [y/N]'; sleep 1000"),
    (
        "sleep-on",
        "bash",
        "printf 'Do you want to continue? [Y/n] '; sleep 1000",
    ),
    (
        "sleep-raw",
        "bash",
        "stty raw; printf 'Loading? '; sleep 1000",
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
    // In raw mode, it works and sleeps once a second.
    (
        "works-raw",
        "bash",
        "stty -icanon -echo; printf 'Loading? '; while :; do sleep 1; done",
    ),
    ("swipl", "swipl", "exec swipl"),
    (
        "multitail",
        "multitail",
        "echo Password: > rows; multitail rows",
    ),
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
    (
        "copied-sleep",
        "python3",
        "python3 -c 'import pty; pty.spawn([\"sh\", \"-c\", \"printf Copying?; sleep 1000\"])'",
    ),
    // It polls, but not the terminal.
    (
        "children",
        "python3",
        "python3 -c 'import select, subprocess\nprint(\"Select an option: \", end=\"\", flush=True)\nchild = subprocess.Popen([\"sleep\", \"1000\"], stdout=subprocess.PIPE)\nselect.select([child.stdout], [], [])'",
    ),
    // Lines of a log, beside a thread that reads and in a program that takes keys.
    (
        "server",
        "python3",
        "python3 -c 'import threading, time\nthreading.Thread(target=input, daemon=True).start()\nwhile True: print(\"GET /item?id=3 took:\"); time.sleep(0.5)'",
    ),
    (
        "rebuilds",
        "python3",
        "python3 -c 'import select, sys, tty\ntty.setcbreak(0)\nwhile not select.select([sys.stdin], [], [], 0.5)[0]: print(\"built in 3 ms. Rebuild?\")'",
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
    ("tcl", "tclsh", "exec tclsh"),
    (
        "own-name",
        "python3",
        "ln -s \"$(python3 -c 'import sys; print(sys.executable)')\" tool; ./tool -c 'import readline; input(\"tool: \")'",
    ),
    (
        "answered",
        "bash",
        "read -p 'Go on? [y/N] ' x < /dev/null || true; echo y; sleep 1000",
    ),
    // It takes keys, but it computes instead.
    (
        "computes",
        "python3",
        "python3 -c 'import os, tty\nos.nice(19)\ntty.setcbreak(0)\nprint(\"Retry? [y/N] \", end=\"\", flush=True)\nwhile True: pass'",
    ),
    // Blocked writing rows that are all the same.
    ("flood", "yes", "yes 'Continue? [y/N]'"),
];

/// The task that asks after all the others.
const LAST: &str = "last";
const LAST_LINE: &str =
    "stty -icanon -echo; printf '\\33[?1049h\\33[2J\\33[Hsrc\\n'; dd bs=1 count=1";

#[test]
fn programs_that_wait_are_reported_and_no_others() {
    check_programs(&World::new());
}

/// As Yama's `ptrace_scope` does for a daemon that is no ancestor of its tasks.
#[test]
fn the_same_programs_are_reported_where_their_calls_are_hidden() {
    check_programs(&World::with_hidden_calls());
}

/// Builds a library that refuses to open the files in which the kernel shows what a thread is
/// blocked in.
pub(super) fn library_that_hides_calls(dir: &Path) -> std::path::PathBuf {
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
    // Those that keep the machine busy are the last ones.
    for (name, program, line) in WORKING {
        if is_installed(program) {
            world.run(name, line);
        }
    }
    world.until("every prompt is told", |told| {
        let tasks: BTreeSet<&str> = told.iter().map(|told| told.task.as_str()).collect();
        expected.keys().all(|name| tasks.contains(name))
    });
    // It is reported last of all that could be: full-screen programs that read keys are observed
    // for longer than any other.
    world.run(LAST, LAST_LINE);
    let told = world.until("the last one is told", |told| {
        told.iter().any(|told| told.task == LAST)
    });
    let told: Vec<PromptEvent> = told.into_iter().filter(|told| told.task != LAST).collect();
    for told in &told {
        let kind = expected.get(told.task.as_str());
        assert_eq!(kind, Some(&told.kind.as_str()), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    let twice = told.len() != expected.len();
    assert!(!twice, "each is told once: {told:#?}");
}

//! Programs of every kind: which of them wait, and which work.

use super::*;

/// Name, program and kind of prompt. In this order: plain reads, scripts, secrets, keys; polls of keys
/// and of lines; full-screen programs that do nothing but read; terminals within the terminal (with a
/// program between that copies, whose server is no descendant); menus; commands from a pipe or a file;
/// silent ones, also after something else was seen; threads; an agent that is no process of the task.
const ASKING: &str = r#"
read bash text: read -p 'Go on now? ' x
word bash text: read -p 'guess> ' x
script-mark python3 text: python3 -c 'print("Describe the change"); input("> ")'
script-word python3 text: python3 -c 'input("cmd> ")'
perl-mark perl text: perl -e '$|=1; print "Name\n> "; <STDIN>'
noecho bash password: stty -echo; printf 'Kennung '; read x
secret bash password: read -s -p 'Say it ' x
anykey bash key: read -n1 -p 'Press any key '
onekey bash key: read -n1 -p 'Any key '
silentkey bash key: read -rsn1
smallmenu bash key: stty -icanon -echo; printf 'a) one\nb) two\n'; dd bs=1 count=1
checks python3 confirm: python3 -c 'import select, time, tty
    tty.setcbreak(0)
    print("Go on? [y/N] ", end="", flush=True)
    while not select.select([0], [], [], 0)[0]: time.sleep(0.05)'
polls python3 menu: python3 -c 'import select
    print("Select an option: ", end="", flush=True)
    select.select([0], [], [])'
browser bash key: stty -icanon -echo; printf '\33[?1049h\33[2J\33[HPress ? for help\nsrc\n'; dd bs=1 count=1
lessfile less pager: seq 500 > rows; less -SR rows
script script text: script -qec "bash -c 'read -p Name x'" /dev/null
copied python3 text: python3 -c 'import pty; pty.spawn(["bash", "-c", "read -p Name x"])'
copied-lines python3 text: python3 -c 'import os, pty, select
    pid, m = pty.fork()
    if not pid: os.execlp("bash", "bash", "-c", "read -p Name x")
    while True:
      for f in select.select([0, m], [], [])[0]: os.write(m if f == 0 else 1, os.read(f, 99))'
tmux tmux confirm: TMUX= tmux -L inner -f /dev/null new-session "bash -c \"read -p 'Inside? [y/N] ' x\"" ';' set destroy-unattached on
files mc menu: mc -P ./last
calendar calcurse menu: calcurse -D ./c
select bash menu: select x in one two three; do echo $x; done
printed bash text: echo 'Enter your name'; read x
piped bash confirm: echo "read -p 'Go on? [y/N] ' x < /dev/tty" | bash
fed sh confirm: echo 'printf "Install? [y/N] "; read x < /dev/tty' > inst; sh < inst
edited bash text: read -e -i main -p 'Branch to deploy: ' x
cat cat text: cat
restless bash text: for _ in $(seq 20); do sleep 0.05; done; read x
thread python3 text: python3 -c 'import threading, time; threading.Timer(1, input).start(); time.sleep(1000)'
python python3 text: python3 -c 'input("Your name: ")'
getpass python3 password: python3 -c 'import getpass; getpass.getpass("PIN? ")'
until-end python3 text: python3 -c 'import sys; print("Paste your diff and press Ctrl-D"); sys.stdin.read()'
agent python3 password: ln -s "$(python3 -c 'import sys; print(sys.executable)')" gpg; stty -echo; printf 'Passphrase: '; ./gpg -c 'import socket; s = socket.socketpair(); s[0].recv(1)'
pdb python3 debugger: python3 -c 'breakpoint()'
keygen ssh-keygen password: ssh-keygen -t ed25519 -f ./key
commit vim editor: git init -q r && cd r && git config user.email a@b.c && git config user.name a && touch f && git add f && EDITOR=vim git commit
vim vim editor: vim -u NONE file
less less pager: seq 500 | less
whiptail whiptail dialog: whiptail --yesno 'Go on?' 8 40
fzf fzf menu: seq 100 | fzf
npm npm text: mkdir n && cd n && npm init
gdb gdb debugger: gdb -q
gdb-page gdb key: gdb -q -ex 'help all'
aptlike bash confirm: seq 30; read -p 'Do you want to continue? [Y/n] ' x
"#;

/// The same, for those that only root can run without being asked for a password: without a separate
/// terminal.
const ASKING_ROOT: &str = r#"
su su text: su -c "read -p 'Who ' x"
runuser runuser text: runuser nobody -s /bin/bash -c "read -p 'Who ' x"
"#;

/// The same for a user who has no rights at all: root is asked nothing.
const SUDO: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups sudo -k";

/// Whether sudo asks for a password here. None is tried.
fn sudo_asks(world: &World) -> bool {
    let mut tries = world.command("sh");
    tries.args(["-c", &format!("{SUDO} -n id")]);
    let said = Output::of(tries).err;
    let asks = said.contains("a password is required");
    if !asks {
        eprintln!("not tested: sudo asks for no password here: {said}");
    }
    asks
}

/// None of these waits for input. In this order: they sleep, also in raw mode and once a second; copy
/// for programs that sleep; poll something else than the terminal; print lines of a log, beside a
/// thread that reads or while they take keys; reads that end by themselves; what is typed goes over a
/// network, or maybe into a container; shells and the like; one that takes keys, but computes; and one
/// that is blocked writing rows that are all the same.
const WORKING: &str = r#"
sleep bash: echo 'Continue? [y/N]'; sleep 1000
sleep-on bash: printf 'Do you want to continue? [Y/n] '; sleep 1000
sleep-raw bash: stty raw; printf 'Loading? '; sleep 1000
make make: printf 'all: a b\na:\n\tsleep 1000\nb:\n\tsleep 1000\n' > Makefile; make -j2
watcher node: node -e 'process.stdin.on("data", () => {}); console.log("  press h + enter to show help")'
top top: top
works-raw bash: stty -icanon -echo; printf 'Loading? '; while :; do sleep 1; done
swipl swipl: exec swipl
multitail multitail: echo Password: > rows; multitail rows
tail bash: printf 'Continue?\npassword:\n' > log; tail -f log
ticks bash: while :; do echo 'Continue? password:'; sleep 0.05; done
spinner bash: while :; do for c in / - '|'; do printf "\r$c Proceed? [y/N] "; sleep 0.1; done; done
curl curl: curl -s --max-time 1000 http://10.255.255.1/
script-sleep script: script -qc 'echo Password:; sleep 1000' /dev/null
copied-sleep python3: python3 -c 'import pty; pty.spawn(["sh", "-c", "printf Copying?; sleep 1000"])'
children python3: python3 -c 'import select, subprocess
    print("Select an option: ", end="", flush=True)
    child = subprocess.Popen(["sleep", "1000"], stdout=subprocess.PIPE)
    select.select([child.stdout], [], [])'
server python3: python3 -c 'import threading, time
    threading.Thread(target=input, daemon=True).start()
    while True: print("GET /item?id=3 took:"); time.sleep(0.5)'
rebuilds python3: python3 -c 'import select, sys, tty
    tty.setcbreak(0)
    while not select.select([sys.stdin], [], [], 0.5)[0]: print("built in 3 ms. Rebuild?")'
timed bash: stty -icanon min 0 time 20; echo up; while :; do dd bs=1 count=1 2> /dev/null; done
relay python3: python3 -c 'import os, socket, tty; s = socket.socket(); tty.setraw(0); print("up"); os.read(0, 1)'
container sh: printf '#!/bin/sh\nread x\n' > docker; chmod +x docker; echo building; ./docker
shell bash: echo 'Continue? [y/N]'; exec bash --norc
plain-sh sh: exec sh
repl python3: exec python3 -q
tcl tclsh: exec tclsh
own-name python3: ln -s "$(python3 -c 'import sys; print(sys.executable)')" tool; ./tool -c 'import readline; input("tool: ")'
answered bash: read -p 'Go on? [y/N] ' x < /dev/null || true; echo y; sleep 1000
computes python3: python3 -c 'import os, tty
    os.nice(19)
    tty.setcbreak(0)
    print("Retry? [y/N] ", end="", flush=True)
    while True: pass'
flood yes: yes 'Continue? [y/N]'
"#;

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

fn check_programs(world: &World) {
    let mut asking = rows(ASKING);
    if rustix::process::geteuid().is_root() {
        asking.extend(rows(ASKING_ROOT));
        if sudo_asks(world) {
            asking.push(("sudo", "password", format!("{SUDO} id")));
        }
    }
    let mut expected: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, kind, line) in &asking {
        world.run(name, line);
        expected.insert(name, kind);
    }
    // Those that keep the machine busy are the last ones.
    for (name, _, line) in rows(WORKING) {
        world.run(name, &line);
    }
    world.until_told(expected.keys().copied());
    // It is reported last of all that could be: full-screen programs that read keys are observed
    // for longer than any other.
    world.run(LAST, LAST_LINE);
    let mut told = world.until_told([LAST].into_iter());
    told.retain(|told| told.task != LAST);
    for told in &told {
        let kind = expected.get(told.task.as_str());
        assert_eq!(kind, Some(&told.kind.as_str()), "{told:?}");
        assert_eq!(told.secret, told.kind == "password", "{told:?}");
    }
    assert_eq!(told.len(), expected.len(), "each is told once: {told:#?}");
}

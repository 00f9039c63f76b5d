//! Programs that read the terminal from elsewhere than its foreground: stopped in a background
//! group, in a session of their own, without a main thread, of 32 bits, through io_uring.

use rustix::process::{Signal, kill_process};
use serde_json::json;

use super::*;

/// What mends a task that is stopped in the background.
const MENDED_BY: &str = "timeout --foreground";

/// Name and program, and how the prompt begins. Programs that set the terminal up before they ask are
/// stopped before they have printed it.
const STOPPED: &str = r#"
read bash Continue? [y/N]: timeout 300 bash -c 'read -p "Continue? [y/N] " x'
input python3 Name:: timeout 300 python3 -c 'input("Name: ")'
getpass python3: timeout 300 python3 -c 'import getpass; getpass.getpass()'
readline node: timeout 300 node -e 'require("readline").createInterface({input: process.stdin, output: process.stdout}).question("Really? ", () => {})'
npm npm: timeout 300 npm init
keygen ssh-keygen: timeout 300 ssh-keygen -q -t ed25519 -f key
less less: seq 500 > text; timeout 300 less text
nice nice Go on?: nice timeout 300 bash -c 'read -p "Go on? " x'
make make Make it?: printf 'all:\n\t@printf "Make it? "; read x\n' > Makefile; timeout 300 make
nested bash Deeper?: echo start; timeout 300 timeout 200 bash -c 'read -p "Deeper? " x'; echo end
modes stty: timeout 300 stty -echo
silent cat: timeout 300 cat
"#;

/// Name and program. Each asks `Go on? [y/N]`, and ends when it is answered.
const ELSEWHERE: &str = r#"
setsid setsid: setsid -w bash -c 'read -p "Go on? [y/N] " x'
setsid-python setsid: setsid -w python3 -c 'input("Go on? [y/N] ")'
new-session python3: python3 -c 'import subprocess; subprocess.run(["bash", "-c", "read -p \"Go on? [y/N] \" x"], start_new_session=True)'
detached node: node -e 'require("child_process").spawn("bash", ["-c", "read -p \"Go on? [y/N] \" x"], {detached: true, stdio: "inherit"})'
behind-another setsid: setsid -w bash -c 'echo begin; setsid -w bash -c "read -p \"Go on? [y/N] \" x"; echo end'
no-main-thread python3: python3 no_main_thread.py
ring python3: python3 ring.py
bits bash: ./bits
"#;

/// Asks in a thread after the main thread has ended.
const NO_MAIN_THREAD: &str = r#"
import ctypes, os, threading
def ask():
    os.write(1, b"Go on? [y/N] ")
    os.read(0, 100)
    os._exit(0)
threading.Thread(target=ask).start()
ctypes.CDLL(None).pthread_exit(None)
"#;

/// Asks through io_uring. Without it, as in some containers, by `read`.
const RING: &str = r#"
import ctypes, mmap, os, struct
libc = ctypes.CDLL(None)
os.write(1, b"Go on? [y/N] ")
params = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 8, params)
if ring < 0:
    os.read(0, 100)
    os._exit(0)
# The head, tail, mask, entries, flags, drops and array of the submissions.
numbers = struct.unpack("30I", params.raw)
entries, places = numbers[0], numbers[10:17]
shared = (mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
queue = mmap.mmap(ring, places[6] + 4 * entries, *shared)
slots = mmap.mmap(ring, 64 * entries, *shared, offset=0x10000000)
answer = ctypes.create_string_buffer(100)
address, anywhere = ctypes.addressof(answer), 2**64 - 1
slots[0:64] = struct.pack("<BBHiQQIIQ", 22, 0, 0, 0, anywhere, address, 100, 0, 0) + bytes(24)
struct.pack_into("I", queue, places[6], 0)
struct.pack_into("I", queue, places[1], 1)
libc.syscall(426, ring, 1, 1, 1, None, 0)
"#;

/// A program for 32 bits that writes `Go on? [y/N] `, reads a line and ends.
const BITS: &str = r#"
.globl _start
_start:
    mov $4, %eax; mov $1, %ebx; mov $text, %ecx; mov $13, %edx; int $0x80
    mov $3, %eax; xor %ebx, %ebx; sub $64, %esp; mov %esp, %ecx; mov $64, %edx; int $0x80
    mov $1, %eax; xor %ebx, %ebx; int $0x80
text: .ascii "Go on? [y/N] "
"#;

#[test]
fn programs_that_timeout_has_put_into_the_background_are_told_with_what_mends_them() {
    check_stopped(&World::new());
}

#[test]
fn the_same_programs_are_told_where_their_calls_are_hidden() {
    check_stopped(&World::with_hidden_calls());
}

fn check_stopped(world: &World) {
    let installed = rows(STOPPED);
    for (name, _, line) in &installed {
        world.run(name, line);
    }
    let told = world.until_told(installed.iter().map(|(name, ..)| *name));
    for (name, prompt, _) in &installed {
        let of_task: Vec<_> = told.iter().filter(|told| told.task == *name).collect();
        assert_eq!(of_task.len(), 1, "{name}: {of_task:?}");
        assert_eq!(
            (of_task[0].what.as_str(), &*of_task[0].prompt),
            ("input", *prompt),
            "{name}"
        );
        let listed = world.listed(name);
        support::has_fields(&listed, "stopped state", json!([true, "waiting"]));
    }
    let table = world.task(["ls"]);
    assert_eq!(
        table.ok().matches(" stopped ").count(),
        installed.len(),
        "{table}"
    );

    let feed = world.call("feed --kind followUp --task read");
    let content = parse_lines(feed.ok())[0]["message"]["content"].clone();
    let content = content.as_str().unwrap();
    let id = world.listed("read")["windowId"].clone();
    let header = format!(
        "tmux task {} (read) is stopped, waiting for input in the background: Continue? [y/N]",
        id.as_str().unwrap()
    );
    let mut lines = content.lines().skip_while(|line| *line != header).skip(1);
    let advice = lines.next().unwrap_or_else(|| panic!("{content}"));
    assert!(
        advice.starts_with("  ") && advice.contains(MENDED_BY),
        "{content}"
    );
    let explained = world.task(["explain", "read"]);
    let explains = |part| explained.ok().contains(part);
    assert!(explains("stopped") && explains(MENDED_BY), "{explained}");

    // What is typed would be read by nobody.
    let if_prompt = "send read --if-prompt 'Continue? [y/N]'";
    for line in [
        format!("{if_prompt} y"),
        "send read y".to_owned(),
        format!("{if_prompt} --key y"),
    ] {
        let sent = world.call(&line);
        sent.fails_saying(1, "nothing was typed");
        sent.fails_saying(1, MENDED_BY);
    }
    let waited = world.task(["wait", "read"]);
    waited.fails_saying(6, "stopped");
    waited.fails_saying(6, MENDED_BY);
    // It is mended as the message says.
    let mended = "timeout --foreground 300 bash -c 'read -p \"Continue? [y/N] \" x'";
    world.run("read", mended);
    world.until("it asks in the foreground", |told| {
        let asked = events_of(told, "read").into_iter();
        asked.filter(|what| *what == "input").count() == 2
    });
    assert_eq!(world.listed("read")["stopped"], false);
    world.call(&format!("{if_prompt} y")).ok();
    world.call("wait read --through-prompts").ok();
}

#[test]
fn readers_elsewhere_than_in_the_foreground_are_told_and_answered() {
    check_elsewhere(&World::new());
}

#[test]
fn the_same_readers_are_told_where_their_calls_are_hidden() {
    check_elsewhere(&World::with_hidden_calls());
}

fn check_elsewhere(world: &World) {
    world.write("no_main_thread.py", NO_MAIN_THREAD);
    world.write("ring.py", RING);
    if cfg!(target_arch = "x86_64") {
        world.write("bits.s", BITS);
        let mut compiler = world.command("cc");
        compiler.args(argv("-m32 -nostdlib -static -o bits bits.s"));
        Output::of(compiler).ok();
    } else {
        let script = "#!/bin/bash\nread -p 'Go on? [y/N] ' x\n";
        world.script("project/bits", script);
    }
    let installed = rows(ELSEWHERE);
    for (name, _, line) in &installed {
        world.run(name, line);
    }
    let prompt = "Go on? [y/N]";
    world.until("all are told", |told| {
        let is_told = |name| {
            told.iter()
                .any(|told| told.task == name && told.prompt == prompt)
        };
        installed.iter().all(|(name, ..)| is_told(*name))
    });
    for (name, ..) in &installed {
        assert_eq!(world.listed(name)["stopped"], false, "{name}");
        world.task(["send", name, "--if-prompt", prompt, "y"]).ok();
        // It may take a moment until the answer is read.
        world.task(["wait", name, "--through-prompts"]).ok();
    }
    let told = world.prompt_events();
    let n_asked = told.iter().filter(|told| told.what == "input").count();
    assert_eq!(n_asked, installed.len(), "{told:#?}");
}

/// Sends a signal to the program of this process in `/proc` whose command line contains a text.
fn signal(text: &str, signal: Signal) {
    let of_text = |pid: i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name == "sleep\n" || name == "reads\n").then_some(())?;
        String::from_utf8_lossy(&line).contains(text).then_some(pid)
    };
    let pids = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids.filter_map(of_text).collect();
    let [pid] = found[..] else {
        panic!("{text}: {found:?}");
    };
    kill_process(support::pid(pid.into()), signal).unwrap();
}

#[test]
fn a_task_that_a_signal_has_stopped_shows_that_and_makes_no_event() {
    let world = World::new();
    let id = std::process::id();
    // Numbers that no other test uses.
    let [plain, behind] = [format!("1{id}"), format!("2{id}")];
    world.run(
        "plain",
        &format!("echo 'Go on? [y/N]'; sleep {plain}; true"),
    );
    let line = format!("printf 'Go on? [y/N] '; timeout 9{id} sleep {behind}");
    world.run("behind", &line);
    // Its name tells it from the shells around it.
    let line =
        format!("cp \"$(command -v bash)\" reads; ./reads -c 'read -p \"Held? [y/N] \" x; : {id}'");
    world.run("held", &line);
    // Programs in sessions of their own that have the terminal and do not read it.
    world.run("daemon", "printf 'Go on? [y/N] '; python3 -c 'import subprocess; subprocess.Popen([\"sleep\", \"1000\"], start_new_session=True).wait()'");
    world.run("in-group", "printf 'Go on? [y/N] '; timeout 300 sleep 1000");
    world.until_told(["held"].into_iter());
    for name in ["plain", "behind", "daemon", "in-group"] {
        world.until(name, |_| {
            let explained = world.explain(name);
            let is_quiet = explained["quietMs"].as_u64() > Some(300);
            explained["terminal"]["reader"] == "elsewhere" && is_quiet
        });
    }
    for program in [&plain, &behind, "Held?"] {
        signal(program, Signal::STOP);
    }
    for name in ["plain", "behind", "held"] {
        world.until(&format!("{name} is stopped"), |_| {
            world.listed(name)["stopped"] == true
        });
        world.task(["explain", name]).prints("stopped");
    }
    assert_eq!(world.listed("plain")["state"], "running");
    assert_eq!(world.listed("held")["state"], "waiting");
    let answer = || world.call("send held --if-prompt 'Held? [y/N]' y");
    answer().fails_saying(1, "stopped by a signal");

    signal("Held?", Signal::CONT);
    world.until("it goes on", |_| world.listed("held")["stopped"] == false);
    answer().ok();
    world.call("wait held --through-prompts").ok();
    for name in ["daemon", "in-group"] {
        assert_eq!(world.listed(name)["stopped"], false, "{name}");
    }
    let told = world.prompt_events();
    are_told(&told, ["held"], &ONCE);
    assert_eq!(told.len(), ONCE.len(), "{told:#?}");
}

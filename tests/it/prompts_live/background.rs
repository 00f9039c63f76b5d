//! Programs that read the terminal from elsewhere than its foreground: stopped in a background
//! group, in a session of their own, without a main thread, of 32 bits, through io_uring.

use super::*;

/// What mends a task that is stopped in the background.
const MENDED_BY: &str = "timeout --foreground";

/// Name, program, what is run, and the prompt. Programs that set the terminal up before they ask are
/// stopped before they have printed it.
const STOPPED: &[(&str, &str, &str, &str)] = &[
    (
        "read",
        "bash",
        "timeout 300 bash -c 'read -p \"Continue? [y/N] \" x'",
        "Continue? [y/N]",
    ),
    (
        "input",
        "python3",
        "timeout 300 python3 -c 'input(\"Name: \")'",
        "Name:",
    ),
    (
        "getpass",
        "python3",
        "timeout 300 python3 -c 'import getpass; getpass.getpass()'",
        "",
    ),
    (
        "readline",
        "node",
        "timeout 300 node -e 'require(\"readline\").createInterface(\
         {input: process.stdin, output: process.stdout}).question(\"Really? \", () => {})'",
        "",
    ),
    ("npm", "npm", "timeout 300 npm init", ""),
    (
        "keygen",
        "ssh-keygen",
        "timeout 300 ssh-keygen -q -t ed25519 -f key",
        "",
    ),
    ("less", "less", "seq 500 > text; timeout 300 less text", ""),
    (
        "nice",
        "nice",
        "nice timeout 300 bash -c 'read -p \"Go on? \" x'",
        "Go on?",
    ),
    (
        "make",
        "make",
        "printf 'all:\\n\\t@printf \"Make it? \"; read x\\n' > Makefile; timeout 300 make",
        "Make it?",
    ),
    (
        "nested",
        "bash",
        "echo start; timeout 300 timeout 200 bash -c 'read -p \"Deeper? \" x'; echo end",
        "Deeper?",
    ),
    ("modes", "stty", "timeout 300 stty -echo", ""),
    ("silent", "cat", "timeout 300 cat", ""),
];

/// Name, program, what is run. Each asks `Go on? [y/N]`, and ends when it is answered.
const ELSEWHERE: &[(&str, &str, &str)] = &[
    (
        "setsid",
        "setsid",
        "setsid -w bash -c 'read -p \"Go on? [y/N] \" x'",
    ),
    (
        "setsid-python",
        "setsid",
        "setsid -w python3 -c 'input(\"Go on? [y/N] \")'",
    ),
    (
        "new-session",
        "python3",
        "python3 -c 'import subprocess; subprocess.run(\
         [\"bash\", \"-c\", \"read -p \\\"Go on? [y/N] \\\" x\"], start_new_session=True)'",
    ),
    (
        "detached",
        "node",
        "node -e 'require(\"child_process\").spawn(\"bash\", \
         [\"-c\", \"read -p \\\"Go on? [y/N] \\\" x\"], {detached: true, stdio: \"inherit\"})'",
    ),
    (
        "behind-another",
        "setsid",
        "setsid -w bash -c 'echo begin; setsid -w bash -c \"read -p \\\"Go on? [y/N] \\\" x\"; echo end'",
    ),
    ("no-main-thread", "python3", "python3 no_main_thread.py"),
    ("ring", "python3", "python3 ring.py"),
    ("bits", "bash", "./bits"),
];

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
#[cfg(target_arch = "x86_64")]
fn program_of_32_bits() -> Vec<u8> {
    const BASE: u32 = 0x0804_8000;
    const HEADERS: u32 = 52 + 32;
    let code: [&[u8]; 3] = [
        // write(1, text, 13)
        b"\xb8\x04\0\0\0\xbb\x01\0\0\0\xb9TEXT\xba\x0d\0\0\0\xcd\x80",
        // read(0, stack, 64)
        b"\xb8\x03\0\0\0\x31\xdb\x83\xec\x40\x89\xe1\xba\x40\0\0\0\xcd\x80",
        // exit(0)
        b"\xb8\x01\0\0\0\x31\xdb\xcd\x80",
    ];
    let mut code = code.concat();
    let text = BASE + HEADERS + u32::try_from(code.len()).unwrap();
    let place = code.windows(4).position(|bytes| bytes == b"TEXT").unwrap();
    code[place..place + 4].copy_from_slice(&text.to_le_bytes());
    code.extend(b"Go on? [y/N] ");
    let size = HEADERS + u32::try_from(code.len()).unwrap();
    let mut program = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    let halves =
        |halves: &[u16]| -> Vec<u8> { halves.iter().flat_map(|half| half.to_le_bytes()).collect() };
    let words =
        |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    // An executable file for the 80386, with one program header, which loads all of the file.
    program.extend(halves(&[2, 3]));
    program.extend(words(&[1, BASE + HEADERS, 52, 0, 0]));
    program.extend(halves(&[52, 32, 1, 0, 0, 0]));
    program.extend(words(&[1, 0, BASE, BASE, size, size, 5, 0x1000]));
    program.extend(code);
    program
}

#[cfg(not(target_arch = "x86_64"))]
fn program_of_32_bits() -> Vec<u8> {
    b"#!/bin/bash\nread -p 'Go on? [y/N] ' x\n".to_vec()
}

fn listed(world: &World, name: &str) -> Value {
    let listed = world.json(&["ls", "--json"]);
    let tasks = listed["tasks"].as_array().unwrap();
    let of_name = tasks.iter().find(|task| task["windowName"] == name);
    of_name.cloned().unwrap_or(Value::Null)
}

/// Ends what would survive the tmux server: programs in other groups and sessions.
#[track_caller]
fn end_all(world: &World) {
    let ended = world.call(&["kill-all", "--yes", "--grace", "0"]);
    assert!(ended.status.success(), "{ended:?}");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn programs_that_timeout_has_put_into_the_background_are_told_with_what_mends_them() {
    check_stopped(&World::new());
}

#[test]
fn the_same_programs_are_told_where_their_calls_are_hidden() {
    check_stopped(&World::with_hidden_calls());
}

fn check_stopped(world: &World) {
    let installed: Vec<_> = STOPPED
        .iter()
        .filter(|(_, program, ..)| is_installed(program))
        .collect();
    for (name, _, line, _) in &installed {
        world.run(name, line);
    }
    let told = world.until("all are told", |told| {
        let is_told = |name: &str| told.iter().any(|told| told.task == name);
        installed.iter().all(|(name, ..)| is_told(name))
    });
    for (name, _, _, prompt) in &installed {
        let of_task: Vec<_> = told.iter().filter(|told| told.task == *name).collect();
        assert_eq!(of_task.len(), 1, "{name}: {of_task:?}");
        assert_eq!(of_task[0].what, "input", "{name}");
        assert_eq!(of_task[0].prompt, *prompt, "{name}");
        let listed = listed(world, name);
        assert_eq!(listed["stopped"], true, "{listed}");
        assert_eq!(listed["state"], "waiting", "{listed}");
    }
    let table = world.call(&["ls"]);
    let table = String::from_utf8(table.stdout).unwrap();
    assert_eq!(
        table.matches(" stopped ").count(),
        installed.len(),
        "{table}"
    );

    let feed = world.call(&["feed", "--kind", "followUp", "--task", "read"]);
    let feed = String::from_utf8(feed.stdout).unwrap();
    let record: Value = serde_json::from_str(feed.lines().next().unwrap()).unwrap();
    let content = record["message"]["content"].as_str().unwrap();
    let id = listed(world, "read")["windowId"]
        .as_str()
        .unwrap()
        .to_owned();
    let header = format!(
        "tmux task {id} (read) is stopped, waiting for input in the background: Continue? [y/N]"
    );
    let mut lines = content.lines().skip_while(|line| *line != header).skip(1);
    let advice = lines.next().unwrap_or_else(|| panic!("{content}"));
    assert!(
        advice.starts_with("  ") && advice.contains(MENDED_BY),
        "{content}"
    );
    let explained = world.call(&["explain", "read"]);
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(
        explained.contains("stopped") && explained.contains(MENDED_BY),
        "{explained}"
    );

    // What is typed would be read by nobody.
    for args in [
        &["send", "read", "--if-prompt", "Continue? [y/N]", "y"][..],
        &["send", "read", "y"],
        &[
            "send",
            "read",
            "--if-prompt",
            "Continue? [y/N]",
            "--key",
            "y",
        ],
    ] {
        let sent = world.call(args);
        assert_eq!(sent.status.code(), Some(1), "{args:?}: {sent:?}");
        assert!(stderr(&sent).contains("nothing was typed"), "{sent:?}");
        assert!(stderr(&sent).contains(MENDED_BY), "{sent:?}");
    }
    let waited = world.call(&["wait", "read"]);
    assert_eq!(waited.status.code(), Some(6), "{waited:?}");
    assert!(stderr(&waited).contains("stopped"), "{waited:?}");
    assert!(stderr(&waited).contains(MENDED_BY), "{waited:?}");
    // It is mended as the message says.
    world.run(
        "read",
        "timeout --foreground 300 bash -c 'read -p \"Continue? [y/N] \" x'",
    );
    world.until("it asks in the foreground", |told| {
        told.iter()
            .filter(|told| told.task == "read" && told.what == "input")
            .count()
            == 2
    });
    assert_eq!(listed(world, "read")["stopped"], false);
    let sent = world.call(&["send", "read", "--if-prompt", "Continue? [y/N]", "y"]);
    assert!(sent.status.success(), "{sent:?}");
    let waited = world.call(&["wait", "read", "--through-prompts"]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    end_all(world);
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
    use std::os::unix::fs::PermissionsExt as _;
    let write =
        |name: &str, text: &[u8]| std::fs::write(world.dir.path().join(name), text).unwrap();
    write("no_main_thread.py", NO_MAIN_THREAD.as_bytes());
    write("ring.py", RING.as_bytes());
    write("bits", &program_of_32_bits());
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(world.dir.path().join("bits"), executable).unwrap();
    let installed: Vec<_> = ELSEWHERE
        .iter()
        .filter(|(_, program, _)| is_installed(program))
        .collect();
    for (name, _, line) in &installed {
        world.run(name, line);
    }
    world.until("all are told", |told| {
        let is_told = |name: &str| {
            told.iter()
                .any(|told| told.task == name && told.prompt == "Go on? [y/N]")
        };
        installed.iter().all(|(name, ..)| is_told(name))
    });
    for (name, ..) in &installed {
        assert_eq!(listed(world, name)["stopped"], false, "{name}");
        let sent = world.call(&["send", name, "--if-prompt", "Go on? [y/N]", "y"]);
        assert!(sent.status.success(), "{name}: {sent:?}");
        // It may take a moment until the answer is read.
        let waited = world.call(&["wait", name, "--through-prompts"]);
        assert_eq!(waited.status.code(), Some(0), "{name}: {waited:?}");
    }
    let told = world.prompt_events();
    let n_asked = told.iter().filter(|told| told.what == "input").count();
    assert_eq!(n_asked, installed.len(), "{told:#?}");
}

/// Sends a signal to the program of this process in `/proc` whose command line contains a text.
fn signal(text: &str, signal: Signal) {
    let of_text = |pid: i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        (name == "sleep\n" || name == "reads\n").then_some(())?;
        String::from_utf8_lossy(&line).contains(text).then_some(pid)
    };
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let found: Vec<i32> = pids.filter_map(of_text).collect();
    let [pid] = found[..] else {
        panic!("{text}: {found:?}");
    };
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
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
    world.run(
        "behind",
        &format!("printf 'Go on? [y/N] '; timeout 9{id} sleep {behind}"),
    );
    // Its name tells it from the shells around it.
    let reads =
        format!("cp \"$(command -v bash)\" reads; ./reads -c 'read -p \"Held? [y/N] \" x; : {id}'");
    world.run("held", &reads);
    // Programs in sessions of their own that have the terminal and do not read it.
    world.run("daemon", "printf 'Go on? [y/N] '; python3 -c 'import subprocess; subprocess.Popen([\"sleep\", \"1000\"], start_new_session=True).wait()'");
    world.run("in-group", "printf 'Go on? [y/N] '; timeout 300 sleep 1000");
    world.until("one asks", |told| {
        told.iter().any(|told| told.task == "held")
    });
    let sleeps = |name: &str| {
        let explained = world.json(&["explain", name, "--json"]);
        explained["terminal"]["reader"] == "elsewhere" && explained["quietMs"].as_u64() > Some(300)
    };
    for name in ["plain", "behind", "daemon", "in-group"] {
        world.until(name, |_| sleeps(name));
    }
    signal(&plain, Signal::STOP);
    signal(&behind, Signal::STOP);
    signal("Held?", Signal::STOP);
    for name in ["plain", "behind", "held"] {
        world.until(&format!("{name} is stopped"), |_| {
            listed(&world, name)["stopped"] == true
        });
        let explained = world.call(&["explain", name]);
        assert!(
            String::from_utf8_lossy(&explained.stdout).contains("stopped"),
            "{explained:?}"
        );
    }
    assert_eq!(listed(&world, "plain")["state"], "running");
    assert_eq!(listed(&world, "held")["state"], "waiting");
    let sent = world.call(&["send", "held", "--if-prompt", "Held? [y/N]", "y"]);
    assert_eq!(sent.status.code(), Some(1), "{sent:?}");
    assert!(stderr(&sent).contains("stopped by a signal"), "{sent:?}");

    signal("Held?", Signal::CONT);
    world.until("it goes on", |_| listed(&world, "held")["stopped"] == false);
    let sent = world.call(&["send", "held", "--if-prompt", "Held? [y/N]", "y"]);
    assert!(sent.status.success(), "{sent:?}");
    let waited = world.call(&["wait", "held", "--through-prompts"]);
    assert_eq!(waited.status.code(), Some(0), "{waited:?}");
    for name in ["daemon", "in-group"] {
        assert_eq!(listed(&world, name)["stopped"], false, "{name}");
    }
    let told = world.prompt_events();
    let told: Vec<_> = told
        .iter()
        .map(|told| (told.task.as_str(), told.what.as_str()))
        .collect();
    assert_eq!(told, [("held", "input"), ("held", "inputResolved")]);
    end_all(&world);
}

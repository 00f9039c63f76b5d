//! The claims of docs/design/security.md, one by one.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Uid, geteuid};
use serde_json::{Value, json};

use crate::support::{
    DEADLINE, Output, Running, World, argv, events_of, has, has_event, lacks, set_mode,
};

/// All files and folders below a folder, itself included.
fn tree(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir()) {
            found.extend(tree(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// A command that makes files as open as they come.
fn with_open_umask(world: &World, program: &Path, args: &[&str]) -> Command {
    let mut command = world.command("sh");
    command
        .args(["-c", "umask 000; exec \"$0\" \"$@\""])
        .arg(program)
        .args(args);
    command
}

#[test]
fn every_file_and_folder_is_for_its_user_alone() {
    let world = World::new();
    for folder in ["state", "run"] {
        fs::remove_dir(world.path(folder)).unwrap();
    }
    let open = |program: &Path, args: &[&str]| with_open_umask(&world, program, args);
    let gate = world.gate("gate");
    let live = format!("echo up; {gate}");
    for args in [
        &["run", "over", "--wait", "--", "echo some output"][..],
        &["run", "live", "--until", "up", "--", &live],
    ] {
        Output::of(open(World::program(), args)).ok();
    }
    let by_helper = ["by-helper", "--", "echo more; exit 1"];
    Output::of(open(&World::helper(), &by_helper)).ok();
    let consume = ["feed", "--follow", "--consumer", "pi", "--auto-ack"];
    let reader = Running::start(open(World::program(), &consume));
    reader.records_until(|record| record["kind"] == "sync");
    let state = world.state("work");
    world.until_true("the consumer's position is kept", || {
        state.join("consumers/pi").exists() && state.join("last-reader").exists()
    });
    let kept = |folder: &Path| tree(folder).iter().any(|path| path.is_file());
    world.until_true("the run's output is kept", || kept(&state.join("runs")));

    let check = |expected: &str| {
        let mut names = Vec::new();
        for path in [tree(&world.path("state")), tree(&world.path("run"))].concat() {
            let found = match fs::symlink_metadata(&path) {
                // A temporary file that is gone since the folder was read.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                found => found.unwrap(),
            };
            let (mode, uid, path) = (found.mode() & 0o7777, found.uid(), path.display());
            assert_eq!(mode & 0o077, 0, "{path}: mode {mode:04o}");
            assert_eq!(uid, geteuid().as_raw(), "{path}");
            names.push(path.to_string());
        }
        for end in expected.split(' ') {
            let is_there = names.iter().any(|found| found.ends_with(end));
            assert!(is_there, "{end}: {names:?}");
        }
    };
    check("/feed.jsonl /daemon.log /daemon.lock /pi /last-reader .sock .lock");
    drop(reader);
    world.finish();
    check("/session.json");
}

/// A user id without an account here.
pub(crate) const STRANGER: u32 = 65534;

/// Does something as another user; `None` where this process may not become one.
pub(crate) fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        return None;
    }
    std::thread::scope(|scope| {
        let stranger = scope.spawn(|| {
            let uid = Uid::from_raw(STRANGER);
            // Of this thread only.
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            act()
        });
        Some(stranger.join().unwrap())
    })
}

#[test]
fn another_users_process_is_not_served() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let socket = world.socket();
    let ask = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // It may be closed already.
        drop(stream.write_all(b"{\"op\":\"status\"}\n"));
        let mut answer = Vec::new();
        drop(BufReader::new(stream).read_until(b'\n', &mut answer));
        String::from_utf8(answer).unwrap()
    };
    has(ask(), "\"answer\":\"status\"");
    // As if the modes had been lost.
    let open = |mode: u32| {
        set_mode(world.path(""), mode);
        set_mode(world.path("run"), mode);
    };
    open(0o777);
    set_mode(&socket, 0o666);
    let Some(answer) = as_stranger(ask) else {
        open(0o700);
        eprintln!("skipped: only root can be another user");
        return;
    };
    assert_eq!(answer, "");
    world.until_logged("refused a connection of another user");
    open(0o700);
}

#[test]
fn no_request_is_too_large_to_refuse() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let answer = |request: &[u8]| {
        let mut stream = UnixStream::connect(world.socket()).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut writer = stream.try_clone().unwrap();
        let mut line = String::new();
        std::thread::scope(|scope| {
            // It stops reading when it has enough.
            scope.spawn(move || drop(writer.write_all(request)));
            // A reset may take the answer with it.
            drop(BufReader::new(&mut stream).read_line(&mut line));
        });
        line
    };
    let endless = vec![b'x'; 9 << 20];
    let refused = answer(&endless);
    assert!(
        refused.is_empty() || refused.contains("at most 8388608 bytes"),
        "{refused}"
    );
    let deep = [vec![b'['; 100_000], b"\n".to_vec()].concat();
    has(answer(&deep), "\"refused\"");
    let list = |n: usize| vec!["x"; n];
    for request in [
        json!({"op": "kill", "tasks": list(300_000), "byAgent": false}),
        json!({"op": "subscribe", "start": "now", "filter": {"tasks": list(300_000)}}),
        json!({"op": "wait", "task": "@0", "conditions": list(300_000)}),
        json!({"op": "find", "task": "x".repeat(4 << 20)}),
        json!({"op": "consume", "name": "x".repeat(4 << 20)}),
        json!({"op": "nothing"}),
    ] {
        let op = &request["op"];
        let said = answer(format!("{request}\n").as_bytes());
        let said: Value =
            serde_json::from_str(&said).unwrap_or_else(|error| panic!("{op}: {error}"));
        let is_served = op == "subscribe" && said["kind"] == "hello";
        assert!(said["answer"] == "refused" || is_served, "{op}: {said}");
    }
    assert_eq!(world.look()["tasks"][0]["windowName"], "api");
}

#[test]
fn no_regular_expression_takes_for_ever() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = format!(
        "head -c 60000 /dev/zero | tr '\\0' a; echo; {gate}; \
         head -c 60000 /dev/zero | tr '\\0' a; echo; echo the end; exec sleep 1000"
    );
    let window = world.run("api", &line);
    world.until_true("the line is there", || {
        world.shown(&window, "#{history_size}") != "0"
    });
    let slow: Vec<&str> = "(a*)*$x (a|aa)+b (.*)*b (a?){500}(a){500}b ((a+)+)+$y"
        .split(' ')
        .collect();
    let large = ["(a{1000}){1000}", "\\w{500}{50}"];
    for pattern in &slow {
        let output = world.task(["search", "--regex", pattern]);
        assert!(output.code == 1 || output.code == 2, "{pattern}: {output}");
    }
    for pattern in large {
        for command in ["search --regex", "wait api --regex --text"] {
            let command = [argv(command), vec![pattern.to_owned()]].concat();
            world.task(command).fails_saying(2, "too large");
        }
    }
    let wait = |pattern: &&str| world.start(["wait", "api", "--regex", "--text", pattern]);
    let waits: Vec<Running> = slow.iter().map(wait).collect();
    let end = world.start(["wait", "api", "--text", "the end", "--json"]);
    world.until_true("all of them wait", || {
        world.daemon_status()["waits"] == slow.len() + 1
    });
    gate.open();
    assert_eq!(end.record()["outcome"], "matched");
    drop(waits);
    world.task(["status"]).ok();
}

/// What a shell or tmux would run if it ever got to see it as anything but text. Those that end a
/// quoted word stand alone: each needs another text before it.
fn payloads(marker: &str) -> Vec<String> {
    [
        "#(touch MARK) #{E:#(touch MARK)} #{?1,#(touch MARK),} #[fg=red]#(touch MARK)",
        "x$(touch MARK) `touch MARK` ; touch MARK; x && touch MARK | touch MARK",
        "'; touch MARK; '",
        "\"; touch MARK; \"",
        "x\ntouch MARK\nrun-shell 'touch MARK'\nx",
        "' ; run-shell 'touch MARK' ; '",
        "\" ; run-shell 'touch MARK' ; \"",
        "x ; run-shell 'touch MARK' ; } ; run-shell 'touch MARK' ; {",
        "x' \\; run-shell 'touch MARK' \\; 'x",
        "~$HOME\\$(touch MARK)\\",
    ]
    .iter()
    .map(|text| text.replace("MARK", marker))
    .collect()
}

/// The files that a payload made.
fn made(world: &World) -> Vec<PathBuf> {
    let is_mark = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_bytes();
        name.starts_with(b"pwned")
    };
    let beside = [PathBuf::from("/"), std::env::temp_dir()];
    let beside = beside.into_iter().map(|folder| folder.join("pwned"));
    let below = tree(&world.path("")).into_iter().filter(is_mark);
    below.chain(beside.filter(|path| path.exists())).collect()
}

#[track_caller]
fn check_nothing_ran(world: &World, where_from: &str) {
    assert_eq!(made(world), Vec::<PathBuf>::new(), "{where_from}");
}

/// Shows the session on a terminal, with everything on its status line that comes from tasks.
fn show_on_a_terminal(world: &World) {
    let status =
        "#{@tmux_task_status} #{@tmux_task_notice} #{session_name} #{pane_title} #{window_name}";
    for (option, value) in [
        ("status-interval", "1"),
        ("status-right", status),
        ("set-titles", "on"),
        ("status-right-length", "200"),
    ] {
        world.tmux(["set-option", "-g", option, value]);
    }
    world.attach_terminal("200x50", "work");
    world.until_true("it is attached", || {
        let clients = world.tmux(["list-clients", "-t", "=work", "-F", "#{client_flags}"]);
        let mut clients = clients.lines();
        clients.any(|flags| flags.starts_with("attached") && !flags.contains("control"))
    });
}

/// The last word: the same harness does see what tmux runs.
fn check_the_harness_sees(world: &World) {
    let marker = world.path("pwned-control");
    let run = format!("#(touch {})", marker.display());
    world.tmux(["set-option", "-g", "status-right", &run]);
    world.until_true("tmux draws the status line", || marker.exists());
    world.end_terminal();
}

#[test]
fn nothing_that_a_caller_passes_is_run_or_expanded() {
    let mut world = World::new();
    world.run("cat", "exec cat");
    show_on_a_terminal(&world);
    let marker = world.path("pwned").display().to_string();
    for payload in payloads(&marker) {
        let payload = payload.as_str();
        let variable = format!("V={payload}");
        let clear = ["send", "cat", "--key", "C-u"];
        let words = ["run", "words", "--env", &variable, "--wait", "--"];
        let words = [&words[..], &["printf", "%s\n", payload]].concat();
        let any: [&[&str]; 7] = [
            &["search", payload],
            &["search", "--regex", payload],
            &["logs", "cat", "--since", payload],
            &["wait", "cat", "--text", payload, "--timeout", "1ms"],
            &["wait", "--channel", payload, "--timeout", "1ms"],
            &["signal", payload],
            &["-s", payload, "ls"],
        ];
        // What is valid anywhere is text; what is not is refused. Both run nothing.
        for (code, args) in [
            (Some(0), &words[..]),
            (Some(2), &["run", payload, "--", "true"]),
            (Some(0), &["send", "cat", "--no-enter", "--", payload]),
            (Some(0), &clear),
            (Some(2), &["send", "cat", "--key", payload]),
            (Some(1), &["send", "cat", "--if-prompt", payload, "x"]),
            (Some(3), &["kill", payload]),
            (Some(3), &["logs", payload]),
            (Some(3), &["explain", payload]),
            (Some(3), &["wait", payload]),
            (Some(2), &["consumer", "rm", payload]),
            (Some(2), &["feed", "--follow", "--consumer", payload]),
            (Some(0), &["feed", "--task", payload]),
            (Some(0), &["feed", "--owner", payload]),
        ]
        .into_iter()
        .chain(any.map(|args| (None, args)))
        {
            let output = world.task(args);
            assert!(code.is_none_or(|code| output.code == code), "{output}");
        }
        let secret = ["send", "cat", "--secret", "--no-enter"];
        world.task_reading(payload, secret).ok();
        world.task(clear).ok();
        let owner = [("TMUX_TASK_OWNER", payload), (payload, payload)];
        world
            .task_with(&owner, ["run", "owned", "--", "exit 1"])
            .ok();
        let mut helper = world.command(World::helper());
        helper
            .args(["helped", "--", "printf", "%s", payload])
            .env("TMUX_TASK_OWNER", payload)
            .env("V", payload);
        Output::of(helper).ok();
        check_nothing_ran(&world, payload);
    }
    world.task(["daemon", "stop"]).ok();
    let id = format!("#(touch {marker})");
    world.daemon_with(&["--session-id", &id]);
    world.run("last", "exit 1");
    world.until_event("exited", "last");
    // Sessions may be called nearly anything.
    for payload in "#(touch pwned)|x$(touch pwned)|`touch pwned`|'; touch pwned; '".split('|') {
        let task = |args: &[&str]| world.task([&["-s", payload], args].concat());
        task(&["run", "api", "--", "exit 1"]).ok();
        world.until_of(&["-s", payload], "its end", |records| {
            has_event(records, "exited", "api")
        });
        task(&["status"]).ok();
        task(&["doctor"]);
        task(&["kill-all", "--yes"]).ok();
        task(&["daemon", "stop"]).ok();
        check_nothing_ran(&world, payload);
    }
    world.set("TMUX_TASK_SESSION", "work");
    check_the_harness_sees(&world);
}

/// Folders whose names would do something; a name has no slash.
#[test]
fn no_name_of_a_folder_is_run_or_expanded() {
    let short = "#(touch pwned)".to_owned();
    for payload in payloads("pwned").into_iter().chain([short]) {
        let mut world = World::new();
        for (variable, parent) in [
            ("TMUX_TASK_STATE_DIR", "state"),
            ("TMUX_TASK_RUNTIME_DIR", "run"),
            ("TMUX_TMPDIR", "tmux"),
        ] {
            // tmux's sockets have short paths.
            if variable == "TMUX_TMPDIR" && payload.len() > 40 {
                continue;
            }
            let folder = world.path(parent).join(&payload);
            fs::create_dir(&folder).unwrap();
            world.set(variable, folder.to_str().unwrap());
        }
        let project = world.project().join(&payload);
        fs::create_dir(&project).unwrap();
        let run = |program: &Path, args: &[&str]| {
            let mut command = world.command(program);
            command.args(args).current_dir(&project);
            Output::of(command)
        };
        let task = |args: &[&str]| run(World::program(), args);
        let line = "echo up; exec sleep 1000";
        task(&["run", "api", "--until", "up", "--", line]).ok();
        run(&World::helper(), &["web", "--", "pwd; exit 1"]).ok();
        task(&["wait", "api", "--text", "x", "--timeout", "1ms"]);
        task(&["doctor"]);
        task(&["logs", "api"]).ok();
        task(&["kill-all", "--yes"]).ok();
        task(&["daemon", "stop"]).ok();
        check_nothing_ran(&world, &payload);
    }
}

#[test]
fn nothing_that_a_task_or_a_stranger_writes_is_run_or_expanded() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    show_on_a_terminal(&world);
    world.tmux(["set-option", "-g", "allow-rename", "on"]);
    let marker = world.path("pwned").display().to_string();
    for (index, payload) in payloads(&marker).into_iter().enumerate() {
        fs::write(world.path("payload"), &payload).unwrap();
        let cat = format!("cat {}", world.path("payload").display());
        // As a title, as a window's name, as a prompt, and as its last words.
        let line = format!(
            "printf '\\033]2;'; {cat}; printf '\\033\\\\\\033k'; {cat}; printf '\\033\\\\'; \
             {cat}; printf '? [y/N] '; read -r _; {cat}; exit 1"
        );
        let window = world.run(&format!("task-{index}"), &line);
        for option in
            "@tmux_task_command @tmux_task_cwd @tmux_task_owner @pi_task_command".split(' ')
        {
            world.tmux(["set-option", "-w", "-t", &window, option, &payload]);
        }
        for option in ["@tmux_task_title", "@tmux_task_root"] {
            world.tmux(["set-option", "-t", "=work:", option, &payload]);
        }
        let until = |event_type: &str| {
            world.until(event_type, |records| {
                let mut events = events_of(records, event_type).into_iter();
                events.any(|event| event["task"]["windowId"] == *window)
            });
        };
        until("input");
        for face in format!("ls|explain {window}|logs {window}|status").split('|') {
            world.call(face).ok();
        }
        world.task(["send", &window, "y"]).ok();
        until("exited");
        world.task(["kill", &window]).ok();
        check_nothing_ran(&world, &payload);
    }
    check_the_harness_sees(&world);
}

#[test]
fn a_secret_that_is_sent_is_found_nowhere() {
    const SECRET: &str = "correct-horse-battery";
    let mut world = World::new();
    let calls = world.path("calls");
    let noted = calls.display();
    let tmux = world.tmux_after(&format!("printf '%s\\n' \"$*\" >>{noted}"));
    world.set("TMUX_TASK_TMUX", &tmux);
    world.set("TMUX_TASK_LOG", "trace");
    let line = "stty -echo; printf 'Password: '; read -r word; printf 'got %s\\n' \"${#word}\"; \
                exec sleep 1000";
    let window = world.run("login", line);
    world.until_shows(&window, "Password:");
    world
        .task_reading(&format!("{SECRET}\n"), ["send", "login", "--secret"])
        .ok();
    world.until_shows(&window, &format!("got {}", SECRET.len()));
    world.task(["ls"]).ok();
    world.task(["logs", "login"]).ok();
    world.has_nowhere(SECRET, &[]);
    world.task(["daemon", "stop"]).ok();
    assert!(!fs::read_to_string(&calls).unwrap().is_empty());
    world.has_nowhere(SECRET, &[""]);
}

/// The name of a file in the state folder that is not text is left alone by everything that lists
/// folders.
#[test]
fn names_of_files_that_are_not_text_do_no_harm() {
    let world = World::new();
    let strange = OsStr::from_bytes(b"\x1b[31m\xff\n#(touch pwned)");
    fs::create_dir_all(world.path("state").join(strange)).unwrap();
    fs::create_dir_all(world.path("run").join(strange)).unwrap();
    world.run("api", "exit 1");
    world.until_deliveries(1);
    let consumers = world.state("work").join("consumers");
    fs::create_dir_all(&consumers).unwrap();
    set_mode(&consumers, 0o700);
    fs::write(consumers.join(strange), "{}").unwrap();
    for face in "consumer ls|doctor|ls|daemon status".split('|') {
        lacks(world.call(face).to_string(), "\u{1b}");
    }
    check_nothing_ran(&world, "names of files");
}

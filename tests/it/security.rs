//! The claims of docs/design/security.md, one by one.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Uid, geteuid};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Output, Running, World, events_of, has, has_event};

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

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
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
    let live = format!("echo up; {}", gate.wait());
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

    let check = |expected: &[&str]| {
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
        for end in expected {
            let is_there = names.iter().any(|found| found.ends_with(end));
            assert!(is_there, "{end}: {names:?}");
        }
    };
    check(&[
        "/feed.jsonl",
        "/daemon.log",
        "/daemon.lock",
        "/pi",
        "/last-reader",
        ".sock",
        ".lock",
    ]);
    drop(reader);
    world.finish();
    check(&["/session.json"]);
}

#[test]
fn no_link_leads_a_daemon_to_another_file() {
    let world = World::new();
    world.run("api", "echo out; exit 1");
    world.until_deliveries(1);
    world.task(["daemon", "stop"]).ok();
    let state = world.state("work");
    let is_lock = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.ends_with(".lock") && !name.starts_with("server-")
    };
    let lock = tree(&world.path("run")).into_iter().rfind(is_lock).unwrap();
    let mut places = vec![lock.with_extension("sock"), lock, state.clone()];
    for name in [
        "feed.jsonl",
        "session.json",
        "daemon.log",
        "daemon.lock",
        "runs",
        "consumers",
        "last-reader",
    ] {
        places.push(state.join(name));
    }
    let victims = world.path("victims");
    fs::create_dir(&victims).unwrap();
    let victim = victims.join("victim");
    for place in places {
        let aside = world.path("aside");
        let is_folder = place.is_dir();
        let was_there = fs::rename(&place, &aside).is_ok();
        for exists in [true, false] {
            let mode = if is_folder { 0o755 } else { 0o644 };
            if exists && is_folder {
                fs::create_dir(&victim).unwrap();
            } else if exists {
                fs::write(&victim, "precious").unwrap();
            }
            if exists {
                set_mode(&victim, mode);
            }
            symlink(&victim, &place).unwrap();
            // Whether it starts is not the question here.
            world.task(["daemon", "--detach"]);
            world.task(["run", "again", "--", "echo out; exit 1"]);
            world.task(["ls"]);
            world.task(["daemon", "stop"]);
            let what = format!("{} led astray, exists: {exists}", place.display());
            let found = fs::symlink_metadata(&victim).map(|found| found.mode() & 0o777);
            assert_eq!(found.ok(), exists.then_some(mode), "{what}");
            if exists && is_folder {
                assert_eq!(tree(&victim).len(), 1, "{what}");
                fs::remove_dir(&victim).unwrap();
            } else if exists {
                assert_eq!(fs::read(&victim).unwrap(), b"precious", "{what}");
                fs::remove_file(&victim).unwrap();
            }
            // What took the link's place, if anything.
            if place.is_dir() && !place.is_symlink() {
                fs::remove_dir_all(&place).unwrap();
            } else if fs::symlink_metadata(&place).is_ok() {
                fs::remove_file(&place).unwrap();
            }
        }
        if was_there {
            fs::rename(&aside, &place).unwrap();
        }
    }
}

/// A user id without an account here.
const STRANGER: u32 = 65534;

/// Does something as another user; `None` where this process may not become one.
fn as_stranger<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
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
fn another_users_process_is_neither_served_nor_trusted() {
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
        set_mode(&world.path(""), mode);
        set_mode(&world.path("run"), mode);
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

    // A stranger's process that listens in a daemon's place gets no request.
    open(0o700);
    world.task(["daemon", "stop"]).ok();
    open(0o777);
    drop(fs::remove_file(&socket));
    let listener = as_stranger(|| UnixListener::bind(&socket).unwrap()).unwrap();
    open(0o700);
    let output = world.task(["ls"]);
    let why = format!("its process belongs to uid {STRANGER}");
    output.fails_with(1);
    output.says(&why);
    let mut heard = Vec::new();
    listener.set_nonblocking(true).unwrap();
    while let Ok((mut stream, _)) = listener.accept() {
        stream.set_nonblocking(false).unwrap();
        stream.read_to_end(&mut heard).unwrap();
    }
    assert_eq!(heard, b"", "nothing was sent");
    // Nor is a folder that others can write to used at all.
    set_mode(&world.path("run"), 0o777);
    let output = world.task(["ls"]);
    output.says("can be written to by other users");
    set_mode(&world.path("run"), 0o700);
    drop(fs::remove_file(&socket));
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
        "head -c 60000 /dev/zero | tr '\\0' a; echo; {}; \
         head -c 60000 /dev/zero | tr '\\0' a; echo; echo the end; exec sleep 1000",
        gate.wait()
    );
    let window = world.run("api", &line);
    world.until_true("the line is there", || {
        world.shown(&window, "#{history_size}") != "0"
    });
    let slow = [
        "(a*)*$x",
        "(a|aa)+b",
        "(.*)*b",
        "(a?){500}(a){500}b",
        "((a+)+)+$y",
    ];
    let large = ["(a{1000}){1000}", "\\w{500}{50}"];
    for pattern in slow {
        let output = world.task(["search", "--regex", pattern]);
        assert!(output.code == 1 || output.code == 2, "{pattern}: {output}");
    }
    for pattern in large {
        for command in [
            &["search", "--regex", pattern][..],
            &["wait", "api", "--regex", "--text", pattern],
        ] {
            let output = world.task(command);
            output.fails_with(2);
            output.says("too large");
        }
    }
    let waits = slow.map(|pattern| world.start(["wait", "api", "--regex", "--text", pattern]));
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
    for payload in [
        "#(touch pwned)",
        "x$(touch pwned)",
        "`touch pwned`",
        "'; touch pwned; '",
    ] {
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
        for option in [
            "@tmux_task_command",
            "@tmux_task_cwd",
            "@tmux_task_owner",
            "@pi_task_command",
        ] {
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
        for face in [
            &["ls"][..],
            &["explain", &window],
            &["logs", &window],
            &["status"],
        ] {
            world.task(face).ok();
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
    let tmux = format!("#!/bin/sh\nprintf '%s\\n' \"$*\" >>{noted}\nexec tmux \"$@\"\n");
    let tmux = world.script("noting-tmux", &tmux);
    world.set("TMUX_TASK_TMUX", tmux.to_str().unwrap());
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
    for words in [
        &["list-buffers"][..],
        &["show-environment", "-gh"],
        &["show-environment", "-h", "-t", "=work:"],
        &["show-options", "-t", "=work:"],
        &["show-options", "-w", "-t", &window],
        &["show-options", "-p", "-t", &window],
        &["show-options", "-s"],
        &["show-messages"],
    ] {
        let said = world.tmux(words);
        assert!(!said.contains(SECRET), "{words:?}: {said}");
    }
    world.task(["daemon", "stop"]).ok();
    assert!(!fs::read_to_string(&calls).unwrap().is_empty());
    for path in tree(&world.path("")) {
        let bytes = fs::read(&path).unwrap_or_default();
        let holds = bytes
            .windows(SECRET.len())
            .any(|part| part == SECRET.as_bytes());
        assert!(!holds, "{}", path.display());
    }
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
    fs::set_permissions(&consumers, Permissions::from_mode(0o700)).unwrap();
    fs::write(consumers.join(strange), "{}").unwrap();
    for face in [
        &["consumer", "ls"][..],
        &["doctor"],
        &["ls"],
        &["daemon", "status"],
    ] {
        let output = world.task(face);
        assert!(
            !output.out.contains('\u{1b}') && !output.err.contains('\u{1b}'),
            "{output}"
        );
    }
    check_nothing_ran(&world, "names of files");
}

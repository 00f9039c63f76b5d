//! What is typed into a task arrives whole, or is refused.

use std::process::Command;

use crate::support::{Gate, Output, World};

/// Types the whole of an answer, in the way that the options say.
fn send(world: &World, name: &str, options: &[&str], answer: &str) -> Output {
    let mut command: Command = world.command(World::program());
    command.args(["send", name]).args(options);
    if options.contains(&"--secret") {
        return Output::with_input(command, &format!("{answer}\n"));
    }
    command.arg(answer);
    Output::with_input(command, "")
}

const WAYS: [&[&str]; 3] = [&[], &["--if-prompt", "Delete? [Y/n]"], &["--secret"]];

#[test]
fn an_answer_reaches_a_program_behind_any_mode_of_tmux() {
    let world = World::new();
    let modes: [&[&str]; 4] = [
        &["clock-mode"],
        &["choose-tree"],
        &["copy-mode"],
        &["clock-mode", "choose-tree", "copy-mode"],
    ];
    let line = "read -r -p 'Delete? [Y/n] ' x; echo \"got <$x>\"; exec sleep 1000";
    let world = &world;
    std::thread::scope(|scope| {
        for (at, (modes, options)) in modes
            .iter()
            .flat_map(|modes| WAYS.map(|options| (*modes, options)))
            .enumerate()
        {
            scope.spawn(move || {
                let name = format!("ask-{at}");
                let window = world.run(&name, line);
                world.task(["wait", &name, "--input"]).ok();
                for mode in modes {
                    world.tmux([mode, "-t", &window]);
                }
                let count = ["display-message", "-p", "-t", &window, "#{pane_in_mode}"];
                assert_eq!(world.tmux(count).trim(), modes.len().to_string());
                send(world, &name, options, "nope").ok();
                world.until_shows(&window, "got <");
                let shown = world.tmux(["capture-pane", "-p", "-t", &window]);
                assert!(shown.contains("got <nope>"), "{modes:?}: {shown}");
            });
        }
    });
}

#[test]
fn input_that_tmux_would_drop_is_refused() {
    let world = World::new();
    let line = "read -r -p 'Delete? [Y/n] ' x; echo \"got <$x>\"; exec sleep 1000";
    let window = world.run("ask", line);
    world.task(["wait", "ask", "--input"]).ok();
    world.tmux(["select-pane", "-d", "-t", &window]);
    for options in WAYS {
        let refused = send(&world, "ask", options, "nope");
        assert_eq!(refused.code, 1, "{refused}");
        let expected =
            "is switched off in tmux; nothing was typed\nhint: `tmux select-pane -e -t %";
        assert!(refused.err.contains(expected), "{refused}");
    }
    assert_eq!(world.tmux(["list-buffers"]), "");
    world.tmux(["select-pane", "-e", "-t", &window]);
    send(&world, "ask", &[], "yes").ok();
    world.until_shows(&window, "got <yes>");
}

/// A program that takes what one `read` returns as one key.
const KEYS: &str = "\
import os, tty
print('Delete? [Y/n] ', end='', flush=True)
tty.setraw(0)
keys = []
while (key := os.read(0, 99999)) != b'\\r':
    keys.append(key.decode())
print('\\r\\ngot', *map(ascii, keys), 'end', flush=True)
os.read(0, 1)
";

#[test]
fn each_key_is_given_when_the_one_before_was_read() {
    let world = World::new();
    std::fs::write(world.project().join("keys.py"), KEYS).unwrap();
    let check = |name: &str, options: &[&str], answer: &str, got: &str| {
        let window = world.run(name, "python3 keys.py");
        until_takes_keys(&world, name);
        send(&world, name, options, answer).ok();
        world.until_shows(&window, "end");
        let shown = world.tmux(["capture-pane", "-p", "-J", "-t", &window]);
        assert!(shown.contains(&format!("got {got} end")), "{shown}");
    };
    std::thread::scope(|scope| {
        for (at, options) in WAYS.into_iter().enumerate() {
            scope.spawn(move || check(&format!("text-{at}"), options, "nope", "'nope'"));
        }
        let keys = ["--key", "Down", "--key", "Escape", "--key", "j", "--key"];
        let got = "'\\x1b[B' '\\x1b' 'j'";
        scope.spawn(move || check("keys", &keys, "Enter", got));
    });
}

fn until_takes_keys(world: &World, name: &str) {
    world.until_true(&format!("{name} takes keys"), || {
        let explained = world.task(["explain", name, "--json"]);
        let explained: serde_json::Value = serde_json::from_str(explained.ok()).unwrap();
        explained["terminal"]["canonical"] == false && explained["asks"] == true
    });
}

#[test]
fn a_line_that_the_terminal_would_cut_is_refused() {
    let world = World::new();
    let line = "stty -echo; read -r -p 'Delete? [Y/n] ' x; echo \"got ${#x} end\"; exec sleep 1000";
    for (at, options) in WAYS.into_iter().enumerate() {
        let name = format!("ask-{at}");
        let window = world.run(&name, line);
        world.task(["wait", &name, "--input"]).ok();
        let text = "z".repeat(4094);
        for end in ["zz", "\u{e9}"] {
            let refused = send(&world, &name, options, &format!("{text}{end}"));
            assert_eq!(refused.code, 1, "{refused}");
            let expected = "takes lines of at most 4095 bytes, not 4096; nothing was typed";
            assert!(refused.err.contains(expected), "{refused}");
        }
        send(&world, &name, options, &format!("{text}z")).ok();
        world.until_shows(&window, "got 4095 end");
    }
    std::fs::write(
        world.project().join("keys.py"),
        KEYS.replace("*map(ascii, keys)", "len(''.join(keys))"),
    )
    .unwrap();
    let window = world.run("keys", "python3 keys.py");
    until_takes_keys(&world, "keys");
    send(&world, "keys", &[], &"z".repeat(10_000)).ok();
    world.until_shows(&window, "got 10000 end");
}

#[test]
fn a_task_that_shows_no_question_is_answered_by_the_empty_prompt() {
    let world = World::new();
    for (name, above) in [
        ("silent", ""),
        ("below", "seq 9; printf '\\n\\n\\n\\n\\n\\n\\n\\n\\n'; "),
    ] {
        let line = format!("clear; {above}read -r x; echo \"got <$x>\"; exec sleep 1000");
        let window = world.run(name, &line);
        world.task(["wait", name, "--input"]).ok();
        let explained = world.task(["explain", name, "--json"]);
        assert!(explained.ok().contains("\"prompt\":\"\""), "{explained}");
        let other = send(&world, name, &["--if-prompt", "Name:"], "Ada");
        assert_eq!(other.code, 1, "{other}");
        send(&world, name, &["--if-prompt", ""], "Ada").ok();
        world.until_shows(&window, "got <Ada>");
        let again = send(&world, name, &["--if-prompt", ""], "Ada");
        assert_eq!(again.code, 1, "{again}");
    }
}

/// A program that asks `OK?` and, when the gate is opened, `Wipe?`, in this way.
fn asks_twice(world: &World, name: &str, read: &str, gate: &Gate) -> String {
    let line = format!(
        "read {read} -p 'OK? [y/N] ' a; echo \"$a\" >ok-{name}; {}; \
         read {read} -p 'Wipe? [y/N] ' b; echo \"got <$a$b>\"; exec sleep 1000",
        gate.wait()
    );
    world.run(name, &line)
}

fn until_asked(world: &World, name: &str, question: &str) {
    world.until_true(&format!("{name} asks {question}"), || {
        let explained = world.task(["explain", name, "--json"]);
        explained
            .ok()
            .contains(&format!("{question} [y/N]\",\"promptKind"))
    });
}

const OK: &[&str] = &["--if-prompt", "OK? [y/N]"];

#[test]
fn a_question_takes_one_answer() {
    let world = &World::new();
    std::thread::scope(|scope| {
        let reads = ["", "-s", "-n 1", "-s -n 1", "-t 600", "-s -t 600"];
        for (at, read) in reads.into_iter().enumerate() {
            scope.spawn(move || check_one_answer(world, &format!("ask-{at}"), read));
        }
    });
}

fn check_one_answer(world: &World, name: &str, read: &str) {
    let gate = world.gate(&format!("gate-{name}"));
    let enter: &[&str] = if read.contains("-n") {
        &["--no-enter"]
    } else {
        &[]
    };
    let ok = [OK, enter].concat();
    let window = asks_twice(world, name, read, &gate);
    until_asked(world, name, "OK?");
    send(world, name, &ok, "y").ok();
    for _ in 0..2 {
        let second = send(world, name, &ok, "y");
        assert_eq!(second.code, 1, "{read}: {second}");
    }
    world.until_true("the answer is read", || {
        world.path(&format!("project/ok-{name}")).is_file()
    });
    gate.open();
    until_asked(world, name, "Wipe?");
    let late = send(world, name, &ok, "y");
    assert_eq!(late.code, 1, "{read}: {late}");
    assert!(late.err.contains("asks something else:"), "{late}");
    let explained = world.task(["explain", name, "--json"]);
    let explained: serde_json::Value = serde_json::from_str(explained.ok()).unwrap();
    let prompt = explained["prompt"].as_str().unwrap().to_owned();
    let wipe = [&["--if-prompt", &prompt], enter].concat();
    send(world, name, &wipe, "n").ok();
    world.until_shows(&window, "got <yn>");
}

#[test]
fn of_six_answers_at_once_one_is_typed() {
    let world = World::new();
    let gate = world.gate("gate");
    for (name, read) in [("shown", ""), ("hidden", "-s")] {
        let window = asks_twice(&world, name, read, &gate);
        until_asked(&world, name, "OK?");
        let codes: Vec<i32> = std::thread::scope(|scope| {
            let senders = [(); 6].map(|()| scope.spawn(|| send(&world, name, OK, "y").code));
            senders.map(|sender| sender.join().unwrap()).to_vec()
        });
        let n_typed = codes.iter().filter(|code| **code == 0).count();
        assert_eq!(n_typed, 1, "{codes:?}");
        gate.open();
        until_asked(&world, name, "Wipe?");
        send(&world, name, &[], "n").ok();
        world.until_shows(&window, "got <yn>");
    }
}

#[test]
fn a_question_that_is_asked_again_takes_another_answer() {
    let world = World::new();
    let until_y = |ask: &str, read: &str| {
        format!(
            "{ask} a=; until [ \"$a\" = y ]; do {read}; echo \"$a\" >>read; done; \
             echo 'got it'; exec sleep 1000"
        )
    };
    let silent = until_y("printf 'OK? [y/N] ';", "read -r -s a");
    let hidden = until_y("", "read -r -s -p 'OK? [y/N] ' a; echo Sorry.");
    let shown = until_y("", "read -r -p 'OK? [y/N] ' a");
    let polled = until_y("", "read -r -t 600 -p 'OK? [y/N] ' a");
    let world = &world;
    std::thread::scope(|scope| {
        for (name, line) in [
            ("silent", silent),
            ("hidden", hidden),
            ("shown", shown),
            ("polled", polled),
        ] {
            scope.spawn(move || check_asked_again(world, name, &line));
        }
    });
}

fn check_asked_again(world: &World, name: &str, line: &str) {
    let folder = world.path("project").join(name);
    std::fs::create_dir(&folder).unwrap();
    let line = format!("cd {}; {line}", folder.display());
    let window = world.run(name, &line);
    until_asked(world, name, "OK?");
    for (n, answer) in ["n", "x", "y"].into_iter().enumerate() {
        until_asked(world, name, "OK?");
        send(world, name, OK, answer).ok();
        world.until_true("the answer is read", || {
            let read = std::fs::read_to_string(folder.join("read")).unwrap_or_default();
            read.lines().count() > n
        });
    }
    world.until_shows(&window, "got it");
}

#[test]
fn an_answer_typed_by_hand_is_one() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = asks_twice(&world, "ask", "-s", &gate);
    world.task(["wait", "ask", "--input"]).ok();
    world.tmux(["send-keys", "-t", &window, "y", "Enter"]);
    world.until_true("the answer is read", || {
        world.path("project/ok-ask").is_file()
    });
    let second = send(&world, "ask", OK, "y");
    assert_eq!(second.code, 1, "{second}");
    assert!(second.err.contains("is not asking for input"), "{second}");
    gate.open();
    until_asked(&world, "ask", "Wipe?");
    send(&world, "ask", &[], "n").ok();
    world.until_shows(&window, "got <yn>");
}

#[test]
fn a_secret_that_is_typed_at_a_terminal_is_not_displayed() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "mine", "exec sleep 1000"]);
    let line = "read -r -s -p 'Password: ' x; echo \"got <$x>\"; exec sleep 1000";
    let asking = world.run("ask", line);
    world.task(["wait", "ask", "--input"]).ok();
    let line = format!(
        "trap : INT; '{}' -s work send ask --secret; echo \"code $?\"; \
         case $(stty -a) in *' echo '*) echo restored;; esac; exec sleep 1000",
        World::program().display()
    );
    for (key, code) in [("C-c", "code 130"), ("Enter", "code 0")] {
        let terminal = world.open_window("mine", &[&line]);
        world.until_shows(&terminal, "secret:");
        world.tmux(["send-keys", "-t", &terminal, "-l", "hunter2"]);
        world.tmux(["send-keys", "-t", &terminal, key]);
        world.until_shows(&terminal, "restored");
        let shown = world.tmux(["capture-pane", "-p", "-t", &terminal]);
        assert!(
            shown.contains(code) && !shown.contains("hunter2"),
            "{shown}"
        );
    }
    world.until_shows(&asking, "got <");
    let shown = world.tmux(["capture-pane", "-p", "-t", &asking]);
    assert!(shown.contains("got <hunter2>"), "{shown}");
}

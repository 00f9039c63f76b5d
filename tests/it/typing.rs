//! What is typed into a task arrives whole, or is refused.

use std::fs;
use std::thread;

use crate::support::{Gate, Output, World, argv};

/// Types the whole of an answer, in the way that the options say.
fn send(world: &World, name: &str, options: &[&str], answer: &str) -> Output {
    let send = [&["send", name], options].concat();
    if options.contains(&"--secret") {
        return world.task_reading(&format!("{answer}\n"), send);
    }
    world.task([&send[..], &[answer]].concat())
}

const WAYS: [&[&str]; 3] = [&[], &["--if-prompt", "Delete? [Y/n]"], &["--secret"]];

const ASKS: &str = "read -r -p 'Delete? [Y/n] ' x; echo \"got <$x>\"; exec sleep 1000";

/// Starts a task and waits until it asks. Returns its window.
#[track_caller]
fn asking(world: &World, name: &str, line: &str) -> String {
    let window = world.run(name, line);
    world.task(["wait", name, "--input"]).ok();
    window
}

#[test]
fn an_answer_reaches_a_program_behind_any_mode_of_tmux() {
    let world = &World::new();
    let modes: [&[&str]; 4] = [
        &["clock-mode"],
        &["choose-tree"],
        &["copy-mode"],
        &["clock-mode", "choose-tree", "copy-mode"],
    ];
    thread::scope(|scope| {
        let all = modes
            .iter()
            .flat_map(|modes| WAYS.map(|options| (*modes, options)));
        for (at, (modes, options)) in all.enumerate() {
            scope.spawn(move || {
                let name = format!("ask-{at}");
                let window = asking(world, &name, ASKS);
                for mode in modes {
                    world.tmux([mode, "-t", &window]);
                }
                let count = world.says(&window, "#{pane_in_mode}");
                assert_eq!(count.trim(), modes.len().to_string());
                send(world, &name, options, "nope").ok();
                world.until_shows(&window, "got <nope>");
            });
        }
    });
}

#[test]
fn input_that_tmux_would_drop_is_refused() {
    let world = World::new();
    let window = asking(&world, "ask", ASKS);
    world.tmux(["select-pane", "-d", "-t", &window]);
    for options in WAYS {
        let why = "is switched off in tmux; nothing was typed\nhint: `tmux select-pane -e -t %";
        send(&world, "ask", options, "nope").fails_saying(1, why);
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

/// Starts it. It takes keys when this returns.
#[track_caller]
fn taking_keys(world: &World, name: &str) -> String {
    let window = world.run(name, "python3 keys.py");
    world.until_true(&format!("{name} takes keys"), || {
        let explained = world.explain(name);
        explained["terminal"]["canonical"] == false && explained["asks"] == true
    });
    window
}

#[test]
fn each_key_is_given_when_the_one_before_was_read() {
    let world = World::new();
    world.write("keys.py", KEYS);
    let check = |name: &str, options: &[&str], answer: &str, got: &str| {
        let window = taking_keys(&world, name);
        send(&world, name, options, answer).ok();
        world.until_shows(&window, "end");
        let shown = world.tmux(["capture-pane", "-p", "-J", "-t", &window]);
        assert!(shown.contains(&format!("got {got} end")), "{shown}");
    };
    thread::scope(|scope| {
        for (at, options) in WAYS.into_iter().enumerate() {
            scope.spawn(move || check(&format!("text-{at}"), options, "nope", "'nope'"));
        }
        let keys = ["--key", "Down", "--key", "Escape", "--key", "j", "--key"];
        scope.spawn(move || check("keys", &keys, "Enter", "'\\x1b[B' '\\x1b' 'j'"));
    });
}

#[test]
fn a_line_that_the_terminal_would_cut_is_refused() {
    let world = World::new();
    let line = "stty -echo; read -r -p 'Delete? [Y/n] ' x; echo \"got ${#x} end\"; exec sleep 1000";
    for (at, options) in WAYS.into_iter().enumerate() {
        let name = format!("ask-{at}");
        let window = asking(&world, &name, line);
        let text = "z".repeat(4094);
        for end in ["zz", "\u{e9}"] {
            let refused = send(&world, &name, options, &format!("{text}{end}"));
            let why = "takes lines of at most 4095 bytes, not 4096; nothing was typed";
            refused.fails_saying(1, why);
        }
        send(&world, &name, options, &format!("{text}z")).ok();
        world.until_shows(&window, "got 4095 end");
    }
    world.write(
        "keys.py",
        &KEYS.replace("*map(ascii, keys)", "len(''.join(keys))"),
    );
    let window = taking_keys(&world, "keys");
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
        let window = asking(&world, name, &line);
        let explained = world.explain(name);
        assert_eq!(explained["prompt"], "", "{explained}");
        let answer = |prompt| send(&world, name, &["--if-prompt", prompt], "Ada");
        answer("Name:").fails_with(1);
        answer("").ok();
        world.until_shows(&window, "got <Ada>");
        answer("").fails_with(1);
    }
}

/// A program that asks `OK?` and, when the gate is opened, `Wipe?`, in this way. It asks when this
/// returns.
fn asks_twice(world: &World, name: &str, read: &str, gate: &Gate) -> String {
    let line = format!(
        "read {read} -p 'OK? [y/N] ' a; echo \"$a\" >ok-{name}; {gate}; \
         read {read} -p 'Wipe? [y/N] ' b; echo \"got <$a$b>\"; exec sleep 1000"
    );
    let window = world.run(name, &line);
    until_asked(world, name, "OK?");
    window
}

fn until_asked(world: &World, name: &str, question: &str) {
    let shown = format!("{question} [y/N]\",\"promptKind");
    world.until_true(&format!("{name} asks {question}"), || {
        let explained = world.task(["explain", name, "--json"]);
        explained.ok().contains(&shown)
    });
}

/// Waits until the first answer was read, and lets the program ask the second question.
fn go_on(world: &World, name: &str, gate: &Gate) {
    let file = world.project().join(format!("ok-{name}"));
    world.until_true("the answer is read", || file.is_file());
    gate.open();
    until_asked(world, name, "Wipe?");
}

const OK: &[&str] = &["--if-prompt", "OK? [y/N]"];

#[test]
fn a_question_takes_one_answer() {
    let world = &World::new();
    thread::scope(|scope| {
        let reads = ["", "-s", "-n 1", "-s -n 1", "-t 600", "-s -t 600"];
        for (at, read) in reads.into_iter().enumerate() {
            scope.spawn(move || check_one_answer(world, &format!("ask-{at}"), read));
        }
    });
    // One that is typed by hand is one.
    let gate = world.gate("gate");
    let window = asks_twice(world, "by-hand", "-s", &gate);
    world.tmux(["send-keys", "-t", &window, "y", "Enter"]);
    let file = world.project().join("ok-by-hand");
    world.until_true("the answer is read", || file.is_file());
    send(world, "by-hand", OK, "y").fails_saying(1, "is not asking for input");
    go_on(world, "by-hand", &gate);
    send(world, "by-hand", &[], "n").ok();
    world.until_shows(&window, "got <yn>");
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
    send(world, name, &ok, "y").ok();
    for _ in 0..2 {
        send(world, name, &ok, "y").fails_with(1);
    }
    go_on(world, name, &gate);
    send(world, name, &ok, "y").fails_saying(1, "asks something else:");
    let explained = world.explain(name);
    let prompt = explained["prompt"].as_str().unwrap();
    let wipe = [&["--if-prompt", prompt], enter].concat();
    send(world, name, &wipe, "n").ok();
    world.until_shows(&window, "got <yn>");
}

#[test]
fn of_six_answers_at_once_one_is_typed() {
    let world = World::new();
    let gate = world.gate("gate");
    for (name, read) in [("shown", ""), ("hidden", "-s")] {
        let window = asks_twice(&world, name, read, &gate);
        let codes = thread::scope(|scope| {
            let senders = [(); 6].map(|()| scope.spawn(|| send(&world, name, OK, "y").code));
            senders.map(|sender| sender.join().unwrap())
        });
        let n_typed = codes.iter().filter(|code| **code == 0).count();
        assert_eq!(n_typed, 1, "{codes:?}");
        go_on(&world, name, &gate);
        send(&world, name, &[], "n").ok();
        world.until_shows(&window, "got <yn>");
    }
}

#[test]
fn a_question_that_is_asked_again_takes_another_answer() {
    let world = &World::new();
    thread::scope(|scope| {
        for (name, ask, read) in [
            ("silent", "printf 'OK? [y/N] ';", "read -r -s a"),
            ("hidden", "", "read -r -s -p 'OK? [y/N] ' a; echo Sorry."),
            ("shown", "", "read -r -p 'OK? [y/N] ' a"),
            ("polled", "", "read -r -t 600 -p 'OK? [y/N] ' a"),
        ] {
            let line = format!(
                "cd {name}; {ask} a=; until [ \"$a\" = y ]; do {read}; echo \"$a\" >>read; done; \
                 echo 'got it'; exec sleep 1000"
            );
            scope.spawn(move || check_asked_again(world, name, &line));
        }
    });
}

fn check_asked_again(world: &World, name: &str, line: &str) {
    let folder = world.project().join(name);
    fs::create_dir(&folder).unwrap();
    let window = world.run(name, line);
    for (n, answer) in ["n", "x", "y"].into_iter().enumerate() {
        until_asked(world, name, "OK?");
        send(world, name, OK, answer).ok();
        world.until_true("the answer is read", || {
            let read = fs::read_to_string(folder.join("read")).unwrap_or_default();
            read.lines().count() > n
        });
    }
    world.until_shows(&window, "got it");
}

#[test]
fn a_secret_that_is_typed_at_a_terminal_is_not_displayed() {
    let world = World::new();
    world.tmux(argv("new-session -d -s mine 'exec sleep 1000'"));
    let line = "read -r -s -p 'Password: ' x; echo \"got <$x>\"; exec sleep 1000";
    let asking = asking(&world, "ask", line);
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
        let shown = world.screen(&terminal);
        assert!(
            shown.contains(code) && !shown.contains("hunter2"),
            "{shown}"
        );
    }
    world.until_shows(&asking, "got <hunter2>");
}

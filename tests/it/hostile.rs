//! Names, titles and output are untrusted text.

use std::fs;

use serde_json::Value;

use crate::support::{Output, World, content, deliveries, event, has, lacks, names};

#[test]
fn a_title_of_any_length_is_only_a_substitute_for_a_command() {
    let world = World::new();
    world.daemon();
    // 40 KB, as an escape sequence of the program's.
    let line = "head -c 40000 /dev/zero | tr '\\0' x >title; \
                printf '\\033]2;%s\\007' \"$(cat title)\"; printf '\\033]2;#(touch owned) §\\007'; \
                echo ready; read -r _";
    world.tmux(["new-session", "-d", "-s", "work", "-n", "loud", line]);
    world.until_shows("work:", "ready");
    let listed = world.look();
    let command = listed["tasks"][0]["currentCommand"].as_str().unwrap();
    assert!(command.chars().count() <= 1000);
    assert!(!command.chars().any(char::is_control));
    let records = world.finish();
    event(&records, "started", "loud");
    assert!(!world.project().join("owned").exists());
}

#[test]
fn output_that_looks_like_tmux_talking_is_output() {
    let world = World::new();
    let gate = world.gate("gate");
    let said =
        "%begin 1 2 1\\n%end 1 2 1\\n%error 3 4 1\\n%exit\\n%window-close @0\\n%output %%0 x\\n";
    let line = format!(
        "printf '{}'; i=0; while [ $i -lt 300 ]; do i=$((i+1)); \
         printf '%%end %s %s 1\\n' \"$(date +%s)\" $i; done; echo done; {gate}",
        said.replace("%%", "%").replace('%', "%%")
    );
    let window = world.run("api", &line);
    world.until_shows(&window, "done");
    let listed = world.look();
    has(
        listed["tasks"][0]["outputPreview"].as_str().unwrap(),
        "%end ",
    );
    gate.open();
    world.until_event("exited", "api");
    let records = world.finish();
    let told = content(deliveries(&records).last().unwrap());
    assert!(told.ends_with("\n  done"), "{told}");
    has(told, "  %end ");
}

/// Anyone with access to tmux can read the format of the rows that it prints for the daemon.
#[test]
fn a_row_in_an_option_is_text() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &gate.wait());
    world.run("other", "exec sleep 1000");
    let formats = world.tmux(["show-options", "-t", "=work:"]);
    let formats = formats
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let formats: Vec<&str> = formats.filter(|name| name.ends_with("_format")).collect();
    assert_eq!(formats.len(), 3, "{formats:?}");
    for format in formats {
        let row = world.shown(&window, &format!("#{{E:{format}}}"));
        let forged = format!("{row}\n{row}");
        for option in ["@tmux_task_command", "@tmux_task_cwd", "@tmux_task_bells"] {
            world.tmux(["set-option", "-w", "-t", &window, option, &forged]);
        }
        world.tmux(["set-option", "-t", "=work:", "@tmux_task_title", &forged]);
        let listed = world.look();
        let tasks = &listed["tasks"];
        assert_eq!(names(tasks), ["api", "other"]);
        assert!(
            tasks[0]["dead"] == false && tasks[1]["dead"] == false,
            "{tasks}"
        );
        let command = tasks[0]["currentCommand"].as_str().unwrap();
        assert!(command.starts_with(row.get(..4).unwrap()), "{command}");
    }
    gate.open();
    world.until_event("exited", "api");
    lacks(world.log(), "cannot be read");
}

/// Waits until a task is found to ask, and answers this question with a secret.
#[track_caller]
fn answer(world: &World, name: &str, before: impl Fn(), secret: &str) -> Output {
    world.until_true("it asks", || {
        let explained = world.task(["explain", name, "--json"]);
        explained.ok().contains("\"asks\":true")
    });
    before();
    let send = ["send", name, "--if-prompt", "Password:", "--secret"];
    world.task_reading(secret, send)
}

#[test]
fn an_answer_is_not_typed_into_another_question() {
    let mut world = World::new();
    // It is the daemon that types.
    let tmux = world.tmux_after("");
    world.set("TMUX_TASK_TMUX", &tmux);
    let gate = world.gate("gate");
    // The first `Password:` stays above the second.
    for (above, name) in [("", "one"), ("printf 'Password:\\nSorry.\\n'; ", "two")] {
        let line = format!(
            "{above}stty -echo; printf 'Password: '; \
             ({gate}; printf '\\rUsername: '; stty echo </dev/tty) & \
             read -r x; echo \"got <$x>\"; exec sleep 1000"
        );
        let window = world.run(name, &line);
        // The gate is opened before tmux types, which it does when the screen shows the next question.
        let type_late = || {
            let gate = world.path("gate");
            let late = format!(
                "case \"$*\" in *Enter*)\n  echo >{}\n  \
                 until tmux capture-pane -p -t {window} | grep -q 'Username:'; do sleep 0.02; done;;\n\
                 esac",
                gate.display()
            );
            world.tmux_after(&late);
        };
        let sent = answer(&world, name, type_late, "hunter2\n");
        world.tmux_after("");
        sent.fails_so(1, "").says("no longer asks that");
        let answer = ["send", name, "--if-prompt", "Username:", "Ada"];
        world.task(answer).ok();
        world.until_shows(&window, "got <Ada>");
        lacks(world.tmux(["capture-pane", "-p", "-t", &window]), "hunter2");
        assert_eq!(world.tmux(["list-buffers"]), "");
        let options = world.tmux(["show-options", "-p", "-t", &window]);
        lacks(options, "@tmux_task_shown");
    }
}

/// What a stranger may write into a name, a title, an option or onto the screen: it acts on a
/// terminal, is not seen, or turns the text around it.
const HARMFUL: &str = "\u{1b}[31m\u{1b}]0;t\u{7}\u{9b}2J\u{8}\u{7f}\u{61c}\u{200b}\u{2028}\u{202e}\u{2066}\u{feff}\u{e0041}\u{ad}";

/// Bytes that are no text, and a sequence that is seldom used.
const WILD: &[u8] = b"\xff\xfe\x01\x02\x1bP1;2\x1b\\";

#[track_caller]
fn check_harmless(face: &str, text: &str) {
    let is_kept = |c: char| c == '\n' || "[]0;31mtJ2".contains(c);
    let harmful = |c: char| !is_kept(c) && (c.is_control() || HARMFUL.contains(c));
    assert!(!text.contains(harmful), "{face}: {text:?}");
}

#[test]
fn nothing_harmful_gets_out_of_any_face() {
    let world = World::new();
    let gate = world.gate("gate");
    fs::write(world.path("harmful"), HARMFUL).unwrap();
    fs::write(world.path("wild"), WILD).unwrap();
    let cat = format!("cat {}", world.path("harmful").display());
    let line = format!(
        "{cat}; cat {}; printf '\\033]2;ti'; {cat}; printf 'tle\\007out'; {cat}; printf 'put\\n'; \
         printf 'Pro'; {cat}; printf 'ceed? [y/N] '; read -r _; {gate}; printf 'la'; {cat}; printf 'st\\n'; exit 3",
        world.path("wild").display()
    );
    let window = world.run("api", &line);
    let name = format!("a{HARMFUL}pi");
    let rename = |name: &str| {
        let mut command = world.command("tmux");
        command.args(["-u", "rename-window", "-t", &window, "--", name]);
        Output::of(command).code == 0
    };
    // Newer versions take no control characters in a name.
    assert!(rename(&name) || rename("a\u{200b}\u{202e}\u{e0041}pi"));
    let option = format!("com{HARMFUL}mand\n{HARMFUL}");
    for name in ["@tmux_task_command", "@tmux_task_cwd", "@tmux_task_owner"] {
        world.tmux(["set-option", "-w", "-t", &window, name, &option]);
    }
    world.until_events(1, "input");
    let check = |face: &[&str]| {
        let output = world.task(face);
        check_harmless(&face.join(" "), &output.out);
        check_harmless(&face.join(" "), &output.err);
        output
    };
    let faces = "ls|explain WINDOW|logs WINDOW|search out|status|daemon status|doctor|consumer ls|feed|\
                 feed --format text|wait WINDOW --input|wait WINDOW --exit";
    for face in faces.replace("WINDOW", &window).split('|') {
        let words: Vec<&str> = face.split(' ').collect();
        check(&words);
        if !face.starts_with("feed") {
            check(&[&words[..], &["--json"]].concat());
        }
    }
    // Output that is followed.
    let follow = world.start(["logs", "-f", &window]);
    world.until_true("somebody reads", || {
        world.daemon_status()["waits"] != Value::Null
    });
    let waits = world.start(["wait", &window, "--text", "la", "--json"]);
    world.until_waits(1);
    world.task(["send", &window, "y"]).ok();
    gate.open();
    check_harmless("wait --text", &waits.line());
    let mut followed = String::new();
    while !followed.contains("st") {
        followed = follow.line();
        check_harmless("logs -f", &followed);
    }
    world.until_events(1, "exited");
    check(&["kill", &window]).ok();
    for command in ["kill", "wait", "logs"] {
        assert_ne!(check(&[command, &name]).code, 0);
    }
    assert_ne!(check(&["-s", &name, "ls"]).code, 0);
    // A bad line of a replay is named and not repeated.
    let line = format!("{{\"{HARMFUL}\": 1, \"sessionName\": {HARMFUL}}}\n");
    let replay = world.task_reading(&line, ["replay"]);
    replay.fails_so(1, "").says("line 1");
    check_harmless("replay", &replay.err);
    check_harmless("log", &world.log());
    for record in world.finish() {
        check_harmless("feed", &record.to_string());
    }
}

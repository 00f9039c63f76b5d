//! Names, titles and output are untrusted text.

use std::fs;

use serde_json::Value;

use crate::support::{
    Output, World, check_feed, content, deliveries, event, events_of, has, lacks, names,
};

/// Hostile window names.
const NAMES: [&str; 9] = [
    "§ paragraph 日本 🎉",
    "#{session_name} #(touch owned) #[fg=red]",
    "$(touch owned) `touch owned`",
    "'single' \"double\" \\back",
    "a\tb",
    "-n",
    "@3",
    "{\"json\": [1]}",
    "evil\u{202e}txt",
];

#[test]
fn any_window_name_is_a_label() {
    let world = World::new();
    let gate = world.gate("gate");
    world.run("first", &gate.wait());
    world.until_deliveries(1);
    // Newer versions of tmux refuse control characters in a name, and nothing else.
    let takes = |name: &str, args: &[&str]| {
        let mut command = world.command("tmux");
        command.arg("-u").args(args);
        let output = Output::of(command);
        if output.code != 0 {
            assert!(output.err.starts_with("invalid window name"), "{output}");
            assert!(name.contains(char::is_control), "{output}");
        }
        output.code == 0
    };
    for name in NAMES {
        let window = world.open_window("work", &["exec sleep 1000"]);
        // tmux itself reads formats in a new name, and a doubled `#` as one.
        let literal = name.replace('#', "##").replace("##[", "#[");
        takes(name, &["rename-window", "-t", &window, "--", &literal]);
    }
    let name = "two\nlines";
    let new = ["new-window", "-d", "-t", "work:", "-n", name];
    let new = [&new[..], &["exec sleep 1000"]].concat();
    let n_strange = NAMES.len() + usize::from(takes(name, &new));
    let listed = world.look();
    let tasks = listed["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 1 + n_strange);
    for (task, name) in tasks[1..].iter().zip(NAMES) {
        // What tmux itself made of it.
        let target = task["windowId"].as_str().unwrap();
        let shown = world.shown(target, "#{window_name}");
        let clean = shown.replace('\t', " ").replace('\u{202e}', "");
        assert_eq!(task["windowName"], clean, "{name:?}");
    }
    for task in &tasks[1..] {
        let output = world.task(["kill", task["windowId"].as_str().unwrap()]);
        assert_eq!(output.ok().lines().count(), 1, "{output}");
    }
    let records = world.finish();
    assert_eq!(events_of(&records, "disappeared").len(), n_strange);
    assert!(!world.project().join("owned").exists());
}

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
         printf '%%end %s %s 1\\n' \"$(date +%s)\" $i; done; echo done; {}",
        said.replace("%%", "%").replace('%', "%%"),
        gate.wait()
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

#[test]
fn a_flood_of_output_is_bounded() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = format!(
        "seq -f '%0400.0f' 1 2000; head -c 20000 /dev/zero | tr '\\0' y; echo; {}; exit 1",
        gate.wait()
    );
    let window = world.run("flood", &line);
    world.until_true("the flood is over", || {
        let shown = world.tmux(["capture-pane", "-p", "-t", &window]);
        world.shown(&window, "#{pane_current_command}") == "bash" && shown.contains("yyyy")
    });
    gate.open();
    world.until_event("exited", "flood");
    let records = world.finish();
    let preview = &event(&records, "exited", "flood")["task"]["outputPreview"];
    assert!(preview.as_str().unwrap().lines().count() <= 20);
    let told = content(deliveries(&records).last().unwrap());
    // The last line fills everything that is captured of the pane: both ends of it are cut.
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 3, "{told}");
    assert!(lines[2].starts_with("  …y") && lines[2].ends_with("y…"));
    assert!(told.lines().all(|line| line.chars().count() <= 502));
}

#[test]
fn a_title_for_the_conversation_cannot_forge_lines() {
    let world = World::new();
    world.run_alone("busy", "api", "exec sleep 1000");
    world.run_alone("work", "mine", "exec sleep 1000");
    let title = "one\n- two: 9 active\t§\u{1b}[31m";
    world.tmux(["set-option", "-t", "=busy:", "@tmux_task_title", title]);
    world.daemon();
    let records = world.until_deliveries(1);
    let text = content(&records[0]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
    check_feed(&records);
    assert_eq!(records[0]["events"], Value::Array(Vec::new()));
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

/// Counts of bells, ours and that of pi's helper, count on a window itself alone.
#[test]
fn a_count_of_bells_that_is_no_windows_own_rings_none() {
    let world = World::new();
    world.run("first", "exec sleep 1000");
    for (scope, count) in [
        (&["-g"][..], "3"),
        (&["-gw"], "5"),
        (&["-t", "=work:"], "7"),
        (&["-s"], "9"),
    ] {
        for option in ["@tmux_task_bells", "@pi_tmux_task_bell_count"] {
            world.tmux([&["set-option"], scope, &[option, count]].concat());
        }
        world.look();
    }
    let gate = world.gate("gate");
    world.run("other", "exec sleep 1000");
    let line = format!("{}; printf '\\a'; exec sleep 1000", gate.wait());
    let window = world.run("api", &line);
    world.look();
    gate.open();
    world.until_event("notify", "api");
    let records = world.finish();
    let rung = events_of(&records, "notify");
    assert_eq!(rung.len(), 1, "{rung:?}");
    let rung = event(&records, "notify", "api");
    assert_eq!(
        (&rung["bells"], &rung["task"]["bellCount"]),
        (&1.into(), &1.into())
    );
    let own = world.window_option(&window, "@tmux_task_bells");
    assert_eq!(own, format!("{window} 1"));
}

#[test]
fn tasks_that_print_without_end_delay_no_request() {
    let world = World::new();
    for name in ["one", "two", "three"] {
        world.run(name, "yes");
    }
    world.run("last", "exit 3");
    let records = world.until_event("exited", "last");
    assert_eq!(event(&records, "exited", "last")["task"]["exitCode"], 3);
    lacks(world.log(), "did not answer");
}

/// Makes a tmux that does something before.
fn own_tmux(world: &World, before: &str) -> String {
    let script = format!("#!/bin/sh\n{before}exec tmux \"$@\"\n");
    world.script("own-tmux", &script).display().to_string()
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
    let tmux = own_tmux(&world, "");
    world.set("TMUX_TASK_TMUX", &tmux);
    let gate = world.gate("gate");
    // The first `Password:` stays above the second.
    for (above, name) in [("", "one"), ("printf 'Password:\\nSorry.\\n'; ", "two")] {
        let line = format!(
            "{above}stty -echo; printf 'Password: '; \
             ({}; printf '\\rUsername: '; stty echo </dev/tty) & \
             read -r x; echo \"got <$x>\"; exec sleep 1000",
            gate.wait()
        );
        let window = world.run(name, &line);
        // The gate is opened before tmux types, which it does when the screen shows the next question.
        let type_late = || {
            let gate = world.path("gate");
            let late = format!(
                "case \"$*\" in *Enter*)\n  echo >{}\n  \
                 until tmux capture-pane -p -t {window} | grep -q 'Username:'; do sleep 0.02; done;;\n\
                 esac\n",
                gate.display()
            );
            own_tmux(&world, &late);
        };
        let sent = answer(&world, name, type_late, "hunter2\n");
        own_tmux(&world, "");
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

#[test]
fn an_answer_is_typed_where_the_same_was_asked_before() {
    let world = World::new();
    let line = "stty -echo; for i in 1 2; do printf 'Password: '; read -r x; echo; \
                echo \"Sorry, <$x>.\"; done; exec sleep 1000";
    let window = world.run("su", line);
    for word in ["first", "second"] {
        answer(&world, "su", || (), word).ok();
        world.until_shows(&window, &format!("Sorry, <{word}>."));
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
         printf 'Pro'; {cat}; printf 'ceed? [y/N] '; read -r _; {}; printf 'la'; {cat}; printf 'st\\n'; exit 3",
        world.path("wild").display(),
        gate.wait()
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
    let faces: [&[&str]; 18] = [
        &["ls"],
        &["ls", "--json"],
        &["explain", &window],
        &["explain", &window, "--json"],
        &["logs", &window],
        &["logs", &window, "--json"],
        &["search", "out"],
        &["status"],
        &["status", "--json"],
        &["daemon", "status"],
        &["daemon", "status", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["consumer", "ls"],
        &["feed"],
        &["feed", "--format", "text"],
        &["wait", &window, "--json", "--input"],
        &["wait", &window, "--exit", "--json"],
    ];
    for face in faces {
        check(face);
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
    for args in [
        &["kill", &name][..],
        &["wait", &name],
        &["logs", &name],
        &["-s", &name, "ls"],
    ] {
        assert_ne!(check(args).code, 0);
    }
    check_harmless("log", &world.log());
    for record in world.finish() {
        check_harmless("feed", &record.to_string());
    }
}

#[test]
fn a_bad_line_of_a_replay_is_named_and_not_repeated() {
    let line = format!("{{\"{HARMFUL}\": 1, \"sessionName\": {HARMFUL}}}\n");
    let output = World::new().task_reading(&line, ["replay"]);
    output.fails_so(1, "").says("line 1");
    check_harmless("replay", &output.err);
}

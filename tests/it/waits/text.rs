//! Texts in the output: which ones match, and which never do.

use super::*;

#[test]
fn a_burst_hides_no_line() {
    let world = World::new();
    world.run("base", "exec sleep 1000");
    world.tmux(["set-option", "-t", SESSION, "history-limit", "2000"]);
    let gate = world.gate("go");
    let script = format!(
        "for n in 100 3000 50000; do for i in 1 2 3; do {}; echo \"marker $n $i\"; seq $n; done; \
         done; exec sleep 1000",
        gate.wait()
    );
    let window = world.open_window(SESSION, &["-n", "burst", &script]);
    let limit = ["display-message", "-p", "-t", &window, "#{history_limit}"];
    assert_eq!(world.tmux(limit), "2000");
    for n in [100, 3000, 50000] {
        for i in 1..=3 {
            let marker = format!("marker {n} {i}");
            let waiting = begin(&world, &[&window, "--text", &marker]);
            gate.open();
            let ended = end(waiting);
            ends_with(&ended, 0, "matched");
            assert_eq!(ended.1["line"], marker.as_str());
        }
    }
}

/// A pane that floods its terminal is paused and continued by the daemon and by tmux: a wait that
/// begins meanwhile still gets its output.
#[test]
fn many_waits_that_begin_in_a_flood_each_match() {
    let world = World::new();
    let many = repeated(4);
    let go = world.path("go").display().to_string();
    let script = format!(
        "for i in $(seq {many}); do while [ ! -e {go}$i ]; do seq 1000; done; echo \"marker $i\"; done; \
         exec sleep 1000"
    );
    let window = world.run("flood", &script);
    for i in 1..=many {
        let marker = format!("marker {i}");
        let waiting = begin(&world, &[&window, "--text", &marker]);
        fs::write(format!("{go}{i}"), "").unwrap();
        let ended = end(waiting);
        ends_with(&ended, 0, "matched");
        assert_eq!(ended.1["line"], marker.as_str());
    }
}

/// What was there before the wait never matches, whatever is written after it.
#[test]
fn old_text_never_matches() {
    let cases = [
        ("above", "echo READY; echo x", "echo unrelated", true),
        ("cursor-row", "printf 'READY> '", "echo unrelated", true),
        (
            "below",
            r"printf '\n\nREADY\033[2A\r'",
            r"printf 'a\nb'",
            true,
        ),
        ("scrollback", "echo READY; seq 100", "seq 3", true),
        ("scrolled-away", "echo READY", "seq 100", true),
        (
            "alternate",
            r"printf '\033[?1049h\033[HREADY\033[?1049l'",
            "echo unrelated",
            false,
        ),
        (
            "main-behind",
            r"echo READY; printf '\033[?1049h\033[Hpage'",
            r"printf '\033[?1049l'; echo x",
            false,
        ),
        (
            "shifted",
            r"echo READY; echo x; printf '\033[H'",
            r"printf '\033[L\033[2Mx\n'",
            true,
        ),
        ("wrapped", "printf '%077dREADY' 0", "echo unrelated", true),
        (
            "tabs",
            r"printf 'x\tREADY\n\ty\tREADY '",
            "echo unrelated",
            true,
        ),
    ];
    let world = World::new();
    for (name, before, after, stood) in cases {
        let before = format!("{before}; printf '\\033]0;shown\\007'");
        let after = format!("{after}; echo; echo END OF STORY");
        let (window, go_on) = steps(&world, name, &[&before, &after]);
        // The title comes after the text.
        world.until_true("it is written", || {
            world.tmux(["display-message", "-p", "-t", &window, "#{pane_title}"]) == "shown"
        });
        let waiting = begin(&world, &[name, "--text", "READY", "--stop", "END OF"]);
        go_on();
        let ended = end(waiting);
        let (code, result) = &ended;
        assert_eq!(
            (*code, &result["outcome"]),
            (5, &"stopped".into()),
            "{name}: {result}"
        );
        assert_eq!(result["matchedAtEntry"], stood, "{name}: {result}");
        assert_eq!(result["sawNewOutput"], true, "{name}");
        assert_eq!(result["condition"], "stop", "{name}");
        assert_eq!(result["line"], "END OF STORY", "{name}");
    }
}

/// However it comes, it is found.
#[test]
fn new_text_matches_as_a_person_reads_it() {
    let progress = r"for i in $(seq 1000); do printf '\r%s%%' $i; done; printf '\rdone'";
    // What is there before, what is written, the text, the line.
    let cases = [
        ("plain", "true", "echo READY", "READY", "READY"),
        (
            "cursor-row",
            "printf '$ '",
            "printf READY",
            "READY",
            "$ READY",
        ),
        ("partly-old", "printf 'REA'", "printf DY", "READY", "READY"),
        ("wrap", "true", "printf '%078dREADY' 0", "0READY", ""),
        (
            "wrap-at-entry",
            "printf '%078dRE' 0",
            "printf 'ADY'",
            "0READY",
            "",
        ),
        (
            "tabs",
            r"printf 'a\tb\t'",
            r"printf 'c\tREADY'",
            "READY",
            "a       b       c       READY",
        ),
        (
            "colour",
            "true",
            r"printf 'RE\033[31mAD\033[1;4mY\033[m\n'",
            "READY",
            "READY",
        ),
        (
            "utf8-cut",
            "true",
            r"printf '\342\202'; printf '\254 READY'",
            "€ READY",
            "€ READY",
        ),
        (
            "wide",
            "printf '日本> '",
            "printf READY",
            "READY",
            "日本> READY",
        ),
        ("progress", "true", progress, "done", "done%"),
        (
            "backspace",
            "true",
            r"printf 'RAE\b\bEADY\n'",
            "READY",
            "READY",
        ),
        (
            "erased-at-once",
            "true",
            r"printf 'READY\r\033[Kgone\n'",
            "READY",
            "READY",
        ),
        (
            "repainted",
            "echo READY",
            r"printf '\033[HREADY'",
            "READY",
            "READY",
        ),
        (
            "alternate",
            r"printf '\033[?1049h'",
            r"printf '\033[5;5HREADY'",
            "READY",
            "",
        ),
    ];
    let world = World::new();
    for (name, before, written, text, line) in cases {
        let before = format!("{before}; printf '\\033]0;shown\\007'");
        let (window, go_on) = steps(&world, name, &[&before, written]);
        world.until_true("it is written", || {
            world.tmux(["display-message", "-p", "-t", &window, "#{pane_title}"]) == "shown"
        });
        let waiting = begin(&world, &[name, "--text", text]);
        go_on();
        let ended = end(waiting);
        let (code, result) = &ended;
        assert_eq!(
            (*code, &result["outcome"]),
            (0, &"matched".into()),
            "{name}: {result}"
        );
        if !line.is_empty() {
            assert_eq!(result["line"], line, "{name}");
        }
        assert_eq!(result["matchedIndex"], 0, "{name}");
        assert_eq!(result["alternateOn"], name == "alternate", "{name}");
    }
}

#[test]
fn one_quiet_line_is_found_each_time() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("while {}; do printf ' READY'; done", gate.wait());
    world.run("api", &line);
    for _ in 0..10 {
        let waiting = begin(&world, &["api", "--text", "READY"]);
        gate.open();
        ends_with(&end(waiting), 0, "matched");
    }
}

#[test]
fn a_line_written_in_two_pieces_is_one() {
    let world = World::new();
    let (window, go_on) = steps(&world, "api", &["true", "printf REA", "printf DY"]);
    let whole = begin(&world, &["api", "--text", "READY"]);
    let part = begin(&world, &["api", "--text", "REA"]);
    go_on();
    ends_with(&end(part), 0, "matched");
    world.until_shows(&window, "REA");
    go_on();
    ends_with(&end(whole), 0, "matched");
}

/// What a full-screen program had covered is read when it leaves: a line that it interrupted is one
/// line.
#[test]
fn the_screen_behind_a_full_screen_program_is_known_when_that_leaves() {
    let world = World::new();
    let (window, go_on) = steps(
        &world,
        "api",
        &[
            r"printf 'READY '; printf '\033[?1049h\033[Hpage'",
            r"printf '\033[?1049l'",
            r"printf 'STEADY\n'",
        ],
    );
    world.until_shows(&window, "page");
    let waiting = begin(&world, &["api", "--text", "READY STEADY"]);
    go_on();
    world.until_shows(&window, "READY");
    // By a look after that at the latest.
    world.look();
    go_on();
    ends_with(&end(waiting), 0, "matched");
}

#[test]
fn a_pattern_that_no_line_can_match_is_refused() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    for args in [
        &["wait", "api", "--text", "a\nb"][..],
        &["wait", "api", "--stop", "a\tb", "--timeout", "1s"],
        &["wait", "api", "--text", r"done\n", "--regex"],
        &["run", "api", "--until", "a\nb", "--", "true"],
        &["search", "a\nb"],
    ] {
        let output = world.task(args);
        assert_eq!(output.code, 2, "{args:?}: {output}");
        assert!(output.err.contains("can never match"), "{args:?}: {output}");
    }
    for args in [
        &["wait", "api", "--text", ""][..],
        &["run", "api", "--until", "", "--", "true"],
        &["search", ""],
    ] {
        let output = world.task(args);
        assert_eq!(output.code, 2, "{args:?}: {output}");
        let why = "an empty text matches everything";
        assert!(output.err.contains(why), "{args:?}: {output}");
    }
    let output = world.task(["wait", "api", "--text", "(", "--regex"]);
    assert_eq!(output.code, 2, "{output}");
    assert!(output.err.contains("unclosed group"), "{output}");
    // What makes no sense starts nothing.
    assert_eq!(world.look()["tasks"][0]["run"], 1);
}

#[test]
fn lines_that_are_drawn_with_letters_are_read_as_they_are_drawn() {
    let world = World::new();
    let (_, go_on) = steps(&world, "api", &["true", r"printf '\033(0lqk\033(B ok\n'"]);
    let waiting = begin(&world, &["api", "--text", "┌─┐ ok"]);
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 0, "matched");
    assert_eq!(ended.1["line"], "┌─┐ ok");
}

#[test]
fn patterns_are_literal_or_regular_and_in_any_case_if_asked() {
    let world = World::new();
    let script = ["true", "echo 'abc'", "echo 'A.C 42ms'"];
    let (_, go_on) = steps(&world, "api", &script);
    let literal = begin(&world, &["api", "--text", "a.c", "-i"]);
    let regex = begin(&world, &["api", "--regex", "--text", r"^a.c$"]);
    let any_case = begin(&world, &["api", "--regex", "-i", "--text", r"^a\.c \d+ms$"]);
    let exact = begin(&world, &["api", "--text", "a.c", "--exit"]);
    go_on();
    ends_with(&end(regex), 0, "matched");
    assert_eq!(waits(&world), 3);
    go_on();
    ends_with(&end(any_case), 0, "matched");
    ends_with(&end(literal), 0, "matched");
    assert_eq!(waits(&world), 1);
    drop(exact);
    let output = world.task(["wait", "api", "--regex", "--text", "("]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    let output = world.task(["wait", "api", "--text", ""]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
}

#[test]
fn a_window_may_change_its_size_under_a_wait() {
    let world = World::new();
    let before = "seq 50; printf '%070dREADY> ' 0";
    let (window, go_on) = steps(&world, "api", &[before, "echo unrelated; echo READY now"]);
    world.until_shows(&window, "READY>");
    let waiting = begin(&world, &["api", "--text", "READY"]);
    for (width, height) in [("40", "10"), ("120", "40"), ("33", "7")] {
        world.tmux(["resize-window", "-t", &window, "-x", width, "-y", height]);
    }
    go_on();
    let ended = end(waiting);
    ends_with(&ended, 0, "matched");
    assert_eq!(ended.1["line"], "READY now");
}

#[test]
fn a_string_without_an_end_hides_nothing_for_ever() {
    let world = World::new();
    let (_, go_on) = steps(
        &world,
        "api",
        &["true", r"printf '\033]0;no end'", "echo READY"],
    );
    let waiting = begin(&world, &["api", "--text", "READY"]);
    let change = begin(&world, &["api", "--change"]);
    go_on();
    ends_with(&end(change), 0, "changed");
    // tmux gives up after five seconds, too.
    ends_with(&wait(&world, &["api", "--idle", "5500ms"]), 0, "idle");
    go_on();
    ends_with(&end(waiting), 0, "matched");
}

#[test]
fn what_is_typed_is_written_too() {
    let world = World::new();
    let window = world.run("api", "exec cat");
    let waiting = begin(&world, &["api", "--text", "hello there"]);
    world.tmux(["send-keys", "-t", &window, "hello there", "Enter"]);
    ends_with(&end(waiting), 0, "matched");
}

#[test]
fn what_a_wait_looks_for_is_bounded() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let many = |n: usize| -> Vec<String> {
        let texts = (0..n).flat_map(|i| ["--text".to_owned(), format!("text {i}")]);
        ["wait", "api", "--timeout", "10ms"]
            .map(ToOwned::to_owned)
            .into_iter()
            .chain(texts)
            .collect()
    };
    let refused = world.task(many(65));
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.err.contains("at most 64 texts, found 65"),
        "{refused}"
    );
    assert_eq!(world.task(many(64)).code, 4);
    let long = "x".repeat(8193);
    let refused = world.task(["wait", "api", "--stop", &long]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(
        refused.err.contains("at most 8192 bytes, found 8193"),
        "{refused}"
    );
}

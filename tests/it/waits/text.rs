//! Texts in the output: which ones match, and which never do.

use super::*;
use crate::support::rows;

#[test]
fn a_burst_hides_no_line() {
    let world = World::new();
    world.run("base", "exec sleep 1000");
    world.tmux(argv("set-option -t work history-limit 2000"));
    let gate = world.gate("go");
    let script = format!(
        "for n in 100 3000 50000; do for i in 1 2 3; do {gate}; echo \"marker $n $i\"; seq $n; done; \
         done; exec sleep 1000"
    );
    let window = world.open_window(SESSION, &["-n", "burst", &script]);
    assert_eq!(world.says(&window, "#{history_limit}"), "2000");
    for n in [100, 3000, 50000] {
        for i in 1..=3 {
            let marker = format!("marker {n} {i}");
            let waiting = begin(&world, &[&window, "--text", &marker]);
            gate.open();
            let result = ends_with(end(waiting), 0, "matched");
            assert_eq!(result["line"], *marker);
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
        let result = ends_with(end(waiting), 0, "matched");
        assert_eq!(result["line"], *marker);
    }
}

/// Starts a task that writes this, and then that when the gate is opened. The first is on the screen.
#[track_caller]
fn written(world: &World, name: &str, before: &str, after: &str) -> impl Fn() + use<> {
    let before = format!("{before}; printf '\\033]0;shown\\007'");
    let (window, go_on) = steps(world, name, &[&before, after]);
    // The title comes after the text.
    let title = || world.says(&window, "#{pane_title}");
    world.until_true("it is written", || title() == "shown");
    go_on
}

/// What was there before the wait never matches, whatever is written after it.
#[test]
fn old_text_never_matches() {
    const CASES: &str = r"
above => echo READY; echo x => echo unrelated
cursor-row => printf 'READY> ' => echo unrelated
below => printf '\n\nREADY\033[2A\r' => printf 'a\nb'
scrollback => echo READY; seq 100 => seq 3
scrolled-away => echo READY => seq 100
alternate => printf '\033[?1049h\033[HREADY\033[?1049l' => echo unrelated
main-behind => echo READY; printf '\033[?1049h\033[Hpage' => printf '\033[?1049l'; echo x
shifted => echo READY; echo x; printf '\033[H' => printf '\033[L\033[2Mx\n'
wrapped => printf '%077dREADY' 0 => echo unrelated
tabs => printf 'x\tREADY\n\ty\tREADY ' => echo unrelated
";
    let world = World::new();
    for [name, before, after] in rows(CASES) {
        let after = format!("{after}; echo; echo END OF STORY");
        let go_on = written(&world, name, before, &after);
        let waiting = begin(&world, &[name, "--text", "READY", "--stop", "END OF"]);
        go_on();
        let result = ends_with(end(waiting), 5, "stopped");
        let stood = !["alternate", "main-behind"].contains(&name);
        let fields = "matchedAtEntry sawNewOutput condition line";
        has_fields(
            &result,
            fields,
            json!([stood, true, "stop", "END OF STORY"]),
        );
    }
}

/// However it comes, it is found: what is written before, what then, the text, the line (if it is not
/// all of the screen).
#[test]
fn new_text_matches_as_a_person_reads_it() {
    const CASES: &str = r"
plain => true => echo READY => READY => READY
cursor-row => printf '$ ' => printf READY => READY => $ READY
partly-old => printf 'REA' => printf DY => READY => READY
wrap => true => printf '%078dREADY' 0 => 0READY => -
wrap-at-entry => printf '%078dRE' 0 => printf 'ADY' => 0READY => -
tabs => printf 'a\tb\t' => printf 'c\tREADY' => READY => a       b       c       READY
colour => true => printf 'RE\033[31mAD\033[1;4mY\033[m\n' => READY => READY
utf8-cut => true => printf '\342\202'; printf '\254 READY' => € READY => € READY
wide => printf '日本> ' => printf READY => READY => 日本> READY
progress => true => for i in $(seq 1000); do printf '\r%s%%' $i; done; printf '\rdone' => done => done%
backspace => true => printf 'RAE\b\bEADY\n' => READY => READY
erased-at-once => true => printf 'READY\r\033[Kgone\n' => READY => READY
repainted => echo READY => printf '\033[HREADY' => READY => READY
alternate => printf '\033[?1049h' => printf '\033[5;5HREADY' => READY => -
letters => true => printf '\033(0lqk\033(B ok\n' => ┌─┐ ok => ┌─┐ ok
";
    let world = World::new();
    for [name, before, after, text, line] in rows(CASES) {
        let go_on = written(&world, name, before, after);
        let waiting = begin(&world, &[name, "--text", text]);
        go_on();
        let result = ends_with(end(waiting), 0, "matched");
        assert!(line == "-" || result["line"] == line, "{name}: {result}");
        assert_eq!(result["matchedIndex"], 0, "{name}");
        assert_eq!(result["alternateOn"], name == "alternate", "{name}");
    }
}

#[test]
fn one_quiet_line_is_found_each_time_and_what_is_typed_is_written_too() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!("while {gate}; do printf ' READY'; done");
    world.run("api", &line);
    for _ in 0..10 {
        let waiting = begin(&world, &["api", "--text", "READY"]);
        gate.open();
        ends_with(end(waiting), 0, "matched");
    }
    let window = world.run("cat", "exec cat");
    let waiting = begin(&world, &["cat", "--text", "hello there"]);
    world.tmux(["send-keys", "-t", &window, "hello there", "Enter"]);
    ends_with(end(waiting), 0, "matched");
}

/// What a full-screen program had covered is read when it leaves: a line that it interrupted is one
/// line.
#[test]
fn the_screen_behind_a_full_screen_program_is_known_when_that_leaves() {
    let world = World::new();
    let page = r"printf 'READY '; printf '\033[?1049h\033[Hpage'";
    let leaves = r"printf '\033[?1049l'";
    let (window, go_on) = steps(&world, "api", &[page, leaves, r"printf 'STEADY\n'"]);
    world.until_shows(&window, "page");
    let waiting = begin(&world, &["api", "--text", "READY STEADY"]);
    go_on();
    world.until_shows(&window, "READY");
    // By a look after that at the latest.
    world.look();
    go_on();
    ends_with(end(waiting), 0, "matched");
}

#[test]
fn a_pattern_that_no_line_can_match_or_that_is_too_much_is_refused() {
    let world = World::new();
    world.run("api", "exec sleep 1000");
    let (never, empty) = ("can never match", "an empty text matches everything");
    for (args, why) in [
        ("wait api --text 'a\nb'", never),
        ("wait api --stop 'a\tb' --timeout 1s", never),
        ("run api --until 'a\nb' -- true", never),
        ("run api --notify-on 'a\nb' -- true", never),
        ("search ''", empty),
        ("wait api --text ( --regex", "unclosed group"),
        (
            &format!("run api --notify-on {} -- true", "x".repeat(1025)),
            "1024 bytes",
        ),
        (
            &format!("wait api --stop {}", "x".repeat(8193)),
            "at most 8192 bytes, found 8193",
        ),
        (
            &format!("wait api {}", "--text x ".repeat(65)),
            "at most 64 texts, found 65",
        ),
    ] {
        world.call(args).fails_saying(2, why);
    }
    let most = format!("wait api --timeout 10ms {}", "--text x ".repeat(64));
    world.call(&most).fails_with(4);
    // What makes no sense starts nothing.
    assert_eq!(world.listed("api")["run"], 1);
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
    ends_with(end(regex), 0, "matched");
    assert_eq!(waits(&world), 3);
    go_on();
    ends_with(end(any_case), 0, "matched");
    ends_with(end(literal), 0, "matched");
    assert_eq!(waits(&world), 1);
    drop(exact);
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
    let result = ends_with(end(waiting), 0, "matched");
    assert_eq!(result["line"], "READY now");
}

#[test]
fn a_string_without_an_end_hides_nothing_for_ever() {
    let world = World::new();
    let script = ["true", r"printf '\033]0;no end'", "echo READY"];
    let (_, go_on) = steps(&world, "api", &script);
    let waiting = begin(&world, &["api", "--text", "READY"]);
    let change = begin(&world, &["api", "--change"]);
    go_on();
    ends_with(end(change), 0, "changed");
    // tmux gives up after five seconds, too.
    ends_with(wait(&world, &["api", "--idle", "5500ms"]), 0, "idle");
    go_on();
    ends_with(end(waiting), 0, "matched");
}

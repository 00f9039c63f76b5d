use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::test_notation::{at, describe, expectation, snapshot, stories, task};
use crate::model::{EventKind, Foreground, PromptKind, ReadCall, TtyUse};

/// A look, and what a program does with the terminal of `@1`, if that is known: it `reads`, `polls`, or
/// `works` on, or is `hidden`, in lines or `keys`; it `hides` what is typed; `3/50` is its third call of
/// `read` after 50 bytes, `7` so many reads.
fn look_of(text: &str) -> Snapshot {
    let mut evidence = TtyEvidence {
        echo: Some(true),
        canonical: Some(true),
        ..TtyEvidence::default()
    };
    let mut rest = text;
    while let Some((word, more)) = rest.split_once(' ') {
        match word {
            "reads" => evidence.reader = TtyUse::Reading,
            "works" => evidence.reader = TtyUse::Elsewhere,
            "hidden" => evidence.reader = TtyUse::Unknown,
            "polls" => {
                evidence.reader = TtyUse::Polling;
                evidence.foreground = Foreground::Command;
            }
            "keys" => (evidence.canonical, evidence.echo) = (Some(false), Some(false)),
            "hides" => evidence.echo = Some(false),
            call if rest != text && call.contains('/') => {
                let (switches, bytes) = call.split_once('/').unwrap();
                evidence.n_reads = bytes.parse().ok();
                evidence.read = Some(ReadCall {
                    thread: 7,
                    switches: switches.parse().unwrap(),
                    bytes: evidence.n_reads,
                });
            }
            number if rest != text && number.parse::<u64>().is_ok() => {
                evidence.n_reads = number.parse().ok();
            }
            _ => break,
        }
        rest = more;
    }
    let mut look = snapshot(rest);
    if rest != text {
        look.terminals.insert(WindowId(1), evidence.into());
    }
    look
}

/// Stories of looks with their events: `look => event; event`, where `2x look` are two, and two equal ones
/// are enough.
fn check_all(text: &str) {
    check_every(100, 0, text);
}

/// The same for looks so many milliseconds apart, of which a screen has to be quiet for some.
fn check_every(every: u64, quiet: u64, text: &str) {
    let [every, quiet] = [every, quiet].map(Duration::from_millis);
    for (heading, lines) in stories(text) {
        let (mut now, mut episodes) = (at(0), Episodes::default());
        for line in lines {
            let (look, expected) = expectation(&line);
            let (times, look) = match look.split_once("x ") {
                Some((times, rest)) if times.parse::<u32>().is_ok() => (times, rest),
                _ => ("1", look),
            };
            let mut reported = Vec::new();
            for _ in 0..times.parse().unwrap() {
                now = now.after(every);
                let events = episodes.admit(&look_of(look), quiet, now);
                reported.extend(events.iter().map(|e| describe(e).trim_end().to_owned()));
            }
            assert_eq!(reported, expected, "{heading}: {line}");
        }
    }
}

/// The events of these looks, one after the other.
fn events_of(every: u64, quiet: u64, looks: impl IntoIterator<Item = Snapshot>) -> Vec<String> {
    let [every, quiet] = [every, quiet].map(Duration::from_millis);
    let (mut now, mut episodes) = (at(0), Episodes::default());
    let events = looks.into_iter().flat_map(|look| {
        now = now.after(every);
        episodes.admit(&look, quiet, now)
    });
    events.map(|event| describe(&event)).collect()
}

const ASKS: &str = "@1 a running : Go? [y/n]";
const REPORTED: &[&str] = &["input @1: Go? [y/n]"];
const RESOLVED: &[&str] = &["resolved @1: Go? [y/n]"];

#[test]
fn each_look_has_these_events() {
    check_all(
        r"
        ## a prompt is reported once when two looks agree
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]
        2x @1 a running : Go? [y/n]

        =>
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]

        2x @1 a running : working

        2x @1 a running : Password: => input @1!: Password:

        ## output that moves is not waiting
        @1 a running : 1|Go? [y/n]
        @1 a running : 2|Go? [y/n]
        2x @1 a running : 3|Go? [y/n] => input @1: Go? [y/n]

        # Two looks in a row, not any two looks.
        @1 a running : Go? [y/n]
        @1 a running : x
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]

        @1 a running : Go? [y/n]
        =>
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]

        @1 a running : Go? [y/n]
        @1 a unknown
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]

        @1 a running : Go? [y/n]
        2x @1 a running : Continue? => input @1: Continue?

        ## only a live pane whose state is known waits
        3x @1 a dead 0 : Go? [y/n]

        3x @1 a unknown : Go? [y/n]

        3x @1 a running nopane : Go? [y/n]

        ## where the cursor is is no output
        @1 a running : Go? [y/n]
        @1 a running cursor=10,0 : Go? [y/n] => input @1: Go? [y/n]

        ## rows that are printed again and again do not wait
        @1 a running cursor=10,0 : Go? [y/n]
        @1 a running cursor=3,0 : Go? [y/n]
        @1 a running cursor=10,0 : Go? [y/n]
        @1 a running cursor=0,0 : Go? [y/n]

        ## an episode ends with the run
        2x @1#1 a running : Go? [y/n] => input @1#1: Go? [y/n]
        2x @1#2 a running : Go? [y/n] => resolved @1#1: Go? [y/n]; input @1#2: Go? [y/n]

        @1#1 a running : Go? [y/n]
        2x @1#2 a running : Go? [y/n] => input @1#2: Go? [y/n]

        2x @1#1 a running : Go? [y/n] => input @1#1: Go? [y/n]
        @1#2 a unknown => resolved @1#1: Go? [y/n]

        # Counting began: the run continues.
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]
        2x @1#1 a running : Go? [y/n]

        ## a prompt that is printed again is another episode
        2x @1 a running : Go? [y/n] => input @1: Go? [y/n]
        2x @1 a running : Go? [y/n] y|done|Go? [y/n] => resolved @1: Go? [y/n]; input @1: Go? [y/n]

        2x @1 a running : sudo|Password: => input @1!: Password:
        2x @1 a running : sudo|Password:|Sorry|Password: => resolved @1!: Password:; input @1!: Password:

        ## a clock elsewhere neither ends nor restarts an episode
        2x @1 a running : 12:00|Go? [y/n] => input @1: Go? [y/n]
        2x @1 a running : 12:01|Go? [y/n]
        @1 a running : 12:02|Go? [y/n]|12:02
        @1 a running : 12:02|Go? [y/n]|12:03

        2x @1 a running : a|b|c|Go? [y/n] => input @1: Go? [y/n]
        @1 a running : b|c|Go? [y/n]|noise
        @1 a running : c|Go? [y/n]|noise|noise

        2x @1 a running alt : 1|2|3|4|5|Go? [y/n] => input @1: Go? [y/n]
        @1 a running alt : a|b|c|d|e|Go? [y/n]

        ## a prompt that counts down is reported once
        2x @1 a running : up|Go in 10 s? [y/n] => input @1: Go in 10 s? [y/n]
        2x @1 a running : up|Go in 9 s? [y/n]
        2x @1 a running : up|Go in 8 s? [y/n]
        @1 a running : up|gone => resolved @1: Go in 10 s? [y/n]

        2x @1 a running : Question 1 of 5? => input @1: Question 1 of 5?
        2x @1 a running : Question 2 of 5? => resolved @1: Question 1 of 5?; input @1: Question 2 of 5?

        ## a prompt with an animated part is reported once
        2x @1 a running : up|/ Go? [y/n] => input @1: / Go? [y/n]
        2x @1 a running : up|- Go? [y/n]
        # Another row is drawn again, too.
        2x @1 a running : ok|\ Go? [y/n]
        # It was answered.
        2x @1 a running : ok|- Go? [y/n] n|/ Go? [y/n] => resolved @1: / Go? [y/n]; input @1: / Go? [y/n]

        2x @1 a running : 0:01 passed|Go? (9s) => input @1: Go? (9s)
        2x @1 a running : 0:02 passed|Go? (10s)
        2x @1 a running : 0:03 passed|Run? (11s) => resolved @1: Go? (9s); input @1: Run? (11s)

        ## each window has its own episodes
        2x @1 a running : Go? [y/n]; @2 b running : Go? [y/n]
            => input @1: Go? [y/n]; input @2: Go? [y/n]
        @1 a running : Go? [y/n]; @2 b running : ok => resolved @2: Go? [y/n]
        2x @1 a running : Go? [y/n]; @2 b running : Go? [y/n] => input @2: Go? [y/n]
        ",
    );
}

#[test]
fn quiet_is_longer_than_two_looks_where_looks_are_close() {
    check_every(
        100,
        250,
        "
        4x @1 a running : Go? [y/n] => input @1: Go? [y/n]

        2x @1 a running : Go? [y/n]
        4x @1 a running : x|Go? [y/n] => input @1: Go? [y/n]
        ",
    );
}

#[test]
fn the_next_look_is_due_when_it_can_report() {
    let quiet = Duration::from_millis(200);
    let now = at(0);
    let mut episodes = Episodes::default();
    assert_eq!(episodes.next_deadline(quiet), None);
    assert_eq!(episodes.admit(&snapshot(ASKS), quiet, now), []);
    let due = now.after(quiet);
    assert_eq!(episodes.next_deadline(quiet), Some(due.mono));
    assert!(!episodes.is_waiting(WindowId(1)));
    assert_eq!(episodes.admit(&snapshot(ASKS), quiet, due).len(), 1);
    assert_eq!(episodes.next_deadline(quiet), None);
    assert!(episodes.is_waiting(WindowId(1)));
    let prompt = episodes.prompt_of(WindowId(1)).map(|prompt| &*prompt.text);
    assert_eq!(prompt, Some("Go? [y/n]"));
}

#[test]
fn an_answer_counts_as_taken_for_a_while() {
    let quiet = Duration::ZERO;
    let mut now = at(0);
    let mut episodes = Episodes::default();
    for _ in 0..2 {
        episodes.admit(&snapshot(ASKS), quiet, now);
    }
    let is_unanswered = |episodes: &Episodes| episodes.unanswered_prompt_of(WindowId(1)).is_some();
    assert!(is_unanswered(&episodes));
    episodes.note_answer(WindowId(1), now.mono);
    let due = now.after(ANSWER_TAKES);
    for at in [now, now.after(ANSWER_TAKES / 2)] {
        now = at;
        assert_eq!(episodes.admit(&snapshot(ASKS), quiet, now), []);
        assert!(!is_unanswered(&episodes) && episodes.is_waiting(WindowId(1)));
        assert_eq!(episodes.next_deadline(quiet), Some(due.mono));
    }
    // The program has not taken it.
    assert_eq!(episodes.admit(&snapshot(ASKS), quiet, due), []);
    assert!(is_unanswered(&episodes));
    assert_eq!(episodes.next_deadline(quiet), None);
    // The next question is another one.
    episodes.note_answer(WindowId(1), due.mono);
    let next = snapshot("@1 a running : Go? [y/n] y|Where to?");
    for _ in 0..2 {
        episodes.admit(&next, quiet, due);
    }
    assert!(is_unanswered(&episodes));
}

#[test]
fn an_episode_ends_with_the_prompt() {
    for then in [
        "@1 a running : working => resolved @1: Go? [y/n]",
        "@1 a running => resolved @1: Go? [y/n]",
        "@1 a dead 0 : Go? [y/n] => resolved @1: Go? [y/n]",
        "@1 a dead 0 nopane : Go? [y/n] => resolved @1: Go? [y/n]",
        "missing => resolved @1: Go? [y/n]",
        "@2 a running : Go? [y/n] => resolved @1: Go? [y/n]",
        "@1 a running : Continue? => resolved @1: Go? [y/n]
         @1 a running : Continue? => input @1: Continue?",
        "@1 a running : ok => resolved @1: Go? [y/n]
         @1 a running : Go? [y/n]
         @1 a running : Go? [y/n] => input @1: Go? [y/n]",
        // A look that does not know the pane ends nothing.
        "BLIND\n@1 a running : Go? [y/n]\n@1 a running : Go? [y/n]",
        "BLIND\n@1 a running : ok => resolved @1: Go? [y/n]",
        "BLIND\n@1 a dead 0 => resolved @1: Go? [y/n]",
    ] {
        for blind in ["@1 a unknown", "@1 a running nopane"] {
            let then = then.replace("BLIND", blind);
            let lines = then.lines().map(str::trim);
            let asked = [ASKS, "@1 a running : Go? [y/n] => input @1: Go? [y/n]"];
            let story: Vec<&str> = asked.into_iter().chain(lines).collect();
            check_all(&story.join("\n"));
        }
    }
}

#[test]
fn a_screen_that_is_never_unchanged_asks_only_if_input_is_taken() {
    let check = |texts: [&str; 2], does: &str, expected: &[&str]| {
        let looks = texts.iter().cycle().take(12).map(|text| {
            let cursor = text.len();
            look_of(&format!("{does}@1 a running cursor={cursor},0 : {text}"))
        });
        assert_eq!(events_of(400, 200, looks), expected, "{texts:?} {does}");
    };
    for (does, expected) in [
        ("polls keys ", &["input @1: / Go? [y/n]"][..]),
        ("reads keys ", &["input @1: / Go? [y/n]"]),
        ("works keys ", &[]),
        ("hidden keys ", &[]),
        ("", &[]),
    ] {
        check(["/ Go? [y/n]", "- Go? [y/n]"], does, expected);
    }
    for works in [
        ["/ Go in 1%? [y/n]", "- Go in 2%? [y/n]"],
        ["/ Building", "- Building"],
        ["/ Building [=>]", "- Building [==>]"],
        ["/ Press any key to cancel", "- Press any key to cancel"],
        ["Loading: /", "Loading: -"],
    ] {
        check(works, "polls keys ", &[]);
    }
}

#[test]
fn a_resolved_prompt_is_reported_as_last_observed() {
    let mut episodes = Episodes::default();
    let now = at(0);
    for look in [ASKS, ASKS, "@1 renamed unknown bells=3", "missing"] {
        let events = episodes.admit(&snapshot(look), Duration::ZERO, now);
        if look == "missing" {
            assert_eq!(events[0].task.name, "renamed");
            assert_eq!(events[0].task.bell_count, Some(3));
            assert_eq!(*events[0].task.screen.rows, ["Go? [y/n]"]);
        }
    }
}

/// Episodes that go on from this task and its question.
fn restored(look: &str, text: &str, kind: PromptKind) -> Episodes {
    let mut episodes = Episodes::default();
    let prompt = Prompt {
        text: text.to_owned(),
        kind,
        secret: false,
    };
    episodes.restore(Task::clone(&snapshot(look).tasks[&WindowId(1)]), prompt);
    episodes
}

#[test]
fn an_episode_outlives_a_restart() {
    let restored = || restored(ASKS, "Go? [y/n]", PromptKind::Confirm);
    // The events of looks, a second apart, with evidence or without.
    let then = |does: &str, looks: &[&str]| -> Vec<String> {
        let (mut now, mut episodes) = (at(0), restored());
        let admitted = looks.iter().flat_map(|look| {
            now = now.after(Duration::from_secs(1));
            episodes.admit(&look_of(&format!("{does}{look}")), Duration::ZERO, now)
        });
        admitted.map(|event| describe(&event)).collect()
    };
    assert!(restored().is_waiting(WindowId(1)));
    let ended: Vec<String> = restored().end_all().iter().map(describe).collect();
    assert_eq!(ended, RESOLVED);
    let x = "@1 a running : x";
    let again = "@1 a running : Go? [y/n] y|Go? [y/n]";
    for (does, looks, expected) in [
        ("", &[ASKS][..], &[][..]),
        ("", &[""], RESOLVED),
        // What the terminal shows is known at a later look.
        ("", &[x], &[]),
        ("works 7 ", &[x], RESOLVED),
        // It may be drawn again.
        ("polls 7 ", &[x, ASKS, ASKS], &[]),
        ("polls 7 ", &[x, x, x], RESOLVED),
        ("polls 7 ", &[again, again], &[RESOLVED[0], REPORTED[0]]),
    ] {
        assert_eq!(then(does, looks), expected, "{does}{looks:?}");
    }
}

#[test]
fn an_episode_without_words_outlives_a_restart() {
    let mut episodes = restored("@1 a running : an earlier answer|", "", PromptKind::Text);
    let look = look_of("reads 7 @1 a running cursor=0,1 : an earlier answer|");
    for _ in 0..3 {
        assert_eq!(episodes.admit(&look, Duration::ZERO, at(0)), []);
    }
}

#[test]
fn a_question_that_a_narrow_pane_cuts_off_stays_open() {
    let mut episodes = Episodes::default();
    let mut now = at(0);
    let mut events_of = |text: &str, width: u32, n_reads: u64| -> Vec<String> {
        let mut look = look_of(&format!("polls {n_reads} @1 a running : {text}"));
        for task in look.tasks.values_mut() {
            Arc::make_mut(task).screen.width = Some(width);
        }
        let mut events = Vec::new();
        for _ in 0..3 {
            now = now.after(Duration::from_secs(1));
            events.extend(episodes.admit(&look, Duration::ZERO, now));
        }
        events.iter().map(describe).collect()
    };
    assert_eq!(events_of("Go? [y/n]", 80, 7), REPORTED);
    assert_eq!(events_of("Go", 20, 7), [""; 0]);
    assert_eq!(events_of("o?", 30, 7), [""; 0]);
    assert_eq!(events_of("Go? [y/n]", 80, 7), [""; 0]);
    assert_eq!(events_of("Go", 20, 7), [""; 0]);
    assert_eq!(events_of("Go", 20, 8), RESOLVED);
}

#[test]
fn an_unreported_episode_ends_without_an_event() {
    let mut episodes = Episodes::default();
    assert_eq!(episodes.admit(&snapshot(ASKS), Duration::ZERO, at(0)), []);
    assert_eq!(episodes.end_all(), []);
}

fn any_look() -> impl Strategy<Value = Snapshot> {
    let row = prop_oneof![
        Just("Go? [y/n]"),
        Just("Password:"),
        Just("a"),
        Just("b"),
        Just("")
    ];
    let screen = proptest::collection::vec(row, 0..6);
    let state = prop_oneof![
        4 => Just("running"),
        1 => Just("unknown"),
        1 => Just("dead 0"),
        1 => Just("running nopane"),
        1 => Just("running alt"),
    ];
    let drawn = proptest::option::of((1..3_u32, state, screen));
    proptest::collection::vec(drawn, 2).prop_map(|tasks| {
        let mut look = snapshot("");
        for (index, drawn) in tasks.into_iter().enumerate() {
            if let Some((run, state, screen)) = drawn {
                let mut task = task(&format!("@{}#{run} a {state}", index + 1));
                task.screen.rows = screen.into_iter().map(str::to_owned).collect();
                look.tasks.insert(task.window, task.into());
            }
        }
        look
    })
}

proptest! {
    #[test]
    fn repeated_equal_looks_report_nothing_more(
        looks in proptest::collection::vec(any_look(), 1..8),
    ) {
        let now = at(0);
        let mut episodes = Episodes::default();
        for look in &looks {
            episodes.admit(look, Duration::ZERO, now);
        }
        let last = looks.last().unwrap();
        episodes.admit(last, Duration::ZERO, now);
        prop_assert_eq!(episodes.admit(last, Duration::ZERO, now), []);
    }

    #[test]
    fn each_input_is_resolved_before_the_next(
        looks in proptest::collection::vec(any_look(), 1..12),
    ) {
        let mut episodes = Episodes::default();
        let mut waiting = BTreeMap::new();
        let looks = looks.iter().flat_map(|look| [look, look]);
        for look in looks {
            for event in episodes.admit(look, Duration::ZERO, at(0)) {
                let window = event.task.window;
                match &event.kind {
                    EventKind::Input { prompt } => {
                        prop_assert_eq!(waiting.insert(window, prompt.clone()), None);
                    }
                    EventKind::InputResolved { prompt } => {
                        prop_assert_eq!(waiting.remove(&window), Some(prompt.clone()));
                    }
                    EventKind::Started { .. }
                    | EventKind::Notify { .. }
                    | EventKind::Output(_)
                    | EventKind::Exited { .. }
                    | EventKind::Disappeared { .. } => {
                        prop_assert!(false, "not of this floor: {:?}", event.kind);
                    }
                }
            }
            for window in look.tasks.keys() {
                prop_assert_eq!(episodes.prompt_of(*window), waiting.get(window));
            }
        }
    }
}

#[test]
fn a_thousand_looks_without_a_prompt_report_nothing() {
    let spins = |n: usize| {
        format!(
            "@1 a running cursor=17,0 : {} Proceed? [y/N]",
            ["/", "-", "x"][n % 3]
        )
    };
    let tails = |n: usize| {
        let rows: Vec<String> = (n..n + 8)
            .map(|n| format!("{n} {}", ["Continue?", "password:", "Go on? [y/n]"][n % 3]))
            .collect();
        format!("@1 a running cursor=0,8 : {}|", rows.join("|"))
    };
    let idles = |_: usize| "@1 a running cursor=2,2 : Continue? [y/N] y|password:|$".to_owned();
    let builds = |_: usize| "@1 a running cursor=0,2 : Go on? [y/n] y|building|".to_owned();
    let looks: [&dyn Fn(usize) -> String; 4] = [&spins, &tails, &idles, &builds];
    for look in looks {
        let mut now = at(0);
        let mut episodes = Episodes::default();
        for n in 0..1000 {
            now = now.after(Duration::from_millis(100));
            let events = episodes.admit(&snapshot(&look(n)), Duration::from_millis(200), now);
            assert_eq!(events, [], "{}", look(n));
        }
    }
}

#[test]
fn what_a_program_does_with_the_terminal_overrules_text() {
    check_every(
        250,
        200,
        "
        ## No program reads, whatever the text says.
        @1 a running cursor=11,0 : Go? [y/n]
        2x works @1 a running cursor=11,0 : Go? [y/n]

        ## Reported at the second look: the first may have read the screen before the prompt was printed.
        @1 a running cursor=7,0 : guess>
        2x reads @1 a running cursor=7,0 : guess> => input @1: guess>
        # Typing is not a new question, and the end is reported.
        2x reads @1 a running cursor=9,0 : guess> 42
        works @1 a running cursor=0,1 : guess> 42| => resolved @1: guess>

        ## One that counts down was looked at while it drew the next number, and reads again.
        @1 a running cursor=21,1 : up|Stop? [y/N] (9 s left)
        reads @1 a running cursor=21,1 : up|Stop? [y/N] (9 s left)
            => input @1: Stop? [y/N] (9 s left)
        reads @1 a running cursor=21,1 : up|Stop? [y/N] (9 s left)
        works @1 a running cursor=21,1 : up|Stop? [y/N] (8 s left)
        reads @1 a running cursor=21,1 : up|Stop? [y/N] (8 s left)
        works @1 a running cursor=21,1 : up|Stop? [y/N] (7 s left)
        # At the end it goes on without a number.
        works @1 a running cursor=21,1 : up|Stop? [y/N] (7 s left)
            => resolved @1: Stop? [y/N] (9 s left)

        ## A secret that is answered without any output.
        @1 a running cursor=5,0 : Word
        reads hides @1 a running cursor=5,0 : Word => input @1!: Word
        reads hides @1 a running cursor=5,0 : Word
        works @1 a running cursor=5,0 : Word => resolved @1!: Word

        ## text printed during a read is not a question
        2x reads 3/50 @1 a running cursor=0,1 : listening| => input @1: listening
        2x reads 3/50 @1 a running cursor=0,2 : listening|one has joined|
        2x reads 3/50 @1 a running cursor=0,3 : listening|one has joined|one left|
        # Where output moves the terminal is not asked.
        2x @1 a running cursor=0,2 : one left|saved|
        2x reads 3/50 @1 a running cursor=0,2 : one left|saved|
        # It took the command.
        2x reads 4/55 @1 a running cursor=0,3 : saved|stop|stopping|
            => resolved @1: listening; input @1: stopping

        ## a question printed during a read is reported if it asks by itself
        2x reads 3/50 @1 a running cursor=0,1 : Press Ctrl+C to quit|
        2x reads 3/50 @1 a running : loaded|saved
        2x reads 3/50 @1 a running : saved|saved

        2x reads 3/50 @1 a running cursor=0,1 : Press Ctrl+C to quit|
        2x reads 3/50 @1 a running : loaded|Go? [y/n] => input @1: Go? [y/n]
        2x reads 3/50 @1 a running : Go? [y/n]|Go? [y/n]

        ## the same question is reported again after an answer
        2x reads 3/50 @1 a running : Go? [y/n] => input @1: Go? [y/n]
        2x reads 4/52 @1 a running : Go? [y/n] n|no|Go? [y/n]
            => resolved @1: Go? [y/n]; input @1: Go? [y/n]
        2x reads 5/54 @1 a running : Go? [y/n] n|no|Go? [y/n] n|no|Go? [y/n]
            => resolved @1: Go? [y/n]; input @1: Go? [y/n]

        ## a call may be younger than the screen it is first observed with
        2x reads 3/50 @1 a running cursor=0,1 : Enter a name| => input @1: Enter a name
        # The answer is echoed, and the next question is there before the process is examined.
        reads 4/52 @1 a running cursor=1,1 : Enter a name|x => resolved @1: Enter a name
        2x reads 4/52 @1 a running cursor=0,3 : Enter a name|x|Enter a path| => input @1: Enter a path

        ## a prompt printed after the screen was read is not cut off
        2x @1 a running cursor=0,0 : |
        # It prints the prompt and reads before the process is examined.
        reads 3/50 @1 a running cursor=0,0 : |
        2x reads 3/50 @1 a running : Enter a name => input @1: Enter a name

        2x @1 a running cursor=0,0 : |
        reads 3/50 @1 a running cursor=0,0 : |
        2x reads 3/50 @1 a running : Go? [y/n] => input @1: Go? [y/n]

        2x @1 a running cursor=0,0 : |
        2x reads 3/50 @1 a running cursor=0,0 : | => input @1:

        ## a signal is no answer but a question after it is one
        # A child of the shell has printed, and its end was signalled.
        2x reads 3/50 @1 a running : Enter a name => input @1: Enter a name
        2x reads 4/50 @1 a running : Enter a name built|done

        2x reads 3/50 @1 a running : Enter a name => input @1: Enter a name
        2x reads 4/50 @1 a running : Enter a name|Use the default? [y/n]
            => resolved @1: Enter a name; input @1: Use the default? [y/n]

        ## a person who scrolls ends nothing
        2x reads 3/50 @1 a running cursor=0,1 : Enter your name| => input @1: Enter your name
        2x @1 a running cursor=0,1 : Enter your name|
        reads 3/50 @1 a running cursor=0,1 : Enter your name|

        ## a program that reads keys is reported after a second
        6x reads keys 3/50 @1 a running cursor=0,1 : a) one| => input @1: a) one
        works keys @1 a running cursor=0,1 : a) one| => resolved @1: a) one

        ## a key that was read ends a countdown
        2x reads keys 3/50 @1 a running : Remove item 3? [y/n] => input @1: Remove item 3? [y/n]
        2x reads keys 4/50 @1 a running : Remove item 2? [y/n]

        2x reads keys 3/50 @1 a running : Remove item 3? [y/n] => input @1: Remove item 3? [y/n]
        2x reads keys 4/51 @1 a running : Remove item 2? [y/n]
            => resolved @1: Remove item 3? [y/n]; input @1: Remove item 2? [y/n]
        ",
    );
}

/// Each screen of a program that polls for a question has to be unchanged at two looks.
#[test]
fn whether_something_was_read_tells_two_questions_apart() {
    let either = "
        ## as long as nothing is read it is the same question
        2x polls MODE 3 @1 a running cursor=9,0 : Go? [y/n] => input @1: Go? [y/n]
        2x polls MODE 3 @1 a running cursor=9,1 : GET /0|Go? [y/n]
        2x polls MODE 3 @1 a running cursor=9,2 : GET /0|GET /1|Go? [y/n]
        # Everything is other, and so is its place.
        2x polls MODE 3 @1 a running cursor=9,7 : 1|2|3|4|5|6|7|Go? [y/n]
        2x polls MODE 3 @1 a running cursor=9,7 : a|b|c|d|e|f|g|Go? [y/n]
        # It is drawn twice.
        2x polls MODE 3 @1 a running cursor=9,2 : Go? [y/n]|a|Go? [y/n]
        # A part of it counts.
        2x polls MODE 3 @1 a running cursor=13,0 : Go? [y/n] 12%
        # The log has moved the cursor.
        2x polls MODE 3 @1 a running cursor=0,2 : Go? [y/n]|GET /8|
        2x polls MODE 3 @1 a running cursor=9,2 : GET /8|GET /9|Go? [y/n]
        # It is cleared, and drawn again.
        2x polls MODE 3 @1 a running cursor=0,1 : GET /8|
        2x polls MODE 3 @1 a running cursor=9,2 : GET /8|GET /9|Go? [y/n]
        # Another one.
        2x polls MODE 3 @1 a running cursor=11,0 : Stop? [y/n] => resolved @1: Go? [y/n]; input @1: Stop? [y/n]
        ";
    for mode in ["", "keys "] {
        check_every(600, 200, &either.replace("MODE ", mode));
    }
    check_every(
        600,
        200,
        "
        ## a line that was read makes the same words another question
        2x polls 3 @1 a running cursor=9,1 : a|Go? [y/n] => input @1: Go? [y/n]
        2x polls 4 @1 a running cursor=9,1 : a|Go? [y/n] => resolved @1: Go? [y/n]; input @1: Go? [y/n]
        2x polls 5 @1 a running cursor=9,1 : ok|Go? [y/n] => resolved @1: Go? [y/n]; input @1: Go? [y/n]

        ## a key need not be an answer: the screen decides
        2x polls keys 3 @1 a running cursor=9,1 : a|Go? [y/n] => input @1: Go? [y/n]
        2x polls keys 4 @1 a running cursor=9,2 : a|GET /0|Go? [y/n]
        2x polls keys 5 @1 a running cursor=9,3 : a|GET /0|GET /1|Go? [y/n]
        2x polls keys 6 @1 a running cursor=9,5 : a|GET /0|GET /1|Go? [y/n]|ok|Go? [y/n] => resolved @1: Go? [y/n]; input @1: Go? [y/n]
        ",
    );
}

#[test]
fn a_question_is_reported_while_other_rows_move() {
    let events_of = |does: &str, shown: &dyn Fn(usize) -> String| -> Vec<String> {
        let look = |n| look_of(&format!("{does} keys 7 @1 a running : {}", shown(n)));
        events_of(150, 200, (0..20).map(look))
    };
    let list = "Would you like to go on?| ❯ 1. Yes|   2. No";
    let beside: [&dyn Fn(usize) -> String; 5] = [
        &|n| format!("{n} tokens|{list}"),
        &|n| format!("{list}||{}% [{:<20}]", n * 5, "#".repeat(n)),
        &|n| format!("cost ${n}.07|{list}|x"),
        &|n| format!("{}{list}", "line|".repeat(n)),
        &|n| format!("({n}s · esc to interrupt · {}k)|{list}", n * 3),
    ];
    for shown in beside {
        let asked = ["input @1: Would you like to go on?"];
        assert_eq!(events_of("polls", shown), asked, "{}", shown(3));
        assert_eq!(events_of("works", shown), [""; 0], "{}", shown(3));
    }
    // What asks moves itself.
    let changes = |n: usize| format!("Delete file-{}? [y/n]", ["a", "b", "c"][n % 3]);
    assert_eq!(events_of("polls", &changes), [""; 0]);
}

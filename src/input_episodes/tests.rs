use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::model::test_notation::{describe, snapshot, task};
use crate::model::{EventKind, Foreground, TtyUse};

/// The events of each look. The looks are a tenth of a second apart, and two equal ones are enough.
#[track_caller]
fn check(looks: &[(&str, &[&str])]) {
    check_quiet(Duration::ZERO, looks);
}

#[track_caller]
fn check_quiet(quiet: Duration, looks: &[(&str, &[&str])]) {
    let mut now = start();
    let mut episodes = Episodes::default();
    for (index, (look, expected)) in looks.iter().enumerate() {
        now = now.after(Duration::from_millis(100));
        let events = episodes.admit(&snapshot(look), quiet, now);
        let reported: Vec<String> = events.iter().map(describe).collect();
        assert_eq!(reported, *expected, "look {index}: `{look}`");
    }
}

fn start() -> Now {
    Now {
        mono: Instant::now(),
        wall: 0,
    }
}

const ASKS: &str = "@1 a running : Go? [y/n]";
const REPORTED: &[&str] = &["input @1: Go? [y/n]"];
const RESOLVED: &[&str] = &["resolved @1: Go? [y/n]"];

#[test]
fn a_prompt_is_reported_once_when_two_looks_agree() {
    check(&[(ASKS, &[]), (ASKS, REPORTED), (ASKS, &[]), (ASKS, &[])]);
    check(&[("", &[]), (ASKS, &[]), (ASKS, REPORTED)]);
    check(&[
        ("@1 a running : working", &[]),
        ("@1 a running : working", &[]),
    ]);
    check(&[
        ("@1 a running : Password:", &[]),
        ("@1 a running : Password:", &["input @1!: Password:"]),
    ]);
}

#[test]
fn output_that_moves_is_not_waiting() {
    check(&[
        ("@1 a running : 1|Go? [y/n]", &[]),
        ("@1 a running : 2|Go? [y/n]", &[]),
        ("@1 a running : 3|Go? [y/n]", &[]),
        ("@1 a running : 3|Go? [y/n]", REPORTED),
    ]);
    // Two looks in a row, not any two looks.
    check(&[
        (ASKS, &[]),
        ("@1 a running : x", &[]),
        (ASKS, &[]),
        (ASKS, REPORTED),
    ]);
    check(&[(ASKS, &[]), ("", &[]), (ASKS, &[]), (ASKS, REPORTED)]);
    check(&[
        (ASKS, &[]),
        ("@1 a unknown", &[]),
        (ASKS, &[]),
        (ASKS, REPORTED),
    ]);
    check(&[
        (ASKS, &[]),
        ("@1 a running : Continue?", &[]),
        ("@1 a running : Continue?", &["input @1: Continue?"]),
    ]);
}

#[test]
fn where_the_cursor_is_is_no_output() {
    check(&[
        (ASKS, &[]),
        ("@1 a running cursor=10,0 : Go? [y/n]", REPORTED),
    ]);
}

#[test]
fn rows_that_are_printed_again_and_again_do_not_wait() {
    let at = |column: u32| format!("@1 a running cursor={column},0 : Go? [y/n]");
    let looks = [at(10), at(3), at(10), at(0)];
    check(&looks.each_ref().map(|look| (look.as_str(), &[][..])));
}

#[test]
fn only_a_live_pane_whose_state_is_known_waits() {
    for state in [
        "@1 a dead 0 : Go? [y/n]",
        "@1 a unknown : Go? [y/n]",
        "@1 a running nopane : Go? [y/n]",
    ] {
        check(&[(state, &[]), (state, &[]), (state, &[])]);
    }
}

#[test]
fn quiet_is_longer_than_two_looks_where_looks_are_close() {
    let quiet = Duration::from_millis(250);
    check_quiet(
        quiet,
        &[(ASKS, &[]), (ASKS, &[]), (ASKS, &[]), (ASKS, REPORTED)],
    );
    check_quiet(
        quiet,
        &[
            (ASKS, &[]),
            (ASKS, &[]),
            ("@1 a running : x|Go? [y/n]", &[]),
            ("@1 a running : x|Go? [y/n]", &[]),
            ("@1 a running : x|Go? [y/n]", &[]),
            ("@1 a running : x|Go? [y/n]", REPORTED),
        ],
    );
}

#[test]
fn the_next_look_is_due_when_it_can_report() {
    let quiet = Duration::from_millis(200);
    let now = start();
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
    let mut now = start();
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
    let reported: [(&str, &[&str]); 2] = [(ASKS, &[]), (ASKS, REPORTED)];
    let then = |look: &'static str| [reported[0], reported[1], (look, RESOLVED)];
    check(&then("@1 a running : working"));
    check(&then("@1 a running"));
    check(&then("@1 a dead 0 : Go? [y/n]"));
    check(&then("@1 a dead 0 nopane : Go? [y/n]"));
    check(&then("missing"));
    check(&then("@2 a running : Go? [y/n]"));
    check(&[
        reported[0],
        reported[1],
        ("@1 a running : Continue?", RESOLVED),
        ("@1 a running : Continue?", &["input @1: Continue?"]),
    ]);
    check(&[
        reported[0],
        reported[1],
        ("@1 a running : ok", RESOLVED),
        (ASKS, &[]),
        (ASKS, REPORTED),
    ]);
}

#[test]
fn an_episode_ends_with_the_run() {
    check(&[
        ("@1#1 a running : Go? [y/n]", &[]),
        ("@1#1 a running : Go? [y/n]", &["input @1#1: Go? [y/n]"]),
        ("@1#2 a running : Go? [y/n]", &["resolved @1#1: Go? [y/n]"]),
        ("@1#2 a running : Go? [y/n]", &["input @1#2: Go? [y/n]"]),
    ]);
    check(&[
        ("@1#1 a running : Go? [y/n]", &[]),
        ("@1#2 a running : Go? [y/n]", &[]),
        ("@1#2 a running : Go? [y/n]", &["input @1#2: Go? [y/n]"]),
    ]);
    check(&[
        ("@1#1 a running : Go? [y/n]", &[]),
        ("@1#1 a running : Go? [y/n]", &["input @1#1: Go? [y/n]"]),
        ("@1#2 a unknown", &["resolved @1#1: Go? [y/n]"]),
    ]);
    // Counting began: the run continues.
    check(&[
        (ASKS, &[]),
        (ASKS, REPORTED),
        ("@1#1 a running : Go? [y/n]", &[]),
        ("@1#1 a running : Go? [y/n]", &[]),
    ]);
}

#[test]
fn a_look_that_does_not_know_the_pane_ends_nothing() {
    for blind in ["@1 a unknown", "@1 a running nopane"] {
        check(&[
            (ASKS, &[]),
            (ASKS, REPORTED),
            (blind, &[]),
            (ASKS, &[]),
            (ASKS, &[]),
        ]);
        check(&[
            (ASKS, &[]),
            (ASKS, REPORTED),
            (blind, &[]),
            ("@1 a running : ok", RESOLVED),
        ]);
        check(&[
            (ASKS, &[]),
            (ASKS, REPORTED),
            (blind, &[]),
            ("@1 a dead 0", RESOLVED),
        ]);
    }
}

#[test]
fn a_prompt_that_is_printed_again_is_another_episode() {
    check(&[
        (ASKS, &[]),
        (ASKS, REPORTED),
        ("@1 a running : Go? [y/n] y|done|Go? [y/n]", RESOLVED),
        ("@1 a running : Go? [y/n] y|done|Go? [y/n]", REPORTED),
    ]);
    check(&[
        ("@1 a running : sudo|Password:", &[]),
        ("@1 a running : sudo|Password:", &["input @1!: Password:"]),
        (
            "@1 a running : sudo|Password:|Sorry|Password:",
            &["resolved @1!: Password:"],
        ),
        (
            "@1 a running : sudo|Password:|Sorry|Password:",
            &["input @1!: Password:"],
        ),
    ]);
}

#[test]
fn a_clock_elsewhere_neither_ends_nor_restarts_an_episode() {
    check(&[
        ("@1 a running : 12:00|Go? [y/n]", &[]),
        ("@1 a running : 12:00|Go? [y/n]", REPORTED),
        ("@1 a running : 12:01|Go? [y/n]", &[]),
        ("@1 a running : 12:01|Go? [y/n]", &[]),
        ("@1 a running : 12:02|Go? [y/n]|12:02", &[]),
        ("@1 a running : 12:02|Go? [y/n]|12:03", &[]),
    ]);
    check(&[
        ("@1 a running : a|b|c|Go? [y/n]", &[]),
        ("@1 a running : a|b|c|Go? [y/n]", REPORTED),
        ("@1 a running : b|c|Go? [y/n]|noise", &[]),
        ("@1 a running : c|Go? [y/n]|noise|noise", &[]),
    ]);
    check(&[
        ("@1 a running alt : 1|2|3|4|5|Go? [y/n]", &[]),
        ("@1 a running alt : 1|2|3|4|5|Go? [y/n]", REPORTED),
        ("@1 a running alt : a|b|c|d|e|Go? [y/n]", &[]),
    ]);
}

#[test]
fn a_prompt_that_counts_down_is_reported_once() {
    check(&[
        ("@1 a running : up|Go in 10 s? [y/n]", &[]),
        (
            "@1 a running : up|Go in 10 s? [y/n]",
            &["input @1: Go in 10 s? [y/n]"],
        ),
        ("@1 a running : up|Go in 9 s? [y/n]", &[]),
        ("@1 a running : up|Go in 9 s? [y/n]", &[]),
        ("@1 a running : up|Go in 8 s? [y/n]", &[]),
        ("@1 a running : up|Go in 8 s? [y/n]", &[]),
        (
            "@1 a running : up|gone",
            &["resolved @1: Go in 10 s? [y/n]"],
        ),
    ]);
    check(&[
        ("@1 a running : Question 1 of 5?", &[]),
        (
            "@1 a running : Question 1 of 5?",
            &["input @1: Question 1 of 5?"],
        ),
        (
            "@1 a running : Question 2 of 5?",
            &["resolved @1: Question 1 of 5?"],
        ),
        (
            "@1 a running : Question 2 of 5?",
            &["input @1: Question 2 of 5?"],
        ),
    ]);
}

#[test]
fn a_prompt_with_an_animated_part_is_reported_once() {
    check(&[
        ("@1 a running : up|/ Go? [y/n]", &[]),
        ("@1 a running : up|/ Go? [y/n]", &["input @1: / Go? [y/n]"]),
        ("@1 a running : up|- Go? [y/n]", &[]),
        ("@1 a running : up|- Go? [y/n]", &[]),
        // Another row is drawn again, too.
        ("@1 a running : ok|\\ Go? [y/n]", &[]),
        ("@1 a running : ok|\\ Go? [y/n]", &[]),
        // It was answered.
        (
            "@1 a running : ok|- Go? [y/n] n|/ Go? [y/n]",
            &["resolved @1: / Go? [y/n]"],
        ),
        (
            "@1 a running : ok|- Go? [y/n] n|/ Go? [y/n]",
            &["input @1: / Go? [y/n]"],
        ),
    ]);
    check(&[
        ("@1 a running : 0:01 passed|Go? (9s)", &[]),
        (
            "@1 a running : 0:01 passed|Go? (9s)",
            &["input @1: Go? (9s)"],
        ),
        ("@1 a running : 0:02 passed|Go? (10s)", &[]),
        ("@1 a running : 0:02 passed|Go? (10s)", &[]),
        (
            "@1 a running : 0:03 passed|Run? (11s)",
            &["resolved @1: Go? (9s)"],
        ),
        (
            "@1 a running : 0:03 passed|Run? (11s)",
            &["input @1: Run? (11s)"],
        ),
    ]);
}

#[test]
fn a_screen_that_is_never_unchanged_asks_only_if_input_is_taken() {
    let events_of = |texts: [&str; 2], reader: Option<TtyUse>| -> Vec<String> {
        let mut now = start();
        let mut episodes = Episodes::default();
        let mut events = Vec::new();
        for text in texts.iter().cycle().take(12) {
            now = now.after(Duration::from_millis(400));
            let mut look = snapshot(&format!("@1 a running cursor={},0 : {text}", text.len()));
            if let Some(reader) = reader {
                let evidence = TtyEvidence {
                    reader,
                    echo: Some(false),
                    canonical: Some(false),
                    foreground: Foreground::Command,
                    ..TtyEvidence::default()
                };
                look.terminals.insert(WindowId(1), evidence.into());
            }
            events.extend(episodes.admit(&look, Duration::from_millis(200), now));
        }
        events.iter().map(describe).collect()
    };
    let asks = ["/ Go? [y/n]", "- Go? [y/n]"];
    let [first, _] = asks;
    let reported = [format!("input @1: {first}")];
    for (reader, expected) in [
        (Some(TtyUse::Polling), &reported[..]),
        (Some(TtyUse::Reading), &reported),
        (Some(TtyUse::Elsewhere), &[]),
        (Some(TtyUse::Unknown), &[]),
        (None, &[]),
    ] {
        assert_eq!(events_of(asks, reader), expected, "{reader:?}");
    }
    for works in [
        ["/ Go in 1%? [y/n]", "- Go in 2%? [y/n]"],
        ["/ Building", "- Building"],
        ["/ Building [=>]", "- Building [==>]"],
        ["/ Press any key to cancel", "- Press any key to cancel"],
        ["Loading: /", "Loading: -"],
    ] {
        assert_eq!(
            events_of(works, Some(TtyUse::Polling)),
            [""; 0],
            "{works:?}"
        );
    }
}

#[test]
fn each_window_has_its_own_episodes() {
    let both = "@1 a running : Go? [y/n]; @2 b running : Go? [y/n]";
    check(&[
        (both, &[]),
        (both, &["input @1: Go? [y/n]", "input @2: Go? [y/n]"]),
        (
            "@1 a running : Go? [y/n]; @2 b running : ok",
            &["resolved @2: Go? [y/n]"],
        ),
        (both, &[]),
        (both, &["input @2: Go? [y/n]"]),
    ]);
}

#[test]
fn a_resolved_prompt_is_reported_as_last_observed() {
    let mut episodes = Episodes::default();
    let now = start();
    for look in [ASKS, ASKS, "@1 renamed unknown bells=3", "missing"] {
        let events = episodes.admit(&snapshot(look), Duration::ZERO, now);
        if look == "missing" {
            assert_eq!(events[0].task.name, "renamed");
            assert_eq!(events[0].task.bell_count, Some(3));
            assert_eq!(*events[0].task.screen.rows, ["Go? [y/n]"]);
        }
    }
}

#[test]
fn an_episode_outlives_a_restart() {
    let restored = || {
        let mut episodes = Episodes::default();
        let task = Task::clone(&snapshot(ASKS).tasks[&WindowId(1)]);
        let text = "Go? [y/n]".to_owned();
        episodes.restore(
            task,
            Prompt {
                text,
                kind: crate::model::PromptKind::Confirm,
                secret: false,
            },
        );
        episodes
    };
    let then = |look: &str| -> Vec<String> {
        let mut episodes = restored();
        let events = episodes.admit(&snapshot(look), Duration::ZERO, start());
        events.iter().map(describe).collect()
    };
    assert!(restored().is_waiting(WindowId(1)));
    assert_eq!(then(ASKS), [""; 0]);
    assert_eq!(then(""), RESOLVED);
    // What the terminal shows is known at a later look.
    assert_eq!(then("@1 a running : x"), [""; 0]);
    let ended: Vec<String> = restored().end_all().iter().map(describe).collect();
    assert_eq!(ended, RESOLVED);
    // The events of looks with evidence, a second apart.
    let with_evidence = |reader: TtyUse, looks: &[&str]| -> Vec<String> {
        let mut now = start();
        let mut episodes = restored();
        let admitted = looks.iter().flat_map(|look| {
            now = now.after(Duration::from_secs(1));
            episodes.admit(&polled(look, reader, Some(7)), Duration::ZERO, now)
        });
        admitted.map(|event| describe(&event)).collect()
    };
    let x = "@1 a running : x";
    assert_eq!(with_evidence(TtyUse::Elsewhere, &[x]), RESOLVED);
    // It may be drawn again.
    assert_eq!(with_evidence(TtyUse::Polling, &[x, ASKS, ASKS]), [""; 0]);
    assert_eq!(with_evidence(TtyUse::Polling, &[x, x, x]), RESOLVED);
    let again = "@1 a running : Go? [y/n] y|Go? [y/n]";
    assert_eq!(
        with_evidence(TtyUse::Polling, &[again, again]),
        [RESOLVED[0], REPORTED[0]]
    );
}

#[test]
fn an_episode_without_words_outlives_a_restart() {
    let task = Task::clone(&snapshot("@1 a running : an earlier answer|").tasks[&WindowId(1)]);
    let prompt = Prompt {
        text: String::new(),
        kind: crate::model::PromptKind::Text,
        secret: false,
    };
    let mut episodes = Episodes::default();
    episodes.restore(task, prompt);
    let look = "@1 a running cursor=0,1 : an earlier answer|";
    for _ in 0..3 {
        let look = polled(look, TtyUse::Reading, Some(7));
        assert_eq!(episodes.admit(&look, Duration::ZERO, start()), []);
    }
}

/// A look at a terminal whose program takes lines.
fn polled(look: &str, reader: TtyUse, n_reads: Option<u64>) -> Snapshot {
    let mut look = snapshot(look);
    let evidence = TtyEvidence {
        reader,
        echo: Some(true),
        canonical: Some(true),
        foreground: Foreground::Command,
        n_reads,
        ..TtyEvidence::default()
    };
    look.terminals.insert(WindowId(1), evidence.into());
    look
}

#[test]
fn a_question_that_a_narrow_pane_cuts_off_stays_open() {
    let mut episodes = Episodes::default();
    let mut now = start();
    let mut events_of = |text: &str, width: u32, n_reads: u64| -> Vec<String> {
        let mut look = polled(
            &format!("@1 a running : {text}"),
            TtyUse::Polling,
            Some(n_reads),
        );
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
    assert_eq!(episodes.admit(&snapshot(ASKS), Duration::ZERO, start()), []);
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
        let now = start();
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
            for event in episodes.admit(look, Duration::ZERO, start()) {
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
        let mut now = start();
        let mut episodes = Episodes::default();
        for n in 0..1000 {
            now = now.after(Duration::from_millis(100));
            let events = episodes.admit(&snapshot(&look(n)), Duration::from_millis(200), now);
            assert_eq!(events, [], "{}", look(n));
        }
    }
}

#[test]
fn evidence_overrules_text_and_reports_what_text_cannot() {
    let reading = |reader, echo| TtyEvidence {
        reader,
        echo: Some(echo),
        canonical: Some(true),
        ..TtyEvidence::default()
    };
    let with = |look: &str, evidence: TtyEvidence| {
        let mut look = snapshot(look);
        look.terminals.insert(WindowId(1), evidence.into());
        look
    };
    let reported = |looks: &[Snapshot]| -> Vec<String> {
        let mut now = start();
        let mut episodes = Episodes::default();
        looks
            .iter()
            .flat_map(|look| {
                now = now.after(Duration::from_millis(250));
                episodes.admit(look, Duration::from_millis(200), now)
            })
            .map(|event| describe(&event))
            .collect()
    };
    // No program reads, whatever the text says.
    let asks = "@1 a running cursor=11,0 : Go? [y/n]";
    let unread = with(asks, reading(TtyUse::Elsewhere, true));
    assert_eq!(reported(&[snapshot(asks), unread.clone(), unread]), [""; 0]);
    // A program reads: reported at the second look with that evidence, because the first may have
    // read the screen before the program printed its prompt.
    let word = "@1 a running cursor=7,0 : guess>";
    let reads = with(word, reading(TtyUse::Reading, true));
    assert_eq!(
        reported(&[snapshot(word), reads.clone(), reads.clone()]),
        ["input @1: guess>"]
    );
    // Typing is not a new question, and the end is reported.
    let typed = with(
        "@1 a running cursor=9,0 : guess> 42",
        reading(TtyUse::Reading, true),
    );
    let done = with(
        "@1 a running cursor=0,1 : guess> 42|",
        reading(TtyUse::Elsewhere, true),
    );
    assert_eq!(
        reported(&[
            snapshot(word),
            reads.clone(),
            reads,
            typed.clone(),
            typed,
            done
        ]),
        ["input @1: guess>", "resolved @1: guess>"]
    );
    // One that counts down was looked at while it drew the next number, and reads again. At the end
    // it goes on without a number.
    let counts = |n: u32, reader| {
        let look = format!("@1 a running cursor=21,1 : up|Stop? [y/N] ({n} s left)");
        with(&look, reading(reader, true))
    };
    let counted = [
        snapshot("@1 a running cursor=21,1 : up|Stop? [y/N] (9 s left)"),
        counts(9, TtyUse::Reading),
        counts(9, TtyUse::Reading),
        counts(8, TtyUse::Elsewhere),
        counts(8, TtyUse::Reading),
        counts(7, TtyUse::Elsewhere),
    ];
    let input = "input @1: Stop? [y/N] (9 s left)";
    let resolved = "resolved @1: Stop? [y/N] (9 s left)";
    assert_eq!(reported(&counted), [input]);
    let ended = [&counted[..], &[counts(7, TtyUse::Elsewhere)]].concat();
    assert_eq!(reported(&ended), [input, resolved]);
    // A secret that is answered without any output.
    let hidden = "@1 a running cursor=5,0 : Word";
    let hides = with(hidden, reading(TtyUse::Reading, false));
    let goes_on = with(hidden, reading(TtyUse::Elsewhere, true));
    assert_eq!(
        reported(&[snapshot(hidden), hides.clone(), hides, goes_on]),
        ["input @1!: Word", "resolved @1!: Word"]
    );
}

/// A question that a program polls for, and whether input was read. Each element is a screen, its
/// number of reads, and what is reported.
#[track_caller]
fn check_reads(canonical: bool, looks: &[(&str, u64, &[&str])]) {
    let mut now = start();
    let mut episodes = Episodes::default();
    let mut looked = |text: &str, n_reads: u64| -> Vec<String> {
        let mut events = Vec::new();
        // Each screen twice, because it has to be unchanged at two looks.
        for _ in 0..2 {
            now = now.after(Duration::from_millis(600));
            let last = text.rsplit('|').next().unwrap_or_default();
            let (x, y) = (last.chars().count(), text.matches('|').count());
            let mut look = snapshot(&format!("@1 a running cursor={x},{y} : {text}"));
            let evidence = TtyEvidence {
                reader: TtyUse::Polling,
                echo: Some(canonical),
                canonical: Some(canonical),
                foreground: Foreground::Command,
                n_reads: Some(n_reads),
                ..TtyEvidence::default()
            };
            look.terminals.insert(WindowId(1), evidence.into());
            events.extend(episodes.admit(&look, Duration::from_millis(200), now));
        }
        events.iter().map(describe).collect()
    };
    for (index, (text, n_reads, expected)) in looks.iter().enumerate() {
        assert_eq!(looked(text, *n_reads), *expected, "look {index}: {text}");
    }
}

#[test]
fn as_long_as_nothing_is_read_it_is_the_same_question() {
    for canonical in [true, false] {
        check_reads(
            canonical,
            &[
                ("Go? [y/n]", 3, REPORTED),
                ("GET /0|Go? [y/n]", 3, &[]),
                ("GET /0|GET /1|Go? [y/n]", 3, &[]),
                // Everything is other, and so is its place.
                ("1|2|3|4|5|6|7|Go? [y/n]", 3, &[]),
                ("a|b|c|d|e|f|g|Go? [y/n]", 3, &[]),
                // It is drawn twice.
                ("Go? [y/n]|a|Go? [y/n]", 3, &[]),
                // A part of it counts.
                ("Go? [y/n] 12%", 3, &[]),
                // The log has moved the cursor.
                ("Go? [y/n]|GET /8|", 3, &[]),
                ("GET /8|GET /9|Go? [y/n]", 3, &[]),
                // It is cleared, and drawn again.
                ("GET /8|", 3, &[]),
                ("GET /8|GET /9|Go? [y/n]", 3, &[]),
                // Another one.
                (
                    "Stop? [y/n]",
                    3,
                    &["resolved @1: Go? [y/n]", "input @1: Stop? [y/n]"],
                ),
            ],
        );
    }
}

#[test]
fn a_line_that_was_read_makes_the_same_words_another_question() {
    check_reads(
        true,
        &[
            ("a|Go? [y/n]", 3, REPORTED),
            ("a|Go? [y/n]", 4, &[RESOLVED[0], REPORTED[0]]),
            ("ok|Go? [y/n]", 5, &[RESOLVED[0], REPORTED[0]]),
        ],
    );
    // A key need not be an answer: the screen decides.
    check_reads(
        false,
        &[
            ("a|Go? [y/n]", 3, REPORTED),
            ("a|GET /0|Go? [y/n]", 4, &[]),
            ("a|GET /0|GET /1|Go? [y/n]", 5, &[]),
            (
                "a|GET /0|GET /1|Go? [y/n]|ok|Go? [y/n]",
                6,
                &[RESOLVED[0], REPORTED[0]],
            ),
        ],
    );
}

#[test]
fn a_question_is_reported_while_other_rows_move() {
    let events_of = |reader: TtyUse, shown: &dyn Fn(usize) -> String| -> Vec<String> {
        let mut now = start();
        let mut episodes = Episodes::default();
        let mut events = Vec::new();
        for n in 0..20 {
            now = now.after(Duration::from_millis(150));
            let mut look = snapshot(&format!("@1 a running : {}", shown(n)));
            let evidence = TtyEvidence {
                reader,
                echo: Some(false),
                canonical: Some(false),
                foreground: Foreground::Command,
                n_reads: Some(7),
                ..TtyEvidence::default()
            };
            look.terminals.insert(WindowId(1), evidence.into());
            events.extend(episodes.admit(&look, Duration::from_millis(200), now));
        }
        events.iter().map(describe).collect()
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
        assert_eq!(events_of(TtyUse::Polling, shown), asked, "{}", shown(3));
        assert_eq!(events_of(TtyUse::Elsewhere, shown), [""; 0], "{}", shown(3));
    }
    // What asks moves itself.
    let changes = |n: usize| format!("Delete file-{}? [y/n]", ["a", "b", "c"][n % 3]);
    assert_eq!(events_of(TtyUse::Polling, &changes), [""; 0]);
}

//! What is gathered, delivered and recorded, and when.

use super::*;
use crate::model::WaitOutcome;

#[test]
fn a_bell_with_an_end_is_two_events_and_one_text() {
    let mut driver = Driver::new(Settings::REPLAY, RestoredState::default());
    driver.step("@1 a running bells=0");
    assert_eq!(
        driver.step("@1 a dead 0 bells=1 : done")[0],
        "1 notify @1 x1 & 2 exited @1 0"
    );
    let effects = driver.engine.deliver(driver.now);
    let [EngineEffect::Append(records)] = &*effects else {
        panic!("one write: {effects:?}")
    };
    let [
        Record {
            seq: 3,
            body: Body::FollowUp {
                message, events, ..
            },
            ..
        },
    ] = &**records
    else {
        panic!("one message: {records:?}")
    };
    assert_eq!(
        message.content,
        "[tmux-task notification]\n\
         tmux task @1 (a) sent a terminal notification, then exited with code 0\n\
         recent output:\n  done"
    );
    assert_eq!(events.len(), 2);
}

#[test]
fn what_a_command_is_about_to_return_with_is_not_delivered_before_it() {
    let begin = |owner: Option<&str>| {
        let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
        let expected = ExpectedWait {
            task: "a".to_owned(),
            owner: owner.map(str::to_owned),
            until: driver.now.mono + Duration::from_secs(5),
        };
        driver.engine.expect_wait(expected, driver.now);
        driver.step("");
        driver.step("@1#1 a dead 3; @2#1 b running");
        driver
    };
    // The wait begins, and returns with it.
    let mut driver = begin(None);
    assert_eq!(driver.step("+60"), [] as [&str; 0]);
    driver.engine.wait_begun("a", Some("pi:1"));
    assert_eq!(driver.step("+60"), [] as [&str; 0]);
    driver.engine.wait_begun("a", None);
    assert_eq!(driver.step("+0"), ["3 followUp! of 1 2"]);
    // It never begins.
    let mut driver = begin(None);
    assert_eq!(driver.step("+4999"), [] as [&str; 0]);
    assert_eq!(driver.step("+1"), ["3 followUp! of 1 2"]);
    // Another's command is about to wait.
    let mut driver = begin(Some("pi:1"));
    assert_eq!(driver.step("+60"), ["3 followUp! of 1 2"]);
}

#[test]
fn a_delivery_waits_for_the_owners_reader() {
    let begin = |owner: &str, reads_for: u64| {
        let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
        driver.step("@1#1 a running owner=pi:1");
        let until = driver.now.mono + Duration::from_millis(reads_for);
        driver
            .engine
            .expect_reader(owner.to_owned(), until, driver.now);
        driver.step("@1#1 a dead 3 owner=pi:1");
        driver
    };
    // It has read the end.
    let mut driver = begin("pi:1", 6000);
    assert_eq!(driver.step("+549"), [] as [&str; 0]);
    driver.engine.note_seen("pi:1", &[1]);
    assert_eq!(driver.step("+0"), ["2 notice! of 1"]);
    // It has read something else.
    let mut driver = begin("pi:1", 6000);
    driver.engine.note_seen("pi:1", &[]);
    assert_eq!(driver.step("+50"), ["2 followUp! of 1"]);
    // It never says what it has read, and it is not waited for again.
    let mut driver = begin("pi:1", 6000);
    assert_eq!(driver.step("+550"), ["2 followUp! of 1"]);
    let mut driver = begin("pi:1", 200);
    assert_eq!(driver.step("+200"), ["2 followUp! of 1"]);
    // Another's.
    let mut driver = begin("pi:2", 6000);
    assert_eq!(driver.step("+50"), ["2 followUp! of 1"]);
}

#[test]
fn events_are_gathered_for_fifty_milliseconds_from_the_first() {
    check_live(&[
        (
            "@1 a running bells=0; @2 b running",
            &["tmux: 2 tasks, 0 waiting, 0 dead"],
        ),
        (
            "+100 @1 a running bells=1; @2 b running",
            &["1 notify @1 x1"],
        ),
        ("+49", &[]),
        (
            "@1 a dead 0 bells=1; @2 b running",
            &["2 exited @1 0", "tmux: 2 tasks, 0 waiting, 1 dead"],
        ),
        ("+1", &["3 followUp of 1 2"]),
        ("+50", &[]),
        (
            "@1 a dead 0 bells=1; @2 b dead 1",
            &["4 exited @2 1", "tmux: 2 tasks, 0 waiting, 2 dead"],
        ),
        ("+50", &["5 followUp! of 4"]),
    ]);
}

#[test]
fn a_look_does_not_join_what_was_due_before_it() {
    check_live(&[
        (
            "@1 a running; @2 b running",
            &["tmux: 2 tasks, 0 waiting, 0 dead"],
        ),
        (
            "+100 @1 a dead 0; @2 b running",
            &["1 exited @1 0", "tmux: 2 tasks, 0 waiting, 1 dead"],
        ),
        (
            "+51 @1 a dead 0; @2 b dead 0",
            &[
                "2 followUp of 1",
                "3 exited @2 0",
                "tmux: 2 tasks, 0 waiting, 2 dead",
            ],
        ),
        ("+50", &["4 followUp of 3"]),
    ]);
}

#[test]
fn a_gathering_with_a_start_is_one_message() {
    check_live(&[
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        (
            "+100 @1 a running",
            &["1 started @1", "tmux: 1 task, 0 waiting, 0 dead"],
        ),
        (
            "+20 @1 a dead 0",
            &["2 exited @1 0", "tmux: 1 task, 0 waiting, 1 dead"],
        ),
        ("+30", &["3 followUp of 1 2"]),
    ]);
}

#[test]
fn deadlines_are_returned() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    assert_eq!(driver.engine.deliver_at(), None);
    assert_eq!(driver.engine.look_at(), None);
    driver.step("");
    driver.step("@1 a running : Go? [y/n]");
    let in_ms = |ms| Some(driver.now.after(Duration::from_millis(ms)).mono);
    assert_eq!(driver.engine.deliver_at(), in_ms(50));
    assert_eq!(driver.engine.look_at(), in_ms(200));
    assert_eq!(driver.engine.episodes.prompt_of(WindowId(1)), None);
    driver.step("+200");
    driver.step("@1 a running : Go? [y/n]");
    assert_eq!(driver.engine.look_at(), None);
    let prompt = driver.engine.episodes.prompt_of(WindowId(1)).cloned();
    assert_eq!(
        prompt.map(|prompt| prompt.text).as_deref(),
        Some("Go? [y/n]")
    );
    assert_eq!(driver.engine.last_seq(), 3);
    assert_eq!(driver.engine.counts().map(|counts| counts.waiting), Some(1));
    assert_eq!(
        driver.engine.last_look().map(|look| look.tasks.len()),
        Some(1)
    );
}

#[test]
fn a_notice_of_no_event_is_recorded_at_once() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("@1 a running");
    driver.step("");
    let effects = driver
        .engine
        .notice(Level::Info, "killed api".to_owned(), driver.now);
    let actual: Vec<String> = effects.iter().map(describe_effect).collect();
    assert_eq!(actual, ["2 notice killed api"]);
    assert_eq!(driver.step("+50"), ["3 followUp! of 1"]);
}

#[test]
fn records_bear_the_time_of_their_making() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("");
    driver.now.wall = 1000;
    let effects = driver.engine.look(snapshot("@1 a running"), driver.now);
    let Some(EngineEffect::Append(records)) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(records[0].time, 1000);
    driver.now = driver.now.after(Duration::from_millis(50));
    let effects = driver.engine.deliver_due(driver.now);
    let Some(EngineEffect::Append(records)) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(records[0].time, 1050);
}

#[test]
fn numbers_have_no_gaps() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    let asks = "@1 a running : Go? [y/n]";
    let mut seqs = Vec::new();
    for step in [
        "",
        asks,
        "+300",
        asks,
        "+10",
        asks,
        "+10 @1 a dead 0",
        "+90",
        "",
        "@2 b running",
        "+10 @2 b running bell",
        "+10 missing",
        "+90",
        "missing",
        "@3 c dead 1",
        "+90",
    ] {
        for effect in driver.step(step) {
            let records = effect
                .split(" & ")
                .filter_map(|record| record.split(' ').next());
            seqs.extend(records.filter_map(|seq| seq.parse::<Seq>().ok()));
        }
    }
    assert!(seqs.len() > 10);
    assert_eq!(seqs, (1..=driver.engine.last_seq()).collect::<Vec<_>>());
}

/// A command that waits for a run returns when the run's end is on the disk, and then gets no
/// follow-up for it.
#[test]
fn nothing_is_delivered_before_the_disk_has_had_it() {
    let steps: [(&str, &[&str]); 9] = [
        ("tried 0", &[]),
        ("", &["tmux: no tasks, 0 waiting, 0 dead"]),
        (
            "@1 a dead 1",
            &["1 exited @1 1", "tmux: 1 task, 0 waiting, 1 dead"],
        ),
        ("+60", &[]),
        // What comes when the first is due is delivered by itself.
        (
            "+1 @1 a dead 1; @2 b dead 2",
            &["2 exited @2 2", "tmux: 2 tasks, 0 waiting, 2 dead"],
        ),
        ("+60", &[]),
        ("tried 1", &["3 followUp! of 1"]),
        ("tried 2", &["4 followUp! of 2"]),
        ("+60", &[]),
    ];
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    for (step, expected) in steps {
        let actual = driver.step(step);
        assert_eq!(actual.len(), expected.len(), "{step}: {actual:?}");
        let actual = actual.iter().zip(expected);
        for (actual, expected) in actual.filter(|(actual, _)| !actual.starts_with("tmux")) {
            assert_eq!(actual, expected, "{step}");
        }
        let undelivered = driver.engine.first_undelivered();
        let is_waiting = driver.engine.deliver_at();
        match step {
            "@1 a dead 1" => assert_eq!((undelivered, is_waiting), (Some(1), None)),
            "tried 1" => assert_eq!((undelivered, is_waiting), (Some(2), None)),
            "tried 2" => assert_eq!((undelivered, is_waiting), (None, None)),
            _ => {}
        }
    }
}

#[test]
fn what_is_seen_while_the_disk_is_slow_is_a_notice() {
    let mut driver = Driver::new(Settings::LIVE, RestoredState::default());
    driver.step("tried 0");
    driver.step("");
    driver.step("@1#1 a dead 1");
    assert_eq!(driver.step("+60"), [] as [&str; 0]);
    driver.engine.note_return(&WaitReturn {
        owner: None,
        window: WindowId(1),
        run: Some(1),
        outcome: WaitOutcome::Exited,
    });
    assert_eq!(driver.step("tried 1"), ["2 notice! of 1"]);
}

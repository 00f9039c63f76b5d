use super::*;
use crate::model::test_notation::{describe, snapshot, task};
use crate::model::{Foreground, TtyEvidence, TtyUse};

/// Drives an engine as the daemon does: what is due is delivered before each look.
struct Driver {
    engine: Engine,
    now: Now,
}

impl Driver {
    fn new(settings: Settings, memory: Memory) -> Self {
        let now = Now {
            mono: Instant::now(),
            wall: 0,
        };
        Self {
            engine: Engine::new(settings, memory, now),
            now,
        }
    }

    /// A step is a snapshot, at the time that a leading `+20` (milliseconds) moves on to, or
    /// `+20` alone, or `deliver`, or `tried 4`: the disk has had the records up to that number.
    fn step(&mut self, step: &str) -> Vec<String> {
        let mut step = step.trim();
        if let Some(rest) = step.strip_prefix('+') {
            let (ms, rest) = rest.split_once(' ').unwrap_or((rest, "wait"));
            self.now = self.now.after(Duration::from_millis(ms.parse().unwrap()));
            step = rest;
        }
        let effects = match step {
            "wait" => self.engine.deliver_due(self.now),
            "deliver" => self.engine.deliver(self.now),
            tried if tried.starts_with("tried ") => {
                self.engine.tried(tried["tried ".len()..].parse().unwrap());
                self.engine.deliver_due(self.now)
            }
            _ => self.engine.look(snapshot(step), self.now),
        };
        effects.iter().map(describe_effect).collect()
    }
}

/// Records of one write are joined by ` & `: `1 started @1 & 2 notify @1 x1`,
/// `3 followUp! of 1 2`, `status 1 running 0 waiting 0 dead`.
fn describe_effect(effect: &Effect) -> String {
    match effect {
        Effect::Append(records) => {
            let records: Vec<String> = records.iter().map(describe_record).collect();
            records.join(" & ")
        }
        Effect::Status(counts) => match counts.line() {
            None => "status gone".to_owned(),
            Some(line) => format!("{line}, {} waiting, {} dead", counts.waiting, counts.dead),
        },
    }
}

fn describe_record(record: &Record) -> String {
    let mark = |level: &Level| if *level == Level::Warning { "!" } else { "" };
    let list = |events: &[Seq]| {
        let seqs: Vec<String> = events.iter().map(ToString::to_string).collect();
        seqs.join(" ")
    };
    let what = match &record.body {
        Body::Event(event) => describe(event),
        Body::Notice {
            level,
            text,
            events,
            ..
        } if events.is_empty() => {
            format!("notice{} {text}", mark(level))
        }
        Body::Notice { level, events, .. } => format!("notice{} of {}", mark(level), list(events)),
        Body::FollowUp { level, events, .. } => {
            let events: Vec<Seq> = events.iter().map(|told| told.seq).collect();
            format!("followUp{} of {}", mark(level), list(&events))
        }
    };
    format!("{} {what}", record.seq)
}

#[track_caller]
fn check_from(settings: Settings, memory: Memory, steps: &[(&str, &[&str])]) {
    let mut driver = Driver::new(settings, memory);
    for (index, (step, expected)) in steps.iter().enumerate() {
        assert_eq!(driver.step(step), *expected, "step {index}: `{step}`");
    }
}

/// Snapshots as `replay` takes them: what each brings is delivered with it. Counts are left out.
#[track_caller]
fn check(looks: &[(&str, &[&str])]) {
    let mut driver = Driver::new(Settings::REPLAY, Memory::default());
    for (index, (look, expected)) in looks.iter().enumerate() {
        let mut told = driver.step(look);
        told.extend(driver.step("deliver"));
        told.retain(|effect| !effect.starts_with("tmux:") && !effect.starts_with("status"));
        assert_eq!(told, *expected, "look {index}: `{look}`");
    }
}

/// Looks of a daemon, with all their effects.
#[track_caller]
fn check_live(steps: &[(&str, &[&str])]) {
    check_from(Settings::LIVE, Memory::default(), steps);
}

#[test]
fn the_baseline_has_no_events() {
    check(&[("@1 a running bell; @2 b dead 2 bells=3; @3 c unknown", &[])]);
    check(&[("missing", &[])]);
    check(&[("ended @1 a dead 2; @2 b running", &[])]);
    check(&[
        ("missing", &[]),
        ("@1 a running", &["1 started @1", "2 notice of 1"]),
    ]);
    check(&[
        ("", &[]),
        ("@1 a running", &["1 started @1", "2 notice of 1"]),
    ]);
}

#[test]
fn a_prompt_of_the_baseline_is_reported_at_the_next_equal_look() {
    let asks = "@1 a running : Go? [y/n]";
    check(&[
        (asks, &[]),
        (asks, &["1 input @1: Go? [y/n]", "2 followUp! of 1"]),
        (asks, &[]),
    ]);
    check(&[
        (asks, &[]),
        ("@1 a running : x|Go? [y/n]", &[]),
        (
            "@1 a running : x|Go? [y/n]",
            &["1 input @1: Go? [y/n]", "2 followUp! of 1"],
        ),
    ]);
}

#[test]
fn started_only_for_a_new_live_window() {
    check(&[
        ("@1 a running; @2 b dead 0", &[]),
        (
            "@1 a running; @2 b dead 0; @3 c running; @4 d dead 3",
            &["1 started @3 & 2 exited @4 3", "3 followUp! of 1 2"],
        ),
        ("@1 a running; @2 b dead 0; @3 c running; @4 d dead 3", &[]),
    ]);
}

#[test]
fn a_bell_is_reported_by_count_and_by_flag() {
    check(&[
        ("@1 a running bells=1; @2 b running", &[]),
        (
            "@1 a running bells=3; @2 b running bell",
            &["1 notify @1 x2 & 2 notify @2 x1", "3 followUp of 1 2"],
        ),
        ("@1 a running bells=3; @2 b running bell", &[]),
        (
            "@1 a running bells=4 bell; @2 b running",
            &["4 notify @1 x1", "5 followUp of 4"],
        ),
    ]);
}

#[test]
fn a_bell_with_an_end_is_two_events_and_one_text() {
    let mut driver = Driver::new(Settings::REPLAY, Memory::default());
    driver.step("@1 a running bells=0");
    assert_eq!(
        driver.step("@1 a dead 0 bells=1 : done")[0],
        "1 notify @1 x1 & 2 exited @1 0"
    );
    let effects = driver.engine.deliver(driver.now);
    let [Effect::Append(records)] = &*effects else {
        panic!("one write: {effects:?}")
    };
    let [
        Record {
            seq: 3,
            body: Body::FollowUp {
                content, events, ..
            },
            ..
        },
    ] = &**records
    else {
        panic!("one message: {records:?}")
    };
    assert_eq!(
        content,
        "[tmux-task notification]\n\
         tmux task @1 (a) sent a terminal notification, then exited with code 0\n\
         recent output:\n  done"
    );
    assert_eq!(events.len(), 2);
}

#[test]
fn what_a_command_is_about_to_return_with_is_not_delivered_before_it() {
    let begin = |owner: Option<&str>| {
        let mut driver = Driver::new(Settings::LIVE, Memory::default());
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
fn input_is_reported_once_per_window_and_prompt() {
    let both = "@1 a running : Go? [y/n]; @2 b running : Go? [y/n]";
    check(&[
        ("", &[]),
        (both, &["1 started @1 & 2 started @2", "3 notice of 1 2"]),
        (
            both,
            &[
                "4 input @1: Go? [y/n] & 5 input @2: Go? [y/n]",
                "6 followUp! of 4 5",
            ],
        ),
        (both, &[]),
        (
            "@1 a running : Password:; @2 b running : Go? [y/n]",
            &["7 resolved @1: Go? [y/n]"],
        ),
        (
            "@1 a running : Password:; @2 b running : Go? [y/n]",
            &["8 input @1!: Password:", "9 followUp! of 8"],
        ),
    ]);
}

#[test]
fn what_is_resolved_comes_first_and_is_for_the_feed_only() {
    let asks = "@1#1 a running : Go? [y/n]";
    let told: [(&str, &[&str]); 2] = [
        (asks, &[]),
        (asks, &["1 input @1#1: Go? [y/n]", "2 followUp! of 1"]),
    ];
    check(&[
        told[0],
        told[1],
        ("@1#1 a running : ok", &["3 resolved @1#1: Go? [y/n]"]),
    ]);
    check(&[
        told[0],
        told[1],
        (
            "@1#1 a dead 0 bell : Go? [y/n]",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 notify @1#1 x1 & 5 exited @1#1 0",
                "6 followUp of 4 5",
            ],
        ),
    ]);
    check(&[
        told[0],
        told[1],
        (
            "",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 disappeared @1#1",
                "5 followUp! of 4",
            ],
        ),
    ]);
    check(&[
        told[0],
        told[1],
        (
            "@1#2 a running : Go? [y/n]",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 exited @1#1 ? replaced & 5 rerun @1#2",
                "6 followUp! of 4 5",
            ],
        ),
    ]);
}

#[test]
fn events_of_all_floors_are_in_one_order() {
    check(&[
        ("@1 a running : Go? [y/n]; @2 b running; @3 c running", &[]),
        (
            "@1 a running : Go? [y/n]; @2 b dead 0; @10 d running",
            &[
                "1 input @1: Go? [y/n] & 2 exited @2 0 & 3 started @10 & 4 disappeared @3",
                "5 followUp! of 1 2 3 4",
            ],
        ),
    ]);
    // A prompt that stands and rings: the bell, then what is waited for.
    check(&[
        ("@1 a running : Go? [y/n]", &[]),
        (
            "@1 a running bell : Go? [y/n]",
            &[
                "1 notify @1 x1 & 2 input @1: Go? [y/n]",
                "3 followUp! of 1 2",
            ],
        ),
    ]);
}

#[test]
fn uncounted_runs_keep_their_order() {
    check(&[
        ("@1 a running", &[]),
        (
            "ended @1 a dead 1 bell; ended @1 a dead 2; @1 a running",
            &[
                "1 notify @1 x1 & 2 exited @1 1 & 3 exited @1 2 & 4 rerun @1",
                "5 followUp! of 1 2 3 4",
            ],
        ),
    ]);
}

#[test]
fn tasks_of_another_life_are_new_and_so_are_their_prompts() {
    check(&[
        ("life 1; @1 a running : Go? [y/n]", &[]),
        (
            "life 1; @1 a running : Go? [y/n]",
            &["1 input @1: Go? [y/n]", "2 followUp! of 1"],
        ),
        (
            "life 2; @1 a running : Go? [y/n]",
            &[
                "3 resolved @1: Go? [y/n] & 4 started @1 & 5 disappeared @1",
                "6 followUp! of 4 5",
            ],
        ),
        (
            "life 2; @1 a running : Go? [y/n]",
            &["7 input @1: Go? [y/n]", "8 followUp! of 7"],
        ),
    ]);
}

#[test]
fn a_session_that_goes_and_comes_back() {
    check_live(&[
        (
            "@1 a running; @2 b dead 0",
            &["tmux: 2 tasks, 0 waiting, 1 dead"],
        ),
        ("+100 missing", &["1 disappeared @1", "status gone"]),
        ("+50", &["2 followUp! of 1"]),
        ("+100 missing", &[]),
        ("+100", &[]),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        (
            "+100 @3 a running",
            &["3 started @3", "tmux: 1 task, 0 waiting, 0 dead"],
        ),
        ("+50", &["4 notice of 3"]),
    ]);
}

#[test]
fn every_change_of_counts_is_published_and_nothing_else() {
    let asks = "@1 a running : Go? [y/n]";
    check_live(&[
        ("missing", &["status gone"]),
        ("missing", &[]),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        (asks, &["1 started @1", "tmux: 1 task, 0 waiting, 0 dead"]),
        ("+200", &["2 notice of 1"]),
        (
            asks,
            &["3 input @1: Go? [y/n]", "tmux: 1 task, 1 waiting, 0 dead"],
        ),
        ("+200", &["4 followUp! of 3"]),
        (asks, &[]),
        ("@1 a unknown", &[]),
        (asks, &[]),
        (
            "@1 a running : ok",
            &[
                "5 resolved @1: Go? [y/n]",
                "tmux: 1 task, 0 waiting, 0 dead",
            ],
        ),
        (
            "@1 a dead 0",
            &["6 exited @1 0", "tmux: 1 task, 0 waiting, 1 dead"],
        ),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        ("missing", &["status gone"]),
    ]);
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
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
    assert_eq!(driver.engine.deliver_at(), None);
    assert_eq!(driver.engine.look_at(), None);
    driver.step("");
    driver.step("@1 a running : Go? [y/n]");
    let in_ms = |ms| Some(driver.now.after(Duration::from_millis(ms)).mono);
    assert_eq!(driver.engine.deliver_at(), in_ms(50));
    assert_eq!(driver.engine.look_at(), in_ms(200));
    assert_eq!(driver.engine.prompt_of(WindowId(1)), None);
    driver.step("+200");
    driver.step("@1 a running : Go? [y/n]");
    assert_eq!(driver.engine.look_at(), None);
    let prompt = driver.engine.prompt_of(WindowId(1)).cloned();
    assert_eq!(
        prompt.map(|prompt| prompt.text).as_deref(),
        Some("Go? [y/n]")
    );
    assert_eq!(driver.engine.last_seq(), 3);
    assert_eq!(driver.engine.counts().map(|counts| counts.waiting), Some(1));
    assert_eq!(driver.engine.before().map(|look| look.tasks.len()), Some(1));
}

/// How one task stands after it has shown `rows` for ten minutes, ten of which make it stalled:
/// whether it is, and the records that were made of it.
fn after_ten_minutes(rows: &str, terminal: Option<TtyEvidence>) -> (bool, Vec<String>) {
    let settings = Settings {
        stalled_after: Some(Duration::from_secs(600)),
        ..Settings::LIVE
    };
    let mut driver = Driver::new(settings, Memory::default());
    let mut look = snapshot(&format!("@1 a running cursor=0,0 : {rows}"));
    let task = std::sync::Arc::make_mut(look.tasks.get_mut(&WindowId(1)).unwrap());
    let y = task.screen.rows.len() - 1;
    let x = task.screen.rows[y].chars().count() + 1;
    task.screen.cursor = Some(crate::model::CursorPosition {
        x: u32::try_from(x).unwrap(),
        y: u32::try_from(y).unwrap(),
    });
    look.terminals
        .extend(terminal.map(|terminal| (WindowId(1), terminal.into())));
    let mut told = Vec::new();
    for after in [0, 1, 598, 1] {
        assert_eq!(driver.engine.stalled_for(WindowId(1), driver.now), None);
        driver.now = driver.now.after(Duration::from_secs(after));
        let effects = driver.engine.look(look.clone(), driver.now);
        told.extend(effects.iter().map(describe_effect));
    }
    let stalled = driver.engine.stalled_for(WindowId(1), driver.now);
    assert!(stalled.is_none_or(|stood| stood == Duration::from_secs(600)));
    let counts = driver.engine.counts().unwrap();
    assert_eq!(counts.stalled, usize::from(stalled.is_some()));
    (stalled.is_some(), told)
}

#[test]
fn silence_of_which_nothing_is_known_is_stalled_and_no_event() {
    use TtyUse::{Elsewhere, Polling, Reading, Unknown};
    let terminal = |canonical, reader, foreground| {
        Some(TtyEvidence {
            reader,
            echo: Some(true),
            canonical: Some(canonical),
            foreground,
            programs: vec!["program".to_owned()],
            ..TtyEvidence::default()
        })
    };
    let command = |canonical, reader| terminal(canonical, reader, Foreground::Command);
    for (rows, terminal, expected) in [
        // Nothing is known, or nothing that decides.
        ("connected", None, true),
        ("connected", command(true, Polling), true),
        ("connected", command(true, Unknown), true),
        ("connected", command(false, Polling), true),
        ("connected", command(false, Elsewhere), true),
        // It waits.
        ("Go? [y/n]", command(true, Reading), false),
        ("connected", command(true, Reading), false),
        // It works, or listens while it works.
        ("connected", command(true, Elsewhere), false),
        ("Press h to show help", command(true, Polling), false),
        // It is idle.
        ("$", terminal(true, Polling, Foreground::Idle), false),
        ("me@host:~$", command(false, Polling), false),
    ] {
        let (is_stalled, told) = after_ten_minutes(rows, terminal.clone());
        assert_eq!(is_stalled, expected, "{rows}: {terminal:?}");
        let is_told = told.iter().any(|told| !told.starts_with("tmux: "));
        assert!(!(is_stalled && is_told), "{rows}: {told:?}");
    }
}

#[test]
fn a_notice_of_no_event_is_recorded_at_once() {
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
    driver.step("@1 a running");
    driver.step("");
    let effects = driver
        .engine
        .notice(Level::Info, "killed api".to_owned(), driver.now);
    let told: Vec<String> = effects.iter().map(describe_effect).collect();
    assert_eq!(told, ["2 notice killed api"]);
    assert_eq!(driver.step("+50"), ["3 followUp! of 1"]);
}

#[test]
fn records_bear_the_time_of_their_making() {
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
    driver.step("");
    driver.now.wall = 1000;
    let effects = driver.engine.look(snapshot("@1 a running"), driver.now);
    let Some(Effect::Append(records)) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(records[0].time, 1000);
    driver.now = driver.now.after(Duration::from_millis(50));
    let effects = driver.engine.deliver_due(driver.now);
    let Some(Effect::Append(records)) = effects.first() else {
        panic!("{effects:?}")
    };
    assert_eq!(records[0].time, 1050);
}

fn memory(before: &str) -> Memory {
    Memory {
        before: Some(snapshot(before)),
        last_seq: 7,
        ..Memory::default()
    }
}

#[test]
fn changes_while_no_daemon_ran_are_reported() {
    let steps: &[(&str, &[&str])] = &[
        (
            "life 1; @1 a dead 2; @3 c running",
            &[
                "8 exited @1 2 & 9 started @3 & 10 disappeared @2",
                "tmux: 2 tasks, 0 waiting, 1 dead",
            ],
        ),
        ("+50", &["11 followUp! of 8 9 10"]),
    ];
    let before = "life 1; @1 a running; @2 b running";
    check_from(Settings::LIVE, memory(before), steps);
}

#[test]
fn another_life_on_return_is_no_baseline() {
    check_from(
        Settings::LIVE,
        memory("life 1; @1 a running; @2 b dead 0"),
        &[(
            "life 2; @1 a running",
            &[
                "8 started @1 & 9 disappeared @1",
                "tmux: 1 task, 0 waiting, 0 dead",
            ],
        )],
    );
}

#[test]
fn an_episode_goes_on_after_a_restart() {
    let asks = "@1 a running : Go? [y/n]";
    let memory = || {
        let text = "Go? [y/n]".to_owned();
        let prompt = Prompt {
            text,
            kind: crate::model::PromptKind::Confirm,
            secret: false,
        };
        Memory {
            waiting: vec![(task(asks), prompt)],
            ..memory(asks)
        }
    };
    check_from(
        Settings::LIVE,
        memory(),
        &[
            (asks, &["tmux: 1 task, 1 waiting, 0 dead"]),
            ("+300 @1 a running : Go? [y/n]", &[]),
            (
                "@1 a running : ok",
                &[
                    "8 resolved @1: Go? [y/n]",
                    "tmux: 1 task, 0 waiting, 0 dead",
                ],
            ),
        ],
    );
    check_from(
        Settings::LIVE,
        memory(),
        &[(
            "@1 a dead 0",
            &[
                "8 resolved @1: Go? [y/n] & 9 exited @1 0",
                "tmux: 1 task, 0 waiting, 1 dead",
            ],
        )],
    );
}

#[test]
fn what_was_owed_is_delivered_on_return() {
    let owed = |notation: &str, seq| DeliveredEvent {
        seq,
        event: Event {
            kind: EventKind::Exited { replaced: None },
            task: task(notation),
        },
    };
    let memory = || Memory {
        owed: vec![owed("@1 a dead 0", 6), owed("@2 b dead 1", 7)],
        ..memory("@1 a dead 0; @2 b dead 1; @3 c running")
    };
    // At once, whether a look comes first or not, and without what the look brings.
    check_from(Settings::LIVE, memory(), &[("+0", &["8 followUp! of 6 7"])]);
    check_from(
        Settings::LIVE,
        memory(),
        &[
            (
                "@1 a dead 0; @2 b dead 1; @3 c dead 0",
                &[
                    "8 followUp! of 6 7",
                    "9 exited @3 0",
                    "tmux: 3 tasks, 0 waiting, 3 dead",
                ],
            ),
            ("+50", &["10 followUp of 9"]),
        ],
    );
}

#[test]
fn numbers_have_no_gaps() {
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
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

mod properties {
    use proptest::prelude::*;

    use super::*;

    fn any_step() -> impl Strategy<Value = String> {
        let state = prop_oneof![
            Just("running"),
            Just("running : Go? [y/n]"),
            Just("running bells=1"),
            Just("running bells=2 : Password:"),
            Just("unknown"),
            Just("dead 0"),
            Just("dead SIGHUP bells=3"),
        ];
        let window = proptest::option::of((1..4_u32, state));
        let look = proptest::collection::vec(window, 3).prop_map(|windows| {
            let tasks = windows
                .into_iter()
                .enumerate()
                .filter_map(|(index, window)| {
                    let (run, state) = window?;
                    Some(format!("@{}#{run} a {state}", index + 1))
                });
            tasks.collect::<Vec<_>>().join("; ")
        });
        prop_oneof![
            8 => (0..300_u32, look).prop_map(|(ms, look)| format!("+{ms} {look}")),
            1 => Just("missing".to_owned()),
            2 => (0..100_u32).prop_map(|ms| format!("+{ms}")),
        ]
    }

    proptest! {
        #[test]
        fn every_event_is_delivered_once_at_most_and_in_order(
            steps in proptest::collection::vec(any_step(), 1..20),
        ) {
            let mut driver = Driver::new(Settings::LIVE, Memory::default());
            let mut owed = Vec::new();
            let mut next = 1;
            for step in steps.iter().map(String::as_str).chain(["deliver"]) {
                for effect in driver.step(step) {
                    for record in effect.split(" & ") {
                        let (seq, what) = record.split_once(' ').unwrap();
                        let Ok(seq) = seq.parse::<Seq>() else { continue };
                        prop_assert_eq!(seq, next);
                        next += 1;
                        match what.split_once(" of ") {
                            Some((_, told)) => {
                                let told: Vec<Seq> =
                                    told.split(' ').map(|seq| seq.parse().unwrap()).collect();
                                let events: Vec<Seq> = owed.iter().map(|(seq, _)| *seq).collect();
                                prop_assert_eq!(told, events);
                                owed.clear();
                            }
                            // What was answered before it was told is not told any more.
                            None if what.starts_with("resolved") => {
                                let (window, _) = what["resolved ".len()..].split_once('#').unwrap();
                                let answered = format!("input {window}#");
                                owed.retain(|(_, what): &(Seq, String)| !what.starts_with(&answered));
                            }
                            None => owed.push((seq, what.to_owned())),
                        }
                    }
                }
            }
            prop_assert_eq!(owed, []);
        }
    }
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
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
    for (step, expected) in steps {
        let told = driver.step(step);
        assert_eq!(told.len(), expected.len(), "{step}: {told:?}");
        let told = told.iter().zip(expected);
        for (told, expected) in told.filter(|(told, _)| !told.starts_with("tmux")) {
            assert_eq!(told, expected, "{step}");
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
    let mut driver = Driver::new(Settings::LIVE, Memory::default());
    driver.step("tried 0");
    driver.step("");
    driver.step("@1#1 a dead 1");
    assert_eq!(driver.step("+60"), [] as [&str; 0]);
    driver.engine.note_return(&WaitReturn {
        owner: None,
        window: WindowId(1),
        run: Some(1),
        what: ReturnCause::End,
    });
    assert_eq!(driver.step("tried 1"), ["2 notice! of 1"]);
}

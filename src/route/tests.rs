use super::*;
use crate::diff::diff;
use crate::model::Prompt;
use crate::model::test_notation::{snapshot, task};

/// The events between these looks, as they would be gathered.
fn gathered(looks: &[&str]) -> Vec<Event> {
    looks
        .windows(2)
        .flat_map(|pair| diff(&snapshot(pair[0]), &snapshot(pair[1])))
        .collect()
}

#[track_caller]
fn check(looks: &[&str], expected: &str) {
    check_events(&gathered(looks), expected);
}

/// `expected` begins with `notice`, `notice!`, `followUp`, `followUp!` or `nothing`; `!` is a
/// warning. The header of a message is checked and left out.
#[track_caller]
fn check_events(events: &[Event], expected: &str) {
    let events: Vec<_> = events.iter().map(|event| (event, reach(event))).collect();
    let mark = |level| if level == Level::Warning { "!" } else { "" };
    let actual = match route(&events) {
        None => "nothing".to_owned(),
        Some((Reach::FollowUp, level, content)) => {
            let text = content
                .strip_prefix("[tmux-task notification]\n")
                .expect("a message has its header");
            format!("followUp{} {text}", mark(level))
        }
        Some((_, level, text)) => format!("notice{} {text}", mark(level)),
    };
    assert_eq!(actual, expected);
}

fn input(notation: &str, text: &str) -> Event {
    let prompt = Prompt {
        text: text.to_owned(),
        kind: crate::model::PromptKind::Confirm,
        secret: false,
    };
    Event {
        kind: EventKind::Input { prompt },
        task: task(notation),
    }
}

fn resolved() -> Event {
    let Event { kind, task } = input("@12 api running", "Go?");
    let EventKind::Input { prompt } = kind else {
        unreachable!("it was made one")
    };
    let kind = EventKind::InputResolved { prompt };
    Event { kind, task }
}

#[test]
fn every_message_exactly() {
    check(
        &["", "@12 api running"],
        "notice tmux task @12 (api) started",
    );
    check(
        &["@12 api dead 0", "@12 api running"],
        "notice tmux task @12 (api) started",
    );
    check(
        &["@12 api running", "@12 api dead 0"],
        "followUp tmux task @12 (api) exited with code 0",
    );
    check(
        &["@12 api running", "@12 api dead 2"],
        "followUp! tmux task @12 (api) exited with code 2",
    );
    check(
        &["@12 api running", "@12 api dead ?"],
        "followUp! tmux task @12 (api) exited with unknown code",
    );
    check(
        &["@12 api running", "@12 api dead SIGKILL ours"],
        "followUp! tmux task @12 (api) was killed by SIGKILL",
    );
    let hint = "killed by SIGKILL (not by tmux-task; out of memory?)";
    check(
        &["@12 api running", "@12 api dead SIGKILL : one|two"],
        &format!(
            "followUp! tmux task @12 (api) was killed by SIGKILL\nrecent output:\n  one\n  two\n{hint}"
        ),
    );
    check(
        &["@12 api running", "@12 api dead 137 bell"],
        &format!(
            "followUp! tmux task @12 (api) sent a terminal notification, then exited with code 137\n{hint}"
        ),
    );
    check(
        &["@12 api running", "@12 api running bell"],
        "followUp tmux task @12 (api) sent a terminal notification",
    );
    check(
        &["@12 api running", "@12 api dead 0 bell"],
        "followUp tmux task @12 (api) sent a terminal notification, then exited with code 0",
    );
    check(
        &["@12 api running", "@12 api dead SIGSEGV bell"],
        "followUp! tmux task @12 (api) sent a terminal notification, then was killed by SIGSEGV",
    );
    check_events(
        &[input("@12 api running", "Proceed? [y/N]")],
        "followUp! tmux task @12 (api) is waiting for input: Proceed? [y/N]",
    );
    check(
        &["@12 api running", ""],
        "followUp! tmux task @12 (api) disappeared from session",
    );
    check(
        &["@12 api running", "gone @12 userKilled"],
        "followUp! tmux task @12 (api) disappeared from session after the user manually killed it",
    );
    check(
        &["@12 api running", "gone @12 agentKilled"],
        "notice! tmux task @12 (api) disappeared from session after the agent killed it",
    );
    check(
        &["@12 api running", "gone @12 moved"],
        "followUp! tmux task @12 (api) moved to another session",
    );
    check(
        &["@12#1 api running pid=7", "@12#2 api dead 0 pid=8"],
        "followUp! tmux task @12 (api) was replaced by a new run\n\
         tmux task @12 (api) exited with code 0",
    );
}

#[test]
fn who_knows_already_is_not_woken() {
    check(
        &[
            "@1#1 a running pid=7",
            "@1#2 a running pid=8; launcher @1 7",
        ],
        "notice! tmux task @1 (a) was replaced by a new run\ntmux task @1 (a) started",
    );
    check(
        &["@1#1 a running pid=7", "@1#2 a running pid=8"],
        "followUp! tmux task @1 (a) was replaced by a new run",
    );
    let theirs = "@1#1 a running pid=7 owner=pi:1";
    check(
        &[theirs, "@1#2 a running pid=8 owner=pi:2; launcher @1 7"],
        "followUp! tmux task @1 (a) was replaced by a new run of another agent",
    );
    check(
        &[theirs, "gone @1 otherAgentKilled"],
        "followUp! tmux task @1 (a) disappeared from session after another agent killed it",
    );
    check_events(&[resolved()], "nothing");
    check_events(&[], "nothing");
}

#[test]
fn a_message_leaves_out_what_started() {
    check(
        &["@2 b running", "@1 a running; @2 b dead 0"],
        "followUp tmux task @2 (b) exited with code 0",
    );
    check(
        &["", "@1 a running bell"],
        "followUp tmux task @1 (a) sent a terminal notification",
    );
    let mut events = gathered(&["", "@1 a running"]);
    events.push(resolved());
    check_events(&events, "notice tmux task @1 (a) started");
    let mut events = vec![resolved()];
    events.extend(gathered(&["@1 a running", "@1 a dead 0"]));
    check_events(&events, "followUp tmux task @1 (a) exited with code 0");
}

#[test]
fn several_notices_are_one_and_so_are_several_messages() {
    check(
        &["", "@1 a running; @2 b running"],
        "notice tmux task @1 (a) started\ntmux task @2 (b) started",
    );
    check(
        &["@3 c running", "@1 a running; gone @3 agentKilled"],
        "notice! tmux task @1 (a) started\n\
         tmux task @3 (c) disappeared from session after the agent killed it",
    );
    let mut events = gathered(&[
        "@1 a running; @2 b running; @3 c running",
        "@1 a dead 0; @2 b running bell",
    ]);
    events.push(input("@4 d running", "Password:"));
    check_events(
        &events,
        "followUp! tmux task @1 (a) exited with code 0\n\
         tmux task @2 (b) sent a terminal notification\n\
         tmux task @3 (c) disappeared from session\n\
         tmux task @4 (d) is waiting for input: Password:",
    );
}

#[test]
fn a_message_has_the_highest_level_of_its_events() {
    // The warning is left out of the text and counts all the same.
    check(
        &[
            "@1 a running; @2 b running",
            "@1 a dead 0; gone @2 agentKilled",
        ],
        "followUp! tmux task @1 (a) exited with code 0",
    );
    check(
        &["@1 a running; @2 b running", "@1 a dead 0; @2 b dead 0"],
        "followUp tmux task @1 (a) exited with code 0\ntmux task @2 (b) exited with code 0",
    );
}

#[test]
fn ends_and_bells_quote_the_last_three_lines() {
    check(
        &["@1 a running", "@1 a dead 0 : 1||2|  |  3  |4|"],
        "followUp tmux task @1 (a) exited with code 0\nrecent output:\n  2\n    3\n  4",
    );
    check(
        &["@1 a running", "@1 a running bell : one"],
        "followUp tmux task @1 (a) sent a terminal notification\nrecent output:\n  one",
    );
    check(
        &["@1 a running", "@1 a dead 1 bell : one|two"],
        "followUp! tmux task @1 (a) sent a terminal notification, then exited with code 1\n\
         recent output:\n  one\n  two",
    );
    check(
        &["@1 a running", "@1 a dead 0 :  | | "],
        "followUp tmux task @1 (a) exited with code 0",
    );
    check(
        &["@1#1 a running : x", "@1#2 a running"],
        "followUp! tmux task @1 (a) was replaced by a new run\nrecent output:\n  x",
    );
    check(
        &[
            "@1 a running; @2 b running",
            "@1 a dead 0 : x; @2 b dead 0 : y",
        ],
        "followUp tmux task @1 (a) exited with code 0\nrecent output:\n  x\n\
         tmux task @2 (b) exited with code 0\nrecent output:\n  y",
    );
}

#[test]
fn no_other_event_quotes_output() {
    check(&["", "@1 a running : x"], "notice tmux task @1 (a) started");
    check(
        &["@1 a running : x", ""],
        "followUp! tmux task @1 (a) disappeared from session",
    );
    check_events(
        &[input("@1 a running : x|Go?", "Go?")],
        "followUp! tmux task @1 (a) is waiting for input: Go?",
    );
}

#[test]
fn a_quoted_line_is_bounded() {
    let looks = [
        "@1 a running",
        &format!("@1 a dead 0 : {}", "x".repeat(9999)),
    ];
    let events = gathered(&looks);
    assert!(text_of(&events[0]).chars().count() < 600);
}

#[test]
fn the_bells_of_a_run_are_one_text_with_its_end() {
    // Also when they were seen in several looks.
    check(
        &[
            "@1 a running bells=0",
            "@1 a running bells=1",
            "@1 a running bells=3",
            "@1 a dead 0 bells=3",
        ],
        "followUp tmux task @1 (a) sent a terminal notification, then exited with code 0",
    );
    check(
        &[
            "@1 a running bells=0",
            "@1 a running bells=1",
            "@1 a running bells=3",
        ],
        "followUp tmux task @1 (a) sent a terminal notification",
    );
    check(
        &[
            "@1 a running; @2 b running",
            "@1 a running bell; @2 b dead 0",
        ],
        "followUp tmux task @1 (a) sent a terminal notification\ntmux task @2 (b) exited with code 0",
    );
}

#[test]
fn the_bell_of_one_run_is_not_the_end_of_another() {
    for (one, two) in [("@1#1", "@1#2"), ("@1", "@1")] {
        let began = format!("{one} a running bells=0");
        let ended = format!("{one} a dead 1 bells=1");
        let again = format!("{two} a running bells=1");
        let rang = format!("{two} a running bells=2");
        let done = format!("{two} a dead 0 bells=1");
        let first = "tmux task @1 (a) sent a terminal notification, then exited with code 1";
        check(
            &[&began, &ended, &again, &rang],
            &format!("followUp! {first}\ntmux task @1 (a) sent a terminal notification"),
        );
        check(
            &[&began, &ended, &again, &done],
            &format!("followUp! {first}\ntmux task @1 (a) exited with code 0"),
        );
        let both = format!("ended {one} a dead 1 bells=1; {two} a dead 0 bells=1");
        check(
            &[&began, &both],
            &format!("followUp! {first}\ntmux task @1 (a) exited with code 0"),
        );
    }
    check(
        &[
            "@1#1 a running bells=0",
            "@1#1 a running bells=1",
            "@1#2 a dead 0 bells=1",
        ],
        "followUp! tmux task @1 (a) sent a terminal notification\n\
         tmux task @1 (a) was replaced by a new run\n\
         tmux task @1 (a) exited with code 0",
    );
}

#[test]
fn a_crash_loop_is_delivered_to_the_agent_once() {
    let exited = |notation: &str| Event {
        kind: EventKind::Exited { replaced: None },
        task: task(notation),
    };
    let waits = exited("@1#2 api dead 2 restarts=3,2000,1");
    assert_eq!(reach(&waits), Reach::Notice);
    assert_eq!(
        text_of(&waits),
        "tmux task @1 (api) exited with code 2; restarts in 4 s, 2 of 3"
    );
    let last = exited("@1#4 api dead SIGSEGV restarts=3,2000,3");
    assert_eq!(reach(&last), Reach::FollowUp);
    assert_eq!(
        text_of(&last),
        "tmux task @1 (api) was killed by SIGSEGV; gave up after 3 restarts"
    );
    let once = exited("@1#4 api dead 1 restarts=1,0,1");
    assert!(text_of(&once).ends_with("exited with code 1; gave up after 1 restart"));
    let well = exited("@1#3 api dead 0 restarts=3,2000,2");
    assert_eq!(reach(&well), Reach::FollowUp);
    assert_eq!(text_of(&well), "tmux task @1 (api) exited with code 0");
}

#[test]
fn a_task_that_is_stopped_in_the_background_is_told_with_what_mends_it() {
    let asks = |notation: &str, text: &str| {
        text_of(&Event {
            kind: EventKind::Input {
                prompt: crate::model::Prompt {
                    text: text.to_owned(),
                    kind: crate::model::PromptKind::Text,
                    secret: false,
                },
            },
            task: task(notation),
        })
    };
    let stopped = asks("@12 api running background", "Continue? [y/N]");
    let mut lines = stopped.lines();
    assert_eq!(
        lines.next(),
        Some(
            "tmux task @12 (api) is stopped, waiting for input in the background: Continue? [y/N]"
        )
    );
    let advice = lines.next().unwrap();
    assert!(
        advice.starts_with("  ") && advice.contains("`timeout --foreground`"),
        "{advice}"
    );
    let silent = asks("@12 api running background", "");
    let header = "tmux task @12 (api) is stopped, waiting for input in the background";
    assert_eq!(silent.lines().next(), Some(header));
    // A signal has stopped it at a question that was told before.
    let held = asks("@12 api running stopped", "Go?");
    assert_eq!(held, "tmux task @12 (api) is waiting for input: Go?");
}

use super::*;
use crate::diff::diff;
use crate::model::test_notation::{snapshot, task};
use crate::model::{Level, Prompt, PromptKind};

/// The events between two looks, numbered from 1.
fn gathered(before: &str, after: &str) -> Vec<DeliveredEvent> {
    number(diff(&snapshot(before), &snapshot(after)))
}

fn number(events: Vec<Event>) -> Vec<DeliveredEvent> {
    (1..)
        .zip(events)
        .map(|(seq, event)| DeliveredEvent { seq, event })
        .collect()
}

fn question(notation: &str) -> Event {
    let prompt = Prompt {
        text: "Go?".to_owned(),
        kind: PromptKind::Confirm,
        secret: false,
    };
    Event {
        kind: EventKind::Input { prompt },
        task: task(notation),
    }
}

fn wait_return(owner: Option<&str>, window: u32, outcome: WaitOutcome) -> WaitReturn {
    WaitReturn {
        owner: owner.map(str::to_owned),
        window: WindowId(window),
        run: Some(1),
        outcome,
    }
}

/// `notice pi:1 of 1 2: TEXT`, `followUp! of 3: TEXT`; `!` is a warning, the owner is left out where
/// it is for everybody, and the header of messages is left out.
fn describe(body: &Body) -> String {
    let mark = |level: &Level| if *level == Level::Warning { "!" } else { "" };
    let whose = |owner: &Option<String>| {
        let owner = owner.as_ref().map(|owner| format!(" {owner}"));
        owner.unwrap_or_default()
    };
    let list = |seqs: Vec<Seq>| {
        let seqs: Vec<String> = seqs.iter().map(ToString::to_string).collect();
        seqs.join(" ")
    };
    match body {
        Body::Notice {
            level,
            text,
            events,
            owner,
        } => {
            let of = list(events.clone());
            format!("notice{}{} of {of}: {text}", mark(level), whose(owner))
        }
        Body::FollowUp {
            level,
            message,
            events,
            owner,
            ..
        } => {
            let of = list(events.clone());
            let (_, text) = message
                .content
                .split_once('\n')
                .expect("a message has a header");
            format!("followUp{}{} of {of}: {text}", mark(level), whose(owner))
        }
        Body::Event(_) => panic!("no delivery"),
    }
}

#[track_caller]
fn check(
    events: Vec<DeliveredEvent>,
    wait_returns: &[WaitReturn],
    shells: ShellDelivery,
    expected: &[&str],
) {
    let mut gathering = Gathering::new(Instant::now(), events);
    for wait_return in wait_returns {
        gathering.note_known(|delivered| wait_return.is_of(&delivered.event));
    }
    let bodies = gathering.deliver(&UserRules::default(), shells);
    let actual: Vec<String> = bodies.iter().map(describe).collect();
    assert_eq!(actual, expected);
}

#[track_caller]
fn check_looks(before: &str, after: &str, expected: &[&str]) {
    check(
        gathered(before, after),
        &[],
        ShellDelivery::Notice,
        expected,
    );
}

#[test]
fn each_row_of_the_table() {
    // Only `started`.
    check_looks(
        "",
        "@1#1 a running",
        &["notice of 1: tmux task @1 (a) started"],
    );
    // Any of the others: one message for all of them, `started` left out of its text.
    check_looks(
        "@2#1 b running; @3#1 c running",
        "@1#1 a running; @2#1 b dead 0; gone @3 userKilled",
        &["followUp! of 1 2 3: tmux task @2 (b) exited with code 0\n\
           tmux task @3 (c) disappeared from session after the user manually killed it"],
    );
    check_looks(
        "@1#1 a running",
        "@1#1 a running bell",
        &["followUp of 1: tmux task @1 (a) sent a terminal notification"],
    );
    check(
        number(vec![question("@1#1 a running")]),
        &[],
        ShellDelivery::Notice,
        &["followUp! of 1: tmux task @1 (a) is waiting for input: Go?"],
    );
    // What its owner has seen already.
    check(
        gathered("@1#1 a running owner=pi:1", "@1#1 a dead 2 owner=pi:1"),
        &[wait_return(Some("pi:1"), 1, WaitOutcome::Exited)],
        ShellDelivery::Notice,
        &["notice! pi:1 of 1: tmux task @1 (a) exited with code 2"],
    );
    // Only events of shells.
    check_looks(
        "@1#1 sh running shell",
        "@1#1 sh dead 0 shell bell",
        &["notice of 1 2: tmux task @1 (sh) sent a terminal notification, then exited with code 0"],
    );
    // What an agent ended itself, and what our launcher replaced.
    check_looks(
        "@1#1 a running",
        "gone @1 agentKilled",
        &["notice! of 1: tmux task @1 (a) disappeared from session after the agent killed it"],
    );
    check_looks(
        "@1#1 a running pid=7",
        "@1#2 a running pid=8; launcher @1 7",
        &["notice! of 1 2: tmux task @1 (a) was replaced by a new run\ntmux task @1 (a) started"],
    );
}

#[test]
fn a_follow_up_contains_one_owners_tasks() {
    check_looks(
        "@1#1 a running owner=pi:1; @2#1 b running owner=pi:2; @3#1 c running; \
         @4#1 d running owner=pi:1",
        "@1#1 a dead 0 owner=pi:1; @2#1 b dead 0 owner=pi:2; @3#1 c dead 0; \
         @4#1 d dead 1 owner=pi:1",
        &[
            "followUp! pi:1 of 1 4: tmux task @1 (a) exited with code 0\n\
             tmux task @4 (d) exited with code 1",
            "followUp pi:2 of 2: tmux task @2 (b) exited with code 0",
            "followUp of 3: tmux task @3 (c) exited with code 0",
        ],
    );
    // A task started by one owner is not delivered to another.
    check_looks(
        "@1#1 a running owner=pi:1",
        "@1#1 a dead 0 owner=pi:1; @2#1 b running owner=pi:2",
        &[
            "followUp pi:1 of 1: tmux task @1 (a) exited with code 0",
            "notice pi:2 of 2: tmux task @2 (b) started",
        ],
    );
}

#[test]
fn shells_are_delivered_as_the_configuration_says() {
    let events = || {
        gathered(
            "@1#1 a running; @2#1 sh running shell",
            "@1#1 a dead 0; @2#1 sh dead 1 shell",
        )
    };
    let of_task = "followUp of 1: tmux task @1 (a) exited with code 0";
    check(
        events(),
        &[],
        ShellDelivery::Notice,
        &[
            of_task,
            "notice! of 2: tmux task @2 (sh) exited with code 1",
        ],
    );
    check(events(), &[], ShellDelivery::Ignore, &[of_task]);
    check(
        events(),
        &[],
        ShellDelivery::FollowUp,
        &["followUp! of 1 2: tmux task @1 (a) exited with code 0\n\
           tmux task @2 (sh) exited with code 1"],
    );
}

#[test]
fn only_the_owner_of_the_wait_gets_a_notice_instead() {
    let end = || gathered("@1#1 a running owner=pi:1", "@1#1 a dead 2 owner=pi:1");
    let actual = ["followUp! pi:1 of 1: tmux task @1 (a) exited with code 2"];
    for other in [
        wait_return(Some("pi:2"), 1, WaitOutcome::Exited),
        wait_return(None, 1, WaitOutcome::Exited),
        wait_return(Some("pi:1"), 2, WaitOutcome::Exited),
        wait_return(Some("pi:1"), 1, WaitOutcome::Input),
        WaitReturn {
            run: Some(2),
            ..wait_return(Some("pi:1"), 1, WaitOutcome::Exited)
        },
    ] {
        check(end(), &[other], ShellDelivery::Notice, &actual);
    }
    // A user who waits has seen what has no owner.
    check(
        gathered("@1#1 a running", "@1#1 a dead 2"),
        &[wait_return(None, 1, WaitOutcome::Exited)],
        ShellDelivery::Notice,
        &["notice! of 1: tmux task @1 (a) exited with code 2"],
    );
    // If some events were seen, one message has the others.
    check(
        gathered(
            "@1#1 a running; @2#1 b running",
            "@1#1 a dead 2; @2#1 b dead 0",
        ),
        &[wait_return(None, 1, WaitOutcome::Exited)],
        ShellDelivery::Notice,
        &["followUp! of 1 2: tmux task @2 (b) exited with code 0"],
    );
    // The end of a run is the last that comes of it: its bells were before.
    check(
        gathered("@1#1 a running", "@1#1 a dead 0 bell"),
        &[wait_return(None, 1, WaitOutcome::Exited)],
        ShellDelivery::Notice,
        &["notice of 1 2: tmux task @1 (a) sent a terminal notification, then exited with code 0"],
    );
    check(
        number(vec![question("@1#1 a running")]),
        &[wait_return(None, 1, WaitOutcome::Input)],
        ShellDelivery::Notice,
        &["notice! of 1: tmux task @1 (a) is waiting for input: Go?"],
    );
}

#[test]
fn a_prompt_answered_before_delivery_is_left_out() {
    let mut events = vec![question("@1#1 a running"), question("@2#1 b running")];
    events.extend(diff(
        &snapshot("@3#1 c running"),
        &snapshot("@3#1 c dead 0"),
    ));
    let mut gathering = Gathering::new(Instant::now(), number(events));
    gathering.resolve(WindowId(1));
    let bodies = gathering.deliver(&UserRules::default(), ShellDelivery::Notice);
    let actual: Vec<String> = bodies.iter().map(describe).collect();
    assert_eq!(
        actual,
        [
            "followUp! of 2 3: tmux task @2 (b) is waiting for input: Go?\n\
          tmux task @3 (c) exited with code 0"
        ]
    );
    let mut gathering = Gathering::new(Instant::now(), number(vec![question("@1#1 a running")]));
    gathering.resolve(WindowId(1));
    let bodies = gathering.deliver(&UserRules::default(), ShellDelivery::Notice);
    assert_eq!(bodies, []);
}

#[test]
fn what_the_owner_has_read_is_a_notice() {
    let events = || {
        gathered(
            "@1#1 a running owner=pi:1; @2#1 b running owner=pi:1",
            "@1#1 a dead 0 owner=pi:1; @2#1 b dead 0 owner=pi:1",
        )
    };
    let delivered = |owner: &str, seqs: &[Seq]| {
        let mut gathering = Gathering::new(Instant::now(), events());
        gathering.note_known(|delivered| is_read_by(delivered, owner, seqs));
        let bodies = gathering.deliver(&UserRules::default(), ShellDelivery::Notice);
        bodies.iter().map(describe).collect::<Vec<_>>().join("; ")
    };
    assert!(delivered("pi:1", &[1, 2]).starts_with("notice pi:1 of 1 2: "));
    // The text leaves out what is known.
    assert_eq!(
        delivered("pi:1", &[1]),
        "followUp pi:1 of 1 2: tmux task @2 (b) exited with code 0"
    );
    assert!(delivered("pi:2", &[1, 2]).starts_with("followUp pi:1 of 1 2: "));
    assert!(delivered("pi:1", &[7]).starts_with("followUp pi:1 of 1 2: "));
}

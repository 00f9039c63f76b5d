use super::*;
use crate::model::test_notation::{delivered, events_of, stories};
use crate::rules::engine::tests::describe_delivery;

/// The events of a story, numbered from 1.
fn gathered(story: &str) -> Gathering {
    let mut gathering = Gathering::new(Instant::now());
    for delivered in delivered(1, events_of(story)) {
        gathering.add(delivered);
    }
    gathering
}

/// `notice pi:1 of 1 2: TEXT`, `followUp! of 3: TEXT`.
fn describe(body: &Body) -> String {
    let (head, text) = describe_delivery(body);
    format!("{head}: {text}")
}

/// Checks cases such as `story => body; body`, where `|` is the end of a line. What a wait has returned
/// with stands in front of the story: `pi:1 end of @1#1, story`, of nobody `- end of @1#1, story`.
#[track_caller]
fn check(shells: ShellDelivery, cases: &str) {
    for (heading, lines) in stories(cases) {
        for line in lines {
            let (story, expected) = line.split_once("=>").unwrap();
            let (returned, story) = match story.split_once(", ") {
                Some((returned, story)) => (Some(wait_return(returned)), story),
                None => (None, story),
            };
            let mut gathering = gathered(story);
            if let Some(wait_return) = returned {
                gathering.note_known(|delivered| wait_return.is_of(&delivered.event));
            }
            let bodies = gathering.deliver(&UserRules::default(), shells);
            let actual: Vec<String> = bodies.iter().map(describe).collect();
            let actual = actual.join("; ").replace('\n', " | ");
            assert_eq!(actual, expected.trim(), "{heading}: {line}");
        }
    }
}

fn wait_return(text: &str) -> WaitReturn {
    let [owner, what, _, run] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{text}");
    };
    let (window, run) = run.split_once('#').unwrap();
    WaitReturn {
        owner: (owner != "-").then(|| owner.to_owned()),
        window: window.parse().unwrap(),
        run: run.parse().ok(),
        outcome: match what {
            "end" => WaitOutcome::Exited,
            _ => WaitOutcome::Input,
        },
    }
}

#[test]
fn what_is_delivered_to_whom() {
    check(
        ShellDelivery::Notice,
        "
        ## only `started`
        -> @1#1 a running => notice of 1: tmux task @1 (a) started

        ## any of the others: one message for all of them, `started` left out of its text
        @2#1 b running; @3#1 c running -> @1#1 a running; @2#1 b dead 0; gone @3 userKilled
            => followUp! of 1 2 3: tmux task @2 (b) exited with code 0
            | tmux task @3 (c) disappeared from session after the user manually killed it
        @1#1 a running -> @1#1 a running bell
            => followUp of 1: tmux task @1 (a) sent a terminal notification
        asks @1#1 a running ? Go? => followUp! of 1: tmux task @1 (a) is waiting for input: Go?

        ## what its owner has seen already
        pi:1 end of @1#1, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => notice! pi:1 of 1: tmux task @1 (a) exited with code 2
        # A user who waits has seen what has no owner.
        - end of @1#1, @1#1 a running -> @1#1 a dead 2
            => notice! of 1: tmux task @1 (a) exited with code 2
        # If some events were seen, one message has the others.
        - end of @1#1, @1#1 a running; @2#1 b running -> @1#1 a dead 2; @2#1 b dead 0
            => followUp! of 1 2: tmux task @2 (b) exited with code 0
        # The end of a run is the last that comes of it: its bells were before.
        - end of @1#1, @1#1 a running -> @1#1 a dead 0 bell
            => notice of 1 2: tmux task @1 (a) sent a terminal notification, then exited with code 0
        - input of @1#1, asks @1#1 a running ? Go?
            => notice! of 1: tmux task @1 (a) is waiting for input: Go?

        ## only the owner of the wait has seen it, and only that
        pi:2 end of @1#1, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => followUp! pi:1 of 1: tmux task @1 (a) exited with code 2
        - end of @1#1, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => followUp! pi:1 of 1: tmux task @1 (a) exited with code 2
        pi:1 end of @2#1, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => followUp! pi:1 of 1: tmux task @1 (a) exited with code 2
        pi:1 input of @1#1, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => followUp! pi:1 of 1: tmux task @1 (a) exited with code 2
        pi:1 end of @1#2, @1#1 a running owner=pi:1 -> @1#1 a dead 2 owner=pi:1
            => followUp! pi:1 of 1: tmux task @1 (a) exited with code 2

        ## only events of shells
        @1#1 sh running shell -> @1#1 sh dead 0 shell bell
            => notice of 1 2: tmux task @1 (sh) sent a terminal notification, then exited with code 0

        ## what an agent ended itself, and what our launcher replaced
        @1#1 a running -> gone @1 agentKilled
            => notice! of 1: tmux task @1 (a) disappeared from session after the agent killed it
        @1#1 a running pid=7 -> @1#2 a running pid=8; launcher @1 7
            => notice! of 1 2: tmux task @1 (a) was replaced by a new run | tmux task @1 (a) started

        ## a follow-up contains one owner's tasks
        @1#1 a running owner=pi:1; @2#1 b running owner=pi:2; @3#1 c running; @4#1 d running owner=pi:1
            -> @1#1 a dead 0 owner=pi:1; @2#1 b dead 0 owner=pi:2; @3#1 c dead 0; @4#1 d dead 1 owner=pi:1
            => followUp! pi:1 of 1 4: tmux task @1 (a) exited with code 0
            | tmux task @4 (d) exited with code 1;
            followUp pi:2 of 2: tmux task @2 (b) exited with code 0;
            followUp of 3: tmux task @3 (c) exited with code 0
        # A task started by one owner is not delivered to another.
        @1#1 a running owner=pi:1 -> @1#1 a dead 0 owner=pi:1; @2#1 b running owner=pi:2
            => followUp pi:1 of 1: tmux task @1 (a) exited with code 0;
            notice pi:2 of 2: tmux task @2 (b) started
        ",
    );
}

#[test]
fn shells_are_delivered_as_the_configuration_says() {
    let of_task = "followUp of 1: tmux task @1 (a) exited with code 0";
    let notice = "notice! of 2: tmux task @2 (sh) exited with code 1";
    for (shells, expected) in [
        (ShellDelivery::Notice, format!("{of_task}; {notice}")),
        (ShellDelivery::Ignore, of_task.to_owned()),
        (
            ShellDelivery::FollowUp,
            "followUp! of 1 2: tmux task @1 (a) exited with code 0 \
             | tmux task @2 (sh) exited with code 1"
                .to_owned(),
        ),
    ] {
        let story = "@1#1 a running; @2#1 sh running shell -> @1#1 a dead 0; @2#1 sh dead 1 shell";
        check(shells, &format!("{story} => {expected}"));
    }
}

#[test]
fn a_prompt_answered_before_delivery_is_left_out() {
    let question = "asks @1#1 a running ? Go?";
    let others = "asks @2#1 b running ? Go? -> @3#1 c running -> @3#1 c dead 0";
    let delivered = |story: &str| {
        let mut gathering = gathered(story);
        gathering.resolve(WindowId(1));
        let bodies = gathering.deliver(&UserRules::default(), ShellDelivery::Notice);
        bodies.iter().map(describe).collect::<Vec<_>>()
    };
    let expected = "followUp! of 2 3: tmux task @2 (b) is waiting for input: Go?\n\
                    tmux task @3 (c) exited with code 0";
    assert_eq!(delivered(&format!("{question} -> {others}")), [expected]);
    assert_eq!(delivered(question), [""; 0]);
}

#[test]
fn what_the_owner_has_read_is_a_notice() {
    let story = "@1#1 a running owner=pi:1; @2#1 b running owner=pi:1 -> \
                 @1#1 a dead 0 owner=pi:1; @2#1 b dead 0 owner=pi:1";
    let delivered = |owner: &str, seqs: &[Seq]| {
        let mut gathering = gathered(story);
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

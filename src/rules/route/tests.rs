use super::*;
use crate::model::test_notation::{asked, events_of, rows, stories, task};

/// What events become: `notice`, `notice!`, `followUp`, `followUp!` or `nothing`, where `!` is a
/// warning, and the text. The header of a message is checked and left out.
fn delivered(events: &[Event]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|event| (event, Reach::FollowUp))
        .collect();
    let mark = |level| if level == Level::Warning { "!" } else { "" };
    match route(&events) {
        None => "nothing".to_owned(),
        Some((Reach::FollowUp, level, content)) => {
            let text = content
                .strip_prefix("[tmux-task notification]\n")
                .expect("a message has its header");
            format!("followUp{} {text}", mark(level))
        }
        Some((_, level, text)) => format!("notice{} {text}", mark(level)),
    }
}

/// Checks cases such as `look -> look => followUp TEXT\nTEXT`.
fn check(cases: &str) {
    for (heading, lines) in stories(cases) {
        for line in lines {
            let (story, expected) = line.split_once("=>").expect("a delivery");
            let expected = expected.trim().replace("\\n", "\n");
            assert_eq!(delivered(&events_of(story)), expected, "{heading}: {story}");
        }
    }
}

#[test]
fn every_message_exactly() {
    check(
        r"
        -> @12 api running => notice tmux task @12 (api) started
        @12 api dead 0 -> @12 api running => notice tmux task @12 (api) started
        @12 api running -> @12 api dead 0 => followUp tmux task @12 (api) exited with code 0
        @12 api running -> @12 api dead 2 => followUp! tmux task @12 (api) exited with code 2
        @12 api running -> @12 api dead ? => followUp! tmux task @12 (api) exited with unknown code
        @12 api running -> @12 api dead SIGKILL ours
            => followUp! tmux task @12 (api) was killed by SIGKILL
        @12 api running -> @12 api dead SIGKILL : one|two
            => followUp! tmux task @12 (api) was killed by SIGKILL\nrecent output:\n  one\n  two\nkilled
            by SIGKILL (not by tmux-task; out of memory?)
        @12 api running -> @12 api dead 137 bell
            => followUp! tmux task @12 (api) sent a terminal notification, then exited with code
            137\nkilled by SIGKILL (not by tmux-task; out of memory?)
        @12 api running -> @12 api running bell
            => followUp tmux task @12 (api) sent a terminal notification
        @12 api running -> @12 api dead 0 bell
            => followUp tmux task @12 (api) sent a terminal notification, then exited with code 0
        @12 api running -> @12 api dead SIGSEGV bell
            => followUp! tmux task @12 (api) sent a terminal notification, then was killed by SIGSEGV
        asks @12 api running ? Proceed? [y/N]
            => followUp! tmux task @12 (api) is waiting for input: Proceed? [y/N]
        @12 api running -> => followUp! tmux task @12 (api) disappeared from session
        @12 api running -> gone @12 userKilled
            => followUp! tmux task @12 (api) disappeared from session after the user manually killed it
        @12 api running -> gone @12 agentKilled
            => notice! tmux task @12 (api) disappeared from session after the agent killed it
        @12 api running -> gone @12 moved => followUp! tmux task @12 (api) moved to another session
        @12#1 api running pid=7 -> @12#2 api dead 0 pid=8
            => followUp! tmux task @12 (api) was replaced by a new run\ntmux task @12 (api) exited with code 0
        ",
    );
}

#[test]
fn what_is_delivered_and_how() {
    check(
        r"
        ## who knows already is not woken
        @1#1 a running pid=7 -> @1#2 a running pid=8; launcher @1 7
            => notice! tmux task @1 (a) was replaced by a new run\ntmux task @1 (a) started
        @1#1 a running pid=7 -> @1#2 a running pid=8
            => followUp! tmux task @1 (a) was replaced by a new run
        @1#1 a running pid=7 owner=pi:1 -> @1#2 a running pid=8 owner=pi:2; launcher @1 7
            => followUp! tmux task @1 (a) was replaced by a new run of another agent
        @1#1 a running pid=7 owner=pi:1 -> gone @1 otherAgentKilled
            => followUp! tmux task @1 (a) disappeared from session after another agent killed it
        answers @12 api running ? Go? => nothing
        => nothing

        ## a run says whether its end wakes; a question always does
        @1 a running -> @1 a dead 0 wake=failed => notice tmux task @1 (a) exited with code 0
        @1 a running -> @1 a dead 1 wake=failed => followUp! tmux task @1 (a) exited with code 1
        @1 a running -> @1 a dead 1 wake=never => notice! tmux task @1 (a) exited with code 1
        @1 a running wake=never -> => notice! tmux task @1 (a) disappeared from session
        @1 a running -> @1 a running bell wake=never
            => followUp tmux task @1 (a) sent a terminal notification
        asks @1 a running wake=never ? Go? => followUp! tmux task @1 (a) is waiting for input: Go?

        ## a clean end that would not wake is told with its group
        @1 a running; @2 b running -> @1 a dead 0 group=g wake=failed; @2 b dead 1 group=g
            => followUp! tmux task @1 (a) exited with code 0\ntmux task @2 (b) exited with code 1
        @1 a running; @2 b running -> @1 a dead 0 group=g wake=failed; @2 b dead 1 group=h
            => followUp! tmux task @2 (b) exited with code 1
        @1 a running; @2 b running -> @1 a dead 0 group=g wake=never; @2 b dead 1 group=g
            => followUp! tmux task @2 (b) exited with code 1

        ## a message leaves out what started
        @2 b running -> @1 a running; @2 b dead 0 => followUp tmux task @2 (b) exited with code 0
        -> @1 a running bell => followUp tmux task @1 (a) sent a terminal notification
        -> @1 a running -> answers @12 api running ? Go? => notice tmux task @1 (a) started
        answers @12 api running ? Go? -> @1 a running -> @1 a dead 0 => followUp tmux task @1 (a) exited with code 0

        ## several notices are one, and so are several messages
        -> @1 a running; @2 b running
            => notice tmux task @1 (a) started\ntmux task @2 (b) started
        @3 c running -> @1 a running; gone @3 agentKilled
            => notice! tmux task @1 (a) started\ntmux task @3 (c) disappeared from session after the agent
            killed it
        @1 a running; @2 b running; @3 c running -> @1 a dead 0; @2 b running bell
            -> asks @4 d running ? Password:
            => followUp! tmux task @1 (a) exited with code 0\ntmux task @2 (b) sent a terminal
            notification\ntmux task @3 (c) disappeared from session\ntmux task @4 (d) is waiting for
            input: Password:

        ## a message has the highest level of its events
        # The warning is left out of the text and counts all the same.
        @1 a running; @2 b running -> @1 a dead 0; gone @2 agentKilled
            => followUp! tmux task @1 (a) exited with code 0
        @1 a running; @2 b running -> @1 a dead 0; @2 b dead 0
            => followUp tmux task @1 (a) exited with code 0\ntmux task @2 (b) exited with code 0

        ## ends and bells quote the last three lines
        @1 a running -> @1 a dead 0 : 1||2|  |  3  |4|
            => followUp tmux task @1 (a) exited with code 0\nrecent output:\n  2\n    3\n  4
        @1 a running -> @1 a running bell : one
            => followUp tmux task @1 (a) sent a terminal notification\nrecent output:\n  one
        @1 a running -> @1 a dead 1 bell : one|two
            => followUp! tmux task @1 (a) sent a terminal notification, then exited with code 1\nrecent
            output:\n  one\n  two
        @1 a running -> @1 a dead 0 :  | | => followUp tmux task @1 (a) exited with code 0
        @1#1 a running : x -> @1#2 a running
            => followUp! tmux task @1 (a) was replaced by a new run\nrecent output:\n  x
        @1 a running; @2 b running -> @1 a dead 0 : x; @2 b dead 0 : y
            => followUp tmux task @1 (a) exited with code 0\nrecent output:\n  x\ntmux task @2 (b) exited
            with code 0\nrecent output:\n  y

        ## no other event quotes output
        -> @1 a running : x => notice tmux task @1 (a) started
        @1 a running : x -> => followUp! tmux task @1 (a) disappeared from session
        asks @1 a running : x|Go? ? Go? => followUp! tmux task @1 (a) is waiting for input: Go?

        ## the bells of a run are one text with its end, also when they were seen in several looks
        @1 a running bells=0 -> @1 a running bells=1 -> @1 a running bells=3 -> @1 a dead 0 bells=3
            => followUp tmux task @1 (a) sent a terminal notification, then exited with code 0
        @1 a running bells=0 -> @1 a running bells=1 -> @1 a running bells=3
            => followUp tmux task @1 (a) sent a terminal notification
        @1 a running; @2 b running -> @1 a running bell; @2 b dead 0
            => followUp tmux task @1 (a) sent a terminal notification\ntmux task @2 (b) exited with code 0
        ",
    );
}

#[test]
fn a_quoted_line_is_bounded() {
    let long = "x".repeat(9999);
    let events = events_of(&format!("@1 a running -> @1 a dead 0 : {long}"));
    assert!(text_of(&events[0]).chars().count() < 600);
}

#[test]
fn the_bell_of_one_run_is_not_the_end_of_another() {
    let cases = r"
        BEFORE a running bells=0 -> BEFORE a dead 1 bells=1 -> AFTER a running bells=1
            -> AFTER a running bells=2 => FIRST\ntmux task @1 (a) sent a terminal notification
        BEFORE a running bells=0 -> BEFORE a dead 1 bells=1 -> AFTER a running bells=1
            -> AFTER a dead 0 bells=1 => FIRST\ntmux task @1 (a) exited with code 0
        BEFORE a running bells=0 -> ended BEFORE a dead 1 bells=1; AFTER a dead 0 bells=1
            => FIRST\ntmux task @1 (a) exited with code 0
        ";
    let first = "followUp! tmux task @1 (a) sent a terminal notification, then exited with code 1";
    let cases = cases.replace("FIRST", first);
    for (before, after) in [("@1#1", "@1#2"), ("@1", "@1")] {
        check(&cases.replace("BEFORE", before).replace("AFTER", after));
    }
    check(
        r"
        @1#1 a running bells=0 -> @1#1 a running bells=1 -> @1#2 a dead 0 bells=1
            => followUp! tmux task @1 (a) sent a terminal notification\ntmux task @1 (a) was replaced by a
            new run\ntmux task @1 (a) exited with code 0
        ",
    );
}

#[test]
fn a_crash_loop_is_delivered_to_the_agent_once() {
    for [notation, expected] in rows(
        "@1#2 api dead 2 restarts=3,2000,1 | Notice tmux task @1 (api) exited with code 2; restarts in 4 s, 2 of 3
         @1#4 api dead SIGSEGV restarts=3,2000,3 | FollowUp tmux task @1 (api) was killed by SIGSEGV; gave up after 3 restarts
         @1#4 api dead 1 restarts=1,0,1 | FollowUp tmux task @1 (api) exited with code 1; gave up after 1 restart
         @1#3 api dead 0 restarts=3,2000,2 | FollowUp tmux task @1 (api) exited with code 0",
    ) {
        let (kind, task) = (EventKind::Exited { replaced: None }, task(&notation));
        let event = Event { kind, task };
        let told = format!("{:?} {}", reach(&event), text_of(&event));
        assert_eq!(told, expected, "{notation}");
    }
}

#[test]
fn a_task_that_is_stopped_in_the_background_is_told_with_what_mends_it() {
    let asks = |notation: &str, text: &str| text_of(&asked(notation, text));
    let header = "tmux task @12 (api) is stopped, waiting for input in the background";
    for (question, expected) in [
        ("Continue? [y/N]", format!("{header}: Continue? [y/N]")),
        ("", header.to_owned()),
    ] {
        let told = asks("@12 api running background", question);
        let (first, advice) = told.split_once('\n').unwrap();
        assert_eq!(first, expected);
        assert!(
            advice.starts_with("  ") && advice.contains("`timeout --foreground`"),
            "{advice}"
        );
    }
    // A signal has stopped it at a question that was told before.
    let held = asks("@12 api running stopped", "Go?");
    assert_eq!(held, "tmux task @12 (api) is waiting for input: Go?");
}

#[test]
fn a_message_over_the_limit_quotes_first_what_failed() {
    let line = "x".repeat(400);
    let story = |codes: &[u8]| {
        let dead = codes.iter().enumerate();
        let dead = dead.map(|(n, code)| format!("@{n} a{n} dead {code} : {line}|{line}|{line}"));
        let running = (0..codes.len()).map(|n| format!("@{n} a{n} running"));
        let [running, dead] = [running.collect::<Vec<_>>(), dead.collect()];
        delivered(&events_of(&format!(
            "{} -> {}",
            running.join("; "),
            dead.join("; ")
        )))
    };
    let n_lines = |text: &str| text.matches(&line).count();
    let whole = story(&[0; 11]);
    assert_eq!(n_lines(&whole), 3 * 11);
    assert!(!whole.contains("left out"));

    let mut codes = [0; 40];
    codes[39] = 1;
    let cut = story(&codes);
    assert!(cut.len() < MAX_TEXT + 200, "{}", cut.len());
    assert_eq!(cut.matches(" exited with code ").count(), 40);
    let n_cut = 40 - n_lines(&cut) / 3;
    assert!((28..=30).contains(&n_cut), "{n_cut}");
    let end = format!(
        "(a39) exited with code 1\nrecent output:\n  {line}\n  {line}\n  {line}\nthe output of {n_cut} of them is left out, see `tmux-task logs NAME`"
    );
    assert!(cut.ends_with(&end), "{cut}");
}

#[test]
fn a_message_takes_as_many_events_as_it_has_room_for() {
    let asked = |n: usize| format!("asks @{n} a{n} running ? {}", "y".repeat(300));
    let mut events: Vec<Event> = (0..100).flat_map(|n| events_of(&asked(n))).collect();
    let n = n_fitting(events.iter());
    let content = delivered(&events[..n]);
    assert!(content.len() < MAX_TEXT, "{n}: {}", content.len());
    assert!(content.len() > MAX_TEXT - 400, "{n}: {}", content.len());
    events.truncate(3);
    assert_eq!(n_fitting(events.iter()), 3);
    let long = events_of(&format!("asks @1 a running ? {}", "y".repeat(2 * MAX_TEXT)));
    assert_eq!(n_fitting(long.iter()), 1);
}

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::model::test_notation::{describe, expectation, snapshot, stories};
use crate::model::{GoneReason, Millis};

#[track_caller]
fn check(heading: &str, before: &str, after: &str, expected: &[&str]) {
    let looks = (snapshot(before), snapshot(after));
    let events = diff(&looks.0, &looks.1);
    let actual: Vec<String> = events.iter().map(describe).collect();
    assert_eq!(actual, expected, "{heading}: `{before}` -> `{after}`");
    assert_eq!(diff(&looks.0, &sharing(&looks.0, &looks.1)), events);
}

/// Checks cases such as `before -> after => event; event`.
fn check_all(cases: &str) {
    for (heading, lines) in stories(cases) {
        for line in lines {
            let (looks, expected) = expectation(&line);
            let (before, after) = looks.split_once("->").expect("two looks");
            check(heading, before.trim(), after.trim(), &expected);
        }
    }
}

/// Returns `after`, sharing the tasks of `before` where they are equal.
fn sharing(before: &Snapshot, after: &Snapshot) -> Snapshot {
    let mut after = after.clone();
    for (window, task) in &mut after.tasks {
        if let Some(same) = before.tasks.get(window).filter(|before| *before == task) {
            *task = Arc::clone(same);
        }
    }
    after
}

#[test]
fn two_looks_have_these_events() {
    check_all(
        "
        ## a run that was ended on purpose is told once with its exit
        @1#1 a running pid=7; @2#1 b running pid=8
            -> ended @1#1 a dead 143 pid=7; gone @1 userKilled; @2#1 b running pid=8
            => disappeared @1#1 userKilled
        # Its window was moved, and it has ended meanwhile.
        @1#1 a running pid=7 -> ended @1#1 a dead 143 pid=7; gone @1 moved => exited @1#1 143

        ## no change means no event
        ->
        missing -> missing
        missing ->
        -> missing
        @1 api running -> @1 api running
        @1 api dead 2 bell bells=3 -> @1 api dead 2 bell bells=3
        @1 api running : a -> @1 renamed running : b

        ## started is a new window that is alive
        -> @1 api running => started @1
        missing -> @1#1 api running => started @1#1
        -> @1 api unknown => started @1
        @1 api running -> @1 api running; @2 api running => started @2
        @1 api dead 0 -> @1 api dead 0; @2 api running => started @2

        ## started is a new run that is alive
        @1#1 api dead 0 -> @1#2 api running => rerun @1#2
        @1 api dead 0 -> @1 api running => rerun @1
        @1 api dead 0 -> @1 api unknown => rerun @1
        @1#1 api dead 0 -> @1 api running => rerun @1
        # Counting began: not a new run.
        @1 api running -> @1#1 api running
        @1 api dead 0 -> @1#1 api dead 0
        # The number decides, not the pid.
        @1#1 api running pid=7 -> @1#1 api running pid=8

        ## exited is a death not yet reported
        @1 api running -> @1 api dead 2 => exited @1 2
        @1 api running -> @1 api dead 0 => exited @1 0
        @1 api unknown -> @1 api dead SIGKILL => exited @1 SIGKILL
        @1 api running -> @1 api dead ? => exited @1 ?
        @1 api running -> @1 api unknown
        -> @1 api dead 1 => exited @1 1
        missing -> @1 api dead 1 => exited @1 1
        @1#1 api dead 0 -> @1#2 api dead 3 => exited @1#2 3

        ## every run between two looks is reported in order
        @1#1 api running
            -> ended @1#1 api dead 1; ended @1#2 api dead 2; @1#3 api running
            => exited @1#1 1; exited @1#2 2; rerun @1#3
        @1#1 api dead 0
            -> ended @1#2 api dead 2; ended @1#3 api dead 3; @1#4 api dead 4
            => exited @1#2 2; exited @1#3 3; exited @1#4 4
        -> ended @1#1 api dead 1; @1#2 api running => exited @1#1 1; rerun @1#2
        @9#1 b running; @10#1 a running
            -> ended @10#1 a dead 1; ended @9#1 b dead 2; @9#2 b running; @10#2 a dead 0
            => exited @9#1 2; rerun @9#2; exited @10#1 1; exited @10#2 0
        # A run that was reported at the previous look is not reported again.
        @1#3 api running -> ended @1#2 api dead 0; @1#3 api running
        @1#3 api dead 0 -> ended @1#3 api dead 0; @1#4 api running => rerun @1#4

        ## uncounted runs are distinguished by their order
        @1 api running -> ended @1 api dead 1; @1 api running => exited @1 1; rerun @1
        @1 api dead 0 -> ended @1 api dead 1; @1 api running => exited @1 1; rerun @1
        @1 api dead 0 -> ended @1 api dead 1; ended @1 api dead 2; @1 api dead 3
            => exited @1 1; exited @1 2; exited @1 3
        @1 api dead 0 pid=7 -> ended @1 api dead 0 pid=7; @1 api running pid=8 => rerun @1

        ## a live run that was respawned is replaced
        @1#1 api running pid=7 -> @1#2 api running pid=8 => exited @1#1 ? replaced; rerun @1#2
        @1#1 api running pid=7 -> @1#2 api running pid=8; launcher @1 7
            => exited @1#1 ? replaced by launcher; rerun @1#2
        @1#1 api running pid=7 -> @1#2 api dead 0 pid=8; launcher @1 7
            => exited @1#1 ? replaced by launcher; exited @1#2 0
        # By another agent, and where the new run is everybody's.
        @1#1 api running pid=7 owner=pi:1
            -> @1#2 api running pid=8 owner=pi:1; launcher @1 7
            => exited @1#1 ? replaced by launcher; rerun @1#2
        @1#1 api running pid=7 owner=pi:1
            -> @1#2 api running pid=8 owner=pi:2; launcher @1 7
            => exited @1#1 ? replaced by other agent; rerun @1#2
        @1#1 api running pid=7 owner=pi:1 -> @1#2 api running pid=8; launcher @1 7
            => exited @1#1 ? replaced by launcher; rerun @1#2
        @1#1 api running pid=7 owner=pi:1
            -> ended @1#1 api dead SIGHUP pid=7 owner=pi:1; @1#2 api running pid=8 owner=pi:1; launcher @1 7
            => exited @1#1 SIGHUP replaced by launcher; rerun @1#2
        @1#1 api running pid=7 owner=pi:1
            -> ended @1#1 api dead SIGHUP pid=7 owner=pi:1; @1#2 api running pid=8 owner=pi:2; launcher @1 7
            => exited @1#1 SIGHUP replaced by other agent; rerun @1#2
        @1#1 api running pid=7 owner=pi:1
            -> ended @1#1 api dead SIGHUP pid=7 owner=pi:1; @1#2 api running pid=8; launcher @1 7
            => exited @1#1 SIGHUP replaced by launcher; rerun @1#2
        # A task without an owner is everybody's.
        @1#1 api running pid=7 -> @1#2 api running pid=8 owner=pi:2; launcher @1 7
            => exited @1#1 ? replaced by launcher; rerun @1#2
        # The launcher's run was replaced by something else.
        @1#2 api running pid=8 -> @1#3 api running pid=9; launcher @1 7
            => exited @1#2 ? replaced; rerun @1#3
        # Another window's launch.
        @1#1 api running pid=7 -> @1#2 api running pid=8; launcher @2 7
            => exited @1#1 ? replaced; rerun @1#2
        # The launcher ended a run and could not start the next.
        @1#1 api running pid=7 -> @1#1 api dead SIGHUP pid=7; launcher @1 7 => exited @1#1 SIGHUP
        # A missing pid matches no pid.
        @1#1 api running -> @1#2 api running; launcher @1 7 => exited @1#1 ? replaced; rerun @1#2
        # The kernel reported how the replaced run ended; it still did not end by itself.
        @1#1 api running pid=7
            -> ended @1#1 api dead SIGHUP pid=7; @1#2 api running pid=8; launcher @1 7
            => exited @1#1 SIGHUP replaced by launcher; rerun @1#2
        # Two reruns: the exit of a run that began and ended between the looks is known.
        @1#1 api running pid=7
            -> ended @1#2 api dead 0 pid=8; @1#3 api running pid=9; launcher @1 7
            => exited @1#1 ? replaced by launcher; exited @1#2 0; rerun @1#3

        ## a run whose end is known and whose window is gone is exited and nothing else
        @1#1 api running -> ended @1#1 api dead 2 => exited @1#1 2
        @1 api running -> ended @1 api dead 2 => exited @1 2
        -> ended @1 api dead 2 => exited @1 2
        @1#1 api dead 0 -> ended @1#2 api dead 2 => exited @1#2 2
        @1#1 api running; @2#1 b running -> missing; ended @2#1 b dead 2
            => exited @2#1 2; disappeared @1#1
        @1#1 api running pid=7 -> ended @1#2 api dead 2 pid=8 => exited @1#1 ? replaced; exited @1#2 2

        ## bells are counted
        @1 a running bells=0 -> @1 a running bells=2 => notify @1 x2
        @1 a running bells=2 -> @1 a running bells=3 bell => notify @1 x1
        @1 a running -> @1 a running bells=3 => notify @1 x3
        @1 a running bell -> @1 a running bells=1 bell => notify @1 x1
        @1 a running -> @1 a running bells=0
        # A counter that did not rise outweighs the flag.
        @1 a running bells=2 -> @1 a running bells=2 bell
        @1 a running bells=5 -> @1 a running bells=1 bell
        # The bell of a dead task counts.
        @1 a dead 0 bells=1 -> @1 a dead 0 bells=2 => notify @1 x1
        @1 a unknown bells=1 -> @1 a unknown bells=2 => notify @1 x1

        ## without a counter the flag decides
        @1 a running -> @1 a running bell => notify @1 x1
        @1 a running bell -> @1 a running bell
        @1 a running bell -> @1 a running
        @1 a running bells=2 -> @1 a running
        @1 a running bells=2 -> @1 a running bell => notify @1 x1
        @1 a running bells=2 bell -> @1 a running bell

        ## a new window may ring
        -> @1 a running bell => started @1; notify @1 x1
        -> @1 a running bells=2 => started @1; notify @1 x2
        -> @1 a running bells=2 bell => started @1; notify @1 x2
        -> @1 a running bells=0 bell => started @1; notify @1 x1
        -> @1 a running bells=0 => started @1
        -> @1 a dead 0 bell => notify @1 x1; exited @1 0

        ## each run has its own bells
        @1#1 a running bells=0
            -> ended @1#1 a dead 0 bells=1; @1#2 a running bells=3
            => notify @1#1 x1; exited @1#1 0; rerun @1#2; notify @1#2 x2
        @1 a running bells=1 -> @1 a dead 0 bells=2 bell => notify @1 x1; exited @1 0

        ## disappeared was alive and its window is gone
        @1 a running -> => disappeared @1
        @1 a unknown -> => disappeared @1
        @1 a running -> missing => disappeared @1
        @1 a dead 0 ->
        @1 a dead 0 -> missing
        @1 a running -> gone @1 userKilled => disappeared @1 userKilled
        @1 a running -> gone @1 agentKilled => disappeared @1 agentKilled
        @1 a running -> gone @1 moved => disappeared @1 moved
        @1 a running -> missing; gone @1 userKilled => disappeared @1 userKilled
        @1 a dead 0 -> gone @1 userKilled
        @1 a running; @2 b running -> @2 b running; gone @2 userKilled => disappeared @1

        ## the same name in another window is another task
        @1 api running -> @2 api running => started @2; disappeared @1
        @1 api dead 0 -> @2 api dead 0 => exited @2 0

        ## events are ordered by window number then run and disappearances last
        @2 a running; @10 b running; @1 gone running
            -> @10 b dead 1 bells=1; @2 a dead 0; @11 new running
            => exited @2 0; notify @10 x1; exited @10 1; started @11; disappeared @1

        ## another life shares no tasks
        life 1; @1#1 a running; @2#1 b dead 0; @3#1 c running
            -> life 2; @1#1 a running; @2#1 b dead 0 bells=1
            => started @1#1; notify @2#1 x1; exited @2#1 0; disappeared @1#1; disappeared @3#1
        life 1; @1 a running -> life 1; @1 a running
        life 1; @1 a running -> @1 a running
        life 1; @1 a running -> missing => disappeared @1
        missing -> life 2; @1 a running => started @1

        ## known exits of the old life are reported
        life 1; @1 a running; @2 b running
            -> life 2; @3 c running; gone @1 userKilled
            => started @3; disappeared @1 userKilled; disappeared @2
        life 1; @1#1 a running pid=7 bells=4; @2#1 b running pid=8
            -> life 2; ended @1#1 a dead 2 pid=7 bells=5
            => notify @1#1 x1; exited @1#1 2; disappeared @2#1
        ",
    );
}

#[test]
fn a_replaced_run_ended_when_the_next_began() {
    let before = snapshot("@1#1 api running pid=7 : last words");
    let mut after = snapshot("@1#2 api running pid=8 : new");
    let started_at: Option<Millis> = Some(5);
    Arc::make_mut(after.tasks.get_mut(&WindowId(1)).unwrap()).started_at = started_at;
    let events = diff(&before, &after);
    assert_eq!(events[0].task.ended_at, started_at);
    assert_eq!(*events[0].task.screen.rows, ["last words"]);
    assert_eq!(*events[1].task.screen.rows, ["new"]);
}

#[test]
fn the_event_of_what_was_ended_on_purpose_has_its_exit() {
    let looks = [
        "@1#1 a running pid=7",
        "ended @1#1 a dead 143 pid=7; gone @1 timedOut",
    ];
    let [before, after] = looks.map(snapshot);
    let events = diff(&before, &after);
    assert_eq!(events[0].task.exit().and_then(|exit| exit.code), Some(143));
}

#[test]
fn events_bring_a_saved_snapshot_up_to_date() {
    let cases = "
        -> @1 a running => @1 a running
        missing -> @1 a running => @1 a running
        @1 a running -> @1 a dead 2 => @1 a dead 2
        @1#1 a running -> @1#2 a running => @1#2 a running
        @1 a running -> =>
        @1#1 a running pid=1 -> -> @1#1 b running pid=2 => @1#1 b running pid=2
        life 1; @1#1 a running pid=1 -> life 2; @1#1 b running pid=2 => @1#1 b running pid=2
        @1#1 a running
            -> ended @1#1 a dead 0; ended @1#2 a dead 1; @1#3 a running bells=2
            => @1#3 a running bells=2
        ";
    for line in stories(cases).into_iter().flat_map(|(_, lines)| lines) {
        let (looks, expected) = line.split_once("=>").unwrap();
        let looks: Vec<Snapshot> = looks.split("->").map(snapshot).collect();
        let mut applied = looks[0].clone();
        for pair in looks.windows(2) {
            for event in diff(&pair[0], &pair[1]) {
                apply(&mut applied, &event);
            }
        }
        assert_eq!(applied.tasks, snapshot(expected).tasks, "{line}");
        assert!(applied.exists, "{line}");
    }
}

#[test]
fn an_older_run_does_not_replace_a_later_one() {
    let exited = &diff(&snapshot("@1#1 a running"), &snapshot("@1#1 a dead 0"))[0];
    let mut later = snapshot("@1#2 a running");
    apply(&mut later, exited);
    assert_eq!(later, snapshot("@1#2 a running"));
    let gone = &diff(&snapshot("@1#1 a running"), &snapshot(""))[0];
    apply(&mut later, gone);
    assert_eq!(later, snapshot("@1#2 a running"));
}

fn any_life() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "running", "unknown", "dead 0", "dead 1", "dead 2", "dead ?",
    ])
}

/// One window at two looks: its run then, and the runs in between with its run now.
fn any_window(window: u32) -> impl Strategy<Value = (String, String)> {
    (
        proptest::option::of((1..4_u32, any_life())),
        proptest::collection::vec(any::<bool>(), 0..3),
        proptest::option::of((0..2_u32, any_life())),
        proptest::option::of(0..3_u64),
        any::<[bool; 3]>(),
    )
        .prop_map(
            move |(before, between, after, bells, [rang, killed, launched])| {
                let pid = |run: u32| window * 100 + run;
                let of_run = |run: u32, life: &str, rings: u64| {
                    let bells = bells.map(|bells| format!(" bells={}", bells + rings));
                    let bells = bells.unwrap_or_default();
                    format!("@{window}#{run} task {life} pid={}{bells}", pid(run))
                };
                let (mut then, mut now) = (String::new(), Vec::new());
                let mut run = 0;
                if let Some((first, life)) = before {
                    run = first;
                    then = format!("{}; ", of_run(run, life, 0));
                    if !life.starts_with("dead") && between.first() == Some(&true) {
                        now.push(format!("ended {}", of_run(run, "dead 9", 0)));
                    }
                }
                for code in between {
                    run += 1;
                    let life = if code { "dead 1" } else { "dead 0" };
                    now.push(format!("ended {}", of_run(run, life, 1)));
                }
                let is_known = before.is_some() || !now.is_empty();
                if let Some((more, life)) = after {
                    let goes_on = before.filter(|_| more == 0 && now.is_empty());
                    let was_dead = goes_on.filter(|(_, life)| life.starts_with("dead"));
                    let life = was_dead.map_or(life, |(_, life)| life);
                    let run = if goes_on.is_some() { run } else { run + 1 };
                    let bell = if rang { " bell" } else { "" };
                    now.push(of_run(run, life, 2) + bell);
                } else if killed && is_known {
                    now.push(format!("gone @{window} userKilled"));
                }
                if let Some((first, _)) = before.filter(|_| launched) {
                    now.push(format!("launcher @{window} {}", pid(first)));
                }
                (then, now.join("; ") + "; ")
            },
        )
}

prop_compose! {
    fn two_looks()(windows in (any_window(1), any_window(2), any_window(10)), lives in 0..3_u32)
        -> (Snapshot, Snapshot)
    {
        let windows = [windows.0, windows.1, windows.2];
        let [mut before, mut after] = [windows.clone().map(|(then, _)| then), windows.map(|(_, now)| now)]
            .map(|looks| looks.concat());
        if lives > 0 {
            before += "life 1";
            after += &format!("life {lives}");
        }
        let (before, mut after) = (snapshot(&before), snapshot(&after));
        if lives == 2 {
            // Another server: no process is the same, and no old exit is known.
            after.ended.clear();
            for task in after.tasks.values_mut().map(Arc::make_mut) {
                task.pid = task.pid.map(|pid| pid + 1000);
            }
        }
        (before, after)
    }
}

proptest! {
    #[test]
    fn the_same_look_twice_has_no_events((before, after) in two_looks()) {
        // Runs that ended since the previous look are reported only once.
        let after = Snapshot { ended: Vec::new(), ..after };
        prop_assert_eq!(diff(&before, &before), []);
        prop_assert_eq!(diff(&after, &after), []);
    }

    #[test]
    fn sharing_tasks_changes_nothing((before, after) in two_looks()) {
        prop_assert_eq!(diff(&before, &sharing(&before, &after)), diff(&before, &after));
    }

    #[test]
    fn nothing_is_reported_twice((before, after) in two_looks()) {
        let events: Vec<String> = diff(&before, &after).iter().map(describe).collect();
        let different: BTreeSet<&String> = events.iter().collect();
        prop_assert_eq!(different.len(), events.len(), "{:?}", events);
    }

    #[test]
    fn the_order_is_window_run_rank_and_disappearances_last((before, after) in two_looks()) {
        let place = |event: &Event| {
            let (last, rank) = match event.kind {
                EventKind::InputResolved { .. } => (false, 0),
                EventKind::Started { .. } => (false, 1),
                EventKind::Notify { .. } | EventKind::Output(_) => (false, 2),
                EventKind::Exited { .. } => (false, 3),
                EventKind::Input { .. } => (false, 4),
                EventKind::Disappeared { .. } => (true, 0),
            };
            (last, event.task.window, event.task.run, rank)
        };
        let places: Vec<_> = diff(&before, &after).iter().map(place).collect();
        prop_assert!(places.is_sorted(), "{:?}", places);
    }

    #[test]
    fn the_events_lead_from_one_look_to_the_next((before, after) in two_looks()) {
        let mut applied = before.clone();
        for event in diff(&before, &after) {
            apply(&mut applied, &event);
        }
        // Dead windows may go without an event.
        applied.tasks.retain(|window, task| task.is_alive() || after.tasks.contains_key(window));
        let shown = |snapshot: &Snapshot| -> Vec<_> {
            snapshot
                .tasks
                .values()
                .map(|task| (task.window, task.run, task.is_alive(), task.exit().cloned()))
                .collect()
        };
        prop_assert_eq!(shown(&applied), shown(&after));
        let after = Snapshot { ended: Vec::new(), life: before.life, ..after };
        prop_assert_eq!(
            diff(&applied, &after)
                .iter()
                .filter(|event| !matches!(event.kind, EventKind::Notify { .. }))
                .count(),
            0
        );
    }

    #[test]
    fn each_run_that_began_and_ended_is_reported_once((before, after) in two_looks()) {
        let after = Snapshot { life: before.life.clone(), ..after };
        let events = diff(&before, &after);
        for ended in &after.ended {
            let ends = events.iter().filter(|event| {
                // What was ended on purpose is told with its window.
                let is_end = match event.kind {
                    EventKind::Exited { .. } => true,
                    EventKind::Disappeared { reason } => reason.is_some_and(GoneReason::is_end),
                    EventKind::Started { .. }
                    | EventKind::InputResolved { .. }
                    | EventKind::Notify { .. }
                    | EventKind::Output(_)
                    | EventKind::Input { .. } => false,
                };
                is_end
                    && !event.task.is_alive()
                    && event.task.window == ended.window
                    && event.task.run == ended.run
            });
            prop_assert_eq!(ends.count(), 1);
        }
    }
}

//! How and when runs ended.

use super::*;

#[test]
fn a_reported_end_is_not_reported_again() {
    let mut world = World::new();
    world.check(
        &["@1 pid=7 exit=0"],
        "@1 %1 7 0  9;",
        &["@1 run 1 pid 7 exit 0"],
    );
    world.check(&["@1 pid=8"], "@1 %1 7 0  9;", &["@1 run 2 pid 8 alive"]);
}

#[test]
fn a_window_that_went_after_its_end_has_ended() {
    let mut world = World::new();
    world.see(&["@1 pid=7", "@2 pid=17"], "");
    world.evidence.gone = BTreeMap::from([
        (WindowId(2), GoneReason::UserKilled),
        (WindowId(3), GoneReason::Moved),
    ]);
    let observed = world.check(
        &[],
        "@1 %1 7 5  9;@1 %1 8 6  9;",
        &["-@1 run 1 pid 7 exit 5", "-@1 run 2 pid 8 exit 6"],
    );
    let gone = observed.snapshot.gone;
    assert_eq!(
        gone,
        BTreeMap::from([(WindowId(2), GoneReason::UserKilled)])
    );
}

#[test]
fn the_kernel_may_know_the_end() {
    let mut world = World::new();
    world.see(&["@1 pid=7", "@2 pid=17"], "");
    world.evidence.exits.insert(7, Exit::with_code(3));
    world.evidence.exits.insert(17, Exit::with_code(4));
    world.check(
        &["@2 pid=17 dead"],
        "",
        &["-@1 run 1 pid 7 exit 3", "@2 run 1 pid 17 exit 4"],
    );
}

#[test]
fn a_bell_right_before_the_end_outlives_its_window() {
    let mut world = World::new();
    world.see(&["@1 pid=7 bells=2", "@2 pid=17"], "");
    world.evidence.exits.insert(7, Exit::with_code(3));
    world.evidence.bells = BTreeMap::from([(WindowId(1), 3)]);
    let observed = world.check(
        &["@2 pid=17"],
        "",
        &["-@1 run 1 pid 7 exit 3", "@2 run 1 pid 17 alive"],
    );
    assert_eq!(observed.snapshot.ended[0].bell_count, Some(3));
}

#[test]
fn an_unsettled_end_waits_a_second() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    assert!(observed.nudge && observed.unsettled);
    world.wait(999);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    assert!(observed.nudge && observed.unsettled);
    let mut settled = World {
        observer: world.observer.clone(),
        sharing: world.sharing.clone(),
        rows: world.rows.clone(),
        evidence: Evidence::default(),
        now: world.now,
    };
    settled.check(&["@1 pid=7 exit=2"], "", &["@1 run 1 pid 7 exit 2"]);
    world.wait(1);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 dead"]);
    assert!(!observed.unsettled);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 dead"]);
    assert!(
        !observed.unsettled,
        "an end that was given up is not reopened"
    );
}

#[test]
fn an_unsettled_end_waits_for_three_looks_on_a_busy_machine() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    world.wait(5000);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    assert!(observed.nudge && observed.unsettled);
    world.check(&["@1 pid=7 exit=2"], "", &["@1 run 1 pid 7 exit 2"]);
}

#[test]
fn an_unsettled_end_is_settled_by_the_record() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    let observed = world.check(
        &["@1 pid=7 dead"],
        "@1 %1 7  15 9;",
        &["@1 run 1 pid 7 SIGTERM"],
    );
    assert!(!observed.nudge);
}

#[test]
fn tmux_is_nudged_for_an_end_that_the_kernel_reported() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    world.evidence.exits.insert(7, Exit::with_code(3));
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 exit 3"]);
    assert!(observed.nudge && !observed.unsettled);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 exit 3"]);
    assert!(!observed.nudge, "once");
}

#[test]
fn tmux_may_forget_the_process_of_a_dead_pane() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    world.check(&["@1 run=1 exit=0"], "", &["@1 run 1 pid 7 exit 0"]);
    world.check(
        &["@1 run=2 exit=1"],
        "@1 %1 8 1  9;",
        &["@1 run 2 pid 8 exit 1"],
    );
    world.check(&["@1 run=3 exit=1"], "", &["@1 run 3 pid - exit 1"]);
    world.check(&["@1 pid=9 run=3"], "", &["@1 run 4 pid 9 alive"]);
}

#[test]
fn ends_are_dated_by_tmux_when_they_are_old() {
    let end = |world: &mut World, text: &str| {
        let observed = world.see(&[text], "");
        observed.snapshot.tasks[&WindowId(1)].ended_at
    };
    let mut world = World::new();
    assert_eq!(end(&mut world, "@1 pid=7"), None);
    assert_eq!(end(&mut world, "@1 pid=7 exit=0 died=999"), Some(WALL));
    world.wait(5000);
    assert_eq!(
        end(&mut world, "@1 pid=7 exit=0 died=999"),
        Some(WALL),
        "reported once"
    );
    assert_eq!(
        end(&mut World::new(), "@1 pid=7 exit=0 died=998"),
        Some(998_000)
    );
}

#[test]
fn no_run_ends_before_it_began() {
    // Both within the second 997: tmux reports whole seconds.
    let started = 997_600;
    let row = format!("@1 pid=7 started={started} exit=0 died=997");
    let observed = World::new().see(&[&row], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(started), Some(started))
    );
    // Seen alive before.
    let mut world = World::new();
    world.see(&["@1 pid=7 started=999900"], "");
    world.wait(5000);
    let observed = world.see(&["@1 pid=7 started=999900 exit=0 died=999"], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(999_900), Some(999_900))
    );
    // It is not known when it began.
    let observed = World::new().see(&["@1 pid=7 exit=0 died=997"], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(997_000), Some(997_000))
    );
}

#[test]
fn a_run_whose_pane_was_closed_has_ended() {
    let closed = "@1 pane=2 pid=17 run=1";
    let check = |evidence: Evidence, deaths: &str, end: &str| {
        let mut world = World::new();
        world.see(&["@1 pane=1 pid=7 run=1"], "");
        world.evidence = evidence;
        world.check(&[closed], deaths, &[end, "@1 run 2 pid 17 alive"]);
    };
    let hung_up = Evidence {
        ended: [7].into(),
        hung_up: [7].into(),
        ..Evidence::default()
    };
    let exited = Evidence {
        ended: [7].into(),
        exits: BTreeMap::from([(7, Exit::with_code(4))]),
        ..Evidence::default()
    };
    let nothing = Evidence::default();
    check(hung_up, "", "-@1 run 1 pid 7 SIGHUP");
    check(exited, "", "-@1 run 1 pid 7 exit 4");
    check(nothing.clone(), "", "-@1 run 1 pid 7 dead");
    check(nothing, "@1 %1 7 5  1000 1 5;", "-@1 run 1 pid 7 exit 5");
}

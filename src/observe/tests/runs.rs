//! Which runs there are, and what is known of each.

use super::*;

#[test]
fn a_window_is_no_task_before_its_launch_is_over() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    let observed = world.check(
        &["@1 pid=7 run=1", "@2 pid=8 launching"],
        "",
        &["@1 run 1 pid 7 alive"],
    );
    assert_eq!(observed.write_runs, []);
    // Another window disappears at the same time.
    world.check(&["@2 pid=8 launching"], "", &[]);
    let observed = world.check(&["@2 pid=9 run=1"], "", &["@2 run 1 pid 9 alive"]);
    assert_eq!(observed.write_runs, []);
}

#[test]
fn the_flag_counts_as_the_first_bell_until_the_counter_has_it() {
    // Bell counts in successive looks at one window, of which the first one is the baseline.
    let check = |looks: &[&str], expected: &[Option<u64>]| {
        let mut world = World::new();
        world.see(&["@2 pid=8 run=1"], "");
        let counts = looks.iter().map(|row| {
            let seen = world.see(&["@2 pid=8 run=1", &format!("@1 pid=7 run=1 {row}")], "");
            seen.snapshot.tasks[&WindowId(1)].bell_count
        });
        assert_eq!(counts.collect::<Vec<_>>(), expected, "{looks:?}");
    };
    check(
        &["pid=7", "bell", "bell", "bell bells=1", "bell bells=2"],
        &[None, Some(1), Some(1), Some(1), Some(2)],
    );
    // A new window.
    check(&["bell", "bell bells=1"], &[Some(1), Some(1)]);
    // Nothing counts here, and each time the flag shows a bell.
    check(
        &["pid=7", "bell", "pid=7", "bell"],
        &[None, Some(1), None, Some(1)],
    );
    // A counter that was removed.
    check(&["bells=4", "bell", "bell"], &[Some(4), None, None]);

    // One that rang before the first look has not been reported: the next one is the first.
    let mut world = World::new();
    for expected in [None, None] {
        let seen = world.see(&["@1 pid=7 run=1 bell"], "");
        assert_eq!(seen.snapshot.tasks[&WindowId(1)].bell_count, expected);
    }
}

#[test]
fn runs_are_counted_by_their_processes() {
    let mut world = World::new();
    let observed = world.check(&["@1 pid=7"], "", &["@1 run 1 pid 7 alive"]);
    assert_eq!(observed.write_runs, [(WindowId(1), 1)]);
    let observed = world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    assert_eq!(observed.write_runs, []);
    let observed = world.check(&["@1 pid=8 run=1"], "", &["@1 run 2 pid 8 alive"]);
    assert_eq!(observed.write_runs, [(WindowId(1), 2)]);
    world.check(&["@1 pid=8 run=2 exit=0"], "", &["@1 run 2 pid 8 exit 0"]);
    world.check(&["@1 pid=9 run=2 exit=0"], "", &["@1 run 3 pid 9 exit 0"]);
}

#[test]
fn each_run_has_the_owner_who_asked_for_it() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1 recorded=make owner=pi:1"], "");
    let seen = world.see(
        &["@1 pid=8 run=2 recorded=make owner=pi:2"],
        "@1 %1 7 0  9;",
    );
    let snapshot = seen.snapshot;
    assert_eq!(snapshot.ended[0].owner.as_deref(), Some("pi:1"));
    assert_eq!(snapshot.tasks[&WindowId(1)].owner.as_deref(), Some("pi:2"));
}

#[test]
fn a_window_without_a_command_is_a_shell_unless_a_launcher_marked_it() {
    let mut world = World::new();
    let seen = world.see(
        &["@1 bare pid=7", "@2 bare recorded=make pid=8", "@3 pid=9"],
        "",
    );
    let shells: Vec<bool> = seen
        .snapshot
        .tasks
        .values()
        .map(|task| task.shell)
        .collect();
    assert_eq!(shells, [true, false, false]);
}

#[test]
fn a_larger_count_of_the_launcher_goes() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=4"], "", &["@1 run 4 pid 7 alive"]);
    world.check(&["@1 pid=8 run=9"], "", &["@1 run 9 pid 8 alive"]);
}

#[test]
fn runs_between_two_looks_are_reported_in_order() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    world.check(
        &["@1 pid=10 run=4"],
        "@1 %1 7 3  9;@1 %1 8 4  9;@2 %2 77 0  9;@1 %5 66 0  9;@1 %1 9  9 9;",
        &[
            "-@1 run 1 pid 7 exit 3",
            "-@1 run 2 pid 8 exit 4",
            "-@1 run 3 pid 9 SIGKILL",
            "@1 run 4 pid 10 alive",
        ],
    );
    // Respawned by hand: the counter was not updated.
    world.check(
        &["@1 pid=12 run=4 exit=1"],
        "@1 %1 10 0  9;@1 %1 11 0  9;@1 %1 12 1  9;",
        &[
            "-@1 run 4 pid 10 exit 0",
            "-@1 run 5 pid 11 exit 0",
            "@1 run 6 pid 12 exit 1",
        ],
    );
}

#[test]
fn a_new_window_reports_its_earlier_runs() {
    let mut world = World::new();
    world.see(&[], "");
    world.check(
        &["@1 pid=9 run=3 exit=0"],
        "@1 %1 7 1  9;@1 %1 8 2  9;@1 %1 9 0  9;",
        &[
            "-@1 run 1 pid 7 exit 1",
            "-@1 run 2 pid 8 exit 2",
            "@1 run 3 pid 9 exit 0",
        ],
    );
}

#[test]
fn a_live_run_that_was_replaced_has_no_end() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    let observed = world.check(
        &["@1 pid=8 run=2 replaced=7"],
        "",
        &["@1 run 2 pid 8 alive"],
    );
    let replaced = observed.snapshot.launcher_replaced;
    assert_eq!(replaced, BTreeMap::from([(WindowId(1), 7)]));
}

#[test]
fn a_window_without_panes_is_unknown() {
    let mut world = World::new();
    world.check(&["@1 nopane"], "", &["@1 run 1 pid - unknown"]);
    world.check(&["@1 pid=7"], "", &["@1 run 1 pid 7 alive"]);
    world.check(&["@1 nopane"], "", &["@1 run 1 pid - unknown"]);
}

#[test]
fn after_a_missing_session_and_in_another_life_all_windows_are_new() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=3"], "");
    let observed = world.observe(None);
    assert!(!observed.snapshot.exists);
    assert_eq!(observed.snapshot.session, "s");
    world.check(&["@1 pid=8"], "", &["@1 run 4 pid 8 alive"]);
    let mut look = look(&["@1 pid=9"], "");
    look.session.life = life(2);
    let observed = world.observe(Some(&look));
    assert_eq!(report(&observed.snapshot), ["@1 run 5 pid 9 alive"]);
    assert_eq!(observed.snapshot.life, Some(life(2)));
}

#[test]
fn a_saved_snapshot_is_gone_on_from() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=3"], "");
    let saved = world.see(&["@1 pid=7 run=3"], "").snapshot;
    world.go_on_from(&saved);
    world.check(&["@1 pid=7 run=3"], "", &["@1 run 3 pid 7 alive"]);
    world.go_on_from(&saved);
    world.check(
        &["@1 pid=8 run=3"],
        "@1 %1 7 1  9;",
        &["-@1 run 3 pid 7 exit 1", "@1 run 4 pid 8 alive"],
    );
}

#[test]
fn the_best_known_command_is_reported() {
    for (text, command) in [
        ("@1 recorded=make title=t current=bash", Some("make")),
        ("@1 title=t current=bash", Some("t")),
        ("@1 title=t current=-zsh", Some("t")),
        ("@1 title=t current=nu", Some("t")),
        ("@1 title=t current=ksh93", Some("t")),
        ("@1 title=t current=busybox", Some("busybox")),
        ("@1 title=t current=vim", Some("vim")),
        ("@1 current=bash", Some("bash")),
        ("@1 title=t", Some("t")),
        ("@1", None),
        ("@1 nopane", None),
    ] {
        let observed = World::new().see(&[text], "");
        let reported = observed.snapshot.tasks[&WindowId(1)].command.clone();
        assert_eq!(reported.as_deref(), command, "{text}");
    }
}

#[test]
fn runs_start_at_the_best_known_time() {
    let start = |world: &mut World, text: &str| {
        let observed = world.see(&[text], "");
        observed.snapshot.tasks[&WindowId(1)].started_at
    };
    let mut world = World::new();
    let launched = WALL - 30_000;
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    world.wait(1000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    // Respawned by hand: the option belongs to the earlier run.
    assert_eq!(
        start(&mut world, &format!("@1 pid=8 started={launched}")),
        Some(WALL + 1000)
    );
    Arc::make_mut(&mut world.evidence.started_at).insert(9, WALL + 400);
    assert_eq!(
        start(&mut world, &format!("@1 pid=9 started={launched}")),
        Some(WALL + 400)
    );
    assert_eq!(
        start(&mut world, "@1 pid=10 started=1000200"),
        Some(WALL + 200)
    );
    // The kernel's ticks are coarse; a launch that is recorded is not later than its process.
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, launched - 10);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    // Respawned by hand two seconds after the launch, before the first look.
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, launched + 2000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched + 2000)
    );
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, WALL - 10_000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(WALL - 10_000)
    );
}

#[test]
fn a_launch_that_was_read_by_a_daemon_before_is_not_that_of_a_later_run() {
    let mut world = World::new();
    let launched = WALL - 30_000;
    world.see(&[&format!("@1 pid=7 started={launched}")], "");
    // Respawned by hand, so the note belongs to the previous run.
    let by_hand = format!("@1 pid=8 started={launched}");
    let observed = world.see(&[&by_hand], "");
    let bookmark = world.observer.bookmark();
    world.restart(&observed.snapshot, &bookmark);
    world.wait(3000);
    let observed = world.see(&[&format!("@1 pid=9 started={launched}")], "");
    let started_at = observed.snapshot.tasks[&WindowId(1)].started_at;
    assert_eq!(started_at, Some(WALL + 3000));
}

#[test]
fn runs_of_windows_that_no_look_contained_are_reported() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    let observed = world.check(
        &["@1 pid=7 run=1"],
        "@2 %2 17 3  9 1 5 api 4 claude:1 %2. ;\
         @2 %2 18 0  9 2 5 api 5 claude:1 %2. ;\
         @3 %4 19 1  9 3 5 split  %3.%4. ;\
         @4 %5 20  9 9 4 5    %5.%6. shell;\
         @5 %7 21 2  9 5 5;",
        &[
            "-@2 run 4 pid 17 exit 3",
            "-@2 run 5 pid 18 exit 0",
            "-@4 run 1 pid 20 SIGKILL",
            "@1 run 1 pid 7 alive",
        ],
    );
    let names: Vec<&str> = observed
        .snapshot
        .ended
        .iter()
        .map(|task| &*task.name)
        .collect();
    assert_eq!(names, ["api", "api", ""]);
    let first = &observed.snapshot.ended[0];
    assert_eq!(
        (first.owner.as_deref(), first.shell),
        (Some("claude:1"), false)
    );
    assert!(observed.snapshot.ended[2].shell);
    // The record was not cleared yet.
    world.check(
        &["@1 pid=7 run=1"],
        "@2 %2 17 3  9 1 5 api 4 claude:1 %2. ;",
        &["@1 run 1 pid 7 alive"],
    );
}

#[test]
fn panes_that_were_swapped_or_joined_take_their_runs_along() {
    let mut world = World::new();
    world.see(&["@1 pane=1 pid=7 run=1", "@2 pane=2 pid=17 run=1"], "");
    world.evidence.moved_panes = [PaneId(1), PaneId(2)].into();
    world.check(
        &["@1 pane=2 pid=17 run=1", "@2 pane=1 pid=7 run=1"],
        "",
        &["@1 run 1 pid 17 alive", "@2 run 1 pid 7 alive"],
    );
    // What ends in a window is the run that began in the other one.
    world.check(
        &["@1 pane=2 pid=17 run=1 exit=3", "@2 pane=1 pid=7 run=1"],
        "@1 %2 17 3  1000 1 5;",
        &["@1 run 1 pid 17 alive", "@2 run 1 pid 7 exit 3"],
    );
    let saved = world.observer.bookmark();
    let away = &saved.runs_away[&WindowId(1)];
    assert_eq!((away.pane, away.pid), (PaneId(1), Some(7)));
    // They are swapped back, while there is no daemon.
    let shown = world.see(
        &["@1 pane=2 pid=17 run=1 exit=3", "@2 pane=1 pid=7 run=1"],
        "",
    );
    world.restart(&shown.snapshot, &saved);
    world.evidence.moved_panes.clear();
    world.check(
        &["@1 pane=1 pid=7 run=1", "@2 pane=2 pid=17 run=1 exit=3"],
        "",
        &["@1 run 1 pid 7 alive", "@2 run 1 pid 17 exit 3"],
    );
}

#[test]
fn a_run_whose_pane_was_broken_out_ends_with_its_own_process() {
    let mut world = World::new();
    world.see(&["@1 pane=1 pid=7 run=1"], "");
    world.evidence.moved_panes = [PaneId(1)].into();
    let split = ["@1 pane=2 pid=17 run=1 exit=0", "@3 pane=1 pid=7"];
    world.check(
        &split,
        "@1 %2 17 0  1000 1 5;",
        &["@1 run 1 pid 17 alive", "@3 run 1 pid 7 alive"],
    );
    world.evidence.ended = [7].into();
    world.evidence.exits = [(7, Exit::with_code(4))].into();
    world.check(
        &split,
        "",
        &["@1 run 1 pid 17 exit 4", "@3 run 1 pid 7 alive"],
    );
}

#[test]
fn the_number_of_a_run_belongs_to_the_name() {
    let mut world = World::new();
    world.check(&["@1 name=api pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    // Another window of the name, beside the first one, and after it.
    let both = ["@1 name=api pid=7 run=1", "@2 name=api pid=8"];
    let observed = world.check(&both, "", &["@1 run 1 pid 7 alive", "@2 run 2 pid 8 alive"]);
    assert_eq!(observed.write_runs, [(WindowId(2), 2)]);
    let both = ["@1 name=api pid=9 run=1", "@2 name=api pid=8 run=2"];
    world.check(&both, "", &["@1 run 3 pid 9 alive", "@2 run 2 pid 8 alive"]);
    world.check(&[], "", &[]);
    // What a launcher that knows the last number has counted is right, and what another one has
    // counted is not.
    world.check(
        &["@3 name=api pid=10 run=4"],
        "",
        &["@3 run 4 pid 10 alive"],
    );
    let observed = world.check(
        &["@4 name=api pid=11 run=1"],
        "",
        &["@4 run 5 pid 11 alive"],
    );
    assert_eq!(observed.write_runs, [(WindowId(4), 5)]);
    // Another name counts from 1.
    world.check(
        &["@5 name=web pid=12 run=1"],
        "",
        &["@5 run 1 pid 12 alive"],
    );
    assert_eq!(world.observer.last_run("api"), 5);
    assert_eq!(world.observer.last_run("web"), 1);
}

#[test]
fn runs_that_no_look_showed_have_numbers_of_their_name_too() {
    let mut world = World::new();
    world.check(&["@1 name=api pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    // Opened and closed between two looks.
    let deaths = "@2 %2 8 4  1000 1 4 api 1  %2. ;";
    world.check(
        &["@1 name=api pid=7 run=1"],
        deaths,
        &["-@2 run 2 pid 8 exit 4", "@1 run 1 pid 7 alive"],
    );
    // The window went with a run that came after the one that was seen.
    let deaths = "@1 %1 7 5  1000 2 4 api 1  %1. ;@1 %1 9 6  1000 3 4 api 2  %1. ;";
    world.check(
        &[],
        deaths,
        &["-@1 run 1 pid 7 exit 5", "-@1 run 3 pid 9 exit 6"],
    );
    assert_eq!(world.observer.last_run("api"), 3);
}

#[test]
fn numbers_outlive_the_session_and_the_observer() {
    let mut world = World::new();
    world.see(&["@1 name=api pid=7 run=1"], "");
    let seen = world.see(&["@1 name=api pid=8 run=1"], "");
    let bookmark = world.observer.bookmark();
    // The next daemon.
    world.restart(&seen.snapshot, &bookmark);
    world.check(&["@1 name=api pid=8 run=2"], "", &["@1 run 2 pid 8 alive"]);
    let missing = world.observe(None);
    let mut other = look(&["@1 name=api pid=9 run=1"], "");
    other.session.life = life(2);
    let seen = world.observe(Some(&other));
    assert_eq!(report(&seen.snapshot), ["@1 run 3 pid 9 alive"]);
    // The next daemon, while there is no session.
    world.restart(&missing.snapshot, &world.observer.bookmark());
    world.check(&["@1 name=api pid=4 run=1"], "", &["@1 run 4 pid 4 alive"]);
    // One that knows no snapshot: what tmux counts may be numbered already.
    let numbers = world.observer.bookmark().run_numbers;
    let first_look = |windows: &[&str]| {
        let mut observer = Observer::numbering_from("s", numbers.clone());
        let seen = observer.observe(Some(&look(windows, "")), &Evidence::default(), world.now);
        report(&seen.snapshot)
    };
    assert_eq!(
        first_look(&["@1 name=api pid=4 run=4"]),
        ["@1 run 4 pid 4 alive"]
    );
    assert_eq!(
        first_look(&["@1 name=api pid=4 run=1"]),
        ["@1 run 5 pid 4 alive"]
    );
    assert_eq!(first_look(&["@1 name=web pid=4"]), ["@1 run 1 pid 4 alive"]);
}

#[test]
fn a_run_of_a_renamed_window_has_a_number_that_the_new_name_has_not_had() {
    let mut world = World::new();
    let check = |world: &mut World, windows: &[&str], expected: &[(&str, u32)]| {
        let seen = world.see(windows, "").snapshot;
        let tasks = seen.tasks.values();
        let numbered = tasks.map(|task| (world.observer.name_of_run(task), task.run.unwrap()));
        assert_eq!(numbered.collect::<Vec<_>>(), expected, "{windows:?}");
        seen
    };
    check(
        &mut world,
        &["@1 name=a pid=1", "@2 name=b pid=2"],
        &[("a", 1), ("b", 1)],
    );
    check(
        &mut world,
        &["@1 name=a pid=3", "@2 name=b pid=2"],
        &[("a", 2), ("b", 1)],
    );
    check(
        &mut world,
        &["@1 name=b pid=3", "@2 name=b pid=2"],
        &[("b", 2), ("b", 1)],
    );
    check(
        &mut world,
        &["@1 name=c pid=3", "@2 name=b pid=4"],
        &[("c", 2), ("b", 3)],
    );
    check(
        &mut world,
        &["@1 name=c pid=3", "@2 name=a pid=4"],
        &[("c", 2), ("a", 3)],
    );
    // `a` has had a second run.
    let taken = ["@1 name=a pid=3", "@2 name=a pid=4"];
    let seen = check(&mut world, &taken, &[("c", 2), ("a", 3)]);
    world.restart(&seen, &world.observer.bookmark());
    check(&mut world, &taken, &[("c", 2), ("a", 3)]);
    check(
        &mut world,
        &["@1 name=a pid=5", "@2 name=a pid=4"],
        &[("a", 4), ("a", 3)],
    );
    check(
        &mut world,
        &["@1 name=c pid=6", "@2 name=a pid=4"],
        &[("c", 5), ("a", 3)],
    );
}

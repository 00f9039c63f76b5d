//! Which runs there are, and what is known of each.

use super::*;

#[test]
fn which_runs_there_are() {
    check(
        "
        ## a window is no task before its launch is over
        @1 pid=7 run=1 => @1 run 1 pid 7 alive
        @1 pid=7 run=1, @2 pid=8 launching => @1 run 1 pid 7 alive
        writes =>
        # Another window disappears at the same time.
        @2 pid=8 launching =>
        @2 pid=9 run=1 => @2 run 1 pid 9 alive
        writes =>

        ## runs are counted by their processes
        @1 pid=7 => @1 run 1 pid 7 alive
        writes => @1 1
        @1 pid=7 run=1 => @1 run 1 pid 7 alive
        writes =>
        @1 pid=8 run=1 => @1 run 2 pid 8 alive
        writes => @1 2
        @1 pid=8 run=2 exit=0 => @1 run 2 pid 8 exit 0
        @1 pid=9 run=2 exit=0 => @1 run 3 pid 9 exit 0

        ## each run has the owner who asked for it
        @1 pid=7 run=1 recorded=make owner=pi:1
        @1 pid=8 run=2 recorded=make owner=pi:2 with @1 %1 7 0  9;
        owner -@1 => pi:1
        owner @1 => pi:2

        ## a window without a command is a shell unless a launcher marked it
        @1 bare pid=7, @2 bare recorded=make pid=8, @3 pid=9
        shell @1 => yes
        shell @2 => no
        shell @3 => no

        ## a larger count of the launcher goes
        @1 pid=7 run=4 => @1 run 4 pid 7 alive
        @1 pid=8 run=9 => @1 run 9 pid 8 alive

        ## runs between two looks are reported in order
        @1 pid=7 run=1 => @1 run 1 pid 7 alive
        @1 pid=10 run=4 with @1 %1 7 3  9;@1 %1 8 4  9;@2 %2 77 0  9;@1 %5 66 0  9;@1 %1 9  9 9;
            => -@1 run 1 pid 7 exit 3; -@1 run 2 pid 8 exit 4; -@1 run 3 pid 9 SIGKILL;
            @1 run 4 pid 10 alive
        # Respawned by hand: the counter was not updated.
        @1 pid=12 run=4 exit=1 with @1 %1 10 0  9;@1 %1 11 0  9;@1 %1 12 1  9;
            => -@1 run 4 pid 10 exit 0; -@1 run 5 pid 11 exit 0; @1 run 6 pid 12 exit 1

        ## a new window reports its earlier runs
        =>
        @1 pid=9 run=3 exit=0 with @1 %1 7 1  9;@1 %1 8 2  9;@1 %1 9 0  9;
            => -@1 run 1 pid 7 exit 1; -@1 run 2 pid 8 exit 2; @1 run 3 pid 9 exit 0

        ## a window without panes is unknown
        @1 nopane => @1 run 1 pid - unknown
        @1 pid=7 => @1 run 1 pid 7 alive
        @1 nopane => @1 run 1 pid - unknown

        ## after a missing session and in another life all windows are new
        @1 pid=7 run=3
        missing =>
        @1 pid=8 => @1 run 4 pid 8 alive
        life 2: @1 pid=9 => @1 run 5 pid 9 alive

        ## a saved snapshot is gone on from
        @1 pid=7 run=3
        @1 pid=7 run=3
        restart without
        @1 pid=7 run=3 => @1 run 3 pid 7 alive
        restart without
        @1 pid=8 run=3 with @1 %1 7 1  9; => -@1 run 3 pid 7 exit 1; @1 run 4 pid 8 alive

        ## runs of windows that no look contained are reported
        @1 pid=7 run=1
        @1 pid=7 run=1 with @2 %2 17 3  9 1 5 api 4 claude:1 %2. ;
            @2 %2 18 0  9 2 5 api 5 claude:1 %2. ;@3 %4 19 1  9 3 5 split  %3.%4. ;
            @4 %5 20  9 9 4 5    %5.%6. shell;@5 %7 21 2  9 5 5;
            => -@2 run 4 pid 17 exit 3; -@2 run 5 pid 18 exit 0; -@4 run 1 pid 20 SIGKILL;
            @1 run 1 pid 7 alive
        name -@2 => api
        owner -@2 => claude:1
        shell -@2 => no
        name -@4 => none
        shell -@4 => yes
        # The record was not cleared yet.
        @1 pid=7 run=1 with @2 %2 17 3  9 1 5 api 4 claude:1 %2. ; => @1 run 1 pid 7 alive

        ## panes that were swapped or joined take their runs along
        @1 pane=1 pid=7 run=1, @2 pane=2 pid=17 run=1
        moved %1 %2
        @1 pane=2 pid=17 run=1, @2 pane=1 pid=7 run=1 => @1 run 1 pid 17 alive; @2 run 1 pid 7 alive
        # What ends in a window is the run that began in the other one.
        @1 pane=2 pid=17 run=1 exit=3, @2 pane=1 pid=7 run=1 with @1 %2 17 3  1000 1 5;
            => @1 run 1 pid 17 alive; @2 run 1 pid 7 exit 3
        away @1 => %1 7
        # They are swapped back, while there is no daemon.
        @1 pane=2 pid=17 run=1 exit=3, @2 pane=1 pid=7 run=1
        restart
        moved
        @1 pane=1 pid=7 run=1, @2 pane=2 pid=17 run=1 exit=3
            => @1 run 1 pid 7 alive; @2 run 1 pid 17 exit 3

        ## a run whose pane was broken out ends with its own process
        @1 pane=1 pid=7 run=1
        moved %1
        @1 pane=2 pid=17 run=1 exit=0, @3 pane=1 pid=7 with @1 %2 17 0  1000 1 5;
            => @1 run 1 pid 17 alive; @3 run 1 pid 7 alive
        ends 7
        exits 7 4
        @1 pane=2 pid=17 run=1 exit=0, @3 pane=1 pid=7 => @1 run 1 pid 17 exit 4; @3 run 1 pid 7 alive
        ",
    );
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
    World::new().play(
        "
        rang of @1 pid=7 run=1 bell => none
        rang of @1 pid=7 run=1 bell => none
        ",
    );
}

#[test]
fn a_live_run_that_was_replaced_has_no_end() {
    let mut world = World::new();
    world.play("@1 pid=7 run=1\n@1 pid=8 run=2 replaced=7 => @1 run 2 pid 8 alive");
    let replaced = &world.last.snapshot.launcher_replaced;
    assert_eq!(*replaced, BTreeMap::from([(WindowId(1), 7)]));
}

#[test]
fn a_snapshot_names_its_session_and_its_life() {
    let mut world = World::new();
    world.play("missing =>");
    let missing = &world.last.snapshot;
    assert_eq!((missing.exists, missing.session.as_str()), (false, "s"));
    world.play("life 2: @1 pid=9");
    assert_eq!(world.last.snapshot.life, Some(life(2)));
}

#[test]
fn the_best_known_command_is_reported() {
    for (row, command) in [
        ("@1 recorded=make title=t current=bash", "make"),
        ("@1 title=t current=bash", "t"),
        ("@1 title=t current=-zsh", "t"),
        ("@1 title=t current=nu", "t"),
        ("@1 title=t current=ksh93", "t"),
        ("@1 title=t current=busybox", "busybox"),
        ("@1 title=t current=vim", "vim"),
        ("@1 current=bash", "bash"),
        ("@1 title=t", "t"),
        ("@1", "none"),
        ("@1 nopane", "none"),
    ] {
        check(&format!("command of {row} => {command}"));
    }
}

/// The first look is at 1,000,000 ms.
#[test]
fn runs_start_at_the_best_known_time() {
    check(
        "
        started of @1 pid=7 started=970000 => 970000
        wait 1000
        started of @1 pid=7 started=970000 => 970000
        # Respawned by hand: the option belongs to the earlier run.
        started of @1 pid=8 started=970000 => 1001000
        began 9 1000400
        started of @1 pid=9 started=970000 => 1000400
        started of @1 pid=10 started=1000200 => 1000200

        # The kernel's ticks are coarse; a launch that is recorded is not later than its process.
        began 7 969990
        started of @1 pid=7 started=970000 => 970000

        # Respawned by hand two seconds after the launch, before the first look.
        began 7 972000
        started of @1 pid=7 started=970000 => 972000

        began 7 990000
        started of @1 pid=7 started=970000 => 990000

        ## a launch that was read by a daemon before is not that of a later run
        @1 pid=7 started=970000
        # Respawned by hand, so the note belongs to the previous run.
        @1 pid=8 started=970000
        restart
        wait 3000
        started of @1 pid=9 started=970000 => 1003000
        ",
    );
}

#[test]
fn runs_are_numbered_by_the_name() {
    check(
        "
        ## the number of a run belongs to the name
        @1 name=api pid=7 run=1 => @1 run 1 pid 7 alive
        # Another window of the name, beside the first one, and after it.
        @1 name=api pid=7 run=1, @2 name=api pid=8 => @1 run 1 pid 7 alive; @2 run 2 pid 8 alive
        writes => @2 2
        @1 name=api pid=9 run=1, @2 name=api pid=8 run=2
            => @1 run 3 pid 9 alive; @2 run 2 pid 8 alive
        =>
        # What a launcher that knows the last number has counted is right, and what another one has
        # counted is not.
        @3 name=api pid=10 run=4 => @3 run 4 pid 10 alive
        @4 name=api pid=11 run=1 => @4 run 5 pid 11 alive
        writes => @4 5
        # Another name counts from 1.
        @5 name=web pid=12 run=1 => @5 run 1 pid 12 alive
        last api => 5
        last web => 1

        ## runs that no look showed have numbers of their name, too
        @1 name=api pid=7 run=1 => @1 run 1 pid 7 alive
        # Opened and closed between two looks.
        @1 name=api pid=7 run=1 with @2 %2 8 4  1000 1 4 api 1  %2. ;
            => -@2 run 2 pid 8 exit 4; @1 run 1 pid 7 alive
        # The window went with a run that came after the one that was seen.
        with @1 %1 7 5  1000 2 4 api 1  %1. ;@1 %1 9 6  1000 3 4 api 2  %1. ;
            => -@1 run 1 pid 7 exit 5; -@1 run 3 pid 9 exit 6
        last api => 3

        ## numbers outlive the observer and the session
        @1 name=api pid=7 run=1
        @1 name=api pid=8 run=1
        restart
        @1 name=api pid=8 run=2 => @1 run 2 pid 8 alive
        missing
        life 2: @1 name=api pid=9 run=1 => @1 run 3 pid 9 alive
        # The next daemon, while there is no session.
        missing
        restart
        @1 name=api pid=4 run=1 => @1 run 4 pid 4 alive

        ## a run of a renamed window has a number that the new name has not had
        @1 name=a pid=1, @2 name=b pid=2
        named => a 1; b 1
        @1 name=a pid=3, @2 name=b pid=2
        named => a 2; b 1
        @1 name=b pid=3, @2 name=b pid=2
        named => b 2; b 1
        @1 name=c pid=3, @2 name=b pid=4
        named => c 2; b 3
        @1 name=c pid=3, @2 name=a pid=4
        named => c 2; a 3
        # `a` has had a second run.
        @1 name=a pid=3, @2 name=a pid=4
        named => c 2; a 3
        restart
        @1 name=a pid=3, @2 name=a pid=4
        named => c 2; a 3
        @1 name=a pid=5, @2 name=a pid=4
        named => a 4; a 3
        @1 name=c pid=6, @2 name=a pid=4
        named => c 5; a 3
        ",
    );
}

/// What tmux counts may be numbered already.
#[test]
fn an_observer_that_knows_no_snapshot_goes_on_from_the_numbers() {
    let mut world = World::new();
    world.play("@1 name=api pid=7 run=4");
    let numbers = world.observer.bookmark().run_numbers;
    for (window, expected) in [
        ("@1 name=api pid=4 run=4", "@1 run 4 pid 4 alive"),
        ("@1 name=api pid=4 run=1", "@1 run 5 pid 4 alive"),
        ("@1 name=web pid=4", "@1 run 1 pid 4 alive"),
    ] {
        let mut observer = Observer::numbering_from("s", numbers.clone());
        let look = look(&[window], "");
        let seen = observer.observe(Some(&look), &Evidence::default(), world.now);
        assert_eq!(report(&seen.snapshot), [expected]);
    }
}

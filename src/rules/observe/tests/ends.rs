//! How and when runs ended.

use super::*;

#[test]
fn how_runs_ended() {
    check(
        "
        ## a reported end is not reported again
        @1 pid=7 exit=0 with @1 %1 7 0  9; => @1 run 1 pid 7 exit 0
        @1 pid=8 with @1 %1 7 0  9; => @1 run 2 pid 8 alive

        ## the kernel may know the end
        @1 pid=7, @2 pid=17
        exits 7 3
        exits 17 4
        @2 pid=17 dead => -@1 run 1 pid 7 exit 3; @2 run 1 pid 17 exit 4

        ## a bell right before the end outlives its window
        @1 pid=7 bells=2, @2 pid=17
        exits 7 3
        bells @1 3
        @2 pid=17 => -@1 run 1 pid 7 exit 3; @2 run 1 pid 17 alive
        rang -@1 => 3

        ## an unsettled end waits a second
        @1 pid=7
        @1 pid=7 dead => @1 run 1 pid 7 alive
        nudge => yes
        unsettled => yes
        wait 999
        @1 pid=7 dead => @1 run 1 pid 7 alive
        nudge => yes
        unsettled => yes
        wait 1
        @1 pid=7 dead => @1 run 1 pid 7 dead
        unsettled => no
        # An end that was given up is not reopened.
        @1 pid=7 dead => @1 run 1 pid 7 dead
        unsettled => no

        ## an unsettled end waits for three looks on a busy machine
        @1 pid=7
        @1 pid=7 dead => @1 run 1 pid 7 alive
        wait 5000
        @1 pid=7 dead => @1 run 1 pid 7 alive
        nudge => yes
        unsettled => yes
        @1 pid=7 exit=2 => @1 run 1 pid 7 exit 2

        ## an unsettled end is settled by the record
        @1 pid=7
        @1 pid=7 dead with @1 %1 7  15 9; => @1 run 1 pid 7 SIGTERM
        nudge => no

        ## tmux is nudged once for an end that the kernel reported
        @1 pid=7
        exits 7 3
        @1 pid=7 dead => @1 run 1 pid 7 exit 3
        nudge => yes
        unsettled => no
        @1 pid=7 dead => @1 run 1 pid 7 exit 3
        nudge => no

        ## tmux may forget the process of a dead pane
        @1 pid=7 run=1
        @1 run=1 exit=0 => @1 run 1 pid 7 exit 0
        @1 run=2 exit=1 with @1 %1 8 1  9; => @1 run 2 pid 8 exit 1
        @1 run=3 exit=1 => @1 run 3 pid - exit 1
        @1 pid=9 run=3 => @1 run 4 pid 9 alive

        ## a run whose pane was closed has ended
        @1 pane=1 pid=7 run=1
        ends 7
        hangs up 7
        @1 pane=2 pid=17 run=1 => -@1 run 1 pid 7 SIGHUP; @1 run 2 pid 17 alive

        @1 pane=1 pid=7 run=1
        ends 7
        exits 7 4
        @1 pane=2 pid=17 run=1 => -@1 run 1 pid 7 exit 4; @1 run 2 pid 17 alive

        @1 pane=1 pid=7 run=1
        @1 pane=2 pid=17 run=1 => -@1 run 1 pid 7 dead; @1 run 2 pid 17 alive

        @1 pane=1 pid=7 run=1
        @1 pane=2 pid=17 run=1 with @1 %1 7 5  1000 1 5;
            => -@1 run 1 pid 7 exit 5; @1 run 2 pid 17 alive
        ",
    );
}

#[test]
fn a_window_that_went_after_its_end_has_ended() {
    let mut world = World::new();
    world.play(
        "
        @1 pid=7, @2 pid=17
        gone @2 userKilled
        gone @3 moved
        with @1 %1 7 5  9;@1 %1 8 6  9; => -@1 run 1 pid 7 exit 5; -@1 run 2 pid 8 exit 6
        ",
    );
    let gone = &world.last.snapshot.gone;
    assert_eq!(
        *gone,
        BTreeMap::from([(WindowId(2), GoneReason::UserKilled)])
    );
}

/// The first look is at 1,000,000 ms; tmux reports whole seconds.
#[test]
fn when_runs_ended() {
    check(
        "
        ## ends are dated by tmux when they are old, and once
        ended of @1 pid=7 => none
        ended of @1 pid=7 exit=0 died=999 => 1000000
        wait 5000
        ended of @1 pid=7 exit=0 died=999 => 1000000

        ended of @1 pid=7 exit=0 died=998 => 998000

        ## no run ends before it began: both are within the second 997
        @1 pid=7 started=997600 exit=0 died=997
        started @1 => 997600
        ended @1 => 997600

        # Seen alive before.
        @1 pid=7 started=999900
        wait 5000
        @1 pid=7 started=999900 exit=0 died=999
        started @1 => 999900
        ended @1 => 999900

        # It is not known when it began.
        @1 pid=7 exit=0 died=997
        started @1 => 997000
        ended @1 => 997000
        ",
    );
}

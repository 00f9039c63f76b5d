//! Which events a look has, and in which order.

use super::*;

#[test]
fn each_look_has_these_events() {
    check(
        "
        ## the baseline has no events
        @1 a running bell; @2 b dead 2 bells=3; @3 c unknown

        missing

        ended @1 a dead 2; @2 b running

        missing
        @1 a running => 1 started @1; 2 notice of 1

        =>
        @1 a running => 1 started @1; 2 notice of 1

        ## a prompt of the baseline is reported at the next equal look
        @1 a running : Go? [y/n]
        @1 a running : Go? [y/n] => 1 input @1: Go? [y/n]; 2 followUp! of 1
        @1 a running : Go? [y/n]

        ## what is resolved comes first and is for the feed only
        @1#1 a running : Go? [y/n]
        @1#1 a running : Go? [y/n] => 1 input @1#1: Go? [y/n]; 2 followUp! of 1
        @1#1 a running : ok => 3 resolved @1#1: Go? [y/n]

        @1#1 a running : Go? [y/n]
        @1#1 a running : Go? [y/n] => 1 input @1#1: Go? [y/n]; 2 followUp! of 1
        @1#1 a dead 0 bell : Go? [y/n]
            => 3 resolved @1#1: Go? [y/n] & 4 notify @1#1 x1 & 5 exited @1#1 0; 6 followUp of 4 5

        @1#1 a running : Go? [y/n]
        @1#1 a running : Go? [y/n] => 1 input @1#1: Go? [y/n]; 2 followUp! of 1
        => 3 resolved @1#1: Go? [y/n] & 4 disappeared @1#1; 5 followUp! of 4

        @1#1 a running : Go? [y/n]
        @1#1 a running : Go? [y/n] => 1 input @1#1: Go? [y/n]; 2 followUp! of 1
        @1#2 a running : Go? [y/n]
            => 3 resolved @1#1: Go? [y/n] & 4 exited @1#1 ? replaced & 5 rerun @1#2; 6 followUp! of 4 5

        ## events of all floors are in one order
        @1 a running : Go? [y/n]; @2 b running; @3 c running
        @1 a running : Go? [y/n]; @2 b dead 0; @10 d running
            => 1 input @1: Go? [y/n] & 2 exited @2 0 & 3 started @10 & 4 disappeared @3;
            5 followUp! of 1 2 3 4

        # A prompt that is on the screen and rings: the bell, then what is waited for.
        @1 a running : Go? [y/n]
        @1 a running bell : Go? [y/n] => 1 notify @1 x1 & 2 input @1: Go? [y/n]; 3 followUp! of 1 2

        ## tasks of another life are new and so are their prompts
        life 1; @1 a running : Go? [y/n]
        life 1; @1 a running : Go? [y/n] => 1 input @1: Go? [y/n]; 2 followUp! of 1
        life 2; @1 a running : Go? [y/n]
            => 3 resolved @1: Go? [y/n] & 4 started @1 & 5 disappeared @1; 6 followUp! of 4 5
        life 2; @1 a running : Go? [y/n] => 7 input @1: Go? [y/n]; 8 followUp! of 7
        ",
    );
}

#[test]
fn every_change_of_counts_is_published_and_nothing_else() {
    check_live(
        "
        missing => status gone
        missing
        => tmux: 0 tasks, 0 waiting, 0 dead
        @1 a running : Go? [y/n] => 1 started @1; tmux: 1 task, 0 waiting, 0 dead
        +200 => 2 notice of 1
        @1 a running : Go? [y/n] => 3 input @1: Go? [y/n]; tmux: 1 task, 1 waiting, 0 dead
        +200 => 4 followUp! of 3
        @1 a running : Go? [y/n]
        @1 a unknown
        @1 a running : Go? [y/n]
        @1 a running : ok => 5 resolved @1: Go? [y/n]; tmux: 1 task, 0 waiting, 0 dead
        @1 a dead 0 => 6 exited @1 0; tmux: 1 task, 0 waiting, 1 dead
        => tmux: 0 tasks, 0 waiting, 0 dead
        missing => status gone

        ## a session that goes and comes back
        @1 a running; @2 b dead 0 => tmux: 2 tasks, 0 waiting, 1 dead
        +100 missing => 1 disappeared @1; status gone
        +50 => 2 followUp! of 1
        +100 missing
        +100
        => tmux: 0 tasks, 0 waiting, 0 dead
        +100 @3 a running => 3 started @3; tmux: 1 task, 0 waiting, 0 dead
        +50 => 4 notice of 3
        ",
    );
}

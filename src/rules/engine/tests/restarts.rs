//! Engines that continue from a memory.

use super::*;
use crate::model::test_notation::{delivered, events_of};

fn memory(before: &str) -> RestoredState {
    RestoredState {
        last_look: Some(snapshot(before)),
        last_seq: 7,
        ..RestoredState::default()
    }
}

#[test]
fn what_has_changed_while_no_daemon_ran_is_reported() {
    let both = "life 1; @1 a running; @2 b running";
    check_from(
        Settings::LIVE,
        &memory(both),
        "
        life 1; @1 a dead 2; @3 c running
            => 8 exited @1 2 & 9 started @3 & 10 disappeared @2; tmux: 2 tasks, 0 waiting, 1 dead
        +50 => 11 followUp! of 8 9 10

        ## another life on return is no baseline
        life 2; @1 a running
            => 8 started @1 & 9 disappeared @1 & 10 disappeared @2; tmux: 1 task, 0 waiting, 0 dead
        ",
    );
}

#[test]
fn an_episode_goes_on_after_a_restart() {
    let asks = "@1 a running : Go? [y/n]";
    let memory = RestoredState {
        waiting: vec![(task(asks), prompt("Go? [y/n]"))],
        ..memory(asks)
    };
    check_from(
        Settings::LIVE,
        &memory,
        "
        @1 a running : Go? [y/n] => tmux: 1 task, 1 waiting, 0 dead
        +300 @1 a running : Go? [y/n]
        # Its terminal has not been examined.
        @1 a running : ok

        @1 a dead 0 => 8 resolved @1: Go? [y/n] & 9 exited @1 0; tmux: 1 task, 0 waiting, 1 dead
        ",
    );
}

#[test]
fn what_was_not_delivered_is_delivered_on_return() {
    let ends = events_of("@1 a running; @2 b running -> @1 a dead 0; @2 b dead 1");
    let memory = RestoredState {
        undelivered: delivered(6, ends),
        ..memory("@1 a dead 0; @2 b dead 1; @3 c running")
    };
    check_from(
        Settings::LIVE,
        &memory,
        "
        ## At once, whether a look comes first or not, and without what the look brings
        +0 => 8 followUp! of 6 7

        @1 a dead 0; @2 b dead 1; @3 c dead 0
            => 8 followUp! of 6 7; 9 exited @3 0; tmux: 3 tasks, 0 waiting, 3 dead
        +50 => 10 followUp of 9
        ",
    );
}

#[test]
fn only_the_end_that_a_window_still_shows_is_followed_by_a_restart() {
    check(
        "
        ## Nothing else has happened in the window
        @1#1 a running restarts=3,1000,0
        @1#1 a dead 1 restarts=3,1000,0 => 1 exited @1#1 1; 2 notice! of 1

        ## Another run has begun in it, or it is gone: whoever is interested has to know of the end
        @1#1 a running restarts=3,1000,0
        @1#2 a running restarts=3,1000,0; ended @1#1 a dead 1 restarts=3,1000,0
            => 1 exited @1#1 1 & 2 rerun @1#2; 3 followUp! of 1 2
        ended @1#2 a dead 1 restarts=3,1000,0 => 4 exited @1#2 1; 5 followUp! of 4
        ",
    );
}

//! Which events a look has, and in which order.

use super::*;

#[test]
fn the_baseline_has_no_events() {
    check(&[("@1 a running bell; @2 b dead 2 bells=3; @3 c unknown", &[])]);
    check(&[("missing", &[])]);
    check(&[("ended @1 a dead 2; @2 b running", &[])]);
    check(&[
        ("missing", &[]),
        ("@1 a running", &["1 started @1", "2 notice of 1"]),
    ]);
    check(&[
        ("", &[]),
        ("@1 a running", &["1 started @1", "2 notice of 1"]),
    ]);
}

#[test]
fn a_prompt_of_the_baseline_is_reported_at_the_next_equal_look() {
    let asks = "@1 a running : Go? [y/n]";
    check(&[
        (asks, &[]),
        (asks, &["1 input @1: Go? [y/n]", "2 followUp! of 1"]),
        (asks, &[]),
    ]);
    check(&[
        (asks, &[]),
        ("@1 a running : x|Go? [y/n]", &[]),
        (
            "@1 a running : x|Go? [y/n]",
            &["1 input @1: Go? [y/n]", "2 followUp! of 1"],
        ),
    ]);
}

#[test]
fn started_only_for_a_new_live_window() {
    check(&[
        ("@1 a running; @2 b dead 0", &[]),
        (
            "@1 a running; @2 b dead 0; @3 c running; @4 d dead 3",
            &["1 started @3 & 2 exited @4 3", "3 followUp! of 1 2"],
        ),
        ("@1 a running; @2 b dead 0; @3 c running; @4 d dead 3", &[]),
    ]);
}

#[test]
fn a_bell_is_reported_by_count_and_by_flag() {
    check(&[
        ("@1 a running bells=1; @2 b running", &[]),
        (
            "@1 a running bells=3; @2 b running bell",
            &["1 notify @1 x2 & 2 notify @2 x1", "3 followUp of 1 2"],
        ),
        ("@1 a running bells=3; @2 b running bell", &[]),
        (
            "@1 a running bells=4 bell; @2 b running",
            &["4 notify @1 x1", "5 followUp of 4"],
        ),
    ]);
}

#[test]
fn input_is_reported_once_per_window_and_prompt() {
    let both = "@1 a running : Go? [y/n]; @2 b running : Go? [y/n]";
    check(&[
        ("", &[]),
        (both, &["1 started @1 & 2 started @2", "3 notice of 1 2"]),
        (
            both,
            &[
                "4 input @1: Go? [y/n] & 5 input @2: Go? [y/n]",
                "6 followUp! of 4 5",
            ],
        ),
        (both, &[]),
        (
            "@1 a running : Password:; @2 b running : Go? [y/n]",
            &["7 resolved @1: Go? [y/n]"],
        ),
        (
            "@1 a running : Password:; @2 b running : Go? [y/n]",
            &["8 input @1!: Password:", "9 followUp! of 8"],
        ),
    ]);
}

#[test]
fn what_is_resolved_comes_first_and_is_for_the_feed_only() {
    let asks = "@1#1 a running : Go? [y/n]";
    let looks: [(&str, &[&str]); 2] = [
        (asks, &[]),
        (asks, &["1 input @1#1: Go? [y/n]", "2 followUp! of 1"]),
    ];
    check(&[
        looks[0],
        looks[1],
        ("@1#1 a running : ok", &["3 resolved @1#1: Go? [y/n]"]),
    ]);
    check(&[
        looks[0],
        looks[1],
        (
            "@1#1 a dead 0 bell : Go? [y/n]",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 notify @1#1 x1 & 5 exited @1#1 0",
                "6 followUp of 4 5",
            ],
        ),
    ]);
    check(&[
        looks[0],
        looks[1],
        (
            "",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 disappeared @1#1",
                "5 followUp! of 4",
            ],
        ),
    ]);
    check(&[
        looks[0],
        looks[1],
        (
            "@1#2 a running : Go? [y/n]",
            &[
                "3 resolved @1#1: Go? [y/n] & 4 exited @1#1 ? replaced & 5 rerun @1#2",
                "6 followUp! of 4 5",
            ],
        ),
    ]);
}

#[test]
fn events_of_all_floors_are_in_one_order() {
    check(&[
        ("@1 a running : Go? [y/n]; @2 b running; @3 c running", &[]),
        (
            "@1 a running : Go? [y/n]; @2 b dead 0; @10 d running",
            &[
                "1 input @1: Go? [y/n] & 2 exited @2 0 & 3 started @10 & 4 disappeared @3",
                "5 followUp! of 1 2 3 4",
            ],
        ),
    ]);
    // A prompt that is on the screen and rings: the bell, then what is waited for.
    check(&[
        ("@1 a running : Go? [y/n]", &[]),
        (
            "@1 a running bell : Go? [y/n]",
            &[
                "1 notify @1 x1 & 2 input @1: Go? [y/n]",
                "3 followUp! of 1 2",
            ],
        ),
    ]);
}

#[test]
fn uncounted_runs_keep_their_order() {
    check(&[
        ("@1 a running", &[]),
        (
            "ended @1 a dead 1 bell; ended @1 a dead 2; @1 a running",
            &[
                "1 notify @1 x1 & 2 exited @1 1 & 3 exited @1 2 & 4 rerun @1",
                "5 followUp! of 1 2 3 4",
            ],
        ),
    ]);
}

#[test]
fn tasks_of_another_life_are_new_and_so_are_their_prompts() {
    check(&[
        ("life 1; @1 a running : Go? [y/n]", &[]),
        (
            "life 1; @1 a running : Go? [y/n]",
            &["1 input @1: Go? [y/n]", "2 followUp! of 1"],
        ),
        (
            "life 2; @1 a running : Go? [y/n]",
            &[
                "3 resolved @1: Go? [y/n] & 4 started @1 & 5 disappeared @1",
                "6 followUp! of 4 5",
            ],
        ),
        (
            "life 2; @1 a running : Go? [y/n]",
            &["7 input @1: Go? [y/n]", "8 followUp! of 7"],
        ),
    ]);
}

#[test]
fn a_session_that_goes_and_comes_back() {
    check_live(&[
        (
            "@1 a running; @2 b dead 0",
            &["tmux: 2 tasks, 0 waiting, 1 dead"],
        ),
        ("+100 missing", &["1 disappeared @1", "status gone"]),
        ("+50", &["2 followUp! of 1"]),
        ("+100 missing", &[]),
        ("+100", &[]),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        (
            "+100 @3 a running",
            &["3 started @3", "tmux: 1 task, 0 waiting, 0 dead"],
        ),
        ("+50", &["4 notice of 3"]),
    ]);
}

#[test]
fn every_change_of_counts_is_published_and_nothing_else() {
    let asks = "@1 a running : Go? [y/n]";
    check_live(&[
        ("missing", &["status gone"]),
        ("missing", &[]),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        (asks, &["1 started @1", "tmux: 1 task, 0 waiting, 0 dead"]),
        ("+200", &["2 notice of 1"]),
        (
            asks,
            &["3 input @1: Go? [y/n]", "tmux: 1 task, 1 waiting, 0 dead"],
        ),
        ("+200", &["4 followUp! of 3"]),
        (asks, &[]),
        ("@1 a unknown", &[]),
        (asks, &[]),
        (
            "@1 a running : ok",
            &[
                "5 resolved @1: Go? [y/n]",
                "tmux: 1 task, 0 waiting, 0 dead",
            ],
        ),
        (
            "@1 a dead 0",
            &["6 exited @1 0", "tmux: 1 task, 0 waiting, 1 dead"],
        ),
        ("", &["tmux: 0 tasks, 0 waiting, 0 dead"]),
        ("missing", &["status gone"]),
    ]);
}

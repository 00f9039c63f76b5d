//! When the session looks, and at what.

use super::*;

#[test]
fn what_is_looked_at_and_in_which_order() {
    check(
        "
        ## changes during a look call for another one
        RUNS
        windows
        windows
        windows => look
        look RUNS => look
        # All of them were in the previous one.
        job not needed => nothing
        skipped => 1

        ## everything but archiving goes before the next slice of a sweep
        life 1; @1#1 a running pid=7; @2#1 b running pid=8
        now 60000 => sweep
        wait @1 for ready
        windows
        # What is due meanwhile is in the sweep that is under way.
        now 60000 => nothing
        job nothing new => look @1
        slice life 1; @1#1 a running pid=7; @2#1 b running pid=8 => read %1 All
        read working => begun 1
        # tmux serves others before the next slice.
        now 5 => sweep
        slice life 1; @1#1 a running pid=7; @2#1 b running pid=8 => nothing
        now 5 => sweep
        look life 1; @1#1 a running pid=7; @2#1 b running pid=8 => nothing
        # An ended run is archived after the sweep.
        now 60000
        slice life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8 => sweep; append event
        now 5 => sweep
        look life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8 => archive @2

        ## a prompt that may be reported leads to a look at its window
        life 1; @1#1 a running pid=7; @2#1 b running pid=8 cursor=14,0 : Proceed? [y/N]
        now 199 => nothing
        now 1 => look @2

        ## a look that fails again for the same reason is logged once
        RUNS
        windows
        now 60000
        ignore
        fails no answer => log Warn a look failed error=\"no answer\"
        windows
        now 60000
        ignore
        fails no answer => nothing
        windows
        now 60000
        ignore
        fails closed => log Warn a look failed error=\"closed\"
        now 60000
        ignore
        look RUNS => log Info looks succeed again
        ",
    );
}

/// Lets so many sweeps find that tmux has not run. Returns the pauses before them, in milliseconds.
fn pauses_of_sweeps(driver: &mut Driver, n: usize) -> Vec<u128> {
    let sweeps = (0..n).map(|_| {
        let due = driver.session.state().schedule.next_look();
        let pause = due - driver.now.mono;
        driver.now = driver.now.after(pause);
        driver.input(Input::Due);
        assert_eq!(driver.take(), ["sweep"]);
        driver.play("job not needed => nothing");
        pause.as_millis()
    });
    sweeps.collect()
}

#[test]
fn sweeps_that_need_not_be_taken_grow_seldom_as_well() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    assert_eq!(pauses_of_sweeps(&mut driver, 4), [200, 400, 800, 1600]);
    // No report was covered by an earlier look.
    let counts = driver.session.state().counters;
    assert_eq!((counts.unchanged_looks, counts.skipped_looks), (4, 0));
}

#[test]
fn sweeps_over_many_windows_are_rarer_when_nothing_has_changed_for_long() {
    let tasks = (1..=300).map(|n| format!("@{n}#1 a{n} running pid={n}"));
    let shown = format!("life 1; {}", tasks.collect::<Vec<_>>().join("; "));
    let mut driver = Driver::new(&shown);
    let pauses = pauses_of_sweeps(&mut driver, 8);
    assert_eq!(pauses[4..], [3200, 6400, 36_000, 60_000]);
}

#[test]
fn an_event_that_a_safety_look_finds_is_late_unless_its_report_follows() {
    let (before, after) = (
        "life 1; @1#1 a running pid=7",
        "life 1; @1#1 a running pid=7; @2#1 b running pid=8",
    );
    for (report, n_late) in [(None, 1), (Some("output"), 1), (Some("windows"), 0)] {
        let mut driver = Driver::new(before);
        driver.has_trigger = false;
        driver.play(&format!("now 60000\nlook {after}"));
        if let Some(report) = report {
            driver.now = driver.now.after(Duration::from_millis(5));
            driver.step(report);
        }
        driver.step("now 200");
        assert_eq!(driver.session.state().found_late, n_late, "{report:?}");
    }
}

#[test]
fn soon_after_an_end_only_what_has_just_ended_is_looked_at() {
    let shown = "life 1; @1#1 a dead 0 pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    driver.play(&format!("windows\nslice {shown}\nchores\nignore"));
    let mut looks = Vec::new();
    for _ in 0..300 {
        driver.step("now 1");
        if matches!(driver.job, Some(Job::Look(..))) {
            let done = driver.take().into_iter();
            looks.extend(done.filter(|done| done.starts_with("look")));
            driver.look_at(false, shown);
        }
    }
    assert_eq!(looks[..3], ["look @1", "look @1", "look @1"]);
}

#[test]
fn tmux_is_nudged_when_a_look_asks_for_it_and_for_a_while_after_an_end() {
    let mut driver = Driver::new(RUNS);
    let mut nudges_after = |needs_nudge: bool, step: &str| {
        driver.needs_nudge = needs_nudge;
        driver.play(step);
        driver.nudges
    };
    assert_eq!(nudges_after(false, "shows RUNS"), 0);
    assert_eq!(nudges_after(true, "shows RUNS"), 1);
    let end = "shows life 1; @1#1 a dead 0\nafter 100";
    assert_eq!(nudges_after(false, end), 2);
    // Half a second later it is over, with a last one each time that was due.
    let last = nudges_after(false, "after 500\nafter 500");
    assert_eq!(nudges_after(false, "after 500"), last);
}

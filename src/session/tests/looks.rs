//! When the session looks, and at what.

use super::*;

#[test]
fn changes_during_a_look_call_for_another_one() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.input(Input::Changed(Change::Windows));
    driver.input(Input::Changed(Change::Windows));
    driver.did(&["look"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["look"]);
    // All of them were in the previous one.
    driver.not_needed();
    driver.did(&[]);
    assert_eq!(driver.session.state().counters.skipped_looks, 1);
}

#[test]
fn everything_but_archiving_goes_before_the_next_slice_of_a_sweep() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new(shown);
    driver.now = driver.now.after(Duration::from_mins(1));
    driver.input(Input::Due);
    driver.did(&["sweep"]);
    driver.wait(Some("ready"));
    driver.input(Input::Changed(Change::Windows));
    // What is due meanwhile is in the sweep that is under way.
    driver.now = driver.now.after(Duration::from_mins(1));
    driver.input(Input::Due);
    driver.did(&[]);
    driver.look_finds(LookOutcome::NothingNew);
    driver.did(&["look @1"]);
    driver.look_at(false, shown);
    driver.did(&["read %1 All"]);
    driver.read(&["working"]);
    driver.did(&["begun 1"]);
    // tmux serves others before the next slice.
    driver.now = driver.now.after(Duration::from_millis(5));
    driver.input(Input::Due);
    driver.did(&["sweep"]);
    driver.look_at(false, shown);
    driver.did(&[]);
    driver.now = driver.now.after(Duration::from_millis(5));
    driver.input(Input::Due);
    driver.did(&["sweep"]);
    driver.look(shown);
    driver.did(&[]);
    // An ended run is archived after the sweep.
    driver.now = driver.now.after(Duration::from_mins(1));
    driver.input(Input::Due);
    let ended = "life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8";
    driver.look_at(false, ended);
    driver.did(&["sweep", "append event"]);
    driver.now = driver.now.after(Duration::from_millis(5));
    driver.input(Input::Due);
    driver.did(&["sweep"]);
    driver.look(ended);
    driver.did(&["archive @2"]);
}

#[test]
fn a_prompt_that_may_be_reported_leads_to_a_look_at_its_window() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8 cursor=15,0 : Proceed? [y/N] ";
    let mut driver = Driver::new(shown);
    driver.now = driver.now.after(Duration::from_millis(199));
    driver.input(Input::Due);
    driver.did(&[]);
    driver.now = driver.now.after(Duration::from_millis(1));
    driver.input(Input::Due);
    driver.did(&["look @2"]);
}

/// Lets so many sweeps find that tmux has not run. Returns the pauses before them, in milliseconds.
fn pauses_of_sweeps(driver: &mut Driver, n: usize) -> Vec<u128> {
    let sweeps = (0..n).map(|_| {
        let due = driver.session.state().schedule.next_look();
        let pause = due - driver.now.mono;
        driver.now = driver.now.after(pause);
        driver.input(Input::Due);
        driver.did(&["sweep"]);
        driver.not_needed();
        driver.did(&[]);
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
    for (report, n_late) in [
        (None, 1),
        (Some(Change::Output), 1),
        (Some(Change::Windows), 0),
    ] {
        let mut driver = Driver::new(before);
        driver.has_trigger = false;
        driver.now = driver.now.after(Duration::from_mins(1));
        driver.input(Input::Due);
        driver.look(after);
        let name = format!("{report:?}");
        if let Some(report) = report {
            driver.now = driver.now.after(Duration::from_millis(5));
            driver.input(Input::Changed(report));
        }
        driver.now = driver.now.after(Duration::from_millis(200));
        driver.input(Input::Due);
        assert_eq!(driver.session.state().found_late, n_late, "{name}");
    }
}

#[test]
fn a_look_that_fails_again_for_the_same_reason_is_logged_once() {
    let shown = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(shown);
    let fail = |driver: &mut Driver, why: &str| {
        driver.input(Input::Changed(Change::Windows));
        driver.now = driver.now.after(Duration::from_secs(60));
        driver.input(Input::Due);
        driver.done.clear();
        driver.look_fails(why);
    };
    fail(&mut driver, "no answer");
    driver.did(&["log Warn a look failed error=\"no answer\""]);
    fail(&mut driver, "no answer");
    driver.did(&[]);
    fail(&mut driver, "closed");
    driver.did(&["log Warn a look failed error=\"closed\""]);
    driver.now = driver.now.after(Duration::from_secs(60));
    driver.input(Input::Due);
    driver.done.clear();
    driver.look(shown);
    driver.did(&["log Info looks succeed again"]);
}

#[test]
fn soon_after_an_end_only_what_has_just_ended_is_looked_at() {
    let shown = "life 1; @1#1 a dead 0 pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    driver.input(Input::Changed(Change::Windows));
    driver.look_at(false, shown);
    driver.finish_chores();
    driver.take();
    let mut looks = Vec::new();
    for _ in 0..300 {
        driver.now = driver.now.after(Duration::from_millis(1));
        driver.input(Input::Due);
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
    let running = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(running);
    driver.input(Input::Changed(Change::Windows));
    driver.look(running);
    assert_eq!(driver.nudges, 0);
    driver.needs_nudge = true;
    driver.input(Input::Changed(Change::Windows));
    driver.look(running);
    assert_eq!(driver.nudges, 1);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 0");
    driver.after(100);
    assert_eq!(driver.nudges, 2);
    // Half a second later it is over, with a last one each time that was due.
    driver.after(500);
    driver.after(500);
    let last = driver.nudges;
    driver.after(500);
    assert_eq!(driver.nudges, last);
}

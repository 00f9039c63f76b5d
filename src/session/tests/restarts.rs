//! Restarts by the policy, and the usual duration of a run.

use super::*;

#[test]
fn a_task_that_failed_is_restarted_after_its_pause() {
    let mut driver = Driver::new("life 1; @1#1 a running restarts=2,1000,0");
    driver.play("shows life 1; @1#1 a dead 1 ended=1000000 restarts=2,1000,0\nchores");
    let shown = |driver: &Driver| {
        let restarts = &driver.session.state().restarts;
        let next = restarts.next(WindowId(1), driver.now);
        next.map(|next| (next.in_ms, next.number, next.limit))
    };
    driver.play("after 400 => not restart");
    assert_eq!(shown(&driver), Some((600, 1, 2)));
    driver.play("after 600 => .. restart @1 1");
    // Once, also while it takes long.
    driver.step("after 5000");
    assert_eq!(shown(&driver), Some((0, 1, 2)));
    driver.play("job restarted\nlook life 1; @1#2 a running restarts=2,1000,1");
    assert_eq!(shown(&driver), None);
}

#[test]
fn what_a_person_does_to_a_task_that_waits_for_a_restart_ends_the_wait() {
    for meanwhile in [
        "life 1",
        "life 1; @1#2 a running",
        "life 1; @1#2 a dead 1",
        "life 1; @1#2 a dead 0 restarts=2,1000,0",
        "life 1; @1#1 a dead 1",
        "missing",
    ] {
        let story = "
            life 1; @1#1 a running restarts=2,1000,0
            shows life 1; @1#1 a dead 1 ended=1000000 restarts=2,1000,0
            chores
            shows MEANWHILE
            chores
            ignore
            after 2000 => not restart
            ";
        check(&story.replace("MEANWHILE", meanwhile));
    }
}

#[test]
fn a_restart_that_tmux_refuses_is_tried_again_and_an_impossible_one_is_reported() {
    check(
        "
        life 1; @1#1 a running restarts=2,0,0
        shows life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0
        chores => .. restart @1 1
        fails no
        look life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0
        chores
        after 4999 => not restart
        after 1 => .. restart @1 1
        job impossible: its directory is gone
        after 100 => .. append notice; .. append followUp
        after 10000 => not restart
        ",
    );
}

#[test]
fn a_restart_that_seemed_superseded_is_tried_again_if_its_window_has_not_changed() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0";
    for (found, again) in [
        (dead, ".. restart @1 1"),
        ("life 1; @1#2 a running restarts=2,0,1", "not restart"),
        ("life 1; @1#1 a dead 1 ended=1000000", "not restart"),
        ("life 1", "not restart"),
    ] {
        let story = "
            life 1; @1#1 a running restarts=2,0,0
            shows DEAD
            chores => .. restart @1 1
            job restarted => look @1
            look FOUND
            chores
            after 4999 => not restart
            after 1 => AGAIN
            ";
        let story = story.replace("DEAD", dead).replace("FOUND", found);
        check(&story.replace("AGAIN", again));
    }
}

/// How many messages were recorded since the last query.
fn n_messages(driver: &mut Driver) -> usize {
    let did = driver.take();
    did.iter().filter(|did| *did == "append followUp").count()
}

#[test]
fn an_end_whose_restart_is_prevented_is_delivered_as_a_failure() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,90000,0";
    for (meanwhile, expected) in [
        ("life 1; @1#1 a dead 1 ended=1000000", 1),
        // Another policy, which is used up.
        ("life 1; @1#1 a dead 1 ended=1000000 restarts=2,90000,2", 1),
        ("life 1; @1#1 a dead 1 ended=1000000 restarts=3,90000,0", 0),
        (dead, 0),
        // Whoever prunes or kills it, or runs it again, has seen it.
        ("life 1", 0),
        ("life 1; @1#2 a running", 0),
        ("missing", 0),
        ("life 1; gone @1 userKilled", 0),
        // It is as dead elsewhere, and nobody has seen to it.
        ("life 1; @2#1 b running; gone @1 moved", 1),
        ("missing; gone @1 moved", 1),
        // Its pane was broken out; another one is left, and counts as the same run.
        ("life 1; @1#1 a running pane=9", 1),
        // The same ids on another server.
        ("life 2; @1#1 a running", 0),
    ] {
        let mut driver = Driver::new("life 1; @1#1 a running restarts=2,90000,0");
        driver.play(&format!(
            "shows {dead}\nchores\nafter 100 => .. append notice"
        ));
        let look = format!("shows {meanwhile}\nchores\nafter 100");
        for expected in [expected, 0] {
            driver.play(&look);
            assert_eq!(n_messages(&mut driver), expected, "{meanwhile}");
        }
        // The same while no daemon runs.
        let mut driver = Driver::returning(dead, meanwhile);
        driver.after(100);
        assert_eq!(n_messages(&mut driver), expected, "{meanwhile}");
        driver.play(&look);
        assert_eq!(n_messages(&mut driver), 0, "{meanwhile}");
    }
}

#[test]
fn an_end_that_an_earlier_daemon_recorded_is_delivered_if_its_restart_is_impossible() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0";
    let mut driver = Driver::returning(dead, dead);
    assert!(matches!(driver.job, Some(Job::Restart(..))));
    driver.play("job impossible: its directory is gone\nafter 100");
    assert_eq!(n_messages(&mut driver), 1);
    driver.play("shows life 1; @1#1 a dead 1 ended=1000000\nafter 100");
    assert_eq!(n_messages(&mut driver), 0);
}

#[test]
fn a_usual_duration_is_asked_for_once_for_each_run_and_shown_while_it_lives() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b dead 0 pid=8");
    let (one, two) = (WindowId(1), WindowId(2));
    assert_eq!(std::mem::take(&mut driver.begun), [(one, Some(1))]);
    let look = |driver: &mut Driver, notation: &str| {
        driver.play(&format!("shows {notation}\nchores"));
        std::mem::take(&mut driver.begun)
    };
    let running = "life 1; @1#1 a running pid=7; @2#2 b running pid=9";
    assert_eq!(look(&mut driver, running), [(two, Some(2))]);
    assert_eq!(look(&mut driver, running), []);
    let usual = |driver: &Driver| -> Vec<_> {
        let view = driver.session.state().view(driver.now);
        view.tasks.iter().map(|task| task.usual_ms).collect()
    };
    assert_eq!(usual(&driver), [None, None]);
    for (window, run, millis) in [(one, 1, 40_000), (two, 1, 5), (two, 2, 900)] {
        let run = Some(run);
        let run = Task {
            run,
            ..Task::new(window, String::new())
        };
        driver.input(Input::UsualDuration(std::sync::Arc::new(run), millis));
    }
    assert_eq!(usual(&driver), [Some(40_000), Some(900)]);
    let ended = "life 1; @1#1 a dead 0 pid=7; @2#3 b running pid=10";
    assert_eq!(look(&mut driver, ended), [(two, Some(3))]);
    assert_eq!(usual(&driver), [None, None]);
}

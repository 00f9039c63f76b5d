//! Ending runs: commands, time limits and launches into a live slot.

use super::*;
use crate::model::{GoneReason, LeftProcess};

fn kill(names: &[&str]) -> Request {
    Request::Kill {
        tasks: names.iter().map(ToString::to_string).collect(),
        owner: None,
        by_agent: false,
        asked_by: None,
        is_repeated: false,
        choice: StopChoice::default(),
    }
}

fn window(id: &str) -> WindowId {
    id.parse().unwrap()
}

impl Driver {
    fn run_ended(&mut self, id: &str) {
        let report = EndReport::Ended(window(id), Vec::new());
        self.input(Input::Ending(report));
    }

    /// The running launch has found a live run in `@1`.
    #[track_caller]
    fn live(&mut self, pid: u32) {
        assert!(matches!(self.job, Some(Job::Launch(..))), "{:?}", self.job);
        self.launch_finds(LaunchOutcome::Live(window("@1"), pid));
    }

    /// The running job has marked windows.
    #[track_caller]
    fn marked(&mut self) {
        assert!(
            matches!(self.job, Some(Job::MarkEndings(..))),
            "{:?}",
            self.job
        );
        self.finish();
    }

    /// The running job has closed its windows.
    #[track_caller]
    fn closed(&mut self) {
        self.done(|job| {
            let Job::Kill(windows, outcome) = job else {
                return false;
            };
            outcome.resolve(ClosedWindows {
                closed: windows.into_iter().collect(),
                failure: None,
            });
            true
        });
    }
}

const RUNS: &str = "life 1; @1#1 a running pid=7";

#[test]
fn a_kill_is_told_once_when_nothing_is_left_with_how_the_run_ended() {
    let mut driver = Driver::new(RUNS);
    driver.ask(kill(&["a"]));
    driver.look(RUNS);
    driver.did(&["look barrier", "mark [(WindowId(1), 7, UserKilled)]"]);
    driver.marked();
    driver.did(&["end @1 7 SIGTERM 10s"]);
    // A look that shows its end tells nothing.
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 0 pid=7 ended=5");
    assert_eq!(driver.told, [""; 0]);
    assert!(
        driver
            .session
            .state()
            .task(window("@1"))
            .unwrap()
            .is_alive()
    );
    driver.take();
    driver.run_ended("@1");
    driver.did(&["archive @1"]);
    driver.finish_chores();
    driver.closed();
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1".to_owned()), "{did:?}");
}

#[test]
fn a_window_is_closed_when_a_look_after_the_end_has_shown_it_however_late() {
    for shown in ["life 1; @1#1 a dead 143 pid=7 ended=5", RUNS] {
        let mut driver = Driver::new(RUNS);
        driver.ask(kill(&["a"]));
        driver.look(RUNS);
        driver.marked();
        driver.take();
        driver.run_ended("@1");
        driver.did(&["look @1"]);
        driver.now = driver.now.after(Duration::from_secs(5));
        driver.input(Input::Due);
        driver.did(&[]);
        // If tmux still shows it as alive then, its terminal is held by another process.
        driver.look(shown);
        driver.did(&["archive @1"]);
        driver.finish_chores();
        driver.closed();
        driver.look("life 1");
        assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    }
}

#[test]
fn a_window_that_closes_by_itself_is_told_once_as_well() {
    let mut driver = Driver::new(RUNS);
    driver.ask(kill(&["a"]));
    driver.look(RUNS);
    driver.marked();
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; ended @1#1 a dead 3 pid=7");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    // What else runs there is waited for.
    let is_answer = |did: &String| did == "answer 1";
    assert!(!driver.take().iter().any(is_answer));
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    driver.run_ended("@1");
    let did = driver.take();
    assert!(did.iter().any(is_answer), "{did:?}");
}

#[test]
fn the_next_run_waits_for_the_last_one_also_without_its_window() {
    let dead = "life 1; @1#1 a dead 143 pid=7 ended=5";
    for looks in [&["life 1"][..], &[dead, "life 1"], &["missing"]] {
        let mut driver = Driver::new(RUNS);
        driver.ask(super::requests::launch_of("a", false));
        driver.look(RUNS);
        driver.live(7);
        driver.take();
        for shown in looks {
            driver.input(Input::Changed(Change::Windows));
            driver.look(shown);
        }
        let is_launch = |did: &String| did.starts_with("launch");
        assert!(!driver.take().iter().any(is_launch), "{looks:?}");
        driver.run_ended("@1");
        driver.finish_chores();
        let did = driver.take();
        assert!(did.iter().any(is_launch), "{did:?}");
    }
}

#[test]
fn what_cannot_be_ended_is_named_and_its_end_is_told_like_any_other() {
    let runs = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let both = "life 1; @1#1 a dead 0 pid=7 ended=5; @2#1 b dead 0 pid=8 ended=5";
    let mut driver = Driver::new(runs);
    driver.ask(kill(&["a", "b"]));
    driver.look(runs);
    driver.marked();
    driver.input(Input::Changed(Change::Windows));
    driver.look(both);
    let left = LeftProcess {
        pid: 9,
        name: "sudo".to_owned(),
        is_anothers: true,
    };
    driver.input(Input::Ending(EndReport::Ended(window("@1"), vec![left])));
    // The mark is removed, and a look shows its end.
    while let Some(job) = &driver.job {
        if matches!(job, Job::Look(..)) {
            driver.look(both);
        } else {
            let is_expected = matches!(job, Job::MarkEndings(..) | Job::Archive(..));
            assert!(is_expected, "{job:?}");
            driver.finish();
        }
    }
    assert_eq!(driver.told, ["exited @1#1 0"]);
    driver.run_ended("@2");
    while !matches!(driver.job, Some(Job::Kill(..))) {
        if matches!(driver.job, Some(Job::Look(..))) {
            driver.look(both);
        } else {
            driver.finish();
        }
    }
    driver.closed();
    driver.look("life 1; @1#1 a dead 0 pid=7 ended=5");
    let did = driver.take();
    let refusal = "refuse 1: could not end @1 (a): sudo (pid 9, another user's) still runs";
    assert!(did.contains(&refusal.to_owned()), "{did:?}");
    assert_eq!(driver.told[1..], ["disappeared @2#1 userKilled"]);
}

#[test]
fn what_was_killed_while_we_were_ending_it_was_killed_by_us_also_for_the_next_daemon() {
    const KILLED: &str = "life 1; @1#1 a dead SIGKILL pid=7 ended=5";
    let hint = |driver: &Driver| {
        driver
            .session
            .state()
            .task(window("@1"))
            .unwrap()
            .exit_hint()
    };
    let mut driver = Driver::new(RUNS);
    driver.ask(kill(&["a"]));
    driver.look(RUNS);
    driver.marked();
    let left = vec![LeftProcess {
        pid: 9,
        name: "sudo".to_owned(),
        is_anothers: true,
    }];
    driver.input(Input::Ending(EndReport::Ended(window("@1"), left)));
    while let Some(job) = &driver.job {
        if matches!(job, Job::Look(..)) {
            driver.look(KILLED);
        } else {
            driver.finish();
        }
    }
    assert_eq!(driver.told, ["exited @1#1 SIGKILL"]);
    assert_eq!(hint(&driver), None);
    let mut next = Driver::new(&format!("{KILLED} ours"));
    next.input(Input::Changed(Change::Windows));
    next.look(KILLED);
    assert_eq!(hint(&next), None);
    // Nothing of ours has ended the next run.
    next.input(Input::Changed(Change::Windows));
    next.look("life 1; @1#2 a dead SIGKILL pid=8 ended=9");
    assert!(hint(&next).is_some());
}

#[test]
fn a_live_run_ends_before_the_next_one_starts_in_its_slot() {
    let mut driver = Driver::new(RUNS);
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.did(&["look barrier @1", "launch a"]);
    driver.live(7);
    driver.did(&["end @1 7 SIGTERM 10s"]);
    driver.run_ended("@1");
    let dead = "life 1; @1#1 a dead 143 pid=7 ended=5";
    driver.look(dead);
    driver.did(&["look @1", "archive @1"]);
    driver.finish();
    driver.did(&["launch a over [7]"]);
    driver.launched("@1");
    driver.look("life 1; @1#2 a running pid=8");
    assert_eq!(
        driver.told,
        ["exited @1#1 143 replaced by launcher", "rerun @1#2"]
    );
}

#[test]
fn launches_into_one_slot_follow_each_other() {
    let mut driver = Driver::new(RUNS);
    driver.ask(super::requests::launch_of("a", false));
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.look(RUNS);
    driver.live(7);
    driver.run_ended("@1");
    driver.look("life 1; @1#1 a dead 143 pid=7 ended=5");
    driver.finish_chores();
    driver.take();
    driver.launched("@1");
    driver.look("life 1; @1#2 a running pid=8");
    driver.live(8);
    let did = driver.take();
    assert!(did.contains(&"end @1 8 SIGTERM 10s".to_owned()), "{did:?}");
    driver.run_ended("@1");
    driver.look("life 1; @1#2 a dead 143 pid=8 ended=5");
    driver.did(&["look @1", "archive @1"]);
    driver.finish_chores();
    driver.did(&["launch a over [8]"]);
}

#[test]
fn a_launch_whose_client_has_left_makes_room_for_the_next() {
    let mut driver = Driver::new(RUNS);
    let first = driver.ask(super::requests::launch_of("a", false));
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.look(RUNS);
    driver.live(7);
    driver.input(Input::Left(first));
    let dead = "life 1; @1#1 a dead 143 pid=7 ended=5";
    for _ in 0..2 {
        driver.run_ended("@1");
        while matches!(driver.job, Some(Job::Look(..))) {
            driver.look(dead);
        }
        driver.finish_chores();
    }
    let did = driver.take();
    assert!(did.contains(&"launch a".to_owned()), "{did:?}");
}

#[test]
fn nothing_is_ended_for_a_launch_that_is_refused_or_whose_client_has_left() {
    let mut driver = Driver::new(RUNS);
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.take();
    driver.fail("two windows are named `a`");
    driver.did(&["refuse 1: two windows are named `a`"]);
    let client = driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.input(Input::Left(client));
    driver.take();
    driver.live(7);
    assert!(!driver.take().iter().any(|did| did.starts_with("end")));
    assert!(!driver.session.state().endings.contain(window("@1")));
}

#[test]
fn a_live_run_that_no_look_has_shown_is_looked_at_before_it_is_ended() {
    let mut driver = Driver::new(RUNS);
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.take();
    // A user has respawned its pane.
    driver.live(9);
    driver.did(&["look @1"]);
    driver.look("life 1; @1#2 a running pid=9");
    driver.take();
    driver.live(9);
    driver.did(&["end @1 9 SIGTERM 10s"]);
}

#[test]
fn an_end_whose_launch_has_failed_is_told_like_any_other() {
    let mut driver = Driver::new(RUNS);
    driver.ask(super::requests::launch_of("a", false));
    driver.look(RUNS);
    driver.live(7);
    driver.run_ended("@1");
    let dead = "life 1; @1#1 a dead 143 pid=7 ended=5";
    driver.look(dead);
    driver.finish_chores();
    driver.fail("tmux does not answer");
    driver.look(dead);
    assert_eq!(driver.told, ["exited @1#1 143"]);
}

#[test]
fn a_run_ends_when_its_time_is_over() {
    let runs = "life 1; @1#1 a running pid=7 started=1000000 limit=2000";
    let mut driver = Driver::new(runs);
    driver.after(1900);
    let is_begun = |did: &[String]| did.iter().any(|did| did.starts_with("mark"));
    assert!(!is_begun(&driver.take()));
    driver.after(200);
    assert!(is_begun(&driver.take()));
    driver.marked();
    driver.run_ended("@1");
    driver.look("life 1; @1#1 a dead 143 pid=7 started=1000000 ended=5 limit=2000");
    driver.finish_chores();
    driver.closed();
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 timedOut"]);
}

#[test]
fn what_a_daemon_had_begun_the_next_one_finishes() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7 ending=userKilled asker=laptop");
    assert!(driver.session.state().endings.contain(window("@1")));
    let task = driver.session.state().task(window("@1")).unwrap();
    assert_eq!(task.ending, Some(GoneReason::UserKilled));
    driver.run_ended("@1");
    driver.look("life 1; @1#1 a dead 0 pid=7 ended=5 ending=userKilled asker=laptop");
    driver.finish_chores();
    driver.closed();
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled for laptop"]);
}

#[test]
fn a_client_that_leaves_does_not_stop_what_has_begun() {
    let mut driver = Driver::new(RUNS);
    let request_id = driver.ask(kill(&["a"]));
    driver.look(RUNS);
    driver.marked();
    driver.input(Input::Left(request_id));
    driver.take();
    driver.run_ended("@1");
    driver.look("life 1; @1#1 a dead 0 pid=7 ended=5");
    driver.finish_chores();
    driver.closed();
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    assert!(!driver.take().iter().any(|did| did.starts_with("answer")));
}

#[test]
fn a_second_command_shortens_the_time_and_both_are_answered() {
    let mut driver = Driver::new(RUNS);
    driver.ask(kill(&["a"]));
    driver.look(RUNS);
    driver.marked();
    driver.take();
    driver.ask(Request::Kill {
        tasks: vec!["a".to_owned()],
        owner: Some("pi:1".to_owned()),
        by_agent: true,
        asked_by: Some("pi:1@laptop".to_owned()),
        is_repeated: false,
        choice: StopChoice {
            grace: Some(Duration::ZERO),
            ..StopChoice::default()
        },
    });
    driver.look(RUNS);
    driver.did(&["look barrier", "end @1 7 SIGTERM 0ns asked"]);
    driver.run_ended("@1");
    driver.look("life 1; @1#1 a dead SIGKILL pid=7 ended=5");
    driver.finish_chores();
    driver.closed();
    driver.look("life 1");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1".to_owned()), "{did:?}");
    assert!(did.contains(&"answer 2".to_owned()), "{did:?}");
}

fn kill_all() -> Request {
    Request::KillAll {
        owner: None,
        asked_by: Some("laptop".to_owned()),
        choice: StopChoice::default(),
    }
}

#[test]
fn an_end_says_who_asked_from_another_machine() {
    // Whether its window is closed, goes by itself, or is gone before a look has shown its end.
    for shown in [
        "life 1; @1#1 a dead 3 pid=7",
        "life 1; ended @1#1 a dead 3 pid=7",
        "life 1",
    ] {
        let mut driver = Driver::new(RUNS);
        driver.ask(Request::Kill {
            tasks: vec!["a".to_owned()],
            owner: Some("pi:1".to_owned()),
            by_agent: true,
            asked_by: Some("pi:1@laptop".to_owned()),
            is_repeated: false,
            choice: StopChoice::default(),
        });
        driver.look(RUNS);
        driver.marked();
        driver.run_ended("@1");
        driver.look(shown);
        if shown.contains("; @1") {
            driver.finish_chores();
            driver.closed();
            driver.look("life 1");
        }
        assert_eq!(
            driver.told,
            ["disappeared @1#1 agentKilled for pi:1@laptop"]
        );
    }
}

#[test]
fn the_end_of_a_session_that_has_not_begun_is_given_up_with_its_client() {
    let mut driver = Driver::new(RUNS);
    let request_id = driver.ask(kill_all());
    driver.look(RUNS);
    driver.did(&["look barrier @1", "find shared [WindowId(1)]"]);
    // While it is found out which windows live on.
    driver.input(Input::Left(request_id));
    driver.no_window_is_shared();
    driver.did(&[]);
    assert!(!driver.session.state().endings.contain(window("@1")));
}

#[test]
fn a_session_whose_runs_have_ended_ends_also_without_the_client() {
    let dead = "life 1; @1#1 a dead 143 pid=7 ended=5";
    let mut driver = Driver::new(RUNS);
    let request_id = driver.ask(kill_all());
    driver.look(RUNS);
    driver.no_window_is_shared();
    driver.marked();
    driver.run_ended("@1");
    driver.look(dead);
    // The session is about to be ended, after the output of its run is archived.
    assert!(
        matches!(driver.job, Some(Job::Archive(..))),
        "{:?}",
        driver.job
    );
    driver.input(Input::Left(request_id));
    driver.finish_chores();
    driver.no_window_is_shared();
    driver.look("missing");
    assert_eq!(driver.told, ["disappeared @1#1 userKilled for laptop"]);
}

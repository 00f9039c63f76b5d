//! Runs with `--notify-on`: what they print is searched, and reported with a look.

use super::*;

const RUNS: &str = "life 1; @1#1 a running pid=7 notifies=ERROR";

impl Driver {
    /// Returns a session with such a task whose output is followed, after these rows.
    fn searching(rows: &[&str]) -> Self {
        let mut driver = Self::new(RUNS);
        driver.read(rows);
        driver.finish_chores();
        driver.take();
        driver
    }

    /// Returns the events since the last query.
    fn events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.told)
    }
}

#[test]
fn a_matching_line_is_reported_with_a_look_at_once_and_then_in_ten_seconds() {
    let mut driver = Driver::searching(&[""]);
    assert_eq!(driver.followed, [PANE].into());
    driver.print("fine\r\nERROR a\r\n");
    driver.did(&["look @1"]);
    driver.look(RUNS);
    driver.did(&["append event"]);
    assert_eq!(driver.events(), ["output @1#1 x1: ERROR a"]);
    for n in 0..1000 {
        driver.print(&format!("ERROR {n}\r\n"));
    }
    driver.did(&[]);
    driver.after(9_999);
    assert!(driver.events().is_empty());
    driver.after(1);
    assert_eq!(driver.events(), ["output @1#1 x1000: ERROR 0"]);
    driver.after(60_000);
    assert!(driver.events().is_empty());
    assert_eq!(driver.followed, [PANE].into());
}

#[test]
fn what_a_run_writes_last_is_reported_before_its_end() {
    let mut driver = Driver::searching(&[""]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 1 pid=7 notifies=ERROR");
    driver.did(&["look", "drain"]);
    driver.print("ERROR last\r\n");
    driver.finish();
    driver.read(&["ERROR last"]);
    let did = driver.take();
    assert!(did.contains(&"append event event".to_owned()), "{did:?}");
    assert_eq!(
        driver.events(),
        ["output @1#1 x1: ERROR last", "exited @1#1 1"]
    );
    driver.finish_chores();
    assert!(driver.followed.is_empty());
}

#[test]
fn what_tmux_threw_away_and_what_a_window_wrote_that_is_gone_is_searched() {
    let mut driver = Driver::searching(&["begin"]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 1 pid=7 notifies=ERROR");
    driver.finish();
    // The pane contains more than has arrived.
    driver.read(&["begin", "ERROR last"]);
    driver.read(&["begin", "ERROR last"]);
    assert_eq!(
        driver.events(),
        ["output @1#1 x1: ERROR last", "exited @1#1 1"]
    );

    let mut driver = Driver::searching(&[""]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1");
    driver.print("ERROR last\r\n");
    driver.finish();
    assert_eq!(
        driver.events(),
        ["output @1#1 x1: ERROR last", "disappeared @1#1"]
    );
}

#[test]
fn a_returning_daemon_searches_what_was_written_meanwhile() {
    let before = snapshot(RUNS);
    let told = "a line that was reported";
    let life = before.life.clone().unwrap();
    let anchor = crate::wait::Anchor::at(&[told.to_owned(), String::new()], 0, 1, 0);
    let cursor = crate::wait::Cursor::new(&life, WindowId(1), 1, anchor);
    for (looks, ended) in [
        (RUNS, false),
        ("life 1; @1#1 a dead 1 pid=7 notifies=ERROR", true),
    ] {
        let memory = RestoredState {
            last_look: Some(before.clone()),
            ..RestoredState::default()
        };
        let bookmark = Bookmark {
            searched: [(WindowId(1), cursor.to_string())].into(),
            ..Bookmark::default()
        };
        let mut driver = Driver::with_bookmark(memory, Vec::new(), bookmark, looks);
        if ended {
            driver.read(&[told, "ERROR while no daemon ran"]);
        } else {
            driver.read(&[told, "ERROR while no daemon ran", ""]);
            driver.look(looks);
        }
        let mut expected = vec!["output @1#1 x1: ERROR while no daemon ran"];
        expected.extend(ended.then_some("exited @1#1 1"));
        assert_eq!(driver.events(), expected);
    }
}

#[test]
fn output_that_is_lost_is_said() {
    let mut driver = Driver::searching(&["one"]);
    driver.print("\r\nERROR b\r\n");
    driver.look(RUNS);
    assert_eq!(driver.events(), ["output @1#1 x1: ERROR b"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look(RUNS);
    driver.read(&["something", "else", "ERROR c"]);
    driver.after(10_000);
    assert_eq!(driver.events(), ["output @1#1 x1 gap: ERROR c"]);
    assert_eq!(driver.followed, [PANE].into());
}

#[test]
fn after_the_client_for_output_was_lost_the_search_begins_where_it_was() {
    let mut driver = Driver::searching(&[""]);
    driver.print("one\r\n");
    driver.input(Input::Changed(Change::FollowerLost));
    driver.look(RUNS);
    driver.read(&["one", "ERROR two", ""]);
    driver.look(RUNS);
    assert_eq!(driver.events(), ["output @1#1 x1: ERROR two"]);
}

#[test]
fn a_launch_is_answered_when_its_output_is_followed() {
    let mut driver = Driver::new("life 1");
    driver.ask(requests::launch_of("a", false));
    driver.look("life 1");
    driver.launched("@1");
    driver.take();
    driver.look(RUNS);
    let did = driver.take();
    assert_eq!(did, ["append event", "read %1 All"]);
    driver.read(&[""]);
    let did = driver.take();
    assert!(did.contains(&"answer 1".to_owned()), "{did:?}");
}

#[test]
fn a_run_without_patterns_costs_nothing() {
    let driver = Driver::new("life 1; @1#1 a running pid=7");
    assert!(driver.followed.is_empty() && driver.job.is_none());
}

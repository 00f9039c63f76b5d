//! Waits and output listeners: output that is followed, read again or archived, and how runs end.

use super::*;
use crate::model::Condition;

#[test]
fn output_counts_before_the_end_of_its_run() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &[""]);
    driver.input(Input::Changed(Change::Windows));
    driver.did(&["look"]);
    // The look shows the end; the last output of the run has not arrived yet.
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "read last of %1 LastRow"]);
    driver.print("all done\r\n");
    driver.did(&[]);
    driver.read(&["all done"]);
    // The wait was answered by the text, and the output for its answer is read before archiving.
    driver.did(&["read end of %1"]);
    driver.read(&["all done"]);
    driver.did(&["answer 1 Matched", "archive @1"]);
    assert!(driver.followed.is_empty());
}

#[test]
fn what_tmux_threw_away_at_the_end_is_read() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["begin"]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    // The pane contains more than has arrived: only then the whole history is read.
    driver.read(&["begin", "all done"]);
    driver.did(&["read last of %1 All"]);
    driver.read(&["begin", "all done"]);
    driver.read(&["begin", "all done"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Matched".to_owned()), "{did:?}");
}

#[test]
fn a_run_that_ends_without_the_text_is_an_outcome_of_its_own() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["begin"]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 3 pid=7");
    driver.read(&["begin"]);
    driver.take();
    driver.read(&["begin"]);
    driver.did(&["answer 1 Died", "archive @1"]);
}

#[test]
fn a_pane_that_was_paused_is_read_from_where_it_was() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.print("\r\ntwo");
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.did(&["look @1"]);
    // Output that arrives while it is paused has a gap before it.
    driver.print("done");
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["read %1 All"]);
    driver.read(&["one", "two", "three", "done"]);
    driver.did(&["read end of %1"]);
    driver.read(&["one", "two", "three", "done"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Matched".to_owned()), "{did:?}");
}

#[test]
fn a_pane_whose_place_is_not_found_again_has_lost_output() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&["something", "else", "stands", "here"]);
    driver.read(&[""]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 AnchorLost".to_owned()), "{did:?}");
}

#[test]
fn a_pane_that_was_respawned_before_it_was_read_is_looked_at_again() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=6");
    driver.take();
    driver.read(&["one"]);
    driver.did(&["look @1"]);
}

#[test]
fn another_connection_may_have_lost_output() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &[""]);
    driver.connection = 2;
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&[""]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 AnchorLost".to_owned()), "{did:?}");
}

#[test]
fn a_look_that_is_out_says_nothing_to_a_wait_that_begins_meanwhile() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.did(&["look"]);
    driver.wait(None);
    driver.did(&[]);
    // For the previous run: it was requested before the wait.
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "look @1"]);
    driver.look("life 1; @1#2 a running pid=8");
    let did = driver.take();
    assert!(did.contains(&"begun 1".to_owned()), "{did:?}");
    assert!(!did.iter().any(|did| did.starts_with("answer")), "{did:?}");
}

#[test]
fn waits_that_begin_at_once_share_one_look_and_one_reading() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    for n in 0..40 {
        driver.wait(Some(&format!("text {n}")));
    }
    // The first look is running when the others arrive.
    driver.did(&["look @1"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["look @1", "read %1 All"]);
    driver.read(&["text 3"]);
    let did = driver.take();
    let begun = did.iter().filter(|did| did.starts_with("begun")).count();
    assert_eq!((begun, did.len()), (40, 40), "{did:?}");
    assert_eq!(driver.session.state().n_waits(), 40);
    driver.print("text 30\r\n");
    // The texts 3 and 30.
    driver.did(&["read end of %1"]);
    driver.read(&[""]);
    driver.did(&["answer 4 Matched", "answer 31 Matched"]);
}

#[test]
fn a_wait_that_needs_no_history_reads_none() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::Wait(WaitRequest {
        task: "@1".to_owned(),
        conditions: vec![Condition::Change],
        ..WaitRequest::default()
    }));
    driver.take();
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["read %1 LastRow"]);
    assert_eq!(driver.followed, BTreeSet::from([PANE]));
}

#[test]
fn whoever_leaves_takes_everything_along() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    // While the pane is being read.
    let request_id = driver.wait(Some("text"));
    driver.look("life 1; @1#1 a running pid=7");
    driver.take();
    driver.input(Input::Left(request_id));
    driver.read(&[""]);
    driver.did(&[]);
    assert!(driver.followed.is_empty());
    // While it waits.
    let request_id = driver.begin("text", &[""]);
    driver.input(Input::Left(request_id));
    assert!(driver.followed.is_empty());
    driver.print("text");
    driver.did(&[]);
    // While the output for its answer is being read.
    let request_id = driver.begin("text", &[""]);
    driver.print("text\r\n");
    driver.input(Input::Left(request_id));
    driver.read(&["text"]);
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("answer")), "{did:?}");
    assert_eq!(driver.session.state().n_waits(), 0);
}

#[test]
fn a_wait_for_a_run_whose_window_is_closed_knows_its_end() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=9");
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; ended @1#1 a dead 3 pid=7; @2#1 b running pid=9");
    driver.take();
    let wait = |run| {
        Request::Wait(WaitRequest {
            task: "@1".to_owned(),
            run: Some(run),
            ..WaitRequest::default()
        })
    };
    driver.ask(wait(1));
    driver.look("life 1; @2#1 b running pid=9");
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Exited".to_owned()), "{did:?}");
    driver.ask(wait(2));
    driver.look("life 1; @2#1 b running pid=9");
    driver.did(&[
        "look @1",
        "refuse 2: run 2 of @1 is over and its window is closed",
    ]);
}

#[test]
fn an_output_stream_gets_all_output_and_then_the_end() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::Follow {
        window: "@1".to_owned(),
        raw: false,
        lines: 0,
    });
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&["old"]);
    let did = driver.take();
    assert_eq!(did.last().map(String::as_str), Some("begun 1"));
    driver.print("\r\nnew\r\nlast");
    driver.did(&["output 1 new"]);
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    driver.read(&["old", "new", "last"]);
    let did = driver.take();
    let of_listener: Vec<&String> = did
        .iter()
        .filter(|did| did.ends_with("last") || did.starts_with("end"))
        .collect();
    assert_eq!(of_listener, ["output 1 last", "end 1"], "{did:?}");
}

#[test]
fn a_pane_that_was_read_is_followed_only_if_it_has_a_listener() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    let request_id = driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=7");
    driver.input(Input::Left(request_id));
    assert!(driver.followed.is_empty());
    // The read itself makes the link follow the pane.
    driver.followed.insert(PANE);
    driver.read(&["one"]);
    assert!(driver.followed.is_empty());
}

#[test]
fn a_read_that_comes_behind_output_delays_nothing_else() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.wait(Some("two"));
    driver.look("life 1; @1#1 a running pid=7");
    assert!(driver.take().contains(&"read %1 All".to_owned()));
    driver.read_is_asked();
    // Another wait begins with the next read; meanwhile the list is asked for.
    driver.wait(Some("three"));
    driver.look("life 1; @1#1 a running pid=7");
    driver.ask(Request::Count);
    driver.look("life 1; @1#1 a running pid=7");
    let did = driver.take();
    assert!(did.contains(&"answer 4".to_owned()), "{did:?}");
    assert!(!did.iter().any(|did| did.starts_with("read")), "{did:?}");
    // What was written before the read is old, what comes after it is not.
    driver.print("\r\ntwo");
    driver.did(&[]);
    driver.read_comes(output(&["one", "two"]));
    driver.did(&["begun 2", "read %1 All"]);
    driver.read_is_asked();
    driver.print("\r\ntwo\r\n");
    let did = driver.take();
    assert!(did.iter().any(|did| did.starts_with("read end")), "{did:?}");
}

#[test]
fn what_begins_while_its_pane_is_paused_begins_behind_what_is_missing() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.wait(Some("two"));
    driver.look("life 1; @1#1 a running pid=7");
    driver.read_is_asked();
    driver.take();
    // The pane contains more than has arrived.
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.read_comes(output(&["one", "two"]));
    driver.look("life 1; @1#1 a running pid=7");
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("begun")), "{did:?}");
    driver.read(&["one", "two"]);
    driver.did(&["read %1 All"]);
    // Of what was missing the wait gets nothing.
    driver.read(&["one", "two"]);
    driver.did(&["begun 2"]);
}

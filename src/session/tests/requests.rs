//! Requests, and what their answers wait for.

use super::*;
use crate::model::Launch;

#[test]
fn an_answer_waits_for_the_disk_and_a_delivery_for_the_answer() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.wait(None);
    driver.look("life 1; @1#1 a running pid=7");
    driver.disk_takes = false;
    driver.input(Input::Changed(Change::Windows));
    driver.take();
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "read end of %1"]);
    driver.read(&[""]);
    driver.did(&["archive @1"]);
    driver.finish();
    driver.after(120);
    driver.did(&[]);
    driver.disk_takes = true;
    driver.store(1);
    // The waiting client has the event: the delivery is a notice.
    driver.did(&["answer 1 Exited", "append notice"]);
}

pub(super) fn launch_of(name: &str, will_wait: bool) -> Request {
    Request::Run(Box::new(Launch {
        name: name.to_owned(),
        will_wait,
        ..Launch::default()
    }))
}

#[test]
fn a_kill_that_comes_during_a_launch_finds_its_window() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(launch_of("b", false));
    driver.did(&["look barrier"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["launch b"]);
    driver.ask(Request::Kill {
        tasks: vec!["b".to_owned()],
        owner: None,
        by_agent: false,
        asked_by: None,
        is_repeated: false,
        choice: StopChoice::default(),
    });
    driver.did(&[]);
    driver.launched("@2");
    // One look for both.
    driver.did(&["look barrier @2"]);
    driver.look("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    let did = driver.take();
    let mark = "mark [(WindowId(2), 8, UserKilled)]";
    assert!(did.contains(&mark.to_owned()), "{did:?}");
}

#[test]
fn a_command_whose_client_has_left_is_not_carried_out() {
    let tasks = "life 1; @1#1 a running pid=7";
    let kill = || Request::Kill {
        tasks: vec!["a".to_owned()],
        owner: None,
        by_agent: false,
        asked_by: None,
        is_repeated: false,
        choice: StopChoice::default(),
    };
    let mut driver = Driver::new(tasks);
    // While its look is under way, as with a tmux that does not answer.
    let request_id = driver.ask(kill());
    driver.did(&["look barrier"]);
    driver.input(Input::Left(request_id));
    driver.look_fails("tmux does not answer");
    driver.after(100);
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("mark")), "{did:?}");
    // While another command is under way.
    let mut driver = Driver::new(tasks);
    driver.ask(launch_of("b", false));
    driver.look(tasks);
    driver.did(&["look barrier", "launch b"]);
    let request_id = driver.ask(kill());
    driver.input(Input::Left(request_id));
    driver.fail("tmux does not answer");
    driver.after(100);
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("mark")), "{did:?}");
}

#[test]
fn nothing_is_done_for_a_client_that_leaves_before_it_is_known_who_has_the_name() {
    let tasks = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(tasks);
    let kill = Request::Kill {
        tasks: vec!["a".to_owned()],
        owner: None,
        by_agent: false,
        asked_by: None,
        is_repeated: false,
        choice: StopChoice::default(),
    };
    let request_id = driver.ask_session(Some("before"), kill);
    driver.look(tasks);
    driver.did(&["look barrier", "find name before"]);
    driver.input(Input::Left(request_id));
    driver.name_is_found(Some("work"));
    driver.after(100);
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("mark")), "{did:?}");
}

#[test]
fn a_wait_by_name_looks_at_what_was_reported_and_at_its_task() {
    let tasks = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new(tasks);
    let wait_for = |name: &str| {
        Request::Wait(WaitRequest {
            task: name.to_owned(),
            ..WaitRequest::default()
        })
    };
    driver.ask_session(Some("work"), wait_for("b"));
    driver.did(&["look barrier @2"]);
    driver.look("life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8");
    driver.read(&["over"]);
    driver.finish_chores();
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Exited".to_owned()), "{did:?}");
    driver.ask_session(Some("work"), wait_for("c"));
    driver.did(&["look barrier"]);
    driver.look("life 1; @1#1 a running pid=7; @2#1 b dead 3 pid=8");
    driver.did(&["refuse 2: no task `c` in session `work`"]);
}

#[test]
fn a_launch_that_goes_on_to_wait_holds_the_delivery() {
    let mut driver = Driver::new("life 1; @1#1 a dead 0 pid=7");
    driver.ask(launch_of("a", true));
    driver.did(&["look barrier @1"]);
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["launch a"]);
    // The run has begun and ended between two looks.
    driver.launched("@1");
    driver.did(&["look @1"]);
    driver.look("life 1; @1#2 a dead 1 pid=8");
    driver.finish_chores();
    driver.after(100);
    driver.did(&["append event", "archive @1", "answer 1"]);
    driver.wait(None);
    driver.look("life 1; @1#2 a dead 1 pid=8");
    driver.read(&[""]);
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"answer 2 Exited".to_owned()), "{did:?}");
    assert!(did.contains(&"append notice".to_owned()), "{did:?}");
}

#[test]
fn a_launched_run_whose_window_is_closed_before_a_look_has_disappeared() {
    let before = "life 1; @1#1 a running pid=7";
    // What the look after the launch shows, and what is done then.
    let check = |after: &str, expected: &[&str]| {
        let mut driver = Driver::new(before);
        driver.ask(launch_of("b", false));
        driver.take();
        driver.look(before);
        driver.did(&["launch b"]);
        driver.launched("@2");
        driver.did(&["look @2"]);
        driver.look(after);
        let did = driver.take();
        assert_eq!(did, expected, "{after}");
        let wait = Request::Wait(WaitRequest {
            task: "@2".to_owned(),
            run: Some(1),
            ..WaitRequest::default()
        });
        driver.ask(wait);
        driver.look(after);
        driver.after(100);
        driver.take()
    };
    let did = check(before, &["append event", "answer 1"]);
    assert!(did.contains(&"answer 2 Disappeared".to_owned()), "{did:?}");
    // Its end was recorded.
    let ended = "life 1; ended @2#1 b dead 3 pid=8; @1#1 a running pid=7";
    let did = check(ended, &["append event", "answer 1"]);
    assert!(did.contains(&"answer 2 Exited".to_owned()), "{did:?}");
}

/// Launches `a` in `@1` of a session that is missing, at this time.
fn launch_first(driver: &mut Driver, started: i64) {
    driver.ask(Request::Run(Box::new(Launch {
        name: "a".to_owned(),
        started,
        ..Launch::default()
    })));
    driver.look("missing");
    driver.launched("@1");
    driver.did(&["look barrier", "launch a", "look @1"]);
}

#[test]
fn a_first_run_that_ends_its_own_session_has_disappeared() {
    let mut driver = Driver::new("missing");
    launch_first(&mut driver, 1);
    driver.look("missing");
    let did = driver.take();
    assert!(did.contains(&"append event".to_owned()), "{did:?}");
    // The same ids on another server, launched later: another run.
    launch_first(&mut driver, 2);
    driver.look("missing");
    let did = driver.take();
    assert!(did.contains(&"append event".to_owned()), "{did:?}");
    // One that a look contains is reported by that.
    launch_first(&mut driver, 3);
    driver.look("life 1; @1#1 a running pid=7");
    let did = driver.take();
    let n_events = did.iter().filter(|done| *done == "append event").count();
    assert_eq!(n_events, 1, "{did:?}");
}

#[test]
fn a_launched_run_is_reported_as_gone_when_a_look_succeeds() {
    let mut driver = Driver::new("missing");
    launch_first(&mut driver, 1);
    driver.look_fails("the server is about to end");
    let did = driver.take();
    assert!(!did.contains(&"append event".to_owned()), "{did:?}");
    driver.ask(Request::List);
    driver.look("missing");
    let did = driver.take();
    assert!(did.contains(&"append event".to_owned()), "{did:?}");
    driver.ask(Request::List);
    driver.look("missing");
    let did = driver.take();
    assert!(!did.contains(&"append event".to_owned()), "{did:?}");
}

#[test]
fn while_too_much_waits_for_the_disk_only_requests_take_looks() {
    let shown = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(shown);
    driver.refuse();
    driver.input(Input::Changed(Change::Windows));
    driver.after(60_000);
    assert_eq!(driver.session.next_deadline(), None);
    driver.did(&[]);
    driver.ask(Request::List);
    driver.did(&["look barrier @1"]);
    driver.look(shown);
    driver.did(&["answer 1"]);
    driver.input(Input::Changed(Change::Windows));
    driver.did(&[]);
    driver.store(0);
    driver.did(&["look"]);
}

#[test]
fn a_list_asks_for_what_is_reported_when_there_are_many_windows() {
    let many: Vec<String> = (1..50)
        .map(|n| format!("@{n}#1 a running pid={n}"))
        .collect();
    let many = format!("life 1; {}; @60#1 b dead 0", many.join("; "));
    let mut driver = Driver::new(&many);
    driver.ask(Request::List);
    driver.did(&["look barrier @60"]);
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::List);
    driver.did(&["look barrier @1"]);
}

#[test]
fn a_look_that_fails_answers_with_what_is_known() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::List);
    driver.look_fails("tmux hangs");
    let did = driver.take();
    assert!(did.contains(&"answer 1".to_owned()), "{did:?}");
    assert_eq!(
        driver.session.state().look_problem.as_deref(),
        Some("tasks cannot be looked at: tmux hangs")
    );
}

#[test]
fn a_session_that_could_not_be_looked_at_is_not_called_missing() {
    let mut driver = Driver::new("missing");
    driver.ask(Request::List);
    driver.look_fails("tmux hangs");
    let did = driver.take();
    let refused = "refuse 1: tasks cannot be looked at: tmux hangs";
    assert!(did.contains(&refused.to_owned()), "{did:?}");
    driver.ask(Request::List);
    driver.look("missing");
    let did = driver.take();
    assert!(did.contains(&"answer 2".to_owned()), "{did:?}");
}

#[test]
fn output_is_archived_before_a_command_changes_its_window() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.ask(Request::Kill {
        tasks: vec!["a".to_owned()],
        owner: None,
        by_agent: false,
        asked_by: None,
        is_repeated: false,
        choice: StopChoice::default(),
    });
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    driver.look("life 1; @1#1 a dead 0 pid=7");
    let did = driver.take();
    assert!(
        did.contains(&"end @1 7 SIGTERM 10s over".to_owned()),
        "{did:?}"
    );
    driver.input(Input::Ending(EndReport::Ended(WindowId(1), Vec::new())));
    assert!(
        matches!(driver.job, Some(Job::Archive(..))),
        "{:?}",
        driver.job
    );
    driver.finish();
    driver.look("life 1; @1#1 a dead 0 pid=7");
    let did = driver.take();
    assert!(did.contains(&"kill [WindowId(1)]".to_owned()), "{did:?}");
}

#[test]
fn stopping_delivers_and_saves_while_a_job_is_out() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    assert!(matches!(driver.job, Some(Job::Archive(..))));
    driver.take();
    let (effects, archives) = driver.session.stop(driver.now);
    assert!(
        matches!(effects[..], [Effect::Append { .. }, Effect::Save(..)]),
        "{effects:?}"
    );
    assert!(archives.is_empty());
}

#[test]
fn looks_go_between_the_tasks_of_a_search() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8; @3#1 c running pid=9";
    let mut driver = Driver::new(shown);
    driver.ask(Request::Search(SearchRequest {
        task: None,
        pattern: "e".to_owned(),
        regex: false,
        ignore_case: false,
    }));
    driver.did(&["look barrier"]);
    driver.not_needed();
    driver.did(&["read log of @1"]);
    let finds = |driver: &mut Driver, line: &str| {
        let log = TaskLog {
            lines: vec![line.to_owned()],
            ..TaskLog::default()
        };
        driver.done(|job| {
            let Job::ReadLog(_, _, outcome) = job else {
                return false;
            };
            outcome.resolve(log);
            true
        });
    };
    driver.input(Input::Changed(Change::Windows));
    finds(&mut driver, "one");
    driver.did(&["look"]);
    driver.look_at(false, "life 1; @1#1 a running pid=7; @3#1 c running pid=9");
    driver.take();
    // A window that was closed meanwhile has no lines.
    driver.fail("can't find pane: %2");
    driver.did(&[
        "log Debug a window was closed before it was searched error=\"can't find pane: %2\" window=@2",
        "read log of @3",
    ]);
    finds(&mut driver, "three");
    driver.did(&["answer 1 one three"]);
    // A task that still exists was not searched: the answer would not be complete.
    driver.ask(Request::Search(SearchRequest {
        task: Some("a".to_owned()),
        pattern: "x".to_owned(),
        regex: false,
        ignore_case: false,
    }));
    driver.not_needed();
    driver.take();
    driver.fail("tmux does not answer");
    driver.did(&["refuse 2: tmux does not answer"]);
}

#[test]
fn a_request_that_names_another_session_does_nothing() {
    let shown = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(shown);
    let ask = |driver: &mut Driver, session: &str| {
        let send = Request::Send(SendRequest {
            task: "a".to_owned(),
            input: TypedInput::Text("x".to_owned()),
            enter: true,
            if_prompt: None,
            is_guarded: false,
        });
        driver.ask_session(Some(session), send);
        driver.not_needed();
        driver.take()
    };
    assert_eq!(ask(&mut driver, "work"), ["look barrier", "type @1"]);
    driver.typed(None);
    driver.did(&["answer 1"]);
    let find = ["look barrier", "find name former"];
    assert_eq!(ask(&mut driver, "former"), find);
    driver.fail("another session has it");
    driver.did(&["refuse 2: another session has it"]);
    // The former name of this session, which no other one has.
    ask(&mut driver, "former");
    driver.name_is_found(Some("work"));
    driver.did(&["type @1"]);
}

#[test]
fn what_a_request_types_stays_together_and_others_go_on() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    let send = |driver: &mut Driver, task: &str| {
        driver.ask(Request::Send(SendRequest {
            task: task.to_owned(),
            input: TypedInput::Text("x".to_owned()),
            enter: true,
            if_prompt: None,
            is_guarded: false,
        }));
        driver.not_needed();
        driver.take()
    };
    assert!(send(&mut driver, "a").contains(&"type @1".to_owned()));
    let Some(Job::Type(typing, _)) = &driver.job else {
        panic!("nothing is typed");
    };
    let mut typing = typing.clone();
    typing.typed(vec!["Enter".to_owned()], false, driver.now.mono);
    let due = typing.progress.due;
    driver.typed(Some(typing));
    assert!(driver.job.is_none());
    assert!(driver.session.next_deadline() <= due);
    // Not into the same task.
    assert!(!send(&mut driver, "a").contains(&"type @1".to_owned()));
    assert!(send(&mut driver, "b").contains(&"type @2".to_owned()));
    driver.typed(None);
    driver.did(&["answer 3"]);
    // What has begun is finished, also without its client.
    driver.input(Input::Left(RequestId(1)));
    driver.now.mono = due.unwrap();
    driver.input(Input::Due);
    driver.finish_chores();
    assert!(driver.take().contains(&"type @1".to_owned()));
    driver.typed(None);
    driver.did(&["type @1"]);
    driver.typed(None);
    driver.did(&["answer 2"]);
}

//! Each of the five events, from a real task to the record and its text.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{World, content, deliveries, event, has_event, has_fields, story};

/// Stops the daemon while this happens, so that it is between two looks.
fn between_looks(world: &World, happens: impl FnOnce()) {
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    happens();
    kill_process(daemon, Signal::CONT).unwrap();
}

/// Waits until this many starts are delivered, and nothing else.
#[track_caller]
pub(crate) fn until_started(world: &World, n: usize) -> Vec<Value> {
    world.until("the starts", |records| {
        let told = deliveries(records).into_iter();
        told.map(|told| content(told).lines().count())
            .sum::<usize>()
            == n
    })
}

#[test]
fn a_start_is_a_notice_and_an_end_a_follow_up_with_the_last_lines() {
    let mut world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &gate.wait());
    let records = world.until_deliveries(1);
    assert_eq!(
        story(&records),
        [
            "started api".to_owned(),
            format!("notice of [1] [info] tmux task {window} (api) started")
        ]
    );
    let task = &records[0]["task"];
    let fields = "windowId currentCommand taskCwd paneStateKnown dead alternateOn run endedAt";
    let folder = world.project();
    let expected = json!([window, gate.wait(), folder, true, false, false, 1, null]);
    has_fields(task, fields, expected);
    has_fields(&records[0], "sessionName rerun", json!(["work", false]));
    assert!(task["startedAt"].is_i64());
    gate.open();
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(
        story(&records)[2..],
        [
            "exited api 0".to_owned(),
            format!("followUp of [3] [info] tmux task {window} (api) exited with code 0")
        ]
    );
    // Without an id of the conversation there is the session's name.
    assert_eq!(records[3]["message"]["details"]["sessionId"], "work");

    world.set("PI_SESSION_ID", "conversation-7");
    let line = "printf 'one\\n\\n  two\\nthree\\nfour\\n'; exit 2";
    let window = world.run("web", line);
    let records = world.until_delivered("exited", "web");
    let exited = event(&records, "exited", "web");
    let fields = "level reason task.dead task.exitCode task.exitSignal task.outputPreview";
    let preview = "one\n\n  two\nthree\nfour";
    let expected = json!(["warning", null, true, 2, null, preview]);
    has_fields(exited, fields, expected);
    let task = &exited["task"];
    let took = task["endedAt"].as_i64().unwrap() - task["startedAt"].as_i64().unwrap();
    assert!(took >= 0);
    assert_eq!(task["durationMs"], took);

    let follow_up = deliveries(&records).pop().unwrap();
    let end = format!(
        "tmux task {window} (web) exited with code 2\nrecent output:\n    two\n  three\n  four"
    );
    assert!(content(follow_up).ends_with(&end), "{follow_up}");
    let fields = "level owner message.details.sessionId";
    let expected = json!(["warning", "pi:conversation-7", "conversation-7"]);
    has_fields(follow_up, fields, expected);
    let told = follow_up["message"]["details"]["events"].as_array();
    assert_eq!(told.unwrap().last().unwrap()["task"], *task);
}

#[test]
fn a_bell_is_a_follow_up() {
    let world = World::new();
    let (first, second, last) = (world.gate("1"), world.gate("2"), world.gate("3"));
    let line = format!("{first}; printf '\\a'; {second}; printf 'done\\n\\a'; {last}");
    let window = world.run("api", &line);
    world.until_deliveries(1);
    first.open();
    world.until_deliveries(2);
    second.open();
    let records = world.until_deliveries(3);
    assert_eq!(
        story(&records)[2..],
        [
            "notify api x1".to_owned(),
            format!("followUp of [3] [info] tmux task {window} (api) sent a terminal notification"),
            "notify api x1".to_owned(),
            format!(
                "followUp of [5] [info] tmux task {window} (api) sent a terminal notification\n\
                 recent output:\n  done"
            ),
        ]
    );
    assert_eq!(records[2]["task"]["bellCount"], 1);
    assert_eq!(records[4]["task"]["bellCount"], 2);
}

#[test]
fn a_task_that_prints_on_and_on_is_in_nobodys_way_nor_its_own() {
    let world = World::new();
    let noise = "for n in {1..200}; do echo $n; sleep 0.01; done";
    world.run(
        "noise",
        &format!("{noise}; read -r -p 'Name: ' name; exit 5"),
    );
    world.run("ask", "read -r -p 'Proceed? [y/N] ' answer; exit 4");
    for (name, code) in [("ask", 4), ("noise", 5)] {
        world.until_event("input", name);
        world.task(["send", name, "y"]).ok();
        let records = world.until_event("exited", name);
        assert_eq!(event(&records, "exited", name)["task"]["exitCode"], code);
    }
}

#[test]
fn a_bell_without_output_is_reported_by_its_hook() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &gate.wait());
    world.until_deliveries(1);
    // After a second without a change, looks are rare: the bell comes between two of them. Nothing
    // reports that the schedule has slowed down.
    std::thread::sleep(std::time::Duration::from_secs(1));
    for bells in 1..=3 {
        world.tmux(["set-hook", "-gR", "-t", &window, "alert-bell"]);
        world.until_deliveries(1 + bells);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    let status = world.daemon_status();
    // A look that is due just then may come before the hook's report does.
    assert!(status["foundLate"].as_u64().unwrap() <= 1, "{status}");
}

#[test]
fn a_bell_with_the_end_is_one_text() {
    let world = World::new();
    let (first, second) = (world.gate("1"), world.gate("2"));
    let line = format!("{first}; printf '\\a'; {second}; printf 'bye\\n\\a'; exit 3");
    let window = world.run("api", &line);
    world.until_deliveries(1);
    between_looks(&world, || {
        first.open();
        // Two bells that tmux reads at once are one.
        world.until_true("the first bell", || {
            world.window_option(&window, "@tmux_task_bells") == format!("{window} 1")
        });
        second.open();
        world.until_ended(&window);
    });
    let records = world.until_deliveries(2);
    assert_eq!(
        story(&records)[2..],
        [
            "notify api x2".to_owned(),
            "exited api 3".to_owned(),
            format!(
                "followUp of [3,4] [warning] tmux task {window} (api) sent a terminal \
                 notification, then exited with code 3\nrecent output:\n  bye"
            ),
        ]
    );
}

#[test]
fn a_question_is_a_follow_up_and_its_answer_only_a_record() {
    let world = World::new();
    let (start, gate) = (world.gate("start"), world.gate("gate"));
    let line =
        format!("{start}; echo hello; printf 'Proceed? [y/N] '; read -r _; seq 1 10; {gate}");
    let window = world.run("api", &line);
    // The start is delivered before the question is asked, not with it.
    world.until_deliveries(1);
    start.open();
    world.until_deliveries(2);
    let listed = world.look();
    assert_eq!(listed["tasks"][0]["waitingFor"], "Proceed? [y/N]");
    assert_eq!(listed["tasks"][0]["state"], "waiting");
    world.task(["ls"]).shows("waiting");
    world.tmux(["send-keys", "-t", &window, "y", "Enter"]);
    world.until_events(1, "inputResolved");
    let records = world.finish();
    let input = event(&records, "input", "api");
    // The notice of the start may come before the question or after it.
    let mut lines = story(&records);
    lines.retain(|line| !line.contains("started"));
    assert_eq!(
        lines,
        [
            "input api Proceed? [y/N]".to_owned(),
            format!(
                "followUp of [{}] [warning] tmux task {window} (api) is waiting for input: \
                 Proceed? [y/N]",
                input["seq"]
            ),
            "inputResolved api Proceed? [y/N]".to_owned(),
        ]
    );
    assert_eq!(input["secret"], false);
    assert_eq!(input["level"], "warning");
    let task = &input["task"];
    assert_eq!(task["outputPreview"], "hello\nProceed? [y/N]");
    has_fields(task, "cursorX cursorY", json!([15, 1]));
}

#[test]
fn a_window_that_is_closed_is_a_task_that_disappeared() {
    let world = World::new();
    let stays = world.gate("stays");
    world.run("web", &stays.wait());
    let window = world.run("api", "echo hi; sleep 1000");
    world.until_shows(&window, "hi");
    world.look();
    let before = until_started(&world, 2);
    world.tmux(["kill-window", "-t", &window]);
    world.until_delivered("disappeared", "api");
    let records = world.finish();
    let seq = before.len() + 1;
    assert_eq!(
        story(&records)[before.len()..],
        [
            "disappeared api -".to_owned(),
            format!(
                "followUp of [{seq}] [warning] tmux task {window} (api) disappeared from session"
            ),
        ]
    );
    let gone = event(&records, "disappeared", "api");
    assert_eq!(gone["level"], "warning");
    assert!(gone.get("reason").is_none());
    assert_eq!(gone["task"]["dead"], false);
    assert_eq!(gone["task"]["outputPreview"], "hi\n");
}

#[test]
fn the_first_task_may_ring_at_once() {
    let world = World::new();
    for session in ["1", "2", "3", "4", "5"] {
        world.run_in(session, "api", "printf '\\a'; exec sleep 1000");
        world.until_of(&["-s", session], "the bell", |records| {
            has_event(records, "notify", "api")
        });
    }
}

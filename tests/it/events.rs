//! Each of the five events, from a real task to the record and its text.

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Gate, World, content, deliveries, event, has_event, story};

/// The fields that every task has, known or not.
const TASK_FIELDS: &str = "alternateOn bell bellCount currentCommand cursorX cursorY dead durationMs \
     endedAt exitCode exitSignal outputPreview owner paneId panePid paneStateKnown run shell startedAt \
     stopped taskCwd windowId windowName";

#[track_caller]
fn check_fields(record: &Value, expected: &str) {
    let fields = record.as_object().unwrap();
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.retain(|name| !["more", "checkpoint"].contains(name));
    names.sort_unstable();
    let mut expected: Vec<&str> = expected.split(' ').collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
}

/// Stops the daemon while this happens, so that it is between two looks.
fn between_looks(world: &World, happens: impl FnOnce()) {
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    happens();
    kill_process(daemon, Signal::CONT).unwrap();
}

/// Waits until this many starts are delivered, and nothing else.
#[track_caller]
fn until_started(world: &World, n: usize) -> Vec<Value> {
    world.until("the starts", |records| {
        let told = deliveries(records).into_iter();
        told.map(|told| content(told).lines().count())
            .sum::<usize>()
            == n
    })
}

#[test]
fn a_start_is_a_notice_and_an_end_a_follow_up() {
    let world = World::new();
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
    let started = &records[0];
    let every = "v seq epoch time sessionName kind level";
    check_fields(started, &format!("{every} type task rerun"));
    check_fields(&records[1], &format!("{every} text events owner"));
    for (field, value) in [
        ("sessionName", json!("work")),
        ("level", json!("info")),
        ("rerun", json!(false)),
    ] {
        assert_eq!(started[field], value, "{field}");
    }
    let task = &started["task"];
    check_fields(task, TASK_FIELDS);
    for (field, value) in [
        ("windowId", json!(window)),
        ("currentCommand", json!(gate.wait())),
        ("taskCwd", json!(world.project())),
        ("paneStateKnown", json!(true)),
        ("dead", json!(false)),
        ("bell", json!(false)),
        ("alternateOn", json!(false)),
        ("run", json!(1)),
        ("outputPreview", json!("")),
        ("bellCount", Value::Null),
        ("exitCode", Value::Null),
        ("exitSignal", Value::Null),
        ("endedAt", Value::Null),
        ("durationMs", Value::Null),
    ] {
        assert_eq!(task[field], value, "{field}");
    }
    assert!(task["paneId"].as_str().unwrap().starts_with('%'));
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
}

#[test]
fn an_end_is_a_follow_up_with_the_last_lines() {
    let mut world = World::new();
    world.set("PI_SESSION_ID", "conversation-7");
    let gate = world.gate("gate");
    let line = format!(
        "printf 'one\\n\\n  two\\nthree\\nfour\\n'; {}; exit 2",
        gate.wait()
    );
    let window = world.run("api", &line);
    world.until_deliveries(1);
    gate.open();
    let records = world.until_deliveries(2);

    let exited = event(&records, "exited", "api");
    assert_eq!(exited["level"], "warning");
    assert_eq!(exited["reason"], Value::Null);
    let task = &exited["task"];
    assert_eq!(task["dead"], true);
    assert_eq!(task["exitCode"], 2);
    assert_eq!(task["exitSignal"], Value::Null);
    assert_eq!(task["outputPreview"], "one\n\n  two\nthree\nfour");
    let took = task["endedAt"].as_i64().unwrap() - task["startedAt"].as_i64().unwrap();
    assert!(took >= 0);
    assert_eq!(task["durationMs"], took);

    let follow_up = deliveries(&records)[1];
    let mut told = exited.as_object().unwrap().clone();
    for of_the_record in "v seq epoch time sessionName kind more checkpoint".split(' ') {
        told.remove(of_the_record);
    }
    let expected = json!({
        "v": 1,
        "seq": follow_up["seq"],
        "epoch": exited["epoch"],
        "time": follow_up["time"],
        "sessionName": "work",
        "kind": "followUp",
        "level": "warning",
        "events": [exited["seq"]],
        "message": {
            "customType": "tmux-task-event",
            "content": format!(
                "[tmux-task notification]\n\
                 tmux task {window} (api) exited with code 2\n\
                 recent output:\n    two\n  three\n  four"
            ),
            "display": true,
            "details": {
                "source": "extension",
                "notUserInput": true,
                "sessionId": "conversation-7",
                "sessionName": "work",
                "level": "warning",
                "events": [told],
            },
        },
        "options": {"triggerTurn": true, "deliverAs": "followUp"},
        "owner": "pi:conversation-7",
    });
    assert_eq!(follow_up, &expected);
}

#[test]
fn a_task_that_ends_at_once_is_reported() {
    let world = World::new();
    let window = world.run("quick", "exit 7");
    world.until_event("exited", "quick");
    let records = world.finish();
    assert_eq!(event(&records, "exited", "quick")["task"]["exitCode"], 7);
    let told: Vec<&str> = deliveries(&records).into_iter().map(content).collect();
    let (end, others) = told.split_last().unwrap();
    assert_eq!(
        *end,
        format!("tmux task {window} (quick) exited with code 7")
    );
    // Whether a look found it alive is a matter of luck.
    let start = format!("tmux task {window} (quick) started");
    assert!(others.is_empty() || others == [start], "{told:?}");
}

#[test]
fn a_bell_is_a_follow_up() {
    let world = World::new();
    let (first, second, last) = (world.gate("1"), world.gate("2"), world.gate("3"));
    let line = format!(
        "{}; printf '\\a'; {}; printf 'done\\n\\a'; {}",
        first.wait(),
        second.wait(),
        last.wait()
    );
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
    let line = format!(
        "{}; printf '\\a'; {}; printf 'bye\\n\\a'; exit 3",
        first.wait(),
        second.wait()
    );
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
    let line = format!(
        "{}; echo hello; printf 'Proceed? [y/N] '; read -r _; seq 1 10; {}",
        start.wait(),
        gate.wait()
    );
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
    assert_eq!(
        (&task["cursorX"], &task["cursorY"]),
        (&json!(15), &json!(1))
    );
}

#[test]
fn a_password_is_a_secret_and_a_full_screen_program_is_shown_whole() {
    let world = World::new();
    world.run("sudo", "printf 'Password: '; read -rs _");
    let records = world.until_delivered("input", "sudo");
    let input = event(&records, "input", "sudo");
    assert_eq!(input["prompt"], "Password:");
    assert_eq!(input["secret"], true);

    let line = "echo below; printf '\\033[?1049h\\033[Hfull\\n'; exec sleep 1000";
    let window = world.run("top", line);
    world.until_shows(&window, "full");
    let task = &world.look()["tasks"][1];
    assert_eq!(task["alternateOn"], true);
    assert_eq!(task["outputPreview"], "full\n");
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
fn the_end_of_the_shell_by_a_signal_is_one_and_that_of_a_child_is_a_code() {
    let world = World::new();
    for (name, line, code, signal, text) in [
        (
            "shell",
            "kill -9 $$",
            Value::Null,
            json!("SIGKILL"),
            "was killed by SIGKILL",
        ),
        (
            "child",
            "sh -c 'kill -TERM $$'",
            json!(143),
            Value::Null,
            "exited with code 143",
        ),
    ] {
        let gate = world.gate(name);
        let window = world.run(name, &format!("{}; {line}", gate.wait()));
        world.until_delivered("started", name);
        gate.open();
        let records = world.until_delivered("exited", name);
        let task = &event(&records, "exited", name)["task"];
        assert_eq!([&task["exitCode"], &task["exitSignal"]], [&code, &signal]);
        let told = deliveries(&records).pop().unwrap();
        let kind = [&told["kind"], &told["level"]];
        assert_eq!(kind, ["followUp", "warning"]);
        let first = content(told).lines().next().unwrap();
        assert_eq!(first, format!("tmux task {window} ({name}) {text}"));
    }
    world.task(["ls"]).shows("SIGKILL");
}

#[test]
fn what_happens_at_once_is_one_message() {
    let world = World::new();
    let names = ["a", "b", "c", "d"];
    let gates = names.map(|name| world.gate(name));
    let run = |(name, gate): (&&str, &Gate)| world.run(name, &format!("{}; exit 1", gate.wait()));
    let windows: Vec<String> = names.iter().zip(&gates).map(run).collect();
    until_started(&world, 4);
    between_looks(&world, || {
        gates.iter().for_each(Gate::open);
        for window in &windows {
            world.until_ended(window);
        }
    });
    world.until_delivered("exited", "d");
    let records = world.finish();
    let mut follow_ups = deliveries(&records);
    follow_ups.retain(|told| told["kind"] == "followUp");
    let expected: Vec<String> = names
        .iter()
        .zip(&windows)
        .map(|(name, window)| format!("tmux task {window} ({name}) exited with code 1"))
        .collect();
    assert_eq!(follow_ups.len(), 1);
    assert_eq!(content(follow_ups[0]), expected.join("\n"));
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

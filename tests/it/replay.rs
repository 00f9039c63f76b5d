//! `replay`: snapshots in, records out, without tmux.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Output, World, check_feed, parse_lines, story};

#[track_caller]
fn replay(input: &[Value]) -> Vec<Value> {
    let world = World::new();
    let text: String = input.iter().map(|line| format!("{line}\n")).collect();
    let records = parse_lines(replay_text(&world, &text).ok());
    check_feed(&records);
    records
}

#[track_caller]
fn replay_text(world: &World, text: &str) -> Output {
    let mut command = world.command(World::program());
    command.arg("replay");
    Output::with_input(command, text)
}

fn snapshot(at: i64, tasks: &[Value]) -> Value {
    json!({"sessionName": "s", "exists": true, "capturedAt": at, "tasks": tasks})
}

fn task(more: &Value) -> Value {
    let mut task = json!({
        "windowId": "@1", "windowName": "api", "paneId": "%1", "paneStateKnown": true,
        "run": 1, "outputPreview": "one\ntwo"
    });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

#[test]
fn the_documented_format_goes_in_and_records_come_out() {
    let records = replay(&[
        snapshot(0, &[]),
        snapshot(1000, &[task(&json!({}))]),
        snapshot(2500, &[task(&json!({"dead": true, "exitCode": 2}))]),
    ]);
    assert_eq!(
        story(&records),
        [
            "started api",
            "notice of [1] [info] tmux task @1 (api) started",
            "exited api 2",
            "followUp of [3] [warning] tmux task @1 (api) exited with code 2\n\
             recent output:\n  one\n  two",
        ]
    );
    assert_eq!(records[0]["time"], "1970-01-01T00:00:01.000Z");
    assert_eq!(records[3]["time"], "1970-01-01T00:00:02.500Z");
    assert_eq!(records[3]["message"]["details"]["sessionId"], "s");
}

#[test]
fn each_snapshots_events_are_one_delivery() {
    let at = |id: u32, more: &Value| {
        let mut task = task(more);
        task["windowId"] = json!(format!("@{id}"));
        task["windowName"] = json!(format!("t{id}"));
        task["outputPreview"] = json!("");
        task
    };
    let records = replay(&[
        snapshot(0, &[at(2, &json!({})), at(10, &json!({"bellCount": 1}))]),
        snapshot(
            1,
            &[
                at(10, &json!({"bellCount": 4, "dead": true, "exitCode": 0})),
                at(3, &json!({})),
            ],
        ),
    ]);
    assert_eq!(
        story(&records),
        [
            "started t3",
            "notify t10 x3",
            "exited t10 0",
            "disappeared t2 -",
            "followUp of [1,2,3,4] [warning] tmux task @10 (t10) sent a terminal notification, \
             then exited with code 0\ntmux task @2 (t2) disappeared from session",
        ]
    );
}

#[test]
fn a_question_is_reported_at_the_second_look_and_once() {
    let asks = |preview: &str| task(&json!({"outputPreview": preview}));
    let records = replay(&[
        snapshot(0, &[asks("Proceed? [y/N]")]),
        snapshot(1, &[asks("Proceed? [y/N]")]),
        snapshot(2, &[asks("Proceed? [y/N]")]),
        snapshot(3, &[asks("thanks")]),
    ]);
    assert_eq!(
        story(&records),
        [
            "input api Proceed? [y/N]",
            "followUp of [1] [warning] tmux task @1 (api) is waiting for input: Proceed? [y/N]",
            "inputResolved api Proceed? [y/N]",
        ]
    );
}

#[test]
fn missing_fields_are_unknown() {
    let bare = |id: &str| json!({"windowId": id, "windowName": "x"});
    let records = replay(&[
        json!({"sessionName": "s", "exists": true}),
        json!({"sessionName": "s", "exists": true, "tasks": [bare("@1")]}),
        json!({"sessionName": "s", "exists": false, "somethingNew": [1]}),
    ]);
    let told = story(&records);
    assert_eq!(told[0], "started x");
    assert_eq!(told[2], "disappeared x -");
    let fields = &records[0]["task"];
    for unknown in [
        "paneId",
        "exitCode",
        "exitSignal",
        "bellCount",
        "run",
        "startedAt",
        "taskCwd",
    ] {
        assert_eq!(fields[unknown], Value::Null, "{unknown}");
    }
    assert_eq!(fields["paneStateKnown"], false);
    assert_eq!(fields["dead"], false);
}

#[test]
fn a_bad_line_is_named_and_the_lines_before_it_are_reported() {
    let world = World::new();
    let good = [snapshot(0, &[]), snapshot(1, &[task(&json!({}))])];
    for (bad, why) in [
        ("nonsense".to_owned(), "expected ident"),
        ("[1]".to_owned(), ""),
        (
            snapshot(2, &[json!({"windowId": "1"})]).to_string(),
            "windowId",
        ),
        (snapshot(2, &[json!({})]).to_string(), "windowId"),
        (
            snapshot(2, &[task(&json!({"exitSignal": "no signal"}))]).to_string(),
            "exitSignal",
        ),
        (snapshot(2, &[task(&json!({"run": -1}))]).to_string(), ""),
    ] {
        let text = format!("{}\n\n{}\n{bad}\n{}\n", good[0], good[1], good[1]);
        let output = replay_text(&world, &text);
        assert_eq!(output.code, 1, "{output}");
        assert_eq!(story(&parse_lines(&output.out))[0], "started api");
        assert_eq!(output.out.lines().count(), 2);
        assert!(
            output.err.starts_with("tmux-task: replay: line 4: "),
            "{output}"
        );
        assert!(output.err.contains(why), "{output}");
        assert_eq!(output.err.lines().count(), 1, "{output}");
    }
}

#[test]
fn it_reads_a_file_too() {
    let world = World::new();
    let file = world.path("snapshots.jsonl");
    let lines = [snapshot(0, &[]), snapshot(1, &[task(&json!({}))])];
    fs::write(&file, format!("{}\n{}", lines[0], lines[1])).unwrap();
    let output = world.task(["replay", file.to_str().unwrap()]);
    assert_eq!(output.ok().lines().count(), 2);
    let output = world.task(["replay", "nowhere"]);
    output.fails(1, "tmux-task: replay nowhere: No such file or directory");
    assert_eq!(replay_text(&world, "\n").ok(), "");
}

#[test]
fn what_ls_prints_can_be_replayed() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("echo hi; {}; exit 5", gate.wait()));
    world.until_shows(&window, "hi");
    let before = world.task(["ls", "--json"]);
    gate.open();
    world.until_ended(&window);
    let after = world.task(["ls", "--json"]);
    let text = format!("{}{}", before.ok(), after.ok());
    let records = parse_lines(replay_text(&world, &text).ok());
    assert_eq!(story(&records)[0], "exited api 5");
    let mut live = world.finish();
    live.retain(|record| record["type"] == "exited");
    assert_eq!(records[0]["task"]["outputPreview"], "hi");
    assert_eq!(records[0]["task"]["windowId"], live[0]["task"]["windowId"]);
}

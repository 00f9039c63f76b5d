//! `replay`: snapshots in, records out, without tmux.

use serde_json::{Value, json};

use crate::support::{Output, World, check_feed, has_fields, parse_lines, story};

#[track_caller]
fn replay(world: &World, text: &str) -> Output {
    world.task_reading(text, ["replay"])
}

fn snapshot(at: i64, tasks: &[Value]) -> Value {
    json!({"sessionName": "s", "exists": true, "capturedAt": at, "tasks": tasks})
}

/// A task with these fields besides those that all have.
fn task(id: u32, more: &Value) -> Value {
    let mut task = json!({
        "windowId": format!("@{id}"), "windowName": format!("t{id}"), "paneId": "%1",
        "paneStateKnown": true, "run": 1
    });
    for (name, value) in more.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

#[test]
fn the_documented_format_goes_in_and_records_come_out() {
    let asks = json!({"outputPreview": "Proceed? [y/N]"});
    let one = json!({"outputPreview": "one\ntwo"});
    let ended = json!({"dead": true, "exitCode": 2, "outputPreview": "one\ntwo"});
    let input = [
        snapshot(0, &[task(5, &asks)]),
        snapshot(1000, &[task(5, &asks), task(1, &one)]),
        // Those of one snapshot are one delivery.
        snapshot(
            2500,
            &[
                task(1, &ended),
                task(2, &json!({})),
                task(3, &json!({"bellCount": 1})),
            ],
        ),
        // What is not given is unknown.
        json!({"sessionName": "s", "exists": true, "capturedAt": 4000, "somethingNew": [1],
               "tasks": [{"windowId": "@9", "windowName": "bare"}]}),
    ];
    let world = World::new();
    let text: String = input.iter().map(|line| format!("{line}\n")).collect();
    let records = parse_lines(replay(&world, &text).ok());
    check_feed(&records);
    assert_eq!(
        story(&records),
        [
            "started t1",
            "input t5 Proceed? [y/N]",
            "followUp of [1,2] [warning] tmux task @5 (t5) is waiting for input: Proceed? [y/N]",
            "exited t1 2",
            "started t2",
            "started t3",
            "notify t3 x1",
            "inputResolved t5 Proceed? [y/N]",
            "disappeared t5 -",
            "followUp of [4,5,6,7,9] [warning] tmux task @1 (t1) exited with code 2\n\
             recent output:\n  one\n  two\n\
             tmux task @3 (t3) sent a terminal notification\n\
             tmux task @5 (t5) disappeared from session",
            "started bare",
            "disappeared t2 -",
            "disappeared t3 -",
            "followUp of [11,12,13] [warning] tmux task @2 (t2) disappeared from session\n\
             tmux task @3 (t3) disappeared from session",
        ]
    );
    let times = [0, 3].map(|at| &records[at]["time"]);
    let expected = ["1970-01-01T00:00:01.000Z", "1970-01-01T00:00:02.500Z"];
    assert_eq!(json!(times), json!(expected));
    assert_eq!(records[2]["message"]["details"]["sessionId"], "s");
    let bare = &records[10]["task"];
    for name in "paneId exitCode exitSignal bellCount run startedAt taskCwd".split(' ') {
        assert_eq!(bare[name], Value::Null, "{name}");
    }
    has_fields(bare, "paneStateKnown dead", json!([false, false]));
}

#[test]
fn a_bad_line_is_named_and_the_lines_before_it_are_reported() {
    let world = World::new();
    let good = [snapshot(0, &[]), snapshot(1, &[task(1, &json!({}))])];
    let without_id = snapshot(2, &[json!({})]).to_string();
    for (bad, why) in [("nonsense", "expected ident"), (&*without_id, "windowId")] {
        let text = format!("{}\n\n{}\n{bad}\n{}\n", good[0], good[1], good[1]);
        let output = replay(&world, &text);
        output.fails_saying(1, why);
        assert_eq!(story(&parse_lines(&output.out))[0], "started t1");
        assert_eq!(output.out.lines().count(), 2);
        let is_named = output.err.starts_with("tmux-task: replay: line 4: ");
        assert!(is_named && output.err.lines().count() == 1, "{output}");
    }
    // It reads a file too.
    let file = world.write("snapshots.jsonl", &format!("{}\n{}", good[0], good[1]));
    let output = world.task(["replay", file.to_str().unwrap()]);
    assert_eq!(output.ok().lines().count(), 2);
    let why = "tmux-task: replay nowhere: No such file or directory";
    world.task(["replay", "nowhere"]).fails(1, why);
    assert_eq!(replay(&world, "\n").ok(), "");
}

#[test]
fn what_ls_prints_can_be_replayed() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("echo hi; {gate}; exit 5"));
    world.until_shows(&window, "hi");
    let before = world.task(["ls", "--json"]);
    gate.open();
    world.until_ended(&window);
    let after = world.task(["ls", "--json"]);
    let text = format!("{}{}", before.ok(), after.ok());
    let records = parse_lines(replay(&world, &text).ok());
    assert_eq!(story(&records)[0], "exited api 5");
    let names = "task.outputPreview task.windowId";
    has_fields(&records[0], names, json!(["hi", window]));
}

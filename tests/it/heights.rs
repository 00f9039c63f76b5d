//! Panes of any height: what a task prints, asks and gets does not depend on it.

use std::fs;

use serde_json::Value;

use crate::support::{World, content, deliveries, event, events_of};

const QUESTION: &str = "Drop it? [y/N]";
const ASKS: &str = "read -r -p 'Drop it? [y/N] ' x; printf %s \"$x\" >answer; exec sleep 1000";

/// Starts a task in a window of this many rows.
#[track_caller]
fn run_in_rows(world: &World, rows: u32, name: &str, line: &str) -> String {
    world.tmux(["set-option", "-g", "default-size", &format!("100x{rows}")]);
    let window = world.run(name, line);
    assert_eq!(pane_height(world, &window), rows);
    window
}

/// Waits until the task is reported as asking the question; returns the task of that event.
#[track_caller]
fn until_asked(world: &World, name: &str) -> Value {
    let records = world.until_event("input", name);
    let event = event(&records, "input", name);
    assert_eq!(event["prompt"], QUESTION, "{event:#}");
    event["task"].clone()
}

/// Answers the question, and waits until the task has the answer.
#[track_caller]
fn answer(world: &World, name: &str) {
    let path = world.project().join("answer");
    fs::remove_file(&path).unwrap_or_default();
    world
        .task(["send", name, "y", "--if-prompt", QUESTION])
        .ok();
    world.until_true("the answer is there", || {
        fs::read_to_string(&path).is_ok_and(|text| text == "y")
    });
}

fn preview(world: &World, name: &str) -> String {
    let task = world.listed(name);
    task["outputPreview"].as_str().unwrap().to_owned()
}

#[track_caller]
fn pane_height(world: &World, target: &str) -> u32 {
    let height = world.shown(target, "#{pane_height}");
    height.parse().unwrap()
}

/// The row of the preview that has the cursor.
fn cursor_row(task: &Value) -> &str {
    let row = usize::try_from(task["cursorY"].as_u64().unwrap()).unwrap();
    let preview = task["outputPreview"].as_str().unwrap();
    preview.lines().nth(row).unwrap()
}

#[test]
fn a_question_is_reported_and_answered_and_an_end_quotes_its_output_at_any_height() {
    let world = World::with_size("100x24");
    world.run("stays", "exec sleep 1000");
    for rows in [1, 2, 24, 51, 120, 200, 300] {
        let (ask, bad) = (format!("ask-{rows}"), format!("bad-{rows}"));
        run_in_rows(&world, rows, &ask, ASKS);
        let task = until_asked(&world, &ask);
        assert_eq!(task["outputPreview"], QUESTION, "{rows} rows");
        answer(&world, &ask);
        let line = "printf 'one\\ntwo\\nthree\\n'; exit 3";
        run_in_rows(&world, rows, &bad, line);
        let records = world.until_delivered("exited", &bad);
        let messages = deliveries(&records).into_iter().map(content);
        let end = format!("({bad}) exited with code 3");
        let messages: Vec<_> = messages.filter(|text| text.contains(&end)).collect();
        let [message] = &messages[..] else {
            panic!("{messages:?}");
        };
        let quoted = "recent output:\n  one\n  two\n  three";
        assert!(message.ends_with(quoted), "{rows} rows: {message}");
        assert_eq!(preview(&world, &bad), "one\ntwo\nthree", "{rows} rows");
    }
}

#[test]
fn a_question_far_above_the_last_text_of_a_screen_is_reported_and_answered() {
    let status = "printf '\\033[999;1Hstatus: ok\\033[1;1H'";
    let screens = [
        ("normal", format!("seq 400; printf '\\033[2J'; {status}")),
        ("alternate", format!("printf '\\033[?1049h'; {status}")),
        (
            "middle",
            format!("printf '\\033[?1049h'; {status}; seq 50; printf '\\033[10;1H'"),
        ),
    ];
    let world = World::with_size("100x24");
    world.run("stays", "exec sleep 1000");
    for rows in [24, 51, 120, 300] {
        for (screen, line) in &screens {
            let name = &format!("{screen}-{rows}");
            let window = run_in_rows(&world, rows, name, &format!("{line}; {ASKS}"));
            let task = until_asked(&world, name);
            assert!(cursor_row(&task).starts_with(QUESTION), "{rows}: {task:#}");
            let shown = task["outputPreview"].as_str().unwrap();
            let most = if *screen == "normal" { 20 } else { 50 };
            assert!(shown.lines().count() <= most, "{rows}: {shown}");
            answer(&world, name);
            let shown = world.tmux(["capture-pane", "-p", "-t", &window]);
            let is_there = shown.lines().last() == Some("status: ok");
            assert!(is_there || *screen == "middle", "{rows}: {shown}");
        }
    }
}

#[test]
fn a_question_on_a_cleared_screen_comes_with_the_history_above_it() {
    let world = World::with_size("100x24");
    world.run("stays", "exec sleep 1000");
    for rows in [24, 50, 120] {
        let line = format!("seq 400; printf '\\033[2J\\033[H'; {ASKS}");
        let name = format!("ask-{rows}");
        run_in_rows(&world, rows, &name, &line);
        let task = until_asked(&world, &name);
        let shown = task["outputPreview"].as_str().unwrap();
        let above: Vec<String> = (382..=400).map(|n| n.to_string()).collect();
        assert_eq!(shown, format!("{}\n{QUESTION}", above.join("\n")), "{rows}");
    }
}

#[test]
fn a_question_stays_the_same_while_its_pane_is_resized() {
    let world = World::with_size("100x24");
    let window = world.run("ask", &format!("seq 30; {ASKS}"));
    until_asked(&world, "ask");
    for rows in ["200", "60", "5", "300", "1", "24", "120"] {
        world.tmux(["resize-window", "-t", &window, "-x", "100", "-y", rows]);
        // The question is judged where two looks find the same.
        for _ in 0..2 {
            let shown = preview(&world, "ask");
            let is_whole = shown.ends_with(&format!("30\n{QUESTION}"));
            assert!(is_whole, "{rows}: {shown}");
        }
    }
    answer(&world, "ask");
    let records = world.until_event("inputResolved", "ask");
    assert_eq!(events_of(&records, "input").len(), 1, "{records:#?}");
}

#[test]
fn a_task_that_has_ended_shows_no_banner_after_its_pane_became_taller() {
    let world = World::with_size("100x24");
    let window = world.run("bad", "echo one; exit 3");
    world.until_delivered("exited", "bad");
    for rows in ["120", "24", "300"] {
        world.tmux(["resize-window", "-t", &window, "-x", "100", "-y", rows]);
        assert_eq!(preview(&world, "bad"), "one", "{rows}");
        assert_eq!(world.task(["logs", "bad"]).ok(), "one\n", "{rows}");
    }
}

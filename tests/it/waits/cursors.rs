//! Waits that begin at a cursor.

use super::*;

#[test]
fn a_cursor_brings_back_what_was_written_meanwhile() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo listening; {0}; printf '日本 more> '; {0}; printf later; exec sleep 1000",
        gate.wait()
    );
    let output = world.task(["run", "api", "--json", "--", &line]);
    let launched: Value = serde_json::from_str(output.ok()).unwrap();
    let window = launched["windowId"].as_str().unwrap();
    let start = launched["cursor"].as_str().unwrap();
    world.until_shows(window, "listening");
    let ended = wait(&world, &["api", "--since", start, "--text", "listening"]);
    ends_with(&ended, 0, "matched");
    let after = ended.1["cursor"].as_str().unwrap();
    gate.open();
    world.until_shows(window, "more>");
    // Only the output after the cursor counts.
    let args = [
        "wait",
        "api",
        "--since",
        after,
        "--text",
        "listening",
        "--timeout",
        "100ms",
    ];
    let output = world.task(args);
    assert_eq!(output.code, 4, "{output}");
    let ended = wait(&world, &["api", "--since", after, "--text", "more"]);
    ends_with(&ended, 0, "matched");
    let on_row = ended.1["cursor"].as_str().unwrap();
    gate.open();
    world.until_shows(window, "later");
    let ended = wait(&world, &["api", "--since", on_row, "--text", "later"]);
    ends_with(&ended, 0, "matched");
    let args = [
        "wait",
        "api",
        "--since",
        on_row,
        "--text",
        "more",
        "--timeout",
        "100ms",
    ];
    let output = world.task(args);
    assert_eq!(output.code, 4, "{output}");
}

#[test]
fn a_cursor_of_elsewhere_is_refused() {
    let world = World::new();
    let cursor = |session: &str, name: &str| {
        let output = world.task([
            "-s",
            session,
            "run",
            name,
            "--json",
            "--",
            "exec sleep 1000",
        ]);
        let launched: Value = serde_json::from_str(output.ok()).unwrap();
        launched["cursor"].as_str().unwrap().to_owned()
    };
    let first = cursor(SESSION, "api");
    let other = cursor(SESSION, "other");
    let stranger = cursor("elsewhere", "api");
    let second = cursor(SESSION, "api");
    let elsewhere = "the cursor is of another task or of another life of the session";
    let earlier = "the cursor is of run 1, the task is at run 2";
    for (cursor, why) in [
        (&first, earlier),
        (&other, elsewhere),
        (&stranger, elsewhere),
    ] {
        let output = world.task(["wait", "api", "--text", "x", "--since", cursor.as_str()]);
        output.fails(1, &format!("tmux-task: wait: {why}"));
        let output = world.task(["logs", "api", "--since", cursor.as_str()]);
        output.fails(1, &format!("tmux-task: logs: {why}"));
    }
    let output = world.task(["wait", "api", "--text", "x", "--since", "7"]);
    assert_eq!((output.code, output.out.as_str()), (2, ""), "{output}");
    let args = [
        "wait",
        "api",
        "--text",
        "x",
        "--since",
        &second,
        "--timeout",
        "50ms",
    ];
    assert_eq!(world.task(args).code, 4);
}

#[test]
fn what_is_no_longer_there_is_not_said_to_be_missing() {
    let world = World::new();
    let window = world.run("api", "seq 300; echo up; exec sleep 1000");
    world.until_shows(&window, "up");
    let ended = wait(&world, &["api", "--idle", "50ms"]);
    let cursor = ended.1["cursor"].as_str().unwrap();
    world.tmux(["clear-history", "-t", &window]);
    ends_with(
        &wait(&world, &["api", "--since", cursor, "--text", "x"]),
        5,
        "anchorLost",
    );
    let output = world.task(["logs", "api", "--since", cursor]);
    assert_eq!((output.code, output.out.as_str()), (5, ""), "{output}");
    // A wait in progress does not need the history.
    let (window, go_on) = steps(&world, "b", &["seq 300; echo up", "echo READY; seq 50"]);
    world.until_shows(&window, "up");
    let waiting = begin(&world, &["b", "--text", "READY"]);
    world.tmux(["clear-history", "-t", &window]);
    go_on();
    ends_with(&end(waiting), 0, "matched");
}

//! Waits that begin at a cursor.

use super::*;

#[test]
fn a_cursor_brings_back_what_was_written_meanwhile() {
    let world = World::new();
    let gate = world.gate("go");
    let line = format!(
        "echo listening; {gate}; printf '日本 more> '; {gate}; printf later; exec sleep 1000"
    );
    let launched = world.task(["run", "api", "--json", "--", &line]).json();
    let window = launched["windowId"].as_str().unwrap();
    let found = |cursor: &Value, text: &str| {
        let cursor = cursor.as_str().unwrap();
        let ended = wait(&world, &["api", "--since", cursor, "--text", text]);
        ends_with(ended, 0, "matched")["cursor"].clone()
    };
    // Only the output after the cursor counts.
    let is_not_found = |cursor: &Value, text: &str| {
        let cursor = cursor.as_str().unwrap();
        let wait = format!("wait api --since {cursor} --text {text} --timeout 100ms");
        world.call(&wait).fails_with(4);
    };
    world.until_shows(window, "listening");
    let after = found(&launched["cursor"], "listening");
    gate.open();
    world.until_shows(window, "more>");
    is_not_found(&after, "listening");
    let on_row = found(&after, "more");
    gate.open();
    world.until_shows(window, "later");
    found(&on_row, "later");
    is_not_found(&on_row, "more");
}

#[test]
fn a_cursor_of_elsewhere_is_refused() {
    let world = World::new();
    let cursor = |session: &str, name: &str| {
        let run = format!("-s {session} run {name} --json -- 'exec sleep 1000'");
        let launched = world.call(&run).json();
        launched["cursor"].as_str().unwrap().to_owned()
    };
    let first = cursor(SESSION, "api");
    let other = cursor(SESSION, "other");
    let stranger = cursor("elsewhere", "api");
    let second = cursor(SESSION, "api");
    let elsewhere = "the cursor is of another task or of another life of the session";
    let earlier = "the cursor is of run 1, the task is at run 2";
    for (cursor, why) in [(first, earlier), (other, elsewhere), (stranger, elsewhere)] {
        for command in ["wait api --text x", "logs api"] {
            let what = command.split(' ').next().unwrap();
            let output = world.call(&format!("{command} --since {cursor}"));
            output.fails(1, &format!("tmux-task: {what}: {why}"));
        }
    }
    world.call("wait api --text x --since 7").fails_with(2);
    let wait = format!("wait api --text x --since {second} --timeout 50ms");
    world.call(&wait).fails_with(4);
}

#[test]
fn what_is_no_longer_there_is_not_said_to_be_missing() {
    let world = World::new();
    let window = world.run("api", "seq 300; echo up; exec sleep 1000");
    world.until_shows(&window, "up");
    let ended = wait(&world, &["api", "--idle", "50ms"]);
    let cursor = ended.1["cursor"].as_str().unwrap();
    world.tmux(["clear-history", "-t", &window]);
    let ended = wait(&world, &["api", "--since", cursor, "--text", "x"]);
    ends_with(ended, 5, "anchorLost");
    let output = world.task(["logs", "api", "--since", cursor]);
    assert_eq!((output.code, output.out.as_str()), (5, ""), "{output}");
    // A wait in progress does not need the history.
    let (window, go_on) = steps(&world, "b", &["seq 300; echo up", "echo READY; seq 50"]);
    world.until_shows(&window, "up");
    let waiting = begin(&world, &["b", "--text", "READY"]);
    world.tmux(["clear-history", "-t", &window]);
    go_on();
    ends_with(end(waiting), 0, "matched");
}

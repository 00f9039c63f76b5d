//! Changes of sessions and windows: gone, created again, renamed, moved, killed, pruned.

use serde_json::{Value, json};

use crate::runs::codes;
use crate::support::{World, content, deliveries, event, events, story};

/// A world in which tasks of these names run; their starts are delivered.
#[track_caller]
fn with_tasks(names: &[&str]) -> (World, Vec<String>) {
    let world = World::new();
    let windows = names
        .iter()
        .map(|name| world.run(name, "exec sleep 1000"))
        .collect();
    world.until("all starts", |records| {
        let told = deliveries(records);
        told.iter()
            .map(|told| content(told).lines().count())
            .sum::<usize>()
            == names.len()
    });
    (world, windows)
}

/// What is recorded after the starts.
fn after_starts(records: &[Value]) -> Vec<String> {
    let starts = |record: &&Value| {
        record["type"] == "started"
            || record["kind"] == "notice" && content(record).ends_with(" started")
    };
    let rest: Vec<Value> = records
        .iter()
        .filter(|record| !starts(record))
        .cloned()
        .collect();
    let mut rest = story(&rest);
    for line in &mut rest {
        // The numbers depend on how the starts were gathered.
        if let (Some(from), Some(to)) = (line.find(" of ["), line.find("] ["))
            && !line.contains(" of [] ")
        {
            line.replace_range(from..=to, "");
        }
    }
    rest
}

#[test]
fn a_session_that_goes_takes_its_tasks_and_comes_back_with_new_ones() {
    let (world, windows) = with_tasks(&["api"]);
    let window = &windows[0];
    let follow = world.start(["feed", "--follow"]);
    follow.records_until(|record| record["kind"] == "sync");
    world.tmux(["kill-session", "-t", "=work"]);
    let gone = follow.records_until(|record| record["kind"] == "followUp");
    let status = gone
        .iter()
        .find(|record| record["kind"] == "status")
        .unwrap();
    assert_eq!(
        status,
        &json!({"kind": "status", "text": null, "running": 0, "waiting": 0, "dead": 0})
    );
    let output = world.task(["status"]);
    assert_eq!((output.ok(), output.err.as_str()), ("", ""));

    let gate = world.gate("gate");
    let again = world.run("api", &gate.wait());
    let back = follow.records_until(|record| record["kind"] == "notice");
    assert!(
        back.iter().any(|record| record["text"] == "tmux: 1 task"),
        "{back:?}"
    );
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api -".to_owned(),
            format!("followUp [warning] tmux task {window} (api) disappeared from session"),
        ]
    );
    let started: Vec<&Value> = events(&records)
        .into_iter()
        .filter(|event| event["type"] == "started")
        .collect();
    assert_eq!(started.len(), 2);
    assert_eq!(started[1]["task"]["windowId"], again);
    assert_eq!(started[1]["rerun"], false);
    // The number of a run is one of its name.
    assert_eq!(started[1]["task"]["run"], 2);
}

#[test]
fn a_window_that_is_renamed_is_the_same_task() {
    let (world, windows) = with_tasks(&["api"]);
    world.tmux(["rename-window", "-t", &windows[0], "web"]);
    assert_eq!(world.look()["tasks"][0]["windowName"], "web");
    world.task(["kill", "web"]).ok();
    let records = world.finish();
    assert_eq!(after_starts(&records)[0], "disappeared web userKilled",);
}

#[test]
fn a_window_that_goes_to_another_session_has_moved() {
    let (world, windows) = with_tasks(&["api", "web"]);
    world.tmux(["new-session", "-d", "-s", "other", "exec sleep 1000"]);
    world.tmux(["move-window", "-d", "-s", &windows[0], "-t", "other:"]);
    world.until("the move", |records| {
        deliveries(records)
            .last()
            .is_some_and(|told| told["kind"] == "followUp")
    });
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api moved".to_owned(),
            format!(
                "followUp [warning] tmux task {} (api) moved to another session",
                windows[0]
            ),
        ]
    );
}

#[test]
fn kill_ends_a_task_and_says_so() {
    let (world, windows) = with_tasks(&["api", "web"]);
    let output = world.task(["kill", "api"]);
    assert_eq!(output.ok(), format!("ended {} (api)\n", windows[0]));
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api userKilled".to_owned(),
            format!("notice of [] [info] killed task {} (api)", windows[0]),
            format!(
                "followUp [warning] tmux task {} (api) disappeared from session after the user \
                 manually killed it",
                windows[0]
            ),
        ]
    );
    let output = world.task(["ls", "--json"]);
    assert!(!output.ok().contains("\"api\""), "{output}");

    // By its id; the end of what has ended is no event.
    world.run("over", "exit 0");
    world.until("its end", |records| codes(records, "over").len() == 1);
    world.task(["kill", "over"]).ok();
    world.run("stays", "exec sleep 1000");
    let output = world.task(["kill", &windows[1], "--json"]);
    let printed: Value = serde_json::from_str(output.ok()).unwrap();
    assert_eq!(
        printed,
        json!({"killed": [
            {"windowId": windows[1], "windowName": "web", "exitSignal": "SIGTERM"}
        ]})
    );
    let records = world.finish();
    let mut gone = events(&records);
    gone.retain(|event| event["type"] == "disappeared");
    assert_eq!(gone.len(), 2, "{:?}", story(&records));
}

#[test]
fn kill_all_ends_the_session_and_says_so() {
    let (world, windows) = with_tasks(&["api", "web"]);
    world.task(["kill-all"]).fails(
        2,
        "tmux-task: kill-all: this ends every task, and there is no terminal to ask on\n\
         hint: say --yes when you mean it",
    );
    assert_eq!(world.look()["tasks"].as_array().unwrap().len(), 2);
    let output = world.task(["kill-all", "--yes"]);
    assert_eq!(
        output.ok(),
        format!("ended {} (api)\nended {} (web)\n", windows[0], windows[1])
    );
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api userKilled".to_owned(),
            "disappeared web userKilled".to_owned(),
            "notice of [] [info] ended the session with 2 tasks".to_owned(),
            format!(
                "followUp [warning] tmux task {} (api) disappeared from session after the user \
                 manually killed it\ntmux task {} (web) disappeared from session after the user \
                 manually killed it",
                windows[0], windows[1]
            ),
        ]
    );
    assert_eq!(world.task(["kill-all", "--yes"]).code, 3);
}

#[test]
fn prune_says_nothing_of_the_dead_but_its_outcome() {
    let world = World::new();
    let dead = world.run("dead", "exit 0");
    world.run("live", "exec sleep 1000");
    world.until("its end", |records| codes(records, "dead").len() == 1);
    let before = events(&world.records()).len();
    let output = world.task(["prune"]);
    assert_eq!(output.ok(), format!("pruned {dead} (dead)\n"));
    assert_eq!(world.task(["prune"]).ok(), "");
    let output = world.task(["prune", "--json"]);
    assert_eq!(output.ok(), "{\"pruned\":[]}\n");
    let records = world.finish();
    assert_eq!(events(&records).len(), before, "{:?}", story(&records));
    let outcomes: Vec<&str> = deliveries(&records)
        .into_iter()
        .map(content)
        .filter(|text| text.starts_with("pruned"))
        .collect();
    assert_eq!(outcomes, [format!("pruned task {dead} (dead)")]);
}

#[test]
fn prune_of_the_last_tasks_ends_the_session() {
    let world = World::new();
    world.run("a", "exit 0");
    world.run("b", "exit 1");
    world.until("both ends", |records| {
        codes(records, "a").len() + codes(records, "b").len() == 2
    });
    assert_eq!(world.task(["prune"]).ok().lines().count(), 2);
    let view = world.look();
    assert_eq!(
        (&view["exists"], &view["tasks"]),
        (&false.into(), &serde_json::json!([]))
    );
    world.task(["ls"]).ok();
    assert_eq!(world.daemon_status()["exists"], false);
    // Also without a daemon. A session that never was is none.
    world.task(["daemon", "stop"]).ok();
    world.task(["ls"]).ok();
    world.task(["-s", "other", "ls"]).fails_with(3);
    world.finish();
}

#[test]
fn a_split_neither_speaks_nor_ends_the_task_nor_makes_it_prunable() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{}; exit 7", gate.wait()));
    world.until_deliveries(1);
    // Before the task's pane, and active.
    let split = "printf 'Proceed? [y/N] '; read -r _; exit 3";
    let pane = world.tmux([
        "split-window",
        "-b",
        "-t",
        &window,
        "-P",
        "-F",
        "#{pane_id}",
        split,
    ]);
    world.until_shows(&pane, "Proceed?");
    world.look();
    world.tmux(["send-keys", "-t", &pane, "Enter"]);
    world.until_ended(&pane);
    let listed = world.look();
    assert_eq!(listed["tasks"][0]["dead"], false);
    assert_eq!(listed["tasks"][0]["outputPreview"], "");
    assert_eq!(world.task(["prune"]).ok(), "");
    gate.open();
    world.until("its end", |records| codes(records, "api") == [(1, 7)]);
    let records = world.finish();
    assert_eq!(after_starts(&records)[0], "exited api 7");
    // A rerun is in the task's primary pane, and the split is kept.
    assert_eq!(world.run("api", "exec sleep 1000"), window);
    let panes = world.tmux(["list-panes", "-t", &window, "-F", "#{pane_id} #{pane_dead}"]);
    assert!(panes.contains(&format!("{pane} 1")), "{panes}");
    assert_eq!(panes.lines().count(), 2);
}

#[test]
fn kill_all_says_what_lives_on_in_another_session() {
    for has_daemon in [true, false] {
        let (world, windows) = with_tasks(&["api"]);
        world.tmux(["new-session", "-d", "-t", "work", "-s", "view"]);
        if !has_daemon {
            world.task(["daemon", "stop"]).ok();
        }
        assert_eq!(
            world.task(["kill-all", "--yes"]).ok(),
            format!(
                "not ended {} (api): it lives on in another session\n",
                windows[0]
            )
        );
        let left = world.tmux(["list-windows", "-t", "view", "-F", "#{window_id}"]);
        assert_eq!(left, windows[0]);
        if has_daemon {
            let records = world.until("what became of it", |records| {
                events(records)
                    .iter()
                    .any(|event| event["type"] == "disappeared")
            });
            assert_eq!(event(&records, "disappeared", "api")["reason"], "moved");
        }
    }
}

//! Changes of sessions and windows: gone, created again, renamed, moved, killed, pruned.

use serde_json::{Value, json};

use crate::events::until_started;
use crate::runs::codes;
use crate::support::{World, argv, content, deliveries, event, events, has_fields, story};

/// A world in which tasks of these names run; their starts are delivered.
#[track_caller]
fn with_tasks<const N: usize>(names: [&str; N]) -> (World, [String; N]) {
    let world = World::new();
    let windows = names.map(|name| world.run(name, "exec sleep 1000"));
    until_started(&world, N);
    (world, windows)
}

/// What is recorded after the starts.
fn after_starts(records: &[Value]) -> Vec<String> {
    let mut rest = records.to_vec();
    rest.retain(|record| {
        let is_notice = record["kind"] == "notice";
        record["type"] != "started" && !(is_notice && content(record).ends_with(" started"))
    });
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
    let (world, [window]) = with_tasks(["api"]);
    let follow = world.start(["feed", "--follow"]);
    follow.records_until(|record| record["kind"] == "sync");
    world.tmux(argv("kill-session -t =work"));
    let gone = follow.records_until(|record| record["kind"] == "followUp");
    let none = json!({"kind": "status", "text": null, "running": 0, "waiting": 0, "dead": 0});
    let status = gone.iter().find(|record| record["kind"] == "status");
    assert_eq!(status, Some(&none));
    let output = world.task(["status"]);
    assert_eq!((output.ok(), output.err.as_str()), ("", ""));

    let gate = world.gate("gate");
    let again = world.run("api", &gate.wait());
    let back = follow.records_until(|record| record["kind"] == "notice");
    let says = |record: &Value| record["text"] == "tmux: 1 task";
    assert!(back.iter().any(says), "{back:?}");
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api -".to_owned(),
            format!("followUp [warning] tmux task {window} (api) disappeared from session"),
        ]
    );
    let mut started = events(&records);
    started.retain(|event| event["type"] == "started");
    assert_eq!(started.len(), 2);
    // The number of a run is one of its name.
    let names = "task.windowId task.run rerun";
    has_fields(started[1], names, json!([again, 2, false]));
}

#[test]
fn a_window_that_is_renamed_is_the_same_task_and_one_that_goes_to_another_session_has_moved() {
    let (world, [api, web]) = with_tasks(["api", "web"]);
    world.tmux(["rename-window", "-t", &api, "renamed"]);
    assert_eq!(world.names(), ["renamed", "web"]);
    world.tmux(argv("new-session -d -s other 'exec sleep 1000'"));
    world.tmux(["move-window", "-d", "-s", &web, "-t", "other:"]);
    world.until_delivered("disappeared", "web");
    world.task(["kill", "renamed"]).ok();
    let told = after_starts(&world.finish());
    let moved = format!("followUp [warning] tmux task {web} (web) moved to another session");
    assert_eq!(
        told[..3],
        [
            "disappeared web moved",
            &moved,
            "disappeared renamed userKilled"
        ]
    );
}

#[test]
fn kill_ends_a_task_and_says_so() {
    let (world, [api, web]) = with_tasks(["api", "web"]);
    let output = world.task(["kill", "api"]);
    assert_eq!(output.ok(), format!("ended {api} (api)\n"));
    let records = world.finish();
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api userKilled".to_owned(),
            format!("notice of [] [info] killed task {api} (api)"),
            format!(
                "followUp [warning] tmux task {api} (api) disappeared from session after the user \
                 manually killed it"
            ),
        ]
    );
    assert_eq!(world.names(), ["web"]);

    // By its id; the end of what has ended is no event.
    world.run("over", "exit 0");
    world.until("its end", |records| codes(records, "over").len() == 1);
    world.task(["kill", "over"]).ok();
    world.run("stays", "exec sleep 1000");
    let ended = json!({"windowId": web, "windowName": "web", "exitSignal": "SIGTERM"});
    let printed = world.task(["kill", &web, "--json"]).json();
    assert_eq!(printed, json!({"killed": [ended]}));
    let told = story(&world.finish()).into_iter();
    assert_eq!(
        told.filter(|line| line.starts_with("disappeared")).count(),
        2
    );
}

#[test]
fn kill_all_ends_the_session_and_says_so() {
    let (world, [api, web]) = with_tasks(["api", "web"]);
    world.task(["kill-all"]).fails(
        2,
        "tmux-task: kill-all: this ends every task, and there is no terminal to ask on\n\
         hint: say --yes when you mean it",
    );
    assert_eq!(world.names().len(), 2);
    let output = world.task(["kill-all", "--yes"]);
    assert_eq!(
        output.ok(),
        format!("ended {api} (api)\nended {web} (web)\n")
    );
    let records = world.finish();
    let killed = "disappeared from session after the user manually killed it";
    assert_eq!(
        after_starts(&records),
        [
            "disappeared api userKilled".to_owned(),
            "disappeared web userKilled".to_owned(),
            "notice of [] [info] ended the session with 2 tasks".to_owned(),
            format!(
                "followUp [warning] tmux task {api} (api) {killed}\n\
                 tmux task {web} (web) {killed}"
            ),
        ]
    );
    world.task(["kill-all", "--yes"]).fails_with(3);
}

#[test]
fn prune_says_nothing_of_the_dead_but_its_outcome_and_ends_an_empty_session() {
    let world = World::new();
    let dead = world.run("dead", "exit 0");
    world.run("live", "exec sleep 1000");
    world.until("its end", |records| codes(records, "dead").len() == 1);
    let before = events(&world.records()).len();
    let output = world.task(["prune"]);
    assert_eq!(output.ok(), format!("pruned {dead} (dead)\n"));
    assert_eq!(world.task(["prune"]).ok(), "");
    assert_eq!(world.task(["prune", "--json"]).ok(), "{\"pruned\":[]}\n");
    let records = world.finish();
    assert_eq!(events(&records).len(), before, "{:?}", story(&records));
    let mut outcomes: Vec<&str> = deliveries(&records).into_iter().map(content).collect();
    outcomes.retain(|text| text.starts_with("pruned"));
    assert_eq!(outcomes, [format!("pruned task {dead} (dead)")]);
    for name in ["live", "more"] {
        let window = world.run(name, "exit 1");
        world.until_ended(&window);
    }
    assert_eq!(world.task(["prune"]).ok().lines().count(), 2);
    world.task(["ls"]).fails_with(3);
    assert_eq!(world.daemon_status()["exists"], false);
    world.finish();
}

#[test]
fn a_split_neither_speaks_nor_ends_the_task_nor_makes_it_prunable() {
    let world = World::new();
    let gate = world.gate("gate");
    let window = world.run("api", &format!("{gate}; exit 7"));
    world.until_deliveries(1);
    // Before the task's pane, and active.
    let split = "read -rp 'Proceed? [y/N] ' _; exit 3";
    let open = argv(&format!(
        "split-window -b -t {window} -P -F #{{pane_id}} \"{split}\""
    ));
    let pane = world.tmux(open);
    world.until_shows(&pane, "Proceed?");
    world.look();
    world.tmux(["send-keys", "-t", &pane, "Enter"]);
    world.until_ended(&pane);
    let task = world.listed("api");
    has_fields(&task, "dead outputPreview", json!([false, ""]));
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
    let (world, [window]) = with_tasks(["api"]);
    world.tmux(argv("new-session -d -t work -s view"));
    let killed = world.task(["kill-all", "--yes"]);
    let lives = format!("not ended {window} (api): it lives on in another session\n");
    assert_eq!(killed.ok(), lives);
    let left = world.tmux(argv("list-windows -t view -F #{window_id}"));
    assert_eq!(left, window);
    let records = world.until_delivered("disappeared", "api");
    assert_eq!(event(&records, "disappeared", "api")["reason"], "moved");
}

//! What is known of runs that have ended: the list of those that are stored, and their statistics.

use serde_json::{Value, json};

use crate::support::{SESSION, World};

fn parsed(world: &World, args: &[&str]) -> Value {
    serde_json::from_str(world.task(args).ok()).unwrap()
}

/// The number of stored runs.
fn n_stored(world: &World) -> usize {
    let folder = world.state(SESSION).join("runs");
    let files = folder.read_dir().into_iter().flatten().flatten();
    files
        .filter(|file| file.path().extension().is_some_and(|it| it == "log"))
        .count()
}

#[test]
fn a_running_task_shows_how_long_it_usually_takes() {
    let world = World::new();
    let line = "[ ! -e hold ] || exec sleep 1000";
    let usual = |world: &World| parsed(world, &["ls", "--json"])["tasks"][0]["usualMs"].clone();
    for n in 1..=2 {
        let window = world.run("tests", line);
        assert_eq!(usual(&world), Value::Null);
        world.until_ended(&window);
        world.until_true("the run is stored", || n_stored(&world) == n);
    }
    std::fs::write(world.project().join("hold"), "").unwrap();
    world.run("tests", line);
    let expected = parsed(&world, &["stats", "--json"])[0]["usualMs"].clone();
    world.until_true("it is known", || usual(&world) == expected);
    let table = world.task(["ls"]);
    assert!(
        table
            .ok()
            .starts_with("ID  NAME   STATE    CODE  RUN  AGE  USUALLY  "),
        "{table}"
    );
    // The next daemon finds it out too.
    world.task(["daemon", "stop"]).ok();
    assert_eq!(
        usual(&world),
        Value::Null,
        "a look at the screens knows no history"
    );
    world.daemon();
    world.until_true("it is known again", || usual(&world) == expected);
    // Another command under the same name is another task.
    world.run("tests", "exec sleep 1000");
    assert_eq!(usual(&world), Value::Null);
}

#[test]
fn a_session_without_stored_runs_is_told_from_a_missing_one() {
    let world = World::new();
    let missing = |what: &str| {
        format!(
            "tmux-task: {what}: no session `work`\n\
             hint: `tmux-task run NAME -- COMMAND` starts a task and with it the session"
        )
    };
    world.task(["stats"]).fails(3, &missing("stats"));
    world.task(["stats", "--json"]).fails(3, &missing("stats"));
    world.task(["stats", "api"]).fails(3, &missing("stats"));
    world
        .task(["logs", "api", "--runs"])
        .fails(3, &missing("logs"));
    let window = world.run("api", "exec sleep 1000");
    assert_eq!(parsed(&world, &["stats", "--json"]), json!([]));
    // What was stored outlives the session.
    world.run("api", "true");
    world.until_ended(&window);
    world.until_true("both are stored", || n_stored(&world) == 2);
    world.task(["kill-all", "--yes"]).ok();
    assert_eq!(parsed(&world, &["stats", "--json"])[0]["runs"], 2);
    world.task(["daemon", "stop"]).ok();
    assert_eq!(parsed(&world, &["stats", "--json"])[0]["runs"], 2);
}

#[test]
fn stored_runs_are_listed_and_counted() {
    let world = World::new();
    let mut window = String::new();
    for (n, code) in [0, 2, 0].into_iter().enumerate() {
        window = world.run("tests", &format!("exit {code}"));
        world.until_ended(&window);
        world.until_true("the run is stored", || n_stored(&world) == n + 1);
    }
    let lint = world.run("lint", "kill -9 $$");
    world.until_ended(&lint);
    world.until_true("the run is stored", || n_stored(&world) == 4);

    let runs = parsed(&world, &["logs", "tests", "--runs", "--json"]);
    let runs = runs.as_array().unwrap();
    let codes: Vec<_> = runs
        .iter()
        .map(|run| (&run["run"], &run["exitCode"]))
        .collect();
    let expected = [(1, 0), (2, 2), (3, 0)].map(|(run, code)| (json!(run), json!(code)));
    let expected: Vec<_> = expected.iter().map(|(run, code)| (run, code)).collect();
    assert_eq!(codes, expected);
    for run in runs {
        assert_eq!(run["windowId"], *window);
        let took = run["endedAt"].as_i64().unwrap() - run["startedAt"].as_i64().unwrap();
        assert_eq!(run["durationMs"], took);
    }
    let listed = world.task(["logs", "tests", "lint", "--runs", "-n", "2"]);
    let rows: Vec<Vec<&str>> = listed
        .ok()
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows[0], ["NAME", "RUN", "CODE", "ENDED", "TOOK", "COMMAND"]);
    // The last two of each.
    assert_eq!(rows[1][..3], ["tests", "2", "2"]);
    assert_eq!(rows[2][..3], ["tests", "3", "0"]);
    assert_eq!(rows[3][..3], ["lint", "1", "SIGKILL"]);
    assert_eq!(rows.len(), 4);

    let stats = parsed(&world, &["stats", "--json"]);
    let of = |n: usize| {
        let task = &stats[n];
        (
            task["windowName"].as_str(),
            task["runs"].as_u64(),
            task["failed"].as_u64(),
        )
    };
    assert_eq!(of(0), (Some("lint"), Some(1), Some(1)));
    assert_eq!(of(1), (Some("tests"), Some(3), Some(1)));
    assert_eq!(stats[0]["usualMs"], Value::Null);
    // The median of the two that ended with 0: the longer one.
    let took = |n: usize| runs[n]["durationMs"].as_i64().unwrap();
    assert_eq!(stats[1]["usualMs"], took(0).max(took(2)));
    assert_eq!(stats[1]["last"]["run"], 3);
    let text = world.task(["stats", "lint"]);
    let last = text.ok().lines().next_back().unwrap();
    let cells: Vec<&str> = last.split_whitespace().collect();
    assert_eq!(
        cells[..6],
        ["lint", "1", "1", "-", "-", "SIGKILL"],
        "{text}"
    );

    for command in [&["stats", "nothing"][..], &["logs", "nothing", "--runs"]] {
        world.task(command).fails(
            3,
            &format!(
                "tmux-task: {}: no ended run of task `nothing` is stored\nhint: a run is stored \
                 when it has ended; `tmux-task ls` shows the present ones",
                command[0]
            ),
        );
    }
    // They outlive the window and the session.
    world.tmux(["kill-session", "-t", SESSION]);
    assert_eq!(parsed(&world, &["stats", "--json"])[1]["runs"], 3);
    assert_eq!(world.task(["logs", "tests", "--runs", "--follow"]).code, 2);
}

#[test]
fn all_sessions_are_listed_each_below_its_name() {
    let mut world = World::new();
    assert_eq!(world.task(["ls", "--all"]).ok(), "");
    world.run("api", "exec sleep 1000");
    world.run_in("shop", "web", "exec sleep 1000");
    world
        .task([
            "-L",
            "far",
            "-s",
            "work",
            "run",
            "tests",
            "--",
            "exec sleep 1000",
        ])
        .ok();
    // One without a daemon, and one that is not ours.
    world.set("TMUX_TASK_NO_AUTOSTART", "1");
    world.run_in("alone", "one", "exec sleep 1000");
    world.tmux(["new-session", "-d", "-s", "mine", "exec sleep 1000"]);
    let shown = parsed(&world, &["ls", "--all", "--json"]);
    let sessions = shown["sessions"].as_array().unwrap();
    let listed: Vec<_> = sessions
        .iter()
        .map(|it| (it["sessionName"].as_str(), it["supervised"].as_bool()))
        .map(|(name, supervised)| (name.unwrap(), supervised.unwrap()))
        .collect();
    assert_eq!(
        listed,
        [
            ("alone", false),
            ("shop", true),
            ("work", true),
            ("work", true)
        ]
    );
    let names: Vec<_> = sessions
        .iter()
        .map(|it| &it["tasks"][0]["windowName"])
        .collect();
    assert_eq!(names, ["one", "web", "api", "tests"]);
    assert_eq!(sessions[0]["server"], sessions[2]["server"]);
    assert_ne!(sessions[2]["server"], sessions[3]["server"]);

    let text = world.task(["ls", "--all"]);
    let headings: Vec<&str> = text
        .ok()
        .lines()
        .filter(|line| line.contains(" (1 task"))
        .collect();
    let far = sessions[3]["server"].as_str().unwrap();
    assert_eq!(
        headings,
        [
            "alone (1 task, no daemon)".to_owned(),
            "shop (1 task)".to_owned(),
            "work (1 task)".to_owned(),
            format!("work (1 task, server {far})"),
        ]
    );
    // From where there is no server at all.
    let elsewhere = parsed(&world, &["-L", "none", "ls", "-a", "--json"]);
    let names = elsewhere["sessions"].as_array().unwrap().iter();
    let names: Vec<_> = names
        .map(|it| it["tasks"][0]["windowName"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

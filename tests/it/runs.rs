//! Runs: a task's slot is used again, and no end of a run is lost.

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{
    World, all_told, content, deliveries, event, events, repeated, story, window_of,
};

/// The codes with which a task's runs ended, by run.
pub(crate) fn codes(records: &[Value], name: &str) -> Vec<(i64, i64)> {
    events(records)
        .into_iter()
        .filter(|event| event["type"] == "exited" && event["task"]["windowName"] == name)
        .map(|event| {
            let number = |field: &str| event["task"][field].as_i64().unwrap_or(-1);
            (number("run"), number("exitCode"))
        })
        .collect()
}

#[test]
fn a_rerun_is_the_second_run_of_the_same_window() {
    let world = World::new();
    let first = world.run("api", "exit 3");
    // Delivered, so that the next start is a separate notice.
    world.until("the first end", |records| {
        codes(records, "api") == [(1, 3)] && all_told(records)
    });
    let gate = world.gate("gate");
    let printed = world.task(["run", "api", "--json", "--", &gate.wait()]);
    let printed: Value = serde_json::from_str(printed.ok()).unwrap();
    assert_eq!(printed["windowId"], first);
    assert_eq!(printed["run"], 2);
    assert_eq!(printed["sessionName"], "work");
    assert_eq!(printed["windowName"], "api");
    assert_eq!(printed["taskCwd"], world.project().to_str().unwrap());
    let text = format!("tmux task {first} (api) started");
    world.until("the second start", |records| {
        let last = deliveries(records).pop();
        last.is_some_and(|last| last["kind"] == "notice" && content(last) == text)
    });
    let option = ["show-options", "-wv", "-t", &first, "@tmux_task_run"];
    assert_eq!(world.tmux(option), "2");
    let records = world.finish();
    let again: Vec<&Value> = events(&records)
        .into_iter()
        .filter(|event| event["rerun"] == true)
        .collect();
    assert_eq!(again.len(), 1);
    assert_eq!(again[0]["task"]["run"], 2);
    assert_eq!(again[0]["task"]["windowId"], first);
    assert_eq!(again[0]["task"]["exitCode"], Value::Null);
}

#[test]
fn a_live_run_that_the_launcher_replaces_is_a_notice() {
    let world = World::new();
    let window = world.run("api", "echo one; sleep 1000");
    world.until_shows(&window, "one");
    world.look();
    world.until_deliveries(1);
    let gate = world.gate("gate");
    world.run("api", &gate.wait());
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(
        story(&records)[2..],
        [
            "exited api replaced".to_owned(),
            "started api again".to_owned(),
            format!(
                "notice of [3,4] [warning] tmux task {window} (api) was replaced by a new run\n\
                 recent output:\n  one\n  Terminated\ntmux task {window} (api) started"
            ),
        ]
    );
    assert_eq!(records[2]["task"]["run"], 1);
    assert_eq!(records[3]["task"]["run"], 2);
}

#[test]
fn a_live_run_replaced_by_hand_is_a_follow_up() {
    let world = World::new();
    let window = world.run("api", "sleep 1000");
    world.until_deliveries(1);
    world.tmux(["respawn-window", "-k", "-t", &window, "exec sleep 1000"]);
    world.until_deliveries(2);
    let records = world.finish();
    assert_eq!(
        story(&records)[2..],
        [
            "exited api replaced".to_owned(),
            "started api again".to_owned(),
            format!(
                "followUp of [3,4] [warning] tmux task {window} (api) was replaced by a new run"
            ),
        ]
    );
    let details = &records[4]["message"]["details"]["events"];
    assert_eq!(details.as_array().unwrap().len(), 2);
}

#[test]
fn a_slot_is_used_again_after_a_respawn_by_hand() {
    let world = World::new();
    let window = world.run("api", "sleep 1000");
    world.until_deliveries(1);
    world.tmux(["respawn-pane", "-k", "-t", &window, "exit 4"]);
    world.until("the second end", |records| {
        codes(records, "api").last() == Some(&(2, 4))
    });
    assert_eq!(world.run("api", "exit 5"), window);
    world.until("the third end", |records| {
        codes(records, "api").last() == Some(&(3, 5))
    });
    world.finish();
}

#[test]
fn runs_that_no_look_showed_are_reported_from_the_death_record() {
    let world = World::new();
    let window = world.run("api", "sleep 1000");
    world.until_deliveries(1);
    let daemon = world.daemon_pid();
    kill_process(daemon, Signal::STOP).unwrap();
    // The first takes the place of a run that lives.
    for line in ["exit 4", "exit 4", "exit 5", "kill -9 $$"] {
        world.tmux(["respawn-pane", "-k", "-t", &window, line]);
        world.until_ended(&window);
    }
    kill_process(daemon, Signal::CONT).unwrap();
    world.until("the last end", |records| {
        codes(records, "api").last() == Some(&(5, -1))
    });
    let records = world.finish();
    assert_eq!(
        story(&records)[2..7],
        [
            "exited api replaced",
            "exited api 4",
            "exited api 4",
            "exited api 5",
            "exited api SIGKILL",
        ]
    );
    assert_eq!(
        codes(&records, "api"),
        [(1, -1), (2, 4), (3, 4), (4, 5), (5, -1)]
    );
}

#[test]
fn a_live_run_that_ends_well_when_it_is_replaced_is_no_quick_run() {
    let world = World::new();
    let window = world.run(
        "api",
        "trap 'exit 4' HUP; echo up; while :; do read -r _ || :; done",
    );
    world.until_shows(&window, "up");
    world.until_deliveries(1);
    world.tmux(["respawn-pane", "-k", "-t", &window, "exit 4"]);
    world.until("the second end", |records| {
        codes(records, "api").last() == Some(&(2, 4))
    });
    let records = world.finish();
    assert_eq!(codes(&records, "api").len(), 2, "{:?}", story(&records));
}

#[test]
fn many_tasks_each_end_once() {
    let world = World::new();
    let many = repeated(6);
    for n in 0..many {
        world.run(&format!("t{n}"), &format!("exit {n}"));
    }
    world.until("all ends", |records| {
        (0..many).all(|n| !codes(records, &format!("t{n}")).is_empty())
    });
    let records = world.finish();
    for n in 0..many {
        assert_eq!(codes(&records, &format!("t{n}")), [(1, n)]);
    }
}

#[test]
fn many_reruns_each_end_once() {
    let world = World::new();
    let many = repeated(6);
    let window = world.run("slot", "exit 0");
    for n in 1..many {
        world.until_ended(&window);
        world.run("slot", &format!("exit {n}"));
    }
    world.until("the last end", |records| {
        codes(records, "slot").last() == Some(&(many, many - 1))
    });
    let records = world.finish();
    let expected: Vec<(i64, i64)> = (0..many).map(|n| (n + 1, n)).collect();
    assert_eq!(codes(&records, "slot"), expected);
}

#[test]
fn many_hasty_reruns_each_end_with_a_code_or_replaced() {
    let world = World::new();
    let many = repeated(8);
    for n in 0..many {
        world.run("slot", &format!("exit {n}"));
    }
    world.until("the last end", |records| {
        codes(records, "slot").last() == Some(&(many, many - 1))
    });
    let records = world.finish();
    let runs: Vec<i64> = codes(&records, "slot")
        .iter()
        .map(|(run, _)| *run)
        .collect();
    assert_eq!(runs, (1..=many).collect::<Vec<_>>());
    for event in events(&records) {
        let run = event["task"]["run"].as_i64().unwrap();
        if event["type"] == "exited" && event["reason"] != "replaced" {
            assert_eq!(event["task"]["exitCode"], run - 1, "{event}");
        }
    }
}

#[test]
fn six_launches_at_once_make_one_window() {
    let world = World::new();
    let gate = world.gate("gate");
    let line = gate.wait();
    let mut launches: Vec<_> = (0..6)
        .map(|_| world.start(["run", "api", "--", &line]))
        .collect();
    let windows: Vec<String> = launches
        .iter_mut()
        .map(|launch| {
            let printed: Vec<String> = (0..4).map(|_| launch.line()).collect();
            assert_eq!(launch.wait(), 0);
            window_of(&printed.join("\n"))
        })
        .collect();
    assert!(
        windows.iter().all(|window| *window == windows[0]),
        "{windows:?}"
    );
    let listed = world.look();
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(listed["tasks"][0]["run"], 6);
    world.finish();
}

#[test]
fn a_task_has_its_directory_its_variables_and_its_words() {
    let mut world = World::new();
    world.set("PI_SESSION_ID", "conversation");
    world.set("PI_TMUX_ROOT_CWD", "/somewhere");
    let folder = world.path("it's a #{folder} $HOME");
    std::fs::create_dir(&folder).unwrap();
    let file = world.path("said");
    let script = "printf '%s\\n' \"$PWD\" \"$A\" \"$TMUX_TASK_SESSION\" \"$PI_TMUX_SESSION\" \
                  \"${PI_SESSION_ID-unset}\" \"${PI_TMUX_ROOT_CWD-unset}\" \"$@\" >\"$0\"";
    let args = [
        "run",
        "api",
        "--cwd",
        folder.to_str().unwrap(),
        "--env",
        "A=b=c d",
        "--",
    ];
    let words = [
        "bash",
        "-c",
        script,
        file.to_str().unwrap(),
        "two words",
        "$(no)",
        "it's",
        "",
    ];
    let output = world.task([&args[..], &words].concat());
    assert_eq!(
        output.ok().lines().collect::<Vec<_>>()[3],
        format!("cwd={}", folder.display())
    );
    world.until("its end", |records| codes(records, "api") == [(1, 0)]);
    let expected = format!(
        "{}\nb=c d\nwork\nwork\nunset\nunset\ntwo words\n$(no)\nit's\n\n",
        folder.display()
    );
    assert_eq!(std::fs::read_to_string(file).unwrap(), expected);
    let records = world.finish();
    let task = &event(&records, "exited", "api")["task"];
    assert_eq!(task["taskCwd"], folder.to_str().unwrap());
    let command = task["currentCommand"].as_str().unwrap();
    assert!(command.starts_with("bash -c 'printf "), "{command}");
}

#[test]
fn a_failing_command_in_the_middle_ends_the_task() {
    let world = World::new();
    world.run("api", "false; echo on; exit 0");
    world.run("pipe", "false | true");
    world.run("unset", "echo $NOBODY_SET_THIS; exit 0");
    world.until("all ends", |records| {
        ["api", "pipe", "unset"]
            .iter()
            .all(|name| codes(records, name).len() == 1)
    });
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 1)]);
    assert_eq!(codes(&records, "pipe"), [(1, 1)]);
    assert_eq!(codes(&records, "unset"), [(1, 1)]);
}

//! Tasks that start after others.

use crate::runs::codes;
use crate::support::{World, events};

/// The tasks that there are, by name.
fn names(world: &World) -> Vec<String> {
    let tasks = world.look()["tasks"].clone();
    let tasks = tasks.as_array().unwrap().iter();
    tasks
        .map(|task| task["windowName"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_task_starts_when_those_before_it_have_succeeded() {
    let world = World::new();
    let gate = world.gate("gate");
    world.run("build", &gate.wait());
    let over = world.run("over", "exit 0");
    world.until_ended(&over);
    let mut waits = world.start([
        "run", "api", "--after", "build", "--after", "over", "--", "exit 0",
    ]);
    let said = waits.complaint();
    assert_eq!(said, "tmux-task: run: api waits for build, over");
    assert_eq!(names(&world), ["build", "over"]);
    gate.open();
    assert!(waits.line().starts_with("session="));
    assert_eq!(waits.wait(), 0);
    let records = world.until("its end", |records| codes(records, "api").len() == 1);
    let at = |name: &str| {
        let mut all = events(&records).into_iter();
        all.position(|event| event["task"]["windowName"] == name && event["type"] == "exited")
    };
    assert!(at("build") < at("api"));
    world.finish();
}

#[test]
fn a_task_does_not_start_when_one_before_it_fails() {
    let world = World::new();
    world.run("fine", "sleep 1000");
    let gate = world.gate("gate");
    world.run("build", &format!("{}; exit 3", gate.wait()));
    let mut waits = world.start([
        "run", "api", "--after", "fine", "--after", "build", "--", "true",
    ]);
    waits.complaint();
    gate.open();
    assert_eq!(
        waits.complaint(),
        "tmux-task: run: api was not started: build exited with code 3"
    );
    assert_eq!(waits.wait(), 5);
    // One that is killed has not succeeded either.
    let mut waits = world.start(["run", "api", "--after", "fine", "--", "true"]);
    waits.complaint();
    world.until_true("the wait begins", || world.daemon_status()["waits"] == 1);
    world.task(["kill", "fine"]).ok();
    assert_eq!(
        waits.complaint(),
        "tmux-task: run: api was not started: fine has disappeared"
    );
    assert_eq!(waits.wait(), 5);
    assert_eq!(names(&world), ["build"]);
    world.finish();
}

#[test]
fn a_task_waits_for_the_restarts_of_the_one_before_it() {
    let world = World::new();
    let third = "echo x >>n; test \"$(wc -l <n)\" -ge 3";
    let restart = ["--restart", "on-failure", "--backoff", "100ms"];
    world
        .task([&["run", "build"], &restart[..], &["--", third]].concat())
        .ok();
    world
        .task(["run", "api", "--after", "build", "--", "exit 0"])
        .ok();
    let records = world.until("its end", |records| codes(records, "api").len() == 1);
    assert_eq!(codes(&records, "build"), [(1, 1), (2, 1), (3, 0)]);
    let restart = ["--restart", "on-failure:1", "--backoff", "100ms"];
    world
        .task([&["run", "build"], &restart[..], &["--", "echo no; exit 4"]].concat())
        .ok();
    world
        .task(["run", "api", "--after", "build", "--", "exit 0"])
        .fails(
            5,
            "tmux-task: run: api waits for build\n\
             build | no\n\
             tmux-task: run: api was not started: build exited with code 4; gave up after 1 restart",
        );
    world.finish();
}

#[test]
fn a_task_waits_no_longer_than_its_time() {
    let world = World::new();
    world.run("build", "sleep 1000");
    let after = ["run", "api", "--after", "build", "--timeout", "200ms"];
    world.task([&after[..], &["--", "true"]].concat()).fails(
        4,
        "tmux-task: run: api waits for build\n\
         tmux-task: run: api was not started: build has not ended after 200 ms",
    );
    assert_eq!(
        world
            .task([&after[..], &["--wait", "--", "true"]].concat())
            .code,
        124
    );
    world
        .task(["run", "api", "--after", "api", "--", "true"])
        .fails(2, "tmux-task: run: task `api` cannot start after itself");
    assert_eq!(
        world
            .task(["run", "api", "--after", "none", "--", "true"])
            .code,
        3
    );
    let refused = world.task(["run", "api", "--timeout", "1s", "--", "true"]);
    assert_eq!(refused.code, 2, "{refused}");
    assert!(refused.err.contains("does not end the task"), "{refused}");
    assert_eq!(names(&world), ["build"]);
    world.finish();
}

#[test]
fn a_question_of_the_task_before_is_reported_and_the_wait_goes_on() {
    let world = World::new();
    world.run("build", "read -p 'Proceed? [y/N] ' x; test \"$x\" = y");
    let mut waits = world.start(["run", "api", "--after", "build", "--", "exit 0"]);
    waits.complaint();
    assert_eq!(
        waits.complaint(),
        "tmux-task: run: build asks for input: Proceed? [y/N]"
    );
    assert_eq!(
        waits.complaint(),
        "hint: `tmux-task send build TEXT` answers"
    );
    let after = ["run", "late", "--after", "build", "--timeout", "1s"];
    let late = world.task([&after[..], &["--", "true"]].concat());
    assert_eq!(late.code, 4, "{late}");
    assert!(
        late.err.ends_with(
            "late was not started: build has not ended after 1.0 s: it asks for input: \
             Proceed? [y/N]\n"
        ),
        "{late}"
    );
    world.task(["send", "build", "y"]).ok();
    assert!(waits.line().starts_with("session="));
    assert_eq!(waits.wait(), 0);
    world.finish();
}

#[test]
fn a_task_before_that_does_not_exist_is_not_said_to_be_waited_for() {
    let world = World::new();
    world.run("build", "sleep 1000");
    let run = [
        "run", "api", "--after", "build", "--after", "nosuch", "--", "true",
    ];
    let missing = world.task(run);
    assert_eq!(missing.code, 3, "{missing}");
    assert!(
        missing.err.starts_with("tmux-task: run: no task `nosuch`"),
        "{missing}"
    );
    world.finish();
}

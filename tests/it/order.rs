//! Tasks that start after others.

use crate::runs::codes;
use crate::support::{Output, Running, World, argv, events, has};

/// Runs `api` after other tasks.
#[track_caller]
fn after(world: &World, options: &str) -> Output {
    world.call(&format!("run api --after {options}"))
}

/// The same in the background. It waits when this returns.
#[track_caller]
fn waiting(world: &World, options: &str, for_whom: &str) -> Running {
    let run = world.start(argv(&format!("run api --after {options}")));
    let said = format!("tmux-task: run: api waits for {for_whom}");
    assert_eq!(run.complaint(), said);
    run
}

#[test]
fn a_task_starts_when_those_before_it_have_succeeded() {
    let world = World::new();
    let gate = world.gate("gate");
    world.run("build", &gate.wait());
    let over = world.run("over", "exit 0");
    world.until_ended(&over);
    let mut waits = waiting(&world, "build --after over -- 'exit 0'", "build, over");
    assert_eq!(world.names(), ["build", "over"]);
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
    world.run("build", &format!("{gate}; exit 3"));
    let mut first = waiting(&world, "fine --after build -- true", "fine, build");
    gate.open();
    // One that is killed has not succeeded either.
    let mut second = waiting(&world, "fine -- true", "fine");
    for (run, why) in [
        (&mut first, "build exited with code 3"),
        (&mut second, "fine has disappeared"),
    ] {
        if why.starts_with("fine") {
            world.until_waits(1);
            world.task(["kill", "fine"]).ok();
        }
        let said = format!("tmux-task: run: api was not started: {why}");
        assert_eq!(run.complaint(), said);
        assert_eq!(run.wait(), 5);
    }
    assert_eq!(world.names(), ["build"]);
    world.finish();
}

#[test]
fn a_task_waits_for_the_restarts_of_the_one_before_it() {
    let world = World::new();
    let build = |restart: &str, line: &str| {
        let options = argv(&format!("run build --restart {restart} --backoff 100ms --"));
        world.task([options, vec![line.to_owned()]].concat()).ok();
    };
    build("on-failure", "echo x >>n; test \"$(wc -l <n)\" -ge 3");
    after(&world, "build -- 'exit 0'").ok();
    let records = world.until("its end", |records| codes(records, "api").len() == 1);
    assert_eq!(codes(&records, "build"), [(1, 1), (2, 1), (3, 0)]);
    build("on-failure:1", "echo no; exit 4");
    after(&world, "build -- 'exit 0'").fails(
        5,
        "tmux-task: run: api waits for build\n\
         build | no\n\
         tmux-task: run: api was not started: build exited with code 4; gave up after 1 restart",
    );
    world.finish();
}

#[test]
fn a_task_waits_no_longer_than_its_time_and_not_for_what_does_not_exist() {
    let world = World::new();
    world.run("build", "sleep 1000");
    after(&world, "build --timeout 200ms -- true").fails(
        4,
        "tmux-task: run: api waits for build\n\
         tmux-task: run: api was not started: build has not ended after 200 ms",
    );
    after(&world, "build --timeout 200ms --wait -- true").fails_with(124);
    let why = "tmux-task: run: task `api` cannot start after itself";
    after(&world, "api -- true").fails(2, why);
    let missing = after(&world, "build --after nosuch -- true");
    missing.fails_so(3, "tmux-task: run: no task `nosuch`");
    world.call("run api --timeout 1s -- true").fails_with(2);
    assert_eq!(world.names(), ["build"]);
    world.finish();
}

#[test]
fn a_question_of_the_task_before_is_reported_and_the_wait_goes_on() {
    let world = World::new();
    world.run("build", "read -p 'Proceed? [y/N] ' x; test \"$x\" = y");
    let mut waits = waiting(&world, "build -- 'exit 0'", "build");
    let asks = "tmux-task: run: build asks for input: Proceed? [y/N]";
    assert_eq!(waits.complaint(), asks);
    has(
        waits.complaint(),
        "hint: `tmux-task send build TEXT` answers",
    );
    let late = after(&world, "build --timeout 1s -- true");
    let why =
        "was not started: build has not ended after 1.0 s: it asks for input: Proceed? [y/N]\n";
    late.fails_saying(4, why);
    world.task(["send", "build", "y"]).ok();
    assert!(waits.line().starts_with("session="));
    assert_eq!(waits.wait(), 0);
    world.finish();
}

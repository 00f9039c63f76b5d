//! A daemon may be killed at any time: no event is lost and none is reported twice.

use std::fs;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::runs::codes;
use crate::support::{Dice, Running, World, all_told, argv, event, has_ended, story};

/// A death that is put back into tmux's record: the state if a daemon is killed after it wrote the event
/// and before it cut the record. tmux 3.8 does not report the processes of dead panes.
#[test]
fn a_recorded_death_that_was_not_cleared_is_reported_once_also_without_its_process() {
    for tells_process in [true, false] {
        let world = World::new();
        let gate = world.gate("gate");
        let window = world.run("api", &format!("{gate}; exit 3"));
        world.until_deliveries(1);
        world.look();
        let saved = world.state("work").join("session.json");
        let before_the_end = fs::read(&saved).unwrap();
        gate.open();
        world.until("its end", |records| codes(records, "api") == [(1, 3)]);
        world.run("api", "exec sleep 1000");
        let before = world.until("its next run", |records| {
            story(records).contains(&"started api again".into()) && all_told(records)
        });
        let count = argv("show-options -qv -t =work: @tmux_task_death_count");
        assert_eq!(world.tmux(count), "1");
        let task = &event(&before, "exited", "api")["task"];
        let pane = task["paneId"].as_str().unwrap();
        let process = task["panePid"].to_string();
        let process = if tells_process { &process } else { "" };
        let time = now_millis() / 1000;

        world.kill_daemon();
        let record = format!("{window} {pane} {process} 3  {time} 1 pts api 1  {pane}. ;");
        world.tmux(["set-option", "-t", "=work:", "@tmux_task_deaths", &record]);
        fs::write(&saved, &before_the_end).unwrap();
        world.rerun_alone(&window, "exec sleep 1000");
        world.daemon();
        world.look();
        let records = world.finish();
        assert_eq!(records[..before.len()], before);
        let meanwhile = story(&records[before.len()..]);
        let expected = ["exited api replaced", "started api again"];
        assert_eq!(meanwhile[..2], expected, "{meanwhile:?}");
        assert_eq!(codes(&records, "api"), [(1, 3), (2, -1)]);
    }
}

#[test]
fn a_run_in_a_window_that_was_opened_and_closed_while_no_daemon_ran_is_reported() {
    let world = World::new();
    world.run("stays", "exec sleep 1000");
    world.until_deliveries(1);
    world.look();
    // A daemon that was killed has left its hooks.
    world.kill_daemon();
    for (name, code) in [("api", 3), ("web", 4)] {
        let window = world.run_alone("work", name, &format!("exit {code}"));
        world.until_ended(&window);
        world.tmux(["kill-window", "-t", &window]);
    }
    // Not the task has ended but a pane that a user split off.
    let split = world.run_alone("work", "split", "exec sleep 1000");
    world.tmux(["split-window", "-d", "-t", &split, "exit 9"]);
    world.until_true("the split has ended", || {
        let dead = world.tmux(["list-panes", "-t", &split, "-F", "#{pane_dead}"]);
        if !dead.contains('1') {
            kill_process(world.server(), Signal::CHILD).unwrap();
        }
        dead.contains('1')
    });
    world.tmux(["kill-window", "-t", &split]);
    world.daemon();
    world.until("both ends", |records| {
        codes(records, "api").len() == 1 && codes(records, "web").len() == 1 && all_told(records)
    });
    world.look();
    let records = world.finish();
    assert_eq!(codes(&records, "api"), [(1, 3)]);
    assert_eq!(codes(&records, "web"), [(1, 4)]);
    let mut told = story(&records);
    told.retain(|line| !line.starts_with("notice") && !line.starts_with("followUp"));
    assert_eq!(told, ["started stays", "exited api 3", "exited web 4"]);
}

#[test]
fn the_start_of_a_run_is_exact_after_a_restart() {
    let world = World::new();
    let window = world.run("api", "exec sleep 1000");
    world.until_deliveries(1);
    let started = |run: u64| {
        let look = world.look();
        let mut tasks = look["tasks"].as_array().unwrap().iter();
        let task = tasks.find(|task| task["run"] == run);
        let at = task.map(|task| task["startedAt"].as_i64().unwrap());
        at.unwrap_or_else(|| panic!("run {run}: {look}"))
    };
    let launched = started(1);
    let respawn = || {
        let last = now_millis();
        world.until_true("it is later", || now_millis() > last + 100);
        let not_before = now_millis();
        world.tmux(["respawn-window", "-k", "-t", &window, "exec sleep 1000"]);
        not_before
    };
    // The kernel reports it in ticks of 10 ms.
    let check = |run: u64, not_before: i64| {
        let at = started(run);
        assert!(at + 20 >= not_before, "{at} {not_before} {launched}");
    };
    // By hand, within seconds of the launch: the launcher's note is the first run's.
    let second = respawn();
    check(2, second);
    world.finish();
    let third = respawn();
    world.daemon();
    check(3, third);
}

/// The daemon that holds the lock, if any does.
pub(crate) fn daemon_with_lock(world: &World) -> Option<Pid> {
    let files = fs::read_dir(world.path("run")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let locks = paths.filter(|path| path.extension().is_some_and(|end| end == "lock"));
    // The server's lock, which is here as well, holds no number.
    let mut numbers = locks.filter_map(|lock| fs::read_to_string(lock).ok()?.trim().parse().ok());
    numbers.find_map(Pid::from_raw)
}

/// Some instants within a launch or behind it: other ones each time, and the same in each run of the
/// test.
fn instants() -> impl Iterator<Item = Duration> {
    let mut dice = Dice::new(1, 0);
    std::iter::repeat_with(move || Duration::from_micros(dice.below(150_000)))
}

#[test]
fn a_daemon_that_is_killed_repeatedly_loses_no_end_and_reports_none_twice() {
    const KILLS: usize = 15;
    let world = World::new();
    world.run("stays", "exec sleep 1000");
    let ends = world.path("ends");
    let has_ended_run = || {
        let format = "#{window_name} #{pane_dead}#{pane_dead_status}";
        let windows = world.tmux(["list-windows", "-t", "=work", "-F", format]);
        let api = windows.lines().find_map(|line| line.strip_prefix("api "));
        if api == Some("1") {
            // tmux can lose the signal that its child has ended.
            kill_process(world.server(), Signal::CHILD).unwrap();
        }
        api.is_none_or(|shown| shown.len() > 1)
    };
    let (mut kills, mut run) = (0, 0);
    for instant in instants().take(10 * KILLS) {
        run += 1;
        // The task keeps its own record.
        let line = format!("echo {} >>{}; exit {}", run % 7, ends.display(), run % 7);
        let mut launch = world.start(["run", "api", "--", &line]);
        std::thread::sleep(instant);
        let killed = daemon_with_lock(&world).map(|pid| kill_process(pid, Signal::KILL));
        kills += usize::from(matches!(killed, Some(Ok(()))));
        // It may have been killed before it answered, and the task runs or does not.
        launch.wait();
        world.until_true("the run has ended", has_ended_run);
        if kills == KILLS {
            break;
        }
    }
    assert_eq!(kills, KILLS, "in {run} runs");
    let text = fs::read_to_string(&ends).unwrap();
    let ended: Vec<i64> = text.lines().map(|line| line.parse().unwrap()).collect();
    // One may have come back with the last launch.
    world.task(["daemon", "--detach"]).ok();
    world.until("all ends", |records| {
        codes(records, "api").len() >= ended.len() && all_told(records)
    });
    world.look();
    let told = codes(&world.finish(), "api");
    let codes: Vec<i64> = told.iter().map(|(_, code)| *code).collect();
    assert_eq!(codes, ended);
    assert!(
        told.windows(2).all(|runs| runs[0].0 < runs[1].0),
        "{told:?}"
    );
}

/// A server that ends waits until each control client has what was written to it: for ever, if nobody
/// reads it any more.
#[test]
fn a_server_that_waits_for_a_client_of_a_killed_daemon_is_not_in_the_way() {
    let world = World::new();
    world.tmux(["new-session", "-d", "-s", "work"]);
    let socket = world.server_socket();
    let client = Running::start({
        let mut shell = world.command("sh");
        shell.args([
            "-c",
            r"sleep 1000 | tmux -u -S $0 -C display-message -p connected \; \
                wait-for tmux-task-attach-1-0 \; attach-session -E -f no-output -t '$0' \; \
                display-message -p attached | { head -c 1 >connected; echo connected; }",
            &socket,
        ]);
        shell
    });
    assert_eq!(client.line(), "connected");
    let server = world.server();
    world.tmux(["kill-server"]);
    assert!(!has_ended(server), "it waits");
    world.run("api", "exec sleep 1000");
    assert!(has_ended(server));
}

pub(crate) fn now_millis() -> i64 {
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    i64::try_from(now.as_millis()).unwrap()
}

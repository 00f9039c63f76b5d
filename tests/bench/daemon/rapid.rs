//! Actions in quick succession: is each one reported, once, and correctly?

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::Effort;
use super::figures::{Table, heading, verdict};
use super::task::{self, Orders};
use super::watcher::{Heard, Watcher, Who};
use super::world::{SESSION, World};

/// How long after the last act the last event may come.
const LIMIT: Duration = Duration::from_secs(8);

/// What a story came to.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    right: u64,
    of: u64,
    /// Events reported more than once.
    twice: usize,
}

type Story = (&'static str, fn(&mut Stage<'_>) -> (u64, u64));

const STORIES: [Story; 6] = [
    ("50 tasks that end at once, by new-window", short_tasks),
    (
        "20 ends with a code, the window killed 250 ms later",
        ends_before_kills,
    ),
    ("50 bells, one each 20 ms (sum of bells)", bells),
    ("20 reruns, one each 50 ms, by respawn-window -k", respawns),
    ("50 tasks that end at once, by run", short_runs),
    ("20 reruns, one each 50 ms, by run", reruns),
];

pub(crate) fn run(effort: Effort) {
    heading("In quick succession: told with the right code");
    let rounds = effort.pick(1, 2);
    let mut table = Table::new("story|round|daemon|twice|target||poller|twice");
    for (name, story) in STORIES {
        for round in 1..=rounds {
            let ours = play(Who::Daemon, story);
            // The poller has no `run` of its own.
            let theirs = (!name.ends_with("by run")).then(|| play(Who::Poller, story));
            table.row([
                name.to_owned(),
                round.to_string(),
                format!("{} of {}", ours.right, ours.of),
                ours.twice.to_string(),
                "all, once".to_owned(),
                verdict(ours.right == ours.of && ours.twice == 0).to_owned(),
                theirs.map_or(String::new(), |theirs| {
                    format!("{} of {}", theirs.right, theirs.of)
                }),
                theirs.map_or(String::new(), |theirs| theirs.twice.to_string()),
            ]);
        }
    }
    table.print();
}

/// Where a story is played.
struct Stage<'a> {
    who: Who,
    world: &'a World,
    watcher: &'a Watcher,
}

fn play(who: Who, story: fn(&mut Stage<'_>) -> (u64, u64)) -> Outcome {
    let world = World::new();
    world.add_session(SESSION, 5);
    if who == Who::Poller {
        // As its own helper does with the windows that it makes.
        world.tmux(["set-option", "-gw", "remain-on-exit", "on"]);
    }
    let watcher = Watcher::ready(who, &world, SESSION);
    thread::sleep(Duration::from_millis(300));
    let mut stage = Stage {
        who,
        world: &world,
        watcher: &watcher,
    };
    let (right, of) = story(&mut stage);
    // Whatever is reported twice has come by now or comes soon.
    thread::sleep(Duration::from_millis(300));
    Outcome {
        right,
        of,
        twice: told_twice(&watcher.all()),
    }
}

/// Counts the events that another one says again.
fn told_twice(all: &[Heard]) -> usize {
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for heard in all.iter().filter(|heard| heard.is_live("event")) {
        let record = &heard.record;
        // Bells ring again within one run.
        if record["type"] == "notify" {
            continue;
        }
        let task = &record["task"];
        // The poller does not count runs: with it a rerun is the same task again.
        if task["run"].is_null() {
            continue;
        }
        let what = format!("{} {} {}", record["type"], task["windowId"], task["run"]);
        *told.entry(what).or_default() += 1;
    }
    told.values().map(|times| times - 1).sum()
}

impl Stage<'_> {
    fn exits(&self, window: &str) -> Vec<Option<i64>> {
        let all = self.watcher.all();
        let exits = all.iter().filter(|heard| heard.is_event("exited", window));
        exits.map(Heard::code).collect()
    }

    fn wait_for_exits(&self, n: u64) {
        let is_exit =
            |heard: &Heard| u64::from(heard.is_live("event") && heard.record["type"] == "exited");
        self.watcher.wait_for_all(LIMIT, n, is_exit);
    }

    /// Counts the windows of which exactly this end has been reported.
    fn right(&self, expected: &[(String, i64)]) -> u64 {
        let mut right = 0;
        for (window, code) in expected {
            let told = self.exits(window);
            if told == [Some(*code)] {
                right += 1;
            } else if self.who == Who::Daemon {
                eprintln!("{window} ended with {code}; told was {told:?}");
            }
        }
        right
    }

    fn launch(&self, name: &str, command: &str) -> String {
        self.world.run_in(SESSION, name, command)
    }
}

fn short_tasks(stage: &mut Stage<'_>) -> (u64, u64) {
    let mut driver = stage.world.driver();
    let expected: Vec<(String, i64)> = (0..50)
        .map(|code| {
            let words = ["sh", "-c", &format!("exit {code}")];
            let name = format!("short-{code}");
            (driver.new_window(SESSION, &name, &words), code)
        })
        .collect();
    stage.wait_for_exits(50);
    (stage.right(&expected), 50)
}

fn short_runs(stage: &mut Stage<'_>) -> (u64, u64) {
    let expected: Vec<(String, i64)> = (0..50)
        .map(|code| {
            let (name, line) = (format!("short-{code}"), format!("exit {code}"));
            (stage.launch(&name, &line), code)
        })
        .collect();
    stage.wait_for_exits(50);
    (stage.right(&expected), 50)
}

fn ends_before_kills(stage: &mut Stage<'_>) -> (u64, u64) {
    let mut driver = stage.world.driver();
    let mut expected = Vec::new();
    let mut started = Vec::new();
    for code in 1..=20 {
        let name = format!("end-{code}");
        let (window, orders) = Orders::start(stage.world, &mut driver, &name, task::PART);
        started.push((window, code, orders));
    }
    let limit = Duration::from_secs(10);
    for (window, ..) in &started {
        stage
            .watcher
            .wait(limit, |heard| heard.is_event("started", window));
    }
    for (window, code, mut orders) in started {
        orders.give(&code.to_string());
        thread::sleep(Duration::from_millis(250));
        driver.call(&format!("kill-window -t {window}"));
        expected.push((window, code));
    }
    stage.wait_for_exits(20);
    thread::sleep(Duration::from_millis(300));
    let gone = |window: &str| {
        stage
            .watcher
            .all()
            .iter()
            .any(|h| h.is_event("disappeared", window))
    };
    expected.retain(|(window, _)| !gone(window));
    (stage.right(&expected), 20)
}

fn bells(stage: &mut Stage<'_>) -> (u64, u64) {
    let mut driver = stage.world.driver();
    let (window, mut orders) = Orders::start(stage.world, &mut driver, "rings", task::PART);
    let limit = Duration::from_secs(10);
    stage
        .watcher
        .wait(limit, |heard| heard.is_event("started", &window));
    each(50, Duration::from_millis(20), |_| orders.give("ring"));
    let of_bells = |heard: &Heard| {
        let bells = heard.record["bells"].as_u64();
        bells
            .filter(|_| heard.is_event("notify", &window))
            .unwrap_or(0)
    };
    stage.watcher.wait_for_all(LIMIT, 50, of_bells);
    thread::sleep(Duration::from_millis(200));
    (stage.watcher.all().iter().map(of_bells).sum(), 50)
}

fn respawns(stage: &mut Stage<'_>) -> (u64, u64) {
    let mut driver = stage.world.driver();
    let window = driver.new_window(SESSION, "again", &["sh", "-c", "exit 0"]);
    stage.wait_for_exits(1);
    each(20, Duration::from_millis(50), |n| {
        let code = n + 1;
        driver.call(&format!("respawn-window -k -t {window} 'exit {code}'"));
    });
    codes_in_order(stage, &window)
}

fn reruns(stage: &mut Stage<'_>) -> (u64, u64) {
    let window = stage.launch("again", "exit 0");
    stage.wait_for_exits(1);
    each(20, Duration::from_millis(50), |n| {
        stage.launch("again", &format!("exit {}", n + 1));
    });
    codes_in_order(stage, &window)
}

/// Counts the codes from 1 on that were reported, where 21 ends are reported in all, the first with 0.
fn codes_in_order(stage: &Stage<'_>, window: &str) -> (u64, u64) {
    stage.wait_for_exits(21);
    thread::sleep(Duration::from_millis(200));
    let told = stage.exits(window);
    let mut right = 0;
    let mut rest = told.iter().copied();
    for code in 1..=20 {
        let mut ahead = rest.clone();
        if ahead.any(|told| told == Some(code)) {
            right += 1;
            rest = ahead;
        }
    }
    if stage.who == Who::Daemon && right < 20 {
        let all = stage.watcher.all();
        let replaced = all.iter().filter(|heard| {
            heard.is_event("exited", window) && heard.record["reason"] == "replaced"
        });
        // A run that had not ended yet when the next one came has no code.
        eprintln!(
            "{window} ended in turn with {told:?}; replaced alive: {}",
            replaced.count()
        );
    }
    (right, 20)
}

/// Acts at a steady pace; an act that takes longer delays the next.
fn each(times: u32, pause: Duration, mut act: impl FnMut(u32)) {
    let mut next = Instant::now();
    for n in 0..times {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        next = Instant::now() + pause;
        act(n);
    }
}

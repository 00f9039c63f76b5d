//! While the disk is full, what waits for it in memory is bounded, and nothing is lost.

use std::fs;

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::Value;

use crate::support::{Gate, SESSION, World, all_told, events_of, resident};

/// How many windows ring.
const WINDOWS: usize = 40;

/// How often they ring after the daemon has stopped looking.
const MORE: u64 = 20;

/// Three bytes in one cell: the more bytes a preview has, the fewer events are enough.
const WIDE: &str = "€";

/// The problems that the daemon reports, as one text.
fn problems(world: &World) -> String {
    world.daemon_status()["problems"].to_string()
}

/// How many records wait for the disk.
#[track_caller]
fn waiting(world: &World) -> usize {
    let problems = problems(world);
    let (before, _) = problems.split_once(" records wait in memory").unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap()
}

/// How many bells the events of all windows report.
fn bells_of(records: &[Value]) -> u64 {
    let rang = events_of(records, "notify").into_iter();
    rang.map(|event| event["bells"].as_u64().unwrap()).sum()
}

/// A session whose windows are full of text, each of which rings once for each line in its gate.
struct Bells {
    world: World,
    gates: Vec<Gate>,
    /// How often each window has rung.
    n_rung: u64,
}

impl Bells {
    /// Starts the windows, and then a daemon.
    fn new() -> Self {
        let world = World::new();
        let page = world.path("page");
        fs::write(&page, format!("{}\n", WIDE.repeat(79)).repeat(22)).unwrap();
        let text = format!(
            "cat {}\nwhile read -r _; do printf '\\a'; done <$1\n",
            page.display()
        );
        let ring = world.script("ring", &text);
        let mut command: Vec<String> = Vec::new();
        let mut gates = Vec::new();
        for n in 0..WINDOWS {
            let gate = format!("gate-{n}");
            gates.push(world.gate(&gate));
            let new = if n == 0 {
                ["new-session", "-d", "-s", SESSION].as_slice()
            } else {
                [";", "new-window", "-d", "-t", "=work:"].as_slice()
            };
            command.extend(new.iter().map(|&word| word.to_owned()));
            let (ring, gate) = (ring.display(), world.path(&gate));
            command.push(format!("exec sh {ring} {}", gate.display()));
        }
        world.tmux(&command);
        world.daemon();
        Self {
            world,
            gates,
            n_rung: 0,
        }
    }

    /// Rings in all windows, and waits until tmux has counted it.
    fn ring(&mut self) {
        self.n_rung += 1;
        self.gates.iter().for_each(Gate::open);
        let count = format!(" {}", self.n_rung);
        self.world.until_true("all have rung", || {
            let list = ["list-windows", "-t", "=work:", "-F", "#{@tmux_task_bells}"];
            let counts = self.world.tmux(list);
            counts.lines().filter(|line| line.ends_with(&count)).count() == WINDOWS
        });
    }

    /// How often they have rung together.
    fn n_bells(&self) -> u64 {
        self.n_rung * WINDOWS as u64
    }
}

#[test]
fn what_waits_for_a_full_disk_is_bounded_and_nothing_of_it_is_lost() {
    let mut bells = Bells::new();
    bells.ring();
    let first = bells.n_bells();
    bells.world.until("the first bells", |records| {
        bells_of(records) == first && all_told(records)
    });
    let daemon = bells.world.daemon_pid();
    let reader = bells.world.start(["feed", "--follow"]);
    reader.records_until(|record| record["kind"] == "sync");

    // A limit on the size of its files stands in for a full disk.
    let limit = |limit| prlimit(Some(daemon), Resource::Fsize, limit).unwrap();
    let state = bells.world.state(SESSION);
    let full = fs::metadata(state.join("feed.jsonl")).unwrap().len() + 100;
    let limited = limit(Rlimit {
        current: Some(full),
        maximum: None,
    });
    let stopped = "tasks are not looked at until they are written";
    while !problems(&bells.world).contains(stopped) {
        bells.ring();
        assert!(bells.n_rung < 200, "{}", problems(&bells.world));
    }
    // Readers are told, and the log.
    reader.records_until(|record| {
        let problem = record["problem"].as_str().unwrap_or_default();
        record["kind"] == "status" && problem.contains(stopped)
    });
    bells.world.until_logged("no looks are taken");
    // What happens from here on takes no more room, except for a look that was being taken.
    let (before, n_waiting) = (resident(daemon).unwrap(), waiting(&bells.world));
    for _ in 0..MORE {
        bells.ring();
    }
    let n_now = waiting(&bells.world);
    let n_added = n_now - n_waiting;
    assert!(n_added <= WINDOWS + 2, "{n_waiting} records, then {n_now}");
    let after = resident(daemon).unwrap();
    assert!(after < before + 4096, "{before} KiB, then {after} KiB");

    limit(limited);
    reader.records_until(|record| record["kind"] == "status" && record["problem"].is_null());
    let all = bells.n_bells();
    bells.world.until("all bells", |records| {
        bells_of(records) == all && all_told(records)
    });
    assert_eq!(bells_of(&bells.world.finish()), all);
}

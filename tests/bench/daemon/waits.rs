//! How soon `wait --exit` returns after the end of a task, with a short and with a long history.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Effort;
use super::busy::{command, leave, long_history, start, task};
use super::figures::{Table, cells, heading};
use super::world::{SESSION, World};

/// How many lines the task has printed.
const LINES: [usize; 2] = [10, 45_000];

/// Whether the daemon has a wait. Asking takes some milliseconds, so this needs no pause.
fn has_wait(world: &World) -> bool {
    let mut status = command(world, &["daemon", "status", "--json"]);
    let output = status.stdout(Stdio::piped()).output().unwrap();
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["waits"] == 1
}

pub(crate) fn run(effort: Effort) {
    heading("From the end of a task to the end of `wait --exit`, in milliseconds");
    let mut table = Table::new("lines|n|p50|p95|max");
    let world = long_history();
    let gate = world.gate("gate");
    for lines in LINES {
        let line = format!("seq {lines}; {gate}");
        let mut took: Vec<Duration> = (0..effort.pick(10, 40))
            .map(|_| {
                task(&world, &["run", "task", "--", &line]);
                task(&world, &["wait", "task", "--idle", "500ms"]);
                let mut wait = start(&mut command(&world, &["wait", "task", "--exit"]));
                while !has_wait(&world) {}
                let ended = Instant::now();
                gate.open();
                assert!(wait.wait().unwrap().success());
                ended.elapsed()
            })
            .collect();
        let mut row = vec![lines.to_string()];
        row.extend(cells(&mut took, [0.5, 0.95, 1.0], 1));
        table.row(row);
    }
    leave(&world);
    world.tmux(["kill-session", "-t", &format!("={SESSION}")]);
    table.print();
}

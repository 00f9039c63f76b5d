//! How long commands take beside a daemon, and whether they start tmux.

use std::fs;
use std::time::Duration;

use super::Effort;
use super::figures::{Table, heading, ms, quantile, verdict};
use super::usage::time;
use super::watcher::{Watcher, Who};
use super::world::{SESSION, SLEEP, World};

/// How much longer than `tmux new-window` a command may take.
const ALLOWANCE: Duration = Duration::from_millis(12);

/// Between two commands: what follows one need not be in the next one's time.
const PAUSE: Duration = Duration::from_millis(60);

/// The commands, in the order in which they are run. `run` makes a window, which `run` again uses
/// again and `kill` ends.
const COMMANDS: [(&str, &[&str]); 7] = [
    ("run", &["run", "again", "--", SLEEP]),
    ("run, again", &["run", "again", "--", SLEEP]),
    ("ls", &["ls"]),
    ("status", &["status"]),
    ("send", &["send", "task-0", "x"]),
    ("kill", &["kill", "again"]),
    ("--version", &["--version"]),
];

pub(crate) fn run(effort: Effort) {
    heading("Commands beside a daemon, in milliseconds");
    let columns = "windows|command|n|p50|p95|target of p50||tmux processes";
    let mut table = Table::new(columns);
    for windows in [10, 300] {
        measure(windows, effort.pick(10, 30), &mut table);
    }
    table.print();
    println!();
    println!(
        "The target is the p50 of `tmux new-window` in the same run and {} ms.",
        ALLOWANCE.as_millis()
    );
}

fn measure(windows: usize, rounds: usize, table: &mut Table) {
    let world = World::new();
    world.add_session(SESSION, windows);
    let watcher = Watcher::start(Who::Daemon, &world, SESSION);
    let told = watcher.wait(Duration::from_secs(20), |heard| heard.is_live("status"));
    assert!(told.is_some(), "the daemon does not start");
    // A tmux that writes down each time that it is run.
    let calls = world.path("calls");
    let tmux = world.tmux_after(&format!("echo >>{}", calls.display()));
    let mut made = Vec::new();
    let mut took: Vec<Vec<Duration>> = vec![Vec::new(); COMMANDS.len()];
    for _ in 0..rounds {
        let target = format!("={SESSION}:");
        let mut new_window = world.program("tmux");
        new_window.args(["new-window", "-d", "-t", &target, "-n", "by-tmux", SLEEP]);
        made.push(time(&mut new_window));
        world.tmux(["kill-window", "-t", &format!("={SESSION}:by-tmux")]);
        std::thread::sleep(PAUSE);
        for ((_, words), took) in COMMANDS.iter().zip(&mut took) {
            let mut command = world.program(env!("CARGO_BIN_EXE_tmux-task"));
            command.args(["--session", SESSION]).args(*words);
            command.env("TMUX_TASK_TMUX", &tmux);
            took.push(time(&mut command));
            std::thread::sleep(PAUSE);
        }
    }
    watcher.stop();
    let calls = fs::read_to_string(calls).unwrap_or_default();
    let n_processes = calls.lines().count();
    made.sort();
    let target = quantile(&made, 0.5).unwrap() + ALLOWANCE;
    let cell = |duration| format!("{:.1}", ms(duration));
    let mut row = |name: &str, mut took: Vec<Duration>, target: Option<Duration>| {
        took.sort();
        let at = |share| quantile(&took, share).unwrap();
        table.row([
            windows.to_string(),
            name.to_owned(),
            took.len().to_string(),
            cell(at(0.5)),
            cell(at(0.95)),
            target.map(cell).unwrap_or_default(),
            target
                .map_or("", |target| verdict(at(0.5) <= target))
                .to_owned(),
            target.map(|_| n_processes.to_string()).unwrap_or_default(),
        ]);
    };
    row("tmux new-window", made, None);
    for ((name, _), took) in COMMANDS.iter().zip(took) {
        // The program alone: what any command costs.
        let target = (*name != "--version").then_some(target);
        row(name, took, target);
    }
}

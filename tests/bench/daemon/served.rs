//! How long another client of the tmux server waits for an answer while the daemon looks at
//! everything for safety, beside the same without a daemon.

use std::time::{Duration, Instant};

use super::Effort;
use super::figures::{Table, cells, heading};
use super::watcher::{Watcher, Who};
use super::world::{Driver, SESSION, World};

pub(crate) fn run(effort: Effort) {
    heading("An empty command of another client while windows are idle, in milliseconds");
    let columns = "windows|beside|n|p50|p99.9|max";
    let mut table = Table::new(columns);
    for windows in [100, 300] {
        let world = World::new();
        world.add_session(SESSION, windows);
        let mut driver = world.driver();
        // Safety looks follow a start at intervals that double: several fall into this time.
        let time = Duration::from_secs(effort.pick(10, 30));
        row(windows, "nobody", answers(&mut driver, time), &mut table);
        let watcher = Watcher::ready(Who::Daemon, &world, SESSION);
        row(
            windows,
            "the daemon",
            answers(&mut driver, time),
            &mut table,
        );
        watcher.stop();
        driver.leave();
    }
    table.print();
}

/// Returns how long the answers to empty commands take during this time.
fn answers(driver: &mut Driver, time: Duration) -> Vec<Duration> {
    let until = Instant::now() + time;
    let mut took = Vec::new();
    while Instant::now() < until {
        let asked = Instant::now();
        driver.call("display-message -p ''");
        took.push(asked.elapsed());
        // A sample each millisecond: asking without a pause would keep the server busy itself.
        std::thread::sleep(Duration::from_millis(1));
    }
    took
}

fn row(windows: usize, beside: &str, mut took: Vec<Duration>, table: &mut Table) {
    let mut row = vec![windows.to_string(), beside.to_owned()];
    row.extend(cells(&mut took, [0.5, 0.999, 1.0], 2));
    table.row(row);
}

//! How soon a daemon that starts beside an existing session has something to say.

use std::time::{Duration, Instant};

use super::Effort;
use super::figures::{Table, cells, heading, quantile, verdict};
use super::watcher::{Watcher, Who};
use super::world::{SESSION, World};

const WINDOWS: usize = 100;
const TARGET: Duration = Duration::from_millis(100);

pub(crate) fn run(effort: Effort) {
    heading("From the start of `daemon --stdout` beside a session of 100 windows, in milliseconds");
    let world = World::new();
    world.add_session(SESSION, WINDOWS);
    let mut took: [Vec<Duration>; 2] = Default::default();
    let mut again: [Vec<Duration>; 2] = Default::default();
    for _ in 0..effort.pick(5, 20) {
        drop(std::fs::remove_dir_all(world.path("state")));
        // The first time there is nothing saved, the second time there is.
        for took in [&mut took, &mut again] {
            let began = Instant::now();
            let watcher = Watcher::start(Who::Daemon, &world, SESSION);
            for (kind, took) in ["hello", "status"].iter().zip(took) {
                let told = watcher.wait(Duration::from_secs(10), |heard| heard.is_live(kind));
                assert!(told.is_some(), "no {kind}");
                took.push(began.elapsed());
            }
            watcher.stop();
        }
    }
    let mut table = Table::new("line|n|p50|p95|max|target|");
    let fresh = took.iter_mut().zip(["hello", "first status"]);
    let saved = again
        .iter_mut()
        .zip(["hello, carrying on", "first status, carrying on"]);
    for (took, line) in fresh.chain(saved) {
        let mut row = vec![line.to_owned()];
        row.extend(cells(took, [0.5, 0.95, 1.0], 1));
        row.push(TARGET.as_millis().to_string());
        row.push(verdict(quantile(took, 0.95).unwrap() <= TARGET).to_owned());
        table.row(row);
    }
    table.print();
}

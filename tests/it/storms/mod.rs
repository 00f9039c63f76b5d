//! Storms: many tasks that start, ring the bell, ask for input, exit and disappear, consumers that
//! acknowledge, and a daemon that is killed in between. Each task writes a journal; afterwards the
//! feed, its deliveries and the records of each consumer are compared with the journals.
//!
//! The suite runs short storms. `tests/storms/crash.sh` and `tests/storms/soak.sh` run long ones:
//! they set the variables that [`Size`] reads.

mod consumer;
mod conversation;
mod daemon;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(target_os = "linux")]
mod hosts;
#[cfg(target_os = "linux")]
mod network;
mod task;
mod verdict;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::World;
use consumer::Consumer;
use daemon::{Killer, Usage};
use task::Slots;

/// How much a storm does.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Windows of the session; each is a task that runs again and again.
    windows: usize,
    /// Threads that start tasks.
    workers: usize,
    consumers: usize,
    /// How many times the daemon is killed.
    kills: usize,
    /// How many times a task rings that rings the bell.
    rings: usize,
    /// How long the storm lasts; without it, until the kills are done.
    lasts: Option<Duration>,
    /// Selects the deeds and instants; the same for the same seed.
    seed: u64,
}

impl Size {
    /// The size with what the environment says.
    fn or_as_asked(self) -> Self {
        let count =
            |name, default| asked(name).map_or(default, |number| usize::try_from(number).unwrap());
        Self {
            windows: count("STORM_WINDOWS", self.windows),
            workers: count("STORM_WORKERS", self.workers),
            consumers: count("STORM_CONSUMERS", self.consumers),
            kills: count("STORM_KILLS", self.kills),
            rings: count("STORM_RINGS", self.rings),
            lasts: asked("STORM_SECONDS")
                .map(Duration::from_secs)
                .or(self.lasts),
            seed: asked("STORM_SEED").unwrap_or(self.seed),
        }
    }
}

/// Returns the number that a variable of the environment has, if it is set.
fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse::<u64>();
    Some(number.unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}

/// What everybody in a storm shares.
struct Storm<'a> {
    world: &'a World,
    size: Size,
    slots: Slots,
    /// Set when the tasks are to end what they do, and no others are started.
    is_over: AtomicBool,
}

impl Storm<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

/// Ends what reads and watches during a storm, also when a worker has failed.
struct Attendants<'a> {
    storm: &'a Storm<'a>,
    consumers: &'a [Consumer],
}

impl Drop for Attendants<'_> {
    fn drop(&mut self) {
        self.storm.is_over.store(true, Ordering::Relaxed);
        self.consumers.iter().for_each(Consumer::stop);
        self.storm.slots.stop();
    }
}

/// Runs a storm and checks that nothing was lost, doubled or skipped.
fn run(size: Size) {
    let size = size.or_as_asked();
    let world = World::new();
    // The session outlives all of its tasks. A text that no rule about prompts knows makes a daemon
    // compile all of them in its first minute: some MiB that do not grow.
    world.run(
        "stays",
        "printf 'Proceed with'; read -r _; exec sleep 100000",
    );
    let storm = Storm {
        world: &world,
        size,
        slots: Slots::new(&world, size.windows),
        is_over: AtomicBool::new(false),
    };
    let consumers: Vec<Consumer> = (0..size.consumers)
        .map(|n| Consumer::new(n, size.seed))
        .collect();
    let killer = Killer::new(&world, size, &consumers);
    let began = Instant::now();
    let usage = thread::scope(|scope| {
        for consumer in &consumers {
            scope.spawn(|| consumer.read(&world));
        }
        scope.spawn(|| storm.slots.watch(&storm));
        let attendants = Attendants {
            storm: &storm,
            consumers: &consumers,
        };
        let workers: Vec<_> = (0..size.workers)
            .map(|number| {
                scope.spawn({
                    let (storm, first) = (&storm, &consumers[0]);
                    move || storm.slots.work(storm, number, first)
                })
            })
            .collect();
        let usage = scope.spawn(|| Usage::watch(&storm));
        killer.kill_and_wait();
        // On a slow machine the kills may be done before much has run.
        storm.slots.until_each_has_run();
        storm.is_over.store(true, Ordering::Relaxed);
        for worker in workers {
            worker.join().expect("a worker does its work");
        }
        verdict::catch_up(&storm, &consumers);
        drop(attendants);
        usage.join().expect("usage is read")
    });
    let took = began.elapsed();
    let records = world.finish();
    let verdict = verdict::check(&storm, &consumers, &records);
    say(&format!(
        "{} kills of the daemon, {} of consumers, {:.0} s, and nothing was lost or doubled: {verdict:?}",
        killer.n_kills(),
        killer.n_consumers_killed(),
        took.as_secs_f64(),
    ));
    usage.check();
}

/// Writes the figures of a storm for those who run it by hand.
fn say(line: &str) {
    // stdout may be closed by then.
    drop(writeln!(std::io::stdout(), "{line}"));
}

#[test]
fn a_daemon_that_is_killed_at_random_loses_nothing_and_doubles_nothing() {
    run(Size {
        windows: 6,
        workers: 6,
        consumers: 2,
        kills: 15,
        rings: 1,
        lasts: None,
        seed: 1,
    });
}

#[test]
fn many_tasks_for_a_while_lose_nothing_and_double_nothing() {
    run(Size {
        windows: 40,
        workers: 4,
        consumers: 3,
        kills: 2,
        rings: 1,
        lasts: Some(Duration::from_secs(30)),
        seed: 2,
    });
}

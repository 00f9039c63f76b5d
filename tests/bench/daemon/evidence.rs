//! What it costs to know whether tasks that have gone quiet wait for a person, and how soon one is
//! found that begins to without a word.

use std::thread;
use std::time::Duration;

use super::Effort;
use super::figures::{Table, heading, ms, quantile, verdict};
use super::idle::{self, Paths};
use super::task::{self, Orders};
use super::watcher::{Watcher, Who};
use super::world::{SESSION, SLEEP, World};

/// How many tasks there are of each sort.
const TASKS: usize = 300;

/// The others begin to read their terminals late and say nothing.
const LATE: usize = 10;

/// What the daemon may take of a second, in milliseconds.
const TARGET: f64 = 2.0;

/// What a task shows that seems to ask.
const QUESTION: &str = "Continue? [y/N] ";

/// What the quiet tasks of a session run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// They sleep and show nothing.
    Plain,
    /// They sleep behind a shell that waits for them, as a launcher's tasks do, and show a
    /// question.
    Asking,
    /// They wake ten times a second, and show a question.
    Restless,
    /// They ask and wait.
    Waiting,
}

impl Sort {
    const ALL: [Self; 4] = [Self::Plain, Self::Asking, Self::Restless, Self::Waiting];

    fn words(self) -> &'static str {
        match self {
            Self::Plain => "sleep",
            Self::Asking => "show a question, sleep behind a shell",
            Self::Restless => "show a question, wake ten times a second",
            Self::Waiting => "wait for an answer",
        }
    }

    fn line(self, world: &World) -> String {
        let show = format!("printf %s '{QUESTION}'");
        match self {
            Self::Plain => SLEEP.to_owned(),
            Self::Asking => format!("{show}; {SLEEP}; :"),
            Self::Restless => {
                let program = std::env::current_exe().unwrap();
                let orders = world.path("restless").display().to_string();
                std::fs::write(&orders, "nap\n").unwrap();
                // Each obeys a file of its own, which says the same.
                format!(
                    "{show}; cp {orders} {orders}-$$; exec {} {} {orders}-$$",
                    program.display(),
                    task::DEAF_PART
                )
            }
            Self::Waiting => format!("{show}; read answer"),
        }
    }
}

pub(crate) fn run(effort: Effort) {
    heading("Evidence: 300 quiet tasks, processor time by the second");
    let [settle, time] = effort.pick([10, 15], [25, 60]).map(Duration::from_secs);
    let mut table = Table::new(
        "300 tasks|daemon ms/s|its clients|tmux above own|resident MB||a late reader is found, n|p50 ms|max ms",
    );
    for sort in Sort::ALL {
        let world = World::new();
        world.add_session_of(SESSION, TASKS - LATE, &sort.line(&world));
        let mut driver = world.driver();
        let start = |n| Orders::start(&world, &mut driver, &format!("late-{n}"), task::DEAF_PART);
        let mut late: Vec<(String, Orders)> = (0..LATE).map(start).collect();
        driver.leave();
        let mut place = [Paths::of(world, TASKS)];
        idle::measure_alone(&mut place, time);
        let [place] = &place;

        let watcher = [Watcher::ready(Who::Daemon, &place.world, SESSION)];
        thread::sleep(settle);
        let cost = idle::measure(Who::Daemon, &[place], &watcher, time).remove(0);
        let [watcher] = watcher;
        let found = find_late(&watcher, &mut late);
        watcher.stop();
        let at = |share| quantile(&found, share).map_or(f64::NAN, ms);
        let [watcher, clients, server] = cost.times();
        table.row([
            sort.words().to_owned(),
            watcher,
            clients,
            server,
            cost.resident(),
            verdict(cost.processes == 0.0 && cost.watcher <= TARGET).to_owned(),
            format!("{} of {LATE}", found.len()),
            format!("{:.0}", at(0.5)),
            format!("{:.0}", at(1.0)),
        ]);
    }
    table.print();
    println!(
        "\nTarget: daemon <= {TARGET} ms/s. Measured over {} s, {} s after the start.",
        time.as_secs(),
        settle.as_secs()
    );
}

/// Lets them read, at times that have nothing to do with anybody's rhythm, and returns how long it
/// took until each was reported, in order.
fn find_late(watcher: &Watcher, late: &mut [(String, Orders)]) -> Vec<Duration> {
    for (n, (_, orders)) in late.iter_mut().enumerate() {
        orders.give("read");
        thread::sleep(Duration::from_millis(400 + 137 * u64::try_from(n).unwrap()));
    }
    let told = late.iter().map(|(window, orders)| {
        let limit = Duration::from_secs(40);
        let told = watcher.wait(limit, |heard| heard.is_event("input", window))?;
        Some(told.at.duration_since(orders.done_at()).unwrap_or_default())
    });
    let mut found: Vec<Duration> = told.collect::<Vec<_>>().into_iter().flatten().collect();
    found.sort();
    found
}

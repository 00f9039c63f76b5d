//! How long after an act its event is reported.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime};

use super::Effort;
use super::figures::{Table, heading, ms, quantile, verdict};
use super::task::{self, Orders};
use super::watcher::{Heard, Watcher, Who};
use super::world::{Driver, SESSION, World};

/// An event, its targets at p50 and p95 in milliseconds, and how many times faster than the
/// poller it is to be.
const TARGETS: [(&str, f64, f64, f64); 5] = [
    ("started", 10.0, 25.0, 100.0),
    ("exited", 5.0, 50.0, 100.0),
    ("notify", 2.0, 10.0, 100.0),
    ("input", 600.0, 1000.0, 4.0),
    ("disappeared", 10.0, 25.0, 100.0),
];

/// An event that comes later than this is missing.
const LIMIT: Duration = Duration::from_secs(20);
const FLOOR_LIMIT: Duration = Duration::from_secs(1);

/// The events that tmux reports to a bare control client.
const FLOOR_EVENTS: [&str; 4] = ["started", "exited", "notify", "disappeared"];

/// Milliseconds by event; `None` for one that was never reported, or reported wrongly.
type Samples = BTreeMap<&'static str, Vec<Option<Duration>>>;

pub(crate) fn run(effort: Effort) {
    heading("Latency: from the act to the line, in milliseconds");
    for windows in [5, 100] {
        let rounds = effort.pick(10, 40);
        // Half before and half after the daemon: what the machine does meanwhile changes.
        let mut floor = measure(Who::Floor, windows, 1, rounds / 2);
        let daemon = measure(Who::Daemon, windows, 1, rounds);
        for (event, more) in measure(Who::Floor, windows, 1, rounds / 2) {
            floor.entry(event).or_default().extend(more);
        }
        // Lanes side by side, for each sample takes seconds.
        let poller = measure(Who::Poller, windows, 6, effort.pick(1, 2));
        println!("{windows} windows:\n");
        print(&daemon, &poller);
        println!();
        print_floor(&daemon, &floor);
        println!();
    }
}

/// The times of the events that were told, in order.
fn told(samples: &Samples, event: &str) -> Vec<Duration> {
    let mut told: Vec<Duration> = samples[event].iter().flatten().copied().collect();
    told.sort();
    told
}

fn at(told: &[Duration], share: f64) -> f64 {
    quantile(told, share).map_or(f64::NAN, ms)
}

fn print(daemon: &Samples, poller: &Samples) {
    let mut table = Table::new("event|n|p50|p95|max|target||poller n|p50|p95|max|ratio|target|");
    for (event, p50, p95, times) in TARGETS {
        let [ours, theirs] = [daemon, poller].map(|samples| told(samples, event));
        let count = |samples: &Samples, told: &[Duration]| {
            let n = samples[event].len();
            if told.len() == n {
                n.to_string()
            } else {
                format!("{} of {n}", told.len())
            }
        };
        let shown = |ms: f64| {
            if ms < 100.0 {
                format!("{ms:.2}")
            } else {
                format!("{ms:.0}")
            }
        };
        let ratio = at(&theirs, 0.5) / at(&ours, 0.5);
        let all_told = ours.len() == daemon[event].len();
        let met = all_told && at(&ours, 0.5) <= p50 && at(&ours, 0.95) <= p95;
        table.row([
            event.to_owned(),
            count(daemon, &ours),
            shown(at(&ours, 0.5)),
            shown(at(&ours, 0.95)),
            shown(at(&ours, 1.0)),
            format!("{p50}/{p95}"),
            verdict(met).to_owned(),
            count(poller, &theirs),
            shown(at(&theirs, 0.5)),
            shown(at(&theirs, 0.95)),
            shown(at(&theirs, 1.0)),
            format!("{ratio:.0}"),
            format!(">= {times}"),
            verdict(ratio >= times).to_owned(),
        ]);
    }
    table.print();
}

/// Prints the daemon beside a bare control client.
fn print_floor(daemon: &Samples, floor: &Samples) {
    let mut table = Table::new("event|floor n|p50|p95|daemon p50|p95|target|");
    for event in FLOOR_EVENTS {
        let [ours, least] = [daemon, floor].map(|samples| told(samples, event));
        let (p50, p95) = (at(&least, 0.5) * 2.0 + 2.0, at(&least, 0.95) * 3.0 + 10.0);
        table.row([
            event.to_owned(),
            format!("{} of {}", least.len(), floor[event].len()),
            format!("{:.2}", at(&least, 0.5)),
            format!("{:.2}", at(&least, 0.95)),
            format!("{:.2}", at(&ours, 0.5)),
            format!("{:.2}", at(&ours, 0.95)),
            format!("{p50:.1}/{p95:.1}"),
            verdict(at(&ours, 0.5) <= p50 && at(&ours, 0.95) <= p95).to_owned(),
        ]);
    }
    table.print();
}

fn measure(who: Who, windows: usize, lanes: usize, rounds: usize) -> Samples {
    let world = World::new();
    world.add_session(SESSION, windows);
    let watcher = Watcher::ready(who, &world, SESSION);
    thread::sleep(Duration::from_secs(1));
    let samples = Mutex::new(Samples::new());
    thread::scope(|scope| {
        for lane in 0..lanes {
            let (world, watcher, samples) = (&world, &watcher, &samples);
            scope.spawn(move || {
                let mut lane = Lane {
                    who,
                    world,
                    watcher,
                    samples,
                    driver: world.driver(),
                    lane,
                    n: 0,
                };
                for _ in 0..rounds {
                    lane.round();
                }
            });
        }
    });
    samples.into_inner().unwrap()
}

/// One task after another, each through its whole life.
struct Lane<'a> {
    who: Who,
    world: &'a World,
    watcher: &'a Watcher,
    samples: &'a Mutex<Samples>,
    driver: Driver,
    lane: usize,
    n: u64,
}

impl Lane<'_> {
    fn round(&mut self) {
        let (window, mut orders) = self.start();
        self.act(&window, &mut orders, "ring", "notify");
        if self.who != Who::Floor {
            self.act(&window, &mut orders, "ask", "input");
            orders.give("go on");
            self.pause();
        }
        self.act(&window, &mut orders, "3", "exited");
        self.driver.call(&format!("kill-window -t {window}"));
        self.pause();

        let (window, _orders) = self.start();
        let at = SystemTime::now();
        self.driver.call(&format!("kill-window -t {window}"));
        let told = self.told("disappeared", &window);
        self.take("disappeared", at, told.as_ref());
    }

    fn start(&mut self) -> (String, Orders) {
        self.n += 1;
        let name = format!("lane-{}-{}", self.lane, self.n);
        let orders = Orders::new(self.world.path(&name));
        let words = orders.words(task::PART);
        let at = SystemTime::now();
        let window = self.driver.new_window(SESSION, &name, &words);
        let told = self.told("started", &window);
        self.take("started", at, told.as_ref());
        self.pause();
        (window, orders)
    }

    fn act(&mut self, window: &str, orders: &mut Orders, order: &str, event: &'static str) {
        orders.give(order);
        let told = self.told(event, window);
        let told = told.filter(|told| event != "exited" || told.code() == Some(3));
        self.take(event, orders.done_at(), told.as_ref());
        self.pause();
    }

    fn told(&self, event: &str, window: &str) -> Option<Heard> {
        let limit = match self.who {
            Who::Daemon | Who::Poller => LIMIT,
            Who::Floor | Who::Listener => FLOOR_LIMIT,
        };
        self.watcher
            .wait(limit, |heard| heard.is_event(event, window))
    }

    fn take(&self, event: &'static str, at: SystemTime, told: Option<&Heard>) {
        let took = told.map(|told| told.at.duration_since(at).unwrap_or_default());
        let mut samples = self.samples.lock().unwrap();
        samples.entry(event).or_default().push(took);
    }

    /// Lets it be quiet, for a time that has nothing to do with anybody's rhythm.
    fn pause(&mut self) {
        let longest = match self.who {
            Who::Daemon | Who::Floor | Who::Listener => 250,
            Who::Poller => 2000,
        };
        let golden = 0.618_033_988_75;
        self.n += 1;
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let part = (self.n as f64 * golden + self.lane as f64 / 6.0).fract();
        thread::sleep(Duration::from_millis(30) + Duration::from_millis(longest).mul_f64(part));
    }
}

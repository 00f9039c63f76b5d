//! What watching costs while nothing happens, and while some tasks print on and on.

use std::thread;
use std::time::{Duration, Instant};

use super::Effort;
use super::figures::{Table, heading, ms, verdict};
use super::support::{pid, resident};
use super::task::{self, Orders};
use super::usage;
use super::watcher::{Watcher, Who};
use super::world::{SESSION, World};

/// How many tasks print on and on.
const CHATTY: usize = 5;

/// How long the daemon's looks have become seldom after a start: each is twice as far from the
/// last as that one was, up to a minute.
const SETTLED: Duration = Duration::from_secs(14);

/// A server with a session of so many windows.
pub(crate) struct Paths {
    pub(crate) world: World,
    windows: usize,
    server: u32,
    /// The server's own cost, milliseconds a second.
    alone: f64,
    orders: Vec<Orders>,
}

impl Paths {
    /// Returns a place for the tasks of this world's session.
    pub(crate) fn of(world: World, windows: usize) -> Self {
        Self {
            server: world.server_pid(),
            world,
            windows,
            alone: 0.0,
            orders: Vec::new(),
        }
    }

    fn new(windows: usize, chatty: usize) -> Self {
        let world = World::new();
        world.add_session(SESSION, windows - chatty);
        let mut driver = world.driver();
        let orders = (0..chatty).map(|n| {
            let name = format!("chatty-{n}");
            let (_, mut orders) = Orders::start(&world, &mut driver, &name, task::PART);
            orders.give("chat");
            orders
        });
        let orders = orders.collect();
        driver.leave();
        Self {
            orders,
            ..Self::of(world, windows)
        }
    }
}

/// Costs by the second.
#[derive(Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) watcher: f64,
    pub(crate) clients: f64,
    pub(crate) server: f64,
    pub(crate) processes: f64,
    pub(crate) resident_mb: f64,
}

impl Cost {
    /// Its times in milliseconds a second: of the watcher, its clients, and the server above its own.
    pub(crate) fn times(&self) -> [String; 3] {
        [self.watcher, self.clients, self.server].map(|cost| format!("{cost:.3}"))
    }

    pub(crate) fn resident(&self) -> String {
        format!("{:.1}", self.resident_mb)
    }

    /// The cells of a table, beside what the server costs alone.
    fn cells(&self, name: &str, alone: f64) -> Vec<String> {
        let mut cells = vec![name.to_owned(), format!("{:.2}", self.processes)];
        cells.extend(self.times());
        cells.extend([format!("{alone:.3}"), self.resident()]);
        cells
    }
}

/// Measures what the watchers cost, all of them over the same time.
pub(crate) fn measure(
    who: Who,
    places: &[&Paths],
    watchers: &[Watcher],
    time: Duration,
) -> Vec<Cost> {
    let clients: Vec<Vec<u32>> = watchers.iter().map(|w| usage::children(w.pid())).collect();
    let read = || -> Vec<[Duration; 3]> {
        let one = |((paths, watcher), clients): ((&&Paths, &Watcher), &Vec<u32>)| match who {
            Who::Daemon | Who::Listener => [
                usage::on_cpu(watcher.pid()),
                clients.iter().map(|client| usage::on_cpu(*client)).sum(),
                usage::on_cpu(paths.server),
            ],
            // Its clients are its children, each for a moment only.
            Who::Poller | Who::Floor => [
                usage::on_cpu_with_children(watcher.pid()),
                Duration::ZERO,
                usage::on_cpu(paths.server),
            ],
        };
        places.iter().zip(watchers).zip(&clients).map(one).collect()
    };
    let began = Instant::now();
    let processes = usage::processes_made();
    let before = read();
    thread::sleep(time);
    let after = read();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let processes = (usage::processes_made() - processes) as f64;
    let seconds = began.elapsed().as_secs_f64();
    before
        .iter()
        .zip(&after)
        .zip(places.iter().zip(watchers))
        .map(|((before, after), (paths, watcher))| {
            let [watcher_cpu, clients, server] =
                [0, 1, 2].map(|n| ms(after[n].saturating_sub(before[n])) / seconds);
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let resident = resident(pid(watcher.pid().into())).unwrap() as f64 / 1024.0;
            Cost {
                watcher: watcher_cpu,
                clients,
                server: server - paths.alone,
                processes: processes / seconds,
                resident_mb: resident,
            }
        })
        .collect()
}

/// Measures what the servers cost without a watcher, when they have started, over this time or less.
pub(crate) fn measure_alone(places: &mut [Paths], time: Duration) {
    thread::sleep(Duration::from_secs(3));
    let time = time.min(Duration::from_secs(20));
    let read = |places: &[Paths]| -> Vec<Duration> {
        places
            .iter()
            .map(|paths| usage::on_cpu(paths.server))
            .collect()
    };
    let began = Instant::now();
    let before = read(places);
    thread::sleep(time);
    let after = read(places);
    let seconds = began.elapsed().as_secs_f64();
    for (paths, (before, after)) in places.iter_mut().zip(before.iter().zip(&after)) {
        paths.alone = ms(after.saturating_sub(*before)) / seconds;
    }
}

/// Measures daemons at all places at once, then pollers one after the other: they would be in one
/// another's way.
fn compare(
    places: &mut [Paths],
    settle: Duration,
    daemon: Duration,
    poller: Duration,
) -> Vec<(Cost, Cost)> {
    measure_alone(places, daemon);
    let all: Vec<&Paths> = places.iter().collect();
    let start = |who, paths: &Paths| Watcher::ready(who, &paths.world, SESSION);
    let watchers: Vec<Watcher> = all.iter().map(|paths| start(Who::Daemon, paths)).collect();
    thread::sleep(settle);
    let ours = measure(Who::Daemon, &all, &watchers, daemon);
    watchers.into_iter().for_each(Watcher::stop);
    let theirs = all.iter().map(|paths| {
        let watcher = [start(Who::Poller, paths)];
        thread::sleep(Duration::from_secs(2));
        measure(Who::Poller, &[paths], &watcher, poller).remove(0)
    });
    ours.into_iter().zip(theirs.collect::<Vec<_>>()).collect()
}

fn table() -> Table {
    Table::new(
        "windows|processes/s|daemon ms/s|its clients|tmux above own|tmux own|resident MB||poller: processes/s|ms/s|tmux above own",
    )
}

fn row(table: &mut Table, paths: &Paths, ours: &Cost, theirs: &Cost, met: bool) {
    let mut row = ours.cells(&paths.windows.to_string(), paths.alone);
    row.push(verdict(met).to_owned());
    let theirs = [theirs.processes, theirs.watcher, theirs.server];
    row.extend(theirs.map(|cost| format!("{cost:.1}")));
    table.row(row);
}

pub(crate) fn quiet(effort: Effort) {
    heading("Idle: processor time by the second, everything quiet");
    let mut places: Vec<Paths> = [1, 20, 100, 300].map(|n| Paths::new(n, 0)).into();
    let [settle, daemon, poller] = effort
        .pick([4, 10, 6], [14, 60, 12])
        .map(Duration::from_secs);
    assert!(effort == Effort::Quick || settle >= SETTLED);
    let costs = compare(&mut places, settle, daemon, poller);
    let mut table = table();
    for (paths, (ours, theirs)) in places.iter().zip(&costs) {
        let met = ours.processes == 0.0
            && ours.watcher <= 1.0
            && ours.server + ours.clients <= 1.0
            && ours.resident_mb <= 15.0;
        row(&mut table, paths, ours, theirs, met);
    }
    table.print();
    println!(
        "\nTargets: no process; daemon <= 1 ms/s, tmux with its clients <= 1 ms/s above its own; \
         resident <= 15 MB. Measured over {} s, {} s after the start.",
        daemon.as_secs(),
        settle.as_secs()
    );
    let (twenty, three_hundred) = (&costs[1].0, &costs[3].0);
    let both = |cost: &Cost| cost.watcher + cost.clients + cost.server;
    println!(
        "From 20 to 300 windows, times 15: processor time times {:.1}, resident memory times {:.1}.",
        both(three_hundred) / both(twenty),
        three_hundred.resident_mb / twenty.resident_mb,
    );
}

/// What 300 tasks cost that have ended and whose windows are kept, beside 300 that run.
pub(crate) fn dead(effort: Effort) {
    heading("300 dead windows: processor time by the second, everything quiet");
    let ended = World::new();
    ended.tmux(["set-option", "-gw", "remain-on-exit", "on"]);
    ended.add_session(SESSION, 1);
    let mut driver = ended.driver();
    for n in 1..300 {
        driver.new_window(SESSION, &format!("ended-{n}"), &["true"]);
    }
    driver.leave();
    let alive = Paths::new(300, 0);
    let mut places = [Paths::of(ended, 300), alive];
    let [settle, time] = effort.pick([14, 20], [14, 60]).map(Duration::from_secs);
    measure_alone(&mut places, time);
    let all: Vec<&Paths> = places.iter().collect();
    let start = |paths: &&Paths| Watcher::ready(Who::Daemon, &paths.world, SESSION);
    let watchers: Vec<Watcher> = all.iter().map(start).collect();
    thread::sleep(settle);
    let costs = measure(Who::Daemon, &all, &watchers, time);
    let mut table = Table::new(
        "300 windows|processes/s|daemon ms/s|its clients|tmux above own|tmux own|resident MB",
    );
    for ((name, paths), cost) in ["dead", "alive"].iter().zip(&places).zip(&costs) {
        table.row(cost.cells(name, paths.alone));
    }
    table.print();
    println!(
        "\nMeasured over {} s, {} s after the start.",
        time.as_secs(),
        settle.as_secs()
    );
}

/// What it costs to receive output that nobody follows, beside a bare control client.
pub(crate) fn listening(effort: Effort) {
    heading("Listening to five tasks that print 100 lines a second each, which nobody follows");
    let mut places: Vec<Paths> = [6, 100].map(|n| Paths::new(n, CHATTY)).into();
    let [settle, time] = effort.pick([4, 10], [14, 30]).map(Duration::from_secs);
    measure_alone(&mut places, time);
    let mut table = Table::new("windows|who|itself ms/s|its clients|tmux above own|sum");
    for paths in &places {
        for (who, name) in [
            (Who::Daemon, "daemon"),
            (Who::Listener, "tmux -C, pause-after=0"),
        ] {
            let watcher = [Watcher::ready(who, &paths.world, SESSION)];
            thread::sleep(settle);
            let cost = measure(who, &[paths], &watcher, time).remove(0);
            let mut row = vec![paths.windows.to_string(), name.to_owned()];
            row.extend(cost.times());
            row.push(format!("{:.3}", cost.watcher + cost.clients + cost.server));
            table.row(row);
        }
    }
    table.print();
    println!("\nMeasured over {} s, one after the other.", time.as_secs());
}

pub(crate) fn chatty(effort: Effort) {
    heading("Five tasks print 100 lines a second each: processor time by the second");
    let mut places: Vec<Paths> = [6, 20, 100, 300].map(|n| Paths::new(n, CHATTY)).into();
    assert!(places.iter().all(|paths| paths.orders.len() == CHATTY));
    let [settle, daemon, poller] = effort
        .pick([4, 8, 6], [14, 30, 12])
        .map(Duration::from_secs);
    let costs = compare(&mut places, settle, daemon, poller);
    let mut table = table();
    for (paths, (ours, theirs)) in places.iter().zip(&costs) {
        let met = ours.processes == 0.0 && ours.watcher <= 5.0 && ours.resident_mb <= 15.0;
        row(&mut table, paths, ours, theirs, met);
    }
    table.print();
    println!("\nTargets: no process; daemon <= 5 ms/s; resident <= 15 MB.");
}

pub(crate) fn twenty(effort: Effort) {
    heading("Twenty daemons on one server, ten windows each");
    let world = World::new();
    let sessions: Vec<String> = (0..20).map(|n| format!("bench-{n}")).collect();
    for session in &sessions {
        world.add_session(session, 10);
    }
    let mut places = [Paths::of(world, 200)];
    let [settle, time, poller] = effort
        .pick([4, 10, 6], [14, 60, 12])
        .map(Duration::from_secs);
    measure_alone(&mut places, time);
    let [paths] = &places;

    let start = |who: Who, session: &String| Watcher::ready(who, &paths.world, session);
    let daemons: Vec<Watcher> = sessions
        .iter()
        .map(|name| start(Who::Daemon, name))
        .collect();
    thread::sleep(settle);
    let at: Vec<&Paths> = daemons.iter().map(|_| paths).collect();
    let ours = measure(Who::Daemon, &at, &daemons, time);
    daemons.into_iter().for_each(Watcher::stop);
    let poller_there = [start(Who::Poller, &sessions[0])];
    thread::sleep(Duration::from_secs(2));
    let theirs = measure(Who::Poller, &[paths], &poller_there, poller).remove(0);

    let mut table = Table::new(
        "who|processes/s|themselves ms/s|their clients|tmux above own|tmux own|resident MB each",
    );
    let sum = |of: fn(&Cost) -> f64| ours.iter().map(of).sum::<f64>();
    let most = ours.iter().map(|cost| cost.resident_mb).fold(0.0, f64::max);
    let all = Cost {
        watcher: sum(|cost| cost.watcher),
        clients: sum(|cost| cost.clients),
        resident_mb: most,
        ..ours[0]
    };
    table.row(all.cells("20 daemons, 10 windows each", paths.alone));
    table.row([
        "1 poller, 10 windows".to_owned(),
        format!("{:.1}", theirs.processes),
        format!("{:.1}", theirs.watcher),
        String::new(),
        format!("{:.1}", theirs.server),
        format!("{:.3}", paths.alone),
        format!("{:.1}", theirs.resident_mb),
    ]);
    table.print();
}

//! Three hosts of a fleet and two conversations: the broker, daemons and clients are killed at random,
//! and connections are cut. Each end of a task is told once, to the conversation whose task it was. In a
//! long storm, a host without a connection is reported as gone, and as back when it has one again.
//!
//! `tests/storms/fleet.sh` runs a long one.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::conversation::{Conversation, Verdict};
use super::{asked, say};
use crate::support::{Broker, Dice, World};

/// How long everything may take to be told after the storm: the longest pause before a connection, and
/// some.
const TOLD_WITHIN: Duration = Duration::from_secs(240);

/// From which length on hosts are taken away: each is known as gone after a minute.
const LONG: Duration = Duration::from_secs(120);

/// A machine's way to the broker, which can be cut.
struct Link {
    port: u16,
    open: Mutex<Vec<TcpStream>>,
    is_closed: AtomicBool,
}

impl Link {
    fn to(broker: u16) -> Arc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let link = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            open: Mutex::default(),
            is_closed: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&link);
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", broker)) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    thread::spawn(move || {
                        drop(io::copy(&mut from, &mut to));
                        drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
                    });
                }
                let mut open = of_thread.open.lock().unwrap();
                if !of_thread.is_closed.load(Ordering::Relaxed) {
                    open.extend([near, far]);
                    continue;
                }
                // It may have ended.
                drop((near.shutdown(Shutdown::Both), far.shutdown(Shutdown::Both)));
            }
        });
        link
    }

    fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            // It may have ended.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Lets nothing through until [`Self::open`].
    fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.cut();
    }

    fn open(&self) {
        self.is_closed.store(false, Ordering::Relaxed);
    }
}

/// Who is gone, as `fleet feed --follow` reports it on a machine.
struct Presence<'a> {
    world: &'a World,
    gone: Mutex<BTreeSet<String>>,
    feed: Mutex<Option<Child>>,
    is_over: AtomicBool,
}

impl<'a> Presence<'a> {
    fn of(world: &'a World) -> Self {
        Self {
            world,
            gone: Mutex::default(),
            feed: Mutex::default(),
            is_over: AtomicBool::new(false),
        }
    }

    /// Reads until [`Self::end`]. At first there is nothing to follow.
    fn read(&self) {
        while !self.is_over.load(Ordering::Relaxed) {
            let mut command = self.world.command(World::program());
            command.args(["fleet", "feed", "--follow"]);
            let feed = command.stdout(Stdio::piped()).stderr(Stdio::null());
            let mut feed = feed.spawn().unwrap();
            let stdout = feed.stdout.take().unwrap();
            *self.feed.lock().unwrap() = Some(feed);
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let record: Value = serde_json::from_str(&line).unwrap();
                let host = record["host"].as_str().unwrap_or_default().to_owned();
                let mut gone = self.gone.lock().unwrap();
                if record["kind"] == "hostGone" {
                    gone.insert(host);
                } else if record["kind"] == "hostBack" {
                    gone.remove(&host);
                }
            }
            self.kill();
        }
    }

    /// Waits until the host is listed as one that is there.
    #[track_caller]
    fn until_listed(&self, host: &str) {
        let began = Instant::now();
        let is_listed = || {
            let list = self.world.task(["fleet", "ls", "--json"]);
            let list: Value = serde_json::from_str(&list.out).unwrap_or_default();
            let hosts = list["hosts"].as_array().cloned().unwrap_or_default();
            let is_it = |one: &Value| one["host"] == host && one["goneSince"].is_null();
            hosts.iter().any(is_it)
        };
        while !is_listed() {
            assert!(began.elapsed() < TOLD_WITHIN, "{host} is not listed");
            // No record says that a host is there for the first time.
            thread::sleep(Duration::from_millis(500));
        }
    }

    /// Waits until the host is reported as gone, or as back. Returns how long that took.
    #[track_caller]
    fn until(&self, host: &str, is_gone: bool) -> Duration {
        let began = Instant::now();
        while self.gone.lock().unwrap().contains(host) != is_gone {
            assert!(began.elapsed() < TOLD_WITHIN, "{host}: gone: {}", !is_gone);
            thread::sleep(Duration::from_millis(50));
        }
        began.elapsed()
    }

    fn kill(&self) {
        if let Some(mut feed) = self.feed.lock().unwrap().take() {
            drop((feed.kill(), feed.wait()));
        }
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.kill();
    }
}

/// Lets one host after the other be without a connection, until the storm is over.
fn take_away(hosts: &[(World, Arc<Link>, &str)], presence: &Presence<'_>, is_over: &AtomicBool) {
    let mut times = [Vec::new(), Vec::new()];
    for (_, link, name) in hosts.iter().cycle() {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // One that was never there cannot go.
        presence.until_listed(name);
        link.close();
        times[0].push(presence.until(name, true));
        link.open();
        times[1].push(presence.until(name, false));
    }
    let [gone, back] = times.map(|times| {
        let most = times.iter().max().copied().unwrap_or_default();
        format!(
            "{} times, after at most {:.0} s",
            times.len(),
            most.as_secs_f64()
        )
    });
    say(&format!("reported as gone: {gone}; as back: {back}"));
}

/// What was done.
#[derive(Debug, Default)]
struct Deeds {
    ends: usize,
    brokers_killed: usize,
    daemons_killed: usize,
    links_cut: usize,
    clients_killed: usize,
}

#[test]
fn each_end_on_three_hosts_is_told_once_whatever_is_killed_or_cut() {
    let lasts = Duration::from_secs(asked("STORM_SECONDS").unwrap_or(10));
    let seed = asked("STORM_SEED").unwrap_or(3);
    let near = World::new();
    let mut broker = Broker::start(&near);
    let url = broker.url();
    let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let hosts = ["gpu1", "gpu2", "gpu3"].map(|name| (World::new(), Link::to(port), name));
    let link = Link::to(port);
    let way = |link: &Link| format!("nats://127.0.0.1:{}", link.port);
    near.join_fleet(&way(&link), "laptop", "");
    for (world, link, name) in &hosts {
        world.join_fleet(&way(link), name, "");
    }
    let clients = ["one", "two"].map(|id| Conversation::new(&near, id));
    let mut deeds = Deeds::default();
    let mut expected = [BTreeSet::new(), BTreeSet::new()];
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let presence = (lasts >= LONG).then(|| Arc::new(Presence::of(&near)));
        if let Some(presence) = &presence {
            let (of_reader, of_absences) = (Arc::clone(presence), Arc::clone(presence));
            let (hosts, is_over) = (&hosts, &is_over);
            scope.spawn(move || of_reader.read());
            scope.spawn(move || {
                take_away(hosts, &of_absences, is_over);
                of_absences.end();
            });
        }
        for (n, client) in (8..).zip(&clients) {
            scope.spawn(move || client.serve(Dice::new(seed, n)));
        }
        let mut dice = Dice::new(seed, 7);
        let mut has_daemon = [false; 3];
        while began.elapsed() < lasts {
            let n = usize::try_from(dice.below(3)).unwrap();
            let (world, link_of_host, _) = &hosts[n];
            let whose = usize::try_from(dice.below(2)).unwrap();
            match dice.below(100) {
                0..3 => {
                    deeds.brokers_killed += 1;
                    broker.kill();
                    thread::sleep(Duration::from_millis(dice.below(1000)));
                    broker.start_again();
                }
                3..6 if has_daemon[n] => {
                    deeds.daemons_killed += 1;
                    world.kill_daemon();
                    has_daemon[n] = false;
                }
                6..10 => {
                    deeds.links_cut += 1;
                    [link_of_host, &link][whose].cut();
                }
                10..14 => {
                    deeds.clients_killed += 1;
                    clients[whose].kill();
                }
                14..17 if has_daemon[n] => drop(world.task(["prune"])),
                _ => {
                    let name = format!("t{}", deeds.ends);
                    deeds.ends += 1;
                    let owner = format!("opencode:{}", clients[whose].id);
                    let run = ["run", &name, "--", "sh", "-c", "exit 3"];
                    world.task_as(&owner, run).ok();
                    has_daemon[n] = true;
                    expected[whose].insert(name);
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for (world, ..) in &hosts {
            world.task(["daemon", "--detach"]);
        }
        let over = Instant::now();
        let is_told =
            |(client, expected): (&Conversation, &BTreeSet<String>)| client.told() == *expected;
        while !clients.iter().zip(&expected).all(is_told) && over.elapsed() < TOLD_WITHIN {
            thread::sleep(Duration::from_millis(100));
        }
        say(&format!(
            "{deeds:?}; seed {seed}, {:.0} s, and all was told {:.0} s later",
            began.elapsed().as_secs_f64(),
            over.elapsed().as_secs_f64()
        ));
        clients.iter().for_each(Conversation::end);
    });
    let mut verdict = Verdict::default();
    for (client, expected) in clients.iter().zip(&expected) {
        client.judge(expected, |name| expected.contains(name), &mut verdict);
    }
    verdict.check();
}

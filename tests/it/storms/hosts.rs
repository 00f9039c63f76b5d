//! Three machines behind ssh and two conversations: ssh, the programs that answer it, daemons and clients
//! are killed at random, and networks are cut and slowed. Each end of a task is told once, to the
//! conversation whose task it was, and in the order of the machine's feed.
//!
//! Each task writes its name into a journal before it ends: a launch that is killed may have started it.
//!
//! `tests/storms/hosts.sh` runs a long one in network namespaces; the suite, a short one without.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::conversation::{Conversation, Verdict};
use super::network::Network;
use super::{asked, say};
use crate::support::{Dice, Far, Place, World, machines_in};

const HOSTS: [&str; 3] = ["gpu1", "gpu2", "gpu3"];

/// Another name of the first machine.
const ALIAS: &str = "big";

/// How long everything may take to be told after the storm: the longest pause before a connection, and
/// some.
const TOLD_WITHIN: Duration = Duration::from_secs(240);

/// The longest time for which a network is cut or slow, or ssh is stopped, and the one that is longer than
/// ssh waits for an answer.
const SHORT: u64 = 4000;
const LONG: Duration = Duration::from_secs(60);

/// A long time is as rare as one in this many.
const LONG_IN: u64 = 15;

struct HostStorm<'a> {
    near: &'a World,
    far: [Far; HOSTS.len()],
    networks: Vec<Network>,
    conversations: [Conversation<'a>; 2],
    lasts: Duration,
    seed: u64,
    is_over: AtomicBool,
    n_launched: AtomicUsize,
    /// How often what was done.
    deeds: Mutex<BTreeMap<&'static str, usize>>,
    /// How often a launch failed, by what it said.
    failures: Mutex<BTreeMap<String, usize>>,
}

impl HostStorm<'_> {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn journal(&self, host: usize, conversation: &str) -> PathBuf {
        let world = &self.far[host].world;
        world.path(&format!("journal-{conversation}"))
    }

    /// Starts tasks there. A launch fails if something is killed meanwhile.
    fn work(&self, host: usize, conversation: &str) {
        let mut dice = Dice::new(self.seed, 100 + host as u64);
        let journal = self.journal(host, conversation);
        let journal = journal.display();
        for n in 0.. {
            if self.is_over() {
                return;
            }
            let pause = dice.below(300);
            let name = format!("{conversation}-{}-{n}", HOSTS[host]);
            let called = match dice.below(4) {
                0 if host == 0 => ALIAS,
                _ => HOSTS[host],
            };
            let line = format!("sleep 0.{pause:03}; echo {name} >>{journal}; exit 3");
            let mut command = self.near.command(World::program());
            command
                .args(["--host", called, "run", &name, "--", &line])
                .env("TMUX_TASK_OWNER", format!("opencode:{conversation}"));
            let output = command.output().unwrap();
            self.n_launched.fetch_add(1, Ordering::Relaxed);
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                let said = said.lines().next().unwrap_or_default();
                let said = said.replace(&name, "NAME").replace(called, "HOST");
                *self.failures.lock().unwrap().entry(said).or_default() += 1;
            }
        }
    }

    /// Kills or cuts something of a machine, again and again.
    fn rage(&self, host: usize) {
        let mut dice = Dice::new(self.seed, 7 + host as u64);
        let far = &self.far[host];
        let network = self.networks.get(host);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(dice.below(3000)));
            let is_long = dice.below(LONG_IN) == 0 && self.lasts > 3 * LONG;
            let time = Duration::from_millis(dice.below(SHORT));
            let time = if is_long { LONG } else { time };
            let deed = match (dice.below(100), network) {
                (0..25, _) => is_signalled(far.ssh(), Signal::KILL).then_some("ssh killed"),
                (25..45, _) => is_signalled(far.call(), Signal::KILL).then_some("calls killed"),
                (45..60, _) => far.world.kill_daemons().then_some("daemons killed"),
                (60..75, Some(network)) => {
                    network.cut(time);
                    Some("networks cut")
                }
                (75..85, Some(network)) => {
                    network.slow(time);
                    Some("networks slowed")
                }
                (60..92, _) => {
                    let ssh = far.ssh();
                    let is_stopped = is_signalled(ssh, Signal::STOP);
                    thread::sleep(time);
                    is_signalled(ssh, Signal::CONT);
                    is_stopped.then_some("ssh stopped")
                }
                _ => {
                    far.world.task(["daemon", "--detach"]);
                    far.world.task(["prune"]);
                    None
                }
            };
            if let Some(deed) = deed {
                self.count(deed);
            }
        }
    }

    /// Kills a conversation's client, again and again.
    fn kill_clients(&self, conversation: &Conversation) {
        let mut dice = Dice::new(self.seed, 50 + conversation.id.len() as u64);
        while !self.is_over() {
            thread::sleep(Duration::from_millis(1000 + dice.below(5000)));
            conversation.kill();
            self.count("clients killed");
        }
    }

    fn count(&self, deed: &'static str) {
        *self.deeds.lock().unwrap().entry(deed).or_default() += 1;
    }

    /// Returns the tasks of a conversation that have ended.
    fn ended(&self, conversation: &str) -> BTreeSet<String> {
        let journals = (0..HOSTS.len()).map(|host| self.journal(host, conversation));
        let texts = journals.map(|path| fs::read_to_string(path).unwrap_or_default());
        let names = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
        names.collect()
    }

    /// Whether it is noted that the conversations have no tasks any more.
    fn is_forgotten(&self) -> bool {
        fs::read_dir(self.near.path("state/hosts/to")).map_or(0, Iterator::count) == 0
    }

    fn until(&self, is_true: impl Fn() -> bool) -> bool {
        let over = Instant::now();
        while !is_true() {
            if over.elapsed() > TOLD_WITHIN {
                return false;
            }
            thread::sleep(Duration::from_millis(100));
        }
        true
    }

    /// Checks that the ends of a machine were told in the order of its feed.
    #[track_caller]
    fn check_order(&self, host: usize, conversation: &Conversation) {
        let records = self.far[host].world.records();
        let owner = format!("opencode:{}", conversation.id);
        let of_feed: Vec<String> = records
            .iter()
            .filter(|record| record["type"] == "exited" && record["task"]["owner"] == *owner)
            .map(|record| record["task"]["windowName"].as_str().unwrap().to_owned())
            .collect();
        let names = [&[HOSTS[host]][..], if host == 0 { &[ALIAS] } else { &[] }].concat();
        let told = conversation.order(&names);
        let in_order: Vec<String> = of_feed
            .into_iter()
            .filter(|name| told.contains(name))
            .collect();
        assert_eq!(told, in_order, "order on {}", HOSTS[host]);
    }
}

/// Sends a signal, unless the process has ended.
fn is_signalled(process: Option<Pid>, signal: Signal) -> bool {
    process.is_some_and(|pid| kill_process(pid, signal).is_ok())
}

#[test]
fn each_end_on_machines_behind_ssh_is_told_once_whatever_is_killed_or_cut() {
    let mut near = World::new();
    let networks: Option<Vec<Network>> =
        asked("STORM_NETWORKS").and_then(|_| (0..HOSTS.len()).map(Network::new).collect());
    let networks = networks.unwrap_or_default();
    if networks.is_empty() {
        say("without network namespaces: no network is cut or slowed");
    }
    let mut places = networks.iter().map(Network::place);
    let places = HOSTS.map(|name| (name, places.next().unwrap_or_else(Place::here)));
    let far = machines_in(&mut near, places);
    far[2].share_connection();
    let mut config = File::options()
        .append(true)
        .open(near.path("config.toml"))
        .unwrap();
    let program = World::program().display();
    let more = format!(
        "{ALIAS} = {{ ssh = '{}', program = '{program}' }}\n[agents]\nmax-per-minute = 10000\n",
        HOSTS[0]
    );
    config.write_all(more.as_bytes()).unwrap();
    let storm = HostStorm {
        near: &near,
        far,
        networks,
        conversations: ["one", "two"].map(|id| Conversation::new(&near, id)),
        lasts: Duration::from_secs(asked("STORM_SECONDS").unwrap_or(10)),
        seed: asked("STORM_SEED").unwrap_or(3),
        is_over: AtomicBool::new(false),
        n_launched: AtomicUsize::new(0),
        deeds: Mutex::default(),
        failures: Mutex::default(),
    };
    let began = Instant::now();
    let (ended, is_forgotten) = thread::scope(|scope| {
        let mut workers = Vec::new();
        for (n, conversation) in (60..).zip(&storm.conversations) {
            let dice = Dice::new(storm.seed, n);
            scope.spawn(|| conversation.serve(dice));
            workers.push(scope.spawn(|| storm.kill_clients(conversation)));
            for host in 0..HOSTS.len() {
                let storm = &storm;
                workers.push(scope.spawn(move || storm.work(host, conversation.id)));
            }
        }
        for host in 0..HOSTS.len() {
            let storm = &storm;
            workers.push(scope.spawn(move || storm.rage(host)));
        }
        thread::sleep(storm.lasts);
        storm.is_over.store(true, Ordering::Relaxed);
        let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        for far in &storm.far {
            far.world.task(["daemon", "--detach"]);
        }
        let over = Instant::now();
        // The last tasks write their journals.
        let is_told = || {
            let of = |one: &Conversation| storm.ended(one.id).is_subset(&one.told());
            storm.conversations.iter().all(of)
        };
        let is_forgotten = storm.until(|| is_told() && storm.is_forgotten());
        let ended = storm
            .conversations
            .each_ref()
            .map(|one| storm.ended(one.id));
        say(&format!(
            "{} ends of {} launches; {:?}; seed {}, {:.0} s, and all was told {:.0} s later",
            ended.iter().map(BTreeSet::len).sum::<usize>(),
            storm.n_launched.load(Ordering::Relaxed),
            storm.deeds.lock().unwrap(),
            storm.seed,
            began.elapsed().as_secs_f64(),
            over.elapsed().as_secs_f64()
        ));
        for (said, times) in &*storm.failures.lock().unwrap() {
            say(&format!("{times} launches: {said}"));
        }
        storm.conversations.iter().for_each(Conversation::end);
        for worker in joined {
            worker.expect("a thread does its work");
        }
        (ended, is_forgotten)
    });
    let mut verdict = Verdict::default();
    for (conversation, ended) in storm.conversations.iter().zip(&ended) {
        let is_own = |name: &str| name.starts_with(conversation.id);
        conversation.judge(ended, is_own, &mut verdict);
        for host in 0..HOSTS.len() {
            storm.check_order(host, conversation);
        }
    }
    verdict.check();
    assert!(is_forgotten, "the conversations are not forgotten");
}

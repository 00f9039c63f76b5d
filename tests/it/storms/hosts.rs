//! A storm over several machines: two conversations start tasks on each of them, while connections, links,
//! the programs that serve them, daemons and the conversations' clients are killed, and networks are cut.
//! Each task writes its name into a journal before it ends. Afterwards each conversation has to have heard of
//! each of its tasks in the journals once.
//!
//! The suite runs a short one on the loopback. `tests/storms/hosts.sh` runs long ones in network namespaces.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{Dice, say};
use crate::support::{Far, Output, Place, World, machines_in};

const HOSTS: [&str; 3] = ["gpu1", "gpu2", "gpu3"];
const CONVERSATIONS: [&str; 2] = ["one", "two"];

/// How many tasks are started on a machine between two removals of ended ones.
const PRUNED_AFTER: usize = 40;

/// A network namespace with a link of 0.5 ms round trip, which can be cut.
struct Network {
    name: String,
    device: String,
    address: String,
}

impl Network {
    fn new(number: usize) -> Self {
        let pid = std::process::id();
        let network = Self {
            name: format!("tt-{pid}-{number}"),
            device: format!("tt{pid}x{number}"),
            address: format!("10.213.{number}.2"),
        };
        let (name, device, address) = (&network.name, &network.device, &network.address);
        let near = format!("10.213.{number}.1/24");
        let far = format!("{address}/24");
        for line in [
            format!("netns add {name}"),
            format!("link add {device} type veth peer name far netns {name}"),
            format!("addr add {near} dev {device}"),
            format!("link set {device} up"),
            format!("-n {name} addr add {far} dev far"),
            format!("-n {name} link set far up"),
            format!("-n {name} link set lo up"),
        ] {
            run_words("ip", &line);
        }
        let delay = "root netem delay 0.25ms";
        run_words("tc", &format!("qdisc add dev {device} {delay}"));
        run_words("tc", &format!("-n {name} qdisc add dev far {delay}"));
        network
    }

    fn place(&self) -> Place {
        let enter = format!("ip netns exec {}", self.name);
        Place {
            address: self.address.clone(),
            enter: enter.split(' ').map(str::to_owned).collect(),
        }
    }

    /// Loses everything for a time.
    fn cut(&self, time: Duration) {
        let change = |what: &str| {
            let line = format!("qdisc change dev {} root netem {what}", self.device);
            run_words("tc", &line);
        };
        change("loss 100%");
        thread::sleep(time);
        change("delay 0.25ms");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for line in [
            format!("link del {}", self.device),
            format!("netns del {}", self.name),
        ] {
            drop(Command::new("ip").args(line.split(' ')).status());
        }
    }
}

#[track_caller]
fn run_words(program: &str, words: &str) {
    let mut command = Command::new(program);
    command.args(words.split(' '));
    Output::of(command).ok();
}

/// How much a storm does.
struct Size {
    /// How many tasks each conversation starts on each machine.
    tasks: usize,
    /// The pause between two kills.
    pause: Duration,
    seed: u64,
    /// Whether each machine is in a network namespace of its own.
    has_networks: bool,
}

/// What everybody in a storm shares.
struct HostStorm {
    near: World,
    far: [Far; HOSTS.len()],
    networks: Vec<Network>,
    size: Size,
    n_started: [AtomicUsize; HOSTS.len()],
    n_kills: AtomicUsize,
    is_over: AtomicBool,
}

/// What a conversation has heard: how often of which task, and where.
type Heard = BTreeMap<(String, String), usize>;

impl HostStorm {
    fn new(size: Size) -> Self {
        let mut near = World::new();
        let networks: Vec<Network> = (0..HOSTS.len())
            .filter(|_| size.has_networks)
            .map(Network::new)
            .collect();
        let mut number = 0;
        let places = HOSTS.map(|name| {
            let place = networks
                .get(number)
                .map_or_else(Place::here, Network::place);
            number += 1;
            (name, place)
        });
        let far = machines_in(&mut near, places);
        let config = near.path("config.toml");
        let mut text = fs::read_to_string(&config).unwrap();
        text.push_str("[agents]\nmax-per-minute = 10000\n");
        fs::write(&config, text).unwrap();
        Self {
            near,
            far,
            networks,
            size,
            n_started: Default::default(),
            n_kills: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    fn journal(&self, host: usize, conversation: &str) -> PathBuf {
        self.far[host]
            .world
            .path(&format!("journal-{conversation}"))
    }

    /// Starts a task there, unless something is killed meanwhile; its journal says whether it ran.
    fn start(&self, host: usize, conversation: &str, name: &str, line: &str) -> bool {
        let journal = self.journal(host, conversation);
        let mut command = self.near.command(World::program());
        command
            .args(["--host", HOSTS[host], "run", name, "--"])
            .arg(format!(
                "{line}; echo {name} >>{}; exit 3",
                journal.display()
            ))
            .env("TMUX_TASK_OWNER", format!("opencode:{conversation}"));
        Output::of(command).code == 0
    }

    fn work(&self, host: usize, conversation: &str) {
        let mut dice = Dice::new(self.size.seed, 100 + host as u64);
        for n in 0..self.size.tasks {
            let pause = dice.below(30);
            let name = format!("{conversation}{n}");
            self.start(host, conversation, &name, &format!("sleep 0.0{pause:02}"));
            let n_started = self.n_started[host].fetch_add(1, Ordering::Relaxed);
            if n_started % PRUNED_AFTER == PRUNED_AFTER - 1 {
                // It may have no daemon at this moment.
                self.far[host].world.task(["prune"]);
            }
        }
    }

    /// Kills something, again and again.
    fn kill(&self) {
        let mut dice = Dice::new(self.size.seed, 7);
        while !self.is_over.load(Ordering::Relaxed) {
            thread::sleep(self.size.pause);
            let host = dice.below(HOSTS.len() as u64) as usize;
            let far = &self.far[host];
            match dice.below(5) {
                0 => _ = far.try_kill_ssh(),
                1 => _ = far.try_kill_link(),
                2 => _ = far.try_kill_serve(),
                3 => {
                    let status = far.world.task(["daemon", "status", "--json"]);
                    let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
                    if let Some(number) = status["pid"].as_i64() {
                        drop(kill_process(crate::support::pid(number), Signal::KILL));
                    }
                }
                _ => match self.networks.get(host) {
                    Some(network) => network.cut(Duration::from_millis(200 + dice.below(4000))),
                    None => continue,
                },
            }
            self.n_kills.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Hears what there is to hear until the last task of each machine is heard of; is killed now and then,
    /// before and after it has confirmed a message.
    fn hear(&self, conversation: &str) -> Heard {
        let mut dice = Dice::new(self.size.seed, 50 + conversation.len() as u64);
        let (mut heard, mut confirmed) = (Heard::new(), Vec::new());
        let mut client = self.near.adapter(conversation);
        let mut n_open = HOSTS.len();
        while n_open > 0 {
            let told = loop {
                // The limit is that of one line.
                let line = client.record();
                if line["kind"] == "message" {
                    break line;
                }
            };
            let fate = dice.below(40);
            if fate == 0 {
                client.signal(Signal::KILL);
                client.wait();
                client = self.near.adapter(conversation);
                continue;
            }
            let receipt = json!({"received": {"to": told["to"], "id": told["id"]}});
            client.write(&format!("{receipt}\n"));
            // A receipt that was not read before a kill.
            if !confirmed.contains(&told["id"]) {
                confirmed.push(told["id"].clone());
                let details = &told["message"]["details"];
                for event in details["events"].as_array().unwrap() {
                    if event["type"] != "exited" {
                        continue;
                    }
                    let name = event["task"]["windowName"].as_str().unwrap().to_owned();
                    let host = details["host"].as_str().unwrap().to_owned();
                    n_open -= usize::from(name.starts_with("last"));
                    *heard.entry((host, name)).or_default() += 1;
                }
            }
            if fate == 1 {
                client.signal(Signal::KILL);
                client.wait();
                client = self.near.adapter(conversation);
            }
        }
        heard
    }

    /// Returns a line with the figures; fails if anything was lost or doubled.
    #[track_caller]
    fn check(&self, heard: &[Heard], took: Duration) -> String {
        let (mut n_ends, mut wrong) = (0, Vec::new());
        for (conversation, heard) in CONVERSATIONS.iter().zip(heard) {
            for (host, name) in HOSTS.iter().enumerate() {
                let journal = fs::read_to_string(self.journal(host, conversation)).unwrap();
                for task in journal.lines() {
                    n_ends += 1;
                    let times = heard.get(&((*name).to_owned(), task.to_owned()));
                    match times.copied().unwrap_or(0) {
                        1 => {}
                        times => wrong.push(format!("{name} {task}: heard of {times} times")),
                    }
                }
            }
            let n_heard = heard.len();
            say(&format!("{conversation} has heard of {n_heard} tasks"));
        }
        assert!(wrong.is_empty(), "seed {}: {wrong:?}", self.size.seed);
        let n_kills = self.n_kills.load(Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        format!(
            "{n_ends} ends, {n_kills} kills and cuts, {seconds:.0} s: each end was heard of once"
        )
    }
}

fn run(size: Size) {
    let storm = HostStorm::new(size);
    let began = Instant::now();
    let heard = thread::scope(|scope| {
        let hearers = CONVERSATIONS.map(|conversation| scope.spawn(|| storm.hear(conversation)));
        let workers: Vec<_> = CONVERSATIONS
            .iter()
            .flat_map(|conversation| (0..HOSTS.len()).map(move |host| (host, conversation)))
            .map(|(host, conversation)| {
                let storm = &storm;
                scope.spawn(move || storm.work(host, conversation))
            })
            .collect();
        let killer = scope.spawn(|| storm.kill());
        for worker in workers {
            worker.join().expect("a worker does its work");
        }
        storm.is_over.store(true, Ordering::Relaxed);
        killer.join().expect("the killer kills");
        for conversation in CONVERSATIONS {
            for host in 0..HOSTS.len() {
                let name = format!("last-{conversation}");
                assert!(storm.start(host, conversation, &name, "true"));
            }
        }
        hearers.map(|hearer| hearer.join().expect("a client hears"))
    });
    say(&storm.check(&heard, began.elapsed()));
}

#[test]
fn each_end_on_several_machines_is_heard_of_once() {
    let asked = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(
            text.parse::<u64>()
                .unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        )
    };
    let tasks = asked("STORM_TASKS").unwrap_or(8);
    run(Size {
        tasks: usize::try_from(tasks).unwrap(),
        pause: Duration::from_millis(asked("STORM_PAUSE_MS").unwrap_or(300)),
        seed: asked("STORM_SEED").unwrap_or(3),
        has_networks: asked("STORM_NETWORKS").is_some(),
    });
}

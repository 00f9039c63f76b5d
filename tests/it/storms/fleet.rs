//! Three hosts of a fleet and two conversations: the broker, daemons and clients are killed at random,
//! and connections are cut. Each end of a task is told once, to the conversation whose task it was.
//!
//! `tests/storms/fleet.sh` runs a long one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::{Dice, say};
use crate::support::{Broker, Output, World, pid};

/// How long everything may take to be told after the storm: the longest pause before a connection, and
/// some.
const TOLD_WITHIN: Duration = Duration::from_secs(240);

/// A machine's way to the broker, which can be cut.
struct Link {
    port: u16,
    open: Mutex<Vec<TcpStream>>,
}

impl Link {
    fn to(broker: u16) -> Arc<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let link = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            open: Mutex::default(),
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
                open.extend([near, far]);
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
}

/// A conversation's client: it confirms each message, and is killed and started again.
struct Client<'a> {
    world: &'a World,
    id: &'static str,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// The messages about a task, by its name, each with the number of its adapter.
    told: BTreeMap<String, BTreeMap<String, usize>>,
    n_adapters: usize,
    known: BTreeSet<String>,
    /// How many events of other types were told.
    others: BTreeMap<String, usize>,
    /// Messages that came as new ones twice.
    doubled: Vec<Value>,
    adapter: Option<i64>,
    is_over: bool,
}

impl Client<'_> {
    fn heard(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        while !self.heard().is_over {
            let mut command = self.world.command(World::program());
            command.args(["agent", "opencode", "--id", self.id]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut adapter = command.stderr(Stdio::null()).spawn().unwrap();
            {
                let mut heard = self.heard();
                heard.adapter = Some(adapter.id().into());
                heard.n_adapters += 1;
                if heard.is_over {
                    drop(adapter.kill());
                }
            }
            let mut stdin = adapter.stdin.take().unwrap();
            for line in BufReader::new(adapter.stdout.take().unwrap()).lines() {
                let Ok(line) = line else { break };
                let Ok(message) = serde_json::from_str::<Value>(&line) else {
                    break;
                };
                if message["kind"] == "message" {
                    self.hear(&message);
                    let receipt = json!({"received": {"to": message["to"], "id": message["id"]}});
                    if writeln!(stdin, "{receipt}").is_err() {
                        break;
                    }
                }
            }
            self.heard().adapter = None;
            drop(adapter.kill());
            drop(adapter.wait());
        }
    }

    fn hear(&self, message: &Value) {
        let mut heard = self.heard();
        let id = message["id"].to_string();
        if !heard.known.insert(id.clone()) && message["isNew"] == true {
            heard.doubled.push(message.clone());
        }
        let events = message["message"]["details"]["events"].as_array();
        for event in events.into_iter().flatten() {
            let what = event["type"].as_str().unwrap_or_default();
            if what != "exited" {
                *heard.others.entry(what.to_owned()).or_default() += 1;
                continue;
            }
            let name = event["task"]["windowName"].as_str().unwrap_or_default();
            let by = heard.n_adapters;
            let told = heard.told.entry(name.to_owned()).or_default();
            told.entry(id.clone()).or_insert(by);
        }
    }

    fn kill(&self) {
        if let Some(adapter) = self.heard().adapter {
            // It may have ended.
            kill_process(pid(adapter), Signal::KILL).ok();
        }
    }
}

/// What was done.
#[derive(Default)]
struct Deeds {
    ends: usize,
    brokers: usize,
    daemons: usize,
    links: usize,
    clients: usize,
}

impl fmt::Display for Deeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            ends,
            brokers,
            daemons,
            links,
            clients,
        } = self;
        write!(
            f,
            "{ends} ends; killed: broker {brokers}, daemons {daemons}, clients {clients}; links cut: {links}"
        )
    }
}

fn join(world: &World, link: &Link, host: &str) {
    let folder = world.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    let port = link.port;
    let text = format!("notices = []\n[fleet]\nurl = 'nats://127.0.0.1:{port}'\nhost = '{host}'\n");
    fs::write(folder.join("config.toml"), text).unwrap();
}

fn asked(name: &str, default: u64) -> u64 {
    let asked = std::env::var(name).ok();
    asked.map_or(default, |text| text.parse().unwrap())
}

#[test]
fn each_end_on_three_hosts_is_told_once_whatever_is_killed_or_cut() {
    let lasts = Duration::from_secs(asked("STORM_SECONDS", 10));
    let seed = asked("STORM_SEED", 3);
    let near = World::new();
    let mut broker = Broker::start(&near);
    let url = broker.url();
    let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
    let hosts = ["gpu1", "gpu2", "gpu3"].map(|name| (World::new(), Link::to(port), name));
    let link = Link::to(port);
    join(&near, &link, "laptop");
    for (world, link, name) in &hosts {
        join(world, link, name);
    }
    let clients = ["one", "two"].map(|id| Client {
        world: &near,
        id,
        heard: Mutex::default(),
    });
    let mut deeds = Deeds::default();
    let mut expected = [BTreeSet::new(), BTreeSet::new()];
    let began = Instant::now();
    thread::scope(|scope| {
        for client in &clients {
            scope.spawn(|| client.serve());
        }
        let mut dice = Dice::new(seed, 7);
        let mut has_daemon = [false; 3];
        while began.elapsed() < lasts {
            let n = usize::try_from(dice.below(3)).unwrap();
            let (world, link_of_host, _) = &hosts[n];
            let whose = usize::try_from(dice.below(2)).unwrap();
            match dice.below(100) {
                0..3 => {
                    deeds.brokers += 1;
                    broker.kill();
                    thread::sleep(Duration::from_millis(dice.below(1000)));
                    broker.start_again();
                }
                3..6 if has_daemon[n] => {
                    deeds.daemons += 1;
                    world.kill_daemon();
                    has_daemon[n] = false;
                }
                6..10 => {
                    deeds.links += 1;
                    [link_of_host, &link][whose].cut();
                }
                10..14 => {
                    deeds.clients += 1;
                    clients[whose].kill();
                }
                14..17 if has_daemon[n] => drop(world.task(["prune"])),
                _ => {
                    let name = format!("t{}", deeds.ends);
                    deeds.ends += 1;
                    let mut command = world.command(World::program());
                    command.env("TMUX_TASK_OWNER", format!("opencode:{}", clients[whose].id));
                    command.args(["run", &name, "--", "sh", "-c", "exit 3"]);
                    Output::of(command).ok();
                    has_daemon[n] = true;
                    expected[whose].insert(name);
                }
            }
        }
        for (world, ..) in &hosts {
            world.task(["daemon", "--detach"]);
        }
        let over = Instant::now();
        let is_told = |(client, expected): (&Client, &BTreeSet<String>)| {
            client.heard().told.keys().cloned().collect::<BTreeSet<_>>() == *expected
        };
        while !clients.iter().zip(&expected).all(is_told) && over.elapsed() < TOLD_WITHIN {
            thread::sleep(Duration::from_millis(100));
        }
        say(&format!(
            "{deeds}; seed {seed}, {:.0} s, and all was told {:.0} s later",
            began.elapsed().as_secs_f64(),
            over.elapsed().as_secs_f64()
        ));
        for client in &clients {
            client.heard().is_over = true;
            client.kill();
        }
    });
    let (mut lost, mut strange, mut doubled) = (Vec::new(), Vec::new(), Vec::new());
    // One that an adapter handed over and did not see confirmed before it was killed: the next one may
    // hand it over together with later ones.
    let mut again = 0;
    for (client, expected) in clients.iter().zip(&expected) {
        let heard = client.heard();
        let told = heard.told.keys().cloned().collect::<BTreeSet<_>>();
        lost.extend(expected.difference(&told).cloned());
        strange.extend(told.difference(expected).cloned());
        let twice = heard.told.iter().filter(|(_, by)| by.len() > 1);
        for (name, by) in twice {
            let adapters: BTreeSet<_> = by.values().collect();
            if adapters.len() == by.len() {
                again += 1;
            } else {
                doubled.push(format!("{name} {by:?}"));
            }
        }
        doubled.extend(heard.doubled.iter().map(ToString::to_string));
        say(&format!(
            "told {} besides ends: {:?}",
            client.id, heard.others
        ));
    }
    say(&format!(
        "lost: {}, doubled: {}, to another: {}; again after a client was killed: {again}",
        lost.len(),
        doubled.len(),
        strange.len()
    ));
    let faults = (lost, doubled, strange);
    assert_eq!(faults, Default::default(), "lost, doubled, to another");
}

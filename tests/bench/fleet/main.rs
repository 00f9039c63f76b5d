//! Many hosts against one broker: each publishes records, states and its presence as a daemon does.
//!
//! `cargo bench --features fleet --bench fleet -- [hosts=1000] [tasks=50] [rate=500] [seconds=60] [outage=600]`
//!
//! First it measures how long after a record is on a real host's disk a consumer has it; with `hosts=0`
//! that is all.
//!
//! It starts a private nats-server (`$NATS_SERVER`, else the one that tests/run.sh installs), and
//! fails if a record is lost or doubled, never because of timing. `docs/design/performance.md` has figures.
#![allow(missing_docs, reason = "a bench has no users")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench that cannot go on fails, and it prints its figures"
)]

mod broker;
mod host;
mod latency;
mod reader;
#[allow(
    dead_code,
    unused_imports,
    reason = "the live tests use the rest of it"
)]
#[path = "../../it/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use reader::Received;
use support::{Broker, FleetHosts, World};
use tokio::runtime::{Builder, Runtime};

/// What is simulated.
#[derive(Debug, Clone, Copy)]
struct Size {
    hosts: usize,
    tasks: usize,
    /// Records a second, of all hosts together.
    rate: u64,
    seconds: u64,
    /// How long the broker is away, in seconds.
    outage: u64,
}

/// What all threads share.
struct Shared {
    size: Size,
    began: Instant,
    /// How many records were made.
    made: AtomicU64,
    /// Whether no more are made.
    is_over: AtomicU64,
    /// How many hosts have a connection.
    connected: AtomicU64,
}

fn main() {
    let mut size = Size {
        hosts: 1000,
        tasks: 50,
        rate: 500,
        seconds: 60,
        outage: 600,
    };
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        let (name, value) = word.split_once('=').expect("NAME=NUMBER");
        let value: u64 = value.parse().expect("NAME=NUMBER");
        let count = usize::try_from(value).unwrap();
        match name {
            "hosts" => size.hosts = count,
            "tasks" => size.tasks = count,
            "rate" => size.rate = value,
            "seconds" => size.seconds = value,
            "outage" => size.outage = value,
            other => panic!("there is no {other}"),
        }
    }
    let world = World::new();
    let mut server = Broker::start(&world);
    println!("nats-server: {}", server.version());
    println!("{size:?}");
    drop(FleetHosts::of(&server));
    latency::run(&server);
    if size.hosts == 0 {
        return;
    }
    let shared = Arc::new(Shared {
        size,
        began: Instant::now(),
        made: AtomicU64::new(0),
        is_over: AtomicU64::new(0),
        connected: AtomicU64::new(0),
    });
    let received = Arc::new(Received::default());
    let reader = {
        let (shared, received, url) = (Arc::clone(&shared), Arc::clone(&received), server.url());
        thread::spawn(move || reader::read(&url, &shared, &received))
    };
    let hosts = {
        let (shared, url) = (Arc::clone(&shared), server.url());
        thread::spawn(move || host::run_all(&url, &shared))
    };
    let all = u64::try_from(size.hosts).unwrap();
    until("all hosts have published their tasks", || {
        shared.connected.load(Ordering::Relaxed) == all
    });
    println!(
        "hosts connected, states written after: {:.1?}",
        shared.began.elapsed()
    );
    // What the start has delayed is not counted.
    thread::sleep(Duration::from_secs(2));
    received.forget();
    let (from, disk) = (Instant::now(), server.disk());
    let (cpu, made) = (server.cpu(), shared.made.load(Ordering::Relaxed));
    thread::sleep(Duration::from_secs(size.seconds));
    let took = from.elapsed().as_secs_f64();
    let made = shared.made.load(Ordering::Relaxed) - made;
    let latency = received.take();
    println!("\nsteady, {took:.0} s");
    println!("  records a second:       {:.0}", made as f64 / took);
    println!("  record to durable consumer: {latency}");
    println!(
        "  broker: {:.0} MB memory, {:.0} ms/s",
        server.memory_mb(),
        (server.cpu() - cpu) * 1000.0 / took
    );
    let day = (server.disk() - disk) as f64 / took * 86_400.0;
    println!(
        "  disk: {:.1} GB a day at this rate ({:.0} bytes a record)",
        day / 1e9,
        (server.disk() - disk) as f64 / made as f64
    );
    if size.outage > 0 {
        away(&mut server, &shared, &received);
    }
    shared.is_over.store(1, Ordering::Relaxed);
    hosts.join().unwrap();
    let expected = shared.made.load(Ordering::Relaxed);
    until("all records have been received", || {
        received.count() == expected
    });
    shared.is_over.store(2, Ordering::Relaxed);
    reader.join().unwrap();
    println!("\n{expected} records: 0 lost, 0 doubled, in order");
}

/// The broker is killed, and comes back.
fn away(server: &mut Broker, shared: &Shared, received: &Received) {
    let outage = Duration::from_secs(shared.size.outage);
    println!("\nbroker away for {outage:?} (SIGKILL)");
    server.kill();
    thread::sleep(outage);
    let behind = shared.made.load(Ordering::Relaxed) - received.count();
    received.forget();
    let from = Instant::now();
    server.start_again();
    let started = from.elapsed();
    println!("  records that wait:      {behind}");
    println!("  broker answers after:   {started:.1?}");
    let mut most = 0;
    let (mut at, mut before) = (Instant::now(), 0);
    loop {
        thread::sleep(Duration::from_millis(100));
        if at.elapsed() >= Duration::from_secs(1) {
            let connections = server.connections();
            most = most.max(connections.saturating_sub(before));
            (at, before) = (Instant::now(), connections);
        }
        let made = shared.made.load(Ordering::Relaxed);
        if made - received.count() <= shared.size.rate / 5 {
            break;
        }
        assert!(
            from.elapsed() < outage * 2 + Duration::from_secs(120),
            "it never catches up"
        );
    }
    println!("  new connections a second: {most} at most");
    println!("  all caught up after:    {:.1?}", from.elapsed());
    println!("  broker: {:.0} MB memory", server.memory_mb());
    received.forget();
    thread::sleep(Duration::from_secs(10));
    println!("  record to consumer then: {}", received.take());
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn until(what: &str, is_true: impl Fn() -> bool) {
    let from = Instant::now();
    while !is_true() {
        assert!(
            from.elapsed() < Duration::from_secs(300),
            "never came: {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

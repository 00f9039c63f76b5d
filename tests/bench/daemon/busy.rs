//! How long `daemon status` takes while the daemon has much to do, and how long one takes to start
//! beside a long feed.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Effort;
use super::figures::{Table, heading, ms, quantile, verdict};
use super::support::{Gate, lengthen};
use super::usage::time;
use super::world::{SESSION, World};

/// How much longer than in peace `status` may take at most.
const ALLOWANCE: Duration = Duration::from_millis(150);

/// The longest that a daemon may take to start beside a long feed.
const START: Duration = Duration::from_millis(150);

const N_WAITS: usize = 40;
const N_ENDS: usize = 20;
const N_READERS: usize = 10;

pub(crate) fn run(effort: Effort) {
    heading("`daemon status` while the daemon is busy, in milliseconds");
    let columns = "meanwhile|n|peace p50|p50|max|target|";
    let mut table = Table::new(columns);
    let n = effort.pick(20, 60);
    waits(n, &mut table);
    ends(n, &mut table);
    let starts = long_feed(n, effort.pick(5, 20), &mut table);
    slow_disk(n, &mut table);
    table.print();
    println!();
    println!(
        "The target is the longest in peace and {} ms.",
        ALLOWANCE.as_millis()
    );
    heading("The start of a daemon beside a feed of 100 MiB, in milliseconds");
    let mut table = Table::new("n|p50|max|target|");
    let at = |share| quantile(&starts, share).unwrap();
    table.row([
        starts.len().to_string(),
        cell(at(0.5)),
        cell(at(1.0)),
        cell(START),
        verdict(at(1.0) <= START).to_owned(),
    ]);
    table.print();
}

/// Waits that begin together on a task with a long history.
fn waits(n: usize, table: &mut Table) {
    let world = long_history();
    task(
        &world,
        &["run", "big", "--", "seq 45000; exec sleep 1000000"],
    );
    task(&world, &["wait", "big", "--idle", "1s"]);
    let peace = statuses(&world, n);
    let mut waiting: Vec<Child> = (0..N_WAITS)
        .map(|wait| {
            let text = format!("never {wait}");
            let words = ["wait", "big", "--text", &text, "--timeout", "60s"];
            start(&mut command(&world, &words))
        })
        .collect();
    let busy = statuses(&world, n);
    waiting.iter_mut().for_each(end);
    row(table, "40 waits begin on 45,000 lines", peace, busy);
    leave(&world);
}

/// Tasks with much output that end together.
fn ends(n: usize, table: &mut Table) {
    let world = long_history();
    let gates: Vec<_> = (0..N_ENDS)
        .map(|n| {
            let gate = world.gate(&format!("gate-{n}"));
            let line = format!("seq 20000; {gate}");
            task(&world, &["run", &format!("task-{n}"), "--", &line]);
            gate
        })
        .collect();
    for n in 0..N_ENDS {
        task(&world, &["wait", &format!("task-{n}"), "--idle", "500ms"]);
    }
    let peace = statuses(&world, n);
    gates.iter().for_each(Gate::open);
    let busy = statuses(&world, n);
    row(table, "20 tasks of 20,000 lines end", peace, busy);
    leave(&world);
}

/// Readers that resume at the end of a long feed. Returns how long daemons took to start beside it,
/// in order.
fn long_feed(n: usize, n_starts: usize, table: &mut Table) -> Vec<Duration> {
    let world = World::new();
    task(&world, &["run", "--wait", "first", "--", "true"]);
    task(&world, &["run", "task", "--", "exec sleep 1000000"]);
    leave(&world);
    let last = lengthen(&world.state(SESSION).join("feed.jsonl"), 900);
    // The first one has yet to note where the feed ends.
    task(&world, &["daemon", "--detach"]);
    leave(&world);
    let mut starts: Vec<Duration> = (0..n_starts)
        .map(|_| {
            let took = time(&mut command(&world, &["daemon", "--detach"]));
            leave(&world);
            took
        })
        .collect();
    starts.sort();
    task(&world, &["daemon", "--detach"]);
    let peace = statuses(&world, n);
    let last = last.to_string();
    let mut readers: Vec<Child> = (0..N_READERS)
        .map(|_| {
            let words = ["feed", "--follow", "--after", &last];
            start(&mut command(&world, &words))
        })
        .collect();
    let busy = statuses(&world, n);
    readers.iter_mut().for_each(end);
    row(
        table,
        "10 readers resume at the end of 100 MiB",
        peace,
        busy,
    );
    leave(&world);
    starts
}

/// A disk of which each sync takes 500 ms, as tasks start.
fn slow_disk(n: usize, table: &mut Table) {
    let world = World::new();
    task(&world, &["run", "task", "--", "exec sleep 1000000"]);
    let peace = statuses(&world, n);
    leave(&world);
    let library = world.c_library("slow", SLOW_SYNC);
    let mut daemon = command(&world, &["daemon", "--detach"]);
    daemon.env("LD_PRELOAD", &library);
    assert!(daemon.status().unwrap().success());
    let mut busy = Vec::new();
    let mut driver = world.driver();
    for round in 0..n {
        if round % 5 == 0 {
            let name = format!("task-{round}");
            driver.new_window(SESSION, &name, &["sleep", "1000000"]);
        }
        busy.extend(statuses(&world, 1));
    }
    busy.sort();
    row(table, "each sync takes 500 ms", peace, busy);
    leave(&world);
}

/// The C library's `fdatasync` and `fsync`, slowed down.
const SLOW_SYNC: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

static int sync_slowly(const char *name, int file) {
    int (*next)(int) = dlsym(RTLD_NEXT, name);
    usleep(500000);
    return next(file);
}

int fdatasync(int file) { return sync_slowly("fdatasync", file); }
int fsync(int file) { return sync_slowly("fsync", file); }
"#;

/// A world whose panes keep many lines.
pub(super) fn long_history() -> World {
    let world = World::new();
    world.tmux(["set-option", "-g", "history-limit", "60000"]);
    world
}

pub(super) fn command(world: &World, words: &[&str]) -> Command {
    let mut command = world.program(env!("CARGO_BIN_EXE_tmux-task"));
    command
        .args(["--session", SESSION])
        .args(words)
        .stdout(Stdio::null());
    command
}

/// Runs a command that succeeds.
pub(super) fn task(world: &World, words: &[&str]) {
    let output = command(world, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

pub(super) fn leave(world: &World) {
    task(world, &["daemon", "stop"]);
}

pub(super) fn start(command: &mut Command) -> Child {
    command.stderr(Stdio::null()).spawn().unwrap()
}

fn end(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Returns how long `daemon status` takes, several times, in order.
fn statuses(world: &World, n: usize) -> Vec<Duration> {
    let mut took: Vec<Duration> = (0..n)
        .map(|_| time(&mut command(world, &["daemon", "status"])))
        .collect();
    took.sort();
    took
}

fn row(table: &mut Table, meanwhile: &str, peace: Vec<Duration>, busy: Vec<Duration>) {
    let at = |took: &[Duration], share| quantile(took, share).unwrap();
    let target = at(&peace, 1.0) + ALLOWANCE;
    table.row([
        meanwhile.to_owned(),
        busy.len().to_string(),
        cell(at(&peace, 0.5)),
        cell(at(&busy, 0.5)),
        cell(at(&busy, 1.0)),
        cell(target),
        verdict(at(&busy, 1.0) <= target).to_owned(),
    ]);
}

fn cell(duration: Duration) -> String {
    format!("{:.1}", ms(duration))
}

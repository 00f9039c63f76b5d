//! Waits: what ends them, which output they never miss, and which never matches.

mod by_run;
mod channels;
mod cursors;
mod ends;
mod load;
mod several;
mod text;

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Output, Running, SESSION, World, repeated};

/// Long enough never to be reached by a wait that works.
const LONG: &str = "60s";

/// What a wait said, and its exit code.
#[track_caller]
fn outcome(output: &Output) -> (i32, Value) {
    let result = serde_json::from_str(&output.out).unwrap_or_else(|_| panic!("{output}"));
    (output.code, result)
}

/// Runs a wait to its end.
#[track_caller]
fn wait(world: &World, args: &[&str]) -> (i32, Value) {
    outcome(&world.task([&["wait", "--json", "--timeout", LONG], args].concat()))
}

/// The result of a wait that was begun.
#[track_caller]
fn end(mut waiting: Running) -> (i32, Value) {
    let result = waiting.record();
    (waiting.wait(), result)
}

/// Begins a wait; it is under way when this returns.
#[track_caller]
fn begin(world: &World, args: &[&str]) -> Running {
    let before = waits(world);
    let waiting = world.start([&["wait", "--json", "--timeout", LONG], args].concat());
    world.until_true("it waits", || waits(world) > before);
    waiting
}

fn waits(world: &World) -> u64 {
    world.daemon_status()["waits"].as_u64().unwrap()
}

#[track_caller]
fn ends_with(ended: &(i32, Value), code: i32, name: &str) {
    let (exit, result) = ended;
    assert_eq!(
        (*exit, &result["outcome"]),
        (code, &name.into()),
        "{result}"
    );
}

/// Starts a task that does one step for each opening of its gate, and then sleeps.
#[track_caller]
fn steps(world: &World, name: &str, steps: &[&str]) -> (String, impl Fn() + use<>) {
    let gate = world.gate(name);
    let lines: Vec<String> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| match index {
            0 => (*step).to_owned(),
            _ => format!("{}; {step}", gate.wait()),
        })
        .collect();
    let script = format!("{}; exec sleep 1000", lines.join("; "));
    let window = world.run(name, &script);
    (window, move || gate.open())
}

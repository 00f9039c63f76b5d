//! Waits: what ends them, which output they never miss, and which never matches.

mod by_run;
mod channels;
mod cursors;
mod ends;
mod load;
mod several;
mod text;

use std::fs;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Output, Running, SESSION, World, argv, has_fields, parse_lines, repeated};

/// Long enough never to be reached by a wait that works.
const LONG: &str = "60s";

/// What a wait said, and its exit code.
#[track_caller]
fn outcome(output: &Output) -> (i32, Value) {
    (output.code, output.any_json())
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

/// Checks how a wait ended, and returns its result.
#[track_caller]
fn ends_with((exit, result): (i32, Value), code: i32, name: &str) -> Value {
    assert_eq!((exit, &result["outcome"]), (code, &name.into()), "{result}");
    result
}

/// Starts a task that does one step for each opening of its gate, and then sleeps.
#[track_caller]
fn steps(world: &World, name: &str, steps: &[&str]) -> (String, impl Fn() + use<>) {
    let gate = world.gate(name);
    let script = steps.join(&format!("; {gate}; "));
    let window = world.run(name, &format!("{script}; exec sleep 1000"));
    (window, move || gate.open())
}

//! The whole daemon beside a poller, against real tmux servers.
//!
//! `cargo bench --bench daemon` measures everything, which takes some 25 minutes. `-- --quick`
//! takes fewer samples and shorter windows of time, and the names of sections (`-- begin rapid`)
//! leave the others out. Targets are printed beside the figures; nothing fails when one is missed.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it prints, and what cannot go on ends"
)]

mod begin;
mod busy;
mod commands;
mod evidence;
mod figures;
mod floor;
mod hosts;
mod idle;
mod latency;
mod listener;
mod machines;
mod namespace;
mod poller;
mod rapid;
mod served;
#[allow(
    dead_code,
    unused_imports,
    reason = "the live tests use the rest of it"
)]
#[path = "../../it/support/mod.rs"]
mod support;
mod task;
mod usage;
mod waits;
mod watcher;
mod world;

use std::ffi::OsString;

/// How thorough a measurement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// To check that it works, with rough figures.
    Quick,
    /// For figures to publish.
    Full,
}

impl Effort {
    fn pick<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

type Section = (&'static str, fn(Effort));

const SECTIONS: [Section; 15] = [
    ("latency", latency::run),
    ("rapid", rapid::run),
    ("idle", idle::quiet),
    ("evidence", evidence::run),
    ("dead", idle::dead),
    ("chatty", idle::chatty),
    ("listening", idle::listening),
    ("twenty", idle::twenty),
    ("begin", begin::run),
    ("commands", commands::run),
    ("busy", busy::run),
    ("waits", waits::run),
    ("served", served::run),
    ("hosts", hosts::run),
    ("idle-hosts", hosts::idle),
];

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<&str> = args.iter().filter_map(|arg| arg.to_str()).collect();
    // Tasks and pollers are this very program in another part.
    match words.as_slice() {
        [task::PART, name] => return task::run(name),
        [task::DEAF_PART, name] => return task::obey(name),
        [poller::PART, session] => return poller::run(session),
        [floor::PART, session] => return floor::run(session),
        [listener::PART, session] => return listener::run(session),
        _ => {}
    }
    let mut effort = Effort::Full;
    let mut chosen = Vec::new();
    for word in words {
        match word {
            "--quick" => effort = Effort::Quick,
            // What cargo itself says to a bench, and to one that runs as a test.
            "--bench" => {}
            "--test" => return,
            word => match SECTIONS.iter().find(|(name, _)| *name == word) {
                Some(section) => chosen.push(section),
                None => {
                    let names = SECTIONS.map(|(name, _)| name).join(", ");
                    eprintln!("no section `{word}`; there are: {names}; and there is --quick");
                    std::process::exit(2);
                }
            },
        }
    }
    if namespace::enter(&args) {
        return;
    }
    if chosen.is_empty() {
        chosen.extend(&SECTIONS);
    }
    figures::about(effort);
    for (_, run) in chosen {
        run(effort);
    }
}

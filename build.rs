//! Names what kernels offer, for the whole crate: `cfg(linux)` has `/proc`, pidfds, inotify and the like,
//! `cfg(kqueue)` reports the ends of processes by kqueue.
//!
//! With `TMUX_TASK_PORTABLE=1`, Linux offers nothing: the program takes the way that it takes on other
//! systems. That is for tests (tests/portable.sh).

use std::env;

const PORTABLE: &str = "TMUX_TASK_PORTABLE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PORTABLE}");
    println!("cargo::rustc-check-cfg=cfg(linux, kqueue)");
    let system = env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    match system.as_str() {
        "linux" if env::var_os(PORTABLE).is_none() => println!("cargo::rustc-cfg=linux"),
        // As in Cargo.toml.
        "macos" | "freebsd" | "netbsd" | "openbsd" | "dragonfly" => {
            println!("cargo::rustc-cfg=kqueue");
        }
        _ => {}
    }
}

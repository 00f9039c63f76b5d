//! Supervises the tmux windows in which an agent's tasks run, and turns changes into a few semantic
//! events.
//!
//! Data flows in one direction, from tmux's bytes to the feed, through pure functions. Only the
//! edges do input and output. `docs/design/architecture.md` describes the modules, `glossary.md` beside it
//! defines the terms.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on fails")
)]

pub(crate) mod alerts;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod daemon;
pub mod diff;
pub mod engine;
pub(crate) mod env;
pub mod faces;
pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod input_episodes;
pub mod model;
pub mod notice;
pub mod observe;
#[cfg_attr(
    not(all(feature = "mcp", feature = "panel")),
    allow(dead_code, unused_imports, reason = "some operations are for one face")
)]
pub(crate) mod ops;
pub(crate) mod paths;
pub(crate) mod process;
pub mod prompt;
pub mod protocol;
pub(crate) mod restarts;
pub(crate) mod route;
pub(crate) mod session;
pub(crate) mod sink;
pub mod store;
pub(crate) mod terminal;
pub(crate) mod tmux;
pub(crate) mod wait;
pub mod wire;

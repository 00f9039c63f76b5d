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

pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod config;
pub(crate) mod daemon;
pub(crate) mod env;
pub mod faces;
pub(crate) mod files;
pub mod model;
#[cfg_attr(
    not(all(feature = "mcp", feature = "panel")),
    allow(dead_code, unused_imports, reason = "some operations are for one face")
)]
pub(crate) mod ops;
pub mod outlets;
pub(crate) mod process;
pub mod rules;
pub(crate) mod session;
pub mod store;
pub(crate) mod tmux;

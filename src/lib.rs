//! Watches the tmux windows that an agent's tasks run in and turns what tmux shows into a few
//! semantic events.
//!
//! Data walks one way, from tmux's bytes to the feed, through plain functions; only the edges
//! touch the world. `docs/architecture.md` is the map of this house.

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on fails")
)]

pub(crate) mod archive;
pub mod cli;
pub(crate) mod client;
pub(crate) mod clock;
pub mod config;
pub mod daemon;
pub mod diff;
pub mod engine;
pub mod feed;
pub(crate) mod files;
pub(crate) mod input_episodes;
pub mod model;
pub mod notice;
pub mod observe;
pub mod ops;
pub(crate) mod paths;
pub(crate) mod process;
pub mod prompt;
pub mod protocol;
pub(crate) mod route;
pub(crate) mod session;
pub(crate) mod store;
pub mod terminal;
pub mod tmux;
pub mod wait;
pub mod wire;

//! Watches the tmux windows that an agent's tasks run in and turns what tmux shows into a few
//! semantic events.
//!
//! Data walks one way, from tmux's bytes to the feed, through plain functions; only the edges
//! touch the world. `docs/architecture.md` is the map of this house.

pub mod model;

//! The full-screen panel: the tasks of a session for the person at a terminal.
//!
//! `state` is pure: keys, tasks and results go in, effects come out. `draw` makes a frame of the
//! state. `run` performs the effects, and `screen` owns the terminal.
//!
//! For all sessions, `all_sessions` finds which there are and follows each.

mod all_sessions;
mod board;
mod colours;
mod draw;
#[cfg(feature = "fleet")]
mod fleet_sessions;
mod mode;
mod run;
mod state;
mod work;

#[cfg(test)]
mod tests;

pub(crate) use run::{Shown, run};

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
mod effect;
#[cfg(feature = "fleet")]
mod fleet_sessions;
mod help;
#[cfg(feature = "fleet")]
mod host_work;
mod input_line;
mod layout;
mod log_view;
mod mode;
mod run;
mod state;
mod task_stream;
mod usage;
mod work;

#[cfg(test)]
mod tests;

pub(crate) use run::{Shown, run};

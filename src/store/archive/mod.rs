//! The output of runs that have ended, stored on disk so that it outlives the pane.
//!
//! Each run is one file: a line of JSON with the run's data, then its output. The number of files
//! and their total size are bounded; the oldest are removed first.

mod durations;
mod retention;
mod runs;

pub(crate) use durations::Durations;
pub(crate) use retention::Limits;
pub(crate) use runs::{RunInfo, find, keep, list, run_numbers};

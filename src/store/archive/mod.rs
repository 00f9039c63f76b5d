//! The output of runs that have ended, stored on disk so that it outlives the pane.
//!
//! Each run is one file: a line of JSON with the run's data, then its output. The number of files
//! and their total size are bounded; the oldest are removed first.

mod durations;
mod runs;

pub(crate) use durations::Durations;
pub(crate) use runs::{Limits, RunInfo, find, keep, list, run_numbers};

//! From what a look shows, and what else is known, to a snapshot: the only place that judges
//! which run of a task it is, whether it lives, and how it ended.

mod command;
mod deaths;
mod evidence;
mod known;
mod observer;
#[cfg(test)]
mod tests;

pub use evidence::Evidence;
pub use observer::{Observed, Observer, SETTLE_LIMIT};

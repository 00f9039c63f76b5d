//! Turns a look and other evidence into a snapshot. Only this module decides which run a task is
//! in, whether it is alive, and how it ended.

mod deaths;
mod known;
mod observer;
#[cfg(test)]
mod tests;

pub use known::Evidence;
pub use known::SETTLE_LIMIT;
pub use observer::{Observation, Observer};

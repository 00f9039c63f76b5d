//! Sinks: programs and addresses that get the records of the feed.

mod delivery;
mod retry;
mod sinks;
mod target;
#[cfg(feature = "webhook")]
mod webhook;

pub(crate) use sinks::Sinks;

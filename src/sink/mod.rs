//! Sinks: programs and addresses that get the records of the feed.

mod delivery;
mod exec;
#[cfg(feature = "webhook")]
mod message;
mod retry;
mod selection;
mod sinks;
mod target;
#[cfg(feature = "webhook")]
mod webhook;

pub(crate) use sinks::Sinks;

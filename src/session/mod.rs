//! One task session as a state machine: what happens goes in, what is to be done comes out.
//!
//! [`Session::handle`] takes one [`Input`] and returns [`Effect`]s; [`Session::next_deadline`] says
//! when it wants to be called again though nothing happens. It has no clock, no files and no tmux,
//! so every rule about the order of things (output before the end of a run, a pane that was paused,
//! a wait that begins while a look is under way) is tested without any of them.
//!
//! What takes time is a [`Job`] of the link to tmux. One job runs at a time, the most urgent first;
//! what tmux reports while it runs arrives before its [`Outcome`].

mod answers;
mod effect;
mod input;
mod job_queue;
mod listeners;
mod look_schedule;
mod looks;
mod machine;
mod pane_reads;
mod pane_stream;
mod requests;
mod wait_entry;
mod wait_result;

#[cfg(test)]
mod tests;

pub(crate) use effect::{Effect, History, Job, LookOrder, Refresh, Scope};
pub(crate) use input::{AskId, Change, Input, LinkState, Look, Outcome, StoreState};
pub(crate) use machine::{Session, Setup};
pub(crate) use wait_entry::Entry;

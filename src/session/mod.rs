//! One task session as a state machine: inputs go in, effects come out.
//!
//! [`Session::handle`] takes one [`Input`] and returns [`Effect`]s; [`Session::next_deadline`]
//! returns when it has to be called again without another input. It has no clock, no files and no
//! tmux, so that every ordering rule (output before the end of a run, a paused pane, a wait that
//! begins during a look) can be tested without them.
//!
//! What a request does is a story: an `async fn` in `requests/`, which the session polls. Slow operations
//! are [`Job`]s of the link to tmux. One job runs at a time, the most urgent first. What tmux reports during
//! a job arrives before its outcome.

mod answers;
mod deadlines;
mod ending_runs;
mod endings;
mod input;
mod job_queue;
mod listeners;
mod look_schedule;
mod looks;
mod machine;
mod output_watches;
mod pane_reads;
mod pending_restarts;
mod promise;
mod requests;
mod state;
mod stories;
mod typing;

#[cfg(test)]
mod tests;

pub(crate) use input::{
    Change, ClosedWindows, Effect, HeldCommand, Input, Job, LaunchOutcome, LinkState, LogLevel,
    Look, LookOrder, LookOutcome, Reply, StoreState,
};
pub(crate) use listeners::RequestId;
pub(crate) use machine::Session;
pub(crate) use requests::matches_in;
pub(crate) use state::Setup;
pub(crate) use typing::Typing;

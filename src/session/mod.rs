//! One task session as a state machine: inputs go in, effects come out.
//!
//! [`Session::handle`] takes one [`Input`] and returns [`Effect`]s; [`Session::next_deadline`]
//! returns when it has to be called again without another input. It has no clock, no files and no
//! tmux, so that every ordering rule (output before the end of a run, a paused pane, a wait that
//! begins during a look) can be tested without them.
//!
//! Slow operations are [`Job`]s of the link to tmux. One job runs at a time, the most urgent first.
//! What tmux reports during a job arrives before its [`JobOutcome`].

mod answers;
mod beginning;
mod commands;
mod deadlines;
mod departures;
mod effect;
mod ended_by;
mod ended_runs;
mod ending_runs;
mod endings;
mod input;
mod job_queue;
mod listeners;
mod log_entry;
mod look_schedule;
mod looks;
mod machine;
mod output_watches;
mod pane_reads;
mod pane_stream;
mod pending_restarts;
mod ports;
mod queue_items;
mod requests;
mod restarts;
mod task_views;
mod typing;
mod usual_durations;
mod wait_entry;

#[cfg(test)]
mod tests;

pub(crate) use beginning::Beginning;
pub(crate) use departures::{Departures, replaced_panes};
pub(crate) use effect::{Effect, Job, LookOrder, PortQuery, RowsToRead};
pub(crate) use input::{
    Change, HeldCommand, Input, JobOutcome, LinkState, Look, NameOwner, StoreState,
};
pub(crate) use listeners::RequestId;
pub(crate) use log_entry::LogEntry;
pub(crate) use machine::{Session, Setup};
pub(crate) use pending_restarts::{DueRestart, RestartEnd};
pub(crate) use typing::Typing;

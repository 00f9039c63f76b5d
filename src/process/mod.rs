//! The edge to the kernel's process information.

#[cfg_attr(not(linux), allow(dead_code, reason = "only Linux shows it"))]
mod blocked;
#[cfg_attr(not(linux), allow(dead_code, reason = "only Linux counts"))]
mod cpu_activity;
mod ending;
mod evidence;
mod exit_watch;
#[cfg(linux)]
mod facts;
mod input_watch;
#[cfg_attr(not(linux), allow(dead_code, reason = "only Linux shows it"))]
mod ports;
mod program;
#[cfg(any(test, not(linux)))]
#[cfg_attr(linux, allow(dead_code, reason = "there is `/proc`"))]
mod ps;
mod slots;
mod stat;
#[cfg(linux)]
mod tree;
#[cfg(feature = "panel")]
mod usage;

pub(crate) use cpu_activity::CpuActivity;
pub(crate) use ending::RunEnder;
pub(crate) use evidence::{MAX_LINE, TtyExamination, examine, has_unread_input};
pub(crate) use exit_watch::{ExitWatch, ProcessExit};
pub(crate) use input_watch::InputWatch;
pub(crate) use ports::{answers_at, listening, port_holders};
pub(crate) use program::{ProgramEnd, run_program};
pub(crate) use slots::{queue_state, wait_for_place};
pub(crate) use stat::{
    Process, RunTime, WORD_END, ancestor_named, command_line, control_group_of, exists,
    exit_of_zombie, identity, is_our_program, is_stopped, may_run, run_time, started_at, starts,
    wait_for_any,
};
#[cfg(feature = "panel")]
pub(crate) use usage::{TreeUsage, tree_usage};

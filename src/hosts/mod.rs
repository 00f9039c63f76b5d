//! Other machines with tmux-task. A machine is a command that reaches the program there: words put in front
//! of the same arguments, OpenSSH's client for most.
//!
//! What is asked crosses as a line on the program's standard input ([`FarCall`]), so that no shell reads it
//! and no process list shows it. What it answers are lines, too.
//!
//! - `host.rs`: which machine a name means
//! - `ssh.rs`: ssh's configuration file and command lines
//! - `far_call.rs`: what is asked, and how the machine that is asked executes it
//! - `far_process.rs`: the process here that reaches it
//! - `fleet.rs`: the machines of a fleet, by the program that reaches them
//! - `installation.rs`: puts our program there

mod far_call;
mod far_process;
mod fleet;
mod host;
mod installation;
mod ssh;

pub(crate) use far_process::FarProcess;
pub(crate) use fleet::{FleetProcess, fleet_program, start_in_fleet};
pub(crate) use host::{Host, fleet_not_started, this_machine};
pub(crate) use installation::install;
pub(crate) use ssh::Questions;

pub(crate) use crate::model::{FAR_CALL, FarCall, FarCaller, OURS};

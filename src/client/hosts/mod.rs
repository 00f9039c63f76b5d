//! Other machines with tmux-task. A machine is a command that reaches the program there: words put in front
//! of the same arguments, OpenSSH's client for most.
//!
//! What is asked crosses as a line on the program's standard input ([`FarCall`](crate::model::FarCall)), so that
//! no shell reads it and no process list shows it. What it answers are lines, too
//! ([`FarAnswer`](crate::model::FarAnswer)): that it has begun, what the command prints, and with which code it
//! ends. What ends without a code was lost.
//!
//! - `host.rs`: which machine a name means
//! - `ssh.rs`: ssh's options and command lines
//! - `far_process.rs`: an execution there
//! - `installation.rs`: puts our program there

mod far_process;
mod host;
mod installation;
mod ssh;

pub(crate) use far_process::FarProcess;
pub(crate) use host::{Host, this_machine};
pub(crate) use installation::install;

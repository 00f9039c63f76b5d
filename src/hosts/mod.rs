//! Other machines with tmux-task, reached by OpenSSH's own client.
//!
//! One background process for each host, its *link*, holds one `ssh HOST tmux-task serve --stdio` and
//! carries the channels of all local programs over that pipe, so that a command does not wait for a
//! login. A *channel* is one execution of our program there (the *far side*): its arguments, who asks,
//! its standard input, its output and its exit code. Everything else that goes to a host is such an
//! execution too.
//!
//! - `host.rs`: which machine a name means
//! - `error.rs`: why a host does not do what it was asked
//! - `frame.rs`: what is said on a channel, and the channel's number in front of it
//! - `far_call.rs`: an execution: what travels with it, and what does not
//! - `ssh.rs`: ssh's configuration file and command lines
//! - `greeting.rs`: what comes first from the far side, and what it means if it does not
//! - `installation.rs`: puts our program there
//! - `link.rs`: the background process
//! - `channel.rs`: the end of a channel in a local program, which starts the link
//! - `execution.rs`, `serve.rs`: the far side

mod channel;
mod execution;
mod far_call;
mod frame;
mod greeting;
mod host;
mod installation;
mod link;
mod serve;
mod ssh;

pub(crate) use channel::{Channel, ChannelInput, ChannelOutput, LINK_READY, connect};
#[cfg(feature = "fleet")]
pub(crate) use execution::execute;
pub(crate) use far_call::{FarCall, FarCaller, FarStdin};
#[cfg(feature = "fleet")]
pub(crate) use frame::{Frame, Hello};
pub(crate) use host::{Host, lost, not_started, this_machine};
pub(crate) use installation::{Installed, install};
pub(crate) use link::hold_link;
pub(crate) use serve::serve;
pub(crate) use ssh::{Questions, Ssh};

//! Ways to tell a person something, each of them a sink.
//!
//! A sink is given a level, a title and a text, and decides how and whether it can show them. It
//! never decides whether something is news, never blocks for long and never fails loudly: a
//! desktop that is not there is an ordinary state of a machine. Each sink lives in a file of its
//! own: `desktop` speaks to the notifier of the desktop over D-Bus (cargo feature `notice`);
//! beside it belongs the sink that uses tmux's own status line.

#[cfg(feature = "notice")]
mod desktop;
mod log_once;

#[cfg(feature = "notice")]
pub use desktop::{Desktop, DesktopError};
pub use log_once::LogOnce;

//! Displays: ways to show an alert to the user.
//!
//! A display gets a level, a title and a text, and decides whether and how it can show them. It never
//! decides whether something is news, never blocks for long, and its failures are harmless: a
//! missing desktop is normal. Each display is one file; `desktop` uses D-Bus (cargo feature `notice`,
//! but not on macOS), `terminal` writes to a terminal's file.

#[cfg(all(feature = "notice", not(target_os = "macos")))]
mod desktop;
mod log_once;
mod terminal;

#[cfg(all(feature = "notice", not(target_os = "macos")))]
pub use desktop::{Desktop, DesktopError, DesktopNotice, notifier};
pub use log_once::LogOnce;
pub use terminal::write_to_terminal;

//! tmux's control mode: bytes to frames and notifications, commands to lines, and the rows that a look
//! returns.
//!
//! Parsing is total: whatever tmux, or a program in one of its panes, writes is data.

mod command;
mod parser;
pub mod rows;

pub use command::{Command, argv, control_line, literal_argument, literal_format, quote};
pub use parser::{ControlItem, Frame, LINE_LIMIT, Notification, Parser};

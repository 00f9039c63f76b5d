//! tmux's control mode: bytes to frames and notifications, commands to lines, and the rows that a look
//! returns.
//!
//! Parsing is total: whatever tmux, or a program in one of its panes, writes is data.

mod command;
mod notification;
mod parser;
pub mod rows;

pub use command::{Command, argv, control_line, literal_argument, literal_format, quote};
pub use notification::Notification;
pub use parser::Frame;
pub use parser::{ControlItem, LINE_LIMIT, Parser};

//! The language of tmux's control mode: bytes to frames and notices, commands to lines, and the
//! rows a look asks for.
//!
//! Everything here is total: whatever tmux, or a program in one of its panes, writes is data.

mod command;
mod frame;
mod notice;
mod parser;
pub mod rows;

pub use command::{Command, argv, control_line, literal_format, quote};
pub use frame::Frame;
pub use notice::Notice;
pub use parser::{Item, LINE_LIMIT, Parser};

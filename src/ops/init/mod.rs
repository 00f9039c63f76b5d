//! What `init` does to files of the user: completion in shells, and the panel's key in tmux.

mod marked_block;
mod setup_lines;

pub(crate) use marked_block::{MarkedBlockError, replace_user_file};
pub(crate) use setup_lines::{UserProgram, setup_of};

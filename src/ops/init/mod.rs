//! What `init` does to files of the user: completion in shells, and the panel's key in tmux.

mod marked_block;
#[cfg(feature = "panel")]
mod popup_key;
mod program;
mod user_file;

pub(crate) use marked_block::MarkedBlockError;
pub(crate) use program::{UserProgram, setup_of};
pub(crate) use user_file::replace_user_file;

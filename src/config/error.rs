//! What can be wrong with the file.

use std::path::PathBuf;

use crate::files::{Fault, Refused};

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file was asked for by name and is not there.
    #[error("{}: no such file; $TMUX_TASK_CONFIG names it", .path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// It is there and cannot be read: no permission, or a directory.
    #[error("{}: could not be read", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// Another user could have written it.
    #[error("{refused}; {}", advice(.refused))]
    NotOurs {
        /// What is wrong with it.
        refused: Refused,
    },
    /// It is not TOML, or sets what cannot be set.
    #[error("{}:{line}: {problem}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u32,
        /// What is wrong there, in one line, with the key that is concerned.
        problem: String,
    },
}

fn advice(refused: &Refused) -> &'static str {
    match refused.fault {
        Fault::Writable(_) => "`chmod go-w` closes it",
        Fault::Link | Fault::NotAFile | Fault::NotAFolder | Fault::Owner(_) => {
            "name a file of yours with $TMUX_TASK_CONFIG"
        }
    }
}

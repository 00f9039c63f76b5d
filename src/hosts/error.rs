//! Why a host does not do what it was asked.

use std::io;

use serde::{Deserialize, Serialize};

use crate::config::ConfigError;
use crate::model::with_causes;
use crate::paths::PathsError;

/// Why a host was not reached, in words that are passed on from one process to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostFailure {
    pub(crate) why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl From<HostError> for HostFailure {
    fn from(error: HostError) -> Self {
        Self {
            why: with_causes(&error),
            hint: error.hint(),
        }
    }
}

/// Why a host does not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// The name is no host's.
    #[error("{0}")]
    Name(String),
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no folder for the link's socket.
    #[error(transparent)]
    Paths(#[from] PathsError),
    /// A program of this machine cannot be started.
    #[error("could not start `{program}`")]
    Spawn {
        program: String,
        #[source]
        source: io::Error,
    },
    /// The host was not reached, or what answered there is not this program.
    #[error("{}", .0.why)]
    Refused(HostFailure),
    /// The connection broke. What was asked for may have been done.
    #[error("the connection to {0} was lost")]
    Lost(String),
    /// The link cannot be used.
    #[error("could not use the link to {host}")]
    Io {
        host: String,
        #[source]
        source: io::Error,
    },
}

impl HostError {
    /// Returns what the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(failure) => failure.hint.clone(),
            Self::Name(_) => Some(
                "a host is a name under [hosts] in the configuration, or a destination for ssh"
                    .to_owned(),
            ),
            Self::Spawn { program, .. } if program == "ssh" => {
                Some("install OpenSSH's client".to_owned())
            }
            Self::Lost(_) => Some(
                "whether the command was done is not known; the next command connects again"
                    .to_owned(),
            ),
            Self::Config(_) | Self::Paths(_) | Self::Spawn { .. } | Self::Io { .. } => None,
        }
    }
}

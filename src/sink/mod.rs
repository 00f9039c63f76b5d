//! Sinks: a program or an address that gets a record. Each delivery succeeds or fails as a whole; who
//! calls decides when to try again.

mod delivery;
mod exec;
#[cfg(feature = "webhook")]
mod signature;
#[cfg(feature = "webhook")]
mod webhook;

use std::io;
#[cfg(feature = "webhook")]
use std::path::PathBuf;
use std::time::Duration;

use crate::model::Millis;

pub(crate) use delivery::Delivery;
pub(crate) use exec::Exec;
#[cfg(feature = "webhook")]
pub(crate) use webhook::Webhook;

/// What gets the records.
#[derive(Debug, Clone)]
pub(crate) enum Sink {
    /// A program.
    Exec(Exec),
    /// An address.
    #[cfg(feature = "webhook")]
    Webhook(Webhook),
}

/// Why a record was not delivered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SinkError {
    /// The program did not start.
    #[error("could not start `{program}`")]
    Spawn {
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The program failed.
    #[error("{0}")]
    Failed(String),
    /// It took too long.
    #[error("no end within {}s", .0.as_secs_f32())]
    TimedOut(Duration),
    /// The key of the signature, or the certificates, cannot be used.
    #[cfg(feature = "webhook")]
    #[error("could not use {}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        why: String,
    },
    /// The peer did not take it.
    #[cfg(feature = "webhook")]
    #[error("the answer was {0}")]
    Status(u16),
    /// The peer was not reached.
    #[cfg(feature = "webhook")]
    #[error("{0}")]
    Unreachable(String),
}

impl Sink {
    /// Returns what kind of sink it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            #[cfg(feature = "webhook")]
            Self::Webhook(_) => "webhook",
        }
    }

    /// Delivers a record. `now` is the present time.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, a program is ended, and a request may go on until it has ended.
    ///
    /// # Errors
    ///
    /// When it is not certain that the sink has it.
    #[cfg_attr(
        not(feature = "webhook"),
        allow(unused_variables, reason = "only a webhook's signature has the time")
    )]
    pub(crate) async fn deliver(&self, delivery: &Delivery, now: Millis) -> Result<(), SinkError> {
        match self {
            Self::Exec(exec) => exec.deliver(delivery).await,
            #[cfg(feature = "webhook")]
            Self::Webhook(webhook) => webhook.deliver(delivery, now).await,
        }
    }
}

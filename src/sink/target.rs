//! What gets records: a program or an address. Each delivery succeeds or fails as a whole.

use super::delivery::Delivery;
use super::exec::Exec;
#[cfg(feature = "webhook")]
use super::webhook::Webhook;
use crate::config::{SinkConfig, SinkTarget};
use crate::model::{Error, Millis};

#[derive(Debug, Clone)]
pub(super) enum Sink {
    /// A program.
    Exec(Exec),
    /// An address.
    #[cfg(feature = "webhook")]
    Webhook(Webhook),
}

impl Sink {
    /// Returns the sink that the configuration describes.
    pub(super) fn of(config: &SinkConfig) -> Self {
        match &config.target {
            SinkTarget::Exec(words) => Self::Exec(Exec {
                words: words.clone(),
                timeout: config.timeout,
            }),
            #[cfg(feature = "webhook")]
            SinkTarget::Webhook {
                url,
                secret_file,
                ca_file,
                message,
            } => Self::Webhook(Webhook {
                url: url.clone(),
                secret_file: secret_file.clone(),
                ca_file: ca_file.clone(),
                message: message.clone(),
                timeout: config.timeout,
            }),
        }
    }

    /// Returns what kind of sink it is, for people.
    pub(super) fn kind(&self) -> &'static str {
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
    pub(super) async fn deliver(&self, delivery: &Delivery, now: Millis) -> Result<(), Error> {
        match self {
            Self::Exec(exec) => exec.deliver(delivery).await,
            #[cfg(feature = "webhook")]
            Self::Webhook(webhook) => webhook.deliver(delivery, now).await,
        }
    }
}

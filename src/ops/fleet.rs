//! The machines of a fleet, by its broker.

use super::error::OpsError;
use super::lookup;
use crate::config::{self, FleetConfig};
use crate::fleet::{
    self, BucketNews, BucketWatch, Connection, FleetBoard, FleetError, StreamUse, host_name,
};

/// A connection to the broker.
pub(crate) struct Fleet {
    pub(crate) connection: Connection,
    /// This machine's name.
    pub(crate) host: String,
    pub(crate) config: FleetConfig,
}

/// How the broker is.
pub(crate) struct FleetStatus {
    /// The version of the server.
    pub(crate) version: String,
    /// What it stores.
    pub(crate) streams: Vec<StreamUse>,
    pub(crate) board: FleetBoard,
}

impl Fleet {
    /// Connects to the broker of the configuration.
    ///
    /// # Errors
    ///
    /// When there is none, or it is not reached.
    pub(crate) async fn connect() -> Result<Self, OpsError> {
        let Some(config) = config::load(&lookup)?.fleet else {
            return Err(OpsError::failed(
                "the configuration names no broker",
                "`[fleet]` with `url = \"nats://...\"` names it; see docs/fleet.md".to_owned(),
            ));
        };
        let host = host_name(&config);
        let connection = fleet::connect(&config, &host).await?;
        Ok(Self {
            connection,
            host,
            config,
        })
    }

    /// Whether the configuration names a broker.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(crate) fn is_configured() -> Result<bool, OpsError> {
        Ok(config::load(&lookup)?.fleet.is_some())
    }

    /// Connects again.
    ///
    /// # Errors
    ///
    /// When the broker is not reached.
    pub(crate) async fn reconnect(&mut self) -> Result<(), OpsError> {
        self.connection = fleet::connect(&self.config, &self.host).await?;
        Ok(())
    }

    /// Returns what the hosts have published last.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub(crate) async fn board(&self) -> Result<FleetBoard, OpsError> {
        let mut watch = BucketWatch::begin(&self.connection, false).await?;
        let mut board = FleetBoard::default();
        loop {
            match watch.next().await? {
                BucketNews::Entry(entry) => drop(board.apply(&entry)),
                BucketNews::Complete => return Ok(board),
            }
        }
    }

    /// Returns how the broker is.
    ///
    /// # Errors
    ///
    /// When it does not answer.
    pub(crate) async fn status(&self) -> Result<FleetStatus, OpsError> {
        Ok(FleetStatus {
            version: self.connection.client.server_info().version,
            streams: fleet::stream_uses(&self.connection).await?,
            board: self.board().await?,
        })
    }
}

impl From<FleetError> for OpsError {
    fn from(error: FleetError) -> Self {
        let hint = match &error {
            FleetError::Unreachable { .. } => "`[fleet] url` in the configuration names the broker",
            FleetError::Refused(_) | FleetError::Credentials { .. } => {
                "`[fleet] creds-file` in the configuration names the credentials; see docs/fleet.md"
            }
            FleetError::Unreadable { .. } | FleetError::NoStream { .. } => {
                "the first daemon with `[fleet]` creates what is missing, if its credentials permit that; \
                 see docs/fleet.md"
            }
            FleetError::Taken(_)
            | FleetError::Address(_)
            | FleetError::Broken
            | FleetError::NotConfirmed(_) => {
                return Self::failed(crate::model::with_causes(&error), None);
            }
        };
        Self::failed(crate::model::with_causes(&error), hint.to_owned())
    }
}

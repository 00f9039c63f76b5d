//! The machines of a fleet, by its broker.

use super::error::OpsError;
use super::lookup;
use crate::config::{self, FleetConfig};
use crate::fleet::{
    self, Absent, BucketNews, BucketWatch, Connection, FleetBoard, FleetError, HostAnswers,
    host_name,
};
use crate::hosts::FarCall;
use crate::model::with_causes;

/// A connection to the broker.
pub(crate) struct Fleet {
    pub(crate) connection: Connection,
    /// This machine's name.
    pub(crate) host: String,
    pub(crate) config: FleetConfig,
}

impl Fleet {
    /// Connects to the broker of the configuration.
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
    pub(crate) fn is_configured() -> Result<bool, OpsError> {
        Ok(config::load(&lookup)?.fleet.is_some())
    }

    /// Connects again.
    pub(crate) async fn reconnect(&mut self) -> Result<(), OpsError> {
        self.connection = fleet::connect(&self.config, &self.host).await?;
        Ok(())
    }

    /// Returns what the hosts have published last.
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

    /// Asks a host to execute a call in this session; `None` if it is no host of the fleet.
    pub(crate) async fn ask(
        &self,
        host: &str,
        session: &str,
        verb: &str,
        call: &FarCall,
    ) -> Result<Option<HostAnswers>, OpsError> {
        let asked = HostAnswers::ask(&self.connection, host, session, verb, call).await?;
        if asked.is_some() {
            return Ok(asked);
        }
        let why = match fleet::absence(&self.connection, host).await {
            Absent::Unknown => return Ok(None),
            Absent::AllowsNothing => "allows nothing through the broker",
            Absent::Gone => "is not there",
        };
        let hint = "`[hosts]` in the configuration names hosts for ssh";
        Err(OpsError::failed(format!("{host} {why}"), hint.to_owned()))
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
            FleetError::OtherVersion { .. } => "install the same version on both machines",
            FleetError::Taken(_)
            | FleetError::Address(_)
            | FleetError::Broken
            | FleetError::NotConfirmed(_) => "",
        };
        let hint = (!hint.is_empty()).then(|| hint.to_owned());
        Self::failed(with_causes(&error), hint)
    }
}

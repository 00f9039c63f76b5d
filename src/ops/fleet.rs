//! The machines of a fleet, by its broker.

use super::{SessionChoice, lookup};
use crate::config::{self, Config, FleetConfig};
use crate::fleet::{
    self, Absent, BucketNews, BucketWatch, Connection, FleetBoard, FleetError, HostAnswers,
    host_name,
};
use crate::hosts::FarCall;
use crate::model::Error;

/// A connection to the broker.
pub(crate) struct Fleet {
    pub(crate) connection: Connection,
    /// This machine's name.
    pub(crate) host: String,
    pub(crate) config: FleetConfig,
}

impl Fleet {
    /// Connects to the broker of the configuration.
    pub(crate) async fn connect() -> Result<Self, Error> {
        let Some(config) = config::load(&lookup)?.fleet else {
            return Err(Error::failed("the configuration names no broker")
                .with_hint("`[fleet]` with `url = \"nats://...\"` names it; see docs/fleet.md"));
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
    pub(crate) fn is_configured() -> Result<bool, Error> {
        Ok(config::load(&lookup)?.fleet.is_some())
    }

    /// Connects again.
    pub(crate) async fn reconnect(&mut self) -> Result<(), Error> {
        self.connection = fleet::connect(&self.config, &self.host).await?;
        Ok(())
    }

    /// Returns what the hosts have published last.
    pub(crate) async fn board(&self) -> Result<FleetBoard, Error> {
        let watch = BucketWatch::begin(&self.connection, false);
        let mut watch = self.connection.unless_refused(watch).await?;
        let mut board = FleetBoard::default();
        loop {
            match watch.next().await? {
                BucketNews::Entry(entry) => drop(board.apply(&entry)),
                BucketNews::Complete => return Ok(board),
            }
        }
    }

    /// Asks a host to execute a call in this session; `None` if it is no host of the fleet.
    async fn ask(
        &self,
        host: &str,
        session: &str,
        verb: &str,
        call: &FarCall,
    ) -> Result<Option<HostAnswers>, Error> {
        let connection = &self.connection;
        let asked = HostAnswers::ask(connection, host, session, verb, call);
        let asked = connection.unless_refused(asked).await?;
        if asked.is_some() {
            return Ok(asked);
        }
        let absence = async { Ok(fleet::absence(connection, host).await) };
        // Where the credentials do not permit to know, it may be none of the fleet.
        let absence = connection.unless_refused(absence).await;
        let why = match absence.unwrap_or(Absent::Unknown) {
            Absent::Unknown => return Ok(None),
            Absent::AllowsNothing => "allows nothing through the broker",
            Absent::Gone => "is not there",
        };
        let hint = "`[hosts]` in the configuration names hosts for ssh";
        Err(Error::failed(format!("{host} {why}")).with_hint(hint))
    }
}

/// Asks the host that the call names by the broker. `None` if it is no host of the fleet, or has a table
/// of its own for ssh.
pub(crate) async fn ask_fleet(
    config: &Config,
    call: &FarCall,
    verb: &str,
    choice: &SessionChoice,
) -> Result<Option<HostAnswers>, Error> {
    let host = &call.caller.host;
    if config.fleet.is_none() || config.hosts.contains_key(host) || !config::is_host_name(host) {
        return Ok(None);
    }
    let session = choice.session.as_ref().or(call.session.as_ref());
    let session = session.map_or("", String::as_str);
    Fleet::connect().await?.ask(host, session, verb, call).await
}

impl From<FleetError> for Error {
    fn from(error: FleetError) -> Self {
        let hint = match &error {
            FleetError::Unreachable { .. } => {
                "`[fleet]` in the configuration names the broker (`url`) and who signs its certificate (`tls`)"
            }
            FleetError::Refused(_) => {
                "`[fleet] creds-file` in the configuration names the credentials; see docs/fleet.md"
            }
            FleetError::Credentials { .. } => {
                "`[fleet]` in the configuration names the file; see docs/fleet.md"
            }
            FleetError::Unreadable { .. } | FleetError::NoStream { .. } => {
                "the first daemon with `[fleet]` creates what is missing, if its credentials permit that; \
                 see docs/fleet.md"
            }
            FleetError::NotPermitted(_) => {
                "docs/fleet.md lists what the credentials of a machine need for each command"
            }
            FleetError::OtherVersion { .. } => "install the same version on both machines",
            FleetError::Taken(_)
            | FleetError::Address(_)
            | FleetError::Beyond(..)
            | FleetError::Broken
            | FleetError::NotConfirmed(_) => return Self::of(error),
        };
        Self::of(error).with_hint(hint)
    }
}

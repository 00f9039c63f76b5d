//! The fleet's broker, if the configuration names one.

use tokio::time::timeout;

use super::check::{LIMIT, fail, no_answer, ok, warn};
use crate::config;
use crate::fleet::{SINGLE, StreamUse, WakeReader, stream_uses};
use crate::model::with_causes;
use crate::ops::fleet::Fleet;
use crate::ops::{lookup, wakes};
use crate::wire::DoctorCheck;

/// Checks whether the broker is reached, and how it stores.
pub(super) async fn examine() -> Vec<DoctorCheck> {
    // A configuration that cannot be read is another check's business.
    if config::load(&lookup).map_or(true, |config| config.fleet.is_none()) {
        return Vec::new();
    }
    let examined = timeout(LIMIT, async {
        let fleet = match Fleet::connect().await {
            Ok(fleet) => fleet,
            Err(error) => {
                let hint = "records wait in the feed until it is reached; see docs/fleet.md";
                return vec![fail("broker", with_causes(&error), hint)];
            }
        };
        let (client, host) = (&fleet.connection.client, &fleet.host);
        let version = client.server_info().version;
        let mut checks = vec![ok(
            "broker",
            format!("nats-server {version}, where this machine is {host}"),
        )];
        if !client.is_server_compatible(2, 11, 0) {
            checks.push(warn(
                "broker",
                format!("nats-server {version} removes no single values: the tasks of a host that is gone stay"),
                "nats-server 2.11 or later removes them",
            ));
        }
        // Credentials of a machine need not permit this.
        let uses = fleet
            .connection
            .unless_refused(stream_uses(&fleet.connection));
        let uses = uses.await.unwrap_or_default();
        if uses.iter().any(StreamUse::is_single) {
            checks.push(ok("broker", SINGLE));
        }
        if wakes::are_followed_here() {
            let reading = WakeReader::may_read(&fleet.connection);
            if let Err(error) = fleet.connection.unless_refused(reading).await {
                checks.push(warn(
                    "broker",
                    format!("conversations here do not hear of their tasks elsewhere: {error}"),
                    "docs/fleet.md lists what the credentials of their machine need",
                ));
            }
        }
        checks
    });
    examined.await.unwrap_or_else(|_| vec![no_answer("broker")])
}

//! The fleet's broker, if the configuration names one.

use tokio::time::timeout;

use super::check::{LIMIT, fail, no_answer, ok, warn};
use crate::model::with_causes;
use crate::ops::fleet::Fleet;
use crate::ops::lookup;
use crate::wire::DoctorCheck;
use crate::{config, fleet};

/// What follows for a broker that syncs rarely.
const SINGLE: &str = "less than three replicas can lose the last seconds before a power cut, unless the \
                      server has `sync_interval: always`; it is filled again from the feeds";

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
        if let Ok(uses) = fleet::stream_uses(&fleet.connection).await {
            let single = uses
                .iter()
                .filter(|one| one.is_single())
                .map(|one| one.name);
            let single: Vec<&str> = single.collect();
            if !single.is_empty() {
                checks.push(ok("broker", format!("{}: {SINGLE}", single.join(", "))));
            }
        }
        checks
    });
    examined.await.unwrap_or_else(|_| vec![no_answer("broker")])
}

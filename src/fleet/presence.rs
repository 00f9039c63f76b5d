//! This machine's presence: a value with a short lifetime, which each daemon of the machine renews.

use std::time::Duration;

use tokio::time::sleep;

use super::bucket::Buckets;
use super::connection::FleetError;
use super::layout::{HOSTS_BUCKET, HostState, VERSION, token};
use super::streams::PRESENT;
use crate::config::FleetConfig;

/// How often it is renewed.
const BEAT: Duration = Duration::from_secs(20);

/// Renews the presence until the broker does not confirm it. `confirmed` is called each time it has.
pub(super) async fn beat(
    buckets: &Buckets<'_>,
    host: &str,
    config: &FleetConfig,
    confirmed: impl Fn(),
) -> Result<(), FleetError> {
    let state = HostState {
        v: VERSION,
        host: host.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        allow: config
            .allow
            .iter()
            .map(|verb| verb.name().to_owned())
            .collect(),
    };
    let value = serde_json::to_vec(&state).expect("it has text only");
    loop {
        buckets
            .put(HOSTS_BUCKET, &token(host), &value, PRESENT)
            .await?;
        confirmed();
        sleep(BEAT).await;
    }
}

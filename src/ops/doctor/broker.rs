//! The fleet's broker, if the configuration names one: its program says how it is.

use std::process::Stdio;

use serde::Deserialize;
use tokio::time::timeout;

use super::check::{LIMIT, fail, fail_without_hint, no_answer, ok, warn};
use crate::config;
use crate::hosts::{fleet_not_started, fleet_program};
use crate::model::text;
use crate::ops::{lookup, wakes};
use crate::wire::DoctorCheck;

/// The longest text, in characters.
const MAX_CHARS: usize = 400;

/// A line of the program.
#[derive(Deserialize)]
struct Found {
    result: String,
    message: String,
    hint: Option<String>,
}

/// Checks whether the broker is reached, and how it stores.
pub(super) async fn examine() -> Vec<DoctorCheck> {
    // A configuration that cannot be read is another check's business.
    if config::load(&lookup).map_or(true, |config| !config.has_fleet) {
        return Vec::new();
    }
    let mut command = fleet_program();
    command
        .arg("doctor")
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if wakes::are_followed_here() {
        command.arg("--wakes");
    }
    let output = match timeout(LIMIT, command.output()).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => {
            let error = fleet_not_started(&error);
            return vec![fail(
                "broker",
                error.message,
                error.hint.unwrap_or_default(),
            )];
        }
        Err(_elapsed) => return vec![no_answer("broker")],
    };
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let found = lines.filter_map(|line| serde_json::from_slice::<Found>(line).ok());
    let checks: Vec<DoctorCheck> = found.map(check_of).collect();
    if checks.is_empty() {
        let why = text::one_line(&output.stderr, MAX_CHARS);
        return vec![fail_without_hint("broker", why)];
    }
    checks
}

fn check_of(found: Found) -> DoctorCheck {
    let Found {
        result,
        message,
        hint,
    } = found;
    match (result.as_str(), hint) {
        ("ok", _) => ok("broker", message),
        ("warn", Some(hint)) => warn("broker", message, hint),
        (_, Some(hint)) => fail("broker", message, hint),
        (_, None) => fail_without_hint("broker", message),
    }
}

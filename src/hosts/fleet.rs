//! The machines of a fleet, which meet at a broker: a program of its own, `tmux-task-fleet`, reaches them.

use std::ffi::OsString;

use tokio::process::Command;

use super::far_call::FarCall;
use super::far_process::FarProcess;
use super::host::{FLEET_PROGRAM, Host, Way};
use super::ssh::Questions;
use crate::config::Config;
use crate::model::{Error, ErrorKind, is_host_name};
use crate::paths::Env;

/// Returns a command of the fleet's program: the one beside this program, else that of PATH.
pub(crate) fn fleet_program() -> Command {
    Command::new(program())
}

fn program() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name(FLEET_PROGRAM));
    let beside = beside.ok().filter(|program| program.exists());
    beside.map_or_else(|| FLEET_PROGRAM.into(), Into::into)
}

/// Whether a host may be a machine of the fleet: the configuration has a fleet, and no entry for the name.
fn may_be_of_fleet(host: &Host, config: &Config) -> bool {
    config.has_fleet && !config.hosts.contains_key(&host.name) && is_host_name(&host.name)
}

/// Executes a call on a machine of the fleet; `None` if the host is none.
///
/// # Errors
///
/// As [`FarProcess::start`].
pub(crate) async fn start_in_fleet(
    host: &Host,
    config: &Config,
    env: Env<'_>,
    call: &FarCall,
) -> Result<Option<FarProcess>, Error> {
    if !may_be_of_fleet(host, config) {
        return Ok(None);
    }
    let words = [program(), "at".into(), OsString::from(&host.name)];
    let of_fleet = Host {
        way: Way::Command(words.to_vec()),
        ..host.clone()
    };
    let started = FarProcess::start(&of_fleet, env, Questions::Never, call.clone()).await;
    match started {
        Ok(process) => Ok(Some(process)),
        Err(error) if error.kind == ErrorKind::NoHost => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the error that a host was not reached, which may have been meant as a machine of the fleet.
pub(crate) fn not_reached(host: &Host, config: &Config, error: Error) -> Error {
    if error.kind != ErrorKind::Unreachable || !may_be_of_fleet(host, config) {
        return error;
    }
    let message = format!(
        "{} is no machine of the fleet; {}",
        host.name, error.message
    );
    Error { message, ..error }
}

//! Which machine a name means.

use std::io;
use std::path::Path;

use crate::config::{Config, HostConfig, check_destination};
use crate::model::{Error, ErrorKind, host_name_of, is_host_name};

/// The program of the fleet, which is found beside this program or on PATH.
pub(super) const FLEET_PROGRAM: &str = "tmux-task-fleet";

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its name, as the user calls it.
    pub(crate) name: String,
    /// How it is reached, and what is there.
    pub(super) config: HostConfig,
    /// Whether it may be a machine of the fleet: the configuration has one, and no entry for the name.
    pub(super) may_be_of_fleet: bool,
}

impl Host {
    /// Returns the host of this name under `[hosts]`, else the destination for ssh.
    ///
    /// # Errors
    ///
    /// When it is neither.
    pub(crate) fn named(name: &str, config: &Config) -> Result<Self, Error> {
        let known = config.hosts.get(name).cloned();
        let host = Self {
            name: name.to_owned(),
            may_be_of_fleet: known.is_none() && config.has_fleet && is_host_name(name),
            config: known.unwrap_or_default(),
        };
        let checked = host.ssh_to().map_or(Ok(()), check_destination);
        checked.map_err(|why| {
            Error::usage(why).with_hint(
                "a host is a name under [hosts] in the configuration, or a destination for ssh",
            )
        })?;
        Ok(host)
    }

    /// Returns the destination for ssh; `None` if it is reached by another command.
    pub(super) fn ssh_to(&self) -> Option<&str> {
        let destination = self.config.ssh.as_deref().unwrap_or(&self.name);
        self.config.command.is_none().then_some(destination)
    }

    /// Returns the error that it was not reached, which may have been meant as a machine of the fleet.
    pub(super) fn not_reached(&self, error: Error) -> Error {
        if error.kind != ErrorKind::Unreachable || !self.may_be_of_fleet {
            return error;
        }
        let message = format!(
            "{} is no machine of the fleet; {}",
            self.name, error.message
        );
        Error { message, ..error }
    }
}

/// Returns the error that the connection broke. What was asked for may have been done.
pub(super) fn lost(host: &str) -> Error {
    Error::new(
        ErrorKind::Lost,
        format!("the connection to {host} was lost"),
    )
    .with_hint("whether the command was done is not known; the next command connects again")
}

/// Returns the error that a program of this machine cannot be started.
pub(super) fn not_started(program: &str, error: &io::Error) -> Error {
    if Path::new(program).ends_with(FLEET_PROGRAM) {
        return fleet_not_started(error);
    }
    let failed = Error::io(format_args!("could not start `{program}`"), error);
    if program == "ssh" {
        return failed.with_hint("install OpenSSH's client");
    }
    failed
}

/// Returns the error that the fleet's program cannot be started.
pub(crate) fn fleet_not_started(error: &io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return Error::io(format_args!("could not start {FLEET_PROGRAM}"), error);
    }
    let hint =
        "`cargo install --path . --locked --features fleet` in the source installs both programs";
    Error::failed(format!("{FLEET_PROGRAM} is not installed")).with_hint(hint)
}

/// Returns this machine's name: its host name.
pub(crate) fn this_machine() -> String {
    let system = rustix::system::uname();
    host_name_of(system.nodename().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_looked_up_and_else_a_destination() {
        let gpu = HostConfig {
            ssh: Some("me@gpu1.lan".to_owned()),
            cwd: Some("/src".to_owned()),
            ..HostConfig::default()
        };
        let mut config = Config::default();
        config.hosts.insert("gpu1".to_owned(), gpu);
        config.hosts.insert("b".to_owned(), HostConfig::default());
        let words = ["docker", "exec"].map(str::to_owned).to_vec();
        let boxed = HostConfig {
            command: Some(words),
            ..HostConfig::default()
        };
        config.hosts.insert("box".to_owned(), boxed);
        let ssh_to = |name: &str| {
            let host = Host::named(name, &config).unwrap();
            host.ssh_to().map(str::to_owned)
        };
        assert_eq!(ssh_to("gpu1").as_deref(), Some("me@gpu1.lan"));
        assert_eq!(ssh_to("b").as_deref(), Some("b"));
        assert_eq!(ssh_to("you@other:22").as_deref(), Some("you@other:22"));
        assert_eq!(ssh_to("box"), None);
        for bad in ["", "-v", "a b", "a\nb", "$(x)", "a;b"] {
            assert!(Host::named(bad, &config).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_has_a_plain_name() {
        assert!(crate::model::is_host_name(&this_machine()));
    }
}

//! Which machine a name means.

use std::io;

use crate::config::{Config, HostConfig, check_destination, is_host_name};
use crate::model::{Error, text};

/// The longest name of this machine, in characters.
const NAME_CHARS: usize = 64;

/// A machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    /// Its name, as the user calls it.
    pub(crate) name: String,
    /// What ssh is given.
    pub(crate) destination: String,
    /// The program there; `None` to look for it.
    pub(crate) program: Option<String>,
    /// The directory there in which commands run; `None` for the one that is called as here.
    pub(crate) cwd: Option<String>,
}

impl Host {
    /// Returns the host of this name under `[hosts]`, else the destination for ssh.
    ///
    /// # Errors
    ///
    /// When it is neither.
    pub(crate) fn named(name: &str, config: &Config) -> Result<Self, Error> {
        let known = config.hosts.get(name);
        let HostConfig { ssh, program, cwd } = known.cloned().unwrap_or_default();
        let destination = ssh.unwrap_or_else(|| name.to_owned());
        check_destination(&destination).map_err(|why| {
            Error::usage(why).with_hint(
                "a host is a name under [hosts] in the configuration, or a destination for ssh",
            )
        })?;
        Ok(Self {
            name: name.to_owned(),
            destination,
            program,
            cwd,
        })
    }
}

/// Returns the error that the connection broke. What was asked for may have been done.
pub(crate) fn lost(host: &str) -> Error {
    Error::failed(format!("the connection to {host} was lost"))
        .with_hint("whether the command was done is not known; the next command connects again")
}

/// Returns the error that a program of this machine cannot be started.
pub(crate) fn not_started(program: &str, error: &io::Error) -> Error {
    let failed = Error::io(format_args!("could not start `{program}`"), error);
    if program == "ssh" {
        return failed.with_hint("install OpenSSH's client");
    }
    failed
}

/// Returns the error that the link cannot be used.
pub(super) fn link_failed(host: &str, error: &io::Error) -> Error {
    Error::io(format_args!("could not use the link to {host}"), error)
}

/// Returns this machine's name: its host name.
pub(crate) fn this_machine() -> String {
    let system = rustix::system::uname();
    let plain: String = text::one_line(system.nodename().to_bytes(), NAME_CHARS)
        .chars()
        .map(|c| {
            if is_host_name(&format!("a{c}")) {
                c
            } else {
                '-'
            }
        })
        .collect();
    let plain = plain.trim_start_matches(['-', '.', '_']);
    if is_host_name(plain) {
        plain.to_owned()
    } else {
        "localhost".to_owned()
    }
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
        let of = |name: &str| Host::named(name, &config).map(|host| host.destination);
        assert_eq!(of("gpu1").unwrap(), "me@gpu1.lan");
        assert_eq!(of("b").unwrap(), "b");
        assert_eq!(of("you@other:22").unwrap(), "you@other:22");
        for bad in ["", "-v", "a b", "a\nb", "$(x)", "a;b"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_has_a_plain_name() {
        assert!(is_host_name(&this_machine()));
    }
}

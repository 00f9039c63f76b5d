//! Which machine a name means.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::ssh::create_folder;
use crate::client::{LineProcess, fleet_not_started, fleet_program_path};
use crate::config::paths::Env;
use crate::config::{self, HostConfig, destination};
use crate::model::{Error, ErrorKind, FarCall, FarCaller, OURS, host_name_of, is_host_name};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    /// How it is reached, and what is there.
    pub(super) config: HostConfig,
    /// Whether it may be a machine of the fleet: the configuration has one, and no entry for the name.
    pub(super) may_be_of_fleet: bool,
    /// The folder of the sockets by which ssh shares connections.
    pub(super) links: PathBuf,
}

impl Host {
    /// Returns the host of this name under `[hosts]`, else the destination for ssh.
    pub(crate) fn named(name: &str, env: Env<'_>) -> Result<Self, Error> {
        let config = config::load(env)?;
        let known = config.hosts.get(name).cloned();
        let mut host = Self {
            name: name.to_owned(),
            may_be_of_fleet: known.is_none() && config.has_fleet && is_host_name(name),
            config: known.unwrap_or_default(),
            links: PathBuf::new(),
        };
        if let Some(to) = host.ssh_to() {
            let hint =
                "a host is a name under [hosts] in the configuration, or a destination for ssh";
            destination(to).map_err(|why| Error::usage(why).with_hint(hint))?;
            host.links = create_folder(env)?;
        }
        Ok(host)
    }

    /// Returns the machine of the fleet that it may be: one that the fleet's program reaches.
    pub(super) fn of_fleet(&self) -> Option<Self> {
        let program = fleet_program_path().to_string_lossy().into_owned();
        let words = vec![program, "at".to_owned(), self.name.clone()];
        self.may_be_of_fleet.then(|| Self {
            config: HostConfig {
                command: Some(words),
                ..HostConfig::default()
            },
            may_be_of_fleet: false,
            ..self.clone()
        })
    }

    /// Returns the destination for ssh; `None` if it is reached by another command.
    pub(super) fn ssh_to(&self) -> Option<&str> {
        let destination = self.config.ssh.as_deref().unwrap_or(&self.name);
        self.config.command.is_none().then_some(destination)
    }

    /// Returns the call with these arguments, in this directory or in the one that is configured.
    pub(crate) fn call(&self, args: Vec<String>, owner: Option<String>) -> FarCall {
        let here = || env::current_dir().ok()?.to_str().map(str::to_owned);
        let caller = FarCaller {
            host: self.name.clone(),
            machine: this_machine(),
            ..FarCaller::default()
        };
        FarCall {
            version: OURS.to_owned(),
            args,
            caller,
            owner,
            cwd: self.config.cwd.clone().or_else(here),
            ..FarCall::default()
        }
    }

    /// Returns the error that it was not reached. It may have been meant as a machine of the fleet.
    pub(super) fn not_reached(&self, why: String) -> Error {
        let why = match self.may_be_of_fleet {
            true => format!("{} is no machine of the fleet; {why}", self.name),
            false => why,
        };
        Error::new(ErrorKind::Unreachable, why)
    }

    /// Returns the error that ssh did not reach it. A client of a shared connection says nothing then.
    pub(super) fn unreachable(&self, destination: &str, said: &str) -> Error {
        let words = if said.is_empty() { "ssh failed" } else { said };
        let hint = "has to work first; in a terminal it asks what it needs";
        let error = self.not_reached(format!("could not reach {}: {words}", self.name));
        error.with_hint(format!("`ssh {destination}` {hint}"))
    }

    /// Returns the error that there is no program on it, which is a machine of this kind.
    pub(super) fn missing(&self, system: &str) -> Error {
        let name = &self.name;
        let what = self.config.program.as_deref().unwrap_or("tmux-task");
        let system = match system {
            "" => String::new(),
            system => format!(" ({system})"),
        };
        let hint = format!("`tmux-task init host {name}` puts this program there");
        Error::failed(format!("there is no {what} on {name}{system}")).with_hint(hint)
    }
}

/// Returns the error that the connection broke. What was asked for may have been done.
pub(super) fn lost(host: &str) -> Error {
    let why = format!("the connection to {host} was lost");
    let hint = "whether the command was done is not known; the next command connects again";
    Error::new(ErrorKind::Lost, why).with_hint(hint)
}

pub(super) fn start_way(command: Command, stdin: Stdio) -> Result<LineProcess, Error> {
    let program = command.get_program().to_owned();
    LineProcess::spawn(command, stdin).map_err(|error| not_started(&program, &error))
}

pub(super) fn not_started(program: &OsStr, error: &io::Error) -> Error {
    if program == fleet_program_path() {
        return fleet_not_started(error);
    }
    let what = format!("could not start `{}`", program.display());
    let failed = Error::io(what, error);
    match program == "ssh" {
        true => failed.with_hint("install OpenSSH's client"),
        false => failed,
    }
}

/// Returns this machine's name: its host name.
pub(crate) fn this_machine() -> String {
    let system = rustix::system::uname();
    host_name_of(system.nodename().to_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;

    #[test]
    fn a_name_is_looked_up_and_else_a_destination() {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.toml");
        let hosts = "[hosts]\ngpu1 = { ssh = \"me@gpu1.lan\", cwd = \"/src\" }\nb = {}\n\
                     box = { command = [\"docker\", \"exec\"] }\n";
        std::fs::write(&config, hosts).unwrap();
        let (config, folder) = (config.display(), dir.path().display());
        let variables = format!("TMUX_TASK_CONFIG={config} TMUX_TASK_RUNTIME_DIR={folder}/run");
        let env = env(&variables);
        for (name, expected) in [
            ("gpu1", Some("me@gpu1.lan")),
            ("b", Some("b")),
            ("you@other:22", Some("you@other:22")),
            ("box", None),
        ] {
            let host = Host::named(name, &env).unwrap();
            assert_eq!(host.ssh_to(), expected, "{name}");
        }
        for bad in ["", "-v", "a b", "a\nb", "$(x)", "a;b"] {
            assert!(Host::named(bad, &env).is_err(), "{bad}");
        }
    }

    #[test]
    fn this_machine_has_a_plain_name() {
        assert!(crate::model::is_host_name(&this_machine()));
    }
}

//! Other machines with tmux-task: table `hosts`, and table `fleet`, the broker of many machines.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::{quotable, text, wrong};
use crate::model::{Ordered as _, is_host_name};

/// The maximum length of a destination.
const DESTINATION_CHARS: usize = 255;

/// How a machine is reached, and what is there. Written as a table, or as its destination alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct HostConfig {
    /// The destination for ssh; `None` if it is the host's name: key `ssh`.
    #[serde(deserialize_with = "destination")]
    pub ssh: Option<String>,
    /// The program there, an absolute path or one that begins with `~/`: key `program`.
    #[serde(deserialize_with = "path")]
    pub program: Option<String>,
    /// The words in front of the arguments, instead of ssh: key `command`.
    pub command: Option<Vec<String>>,
    /// The directory in which commands run there: key `cwd`.
    #[serde(deserialize_with = "path")]
    pub cwd: Option<String>,
}

/// A host as it is written.
struct DestinationOrTable(HostConfig);

impl<'de> Deserialize<'de> for DestinationOrTable {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Host;

        impl<'de> Visitor<'de> for Host {
            type Value = HostConfig;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a destination for ssh like \"user@gpu1\", or a table")
            }

            fn visit_str<E: Error>(self, destination: &str) -> Result<HostConfig, E> {
                check_destination(destination).map_err(E::custom)?;
                Ok(HostConfig {
                    ssh: Some(destination.to_owned()),
                    ..HostConfig::default()
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HostConfig, A::Error> {
                let host = HostConfig::deserialize(MapAccessDeserializer::new(map))?;
                if host.command.as_ref().is_some_and(Vec::is_empty) {
                    return Err(A::Error::custom("`command` is empty"));
                }
                if host.command.is_some() && (host.ssh.is_some() || host.program.is_some()) {
                    let why = "`command` is instead of `ssh` and `program`";
                    return Err(A::Error::custom(why));
                }
                Ok(host)
            }
        }

        from.deserialize_any(Host).map(Self)
    }
}

/// Reads the table; the keys are names of hosts.
pub(super) fn hosts<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, HostConfig>, D::Error> {
    let hosts = BTreeMap::<String, DestinationOrTable>::deserialize(from)?;
    match hosts.keys().find(|name| !is_host_name(name)) {
        None => Ok(hosts
            .into_iter()
            .map(|(name, DestinationOrTable(host))| (name, host))
            .into_map()),
        Some(name) => Err(D::Error::custom(wrong(
            name,
            "is not a name of a host: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
        ))),
    }
}

/// Checks that ssh takes the word as a destination, and nothing else does anything with it.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn check_destination(word: &str) -> Result<(), String> {
    let is_usable = |c: char| c.is_ascii_alphanumeric() || "@._-:[]/+~".contains(c);
    let is_destination = !word.is_empty()
        && !word.starts_with('-')
        && word.len() <= DESTINATION_CHARS
        && word.chars().all(is_usable);
    if is_destination {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a destination for ssh like `user@gpu1`",
        quotable(word)
    ))
}

fn destination<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a destination for ssh like \"user@gpu1\"", |word| {
        check_destination(word).map(|()| Some(word.to_owned()))
    })
}

fn path<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a path there", |path| {
        // It is part of a command line that every login shell must read alike.
        let is_usable = |c: char| c.is_alphanumeric() || "/._-+@~:, ".contains(c);
        let is_path = path.starts_with('/') || path.starts_with("~/");
        if is_path && path.chars().all(is_usable) {
            return Ok(Some(path.to_owned()));
        }
        Err(wrong(
            path,
            "is not a path there: `/...` or `~/...`, of letters, digits, blanks and `. _ - + @ ~ : ,`",
        ))
    })
}

/// Reads the table `fleet`, which `tmux-task-fleet` checks.
pub(super) fn is_there<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(from).map(|_| true)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    fn hosts_in(text: &str) -> Result<BTreeMap<String, HostConfig>, String> {
        let parsed = parse(Path::new("c.toml"), text);
        parsed
            .map(|config| config.hosts)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_host_is_a_destination_or_a_table() {
        let hosts = hosts_in(
            "[hosts]\na = 'me@a'\nc = { cwd = '~/src' }\n[hosts.b]\nssh = 'b.lan'\nprogram = '/opt/tmux task'\n",
        )
        .unwrap();
        let host = |ssh: Option<&str>, program: Option<&str>, cwd: Option<&str>| HostConfig {
            ssh: ssh.map(str::to_owned),
            program: program.map(str::to_owned),
            command: None,
            cwd: cwd.map(str::to_owned),
        };
        assert_eq!(hosts["a"], host(Some("me@a"), None, None));
        assert_eq!(
            hosts["b"],
            host(Some("b.lan"), Some("/opt/tmux task"), None)
        );
        assert_eq!(hosts["c"], host(None, None, Some("~/src")));
        let hosts =
            hosts_in("hosts.d = { command = ['docker', 'exec', 'd', 'tmux-task'] }").unwrap();
        assert_eq!(hosts["d"].command.as_ref().unwrap().len(), 4);
        assert!(hosts_in("").unwrap().is_empty());
    }

    #[test]
    fn what_a_shell_or_ssh_could_misread_is_refused() {
        #[track_caller]
        fn check(text: &str, expected: &str) {
            let error = hosts_in(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        check(
            "hosts.a = '-oProxyCommand=x'",
            "c.toml:1: `hosts.a`: `-oProxyCommand=x` is not a",
        );
        check("hosts.a = 'a;b'", "is not a destination");
        check("hosts.a = 'a b'", "is not a destination");
        check("hosts.a = ''", "is not a destination");
        check("hosts.'a b' = 'x'", "is not a name of a host");
        check("hosts.-a = 'x'", "is not a name of a host");
        check("hosts.a = 3", "a destination for ssh like");
        check("hosts.a.port = 3", "port");
        check("hosts.a = { command = [] }", "`command` is empty");
        check(
            "hosts.a = { ssh = 'a', command = ['b'] }",
            "instead of `ssh`",
        );
        for path in [
            "bin/x", "/it's", "/a\\\\b", "/a$(b)", "/a\\nb", "/a!b", "/a\\\"b",
        ] {
            check(
                &format!("hosts.a.program = \"{path}\""),
                "is not a path there",
            );
        }
    }
}

//! Other machines with tmux-task: table `hosts`, and table `fleet`, the broker of many machines.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::{OneOrMany, absolute_file as file, one_or_many, quotable, text, words, wrong};

/// The maximum length of a host's name.
const NAME_CHARS: usize = 64;

/// The maximum length of a destination.
const DESTINATION_CHARS: usize = 255;

/// How a machine is reached, and what is there. Written as a table, or as its destination alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HostConfig {
    /// The destination for ssh; `None` if it is the host's name: key `ssh`.
    pub ssh: Option<String>,
    /// The program there, an absolute path or one that begins with `~/`: key `program`.
    pub program: Option<String>,
    /// The words in front of the arguments, instead of ssh: key `command`.
    pub command: Option<Vec<String>>,
    /// The directory in which commands run there: key `cwd`.
    pub cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
#[derive(Default)]
struct Table {
    #[serde(deserialize_with = "destination")]
    ssh: Option<String>,
    #[serde(deserialize_with = "path")]
    program: Option<String>,
    command: Option<Vec<String>>,
    #[serde(deserialize_with = "path")]
    cwd: Option<String>,
}

impl<'de> Deserialize<'de> for HostConfig {
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
                let Table {
                    ssh,
                    program,
                    command,
                    cwd,
                } = Table::deserialize(MapAccessDeserializer::new(map))?;
                if command.as_ref().is_some_and(Vec::is_empty) {
                    return Err(A::Error::custom("`command` is empty"));
                }
                if command.is_some() && (ssh.is_some() || program.is_some()) {
                    let why = "`command` is instead of `ssh` and `program`";
                    return Err(A::Error::custom(why));
                }
                Ok(HostConfig {
                    ssh,
                    program,
                    command,
                    cwd,
                })
            }
        }

        from.deserialize_any(Host)
    }
}

/// Reads the table; the keys are names of hosts.
pub(super) fn hosts<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, HostConfig>, D::Error> {
    let hosts = BTreeMap::<String, HostConfig>::deserialize(from)?;
    match hosts.keys().find(|name| !is_host_name(name)) {
        None => Ok(hosts),
        Some(name) => Err(D::Error::custom(not_a_host_name(name))),
    }
}

/// Returns why this is no host's name.
fn not_a_host_name(name: &str) -> String {
    wrong(
        name,
        "is not a name of a host: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
    )
}

/// Whether this can be the name of a machine, in texts and in names of consumers.
pub(crate) fn is_host_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.len() <= NAME_CHARS
        && name.chars().all(is_plain)
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

/// The answer to the table in a program without it.
const WITHOUT_FLEET: &str =
    "this program was built without the fleet's broker; `cargo install` builds it with it";

/// The broker, and what it may ask of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct FleetConfig {
    /// The addresses of the broker's servers, one at least: key `url`.
    #[serde(deserialize_with = "urls")]
    pub url: Vec<String>,
    /// The file with the credentials, a user's JWT and seed as `nsc` writes them, or the seed alone:
    /// key `creds-file`.
    #[serde(deserialize_with = "file")]
    pub creds_file: Option<PathBuf>,
    /// The files of TLS, which is required then: key `tls`.
    pub tls: Option<TlsConfig>,
    /// This machine's name in the fleet, unless it is the system's: key `host`.
    #[serde(deserialize_with = "host")]
    pub host: Option<String>,
    /// What others may do here through the broker: key `allow`.
    #[serde(deserialize_with = "verbs")]
    pub allow: BTreeSet<Verb>,
}

/// The files of TLS. The system's own certificates are trusted where no others are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct TlsConfig {
    /// The certificates that the broker's must be signed by: key `ca-file`.
    #[serde(deserialize_with = "file")]
    pub ca_file: Option<PathBuf>,
    /// The certificate of this machine: key `cert-file`.
    #[serde(deserialize_with = "file")]
    pub cert_file: Option<PathBuf>,
    /// Its key: key `key-file`.
    #[serde(deserialize_with = "file")]
    pub key_file: Option<PathBuf>,
}

/// What may be done on a machine through the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verb {
    Ls,
    Logs,
    Wait,
    Run,
    Send,
    Kill,
}

impl Verb {
    /// Each with its name, which is that of the command.
    pub(crate) const NAMES: [(&str, Self); 6] = [
        ("ls", Self::Ls),
        ("logs", Self::Logs),
        ("wait", Self::Wait),
        ("run", Self::Run),
        ("send", Self::Send),
        ("kill", Self::Kill),
    ];

    /// Returns its name.
    #[cfg(feature = "fleet")]
    pub(crate) fn name(self) -> &'static str {
        Self::NAMES[self as usize].0
    }
}

/// Reads the table.
pub(super) fn fleet<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FleetConfig>, D::Error> {
    let config = FleetConfig::deserialize(from)?;
    if cfg!(not(feature = "fleet")) {
        return Err(Error::custom(WITHOUT_FLEET));
    }
    if config.url.is_empty() {
        return Err(Error::custom("the table needs a `url`"));
    }
    let tls = config.tls.as_ref();
    if tls.is_some_and(|tls| tls.cert_file.is_some() != tls.key_file.is_some()) {
        return Err(Error::custom(
            "`tls` needs both `cert-file` and `key-file`, or none",
        ));
    }
    Ok(Some(config))
}

fn urls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let urls = match one_or_many(from, "an address, or a list of addresses")? {
        OneOrMany::One(url) => vec![url],
        OneOrMany::Many(urls) => urls,
    };
    let checked = urls.into_iter().map(|url| broker_address(&url));
    checked.collect::<Result<_, _>>().map_err(Error::custom)
}

/// Checks an address, which is displayed and logged: it has no credentials.
fn broker_address(url: &str) -> Result<String, String> {
    let rest = url
        .strip_prefix("nats://")
        .or_else(|| url.strip_prefix("tls://"));
    let Some(rest) = rest.filter(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
            && rest.chars().all(|c| c.is_ascii_graphic())
    }) else {
        // What follows `@` is not a secret; what precedes it may be.
        let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
        let why = "is not an address that starts with nats:// or tls://";
        return Err(wrong(shown, why));
    };
    if rest.contains('@') {
        let why = "an address must not have credentials; name their file with `creds-file`";
        return Err(why.to_owned());
    }
    Ok(url.to_owned())
}

fn host<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a name", |name| match is_host_name(name) {
        true => Ok(Some(name.to_owned())),
        false => Err(not_a_host_name(name)),
    })
}

fn verbs<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Verb>, D::Error> {
    words(from, &Verb::NAMES, str::to_owned)
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

#[cfg(all(test, feature = "fleet"))]
mod fleet_tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    fn of(text: &str) -> Result<FleetConfig, String> {
        let parsed = parse(Path::new("c.toml"), &format!("[fleet]\n{text}"));
        let config = parsed.map_err(|error| error.to_string())?;
        Ok(config.fleet.expect("the table is there"))
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        assert_eq!(of(text).unwrap_err(), expected);
    }

    #[test]
    fn a_broker_has_addresses_credentials_tls_a_name_and_verbs() {
        let plain = FleetConfig {
            url: vec!["nats://b:4222".to_owned()],
            ..FleetConfig::default()
        };
        assert_eq!(of("url = 'nats://b:4222'\n").unwrap(), plain);
        let all = "url = ['tls://a', 'tls://b']\ncreds-file = '/c'\nhost = 'gpu1.lab'\n\
            allow = ['ls', 'kill']\n[fleet.tls]\nca-file = '/ca'\ncert-file = '/x'\nkey-file = '/k'\n";
        let all = of(all).unwrap();
        assert_eq!(all.url, ["tls://a", "tls://b"]);
        assert_eq!(all.creds_file, Some("/c".into()));
        assert_eq!(all.host.as_deref(), Some("gpu1.lab"));
        assert_eq!(all.allow, BTreeSet::from([Verb::Ls, Verb::Kill]));
        assert_eq!(all.tls.unwrap().ca_file, Some("/ca".into()));
        let required = of("url = 'nats://b'\ntls = {}\n").unwrap();
        assert_eq!(required.tls, Some(TlsConfig::default()));
    }

    #[test]
    fn what_is_not_a_broker_is_an_error() {
        check_error("host = 'a'", "c.toml:1: `fleet`: the table needs a `url`");
        check_error(
            "url = 'http://b'",
            "c.toml:2: `fleet.url`: `http://b` is not an address that starts with nats:// or tls://",
        );
        check_error(
            "url = 'nats://u:secret@b'",
            "c.toml:2: `fleet.url`: an address must not have credentials; name their file with `creds-file`",
        );
        let error = of("url = 'nts://u:secret@b'").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
        check_error(
            "url = 'nats://b'\ncreds-file = 'c'",
            "c.toml:3: `fleet.creds-file`: `c` is not an absolute path",
        );
        check_error(
            "url = 'nats://b'\nhost = '-x'",
            "c.toml:3: `fleet.host`: `-x` is not a name of a host: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
        );
        check_error(
            "url = 'nats://b'\nallow = ['attach']",
            "c.toml:3: `fleet.allow` does not know \"attach\"; allowed are \"ls\", \"logs\", \"wait\", \"run\", \"send\" and \"kill\"",
        );
        check_error(
            "url = 'nats://b'\ntls = 'yes'",
            "c.toml:3: `fleet.tls` must be a table, found a string",
        );
        check_error(
            "url = 'nats://b'\n[fleet.tls]\ncert-file = '/c'",
            "c.toml:1: `fleet`: `tls` needs both `cert-file` and `key-file`, or none",
        );
    }
}

//! The table `fleet`: the broker of many machines.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::hosts::{is_host_name, not_a_host_name};
use super::value::{OneOrMany, absolute_file as file, one_or_many, text, words, wrong};

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

#[cfg(feature = "fleet")]
#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::parse::parse;

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

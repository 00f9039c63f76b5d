//! The table `fleet`: the broker of many machines.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::quotable;
use super::value::{text, words, wrong};

/// The maximum length of a host's name.
const HOST_CHARS: usize = 63;

/// The answer to the table in a program without it.
pub(super) const WITHOUT_FLEET: &str =
    "this program was built without the fleet's broker; `cargo install` builds it with it";

/// The broker, and what it may ask of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetConfig {
    /// The addresses of the broker's servers, one at least: key `url`.
    pub url: Vec<String>,
    /// The file with the credentials, a user's JWT and seed as `nsc` writes them, or the seed alone:
    /// key `creds-file`.
    pub creds_file: Option<PathBuf>,
    /// TLS, where it is required: key `tls`.
    pub tls: Option<TlsConfig>,
    /// This machine's name in the fleet, unless it is the system's: key `host`.
    pub host: Option<String>,
    /// What others may do here through the broker: key `allow`.
    pub allow: BTreeSet<Verb>,
}

impl FleetConfig {
    /// Returns the broker of a sink.
    #[cfg(feature = "fleet")]
    pub(super) fn of_sink(
        url: String,
        creds_file: Option<PathBuf>,
        ca_file: Option<PathBuf>,
    ) -> Self {
        let tls = ca_file.map(|file| TlsConfig {
            ca_file: Some(file),
            ..TlsConfig::default()
        });
        Self {
            url: vec![url],
            creds_file,
            tls,
            host: None,
            allow: BTreeSet::new(),
        }
    }
}

/// The files of TLS. The system's own certificates are trusted where no others are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[serde(expecting = "a table")]
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
        match self {
            Self::Ls => "ls",
            Self::Logs => "logs",
            Self::Wait => "wait",
            Self::Run => "run",
            Self::Send => "send",
            Self::Kill => "kill",
        }
    }

    /// Returns the verb of this name.
    #[cfg(feature = "fleet")]
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, verb)| *verb)
    }
}

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct Table {
    #[serde(default, deserialize_with = "urls")]
    url: Vec<String>,
    #[serde(default, deserialize_with = "file")]
    creds_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "tls")]
    tls: Option<TlsConfig>,
    #[serde(default, deserialize_with = "host")]
    host: Option<String>,
    #[serde(default, deserialize_with = "verbs")]
    allow: BTreeSet<Verb>,
}

/// Reads the table.
pub(super) fn fleet<'de, D: Deserializer<'de>>(from: D) -> Result<Option<FleetConfig>, D::Error> {
    let table = Table::deserialize(from)?;
    if cfg!(not(feature = "fleet")) {
        return Err(Error::custom(WITHOUT_FLEET));
    }
    if table.url.is_empty() {
        return Err(Error::custom("the table needs a `url`"));
    }
    Ok(Some(FleetConfig {
        url: table.url,
        creds_file: table.creds_file,
        tls: table.tls,
        host: table.host,
        allow: table.allow,
    }))
}

/// Reads one address or several of them.
fn urls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    struct Urls;

    impl<'de> Visitor<'de> for Urls {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an address, or a list of addresses")
        }

        fn visit_str<E: Error>(self, one: &str) -> Result<Vec<String>, E> {
            let url = address(one).map_err(E::custom)?;
            Ok(vec![url])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<String>, A::Error> {
            let mut urls = Vec::new();
            while let Some(one) = list.next_element::<String>()? {
                urls.push(address(&one).map_err(A::Error::custom)?);
            }
            Ok(urls)
        }
    }
    from.deserialize_any(Urls)
}

/// The address is displayed and logged, so it has no credentials.
pub(super) fn address(url: &str) -> Result<String, String> {
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

fn file<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    text(from, "a path", |path| {
        let file = PathBuf::from(path);
        if file.is_absolute() {
            return Ok(Some(file));
        }
        Err(wrong(path, "is not an absolute path"))
    })
}

/// Reads whether TLS is required, or its files.
fn tls<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TlsConfig>, D::Error> {
    struct Tls;

    impl<'de> Visitor<'de> for Tls {
        type Value = Option<TlsConfig>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a boolean or a table")
        }

        fn visit_bool<E: Error>(self, is_required: bool) -> Result<Self::Value, E> {
            Ok(is_required.then(TlsConfig::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let tls = TlsConfig::deserialize(MapAccessDeserializer::new(map))?;
            if tls.cert_file.is_some() != tls.key_file.is_some() {
                return Err(A::Error::custom(
                    "`cert-file` and `key-file` belong together",
                ));
            }
            Ok(Some(tls))
        }
    }
    from.deserialize_any(Tls)
}

fn host<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a name", |name| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.len() <= HOST_CHARS
            && name.chars().all(is_plain);
        is_name.then(|| Some(name.to_owned())).ok_or_else(|| {
            let name = quotable(name);
            format!(
                "`{name}` is not 1 to {HOST_CHARS} of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
            )
        })
    })
}

fn verbs<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Verb>, D::Error> {
    words(from, &Verb::NAMES, str::to_owned)
}

#[cfg(all(test, feature = "fleet"))]
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
            creds_file: None,
            tls: None,
            host: None,
            allow: BTreeSet::new(),
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
        let required = of("url = 'nats://b'\ntls = true\n").unwrap();
        assert_eq!(required.tls, Some(TlsConfig::default()));
        assert_eq!(of("url = 'nats://b'\ntls = false\n").unwrap().tls, None);
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
            "c.toml:3: `fleet.host`: `-x` is not 1 to 63 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
        );
        check_error(
            "url = 'nats://b'\nallow = ['attach']",
            "c.toml:3: `fleet.allow` does not know \"attach\"; allowed are \"ls\", \"logs\", \"wait\", \"run\", \"send\" and \"kill\"",
        );
        check_error(
            "url = 'nats://b'\ntls = 'yes'",
            "c.toml:3: `fleet.tls` must be a boolean or a table, found a string",
        );
        check_error(
            "url = 'nats://b'\n[fleet.tls]\ncert-file = '/c'",
            "c.toml:3: `fleet.tls`: `cert-file` and `key-file` belong together",
        );
    }
}

//! Table `fleet` of the configuration file: the broker, and what others may have executed here.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize};
use tmux_task::model::{Error, is_host_name};

use crate::machine::system_name;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    fleet: Option<FleetConfig>,
}

/// The broker, and what it may ask of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct FleetConfig {
    /// The addresses of the broker's servers, one at least.
    #[serde(deserialize_with = "addresses")]
    pub(crate) url: Vec<String>,
    /// The file with the credentials, a user's JWT and seed as `nsc` writes them, or the seed alone.
    pub(crate) creds_file: Option<PathBuf>,
    /// The files of TLS, which is required then.
    pub(crate) tls: Option<TlsConfig>,
    /// This machine's name in the fleet: by default the one that its system gives it.
    #[serde(default = "system_name")]
    pub(crate) host: String,
    /// What others may do here through the broker.
    pub(crate) allow: BTreeSet<Verb>,
}

/// What may be done on a machine through the broker, by the name of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verb {
    Ls,
    Logs,
    Wait,
    Run,
    Send,
    Kill,
}

impl Verb {
    /// Whether executing it twice is something else than once.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Self::Run | Self::Send | Self::Kill)
    }
}

/// Reads one address, or a list.
fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an address, or a list of addresses")]
    enum Addresses {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Addresses::deserialize(from)? {
        Addresses::One(url) => vec![url],
        Addresses::Many(urls) => urls,
    })
}

/// The files of TLS. The system's own certificates are trusted where no others are named.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct TlsConfig {
    /// The certificates that the broker's must be signed by.
    pub(crate) ca_file: Option<PathBuf>,
    /// The certificate of this machine.
    pub(crate) cert_file: Option<PathBuf>,
    /// Its key.
    pub(crate) key_file: Option<PathBuf>,
}

/// Reads the table.
///
/// # Errors
///
/// When there is none, or something in it is wrong. Nothing of credentials is in the message.
pub(crate) fn load() -> Result<FleetConfig, Error> {
    let path = path().unwrap_or_default();
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| Error::io("could not read the configuration", &error))?,
    };
    parse(&path.display().to_string(), &text)?.ok_or_else(|| {
        Error::failed("the configuration names no broker")
            .with_hint("`[fleet]` with `url = \"nats://...\"` names it; see docs/fleet.md")
    })
}

/// Returns the configuration file: the same that tmux-task reads.
fn path() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let folder = |name: &str| named(name).map(PathBuf::from);
    if let Some(file) = folder("TMUX_TASK_CONFIG") {
        return Some(file);
    }
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("tmux-task/config.toml"))
}

fn parse(name: &str, text: &str) -> Result<Option<FleetConfig>, Error> {
    let file: File = toml::from_str(text).map_err(|error| {
        let before = error
            .span()
            .map_or("", |span| &text[..span.start.min(text.len())]);
        let line = before.matches('\n').count() + 1;
        Error::failed(format!("{name}:{line}: {}", error.message()))
    })?;
    if let Some(config) = &file.fleet {
        check(config).map_err(|why| Error::failed(format!("{name}: `fleet`: {why}")))?;
    }
    Ok(file.fleet)
}

fn check(config: &FleetConfig) -> Result<(), String> {
    if config.url.is_empty() {
        return Err("the table needs a `url`".to_owned());
    }
    config.url.iter().try_for_each(|url| check_address(url))?;
    if !is_host_name(&config.host) {
        return Err(format!(
            "`{}` is not a name of a host: 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
            config.host
        ));
    }
    let tls = config.tls.clone().unwrap_or_default();
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        return Err("`tls` needs both `cert-file` and `key-file`, or none".to_owned());
    }
    let files = [
        &config.creds_file,
        &tls.ca_file,
        &tls.cert_file,
        &tls.key_file,
    ];
    match files.into_iter().flatten().find(|file| file.is_relative()) {
        Some(file) => Err(format!("`{}` is not an absolute path", file.display())),
        None => Ok(()),
    }
}

static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^(?:nats|tls)://[A-Za-z0-9\[][!-~]*$").expect("a constant pattern compiles")
});

/// Checks an address, which is displayed and logged: it has no credentials.
fn check_address(url: &str) -> Result<(), String> {
    if !ADDRESS.is_match(url) {
        // What follows `@` is not a secret; what precedes it may be.
        let shown = url.rsplit_once('@').map_or(url, |(_, host)| host);
        return Err(format!(
            "`{shown}` is not an address that starts with nats:// or tls://"
        ));
    }
    match url.contains('@') {
        true => Err(
            "an address must not have credentials; name their file with `creds-file`".to_owned(),
        ),
        false => Ok(()),
    }
}

/// Reads a file of credentials, which must be the user's own, and nobody else able to read.
///
/// # Errors
///
/// Why it is not used.
pub(crate) fn read_secret(path: &Path) -> io::Result<String> {
    let file = fs::File::open(path)?;
    let known = file.metadata()?;
    if known.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    let mode = known.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let why = format!("other users can read it (mode {mode:04o}); `chmod 600` closes it");
        return Err(io::Error::other(why));
    }
    io::read_to_string(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<FleetConfig, String> {
        let parsed = parse("c.toml", &format!("[hosts]\na = 'b'\n[fleet]\n{text}"));
        let config = parsed.map_err(|error| error.to_string())?;
        Ok(config.expect("the table is there"))
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = of(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn a_broker_has_addresses_credentials_tls_a_name_and_verbs() {
        let plain = FleetConfig {
            url: vec!["nats://b:4222".to_owned()],
            host: system_name(),
            ..FleetConfig::default()
        };
        assert_eq!(of("url = 'nats://b:4222'\n").unwrap(), plain);
        let all = "url = ['tls://a', 'tls://b']\ncreds-file = '/c'\nhost = 'gpu1.lab'\n\
            allow = ['ls', 'kill']\n[fleet.tls]\nca-file = '/ca'\ncert-file = '/x'\nkey-file = '/k'\n";
        let all = of(all).unwrap();
        assert_eq!(all.url, ["tls://a", "tls://b"]);
        assert_eq!(all.creds_file, Some("/c".into()));
        assert_eq!(all.host, "gpu1.lab");
        assert_eq!(all.allow, BTreeSet::from([Verb::Ls, Verb::Kill]));
        assert_eq!(all.tls.unwrap().ca_file, Some("/ca".into()));
        let required = of("url = 'nats://b'\ntls = {}\n").unwrap();
        assert_eq!(required.tls, Some(TlsConfig::default()));
        assert_eq!(parse("c.toml", "").unwrap(), None);
    }

    #[test]
    fn what_is_not_a_broker_is_an_error() {
        check_error("host = 'a'", "c.toml: `fleet`: the table needs a `url`");
        let why = "`http://b` is not an address that starts with nats:// or tls://";
        check_error("url = 'http://b'", why);
        let why = "an address must not have credentials; name their file with `creds-file`";
        check_error("url = 'nats://u:secret@b'", why);
        let error = of("url = 'nts://u:secret@b'").unwrap_err();
        assert!(!error.contains("secret"), "{error}");
        check_error(
            "url = 'nats://b'\ncreds-file = 'c'",
            "`c` is not an absolute path",
        );
        check_error(
            "url = 'nats://b'\nhost = '-x'",
            "`-x` is not a name of a host",
        );
        check_error(
            "url = 'nats://b'\nallow = ['attach']",
            "c.toml:5: unknown variant `attach`",
        );
        check_error("url = 'nats://b'\ntls = 'yes'", "c.toml:5: invalid type");
        check_error(
            "url = 'nats://b'\n[fleet.tls]\ncert-file = '/c'",
            "`tls` needs both",
        );
        check_error(
            "url = 'nats://b'\nuser = 'a'",
            "c.toml:5: unknown field `user`",
        );
    }
}

//! A connection to the broker, as table `fleet` of the configuration file says. It ends with the first
//! interruption: what was published on it and not confirmed is checked on the next one, before anything else is
//! published.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use std::{env, fs, io};

use async_nats::jetstream::consumer::{Consumer, FromConsumer, IntoConsumerConfig};
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::{Config, DirectGetErrorKind, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, ContextBuilder, Message};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use futures_util::{Stream, StreamExt};
use regex::Regex;
use serde::{Deserialize, Deserializer, Serialize};
use tmux_task::model::{Error, is_host_name, with_causes};
use tokio::sync::watch;

use crate::layout::{FEED, HOSTS, INBOX, STATE, Store, WAKE, subject};
use crate::system_name;

/// How long connecting to one server may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long an answer of the broker may take.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// How often a silent connection is probed. It counts as broken after the third probe without answer.
const PROBE_EVERY: Duration = Duration::from_secs(15);

/// The client library connects again by itself, and sends what it still has. Nobody may use that
/// connection, so it is put off for as long as this, when the library finds that it is not needed.
const PUT_OFF: Duration = Duration::from_secs(60);

/// The beginning of a user's seed.
const SEED: &str = "SU";

/// What to do where the broker has not what is read.
const NOT_CREATED: &str = "the first daemon with `[fleet]` creates what is missing, if its credentials permit \
                           that; see docs/fleet.md";

/// Returns the error that the connection broke.
pub(crate) fn broken() -> Error {
    Error::failed("the connection to the broker broke")
}

/// A connection to the broker.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    /// As what this machine has connected.
    pub(crate) config: Arc<FleetConfig>,
    pub(crate) client: Client,
    pub(crate) jetstream: jetstream::Context,
    link: watch::Receiver<Link>,
}

/// What became of a connection.
#[derive(Debug, Default)]
struct Link {
    has_begun: bool,
    has_ended: bool,
    /// How often the broker has refused something, and what last: a subject for which the credentials
    /// have no permission.
    n_refused: usize,
    refused: Option<String>,
}

impl Link {
    fn note(&mut self, event: Event) {
        self.has_begun |= matches!(event, Event::Connected);
        self.has_ended |= matches!(event, Event::Disconnected | Event::Closed);
        if let Event::ServerError(ServerError::Other(why)) = event {
            self.n_refused += 1;
            self.refused = Some(why);
        }
    }
}

impl Connection {
    /// Resolves when the connection has broken.
    pub(crate) async fn ended(&self) {
        let mut link = self.link.clone();
        // Without a sender the connection has gone.
        drop(link.wait_for(|link| link.has_ended).await);
    }

    /// Returns what comes next on one of its streams.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next<T>(
        &self,
        stream: &mut (impl Stream<Item = T> + Unpin),
    ) -> Result<T, Error> {
        let next = tokio::select! {
            biased;
            next = stream.next() => next,
            () = self.ended() => None,
        };
        next.ok_or_else(broken)
    }

    /// Whether it has broken.
    pub(crate) fn has_ended(&self) -> bool {
        self.link.borrow().has_ended
    }

    /// Creates a consumer, or returns the one of this name with this configuration.
    pub(crate) async fn consumer<C: IntoConsumerConfig + FromConsumer>(
        &self,
        store: Store,
        config: C,
    ) -> Result<Consumer<C>, Error> {
        let jetstream = &self.jetstream;
        let consumer = jetstream.create_consumer_on_stream(config, store.stream);
        let consumer = consumer.await;
        consumer.map_err(|error| self.unreadable(store.name, &error))
    }

    /// Returns the last message that the broker has of these subjects, `None` if there is none.
    ///
    /// # Errors
    ///
    /// Also when the credentials do not permit to ask.
    pub(crate) async fn last(
        &self,
        store: Store,
        subjects: String,
    ) -> Result<Option<StreamMessage>, Error> {
        let asked = async {
            let stream = self.jetstream.get_stream_no_info(store.stream).await;
            let found = stream.map_err(Error::of)?;
            match found.direct_get_last_for_subject(subjects).await {
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
                found => found.map(Some).map_err(Error::of),
            }
        };
        self.unless_refused(asked).await
    }

    /// Acknowledges a message. Returns when the broker has it.
    pub(crate) async fn acknowledge(&self, message: &Message) -> Result<(), Error> {
        let confirmed = message.double_ack().await;
        confirmed.map_err(|error| self.not_confirmed(with_causes(error.as_ref())))
    }

    /// Returns what these requests resolve to, unless the broker refuses anything meanwhile: it says so
    /// at once, but not as the answer to a request, which never comes. For a connection on which nothing
    /// else is asked.
    pub(crate) async fn unless_refused<T>(
        &self,
        requests: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let mut link = self.link.clone();
        let n_before = link.borrow().n_refused;
        tokio::select! {
            biased;
            answer = requests => answer,
            Ok(link) = link.wait_for(|link| link.n_refused > n_before) => {
                let refused = link.refused.as_deref().unwrap_or_default();
                let hint = "docs/fleet.md lists what the credentials of a machine need for each command";
                Err(Error::failed(format!("the broker refused: {refused}")).with_hint(hint))
            }
        }
    }

    /// Returns the error of something that the broker did not confirm. What it refused says more than
    /// that nothing came.
    pub(crate) fn not_confirmed(&self, why: impl Display) -> Error {
        let why = self.why_not(why);
        Error::failed(format!("the broker did not confirm: {why}"))
    }

    /// Returns what the broker refused, else what the library says.
    fn why_not(&self, why: impl Display) -> String {
        let refused = self.link.borrow().refused.clone();
        refused.unwrap_or_else(|| why.to_string())
    }

    /// Returns the error of a stream or bucket that cannot be read.
    pub(crate) fn unreadable(&self, name: &str, why: &dyn std::error::Error) -> Error {
        let why = self.why_not(with_causes(why));
        Error::failed(format!("could not read {name} of the broker: {why}")).with_hint(NOT_CREATED)
    }
}

/// Connects to the broker of the configuration, as this machine.
pub(crate) async fn connect() -> Result<Connection, Error> {
    let config = load_config()?;
    let url = config.url.join(", ");
    let (events, link) = watch::channel(Link::default());
    let events = Arc::new(events);
    let options = options(&config)?
        .name(format!("tmux-task {}", config.host))
        .custom_inbox_prefix(subject(INBOX, &[&config.host]))
        .connection_timeout(CONNECT_LIMIT)
        .request_timeout(Some(ANSWER_LIMIT))
        .ping_interval(PROBE_EVERY)
        .max_reconnects(config.url.len())
        .ignore_discovered_servers()
        .reconnect_delay_callback({
            let link = link.clone();
            move |_| match link.borrow().has_begun {
                true => PUT_OFF,
                false => Duration::ZERO,
            }
        })
        .event_callback(move |event| {
            let events = Arc::clone(&events);
            async move { events.send_modify(|link| link.note(event)) }
        });
    let client = options
        .connect(&config.url)
        .await
        .map_err(|error| explain(&url, &error))?;
    let jetstream = ContextBuilder::new()
        .timeout(ANSWER_LIMIT)
        .ack_timeout(ANSWER_LIMIT)
        .build(client.clone());
    Ok(Connection {
        config: Arc::new(config),
        client,
        jetstream,
        link,
    })
}

/// Returns the options that the configuration names.
fn options(config: &FleetConfig) -> Result<ConnectOptions, Error> {
    let mut options = match &config.creds_file {
        Some(path) => credentials(path).map_err(|error| unusable(path, &error))?,
        None => ConnectOptions::new(),
    };
    if let Some(tls) = &config.tls {
        options = options.require_tls(true);
        let files = [&tls.ca_file, &tls.cert_file, &tls.key_file];
        for path in files.into_iter().flatten() {
            // The library does not say which file it cannot read.
            File::open(path).map_err(|error| unusable(path, &error))?;
        }
        if let Some(authorities) = &tls.ca_file {
            options = options.add_root_certificates(authorities.clone());
        }
        if let (Some(certificate), Some(key)) = (&tls.cert_file, &tls.key_file) {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
    }
    Ok(options)
}

/// Returns the error that a file of credentials or certificates cannot be used.
fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::folder(path, error)
        .with_hint("`[fleet]` in the configuration names the file; see docs/fleet.md")
}

/// Reads credentials from a file that only its user can read: a user's JWT and seed, or a seed alone.
fn credentials(path: &Path) -> io::Result<ConnectOptions> {
    let file = File::open(path)?;
    let known = file.metadata()?;
    if known.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    let mode = known.mode() & 0o7777;
    if mode & 0o077 != 0 {
        let why = format!("other users can read it (mode {mode:04o}); `chmod 600` closes it");
        return Err(io::Error::other(why));
    }
    let contents = io::read_to_string(file)?;
    let seed = contents.trim();
    if seed.starts_with(SEED) {
        return Ok(ConnectOptions::with_nkey(seed.to_owned()));
    }
    // What the library says of it could repeat a part of it.
    ConnectOptions::with_credentials(&contents)
        .map_err(|_| io::Error::other("it has neither a user's JWT and seed nor a seed alone"))
}

fn explain(url: &str, error: &ConnectError) -> Error {
    use ConnectErrorKind::{Authentication, AuthorizationViolation};
    if matches!(error.kind(), Authentication | AuthorizationViolation) {
        let hint =
            "`[fleet] creds-file` in the configuration names the credentials; see docs/fleet.md";
        let why = format!("the broker at {url} does not accept the credentials");
        return Error::failed(why).with_hint(hint);
    }
    // Its own words have those of its cause in them.
    let cause = std::error::Error::source(error);
    let why = cause.map_or_else(|| error.to_string(), with_causes);
    let hint = "`[fleet]` in the configuration names the broker (`url`) and who signs its certificate (`tls`)";
    Error::failed(format!("could not reach the broker at {url}: {why}")).with_hint(hint)
}

// The streams and buckets on the broker. They are created where they are missing and the credentials
// permit it: `docs/design/broker.md` has the same settings for whoever creates them beforehand.

/// How long records and wakes are kept, and the state of a session that nobody updates.
pub(crate) const KEPT: Duration = Duration::from_secs(72 * 3600);

/// For how long a host counts as there after its last beat.
pub(crate) const PRESENT: Duration = Duration::from_secs(60);

/// Within which time a record that is published twice is stored once. What was published longer ago
/// is recognised by the last record of its session.
const SAME_WITHIN: Duration = Duration::from_secs(120);

/// The size of a stream, in bytes.
const FEED_BYTES: i64 = 1 << 30;
const WAKE_BYTES: i64 = 256 << 20;

/// Creates what is missing, as far as the credentials permit that. What exists is left as it is.
pub(crate) async fn create_missing(connection: &Connection) {
    let stream = |store: Store| Config {
        name: store.stream.to_owned(),
        subjects: vec![format!("{}.>", store.root)],
        storage: StorageType::File,
        allow_direct: true,
        num_replicas: 1,
        ..Config::default()
    };
    let log = |store, max_bytes| Config {
        max_bytes,
        max_age: KEPT,
        discard: DiscardPolicy::Old,
        duplicate_window: SAME_WITHIN,
        ..stream(store)
    };
    // As clients of such buckets expect it. A broker before 2.11 ignores what it does not know: the lifetime
    // of single values, and the marks (`marked`: for how long) in place of values whose lifetime has ended.
    let bucket = |store, marked: Option<Duration>| Config {
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        allow_rollup: true,
        deny_delete: true,
        allow_message_ttl: true,
        subject_delete_marker_ttl: marked,
        ..stream(store)
    };
    let logs = [log(FEED, FEED_BYTES), log(WAKE, WAKE_BYTES)];
    let buckets = [bucket(STATE, None), bucket(HOSTS, Some(KEPT))];
    for config in logs.into_iter().chain(buckets) {
        // Whoever needs it says that it is not there.
        drop(connection.jetstream.create_stream(config).await);
    }
}

// The configuration: the broker, and what others may have executed here.

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ConfigFile {
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
    creds_file: Option<PathBuf>,
    /// The files of TLS, which is required then.
    tls: Option<TlsConfig>,
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
struct TlsConfig {
    /// The certificates that the broker's must be signed by.
    ca_file: Option<PathBuf>,
    /// The certificate of this machine.
    cert_file: Option<PathBuf>,
    /// Its key.
    key_file: Option<PathBuf>,
}

/// Reads the table.
///
/// # Errors
///
/// When there is none, or something in it is wrong. Nothing of credentials is in the message.
fn load_config() -> Result<FleetConfig, Error> {
    let path = config_path().unwrap_or_default();
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|error| Error::io("could not read the configuration", &error))?,
    };
    parse_config(&path.display().to_string(), &text)?.ok_or_else(|| {
        Error::failed("the configuration names no broker")
            .with_hint("`[fleet]` with `url = \"nats://...\"` names it; see docs/fleet.md")
    })
}

/// Returns the configuration file: the same that tmux-task reads.
fn config_path() -> Option<PathBuf> {
    let named = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let folder = |name: &str| named(name).map(PathBuf::from);
    if let Some(file) = folder("TMUX_TASK_CONFIG") {
        return Some(file);
    }
    let config = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
    Some(config.join("tmux-task/config.toml"))
}

fn parse_config(name: &str, text: &str) -> Result<Option<FleetConfig>, Error> {
    let file: ConfigFile = toml::from_str(text).map_err(|error| {
        let before = error
            .span()
            .map_or("", |span| &text[..span.start.min(text.len())]);
        let line = before.matches('\n').count() + 1;
        Error::failed(format!("{name}:{line}: {}", error.message()))
    })?;
    if let Some(config) = &file.fleet {
        check_config(config).map_err(|why| Error::failed(format!("{name}: `fleet`: {why}")))?;
    }
    Ok(file.fleet)
}

fn check_config(config: &FleetConfig) -> Result<(), String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<FleetConfig, String> {
        let parsed = parse_config("c.toml", &format!("[hosts]\na = 'b'\n[fleet]\n{text}"));
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
        assert_eq!(parse_config("c.toml", "").unwrap(), None);
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
        for (keys, expected) in [
            ("creds-file = 'c'", "`c` is not an absolute path"),
            ("host = '-x'", "`-x` is not a name of a host"),
            ("allow = ['attach']", "c.toml:5: unknown variant `attach`"),
            ("tls = 'yes'", "c.toml:5: invalid type"),
            ("[fleet.tls]\ncert-file = '/c'", "`tls` needs both"),
            ("user = 'a'", "c.toml:5: unknown field `user`"),
        ] {
            check_error(&format!("url = 'nats://b'\n{keys}"), expected);
        }
    }
}

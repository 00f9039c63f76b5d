//! A connection to the broker. It ends with the first interruption: what was published on it and not
//! confirmed is checked on the next one, before anything else is published.

use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{Config, DirectGetErrorKind, DiscardPolicy, StorageType};
use async_nats::jetstream::{self, ContextBuilder, Message};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use futures_util::{Stream, StreamExt};
use tokio::sync::watch;

use tmux_task::model::{Error, with_causes};

use crate::config::{self, FleetConfig, read_secret};
use crate::layout::{FEED, HOSTS, INBOX, STATE, Store, WAKE, subject};

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
        let unreadable = |error: &dyn std::error::Error| self.unreadable(store.name, error);
        let stream = self.jetstream.get_stream_no_info(store.stream).await;
        let stream = stream.map_err(|error| unreadable(&error))?;
        let asked = async {
            match stream.direct_get_last_for_subject(subjects).await {
                Ok(message) => Ok(Some(message)),
                Err(error) if error.kind() == DirectGetErrorKind::NotFound => Ok(None),
                Err(error) => Err(unreadable(&error)),
            }
        };
        self.unless_refused(asked).await
    }

    /// Stores a message. Returns when the broker has it.
    pub(crate) async fn store(
        &self,
        subject: &str,
        message: PublishMessage,
    ) -> Result<(), PublishErrorKind> {
        let sent = self.jetstream.send_publish(subject.to_owned(), message);
        let stored = async { sent.await?.await };
        stored.await.map(drop).map_err(|error| error.kind())
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
    let config = config::load()?;
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
    let contents = read_secret(path)?;
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
// permit it: `docs/fleet.md` has the same settings for whoever creates them beforehand.

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
    let all = [
        log(FEED, FEED_BYTES),
        log(WAKE, WAKE_BYTES),
        bucket(STATE, None),
        bucket(HOSTS, Some(KEPT)),
    ];
    for config in all {
        // Whoever needs it says that it is not there.
        drop(connection.jetstream.create_stream(config).await);
    }
}

//! What a user gives for a task: the options of `run` for its settings, and the keys of its table in the
//! project's file; also what it is ready by.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

use clap::Args;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::settings::parse_signal;
use super::value::{
    OneOrMany, duration, from_value, one_or_many, parse_duration, quotable, read_duration,
    read_time, text, wrong,
};
use crate::model::{
    NotifyOn, RestartPolicy, Signal, Slot, StopSettings, TaskRestarts, TaskSettings, TaskSpec,
};
use crate::restarts::{self, DEFAULT_BACKOFF};

/// How the runs of a task are treated, as options.
#[derive(Debug, Args)]
pub(crate) struct GivenSettings {
    /// Run it again when it ends with another code than 0 or by a signal: at most N times in a row
    /// (5). A run of a minute or more resets the count
    #[arg(
        long,
        value_name = "on-failure[:N]",
        value_parser = restarts::parse_limit,
        conflicts_with = "ends"
    )]
    restart: Option<u32>,
    /// With --restart: the pause before the first restart in a row [default: 1s]; it doubles with each
    /// one, up to a minute
    #[arg(long, value_name = "D", value_parser = read_backoff, requires = "restart")]
    backoff: Option<Duration>,
    /// End the run when it has lasted this long, like 90s, 10m or 2h; as `kill` does
    #[arg(long, value_name = "D", value_parser = read_time)]
    kill_after: Option<Duration>,
    /// The signal that asks it to end, like SIGINT [default: SIGTERM, or `stop.signal` in the
    /// configuration]
    #[arg(long, value_name = "SIG", value_parser = parse_signal)]
    stop_signal: Option<Signal>,
    /// How long it has to end before SIGKILL; 0: no time [default: 10s, or `stop.grace` in the
    /// configuration]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    grace: Option<Duration>,
    /// Send the signal to the command itself only, for programs that pass it on to their children
    /// and take a second one as `at once`, like docker compose
    #[arg(long)]
    parent_only: bool,
    /// Notify the owner when a line contains this text: at once, and then at most once in ten seconds;
    /// may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    notify_on: Vec<String>,
    /// Run at most so many at once of all runs with this name, in all sessions, like build:2; the others
    /// wait, in the order in which they came
    #[arg(long, value_name = "NAME:N", value_parser = Slot::parse)]
    slot: Option<Slot>,
}

impl GivenSettings {
    /// Returns the settings; the texts are read so.
    pub(crate) fn settings(self, regex: bool, ignore_case: bool) -> TaskSettings {
        TaskSettings {
            restarts: policy(self.restart, self.backoff),
            stop: StopSettings {
                signal: self.stop_signal,
                grace: self.grace,
                parent_only: self.parent_only,
                kill_after: self.kill_after,
            },
            notify_on: NotifyOn::given(self.notify_on, regex, ignore_case),
            slot: self.slot,
        }
    }
}

fn read_backoff(text: &str) -> Result<Duration, String> {
    restarts::check_backoff(read_duration(text)?)
}

fn policy(limit: Option<u32>, backoff: Option<Duration>) -> Option<TaskRestarts> {
    let backoff = backoff.unwrap_or(DEFAULT_BACKOFF);
    limit.map(|limit| TaskRestarts::new(RestartPolicy { limit, backoff }))
}

/// The table of a task.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
pub(super) struct GivenTask {
    #[serde(deserialize_with = "command")]
    pub(super) command: Vec<String>,
    #[serde(default)]
    pub(super) cwd: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) env: BTreeMap<String, Spanned<String>>,
    #[serde(default, deserialize_with = "own_files_of_variables")]
    pub(super) env_file: Option<Vec<Spanned<String>>>,
    #[serde(default, deserialize_with = "restart")]
    restart: Option<u32>,
    #[serde(default, deserialize_with = "backoff")]
    backoff: Option<Spanned<Duration>>,
    #[serde(default, deserialize_with = "after")]
    pub(super) after: Vec<Spanned<String>>,
    #[serde(default, deserialize_with = "ready")]
    pub(super) ready: Option<Ready>,
    #[serde(default, deserialize_with = "stop_signal")]
    stop_signal: Option<Signal>,
    #[serde(default, deserialize_with = "grace")]
    grace: Option<Duration>,
    #[serde(default)]
    parent_only: bool,
    #[serde(default, deserialize_with = "kill_after")]
    kill_after: Option<Duration>,
    #[serde(default, deserialize_with = "notify_on")]
    notify_on: Option<NotifyOn>,
    #[serde(default, deserialize_with = "slot")]
    slot: Option<Slot>,
}

impl GivenTask {
    /// Returns a task that is a line of shell and nothing else.
    pub(super) fn of_command(line: &str) -> Self {
        Self {
            command: vec![line.to_owned()],
            ..Self::default()
        }
    }

    /// Returns what is launched, as far as it is in the table itself.
    pub(super) fn spec(&self) -> TaskSpec {
        let variables = self.env.iter();
        TaskSpec {
            command: self.command.iter().map(Into::into).collect(),
            env: variables
                .map(|(name, value)| (name.clone(), value.get_ref().clone()))
                .collect(),
            settings: TaskSettings {
                restarts: policy(self.restart, self.backoff.as_ref().map(|it| *it.get_ref())),
                stop: StopSettings {
                    signal: self.stop_signal.clone(),
                    grace: self.grace,
                    parent_only: self.parent_only,
                    kill_after: self.kill_after,
                },
                notify_on: self.notify_on.clone(),
                slot: self.slot.clone(),
            },
            ..TaskSpec::default()
        }
    }

    /// Returns the first value that no task can have, and what is wrong with it, from its key on.
    pub(super) fn problem(&self) -> Option<(Range<usize>, String)> {
        let has_nul = |text: &str| text.contains('\0');
        if let Some(cwd) = self.cwd.as_ref().filter(|cwd| has_nul(cwd.get_ref())) {
            return Some((cwd.span(), "cwd` must not contain a NUL".to_owned()));
        }
        for (name, value) in &self.env {
            let shown = quotable(name);
            let is_bad = |c: char| c == '=' || c.is_whitespace() || c.is_control();
            if name.is_empty() || name.contains(is_bad) {
                let why = format!("env`: `{shown}` cannot be the name of a variable");
                return Some((value.span(), why));
            }
            if has_nul(value.get_ref()) {
                return Some((value.span(), format!("env.{shown}` must not contain a NUL")));
            }
        }
        let backoff = self.backoff.as_ref().filter(|_| self.restart.is_none());
        backoff.map(|backoff| (backoff.span(), "backoff` needs `restart`".to_owned()))
    }
}

fn slot<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Slot>, D::Error> {
    let parse = |text: &str| Slot::parse(text).map_err(|why| wrong(text, &format!("is {why}")));
    text(from, "a slot like \"build:2\"", parse).map(Some)
}

fn stop_signal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Signal>, D::Error> {
    text(from, "the name of a signal like \"SIGINT\"", parse_signal).map(Some)
}

fn grace<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from, "a duration such as \"10s\"", stop_time).map(Some)
}

fn kill_after<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let parse = |text: &str| {
        let after = stop_time(text)?;
        if after.is_zero() {
            return Err("a run must have some time".to_owned());
        }
        Ok(after)
    };
    duration(from, "a duration such as \"10m\"", parse).map(Some)
}

fn stop_time(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|time| *time <= StopSettings::LONGEST);
    duration.ok_or_else(|| wrong(text, "is not a duration, up to 366d"))
}

fn restart<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    text(
        from,
        "\"on-failure\" or \"on-failure:N\"",
        restarts::parse_limit,
    )
    .map(Some)
}

fn backoff<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Spanned<Duration>>, D::Error> {
    let given = Spanned::<Backoff>::deserialize(from)?;
    Ok(Some(Spanned::new(given.span(), given.into_inner().0)))
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Backoff(#[serde(deserialize_with = "pause")] Duration);

fn pause<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let parse = |text: &str| {
        let pause = parse_duration(text).ok_or_else(|| wrong(text, "is not a duration"))?;
        restarts::check_backoff(pause)
    };
    duration(from, "a duration such as \"500ms\" or \"2s\"", parse)
}

/// Defines how a string or a list of strings is read, each with its place.
macro_rules! spanned_list {
    ($read:ident, $expected:literal) => {
        pub(super) fn $read<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Vec<Spanned<String>>, D::Error> {
            #[derive(Deserialize)]
            #[serde(transparent)]
            struct List(#[serde(deserialize_with = "read")] OneOrMany<Spanned<String>>);

            fn read<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<OneOrMany<Spanned<String>>, D::Error> {
                one_or_many(from, $expected)
            }

            let list = Spanned::<List>::deserialize(from)?;
            let span = list.span();
            Ok(match list.into_inner().0 {
                OneOrMany::One(one) => vec![Spanned::new(span, one)],
                OneOrMany::Many(many) => many,
            })
        }
    };
}

spanned_list!(after, "the name of a task, or a list of names");
spanned_list!(files_of_variables, "a file, or a list of files");

fn own_files_of_variables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Spanned<String>>>, D::Error> {
    files_of_variables(from).map(Some)
}

/// Reads a shell line, or a program and its arguments.
fn command<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let expected = "a shell line, or a list of a program and its arguments";
    let words: Vec<String> = match one_or_many(from, expected)? {
        OneOrMany::One(line) => vec![line],
        OneOrMany::Many(words) => words,
    };
    if words.iter().all(|word| word.trim().is_empty()) {
        return Err(D::Error::custom("must not be empty"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(D::Error::custom("must not contain a NUL"));
    }
    Ok(words)
}

/// The texts of `notify-on`, with how they are read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct NotifyOnTable {
    #[serde(deserialize_with = "patterns")]
    patterns: OneOrMany<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    ignore_case: bool,
}

fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<OneOrMany<String>, D::Error> {
    one_or_many(from, "a text, or a list of texts")
}

fn notify_on<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NotifyOn>, D::Error> {
    let given = toml::Value::deserialize(from)?;
    let table = if given.is_table() {
        given
    } else {
        toml::Table::from_iter([("patterns".to_owned(), given)]).into()
    };
    let table: NotifyOnTable = from_value(table)?;
    Ok(Some(NotifyOn {
        patterns: match table.patterns {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        },
        regex: table.regex,
        ignore_case: table.ignore_case,
    }))
}

/// What says that a task of the file is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A text of its output.
    Text(String),
    /// Its own processes listen on this port.
    Port(u16),
    /// It answers with a success or a redirection here.
    Http(HttpUrl),
}

/// An address for plain HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    /// The host, a name or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path with the query.
    pub(crate) path: String,
    /// All of it.
    pub(crate) text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct Table {
    port: Option<u16>,
    http: Option<String>,
}

/// Reads a text, `{ port = 3000 }` or `{ http = "http://127.0.0.1:3000/health" }`.
pub(super) fn ready<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Ready>, D::Error> {
    let given = toml::Value::deserialize(from)?;
    let ready = if let Some(text) = given.as_str() {
        parse_text(text)
    } else if given.is_table() {
        let table: Table = from_value(given)?;
        match (table.port, table.http) {
            (Some(0), _) => Err("must not have port 0".to_owned()),
            (Some(port), None) => Ok(Ready::Port(port)),
            (None, Some(url)) => HttpUrl::parse(&url).map(Ready::Http),
            (Some(_), Some(_)) | (None, None) => {
                Err("must have either `port` or `http`".to_owned())
            }
        }
    } else {
        Err("must be a string, or a table with `port` or `http`".to_owned())
    };
    ready.map(Some).map_err(D::Error::custom)
}

fn parse_text(text: &str) -> Result<Ready, String> {
    if text.is_empty() {
        return Err("must not be empty: an empty text matches everything".to_owned());
    }
    if text.contains(char::is_control) {
        return Err(
            "must not contain a line break or another control character: it is searched in single \
             lines of the output"
                .to_owned(),
        );
    }
    Ok(Ready::Text(text.to_owned()))
}

impl HttpUrl {
    /// Whether it is an address of this machine alone.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{}` {why}", quotable(text));
        if text.starts_with("https://") {
            return Err(wrong("is refused: https is not supported, only http"));
        }
        let is_plain = |c: char| c.is_ascii_graphic();
        let rest = text
            .strip_prefix("http://")
            .filter(|_| text.chars().all(is_plain));
        let rest =
            rest.ok_or_else(|| wrong("is not an address like http://127.0.0.1:3000/health"))?;
        // A fragment is not sent.
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            Some(_) | None => (authority, None),
        };
        let port = port.map_or(Ok(80), str::parse).unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains('@') || port == 0 {
            return Err(wrong("is not an address like http://127.0.0.1:3000/health"));
        }
        Ok(Self {
            host: host.to_owned(),
            port,
            path: format!("{slash}{path}"),
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, u16, &str)>) {
        let url = HttpUrl::parse(text);
        let found = url.as_ref().ok();
        let found = found.map(|url| (url.host.as_str(), url.port, url.path.as_str()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        check(
            "http://127.0.0.1:3000/health",
            Some(("127.0.0.1", 3000, "/health")),
        );
        check("http://localhost", Some(("localhost", 80, "/")));
        check(
            "http://localhost:8080?deep=1",
            Some(("localhost", 8080, "/?deep=1")),
        );
        check("http://[::1]:3000/a:b/", Some(("::1", 3000, "/a:b/")));
        check("http://[::1]/#part", Some(("::1", 80, "/")));
        for wrong in [
            "",
            "127.0.0.1:3000",
            "ftp://a/",
            "http://",
            "http://:80/",
            "http://a:0/",
            "http://a:70000/",
            "http://a:port/",
            "http://user@a/",
            "http://a/ HTTP/1.1",
            "http://a/\r\nX: y",
        ] {
            check(wrong, None);
        }
        let refused = HttpUrl::parse("https://a/").unwrap_err();
        assert_eq!(
            refused,
            "`https://a/` is refused: https is not supported, only http"
        );
    }
}

//! Sinks: programs and addresses that get the feed's records, and what a webhook is sent. Table `sink`, any
//! number of times.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Deserializer};

use super::parse_duration;
use super::value::{absolute_file as file, duration, list, quotable, text, wrong};
use crate::model::{EventType, Kind, Level};

/// The maximum length of a sink's name.
const NAME_CHARS: usize = 40;

/// How long a delivery may take, by default and at most.
const TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

/// A sink.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Table")]
pub(crate) struct SinkConfig {
    /// Its name, which no other sink has: key `name`.
    pub name: String,
    /// What gets the records: one of the keys `exec`, `shell` and `webhook`.
    pub target: SinkTarget,
    /// Which records it gets.
    pub filter: SinkFilter,
    /// How long a delivery may take: key `timeout`.
    pub timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SinkTarget {
    /// A program with its arguments, started for each record: key `exec`.
    Exec(Vec<String>),
    /// An address to which each record is posted.
    #[cfg(feature = "webhook")]
    Webhook(Webhook),
}

impl SinkTarget {
    /// Returns what kind of sink it is, for people.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            #[cfg(feature = "webhook")]
            Self::Webhook(_) => "webhook",
        }
    }
}

/// An address to which records are posted.
#[cfg(feature = "webhook")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Webhook {
    /// The address: key `webhook`.
    pub url: String,
    /// The file with the key of the signature: key `secret-file`.
    pub secret_file: Option<PathBuf>,
    /// The file with the certificates that the peer's must be signed by, instead of those that the
    /// program has: key `ca-file`.
    pub ca_file: Option<PathBuf>,
    /// What is sent.
    pub message: MessageConfig,
}

/// Which records a sink gets. Empty lists match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SinkFilter {
    /// Kinds of records: key `kinds`.
    pub kinds: Vec<Kind>,
    /// Types of events: key `types`.
    pub types: Vec<EventType>,
    /// Names or window ids of tasks: key `tasks`.
    pub tasks: Vec<String>,
    /// Owners, or prefixes ending in `*`: key `owners`.
    pub owners: Vec<String>,
    /// The lowest level: key `level`.
    pub level: Option<Level>,
}

/// The answer to the key `webhook` of a program without them.
const WITHOUT_WEBHOOKS: &str = "this program was built without webhooks";

/// A table `sink` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct Table {
    #[serde(default, deserialize_with = "name")]
    name: Option<String>,
    #[serde(default, deserialize_with = "words")]
    exec: Option<Vec<String>>,
    #[serde(default, deserialize_with = "line")]
    shell: Option<String>,
    #[serde(default, deserialize_with = "address")]
    webhook: Option<String>,
    #[serde(default, deserialize_with = "file")]
    secret_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "file")]
    ca_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "format")]
    format: Option<Format>,
    #[serde(default, deserialize_with = "template")]
    title: Option<Template>,
    #[serde(default, deserialize_with = "headers")]
    headers: Vec<Header>,
    #[serde(default, deserialize_with = "template")]
    body: Option<Template>,
    #[serde(default = "usual_timeout", deserialize_with = "timeout")]
    timeout: Duration,
    #[serde(default, deserialize_with = "kinds")]
    kinds: Vec<Kind>,
    #[serde(default, deserialize_with = "types")]
    types: Vec<EventType>,
    #[serde(default, deserialize_with = "tasks")]
    tasks: Vec<String>,
    #[serde(default, deserialize_with = "owners")]
    owners: Vec<String>,
    #[serde(default, deserialize_with = "level")]
    level: Option<Level>,
}

impl TryFrom<Table> for SinkConfig {
    type Error = String;

    fn try_from(table: Table) -> Result<Self, String> {
        let Some(name) = table.name else {
            return Err("a sink needs a `name`".to_owned());
        };
        let of_webhooks = [
            ("secret-file", table.secret_file.is_some()),
            ("ca-file", table.ca_file.is_some()),
            ("format", table.format.is_some()),
            ("title", table.title.is_some()),
            ("headers", !table.headers.is_empty()),
            ("body", table.body.is_some()),
        ];
        let found = of_webhooks.into_iter().find(|(_, is_set)| *is_set);
        if let Some((key, _)) = found
            && table.webhook.is_none()
        {
            return Err(format!("sink `{name}`: only a `webhook` has `{key}`"));
        }
        let message = MessageConfig {
            format: table.format.unwrap_or_default(),
            title: table.title,
            headers: table.headers,
            body: table.body,
        };
        // A person reads it: what is written for them are the messages.
        let is_for_people = message.format == Format::Text || message.body.is_some();
        let mut kinds = table.kinds;
        if is_for_people && kinds.is_empty() && table.types.is_empty() {
            kinds.push(Kind::FollowUp);
        }
        if let Some(problem) = message.problem() {
            return Err(format!("sink `{name}`: {problem}"));
        }
        let target = match (table.exec, table.shell, table.webhook) {
            (Some(words), None, None) => SinkTarget::Exec(words),
            (None, Some(line), None) => {
                SinkTarget::Exec(vec!["sh".to_owned(), "-c".to_owned(), line])
            }
            #[cfg(not(feature = "webhook"))]
            (None, None, Some(_)) => return Err(WITHOUT_WEBHOOKS.to_owned()),
            #[cfg(feature = "webhook")]
            (None, None, Some(url)) => SinkTarget::Webhook(Webhook {
                url,
                secret_file: table.secret_file,
                ca_file: table.ca_file,
                message,
            }),
            _ => {
                return Err(format!(
                    "sink `{name}` needs one of `exec`, `shell` and `webhook`"
                ));
            }
        };
        Ok(Self {
            name,
            target,
            filter: SinkFilter {
                kinds,
                types: table.types,
                tasks: table.tasks,
                owners: table.owners,
                level: table.level,
            },
            timeout: table.timeout,
        })
    }
}

/// Reads the tables; no two have one name.
pub(super) fn sinks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SinkConfig>, D::Error> {
    let sinks = Vec::<SinkConfig>::deserialize(from)?;
    for (n, sink) in sinks.iter().enumerate() {
        if sinks[..n].iter().any(|other| other.name == sink.name) {
            let why = format!("two sinks are named `{}`", sink.name);
            return Err(serde::de::Error::custom(why));
        }
    }
    Ok(sinks)
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a name", |name| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.len() <= NAME_CHARS
            && name.chars().all(is_plain);
        is_name.then(|| Some(name.to_owned())).ok_or_else(|| {
            let rule = format!(
                "is not 1 to {NAME_CHARS} of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
            );
            wrong(name, &rule)
        })
    })
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<String>>, D::Error> {
    let words: Vec<String> = list(from, "a list of a program and its arguments", |word| {
        is_usable(word).map(|()| word.to_owned())
    })?;
    if words.first().is_none_or(String::is_empty) {
        return Err(serde::de::Error::custom("no program is named"));
    }
    Ok(Some(words))
}

fn line<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a line for `sh`", |line| {
        is_usable(line)?;
        if line.trim().is_empty() {
            return Err("the line is empty".to_owned());
        }
        Ok(Some(line.to_owned()))
    })
}

/// An argument of a program cannot have this character.
fn is_usable(word: &str) -> Result<(), String> {
    if word.contains('\0') {
        return Err("an argument cannot have a NUL character".to_owned());
    }
    Ok(())
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "an address", |url| {
        if cfg!(not(feature = "webhook")) {
            return Err(WITHOUT_WEBHOOKS.to_owned());
        }
        let rest = url
            .strip_prefix("https://")
            .or_else(|| url.strip_prefix("http://"));
        let is_plain = |c: char| c.is_ascii_graphic();
        rest.filter(|rest| {
            rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[')
                && url.chars().all(is_plain)
        })
        .map(|_| Some(url.to_owned()))
        .ok_or_else(|| {
            wrong(
                url,
                "is not an address that starts with https:// or http://",
            )
        })
    })
}

fn usual_timeout() -> Duration {
    TIMEOUT
}

fn timeout<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    duration(from, "a duration like \"30s\"", |text| {
        parse_duration(text)
            .filter(|time| !time.is_zero() && *time <= LONGEST_TIMEOUT)
            .ok_or_else(|| wrong(text, "is not a duration like 30s or 2m, up to 1h"))
    })
}

fn kinds<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Kind>, D::Error> {
    known(from, "a list of kinds of records")
}

fn types<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<EventType>, D::Error> {
    known(from, "a list of types of events")
}

/// Reads a list of words of the feed.
fn known<'de, T: ValueEnum, D: Deserializer<'de>>(
    from: D,
    expected: &str,
) -> Result<Vec<T>, D::Error> {
    list(from, expected, |text| {
        T::from_str(text, false).map_err(|_| {
            let words = T::value_variants().iter();
            let words =
                words.filter_map(|word| Some(word.to_possible_value()?.get_name().to_owned()));
            let (text, words) = (quotable(text), words.collect::<Vec<_>>().join(", "));
            format!("does not know \"{text}\"; allowed are {words}")
        })
    })
}

fn tasks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    list(from, "a list of names of tasks", |text| Ok(text.to_owned()))
}

fn owners<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    list(from, "a list of owners", |text| Ok(text.to_owned()))
}

fn level<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Level>, D::Error> {
    text(from, "\"info\" or \"warning\"", |text| match text {
        "info" => Ok(Some(Level::Info)),
        "warning" => Ok(Some(Level::Warning)),
        _ => Err(wrong(text, "is not `info` or `warning`")),
    })
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MessageConfig {
    /// The format of the body: key `format`.
    pub format: Format,
    /// The title: key `title`.
    pub title: Option<Template>,
    /// Headers besides those of each delivery: table `headers`.
    pub headers: Vec<Header>,
    /// The body; if missing, the record or its text: key `body`.
    pub body: Option<Template>,
}

/// The format of a body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON. Values stand inside its strings.
    #[default]
    Json,
    /// Plain text.
    Text,
}

/// A header. Its value can be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub name: String,
    pub value: Template,
}

impl Debug for Header {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        self.name.fmt(formatter)
    }
}

/// A text with values of the record in it: `{tasks}`, or `{text:html}` with `&`, `<` and `>` escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    Value { name: &'static str, is_html: bool },
}

/// The names of values.
const VALUES: [&str; 10] = [
    "text", "title", "tasks", "types", "kind", "level", "session", "owner", "record", "sink",
];

/// The end of a value that is escaped for HTML.
const HTML: &str = ":html";

/// The longest value of a header, in bytes.
const MAX_HEADER: usize = 4096;

/// Headers that each delivery sets itself.
const OWN_HEADERS: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "title",
];

impl Template {
    /// Parses a template. Braces around anything but lower-case letters are text.
    fn parse(template: &str) -> Result<Self, String> {
        let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), template);
        while let Some(start) = rest.find('{') {
            let inside = &rest[start + 1..];
            let is_name = |c: char| c.is_ascii_lowercase() || c == ':';
            let end = inside.find(|c| !is_name(c)).unwrap_or(inside.len());
            if end == 0 || !inside[end..].starts_with('}') {
                literal.push_str(&rest[..=start]);
                rest = inside;
                continue;
            }
            let name = inside[..end].strip_suffix(HTML).unwrap_or(&inside[..end]);
            let Some(known) = VALUES.into_iter().find(|known| *known == name) else {
                let (name, known) = (quotable(&inside[..end]), VALUES.join(", "));
                return Err(format!(
                    "does not know {{{name}}}; allowed are {known}, each also with `{HTML}`"
                ));
            };
            literal.push_str(&rest[..start]);
            parts.push(Part::Literal(std::mem::take(&mut literal)));
            parts.push(Part::Value {
                name: known,
                is_html: inside[..end].ends_with(HTML),
            });
            rest = &inside[end + 1..];
        }
        literal.push_str(rest);
        parts.push(Part::Literal(literal));
        Ok(Self(parts))
    }

    /// Returns the text with these values, each of them escaped, and before that for HTML where the
    /// template says so.
    pub(crate) fn render(
        &self,
        value: impl Fn(&str) -> String,
        escape: impl Fn(&str) -> String,
    ) -> String {
        let part = |part: &Part| match part {
            Part::Literal(text) => text.clone(),
            Part::Value {
                name,
                is_html: false,
            } => escape(&value(name)),
            Part::Value {
                name,
                is_html: true,
            } => escape(
                &value(name)
                    .replace('&', "&amp;")
                    .replace('<', "&lt;")
                    .replace('>', "&gt;"),
            ),
        };
        self.0.iter().map(part).collect()
    }
}

impl MessageConfig {
    /// Returns what is wrong with the settings together.
    pub(super) fn problem(&self) -> Option<&'static str> {
        let Some(body) = &self.body else {
            let is_unused = self.format == Format::Json && self.title.is_some();
            return is_unused.then_some("a `title` needs `format = \"text\"` or a `body`");
        };
        let example = body.render(|_| "x".to_owned(), str::to_owned);
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&example).is_ok();
        let is_wrong = self.format == Format::Json && !is_json;
        is_wrong.then_some(
            "the `body` is not JSON with values inside its strings; plain text needs `format = \"text\"`",
        )
    }
}

pub(super) fn format<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Format>, D::Error> {
    text(from, "\"json\" or \"text\"", |format| match format {
        "json" => Ok(Some(Format::Json)),
        "text" => Ok(Some(Format::Text)),
        _ => Err(wrong(format, "is not `json` or `text`")),
    })
}

fn template<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Template>, D::Error> {
    text(from, "a text", |template| {
        Template::parse(template).map(Some)
    })
}

pub(super) fn headers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Header>, D::Error> {
    let headers = BTreeMap::<String, HeaderValue>::deserialize(from)?;
    let header = |(name, HeaderValue(value)): (String, HeaderValue)| {
        let lower = name.to_ascii_lowercase();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(wrong(&name, "is not the name of a header"));
        }
        if OWN_HEADERS.contains(&lower.as_str()) || lower.starts_with("webhook-") {
            return Err(wrong(&name, "cannot be set here; the title is key `title`"));
        }
        Ok(Header { name: lower, value })
    };
    let headers: Result<Vec<Header>, String> = headers.into_iter().map(header).collect();
    headers.map_err(serde::de::Error::custom)
}

/// The value of a header. Errors do not repeat it.
struct HeaderValue(Template);

impl<'de> Deserialize<'de> for HeaderValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        text(from, "the value of a header", |value| {
            if value.len() > MAX_HEADER || value.chars().any(char::is_control) {
                return Err(format!(
                    "a value is one line of at most {MAX_HEADER} bytes without control characters"
                ));
            }
            Template::parse(value).map(Self)
        })
    }
}

#[cfg(test)]
mod message_tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, expected: &str) {
        let value = |name: &str| if name == "text" { "a<\"b" } else { "t" }.to_owned();
        let escape = |text: &str| text.replace('"', "\\\"");
        let template = Template::parse(template).unwrap();
        assert_eq!(template.render(value, escape), expected);
    }

    #[test]
    fn names_in_braces_are_values_and_all_else_is_text() {
        check("", "");
        check("{text}", "a<\\\"b");
        check("{text:html}, {title}", "a&lt;\\\"b, t");
        check(r#"{"a": "{text}"}"#, r#"{"a": "a<\"b"}"#);
        check(r#"{"a":{"b":"{title}{tasks}"}}"#, r#"{"a":{"b":"tt"}}"#);
        check("{ text} {} {{text}} {text", "{ text} {} {a<\\\"b} {text");
        for (template, name) in [("{txt}", "txt"), ("{text:htm}", "text:htm"), ("{:}", ":")] {
            let error = Template::parse(template).unwrap_err();
            let start = format!("does not know {{{name}}}; allowed are text, title, ");
            assert!(error.starts_with(&start), "{error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    fn of(text: &str) -> Vec<SinkConfig> {
        parse(Path::new("c.toml"), text)
            .expect("this is a good file")
            .sinks
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(Path::new("c.toml"), text).expect_err("this is a bad file");
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_sink_is_a_program_or_an_address_with_a_filter() {
        assert_eq!(of(""), []);
        let sinks = of("[[sink]]\nname = 'log'\nexec = ['/bin/tee', '-a', 'x y']\n\
            [[sink]]\nname = 'sh'\nshell = 'cat > f'\ntimeout = '2m'\n\
            kinds = ['followUp']\ntypes = ['exited']\ntasks = ['api']\nowners = ['pi:*']\nlevel = 'warning'\n");
        let words =
            |words: &[&str]| SinkTarget::Exec(words.iter().map(|&word| word.to_owned()).collect());
        assert_eq!(sinks[0].target, words(&["/bin/tee", "-a", "x y"]));
        assert_eq!((sinks[0].name.as_str(), sinks[0].timeout), ("log", TIMEOUT));
        assert_eq!(sinks[0].filter, SinkFilter::default());
        assert_eq!(sinks[1].target, words(&["sh", "-c", "cat > f"]));
        assert_eq!(sinks[1].timeout, Duration::from_secs(120));
        let filter = SinkFilter {
            kinds: vec![Kind::FollowUp],
            types: vec![EventType::Exited],
            tasks: vec!["api".to_owned()],
            owners: vec!["pi:*".to_owned()],
            level: Some(Level::Warning),
        };
        assert_eq!(sinks[1].filter, filter);
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn an_address_may_have_a_key() {
        let sinks =
            of("[[sink]]\nname = 'w'\nwebhook = 'https://a.example/x'\nsecret-file = '/k'\n");
        let (url, secret_file) = ("https://a.example/x".to_owned(), Some("/k".into()));
        let target = SinkTarget::Webhook(Webhook {
            url,
            secret_file,
            ca_file: None,
            message: MessageConfig::default(),
        });
        assert_eq!(sinks[0].target, target);
        for url in ["ftp://x", "https://", "http:// x", "x"] {
            check_error(
                &format!("[[sink]]\nname = 'w'\nwebhook = '{url}'\n"),
                &format!(
                    "c.toml:3: `sink.webhook`: `{url}` is not an address that starts with https:// or http://"
                ),
            );
        }
        check_error(
            "[[sink]]\nname = 'w'\nwebhook = 'https://x'\nsecret-file = 'k'\n",
            "c.toml:4: `sink.secret-file`: `k` is not an absolute path",
        );
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn a_message_is_checked_and_its_headers_are_not_shown() {
        let with = |keys: &str| format!("[[sink]]\nname = 'w'\nwebhook = 'https://x'\n{keys}\n");
        let kinds = |keys: &str| of(&with(keys))[0].filter.kinds.clone();
        assert_eq!(kinds("format = 'text'"), [Kind::FollowUp]);
        assert_eq!(kinds("body = '{\"a\": \"{text}\"}'"), [Kind::FollowUp]);
        assert_eq!(kinds("format = 'text'\nkinds = ['notice']"), [Kind::Notice]);
        assert_eq!(kinds("format = 'text'\ntypes = ['input']"), []);
        assert_eq!(kinds("format = 'json'"), []);
        let shown = format!(
            "{:?}",
            of(&with("headers = { Authorization = 'Bearer TOKEN' }"))
        );
        assert!(
            shown.contains("\"authorization\"") && !shown.contains("TOKEN"),
            "{shown}"
        );
        let check = |keys: &str, expected: &str| check_error(&with(keys), expected);
        check(
            "format = 'xml'",
            "c.toml:4: `sink.format`: `xml` is not `json` or `text`",
        );
        check(
            "title = 'a'",
            "c.toml:1: `sink`: sink `w`: a `title` needs `format = \"text\"` or a `body`",
        );
        for body in [
            "{text}",
            "{\"a\": {text}}",
            "{\"a\": \"\\{text}\"}",
            "{\"a\": \"{text}\"",
        ] {
            check(
                &format!("body = '{body}'"),
                "c.toml:1: `sink`: sink `w`: the `body` is not JSON with values inside its strings; \
                 plain text needs `format = \"text\"`",
            );
        }
        check(
            "title = '{task}'",
            "c.toml:4: `sink.title` does not know {task}; allowed are text, title, tasks, types, kind, \
             level, session, owner, record, sink, each also with `:html`",
        );
        let line = "a value is one line of at most 4096 bytes without control characters";
        check(
            "headers = { a = \"TOKEN\\r\\nb\" }",
            &format!("c.toml:4: `sink.headers.a`: {line}"),
        );
        check(
            "headers = { Host = 'x' }",
            "c.toml:4: `sink.headers`: `Host` cannot be set here; the title is key `title`",
        );
        check(
            "headers = { 'a b' = 'x' }",
            "c.toml:4: `sink.headers`: `a b` is not the name of a header",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\nbody = '{}'\n",
            "c.toml:1: `sink`: sink `a`: only a `webhook` has `body`",
        );
    }

    #[test]
    fn what_is_no_sink_is_one_clear_line() {
        check_error(
            "[[sink]]\nexec = ['x']\n",
            "c.toml:1: `sink`: a sink needs a `name`",
        );
        check_error(
            "\n[[sink]]\nname = 'a'\n",
            "c.toml:2: `sink`: sink `a` needs one of `exec`, `shell` and `webhook`",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\nshell = 'x'\n",
            "c.toml:1: `sink`: sink `a` needs one of `exec`, `shell` and `webhook`",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\n[[sink]]\nname = 'a'\nexec = ['y']\n",
            "c.toml:1: `sink`: two sinks are named `a`",
        );
        check_error(
            "[[sink]]\nname = 'a b'\nexec = ['x']\n",
            "c.toml:2: `sink.name`: `a b` is not 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = 'x'\n",
            "c.toml:3: `sink.exec` must be a list of a program and its arguments, found a string",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = []\n",
            "c.toml:3: `sink.exec`: no program is named",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\nkinds = ['followup']\n",
            "c.toml:4: `sink.kinds` does not know \"followup\"; allowed are event, notice, followUp",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\nlevl = 'info'\n",
            "c.toml:4: unknown key `sink.levl`; did you mean `level`?",
        );
        check_error(
            "[[sink]]\nname = 'a'\nexec = ['x']\nlevel = 'high'\n",
            "c.toml:4: `sink.level`: `high` is not `info` or `warning`",
        );
    }
}

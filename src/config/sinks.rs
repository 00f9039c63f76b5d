//! Sinks: programs and addresses that get the feed's records, and what a webhook is sent. Table `sink`, any
//! number of times.

use std::fmt::{self, Debug, Formatter};
#[cfg(feature = "webhook")]
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use clap::ValueEnum;
use regex::{Captures, Regex};

use super::reader::Value;
use super::value::{absolute_file, if_right, quotable, wrong};
use crate::model::{Kind, TASK_NAME_RULE, is_task_name};
use crate::rules::wire::Filter;

/// How long a delivery may take, by default and at most.
const TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkConfig {
    /// Its name, which no other sink has: key `name`.
    pub name: String,
    /// What gets the records: one of the keys `exec`, `shell` and `webhook`.
    pub target: SinkTarget,
    /// Which records it gets: keys `kinds`, `types`, `tasks`, `owners` and `level`.
    pub filter: Filter,
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
    pub message: MessageConfig,
}

/// Reads the tables; no two have one name.
pub(super) fn read_sinks(value: &Value<'_>) -> Option<Vec<SinkConfig>> {
    let sinks = value.items("a sequence")?;
    let sinks: Option<Vec<SinkConfig>> = sinks.map(|sink| SinkConfig::read(&sink)).collect();
    let sinks = sinks?;
    for (n, sink) in sinks.iter().enumerate() {
        if sinks[..n].iter().any(|other| other.name == sink.name) {
            return value.fail(&format!("two sinks are named `{}`", sink.name));
        }
    }
    Some(sinks)
}

impl SinkConfig {
    fn read(value: &Value<'_>) -> Option<Self> {
        value.table("a table", |table| {
            let plain = |text: &str| Ok(text.to_owned());
            let name = table.read("name", |value| value.text("a name", name));
            let program = "a list of a program and its arguments";
            let exec = table.read("exec", |value| {
                let words = value.list(program, argument)?;
                match words.first().is_none_or(String::is_empty) {
                    true => value.fail("no program is named"),
                    false => Some(words),
                }
            });
            let shell = table.read("shell", |value| value.text("a line for `sh`", line));
            let webhook = table.read("webhook", |value| value.text("an address", address));
            let file = |value: &Value<'_>| value.text("a path", absolute_file);
            let text = |value: &Value<'_>| value.text("a text", Template::parse);
            #[cfg_attr(
                not(feature = "webhook"),
                expect(unused_variables, reason = "only webhooks have them")
            )]
            let [secret_file, ca_file] =
                ["secret-file", "ca-file"].map(|key| table.read(key, file));
            let message = MessageConfig {
                format: table.read_or("format", Format::Json, |value| value.word(&Format::NAMES)),
                title: table.read("title", text),
                headers: table.read_or("headers", Vec::new(), read_headers),
                body: table.read("body", text),
            };
            let timeout = table.read_or("timeout", TIMEOUT, |value| {
                value.duration_within(
                    "a duration like \"30s\"",
                    "is not a duration like 30s or 2m, up to 1h",
                    Duration::from_nanos(1)..=LONGEST_TIMEOUT,
                )
            });
            let mut filter = Filter::new(
                table.list("kinds", "a list of kinds of records", known),
                table.list("types", "a list of types of events", known),
                table.list("tasks", "a list of names of tasks", plain),
            );
            filter.owners = table.list("owners", "a list of owners", plain);
            let levels = [("info", false), ("warning", true)];
            filter.only_warnings = table.read_or("level", false, |value| value.word(&levels));

            let name = name.ok_or("a sink needs a `name`")?;
            let of_webhooks = "secret-file ca-file format title headers body";
            if webhook.is_none()
                && let Some(key) = of_webhooks.split(' ').find(|key| table.has(key))
            {
                return Err(format!("sink `{name}`: only a `webhook` has `{key}`"));
            }
            // A person reads it: what is written for them are the messages.
            let is_for_people = message.format == Format::Text || message.body.is_some();
            if is_for_people && filter.kinds.is_empty() && filter.types.is_empty() {
                filter.kinds.push(Kind::FollowUp);
            }
            if let Some(problem) = message.problem() {
                return Err(format!("sink `{name}`: {problem}"));
            }
            let target = match (exec, shell, webhook) {
                (Some(words), None, None) => SinkTarget::Exec(words),
                (None, Some(line), None) => {
                    SinkTarget::Exec(["sh", "-c", &line].map(str::to_owned).to_vec())
                }
                #[cfg(feature = "webhook")]
                (None, None, Some(url)) => SinkTarget::Webhook(Webhook {
                    url,
                    secret_file,
                    ca_file,
                    message,
                }),
                _ => {
                    let targets = "one of `exec`, `shell` and `webhook`";
                    return Err(format!("sink `{name}` needs {targets}"));
                }
            };
            Ok(Self {
                name,
                target,
                filter,
                timeout,
            })
        })
    }
}

fn name(name: &str) -> Result<String, String> {
    let why = format!("is not {TASK_NAME_RULE}");
    if_right(name, is_task_name(name), &why)
}

/// Reads an argument of a program, which cannot have a NUL.
fn argument(word: &str) -> Result<String, String> {
    match word.contains('\0') {
        true => Err("an argument cannot have a NUL character".to_owned()),
        false => Ok(word.to_owned()),
    }
}

fn line(line: &str) -> Result<String, String> {
    match line.trim().is_empty() {
        true => Err("the line is empty".to_owned()),
        false => argument(line),
    }
}

fn address(url: &str) -> Result<String, String> {
    if cfg!(not(feature = "webhook")) {
        let why =
            "needs a program with webhooks: `cargo install --path . --locked --features webhook`";
        return Err(why.to_owned());
    }
    let secure = url.strip_prefix("https://");
    let rest = secure.or_else(|| url.strip_prefix("http://"));
    let is_host = |c: char| c.is_ascii_alphanumeric() || c == '[';
    let is_plain = |c: char| c.is_ascii_graphic();
    let is_address = rest.is_some_and(|rest| rest.starts_with(is_host));
    let why = "is not an address that starts with https:// or http://";
    if_right(url, is_address && url.chars().all(is_plain), why)
}

/// Reads a word of the feed.
fn known<T: ValueEnum>(text: &str) -> Result<T, String> {
    T::from_str(text, false).map_err(|_| {
        let words = T::value_variants().iter();
        let words = words.filter_map(|word| Some(word.to_possible_value()?.get_name().to_owned()));
        let (text, words) = (quotable(text), words.collect::<Vec<_>>().join(", "));
        format!("does not know \"{text}\"; allowed are {words}")
    })
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MessageConfig {
    /// The format of the body: key `format`.
    pub format: Format,
    /// The title: key `title`.
    pub title: Option<Template>,
    /// Headers besides those of each delivery, with their names in lower case: table `headers`.
    pub headers: Vec<(String, Template)>,
    /// The body; if missing, the record or its text: key `body`.
    pub body: Option<Template>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON. Values stand inside its strings.
    #[default]
    Json,
    Text,
}

impl Format {
    const NAMES: [(&str, Self); 2] = [("json", Self::Json), ("text", Self::Text)];
}

/// A text with values of the record in it: `{tasks}`, or `{text:html}` with `&`, `<` and `>` escaped. In a
/// header it can be secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Template(String);

impl Debug for Template {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.write_str("a template")
    }
}

/// A value in a template. Braces around anything but lower-case letters are text.
static VALUE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\{([a-z:]+)\}").expect("it is a regular expression"));

const VALUES: [&str; 10] = [
    "text", "title", "tasks", "types", "kind", "level", "session", "owner", "record", "sink",
];

const HTML: &str = ":html";

const MAX_HEADER: usize = 4096;

/// Headers that each delivery sets itself.
const OWN_HEADERS: &str = "\
    connection content-length expect host te trailer transfer-encoding upgrade user-agent title";

impl Template {
    fn parse(template: &str) -> Result<Self, String> {
        let is_known = |name: &str| VALUES.contains(&name.strip_suffix(HTML).unwrap_or(name));
        let mut found = VALUE.captures_iter(template);
        let Some(other) = found.find(|found| !is_known(&found[1])) else {
            return Ok(Self(template.to_owned()));
        };
        let (name, known) = (quotable(&other[1]), VALUES.join(", "));
        let known = format!("{known}, each also with `{HTML}`");
        Err(format!("does not know {{{name}}}; allowed are {known}"))
    }

    /// Returns the text with these values, escaped, and before that for HTML where it says so.
    pub(crate) fn render(
        &self,
        value: impl Fn(&str) -> String,
        escape: impl Fn(&str) -> String,
    ) -> String {
        let rendered = |found: &Captures<'_>| match found[1].strip_suffix(HTML) {
            None => escape(&value(&found[1])),
            Some(name) => {
                let value = value(name).replace('&', "&amp;");
                escape(&value.replace('<', "&lt;").replace('>', "&gt;"))
            }
        };
        VALUE.replace_all(&self.0, rendered).into_owned()
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

fn read_headers(value: &Value<'_>) -> Option<Vec<(String, Template)>> {
    let headers = value.map(|_, value| value.text("the value of a header", header_value))?;
    let header = |(name, value): (String, Template)| {
        let lower = name.to_ascii_lowercase();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_token) {
            return Err(wrong(&name, "is not the name of a header"));
        }
        if OWN_HEADERS.split(' ').any(|own| own == lower) || lower.starts_with("webhook-") {
            return Err(wrong(&name, "cannot be set here; the title is key `title`"));
        }
        Ok((lower, value))
    };
    value.checked(headers.into_iter().map(header).collect())
}

/// Reads the value of a header. Errors do not repeat it.
fn header_value(value: &str) -> Result<Template, String> {
    if value.len() > MAX_HEADER || value.chars().any(char::is_control) {
        return Err(format!(
            "a value is one line of at most {MAX_HEADER} bytes without control characters"
        ));
    }
    Template::parse(value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::{parse, tests::check_errors};
    use crate::model::EventType;

    fn of(text: &str) -> Vec<SinkConfig> {
        parse(Path::new("c.toml"), text)
            .expect("this is a good file")
            .sinks
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
        assert_eq!(sinks[0].filter, Filter::default());
        assert_eq!(sinks[1].target, words(&["sh", "-c", "cat > f"]));
        assert_eq!(sinks[1].timeout, Duration::from_secs(120));
        let (kinds, types) = (vec![Kind::FollowUp], vec![EventType::Exited]);
        let mut filter = Filter::new(kinds, types, vec!["api".to_owned()]);
        filter.owners = vec!["pi:*".to_owned()];
        filter.only_warnings = true;
        assert_eq!(sinks[1].filter, filter);
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn an_address_may_have_a_key() {
        let text = "[[sink]]\nname = 'w'\nwebhook = 'https://a.example/x'\nsecret-file = '/k'\n";
        let target = SinkTarget::Webhook(Webhook {
            url: "https://a.example/x".to_owned(),
            secret_file: Some("/k".into()),
            ca_file: None,
            message: MessageConfig::default(),
        });
        assert_eq!(of(text)[0].target, target);
    }

    #[cfg(feature = "webhook")]
    #[test]
    fn a_message_is_checked_and_its_headers_are_not_shown() {
        const SINK: &str = "[[sink]]\nname = 'w'\nwebhook = 'https://x'\n";
        let sink = |keys: &str| of(&format!("{SINK}{keys}\n")).remove(0);
        for (keys, kinds) in [
            ("format = 'text'", vec![Kind::FollowUp]),
            ("body = '{\"a\": \"{text}\"}'", vec![Kind::FollowUp]),
            ("format = 'text'\nkinds = ['notice']", vec![Kind::Notice]),
            ("format = 'text'\ntypes = ['input']", vec![]),
            ("format = 'json'", vec![]),
        ] {
            assert_eq!(sink(keys).filter.kinds, kinds, "{keys}");
        }
        let shown = sink("headers = { Authorization = 'Bearer TOKEN' }");
        let shown = format!("{shown:?}");
        assert!(shown.contains("\"authorization\""), "{shown}");
        assert!(!shown.contains("TOKEN"), "{shown}");
        let table = r#"
            format = 'xml' | 4: `sink.format`: `xml` is not `json` or `text`
            title = 'a' | 1: `sink`: sink `w`: a `title` needs `format = "text"` or a `body`
            body = '{text}' | NO_JSON
            body = '{"a": {text}}' | NO_JSON
            body = '{"a": "\{text}"}' | NO_JSON
            body = '{"a": "{text}"' | NO_JSON
            title = '{task}' | 4: `sink.title` does not know {task}; allowed are text, title, tasks, types, kind, level, session, owner, record, sink, each also with `:html`
            headers = { a = "TOKEN\r\nb" }
              | 4: `sink.headers.a`: a value is one line of at most 4096 bytes without control characters
            headers = { Host = 'x' } | 4: `sink.headers`: `Host` cannot be set here; the title is key `title`
            headers = { 'a b' = 'x' } | 4: `sink.headers`: `a b` is not the name of a header
            secret-file = 'k' | 4: `sink.secret-file`: `k` is not an absolute path"#;
        let no_json = "1: `sink`: sink `w`: the `body` is not JSON with values inside its strings; \
                       plain text needs `format = \"text\"`";
        check_errors(SINK, &table.replace("NO_JSON", no_json));
        for url in ["ftp://x", "https://", "http:// x", "x"] {
            let why = "is not an address that starts with https:// or http://";
            let table = format!("'{url}' | 3: `sink.webhook`: `{url}` {why}");
            check_errors("[[sink]]\nname = 'w'\nwebhook = ", &table);
        }
    }

    #[test]
    fn what_is_no_sink_is_one_clear_line() {
        let table = r#"
            exec = ['x'] | 1: `sink`: a sink needs a `name`
            name = 'a' | 1: `sink`: sink `a` needs one of `exec`, `shell` and `webhook`
            name = 'a'⏎exec = ['x']⏎shell = 'x' | 1: `sink`: sink `a` needs one of `exec`, `shell` and `webhook`
            name = 'a'⏎exec = ['x']⏎body = '{}' | 1: `sink`: sink `a`: only a `webhook` has `body`
            name = 'a'⏎exec = ['x']⏎[[sink]]⏎name = 'a'⏎exec = ['y'] | 1: `sink`: two sinks are named `a`
            name = 'a b'⏎exec = ['x']
              | 2: `sink.name`: `a b` is not 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit
            name = 'a'⏎exec = 'x' | 3: `sink.exec` must be a list of a program and its arguments, found a string
            name = 'a'⏎exec = [] | 3: `sink.exec`: no program is named
            name = 'a'⏎exec = ['x']⏎kinds = ['followup']
              | 4: `sink.kinds` does not know "followup"; allowed are event, notice, followUp
            name = 'a'⏎exec = ['x']⏎levl = 'info' | 4: unknown key `sink.levl`; did you mean `level`?
            name = 'a'⏎exec = ['x']⏎level = 'high' | 4: `sink.level`: `high` is not `info` or `warning`"#;
        check_errors("[[sink]]\n", table);
    }

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

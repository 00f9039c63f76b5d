//! What a webhook sends instead of the record: its format, title, headers and body, with values of the
//! record in them.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Formatter};

use serde::{Deserialize, Deserializer};

use super::error::quotable;
use super::value::{text, wrong};

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

pub(super) fn template<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Template>, D::Error> {
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
mod tests {
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

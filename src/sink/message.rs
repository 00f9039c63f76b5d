//! What a webhook sends for a record: the record, or what the settings make of it.
//!
//! Values come from tasks and are hostile: inside a body of JSON they cannot end their string, and
//! inside a header neither its line nor its encoding.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::delivery::Delivery;
use crate::config::{Format, MessageConfig};
use crate::model::text;
use crate::route;

/// The longest text, in characters and bytes: ntfy takes 4,096 bytes, Discord 2,000 characters, of which
/// a title may be a part, and Slack 3,000.
const TEXT_CHARS: usize = 1750;
const TEXT_BYTES: usize = 3800;

/// The longest other value, in characters: Discord takes titles of 256.
const VALUE_CHARS: usize = 200;

/// The largest part of a header that is one encoded word, in bytes. A word has 75 characters at most
/// (RFC 2047, section 2).
const WORD_BYTES: usize = 45;

/// A request without the headers of each delivery.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Names in lower case, and values of visible ASCII and blanks.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Message {
    pub(super) fn of(config: &MessageConfig, delivery: &Delivery) -> Self {
        let text = text_of(delivery);
        let short = |name: &str| text::one_line(delivery.value(name).as_bytes(), VALUE_CHARS);
        let mut values = [
            ("tasks", short("TASKS")),
            ("types", short("TYPES")),
            ("kind", short("KIND")),
            ("level", short("LEVEL")),
            ("session", short("SESSION")),
            ("owner", short("FOR_OWNER")),
            ("record", short("RECORD")),
            ("sink", short("SINK")),
            ("text", text),
            ("title", String::new()),
        ];
        let of = |values: &[(&str, String)], name: &str| {
            let found = values.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        let line = |text: &str| text::one_line(text.as_bytes(), VALUE_CHARS);
        if let Some(title) = &config.title {
            let title = line(&title.render(|name| of(&values, name), line));
            if let Some((_, value)) = values.last_mut() {
                *value = title;
            }
        }
        let value = |name: &str| of(&values, name);
        let mut headers = Vec::new();
        if config.format == Format::Text && !value("title").is_empty() {
            headers.push(("title".to_owned(), encoded(&value("title"))));
        }
        for header in &config.headers {
            headers.push((
                header.name.clone(),
                encoded(&header.value.render(value, line)),
            ));
        }
        if !headers.iter().any(|(name, _)| name == "content-type") {
            let content_type = match config.format {
                Format::Json => "application/json",
                Format::Text => "text/plain; charset=utf-8",
            };
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        let body = match (&config.body, config.format) {
            (Some(body), Format::Json) => body.render(value, in_json),
            (Some(body), Format::Text) => body.render(value, str::to_owned),
            (None, Format::Json) => delivery.line.clone(),
            (None, Format::Text) => value("text"),
        };
        Self { headers, body }
    }
}

/// Returns what a record says to a person. An event that asks nothing has no text of its own.
fn text_of(delivery: &Delivery) -> String {
    let text = delivery.value("TEXT");
    let said = text.strip_prefix(route::HEADER).unwrap_or(text).trim();
    if said.is_empty() {
        return format!("{}: {}", delivery.value("TASKS"), delivery.value("TYPES"));
    }
    let mut end = said.len().min(TEXT_BYTES);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    let cut = text::bounded(&said[..end], TEXT_CHARS);
    if end < said.len() && !cut.ends_with('…') {
        return cut + "…";
    }
    cut
}

/// Returns a text as it stands inside a string of JSON.
fn in_json(text: &str) -> String {
    let string = serde_json::Value::from(text).to_string();
    string[1..string.len() - 1].to_owned()
}

/// Returns the value of a header: as it is where it is visible ASCII, else in encoded words (RFC 2047).
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    if is_plain && !value.contains("=?") {
        return value.to_owned();
    }
    let mut words = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let mut end = rest.len().min(WORD_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        words.push(format!("=?UTF-8?B?{}?=", STANDARD.encode(&rest[..end])));
        rest = &rest[end..];
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn delivery(text: &str, task: &str) -> Delivery {
        Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![
                ("TEXT", text.to_owned()),
                ("TASKS", task.to_owned()),
                ("TYPES", "exited".to_owned()),
            ],
        }
    }

    fn message(keys: &str, delivery: &Delivery) -> Message {
        #[derive(serde::Deserialize)]
        struct File {
            sink: Vec<crate::config::SinkConfig>,
        }
        let file = format!("[[sink]]\nname = 'w'\nwebhook = 'https://x'\n{keys}\n");
        let file: File = toml::from_str(&file).unwrap();
        let crate::config::SinkTarget::Webhook { message, .. } = &file.sink[0].target else {
            panic!("it is a webhook");
        };
        Message::of(message, delivery)
    }

    #[track_caller]
    fn check(keys: &str, text: &str, task: &str, headers: &[(&str, &str)], body: &str) {
        let Message {
            headers: got,
            body: sent,
        } = message(keys, &delivery(text, task));
        let got: Vec<(&str, &str)> = got.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!((got.as_slice(), sent.as_str()), (headers, body));
    }

    #[test]
    fn a_message_has_the_values_of_the_record() {
        const JSON: (&str, &str) = ("content-type", "application/json");
        const TEXT: (&str, &str) = ("content-type", "text/plain; charset=utf-8");
        check("", "a", "api", &[JSON], "{\"seq\":1}");
        check(
            "format = 'text'",
            "[tmux-task notification]\nb\nc",
            "api",
            &[TEXT],
            "b\nc",
        );
        check("format = 'text'", "", "api", &[TEXT], "api: exited");
        let keys = "format = 'text'\ntitle = '{tasks}!'\nbody = '<{title}> {text:html}'\n\
            headers = { Tags = 'x,{types}', 'Content-Type' = 'text/markdown' }";
        let headers = [
            ("title", "api!"),
            ("content-type", "text/markdown"),
            ("tags", "x,exited"),
        ];
        check(
            keys,
            "a < \"b\" & c",
            "api",
            &headers,
            "<api!> a &lt; \"b\" &amp; c",
        );
        let keys = "title = '{tasks}'\nbody = '{\"t\":\"{title}\",\"x\":{\"y\":\"{text}\"}}'";
        check(
            keys,
            "a",
            "api",
            &[JSON],
            "{\"t\":\"api\",\"x\":{\"y\":\"a\"}}",
        );
    }

    #[test]
    fn hostile_values_stay_inside_their_string_and_their_header() {
        for hostile in [
            "\",\"admin\":true,\"x\":\"",
            "a\\",
            "\r\nX-Evil: 1\r\n\r\nbody",
            "a\u{2028}\u{7f}\u{1b}]0;t\u{7}\u{0}b",
            "{text}{title:html}",
            "=?UTF-8?B?DQpYLUV2aWw6IDE=?=",
            "grün \u{1f600}",
        ] {
            let keys = "title = '{tasks}'\nbody = '{\"a\":\"{text}\",\"b\":\"{title}\"}'\n\
                headers = { 'X-Task' = '{tasks} {text}' }";
            let sent = message(keys, &delivery(hostile, hostile));
            let body: Value = serde_json::from_str(&sent.body).unwrap();
            assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
            assert_eq!(body["a"], hostile.trim());
            for (name, value) in &sent.headers {
                let is_plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
                assert!(is_plain, "{name}: {value:?}");
            }
        }
        assert_eq!(encoded("a \u{e9}"), "=?UTF-8?B?YSDDqQ==?=");
        assert_eq!(
            encoded("=?UTF-8?B?DQo=?="),
            "=?UTF-8?B?PT9VVEYtOD9CP0RRbz0/PQ==?="
        );
        let long = "\u{e9}".repeat(100);
        for word in encoded(&long).split(' ') {
            assert!(word.len() <= 75, "{word}");
        }
    }

    #[test]
    fn what_a_peer_would_refuse_is_cut() {
        for (text, n_chars) in [("a", TEXT_CHARS), ("\u{1f600}", TEXT_BYTES / 4 + 1)] {
            let sent = message("format = 'text'", &delivery(&text.repeat(20_000), "api"));
            assert_eq!(sent.body.chars().count(), n_chars);
            assert!(sent.body.len() <= 4096 && sent.body.ends_with('…'));
        }
        let keys = "format = 'text'\ntitle = '{tasks} {text}'";
        let sent = message(keys, &delivery(&"b".repeat(9999), &"a".repeat(9999)));
        assert_eq!(sent.headers[0].0, "title");
        assert!(sent.headers[0].1.len() < 1000, "{}", sent.headers[0].1);
    }
}

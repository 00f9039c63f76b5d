//! An address to which each record is posted.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac::{self, HMAC_SHA256};
use tokio::task::spawn_blocking;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use super::delivery::Delivery;
use crate::config::{Format, MessageConfig, Webhook};
use crate::files;
use crate::model::{Error, Millis, text};
use crate::rules::route;

const MAX_KEY: u64 = 4096;
const MAX_CERTIFICATES: u64 = 1 << 20;

/// Posts a record, within this time. Redirects are not followed. The peer has it if its answer is a
/// success. The webhook's files are read each time, so that what replaces them applies at once.
pub(super) async fn post(
    webhook: &Webhook,
    limit: Duration,
    delivery: &Delivery,
    now: Millis,
) -> Result<(), Error> {
    let seconds = now / 1000;
    let Message { headers, body } = Message::of(&webhook.message, delivery);
    let mut request = agent(webhook, limit)?
        .post(&webhook.url)
        .header("webhook-id", &delivery.id)
        .header("webhook-timestamp", seconds.to_string());
    for (name, value) in headers {
        request = request.header(name, value);
    }
    if let Some(path) = &webhook.secret_file {
        let key = files::read_secret(path, MAX_KEY).map_err(|why| unusable(path, &why))?;
        let signature = sign(&key, &delivery.id, seconds, body.as_bytes());
        let signature = signature.map_err(|why| unusable(path, why))?;
        request = request.header("webhook-signature", signature);
    }
    let sent = spawn_blocking(move || request.send(body)).await;
    let status = match sent {
        Ok(Ok(answer)) => answer.status(),
        Ok(Err(error)) => return Err(Error::failed(error.to_string())),
        Err(error) => return Err(Error::failed(error.to_string())),
    };
    match status.is_success() {
        true => Ok(()),
        false => Err(Error::failed(format!("the answer was {}", status.as_u16()))),
    }
}

/// Returns what posts one record. Connections are not kept: the peer may close them.
fn agent(webhook: &Webhook, limit: Duration) -> Result<Agent, Error> {
    let mut config = Agent::config_builder()
        .timeout_global(Some(limit))
        .max_redirects(0)
        .max_redirects_will_error(false)
        .http_status_as_error(false)
        .user_agent(concat!("tmux-task/", env!("CARGO_PKG_VERSION")));
    if let Some(path) = &webhook.ca_file {
        let certificates = read_certificates(path).map_err(|why| unusable(path, &why))?;
        let roots = RootCerts::new_with_certs(&certificates);
        config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
    }
    Ok(config.build().new_agent())
}

/// The key of the signature, or the certificates, cannot be used.
fn unusable(path: &Path, why: &str) -> Error {
    Error::failed(format!("could not use {}: {why}", path.display()))
}

fn read_certificates(path: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let mut pem = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_CERTIFICATES).read_to_end(&mut pem));
    read.map_err(|error| error.to_string())?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| error.to_string())? {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err("it has no certificate".to_owned()),
        false => Ok(certificates),
    }
}

const IN_BASE64: &str = "whsec_";
const LEAST_BYTES: usize = 16;

/// Returns the header `webhook-signature` as <https://www.standardwebhooks.com> defines it. `seconds` is the
/// time of the attempt, since 1970. The key is base64 after `whsec_`, else the bytes themselves, without a line
/// end. It never appears in a log or an error.
fn sign(key: &[u8], id: &str, seconds: i64, body: &[u8]) -> Result<String, &'static str> {
    let key = key.trim_ascii_end();
    let bytes = match key.strip_prefix(IN_BASE64.as_bytes()) {
        Some(encoded) => STANDARD.decode(encoded).map_err(|_| "it is not base64")?,
        None => key.to_vec(),
    };
    if bytes.len() < LEAST_BYTES {
        return Err("it has less than 16 bytes");
    }
    let mut signing = hmac::Context::with_key(&hmac::Key::new(HMAC_SHA256, &bytes));
    signing.update(format!("{id}.{seconds}.").as_bytes());
    signing.update(body);
    Ok(format!("v1,{}", STANDARD.encode(signing.sign())))
}

/// The longest text, in characters and bytes: ntfy takes 4,096 bytes, Discord 2,000 characters, of which
/// a title may be a part, and Slack 3,000.
const TEXT_CHARS: usize = 1750;
const TEXT_BYTES: usize = 3800;

/// The longest other value, in characters: Discord takes titles of 256.
const VALUE_CHARS: usize = 200;

/// The largest part in one encoded word, which has 75 characters at most (RFC 2047, section 2), in bytes.
const WORD_BYTES: usize = 45;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Names in lower case, and values of visible ASCII and blanks.
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Message {
    pub(super) fn of(config: &MessageConfig, delivery: &Delivery) -> Self {
        let line = |text: &str| text::one_line(text.as_bytes(), VALUE_CHARS);
        let text = text_of(delivery);
        let value_with = |title: &str, name: &str| match name {
            "text" => text.clone(),
            "title" => title.to_owned(),
            "owner" => line(delivery.value("FOR_OWNER")),
            name => line(delivery.value(&name.to_uppercase())),
        };
        let title = config.title.as_ref();
        let title = title.map(|title| line(&title.render(|name| value_with("", name), line)));
        let title = title.unwrap_or_default();
        let value = |name: &str| value_with(&title, name);
        let mut headers = Vec::new();
        if config.format == Format::Text && !title.is_empty() {
            headers.push(("title".to_owned(), encoded(&title)));
        }
        let own = config.headers.iter();
        headers.extend(own.map(|(name, text)| (name.clone(), encoded(&text.render(value, line)))));
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
            (None, Format::Text) => text.clone(),
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
    let end = said.floor_char_boundary(TEXT_BYTES);
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
        let end = rest.floor_char_boundary(WORD_BYTES);
        words.push(format!("=?UTF-8?B?{}?=", STANDARD.encode(&rest[..end])));
        rest = &rest[end..];
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::model::test_notation::rows;
    use serde_json::Value;

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        fs::write(&path, "sixteen bytes or more").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let read = || files::read_secret(&path, MAX_KEY);
        let expected = "other users can read it (mode 0644); `chmod 600` closes it";
        assert_eq!(read().unwrap_err(), expected);
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(read().is_ok());
        let Err(why) = read_certificates(&path) else {
            panic!("it was used");
        };
        assert_eq!(why, "it has no certificate");
    }

    #[test]
    fn a_signature_is_as_the_standard_shows_it() {
        // The example of the specification.
        let key = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n";
        let body = br#"{"test": 2432232314}"#;
        let signature = sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature, Ok(expected.to_owned()));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for contents in ["", "short", "whsec_", "whsec_%%%%%%%%%%%%%%%%%%%%%%%%%%%%"] {
            assert!(sign(contents.as_bytes(), "", 0, b"").is_err(), "{contents}");
        }
        assert!(sign(b"sixteen bytes or more\n", "", 0, b"").is_ok());
    }

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
        let file = format!("[[sink]]\nname = 'w'\nwebhook = 'https://x'\n{keys}\n");
        let config = crate::config::parse(std::path::Path::new("c.toml"), &file).unwrap();
        let crate::config::SinkTarget::Webhook(webhook) = &config.sinks[0].target else {
            panic!("it is a webhook");
        };
        Message::of(&webhook.message, delivery)
    }

    #[test]
    fn a_message_has_the_values_of_the_record() {
        let table = r#"
            # | a | content-type: application/json | {"seq":1}
            format = 'text' | [tmux-task notification]⏎b⏎c | PLAIN | b⏎c
            format = 'text' |  | PLAIN | api: exited
            format = 'text'⏎title = '{tasks}!'⏎body = '<{title}> {text:html}'⏎headers = { Tags = 'x,{types}', 'Content-Type' = 'text/markdown' }
              | a < "b" & c | title: api!, content-type: text/markdown, tags: x,exited
              | <api!> a &lt; "b" &amp; c
            title = '{tasks}'⏎body = '{"t":"{title}","x":{"y":"{text}"}}'
              | a | content-type: application/json | {"t":"api","x":{"y":"a"}}"#;
        let table = table.replace("PLAIN", "content-type: text/plain; charset=utf-8");
        for [keys, text, headers, body] in rows(&table) {
            let sent = message(&keys, &delivery(&text, "api"));
            let found = sent.headers.iter();
            let found = found.map(|(name, value)| format!("{name}: {value}"));
            assert_eq!(found.collect::<Vec<_>>().join(", "), headers, "{keys}");
            assert_eq!(sent.body, body, "{keys}");
        }
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

//! What a task of the file is ready by.

use std::net::IpAddr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::error::quotable;
use super::value::from_value;

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

//! The client's messages, each a line of JSON. What is no message is answered with an error, with its id
//! where it has one, because a client would wait for ever: the library passes over such lines.

use std::borrow::Cow;
use std::collections::VecDeque;

use rmcp::model::{ErrorData, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// The longest line, in bytes.
const MAX_LINE: usize = 16 << 20;

/// What was read: a message, or the answer to what is none.
type Received = Result<RxJsonRpcMessage<RoleServer>, (ErrorData, Option<RequestId>)>;

/// Reads what a client writes.
pub(super) struct Messages<R> {
    input: BufReader<R>,
    /// The line that is being read.
    line: Vec<u8>,
    /// Whether the beginning of that line was dropped.
    is_too_long: bool,
    /// The rest of a batch.
    batch: VecDeque<Value>,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
            is_too_long: false,
            batch: VecDeque::new(),
        }
    }

    /// Returns the next message; `None` when the client has closed its side.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some(received) = self.batch.pop_front().and_then(message) {
                return Some(received);
            }
            if !self.batch.is_empty() {
                continue;
            }
            self.read_line().await?;
            let line = std::mem::take(&mut self.line);
            if std::mem::take(&mut self.is_too_long) {
                let why = format!("a line of more than {MAX_LINE} bytes");
                return Some(Err((ErrorData::invalid_request(why, None), None)));
            }
            match parse(&line) {
                Ok(Value::Array(messages)) if !messages.is_empty() => self.batch = messages.into(),
                Ok(value) => self.batch.push_back(value),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(wrong) => return Some(Err(wrong)),
            }
        }
    }

    async fn read_line(&mut self) -> Option<()> {
        while !self.line.ends_with(b"\n") {
            if self.line.len() == MAX_LINE {
                self.is_too_long = true;
                self.line.clear();
            }
            let room = (MAX_LINE - self.line.len()) as u64;
            let mut part = (&mut self.input).take(room);
            let n = part.read_until(b'\n', &mut self.line).await.ok()?;
            (n > 0).then_some(())?;
        }
        Some(())
    }
}

fn parse(line: &[u8]) -> Result<Value, (ErrorData, Option<RequestId>)> {
    let text = String::from_utf8_lossy(line);
    let wrong = |why: String, id| (ErrorData::parse_error(why, None), id);
    let parsed = serde_json::from_str(&whole_characters(text.trim_start_matches('\u{feff}')));
    let value: Value = parsed.map_err(|error| wrong(error.to_string(), None))?;
    match text {
        Cow::Borrowed(_) => Ok(value),
        Cow::Owned(_) => Err(wrong("it is not UTF-8".to_owned(), id_of(&value))),
    }
}

/// Returns the message, or the answer to what is none; `None` for what is not answered: notifications and
/// answers.
fn message(value: Value) -> Option<Received> {
    let has = |name| value.get(name).is_some();
    let is_answered = match has("method") {
        true => has("id"),
        false => !has("result") && !has("error"),
    };
    let id = id_of(&value);
    match serde_json::from_value(value) {
        Ok(message) => Some(Ok(message)),
        Err(_) if !is_answered => None,
        Err(error) => Some(Err((
            ErrorData::invalid_request(error.to_string(), None),
            id,
        ))),
    }
}

fn id_of(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.get("id")?.clone()).ok()
}

/// Returns JSON in which the escape of half a character, as `JSON.stringify` writes it where a text was cut
/// within one, is that of U+FFFD.
fn whole_characters(json: &str) -> Cow<'_, str> {
    let unit = |at: usize| {
        let digits = json.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        at = match (unit(escape), unit(escape + 6)) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => escape + 12,
            (Some(0xd800..0xe000), _) => {
                whole += &json[copied..escape];
                whole += "\\ufffd";
                copied = escape + 6;
                copied
            }
            // What follows a backslash is no backslash of its own.
            _ => json.ceil_char_boundary(escape + 2),
        };
    }
    match copied {
        0 => Cow::Borrowed(json),
        _ => Cow::Owned(whole + &json[copied..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all of the input. Of each message its id or method, of an error its code and id.
    async fn read(input: &[u8]) -> Vec<String> {
        let mut messages = Messages::new(input);
        let mut all = Vec::new();
        while let Some(received) = messages.next().await {
            all.push(match received {
                Ok(message) => {
                    let json = serde_json::to_value(message).unwrap();
                    json.get("id").unwrap_or(&json["method"]).to_string()
                }
                Err((error, Some(id))) => format!("{} {id}", error.code.0),
                Err((error, None)) => error.code.0.to_string(),
            });
        }
        all
    }

    #[tokio::test]
    async fn what_is_no_message_is_answered_with_its_id() {
        for (line, expected) in [
            (
                &br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#[..],
                &["1"][..],
            ),
            (
                br#"{"jsonrpc":"2.0","id":"a","method":"no/such","params":[1]}"#,
                &["\"a\""],
            ),
            (b"not json", &["-32700"]),
            (br#"{"jsonrpc":"2.0","id":1,"method":"ping""#, &["-32700"]),
            (
                b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xe9\"}",
                &["-32700 1"],
            ),
            (br#"{"jsonrpc":"2.0","id":7}"#, &["-32600 7"]),
            (br#"{"jsonrpc":"2.0","id":7,"method":5}"#, &["-32600 7"]),
            (br#"{"id":7,"method":"ping"}"#, &["-32600 7"]),
            (b"5", &["-32600"]),
            (b"[]", &["-32600"]),
            (
                br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"method":"x"},{"id":2}]"#,
                &["1", "-32600 2"],
            ),
            (b" \r", &[]),
            (br#"{"method":"notifications/progress","params":5}"#, &[]),
            (br#"{"id":1,"error":5}"#, &[]),
        ] {
            let input = [
                line,
                b"\n",
                br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#,
                b"\n",
            ]
            .concat();
            let line = String::from_utf8_lossy(line);
            assert_eq!(read(&input).await, [expected, &["9"]].concat(), "{line}");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_dropped_whole() {
        let long = [&b"x".repeat(2 * MAX_LINE + 5)[..], b"\n"].concat();
        let ping = br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
        assert_eq!(
            read(&[&long[..], ping, b"\n", b"x"].concat()).await,
            ["-32600", "9"]
        );
    }

    #[test]
    fn half_a_character_becomes_a_whole_one() {
        for (json, expected) in [
            (r#""a\ud83d""#, r#""a\ufffd""#),
            (
                r#""\ude00\ud83d\ude00\uD83Dé""#,
                r#""\ufffd\ud83d\ude00\ufffdé""#,
            ),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d\\\ud83d""#, r#""\\ud83d\\\ufffd""#),
            (r#""\ud8é\u""#, r#""\ud8é\u""#),
            ("\"\\é\\", "\"\\é\\"),
        ] {
            assert_eq!(whole_characters(json), expected, "{json}");
        }
    }
}

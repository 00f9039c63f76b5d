//! The connection to the client, on which what is no message is answered as well.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::Value;
use tokio::io::{self, AsyncBufReadExt as _, AsyncRead, BufReader, Empty, Split, Stdin, Stdout};
use tokio::sync::watch;

/// Standard input and output.
pub(super) struct ClientTransport {
    messages: Messages<Stdin>,
    output: AsyncRwTransport<RoleServer, Empty, Stdout>,
    /// Told when the client has closed its side: waits end then.
    close: watch::Sender<bool>,
}

impl ClientTransport {
    pub(super) fn new(close: watch::Sender<bool>) -> Self {
        Self {
            messages: Messages::new(io::stdin()),
            output: AsyncRwTransport::new_server(io::empty(), io::stdout()),
            close,
        }
    }
}

impl Transport<RoleServer> for ClientTransport {
    type Error = std::io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.output.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            match self.messages.next().await {
                Some(Ok(message)) => return Some(message),
                Some(Err((error, id))) => {
                    let answer = JsonRpcMessage::error(error, id);
                    // This future may be dropped before the answer is written.
                    drop(tokio::spawn(self.output.send(answer)));
                }
                None => {
                    self.close.send_replace(true);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.output.close().await
    }
}

/// What was read: a message, or the answer to what is none.
type Received = Result<RxJsonRpcMessage<RoleServer>, (ErrorData, Option<RequestId>)>;

struct Messages<R> {
    lines: Split<BufReader<R>>,
    /// The rest of a batch.
    batch: VecDeque<Value>,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    fn new(input: R) -> Self {
        Self {
            lines: BufReader::new(input).split(b'\n'),
            batch: VecDeque::new(),
        }
    }

    /// Returns the next message; `None` when the client has closed its side. What is not answered is passed
    /// over: notifications and answers that are none. Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Option<Received> {
        loop {
            while let Some(value) = self.batch.pop_front() {
                let has = |name| value.get(name).is_some();
                let is_answered = match has("method") {
                    true => has("id"),
                    false => !has("result") && !has("error"),
                };
                let id = id_of(&value);
                match serde_json::from_value(value) {
                    Ok(message) => return Some(Ok(message)),
                    Err(error) if is_answered => {
                        let error = ErrorData::invalid_request(error.to_string(), None);
                        return Some(Err((error, id)));
                    }
                    Err(_) => {}
                }
            }
            let line = self.lines.next_segment().await.ok()??;
            let text = String::from_utf8_lossy(&line);
            let wrong = |why, id| Some(Err((ErrorData::parse_error(why, None), id)));
            let json = whole_characters(text.trim_start_matches('\u{feff}'));
            match serde_json::from_str::<Value>(&json) {
                Ok(value) if matches!(text, Cow::Owned(_)) => {
                    return wrong("it is not UTF-8".to_owned(), id_of(&value));
                }
                Ok(Value::Array(messages)) if !messages.is_empty() => self.batch = messages.into(),
                Ok(value) => self.batch.push_back(value),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(error) => return wrong(error.to_string(), None),
            }
        }
    }
}

fn id_of(value: &Value) -> Option<RequestId> {
    serde_json::from_value(value.get("id")?.clone()).ok()
}

/// Returns JSON in which the escape of half a character, as `JSON.stringify` writes it where a text was cut
/// within one, is that of U+FFFD.
fn whole_characters(json: &str) -> Cow<'_, str> {
    static ESCAPE: LazyLock<Regex> = LazyLock::new(|| {
        let hex = "[0-9a-f]{2}";
        let pair = format!(r"u(?i:d[89ab]{hex})\\u(?i:d[c-f]{hex})");
        Regex::new(&format!(r"\\(?:{pair}|(u(?i:d[89a-f]{hex}))|.)")).expect("it is valid")
    });
    ESCAPE.replace_all(json, |escape: &Captures<'_>| match escape.get(1) {
        Some(_) => r"\ufffd".to_owned(),
        None => escape[0].to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::rows;

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
        for [line, expected] in rows(
            r#"
            {"jsonrpc":"2.0","id":1,"method":"ping"} | 1
            {"jsonrpc":"2.0","id":"a","method":"no/such","params":{"a":1}} | "a"
            not json | -32700
            {"jsonrpc":"2.0","id":1,"method":"ping" | -32700
            {"jsonrpc":"2.0","id":1,"method":"ODD"} | -32700 1
            {"jsonrpc":"2.0","id":7} | -32600 7
            {"jsonrpc":"2.0","id":7,"method":5} | -32600 7
            {"id":7,"method":"ping"} | -32600 7
            5 | -32600
            [] | -32600
            [{"jsonrpc":"2.0","id":1,"method":"ping"},{"method":"x"},{"id":2}] | 1, -32600 2
            BLANK |
            {"method":"notifications/progress","params":5} |
            {"id":1,"error":5} |"#,
        ) {
            let line = line.replace("BLANK", " \r");
            let input = format!("{line}\n{{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}}\n");
            // Half a character.
            let mut input = input.into_bytes();
            if let Some(at) = line.find("ODD") {
                input.splice(at..at + 3, [0xe9]);
            }
            let read = read(&input).await.join(", ");
            let expected = if expected.is_empty() {
                "9".to_owned()
            } else {
                expected + ", 9"
            };
            assert_eq!(read, expected, "{line}");
        }
    }

    #[test]
    fn half_a_character_becomes_a_whole_one() {
        for [json, expected] in rows(
            r#"
            "a\ud83d" | "a\ufffd"
            "\ude00\ud83d\ude00\uD83Dé" | "\ufffd\ud83d\ude00\ufffdé"
            "\ud83d\ud83d\ude00" | "\ufffd\ud83d\ude00"
            "\\ud83d\\\ud83d" | "\\ud83d\\\ufffd"
            "\ud8é\u" | "\ud8é\u"
            "\é\ | "\é\"#,
        ) {
            assert_eq!(whole_characters(&json), expected, "{json}");
        }
    }
}

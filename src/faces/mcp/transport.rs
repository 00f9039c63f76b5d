//! The connection to the client, which takes no further requests while many have no answer yet.

use std::borrow::Cow;
use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use regex::{Captures, Regex};
use rmcp::model::{ClientNotification, ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::sync::{Notify, watch};

/// How many requests may wait for their answers to be written. A client that reads no answers would
/// otherwise fill the memory with them: an answer has up to 64 KiB.
const MOST_UNANSWERED: usize = 256;

/// A transport that reads on only while few requests are unanswered.
pub(super) struct BoundedTransport<R, T: Transport<RoleServer>> {
    messages: Messages<R>,
    /// Only writes.
    inner: T,
    /// An error that is being written.
    writing: Option<Writing<T::Error>>,
    unanswered: Arc<Unanswered>,
    /// Told when the client has closed its side: waits end then.
    close: watch::Sender<bool>,
}

type Writing<E> = Pin<Box<dyn Future<Output = Result<(), E>> + Send>>;

/// The requests whose answers are not written yet.
#[derive(Debug, Default)]
struct Unanswered {
    ids: Mutex<HashSet<RequestId>>,
    /// Notified when one is answered.
    answered: Notify,
}

impl<R: AsyncRead + Unpin, T: Transport<RoleServer>> BoundedTransport<R, T> {
    pub(super) fn new(input: R, inner: T, close: watch::Sender<bool>) -> Self {
        Self {
            messages: Messages::new(input),
            inner,
            writing: None,
            unanswered: Arc::default(),
            close,
        }
    }
}

impl Unanswered {
    fn ids(&self) -> MutexGuard<'_, HashSet<RequestId>> {
        // Nothing is left half done while it is held.
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove(&self, id: Option<&RequestId>) {
        if id.is_some_and(|id| self.ids().remove(id)) {
            self.answered.notify_one();
        }
    }
}

impl<R: AsyncRead + Unpin + Send, T: Transport<RoleServer>> Transport<RoleServer>
    for BoundedTransport<R, T>
{
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let answered = match &item {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let sent = self.inner.send(item);
        let unanswered = Arc::clone(&self.unanswered);
        async move {
            let sent = sent.await;
            unanswered.remove(answered.as_ref());
            sent
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        while self.unanswered.ids().len() >= MOST_UNANSWERED {
            self.unanswered.answered.notified().await;
        }
        let received = loop {
            if let Some(writing) = &mut self.writing {
                writing.as_mut().await.ok()?;
                self.writing = None;
            }
            match self.messages.next().await {
                Some(Ok(message)) => break message,
                Some(Err((error, id))) => {
                    let answer = JsonRpcMessage::error(error, id);
                    self.writing = Some(Box::pin(self.inner.send(answer)));
                }
                None => {
                    self.close.send_replace(true);
                    return None;
                }
            }
        };
        match &received {
            JsonRpcMessage::Request(request) => {
                self.unanswered.ids().insert(request.id.clone());
            }
            // A request that is cancelled gets no answer.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                {
                    self.unanswered.remove(cancelled.params.request_id.as_ref());
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        Some(received)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// The longest line, in bytes.
const MAX_LINE: usize = 16 << 20;

/// What was read: a message, or the answer to what is none.
type Received = Result<RxJsonRpcMessage<RoleServer>, (ErrorData, Option<RequestId>)>;

/// Reads what a client writes.
pub(super) struct Messages<R> {
    input: BufReader<R>,
    /// The line that is being read.
    line: Vec<u8>,
    /// The rest of a batch.
    batch: VecDeque<Value>,
}

impl<R: AsyncRead + Unpin> Messages<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::new(input),
            line: Vec::new(),
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
            match parse(&line) {
                Ok(Value::Array(messages)) if !messages.is_empty() => self.batch = messages.into(),
                Ok(value) => self.batch.push_back(value),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(wrong) => return Some(Err(wrong)),
            }
        }
    }

    /// Reads a line. A longer one than the limit is cut: its parts are no messages.
    async fn read_line(&mut self) -> Option<()> {
        while !self.line.ends_with(b"\n") && self.line.len() < MAX_LINE {
            let room = MAX_LINE - self.line.len();
            let mut part = (&mut self.input).take(room as u64);
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
    use std::time::Duration;

    use super::*;
    use rmcp::transport::IntoTransport;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::time::timeout;

    fn ping(id: usize) -> String {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")
    }

    fn answer(id: usize) -> TxJsonRpcMessage<RoleServer> {
        let result = rmcp::model::ServerResult::empty(());
        JsonRpcMessage::response(result, RequestId::Number(i64::try_from(id).unwrap()))
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_requests_are_read_than_may_be_unanswered() {
        let (client, server) = tokio::io::duplex(1 << 20);
        let (input, output) = tokio::io::split(server);
        let inner = IntoTransport::<RoleServer, _, _>::into_transport((tokio::io::empty(), output));
        let mut transport = BoundedTransport::new(input, inner, watch::channel(false).0);
        let (reader, mut writer) = tokio::io::split(client);
        let mut answers = BufReader::new(reader).lines();
        for id in 0..MOST_UNANSWERED + 2 {
            writer.write_all(ping(id).as_bytes()).await.unwrap();
        }
        for _ in 0..MOST_UNANSWERED {
            assert!(transport.receive().await.is_some());
        }
        let wait = Duration::from_secs(60);
        assert!(timeout(wait, transport.receive()).await.is_err());
        transport.send(answer(7)).await.unwrap();
        assert!(
            answers
                .next_line()
                .await
                .unwrap()
                .unwrap()
                .contains("\"id\":7")
        );
        assert!(transport.receive().await.is_some());
        assert!(timeout(wait, transport.receive()).await.is_err());
        transport.send(answer(8)).await.unwrap();
        assert!(transport.receive().await.is_some());
    }

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
                br#"{"jsonrpc":"2.0","id":"a","method":"no/such","params":{"a":1}}"#,
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
    async fn the_parts_of_a_line_that_is_too_long_are_no_messages() {
        let long = [&b"x".repeat(2 * MAX_LINE + 5)[..], b"\n"].concat();
        let ping = br#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
        assert_eq!(
            read(&[&long[..], ping, b"\n", b"x"].concat()).await,
            ["-32700", "-32700", "-32700", "9"]
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

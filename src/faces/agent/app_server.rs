//! Codex's app-server: JSON-RPC over a WebSocket on a Unix socket, its control socket.

use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::Error as SocketError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::model::with_causes;

/// How long the app-server may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// The longest message of the app-server, in bytes: a thread's turns may be in it.
const MAX_MESSAGE: usize = 256 << 20;

/// Why Codex did not do what it was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotDone {
    pub(super) certainty: Certainty,
    pub(super) why: String,
}

/// What is certain of something that Codex did not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    /// It was not done, as no app-server listens.
    NoServer,
    /// It was not done.
    Refused,
    /// It may have been done: there was no answer.
    Unclear,
}

impl NotDone {
    pub(super) fn new(certainty: Certainty, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { certainty, why }
    }

    fn silent() -> Self {
        Self::new(Certainty::Unclear, "Codex's app-server does not answer")
    }
}

impl From<SocketError> for NotDone {
    fn from(error: SocketError) -> Self {
        let why = with_causes(&error);
        let why = format!("the connection to Codex's app-server failed: {why}");
        Self::new(Certainty::Unclear, why)
    }
}

/// A connection to the app-server.
pub(super) struct AppServer {
    socket: WebSocketStream<UnixStream>,
    last_id: u64,
}

impl AppServer {
    /// Connects.
    ///
    /// # Errors
    ///
    /// When nothing listens there, or what listens does not answer.
    pub(super) async fn connect(path: &Path) -> Result<Self, NotDone> {
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|error| {
            let why = format!("no app-server listens at {}: {error}", path.display());
            NotDone::new(Certainty::NoServer, why)
        })?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let connecting =
            tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config));
        let connected = timeout(ANSWERS_WITHIN, connecting).await;
        let (socket, _) = connected.map_err(|_| NotDone::silent())??;
        let mut server = Self { socket, last_id: 0 };
        let version = env!("CARGO_PKG_VERSION");
        server
            .call(
                "initialize",
                json!({
                    "clientInfo": {"name": "tmux-task", "title": "tmux-task", "version": version},
                    // The queue is part of it.
                    "capabilities": {"experimentalApi": true},
                }),
            )
            .await?;
        server.send(json!({"method": "initialized"})).await?;
        Ok(server)
    }

    /// Calls a method and returns its result.
    ///
    /// # Errors
    ///
    /// When it refuses, ends or does not answer.
    pub(super) async fn call(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> Result<Value, NotDone> {
        self.last_id += 1;
        let request = json!({"id": self.last_id, "method": method, "params": params});
        self.send(request).await?;
        let answer = timeout(ANSWERS_WITHIN, self.answer()).await;
        let mut answer = answer.map_err(|_| NotDone::silent())??;
        match answer.get("error") {
            Some(error) => {
                let reason = error["message"].as_str().unwrap_or("no reason");
                let why = format!("Codex's app-server refused `{method}`: {reason}");
                Err(NotDone::new(Certainty::Refused, why))
            }
            None => Ok(answer["result"].take()),
        }
    }

    /// Returns the next notification, or request of the app-server. To be called while no call is
    /// under way.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the app-server ends.
    pub(super) async fn notification(&mut self) -> Result<Value, NotDone> {
        loop {
            let value = self.receive().await?;
            if value.get("method").is_some() {
                return Ok(value);
            }
        }
    }

    /// Returns the answer to the last request; passes over everything else.
    async fn answer(&mut self) -> Result<Value, NotDone> {
        loop {
            let value = self.receive().await?;
            if value["id"] == self.last_id && value.get("method").is_none() {
                return Ok(value);
            }
        }
    }

    async fn receive(&mut self) -> Result<Value, NotDone> {
        loop {
            let message = self.socket.next().await.ok_or_else(NotDone::silent)??;
            let parsed = message.to_text().ok().map(serde_json::from_str);
            if let Some(Ok(value)) = parsed {
                return Ok(value);
            }
        }
    }

    async fn send(&mut self, value: Value) -> Result<(), NotDone> {
        let message = Message::text(value.to_string());
        let sent = timeout(ANSWERS_WITHIN, self.socket.send(message)).await;
        Ok(sent.map_err(|_| NotDone::silent())??)
    }
}

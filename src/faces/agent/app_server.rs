//! Codex's app-server: JSON-RPC over a WebSocket on a Unix socket, its control socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::UnixStream;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::error::Error as SocketError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// How long the app-server may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// The longest message of the app-server, in bytes: a thread's turns may be in it.
const MAX_MESSAGE: usize = 256 << 20;

/// Why the app-server did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub(super) enum AppServerError {
    /// Nothing listens.
    #[error("no app-server of Codex listens at {}", .path.display())]
    Missing {
        /// The control socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The connection failed.
    #[error("the connection to Codex's app-server failed")]
    Socket(#[source] Box<SocketError>),
    /// It ended, or did not answer in time.
    #[error("Codex's app-server does not answer")]
    Silent,
    #[error("Codex's app-server refused `{method}`: {reason}")]
    Refused {
        method: &'static str,
        /// What it said.
        reason: String,
    },
}

impl From<SocketError> for AppServerError {
    fn from(error: SocketError) -> Self {
        Self::Socket(Box::new(error))
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
    pub(super) async fn connect(path: &Path) -> Result<Self, AppServerError> {
        let stream = UnixStream::connect(path).await;
        let stream = stream.map_err(|source| AppServerError::Missing {
            path: path.to_owned(),
            source,
        })?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE))
            .max_frame_size(Some(MAX_MESSAGE));
        let connecting =
            tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config));
        let connected = timeout(ANSWERS_WITHIN, connecting).await;
        let (socket, _) = connected.map_err(|_| AppServerError::Silent)??;
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
    ) -> Result<Value, AppServerError> {
        self.last_id += 1;
        let request = json!({"id": self.last_id, "method": method, "params": params});
        self.send(request).await?;
        let answer = timeout(ANSWERS_WITHIN, self.answer()).await;
        let mut answer = answer.map_err(|_| AppServerError::Silent)??;
        match answer.get("error") {
            Some(error) => {
                let reason = error["message"].as_str().unwrap_or("no reason");
                let reason = reason.to_owned();
                Err(AppServerError::Refused { method, reason })
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
    pub(super) async fn notification(&mut self) -> Result<Value, AppServerError> {
        loop {
            let value = self.receive().await?;
            if value.get("method").is_some() {
                return Ok(value);
            }
        }
    }

    /// Returns the answer to the last request; passes over everything else.
    async fn answer(&mut self) -> Result<Value, AppServerError> {
        loop {
            let value = self.receive().await?;
            if value["id"] == self.last_id && value.get("method").is_none() {
                return Ok(value);
            }
        }
    }

    async fn receive(&mut self) -> Result<Value, AppServerError> {
        loop {
            let message = self.socket.next().await.ok_or(AppServerError::Silent)??;
            let parsed = message.to_text().ok().map(serde_json::from_str);
            if let Some(Ok(value)) = parsed {
                return Ok(value);
            }
        }
    }

    async fn send(&mut self, value: Value) -> Result<(), AppServerError> {
        let message = Message::text(value.to_string());
        let sent = timeout(ANSWERS_WITHIN, self.socket.send(message)).await;
        Ok(sent.map_err(|_| AppServerError::Silent)??)
    }
}

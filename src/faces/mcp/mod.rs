//! The MCP server: tasks as tools for a model, on standard input and output.
//!
//! Results are plain, bounded lines of text. Each call finds the session like a command of its own;
//! between calls the server keeps nothing but the handles of calls that are still waiting.

mod call;
mod other_host;
mod tasks;
mod tool;
mod tools;
mod transport;
mod wait;

use std::io;

use rmcp::service::{RoleServer, ServerInitializeError, ServiceExt};
use rmcp::transport::IntoTransport;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
    DuplexStream,
};
use tokio::sync::watch;
use tokio::task::LocalSet;

use crate::model::{Error, ErrorKind, with_causes};
use crate::ops::SessionChoice;
use other_host::{CALL, HostBegins};
pub(crate) use other_host::{SINGLE_CALL, refusal};
use tool::Client;
use tools::Server;
use transport::{ClientTransport, Messages};

/// How much the two sides of a single call may be apart, in bytes.
const PIPE: usize = 64 << 10;

/// How to serve.
#[derive(Debug, Clone)]
pub(crate) struct ServeOptions {
    /// The task session.
    pub(crate) choice: SessionChoice,
    /// Whether only tools that change nothing are offered.
    pub(crate) is_read_only: bool,
}

/// Serves one client on standard input and output until it closes them.
///
/// # Errors
///
/// When the client does not speak MCP.
pub(crate) async fn serve(options: ServeOptions) -> Result<(), Error> {
    serve_client(options, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Executes one call of a tool, whose parameters come on standard input. Prints its progress and its
/// answer, which has the id [`CALL`], as the server writes them.
///
/// # Errors
///
/// When standard input has no such call.
pub(crate) async fn serve_call(options: ServeOptions) -> Result<(), Error> {
    let mut request = String::new();
    let read = tokio::io::stdin().read_to_string(&mut request).await;
    read.map_err(|error| failed(&error))?;
    let request: Value = serde_json::from_str(&request).map_err(|_| no_client())?;
    let (client, server) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(server);
    // Losing the server is safe: its answer was printed, or nobody waits for it.
    tokio::select! {
        served = serve_client(options, reader, writer) => served,
        printed = print_answer(client, request) => printed.map_err(|error| failed(&error)),
    }
}

/// Returns the error that what came first is not how a client begins.
fn no_client() -> Error {
    Error::failed("what came on standard input is not an MCP client")
}

fn failed(error: &io::Error) -> Error {
    Error::io("could not pass on a call", error)
}

/// Greets the server, passes the call on, and prints what comes up to its answer.
async fn print_answer(mut client: DuplexStream, request: Value) -> io::Result<()> {
    let initialize = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "tmux-task", "version": env!("CARGO_PKG_VERSION")},
    });
    for message in [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": CALL, "method": "tools/call", "params": request}),
    ] {
        client.write_all(format!("{message}\n").as_bytes()).await?;
    }
    let mut lines = BufReader::new(client).lines();
    let mut stdout = tokio::io::stdout();
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line)?;
        if message["id"] == 1 {
            continue;
        }
        stdout.write_all(format!("{line}\n").as_bytes()).await?;
        stdout.flush().await?;
        if message["id"] == CALL {
            break;
        }
    }
    Ok(())
}

/// Serves one client until it closes its side.
async fn serve_client(
    options: ServeOptions,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error> {
    let (close, closed) = watch::channel(false);
    let server = Server {
        client: Client::new(options.choice, closed),
        is_read_only: options.is_read_only,
        host_begins: HostBegins::default(),
    };
    let serving = async {
        let inner = (tokio::io::empty(), output);
        let transport = ClientTransport {
            messages: Messages::new(input),
            inner: IntoTransport::<RoleServer, _, _>::into_transport(inner),
            close,
        };
        match server.serve(transport).await {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| {
                Error::failed(format!("the server ended: {}", with_causes(&error)))
            }),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            // The client has gone.
            Err(ServerInitializeError::TransportError { .. }) => {
                Err(Error::silent(ErrorKind::OutputClosed))
            }
            Err(_) => Err(no_client()),
        }
    };
    LocalSet::new().run_until(serving).await
}

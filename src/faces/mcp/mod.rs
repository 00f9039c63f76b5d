//! The MCP server: tasks as tools for a model, on standard input and output.
//!
//! Results are plain, bounded lines of text. Each call finds the session like a command of its own;
//! between calls the server keeps nothing but the handles of calls that are still waiting.

mod call;
mod other_host;
mod tasks;
mod tools;
mod transport;
mod wait;

use std::pin::pin;

use rmcp::model::{CallToolRequestParams, ServerResult};
use rmcp::service::{ServerInitializeError, ServiceExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::model::{Error, ErrorKind, with_causes};
use other_host::CALL;
pub(crate) use other_host::{SINGLE_CALL, refusal};
pub(crate) use tools::ServeOptions;
use tools::Server;
use transport::ClientTransport;

/// Serves one client on standard input and output until it closes them. Fails when it does not speak MCP.
pub(crate) async fn serve(options: ServeOptions) -> Result<(), Error> {
    let (close, closed) = watch::channel(false);
    let server = Server::new(options, closed);
    let serving = async {
        match server.serve(ClientTransport::new(close)).await {
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

/// Executes one call of a tool, whose parameters come on standard input. Prints its progress and its
/// answer, which has the id [`CALL`], as the server writes them.
pub(crate) async fn serve_call(
    options: ServeOptions,
    print: fn(&Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let request = serde_json::from_reader(std::io::stdin().lock());
    let request: CallToolRequestParams = request.map_err(|_| no_client())?;
    let meta = request.meta.clone().unwrap_or_default();
    // The caller ends this process if it needs no answer.
    let (_close, closed) = watch::channel(false);
    let server = Server::new(options, closed);
    let (reporter, mut reports) = mpsc::unbounded_channel();
    let mut reply = pin!(server.reply(request, &meta, false, &reporter));
    let reply = loop {
        tokio::select! {
            biased;
            Some(report) = reports.recv() => print(&json!({
                "jsonrpc": "2.0", "method": "notifications/progress", "params": report,
            }))?,
            reply = &mut reply => break reply,
        }
    };
    print(&match reply {
        Ok(reply) => {
            json!({"jsonrpc": "2.0", "id": CALL, "result": ServerResult::from(reply)})
        }
        Err(error) => json!({"jsonrpc": "2.0", "id": CALL, "error": error}),
    })
}

fn no_client() -> Error {
    Error::failed("what came on standard input is not an MCP client")
}

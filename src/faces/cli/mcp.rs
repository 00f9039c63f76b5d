//! `mcp`: serves MCP on standard input and output.

use std::io::{self, IsTerminal};

use super::args::Mcp;
use super::context::Context;
use super::failure::Failure;
use super::output;
use crate::faces::mcp::{ServeError, ServeOptions, serve, serve_call};
use crate::model::ErrorKind;

const WHAT: &str = "mcp";

pub(super) async fn run(context: &Context, args: &Mcp) -> Result<(), Failure> {
    // The server limits the time of each call itself.
    context.limit.lift();
    if io::stdin().is_terminal() && !args.call {
        output::note(
            "tmux-task: mcp: waiting for an MCP client on standard input\n\
             hint: clients start this themselves: `claude mcp add tmux-task -- tmux-task mcp`",
        );
    }
    let options = ServeOptions {
        choice: context.choice(),
        is_read_only: args.read_only,
    };
    let served = match args.call {
        true => serve_call(options).await,
        false => serve(options).await,
    };
    served.map_err(|error| match &error {
        // The client has gone.
        ServeError::Write(_) => Failure::silent(ErrorKind::OutputClosed),
        ServeError::NoClient | ServeError::Io(_) | ServeError::Ended(_) => {
            Failure::of(ErrorKind::Failed, WHAT, &error)
        }
    })
}

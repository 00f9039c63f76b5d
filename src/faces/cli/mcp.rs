//! `mcp`: serves MCP on standard input and output.

use std::io::{self, IsTerminal};

use super::args::Mcp;
use super::context::Context;
use super::output;
use crate::faces::mcp::{ServeOptions, serve, serve_call};
use crate::model::Error;

pub(super) async fn run(context: &Context, args: &Mcp) -> Result<(), Error> {
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
    match args.call {
        true => serve_call(options).await,
        false => serve(options).await,
    }
}

//! `attach` and `panel`: show the session, or a task, in this terminal. `mcp`: the same to a model.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;

use clap::Args;

use super::context::Context;
#[cfg(feature = "panel")]
use super::context::ExitWatch;
#[cfg(feature = "mcp")]
use super::output;
#[cfg(feature = "mcp")]
use crate::faces::mcp::{ServeOptions, serve, serve_call};
#[cfg(feature = "panel")]
use crate::faces::panel::{self, Shown};
use crate::model::{Error, ErrorKind};
use crate::ops::{self, Attachment, task_names};

#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The task, by name or window id [default: the session's current window]
    #[arg(add = task_names::candidates())]
    name: Option<String>,
}

#[cfg(feature = "panel")]
#[derive(Debug, Args)]
pub(super) struct Panel {
    /// All your task sessions: those of this tmux server, and those of others that have a daemon
    #[arg(short, long)]
    all: bool,
    /// The task sessions of all machines that share a broker
    #[arg(long, conflicts_with = "all")]
    fleet: bool,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(super) struct Mcp {
    /// Offer only the tools that change nothing
    #[arg(long)]
    read_only: bool,
    /// Execute one call of a tool, which comes on standard input, and print what a client would get
    #[arg(long, hide = true, conflicts_with = "read_only")]
    call: bool,
}

pub(super) async fn run(context: &Context, args: Attach) -> Result<(), Error> {
    let session = context.session().await?;
    let Attachment {
        mut command,
        takes_terminal,
        ..
    } = ops::attachment(&session, args.name.as_deref()).await?;
    if takes_terminal {
        if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
            let failure = Error::failed("this is not a terminal");
            let name = args.name.as_deref().unwrap_or("NAME");
            let hint = format!("`tmux-task logs {name}` prints a task's output");
            return Err(failure.with_hint(hint));
        }
        let error = command.exec();
        return Err(Error::of(&error));
    }
    // tmux says itself why it cannot switch.
    match command.status().map_err(Error::of)?.success() {
        true => Ok(()),
        false => Err(Error::silent(ErrorKind::Failed)),
    }
}

#[cfg(feature = "panel")]
pub(super) async fn panel(context: &Context, args: Panel) -> Result<(), Error> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(
            Error::failed("this is not a terminal").with_hint("`tmux-task ls` prints the tasks")
        );
    }
    let mut signals = ExitWatch::listen()?;
    // The panel says itself what does not answer.
    context.limit.lift();
    let shown = match args {
        Panel { fleet: true, .. } => Shown::Fleet,
        Panel { all: true, .. } => Shown::AllSessions,
        Panel { .. } => Shown::Session,
    };
    match panel::run(&context.global.choice(), shown, signals.recv()).await? {
        None => Ok(()),
        Some(kind) => Err(Error::silent(kind)),
    }
}

#[cfg(feature = "mcp")]
pub(super) async fn mcp(context: &Context, args: Mcp) -> Result<(), Error> {
    // The server limits the time of each call itself.
    context.limit.lift();
    if io::stdin().is_terminal() && !args.call {
        output::note(
            "tmux-task: mcp: waiting for an MCP client on standard input\n\
             hint: clients start this themselves: `claude mcp add tmux-task -- tmux-task mcp`",
        );
    }
    let options = ServeOptions {
        choice: context.global.choice(),
        is_read_only: args.read_only,
    };
    match args.call {
        true => serve_call(options, output::json).await,
        false => serve(options).await,
    }
}

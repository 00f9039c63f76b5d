//! `attach` and `panel`: show the session, or a task, in this terminal. `mcp`: the same to a model.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;

use super::args::Attach;
#[cfg(feature = "mcp")]
use super::args::Mcp;
#[cfg(feature = "panel")]
use super::args::Panel;
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
use crate::ops::{self, Attachment};

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

/// The tasks, full-screen.
#[cfg(feature = "panel")]
pub(super) async fn panel(context: &Context, args: &Panel) -> Result<(), Error> {
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
    match panel::run(&context.choice(), shown, signals.recv()).await? {
        None => Ok(()),
        Some(kind) => Err(Error::silent(kind)),
    }
}

/// Serves MCP on standard input and output.
#[cfg(feature = "mcp")]
pub(super) async fn mcp(context: &Context, args: &Mcp) -> Result<(), Error> {
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
        true => serve_call(options, output::json).await,
        false => serve(options).await,
    }
}

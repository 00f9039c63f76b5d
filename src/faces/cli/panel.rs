//! `panel`: the tasks, full-screen.

use std::io::{self, IsTerminal};

use super::args::Panel;
use super::context::{Context, ExitWatch};
use crate::faces::panel::{self, Shown};
use crate::model::Error;

pub(super) async fn run(context: &Context, args: &Panel) -> Result<(), Error> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(
            Error::failed("this is not a terminal").with_hint("`tmux-task ls` prints the tasks")
        );
    }
    let mut signals = ExitWatch::listen()?;
    // The panel says itself what does not answer.
    context.limit.lift();
    let shown = match args {
        #[cfg(feature = "fleet")]
        Panel { fleet: true, .. } => Shown::Fleet,
        Panel { all: true, .. } => Shown::AllSessions,
        Panel { .. } => Shown::Session,
    };
    match panel::run(&context.choice(), shown, signals.recv()).await? {
        None => Ok(()),
        Some(kind) => Err(Error::silent(kind)),
    }
}

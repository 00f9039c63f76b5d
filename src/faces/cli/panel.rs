//! `panel`: the tasks, full-screen.

use std::io::{self, IsTerminal};

use super::args::Panel;
use super::context::{Context, ExitWatch};
use super::failure::Failure;
use crate::faces::panel::{self, PanelError, Shown};
use crate::model::ErrorKind;

pub(super) async fn run(context: &Context, args: &Panel) -> Result<(), Failure> {
    if !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return Err(
            Failure::new(ErrorKind::Failed, "panel", "this is not a terminal")
                .with_hint("`tmux-task ls` prints the tasks"),
        );
    }
    let mut signals = ExitWatch::listen("panel")?;
    // The panel says itself what does not answer.
    context.limit.lift();
    let shown = match args {
        #[cfg(feature = "fleet")]
        Panel { fleet: true, .. } => Shown::Fleet,
        Panel { all: true, .. } => Shown::AllSessions,
        Panel { .. } => Shown::Session,
    };
    match panel::run(&context.choice(), shown, signals.recv()).await {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(Failure::silent(kind)),
        Err(PanelError::Ops(error)) => Err(Failure::of_ops("panel", error)),
        Err(error @ PanelError::Silent) => {
            let failure = Failure::of(ErrorKind::Failed, "panel", &error);
            Err(failure.with_hint("`tmux-task doctor` says why"))
        }
        Err(error @ PanelError::Terminal(_)) => {
            Err(Failure::of(ErrorKind::Failed, "panel", &error))
        }
    }
}

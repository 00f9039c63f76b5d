//! `attach`: shows the session, or a task, in this terminal.

use std::io::{self, IsTerminal};
use std::os::unix::process::CommandExt;

use super::args::Attach;
use super::context::Context;
use crate::model::{Error, ErrorKind};
use crate::ops::{self, Attachment};

pub(super) async fn run(context: &Context, args: Attach) -> Result<(), Error> {
    let session = context.session().await?;
    let attachment = ops::attachment(&session, args.name.as_deref()).await;
    let Attachment {
        mut command,
        takes_terminal,
        ..
    } = attachment?;
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
    let status = command.status();
    let status = status.map_err(Error::of)?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::silent(ErrorKind::Failed))
    }
}

//! `send`: types into a task.

use std::io::{self, Read};
use std::path::Path;

use super::args::Send;
use super::context::{self, Context, Session};
use super::explain;
use super::failure::{Failure, Kind};
use crate::model::{PaneId, Task};
use crate::process;
use crate::tmux::{self, PromptPlace, Sent, ShownPrompt, Typed};
use crate::wire::Explanation;

pub(super) async fn run(context: &Context, args: Send) -> Result<(), Failure> {
    if args.text.is_empty() && args.key.is_empty() && !args.secret {
        let failure = Failure::new(Kind::Usage, "send", "there is nothing to send");
        return Err(failure.with_hint("give TEXT, --key KEY or --secret"));
    }
    let session = context.session("send").await?;
    let task = session.task("send", &args.name).await?;
    let failed = |why: String| Failure::new(Kind::Failed, "send", why);
    let label = format!("{} ({})", task.window, task.name);
    // Read before anything is decided: it may take its time.
    let secret = args.secret.then(read_secret).transpose()?;
    let pane = match task.pane.filter(|_| task.is_alive()) {
        Some(pane) => pane,
        None => return Err(failed(format!("task {label} has ended"))),
    };
    let changed = || {
        failed(format!(
            "task {label} no longer asks that; nothing was typed"
        ))
    };
    let mut only_if = None;
    if let Some(expected) = &args.if_prompt {
        // The daemon's word on the very instant.
        let explanation = explain::explain(&session, &task, "send").await?;
        match explanation.prompt.as_ref().filter(|_| explanation.asks) {
            Some(asked) if asked.trim() == expected.trim() => {}
            Some(asked) => {
                return Err(failed(format!("task {label} asks something else: {asked}")));
            }
            None => return Err(failed(format!("task {label} is not asking for input"))),
        }
        // It may ask something else by now, or before the answer is typed.
        let shown = see(&session, pane, &explanation).await?;
        only_if = Some(shown.ok_or_else(changed)?);
        if secret.is_some() && is_echoed(&session, &task, pane).await? {
            let why = format!("task {label} shows what is typed; nothing was typed");
            return Err(failed(why).with_hint("without --secret it is typed all the same"));
        }
    }
    let only_if = only_if.as_ref();
    let enter = !args.no_enter;
    let sent = match secret {
        Some(secret) => tmux::type_secret(&session.server, pane, secret, enter, only_if).await,
        None => {
            let (typed, enter) = if args.key.is_empty() {
                (Typed::Text(args.text.join(" ")), enter)
            } else {
                (Typed::Keys(args.key), false)
            };
            tmux::type_into(&mut session.connection(), pane, &typed, enter, only_if).await
        }
    };
    match sent.map_err(|error| context::tmux("send", &error))? {
        Sent::Typed => Ok(()),
        Sent::Changed => Err(changed()),
    }
}

/// Looks whether the pane still shows what was judged.
async fn see(
    session: &Session,
    pane: PaneId,
    explanation: &Explanation,
) -> Result<Option<ShownPrompt>, Failure> {
    let (Some(line), Some(line_y), Some(cursor_x), Some(cursor_y)) = (
        explanation.line.as_deref(),
        explanation.line_y,
        explanation.cursor_x,
        explanation.cursor_y,
    ) else {
        return Ok(None);
    };
    let place = PromptPlace {
        line,
        below_cursor: i64::from(line_y) - i64::from(cursor_y),
        cursor_x,
    };
    ShownPrompt::see(&mut session.connection(), pane, place)
        .await
        .map_err(|error| context::tmux("send", &error))
}

/// Whether the kernel says, at this instant, that what is typed will be shown.
async fn is_echoed(session: &Session, task: &Task, pane: PaneId) -> Result<bool, Failure> {
    let tty = tmux::tty_of(&mut session.connection(), pane)
        .await
        .map_err(|error| context::tmux("send", &error))?;
    let terminal = task
        .pid
        .and_then(|pid| process::terminal(pid, Path::new(&tty)));
    Ok(terminal.and_then(|terminal| terminal.echo) == Some(true))
}

/// Reads standard input to its end, without the line end that closes it.
fn read_secret() -> Result<String, Failure> {
    let mut secret = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut secret)
        .map_err(|error| Failure::of(Kind::Failed, "send", &error))?;
    let bare = secret.strip_suffix('\n').unwrap_or(&secret);
    let bare = bare.strip_suffix('\r').unwrap_or(bare).len();
    secret.truncate(bare);
    Ok(secret)
}

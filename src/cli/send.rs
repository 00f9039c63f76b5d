//! `send`: types into a task.

use std::io::{self, Read};

use super::args::Send;
use super::context::{self, Context};
use super::explain;
use super::failure::{Failure, Kind};
use crate::tmux::{self, Typed};

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
    if let Some(expected) = &args.if_prompt {
        // The daemon's word on the very instant.
        let explanation = explain::explain(&session, &task, "send").await?;
        let asked = explanation.prompt.filter(|_| explanation.asks);
        match asked {
            Some(asked) if asked.trim() == expected.trim() => {}
            Some(asked) => {
                return Err(failed(format!("task {label} asks something else: {asked}")));
            }
            None => return Err(failed(format!("task {label} asks nothing"))),
        }
    }
    let sent = match secret {
        Some(secret) => tmux::type_secret(&session.server, pane, secret, !args.no_enter).await,
        None => {
            let (typed, enter) = if args.key.is_empty() {
                (Typed::Text(args.text.join(" ")), !args.no_enter)
            } else {
                (Typed::Keys(args.key), false)
            };
            tmux::type_into(&mut session.connection(), pane, &typed, enter).await
        }
    };
    sent.map_err(|error| context::tmux("send", &error))
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

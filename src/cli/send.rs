//! `send`: types into a task.

use std::io::{self, Read};

use super::args::Send;
use super::context::{self, Context, Session};
use super::explain;
use super::failure::{Failure, Kind};
use crate::daemon::{TypingError, type_into_task};
use crate::wire::{Request, Response, SecretText, SendRequest, TypedInput};

pub(super) async fn run(context: &Context, args: Send) -> Result<(), Failure> {
    if args.text.is_empty() && args.key.is_empty() && !args.secret {
        let failure = Failure::new(Kind::Usage, "send", "there is nothing to send");
        return Err(failure.with_hint("give TEXT, --key KEY or --secret"));
    }
    let session = context.session("send").await?;
    let enter = !args.no_enter;
    let input = if args.secret {
        // Read before anything is decided: it may take its time.
        TypedInput::Secret(SecretText(read_secret()?))
    } else if args.key.is_empty() {
        TypedInput::Text(args.text.join(" "))
    } else {
        TypedInput::Keys(args.key)
    };
    let request = SendRequest {
        task: args.name,
        input,
        enter,
        if_prompt: args.if_prompt,
    };
    // An answer gets through without a daemon that hangs; what a task asks only a daemon can say.
    if session.is_daemon_silent && request.if_prompt.is_none() {
        return send_directly(&session, request).await;
    }
    let Some(mut daemon) = session.daemon("send").await? else {
        return send_directly(&session, request).await;
    };
    // Asked once only: what may have been typed is not typed again.
    match daemon.ask(&Request::Send(request)).await {
        Ok(Response::Done) => Ok(()),
        Ok(_) => Err(context::unexpected("send")),
        Err(error) => Err(context::client("send", &error)),
    }
}

/// Types without a daemon.
async fn send_directly(session: &Session, request: SendRequest) -> Result<(), Failure> {
    let task = session.task("send", &request.task).await?;
    let explanation = match &request.if_prompt {
        Some(_) => Some(explain::explain_directly(session, &task, "send").await?),
        None => None,
    };
    let mut connection = session.connection();
    let server = &session.server;
    type_into_task(
        &mut connection,
        server,
        &task,
        explanation.as_ref(),
        request,
    )
    .await
    .map_err(|error| failure(&error))
}

fn failure(error: &TypingError) -> Failure {
    if let TypingError::Tmux(error) = error {
        return context::tmux("send", error);
    }
    let hint = error.hint().map(str::to_owned);
    Failure::of(Kind::Failed, "send", error).with_optional_hint(hint)
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

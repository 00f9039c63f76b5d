//! `send`: types into a task.

use std::io::{self, Read};

use super::args::Send;
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use crate::ops;
use crate::wire::{SecretText, SendRequest, TypedInput};

pub(super) async fn run(context: &Context, args: Send) -> Result<(), Failure> {
    if args.text.is_empty() && args.key.is_empty() && !args.secret {
        let failure = Failure::new(Kind::Usage, "send", "there is nothing to send");
        return Err(failure.with_hint("give TEXT, --key KEY or --secret"));
    }
    let mut session = context.given("send")?;
    let enter = !args.no_enter;
    let input = if args.secret {
        // Read first, because it may take time.
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
    ops::send(&mut session, request).await.or_fail("send")
}

/// Reads standard input to its end, without the final line end.
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

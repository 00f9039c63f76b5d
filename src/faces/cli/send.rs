//! `send`: types into a task.

use std::io::{self, Read};

use super::args::Send;
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use super::output;
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
        TypedInput::Secret(SecretText(secret_of(&read_stdin()?)?))
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
        is_guarded: output::is_caller_guarded(),
    };
    ops::send(&mut session, request).await.or_fail("send")
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .read_to_string(&mut text)
        .map_err(Failure::by("send"))?;
    Ok(text)
}

/// Returns what was read, without the final line end. A line end alone is an intended empty line;
/// nothing at all is usually a command that failed in front of the pipe.
fn secret_of(text: &str) -> Result<String, Failure> {
    if text.is_empty() {
        let failure = Failure::new(Kind::Usage, "send", "there is no secret on standard input");
        return Err(failure.with_hint("a line end alone sends an empty line"));
    }
    let bare = text.strip_suffix('\n').unwrap_or(text);
    Ok(bare.strip_suffix('\r').unwrap_or(bare).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_a_line_and_nothing_is_not_an_empty_one() {
        for (text, expected) in [
            ("", None),
            ("\n", Some("")),
            ("\r\n", Some("")),
            ("hunter2", Some("hunter2")),
            ("hunter2\n", Some("hunter2")),
            ("two\nlines\n\n", Some("two\nlines\n")),
        ] {
            assert_eq!(secret_of(text).ok().as_deref(), expected, "{text:?}");
        }
        assert_eq!(secret_of("").unwrap_err().kind, Kind::Usage);
    }
}

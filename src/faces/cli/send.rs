//! `send`: types into a task.

use std::io::{self, BufRead, Read, StdinLock};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

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

/// The key that interrupts, as a character.
const INTERRUPT: u8 = 3;

fn read_stdin() -> Result<String, Failure> {
    let mut stdin = io::stdin().lock();
    if let Ok(settings) = tcgetattr(&stdin) {
        return read_line_unseen(&mut stdin, &settings);
    }
    let mut text = String::new();
    stdin
        .read_to_string(&mut text)
        .map_err(Failure::by("send"))?;
    Ok(text)
}

/// Reads a line from the terminal, which does not show it. The interrupt key ends the line instead of
/// the process, so that the terminal gets its settings back.
fn read_line_unseen(stdin: &mut StdinLock<'_>, settings: &Termios) -> Result<String, Failure> {
    let mut unseen = settings.clone();
    unseen.local_modes -= LocalModes::ECHO | LocalModes::ISIG;
    unseen.local_modes |= LocalModes::ECHONL;
    unseen.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
    // What was typed before has been displayed.
    tcsetattr(&*stdin, OptionalActions::Flush, &unseen).map_err(Failure::by("send"))?;
    output::note("type the secret and Enter; it is not displayed");
    // The terminal gives one line at a time.
    let line = stdin.fill_buf().map(<[u8]>::to_vec);
    tcsetattr(&*stdin, OptionalActions::Now, settings).map_err(Failure::by("send"))?;
    let line = line.map_err(Failure::by("send"))?;
    if line.ends_with(&[INTERRUPT]) {
        return Err(Failure::silent(Kind::Interrupted));
    }
    String::from_utf8(line).map_err(Failure::by("send"))
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

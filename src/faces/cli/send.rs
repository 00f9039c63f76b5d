//! `send`: types into a task.

use std::io::{self, IsTerminal, Read, Write};

use clap::Args;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use super::context::{Context, ExitWatch};
use super::output;
use crate::model::Error;
use crate::ops::task_names;
use crate::rules::wire::{SecretText, SendRequest, TypedInput};
use crate::tmux::is_key;

#[derive(Debug, Args)]
pub(super) struct Send {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    name: String,
    /// The text to type, words joined by spaces; Enter follows
    #[arg(conflicts_with_all = ["key", "secret"], value_name = "TEXT")]
    text: Vec<String>,
    /// A key by tmux's name, Enter, C-c or Up; may be given more than once
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with = "secret", value_parser = parse_key)]
    key: Vec<String>,
    /// Read the text from standard input; it is never displayed or logged
    #[arg(long)]
    pub(super) secret: bool,
    /// No Enter after the text
    #[arg(long)]
    no_enter: bool,
    /// Only if the task waits for exactly this, and was not answered already
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(super) if_prompt: Option<String>,
}

fn parse_key(text: &str) -> Result<String, String> {
    if is_key(text) {
        Ok(text.to_owned())
    } else {
        Err("tmux has no such key; keys are called Enter, Escape, Up, C-c, M-x, F1".to_owned())
    }
}

pub(super) async fn run(context: &Context, args: Send) -> Result<(), Error> {
    if args.text.is_empty() && args.key.is_empty() && !args.secret {
        let failure = Error::usage("there is nothing to send");
        return Err(failure.with_hint("give TEXT, --key KEY or --secret"));
    }
    let mut session = context.given()?;
    let input = if args.secret {
        // Read first, because it may take time.
        TypedInput::Secret(SecretText(secret_of(&read_secret().await?)?))
    } else if args.key.is_empty() {
        TypedInput::Text(args.text.join(" "))
    } else {
        TypedInput::Keys(args.key)
    };
    let request = SendRequest {
        task: args.name,
        input,
        enter: !args.no_enter,
        if_prompt: args.if_prompt,
        is_guarded: output::viewer().is_guarded,
    };
    session.send(request).await
}

/// Reads standard input; of a terminal, one line, which is not shown.
async fn read_secret() -> Result<String, Error> {
    let mut text = String::new();
    if !io::stdin().is_terminal() {
        let read = io::stdin().lock().read_to_string(&mut text);
        return read.map(|_| text).map_err(Error::of);
    }
    let mut signals = ExitWatch::listen()?;
    let _hidden = Hidden::begin().map_err(Error::of)?;
    let reading = tokio::task::spawn_blocking(move || {
        let read = io::stdin().read_line(&mut text);
        read.map(|_| text)
    });
    tokio::select! {
        read = reading => read.map_err(Error::of)?.map_err(Error::of),
        kind = signals.recv() => Err(Error::silent(kind)),
    }
}

/// A terminal that does not show what is typed. Dropping it ends that.
struct Hidden(Termios);

impl Hidden {
    fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut hidden = before.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        let hidden = Self(before);
        write!(io::stderr(), "secret: ")?;
        Ok(hidden)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // Its end was not shown either. A terminal that is gone needs neither.
        writeln!(io::stderr()).ok();
        tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
    }
}

/// Returns what was read, without the final line end. Nothing at all is usually a command that failed.
fn secret_of(text: &str) -> Result<String, Error> {
    if text.is_empty() {
        let failure = Error::usage("there is no secret on standard input");
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
        let error = secret_of("").unwrap_err();
        assert_eq!(error.kind, crate::model::ErrorKind::Usage);
    }
}

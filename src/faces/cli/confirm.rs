//! Asks before something is done that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::model::{Error, text};

/// The longest question, in characters.
const QUESTION_CHARS: usize = 300;

/// Asks a question on the terminal. `effect` says in an error what would be done, `otherwise` what
/// was not done.
pub(super) fn ask(effect: &str, question: &str, otherwise: &str) -> Result<(), Error> {
    if !io::stdin().is_terminal() {
        let why = format!("{effect}, and there is no terminal to ask on");
        return Err(Error::usage(why).with_hint("say --yes when you mean it"));
    }
    // It may contain a session's name.
    let question = text::one_line(question.as_bytes(), QUESTION_CHARS);
    let mut stderr = io::stderr();
    let mut answer = String::new();
    let asked = write!(stderr, "{question} [y/N] ")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(Error::of)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    let why = format!("not confirmed, {otherwise}");
    Err(Error::failed(why))
}

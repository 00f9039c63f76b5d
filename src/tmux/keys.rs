//! Typing into a pane.

use super::client::{Connection, all_ok};
use super::error::TmuxError;
use super::nonce::nonce;
use super::server::Server;
use super::shown::{ShownPrompt, is_changed, leave_modes, note_answered};
use crate::model::{PaneId, SecretText, TypedInput};
use crate::protocol::Command;

/// The result of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypingResult {
    /// It was typed.
    Typed,
    /// The pane does not show the expected prompt any more: nothing was typed.
    Changed,
    /// Input to the pane is switched off in tmux: nothing was typed.
    InputOff,
}

/// No option of tmux has this name, so a command that shows it fails, and with it the line.
const INPUT_OFF: &str = "input-off";

/// How the typing line depends on the pane and changes it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TypingTerms<'a> {
    /// Types only while the pane shows this prompt and nothing else was typed.
    pub only_if: Option<&'a ShownPrompt>,
    /// What is asked, stored on the pane if this answers it: digits, letters, dots and dashes.
    pub answers: Option<&'a str>,
}

/// Types into the pane. The modes of tmux that take the keys, such as copy mode, are left first. A
/// secret text is on no command line and in none of tmux's logs, and if this fails, it is not left
/// in tmux.
///
/// # Errors
///
/// When tmux refuses: the pane is gone or dead.
pub(crate) async fn type_into(
    connection: &mut Connection<'_>,
    server: &Server,
    pane: PaneId,
    input: &TypedInput,
    then_enter: bool,
    terms: TypingTerms<'_>,
) -> Result<TypingResult, TmuxError> {
    let buffer = format!("tmux-task-{}", nonce());
    let forget = Command::new("delete-buffer").args(["-b", &buffer]);
    let mut commands = vec![stop_if_off(pane)];
    let (mut typing, mut instead, mut secret) = (Vec::new(), Vec::new(), None);
    match input {
        TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) if text.is_empty() => {}
        TypedInput::Text(text) => typing.push(send(pane).args(["-l", "--"]).arg(text.as_str())),
        TypedInput::Keys(keys) => typing.push(send(pane).arg("--").args(keys.iter().cloned())),
        TypedInput::Secret(SecretText(text)) => {
            commands.push(Command::new("load-buffer").args(["-b", &buffer, "-"]));
            let paste = ["-d", "-b", &buffer, "-t", &pane.to_string()];
            typing.push(Command::new("paste-buffer").args(paste));
            instead.push(forget.clone());
            secret = Some(text.clone());
        }
    }
    if then_enter && !matches!(input, TypedInput::Keys(_)) {
        typing.push(send(pane).arg("Enter"));
    }
    typing.extend(terms.answers.map(|asked| note_answered(pane, asked)));
    commands.extend(match terms.only_if {
        Some(shown) => shown.guard(&typing, &instead),
        None => [&[leave_modes(pane)], &typing[..]].concat(),
    });
    let is_secret = secret.is_some();
    let frames = match secret {
        // A control client cannot pass a text outside of its command line.
        Some(text) => server.one_shot_with(&commands, text).await?,
        None => connection.frames(&commands).await?,
    };
    let stopped = frames.first().filter(|frame| !frame.ok);
    if stopped.is_some_and(|frame| frame.text().contains(INPUT_OFF)) {
        return Ok(TypingResult::InputOff);
    }
    let typed = all_ok(&commands, frames);
    if is_secret && typed.is_err() {
        // Usually the buffer does not exist and there is nothing to delete.
        drop(server.one_shot(&[forget]).await?);
    }
    if typed?.iter().any(|frame| is_changed(&frame.text())) {
        return Ok(TypingResult::Changed);
    }
    Ok(TypingResult::Typed)
}

/// Fails if input to the pane is switched off, and the rest of the line does not run then: tmux
/// itself accepts keys for such a pane, and drops them. Inside `if-shell` the text would stay in
/// tmux's memory.
fn stop_if_off(pane: PaneId) -> Command {
    Command::new("show-options")
        .args(["-gv", "-t", &pane.to_string()])
        .arg(format!("#{{?pane_input_off,{INPUT_OFF},status}}"))
}

fn send(pane: PaneId) -> Command {
    Command::new("send-keys").args(["-t", &pane.to_string()])
}

/// Whether this is a key in tmux's notation: a character or a name, with optional modifiers. tmux
/// itself would type unknown names character by character.
#[must_use]
pub(crate) fn is_key(key: &str) -> bool {
    const NAMES: &[&str] = &[
        "enter", "escape", "space", "tab", "btab", "bspace", "up", "down", "left", "right", "home",
        "end", "pageup", "ppage", "pgup", "pagedown", "npage", "pgdn", "dc", "delete", "ic",
        "insert", "kp/", "kp*", "kp-", "kp+", "kp.", "kpenter", "kp0", "kp1", "kp2", "kp3", "kp4",
        "kp5", "kp6", "kp7", "kp8", "kp9", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9",
        "f10", "f11", "f12",
    ];
    let mut rest = key;
    while rest.chars().count() > 1 {
        let bare = ["C-", "c-", "M-", "m-", "S-", "s-", "^"]
            .iter()
            .find_map(|modifier| rest.strip_prefix(modifier));
        match bare {
            Some(bare) if !bare.is_empty() => rest = bare,
            Some(_) | None => break,
        }
    }
    rest.chars().count() == 1 || NAMES.contains(&rest.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_tmuxs_names() {
        for key in [
            "a", "Enter", "C-c", "M-x", "^C", "C-M-a", "PageUp", "F12", "Up", "-", "é",
        ] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "Entr", "Ctrl-C", "C-", "yes", "F13"] {
            assert!(!is_key(key), "{key}");
        }
    }
}

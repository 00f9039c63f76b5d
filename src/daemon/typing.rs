//! Typing into tasks.

use std::path::Path;

use super::session_link::SessionLink;
use crate::model::{PaneId, Task};
use crate::process;
use crate::tmux::{
    self, Connection, KeyInput, PromptPlace, Server, ShownPrompt, TmuxError, TypingResult,
};
use crate::wire::{Explanation, Refusal, RefusalKind, Response, SendRequest, TypedInput};

/// Why nothing was typed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TypingError {
    /// The task's run is over.
    #[error("task {0} has ended")]
    Ended(String),
    /// The task shows no prompt.
    #[error("task {0} is not asking for input")]
    AsksNothing(String),
    /// The task shows another prompt than the one to be answered.
    #[error("task {task} asks something else: {prompt}")]
    AsksElse {
        /// The task.
        task: String,
        /// Its prompt.
        prompt: String,
    },
    /// The prompt disappeared before the answer was typed.
    #[error("task {0} no longer asks that; nothing was typed")]
    Changed(String),
    /// A secret would be visible.
    #[error("task {0} shows what is typed; nothing was typed")]
    Echoed(String),
    /// It is not a key known to tmux.
    #[error("`{0}` is not a key that tmux knows")]
    NoKey(String),
    /// tmux.
    #[error(transparent)]
    Tmux(#[from] TmuxError),
}

impl TypingError {
    /// Returns what the user can do about it.
    #[must_use]
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Echoed(_) => Some("without --secret it is typed all the same"),
            Self::Ended(_)
            | Self::AsksNothing(_)
            | Self::AsksElse { .. }
            | Self::Changed(_)
            | Self::NoKey(_)
            | Self::Tmux(_) => None,
        }
    }
}

/// Answers a request to type.
pub(super) async fn answer(
    link: &mut SessionLink,
    task: &Task,
    explanation: Option<&Explanation>,
    request: SendRequest,
) -> Response {
    let server = link.server().clone();
    let mut connection = link.connection();
    match type_into_task(&mut connection, &server, task, explanation, request).await {
        Ok(()) => Response::Done,
        Err(error) => {
            let refusal = Refusal::new(RefusalKind::Failed, error.to_string());
            Response::Refused(match error.hint() {
                Some(hint) => refusal.with_hint(hint),
                None => refusal,
            })
        }
    }
}

/// Types into a task. If the request names the prompt that it answers, `explanation` contains the
/// task's prompt, and the text is typed by the same line that checks that the prompt is still
/// there.
///
/// # Errors
///
/// When nothing was typed.
pub(crate) async fn type_into_task(
    connection: &mut Connection<'_>,
    server: &Server,
    task: &Task,
    explanation: Option<&Explanation>,
    request: SendRequest,
) -> Result<(), TypingError> {
    let label = || format!("{} ({})", task.window, task.name);
    let pane = task.pane.filter(|_| task.is_alive());
    let pane = pane.ok_or_else(|| TypingError::Ended(label()))?;
    let mut only_if = None;
    if let Some(expected) = &request.if_prompt {
        let asked =
            explanation.and_then(|explanation| asked_of(explanation).zip(Some(explanation)));
        let explanation = match asked {
            None => return Err(TypingError::AsksNothing(label())),
            Some((asked, explanation)) if asked.trim() == expected.trim() => explanation,
            Some((asked, _)) => {
                return Err(TypingError::AsksElse {
                    task: label(),
                    prompt: asked.to_owned(),
                });
            }
        };
        // The prompt may have changed, or may change before the answer is typed.
        let shown = see(connection, pane, explanation).await?;
        only_if = Some(shown.ok_or_else(|| TypingError::Changed(label()))?);
        let is_secret = matches!(request.input, TypedInput::Secret(_));
        if is_secret && is_echoed(connection, task, pane).await? {
            return Err(TypingError::Echoed(label()));
        }
    }
    let only_if = only_if.as_ref();
    let sent = match request.input {
        // A control client cannot pass a text outside of its command line.
        TypedInput::Secret(secret) => {
            tmux::type_secret(server, pane, secret.0, request.enter, only_if).await?
        }
        TypedInput::Text(text) => {
            tmux::type_into(
                connection,
                pane,
                &KeyInput::Text(text),
                request.enter,
                only_if,
            )
            .await?
        }
        TypedInput::Keys(keys) => {
            if let Some(unknown) = keys.iter().find(|key| !tmux::is_key(key)) {
                return Err(TypingError::NoKey(unknown.clone()));
            }
            tmux::type_into(connection, pane, &KeyInput::Keys(keys), false, only_if).await?
        }
    };
    match sent {
        TypingResult::Typed => Ok(()),
        TypingResult::Changed => Err(TypingError::Changed(label())),
    }
}

fn asked_of(explanation: &Explanation) -> Option<&str> {
    explanation.prompt.as_deref().filter(|_| explanation.asks)
}

/// Checks whether the pane still shows what was judged.
async fn see(
    connection: &mut Connection<'_>,
    pane: PaneId,
    explanation: &Explanation,
) -> Result<Option<ShownPrompt>, TmuxError> {
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
    ShownPrompt::see(connection, pane, place).await
}

/// Whether the kernel reports at this instant that typed text is echoed.
async fn is_echoed(
    connection: &mut Connection<'_>,
    task: &Task,
    pane: PaneId,
) -> Result<bool, TmuxError> {
    let tty = tmux::tty_of(connection, pane).await?;
    let terminal = task
        .pid
        .and_then(|pid| process::terminal(pid, Path::new(&tty)));
    Ok(terminal.and_then(|terminal| terminal.echo) == Some(true))
}

//! Typing into tasks.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::answered::{
    self, AnsweredQuestion, AskedQuestion, Examinations, Moment, PAUSE, Readiness,
};
use super::session_link::SessionLink;
use crate::clock;
use crate::model::{AnswerBy, PaneId, Stop, Task, TtyEvidence, is_same_except_signs};
use crate::process;
use crate::session::{JobOutcome, Typing};
use crate::tmux::{
    self, AskingRow, Connection, PaneView, PromptPlace, Server, TmuxError, TypingResult,
    TypingTerms,
};
use crate::wire::{
    Explanation, Refusal, RefusalKind, Response, SecretText, SendRequest, TypedInput,
};

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
    #[error("task {task} asks something else{}", colon(prompt))]
    AsksElse { task: String, prompt: String },
    /// The input does not name the prompt that it answers.
    #[error("{task} asks{}", question(prompt))]
    AsksMeanwhile { task: String, prompt: String },
    /// The text would be a secret.
    #[error("{task} asks for a secret{}; nothing was typed", colon(prompt))]
    AsksForSecret {
        task: String,
        /// Its prompt; empty if it shows none.
        prompt: String,
    },
    /// The prompt disappeared before the answer was typed.
    #[error("task {task} no longer asks that{}; nothing was typed", now_at(line))]
    Changed {
        task: String,
        /// The line that is there now; empty if there is none.
        line: String,
    },
    /// The question has an answer already, as far as can be known.
    #[error("task {0} was answered already and has not asked again; nothing was typed")]
    Answered(String),
    /// Its program is stopped in the background, where it reads nothing that is typed.
    #[error("task {0} is stopped in the background; nothing was typed")]
    StoppedInBackground(String),
    /// A signal has stopped its program.
    #[error("task {0} is stopped by a signal and does not read what is typed; nothing was typed")]
    Stopped(String),
    /// tmux drops what is typed.
    #[error("input to the pane of task {task} is switched off in tmux; nothing was typed")]
    InputOff { task: String, pane: PaneId },
    /// The terminal would drop a part of it.
    #[error(
        "the terminal of task {0} takes lines of at most {1} bytes, not {2}; nothing was typed"
    )]
    LineTooLong(String, usize, usize),
    /// A secret would be visible.
    #[error("task {0} shows what is typed; nothing was typed")]
    Echoed(String),
    /// It is not a key known to tmux.
    #[error("`{0}` is not a key that tmux knows")]
    NoKey(String),
    #[error(transparent)]
    Tmux(#[from] TmuxError),
}

impl TypingError {
    /// Returns what the user can do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Answered(_) => Some(
                "`tmux-task wait NAME --input` waits for its next question; without --if-prompt it \
                 is typed all the same"
                    .to_owned(),
            ),
            Self::StoppedInBackground(_) => Some(Stop::ADVICE.to_owned()),
            Self::Stopped(_) => Some(
                "`kill -CONT` with the pid of its program continues it; without --if-prompt it is \
                 typed all the same"
                    .to_owned(),
            ),
            Self::Echoed(_) => Some("without --secret it is typed all the same".to_owned()),
            Self::AsksMeanwhile { prompt, .. } if prompt.is_empty() => {
                Some("nothing was typed; to answer, give the empty text as the prompt".to_owned())
            }
            Self::AsksMeanwhile { .. } => {
                Some("nothing was typed; to answer, name this as the prompt".to_owned())
            }
            Self::AsksForSecret { task, .. } => Some(format!(
                "ask the user to type it: `tmux-task send {task} --secret`, or in tmux"
            )),
            Self::InputOff { pane, .. } => Some(format!(
                "`tmux select-pane -e -t {pane}` switches it on again"
            )),
            Self::Ended(_)
            | Self::LineTooLong(..)
            | Self::AsksNothing(_)
            | Self::AsksElse { .. }
            | Self::Changed { .. }
            | Self::NoKey(_)
            | Self::Tmux(_) => None,
        }
    }
}

fn question(prompt: &str) -> String {
    match prompt {
        "" => " for input and shows no question".to_owned(),
        prompt => colon(prompt),
    }
}

fn colon(prompt: &str) -> String {
    match prompt {
        "" => String::new(),
        prompt => format!(": {prompt}"),
    }
}

fn now_at(line: &str) -> String {
    match line {
        "" => String::new(),
        line => format!(", its line is now: {line}"),
    }
}

/// Types what can be typed now of a request, and answers it when nothing is left.
pub(super) async fn type_next(link: &mut SessionLink, mut typing: Typing) -> JobOutcome {
    let server = link.server.clone();
    let mut connection = link.connection();
    let response = match type_into_task(&mut connection, &server, &mut typing).await {
        Ok(()) if typing.progress.due.is_some() => return JobOutcome::Typing(typing),
        Ok(()) => Response::Done,
        Err(error) => {
            let refusal = Refusal::new(RefusalKind::Failed, error.to_string());
            Response::Refused(match error.hint() {
                Some(hint) => refusal.with_hint(hint),
                None => refusal,
            })
        }
    };
    JobOutcome::Answered(Box::new(response), None)
}

/// Types what can be typed now into a task. If something is left, `typing` says when to go on.
///
/// If the request names the prompt that it answers, the kernel is asked whether the prompt still
/// waits for an answer, and it is typed by the same line that checks that the prompt is still there.
///
/// # Errors
///
/// When something was not typed.
pub(crate) async fn type_into_task(
    connection: &mut Connection<'_>,
    server: &Server,
    typing: &mut Typing,
) -> Result<(), TypingError> {
    typing.progress.due = None;
    let task = Arc::clone(&typing.task);
    let explanation = typing.explanation.as_deref();
    let request = &typing.request;
    let label = || format!("{} ({})", task.window, task.name);
    let pane = task.pane.filter(|_| task.is_alive());
    let pane = pane.ok_or_else(|| TypingError::Ended(label()))?;
    if request.is_guarded && !typing.progress.has_begun {
        guard(request, explanation, &task)?;
    }
    if let TypedInput::Keys(keys) = &request.input
        && let Some(unknown) = keys.iter().find(|key| !tmux::is_key(key))
    {
        return Err(TypingError::NoKey(unknown.clone()));
    }
    let judged = match &request.if_prompt {
        Some(expected) => Some(check_prompt(expected, explanation, &label())?),
        None => None,
    };
    let mut examinations = Examinations::new(Instant::now());
    loop {
        let view = PaneView::read(connection, pane).await?;
        if view.tty.is_empty() || (typing.progress.has_begun && !view.is_of(task.pid)) {
            // A program that has read the answer and ended has no use for the Enter after it.
            let is_enter = matches!(&request.input, TypedInput::Keys(keys) if *keys == ["Enter"]);
            if typing.progress.has_begun && is_enter {
                return Ok(());
            }
            return Err(TypingError::Ended(label()));
        }
        let tty = Path::new(&view.tty);
        let examined = process::examine(task.pid.unwrap_or_default(), tty);
        let terminal = examined.evidence.as_deref();
        let ttys = [tty, &*examined.tty];
        let is_unread = ttys.map(process::has_unread_input).contains(&Some(true));
        let answered = answered::parse(view.answered());
        let asked = AskedQuestion {
            pid: task.pid.unwrap_or_default(),
            read: terminal.and_then(|terminal| terminal.read),
            screen: view.digest(),
        };
        // The prompt may have changed, or may change before the answer is typed.
        let shown = judged.and_then(|explanation| view.find(place_of(explanation, &task)?));
        if judged.is_some() && shown.is_none() {
            return Err(changed(label(), &view));
        }
        match terminal.and_then(|terminal| terminal.stopped) {
            // A key may end it.
            Some(stop)
                if stop.is_in_background() && (judged.is_some() || has_text(&request.input)) =>
            {
                return Err(TypingError::StoppedInBackground(label()));
            }
            Some(Stop::BySignal) if judged.is_some() => return Err(TypingError::Stopped(label())),
            Some(_) | None => {}
        }
        check_text(request, terminal, &task)?;
        let takes_keys = terminal.and_then(|terminal| terminal.canonical) == Some(false);
        let now = clock::now();
        let typed_ago = answered.map(|answered| now.wall.abs_diff(answered.at));
        if takes_keys && typing.progress.must_wait(is_unread, typed_ago, now.mono) {
            return Ok(());
        }
        if let Some(explanation) = judged {
            let moment = Moment {
                asked,
                terminal,
                has_unread_input: is_unread,
                answered,
            };
            match examinations.judge(explanation, &moment, Instant::now()) {
                Readiness::Ready => {}
                Readiness::Doubtful => {
                    // The kernel reports neither a new read call nor that input was read.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Readiness::AsksNothing => return Err(TypingError::AsksNothing(label())),
                Readiness::Answered => return Err(TypingError::Answered(label())),
            }
        }
        let (part, rest) = typing.next_part(!takes_keys || is_unread);
        let answers = ends_question(&part, terminal).then(|| {
            let at = clock::now().wall;
            AnsweredQuestion { asked, at }.to_string()
        });
        let terms = TypingTerms {
            only_if: shown.as_ref(),
            answers: answers.as_deref(),
        };
        match tmux::type_into(connection, server, pane, &part.input, part.enter, terms).await? {
            TypingResult::Typed => {
                typing.typed(rest, Instant::now());
                return Ok(());
            }
            TypingResult::Changed if examinations.are_over(Instant::now()) => {
                return Err(changed(label(), &view));
            }
            // The next view shows what is there instead. The pause bounds how often a screen is looked at
            // that changes all the time.
            TypingResult::Changed => tokio::time::sleep(PAUSE).await,
            TypingResult::InputOff => {
                let task = label();
                return Err(TypingError::InputOff { task, pane });
            }
        }
    }
}

fn changed(task: String, view: &PaneView) -> TypingError {
    let line = view.present_line();
    TypingError::Changed { task, line }
}

/// Refuses a secret that would be visible, a guarded text that would not be, and a line of which the
/// terminal would drop a part.
fn check_text(
    request: &SendRequest,
    terminal: Option<&TtyEvidence>,
    task: &Task,
) -> Result<(), TypingError> {
    let echo = terminal.and_then(|terminal| terminal.echo);
    let is_line = terminal.and_then(|terminal| terminal.canonical) == Some(true);
    if request.is_guarded && has_text(&request.input) && echo == Some(false) && is_line {
        return Err(secret(task, ""));
    }
    let is_secret = matches!(request.input, TypedInput::Secret(_));
    if request.if_prompt.is_some() && is_secret && echo == Some(true) {
        let label = format!("{} ({})", task.window, task.name);
        return Err(TypingError::Echoed(label));
    }
    if let TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) = &request.input {
        let longest = text.split(['\n', '\r']).map(str::len).max().unwrap_or(0);
        if is_line && longest > process::MAX_LINE {
            let task = task.name.clone();
            return Err(TypingError::LineTooLong(task, process::MAX_LINE, longest));
        }
    }
    Ok(())
}

/// Whether a program that asks has an answer with this input. In line mode, a text without a line end
/// is only the beginning of one.
fn ends_question(request: &SendRequest, terminal: Option<&TtyEvidence>) -> bool {
    let is_line = terminal.and_then(|terminal| terminal.canonical) == Some(true);
    match &request.input {
        TypedInput::Keys(_) => true,
        TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) => {
            request.enter || !is_line || text.contains(['\n', '\r'])
        }
    }
}

/// Returns what was judged of the prompt that is to be answered, if the task shows that prompt.
fn check_prompt<'a>(
    expected: &str,
    explanation: Option<&'a Explanation>,
    label: &str,
) -> Result<&'a Explanation, TypingError> {
    let Some((explanation, prompt)) =
        explanation.and_then(|explanation| Some((explanation, prompt_of(explanation)?)))
    else {
        return Err(TypingError::AsksNothing(label.to_owned()));
    };
    if prompt.trim() == expected.trim() || is_same_except_signs(prompt, expected) {
        Ok(explanation)
    } else {
        Err(TypingError::AsksElse {
            task: label.to_owned(),
            prompt: prompt.to_owned(),
        })
    }
}

/// Refuses a text that would be a secret, as far as the task's prompt shows that, and an answer that
/// does not name its prompt.
fn guard(
    request: &SendRequest,
    explanation: Option<&Explanation>,
    task: &Task,
) -> Result<(), TypingError> {
    let Some(explanation) = explanation else {
        return Ok(());
    };
    let prompt = prompt_of(explanation);
    let kind = explanation.prompt_kind;
    let is_secret = AnswerBy::of(kind, explanation.secret == Some(true)) == AnswerBy::Secret;
    let is_hidden = explanation
        .terminal
        .as_ref()
        .is_some_and(|terminal| terminal.echo == Some(false) && terminal.canonical == Some(true));
    if has_text(&request.input) && (prompt.is_some() && is_secret || is_hidden) {
        return Err(secret(task, prompt.unwrap_or_default()));
    }
    match (prompt, &request.if_prompt) {
        (Some(prompt), None) => Err(TypingError::AsksMeanwhile {
            task: task.name.clone(),
            prompt: prompt.to_owned(),
        }),
        (Some(_) | None, _) => Ok(()),
    }
}

fn secret(task: &Task, prompt: &str) -> TypingError {
    TypingError::AsksForSecret {
        task: task.name.clone(),
        prompt: prompt.to_owned(),
    }
}

/// Whether it has characters that a secret could consist of: a key such as C-c or Escape has none.
fn has_text(input: &TypedInput) -> bool {
    match input {
        TypedInput::Text(_) | TypedInput::Secret(_) => true,
        TypedInput::Keys(keys) => keys.iter().any(|key| key.chars().count() == 1),
    }
}

/// Returns the prompt that the task waits at.
fn prompt_of(explanation: &Explanation) -> Option<&str> {
    explanation.prompt.as_deref().filter(|_| explanation.asks)
}

/// Returns where the prompt was when it was judged.
fn place_of<'a>(explanation: &'a Explanation, task: &Task) -> Option<PromptPlace<'a>> {
    let cursor = task.screen.cursor?;
    let asking = explanation.line.as_deref().zip(explanation.line_y);
    Some(PromptPlace {
        asking: asking.map(|(line, line_y)| AskingRow {
            line,
            below_cursor: i64::from(line_y) - i64::from(cursor.y),
        }),
        cursor_x: cursor.x,
        cursor_y: cursor.y.saturating_sub(task.screen.top.unwrap_or(0)),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::test_notation::snapshot;

    #[test]
    fn an_empty_prompt_is_said_and_named() {
        let meanwhile = TypingError::AsksMeanwhile {
            task: "a".to_owned(),
            prompt: String::new(),
        };
        assert_eq!(
            meanwhile.to_string(),
            "a asks for input and shows no question"
        );
        let hint = meanwhile.hint().unwrap();
        assert!(hint.contains("the empty text as the prompt"), "{hint}");
    }

    fn explanation(asks: bool, secret: bool, hidden: bool) -> Explanation {
        let value = json!({
            "windowId": "@1", "windowName": "a", "state": "waiting", "waitingSince": null,
            "asks": asks, "prompt": asks.then_some("Proceed?"), "promptKind": null,
            "secret": secret, "rule": "", "line": null, "quietMs": null, "cursorX": null,
            "cursorY": null, "alternateOn": null,
            "terminal": {
                "reader": "reading", "echo": !hidden, "canonical": true,
                "foreground": "command", "programs": [], "mayRelay": false,
            },
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn guarded_input_names_its_prompt_and_is_no_secret() {
        let look = snapshot("life 1; @1#1 a running pid=7");
        let task = look.tasks.values().next().unwrap();
        let check = |explanation: &Explanation,
                     input: &TypedInput,
                     prompt: Option<&str>,
                     expected: Option<&str>| {
            let request = SendRequest {
                task: "a".to_owned(),
                input: input.clone(),
                enter: true,
                if_prompt: prompt.map(str::to_owned),
                is_guarded: true,
            };
            let refused = guard(&request, Some(explanation), task).err();
            assert_eq!(refused.map(|error| error.to_string()).as_deref(), expected);
        };
        let text = TypedInput::Text("y".to_owned());
        let interrupt = TypedInput::Keys(vec!["C-c".to_owned()]);
        let spelt = TypedInput::Keys(vec!["h".to_owned(), "Enter".to_owned()]);
        let asks = explanation(true, false, false);
        check(&asks, &text, None, Some("a asks: Proceed?"));
        check(&asks, &text, Some("Proceed?"), None);
        check(&explanation(false, false, false), &text, None, None);
        let shown = Some("a asks for a secret: Proceed?; nothing was typed");
        let hidden = Some("a asks for a secret; nothing was typed");
        for (explanation, refused) in [
            (explanation(true, true, true), shown),
            (explanation(true, true, false), shown),
            (explanation(false, false, true), hidden),
        ] {
            check(&explanation, &text, Some("Proceed?"), refused);
            check(&explanation, &spelt, Some("Proceed?"), refused);
            check(&explanation, &interrupt, Some("Proceed?"), None);
        }
    }
}

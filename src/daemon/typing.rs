//! Typing into tasks.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use super::answered::{
    self, AnsweredQuestion, AskedQuestion, Examinations, Moment, PAUSE, Readiness,
};
use super::session_link::SessionLink;
use crate::clock;
use crate::model::{AnswerBy, Error, Stop, Task, TtyEvidence, is_same_except_signs};
use crate::process;
use crate::session::Typing;
use crate::tmux::{self, AskingRow, PaneView, PromptPlace, TypingResult, TypingTerms};
use crate::wire::{Explanation, SecretText, SendRequest, TypedInput};

/// Types what can be typed now into a task. If something is left, `typing` says when to go on.
///
/// If the request names the prompt that it answers, the kernel is asked whether the prompt still
/// waits for an answer, and it is typed by the same line that checks that the prompt is still there.
///
/// # Errors
///
/// When something was not typed.
pub(super) async fn type_into_task(
    link: &mut SessionLink,
    typing: &mut Typing,
) -> Result<(), Error> {
    let server = link.server.clone();
    let connection = &mut link.connection();
    typing.progress.due = None;
    let task = Arc::clone(&typing.task);
    let explanation = typing.explanation.as_deref();
    let request = &typing.request;
    let label = || format!("{} ({})", task.window, task.name);
    let pane = task.pane.filter(|_| task.is_alive());
    let pane = pane.ok_or_else(|| ended(&label()))?;
    if request.is_guarded && !typing.progress.has_begun {
        guard(request, explanation, &task)?;
    }
    if let TypedInput::Keys(keys) = &request.input
        && let Some(unknown) = keys.iter().find(|key| !tmux::is_key(key))
    {
        return Err(Error::failed(format!(
            "`{unknown}` is not a key that tmux knows"
        )));
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
            return Err(ended(&label()));
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
            return Err(changed(&label(), &view));
        }
        match terminal.and_then(|terminal| terminal.stopped) {
            // A key may end it.
            Some(stop)
                if stop.is_in_background() && (judged.is_some() || has_text(&request.input)) =>
            {
                return Err(Error::failed(format!(
                    "task {} is stopped in the background; nothing was typed",
                    label()
                ))
                .with_hint(Stop::ADVICE));
            }
            Some(Stop::BySignal) if judged.is_some() => {
                return Err(Error::failed(format!(
                    "task {} is stopped by a signal and does not read what is typed; nothing was typed",
                    label()
                ))
                .with_hint(
                    "`kill -CONT` with the pid of its program continues it; without --if-prompt it is \
                     typed all the same",
                ));
            }
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
                Readiness::AsksNothing => return Err(asks_nothing(&label())),
                Readiness::Answered => {
                    return Err(Error::failed(format!(
                        "task {} was answered already and has not asked again; nothing was typed",
                        label()
                    ))
                    .with_hint(
                        "`tmux-task wait NAME --input` waits for its next question; without \
                         --if-prompt it is typed all the same",
                    ));
                }
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
        match tmux::type_into(connection, &server, pane, &part.input, part.enter, terms).await? {
            TypingResult::Typed => {
                typing.typed(rest, Instant::now());
                return Ok(());
            }
            TypingResult::Changed if examinations.are_over(Instant::now()) => {
                return Err(changed(&label(), &view));
            }
            // The next view shows what is there instead. The pause bounds how often a screen is looked at
            // that changes all the time.
            TypingResult::Changed => tokio::time::sleep(PAUSE).await,
            TypingResult::InputOff => {
                return Err(Error::failed(format!(
                    "input to the pane of task {} is switched off in tmux; nothing was typed",
                    label()
                ))
                .with_hint(format!(
                    "`tmux select-pane -e -t {pane}` switches it on again"
                )));
            }
        }
    }
}

fn ended(label: &str) -> Error {
    Error::failed(format!("task {label} has ended"))
}

fn asks_nothing(label: &str) -> Error {
    Error::failed(format!("task {label} is not asking for input"))
}

/// Returns the error that the prompt disappeared before the answer was typed.
fn changed(label: &str, view: &PaneView) -> Error {
    let now = match &*view.present_line() {
        "" => String::new(),
        line => format!(", its line is now: {line}"),
    };
    Error::failed(format!(
        "task {label} no longer asks that{now}; nothing was typed"
    ))
}

/// Refuses a secret that would be visible, a guarded text that would not be, and a line of which the
/// terminal would drop a part.
fn check_text(
    request: &SendRequest,
    terminal: Option<&TtyEvidence>,
    task: &Task,
) -> Result<(), Error> {
    let echo = terminal.and_then(|terminal| terminal.echo);
    let is_line = terminal.and_then(|terminal| terminal.canonical) == Some(true);
    if request.is_guarded && has_text(&request.input) && echo == Some(false) && is_line {
        return Err(secret(task, ""));
    }
    let is_secret = matches!(request.input, TypedInput::Secret(_));
    if request.if_prompt.is_some() && is_secret && echo == Some(true) {
        let (window, name) = (task.window, &task.name);
        return Err(Error::failed(format!(
            "task {window} ({name}) shows what is typed; nothing was typed"
        ))
        .with_hint("without --secret it is typed all the same"));
    }
    if let TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) = &request.input {
        let longest = text.split(['\n', '\r']).map(str::len).max().unwrap_or(0);
        if is_line && longest > process::MAX_LINE {
            let (name, most) = (&task.name, process::MAX_LINE);
            return Err(Error::failed(format!(
                "the terminal of task {name} takes lines of at most {most} bytes, not {longest}; \
                 nothing was typed"
            )));
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
) -> Result<&'a Explanation, Error> {
    let Some((explanation, prompt)) =
        explanation.and_then(|explanation| Some((explanation, prompt_of(explanation)?)))
    else {
        return Err(asks_nothing(label));
    };
    if prompt.trim() == expected.trim() || is_same_except_signs(prompt, expected) {
        Ok(explanation)
    } else {
        let prompt = colon(prompt);
        Err(Error::failed(format!(
            "task {label} asks something else{prompt}"
        )))
    }
}

/// Refuses a text that would be a secret, as far as the task's prompt shows that, and an answer that
/// does not name its prompt.
fn guard(
    request: &SendRequest,
    explanation: Option<&Explanation>,
    task: &Task,
) -> Result<(), Error> {
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
        (Some(""), None) => Err(Error::failed(format!(
            "{} asks for input and shows no question",
            task.name
        ))
        .with_hint("nothing was typed; to answer, give the empty text as the prompt")),
        (Some(prompt), None) => Err(Error::failed(format!("{} asks: {prompt}", task.name))
            .with_hint("nothing was typed; to answer, name this as the prompt")),
        (Some(_) | None, _) => Ok(()),
    }
}

/// Returns the error that the text would be a secret. The prompt is empty if the task shows none.
fn secret(task: &Task, prompt: &str) -> Error {
    let (task, prompt) = (&task.name, colon(prompt));
    Error::failed(format!(
        "{task} asks for a secret{prompt}; nothing was typed"
    ))
    .with_hint(format!(
        "ask the user to type it: `tmux-task send {task} --secret`, or in tmux"
    ))
}

fn colon(prompt: &str) -> String {
    match prompt {
        "" => String::new(),
        prompt => format!(": {prompt}"),
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
        let silent = Explanation {
            prompt: Some(String::new()),
            ..asks.clone()
        };
        let no_question = "a asks for input and shows no question";
        check(&silent, &text, None, Some(no_question));
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

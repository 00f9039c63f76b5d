//! `send_input`: types into a task, never a secret, and never an answer to another question.

use super::answer::{Answer, short};
use super::arguments::SendInput;
use super::call::within_time;
use crate::ops::{self, Session};
use crate::wire::{Explanation, PromptKindName, SendRequest, TypedInput};

/// The maximum length of a name or a prompt, in characters.
const PROMPT_CHARS: usize = 1000;

pub(super) async fn send(session: &mut Session, arguments: SendInput) -> Result<Answer, Answer> {
    let SendInput {
        task,
        text,
        keys,
        no_enter,
        prompt,
    } = arguments;
    let input = match (text, keys.is_empty()) {
        (Some(text), true) => TypedInput::Text(text),
        (None, false) => TypedInput::Keys(keys),
        (Some(_), false) => return Err(Answer::refused("give `text` or `keys`, not both", None)),
        (None, true) => {
            let why = "there is nothing to type: give `text` or `keys`";
            return Err(Answer::refused(why, None));
        }
    };
    let explained = within_time(async { Ok(ops::explain(session, &task).await?) }).await?;
    let name = short(&task, PROMPT_CHARS);
    if let Some(refusal) = refusal(&name, &explained, &input, prompt.as_deref()) {
        return Err(refusal);
    }
    let request = SendRequest {
        task,
        input,
        enter: !no_enter,
        if_prompt: prompt,
    };
    within_time(async { Ok(ops::send(session, request).await?) }).await?;
    let done = format!("typed into {name}; wait_for or read_output shows what follows");
    Ok(Answer::new([done]))
}

/// Returns why this may not be typed now, if it may not.
fn refusal(
    name: &str,
    explained: &Explanation,
    input: &TypedInput,
    prompt: Option<&str>,
) -> Option<Answer> {
    let asked = explained.prompt.as_deref().filter(|_| explained.asks);
    let asked = asked.map(|asked| short(asked, PROMPT_CHARS));
    if asks_for_secret(explained) && has_text(input) {
        let what = asked.map_or_else(String::new, |asked| format!(": {asked}"));
        return Some(Answer::refused(
            &format!("{name} asks for a secret{what}; nothing was typed"),
            Some(&format!(
                "ask the user to type it: `tmux-task send {name} --secret`, or in tmux"
            )),
        ));
    }
    match (asked, prompt) {
        (Some(asked), None) => Some(Answer::refused(
            &format!("{name} asks: {asked}"),
            Some("nothing was typed; to answer, call again with this as `prompt`"),
        )),
        (Some(_) | None, _) => None,
    }
}

/// Whether what is typed now would be a secret: that is asked for, or the terminal reads a line
/// without showing it.
fn asks_for_secret(explained: &Explanation) -> bool {
    let is_asked = explained.asks
        && (explained.secret == Some(true)
            || explained.prompt_kind == Some(PromptKindName::Password));
    let is_hidden = explained
        .terminal
        .as_ref()
        .is_some_and(|terminal| terminal.echo == Some(false) && terminal.canonical == Some(true));
    is_asked || is_hidden
}

/// Whether it has characters that a secret could consist of: a key such as C-c or Escape has none.
fn has_text(input: &TypedInput) -> bool {
    match input {
        TypedInput::Text(_) | TypedInput::Secret(_) => true,
        TypedInput::Keys(keys) => keys.iter().any(|key| key.chars().count() == 1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn explained(asks: bool, secret: bool, hidden: bool) -> Explanation {
        let value = json!({
            "windowId": "@1", "windowName": "a", "state": "waiting", "waitingSince": null,
            "asks": asks, "prompt": asks.then_some("Proceed?"), "promptKind": null,
            "secret": secret, "rule": "", "line": null, "quietMs": null, "cursorX": null,
            "cursorY": null, "alternateOn": null,
            "terminal": {
                "reader": "reading", "echo": !hidden, "canonical": true,
                "foreground": "command", "programs": [],
            },
        });
        serde_json::from_value(value).unwrap()
    }

    #[track_caller]
    fn check(explained: &Explanation, input: &TypedInput, prompt: Option<&str>, why: Option<&str>) {
        let refusal = refusal("a", explained, input, prompt).map(|answer| answer.text);
        match why {
            None => assert_eq!(refusal, None),
            Some(why) => assert!(refusal.as_ref().is_some_and(|text| text.starts_with(why))),
        }
    }

    #[test]
    fn an_answer_names_its_question_and_is_no_secret() {
        let text = TypedInput::Text("y".to_owned());
        let interrupt = TypedInput::Keys(vec!["C-c".to_owned()]);
        let spelt = TypedInput::Keys(vec!["h".to_owned(), "Enter".to_owned()]);
        let asks = explained(true, false, false);
        check(&asks, &text, None, Some("a asks: Proceed?"));
        check(&asks, &text, Some("Proceed?"), None);
        check(&explained(false, false, false), &text, None, None);
        let secret = "a asks for a secret";
        for explained in [explained(true, true, true), explained(false, false, true)] {
            check(&explained, &text, Some("Proceed?"), Some(secret));
            check(&explained, &spelt, Some("Proceed?"), Some(secret));
            check(&explained, &interrupt, Some("Proceed?"), None);
        }
    }
}

//! `send_input`: types into a task, never a secret, and never an answer to another question.

use super::answer::{ToolAnswer, short};
use super::arguments::SendInput;
use super::call::within_time;
use crate::ops::{self, TaskSession};
use crate::wire::{SendRequest, TypedInput};

/// The maximum length of a name or a prompt, in characters.
const PROMPT_CHARS: usize = 1000;

pub(super) async fn send(
    session: &mut TaskSession,
    arguments: SendInput,
) -> Result<ToolAnswer, ToolAnswer> {
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
        (Some(_), false) => {
            return Err(ToolAnswer::refused("give `text` or `keys`, not both", None));
        }
        (None, true) => {
            let why = "there is nothing to type: give `text` or `keys`";
            return Err(ToolAnswer::refused(why, None));
        }
    };
    let name = short(&task, PROMPT_CHARS);
    let request = SendRequest {
        task,
        input,
        enter: !no_enter,
        if_prompt: prompt,
        is_guarded: true,
    };
    within_time(async { Ok(ops::send(session, request).await?) }).await?;
    let done = format!("typed into {name}; wait_for or read_output shows what follows");
    Ok(ToolAnswer::new([done]))
}

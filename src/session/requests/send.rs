//! `send`: types into a task.

use super::super::input::{Job, LookOrder};
use super::super::job_queue::Turn;
use super::super::state::{Cx, LockKey};
use super::super::typing::{Progress, Typing};
use crate::model::Error;
use crate::rules::wire::{Response, SendRequest};

/// Types into a task. What one request types stays together.
pub(super) async fn send(cx: &Cx, request: SendRequest) -> Result<Response, Error> {
    let windows = match request.needs_prompt() {
        true => cx.with(|state| state.windows_named(&request.task)),
        false => Vec::new(),
    };
    cx.first_look(LookOrder::barrier(windows)).await?;
    let (task, explanation) = cx.with(|state| {
        let task = state.find_task(&request.task)?;
        let needs_prompt = request.needs_prompt();
        let explanation = needs_prompt.then(|| Box::new(state.explain(&task, state.now)));
        Ok::<_, Error>((task, explanation))
    })?;
    let _lock = cx.lock(LockKey::Typing(task.window)).await;
    let mut typing = Typing {
        task,
        explanation,
        request,
        progress: Progress::default(),
    };
    loop {
        let link = cx.turn(Turn::Command).await;
        // Half an answer would be another one.
        cx.keep();
        typing = link.run(|outcome| Job::Type(typing, outcome)).await?;
        if typing.progress.has_answered {
            cx.with(|state| {
                let episodes = &mut state.engine.episodes;
                episodes.note_answer(typing.task.window, state.now.mono);
            });
        }
        let Some(due) = typing.progress.due else {
            return Ok(Response::Done);
        };
        if !typing.progress.has_begun {
            cx.release()?;
        }
        cx.sleep_until(due).await;
    }
}

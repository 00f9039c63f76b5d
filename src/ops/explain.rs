//! Why a task is or is not judged to wait for input.

use std::path::Path;

use super::error::OpsError;
use super::lookup;
use super::session::Session;
use crate::client::ClientError;
use crate::config;
use crate::model::Task;
use crate::process;
use crate::prompt::{self, UserRules};
use crate::tmux;
use crate::wire::{ExplainedState, Explanation, Request, Response};

/// Returns the daemon's explanation; without a daemon, that of a single look.
pub(crate) async fn explain(session: &mut Session, name: &str) -> Result<Explanation, OpsError> {
    let request = Request::Explain {
        task: name.to_owned(),
    };
    match session.ask_by_name(&request).await? {
        Some(Response::Explained(explanation)) => Ok(*explanation),
        Some(_) => Err(ClientError::Unexpected.into()),
        None => {
            let task = session.task(name).await?;
            explain_directly(session, &task).await
        }
    }
}

/// Explains a task by a single look, without a daemon.
pub(super) async fn explain_directly(
    session: &Session,
    task: &Task,
) -> Result<Explanation, OpsError> {
    let (true, Some(pid), Some(pane)) = (task.is_alive(), task.pid, task.pane) else {
        return Ok(Explanation::new(task, None, None));
    };
    let input = config::load(&lookup)?.input;
    let user_rules = UserRules::new(
        &input.ask,
        &input.ignore,
        input.mute_tasks,
        input.mute_kinds,
    )?;
    let tty = tmux::tty_of(&mut session.connection(), pane).await?;
    let terminal = process::terminal(pid, Path::new(&tty));
    let judgement = prompt::judge_task(task, terminal.as_ref(), &user_rules);
    let mut explanation = Explanation::new(task, Some(&judgement), terminal.as_ref());
    let mutes = |found: prompt::PromptMatch| user_rules.mutes(task, &found.prompt);
    if judgement.found.is_some_and(mutes) {
        explanation.state = ExplainedState::Muted;
    }
    Ok(explanation)
}

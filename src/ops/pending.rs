//! What a conversation waits for: its tasks that run or will be restarted. An agent that has ended its turn while
//! some do is not done, which no status bar, loop or hook could know otherwise.

use clap::Args;
use serde::Serialize;

use super::caller::Caller;
use super::list;
use super::session::TaskSession;
use crate::model::{Error, Task, WakePolicy, WindowId, age, text};
use crate::rules::wire::{LsTask, TaskStateName};

#[derive(Debug, Args)]
pub(crate) struct PendingArguments {
    /// The tasks of this owner, CLIENT:ID, as in `ls --json` [default: the caller's; for a user, all]
    #[arg(long, value_name = "ID", value_parser = parse_owner)]
    owner: Option<String>,
    /// The tasks of the conversation in whose shell this runs
    #[arg(long, conflicts_with = "owner")]
    mine: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_owner(text: &str) -> Result<String, String> {
    let parts = text.split_once(':');
    match parts.is_some_and(|(client, id)| !client.is_empty() && !id.is_empty()) {
        true => Ok(text.to_owned()),
        false => Err("an owner is CLIENT:ID, such as claude:1f0c".to_owned()),
    }
}

/// The tasks that a conversation waits for.
#[derive(Debug, Serialize)]
pub(crate) struct PendingTasks {
    /// Whose they are; null: everybody's.
    owner: Option<String>,
    pub(crate) tasks: Vec<LsTask>,
}

impl PendingTasks {
    /// Returns one line: `waits for 2 tasks: build (usually 4m), deploy (asks: Proceed? [y/N])`; `None`
    /// if there are none.
    pub(crate) fn line(&self) -> Option<String> {
        let tasks: Vec<String> = self.tasks.iter().map(words).collect();
        let count = text::counted(tasks.len(), "task");
        (!tasks.is_empty()).then(|| format!("waits for {count}: {}", tasks.join(", ")))
    }
}

fn words(listed: &LsTask) -> String {
    let about = match (&listed.waiting_for, listed.usual_ms) {
        (Some(asked), _) if asked.is_empty() => Some("asks".to_owned()),
        (Some(asked), _) => Some(format!("asks: {asked}")),
        (None, _) if listed.state != TaskStateName::Running => Some(listed.state.to_string()),
        (None, usual) => usual.map(|usual| format!("usually {}", age(usual))),
    };
    let name = &listed.task.name;
    about.map_or_else(|| name.clone(), |about| format!("{name} ({about})"))
}

/// Returns what is waited for.
pub(crate) async fn pending(
    session: &mut TaskSession,
    arguments: &PendingArguments,
) -> Result<PendingTasks, Error> {
    let owner = match &arguments.owner {
        Some(owner) => Some(owner.clone()),
        None if arguments.mine => Some(caller_owner()?),
        None => Caller::of_environment().owner,
    };
    let tasks = tasks_of(session, owner.as_deref()).await?;
    Ok(PendingTasks { owner, tasks })
}

/// Returns the windows of the tasks that the caller's conversation waits for, each with the task's name, or its
/// id where several have that name, or it looks like an id.
pub(crate) async fn my_tasks(session: &mut TaskSession) -> Result<Vec<(String, WindowId)>, Error> {
    let tasks = tasks_of(session, Some(&caller_owner()?)).await?;
    let tasks = || tasks.iter().map(|listed| &listed.task);
    let name = |task: &Task| match tasks().filter(|other| other.name == task.name).count() {
        1 if task.name.parse::<WindowId>().is_err() => task.name.clone(),
        _ => task.window.to_string(),
    };
    Ok(tasks().map(|task| (name(task), task.window)).collect())
}

fn caller_owner() -> Result<String, Error> {
    let none = || {
        Error::usage("--mine is for the shell of a conversation: the environment names no owner")
            .with_hint("TMUX_TASK_OWNER=CLIENT:ID names one")
    };
    Caller::of_environment().owner.ok_or_else(none)
}

/// Returns the tasks of this owner, or of all, that are alive or will be restarted. One whose end wakes nobody
/// is not waited for, unless it asks.
async fn tasks_of(session: &mut TaskSession, owner: Option<&str>) -> Result<Vec<LsTask>, Error> {
    let mut tasks = list::list(session).await?.tasks;
    tasks.retain(|listed| {
        let task = &listed.task;
        let is_theirs = owner.is_none_or(|owner| task.owner.as_deref() == Some(owner));
        let goes_on = task.is_alive() || listed.next_restart.is_some();
        let wakes = task.settings.wake != Some(WakePolicy::Never) || listed.waiting_for.is_some();
        is_theirs && goes_on && wakes && !task.shell
    });
    Ok(tasks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    #[test]
    fn one_line_says_what_is_waited_for() {
        let listed = |notation: &str, asked: Option<&str>, usual_ms| LsTask {
            usual_ms,
            ..LsTask::new(task(notation), asked.map(str::to_owned))
        };
        let mut pending = PendingTasks {
            owner: None,
            tasks: Vec::new(),
        };
        assert_eq!(pending.line(), None);
        pending.tasks = vec![listed("@1 build running", None, Some(250_000))];
        let expected = "waits for 1 task: build (usually 4m)";
        assert_eq!(pending.line().as_deref(), Some(expected));
        pending.tasks.extend([
            listed("@2 deploy running", Some("Proceed? [y/N]"), Some(9000)),
            listed("@3 edit running", Some(""), None),
            listed("@4 api running", None, None),
        ]);
        let expected = "waits for 4 tasks: build (usually 4m), deploy (asks: Proceed? [y/N]), \
                        edit (asks), api";
        assert_eq!(pending.line().as_deref(), Some(expected));
    }
}

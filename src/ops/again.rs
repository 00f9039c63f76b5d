//! Runs a task again: finds what its last launch started.

use super::caller::Caller;
use super::file_tasks::options_in_project;
use super::run::{LaunchWait, RunOptions};
use super::session::TaskSession;
use crate::client::unexpected;
use crate::model::{Error, Replaces, TaskSpec};
use crate::wire::{Request, Response};

/// Completes options without a command by those of the task's last launch: its name, its command, and
/// its directory and its restart policy unless another one is given. `options.name` may be a window id.
///
/// The environment is not recorded: the run gets this one, or tmux's if the last run had that. A task
/// that was launched with additional variables needs them again.
pub(crate) async fn run_again(
    session: &mut TaskSession,
    options: RunOptions,
) -> Result<RunOptions, Error> {
    let (name, spec) = find_spec(session, &options.name).await?;
    as_recorded(options, name, spec)
}

fn as_recorded(
    options: RunOptions,
    name: String,
    last: Option<TaskSpec>,
) -> Result<RunOptions, Error> {
    let Some(last) = last else {
        return Err(
            Error::failed(format!("the command of task `{name}` is not recorded")).with_hint(
                format!("`tmux-task run {name} -- COMMAND` starts it and records the command"),
            ),
        );
    };
    if last.env_digest.is_some() && options.spec.env.is_empty() {
        return Err(Error::failed(format!(
            "task `{name}` was started with --env, and the values are not recorded"
        ))
        .with_hint(format!(
            "`tmux-task run {name} --env K=V` runs its command again with these"
        )));
    }
    Ok(RunOptions {
        name,
        spec: options.spec.or(last),
        ..options
    })
}

/// Returns how to run these tasks again: those of the project's file as it has them now, others as they
/// were last launched. A task that is named twice, also by its window's id, is run once.
///
/// # Errors
///
/// When one of them cannot be run again.
pub(crate) async fn plan_restarts(
    session: &mut TaskSession,
    names: Vec<String>,
    wait: LaunchWait,
) -> Result<Vec<RunOptions>, Error> {
    let mut all: Vec<RunOptions> = Vec::new();
    for name in names {
        let (name, last) = find_spec(session, &name).await?;
        let of_file = match last.as_ref().and_then(|last| last.cwd.as_deref()) {
            Some(cwd) => options_in_project(session, &name, cwd)?,
            None => None,
        };
        let options = match of_file {
            Some(of_file) => RunOptions {
                replaces: Replaces::Any,
                ..of_file
            },
            None => as_recorded(RunOptions::default(), name, last)?,
        };
        let options = RunOptions {
            owner: Caller::of_environment().owner,
            wait,
            ..options
        };
        options.check()?;
        if !all.iter().any(|other| other.name == options.name) {
            all.push(options);
        }
    }
    Ok(all)
}

/// Returns a task's name, and what its last launch has said if that is recorded.
pub(super) async fn find_spec(
    session: &mut TaskSession,
    task: &str,
) -> Result<(String, Option<TaskSpec>), Error> {
    let request = Request::Record {
        task: task.to_owned(),
    };
    let Response::Record { window_name, spec } = session.ask(&request).await? else {
        return Err(unexpected());
    };
    Ok((window_name, spec.map(|spec| *spec)))
}

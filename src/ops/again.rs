//! Runs a task again: finds what its last launch started.

use super::caller::Caller;
use super::file_tasks::launch_in_project;
use super::run::check_launch;
use super::session::TaskSession;
use crate::model::{Error, Launch, Replaces, TaskSpec};
use crate::rules::wire::{LaunchRecord, Request};

/// Completes a launch without a command by the task's last one: its name, its command, and its directory and
/// its restart policy unless another one is given. `launch.name` may be a window id.
///
/// The environment is not recorded: the run gets this one, or tmux's if the last run had that. A task
/// that was launched with additional variables needs them again.
pub(crate) async fn run_again(session: &mut TaskSession, launch: Launch) -> Result<Launch, Error> {
    let (name, spec) = find_spec(session, &launch.name).await?;
    as_recorded(launch, name, spec)
}

fn as_recorded(launch: Launch, name: String, last: Option<TaskSpec>) -> Result<Launch, Error> {
    let Some(last) = last else {
        return Err(
            Error::failed(format!("the command of task `{name}` is not recorded")).with_hint(
                format!("`tmux-task run {name} -- COMMAND` starts it and records the command"),
            ),
        );
    };
    if last.env_digest.is_some() && launch.spec.env.is_empty() {
        return Err(Error::failed(format!(
            "task `{name}` was started with --env, and the values are not recorded"
        ))
        .with_hint(format!(
            "`tmux-task run {name} --env K=V` runs its command again with these"
        )));
    }
    Ok(Launch {
        name,
        spec: launch.spec.or(last),
        ..launch
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
) -> Result<Vec<Launch>, Error> {
    let mut all: Vec<Launch> = Vec::new();
    for name in names {
        let (name, last) = find_spec(session, &name).await?;
        let of_file = match last.as_ref().and_then(|last| last.cwd.as_deref()) {
            Some(cwd) => launch_in_project(session, &name, cwd)?,
            None => None,
        };
        let mut launch = match of_file {
            Some(of_file) => of_file,
            None => as_recorded(Launch::default(), name, last)?,
        };
        launch.replaces = Replaces::Any;
        launch.owner = Caller::of_environment().owner;
        check_launch(&launch)?;
        if !all.iter().any(|other| other.name == launch.name) {
            all.push(launch);
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
    let LaunchRecord { window_name, spec } = session.ask(&request).await?;
    Ok((window_name, spec.map(|spec| *spec)))
}

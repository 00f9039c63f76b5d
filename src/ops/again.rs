//! Runs a task again: finds what its last launch started.

use super::caller::Caller;
use super::file_tasks::options_in_project;
use super::run::{LaunchWait, RunOptions};
use super::session::TaskSession;
use crate::client::unexpected;
use crate::model::{Error, Replaces};
use crate::tmux::RecordedCommand;
use crate::wire::{Request, Response, TaskRecord};

/// Completes options without a command by those of the task's last launch: its name, its command, and
/// its directory and its restart policy unless another one is given. `options.name` may be a window id.
///
/// The environment is not recorded: the run gets this one, or tmux's if the last run had that. A task
/// that was launched with additional variables needs them again.
pub(crate) async fn run_again(
    session: &mut TaskSession,
    options: RunOptions,
) -> Result<RunOptions, Error> {
    let found = find_record(session, &options.name).await?;
    with_record(options, found)
}

fn with_record(options: RunOptions, found: TaskRecord) -> Result<RunOptions, Error> {
    let TaskRecord {
        window_name,
        record,
        restarts,
        stop,
        notify_on,
        slot,
    } = found;
    let Some(record) = record.as_deref().and_then(RecordedCommand::decode) else {
        return Err(Error::failed(format!(
            "the command of task `{window_name}` is not recorded"
        ))
        .with_hint(format!(
            "`tmux-task run {window_name} -- COMMAND` starts it and records the command"
        )));
    };
    if record.env_digest.is_some() && options.env.is_empty() {
        return Err(Error::failed(format!(
            "task `{window_name}` was started with --env, and the values are not recorded"
        ))
        .with_hint(format!(
            "`tmux-task run {window_name} --env K=V` runs its command again with these"
        )));
    }
    Ok(RunOptions {
        name: window_name,
        cwd: Some(options.cwd.unwrap_or(record.cwd)),
        is_env_clean: options.is_env_clean || record.is_env_clean,
        command: record.words,
        restart: options.restart.or(restarts.map(|restarts| restarts.policy)),
        stop: options.stop.or(stop),
        notify_on: options.notify_on.or(notify_on),
        slot: options.slot.or(slot),
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
        let found = find_record(session, &name).await?;
        let record = found.record.as_deref().and_then(RecordedCommand::decode);
        let of_file = match &record {
            Some(record) => options_in_project(session, &found.window_name, &record.cwd)?,
            None => None,
        };
        let options = match of_file {
            Some(of_file) => RunOptions {
                replaces: Replaces::Any,
                ..of_file
            },
            None => with_record(RunOptions::default(), found)?,
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

/// Returns the record of a task's last launch.
pub(super) async fn find_record(
    session: &mut TaskSession,
    name: &str,
) -> Result<TaskRecord, Error> {
    let request = Request::Record {
        task: name.to_owned(),
    };
    let Response::Record(record) = session.ask_by_name(&request).await? else {
        return Err(unexpected());
    };
    Ok(record)
}

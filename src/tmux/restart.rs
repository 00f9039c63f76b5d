//! Runs a task again in its window after its run has failed.

use std::path::{Path, PathBuf};

use super::client::Connection;
use super::error::TmuxError;
use super::kept_environment::copy_kept;
use super::launch::unique_token;
use super::launch_lines::{Count, LaunchLines, go_on_if, is_contended};
use super::launch_plan::LaunchPlan;
use super::recorded::{LaunchRecord, RecordedCommand, read_record};
use super::respawn::{
    ATTACHED_CLIENTS, are_attached, continue_for, list_control_clients, pause_for,
    read_control_clients,
};
use super::restart_option::RESTART;
use super::task_environment::{PREFIX, TaskEnvironment};
use crate::model::environment::WithheldVariables;
use crate::model::{Millis, Replaces, Task, TaskRestarts, text};
use crate::protocol::{Command, Frame};

/// A task to run again.
#[derive(Debug)]
pub(crate) struct TaskRestart<'a> {
    /// The task, whose run has ended.
    pub task: &'a Task,
    /// Which restart in a row this is, from 1.
    pub number: u32,
    /// The session's name.
    pub session: &'a str,
    /// The folder for the environment's file, private to the user.
    pub runtime: &'a Path,
    /// The folder of kept environments.
    pub kept: &'a Path,
    /// The variables that no task gets.
    pub withheld: WithheldVariables,
    /// The time, in milliseconds since 1970.
    pub now: Millis,
}

/// The result of a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RestartResult {
    /// The task runs.
    Started,
    /// Another run has begun in the window, the window is gone, or its policy is another one.
    Superseded,
    /// It can never succeed, for this reason.
    Impossible(String),
}

/// Runs a task again in its window, unless its window has changed since the run ended.
///
/// # Errors
///
/// When tmux fails. The task may have been started if the client was detached.
pub(crate) async fn restart(
    connection: &mut Connection<'_>,
    order: TaskRestart<'_>,
) -> Result<RestartResult, TmuxError> {
    let task = order.task;
    let (Some(pane), Some(restarts)) = (task.pane, &task.restarts) else {
        return Ok(RestartResult::Superseded);
    };
    let found = match read_record(connection, task.window).await {
        Err(error) if error.is_missing() => return Ok(RestartResult::Superseded),
        found => found?,
    };
    let LaunchRecord {
        record,
        restart: Some((option, present)),
    } = found
    else {
        return Ok(RestartResult::Superseded);
    };
    if present != *restarts {
        return Ok(RestartResult::Superseded);
    }
    let Some(record) = record.as_deref().and_then(RecordedCommand::decode) else {
        return Ok(RestartResult::Impossible(
            "its command is not recorded".to_owned(),
        ));
    };
    if !record.cwd.is_dir() {
        let cwd = record.cwd.display().to_string();
        let cwd = text::one_line(cwd.as_bytes(), 400);
        return Ok(RestartResult::Impossible(format!(
            "`{cwd}` is not a directory any more"
        )));
    }
    let token = unique_token();
    let path = order.runtime.join(format!("{PREFIX}{token}"));
    let file = match copy_kept(order.kept, &restarts.token, path) {
        Ok(file) => file,
        Err(error) => {
            return Ok(RestartResult::Impossible(format!(
                "its environment is not available any more: {error}"
            )));
        }
    };
    let Some(plan) = plan(&order, &record, restarts, token, file.path()) else {
        return Ok(RestartResult::Impossible(
            "a folder's name is not UTF-8".to_owned(),
        ));
    };
    let pane_target = pane.to_string();
    let ask = [
        list_control_clients(),
        Command::new("display-message").args(["-p", "-t", &pane_target, ATTACHED_CLIENTS]),
    ];
    let listed = match connection.run(&ask).await {
        Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => {
            return Ok(RestartResult::Superseded);
        }
        answer => answer?,
    };
    let clients = listed.first().map(read_control_clients).unwrap_or_default();
    let attached = listed.last().map(Frame::text).unwrap_or_default();
    // The option's value has no character with a meaning in formats.
    let is_same = format!(
        "#{{&&:#{{&&:#{{pane_dead}},#{{==:#{{{RESTART}}},{option}}}}},{}}}",
        are_attached(attached.trim())
    );
    let mut line = vec![go_on_if(&pane_target, &is_same)];
    // If a client is gone, the line fails before anything is done.
    line.extend(pause_for(&clients, pane));
    let lines = LaunchLines::new(&plan, String::new());
    line.extend(lines.window_options(&pane_target, Count::Next));
    line.extend(lines.respawn(&pane_target));
    line.extend(continue_for(&clients, pane));
    line.push(LaunchLines::show_launched(&pane_target));
    let frames = match connection.run_unseen(&line).await {
        Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => {
            return Ok(RestartResult::Superseded);
        }
        answer => answer?,
    };
    if lines.has_launched(&frames) {
        file.hand_over();
        Ok(RestartResult::Started)
    } else {
        Ok(RestartResult::Superseded)
    }
}

/// Returns the launch: the same command with the same environment; `None` when tmux cannot be given a
/// name.
fn plan(
    order: &TaskRestart<'_>,
    record: &RecordedCommand,
    restarts: &TaskRestarts,
    token: String,
    file: Option<&str>,
) -> Option<LaunchPlan> {
    let TaskRestart {
        task,
        number,
        session,
        withheld,
        now,
        ..
    } = order;
    let command = record.command();
    let environment = if record.is_env_clean {
        TaskEnvironment::of_tmux(withheld.clone())
    } else {
        TaskEnvironment::of_caller([], withheld.clone())
    };
    let names = [
        ("TMUX_TASK_SESSION", *session),
        ("PI_TMUX_SESSION", *session),
        ("TMUX_TASK_NAME", task.name.as_str()),
    ];
    Some(LaunchPlan {
        name: task.name.clone(),
        token,
        words: command.pane_words(&names, &environment, file?, None),
        command: command.shown_bounded(),
        record: Some(record.encode(*now)),
        cwd: PathBuf::from(&record.cwd)
            .into_os_string()
            .into_string()
            .ok()?,
        owner: task.owner.clone(),
        started: *now,
        replaces: Replaces::Any,
        restarts: Some(TaskRestarts {
            used: *number,
            ..restarts.clone()
        }),
    })
}

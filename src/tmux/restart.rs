//! Runs a task again in its window after its run has failed.

use std::path::{Path, PathBuf};

use super::client::Connection;
use super::error::TmuxError;
use super::launch::{pane_words, unique_token};
use super::launch_lines::{LaunchLines, go_on_if, is_contended};
use super::launch_options::{RunNumber, option_commands};
use super::recorded::{LaunchRecord, RecordedCommand, read_record};
use super::respawn::{
    ATTACHED_CLIENTS, are_attached, continue_for, list_control_clients, pause_for,
    read_control_clients,
};
use super::restart_option::RESTART;
use super::task_file::{Gate, TaskFile, read_kept};
use crate::model::{Millis, PaneId, Replaces, RunRequest, Task, TaskRestarts, text, with_causes};
use crate::protocol::{Command, Frame};

/// A task to run again.
#[derive(Debug)]
pub(crate) struct TaskRestart<'a> {
    /// The task, whose run has ended.
    pub task: &'a Task,
    /// Which restart in a row this is, from 1.
    pub number: u32,
    /// The last number that a run of its name has had.
    pub last_run: u32,
    /// The session's name.
    pub session: &'a str,
    /// The folder for the task's file, private to the user.
    pub runtime: &'a Path,
    /// The program that the pane starts, which is this one.
    pub program: &'a str,
    /// The folder of kept environments.
    pub kept: &'a Path,
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
    let (option, record) = match check(found, restarts) {
        Ok(current) => current,
        Err(result) => return Ok(result),
    };
    if !record.cwd.is_dir() {
        return Ok(without_directory(&record.cwd));
    }
    let token = unique_token();
    let kept = read_kept(&order.kept.join(&restarts.token));
    let file = kept.and_then(|mut kept| {
        kept.name_task(order.session, &task.name);
        TaskFile::write(order.runtime, &token, &kept)
    });
    let file = match file {
        Ok(file) => file,
        Err(error) => {
            return Ok(RestartResult::Impossible(format!(
                "its environment is not available any more: {}",
                with_causes(&error)
            )));
        }
    };
    let request = request(&order, &record, restarts, token, file.path());
    let Some((request, gate)) = request.and_then(|request| {
        let gate = Gate::close(request.file()).ok()?;
        Some((request, gate))
    }) else {
        return Ok(RestartResult::Impossible(
            "a folder's name is not UTF-8".to_owned(),
        ));
    };
    let lines = LaunchLines::new(&request, String::new(), &[]);
    let Some(listed) = unless_contended(connection.run(&ask_for_clients(pane)).await)? else {
        return Ok(RestartResult::Superseded);
    };
    let line = restart_line(&request, &lines, pane, &option, &listed);
    let launched = unless_contended(connection.run_unseen(&line).await)?;
    if launched.is_some_and(|frames| lines.has_launched(&frames)) {
        gate.open(&pane.to_string());
        file.release(&pane.to_string());
        Ok(RestartResult::Started)
    } else {
        Ok(RestartResult::Superseded)
    }
}

/// Checks that the window still has the run and the policy for which the restart was ordered. Returns
/// the value of the policy's option, and the command.
fn check(
    found: LaunchRecord,
    restarts: &TaskRestarts,
) -> Result<(String, RecordedCommand), RestartResult> {
    match found {
        LaunchRecord {
            record,
            restart: Some((option, present)),
        } if present == *restarts => {
            let record = record.as_deref().and_then(RecordedCommand::decode);
            let missing = || RestartResult::Impossible("its command is not recorded".to_owned());
            Ok((option, record.ok_or_else(missing)?))
        }
        LaunchRecord { .. } => Err(RestartResult::Superseded),
    }
}

fn without_directory(cwd: &Path) -> RestartResult {
    let cwd = cwd.display().to_string();
    let cwd = text::one_line(cwd.as_bytes(), 400);
    RestartResult::Impossible(format!("`{cwd}` is not a directory any more"))
}

/// Returns what tmux answered; `None` when the window has changed meanwhile.
fn unless_contended(
    answer: Result<Vec<Frame>, TmuxError>,
) -> Result<Option<Vec<Frame>>, TmuxError> {
    match answer {
        Err(TmuxError::Rejected { reply, .. }) if is_contended(&reply) => Ok(None),
        answer => answer.map(Some),
    }
}

/// Returns the commands that list the clients for which the pane has to be paused.
fn ask_for_clients(pane: PaneId) -> [Command; 2] {
    let attached = ["-p", "-t", &pane.to_string(), &ATTACHED_CLIENTS];
    [
        list_control_clients(),
        Command::new("display-message").args(attached),
    ]
}

/// Returns the line that runs the command again. It does nothing if the task's run has not ended, its
/// policy is not `option`, or other clients are attached than those `listed`.
fn restart_line(
    request: &RunRequest,
    lines: &LaunchLines<'_>,
    pane: PaneId,
    option: &str,
    listed: &[Frame],
) -> Vec<Command> {
    let target = pane.to_string();
    let attached = listed.last().map(Frame::text).unwrap_or_default();
    let clients = listed.first();
    let clients = clients.map(|listed| read_control_clients(listed, attached.trim()));
    let clients = clients.unwrap_or_default();
    // The option's value has no character with a meaning in formats.
    let is_same = format!(
        "#{{&&:#{{&&:#{{pane_dead}},#{{==:#{{{RESTART}}},{option}}}}},{}}}",
        are_attached(attached.trim())
    );
    let mut line = vec![go_on_if(&target, &is_same)];
    // If a client is gone, the line fails before anything is done.
    line.extend(pause_for(&clients, pane));
    line.extend(option_commands(request, &target, RunNumber::Next));
    line.extend(lines.respawn(&target));
    line.extend(continue_for(&clients, pane));
    line.push(LaunchLines::show_launched(&target));
    line
}

/// Returns the launch: the same command with the same environment; `None` when tmux cannot be given a
/// name.
fn request(
    order: &TaskRestart<'_>,
    record: &RecordedCommand,
    restarts: &TaskRestarts,
    token: String,
    file: Option<&str>,
) -> Option<RunRequest> {
    let TaskRestart {
        task,
        number,
        last_run,
        program,
        now,
        ..
    } = order;
    let command = record.command();
    Some(RunRequest {
        name: task.name.clone(),
        token,
        words: pane_words(program, file?),
        command: command.shown_bounded(),
        record: record.encode(*now),
        cwd: PathBuf::from(&record.cwd)
            .into_os_string()
            .into_string()
            .ok()?,
        owner: task.owner.clone(),
        started: *now,
        last_run: *last_run,
        replaces: Replaces::Any,
        restarts: Some(TaskRestarts {
            used: *number,
            ..restarts.clone()
        }),
        stop: task.stop.clone(),
        notify_on: task.notify_on.clone(),
        slot: task.slot.clone(),
        will_wait: false,
    })
}

//! The options by which a launch describes the task on its window.

use super::notify_option::{NOTIFY_ON, encode_notify_on};
use super::pane_origin::{NOT_THE_TASK, TASK_PANE};
use super::recorded::RECORD;
use super::restart_option::{RESTART, encode_restarts};
use super::rows::MARK;
use super::slot_option::{SLOT, encode_slot};
use super::stop_option::{STOP, encode_stop};
use crate::model::RunRequest;
use crate::protocol::Command;

/// The window option with the number of its run.
const RUN: &str = "@tmux_task_run";

/// The window option with the owner of its task.
const OWNER: &str = "@tmux_task_owner";

/// The number of a launched run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunNumber {
    /// The first of its window: one more than the last of the name.
    First,
    /// One more than the window's last, and the last of the name.
    Next,
}

/// Returns the commands that describe the task on its window.
///
/// tmux 3.3a goes over all of its windows after each of them: they are as few as possible.
pub(super) fn option_commands(
    request: &RunRequest,
    target: &str,
    number: RunNumber,
) -> Vec<Command> {
    let set = |flags: &str, name: &str, value: &str| {
        Command::new("set-option").args([flags, "-t", target, name, value])
    };
    let restarts = request.restarts.as_ref();
    let encoded = restarts.map(|restarts| encode_restarts(restarts, request.started));
    let stop = encode_stop(&request.stop, request.started);
    let notify_on = request.notify_on.as_ref();
    let notify_on = notify_on.map(|notify_on| encode_notify_on(notify_on, request.started));
    let slot = request.slot.as_ref();
    let slot = slot.map(|slot| encode_slot(slot, request.started));
    let values = [
        (RESTART, &encoded),
        (STOP, &stop),
        (NOTIFY_ON, &notify_on),
        (SLOT, &slot),
    ];
    let optional = values.into_iter().filter_map(|(name, value)| match value {
        Some(value) => Some(set("-w", name, value)),
        None if number == RunNumber::Next => {
            Some(Command::new("set-option").args(["-wu", "-t", target, name]))
        }
        // A new window has none to unset.
        None => None,
    });
    let mut options = vec![
        set("-w", "remain-on-exit", "on"),
        set("-w", "monitor-bell", "on"),
        set("-w", "automatic-rename", "off"),
        set("-w", "allow-rename", "off"),
        set("-w", "@tmux_task_command", &request.command),
        set("-w", "@tmux_task_cwd", &request.cwd),
        set("-w", "@tmux_task_started", &request.started.to_string()),
        set("-w", RECORD, &request.record),
        set("-w", MARK, &request.token),
        // Also without one: it would be inherited.
        set("-w", OWNER, request.owner.as_deref().unwrap_or_default()),
        set("-w", TASK_PANE, NOT_THE_TASK),
        set("-pF", TASK_PANE, "#{window_id}"),
    ];
    options.extend(optional);
    let last = request.last_run;
    options.push(match number {
        RunNumber::First => set("-w", RUN, &last.saturating_add(1).to_string()),
        RunNumber::Next => set("-wF", RUN, &next_run(last)),
    });
    options
}

/// Returns a format for the number of a window's next run, after the last run of the task's name.
fn next_run(last: u32) -> String {
    // A window that was never counted had its first run.
    let of_window = format!("#{{?{RUN},#{{{RUN}}},1}}");
    let last = last.max(1);
    format!("#{{e|+:#{{?#{{e|>:{of_window},{last}}},{of_window},{last}}},1}}")
}

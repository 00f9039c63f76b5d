//! `list_tasks`, `kill_task`, `prune_tasks` and `send_input`.

use std::time::Duration;

use tokio::time::timeout;

use super::arguments::SendInput;
use super::call::{Call, NAME_CHARS, ToolAnswer, short, within_time};
use crate::clock;
use crate::model::{Millis, StopChoice, port_words};
use crate::ops::{self, TaskSession};
use crate::wire::{EndedTask, LsTask, LsView, SendRequest, TaskStateName, TypedInput};

/// The maximum number of tasks in a list.
const MOST_TASKS: usize = 100;

/// The maximum length of a command in a list, in characters.
const COMMAND_CHARS: usize = 60;

/// The maximum length of a last line in a list, in characters.
const LAST_CHARS: usize = 200;

/// How long tasks that are ended may take before the call returns.
const ENDS_WITHIN: Duration = Duration::from_secs(45);

pub(super) async fn list(session: &mut TaskSession) -> Result<ToolAnswer, ToolAnswer> {
    let mut view = within_time(ops::list(session)).await?;
    ops::add_ports(&mut view);
    Ok(ToolAnswer::new(table(&view, clock::now().wall)))
}

pub(super) async fn kill(
    session: &mut TaskSession,
    call: &Call,
    names: Vec<String>,
) -> Result<ToolAnswer, ToolAnswer> {
    let caller = call.caller.clone();
    // Once more kills what has not ended yet.
    let runs = within_time(ops::ending_runs(session, &names, true)).await?;
    if !runs.is_empty() {
        let names: Vec<&str> = runs.iter().map(|run| run.window_name.as_str()).collect();
        let line = format!("killed what was left of {}", names.join(", "));
        return Ok(ToolAnswer::new([line]));
    }
    let choice = StopChoice::default();
    let work = ops::kill(session, caller, names, &choice);
    match timeout(ENDS_WITHIN, work).await {
        Ok(ended) => Ok(ToolAnswer::new([format!("killed {}", names_of(&ended?))])),
        // The daemon goes on with it.
        Err(_) => Err(ToolAnswer::refused(
            "not all of them have ended yet",
            Some("`kill_task` once more kills at once what is left"),
        )),
    }
}

pub(super) async fn prune(session: &mut TaskSession) -> Result<ToolAnswer, ToolAnswer> {
    let pruned = within_time(ops::prune(session)).await?;
    Ok(ToolAnswer::new([match pruned.as_slice() {
        [] => "no task has ended: nothing was removed".to_owned(),
        pruned => format!("removed {}", names_of(pruned)),
    }]))
}

fn names_of(tasks: &[EndedTask]) -> String {
    let names = tasks.iter().map(|task| {
        format!(
            "{} ({})",
            task.window_id,
            short(&task.window_name, NAME_CHARS)
        )
    });
    names.collect::<Vec<_>>().join(", ")
}

fn table(view: &LsView, now: Millis) -> Vec<String> {
    if view.tasks.is_empty() {
        return vec!["no tasks; run_task starts one".to_owned()];
    }
    let mut lines: Vec<String> = view
        .tasks
        .iter()
        .take(MOST_TASKS)
        .map(|task| row(task, now))
        .collect();
    if view.tasks.len() > MOST_TASKS {
        let n = view.tasks.len() - MOST_TASKS;
        lines.push(format!(
            "{n} more tasks; prune_tasks removes those that have ended"
        ));
    }
    lines
}

fn row(listed: &LsTask, now: Millis) -> String {
    let task = &listed.task;
    let state = match listed.state {
        TaskStateName::Exited | TaskStateName::Killed => short(&task.end_words(), NAME_CHARS),
        TaskStateName::Restarting => {
            let next = listed
                .next_restart
                .map(|next| ops::restart_words(next, now));
            let words = [task.end_words(), next.unwrap_or_default()].join(", ");
            format!("restarting: {}", short(&words, NAME_CHARS))
        }
        TaskStateName::Queued => "queued".to_owned(),
        TaskStateName::Waiting if task.stopped.is_some() => "stopped, asks for input".to_owned(),
        TaskStateName::Waiting => "asks for input".to_owned(),
        TaskStateName::Running if task.stopped.is_some() => "stopped".to_owned(),
        TaskStateName::Shell => TaskStateName::Running.to_string(),
        TaskStateName::Running => listed.state.to_string(),
    };
    let age = match listed.since().map(|at| age(now - at)) {
        None => String::new(),
        Some(age) if task.is_alive() => format!(", started {age} ago"),
        Some(age) => format!(", {age} ago"),
    };
    let run = match task.run {
        Some(run) if run > 1 => format!(", run {run}"),
        Some(_) | None => String::new(),
    };
    let ports = match task.ports.as_deref() {
        None | Some([]) => String::new(),
        Some(ports) => format!(", listens on {}", port_words(ports)),
    };
    let shell = if task.shell { ", a shell" } else { "" };
    let command = task.command.as_deref().unwrap_or_default();
    let command = match short(command, COMMAND_CHARS) {
        command if command.is_empty() || task.shell => String::new(),
        command => format!(" `{command}`"),
    };
    let last = listed.waiting_for.clone();
    let last = match short(&last.unwrap_or_else(|| task.last_line()), LAST_CHARS) {
        last if last.is_empty() => String::new(),
        last => format!(": {last}"),
    };
    format!(
        "{} {}{command} {state}{age}{run}{ports}{shell}{last}",
        task.window,
        short(&task.name, NAME_CHARS),
    )
}

fn age(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

// `send_input`: types into a task, never a secret, and never an answer to another question.

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
    within_time(session.send(request)).await?;
    let done = format!("typed into {name}; wait_for or read_output shows what follows");
    Ok(ToolAnswer::new([done]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{NextRestart, test_notation};

    fn view(tasks: Vec<LsTask>) -> LsView {
        LsView {
            session_name: "s".into(),
            exists: true,
            supervised: true,
            captured_at: 0,
            tasks,
        }
    }

    #[test]
    fn a_task_is_a_line() {
        let task = |notation: &str| {
            let mut task = test_notation::task(&format!("{notation} started=0 : one|last line|"));
            task.command = Some("make test".into());
            task.ended_at = (!task.is_alive()).then_some(60_000);
            task.ports = Some(match task.run {
                Some(2) => vec![80, 3000],
                _ => Vec::new(),
            });
            task
        };
        let next = NextRestart {
            in_ms: 4000,
            at: 69_000,
            number: 1,
            limit: 5,
        };
        let view = view(vec![
            LsTask::new(task("@1#1 api running"), None),
            LsTask::new(task("@12#2 migrate running"), Some("Proceed? [y/N]".into())),
            LsTask::new(task("@3#1 lint dead 2"), None),
            LsTask::new(task("@5#1 bash running shell"), None),
            LsTask::new(task("@6#1 b dead SIGKILL ours"), None),
            LsTask::new(task("@7#1 flaky dead 1"), None).with_restart(Some(next), None),
        ]);
        assert_eq!(
            table(&view, 65_000),
            [
                "@1 api `make test` running, started 1 min ago: last line",
                "@12 migrate `make test` asks for input, started 1 min ago, run 2, listens on 80, 3000: Proceed? [y/N]",
                "@3 lint `make test` exited with code 2, 5 s ago: last line",
                "@5 bash running, started 1 min ago, a shell: last line",
                "@6 b `make test` was killed by SIGKILL, 5 s ago: last line",
                "@7 flaky `make test` restarting: exited with code 1, restarts in 4 s, 1 of 5, 5 s ago: last line",
            ]
        );
    }

    #[test]
    fn a_list_is_bounded() {
        let task = || LsTask::new(test_notation::task("@1 a running"), None);
        let lines = table(&view((0..250).map(|_| task()).collect()), 0);
        assert_eq!(lines.len(), MOST_TASKS + 1);
        assert!(lines[MOST_TASKS].starts_with("150 more tasks"));
        assert_eq!(
            table(&view(Vec::new()), 0),
            ["no tasks; run_task starts one"]
        );
    }
}

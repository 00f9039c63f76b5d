//! Keeping the output of runs that end, before their panes are used again or go.

use super::hub::Hub;
use crate::archive::{self, About};
use crate::engine::Effect;
use crate::model::{Body, EventKind, Task, WindowId};
use crate::tmux::{self, Style};
use crate::wait::Cursor;

/// Returns the windows whose runs these effects tell to have ended and that still show them.
pub(super) fn ended(effects: &[Effect]) -> Vec<(WindowId, Option<u32>)> {
    let records = effects.iter().flat_map(|effect| match effect {
        Effect::Append(records) => records.as_slice(),
        Effect::Status(_) => &[],
    });
    let ended = records.filter_map(|record| match &record.body {
        Body::Event(event) => match event.kind {
            EventKind::Exited { replaced: None } => Some((event.task.window, event.task.run)),
            EventKind::Exited { replaced: Some(_) }
            | EventKind::Started { .. }
            | EventKind::Notify { .. }
            | EventKind::Input { .. }
            | EventKind::InputResolved { .. }
            | EventKind::Disappeared { .. } => None,
        },
        Body::Notice { .. } | Body::FollowUp { .. } => None,
    });
    ended.collect()
}

/// Keeps the output of these runs.
pub(super) async fn keep(hub: &mut Hub, runs: &[(WindowId, Option<u32>)]) {
    for (window, run) in runs {
        let task = hub
            .engine
            .before()
            .and_then(|look| look.tasks.get(window))
            .cloned();
        if let Some(task) = task.filter(|task| task.run == *run) {
            keep_run(hub, &task).await;
        }
    }
}

/// Keeps what the live run of this name has written so far: the next run takes its place.
pub(super) async fn keep_replaced(hub: &mut Hub, name: &str) {
    let tasks = hub
        .engine
        .before()
        .into_iter()
        .flat_map(|look| look.tasks.values());
    let live = tasks
        .filter(|task| task.name == name && task.is_alive())
        .cloned();
    for task in live.collect::<Vec<_>>() {
        keep_run(hub, &task).await;
    }
}

async fn keep_run(hub: &mut Hub, task: &Task) {
    let (Some(pane), Some(run), Some(life)) = (task.pane, task.run, hub.watch.life()) else {
        return;
    };
    if hub.kept.runs == 0 {
        return;
    }
    let life = Cursor::life_of(life);
    let log = match tmux::read_log(&mut hub.watch.connection(), pane, Style::Plain).await {
        Ok(log) => log,
        Err(error) => {
            tracing::warn!(%error, %pane, "could not read the output of a run that ended");
            return;
        }
    };
    let exit = task.exit().cloned().unwrap_or_default();
    let about = About {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
        run,
        current_command: task.command.clone(),
        task_cwd: task.cwd.clone(),
        started_at: task.started_at,
        ended_at: task.ended_at,
        exit_code: exit.code,
        exit_signal: exit.signal.map(|signal| signal.to_string()),
    };
    let folder = hub.place.runs();
    if let Err(error) = archive::keep(&folder, &life, &about, &log.lines, hub.kept) {
        tracing::warn!(%error, "could not keep the output of a run that ended");
    }
}

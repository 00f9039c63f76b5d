//! Keeping the output of runs that end, before their panes are used again or go.

use std::io;

use tokio::sync::oneshot;

use super::hub::Hub;
use crate::archive::About;
use crate::engine::Effect;
use crate::model::{Body, EventKind, SessionLife, Task, WindowId};
use crate::paths::Paths;
use crate::store::KeptRun;
use crate::tmux::{self, Style, TmuxError};
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

/// Keeps the output of these runs. It is written in the background.
pub(super) async fn keep(hub: &mut Hub, runs: &[(WindowId, Option<u32>)]) {
    for (window, run) in runs {
        let task = hub
            .engine
            .before()
            .and_then(|look| look.tasks.get(window))
            .cloned();
        if let (Some(task), Some(life)) = (
            task.filter(|task| task.run == *run),
            hub.watch.life().cloned(),
        ) {
            let paths = hub.paths.clone();
            if let Err(error) = hand_over(hub, &life, &paths, &task).await {
                log(&task, &error);
            }
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
        let Some(life) = hub.watch.life().cloned() else {
            return;
        };
        let paths = hub.paths.clone();
        if let Err(error) = keep_of(hub, &life, &paths, &task).await {
            log(&task, &error);
        }
    }
}

fn log(task: &Task, error: &KeepError) {
    tracing::warn!(%error, window = %task.window, "could not keep the output of a run");
}

/// Why output was not kept.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// It could not be read.
    #[error("could not read the output of a run: {0}")]
    Tmux(#[from] TmuxError),
    /// It could not be written.
    #[error("could not write the output of a run: {0}")]
    Io(#[from] io::Error),
    /// The thread that writes it has gone.
    #[error("nothing writes the output of runs any more")]
    Gone(#[from] oneshot::error::RecvError),
}

/// Keeps the output of a run of the session that has this life and its files at `paths`, and waits
/// until it is written.
pub(super) async fn keep_of(
    hub: &mut Hub,
    life: &SessionLife,
    paths: &Paths,
    task: &Task,
) -> Result<(), KeepError> {
    if let Some(kept) = hand_over(hub, life, paths, task).await? {
        kept.await??;
    }
    Ok(())
}

/// Reads the output of a run and hands it over to be written; `None` when nothing of it is kept.
async fn hand_over(
    hub: &mut Hub,
    life: &SessionLife,
    paths: &Paths,
    task: &Task,
) -> Result<Option<oneshot::Receiver<io::Result<()>>>, KeepError> {
    let (Some(pane), Some(run)) = (task.pane, task.run) else {
        return Ok(None);
    };
    if hub.kept.runs == 0 {
        return Ok(None);
    }
    let log = tmux::read_log(&mut hub.watch.connection(), pane, Style::Plain).await?;
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
    Ok(Some(hub.archiver.keep(KeptRun {
        folder: paths.runs(),
        life: Cursor::life_of(life),
        about,
        lines: log.lines,
        limits: hub.kept,
    })))
}

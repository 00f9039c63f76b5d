//! The tasks, and their number by state.

use super::error::OpsError;
use super::messages::{messages, of_files};
use super::session::Session;
use crate::client::ClientError;
use crate::clock;
use crate::model::{Snapshot, StatusCounts, WindowId};
use crate::prompt;
use crate::wire::{LsTask, LsView, Messages, Request, Response, SnapshotLine, TaskFields};

/// Returns the tasks as the daemon sees them; without a daemon, those of a look. A missing session
/// has none.
pub(crate) async fn list(session: &mut Session) -> Result<LsView, OpsError> {
    match session.ask_by_name(&Request::List).await? {
        Some(Response::List(mut view)) => {
            if !view.tasks.is_empty()
                && let Ok(Some(messages)) = messages(session).await
            {
                add_delivery(&mut view, &messages);
            }
            Ok(view)
        }
        Some(_) => Err(ClientError::Unexpected.into()),
        None => look(session).await,
    }
}

/// Returns the tasks of a look.
pub(super) async fn look(session: &Session) -> Result<LsView, OpsError> {
    let snapshot = session.look().await?;
    // A daemon that does not answer knows more than the files.
    let is_known = !session.is_daemon_silent && !snapshot.tasks.is_empty();
    let messages = is_known.then(|| of_files(&session.paths).ok()).flatten();
    let messages = messages.map(|mut messages| {
        messages.follow_ups.forget_gone(&snapshot);
        messages
    });
    let mut view = unsupervised(snapshot);
    if let Some(messages) = messages {
        add_delivery(&mut view, &messages);
    }
    Ok(view)
}

/// Adds whether the messages about each task were delivered.
pub(super) fn add_delivery(view: &mut LsView, messages: &Messages) {
    let now = clock::now().wall;
    for listed in &mut view.tasks {
        let (owner, window) = (listed.task.owner.as_deref(), &listed.task.window_id);
        listed.delivery = messages.of_task(owner, window, now);
    }
}

/// Returns the task of this name or window id.
pub(crate) async fn find(session: &mut Session, name: &str) -> Result<TaskFields, OpsError> {
    Ok(find_listed(session, name).await?.task)
}

/// Returns the task of this name or window id, with what a daemon knows of it.
pub(super) async fn find_listed(session: &mut Session, name: &str) -> Result<LsTask, OpsError> {
    let request = Request::Find {
        task: name.to_owned(),
    };
    match session.ask_by_name(&request).await? {
        Some(Response::Found(found)) => Ok(*found),
        Some(_) => Err(ClientError::Unexpected.into()),
        None => {
            let task = session.task(name).await?;
            Ok(LsTask::new(TaskFields::from(&*task), None, None).with_name_of(&task))
        }
    }
}

/// Counts the tasks.
pub(crate) async fn count(session: &mut Session) -> Result<StatusCounts, OpsError> {
    match session.ask_by_name(&Request::Count).await? {
        Some(Response::Counted(counts)) => Ok(counts),
        Some(_) => Err(ClientError::Unexpected.into()),
        None => Ok(counts_of(&unsupervised(session.look().await?))),
    }
}

/// Returns the view of a session without a daemon: waiting is judged by the screens.
fn unsupervised(snapshot: Snapshot) -> LsView {
    let line = SnapshotLine::from(&snapshot);
    let view = LsView::new(line, |task| {
        let window: Option<WindowId> = task.window_id.parse().ok();
        let task_now = window.and_then(|window| snapshot.tasks.get(&window));
        let found = task_now
            .filter(|task| task.is_alive())
            .and_then(|task| prompt::find(&task.screen));
        let listed = LsTask::new(task, found.map(|found| found.prompt.text), None);
        match task_now {
            Some(task) => listed.with_name_of(task),
            None => listed,
        }
    });
    LsView {
        supervised: false,
        ..view
    }
}

/// Counts the tasks of a view.
fn counts_of(view: &LsView) -> StatusCounts {
    let mut counts = StatusCounts {
        exists: view.exists,
        ..StatusCounts::default()
    };
    for listed in &view.tasks {
        if listed.task.dead {
            counts.dead += 1;
            counts.failed += usize::from(listed.task.exit_code != Some(0));
        } else if listed.waiting_for.is_some() {
            counts.waiting += 1;
        } else {
            counts.running += 1;
            counts.stalled += usize::from(listed.stalled_ms.is_some());
        }
    }
    counts
}

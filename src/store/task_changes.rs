//! The changes of the tasks, for readers who subscribe to them.

use std::sync::Arc;

use tokio::sync::watch;

use crate::model::{BoardTask, TaskBoard, WindowId};
use crate::wire::{LiveRecord, LsTask, TaskFields};

/// The changes of the tasks for one reader. A reader that falls behind gets several changes as one.
#[derive(Debug)]
pub(super) struct TaskChanges {
    board: watch::Receiver<Arc<TaskBoard>>,
    /// What the reader has; `None` before the first record.
    sent: Option<Arc<TaskBoard>>,
}

impl TaskChanges {
    pub(super) fn new(board: watch::Receiver<Arc<TaskBoard>>) -> Self {
        Self { board, sent: None }
    }

    /// Resolves when there may be a record; never once there will be none.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn changed(&mut self) {
        if self.board.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns the record that brings the reader up to date: at first all tasks, then what has
    /// changed since the record before; `None` when nothing has.
    pub(super) fn next_record(&mut self) -> Option<LiveRecord> {
        let board = Arc::clone(&self.board.borrow_and_update());
        let before = self.sent.replace(Arc::clone(&board));
        let had = |window: &WindowId| before.as_ref().and_then(|had| had.tasks.get(window));
        let changed = board
            .tasks
            .iter()
            .filter(|(window, task)| had(window).is_none_or(|had| !task.is_same(had)));
        let tasks: Vec<LsTask> = changed.map(|(_, task)| listed(task)).collect();
        let had_before = before.iter().flat_map(|before| before.tasks.keys());
        let removed: Vec<String> = had_before
            .filter(|window| !board.tasks.contains_key(window))
            .map(ToString::to_string)
            .collect();
        let is_same = before
            .as_ref()
            .is_some_and(|before| before.exists == board.exists);
        if is_same && tasks.is_empty() && removed.is_empty() {
            return None;
        }
        Some(LiveRecord::Tasks {
            exists: board.exists,
            complete: before.is_none(),
            tasks,
            removed,
        })
    }
}

/// Returns a task as it is listed.
pub(crate) fn listed(task: &BoardTask) -> LsTask {
    let fields = TaskFields::from(&*task.task);
    LsTask::new(fields, task.waiting_for.clone(), task.stalled_ms)
        .with_name_of(&task.task)
        .with_usual(task.usual_ms)
        .with_restart(task.next_restart, task.cannot_restart.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    fn board(lines: &[&str]) -> Arc<TaskBoard> {
        let tasks = lines.iter().map(|line| Arc::new(task(line)));
        let tasks = tasks.map(|task| {
            let board_task = BoardTask {
                task: Arc::clone(&task),
                waiting_for: None,
                stalled_ms: None,
                usual_ms: None,
                next_restart: None,
                cannot_restart: None,
            };
            (task.window, board_task)
        });
        Arc::new(TaskBoard {
            exists: !lines.is_empty(),
            tasks: tasks.collect(),
        })
    }

    /// The record as `exists complete changed removed`.
    fn next(changes: &mut TaskChanges) -> Option<(bool, bool, Vec<String>, Vec<String>)> {
        let LiveRecord::Tasks {
            exists,
            complete,
            tasks,
            removed,
        } = changes.next_record()?
        else {
            panic!("another record");
        };
        let ids = tasks.into_iter().map(|task| task.task.window_id);
        Some((exists, complete, ids.collect(), removed))
    }

    fn ids(ids: &[&str]) -> Vec<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_reader_gets_all_tasks_and_then_what_changes() {
        let sender = watch::Sender::new(board(&["@1 a running", "@2 b running"]));
        let mut changes = TaskChanges::new(sender.subscribe());
        let first = Some((true, true, ids(&["@1", "@2"]), ids(&[])));
        assert_eq!(next(&mut changes), first);
        assert_eq!(next(&mut changes), None);
        // The same tasks from another look.
        sender.send_replace(board(&["@1 a running", "@2 b running"]));
        assert_eq!(next(&mut changes), None);
        // Two looks, of which a slow reader sees the last.
        sender.send_replace(board(&["@1 a running", "@2 b running", "@3 c running"]));
        sender.send_replace(board(&["@1 a dead 0", "@3 c running"]));
        let both = Some((true, false, ids(&["@1", "@3"]), ids(&["@2"])));
        assert_eq!(next(&mut changes), both);
        sender.send_replace(board(&[]));
        let gone = Some((false, false, ids(&[]), ids(&["@1", "@3"])));
        assert_eq!(next(&mut changes), gone);
    }

    #[test]
    fn a_question_is_a_change_and_a_silence_that_goes_on_is_none() {
        let with = |waiting_for: Option<&str>, stalled_ms| {
            let mut board = Arc::unwrap_or_clone(board(&["@1 a running"]));
            let task = board.tasks.get_mut(&WindowId(1)).unwrap();
            task.waiting_for = waiting_for.map(ToOwned::to_owned);
            task.stalled_ms = stalled_ms;
            Arc::new(board)
        };
        let sender = watch::Sender::new(with(None, None));
        let mut changes = TaskChanges::new(sender.subscribe());
        assert!(next(&mut changes).is_some());
        for (board, is_change) in [
            (with(Some("Name:"), None), true),
            (with(None, Some(1)), true),
            (with(None, Some(2)), false),
            (with(None, None), true),
        ] {
            sender.send_replace(board);
            assert_eq!(next(&mut changes).is_some(), is_change);
        }
    }
}

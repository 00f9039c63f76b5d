//! The output of a task's run: read whole or from a cursor on; archived when the run has ended or is to be replaced.

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::clock;
use crate::config::LogsConfig;
use crate::config::paths::Paths;
use crate::model::{Error, ErrorKind, SessionLife, Task};
use crate::rules::terminal::{Extent, History};
use crate::rules::wait::{Anchor, Cursor};
use crate::rules::wire::{LogRequest, TaskLog};
use crate::store::archive::RunInfo;
use crate::store::{Archiver, KeptRun};
use crate::tmux::{self, Connection};

/// How many rows of the history are read at first for each line that is wanted, and how many besides: lines of up to
/// eight times the width of the pane are common, and blank rows at the end of the screen are no lines.
const ROWS_PER_LINE: usize = 8;
const MORE_ROWS: usize = 200;

/// Reads the output of a task's present run, whose first lines were read earlier.
pub(crate) async fn read_task_log(
    connection: &mut Connection<'_>,
    life: &SessionLife,
    task: &Task,
    first: &[String],
    request: &LogRequest,
) -> Result<TaskLog, Error> {
    let pane = task.pane;
    let pane = pane.ok_or_else(|| Error::failed(format!("{} has no pane", task.name)))?;
    let run = task.run.unwrap_or(1);
    let (lines, end, gap) = match &request.since {
        None => {
            let mut end = match (request.lines, request.history_rows) {
                (Some(most), None) => {
                    // Only the end of a long history is read, unless its lines do not fit into that many rows.
                    let rows = most.saturating_mul(ROWS_PER_LINE).saturating_add(MORE_ROWS);
                    let are_enough = |read: &[String]| read.len() >= most;
                    let end = tmux::read_end(connection, pane, request.raw, rows, are_enough);
                    let mut end = end.await?;
                    end.lines.drain(..end.lines.len().saturating_sub(most));
                    end
                }
                (_, rows) => {
                    let history = rows.map_or(History::Whole, History::LastRows);
                    let extent = Extent::of_lines(history, request.raw);
                    tmux::read_output(connection, pane, extent).await?
                }
            };
            let lines = std::mem::take(&mut end.lines);
            let has_enough = request.lines.is_some_and(|most| lines.len() >= most);
            let is_end = request.history_rows.is_some_and(|rows| rows < end.history);
            let (lines, gap) = if has_enough || is_end {
                (lines, None)
            } else {
                let first = if request.raw { &[] } else { first };
                end.with_first_lines(first, lines)
            };
            (lines, end, gap)
        }
        Some(text) => {
            let anchor = Cursor::anchor_in(text, Some(life), task.window, Some(run))?;
            let output = tmux::read_output(connection, pane, Extent::ALL).await?;
            let Some(row) = anchor.locate(&output) else {
                let why = "what the cursor pointed at is no longer in the task's history";
                return Err(Error::new(ErrorKind::Impossible, why)
                    .with_hint("without --since, `tmux-task logs` prints what is left"));
            };
            let lines = output.lines_from(row, anchor.column);
            (lines, output, None)
        }
    };
    let cursor = Cursor::new(life, task.window, run, Anchor::at_cursor(&end));
    Ok(TaskLog {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
        run: task.run,
        lines,
        cursor: Some(cursor.to_string()),
        may_lack_beginning: gap.is_some(),
        gap_after: gap.filter(|gap| *gap > 0),
        gone: false,
    })
}

/// Reads the output of runs and queues it for writing.
#[derive(Debug, Clone)]
pub(super) struct RunArchiver {
    archiver: Arc<Archiver>,
    limits: LogsConfig,
}

impl RunArchiver {
    pub(super) fn new(archiver: Arc<Archiver>, limits: LogsConfig) -> Self {
        Self { archiver, limits }
    }

    /// Archives the output of a run of this life of the session, whose files are at `paths`, under its present name,
    /// and waits until it is written.
    pub(super) async fn keep(
        &self,
        connection: &mut Connection<'_>,
        life: &SessionLife,
        paths: &Paths,
        task: &Task,
    ) -> Result<(), Error> {
        let kept = self.hand_over(connection, life, paths, task, &task.name, (&[], None));
        let Some(kept) = kept.await? else {
            return Ok(());
        };
        let gone = |_| Error::failed("nothing writes the output of runs any more");
        let written = kept.await.map_err(gone)?;
        written.map_err(|error| Error::io("could not write the output of a run", &error))
    }

    /// Reads the output of a run and queues it for writing, under the name to which its number belongs; `None` when
    /// there is nothing to archive, for example when its pane has another run by now. `first` are its first lines,
    /// `reason` is why it was ended; a live run is about to be replaced.
    pub(super) async fn hand_over(
        &self,
        connection: &mut Connection<'_>,
        life: &SessionLife,
        paths: &Paths,
        task: &Task,
        name: &str,
        (first, reason): (&[String], Option<&'static str>),
    ) -> Result<Option<oneshot::Receiver<io::Result<()>>>, Error> {
        let (Some(pane), Some(run)) = (task.pane, task.run) else {
            return Ok(None);
        };
        if self.limits.keep_runs == 0 {
            return Ok(None);
        }
        let failed = |error| Error::failed(format!("could not read the output of a run: {error}"));
        let extent = Extent::of_lines(History::Whole, false);
        let output = tmux::read_output(connection, pane, extent).await;
        let mut output = output.map_err(failed)?;
        let is_running_again = !task.is_alive() && !output.is_dead;
        let is_other = output.pid.is_some() && task.pid.is_some() && output.pid != task.pid;
        if is_running_again || is_other {
            tracing::debug!(window = %task.window, run, "the pane has another run by now");
            return Ok(None);
        }
        let left = std::mem::take(&mut output.lines);
        let (lines, gap_after) = output.with_first_lines(first, left);
        let exit = task.exit().cloned().unwrap_or_default();
        let is_replaced = task.is_alive() && !output.is_dead;
        let about = RunInfo {
            window_id: task.window.to_string(),
            window_name: name.to_owned(),
            run,
            current_command: task.command.clone(),
            task_cwd: task.cwd.clone(),
            started_at: task.started_at,
            ended_at: task.ended_at.or_else(|| Some(clock::now().wall)),
            exit_code: exit.code,
            exit_signal: exit.signal.map(|signal| signal.to_string()),
            reason: reason
                .or(is_replaced.then_some("replaced"))
                .map(str::to_owned),
            gap_after,
        };
        Ok(Some(self.archiver.keep(KeptRun {
            folder: paths.runs(),
            life: Cursor::life_of(life),
            about,
            lines,
            limits: self.limits,
        })))
    }
}

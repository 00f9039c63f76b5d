//! Archives the output of a run that has ended or is about to be replaced.

use std::io;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::clock;
use crate::config::LogsConfig;
use crate::model::{Error, SessionLife, Task};
use crate::paths::Paths;
use crate::store::archive::{Limits, RunInfo};
use crate::store::{Archiver, KeptRun};
use crate::tmux::{self, Connection, History, Style};
use crate::wait::Cursor;

/// Reads the output of runs and queues it for writing.
#[derive(Debug, Clone)]
pub(super) struct RunArchiver {
    archiver: Arc<Archiver>,
    limits: Limits,
}

impl RunArchiver {
    pub(super) fn new(archiver: Arc<Archiver>, logs: &LogsConfig) -> Self {
        let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
        Self {
            archiver,
            limits: Limits {
                lines: size(logs.keep_lines),
                runs: size(logs.keep_runs),
                bytes: logs.keep_mib << 20,
            },
        }
    }

    /// Archives the output of a run of this life of the session, whose files are at `paths`, and
    /// waits until it is written. The number of the run belongs to its present name.
    pub(super) async fn keep(
        &self,
        connection: &mut Connection<'_>,
        life: &SessionLife,
        paths: &Paths,
        task: &Task,
    ) -> Result<(), Error> {
        if let Some(kept) = self
            .hand_over(connection, life, paths, task, &task.name, (&[], None))
            .await?
        {
            let gone = |_| Error::failed("nothing writes the output of runs any more");
            let written = kept.await.map_err(gone)?;
            written.map_err(|error| Error::io("could not write the output of a run", &error))?;
        }
        Ok(())
    }

    /// Reads the output of a run and queues it for writing, under the name to which its number belongs;
    /// `None` when there is nothing to archive, for example when its pane has another run by now.
    /// `first` are its first lines, `reason` is why it was ended; a live run is about to be replaced.
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
        if self.limits.runs == 0 {
            return Ok(None);
        }
        let log = tmux::read_log(connection, pane, Style::Plain, History::Whole).await;
        let log = log.map_err(|error| {
            Error::failed(format!("could not read the output of a run: {error}"))
        })?;
        let is_running_again = !task.is_alive() && !log.end.is_dead;
        let is_other = log.end.pid.is_some() && task.pid.is_some() && log.end.pid != task.pid;
        if is_running_again || is_other {
            tracing::debug!(window = %task.window, run, "the pane has another run by now");
            return Ok(None);
        }
        let (lines, gap_after) = log.end.with_first_lines(first, log.lines);
        let exit = task.exit().cloned().unwrap_or_default();
        let is_replaced = task.is_alive() && !log.end.is_dead;
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

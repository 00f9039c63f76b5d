//! Finds a pattern in the output of tasks.

use std::sync::Arc;

use super::error::OpsError;
use super::session::Session;
use crate::model::Task;
use crate::terminal::{Line, Pattern};
use crate::tmux::{self, Style};

/// A line that matches.
#[derive(Debug)]
pub(crate) struct Match {
    pub(crate) task: Arc<Task>,
    /// The line number in the pane's contents, from 1.
    pub(crate) line_number: usize,
    pub(crate) line: String,
}

/// Returns the matching lines of the task of this name, or of all tasks.
pub(crate) async fn search(
    session: &Session,
    name: Option<&str>,
    pattern: &Pattern,
) -> Result<Vec<Match>, OpsError> {
    let tasks = match name {
        Some(name) => vec![session.task(name).await?],
        None => {
            let look = session.look().await?;
            if !look.exists {
                return Err(session.missing());
            }
            look.tasks.into_values().collect()
        }
    };
    let mut found = Vec::new();
    for task in &tasks {
        let Some(pane) = task.pane else { continue };
        let log = tmux::read_log(&mut session.connection(), pane, Style::Plain).await?;
        for (index, line) in log.lines.into_iter().enumerate() {
            let runs = [(line.len(), 1)];
            if pattern.find(&Line::new(&line, &runs, true), 0).is_some() {
                found.push(Match {
                    task: Arc::clone(task),
                    line_number: index + 1,
                    line,
                });
            }
        }
    }
    Ok(found)
}

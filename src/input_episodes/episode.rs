//! A prompt on a task's screen, reported or not.

use std::sync::Arc;
use std::time::Instant;

use crate::model::{Event, EventKind, Life, Now, ReadCall, Task};
use crate::prompt::PromptMatch;

#[derive(Debug, Clone)]
pub(super) struct Episode {
    /// The task at the last look at which the prompt was there.
    pub(super) task: Arc<Task>,
    pub(super) found: PromptMatch,
    pub(super) state: Phase,
    /// The call in which the terminal was read when it was reported, or a later one of the same
    /// episode.
    pub(super) read: Option<ReadCall>,
    /// The number that rises when input was read, at that time.
    pub(super) n_reads: Option<u64>,
    /// Whether there was evidence on the terminal.
    pub(super) is_by_terminal: bool,
    /// Whether the terminal was in line mode: then what was read is an answer.
    pub(super) takes_lines: bool,
}

impl Episode {
    pub(super) fn is_reported(&self) -> bool {
        match self.state {
            Phase::Reported { .. } => true,
            Phase::Candidate { .. } => false,
        }
    }

    /// Whether it was reported before a restart, and nothing is known of what was read since.
    pub(super) fn is_restored(&self) -> bool {
        match self.state {
            Phase::Reported { since, .. } => since.is_none() && self.n_reads.is_none(),
            Phase::Candidate { .. } => false,
        }
    }
}

/// The phase of an episode.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Not reported yet. `since` is the first look at this screen. `due_beside` is when it can be
    /// reported although rows beside it move; `None` where it cannot.
    Candidate {
        since: Instant,
        due_beside: Option<Instant>,
    },
    /// Reported as `input`, at `since`; `None` if that was before a restart. If it has gone from the
    /// screen although nothing was read, it may be drawn again: until `gone_by` it is not resolved.
    Reported {
        since: Option<Now>,
        gone_by: Option<Instant>,
    },
}

/// Returns the episode when nothing is known of the pane: a reported one stays, an unreported one
/// has to be observed again.
pub(super) fn without_evidence(before: Episode, task: &Task) -> Option<Episode> {
    match before.state {
        Phase::Reported { .. } => Some(Episode {
            task: Arc::new(Task {
                screen: before.task.screen.clone(),
                ..task.clone()
            }),
            ..before
        }),
        Phase::Candidate { .. } => None,
    }
}

/// Whether the look shows if the task waits: the pane may be unknown, and a dead one does not wait.
pub(super) fn is_known(task: &Task) -> bool {
    match task.life {
        Life::Unknown => false,
        Life::Alive => task.pane.is_some(),
        Life::Dead(_) => true,
    }
}

pub(super) fn resolve(episode: Episode, events: &mut Vec<Event>) {
    match episode.state {
        Phase::Reported { .. } => {
            let kind = EventKind::InputResolved {
                prompt: episode.found.prompt,
            };
            events.push(Event {
                kind,
                task: Arc::unwrap_or_clone(episode.task),
            });
        }
        Phase::Candidate { .. } => {}
    }
}

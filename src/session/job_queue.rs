//! Whose turn it is to use the link: one job at a time, the most urgent first; and what is ordered until then.
//!
//! Answers and rules rely on this order: first the last output of a run, so that its waits can be
//! judged; then the ends of output for answers, looks, commands, the reads with which waits begin,
//! jobs that can be delayed, slices of sweeps, and last archiving.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use super::input::{LookOrder, PaneRead};
use super::listeners::Beginning;
use super::look_schedule::Due;
use super::promise::Resolver;
use crate::model::{Error, PaneId, Task};
use crate::rules::terminal::PaneOutput;
use crate::rules::wait::{Cursor, Spec};

/// What a story uses the link for, the most urgent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Turn {
    /// To read the last output of a run.
    LastOutput,
    /// To read the end of a task's output, for answers.
    End,
    Look,
    Command,
    /// To read a pane that was paused.
    TakeUp,
    /// To read a pane, for new listeners or its size.
    Read,
    /// For what can be delayed.
    Chore,
    /// To look at the next slice of all windows.
    Slice,
    Archive,
}

#[derive(Debug, Default)]
pub(super) struct JobQueue {
    /// The story of the running job; `None` while the link is idle.
    pub(super) running: Option<Resolver<Result<(), Error>>>,
    waiting: BTreeMap<Turn, VecDeque<Resolver<()>>>,
    pub(super) look: Option<QueuedLook>,
    pub(super) is_looking: bool,
    /// Whether a sweep is ordered, or has further slices.
    pub(super) is_sweeping: bool,
    pub(super) last_output_of: Option<PaneId>,
    pub(super) ends: VecDeque<EndRead>,
    /// What begins with the next read of a pane, one for all of it.
    pub(super) begins: BTreeMap<PaneId, Beginning>,
    /// The panes that listeners begin to follow.
    pub(super) beginning: Vec<PaneId>,
    /// Reads whose outcomes come with the output of their panes, in order.
    pub(super) asked: VecDeque<(PaneId, Resolver<PaneRead>)>,
    /// The ended runs whose output is to be archived, with why they were ended.
    pub(super) archives: VecDeque<(Arc<Task>, Option<&'static str>)>,
}

impl JobQueue {
    pub(super) fn wait(&mut self, turn: Turn, resolver: Resolver<()>) {
        self.waiting.entry(turn).or_default().push_back(resolver);
    }

    /// Takes the story whose turn it is, while no job runs. Without `may_look` only looks are taken that a
    /// story waits for.
    pub(super) fn next(&mut self, may_look: bool) -> Option<Resolver<()>> {
        if self.running.is_some() {
            return None;
        }
        let mut then = self.look.iter().flat_map(|look| &look.then);
        let is_look_wanted = may_look || then.any(Resolver::is_wanted);
        let turns = self.waiting.iter_mut().filter(|(turn, _)| {
            (is_look_wanted || **turn != Turn::Look)
                && (may_look || **turn != Turn::Slice)
                // After the last slice.
                && (!may_look || !self.is_sweeping || **turn != Turn::Archive)
        });
        turns
            .flat_map(|(_, waiting)| std::iter::from_fn(move || waiting.pop_front()))
            .find(Resolver::is_wanted)
    }

    pub(super) fn has_look(&self) -> bool {
        self.look.is_some() || self.is_looking
    }

    /// Whether the outcome of a read of this pane comes with its output.
    pub(super) fn is_asked(&self, pane: PaneId) -> bool {
        self.asked.iter().any(|(asked, _)| *asked == pane)
    }

    /// Returns the parameters of the waits that begin with a read that has not begun.
    pub(super) fn beginning_specs(&self) -> impl Iterator<Item = &Spec> {
        let waits = self.begins.values().flat_map(|begins| &begins.waits);
        waits.map(|active| &active.wait.spec)
    }
}

/// A look at windows to take, why, and who waits for it.
#[derive(Debug, Default)]
pub(super) struct QueuedLook {
    pub(super) order: LookOrder,
    pub(super) why: Due,
    pub(super) then: Vec<Resolver<()>>,
}

/// The end of a task's output; `None` if it does not exist any more.
pub(super) type OutputEnd = Option<Rc<(Cursor, Box<PaneOutput>)>>;

/// The read of the end of a pane's output, for all that need it.
#[derive(Debug)]
pub(super) struct EndRead {
    pub(super) pane: PaneId,
    pub(super) lines: usize,
    pub(super) task: Arc<Task>,
    pub(super) readers: Vec<Resolver<OutputEnd>>,
}

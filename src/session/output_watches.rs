//! Runs whose launch asked to be notified of lines of their output, `run --notify-on`: each is followed
//! and searched from its first byte to its last.

use std::collections::BTreeMap;
use std::time::Instant;

use super::pane_stream::PaneStream;
use super::wait_entry::{WatchEntry, search_since};
use crate::model::{Now, OutputMatches, PaneId, SessionLife, Snapshot, Task, WindowId};
use crate::terminal::{PaneOutput, Stamp};
use crate::wait::{Anchor, Cursor, OutputWatch};

/// The runs that are searched, by window.
#[derive(Debug, Default)]
pub(super) struct OutputWatches {
    runs: BTreeMap<WindowId, WatchedRun>,
    /// Up to where the last daemon has searched and reported.
    restored: BTreeMap<WindowId, Cursor>,
}

/// A run that is searched.
#[derive(Debug)]
struct WatchedRun {
    run: Option<u32>,
    pane: PaneId,
    watch: OutputWatch,
    state: WatchState,
    /// Up to here everything is searched and reported: the search begins here if it has to begin again.
    settled: Anchor,
    /// Whether the look that reports what was found is ordered.
    is_ordered: bool,
}

/// Whether a run's output is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchState {
    /// The read of its pane, from which on it is followed, is ordered.
    Beginning,
    Following,
    /// It was followed, or could not be read. The next look orders another read.
    Lost,
}

impl OutputWatches {
    /// Returns the watches of a daemon that continues from there.
    pub(super) fn restored(searched: BTreeMap<WindowId, String>) -> Self {
        let cursors = searched.into_iter();
        Self {
            restored: cursors
                .filter_map(|(window, cursor)| Some((window, cursor.parse().ok()?)))
                .collect(),
            ..Self::default()
        }
    }

    /// Whether a pane's output is searched as it comes.
    pub(super) fn follow(&self, pane: PaneId) -> bool {
        let mut runs = self.runs.values();
        runs.any(|run| run.pane == pane && run.state == WatchState::Following)
    }

    /// Returns what searches the output of this pane as it comes.
    pub(super) fn in_pane(&mut self, pane: PaneId) -> Option<&mut OutputWatch> {
        let mut runs = self.runs.values_mut();
        let run = runs.find(|run| run.pane == pane && run.state == WatchState::Following);
        run.map(|run| &mut run.watch)
    }

    /// Searches the output behind an anchor in a pane, of which not everything has arrived: of its
    /// present run, or of this one. `since` is the stamp of the output that is searched then.
    pub(super) fn search_rest(
        &mut self,
        pane: PaneId,
        anchor: Option<&Anchor>,
        output: &PaneOutput,
        is_over: bool,
        now: Now,
    ) {
        if let Some(watch) = self.in_pane(pane) {
            search_since(watch, anchor, output, is_over);
            watch.on_output(now.mono);
        }
    }

    /// Whether the search of a run is about to begin.
    pub(super) fn is_beginning(&self, window: WindowId) -> bool {
        let run = self.runs.get(&window);
        run.is_some_and(|run| run.state == WatchState::Beginning)
    }

    pub(super) fn is_following(&self, task: &Task) -> bool {
        let run = self.runs.get(&task.window);
        run.is_some_and(|run| run.run == task.run && run.state == WatchState::Following)
    }

    /// Begins to search a task's run with the next read of its pane. `life` is that of the session.
    /// Returns `None` for a task without patterns.
    pub(super) fn begin(&mut self, task: &Task, life: Option<&SessionLife>) -> Option<WatchEntry> {
        let watch = OutputWatch::new(task.settings.notify_on.as_ref()?).ok()?;
        let pane = task.pane?;
        let before = self.runs.remove(&task.window);
        let mut run = before
            .filter(|run| run.run == task.run)
            .unwrap_or_else(|| WatchedRun {
                run: task.run,
                pane,
                watch,
                state: WatchState::Beginning,
                settled: self.restored_anchor(task, life).unwrap_or(Anchor::START),
                is_ordered: false,
            });
        run.state = WatchState::Beginning;
        let entry = WatchEntry {
            window: task.window,
            run: task.run,
            pid: task.pid,
            watch: run.watch.clone(),
            anchor: run.settled.clone(),
        };
        self.runs.insert(task.window, run);
        Some(entry)
    }

    fn restored_anchor(&mut self, task: &Task, life: Option<&SessionLife>) -> Option<Anchor> {
        let cursor = self.restored.remove(&task.window)?;
        let is_of_run = Some(cursor.run) == task.run
            && life.is_some_and(|life| Cursor::life_of(life) == cursor.life);
        is_of_run.then_some(cursor.anchor)
    }

    /// Continues with what the read of a pane has shown; from there on, output with a later stamp than
    /// `since` is searched.
    pub(super) fn begun(&mut self, entry: WatchEntry, since: Stamp, now: Now) {
        let run = self.runs.get_mut(&entry.window);
        if let Some(run) = run.filter(|run| run.run == entry.run) {
            run.watch = entry.watch;
            run.watch.count_from(since);
            run.watch.on_output(now.mono);
            run.state = WatchState::Following;
        }
    }

    /// Notes that this pane could not be read.
    pub(super) fn not_begun(&mut self, pane: PaneId) {
        let runs = self.runs.values_mut();
        for run in runs.filter(|run| run.pane == pane && run.state == WatchState::Beginning) {
            run.state = WatchState::Lost;
        }
    }

    /// Returns the windows about which there is something to report by now, each once until a look
    /// reports it.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<WindowId> {
        let mut due = Vec::new();
        for (window, run) in self.runs.iter_mut().filter(|(_, run)| !run.is_ordered) {
            run.is_ordered = run.watch.is_due(now);
            due.extend(run.is_ordered.then_some(*window));
        }
        due
    }

    /// Returns when [`OutputWatches::take_due`] may return something.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let runs = self.runs.values().filter(|run| !run.is_ordered);
        runs.filter_map(|run| run.watch.next_deadline()).min()
    }

    /// Takes what is to be reported with a look: what is due, and what else was found in runs that
    /// it shows as ended.
    pub(super) fn take_matches(
        &mut self,
        streams: &BTreeMap<PaneId, PaneStream>,
        look: &Snapshot,
        now: Now,
    ) -> Vec<(WindowId, Option<u32>, OutputMatches)> {
        let mut taken = Vec::new();
        for (window, run) in &mut self.runs {
            if !is_over(look, *window, run.run) && !run.watch.is_due(now.mono) {
                continue;
            }
            run.is_ordered = false;
            if let Some(mut matches) = run.watch.take(now.mono) {
                settle(run, streams.get(&run.pane));
                matches.cursor = cursor(look.life.as_ref(), *window, run);
                taken.push((*window, run.run, matches));
            }
        }
        taken
    }

    /// Notes that these panes are not followed any more: what was not reported is searched again.
    pub(super) fn lose(
        &mut self,
        streams: &BTreeMap<PaneId, PaneStream>,
        is_lost: impl Fn(PaneId) -> bool,
    ) {
        for run in self.runs.values_mut() {
            if run.state == WatchState::Following && is_lost(run.pane) {
                settle(run, streams.get(&run.pane));
                run.watch.forget();
                run.state = WatchState::Lost;
            }
        }
    }

    /// Returns up to where each run was searched and reported.
    pub(super) fn searched(
        &mut self,
        streams: &BTreeMap<PaneId, PaneStream>,
        life: Option<&SessionLife>,
    ) -> BTreeMap<WindowId, String> {
        let of_runs = self.runs.iter_mut().filter_map(|(window, run)| {
            settle(run, streams.get(&run.pane));
            Some((*window, cursor(life, *window, run)?))
        });
        let restored = self.restored.iter();
        let restored = restored.map(|(window, cursor)| (*window, cursor.to_string()));
        restored.chain(of_runs).collect()
    }

    /// Whether a look shows a run as ended that is searched as it is written.
    pub(super) fn has_ended(&self, look: &Snapshot) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|(window, run)| {
            run.state == WatchState::Following && is_over(look, *window, run.run)
        })
    }

    /// Ends the search of runs that have ended, and begins with those that have not begun. Returns their
    /// panes.
    pub(super) fn begin_all(&mut self, look: &Snapshot) -> Vec<(PaneId, WatchEntry)> {
        self.runs
            .retain(|window, run| !is_over(look, *window, run.run));
        let mut entries = Vec::new();
        for task in look.tasks.values().filter(|task| task.is_alive()) {
            let known = self.runs.get(&task.window);
            let is_known = known.is_some_and(|run| run.state != WatchState::Lost);
            let entry = match is_known {
                false => self.begin(task, look.life.as_ref()),
                true => None,
            };
            entries.extend(task.pane.zip(entry));
        }
        entries
    }
}

/// Whether a look does not show this run as alive.
fn is_over(look: &Snapshot, window: WindowId, run: Option<u32>) -> bool {
    let task = look.tasks.get(&window);
    !task.is_some_and(|task| task.is_alive() && task.run == run)
}

/// Notes the present end of a run's output, if all of it is reported and the end is known.
fn settle(run: &mut WatchedRun, stream: Option<&PaneStream>) {
    if run.state == WatchState::Following
        && run.watch.is_settled()
        && let Some(anchor) = stream.and_then(PaneStream::anchor)
    {
        run.settled = anchor;
    }
}

fn cursor(life: Option<&SessionLife>, window: WindowId, run: &WatchedRun) -> Option<String> {
    let cursor = Cursor {
        life: Cursor::life_of(life?),
        window,
        run: run.run?,
        anchor: run.settled.clone(),
    };
    Some(cursor.to_string())
}

//! The output of one followed pane as lines; and runs whose launch asked to be notified of lines,
//! `run --notify-on`: each is followed and searched from its first byte to its last.
//!
//! All waits on a pane share its stream, which begins with a capture and goes with the last of them. What
//! matches asks for a look, at most once in ten seconds, and is an event of that look. A look that shows the
//! end of such a run is held until its last output was searched, so that `output` comes before `exited`. Up to
//! where the output was searched and reported is in the event and in the saved snapshot: a search that has to
//! begin again, in this daemon or the next one, begins there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{Now, OutputMatches, PaneId, SessionLife, Snapshot, Task, WindowId, text};
use crate::rules::terminal::{Line, PaneOutput, Stamp, Terminal, comparable};
use crate::rules::wait::{Anchor, Cursor, OutputWatch};

/// The runs that are searched, by window.
#[derive(Debug, Default)]
pub(super) struct OutputWatches {
    runs: BTreeMap<WindowId, WatchedRun>,
    restored: BTreeMap<WindowId, String>,
}

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

impl WatchedRun {
    fn follows(&self, pane: PaneId) -> bool {
        self.pane == pane && self.state == WatchState::Following
    }
}

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
        Self {
            restored: searched,
            ..Self::default()
        }
    }

    /// Whether a pane's output is searched as it comes.
    pub(super) fn follow(&self, pane: PaneId) -> bool {
        self.runs.values().any(|run| run.follows(pane))
    }

    /// Returns what searches the output of this pane as it comes.
    pub(super) fn in_pane(&mut self, pane: PaneId) -> Option<&mut OutputWatch> {
        let run = self.runs.values_mut().find(|run| run.follows(pane));
        run.map(|run| &mut run.watch)
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

    /// Begins to search a run that has patterns with the next read of its pane, which is returned.
    pub(super) fn begin(&mut self, task: &Task, life: Option<&SessionLife>) -> Option<PaneId> {
        let watch = OutputWatch::new(task.settings.notify_on.as_ref()?).ok()?;
        let pane = task.pane?;
        let restored = self.restored.remove(&task.window);
        let anchor_in =
            |cursor: String| Cursor::anchor_in(&cursor, life, task.window, task.run).ok();
        let settled = restored.and_then(anchor_in).unwrap_or(Anchor::START);
        let new = WatchedRun {
            run: task.run,
            pane,
            watch,
            state: WatchState::Beginning,
            settled,
            is_ordered: false,
        };
        match self.runs.get_mut(&task.window) {
            Some(known) if known.run == task.run => known.state = WatchState::Beginning,
            _ => drop(self.runs.insert(task.window, new)),
        }
        Some(pane)
    }

    /// Searches a run in this read of its pane, and from there on output with a later stamp than `since`.
    pub(super) fn begun(&mut self, task: &Task, output: &PaneOutput, since: Stamp, now: Instant) {
        let run = self.runs.get_mut(&task.window);
        let Some(run) = run.filter(|run| run.run == task.run) else {
            return;
        };
        if is_other_run(output, task) {
            run.watch.on_loss();
            run.watch.on_output(now);
        } else {
            let anchor = Some(&run.settled);
            run.watch.read_since(anchor, output, false, now);
        }
        run.watch.count_from(since);
        run.state = WatchState::Following;
    }

    pub(super) fn not_begun(&mut self, pane: PaneId) {
        let runs = self.runs.values_mut();
        for run in runs.filter(|run| run.pane == pane && run.state == WatchState::Beginning) {
            run.state = WatchState::Lost;
        }
    }

    /// Returns the windows about which there is something to report, each once until a look reports it.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<WindowId> {
        let mut due = Vec::new();
        for (window, run) in self.runs.iter_mut().filter(|(_, run)| !run.is_ordered) {
            run.is_ordered = run.watch.is_due(now);
            due.extend(run.is_ordered.then_some(*window));
        }
        due
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let runs = self.runs.values().filter(|run| !run.is_ordered);
        runs.filter_map(|run| run.watch.next_deadline()).min()
    }

    /// Takes what is to be reported with a look: what is due, and what was found in runs that it shows as ended.
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

    pub(super) fn searched(
        &mut self,
        streams: &BTreeMap<PaneId, PaneStream>,
        life: Option<&SessionLife>,
    ) -> BTreeMap<WindowId, String> {
        let of_runs = self.runs.iter_mut().filter_map(|(window, run)| {
            settle(run, streams.get(&run.pane));
            Some((*window, cursor(life, *window, run)?))
        });
        let restored = self.restored.clone();
        restored.into_iter().chain(of_runs).collect()
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

    /// Whether a look shows a run as ended that is searched as it is written.
    pub(super) fn has_ended(&self, look: &Snapshot) -> bool {
        let mut runs = self.runs.iter();
        runs.any(|(window, run)| {
            run.state == WatchState::Following && is_over(look, *window, run.run)
        })
    }

    /// Ends the search of runs that have ended. Returns the runs whose search begins, and their panes.
    pub(super) fn begin_all(&mut self, look: &Snapshot) -> Vec<(PaneId, Arc<Task>)> {
        self.runs
            .retain(|window, run| !is_over(look, *window, run.run));
        let mut begun = Vec::new();
        for task in look.tasks.values().filter(|task| task.is_alive()) {
            let known = self.runs.get(&task.window);
            let is_known = known.is_some_and(|run| run.state != WatchState::Lost);
            if !is_known && let Some(pane) = self.begin(task, look.life.as_ref()) {
                begun.push((pane, Arc::clone(task)));
            }
        }
        begun
    }
}

/// Whether a look does not show this run as alive.
fn is_over(look: &Snapshot, window: WindowId, run: Option<u32>) -> bool {
    let task = look.tasks.get(&window);
    !task.is_some_and(|task| task.is_alive() && task.run == run)
}

/// Whether the pane runs another process than the task did at the look.
pub(super) fn is_other_run(output: &PaneOutput, task: &Task) -> bool {
    output.pid.is_some() && output.pid != task.pid
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
    let cursor = Cursor::new(life?, window, run.run?, run.settled.clone());
    Some(cursor.to_string())
}

/// After how long tmux gives up waiting for the end of a string.
const STRING_LASTS: Duration = Duration::from_secs(5);

/// One pane's output, from the start of following.
#[derive(Debug)]
pub(super) struct PaneStream {
    terminal: Terminal,
    stamp: Stamp,
    /// How many rows of history there were when nothing had scrolled off this terminal.
    scrolled_before: i64,
    /// Since when a string (a title, an image) has been unterminated.
    in_string_since: Option<Instant>,
    /// The last written line that has not ended, if it goes to output streams.
    pub(super) unfinished: Option<String>,
    state: StreamState,
}

#[derive(Debug)]
enum StreamState {
    Whole,
    /// The pane was paused when its terminal's cursor was here, if that is known. Later output is not used.
    Paused(Option<Anchor>),
}

impl PaneStream {
    pub(super) fn new(output: &PaneOutput) -> Self {
        let (width, height, is_alternate) = (output.width, output.height, output.is_alternate);
        let (screen, cursor) = (output.screen(), output.cursor);
        Self {
            terminal: Terminal::seeded(width, height, screen, cursor, is_alternate),
            stamp: 0,
            scrolled_before: i64::try_from(output.history).unwrap_or(i64::MAX),
            in_string_since: None,
            unfinished: None,
            state: StreamState::Whole,
        }
    }

    /// Returns the stamp of the last output: everything on the screen is that old or older.
    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether the screen is a guess: a full-screen program that was active at the first read has ended.
    pub(super) fn is_guess(&self) -> bool {
        self.terminal.is_guess()
    }

    /// Whether output is missing, so that the pane has to be read.
    pub(super) fn is_paused(&self) -> bool {
        matches!(self.state, StreamState::Paused(_))
    }

    pub(super) fn pause(&mut self) {
        self.state = StreamState::Paused(self.anchor());
    }

    /// Continues with the pane's present contents, of which it returns the stamp.
    pub(super) fn resume(&mut self, output: &PaneOutput) -> Stamp {
        self.stamp += 1;
        self.show(output);
        self.state = StreamState::Whole;
        self.stamp
    }

    /// Whether the pane contains more than has arrived.
    pub(super) fn is_short_of(&self, output: &PaneOutput) -> bool {
        let (known, shown) = (written(&self.rows()), written(&output.rows));
        !shown.ends_with(&known) || known.is_empty() != shown.is_empty()
    }

    fn rows(&self) -> Vec<String> {
        let rows = self.terminal.rows();
        rows.iter().map(|row| text::row(row.as_bytes())).collect()
    }

    /// Shows the pane's present contents: all of them are old.
    pub(super) fn show(&mut self, output: &PaneOutput) {
        self.terminal
            .resize(output.width, output.height, output.screen(), output.cursor);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.scrolled_before = signed(output.history as u64) - signed(self.terminal.scrolled());
    }

    /// Returns up to which row of the pane's history output has arrived, unless rows do not scroll.
    pub(super) fn anchor(&self) -> Option<Anchor> {
        if let StreamState::Paused(anchor) = &self.state {
            return anchor.clone();
        }
        if self.terminal.is_alternate() || self.terminal.is_guess() {
            return None;
        }
        let scrolled = i64::try_from(self.terminal.scrolled()).ok()?;
        let top = usize::try_from(self.scrolled_before + scrolled).ok()?;
        let (column, row) = self.terminal.cursor();
        Some(Anchor::at(&self.rows(), top, top + row, column))
    }

    pub(super) fn write(&mut self, bytes: &[u8], now: Now, line: &mut dyn FnMut(&Line<'_>)) {
        let given_up = |since: Instant| now.mono.saturating_duration_since(since) >= STRING_LASTS;
        if self.in_string_since.is_some_and(given_up) {
            self.terminal.abandon_string();
        }
        self.stamp += 1;
        self.terminal.write(bytes, self.stamp, line);
        self.in_string_since = self
            .terminal
            .is_in_string()
            .then(|| self.in_string_since.unwrap_or(now.mono));
    }
}

/// Returns the rows without blank ones at the end, as they can be compared with those of tmux.
fn written(rows: &[String]) -> Vec<String> {
    let n = rows.iter().rposition(|row| !row.is_empty());
    let rows = rows[..n.map_or(0, |last| last + 1)].iter();
    rows.map(|row| comparable(row)).collect()
}

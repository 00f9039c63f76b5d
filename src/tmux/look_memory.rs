//! What is remembered between two looks, what a look queries because of it, and how the answers are
//! merged with it. Nothing here talks to tmux.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::capture::{Capture, CapturedScreen, Shape};
use super::error::TmuxError;
use super::look_lines::{LineAnswer, LookLine, Question, ScreenQuery, WindowQuery};
use super::rows::ListedWindow;
use crate::model::{Ordered as _, PaneId, WindowId};
use crate::rules::protocol::rows::{Death, LookRows, SessionRow, WindowRow};

/// A sweep queries a window in full if that was last done this many seconds ago, or as many as the session
/// has windows, so that the cost does not grow with them: an option that was set, or another program in the
/// foreground, leaves no sign.
const QUERIED_AGAIN_SECS: usize = 5;

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookKind {
    /// Windows that were reported as changed, in full.
    Windows,
    /// The same, and the next slice of all windows: as many as one line can ask whether they have
    /// changed. A sweep takes so many of these looks as [`LookMemory::is_sweeping`] asks for.
    Slice,
}

/// What is remembered between two looks at one session.
#[derive(Debug, Default)]
pub(crate) struct LookMemory {
    /// The server's clock at the last look, in seconds since 1970.
    time: i64,
    /// Windows whose panes have printed or whose processes have ended since the last look.
    expected: BTreeSet<WindowId>,
    windows: BTreeMap<WindowId, RememberedWindow>,
    /// Windows that are known to have changed since the last look.
    moved: BTreeSet<WindowId>,
    /// The deaths that were recorded at the last look.
    deaths: Vec<Death>,
    /// Whether the next look is to list which windows there are.
    is_list_wanted: bool,
    /// The windows that the sweep under way has still to query.
    sweep: Option<BTreeSet<WindowId>>,
    /// The session itself in the last look.
    session: Option<SessionRow>,
    /// Whether the last look found everything as the one before it.
    is_same: bool,
}

#[derive(Debug)]
struct RememberedWindow {
    sign: String,
    /// With its pane and screen.
    row: Arc<WindowRow>,
    /// The last capture of that pane.
    capture: Option<Capture>,
    shape: Shape,
    /// When it was queried in full, by the server's clock in seconds.
    time: i64,
}

impl RememberedWindow {
    fn pane(&self) -> Option<PaneId> {
        Some(self.row.pane.as_ref()?.pane)
    }

    /// Whether its process has ended and tmux has not reported how.
    fn is_unsettled(&self) -> bool {
        let dead = self.row.pane.as_ref().and_then(|pane| pane.dead.as_ref());
        dead.is_some_and(|dead| !dead.exit.is_known())
    }
}

impl LookMemory {
    /// Notes panes that have printed, processes that have ended, and windows that are new or have changed:
    /// the next look queries them first.
    pub(crate) fn expect(
        &mut self,
        printed: impl IntoIterator<Item = PaneId>,
        ended: &BTreeSet<u32>,
        moved: impl IntoIterator<Item = WindowId>,
    ) {
        self.moved.extend(moved);
        let printed: BTreeSet<PaneId> = printed.into_iter().collect();
        if printed.is_empty() && ended.is_empty() {
            return;
        }
        let expected = self.windows.iter().filter(|(_, known)| {
            known.pane().is_some_and(|pane| printed.contains(&pane))
                || known.shape.pid.is_some_and(|pid| ended.contains(&pid))
        });
        self.expected.extend(expected.map(|(window, _)| *window));
    }

    /// Notes that any window may have changed, and others may have come.
    pub(crate) fn expect_all(&mut self) {
        self.moved.extend(self.windows.keys());
        self.is_list_wanted = true;
    }

    /// Forgets the windows whose processes tmux has hung up on: they are closed, or have other
    /// processes. Windows that are known to have changed exist.
    pub(crate) fn forget_hung_up(&mut self, hung_up: &BTreeSet<u32>) {
        let is_gone = |window: &WindowId, known: &RememberedWindow| {
            let pid = known.row.pane.as_ref().and_then(|pane| pane.pid);
            pid.is_some_and(|pid| hung_up.contains(&pid)) && !self.moved.contains(window)
        };
        let windows = self.windows.iter();
        let gone = windows.filter(|(window, known)| is_gone(window, known));
        let gone: Vec<WindowId> = gone.map(|(window, _)| *window).collect();
        self.forget_windows(&gone);
    }

    /// Forgets windows that may be closed: a line that names them or their panes would fail. The next look
    /// lists all windows, and queries those that are not known.
    pub(crate) fn forget_windows<'a>(&mut self, windows: impl IntoIterator<Item = &'a WindowId>) {
        for window in windows {
            self.is_list_wanted = true;
            self.moved.remove(window);
            self.windows.remove(window);
            self.expected.remove(window);
        }
    }

    /// Notes a run number that was written to a window's option: a sign does not show it.
    pub(crate) fn note_run(&mut self, window: WindowId, run: u32) {
        if let Some(known) = self.windows.get_mut(&window) {
            Arc::make_mut(&mut known.row).run = Some(run);
        }
    }

    /// Whether windows are left for a further [`LookKind::Slice`].
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Whether the last look found everything as the one before it.
    pub(crate) fn is_same(&self) -> bool {
        self.is_same
    }

    /// Returns the primary panes with their processes and how many rows of history they have.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (PaneId, Option<u32>, usize)> {
        let known = self.windows.values();
        known.filter_map(|known| Some((known.pane()?, known.shape.pid, known.shape.history)))
    }

    /// Returns what a look queries first: all windows are listed if none is known, or if nothing else is
    /// queried.
    fn first_question(&mut self, kind: LookKind, room: usize) -> Question {
        let windows = &self.windows;
        let unsettled = windows.iter().filter(|(_, known)| known.is_unsettled());
        let wanted = unsettled.map(|(window, _)| window).chain(&self.expected);
        let mut question = Question {
            index: std::mem::take(&mut self.is_list_wanted) || windows.is_empty(),
            windows: wanted
                .chain(&self.moved)
                .map(|window| (*window, self.likely_query(*window)))
                .into_map(),
        };
        if kind == LookKind::Slice {
            let all = || windows.keys().copied().collect();
            let sweep = self.sweep.get_or_insert_with(all);
            sweep.retain(|window| windows.contains_key(window));
            let left: Vec<WindowId> = sweep.iter().copied().collect();
            let left = left.iter().map(|window| (*window, self.verify(*window)));
            question.add_line(left, room, self.windows.len());
        }
        question.index |= question.is_empty();
        self.expected.clear();
        self.moved.clear();
        question
    }

    /// Returns how to query whether a window has changed: in full if it probably has, or if the last full
    /// query was long ago.
    fn verify(&self, window: WindowId) -> WindowQuery {
        let pause = i64::try_from(self.windows.len().max(QUERIED_AGAIN_SECS)).unwrap_or(i64::MAX);
        let known = self.windows.get(&window);
        let is_old = known.is_none_or(|known| self.time - known.time >= pause);
        let query = self.likely_query(window);
        match query == WindowQuery::Full(None) && !is_old {
            true => WindowQuery::Sign,
            false => query,
        }
    }

    /// Returns how to query a window in full before there is an answer about it: with its screen only if
    /// that has probably changed.
    fn likely_query(&self, window: WindowId) -> WindowQuery {
        let known = self.windows.get(&window);
        let is_quiet = known.is_some_and(|known| {
            let last = known.capture.as_ref();
            known.pane().is_none() || last.is_none_or(|last| !last.is_likely_old(self.time))
        });
        match is_quiet && !self.expected.contains(&window) {
            true => WindowQuery::Full(None),
            false => self.query(window, None),
        }
    }

    /// Returns how to query a window, in which this pane was listed, in full and with its screen.
    fn query(&self, window: WindowId, listed: Option<PaneId>) -> WindowQuery {
        let known = self.windows.get(&window);
        let pane = listed.or_else(|| known?.pane());
        let known = known.filter(|known| known.pane() == pane);
        let screen = known.map(|known| screen_query(known.shape, known.capture.as_ref(), false));
        WindowQuery::Full(Some(ScreenQuery {
            pane,
            ..screen.unwrap_or_default()
        }))
    }

    /// Remembers what a line has shown of a window. Returns what is to be queried of it again: everything
    /// if only its sign was and has changed, and its screen where that is older than its rows.
    fn remember(
        &mut self,
        window: WindowId,
        listed: ListedWindow,
        captured: Option<CapturedScreen>,
    ) -> Option<WindowQuery> {
        let known = self.windows.get(&window);
        let known = known.filter(|known| known.pane() == Some(listed.pane));
        let last = known.and_then(|known| known.capture.as_ref());
        let Some(found) = listed.details else {
            let shape = match known {
                Some(known) if known.sign == listed.sign => known.shape,
                Some(_) | None => return Some(self.query(window, Some(listed.pane))),
            };
            let is_stale = last.is_none_or(|last| last.is_stale(&shape));
            return is_stale.then(|| self.query(window, Some(listed.pane)));
        };
        let (mut row, shape, captured) = (found.window, found.shape, captured.as_ref());
        let is_complete = captured.is_some_and(|captured| !captured.is_cut(&shape, &found.banner));
        let is_fresh = is_complete || last.is_some_and(|last| !last.is_stale(&shape));
        let again = (!is_fresh).then(|| {
            let is_wrapped = captured.is_some_and(|captured| captured.rows(&shape).is_none());
            WindowQuery::Full(Some(ScreenQuery {
                pane: Some(listed.pane),
                ..screen_query(shape, last, is_wrapped)
            }))
        });
        let capture = captured
            .and_then(|captured| Capture::new(last, shape, captured, &found.banner))
            .or_else(|| last.cloned());
        if let Some(pane) = &mut row.pane {
            let screen = capture.as_ref().map(|capture| capture.screen.clone());
            pane.screen = screen.unwrap_or_default();
        }
        let remembered = RememberedWindow {
            sign: listed.sign,
            row: Arc::new(row),
            capture,
            shape,
            time: self.time,
        };
        let row = Arc::clone(&remembered.row);
        let before = self.windows.insert(window, remembered);
        self.is_same &= captured.is_none() && before.is_some_and(|before| before.row == row);
        again
    }
}

/// Returns how to query the screen of a pane with this shape: also as rows if the last capture had wrapped
/// lines, or this one has, and where the program may draw a cursor.
fn screen_query(shape: Shape, last: Option<&Capture>, is_wrapped: bool) -> ScreenQuery {
    ScreenQuery {
        pane: None,
        shape,
        has_rows: is_wrapped || shape.is_cursor_hidden || last.is_some_and(Capture::is_wrapped),
    }
}

/// How often a look queries what the answers so far have left open. Twice is usual; more often only if
/// windows are opened, closed or end meanwhile.
const MOST_ROUNDS: usize = 8;

/// One look under way: its lines, one after the other, and their answers, which go into the memory.
///
/// Windows can be opened, closed and end between two lines. All that is known of a window is from one
/// line. A window is gone only if a list of all windows does not contain it. The death record is no newer
/// than the rows of its windows.
#[derive(Debug)]
pub(super) struct Inquiry<'a> {
    memory: &'a mut LookMemory,
    kind: LookKind,
    /// How much one line may ask for.
    room: usize,
    /// What is left to query in this round, and what the next one queries.
    question: Question,
    next: Question,
    rounds_left: usize,
    /// Whether a sweep begins, and nothing has listed all windows.
    may_list: bool,
    /// Windows whose deaths were recorded after they were queried, so that their rows may be older. A death
    /// is cleared once it is reported, so its window is queried with it.
    behind: BTreeSet<WindowId>,
    /// Whether all windows inherit options that a death record has.
    is_inherited: bool,
    /// The record of deaths at the end of the last line.
    record: Option<String>,
}

impl<'a> Inquiry<'a> {
    /// Begins a look.
    pub(super) fn new(memory: &'a mut LookMemory, kind: LookKind, room: usize) -> Self {
        let may_list = kind == LookKind::Slice && memory.sweep.is_none();
        let question = memory.first_question(kind, room);
        memory.is_same = true;
        Self {
            memory,
            kind,
            room,
            question,
            next: Question::default(),
            rounds_left: MOST_ROUNDS,
            may_list,
            behind: BTreeSet::new(),
            is_inherited: false,
            record: None,
        }
    }

    /// Returns the next line; `None` when nothing is left to query.
    pub(super) fn next_line(&mut self) -> Option<LookLine> {
        if self.question.is_empty() {
            self.rounds_left = self.rounds_left.checked_sub(1)?;
            self.next.index |= self.may_have_come();
            self.question = std::mem::take(&mut self.next);
        }
        let n_windows = self.memory.windows.len();
        (!self.question.is_empty()).then(|| self.question.take_line(self.room, n_windows))
    }

    /// Whether the session may have a window that is not known, as far as the first slice of a sweep can
    /// tell. A sweep asks for each known window, and fails where one is gone: if it has no more windows
    /// than that, none has come. A window that is linked twice counts twice, so that each sweep lists all.
    /// (The list of many windows would be the longest line of a sweep.)
    fn may_have_come(&self) -> bool {
        let session = self.memory.session.as_ref();
        self.may_list && session.is_some_and(|now| now.n_windows != self.memory.windows.len())
    }

    /// Asks for a line's windows again, after a list of all windows: one of them was gone, or its pane.
    pub(super) fn ask_again(&mut self, line: &LookLine) {
        let left = std::mem::take(&mut self.question.windows);
        self.next.windows.extend(left);
        self.next.windows.extend(line.windows.iter().copied());
        self.question.index = true;
    }

    /// Takes the answer to a line.
    pub(super) fn take(&mut self, line: &LookLine, answer: LineAnswer) {
        let memory = &mut *self.memory;
        let is_other_life = |before: &SessionRow| before.life != answer.session.life;
        if memory.session.as_ref().is_some_and(is_other_life) {
            // What is remembered is of another life of the session.
            *memory = LookMemory::default();
            (self.question, self.next) = Default::default();
            self.next.index = answer.present.is_none();
            self.behind.clear();
        }
        memory.is_same &= memory.session.as_ref() == Some(&answer.session);
        memory.session = Some(answer.session);
        memory.time = answer.time;
        let deaths = Death::parse_record(&answer.record);
        let new = deaths.iter().filter(|death| !memory.deaths.contains(death));
        self.behind.extend(new.map(|death| death.window));
        memory.is_same &= deaths == memory.deaths;
        memory.deaths = deaths;
        self.record = Some(answer.record);
        self.is_inherited |= answer.is_inherited;
        for (window, listed, captured) in answer.windows {
            if let (LookKind::Slice, Some(sweep)) = (self.kind, &mut memory.sweep) {
                sweep.remove(&window);
            }
            let again = memory.remember(window, listed, captured);
            self.next.windows.extend(again.map(|query| (window, query)));
        }
        for window in line.in_full() {
            self.behind.remove(&window);
        }
        if let Some(present) = answer.present {
            self.take_list(&present);
        }
        for window in &self.behind {
            if !self.question.is_in_full(*window) && !self.next.is_in_full(*window) {
                let query = self.memory.query(*window, None);
                self.next.windows.insert(*window, query);
            }
        }
    }

    /// Takes a list of all windows of the session, with their primary panes.
    fn take_list(&mut self, present: &BTreeMap<WindowId, PaneId>) {
        self.may_list = false;
        let memory = &mut *self.memory;
        let is_there = |window: &WindowId| present.contains_key(window);
        let n_before = memory.windows.len();
        memory.windows.retain(|window, _| is_there(window));
        memory.is_same &= memory.windows.len() == n_before;
        self.behind.retain(is_there);
        self.question.windows.retain(|window, _| is_there(window));
        self.next.windows.retain(|window, _| is_there(window));
        for (window, pane) in present {
            let known = memory.windows.get(window);
            if known.and_then(RememberedWindow::pane) != Some(*pane) {
                self.question.windows.remove(window);
                let query = memory.query(*window, Some(*pane));
                self.next.windows.insert(*window, query);
            }
        }
    }

    /// Ends the look.
    pub(super) fn finish(self) -> Result<LookRows, TmuxError> {
        let memory = self.memory;
        let (Some(session), Some(mut death_record)) = (memory.session.clone(), self.record) else {
            return Err(TmuxError::confused("no session"));
        };
        // What is missing after the last round is left to the next look, with the deaths from there on.
        let is_behind = |death: &Death| self.behind.contains(&death.window);
        if let Some(first) = memory.deaths.iter().position(is_behind) {
            memory.deaths.truncate(first);
            death_record.clear();
        }
        let left = self.question.windows.into_keys();
        let left = left.chain(self.next.windows.into_keys());
        memory.moved = left.chain(self.behind).collect();
        memory.sweep.take_if(|sweep| {
            sweep.retain(|window| memory.windows.contains_key(window));
            self.kind == LookKind::Slice && sweep.is_empty()
        });
        let mut deaths = memory.deaths.clone();
        if self.is_inherited {
            // A hook cannot tell what it finds.
            for death in &mut deaths {
                (death.run, death.owner) = (None, None);
            }
        }
        let windows = memory.windows.values();
        Ok(LookRows {
            time: memory.time,
            session,
            windows: windows.map(|known| Arc::clone(&known.row)).collect(),
            deaths,
            death_record,
        })
    }
}

#[cfg(test)]
mod tests;

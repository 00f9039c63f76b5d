//! What is remembered between two looks, what a look queries because of it, and how the answers are
//! merged with it. Nothing here talks to tmux.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::capture::{Capture, CapturedScreen, Shape};
use super::look_lines::{Limit, LookAnswer, LookKind, Question, WindowQuery};
use super::rows::WindowDetails;
use crate::model::{Ordered as _, PaneId, WindowId};
use crate::protocol::rows::{Death, LookRows, SessionRow, WindowRow};

/// A sweep queries a window in full if that was last done this many seconds ago: an option that was
/// set, or another program in the foreground, leaves no sign.
const QUERIED_AGAIN_SECS: i64 = 5;

/// The same for each window of the session, so that the cost does not grow with the windows.
const QUERIED_AGAIN_SECS_PER_WINDOW: i64 = 1;

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
        let printed: BTreeSet<PaneId> = printed.into_iter().collect();
        let expected = self.windows.iter().filter(|(_, known)| {
            known.pane().is_some_and(|pane| printed.contains(&pane))
                || known.shape.pid.is_some_and(|pid| ended.contains(&pid))
        });
        self.expected.extend(expected.map(|(window, _)| *window));
        self.moved.extend(moved);
    }

    /// Notes that any window may have changed, and others may have come.
    pub(crate) fn expect_all(&mut self) {
        self.moved.extend(self.windows.keys());
        self.is_list_wanted = true;
    }

    /// Forgets the windows whose processes tmux has hung up on: they are closed, or have other
    /// processes. Windows that are known to have changed exist.
    pub(crate) fn forget_hung_up(&mut self, hung_up: &BTreeSet<u32>) {
        let pid = |known: &RememberedWindow| known.row.pane.as_ref()?.pid;
        let windows = self.windows.iter();
        let of_them = windows.filter(|(_, known)| pid(known).is_some_and(|p| hung_up.contains(&p)));
        let of_them = of_them.map(|(window, _)| *window);
        let of_them: Vec<WindowId> = of_them
            .filter(|window| !self.moved.contains(window))
            .collect();
        self.forget_windows(&of_them);
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

    /// Notes run numbers that were written to the windows' options: a sign does not show them.
    pub(crate) fn note_runs(&mut self, runs: &[(WindowId, u32)]) {
        for (window, run) in runs {
            if let Some(known) = self.windows.get_mut(window) {
                Arc::make_mut(&mut known.row).run = Some(*run);
            }
        }
    }

    /// Returns the windows that had this name in the last look.
    #[must_use]
    pub(crate) fn windows_named(&self, name: &str) -> Vec<WindowId> {
        let windows = self.windows.iter();
        windows
            .filter(|(_, known)| known.row.name == name)
            .map(|(window, _)| *window)
            .collect()
    }

    /// Whether windows are left for a further [`LookKind::Slice`].
    #[must_use]
    pub(crate) fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// Whether the last look found everything as the one before it.
    #[must_use]
    pub(crate) fn is_same(&self) -> bool {
        self.is_same
    }

    /// Returns what the last look has shown of a window of this life of the session.
    pub(super) fn row(&self, window: WindowId) -> Option<&WindowRow> {
        self.windows.get(&window).map(|known| &*known.row)
    }

    /// Returns how many windows the session had in the last look.
    pub(super) fn n_windows(&self) -> usize {
        self.windows.len()
    }

    /// Returns what a look queries first: all windows are listed if none is known, or if nothing else is
    /// queried.
    pub(super) fn first_question(&self, kind: LookKind, limit: Limit) -> Question {
        let reported = self
            .windows
            .iter()
            .filter(|(window, known)| known.is_unsettled() || self.expected.contains(window));
        let reported = reported.map(|(window, _)| *window);
        let wanted = reported.chain(self.moved.iter().copied());
        let mut question = Question {
            index: self.is_list_wanted || self.windows.is_empty() || limit == Limit::None,
            windows: wanted
                .map(|window| (window, self.likely_query(window)))
                .into_map(),
        };
        let all = self.windows.keys().copied();
        match (kind, limit) {
            (LookKind::Windows, _) => {}
            (LookKind::Slice, Limit::None) => {
                let all = all.map(|window| (window, self.likely_query(window)));
                question.windows.extend(all);
            }
            (LookKind::Slice, Limit::Short) => {
                let left = |window: &WindowId| {
                    let sweep = self.sweep.as_ref();
                    sweep.is_none_or(|sweep| sweep.contains(window))
                };
                let left = all.filter(left).map(|window| (window, self.verify(window)));
                question.add_line(left, self.windows.len());
            }
        }
        question.index |= question.is_empty();
        question
    }

    /// Returns how to query whether a window has changed: in full if it probably has, or if the last full
    /// query was long ago.
    fn verify(&self, window: WindowId) -> WindowQuery {
        let query = self.likely_query(window);
        if query == WindowQuery::Rows && !self.is_old(window) {
            WindowQuery::Sign
        } else {
            query
        }
    }

    /// Whether the last full query of a window was long ago.
    fn is_old(&self, window: WindowId) -> bool {
        let n_windows = i64::try_from(self.windows.len()).unwrap_or(i64::MAX);
        let pause = QUERIED_AGAIN_SECS.max(n_windows.saturating_mul(QUERIED_AGAIN_SECS_PER_WINDOW));
        let known = self.windows.get(&window);
        known.is_none_or(|known| self.time - known.time >= pause)
    }

    /// Returns how to query a window in full before there is an answer about it: with its screen only if
    /// that has probably changed.
    fn likely_query(&self, window: WindowId) -> WindowQuery {
        let Some(known) = self.windows.get(&window) else {
            return WindowQuery::New;
        };
        match (known.pane(), &known.capture) {
            (Some(pane), Some(capture))
                if capture.is_likely_old(self.time) || self.expected.contains(&window) =>
            {
                screen_query(pane, known.shape, Some(capture), false)
            }
            (Some(_) | None, Some(_) | None) => WindowQuery::Rows,
        }
    }

    /// Returns what is missing from the answers so far, and what was queried and is `unanswered`.
    pub(super) fn missing(
        &self,
        answer: &LookAnswer,
        unanswered: &BTreeMap<WindowId, WindowQuery>,
        kind: LookKind,
    ) -> Question {
        let is_same_life = answer.session.as_ref().is_some_and(|now| self.is_of(now));
        let known = |window: &WindowId| self.windows.get(window).filter(|_| is_same_life);
        // The list of many windows would be the longest line of a sweep.
        let may_have_come = kind == LookKind::Slice && self.may_have_come(answer);
        let mut question = Question {
            index: answer.present.is_none() && (!is_same_life || may_have_come),
            ..Question::default()
        };
        for (window, listed) in &answer.windows {
            let known = known(window).filter(|known| known.pane() == Some(listed.pane));
            let last = known.and_then(|known| known.capture.as_ref());
            let shape = match (&listed.details, known) {
                (Some(found), _) => found.shape,
                (None, Some(known)) if known.sign == listed.sign => known.shape,
                (None, Some(_) | None) => {
                    let query = self.query(*window, answer, is_same_life);
                    question.windows.insert(*window, query);
                    continue;
                }
            };
            let banner = listed.details.as_ref().map_or("", |found| &found.banner);
            let captured = answer.captured.get(&listed.pane);
            let is_cut = |captured: &CapturedScreen| captured.is_cut(&shape, banner);
            let is_stale = last.is_none_or(|last| last.is_stale(&shape));
            if is_stale && captured.is_none_or(is_cut) {
                let is_wrapped = captured.is_some_and(|found| found.rows(&shape).is_none());
                let query = screen_query(listed.pane, shape, last, is_wrapped);
                question.windows.insert(*window, query);
            }
        }
        for (window, query) in unanswered {
            if *query != WindowQuery::Sign {
                let query = self.query(*window, answer, is_same_life);
                question.windows.insert(*window, query);
            } else {
                question.windows.entry(*window).or_insert(WindowQuery::Sign);
            }
        }
        let unknown = answer.present.iter().flatten().filter(|(window, pane)| {
            !answer.windows.contains_key(window)
                && known(window).and_then(RememberedWindow::pane) != Some(**pane)
        });
        let unknown = unknown.map(|(window, _)| *window);
        let died = self.unseen_deaths(answer, is_same_life);
        let died = died.filter(|death| answer.may_have(death));
        for window in unknown.chain(died.map(|death| death.window)) {
            if !question.is_in_full(window) {
                let query = self.query(window, answer, is_same_life);
                question.windows.insert(window, query);
            }
        }
        question
    }

    /// Whether what is remembered is of this life of the session.
    fn is_of(&self, session: &SessionRow) -> bool {
        let before = self.session.as_ref();
        before.is_some_and(|before| before.life == session.life)
    }

    /// Whether the session may have a window that is not known, as far as the first slice of a sweep can
    /// tell. A sweep asks for each known window, and fails where one is gone: if it has no more windows
    /// than that, none has come. A window that is linked twice counts twice, so that each sweep lists all.
    fn may_have_come(&self, answer: &LookAnswer) -> bool {
        let is_new = |window: &&WindowId| !self.windows.contains_key(window);
        let n_known = self.windows.len() + answer.windows.keys().filter(is_new).count();
        let session = answer.session.as_ref();
        self.sweep.is_none() && session.is_some_and(|session| session.n_windows != n_known)
    }

    /// Returns the deaths that were recorded after their windows were queried, so that their rows may be
    /// older. A death is cleared once it is reported, so its window is queried with it.
    fn unseen_deaths<'a>(
        &'a self,
        answer: &'a LookAnswer,
        is_same_life: bool,
    ) -> impl Iterator<Item = &'a Death> {
        answer.deaths.iter().filter(move |death| {
            let before = match answer.deaths_then.get(&death.window) {
                Some(deaths) => &**deaths,
                None if is_same_life => &self.deaths,
                None => &[],
            };
            !before.contains(death)
        })
    }

    /// Returns how to query a window in full.
    fn query(&self, window: WindowId, answer: &LookAnswer, is_same_life: bool) -> WindowQuery {
        let known = self.windows.get(&window).filter(|_| is_same_life);
        let indexed = answer.present.as_ref().and_then(|all| all.get(&window));
        let listed = answer.windows.get(&window).map(|listed| listed.pane);
        let pane = listed
            .or_else(|| indexed.copied())
            .or_else(|| known.and_then(RememberedWindow::pane));
        let Some(pane) = pane else {
            return WindowQuery::New;
        };
        let known = known.filter(|known| known.pane() == Some(pane));
        let shape = known.map(|known| known.shape).unwrap_or_default();
        let last = known.and_then(|known| known.capture.as_ref());
        screen_query(pane, shape, last, false)
    }

    /// Merges the answers with what is remembered, and remembers them; `None` without an answer about the
    /// session itself.
    pub(super) fn finish_look(
        &mut self,
        kind: LookKind,
        mut answer: LookAnswer,
        unanswered: BTreeMap<WindowId, WindowQuery>,
    ) -> Option<LookRows> {
        let session = answer.session.take()?;
        let is_same_life = self.is_of(&session);
        let mut is_same = self.session.as_ref() == Some(&session);
        // What is missing after the last round is left to the next look, with the deaths from there on.
        let unseen: BTreeSet<WindowId> = self
            .unseen_deaths(&answer, is_same_life)
            .filter(|death| answer.may_have(death))
            .map(|death| death.window)
            .collect();
        let mut deaths = answer.deaths.to_vec();
        let mut death_record = std::mem::take(&mut answer.record);
        if let Some(first) = deaths
            .iter()
            .position(|death| unseen.contains(&death.window))
        {
            deaths.truncate(first);
            death_record.clear();
        }
        if let Some(present) = &answer.present {
            let n_before = self.windows.len();
            self.windows
                .retain(|window, _| present.contains_key(window));
            is_same &= self.windows.len() == n_before;
        }
        is_same &= self.deaths == deaths && answer.captured.is_empty();
        let asked: BTreeSet<WindowId> = answer.windows.keys().copied().collect();
        for (window, listed) in std::mem::take(&mut answer.windows) {
            let Some(found) = listed.details else {
                continue;
            };
            let captured = answer.captured.remove(&listed.pane);
            is_same &= self.remember(window, listed.sign, found, captured, answer.time);
        }
        if kind == LookKind::Slice {
            self.go_on_sweeping(&asked);
        }
        self.is_list_wanted = false;
        self.expected.clear();
        self.time = answer.time;
        self.moved = unanswered.into_keys().chain(unseen).collect();
        self.deaths.clone_from(&deaths);
        self.session = Some(session.clone());
        self.is_same = is_same;
        let windows = self.windows.values();
        Some(LookRows {
            time: answer.time,
            session,
            windows: windows.map(|known| Arc::clone(&known.row)).collect(),
            deaths,
            death_record,
        })
    }

    /// Remembers the rows of a window. Returns whether they are the same as before.
    fn remember(
        &mut self,
        window: WindowId,
        sign: String,
        found: WindowDetails,
        captured: Option<CapturedScreen>,
        now: i64,
    ) -> bool {
        let (mut row, shape) = (found.window, found.shape);
        let before = self.windows.remove(&window);
        let mut capture = None;
        if let Some(pane) = &mut row.pane {
            let known = before.as_ref();
            let known = known.filter(|known| known.pane() == Some(pane.pane));
            let last = known.and_then(|known| known.capture.as_ref());
            capture = captured
                .and_then(|captured| Capture::new(last, shape, &captured, &found.banner))
                .or_else(|| last.cloned());
            let screen = capture.as_ref().map(|capture| capture.screen.clone());
            pane.screen = screen.unwrap_or_default();
        }
        let row = Arc::new(row);
        let is_same = before.is_some_and(|known| known.row == row);
        let remembered = RememberedWindow {
            sign,
            row,
            capture,
            shape,
            time: now,
        };
        self.windows.insert(window, remembered);
        is_same
    }

    /// Returns the primary panes with their processes and how many rows of history they have.
    pub(crate) fn histories(&self) -> impl Iterator<Item = (PaneId, Option<u32>, usize)> {
        let known = self.windows.values();
        known.filter_map(|known| {
            let history = usize::try_from(known.shape.history).ok()?;
            Some((known.pane()?, known.shape.pid, history))
        })
    }

    /// Notes which windows a slice has queried.
    fn go_on_sweeping(&mut self, asked: &BTreeSet<WindowId>) {
        let windows = &self.windows;
        let all = || windows.keys().copied().collect();
        let left = self.sweep.get_or_insert_with(all);
        left.retain(|window| windows.contains_key(window) && !asked.contains(window));
        if left.is_empty() {
            self.sweep = None;
        }
    }
}

/// Returns how to query a window with the screen of its pane with this shape: also as rows if the last
/// capture had wrapped lines, or this one has, and where the program may draw a cursor.
fn screen_query(
    pane: PaneId,
    shape: Shape,
    last: Option<&Capture>,
    is_wrapped: bool,
) -> WindowQuery {
    match is_wrapped || shape.is_cursor_hidden || last.is_some_and(Capture::is_wrapped) {
        true => WindowQuery::ScreenRows(pane, shape),
        false => WindowQuery::Screen(pane, shape),
    }
}

#[cfg(test)]
mod tests;

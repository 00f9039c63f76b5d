//! What a look queries, the lines of commands that this becomes, and what they are answered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capture::{CapturedScreen, Shape, capture_command};
use super::rows::{
    Formats, ListedWindow, index_command, list_command, list_window_command, session_command,
    window_sign_command,
};
use super::window_options::check_command;
use crate::model::{PaneId, WindowId};
use crate::protocol::Command;
use crate::protocol::rows::{Death, SessionRow};

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookKind {
    /// Windows that were reported as changed, in full.
    Windows,
    /// The same, and the next slice of all windows: as many as one line can ask whether they have
    /// changed. A sweep takes so many of these looks as
    /// [`is_sweeping`](super::look_memory::LookMemory::is_sweeping) asks for.
    Slice,
}

/// The answers to the lines of a look so far.
#[derive(Debug, Default)]
pub(super) struct LookAnswer {
    /// The server's clock at the end of the last line, in seconds.
    pub(super) time: i64,
    pub(super) session: Option<SessionRow>,
    /// All windows of the session; `None` if they were not listed.
    pub(super) present: Option<BTreeMap<WindowId, PaneId>>,
    pub(super) windows: BTreeMap<WindowId, ListedWindow>,
    pub(super) captured: BTreeMap<PaneId, CapturedScreen>,
    /// Whether all windows inherit options that describe a task.
    pub(super) is_inherited: bool,
    /// The record of deaths at the end of the last line.
    pub(super) record: String,
    pub(super) deaths: Arc<[Death]>,
    /// The deaths that were recorded when the line that listed all windows ran.
    pub(super) deaths_when_listed: Arc<[Death]>,
    /// The deaths that were recorded when each window was queried in full. A line that failed has no
    /// record: an earlier one is used.
    pub(super) deaths_then: BTreeMap<WindowId, Arc<[Death]>>,
}

impl LookAnswer {
    /// Whether the session may have the window of this death: one that is not in the list of all
    /// windows may have been opened since, and have ended before the record was read.
    pub(super) fn may_have(&self, death: &Death) -> bool {
        match &self.present {
            Some(present) => {
                present.contains_key(&death.window) || !self.deaths_when_listed.contains(death)
            }
            None => true,
        }
    }

    /// Adds the rows of a window, in place of earlier ones and their screen.
    pub(super) fn show(&mut self, window: WindowId, listed: ListedWindow) {
        self.captured.remove(&listed.pane);
        if let Some(present) = &mut self.present {
            // It may have been opened after they were listed.
            present.entry(window).or_insert(listed.pane);
        }
        self.windows.insert(window, listed);
    }
}

// The lines of commands that a look is made of. Each is short: tmux serves no other client until it has
// answered all of a line.

/// What commands cost tmux 3.3a, in microseconds on a slow and busy machine: all rows of a window without
/// a recorded command, a full screen of 80 columns, a sign, the session.
const ROW: usize = 100;
const CAPTURE: usize = 50;
const SIGN: usize = 20;
const SESSION: usize = 100;
/// What the ids of each window of the session cost in a list of all windows.
const INDEXED: usize = 2;
/// Every 15 windows of a session add a microsecond to a sign: tmux takes longer to find a window.
const WINDOWS_PER_MICROSECOND: usize = 15;

/// What a sign costs in a session of `n_windows`.
const fn sign_cost(n_windows: usize) -> usize {
    SIGN + n_windows / WINDOWS_PER_MICROSECOND
}

/// How long one line may keep tmux busy. To read it, and to go over all windows after it as at each
/// turn of its loop, takes tmux up to a millisecond more.
const LINE: usize = 700;

/// How many of 300 windows fit into one line that asks for their signs only, or for everything of
/// them.
#[cfg(test)]
pub(super) const SIGNS_PER_LINE: usize = (LINE - SESSION) / sign_cost(300);
#[cfg(test)]
pub(super) const ROWS_PER_LINE: usize = (LINE - SESSION) / ROW;

/// How much one line may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// So much that tmux is busy with it for a millisecond or two.
    Short,
    /// Everything: each line costs a process.
    None,
}

/// What to query of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowQuery {
    /// Its sign, which shows whether it has changed.
    Sign,
    /// Everything but its screen, which has not changed.
    Rows,
    /// Everything, with the screen of this pane, which had this shape.
    Screen(PaneId, Shape),
    /// The same of a pane with wrapped lines, or whose program may draw a cursor: also its rows.
    ScreenRows(PaneId, Shape),
    /// Everything of a window that is not known yet, with the screen of its active pane.
    New,
}

impl WindowQuery {
    /// Returns what it costs in a session of `n_windows`.
    pub(super) fn cost(self, n_windows: usize) -> usize {
        match self {
            Self::Sign => sign_cost(n_windows),
            Self::Rows => ROW,
            Self::Screen(_, shape) => ROW + CAPTURE * shape.n_captures(),
            Self::ScreenRows(_, shape) => ROW + 2 * CAPTURE * shape.n_captures(),
            Self::New => ROW + CAPTURE,
        }
    }
}

/// What to query of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Question {
    /// Whether to list which windows there are.
    pub(super) index: bool,
    pub(super) windows: BTreeMap<WindowId, WindowQuery>,
}

impl Question {
    pub(super) fn is_empty(&self) -> bool {
        !self.index && self.windows.is_empty()
    }

    /// Whether the window is queried in full.
    pub(super) fn is_in_full(&self, window: WindowId) -> bool {
        let query = self.windows.get(&window);
        query.is_some_and(|query| *query != WindowQuery::Sign)
    }

    /// Adds the signs, or everything, of as many of these windows as fit into a line, and of at least one.
    /// Those that are queried anyway count for nothing.
    pub(super) fn add_line(
        &mut self,
        windows: impl Iterator<Item = (WindowId, WindowQuery)>,
        n_windows: usize,
    ) {
        let index = if self.index { n_windows * INDEXED } else { 0 };
        let mut room = (LINE - SESSION).saturating_sub(index);
        let mut is_first = true;
        for (window, query) in windows {
            if self.windows.contains_key(&window) {
                continue;
            }
            let cost = query.cost(n_windows);
            if cost > room && !is_first {
                return;
            }
            room = room.saturating_sub(cost);
            is_first = false;
            self.windows.insert(window, query);
        }
    }

    /// Takes as much as fits into one line. `n_windows` is how many windows the session is known to have.
    pub(super) fn take_line(&mut self, limit: Limit, n_windows: usize) -> LookLine {
        let mut room = match limit {
            Limit::Short => LINE - SESSION,
            Limit::None => usize::MAX,
        };
        let mut line = LookLine {
            limit,
            index: std::mem::take(&mut self.index),
            windows: Vec::new(),
        };
        if line.index {
            room = room.saturating_sub(n_windows * INDEXED);
        }
        while let Some(next) = self.windows.first_entry() {
            let cost = next.get().cost(n_windows);
            if cost > room && (line.index || !line.windows.is_empty()) {
                break;
            }
            room = room.saturating_sub(cost);
            line.windows.push(next.remove_entry());
        }
        line
    }
}

/// One line.
#[derive(Debug)]
pub(super) struct LookLine {
    limit: Limit,
    pub(super) index: bool,
    pub(super) windows: Vec<(WindowId, WindowQuery)>,
}

/// What a command of a line queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Options that all windows inherit.
    Inherited,
    Index,
    Row(WindowId),
    /// The rows of all windows.
    AllRows,
    /// The lines of a pane.
    Capture(WindowId, Option<(PaneId, Shape)>),
    /// The rows of a pane whose lines were captured before.
    CaptureRows(WindowId, PaneId),
    Sign(WindowId),
    Session,
}

impl LookLine {
    /// Returns the windows that are queried in full.
    pub(super) fn in_full(&self) -> impl Iterator<Item = WindowId> {
        let in_full = |(_, query): &&(_, WindowQuery)| *query != WindowQuery::Sign;
        self.windows
            .iter()
            .filter(in_full)
            .map(|(window, _)| *window)
    }

    /// Returns its commands. The session comes last: its death record contains the ends of all windows
    /// that were listed before.
    pub(super) fn commands(&self, target: &str, formats: Formats) -> Vec<(Part, Command)> {
        // Without a limit, tmux prints too much rather than read the format for each window.
        let of_all = self.limit == Limit::None && self.in_full().next().is_some();
        let mut commands = Vec::new();
        if self.in_full().next().is_some() {
            commands.push((Part::Inherited, check_command()));
        }
        if self.index {
            commands.push((Part::Index, index_command(target)));
        }
        if of_all {
            commands.push((Part::AllRows, list_command(target, formats)));
        }
        for (window, query) in &self.windows {
            if *query == WindowQuery::Sign {
                let sign = window_sign_command(target, *window, formats);
                commands.push((Part::Sign(*window), sign));
            } else if !of_all {
                let list = list_window_command(target, *window, formats);
                commands.push((Part::Row(*window), list));
            }
            match query {
                WindowQuery::Sign | WindowQuery::Rows => {}
                WindowQuery::Screen(pane, shape) | WindowQuery::ScreenRows(pane, shape) => {
                    let part = Part::Capture(*window, Some((*pane, *shape)));
                    commands.push((part, capture_command("-pJ", pane, shape)));
                    if matches!(query, WindowQuery::ScreenRows(..)) {
                        let part = Part::CaptureRows(*window, *pane);
                        commands.push((part, capture_command("-p", pane, shape)));
                    }
                }
                WindowQuery::New => {
                    let capture = capture_command("-pJ", window, &Shape::default());
                    commands.push((Part::Capture(*window, None), capture));
                }
            }
        }
        commands.push((Part::Session, session_command(target, formats)));
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows of each line, and whether it lists all.
    fn lines(mut question: Question, limit: Limit) -> Vec<(bool, usize)> {
        let mut lines = Vec::new();
        while !question.is_empty() {
            let line = question.take_line(limit, 300);
            lines.push((line.index, line.windows.len()));
        }
        lines
    }

    fn windows(n: u32, query: WindowQuery) -> BTreeMap<WindowId, WindowQuery> {
        (1..=n).map(|n| (WindowId(n), query)).collect()
    }

    #[test]
    fn a_line_asks_for_no_more_than_tmux_answers_in_a_short_time() {
        let signs = Question {
            index: true,
            windows: windows(300, WindowQuery::Sign),
        };
        let cut = lines(signs.clone(), Limit::Short);
        let mut expected = vec![(true, 0)];
        expected.extend([(false, 15); 20]);
        assert_eq!(cut, expected);
        assert_eq!(lines(signs, Limit::None), [(true, 300)]);
        let mut rows = Question {
            index: false,
            windows: windows(17, WindowQuery::New),
        };
        rows.windows.insert(WindowId(18), WindowQuery::Sign);
        let cut = lines(rows, Limit::Short);
        assert_eq!(cut, [4, 4, 4, 4, 2].map(|n| (false, n)));
    }

    #[test]
    fn a_line_asks_for_something_however_many_windows_there_are() {
        let mut question = Question {
            index: true,
            windows: windows(1, WindowQuery::Rows),
        };
        assert!(question.take_line(Limit::Short, 100_000).index);
        let line = question.take_line(Limit::Short, 100_000);
        assert_eq!(line.windows, [(WindowId(1), WindowQuery::Rows)]);
        assert!(question.is_empty());
    }

    #[test]
    fn a_screen_is_captured_behind_the_row_of_its_window_and_the_session_comes_last() {
        let mut question = Question {
            index: true,
            windows: [
                (WindowId(1), WindowQuery::New),
                (WindowId(2), WindowQuery::Rows),
                (WindowId(3), WindowQuery::Sign),
            ]
            .into(),
        };
        let line = question.take_line(Limit::Short, 3);
        let commands = line.commands("$0:", Formats::whole());
        let parts: Vec<Part> = commands.iter().map(|(part, _)| *part).collect();
        assert_eq!(
            parts,
            [
                Part::Inherited,
                Part::Index,
                Part::Row(WindowId(1)),
                Part::Capture(WindowId(1), None),
                Part::Row(WindowId(2)),
                Part::Sign(WindowId(3)),
                Part::Session
            ]
        );
    }

    #[test]
    fn a_line_without_a_limit_lists_all_windows() {
        let mut question = Question {
            index: false,
            windows: windows(9, WindowQuery::Rows),
        };
        let line = question.take_line(Limit::None, 9);
        let commands = line.commands("$0:", Formats::whole());
        let parts: Vec<Part> = commands.iter().map(|(part, _)| *part).collect();
        assert_eq!(parts, [Part::Inherited, Part::AllRows, Part::Session]);
    }
}

//! The lines of commands that a look is made of. Each is short: tmux serves no other client until it has
//! answered all of a line.

use std::collections::{BTreeMap, BTreeSet};

use super::capture::{Shape, capture_command};
use super::rows::{
    Formats, index_command, list_command, list_window_command, session_command, signs_command,
    window_sign_command,
};
use crate::model::{PaneId, WindowId};
use crate::protocol::Command;

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

/// From so many windows on, a line without a limit lists all windows: tmux prints too much rather
/// than read the format for each.
const MANY: usize = 8;

/// How much one line may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Limit {
    /// So much that tmux is busy with it for a millisecond or two.
    #[default]
    Short,
    /// Everything: each line costs a process.
    None,
}

/// Which screen to capture with the rows of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureQuery {
    /// None: it has not changed.
    No,
    /// That of this pane, which had this shape.
    Of(PaneId, Shape),
    /// The same of a pane with wrapped lines, or whose program may draw a cursor: also its rows.
    WithRows(PaneId, Shape),
    /// That of the active pane of a window that is not known yet.
    New,
}

impl CaptureQuery {
    /// Returns what it costs together with the rows of its window.
    fn cost(self) -> usize {
        match self {
            Self::No => ROW,
            Self::Of(_, shape) => ROW + CAPTURE * shape.n_captures(),
            Self::WithRows(_, shape) => ROW + 2 * CAPTURE * shape.n_captures(),
            Self::New => ROW + CAPTURE,
        }
    }
}

/// What to query of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Question {
    /// Whether to list which windows there are.
    pub(super) index: bool,
    /// Windows to query in full.
    pub(super) rows: BTreeMap<WindowId, CaptureQuery>,
    /// Windows whose signs are sufficient, which show whether they have changed.
    pub(super) signs: BTreeSet<WindowId>,
}

impl Question {
    pub(super) fn is_empty(&self) -> bool {
        !self.index && self.rows.is_empty() && self.signs.is_empty()
    }

    /// Adds another question. Windows that are queried in full already stay as they are.
    pub(super) fn add(&mut self, other: Self) {
        let Self { index, rows, signs } = other;
        self.index |= index;
        for (window, capture) in rows {
            self.rows.entry(window).or_insert(capture);
        }
        self.signs.extend(signs);
        let rows = &self.rows;
        self.signs.retain(|window| !rows.contains_key(window));
    }

    /// Whether all of it fits into one line, in a session of `n_windows`.
    pub(super) fn fits_into_line(&self, n_windows: usize) -> bool {
        let index = if self.index { n_windows * INDEXED } else { 0 };
        let rows = self.rows.values().map(|capture| capture.cost());
        let signs = self.signs.len() * sign_cost(n_windows);
        index + rows.sum::<usize>() + signs <= LINE - SESSION
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
            ..LookLine::default()
        };
        if line.index {
            room = room.saturating_sub(n_windows * INDEXED);
        }
        while let Some((window, capture)) = self.rows.pop_first() {
            let cost = capture.cost();
            if cost > room && !line.is_empty() {
                self.rows.insert(window, capture);
                return line;
            }
            room = room.saturating_sub(cost);
            line.rows.push((window, capture));
        }
        let sign = sign_cost(n_windows);
        while let Some(window) = self.signs.pop_first() {
            if sign > room && !line.is_empty() {
                self.signs.insert(window);
                return line;
            }
            room = room.saturating_sub(sign);
            line.signs.push(window);
        }
        line
    }
}

/// One line.
#[derive(Debug, Default)]
pub(super) struct LookLine {
    limit: Limit,
    pub(super) index: bool,
    pub(super) rows: Vec<(WindowId, CaptureQuery)>,
    pub(super) signs: Vec<WindowId>,
}

/// What a command of a line queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Index,
    Row(WindowId),
    /// The rows of all windows.
    AllRows,
    /// The lines of a pane.
    Capture(WindowId, Option<(PaneId, Shape)>),
    /// The rows of a pane whose lines were captured before.
    CaptureRows(WindowId, PaneId),
    Sign(WindowId),
    /// The signs of all windows.
    AllSigns,
    Session,
}

impl LookLine {
    fn is_empty(&self) -> bool {
        !self.index && self.rows.is_empty() && self.signs.is_empty()
    }

    /// Returns its commands. The session comes last: its death record contains the ends of all windows
    /// that were listed before.
    pub(super) fn commands(&self, target: &str, formats: Formats) -> Vec<(Part, Command)> {
        let is_many = |n: usize| self.limit == Limit::None && n > MANY;
        let mut commands = Vec::new();
        if self.index {
            commands.push((Part::Index, index_command(target)));
        }
        if is_many(self.rows.len()) {
            commands.push((Part::AllRows, list_command(target, formats)));
        }
        for (window, capture) in &self.rows {
            if !is_many(self.rows.len()) {
                let list = list_window_command(target, *window, formats);
                commands.push((Part::Row(*window), list));
            }
            match capture {
                CaptureQuery::No => {}
                CaptureQuery::Of(pane, shape) | CaptureQuery::WithRows(pane, shape) => {
                    let part = Part::Capture(*window, Some((*pane, *shape)));
                    commands.push((part, capture_command("-pJ", pane, shape)));
                    if matches!(capture, CaptureQuery::WithRows(..)) {
                        let part = Part::CaptureRows(*window, *pane);
                        commands.push((part, capture_command("-p", pane, shape)));
                    }
                }
                CaptureQuery::New => {
                    let capture = capture_command("-pJ", window, &Shape::default());
                    commands.push((Part::Capture(*window, None), capture));
                }
            }
        }
        if is_many(self.signs.len()) {
            commands.push((Part::AllSigns, signs_command(target, formats)));
        } else {
            let signs = self.signs.iter();
            commands.extend(signs.map(|window| {
                let sign = window_sign_command(target, *window, formats);
                (Part::Sign(*window), sign)
            }));
        }
        commands.push((Part::Session, session_command(target, formats)));
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut question: Question, limit: Limit) -> Vec<(bool, usize, usize)> {
        let mut lines = Vec::new();
        while !question.is_empty() {
            let line = question.take_line(limit, 300);
            lines.push((line.index, line.rows.len(), line.signs.len()));
        }
        lines
    }

    fn windows(n: u32) -> impl Iterator<Item = WindowId> {
        (1..=n).map(WindowId)
    }

    #[test]
    fn a_line_asks_for_no_more_than_tmux_answers_in_a_short_time() {
        let signs = Question {
            index: true,
            signs: windows(300).collect(),
            ..Question::default()
        };
        let cut = lines(signs.clone(), Limit::Short);
        let mut expected = vec![(true, 0, 0)];
        expected.extend([(false, 0, 15); 20]);
        assert_eq!(cut, expected);
        assert_eq!(lines(signs, Limit::None), [(true, 0, 300)]);
        let rows = Question {
            rows: windows(17)
                .map(|window| (window, CaptureQuery::New))
                .collect(),
            signs: windows(1).collect(),
            ..Question::default()
        };
        let cut = lines(rows, Limit::Short);
        assert_eq!(
            cut,
            [
                (false, 4, 0),
                (false, 4, 0),
                (false, 4, 0),
                (false, 4, 0),
                (false, 1, 1)
            ]
        );
    }

    #[test]
    fn a_line_asks_for_something_however_many_windows_there_are() {
        let mut question = Question {
            index: true,
            rows: windows(1)
                .map(|window| (window, CaptureQuery::No))
                .collect(),
            ..Question::default()
        };
        assert!(question.take_line(Limit::Short, 100_000).index);
        let line = question.take_line(Limit::Short, 100_000);
        assert_eq!(line.rows, [(WindowId(1), CaptureQuery::No)]);
        assert!(question.is_empty());
    }

    #[test]
    fn a_screen_is_captured_behind_the_row_of_its_window_and_the_session_comes_last() {
        let mut question = Question {
            index: true,
            rows: [
                (WindowId(1), CaptureQuery::New),
                (WindowId(2), CaptureQuery::No),
            ]
            .into(),
            signs: [WindowId(3)].into(),
        };
        let line = question.take_line(Limit::Short, 3);
        let commands = line.commands("$0:", Formats::whole());
        let parts: Vec<Part> = commands.iter().map(|(part, _)| *part).collect();
        assert_eq!(
            parts,
            [
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
    fn a_line_without_a_limit_lists_all_windows_rather_than_many() {
        let mut question = Question {
            rows: windows(9)
                .map(|window| (window, CaptureQuery::No))
                .collect(),
            signs: windows(9).collect(),
            ..Question::default()
        };
        let line = question.take_line(Limit::None, 9);
        let commands = line.commands("$0:", Formats::whole());
        let parts: Vec<Part> = commands.iter().map(|(part, _)| *part).collect();
        assert_eq!(parts, [Part::AllRows, Part::AllSigns, Part::Session]);
    }
}

//! What a look queries, the lines of commands that this becomes, and what they are answered.

use std::collections::BTreeMap;

use super::capture::{CapturedScreen, Shape, capture_command};
use super::error::TmuxError;
use super::rows::{
    Formats, ListedWindow, index_command, read_index, read_session, read_windows, session_command,
    window_command,
};
use super::window_options::{OwnOptions, check_command};
use crate::model::{PaneId, WindowId};
use crate::rules::protocol::rows::SessionRow;
use crate::rules::protocol::{Command, Frame};

// The lines of commands that a look is made of. Each is short: tmux serves no other client until it has
// answered all of a line.

/// What commands cost tmux 3.3a, in microseconds on a slow and busy machine: all rows of a window without
/// a recorded command, a full screen of 80 columns, a sign.
const ROW: usize = 100;
const CAPTURE: usize = 50;
const SIGN: usize = 20;
/// What the ids of each window of the session cost in a list of all windows.
const INDEXED: usize = 2;
/// Every 15 windows of a session add a microsecond to a sign: tmux takes longer to find a window.
const WINDOWS_PER_MICROSECOND: usize = 15;

/// How long one line may keep tmux busy, besides a hundred microseconds for the session. To read it, and
/// to go over all windows after it as at each turn of its loop, takes tmux up to a millisecond more.
pub(super) const ROOM: usize = 600;

/// What to query of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowQuery {
    /// Its sign, which shows whether it has changed.
    Sign,
    /// Everything, with a screen unless that has not changed.
    Full(Option<ScreenQuery>),
}

/// The screen to capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ScreenQuery {
    /// The pane; `None` for the active one of a window that is not known yet.
    pub(super) pane: Option<PaneId>,
    /// The shape that it had.
    pub(super) shape: Shape,
    /// Whether its rows are captured besides its lines: lines are wrapped, or the program may draw a
    /// cursor.
    pub(super) has_rows: bool,
}

impl WindowQuery {
    /// Returns what it costs in a session of `n_windows`.
    pub(super) fn cost(self, n_windows: usize) -> usize {
        match self {
            Self::Sign => SIGN + n_windows / WINDOWS_PER_MICROSECOND,
            Self::Full(None) => ROW,
            Self::Full(Some(screen)) => {
                ROW + CAPTURE * screen.shape.n_captures() * (1 + usize::from(screen.has_rows))
            }
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
        matches!(self.windows.get(&window), Some(WindowQuery::Full(_)))
    }

    /// Adds the signs, or everything, of as many of these windows as fit into a line, and of at least one.
    /// Those that are queried anyway count for nothing.
    pub(super) fn add_line(
        &mut self,
        windows: impl Iterator<Item = (WindowId, WindowQuery)>,
        room: usize,
        n_windows: usize,
    ) {
        let others = windows.filter(|(window, _)| !self.windows.contains_key(window));
        let fitting: Vec<_> = self.fitting(others, room, n_windows, true).collect();
        self.windows.extend(fitting);
    }

    /// Takes as much as fits into one line. `n_windows` is how many windows the session is known to have.
    pub(super) fn take_line(&mut self, room: usize, n_windows: usize) -> LookLine {
        let all = self.windows.iter().map(|(window, query)| (*window, *query));
        let windows: Vec<_> = self.fitting(all, room, n_windows, !self.index).collect();
        for (window, _) in &windows {
            self.windows.remove(window);
        }
        LookLine {
            index: std::mem::take(&mut self.index),
            windows,
        }
    }

    /// Returns as many of these as fit into a line, if so wanted at least one.
    fn fitting(
        &self,
        windows: impl Iterator<Item = (WindowId, WindowQuery)>,
        room: usize,
        n_windows: usize,
        mut at_least_one: bool,
    ) -> impl Iterator<Item = (WindowId, WindowQuery)> {
        let index = if self.index { n_windows * INDEXED } else { 0 };
        let mut room = room.saturating_sub(index);
        windows.take_while(move |(_, query)| {
            let cost = query.cost(n_windows);
            let fits = cost <= room || at_least_one;
            at_least_one = false;
            room = room.saturating_sub(cost);
            fits
        })
    }
}

/// One line.
#[derive(Debug)]
pub(super) struct LookLine {
    pub(super) index: bool,
    pub(super) windows: Vec<(WindowId, WindowQuery)>,
}

/// The answer to one line.
#[derive(Debug)]
pub(super) struct LineAnswer {
    /// Whether all windows inherit options that a death record has.
    pub(super) is_inherited: bool,
    /// All windows of the session; `None` if they were not listed.
    pub(super) present: Option<BTreeMap<WindowId, PaneId>>,
    pub(super) windows: Vec<(WindowId, ListedWindow, Option<CapturedScreen>)>,
    pub(super) session: SessionRow,
    /// The record of deaths.
    pub(super) record: String,
    /// The server's clock, in seconds.
    pub(super) time: i64,
}

impl LookLine {
    /// Returns the windows that are queried in full.
    pub(super) fn in_full(&self) -> impl Iterator<Item = WindowId> {
        let windows = self.windows.iter();
        let in_full = windows.filter(|(_, query)| *query != WindowQuery::Sign);
        in_full.map(|(window, _)| *window)
    }

    /// Returns its commands. The session comes last: its death record contains the ends of all windows
    /// that were listed before.
    pub(super) fn commands(&self, target: &str, formats: Formats) -> Vec<Command> {
        let mut commands = Vec::new();
        if self.in_full().next().is_some() {
            commands.push(check_command());
        }
        if self.index {
            commands.push(index_command(target));
        }
        for (window, query) in &self.windows {
            let is_sign = *query == WindowQuery::Sign;
            commands.push(window_command(target, *window, formats, is_sign));
            if !is_sign {
                commands.push(OwnOptions::command(*window));
            }
            if let WindowQuery::Full(Some(screen)) = query {
                let pane = screen.pane.map(|pane| pane.to_string());
                let captured = pane.unwrap_or_else(|| window.to_string());
                commands.push(capture_command("-pJ", &captured, &screen.shape));
                if screen.has_rows {
                    commands.push(capture_command("-p", &captured, &screen.shape));
                }
            }
        }
        commands.push(session_command(target, formats));
        commands
    }

    /// Parses what these commands of it have printed; `None` if a window or a pane is gone.
    pub(super) fn read(
        &self,
        commands: &[Command],
        frames: Vec<Frame>,
    ) -> Result<Option<LineAnswer>, TmuxError> {
        let refused = commands.iter().zip(&frames).find(|(_, frame)| !frame.ok);
        if let Some((command, frame)) = refused {
            // If the session is gone, so is the next line's list of its windows.
            return match self.windows.is_empty() {
                true => Err(TmuxError::from_reply(command.name(), &frame.text())),
                false => Ok(None),
            };
        }
        if frames.len() != commands.len() {
            let detail = format!("{} frames for {} commands", frames.len(), commands.len());
            return Err(TmuxError::confused(detail));
        }
        let unreadable = || TmuxError::confused("a row cannot be read");
        self.read_frames(frames).ok_or_else(unreadable).map(Some)
    }

    fn read_frames(&self, frames: Vec<Frame>) -> Option<LineAnswer> {
        let mut frames = frames.into_iter();
        let mut next = || frames.next();
        let is_checked = self.in_full().next().is_some();
        let is_inherited = is_checked && !next()?.text().trim().is_empty();
        let present = match self.index {
            // A session has windows.
            true => Some(read_index(&next()?.text()).filter(|present| !present.is_empty())?),
            false => None,
        };
        let mut windows = Vec::new();
        for (window, query) in &self.windows {
            let mut listed = read_windows(&next()?.text())?.remove(window)?;
            if *query != WindowQuery::Sign {
                let options = OwnOptions::read(&next()?.text());
                listed.details.as_mut()?.describe(&options);
            }
            let mut captured = None;
            if let WindowQuery::Full(Some(screen)) = query {
                let lines = next()?;
                let found = CapturedScreen {
                    time: lines.time,
                    asked: screen.shape,
                    lines: lines.body,
                    rows: match screen.has_rows {
                        true => Some(next()?.body),
                        false => None,
                    },
                };
                // Of several panes of a new window it was the active one.
                let is_its = match screen.pane {
                    Some(pane) => pane == listed.pane,
                    None => listed.is_only,
                };
                captured = is_its.then_some(found);
            }
            windows.push((*window, listed, captured));
        }
        let last = next()?;
        let (session, record) = read_session(&last.text())?;
        Some(LineAnswer {
            is_inherited,
            present,
            windows,
            session,
            record,
            time: last.time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_asks_for_something_however_many_windows_there_are() {
        let mut question = Question {
            index: true,
            windows: [(WindowId(1), WindowQuery::Full(None))].into(),
        };
        assert!(question.take_line(ROOM, 100_000).index);
        let line = question.take_line(ROOM, 100_000);
        assert_eq!(line.windows, [(WindowId(1), WindowQuery::Full(None))]);
        assert!(question.is_empty());
    }
}

//! One look under way: its queries, and the answers so far.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::capture::{CapturedScreen, Shape};
use super::error::TmuxError;
use super::look_lines::{Limit, LookLine, Part, Question};
use super::rows::{ListedWindow, WindowDetails, read_index, read_lists, read_session};
use crate::model::{PaneId, WindowId};
use crate::protocol::rows::{Death, SessionRow, WindowRow};
use crate::protocol::{Command, Frame};

/// How often a look queries what is missing from the answers so far. Twice is usual; more often only
/// if windows are opened, closed or end meanwhile.
const MOST_ROUNDS: usize = 8;

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

/// How much of a window is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    Everything,
    Sign,
}

/// One look under way: its lines, one after the other.
///
/// Windows can be opened, closed and end between two lines. All that is known of a window is from one
/// line. A window is gone only if a list of all windows does not contain it. The death record is no newer
/// than the rows of its windows.
#[derive(Debug)]
pub(super) struct Inquiry {
    kind: LookKind,
    limit: Limit,
    /// What is not queried yet.
    question: Question,
    /// Windows not answered because their line named a missing one.
    unanswered: BTreeMap<WindowId, Detail>,
    /// Whether a line named a missing window or pane, so that all windows have to be listed.
    has_failed: bool,
    rounds_left: usize,
    answer: LookAnswer,
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
    fn show(&mut self, window: WindowId, listed: ListedWindow) {
        self.captured.remove(&listed.pane);
        if let Some(present) = &mut self.present {
            // It may have been opened after they were listed.
            present.entry(window).or_insert(listed.pane);
        }
        self.windows.insert(window, listed);
    }
}

impl Inquiry {
    /// Begins a look with this question.
    pub(super) fn new(kind: LookKind, limit: Limit, question: Question) -> Self {
        Self {
            kind,
            limit,
            question,
            unanswered: BTreeMap::new(),
            has_failed: false,
            rounds_left: MOST_ROUNDS,
            answer: LookAnswer::default(),
        }
    }

    pub(super) fn kind(&self) -> LookKind {
        self.kind
    }

    /// Returns the next line; `None` when nothing is left to query. `missing` returns what the answers so
    /// far lack, and `n_known` is how many windows the session had before.
    pub(super) fn next_line(
        &mut self,
        n_known: usize,
        missing: impl FnOnce(&LookAnswer, &BTreeMap<WindowId, Detail>) -> Question,
    ) -> Option<LookLine> {
        if std::mem::take(&mut self.has_failed) {
            let Question { rows, signs, .. } = std::mem::take(&mut self.question);
            let signs = signs.into_iter().map(|window| (window, Detail::Sign));
            let rows = rows.into_keys().map(|window| (window, Detail::Everything));
            self.unanswered.extend(signs.chain(rows));
            self.question.index = true;
        }
        if self.question.is_empty() {
            self.rounds_left = self.rounds_left.checked_sub(1)?;
            let unanswered = std::mem::take(&mut self.unanswered);
            self.question = missing(&self.answer, &unanswered);
        }
        if self.question.is_empty() {
            return None;
        }
        let present = self.answer.present.as_ref();
        let n_windows = present.map_or(n_known, BTreeMap::len);
        Some(self.question.take_line(self.limit, n_windows))
    }

    /// Returns the answers, and the windows without one.
    pub(super) fn into_answer(self) -> (LookAnswer, BTreeMap<WindowId, Detail>) {
        (self.answer, self.unanswered)
    }

    /// Takes the answer to a line.
    ///
    /// # Errors
    ///
    /// When the session is not there, or the answer does not fit the question.
    pub(super) fn take(
        &mut self,
        line: &LookLine,
        commands: &[(Part, Command)],
        frames: Vec<Frame>,
    ) -> Result<(), TmuxError> {
        if frames.len() > commands.len() {
            let detail = format!("{} frames for {} commands", frames.len(), commands.len());
            return Err(TmuxError::confused(detail));
        }
        let mut answered = 0;
        for ((part, command), frame) in commands.iter().zip(frames) {
            if !frame.ok {
                let error = TmuxError::from_reply(command.name(), &frame.text());
                match part {
                    Part::Row(_) | Part::Capture(..) | Part::CaptureRows(..) | Part::Sign(_) => {
                        self.has_failed = true;
                    }
                    Part::Index | Part::AllRows | Part::AllSigns | Part::Session => {
                        return Err(error);
                    }
                }
                break;
            }
            answered += 1;
            self.read(line, *part, frame)
                .ok_or_else(|| TmuxError::confused("a row cannot be read"))?;
        }
        if answered < commands.len() && !self.has_failed {
            let detail = format!("{answered} frames for {} commands", commands.len());
            return Err(TmuxError::confused(detail));
        }
        if line.index {
            self.answer.deaths_when_listed = Arc::clone(&self.answer.deaths);
        }
        for (window, _) in &line.rows {
            let deaths = Arc::clone(&self.answer.deaths);
            self.answer.deaths_then.insert(*window, deaths);
        }
        self.note_unanswered(line, &commands[answered..]);
        Ok(())
    }

    fn read(&mut self, line: &LookLine, part: Part, frame: Frame) -> Option<()> {
        let answer = &mut self.answer;
        match part {
            Part::Index => {
                let present = read_index(&frame.text())?;
                // A session has windows.
                if present.is_empty() {
                    return None;
                }
                answer
                    .windows
                    .retain(|window, _| present.contains_key(window));
                self.unanswered
                    .retain(|window, _| present.contains_key(window));
                answer.present = Some(present);
            }
            Part::Row(window) => {
                let mut listed = read_lists(None, &frame.text())?;
                answer.show(window, listed.remove(&window)?);
            }
            Part::AllRows => {
                let mut listed = read_lists(None, &frame.text())?;
                if listed.is_empty() {
                    return None;
                }
                for (window, _) in &line.rows {
                    match listed.remove(window) {
                        Some(listed) => answer.show(*window, listed),
                        None => self.has_failed = true,
                    }
                }
            }
            Part::Sign(window) => {
                let mut listed = read_lists(Some(&frame.text()), "")?;
                answer.windows.insert(window, listed.remove(&window)?);
            }
            Part::AllSigns => {
                let mut listed = read_lists(Some(&frame.text()), "")?;
                if listed.is_empty() {
                    return None;
                }
                for window in &line.signs {
                    match listed.remove(window) {
                        Some(listed) => drop(answer.windows.insert(*window, listed)),
                        None => self.has_failed = true,
                    }
                }
            }
            Part::Capture(window, asked) => {
                // Of several panes of a new window it was the active one.
                let listed = answer.windows.get(&window);
                let of_new = listed
                    .filter(|listed| listed.is_only)
                    .map(|listed| (listed.pane, Shape::default()));
                if let Some((pane, asked)) = asked.or(of_new) {
                    let captured = CapturedScreen {
                        time: frame.time,
                        asked,
                        lines: frame.body,
                        rows: None,
                    };
                    answer.captured.insert(pane, captured);
                }
            }
            Part::CaptureRows(_, pane) => answer.captured.get_mut(&pane)?.rows = Some(frame.body),
            Part::Session => {
                let (session, record) = read_session(&frame.text())?;
                answer.deaths = Death::parse_record(&record).into();
                answer.time = frame.time;
                answer.session = Some(session);
                answer.record = record;
            }
        }
        Some(())
    }

    /// Notes the windows that the answer to a line lacks, in whole or in part.
    fn note_unanswered(&mut self, line: &LookLine, missing: &[(Part, Command)]) {
        for (part, _) in missing {
            if let Part::Row(window) | Part::Capture(window, _) | Part::CaptureRows(window, _) =
                part
            {
                self.answer.windows.remove(window);
            }
        }
        let windows = &self.answer.windows;
        let is_there = |window: &WindowId| match &self.answer.present {
            // A list in the same line says so.
            Some(present) if line.index => present.contains_key(window),
            Some(_) | None => true,
        };
        let rows = line.rows.iter().map(|(window, _)| window);
        let rows = rows.filter(|window| {
            windows
                .get(window)
                .is_none_or(|listed| listed.details.is_none())
                && is_there(window)
        });
        let signs = line.signs.iter();
        let signs = signs.filter(|window| !windows.contains_key(window) && is_there(window));
        let signs = signs.map(|window| (*window, Detail::Sign));
        let rows = rows.map(|window| (*window, Detail::Everything));
        self.unanswered.extend(signs.chain(rows));
    }

    /// Returns the windows whose own options have to be queried. `inherited` says that all windows inherit
    /// some; `known` returns what is remembered of a window.
    pub(super) fn with_inherited<'a>(
        &'a mut self,
        inherited: bool,
        known: impl Fn(WindowId) -> Option<&'a WindowRow>,
    ) -> Vec<(WindowId, &'a mut WindowDetails)> {
        let listed = self.answer.windows.iter_mut();
        listed
            .filter_map(|(window, listed)| Some((*window, listed.details.as_mut()?)))
            .filter(|(window, found)| found.may_inherit(inherited, known(*window)))
            .collect()
    }
}

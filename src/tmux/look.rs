//! The look: everything of a session, in as few and as short lines of commands as it takes.
//!
//! Not everything is asked each time. Of windows that may have changed all rows are asked and screens
//! are captured; of the others a sign shows that they have not, and what is remembered still holds.
//! A window is shown by one line, so as it was at one instant.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::capture::{CapturedScreen, Shape};
use super::client::Connection;
use super::error::TmuxError;
use super::look_lines::{Limit, LookAnswer, LookKind, LookLine, Part, Question, WindowQuery};
use super::look_memory::LookMemory;
use super::rows::{
    Formats, WindowDetails, own_options_commands, read_details, read_index, read_session,
    read_sign, read_windows,
};
use crate::model::{SessionId, WindowId};
use crate::protocol::rows::{Death, LookRows};
use crate::protocol::{Command, Frame};

/// The session to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// This session, also after a rename.
    Id(SessionId),
    /// A session that [`super::install`] has prepared for this very process: tmux has stored the
    /// formats there.
    Own(SessionId),
    /// The session with exactly this name.
    Name(String),
}

impl Target {
    /// Returns the target for commands that need a pane or a window.
    pub(super) fn pane(&self) -> String {
        match self {
            Self::Id(id) | Self::Own(id) => format!("{id}:"),
            Self::Name(name) => format!("={name}:"),
        }
    }

    fn formats(&self) -> Formats {
        match self {
            Self::Own(_) => Formats::noted(),
            Self::Id(_) | Self::Name(_) => Formats::whole(),
        }
    }
}

/// Looks at the session; `None` when there is no such session, or no server.
///
/// # Errors
///
/// [`TmuxError::Confused`] when the answer does not fit the question: the caller connects again.
/// Whatever else keeps an answer from coming.
pub(crate) async fn look(
    connection: &mut Connection<'_>,
    target: &Target,
    memory: &mut LookMemory,
    kind: LookKind,
) -> Result<Option<LookRows>, TmuxError> {
    let limit = match connection {
        Connection::Attached(_) => Limit::Short,
        Connection::OneShot(_) | Connection::Unseen(_) => Limit::None,
    };
    let mut inquiry = Inquiry::new(memory, kind, limit);
    match ask(connection, target, memory, &mut inquiry).await {
        Err(error) if error.is_missing() => return Ok(None),
        answer => answer?,
    }
    take_own_options(connection, memory, &mut inquiry).await?;
    let is_inherited = inquiry.answer.is_inherited;
    let look = inquiry.finish(memory);
    let mut look = look.ok_or_else(|| TmuxError::confused("no session"))?;
    if is_inherited {
        // A hook cannot tell what it finds.
        for death in &mut look.deaths {
            (death.run, death.owner) = (None, None);
        }
    }
    Ok(Some(look))
}

/// Asks everything.
async fn ask(
    connection: &mut Connection<'_>,
    target: &Target,
    memory: &LookMemory,
    inquiry: &mut Inquiry,
) -> Result<(), TmuxError> {
    let (session, formats) = (target.pane(), target.formats());
    // tmux serves others between two lines: the next one is sent when the answer has come.
    while let Some(line) = inquiry.next_line(memory) {
        let commands = line.commands(&session, formats);
        let words: Vec<Command> = commands
            .iter()
            .map(|(_, command)| command.clone())
            .collect();
        let asked_at = Instant::now();
        let frames = connection.frames(&words).await?;
        tracing::debug!(
            index = line.index,
            windows = line.windows.len(),
            took = ?asked_at.elapsed(),
            "line"
        );
        inquiry.take(&line, &commands, frames)?;
    }
    Ok(())
}

/// Queries the own options of the windows that may inherit some. Each takes another line, but only where a
/// format has found options that no launcher of ours has set.
async fn take_own_options(
    connection: &mut Connection<'_>,
    memory: &LookMemory,
    inquiry: &mut Inquiry,
) -> Result<(), TmuxError> {
    let LookAnswer {
        windows,
        is_inherited,
        ..
    } = &mut inquiry.answer;
    for (window, listed) in windows {
        let may_inherit =
            |found: &&mut WindowDetails| found.may_inherit(*is_inherited, memory.row(*window));
        let Some(found) = listed.details.as_mut().filter(may_inherit) else {
            continue;
        };
        let commands: Vec<Command> = own_options_commands(*window).collect();
        match connection.run(&commands).await {
            Ok(frames) => {
                let printed: Vec<String> = frames.iter().map(Frame::text).collect();
                found.take_own_options(&printed);
            }
            // The window has gone meanwhile.
            Err(TmuxError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// How often a look queries what is missing from the answers so far. Twice is usual; more often only
/// if windows are opened, closed or end meanwhile.
const MOST_ROUNDS: usize = 8;

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
    unanswered: BTreeMap<WindowId, WindowQuery>,
    /// Whether a line named a missing window or pane, so that all windows have to be listed.
    has_failed: bool,
    rounds_left: usize,
    answer: LookAnswer,
}

impl Inquiry {
    /// Begins a look.
    pub(super) fn new(memory: &LookMemory, kind: LookKind, limit: Limit) -> Self {
        Self {
            kind,
            limit,
            question: memory.first_question(kind, limit),
            unanswered: BTreeMap::new(),
            has_failed: false,
            rounds_left: MOST_ROUNDS,
            answer: LookAnswer::default(),
        }
    }

    /// Returns the next line; `None` when nothing is left to query.
    pub(super) fn next_line(&mut self, memory: &LookMemory) -> Option<LookLine> {
        if std::mem::take(&mut self.has_failed) {
            self.unanswered.append(&mut self.question.windows);
            self.question.index = true;
        }
        if self.question.is_empty() {
            self.rounds_left = self.rounds_left.checked_sub(1)?;
            let unanswered = std::mem::take(&mut self.unanswered);
            self.question = memory.missing(&self.answer, &unanswered, self.kind);
        }
        if self.question.is_empty() {
            return None;
        }
        let present = self.answer.present.as_ref();
        let n_windows = present.map_or(memory.n_windows(), BTreeMap::len);
        Some(self.question.take_line(self.limit, n_windows))
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
                    Part::Inherited | Part::Index | Part::AllRows | Part::Session => {
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
        for window in line.in_full() {
            let deaths = Arc::clone(&self.answer.deaths);
            self.answer.deaths_then.insert(window, deaths);
        }
        self.note_unanswered(line, &commands[answered..]);
        Ok(())
    }

    fn read(&mut self, line: &LookLine, part: Part, frame: Frame) -> Option<()> {
        let answer = &mut self.answer;
        match part {
            Part::Inherited => answer.is_inherited |= !frame.text().trim().is_empty(),
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
                let mut listed = read_windows(&frame.text(), read_details)?;
                answer.show(window, listed.remove(&window)?);
            }
            Part::AllRows => {
                let mut listed = read_windows(&frame.text(), read_details)?;
                if listed.is_empty() {
                    return None;
                }
                for window in line.in_full() {
                    match listed.remove(&window) {
                        Some(listed) => answer.show(window, listed),
                        None => self.has_failed = true,
                    }
                }
            }
            Part::Sign(window) => {
                let mut listed = read_windows(&frame.text(), read_sign)?;
                answer.windows.insert(window, listed.remove(&window)?);
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
        let LookAnswer {
            windows, present, ..
        } = &self.answer;
        // A list in the same line says which windows are there.
        let present = present.as_ref().filter(|_| line.index);
        let unanswered = line.windows.iter().filter(|(window, query)| {
            let listed = windows.get(window);
            let has_answer = listed
                .is_some_and(|listed| listed.details.is_some() || *query == WindowQuery::Sign);
            !has_answer && present.is_none_or(|present| present.contains_key(window))
        });
        self.unanswered.extend(unanswered.copied());
    }

    /// Ends the look; `None` without an answer about the session itself.
    pub(super) fn finish(self, memory: &mut LookMemory) -> Option<LookRows> {
        memory.finish_look(self.kind, self.answer, self.unanswered)
    }
}

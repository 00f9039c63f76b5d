//! The look: queries a whole session in one line of commands, and so at one instant.
//!
//! Not everything is queried each time. For windows that may have changed, all rows are queried and
//! screens are captured. For the others a sign shows that they have not changed, and the remembered
//! rows are used.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::capture::{Captures, Shape, capture_command, capture_new_command};
use super::client::Connection;
use super::error::TmuxError;
use super::rows::{
    Formats, ListedWindow, Wanted, bells_of_pi_command, list_command, list_window_command,
    read_lists, read_session, session_command, signs_command,
};
use crate::model::{PaneId, SessionId, SessionLife, WindowId};
use crate::protocol::rows::{Death, Look, SessionRow, WindowRow};
use crate::protocol::{Command, Frame};

/// With more windows than this to query, all are queried.
const MANY: usize = 32;

/// Up to this many windows are queried one by one, so that tmux need not go through all of them.
const VERY_FEW: usize = 8;

/// The session to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
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

/// The results of earlier looks at one session.
#[derive(Debug, Default)]
pub struct Memory {
    captures: Captures,
    /// The session that they belong to.
    life: Option<SessionLife>,
    windows: BTreeMap<WindowId, RememberedWindow>,
    /// Windows known to have changed since the last look.
    moved: BTreeSet<WindowId>,
}

#[derive(Debug)]
struct RememberedWindow {
    sign: String,
    /// Including its pane and screen.
    row: Arc<WindowRow>,
    shape: Shape,
}

impl RememberedWindow {
    fn pane(&self) -> Option<PaneId> {
        Some(self.row.pane.as_ref()?.pane)
    }

    /// Whether tmux has not yet reported how its process ended.
    fn is_unsettled(&self) -> bool {
        let dead = self.row.pane.as_ref().and_then(|pane| pane.dead.as_ref());
        dead.is_some_and(|dead| !dead.exit.is_known())
    }
}

/// How much of the session a look queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Windows that were reported as changed, in full. If there are none, all windows in full.
    Told,
    /// The same, and a sign of every other window to verify that it has not changed.
    Whole,
    /// Everything except the screens, in at most one line.
    Rows,
}

impl Memory {
    /// Marks panes that have printed, processes that have ended, and windows that are new or have
    /// changed, so that the next look queries them in its first line.
    pub fn expect(
        &mut self,
        printed: impl IntoIterator<Item = PaneId>,
        ended: &BTreeSet<u32>,
        moved: impl IntoIterator<Item = WindowId>,
    ) {
        self.captures.expect(printed, ended);
        self.moved.extend(moved);
    }

    /// Makes the next look query everything, including changes that no sign shows, such as an
    /// option that was set.
    pub fn ask_for_all(&mut self) {
        self.windows.clear();
    }

    /// Forgets windows that a command has just ended: a line that names them or their panes would
    /// fail, and the look would have to ask again.
    pub fn forget_windows<'a>(&mut self, windows: impl IntoIterator<Item = &'a WindowId>) {
        for window in windows {
            self.moved.remove(window);
            let pane = self.windows.remove(window).and_then(|known| known.pane());
            if let Some(pane) = pane {
                self.captures.forget(pane);
            }
        }
    }

    /// Returns the first question of a look.
    fn first_question(&self, extent: Extent) -> Question {
        let panes = match extent {
            Extent::Told | Extent::Whole => self.captures.likely(),
            Extent::Rows => BTreeMap::new(),
        };
        if self.windows.is_empty() || extent == Extent::Rows {
            return Question {
                signs: true,
                wanted: Wanted::All,
                panes,
                new: BTreeSet::new(),
            };
        }
        let likely = self.windows.iter().filter(|(_, known)| {
            known.is_unsettled() || known.pane().is_some_and(|pane| panes.contains_key(&pane))
        });
        let mut wanted: BTreeSet<WindowId> = likely.map(|(window, _)| *window).collect();
        wanted.extend(&self.moved);
        let is_told = !self.moved.is_empty() || self.captures.expects_any();
        let is_new = |window: &WindowId| !self.windows.contains_key(window);
        let new = wanted.iter().copied().filter(is_new).collect();
        let wanted = few(wanted);
        Question {
            signs: extent == Extent::Whole || !is_told || wanted == Wanted::All,
            wanted,
            panes,
            new,
        }
    }

    /// Returns the question for what is missing from an answer, if anything is.
    fn next_question(&self, question: &Question, answer: &Answer) -> Option<Question> {
        let is_same_life = self.life.as_ref() == Some(&answer.session.life);
        let mut windows = BTreeSet::new();
        let mut panes = BTreeMap::new();
        for (window, listed) in &answer.windows {
            let shape = match (&listed.details, self.windows.get(window)) {
                (Some(found), _) => found.shape,
                (None, Some(known)) if is_same_life && known.sign == listed.sign => known.shape,
                (None, known) => {
                    windows.insert(*window);
                    let known = known.filter(|known| known.pane() == Some(listed.pane));
                    known.map(|known| known.shape).unwrap_or_default()
                }
            };
            let is_captured = answer.captured.contains_key(&listed.pane);
            let is_stale = windows.contains(window)
                || !is_same_life
                || self.captures.is_stale(listed.pane, &shape);
            if is_stale && !is_captured {
                windows.insert(*window);
                panes.insert(listed.pane, shape);
            }
        }
        // Deaths are cleared once reported, so their windows are queried together with them.
        let died = Death::parse_record(&answer.record).into_iter();
        windows.extend(
            died.map(|death| death.window)
                .filter(|window| !answer.is_whole && !answer.windows.contains_key(window)),
        );
        // If a reported window is gone, others may be gone too.
        let has_gone = |windows: &BTreeSet<WindowId>| {
            windows
                .iter()
                .any(|window| !answer.windows.contains_key(window))
        };
        let signs = question.signs
            || !is_same_life
            || match &question.wanted {
                Wanted::All => true,
                Wanted::Windows(wanted) => has_gone(wanted),
            };
        if windows.is_empty() && signs == question.signs {
            return None;
        }
        let present: BTreeSet<PaneId> = answer.windows.values().map(|listed| listed.pane).collect();
        let known = question.panes.iter();
        panes.extend(known.filter(|(pane, _)| present.contains(pane)));
        let wanted = match &question.wanted {
            Wanted::All => Wanted::All,
            Wanted::Windows(before) => few(windows.union(before).copied().collect()),
        };
        Some(Question {
            signs,
            wanted,
            panes,
            new: BTreeSet::new(),
        })
    }

    /// Combines the answer with the remembered rows, and remembers the result.
    fn settle(&mut self, mut answer: Answer) -> Look {
        if answer.is_whole {
            let listed = &answer.windows;
            self.windows.retain(|window, _| listed.contains_key(window));
        }
        for (window, listed) in answer.windows {
            let sign = listed.sign;
            let Some(found) = listed.details else {
                continue;
            };
            let (mut row, shape) = (found.window, found.shape);
            if let Some((asked, lines)) = answer.captured.remove(&listed.pane) {
                let banner = &found.banner;
                self.captures
                    .remember(listed.pane, answer.time, shape, &asked, &lines, banner);
            }
            if let Some(pane) = &mut row.pane {
                pane.screen = self.captures.screen(pane.pane);
            }
            let row = Arc::new(row);
            self.windows
                .insert(window, RememberedWindow { sign, row, shape });
        }
        if answer.is_whole {
            let present = self
                .windows
                .values()
                .filter_map(RememberedWindow::pane)
                .collect();
            self.captures.keep_only(&present);
        }
        self.captures.looked(answer.time);
        self.moved.clear();
        self.life = Some(answer.session.life.clone());
        let windows = self.windows.values();
        Look {
            time: answer.time,
            session: answer.session,
            windows: windows.map(|known| Arc::clone(&known.row)).collect(),
            is_whole: answer.is_whole,
            deaths: Death::parse_record(&answer.record),
            death_record: answer.record,
        }
    }
}

/// The contents of one query line.
#[derive(Debug)]
struct Question {
    /// Whether all windows return a sign. If not, only the wanted windows are queried.
    signs: bool,
    wanted: Wanted,
    /// Panes to capture, with their last shapes.
    panes: BTreeMap<PaneId, Shape>,
    /// Windows not seen before: their panes are not known, but are captured all the same.
    new: BTreeSet<WindowId>,
}

impl Question {
    /// Whether it names windows or panes, which must exist.
    fn names_any(&self) -> bool {
        !(self.alone().is_empty() && self.panes.is_empty() && self.new.is_empty())
    }

    /// Whether it queries everything of this window.
    fn wants(&self, window: WindowId) -> bool {
        match &self.wanted {
            Wanted::All => true,
            Wanted::Windows(windows) => windows.contains(&window),
        }
    }

    /// Returns the windows that are queried one by one.
    fn alone(&self) -> &BTreeSet<WindowId> {
        static NONE: BTreeSet<WindowId> = BTreeSet::new();
        match &self.wanted {
            Wanted::Windows(windows) if !self.signs && windows.len() <= VERY_FEW => windows,
            Wanted::Windows(_) | Wanted::All => &NONE,
        }
    }

    /// Returns the commands that list everything that is wanted.
    fn list_commands(&self, target: &str, formats: Formats) -> Vec<Command> {
        let alone = self.alone();
        if alone.is_empty() {
            return vec![list_command(target, &self.wanted, formats)];
        }
        let windows = alone.iter();
        windows
            .map(|window| list_window_command(target, *window, formats))
            .collect()
    }
}

/// One answer, including its captures.
#[derive(Debug)]
struct Answer {
    /// The server's clock at the end of the line, in seconds since 1970.
    time: i64,
    session: SessionRow,
    /// Whether these are all windows of the session.
    is_whole: bool,
    windows: BTreeMap<WindowId, ListedWindow>,
    captured: BTreeMap<PaneId, (Shape, Vec<Vec<u8>>)>,
    record: String,
}

fn few(windows: BTreeSet<WindowId>) -> Wanted {
    if windows.len() > MANY {
        Wanted::All
    } else {
        Wanted::Windows(windows)
    }
}

/// Looks at the session at one instant; `None` when the session or the server is missing.
///
/// # Errors
///
/// [`TmuxError::Confused`] when the answer does not fit the question: the caller has to reconnect.
/// Otherwise when no answer came.
pub async fn look(
    connection: &mut Connection<'_>,
    target: &Target,
    memory: &mut Memory,
    extent: Extent,
) -> Result<Option<Look>, TmuxError> {
    let mut question = memory.first_question(extent);
    // The first line queries what has probably changed, the second what its answer shows to have
    // changed as well. The third is for changes in between, and is final: for a pane that never
    // stops changing the last screen is as good as any.
    let mut lines_left = 3;
    loop {
        lines_left -= 1;
        if lines_left == 0 {
            question.signs = true;
            question.wanted = Wanted::All;
        }
        let answer = match ask(connection, target, &question).await {
            // A reported window is gone, or a pane to be captured.
            Err(TmuxError::Rejected { .. }) if question.names_any() => {
                question.signs = true;
                question.panes.clear();
                question.new.clear();
                ask(connection, target, &question).await
            }
            answer => answer,
        };
        let mut answer = match answer {
            Err(error) if error.is_missing() => return Ok(None),
            answer => answer?,
        };
        let next = memory.next_question(&question, &answer);
        match next.filter(|_| lines_left > 0 && extent != Extent::Rows) {
            Some(next) => question = next,
            None => {
                add_bells_of_pi(connection, &mut answer).await?;
                return Ok(Some(memory.settle(answer)));
            }
        }
    }
}

/// Adds the bell counts of Pi's helper to the windows that have one of their own. This takes
/// another line, but only where a format has found a count.
async fn add_bells_of_pi(
    connection: &mut Connection<'_>,
    answer: &mut Answer,
) -> Result<(), TmuxError> {
    let listed = answer.windows.iter_mut();
    let mut counted: Vec<_> = listed
        .filter_map(|(window, listed)| Some((*window, listed.details.as_mut()?)))
        .filter(|(_, found)| found.may_have_bells_of_pi)
        .collect();
    if counted.is_empty() {
        return Ok(());
    }
    let ask = |(window, _): &(WindowId, _)| bells_of_pi_command(*window);
    let commands: Vec<Command> = counted.iter().map(ask).collect();
    let mut frames = connection.frames(&commands).await?;
    // A window that is gone prevents the rest of the line from running.
    if frames.len() != commands.len() || frames.iter().any(|frame| !frame.ok) {
        frames.clear();
        for command in commands {
            let mut frame = connection.frames(&[command]).await?;
            frames.push(frame.pop().ok_or_else(|| confused("no frame"))?);
        }
    }
    for ((_, found), frame) in counted.iter_mut().zip(frames) {
        if frame.ok {
            found.add_bells_of_pi(&frame.text());
        }
    }
    Ok(())
}

fn confused(detail: impl Into<String>) -> TmuxError {
    TmuxError::Confused {
        detail: detail.into(),
    }
}

async fn ask(
    connection: &mut Connection<'_>,
    target: &Target,
    question: &Question,
) -> Result<Answer, TmuxError> {
    let formats = target.formats();
    let target = target.pane();
    let mut commands = question.list_commands(&target, formats);
    let n_lists = commands.len();
    if question.signs {
        commands.push(signs_command(&target, formats));
    }
    let known = question.panes.iter();
    commands.extend(known.map(|(pane, shape)| capture_command(*pane, shape)));
    commands.extend(question.new.iter().copied().map(capture_new_command));
    commands.push(session_command(&target, formats));
    let frames = connection.run(&commands).await?;
    if frames.len() != commands.len() {
        return Err(confused(format!(
            "{} frames for {} commands",
            frames.len(),
            commands.len()
        )));
    }
    read(frames, n_lists, question).ok_or_else(|| confused("a row cannot be read"))
}

fn read(frames: Vec<Frame>, n_lists: usize, question: &Question) -> Option<Answer> {
    let last = frames.last()?;
    let (session, record) = read_session(&last.text())?;
    let time = last.time;
    let mut frames = frames.into_iter();
    let lists: String = frames
        .by_ref()
        .take(n_lists)
        .map(|list| list.text())
        .collect();
    let signs = if question.signs {
        Some(frames.next()?.text())
    } else {
        None
    };
    let windows = read_lists(signs.as_deref(), &lists)?;
    // The stored formats may have been removed: no window would be left.
    let is_missing =
        |window, listed: &ListedWindow| question.wants(window) && listed.details.is_none();
    if windows.is_empty() || windows.iter().any(|(id, listed)| is_missing(*id, listed)) {
        return None;
    }
    let mut captured = BTreeMap::new();
    for ((pane, shape), frame) in question.panes.iter().zip(&mut frames) {
        captured.insert(*pane, (*shape, frame.body));
    }
    for (window, frame) in question.new.iter().zip(&mut frames) {
        // Of several panes the active one was captured.
        if let Some(listed) = windows.get(window).filter(|listed| listed.is_only) {
            captured.insert(listed.pane, (Shape::default(), frame.body));
        }
    }
    Some(Answer {
        time,
        session,
        is_whole: question.signs,
        windows,
        captured,
        record,
    })
}

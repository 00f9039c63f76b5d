//! The panel's state: keys, tasks and results go in, effects come out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ratatui::layout::Rect;
use ratatui::text::Line;

use super::board::{Board, LastSample, ListRow, Place, SessionKey, SessionName, TaskKey, Usage};
use super::colours::coloured;
use super::mode::{LogView, Mode, PanelEffect, Subject};
use crate::model::Millis;
use crate::ops::{Attachment, TreeUsage};
use crate::rules::terminal::{columns_of, fitted};
use crate::rules::wire::LsTask;

mod keys;

/// How many rows a question or a message has at most.
const FOOTER_ROWS: usize = 3;

/// The session of a panel that shows one.
pub(super) const ONLY: SessionKey = SessionKey(0);

/// How long the result of an action is shown, unless a key is pressed.
const RESULT_FOR: Duration = Duration::from_secs(5);

/// The same for an error: it says what to do.
const ERROR_FOR: Duration = Duration::from_secs(15);

/// Which sessions the panel shows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Scope {
    #[default]
    One,
    All,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_error: bool,
    /// When it goes; `None` until it has been drawn.
    until: Option<Instant>,
}

/// All that a frame shows.
#[derive(Debug, Default)]
pub(super) struct PanelState {
    pub(super) scope: Scope,
    pub(super) board: Board,
    pub(super) rows: Vec<ListRow>,
    /// The first row that is shown.
    pub(super) top: usize,
    pub(super) selected: Option<ListRow>,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) message: Option<Message>,
    /// Why the tasks are not up to date; `None` while they are.
    pub(super) trouble: Option<String>,
    /// What the shown tasks use, and the ports that they listen on, by their first processes.
    pub(super) usage: BTreeMap<u32, Usage>,
    pub(super) ports: BTreeMap<u32, Vec<u16>>,
    pub(super) preview: Option<(TaskKey, Vec<Line<'static>>)>,
    pub(super) size: (u16, u16),
    /// The time that ages refer to.
    pub(super) now: Millis,
    /// Whether sessions that there were at first are still being found.
    is_looking: bool,
    /// The task whose preview was asked for last, as it was then.
    previewed: Option<(TaskKey, LsTask)>,
    last_sample: LastSample,
    pub(super) has_quit: bool,
}

impl PanelState {
    /// Returns the state of a panel that shows the session of this name, or all sessions.
    pub(super) fn new(session: Option<String>, size: (u16, u16), now: Millis) -> Self {
        let (scope, trouble) = match session {
            Some(_) => (Scope::One, "connecting to the daemon"),
            None => (Scope::All, "looking for task sessions"),
        };
        let mut board = Board::default();
        if let Some(name) = session {
            board.add(ONLY, SessionName { name, server: None }, None);
        }
        Self {
            scope,
            board,
            trouble: Some(trouble.to_owned()),
            size,
            now,
            is_looking: scope == Scope::All,
            ..Self::default()
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout_in(self.size)
    }

    /// In another size than the last one that was reported.
    pub(super) fn layout_in(&self, size: (u16, u16)) -> Layout {
        let rows = self.footer_text().len() + usize::from(self.mode.typed().is_some());
        Layout::of(size, rows.max(1).try_into().unwrap_or(u16::MAX))
    }

    /// Returns what the footer asks or tells the user; nothing where it shows the keys, or only what is typed.
    pub(super) fn footer_text(&self) -> Vec<String> {
        // A column on each side is free.
        let columns = usize::from(self.size.0).saturating_sub(2);
        let text = match (&self.message, self.mode.question()) {
            (_, Some(question)) => question,
            (Some(message), None) if self.mode.typed().is_none() => message.text.clone(),
            (Some(_) | None, None) => return Vec::new(),
        };
        wrapped(&text, columns, FOOTER_ROWS)
    }

    pub(super) fn selected_task(&self) -> Option<(&TaskKey, &LsTask)> {
        match self.selected.as_ref()? {
            ListRow::Task(task) => Some((task, self.board.get(task)?)),
            ListRow::Session(_) => None,
        }
    }

    /// Returns what the panel shows: the session's name, or how many there are.
    pub(super) fn title(&self) -> String {
        match (self.scope, self.board.n_sessions()) {
            (Scope::One, _) => self.session_name(ONLY).to_owned(),
            (Scope::All, 0) if self.trouble.is_some() => "all sessions".to_owned(),
            (Scope::All, 1) => "1 session".to_owned(),
            (Scope::All, n) => format!("{n} sessions"),
        }
    }

    pub(super) fn session_name(&self, key: SessionKey) -> &str {
        let session = self.board.session(key);
        session.map_or("", |session| &session.name.name)
    }

    /// Returns how a task is called: with its session, where there are others.
    pub(super) fn name_of(&self, task: &TaskKey, listed: &LsTask) -> String {
        let name = &listed.task.name;
        match self.scope {
            Scope::One => name.clone(),
            Scope::All => format!("{}/{name}", self.board.label(task.session)),
        }
    }

    pub(super) fn visible(&self) -> &[ListRow] {
        let end = self.top + usize::from(self.layout().list.height);
        &self.rows[self.top.min(self.rows.len())..end.min(self.rows.len())]
    }

    // What happens outside.

    pub(super) fn on_incoming(&mut self, incoming: Incoming) -> Vec<PanelEffect> {
        match incoming {
            Incoming::Connected { key, place, name } => {
                self.board.add(key, name, Some(place));
                if self.scope == Scope::One {
                    self.trouble = None;
                }
            }
            Incoming::Lost(why) => {
                self.trouble = Some(why);
                return Vec::new();
            }
            Incoming::Tasks {
                key,
                exists,
                is_complete,
                tasks,
                removed,
            } => self.board.update(key, exists, is_complete, tasks, &removed),
            Incoming::Found => self.trouble = None,
            Incoming::Unknown { key, name, why } => self.board.add_unknown(key, name, why),
            Incoming::Gone(key) => self.board.remove(key),
        }
        self.list_again();
        self.settled()
    }

    pub(super) fn on_size(&mut self, size: (u16, u16)) -> Vec<PanelEffect> {
        self.size = size;
        let height = usize::from(self.layout().body().height);
        if let Mode::View { view, .. } = &mut self.mode {
            view.resize(height);
        }
        self.settled()
    }

    pub(super) fn on_report(&mut self, report: ActionReport) -> Vec<PanelEffect> {
        match report {
            // Who has the terminal executes it.
            ActionReport::Attach(_) => {}
            ActionReport::Said(result) => self.say(result),
            ActionReport::Preview { task, lines } => self.preview = Some((task, coloured(&lines))),
            ActionReport::Log { task, result } => {
                let lines = result.map(|lines| coloured(&lines));
                self.fill(&Subject::Log(task), lines, true);
            }
            ActionReport::Explained { task, result } => {
                let mut effects = self.on_explained(task, result);
                effects.extend(self.settled());
                return effects;
            }
        }
        self.settled()
    }

    fn on_explained(
        &mut self,
        task: TaskKey,
        result: Result<(bool, Vec<String>), String>,
    ) -> Vec<PanelEffect> {
        let answer = match &mut self.mode {
            Mode::Line(line) if line.prompt.is_some() && line.task == task => line,
            Mode::List
            | Mode::Line(_)
            | Mode::Filter(_)
            | Mode::Confirm { .. }
            | Mode::View { .. } => {
                let lines = result.map(|(_, lines)| lines.into_iter().map(Line::from).collect());
                self.fill(&Subject::Explanation(task), lines, false);
                return Vec::new();
            }
        };
        match result {
            Ok((is_secret, _)) => {
                answer.is_secret = Some(is_secret);
                if answer.is_finished {
                    return self.send_line();
                }
            }
            Err(error) => {
                self.mode = Mode::List;
                self.say(Err(error));
            }
        }
        Vec::new()
    }

    /// Shows the text of a view that is still open, or closes it if its text cannot be had.
    fn fill(&mut self, subject: &Subject, text: Result<Vec<Line<'static>>, String>, at_end: bool) {
        let height = usize::from(self.layout().body().height);
        let Mode::View { of, view } = &mut self.mode else {
            return;
        };
        match text {
            _ if of != subject => {}
            Ok(lines) => {
                *view = LogView::new(std::mem::take(&mut view.title), lines, height);
                if at_end {
                    view.go_by(isize::MAX);
                }
            }
            Err(error) => {
                self.mode = Mode::List;
                self.say(Err(error));
            }
        }
    }

    pub(super) fn say(&mut self, result: Result<String, String>) {
        let is_error = result.is_err();
        let (Ok(text) | Err(text)) = result;
        self.message = Some(Message {
            text,
            is_error,
            until: None,
        });
    }

    /// A frame was drawn: the time of a message counts from its first one.
    pub(super) fn on_drawn(&mut self, now: Instant) {
        if let Some(message) = &mut self.message {
            let shown_for = match message.is_error {
                true => ERROR_FOR,
                false => RESULT_FOR,
            };
            message.until.get_or_insert(now + shown_for);
        }
    }

    pub(super) fn message_until(&self) -> Option<Instant> {
        self.message.as_ref()?.until
    }

    pub(super) fn on_message_over(&mut self) -> Vec<PanelEffect> {
        self.message = None;
        self.settled()
    }

    /// Reads what the live tasks that are shown use, and on which ports they listen, if it is time to.
    pub(super) fn on_second(
        &mut self,
        now: Instant,
        read: impl FnOnce(&[u32]) -> (BTreeMap<u32, TreeUsage>, BTreeMap<u32, Vec<u16>>),
    ) {
        let shown = self.visible().iter().filter_map(|row| match row {
            ListRow::Task(key) => Some(&self.board.get(key)?.task),
            ListRow::Session(_) => None,
        });
        let live = shown.filter(|task| task.is_alive());
        let pids: Vec<u32> = live.filter_map(|task| task.pid).collect();
        if self.last_sample.is_due(&pids, now) {
            let used;
            (used, self.ports) = read(&pids);
            self.usage = self.last_sample.take(used, now);
        }
    }

    // What follows from a change.

    fn selected_row(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        self.rows.iter().position(|row| row == selected)
    }

    /// Orders and filters the tasks. The same task stays selected; where it is gone, the one in its
    /// row. The first one is selected while sessions are still being found, in any order.
    fn list_again(&mut self) {
        let row = self.selected_row().unwrap_or(0);
        self.rows = self.board.ordered(&self.filter);
        if self.is_looking {
            self.selected = self.rows.first().cloned();
            self.is_looking = self.trouble.is_some() || !self.board.is_known();
        }
        if self.selected_row().is_none() {
            let row = row.min(self.rows.len().saturating_sub(1));
            self.selected = self.rows.get(row).cloned();
        }
    }

    /// Brings the selection into view, and asks for its preview if it has changed.
    fn settled(&mut self) -> Vec<PanelEffect> {
        let layout = self.layout();
        let height = usize::from(layout.list.height).max(1);
        if let Some(row) = self.selected_row() {
            self.top = self.top.clamp(row.saturating_sub(height - 1), row);
        }
        self.top = self.top.min(self.rows.len().saturating_sub(height));
        let selected = self.selected_task();
        let previewed = self.previewed.as_ref().map(|(task, listed)| (task, listed));
        if layout.preview.height == 0 || selected == previewed {
            return Vec::new();
        }
        let effect = selected.map(|(task, listed)| PanelEffect::Preview {
            task: task.clone(),
            is_full_screen: listed.task.screen.alternate == Some(true),
        });
        self.previewed = selected.map(|(task, listed)| (task.clone(), listed.clone()));
        effect.into_iter().collect()
    }
}

/// Returns a text in rows, broken at blanks where there are any. What does not fit into `n` rows is cut.
pub(super) fn wrapped(text: &str, columns: usize, n: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut rest = text.trim();
    while rows.len() + 1 < n && columns_of(rest) > columns {
        let ends = rest.char_indices().map(|(at, c)| at + c.len_utf8());
        let fits = ends.take_while(|end| columns_of(&rest[..*end]) <= columns);
        let Some(fits) = fits.last() else {
            // Not even one character does.
            break;
        };
        let blank = rest[..fits].rfind(' ').filter(|at| *at > 0);
        let end = match blank {
            Some(blank) if !rest[fits..].starts_with(' ') => blank,
            Some(_) | None => fits,
        };
        let (row, next) = rest.split_at(end);
        rows.push(row.trim_end().to_owned());
        rest = next.trim_start();
    }
    rows.push(fitted(rest, columns));
    rows
}

/// What happens to the sessions.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A stream has begun. Requests go to this session.
    Connected {
        key: SessionKey,
        place: Place,
        name: SessionName,
    },
    /// The stream of the only session has ended, and why.
    Lost(String),
    Tasks {
        key: SessionKey,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: Vec<String>,
    },
    /// All sessions that there were at first are known.
    Found,
    /// A session exists, and why its tasks are not known.
    Unknown {
        key: SessionKey,
        name: SessionName,
        why: String,
    },
    Gone(SessionKey),
}

// The results of effects.

/// The result of an effect. An error is one line.
#[derive(Debug)]
pub(super) enum ActionReport {
    /// The command that shows a task to the user.
    Attach(Attachment),
    /// It was done, or not, and there is something to say.
    Said(Result<String, String>),
    Explained {
        task: TaskKey,
        /// Whether the answer must not be shown, and all that is to be said.
        result: Result<(bool, Vec<String>), String>,
    },
    Log {
        task: TaskKey,
        result: Result<Vec<String>, String>,
    },
    Preview {
        task: TaskKey,
        lines: Vec<String>,
    },
}

/// From this height on there is a preview.
const PREVIEW_FROM: u16 = 16;

/// What part of the height the preview has, in percent.
const PREVIEW_PERCENT: u16 = 45;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) title: Rect,
    pub(super) header: Rect,
    pub(super) list: Rect,
    /// The selected task's output, with a row for its title; without height on a low terminal.
    pub(super) preview: Rect,
    /// The row of hints, or what is typed.
    pub(super) footer: Rect,
}

impl Layout {
    /// Divides a screen of this width and height whose footer has this many rows.
    pub(super) fn of((width, height): (u16, u16), footer: u16) -> Self {
        let screen = Rect::new(0, 0, width, height);
        let rows = |y, n| Rect::new(0, y, width, n).intersection(screen);
        let preview = match height {
            // Not more than 65535 percent of anything fits a terminal.
            PREVIEW_FROM.. => u32::from(height) * u32::from(PREVIEW_PERCENT) / 100,
            0..PREVIEW_FROM => 0,
        };
        let preview = preview.try_into().unwrap_or(0);
        let footer = footer.min(height);
        let list = height.saturating_sub(2 + preview + footer);
        Self {
            title: rows(0, 1),
            header: rows(1, 1),
            list: rows(2, list),
            preview: rows(2 + list, preview),
            footer: rows(height - footer, footer),
        }
    }

    /// The part between title and footer, for texts.
    pub(super) fn body(&self) -> Rect {
        let top = self.header.y;
        Rect::new(0, top, self.title.width, self.footer.y.saturating_sub(top))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_at_blanks_and_cut_at_the_end() {
        for (text, expected) in [
            ("", vec![""]),
            ("short", vec!["short"]),
            ("one two three", vec!["one two", "three"]),
            ("exactly8 then", vec!["exactly8", "then"]),
            ("unbreakable", vec!["unbreaka", "ble"]),
            ("日本語日本語", vec!["日本語日", "本語"]),
            (
                "one two three four five six",
                vec!["one two", "three", "four fi…"],
            ),
        ] {
            assert_eq!(wrapped(text, 8, 3), expected);
        }
        assert_eq!(wrapped("日本", 1, 3), ["…"]);
        assert_eq!(wrapped("text", 0, 3), [""]);
    }
}

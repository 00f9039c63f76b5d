//! The panel's state: keys, tasks and results go in, effects come out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;
use ratatui::text::Line;

use super::board::{Board, Group, Row, SessionKey, SessionName, TaskKey};
use super::colours::coloured;
use super::effect::{ActionReport, Effect};
use super::help;
use super::input_line::InputLine;
use super::layout::Layout;
use super::log_view::{LogView, Move};
use super::mode::{Answer, Mode, Subject};
use super::usage::{LastSample, SampleOrder, Usage};
use super::wrap::wrapped;
use crate::model::Millis;
use crate::ops::TreeUsage;
use crate::wire::{Explanation, LsTask, SecretText, SendRequest, TypedInput};

/// How many lines the mouse wheel moves.
const WHEEL: usize = 3;

/// How many rows a question or a message has at most.
const FOOTER_ROWS: usize = 3;

/// The session of a panel that shows one.
pub(super) const ONLY: SessionKey = SessionKey(0);

/// How long the result of an action is shown, unless a key is pressed.
const RESULT_FOR: Duration = Duration::from_secs(5);

/// The same for an error: it says what to do.
const ERROR_FOR: Duration = Duration::from_secs(15);

/// Which sessions the panel shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One session.
    One,
    /// All task sessions of the user.
    All,
}

/// A short message to the user.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) text: String,
    pub(super) is_error: bool,
    /// When it goes; `None` until it has been drawn.
    until: Option<Instant>,
}

/// All that a frame shows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) scope: Scope,
    pub(super) board: Board,
    /// The rows of the list, in order.
    pub(super) rows: Vec<Row>,
    /// The first row that is shown.
    pub(super) top: usize,
    pub(super) selected: Option<Row>,
    pub(super) filter: String,
    pub(super) mode: Mode,
    pub(super) message: Option<Message>,
    /// Why the tasks are not up to date; `None` while they are.
    pub(super) trouble: Option<String>,
    pub(super) usage: BTreeMap<TaskKey, Usage>,
    /// The end of the output of a task.
    pub(super) preview: Option<(TaskKey, Vec<Line<'static>>)>,
    pub(super) size: (u16, u16),
    /// The time that ages refer to.
    pub(super) now: Millis,
    /// Whether sessions that there were at first are still being found.
    is_looking: bool,
    /// The task whose preview was asked for last, as it was then.
    previewed: Option<(TaskKey, LsTask)>,
    last_sample: LastSample,
}

impl State {
    /// Returns the state of a panel that shows one session, of this name.
    pub(super) fn new(session: String, size: (u16, u16), now: Millis) -> Self {
        let mut state = Self::with(Scope::One, "connecting to the daemon", size, now);
        let name = session;
        state.board.add(ONLY, SessionName { name, server: None });
        state
    }

    /// Returns the state of a panel that shows all sessions.
    pub(super) fn of_all(size: (u16, u16), now: Millis) -> Self {
        Self::with(Scope::All, "looking for task sessions", size, now)
    }

    fn with(scope: Scope, trouble: &str, size: (u16, u16), now: Millis) -> Self {
        Self {
            scope,
            board: Board::default(),
            rows: Vec::new(),
            top: 0,
            selected: None,
            filter: String::new(),
            mode: Mode::List,
            message: None,
            trouble: Some(trouble.to_owned()),
            usage: BTreeMap::new(),
            preview: None,
            size,
            now,
            is_looking: scope == Scope::All,
            previewed: None,
            last_sample: LastSample::default(),
        }
    }

    pub(super) fn layout(&self) -> Layout {
        let rows = self.footer_text().len() + usize::from(self.mode.typed().is_some());
        Layout::of(self.size, u16::try_from(rows.max(1)).unwrap_or(u16::MAX))
    }

    /// Returns the rows of the footer that ask or tell the user something; none where it shows the
    /// keys, or only what is typed.
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
            Row::Task(task) => Some((task, self.board.get(task)?)),
            Row::Session(_) => None,
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
        self.board
            .name(key)
            .map_or("", |session| session.name.as_str())
    }

    /// Returns how a task is called: with its session, where there are others.
    pub(super) fn name_of(&self, task: &TaskKey, listed: &LsTask) -> String {
        let name = &listed.task.window_name;
        match self.scope {
            Scope::One => name.clone(),
            Scope::All => format!("{}/{name}", self.board.label(task.session)),
        }
    }

    /// The rows that are shown.
    pub(super) fn visible(&self) -> &[Row] {
        let end = self.top + usize::from(self.layout().list.height);
        &self.rows[self.top.min(self.rows.len())..end.min(self.rows.len())]
    }

    // What happens outside.

    /// A stream of the session's tasks has begun.
    pub(super) fn on_connected(&mut self, key: SessionKey, name: SessionName) {
        self.board.add(key, name);
        if self.scope == Scope::One {
            self.trouble = None;
        }
        self.list_again();
    }

    /// The stream of the only session has ended.
    pub(super) fn on_lost(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// All sessions that there were at first are known.
    pub(super) fn on_found(&mut self) -> Vec<Effect> {
        self.trouble = None;
        self.list_again();
        self.settled()
    }

    /// A session exists, and its tasks are not known.
    pub(super) fn on_unknown(
        &mut self,
        key: SessionKey,
        name: SessionName,
        why: String,
    ) -> Vec<Effect> {
        self.board.add_unknown(key, name, why);
        self.list_again();
        self.settled()
    }

    pub(super) fn on_gone(&mut self, key: SessionKey) -> Vec<Effect> {
        self.board.remove(key);
        self.list_again();
        self.settled()
    }

    pub(super) fn on_tasks(
        &mut self,
        key: SessionKey,
        exists: bool,
        is_complete: bool,
        tasks: Vec<LsTask>,
        removed: &[String],
    ) -> Vec<Effect> {
        self.board.update(key, exists, is_complete, tasks, removed);
        self.list_again();
        self.settled()
    }

    pub(super) fn on_size(&mut self, size: (u16, u16)) -> Vec<Effect> {
        self.size = size;
        let height = usize::from(self.layout().body().height);
        if let Mode::View { view, .. } = &mut self.mode {
            view.resize(height);
        }
        self.settled()
    }

    pub(super) fn on_report(&mut self, report: ActionReport) -> Vec<Effect> {
        match report {
            ActionReport::Said(result) => self.say(result),
            ActionReport::Preview { task, lines } => self.preview = Some((task, coloured(&lines))),
            ActionReport::Log { task, result } => match result {
                Ok(lines) => self.fill(&Subject::Log(task), coloured(&lines), true),
                Err(error) => self.fail(&Subject::Log(task), error),
            },
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
        result: Result<(Box<Explanation>, Vec<String>), String>,
    ) -> Vec<Effect> {
        if let Mode::Answer(answer) = &mut self.mode
            && answer.task == task
        {
            match result {
                Ok((explanation, _)) => {
                    answer.is_secret = Some(explanation.secret == Some(true));
                    if answer.is_finished {
                        return self.send_answer();
                    }
                }
                Err(error) => {
                    self.mode = Mode::List;
                    self.say(Err(error));
                }
            }
            return Vec::new();
        }
        let subject = Subject::Explanation(task);
        match result {
            Ok((_, lines)) => {
                let lines = lines.into_iter().map(Line::from).collect();
                self.fill(&subject, lines, false);
            }
            Err(error) => self.fail(&subject, error),
        }
        Vec::new()
    }

    /// Shows the text of a view that is still open.
    fn fill(&mut self, subject: &Subject, lines: Vec<Line<'static>>, at_end: bool) {
        let height = usize::from(self.layout().body().height);
        if let Mode::View { of, view } = &mut self.mode
            && of == subject
        {
            *view = LogView::new(std::mem::take(&mut view.title), lines, height);
            if at_end {
                view.go(Move::End);
            }
        }
    }

    /// Closes a view whose text cannot be had.
    fn fail(&mut self, subject: &Subject, error: String) {
        if matches!(&self.mode, Mode::View { of, .. } if of == subject) {
            self.mode = Mode::List;
            self.say(Err(error));
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
            let shown_for = if message.is_error {
                ERROR_FOR
            } else {
                RESULT_FOR
            };
            message.until.get_or_insert(now + shown_for);
        }
    }

    /// When the message goes by itself.
    pub(super) fn message_until(&self) -> Option<Instant> {
        self.message.as_ref()?.until
    }

    /// The time of the message is over.
    pub(super) fn on_message_over(&mut self) -> Vec<Effect> {
        self.message = None;
        self.settled()
    }

    /// A second has passed. Returns what is to be read for [`Self::on_sample`]: what the live tasks
    /// use that are shown.
    pub(super) fn on_second(&mut self, now: Instant) -> Option<SampleOrder> {
        let tasks = self.visible().iter().filter_map(|row| {
            let Row::Task(key) = row else { return None };
            let task = &self.board.get(key)?.task;
            let pid = task.pane_pid.filter(|_| !task.dead)?;
            Some((key.clone(), pid))
        });
        let tasks = tasks.collect();
        self.last_sample.order(tasks, now)
    }

    /// A sample was taken, of which this is what was used, by pid.
    pub(super) fn on_sample(&mut self, order: SampleOrder, used: BTreeMap<u32, TreeUsage>) {
        self.usage = self.last_sample.take(order, used);
    }

    // What the user does.

    pub(super) fn on_paste(&mut self, text: &str) -> Vec<Effect> {
        // Elsewhere it is no command. A finished answer is sent already, as soon as it is known whether
        // it may be shown.
        if let Mode::Answer(Answer {
            line,
            is_finished: false,
            ..
        })
        | Mode::Send { line, .. } = &mut self.mode
        {
            line.insert(text);
        } else if let Mode::Filter(line) = &mut self.mode {
            line.insert(text);
            self.filter = line.text();
            self.list_again();
        }
        self.settled()
    }

    pub(super) fn on_mouse(&mut self, mouse: MouseEvent) -> Vec<Effect> {
        let list = self.layout().list;
        let place = Position::new(mouse.column, mouse.row);
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "other buttons and moves mean nothing"
        )]
        let lines = match mouse.kind {
            MouseEventKind::ScrollUp => -1,
            MouseEventKind::ScrollDown => 1,
            MouseEventKind::Down(MouseButton::Left)
                if matches!(self.mode, Mode::List) && list.contains(place) =>
            {
                let at = self.top + usize::from(mouse.row - list.y);
                if let Some(row) = self.rows.get(at) {
                    self.selected = Some(row.clone());
                }
                0
            }
            _ => 0,
        };
        if let Mode::View { view, .. } = &mut self.mode {
            for _ in 0..WHEEL {
                match lines {
                    1 => view.go(Move::Down),
                    -1 => view.go(Move::Up),
                    _ => {}
                }
            }
        } else if matches!(self.mode, Mode::List) {
            self.select_by(lines);
        }
        self.settled()
    }

    pub(super) fn on_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        // No key is one with Alt: a terminal also sends that for Escape with a key right after it, and
        // who pressed Escape wants nothing to happen.
        if key.kind == KeyEventKind::Release || key.modifiers.contains(KeyModifiers::ALT) {
            return Vec::new();
        }
        self.message = None;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_interrupt = is_control && key.code == KeyCode::Char('c');
        let mut effects = match &self.mode {
            Mode::List if is_interrupt => vec![Effect::Quit],
            Mode::List if is_control => Vec::new(),
            Mode::List => self.on_list_key(key.code),
            _ if is_interrupt => {
                self.mode = Mode::List;
                Vec::new()
            }
            Mode::Filter(_) => self.on_filter_key(key),
            Mode::Answer(_) => self.on_answer_key(key),
            Mode::Send { .. } => self.on_send_key(key),
            Mode::ConfirmKill { .. } | Mode::ConfirmPrune { .. } | Mode::ConfirmRerun { .. } => {
                self.on_confirm_key(key.code)
            }
            Mode::View { .. } => self.on_view_key(key),
        };
        effects.extend(self.settled());
        effects
    }

    fn on_list_key(&mut self, key: KeyCode) -> Vec<Effect> {
        let page = isize::try_from(self.layout().list.height).unwrap_or(1);
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the other keys mean nothing"
        )]
        match key {
            KeyCode::Char('q') => return vec![Effect::Quit],
            KeyCode::Down | KeyCode::Char('j') => self.select_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.select_by(-1),
            KeyCode::PageDown => self.select_by(page),
            KeyCode::PageUp => self.select_by(-page),
            KeyCode::Home | KeyCode::Char('g') => self.select_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.select_by(isize::MAX),
            KeyCode::Char('/') => self.mode = Mode::Filter(InputLine::with(&self.filter)),
            KeyCode::Esc => {
                self.filter.clear();
                self.list_again();
            }
            KeyCode::Char('?') => self.show_help(),
            KeyCode::Char('p') => self.on_prune_key(),
            key => return self.on_task_key(key),
        }
        Vec::new()
    }

    fn show_help(&mut self) {
        let height = usize::from(self.layout().body().height);
        let lines = help::lines().into_iter().map(Line::from).collect();
        let view = LogView::new("keys".to_owned(), lines, height);
        let of = Subject::Help;
        self.mode = Mode::View { of, view };
    }

    fn on_prune_key(&mut self) {
        let (session, of) = match (self.scope, &self.selected) {
            (Scope::One, _) => (ONLY, None),
            (Scope::All, None) => return self.say(Ok("no task has ended".to_owned())),
            (Scope::All, Some(row)) => {
                let label = self.board.label(row.session());
                (row.session(), Some(label.to_owned()))
            }
        };
        match (self.board.n_ended(session), of) {
            (0, None) => self.say(Ok("no task has ended".to_owned())),
            (0, Some(of)) => self.say(Ok(format!("no task of {of} has ended"))),
            (n, of) => self.mode = Mode::ConfirmPrune { session, of, n },
        }
    }

    /// A key for the selected task.
    fn on_task_key(&mut self, key: KeyCode) -> Vec<Effect> {
        let is_for_task = matches!(key, KeyCode::Enter)
            || matches!(key, KeyCode::Char('a' | 's' | 'x' | 'r' | 'l' | 'e'));
        let Some((task, listed)) = self.selected_task() else {
            if is_for_task {
                self.say(Err(self.why_no_task()));
            }
            return Vec::new();
        };
        let name = self.name_of(task, listed);
        let task = task.clone();
        let is_dead = listed.task.dead;
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the other keys mean nothing"
        )]
        match key {
            KeyCode::Enter => return vec![Effect::Attach { task }],
            KeyCode::Char('a') => {
                let Some(prompt) = listed.waiting_for.clone() else {
                    self.say(Err(if is_dead {
                        format!("{name} has ended and asks for nothing")
                    } else {
                        format!("{name} asks for nothing; `s` sends it a line")
                    }));
                    return Vec::new();
                };
                self.mode = Mode::Answer(Answer {
                    task: task.clone(),
                    name,
                    prompt,
                    line: InputLine::default(),
                    is_secret: None,
                    is_finished: false,
                });
                return vec![Effect::Explain { task }];
            }
            KeyCode::Char('s') if is_dead => {
                self.say(Err(format!("{name} has ended, nothing can be sent to it")));
            }
            KeyCode::Char('s') => {
                let line = InputLine::default();
                self.mode = Mode::Send { task, name, line };
            }
            KeyCode::Char('x') => self.mode = Mode::ConfirmKill { task, name },
            KeyCode::Char('r') if is_dead => return vec![Effect::Rerun { task, name }],
            KeyCode::Char('r') => self.mode = Mode::ConfirmRerun { task, name },
            KeyCode::Char('l') => {
                let of = Subject::Log(task.clone());
                self.open(of, format!("log of {name}"));
                return vec![Effect::ReadLog { task }];
            }
            KeyCode::Char('e') => {
                let of = Subject::Explanation(task.clone());
                self.open(of, format!("why {name} waits, or not"));
                return vec![Effect::Explain { task }];
            }
            _ => {}
        }
        Vec::new()
    }

    /// Says why no key for a task does anything.
    fn why_no_task(&self) -> String {
        let session = match &self.selected {
            Some(Row::Session(session)) => *session,
            Some(Row::Task(_)) | None => return "no task is selected".to_owned(),
        };
        let why = self.board.trouble(session).unwrap_or_default();
        format!("{}: {why}", self.session_name(session))
    }

    /// Opens a view whose text follows.
    fn open(&mut self, of: Subject, title: String) {
        let view = LogView::new(title, vec![Line::from("reading…")], 1);
        self.mode = Mode::View { of, view };
    }

    fn on_filter_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Mode::Filter(line) = &mut self.mode else {
            return Vec::new();
        };
        if key.code == KeyCode::Esc {
            self.filter.clear();
            self.mode = Mode::List;
        } else if key.code == KeyCode::Enter {
            self.mode = Mode::List;
        } else if line.edit(key) {
            self.filter = line.text();
        } else if matches!(key.code, KeyCode::Up | KeyCode::Down) {
            self.select_by(if key.code == KeyCode::Up { -1 } else { 1 });
        }
        self.list_again();
        Vec::new()
    }

    fn on_answer_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Mode::Answer(answer) = &mut self.mode else {
            return Vec::new();
        };
        if key.code == KeyCode::Esc {
            self.mode = Mode::List;
        } else if answer.is_finished {
            // It is sent as soon as it is known whether it may be shown.
        } else if key.code == KeyCode::Enter {
            answer.is_finished = true;
            if answer.is_secret.is_some() {
                return self.send_answer();
            }
        } else {
            answer.line.edit(key);
        }
        Vec::new()
    }

    fn send_answer(&mut self) -> Vec<Effect> {
        let Mode::Answer(answer) = std::mem::replace(&mut self.mode, Mode::List) else {
            return Vec::new();
        };
        let text = answer.line.text();
        let input = if answer.is_secret == Some(true) {
            TypedInput::Secret(SecretText(text))
        } else {
            TypedInput::Text(text)
        };
        vec![Effect::Send {
            session: answer.task.session,
            name: answer.name,
            request: SendRequest {
                task: answer.task.window,
                input,
                enter: true,
                if_prompt: Some(answer.prompt),
                is_guarded: false,
            },
        }]
    }

    fn on_send_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Mode::Send { line, .. } = &mut self.mode else {
            return Vec::new();
        };
        if !matches!(key.code, KeyCode::Enter | KeyCode::Esc) {
            line.edit(key);
            return Vec::new();
        }
        let Mode::Send { task, name, line } = std::mem::replace(&mut self.mode, Mode::List) else {
            return Vec::new();
        };
        if key.code == KeyCode::Esc {
            return Vec::new();
        }
        vec![Effect::Send {
            session: task.session,
            name,
            request: SendRequest {
                task: task.window,
                input: TypedInput::Text(line.text()),
                enter: true,
                if_prompt: None,
                is_guarded: false,
            },
        }]
    }

    fn on_confirm_key(&mut self, key: KeyCode) -> Vec<Effect> {
        let mode = std::mem::replace(&mut self.mode, Mode::List);
        let is_confirmed = matches!(key, KeyCode::Char('y' | 'Y'));
        match mode {
            Mode::ConfirmKill { task, name } if is_confirmed => {
                vec![Effect::Kill { task, name }]
            }
            Mode::ConfirmPrune { session, .. } if is_confirmed => vec![Effect::Prune { session }],
            Mode::ConfirmRerun { task, name } if is_confirmed => {
                vec![Effect::Rerun { task, name }]
            }
            Mode::List
            | Mode::Filter(_)
            | Mode::Answer(_)
            | Mode::Send { .. }
            | Mode::ConfirmKill { .. }
            | Mode::ConfirmPrune { .. }
            | Mode::ConfirmRerun { .. }
            | Mode::View { .. } => {
                self.say(Ok("nothing was done".to_owned()));
                Vec::new()
            }
        }
    }

    fn on_view_key(&mut self, key: KeyEvent) -> Vec<Effect> {
        let Mode::View { of, view } = &mut self.mode else {
            return Vec::new();
        };
        if let Some(typed) = &mut view.typed {
            if key.code == KeyCode::Enter {
                let query = typed.text();
                view.typed = None;
                if !query.is_empty() && !view.search(&query) {
                    self.say(Err(format!("no line has `{query}`")));
                }
            } else if key.code == KeyCode::Esc {
                view.typed = None;
            } else {
                typed.edit(key);
            }
            return Vec::new();
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the other keys mean nothing"
        )]
        match key.code {
            KeyCode::Char('?') if *of != Subject::Help => self.show_help(),
            KeyCode::Char('q' | '?') | KeyCode::Esc => self.mode = Mode::List,
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => view.go(Move::Down),
            KeyCode::Up | KeyCode::Char('k') => view.go(Move::Up),
            KeyCode::PageDown | KeyCode::Char(' ') => view.go(Move::PageDown),
            KeyCode::PageUp => view.go(Move::PageUp),
            KeyCode::Home | KeyCode::Char('g') => view.go(Move::Start),
            KeyCode::End | KeyCode::Char('G') => view.go(Move::End),
            KeyCode::Left | KeyCode::Char('h') => view.go(Move::Left),
            KeyCode::Right => view.go(Move::Right),
            KeyCode::Char('/') => view.typed = Some(InputLine::default()),
            // As in less: the search went upwards, so `n` goes on upwards.
            KeyCode::Char(key @ ('n' | 'N')) => {
                let is_missing = view.has_query() && !view.search_again(key == 'N');
                if is_missing {
                    self.say(Err("no other line has it".to_owned()));
                }
            }
            KeyCode::Char('l') => {
                if let Subject::Log(task) = of {
                    let task = task.clone();
                    return vec![Effect::ReadLog { task }];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    // What follows from a change.

    fn select_by(&mut self, rows: isize) {
        let Some(last) = self.rows.len().checked_sub(1) else {
            return;
        };
        let at = self.selected_row().unwrap_or(0);
        let at = at.saturating_add_signed(rows).min(last);
        self.selected = Some(self.rows[at].clone());
    }

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
    fn settled(&mut self) -> Vec<Effect> {
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
        let effect = selected.map(|(task, listed)| Effect::Preview {
            task: task.clone(),
            is_full_screen: listed.task.alternate_on == Some(true),
        });
        self.previewed = selected.map(|(task, listed)| (task.clone(), listed.clone()));
        effect.into_iter().collect()
    }

    /// Returns how many tasks are in each group, for groups that have any.
    pub(super) fn counts(&self) -> Vec<(Group, usize)> {
        let counts = Group::ALL.map(|group| (group, self.board.count(group)));
        counts.into_iter().filter(|(_, n)| *n > 0).collect()
    }
}

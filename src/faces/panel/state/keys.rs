//! What the user does: what a key, the mouse and pasted text mean in each mode.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "the other keys mean nothing"
)]

use crossterm::event::{
    KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Position;
use ratatui::text::Line;

use super::{ONLY, PanelState, Scope};
use crate::faces::panel::board::{ListRow, TaskKey};
use crate::faces::panel::mode::{InputLine, LogView, Mode, PanelEffect, Subject, TypedLine, help};
use crate::model::text;
use crate::rules::wire::{SecretText, SendRequest, TypedInput};

/// How many lines the mouse wheel moves.
const WHEEL: isize = 3;

impl PanelState {
    pub(in crate::faces::panel) fn on_paste(&mut self, text: &str) -> Vec<PanelEffect> {
        // Elsewhere it is no command. A finished answer is sent already, as soon as it is known whether
        // it may be shown.
        if let Mode::Line(TypedLine {
            line,
            is_finished: false,
            ..
        }) = &mut self.mode
        {
            line.insert(text);
        } else if let Mode::Filter(line) = &mut self.mode {
            line.insert(text);
            self.filter = line.text();
            self.list_again();
        }
        self.settled()
    }

    pub(in crate::faces::panel) fn on_mouse(&mut self, mouse: MouseEvent) -> Vec<PanelEffect> {
        let list = self.layout().list;
        let is_on_list = list.contains(Position::new(mouse.column, mouse.row));
        // Other buttons and moves mean nothing.
        match (&mut self.mode, mouse.kind) {
            (Mode::View { view, .. }, MouseEventKind::ScrollUp) => view.go_by(-WHEEL),
            (Mode::View { view, .. }, MouseEventKind::ScrollDown) => view.go_by(WHEEL),
            (Mode::List, MouseEventKind::ScrollUp) => self.select_by(-1),
            (Mode::List, MouseEventKind::ScrollDown) => self.select_by(1),
            (Mode::List, MouseEventKind::Down(MouseButton::Left)) if is_on_list => {
                let at = self.top + usize::from(mouse.row - list.y);
                if let Some(row) = self.rows.get(at) {
                    self.selected = Some(row.clone());
                }
            }
            _ => {}
        }
        self.settled()
    }

    pub(in crate::faces::panel) fn on_key(&mut self, key: KeyEvent) -> Vec<PanelEffect> {
        // No key is one with Alt: a terminal also sends that for Escape with a key right after it, and
        // who pressed Escape wants nothing to happen.
        if key.kind == KeyEventKind::Release || key.modifiers.contains(KeyModifiers::ALT) {
            return Vec::new();
        }
        self.message = None;
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        let is_interrupt = is_control && key.code == KeyCode::Char('c');
        let mut effects = match &self.mode {
            Mode::List if is_interrupt => self.on_list_key(KeyCode::Char('q')),
            Mode::List if is_control => Vec::new(),
            Mode::List => self.on_list_key(key.code),
            _ if is_interrupt => {
                self.mode = Mode::List;
                Vec::new()
            }
            Mode::Filter(_) => self.on_filter_key(key),
            Mode::Line(_) => self.on_line_key(key),
            Mode::Confirm { .. } => self.on_confirm_key(key.code),
            Mode::View { .. } => self.on_view_key(key),
        };
        effects.extend(self.settled());
        effects
    }

    fn on_list_key(&mut self, key: KeyCode) -> Vec<PanelEffect> {
        let page = isize::try_from(self.layout().list.height).unwrap_or(1);
        match key {
            KeyCode::Char('q') => self.has_quit = true,
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
        self.open(Subject::Help, "keys".to_owned());
        let lines = help().into_iter().map(Line::from).collect();
        self.fill(&Subject::Help, Ok(lines), false);
    }

    fn on_prune_key(&mut self) {
        let (session, of) = match (self.scope, &self.selected) {
            (Scope::One, _) => (ONLY, String::new()),
            (Scope::All, None) => return self.say(Ok("no task has ended".to_owned())),
            (Scope::All, Some(row)) => {
                let label = self.board.label(row.session());
                (row.session(), format!(" of {label}"))
            }
        };
        match self.board.n_ended(session) {
            0 => self.say(Ok(format!("no task{of} has ended"))),
            n => {
                let question = format!("Remove {}{of}?", text::counted(n, "ended task"));
                self.confirm(question, PanelEffect::Prune { session });
            }
        }
    }

    fn confirm(&mut self, question: String, effect: PanelEffect) {
        self.mode = Mode::Confirm { question, effect };
    }

    /// Asks for a line for a task, which answers this prompt if there is one.
    fn ask_for_line(&mut self, task: TaskKey, name: String, prompt: Option<String>) {
        self.mode = Mode::Line(TypedLine {
            task,
            name,
            is_secret: prompt.is_none().then_some(false),
            prompt,
            line: InputLine::default(),
            is_finished: false,
        });
    }

    /// A key for the selected task.
    fn on_task_key(&mut self, key: KeyCode) -> Vec<PanelEffect> {
        if !matches!(
            key,
            KeyCode::Enter | KeyCode::Char('a' | 's' | 'x' | 'r' | 'l' | 'e')
        ) {
            return Vec::new();
        }
        let Some((task, listed)) = self.selected_task() else {
            self.say(Err(match &self.selected {
                Some(ListRow::Session(session)) => {
                    let known = self.board.session(*session);
                    let why = known.and_then(|known| known.trouble.as_deref());
                    let name = self.session_name(*session);
                    format!("{name}: {}", why.unwrap_or_default())
                }
                Some(ListRow::Task(_)) | None => "no task is selected".to_owned(),
            }));
            return Vec::new();
        };
        let name = self.name_of(task, listed);
        let task = task.clone();
        let is_dead = !listed.task.is_alive();
        match key {
            KeyCode::Enter => return vec![PanelEffect::Attach { task }],
            KeyCode::Char('a') => {
                let Some(prompt) = listed.waiting_for.clone() else {
                    self.say(Err(match is_dead {
                        true => format!("{name} has ended and asks for nothing"),
                        false => format!("{name} asks for nothing; `s` sends it a line"),
                    }));
                    return Vec::new();
                };
                self.ask_for_line(task.clone(), name, Some(prompt));
                return vec![PanelEffect::Explain { task }];
            }
            KeyCode::Char('s') if is_dead => {
                self.say(Err(format!("{name} has ended, nothing can be sent to it")));
            }
            KeyCode::Char('s') => self.ask_for_line(task, name, None),
            KeyCode::Char('x') => self.confirm(
                format!("Kill {name} and remove its window?"),
                PanelEffect::Kill { task, name },
            ),
            KeyCode::Char('r') if is_dead => return vec![PanelEffect::Rerun { task, name }],
            KeyCode::Char('r') => self.confirm(
                format!("{name} still runs. End it and run it again?"),
                PanelEffect::Rerun { task, name },
            ),
            KeyCode::Char('l') => {
                self.open(Subject::Log(task.clone()), format!("log of {name}"));
                return vec![PanelEffect::ReadLog { task }];
            }
            KeyCode::Char('e') => {
                let title = format!("why {name} waits, or not");
                self.open(Subject::Explanation(task.clone()), title);
                return vec![PanelEffect::Explain { task }];
            }
            _ => {}
        }
        Vec::new()
    }

    /// Opens a view whose text follows.
    fn open(&mut self, of: Subject, title: String) {
        let view = LogView::new(title, vec![Line::from("reading…")], 1);
        self.mode = Mode::View { of, view };
    }

    fn on_filter_key(&mut self, key: KeyEvent) -> Vec<PanelEffect> {
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

    fn on_line_key(&mut self, key: KeyEvent) -> Vec<PanelEffect> {
        let Mode::Line(line) = &mut self.mode else {
            return Vec::new();
        };
        if key.code == KeyCode::Esc {
            self.mode = Mode::List;
        } else if line.is_finished {
            // It is sent as soon as it is known whether it may be shown.
        } else if key.code == KeyCode::Enter {
            line.is_finished = true;
            if line.is_secret.is_some() {
                return self.send_line();
            }
        } else {
            line.line.edit(key);
        }
        Vec::new()
    }

    pub(super) fn send_line(&mut self) -> Vec<PanelEffect> {
        let Mode::Line(typed) = std::mem::take(&mut self.mode) else {
            return Vec::new();
        };
        let text = typed.line.text();
        let input = match typed.is_secret {
            Some(true) => TypedInput::Secret(SecretText(text)),
            Some(false) | None => TypedInput::Text(text),
        };
        vec![PanelEffect::Send {
            session: typed.task.session,
            name: typed.name,
            request: SendRequest {
                task: typed.task.window,
                input,
                enter: true,
                if_prompt: typed.prompt,
                is_guarded: false,
            },
        }]
    }

    fn on_confirm_key(&mut self, key: KeyCode) -> Vec<PanelEffect> {
        let mode = std::mem::take(&mut self.mode);
        if let Mode::Confirm { effect, .. } = mode
            && matches!(key, KeyCode::Char('y' | 'Y'))
        {
            return vec![effect];
        }
        self.say(Ok("nothing was done".to_owned()));
        Vec::new()
    }

    fn on_view_key(&mut self, key: KeyEvent) -> Vec<PanelEffect> {
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
        match key.code {
            KeyCode::Char('?') if *of != Subject::Help => self.show_help(),
            KeyCode::Char('q' | '?') | KeyCode::Esc => self.mode = Mode::List,
            KeyCode::Down | KeyCode::Char('j') | KeyCode::Enter => view.go_by(1),
            KeyCode::Up | KeyCode::Char('k') => view.go_by(-1),
            KeyCode::PageDown | KeyCode::Char(' ') => view.go_by(view.page()),
            KeyCode::PageUp => view.go_by(-view.page()),
            KeyCode::Home | KeyCode::Char('g') => view.go_by(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => view.go_by(isize::MAX),
            KeyCode::Left | KeyCode::Char('h') => view.go_left(),
            KeyCode::Right => view.go_right(),
            KeyCode::Char('/') => view.typed = Some(InputLine::default()),
            // As in less: the search went upwards, so `n` goes on upwards.
            KeyCode::Char(key @ ('n' | 'N'))
                if !view.query.is_empty() && !view.search_again(key == 'N') =>
            {
                self.say(Err("no other line has it".to_owned()));
            }
            KeyCode::Char('l') => {
                if let Subject::Log(task) = of {
                    let task = task.clone();
                    return vec![PanelEffect::ReadLog { task }];
                }
            }
            _ => {}
        }
        Vec::new()
    }

    fn select_by(&mut self, rows: isize) {
        let Some(last) = self.rows.len().checked_sub(1) else {
            return;
        };
        let at = self.selected_row().unwrap_or(0);
        let at = at.saturating_add_signed(rows).min(last);
        self.selected = Some(self.rows[at].clone());
    }
}

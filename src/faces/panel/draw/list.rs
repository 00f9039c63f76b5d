//! Draws the list of tasks.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::cells::{FAINT, put, row, style_of};
use crate::faces::panel::board::{Group, ListRow, SessionKey, TaskKey, age_of, last_line};
use crate::faces::panel::layout::Layout;
use crate::faces::panel::state::{PanelState, Scope};
use crate::faces::panel::usage::Usage;
use crate::model::port_words;
use crate::terminal::columns_of;
use crate::wire::LsTask;

/// From this width on labels are whole, and run, processor time and memory are shown.
const MEDIUM: usize = 60;

/// From this width on the command is shown.
const WITH_COMMAND: usize = 80;

/// From this width on names may be long.
const WIDE: usize = 120;

/// The width of a name that is whole where a list has room for it: the longest that a task can have.
const WHOLE_NAME: usize = 40;

/// The header of the sessions.
const SESSION: &str = "SESSION";

/// The header of the commands.
const COMMAND: &str = "COMMAND";

/// The space between two columns.
const GAP: usize = 1;

/// The widths of the columns; 0 for one that is not shown.
struct Columns {
    label: usize,
    session: usize,
    name: usize,
    run: usize,
    age: usize,
    cpu: usize,
    memory: usize,
    command: usize,
    last: usize,
}

impl Columns {
    /// Divides the width among the columns. `longest_session` is the width of the widest session, 0
    /// where there is only one, `longest_name` that of the widest name and `longest_command` that of
    /// the widest command.
    fn of(
        width: usize,
        longest_session: usize,
        longest_name: usize,
        longest_command: usize,
    ) -> Self {
        let is_medium = width >= MEDIUM;
        let most = match width {
            // Names and sessions together have at most half of the width.
            WIDE.. => (width / 4).min(WHOLE_NAME),
            MEDIUM.. if longest_session > 0 => 16,
            MEDIUM.. => (width / 5).max(16),
            // With sessions, the last line has about as much room as these two.
            _ if longest_session > 0 => 8,
            _ => 12,
        };
        let session = match longest_session {
            0 => 0,
            longest => longest.clamp(SESSION.len(), most.max(SESSION.len())),
        };
        let if_medium = |columns| if is_medium { columns } else { 0 };
        let mut columns = Self {
            label: if is_medium { 7 } else { 4 },
            session,
            name: longest_name.clamp(4, most),
            run: if_medium(3),
            age: 3,
            cpu: if_medium(4),
            memory: if_medium(4),
            command: 0,
            last: 0,
        };
        // One column before the first is for the mark of the selected row.
        let taken: usize = columns
            .fixed()
            .iter()
            .filter(|n| **n > 0)
            .map(|n| n + GAP)
            .sum();
        let room = width.saturating_sub(taken + 1);
        if width >= WITH_COMMAND {
            // One column more than it needs keeps it apart from the last line, which is text too.
            let needed = longest_command.max(COMMAND.len()) + 1;
            columns.command = needed.min(room * 2 / 5);
            columns.last = room - columns.command - GAP;
        } else {
            columns.last = room;
        }
        columns
    }

    fn fixed(&self) -> [usize; 7] {
        [
            self.label,
            self.session,
            self.name,
            self.run,
            self.age,
            self.cpu,
            self.memory,
        ]
    }

    /// Draws cells, in the order of the columns, from the second column of the area on.
    fn draw(&self, buffer: &mut Buffer, area: Rect, cells: [(&str, Style); 9]) {
        let widths = self.fixed().into_iter().chain([self.command, self.last]);
        let is_number = [false, false, false, true, true, true, true, false, false];
        let mut x = 1;
        for ((width, (text, style)), is_number) in widths.zip(cells).zip(is_number) {
            if width == 0 {
                continue;
            }
            let before = if is_number {
                width.saturating_sub(columns_of(text))
            } else {
                0
            };
            put(buffer, area, x + before, width - before, text, style);
            x += width + GAP;
        }
    }
}

pub(super) fn draw(buffer: &mut Buffer, layout: &Layout, state: &PanelState) {
    let visible = state.visible();
    let listed = |row: &ListRow| match row {
        ListRow::Task(task) => state.board.get(task),
        ListRow::Session(_) => None,
    };
    let longest = |of: &dyn Fn(&LsTask) -> usize| {
        let columns = visible.iter().filter_map(listed).map(of);
        columns.max().unwrap_or_default()
    };
    let longest_session = match state.scope {
        Scope::One => 0,
        Scope::All => {
            let labels = visible.iter().map(|row| state.board.label(row.session()));
            labels.map(columns_of).max().unwrap_or(1).max(1)
        }
    };
    let width = usize::from(layout.list.width);
    let columns = Columns::of(
        width,
        longest_session,
        longest(&|task| columns_of(&task.task.name)),
        longest(&|task| columns_of(&command_of(task, state))),
    );
    if state.trouble.is_none() {
        let names = [
            "",
            SESSION,
            "NAME",
            "RUN",
            "AGE",
            "CPU",
            "MEM",
            COMMAND,
            "LAST LINE",
        ];
        columns.draw(buffer, layout.header, names.map(|name| (name, FAINT)));
    }
    for (y, shown) in visible.iter().enumerate() {
        let place = row(layout.list, y);
        match shown {
            ListRow::Task(key) => {
                if let Some(listed) = state.board.get(key) {
                    task(buffer, place, &columns, key, listed, state);
                }
            }
            ListRow::Session(key) => unknown(buffer, place, &columns, *key, state),
        }
        if state.selected.as_ref() == Some(shown) {
            let mark = Style::new().add_modifier(Modifier::BOLD);
            put(buffer, place, 0, 1, ">", mark);
            buffer.set_style(place, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
    if visible.is_empty() && state.trouble.is_none() {
        for (y, line) in nothing(state).iter().enumerate() {
            let place = row(layout.list, y);
            put(
                buffer,
                place,
                1,
                usize::from(place.width),
                line,
                Style::new(),
            );
        }
    }
}

/// Draws a session whose tasks are not known.
fn unknown(
    buffer: &mut Buffer,
    area: Rect,
    columns: &Columns,
    key: SessionKey,
    state: &PanelState,
) {
    let width = usize::from(area.width);
    let x = 1 + columns.label + GAP;
    put(buffer, area, 1, columns.label, "-", FAINT);
    put(
        buffer,
        area,
        x,
        columns.session,
        state.board.label(key),
        Style::new(),
    );
    let x = x + columns.session + GAP;
    put(
        buffer,
        area,
        x,
        width,
        state.board.trouble(key).unwrap_or_default(),
        FAINT,
    );
}

/// Says why no task is listed.
fn nothing(state: &PanelState) -> Vec<String> {
    let n_sessions = state.board.n_sessions();
    if n_sessions == 0 && state.scope == Scope::All {
        return vec![
            "There are no task sessions.".to_owned(),
            "This starts one with a first task:".to_owned(),
            "  tmux-task run NAME -- COMMAND".to_owned(),
        ];
    }
    if n_sessions == 0 {
        return vec![
            format!("There is no session `{}`.", state.title()),
            "This starts it with a first task:".to_owned(),
            "  tmux-task run NAME -- COMMAND".to_owned(),
        ];
    }
    if state.board.is_empty() {
        return vec![
            "No tasks. This starts one:".to_owned(),
            "  tmux-task run NAME -- COMMAND".to_owned(),
        ];
    }
    vec![
        format!("No task matches `{}`.", state.filter),
        "Esc shows all.".to_owned(),
    ]
}

fn task(
    buffer: &mut Buffer,
    area: Rect,
    columns: &Columns,
    key: &TaskKey,
    listed: &LsTask,
    state: &PanelState,
) {
    let is_selected = matches!(&state.selected, Some(ListRow::Task(selected)) if selected == key);
    let task = &listed.task;
    let group = Group::of(listed);
    let style = if is_selected {
        Style::new().add_modifier(Modifier::BOLD)
    } else if group == Group::Shell {
        FAINT
    } else {
        Style::new()
    };
    let label = match (columns.label < 7, task.stopped.is_some() && task.is_alive()) {
        (true, true) => "STOP",
        (false, true) => "STOPPED",
        (true, false) => group.short_label(),
        (false, false) => group.label(),
    };
    let run = task
        .run
        .map_or_else(|| "-".to_owned(), |run| run.to_string());
    let usage = state.usage.get(key).filter(|_| task.is_alive());
    let cpu = usage.and_then(|usage| usage.cpu);
    let cpu = cpu.map_or_else(String::new, |cpu| format!("{cpu}%"));
    let memory = usage.map_or_else(String::new, memory);
    let last_style = match group {
        Group::Ask => style_of(group),
        Group::Failed
        | Group::Restarting
        | Group::Done
        | Group::Running
        | Group::Queued
        | Group::Shell => style,
    };
    columns.draw(
        buffer,
        area,
        [
            (label, style_of(group)),
            (state.board.label(key.session), style),
            (&task.name, style),
            (&run, FAINT),
            (&age_of(listed, state.now), style),
            (&cpu, style),
            (&memory, style),
            (&command_of(listed, state), FAINT),
            (&last_line(listed, state.now), last_style),
        ],
    );
}

/// Returns a task's command, behind the ports that it listens on.
fn command_of<'a>(listed: &'a LsTask, state: &PanelState) -> Cow<'a, str> {
    let task = &listed.task;
    let command = task.command.as_deref().unwrap_or_default();
    let ports = task.pid.filter(|_| task.is_alive());
    let ports = ports.and_then(|pid| state.ports.get(&pid));
    match ports.filter(|ports| !ports.is_empty()) {
        Some(ports) => format!(":{} {command}", port_words(ports)).into(),
        None => command.into(),
    }
}

/// Returns a size in at most four columns.
fn memory(usage: &Usage) -> String {
    const KIB: u64 = 1 << 10;
    let kib = usage.memory / KIB;
    let tenths = |unit: u64| {
        let tenths = kib * 10 / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match kib {
        0..1000 => format!("{kib}K"),
        1000..10_240 => format!("{}M", tenths(KIB)),
        10_240..1_024_000 => format!("{}M", kib >> 10),
        1_024_000..10_485_760 => format!("{}G", tenths(KIB * KIB)),
        _ => format!("{}G", kib >> 20),
    }
}

//! Draws the list of tasks.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::{FAINT, put, row, style_of};
use crate::panel::board::{Group, age_of, last_line};
use crate::panel::layout::Layout;
use crate::panel::state::{State, Usage};
use crate::terminal::columns_of;
use crate::wire::LsTask;

/// From this width on labels are whole, and run, processor time and memory are shown.
const MEDIUM: usize = 60;

/// From this width on the command is shown.
const WITH_COMMAND: usize = 80;

/// From this width on names and commands may be long.
const WIDE: usize = 120;

/// The space between two columns.
const GAP: usize = 1;

/// The widths of the columns; 0 for one that is not shown.
struct Columns {
    label: usize,
    name: usize,
    run: usize,
    age: usize,
    cpu: usize,
    memory: usize,
    command: usize,
    last: usize,
}

impl Columns {
    /// Divides the width among the columns. `longest_name` is the width of the widest name.
    fn of(width: usize, longest_name: usize) -> Self {
        let is_medium = width >= MEDIUM;
        let most = match width {
            WIDE.. => 30,
            MEDIUM.. => 16,
            _ => 12,
        };
        let if_medium = |columns| if is_medium { columns } else { 0 };
        let mut columns = Self {
            label: if is_medium { 7 } else { 4 },
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
            columns.command = (room * 2 / 5).min(50);
            columns.last = room - columns.command - GAP;
        } else {
            columns.last = room;
        }
        columns
    }

    fn fixed(&self) -> [usize; 6] {
        [
            self.label,
            self.name,
            self.run,
            self.age,
            self.cpu,
            self.memory,
        ]
    }

    /// Draws cells, in the order of the columns, from the second column of the area on.
    fn draw(&self, buffer: &mut Buffer, area: Rect, cells: [(&str, Style); 8]) {
        let widths = self.fixed().into_iter().chain([self.command, self.last]);
        let is_number = [false, false, true, true, true, true, false, false];
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

pub(super) fn draw(buffer: &mut Buffer, layout: &Layout, state: &State) {
    let visible = state.visible();
    let name_of = |window: &String| state.board.get(window).map(|task| &task.task.window_name);
    let names = visible.iter().filter_map(name_of);
    let longest = names.map(|name| columns_of(name)).max().unwrap_or_default();
    let columns = Columns::of(usize::from(layout.list.width), longest);
    if state.trouble.is_none() {
        let names = [
            "",
            "NAME",
            "RUN",
            "AGE",
            "CPU",
            "MEM",
            "COMMAND",
            "LAST LINE",
        ];
        columns.draw(buffer, layout.header, names.map(|name| (name, FAINT)));
    }
    for (y, window) in visible.iter().enumerate() {
        let Some(listed) = state.board.get(window) else {
            continue;
        };
        let is_selected = state.selected.as_ref() == Some(window);
        task(
            buffer,
            row(layout.list, y),
            &columns,
            listed,
            state,
            is_selected,
        );
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

/// Says why no task is listed.
fn nothing(state: &State) -> Vec<String> {
    if !state.board.exists {
        return vec![
            format!("There is no session `{}`.", state.session),
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
    listed: &LsTask,
    state: &State,
    is_selected: bool,
) {
    let task = &listed.task;
    let group = Group::of(listed);
    let style = if is_selected {
        Style::new().add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    let label = if columns.label < 7 {
        group.short_label()
    } else {
        group.label()
    };
    let run = task
        .run
        .map_or_else(|| "-".to_owned(), |run| run.to_string());
    let usage = state.usage.get(&task.window_id).filter(|_| !task.dead);
    let cpu = usage.and_then(|usage| usage.cpu);
    let cpu = cpu.map_or_else(String::new, |cpu| format!("{cpu}%"));
    let memory = usage.map_or_else(String::new, memory);
    let command = task.current_command.as_deref().unwrap_or_default();
    let last_style = match group {
        Group::Ask => style_of(group),
        Group::Failed | Group::Stalled | Group::Done | Group::Running => style,
    };
    columns.draw(
        buffer,
        area,
        [
            (label, style_of(group)),
            (&task.window_name, style),
            (&run, FAINT),
            (&age_of(listed, state.now), style),
            (&cpu, style),
            (&memory, style),
            (command, FAINT),
            (&last_line(listed), last_style),
        ],
    );
    if is_selected {
        let mark = Style::new().add_modifier(Modifier::BOLD);
        put(buffer, area, 0, 1, ">", mark);
        buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
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

//! Draws the state: a title, the list of tasks or a text, a preview, and the footer.

use std::borrow::Cow;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Widget as _};

use super::board::{Group, ListRow, TaskKey, Usage, age_of, last_line};
use super::mode::{InputLine, LogView, Mode, Subject};
use super::state::{Layout, PanelState, Scope};
use crate::model::{port_words, took};
use crate::rules::terminal::{columns_of, fitted};
use crate::rules::wire::LsTask;

const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);

pub(super) fn draw(frame: &mut Frame<'_>, state: &PanelState) {
    // The screen may have another size already.
    let layout = state.layout_in((frame.area().width, frame.area().height));
    let buffer = frame.buffer_mut();
    title(buffer, layout.title, state);
    if let Mode::View { view, .. } = &state.mode {
        text(buffer, layout.body(), view);
    } else {
        draw_list(buffer, &layout, state);
        preview(buffer, layout.preview, state);
    }
    // A trouble must be visible in every mode.
    if let Some(trouble) = &state.trouble {
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        bar(buffer, layout.header, trouble, "", style);
    }
    if let Some(cursor) = draw_footer(buffer, layout.footer, state) {
        frame.set_cursor_position(cursor);
    }
}

fn title(buffer: &mut Buffer, area: Rect, state: &PanelState) {
    let (filter, taken) = match state.filter.as_str() {
        "" => (String::new(), 1),
        filter => (format!("/{filter}"), columns_of(filter) + 4),
    };
    let mut text = fitted(&state.title(), usize::from(area.width) / 3);
    let room = usize::from(area.width).saturating_sub(taken);
    for (at, (group, n)) in state.board.counts().iter().enumerate() {
        let gap = if at == 0 { "  " } else { " · " };
        let count = format!("{gap}{n} {}", group.counted(*n));
        if columns_of(&text) + columns_of(&count) + 2 > room {
            // No number is cut: it would be another one.
            text.push_str(" …");
            break;
        }
        text.push_str(&count);
    }
    bar(buffer, area, &text, &filter, BAR);
}

/// Draws a row with a text on the left and one on the right, if it fits.
fn bar(buffer: &mut Buffer, area: Rect, left: &str, right: &str, style: Style) {
    if area.height == 0 {
        return;
    }
    buffer.set_style(area, style);
    let (width, columns) = (usize::from(area.width), columns_of(right));
    let taken = if columns == 0 { 1 } else { columns + 3 };
    put(buffer, area, 1, width.saturating_sub(taken), left, style);
    if columns + 2 < width {
        put(buffer, area, width - columns - 1, columns, right, style);
    }
}

/// Draws the end of the selected task's output below a title.
fn preview(buffer: &mut Buffer, area: Rect, state: &PanelState) {
    if area.height == 0 {
        return;
    }
    let Some((key, listed)) = state.selected_task() else {
        bar(buffer, row(area, 0), "", "", BAR);
        return;
    };
    let task = &listed.task;
    let run = task.run.map(|run| format!(" · run {run}"));
    let run = run.unwrap_or_default();
    let session = match (state.scope, state.board.session(key.session)) {
        (Scope::One, _) | (Scope::All, None) => String::new(),
        (Scope::All, Some(of)) => format!(" · {}", of.name.called(&of.name.name)),
    };
    let usual = listed.usual_ms.map(took);
    let usual = usual.map_or_else(String::new, |usual| format!(" · usually {usual}"));
    let name = format!("{}{run} · {}{session}{usual}", task.name, task.window);
    let command = task.command.as_deref().unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(columns_of(&name) + 6);
    bar(buffer, row(area, 0), &name, &fitted(command, room), BAR);
    let Some((_, lines)) = state.preview.as_ref().filter(|(of, _)| of == key) else {
        return;
    };
    let height = usize::from(area.height) - 1;
    // A full-screen program is shown from its top, other output to its end.
    let first = match task.screen.alternate {
        Some(true) => 0,
        Some(false) | None => lines.len().saturating_sub(height),
    };
    for (place, line) in area.rows().skip(1).zip(&lines[first..]) {
        buffer.set_line(place.x, place.y, line, place.width);
    }
}

fn text(buffer: &mut Buffer, area: Rect, view: &LogView) {
    let lines = view.lines.iter().skip(view.top);
    let lines: Vec<Line<'_>> = lines.take(usize::from(area.height)).cloned().collect();
    let left = u16::try_from(view.left).unwrap_or(u16::MAX);
    Paragraph::new(lines).scroll((0, left)).render(area, buffer);
    if let Some(y) = view.found.and_then(|found| found.checked_sub(view.top)) {
        buffer.set_style(row(area, y), BAR);
    }
}

const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws a text at a column of the area's first row, cut to `columns`.
fn put(buffer: &mut Buffer, area: Rect, x: usize, columns: usize, text: &str, style: Style) {
    let columns = columns.min(usize::from(area.width).saturating_sub(x));
    if columns == 0 || area.height == 0 {
        return;
    }
    let x = area.x + u16::try_from(x).unwrap_or(u16::MAX);
    buffer.set_stringn(x, area.y, fitted(text, columns), columns, style);
}

/// Draws a text from a column of the area's first row on.
fn write(buffer: &mut Buffer, area: Rect, x: usize, text: &str, style: Style) {
    put(buffer, area, x, usize::from(area.width), text, style);
}

/// Returns a row of an area, without height below its end.
fn row(area: Rect, y: usize) -> Rect {
    area.rows().nth(y).unwrap_or_default()
}

fn style_of(group: Group) -> Style {
    match group {
        Group::Ask => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Group::Failed => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Group::Restarting => Style::new().fg(Color::Yellow),
        Group::Queued | Group::Done | Group::Shell => FAINT,
        Group::Running => Style::new().fg(Color::Green),
    }
}

// The last rows: what is asked of the user, a message, or which keys there are.

const QUESTION: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// Draws the footer. Returns where the cursor is, if the user types.
fn draw_footer(buffer: &mut Buffer, area: Rect, state: &PanelState) -> Option<Position> {
    let style = match (state.mode.question(), &state.message) {
        (Some(_), _) => QUESTION,
        (None, Some(message)) if message.is_error => {
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
        }
        (None, Some(_) | None) => Style::new(),
    };
    let rows = state.footer_text();
    for (place, text) in area.rows().zip(&rows) {
        write(buffer, place, 1, text, style);
    }
    if let Some((before, input)) = state.mode.typed() {
        let is_shown = state.mode.shows_typed();
        return typed(buffer, row(area, rows.len()), before, input, is_shown);
    }
    if rows.is_empty() {
        let keys = match &state.mode {
            Mode::View { of, view } => {
                let keys = match of {
                    Subject::Log(_) => "j k  / search  n N  l reload  q back",
                    Subject::Help | Subject::Explanation(_) => "j k  q back",
                };
                let n = view.lines.len();
                let end = n.min(view.top + usize::from(state.layout().body().height));
                format!("{keys}  {end}/{n}  {}", view.title)
            }
            Mode::List | Mode::Filter(_) | Mode::Line(_) | Mode::Confirm { .. } => {
                hints(state, usize::from(area.width))
            }
        };
        write(buffer, area, 1, &keys, FAINT);
    }
    None
}

/// Draws what is being typed, so that the cursor is visible. Text that must not be shown is dots.
fn typed(
    buffer: &mut Buffer,
    area: Rect,
    before: &str,
    input: &InputLine,
    is_shown: bool,
) -> Option<Position> {
    let masked = |text: &str| match is_shown {
        true => text.to_owned(),
        false => "•".repeat(text.chars().count()),
    };
    let (left, right) = (masked(&input.before), masked(&input.after));
    let start = 1 + columns_of(before);
    let room = usize::from(area.width).saturating_sub(start + 1);
    // The end of what is before the cursor is visible.
    let mut shown = left.as_str();
    while columns_of(shown) > room {
        let mut chars = shown.chars();
        chars.next();
        shown = chars.as_str();
    }
    put(buffer, area, 1, start, before, QUESTION);
    let columns = columns_of(shown);
    put(buffer, area, start, columns, shown, Style::new());
    let rest = room.saturating_sub(columns);
    put(buffer, area, start + columns, rest, &right, Style::new());
    let x = area.x + u16::try_from(start + columns).unwrap_or(u16::MAX);
    (area.height > 0).then_some(Position::new(x, area.y))
}

/// Returns the keys that are useful now, as many as fit.
fn hints(state: &PanelState, width: usize) -> String {
    let task = state.selected_task().map(|(_, task)| task);
    let asks = task.is_some_and(|task| task.waiting_for.is_some());
    let lives = task.is_some_and(|task| task.task.is_alive());
    let has_task = task.is_some();
    let selected = state.selected.as_ref();
    let has_ended = selected.is_some_and(|row| state.board.n_ended(row.session()) > 0);
    let keys = [
        (asks, "a answer"),
        (has_task && !lives, "r run again"),
        (true, "? help"),
        (true, "q quit"),
        (has_task, "Enter go there"),
        (has_task, "l log"),
        (has_task, "x kill"),
        (lives, "s send"),
        (has_task, "/ filter"),
        (has_task, "e why"),
        (has_ended, "p prune"),
    ];
    let mut text = String::new();
    for (_, key) in keys.iter().filter(|(is_useful, _)| *is_useful) {
        let gap = if text.is_empty() { "" } else { "  " };
        if columns_of(&text) + gap.len() + key.len() + 1 < width {
            text = text + gap + key;
        }
    }
    text
}

// The list of tasks.

/// From this width on labels are whole, and run, processor time and memory are shown.
const MEDIUM: usize = 60;

/// From this width on the command is shown.
const WITH_COMMAND: usize = 80;

/// From this width on names may be long.
const WIDE: usize = 120;

/// The width of a name that is whole where a list has room for it: the longest that a task can have.
const WHOLE_NAME: usize = 40;

const LABEL: usize = 7;

const GAP: usize = 1;

/// The widths of the columns; 0 for one that is not shown.
type Columns = [usize; 9];

const HEADERS: [&str; 9] = [
    "",
    "SESSION",
    "NAME",
    "RUN",
    "AGE",
    "CPU",
    "MEM",
    "COMMAND",
    "LAST LINE",
];

const NUMBERS: [bool; 9] = [false, false, false, true, true, true, true, false, false];

/// Divides the width among the columns, with the widths of the widest session, 0 where there is only one, name
/// and command.
fn columns(
    width: usize,
    longest_session: usize,
    longest_name: usize,
    longest_command: usize,
) -> Columns {
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
        longest => longest.clamp(HEADERS[1].len(), most.max(HEADERS[1].len())),
    };
    let label = if is_medium { LABEL } else { 4 };
    let name = longest_name.clamp(4, most);
    let if_medium = |columns| if is_medium { columns } else { 0 };
    let (run, cpu, memory) = (if_medium(3), if_medium(4), if_medium(4));
    let mut columns = [label, session, name, run, 3, cpu, memory, 0, 0];
    let shown = columns.iter().filter(|n| **n > 0);
    // One column before the first is for the mark of the selected row.
    let taken = 1 + shown.map(|n| n + GAP).sum::<usize>();
    let room = width.saturating_sub(taken);
    let [.., command, last] = &mut columns;
    *last = room;
    if width >= WITH_COMMAND {
        // One column more than it needs keeps it apart from the last line, which is text too.
        let needed = longest_command.max(HEADERS[7].len()) + 1;
        *command = needed.min(room * 2 / 5);
        *last = room - *command - GAP;
    }
    columns
}

/// The cells of a row with their styles, in the order of the columns.
type Cells<'a> = [(Cow<'a, str>, Style); 9];

/// Draws cells from the second column of the area on.
fn draw_cells(buffer: &mut Buffer, area: Rect, columns: &Columns, cells: &Cells<'_>) {
    let mut x = 1;
    for ((width, (text, style)), is_number) in columns.iter().zip(cells).zip(NUMBERS) {
        if *width == 0 {
            continue;
        }
        let before = match is_number {
            true => width.saturating_sub(columns_of(text)),
            false => 0,
        };
        put(buffer, area, x + before, width - before, text, *style);
        x += width + GAP;
    }
}

fn draw_list(buffer: &mut Buffer, layout: &Layout, state: &PanelState) {
    let visible = state.visible();
    let width = usize::from(layout.list.width);
    let rows = visible.iter().map(|row| match row {
        ListRow::Task(key) => match state.board.get(key) {
            Some(listed) => cells_of_task(key, listed, state, width < MEDIUM),
            None => Cells::default(),
        },
        // Why its tasks are not known follows them.
        ListRow::Session(key) => {
            let mut cells = Cells::default();
            cells[0] = ("-".into(), FAINT);
            cells[1].0 = state.board.label(*key).into();
            cells
        }
    });
    let rows: Vec<Cells<'_>> = rows.collect();
    let longest = |column: usize| {
        let texts = rows.iter().map(|cells| columns_of(&cells[column].0));
        texts.max().unwrap_or_default()
    };
    let longest_session = match state.scope {
        Scope::One => 0,
        Scope::All => longest(1).max(1),
    };
    let columns = columns(width, longest_session, longest(2), longest(7));
    if state.trouble.is_none() {
        let names = HEADERS.map(|name| (name.into(), FAINT));
        draw_cells(buffer, layout.header, &columns, &names);
    }
    for ((shown, cells), place) in visible.iter().zip(&rows).zip(layout.list.rows()) {
        draw_cells(buffer, place, &columns, cells);
        if let ListRow::Session(key) = shown {
            let known = state.board.session(*key);
            let why = known.and_then(|known| known.trouble.as_deref());
            let [label, session, ..] = columns;
            let x = 1 + label + GAP + session + GAP;
            write(buffer, place, x, why.unwrap_or_default(), FAINT);
        }
        if state.selected.as_ref() == Some(shown) {
            let mark = Style::new().add_modifier(Modifier::BOLD);
            put(buffer, place, 0, 1, ">", mark);
            buffer.set_style(place, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
    if visible.is_empty() && state.trouble.is_none() {
        for (place, line) in layout.list.rows().zip(nothing(state)) {
            write(buffer, place, 1, &line, Style::new());
        }
    }
}

fn nothing(state: &PanelState) -> Vec<String> {
    let run = "  tmux-task run NAME -- COMMAND".to_owned();
    if state.board.n_sessions() == 0 {
        let (what, how) = match state.scope {
            Scope::All => ("There are no task sessions.".to_owned(), "one"),
            Scope::One => (format!("There is no session `{}`.", state.title()), "it"),
        };
        return vec![what, format!("This starts {how} with a first task:"), run];
    }
    if state.board.is_empty() {
        return vec!["No tasks. This starts one:".to_owned(), run];
    }
    vec![
        format!("No task matches `{}`.", state.filter),
        "Esc shows all.".to_owned(),
    ]
}

fn cells_of_task<'a>(
    key: &TaskKey,
    listed: &'a LsTask,
    state: &'a PanelState,
    is_narrow: bool,
) -> Cells<'a> {
    let is_selected = matches!(&state.selected, Some(ListRow::Task(selected)) if selected == key);
    let task = &listed.task;
    let group = Group::of(listed);
    let style = match group == Group::Shell {
        _ if is_selected => Style::new().add_modifier(Modifier::BOLD),
        true => FAINT,
        false => Style::new(),
    };
    let label = match (is_narrow, task.stopped.is_some() && task.is_alive()) {
        (true, true) => "STOP",
        (false, true) => "STOPPED",
        (true, false) => group.short_label(),
        (false, false) => group.label(),
    };
    let run = task.run.map(|run| run.to_string());
    let pid = task.pid.filter(|_| task.is_alive());
    let usage = pid.and_then(|pid| state.usage.get(&pid));
    let cpu = usage.and_then(|usage| usage.cpu);
    let cpu = cpu.map_or_else(String::new, |cpu| format!("{cpu}%"));
    let memory = usage.map_or_else(String::new, memory);
    let last_style = match group == Group::Ask {
        true => style_of(group),
        false => style,
    };
    // Behind the ports that it listens on.
    let command = task.command.as_deref().unwrap_or_default();
    let ports = pid.and_then(|pid| state.ports.get(&pid));
    let command = match ports.filter(|ports| !ports.is_empty()) {
        Some(ports) => format!(":{} {command}", port_words(ports)).into(),
        None => command.into(),
    };
    [
        (label.into(), style_of(group)),
        (state.board.label(key.session).into(), style),
        (task.name.as_str().into(), style),
        (run.map_or("-".into(), Into::into), FAINT),
        (age_of(listed, state.now).into(), style),
        (cpu.into(), style),
        (memory.into(), style),
        (command, FAINT),
        (last_line(listed, state.now).into(), last_style),
    ]
}

/// Returns a size in at most four columns.
fn memory(usage: &Usage) -> String {
    let kib = usage.memory >> 10;
    let scaled = |tenths: u64, unit: char| match tenths {
        0..100 => format!("{}.{}{unit}", tenths / 10, tenths % 10),
        _ => format!("{}{unit}", tenths / 10),
    };
    match kib {
        0..1000 => format!("{kib}K"),
        1000..1_024_000 => scaled((kib * 10) >> 10, 'M'),
        _ => scaled((kib * 10) >> 20, 'G'),
    }
}

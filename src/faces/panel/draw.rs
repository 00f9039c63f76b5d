//! Draws the state.

mod cells;
mod footer;
mod list;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use self::cells::{put, row};
use super::board::SessionName;
use super::log_view::LogView;
use super::mode::Mode;
use super::state::{PanelState, Scope};
use crate::model::took;
use crate::terminal::{columns_of, fitted, split_at_column};

/// The style of titles.
const BAR: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws one frame.
pub(super) fn draw(frame: &mut Frame<'_>, state: &PanelState) {
    let layout = state.layout().clipped(frame.area());
    let buffer = frame.buffer_mut();
    title(buffer, layout.title, state);
    if let Mode::View { view, .. } = &state.mode {
        text(buffer, layout.body(), view);
    } else {
        list::draw(buffer, &layout, state);
        preview(buffer, layout.preview, state);
    }
    // A trouble must be visible in every mode.
    if let Some(trouble) = &state.trouble {
        let style = Style::new().fg(Color::Red).add_modifier(Modifier::REVERSED);
        bar(buffer, layout.header, trouble, "", style);
    }
    if let Some(cursor) = footer::draw(buffer, layout.footer, state) {
        frame.set_cursor_position(cursor);
    }
}

fn title(buffer: &mut Buffer, area: Rect, state: &PanelState) {
    let filter = match state.filter.as_str() {
        "" => String::new(),
        filter => format!("/{filter}"),
    };
    let mut text = fitted(&state.title(), usize::from(area.width) / 3);
    let taken = match columns_of(&filter) {
        0 => 1,
        columns => columns + 3,
    };
    let room = usize::from(area.width).saturating_sub(taken);
    for (at, (group, n)) in state.counts().iter().enumerate() {
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
    let width = usize::from(area.width);
    let right_columns = columns_of(right);
    let room = if right.is_empty() {
        width
    } else {
        width.saturating_sub(right_columns + 2)
    };
    put(buffer, area, 1, room.saturating_sub(1), left, style);
    if right_columns + 2 < width {
        let x = width - right_columns - 1;
        put(buffer, area, x, right_columns, right, style);
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
    let run = task
        .run
        .map_or_else(String::new, |run| format!(" · run {run}"));
    let session = match (state.scope, state.board.name(key.session)) {
        (Scope::One, _) | (Scope::All, None) => String::new(),
        (Scope::All, Some(SessionName { name, server: None })) => format!(" · {name}"),
        (
            Scope::All,
            Some(SessionName {
                name,
                server: Some(server),
            }),
        ) => {
            format!(" · {name}@{server}")
        }
    };
    let usual = listed
        .usual_ms
        .map_or_else(String::new, |usual| format!(" · usually {}", took(usual)));
    let name = format!("{}{run} · {}{session}{usual}", task.name, task.window);
    let command = task.command.as_deref().unwrap_or_default();
    let room = usize::from(area.width).saturating_sub(columns_of(&name) + 6);
    bar(buffer, row(area, 0), &name, &fitted(command, room), BAR);
    let Some((_, lines)) = state.preview.as_ref().filter(|(of, _)| of == key) else {
        return;
    };
    let height = usize::from(area.height) - 1;
    // A full-screen program is shown from its top, other output to its end.
    let first = if task.screen.alternate == Some(true) {
        0
    } else {
        lines.len().saturating_sub(height)
    };
    for (y, line) in lines.iter().skip(first).take(height).enumerate() {
        let place = row(area, y + 1);
        buffer.set_line(place.x, place.y, line, place.width);
    }
}

/// Draws a text that is scrolled.
fn text(buffer: &mut Buffer, area: Rect, view: &LogView) {
    let shown = view.lines.iter().enumerate().skip(view.top);
    for (y, (at, line)) in shown.take(usize::from(area.height)).enumerate() {
        let place = row(area, y);
        buffer.set_line(place.x, place.y, &shifted(line, view.left), place.width);
        if view.found == Some(at) {
            buffer.set_style(place, BAR);
        }
    }
}

/// Returns a line without its first columns.
fn shifted(line: &Line<'static>, columns: usize) -> Line<'static> {
    let mut skip = columns;
    let span = |span: &Span<'static>| {
        let width = columns_of(&span.content);
        let (_, rest) = split_at_column(&span.content, skip);
        skip = skip.saturating_sub(width);
        Span::styled(rest.to_owned(), span.style)
    };
    line.spans.iter().map(span).collect()
}

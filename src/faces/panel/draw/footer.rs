//! Draws the last rows: what is asked of the user, a message, or which keys there are.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};

use super::cells::{FAINT, put, row};
use crate::faces::panel::board::ListRow;
use crate::faces::panel::input_line::InputLine;
use crate::faces::panel::mode::{Mode, Subject};
use crate::faces::panel::state::PanelState;
use crate::terminal::columns_of;

const QUESTION: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// Draws the footer. Returns where the cursor is, if the user types.
pub(super) fn draw(buffer: &mut Buffer, area: Rect, state: &PanelState) -> Option<Position> {
    let line = |buffer: &mut Buffer, y: usize, text: &str, style: Style| {
        put(
            buffer,
            row(area, y),
            1,
            usize::from(area.width),
            text,
            style,
        );
    };
    let is_error = state
        .message
        .as_ref()
        .is_some_and(|message| message.is_error);
    let style = match state.mode.question() {
        Some(_) => QUESTION,
        None if is_error => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        None => Style::new(),
    };
    let rows = state.footer_text();
    for (y, text) in rows.iter().enumerate() {
        line(buffer, y, text, style);
    }
    if let Some((before, input)) = state.mode.typed() {
        let is_shown = state.mode.shows_typed();
        return typed(buffer, row(area, rows.len()), before, input, is_shown);
    }
    if rows.is_empty() {
        line(buffer, 0, &keys(state, usize::from(area.width)), FAINT);
    }
    None
}

/// Returns the keys, where nothing else is to be said.
fn keys(state: &PanelState, width: usize) -> String {
    let Mode::View { of, view } = &state.mode else {
        return hints(state, width);
    };
    let keys = match of {
        Subject::Log(_) => "j k  / search  n N  l reload  q back",
        Subject::Help | Subject::Explanation(_) => "j k  q back",
    };
    let end = (view.top + usize::from(state.layout().body().height)).min(view.lines.len());
    format!("{keys}  {end}/{}  {}", view.lines.len(), view.title)
}

/// Draws what is being typed, so that the cursor is visible. Text that must not be shown is dots.
fn typed(
    buffer: &mut Buffer,
    area: Rect,
    before: &str,
    input: &InputLine,
    is_shown: bool,
) -> Option<Position> {
    let masked = |text: &str| {
        if is_shown {
            text.to_owned()
        } else {
            "•".repeat(text.chars().count())
        }
    };
    let (left, right) = input.parts();
    let (left, right) = (masked(left), masked(right));
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
    let session = state.selected.as_ref().map(ListRow::session);
    let has_ended = session.is_some_and(|session| state.board.n_ended(session) > 0);
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
            text.push_str(gap);
            text.push_str(key);
        }
    }
    text
}

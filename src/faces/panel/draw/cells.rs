//! Rows, cut texts and styles that all parts of a frame use.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::faces::panel::board::Group;
use crate::terminal::fitted;

/// The style of what is less important.
pub(super) const FAINT: Style = Style::new().add_modifier(Modifier::DIM);

/// Draws a text at a column of the area's first row, cut to `columns`.
pub(super) fn put(
    buffer: &mut Buffer,
    area: Rect,
    x: usize,
    columns: usize,
    text: &str,
    style: Style,
) {
    let columns = columns.min(usize::from(area.width).saturating_sub(x));
    if columns == 0 || area.height == 0 {
        return;
    }
    let x = area.x + u16::try_from(x).unwrap_or(u16::MAX);
    buffer.set_stringn(x, area.y, fitted(text, columns), columns, style);
}

/// Returns a row of an area.
pub(super) fn row(area: Rect, y: usize) -> Rect {
    let y = u16::try_from(y).unwrap_or(u16::MAX).min(area.height);
    let height = u16::from(y < area.height);
    Rect::new(area.x, area.y + y, area.width, height)
}

/// Returns the colour of a group.
pub(super) fn style_of(group: Group) -> Style {
    match group {
        Group::Ask => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        Group::Failed => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        Group::Restarting => Style::new().fg(Color::Yellow),
        Group::Queued | Group::Done | Group::Shell => FAINT,
        Group::Running => Style::new().fg(Color::Green),
    }
}

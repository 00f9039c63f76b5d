//! Where things are on the screen.

use ratatui::layout::Rect;

/// From this height on there is a preview.
const PREVIEW_FROM: u16 = 16;

/// What part of the height the preview has, in percent.
const PREVIEW_PERCENT: u16 = 45;

/// The parts of the screen, from the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) title: Rect,
    /// The names of the columns.
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
        let rows = |y: u16, rows: u16| {
            let y = y.min(height);
            Rect::new(0, y, width, rows.min(height - y))
        };
        let preview = if height < PREVIEW_FROM {
            0
        } else {
            // Not more than 65535 percent of anything fits a terminal.
            (u32::from(height) * u32::from(PREVIEW_PERCENT) / 100)
                .try_into()
                .unwrap_or(0)
        };
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

    /// The same on a screen that has become smaller meanwhile.
    pub(super) fn clipped(self, screen: Rect) -> Self {
        Self {
            title: self.title.intersection(screen),
            header: self.header.intersection(screen),
            list: self.list.intersection(screen),
            preview: self.preview.intersection(screen),
            footer: self.footer.intersection(screen),
        }
    }

    /// The part between title and footer, for texts.
    pub(super) fn body(&self) -> Rect {
        let top = self.header.y;
        Rect::new(0, top, self.title.width, self.footer.y.saturating_sub(top))
    }
}

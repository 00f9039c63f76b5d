//! Captures the rows of panes, only where they may have changed.

use std::collections::{BTreeMap, BTreeSet};

use super::banner::drop_banner;
use super::tabs;
use crate::model::{CursorPosition, PaneId, Screen, WindowId};
use crate::protocol::Command;

/// How many rows of history and screen of a pane are kept.
const ROWS: i64 = 50;

/// A pane that had output within this many seconds before a look is captured without checking.
const LIKELY_SECS: i64 = 2;

/// The last captures of the panes of one session.
#[derive(Debug, Default)]
pub(super) struct Captures {
    panes: BTreeMap<PaneId, Capture>,
    /// The server's clock at the last look, in seconds since 1970.
    time: i64,
    /// Panes known to have changed since the last look.
    expected: BTreeSet<PaneId>,
}

#[derive(Debug)]
struct Capture {
    /// The server's clock at the capture, in seconds since 1970.
    time: i64,
    shape: Shape,
    screen: Screen,
}

/// Properties of a pane that show a change without reading the rows. The default is for a pane not
/// seen before: as much is captured as any pane could keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) activity: i64,
    pub(super) pid: Option<u32>,
    pub(super) is_dead: bool,
    pub(super) width: i64,
    pub(super) height: i64,
    pub(super) history: i64,
    pub(super) cursor_x: u32,
    pub(super) cursor_y: u32,
    pub(super) is_alternate: bool,
}

impl Shape {
    /// Returns where the capture starts, relative to the top of the screen.
    fn first_row(&self) -> i64 {
        let first = self.height - ROWS;
        if self.is_alternate {
            first.max(0)
        } else {
            first
        }
    }
}

impl Captures {
    /// Whether this pane was reported to have changed since the last look.
    pub(super) fn is_expected(&self, pane: PaneId) -> bool {
        self.expected.contains(&pane)
    }

    /// Whether this pane has probably changed since the last look: it was reported, or it had output
    /// shortly before that look.
    pub(super) fn is_likely(&self, pane: PaneId) -> bool {
        self.panes.get(&pane).is_some_and(|capture| {
            capture.shape.activity + LIKELY_SECS >= self.time || self.expected.contains(&pane)
        })
    }

    /// Marks panes that have printed and processes that have ended, so that the next look captures
    /// those panes in its first line.
    pub(super) fn expect(
        &mut self,
        printed: impl IntoIterator<Item = PaneId>,
        ended: &BTreeSet<u32>,
    ) {
        self.expected.extend(printed);
        if ended.is_empty() {
            return;
        }
        let died = |capture: &Capture| capture.shape.pid.is_some_and(|pid| ended.contains(&pid));
        let died = self.panes.iter().filter(|(_, capture)| died(capture));
        self.expected.extend(died.map(|(pane, _)| *pane));
    }

    /// Whether a change was reported.
    pub(super) fn expects_any(&self) -> bool {
        !self.expected.is_empty()
    }

    /// Whether the pane may have changed since it was captured. Activity counts whole seconds:
    /// within the second of the capture, output may have followed.
    pub(super) fn is_stale(&self, pane: PaneId, shape: &Shape) -> bool {
        self.panes
            .get(&pane)
            .is_none_or(|capture| shape.activity >= capture.time || *shape != capture.shape)
    }

    /// Stores a capture that was requested with the shape `asked` and taken with `shape`. A dead
    /// pane has a `banner`.
    pub(super) fn remember(
        &mut self,
        pane: PaneId,
        time: i64,
        shape: Shape,
        asked: &Shape,
        lines: &[Vec<u8>],
        banner: &str,
    ) {
        let screen = screen(&shape, asked, lines, banner);
        self.panes.insert(
            pane,
            Capture {
                time,
                shape,
                screen,
            },
        );
    }

    /// Returns the rows as last captured.
    pub(super) fn screen(&self, pane: PaneId) -> Screen {
        self.panes
            .get(&pane)
            .map(|capture| capture.screen.clone())
            .unwrap_or_default()
    }

    /// Drops the captures of panes that no longer exist.
    pub(super) fn keep_only(&mut self, present: &BTreeSet<PaneId>) {
        self.panes.retain(|pane, _| present.contains(pane));
    }

    /// Forgets a pane that is gone.
    pub(super) fn forget(&mut self, pane: PaneId) {
        self.panes.remove(&pane);
        self.expected.remove(&pane);
    }

    /// Stores the server's clock at a look, in seconds since 1970.
    pub(super) fn looked(&mut self, time: i64) {
        self.expected.clear();
        self.time = time;
    }
}

/// Captures to the end of the screen, so that a pane that has grown since `shape` is complete.
pub(super) fn capture_command(pane: PaneId, shape: &Shape) -> Command {
    Command::new("capture-pane")
        .args(["-p", "-t", &pane.to_string(), "-S"])
        .arg(shape.first_row().to_string())
        .args(["-E", "-"])
}

/// The same for the active pane of a window not seen before.
pub(super) fn capture_new_command(window: WindowId) -> Command {
    Command::new("capture-pane")
        .args(["-p", "-t", &window.to_string(), "-S"])
        .arg(Shape::default().first_row().to_string())
        .args(["-E", "-"])
}

/// Converts captured lines to a screen.
fn screen(shape: &Shape, asked: &Shape, lines: &[Vec<u8>], banner: &str) -> Screen {
    let width = usize::try_from(shape.width).unwrap_or(0);
    let mut rows: Vec<String> = lines.iter().map(|line| tabs::row(line, width)).collect();
    // Absolute rows count from the top of the history.
    let first = (shape.history + asked.first_row()).clamp(0, shape.history + shape.height);
    let mut cursor = shape.history + i64::from(shape.cursor_y) - first;
    let at_bottom = first + i64::try_from(rows.len()).unwrap_or(0) >= shape.history + shape.height;
    if shape.is_dead && at_bottom {
        drop_banner(&mut rows, banner);
    }
    if shape.is_alternate {
        // The pane may have switched to the alternate screen after the request.
        let above = usize::try_from(shape.history - first)
            .unwrap_or(0)
            .min(rows.len());
        rows.drain(..above);
        cursor = i64::from(shape.cursor_y);
        if first > shape.history {
            cursor -= first - shape.history;
        }
    }
    let keep = if shape.is_dead {
        0
    } else {
        usize::try_from(cursor + 1).unwrap_or(0)
    };
    while rows.len() > keep && rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    let over = rows
        .len()
        .saturating_sub(usize::try_from(ROWS).unwrap_or(0));
    rows.drain(..over);
    let cursor = usize::try_from(cursor)
        .ok()
        .and_then(|y| y.checked_sub(over))
        .filter(|y| *y < rows.len())
        .and_then(|y| u32::try_from(y).ok())
        .map(|y| CursorPosition {
            x: shape.cursor_x,
            y,
        });
    Screen {
        rows: rows.into(),
        cursor,
        alternate: Some(shape.is_alternate),
        width: u32::try_from(shape.width).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(history: i64, height: i64, cursor_y: u32) -> Shape {
        Shape {
            activity: 1,
            pid: Some(1),
            is_dead: false,
            width: 80,
            height,
            history,
            cursor_x: 2,
            cursor_y,
            is_alternate: false,
        }
    }

    fn dead(shape: Shape) -> Shape {
        Shape {
            is_dead: true,
            ..shape
        }
    }

    #[track_caller]
    fn check(shape: Shape, lines: &[&str], rows: &[&str], cursor: Option<u32>) {
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let screen = screen(&shape, &shape, &lines, "");
        assert_eq!(*screen.rows, *rows);
        assert_eq!(screen.cursor.map(|cursor| cursor.y), cursor);
    }

    #[test]
    fn blank_rows_below_the_cursor_are_cut() {
        check(shape(0, 5, 1), &["a", "", "", "", ""], &["a", ""], Some(1));
        check(
            shape(0, 5, 1),
            &["a", "", "", "b", ""],
            &["a", "", "", "b"],
            Some(1),
        );
        check(
            shape(2, 3, 0),
            &["h1", "h2", "$ ", "", ""],
            &["h1", "h2", "$"],
            Some(2),
        );
        check(dead(shape(0, 5, 3)), &["a", "", "", "", ""], &["a"], None);
    }

    #[test]
    fn the_banner_of_a_dead_pane_goes() {
        for banner in [
            "Pane is dead",
            "Pane is dead (status 2, Fri Nov 20 09:26:39 2026)",
            "Pane is dead (signal 9, Fri Nov 20 09:26:39 2026)",
            "Pane is dead (, Fri Nov 20 09:26:39 2026)",
            "Pane is dead (stat",
            "Pane is",
        ] {
            check(
                dead(shape(1, 3, 2)),
                &["out", "", "", banner],
                &["out"],
                None,
            );
            check(
                shape(1, 3, 2),
                &["out", "", "", banner],
                &["out", "", "", banner],
                Some(3),
            );
        }
        check(dead(shape(0, 1, 0)), &["Pane"], &[], None);
        check(dead(shape(0, 1, 0)), &["Pan"], &["Pan"], Some(0));
        check(
            dead(shape(0, 2, 1)),
            &["Pane is dead", "x"],
            &["Pane is dead", "x"],
            Some(1),
        );
    }

    #[test]
    fn no_more_than_fifty_rows_are_kept() {
        let lines: Vec<String> = (0..50).map(|n| n.to_string()).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        check(shape(400, 24, 23), &lines, &lines, Some(49));
        check(shape(0, 70, 69), &lines, &lines, Some(49));
        check(shape(0, 70, 3), &lines, &lines, None);
        let alternate = Shape {
            is_alternate: true,
            ..shape(400, 24, 23)
        };
        check(alternate, &lines[26..], &lines[26..], Some(23));
    }

    #[test]
    fn a_pane_is_captured_when_it_may_have_changed() {
        let mut captures = Captures::default();
        let pane = PaneId(1);
        let quiet = Shape {
            activity: 10,
            ..shape(0, 5, 0)
        };
        assert!(captures.is_stale(pane, &quiet));
        captures.remember(pane, 10, quiet, &quiet, &[], "");
        assert!(captures.is_stale(pane, &quiet), "the same second");
        captures.remember(pane, 11, quiet, &quiet, &[], "");
        assert!(!captures.is_stale(pane, &quiet));
        assert!(captures.is_stale(pane, &dead(quiet)));
        assert!(captures.is_stale(pane, &shape(1, 5, 0)));
        captures.looked(12);
        assert!(captures.is_likely(pane));
        captures.looked(13);
        assert!(!captures.is_likely(pane));
    }
}

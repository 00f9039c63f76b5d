//! Captures the rows of panes, only where they may have changed.

use std::fmt::Display;
use std::sync::Arc;

use vte::{Params, Parser, Perform};

use super::banner::{drop_banner, drop_joined_banner, expand_tabs};
use crate::model::{CursorPosition, QUOTED_CHARS, QUOTED_LINES, Screen, text};
use crate::rules::protocol::Command;
use crate::rules::terminal::columns_of;

/// How many rows of a pane are kept, counted up from the last written row or the cursor's. Rows of the
/// screen are kept all, however tall it is: what is written at its top and at its bottom belongs
/// together.
const ROWS: usize = 50;

/// How many more rows are captured: a process that ends leaves a blank row and tmux's banner below
/// what it has printed.
const SPARE_ROWS: usize = 2;

/// A pane that had output within this many seconds before a look is captured without checking.
const LIKELY_SECS: i64 = 2;

/// The last capture of a pane.
#[derive(Debug, Clone)]
pub(super) struct Capture {
    /// The server's clock at the capture, in seconds since 1970.
    time: i64,
    shape: Shape,
    pub(super) screen: Screen,
}

/// What was captured of a pane at one instant.
#[derive(Debug)]
pub(super) struct CapturedScreen {
    /// The server's second.
    pub(super) time: i64,
    /// The shape of the pane by which it was requested.
    pub(super) asked: Shape,
    /// With wrapped rows joined.
    pub(super) lines: Vec<Vec<u8>>,
    /// Wrapped as on the screen; `None` if only the lines were requested.
    pub(super) rows: Option<Vec<Vec<u8>>>,
}

impl CapturedScreen {
    /// Returns the rows of a pane with this shape; `None` if lines are wrapped and only they were
    /// requested. tmux does not print which rows it has wrapped, but there are fewer lines than rows if it
    /// has: else the lines are the rows.
    pub(super) fn rows(&self, shape: &Shape) -> Option<&[Vec<u8>]> {
        let are_rows = self.lines.len() == self.n_above(shape) + shape.height;
        self.rows
            .as_deref()
            .or_else(|| are_rows.then_some(&self.lines))
    }

    /// Returns how many of the rows are history.
    fn n_above(&self, shape: &Shape) -> usize {
        shape.history.min(self.asked.n_above())
    }

    /// Whether it lacks rows of a pane with this shape: all of them, their styles, or some of the history that
    /// are kept, as when the screen was cleared since the request.
    pub(super) fn is_cut(&self, shape: &Shape, banner: &str) -> bool {
        let has_styles = self.asked.is_cursor_hidden && self.rows.is_some();
        let lacks_styles = shape.is_cursor_hidden && !shape.is_dead && !has_styles;
        let asked = self.asked.n_above();
        let may_lack = shape.n_above() > asked && shape.history > asked;
        self.rows(shape).is_none()
            || lacks_styles
            || may_lack && screen(shape, self, banner).is_none_or(|screen| screen.rows.len() < ROWS)
    }
}

/// Properties of a pane that show a change without reading the rows. The default is for a pane not
/// seen before: as much is captured as any pane could keep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) activity: i64,
    pub(super) pid: Option<u32>,
    pub(super) is_dead: bool,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) history: usize,
    pub(super) cursor_x: u32,
    pub(super) cursor_y: u32,
    pub(super) is_cursor_hidden: bool,
    pub(super) is_alternate: bool,
}

impl Shape {
    /// Returns how many rows of the history are captured, above the screen.
    fn n_above(&self) -> usize {
        // Nothing need be written below the cursor. tmux moves that of a dead pane, where all of the
        // screen may be blank.
        let last = if self.is_dead { 0 } else { self.cursor_y };
        let on_screen = usize::try_from(last).map_or(ROWS, |last| last + 1);
        let above = (ROWS + SPARE_ROWS).saturating_sub(on_screen);
        if self.is_alternate { 0 } else { above }
    }

    /// How many captures of a usual size the capture of such a pane is.
    pub(super) fn n_captures(&self) -> usize {
        ((self.height + self.n_above()) / ROWS).max(1)
    }
}

impl Capture {
    /// Returns what was captured of a pane with this shape after the capture `before`; `None` if it lacks
    /// the rows. A dead pane has a `banner`.
    pub(super) fn new(
        before: Option<&Self>,
        shape: Shape,
        captured: &CapturedScreen,
        banner: &str,
    ) -> Option<Self> {
        let mut screen = screen(&shape, captured, banner)?;
        // A cursor that blinks is not drawn all the time.
        if let Some(Self { screen: before, .. }) = before
            && before.has_rows_of(&screen)
            && screen.is_cursor_hidden
        {
            screen.drawn_cursor = screen.drawn_cursor.or(before.drawn_cursor);
        }
        Some(Self {
            time: captured.time,
            shape,
            screen,
        })
    }

    /// Whether the pane had output shortly before the look at this second, so that it has probably changed
    /// since.
    pub(super) fn is_likely_old(&self, time: i64) -> bool {
        self.shape.activity + LIKELY_SECS >= time
    }

    /// Whether the terminal had wrapped lines.
    pub(super) fn is_wrapped(&self) -> bool {
        self.screen.last_lines.is_some()
    }

    /// Whether the pane, which has this shape now, may have changed since. Activity counts whole seconds:
    /// within the second of the capture, output may have followed.
    pub(super) fn is_stale(&self, shape: &Shape) -> bool {
        shape.activity >= self.time || *shape != self.shape
    }
}

/// Captures a pane, or the active one of a window, to the end of the screen, so that a pane that has
/// grown since `shape` is complete: `-pJ` its lines, with wrapped rows joined, or `-p` its rows. Where the
/// cursor is hidden, the rows have their styles: the program may draw a cursor, as a cell with another
/// background.
pub(super) fn capture_command(form: &str, target: impl Display, shape: &Shape) -> Command {
    let capture = Command::new("capture-pane")
        .args([form, "-t", &target.to_string(), "-S"])
        .arg(format!("-{}", shape.n_above()))
        .args(["-E", "-"]);
    if form == "-p" && shape.is_cursor_hidden {
        capture.args(["-e", "-N"])
    } else {
        capture
    }
}

/// Converts what was captured to a screen; `None` if it lacks the rows.
fn screen(shape: &Shape, captured: &CapturedScreen, banner: &str) -> Option<Screen> {
    let rows = captured.rows(shape)?.iter();
    let mut rows: Vec<String> = rows.map(|row| expand_tabs(row, shape.width)).collect();
    let above = captured.n_above(shape).min(rows.len());
    let cursor = above + usize::try_from(shape.cursor_y).unwrap_or(0);
    if shape.is_dead {
        drop_banner(&mut rows, banner);
    }
    let keep = if shape.is_dead { 0 } else { cursor + 1 };
    while rows.len() > keep && rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    let over = match shape.is_alternate {
        // The pane may have switched to the alternate screen after the request.
        true => above,
        false => rows.len().saturating_sub(ROWS).min(above),
    };
    rows.drain(..over.min(rows.len()));
    let at = |x: u32, y: usize| {
        let y = u32::try_from(y - over).ok()?;
        Some(CursorPosition { x, y })
    };
    let is_kept = cursor - over < rows.len();
    let shown = captured.rows(shape)?.get(above..);
    let drawn = shown.filter(|_| shape.is_cursor_hidden);
    let drawn = drawn.and_then(find_drawn_cursor);
    let drawn = drawn.and_then(|(x, y)| at(u32::try_from(x).ok()?, y + above));
    Some(Screen {
        last_lines: last_lines(shape, captured, banner),
        rows: rows.into(),
        cursor: at(shape.cursor_x, cursor).filter(|_| is_kept),
        top: u32::try_from(above - over).ok(),
        alternate: Some(shape.is_alternate),
        width: u32::try_from(shape.width).ok(),
        is_cursor_hidden: shape.is_cursor_hidden,
        drawn_cursor: drawn,
    })
}

/// Returns the last lines that have text, if the terminal has wrapped some lines.
fn last_lines(shape: &Shape, captured: &CapturedScreen, banner: &str) -> Option<Arc<[String]>> {
    let above = captured.n_above(shape);
    let is_wrapped = captured.rows.as_ref()?.len() > captured.lines.len();
    // Lines of the history are not on the alternate screen.
    if !is_wrapped || shape.is_alternate && above > 0 {
        return None;
    }
    let lines = captured.lines.iter();
    let lines = lines.map(|line| expand_tabs(line, shape.width));
    let mut lines: Vec<String> = lines.collect();
    if let Some(first) = lines.first_mut().filter(|line| !line.is_empty())
        && shape.history > above
        && !shape.is_alternate
    {
        first.insert(0, '…'); // The beginning of the line may be in the history.
    }
    if shape.is_dead {
        drop_joined_banner(&mut lines, banner);
    }
    lines.retain(|line| !line.is_empty());
    let last = &lines[lines.len().saturating_sub(QUOTED_LINES)..];
    let last = last.iter().map(|line| text::bounded(line, QUOTED_CHARS));
    Some(last.collect())
}

/// Returns the column and the row of the only cell that is drawn as a cursor is: several are marks of
/// something else.
fn find_drawn_cursor(lines: &[Vec<u8>]) -> Option<(usize, usize)> {
    let mut style = Style::default();
    let mut found = Vec::new();
    for (y, line) in lines.iter().enumerate() {
        Parser::new().advance(&mut style, line);
        // Behind the last written cell, tmux has the usual background.
        let mut left = None;
        let mut x = 0;
        let mut runs = std::mem::take(&mut style.runs).into_iter().peekable();
        while let Some((background, text)) = runs.next() {
            let right = runs.peek().map(|run| run.0.clone()).unwrap_or_default();
            let is_one = text.chars().count() == 1 && !text.chars().any(is_drawn);
            if is_one && background != right && left.is_none_or(|left| left == right) {
                found.push((x, y));
            }
            x += columns_of(&text);
            left = Some(background);
        }
    }
    <[_; 1]>::try_from(found).ok().map(|[cell]| cell)
}

/// Whether frames, bars, and marks of choices, which may have a background, are drawn with this
/// character.
fn is_drawn(c: char) -> bool {
    matches!(c, 'X' | '\u{2500}'..='\u{27bf}')
}

/// Whether the colours are exchanged, and the colour that is behind the text.
type Background = (bool, Vec<u16>);

/// How the next cell is drawn, and the cells of the row so far, by their backgrounds.
#[derive(Debug, Default)]
struct Style {
    is_inverse: bool,
    ink: Vec<u16>,
    ground: Vec<u16>,
    runs: Vec<(Background, String)>,
}

impl Perform for Style {
    fn print(&mut self, c: char) {
        let colour = if self.is_inverse {
            &self.ink
        } else {
            &self.ground
        };
        let background = (self.is_inverse, colour.clone());
        match self.runs.last_mut() {
            Some(run) if run.0 == background => run.1.push(c),
            Some(_) | None => self.runs.push((background, c.to_string())),
        }
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, _: char) {
        let codes: Vec<u16> = params.iter().map(|param| param[0]).collect();
        let mut rest = &codes[..];
        while let [code, ..] = rest {
            let n = match rest {
                [38 | 48 | 58, 5, ..] => 3,
                [38 | 48 | 58, 2, ..] => 5,
                _ => 1,
            };
            let (colour, others) = rest.split_at(n.min(rest.len()));
            match code {
                0 => (self.is_inverse, self.ink, self.ground) = Default::default(),
                7 | 27 => self.is_inverse = *code == 7,
                39 => self.ink.clear(),
                49 => self.ground.clear(),
                30..=38 | 90..=97 => self.ink = colour.to_vec(),
                40..=48 | 100..=107 => self.ground = colour.to_vec(),
                _ => {}
            }
            rest = others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(history: usize, height: usize, cursor_y: u32) -> Shape {
        Shape {
            activity: 1,
            pid: Some(1),
            is_dead: false,
            width: 80,
            height,
            history,
            cursor_x: 2,
            cursor_y,
            is_cursor_hidden: false,
            is_alternate: false,
        }
    }

    fn dead(shape: Shape) -> Shape {
        Shape {
            is_dead: true,
            ..shape
        }
    }

    fn alternate(shape: Shape) -> Shape {
        Shape {
            is_alternate: true,
            ..shape
        }
    }

    fn bytes(lines: &[&str]) -> Vec<Vec<u8>> {
        lines.iter().map(|line| line.as_bytes().to_vec()).collect()
    }

    /// What is captured of a pane with this shape when no line is wrapped.
    fn captured(asked: Shape, lines: &[&str]) -> CapturedScreen {
        CapturedScreen {
            time: 0,
            asked,
            lines: bytes(lines),
            rows: None,
        }
    }

    #[track_caller]
    fn check(shape: Shape, lines: &[&str], rows: &[&str], cursor: Option<u32>) {
        let screen = screen(&shape, &captured(shape, lines), "").expect("the lines are the rows");
        assert_eq!(*screen.rows, *rows);
        assert_eq!(screen.cursor.map(|cursor| cursor.y), cursor);
    }

    #[test]
    fn blank_rows_below_the_cursor_are_cut() {
        let asks = shape(0, 5, 1);
        check(asks, &["a", "", "", "", ""], &["a", ""], Some(1));
        check(asks, &["a", "", "", "b", ""], &["a", "", "", "b"], Some(1));
        let (lines, rows) = (["h1", "h2", "$ ", "", ""], ["h1", "h2", "$"]);
        check(shape(2, 3, 0), &lines, &rows, Some(2));
        check(dead(shape(0, 5, 3)), &["a", "", "", "", ""], &["a"], None);
        // It became taller after its end: no banner.
        let rows = ["out", "Pane is dead (status 3)", "", ""];
        check(dead(shape(0, 4, 1)), &rows, &["out"], None);
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
            let lines = ["out", "", "", banner];
            check(dead(shape(1, 3, 2)), &lines, &["out"], None);
            check(shape(1, 3, 2), &lines, &lines, Some(3));
        }
        check(dead(shape(0, 1, 0)), &["Pane"], &[], None);
        check(dead(shape(0, 1, 0)), &["Pan"], &["Pan"], Some(0));
        let lines = ["Pane is dead", "x"];
        check(dead(shape(0, 2, 1)), &lines, &lines, Some(1));
    }

    fn numbered(n: usize) -> Vec<&'static str> {
        let numbers = (0..n).map(|n| &*n.to_string().leak());
        numbers.collect()
    }

    #[test]
    fn of_the_history_no_more_is_kept_than_makes_fifty_rows() {
        let lines = numbered(52);
        check(shape(400, 24, 23), &lines, &lines[2..], Some(49));
        check(shape(400, 50, 49), &lines, &lines[2..], Some(49));
        check(
            alternate(shape(400, 24, 23)),
            &lines[..24],
            &lines[..24],
            Some(23),
        );
        // Above what was cleared is the history.
        let cleared = [&lines[..], &[""; 23]].concat();
        check(shape(400, 24, 0), &cleared, &lines[2..], Some(49));
        check(dead(shape(400, 24, 5)), &cleared, &lines[2..], None);
    }

    #[test]
    fn all_of_a_screen_is_kept_however_tall_it_is() {
        let lines = numbered(300);
        for height in [51, 52, 120, 300] {
            let last = u32::try_from(height - 1).unwrap();
            let full = shape(0, height, last);
            check(full, &lines[..height], &lines[..height], Some(last));
            let at_top = [&["Go? "][..], &vec![""; height - 1]].concat();
            let asking = Shape {
                cursor_y: 0,
                ..full
            };
            check(asking, &at_top, &["Go?"], Some(0));
            let mut rows = at_top.clone();
            (rows[0], rows[height - 1]) = ("Go?", "a status bar");
            check(asking, &rows, &rows, Some(0));
            check(alternate(asking), &rows, &rows, Some(0));
            // tmux has scrolled the screen for its banner.
            let mut ended = [&["boom"][..], &at_top].concat();
            ended[height] = "Pane is dead (status 3)";
            let scrolled = Shape {
                history: 1,
                ..dead(full)
            };
            check(scrolled, &ended, &["boom", "Go?"], None);
        }
    }

    #[test]
    fn a_capture_is_cut_where_the_cursor_was_lower_when_it_was_asked_for() {
        let full = shape(400, 24, 23);
        let alternate = alternate(full);
        for (asked, found, n, expected) in [
            (full, full, 52, false),
            (full, shape(400, 24, 0), 29, true),
            (full, shape(28, 24, 0), 29, false),
            // There is text below the cursor.
            (full, shape(400, 24, 0), 52, false),
            (shape(400, 24, 0), full, 75, false),
            (full, dead(full), 51, false),
            (full, dead(full), 30, true),
            (alternate, full, 24, true),
            (full, alternate, 24, false),
            (Shape::default(), full, 75, false),
        ] {
            let captured = CapturedScreen {
                rows: Some(bytes(&vec!["row"; n])),
                ..captured(asked, &[])
            };
            assert_eq!(captured.is_cut(&found, ""), expected, "{asked:?} {found:?}");
        }
    }

    #[test]
    fn a_drawn_cursor_stays_while_it_blinks() {
        let mut last = None;
        let hidden = Shape {
            is_cursor_hidden: true,
            ..shape(0, 5, 1)
        };
        let with_rows = |asked: Shape, line: &str| CapturedScreen {
            rows: Some(bytes(&[line, "", "", "", ""])),
            ..captured(asked, &["", "", "", "", ""])
        };
        let mut drawn = |shape: Shape, line: &str| {
            last = Capture::new(last.as_ref(), shape, &with_rows(shape, line), "");
            let drawn = last.as_ref().unwrap().screen.drawn_cursor;
            drawn.map(|cursor| (cursor.x, cursor.y))
        };
        assert_eq!(drawn(hidden, "Name: \x1b[7m "), Some((6, 0)));
        assert_eq!(drawn(hidden, "Name:  "), Some((6, 0)));
        assert_eq!(drawn(hidden, "Done"), None);
        assert_eq!(drawn(shape(0, 5, 1), "Name: \x1b[7m "), None);
        // A capture without styles does not show it.
        let plain = shape(0, 5, 1);
        assert!(with_rows(plain, "").is_cut(&hidden, ""));
        assert!(captured(hidden, &["", "", "", "", ""]).is_cut(&hidden, ""));
        assert!(!with_rows(hidden, "").is_cut(&hidden, ""));
        assert!(!with_rows(hidden, "").is_cut(&plain, ""));
    }

    #[test]
    fn a_pane_is_captured_when_it_may_have_changed() {
        let quiet = Shape {
            activity: 10,
            ..shape(0, 5, 0)
        };
        let captured_at = |time| {
            let mut blank = captured(quiet, &[""; 5]);
            blank.time = time;
            Capture::new(None, quiet, &blank, "").unwrap()
        };
        assert!(captured_at(10).is_stale(&quiet), "the same second");
        let capture = captured_at(11);
        assert!(!capture.is_stale(&quiet));
        assert!(capture.is_stale(&dead(quiet)));
        assert!(capture.is_stale(&shape(1, 5, 0)));
        assert!(capture.is_likely_old(12));
        assert!(!capture.is_likely_old(13));
    }

    #[test]
    fn the_last_lines_are_whole_where_lines_are_wrapped() {
        let check = |shape: Shape, lines: &[&str], rows: &[&str], expected: &[&str]| {
            let shape = Shape { width: 4, ..shape };
            let mut captured = captured(shape, lines);
            assert!(screen(&shape, &captured, "").is_none());
            captured.rows = Some(bytes(rows));
            let screen = screen(&shape, &captured, "").expect("it has the rows");
            assert_eq!(screen.last_lines(), expected);
        };
        // A blank at the wrap, a row that is full and not wrapped, a wide character that does not fit.
        let rows = ["abc", "d", ""];
        check(shape(0, 3, 2), &["abc d", ""], &rows, &["abc d"]);
        let (lines, rows) = (
            ["abcd", "abc日本", "x", ""],
            ["abcd", "abc", "日本", "x", ""],
        );
        check(shape(0, 5, 4), &lines, &rows, &lines[..3]);
        let (lines, rows) = (
            ["a", "b", "cdefg", "", "h"],
            ["a", "b", "cdef", "g", "", "h"],
        );
        check(shape(0, 6, 5), &lines, &rows, &["b", "cdefg", "h"]);
        let (long, cut) = ("x".repeat(4 * 150), "x".repeat(499) + "…");
        check(shape(0, 150, 149), &[&long], &["xxxx"; 150], &[&cut]);
        // Its beginning is above what was captured.
        let seen = "x".repeat(4 * 52);
        let end = format!("…{seen}");
        check(shape(90, 2, 1), &[&seen], &["xxxx"; 52], &[&end]);
        // tmux's banner is joined to output without a line end.
        let (lines, rows) = (
            ["abcdefPane is dead (status 1)", ""],
            ["abcd", "ef", "", "Pane"],
        );
        check(dead(shape(1, 3, 2)), &lines, &rows, &["abcdef"]);
    }

    #[track_caller]
    fn check_cursor(lines: &[&str], expected: Option<(usize, usize)>) {
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        assert_eq!(find_drawn_cursor(&lines), expected, "{lines:?}");
    }

    #[test]
    fn one_cell_with_another_background_is_a_cursor() {
        check_cursor(&["Name: \x1b[7m "], Some((6, 0)));
        let restored = "Name: \x1b[7mm\x1b[0m\x1b[90m\x1b[49my-app";
        check_cursor(&["a", restored], Some((6, 1)));
        check_cursor(&["│\x1b[7mm\x1b[27my-app    │"], Some((1, 0)));
        check_cursor(&["\x1b[7m "], Some((0, 0)));
        let indexed =
            "\x1b[48;5;235m  \x1b[38;5;233m\x1b[48;5;253mn\x1b[38;5;243m\x1b[48;5;235mame";
        check_cursor(&[indexed], Some((2, 0)));
        let direct = "\x1b[48;2;1;2;3m日 \x1b[48;2;9;9;9ma\x1b[48;2;1;2;3m ";
        check_cursor(&[direct], Some((3, 0)));
        // A style goes on in the next row.
        check_cursor(&["\x1b[44m   ", "a \x1b[7mb\x1b[27m "], Some((2, 1)));
    }

    #[test]
    fn bars_boxes_and_several_cells_are_none() {
        check_cursor(&["Name:"], None);
        check_cursor(&["\x1b[7mstatus\x1b[0m"], None);
        check_cursor(&["a\x1b[7mb\x1b[0mc", "d \x1b[7me\x1b[0m "], None);
        check_cursor(&["a \x1b[7m▊\x1b[0m b"], None);
        check_cursor(&["\x1b[40m ▐\x1b[44mX\x1b[40m▌ Docs"], None);
        check_cursor(&["\x1b[41m a\x1b[42mb\x1b[43mc "], None);
        check_cursor(&["\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\\x1b[4m b"], None);
    }
}

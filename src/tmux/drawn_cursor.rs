//! The cursor that a program draws itself while the terminal's is hidden: one cell with another
//! background than the cells beside it, as an inverse cell has.

use vte::{Params, Parser, Perform};

use crate::terminal::columns_of;

/// Returns the column and the row of the only cell that is drawn as a cursor is: several are marks of
/// something else.
pub(super) fn find(lines: &[Vec<u8>]) -> Option<(usize, usize)> {
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

    #[track_caller]
    fn check(lines: &[&str], expected: Option<(usize, usize)>) {
        let lines: Vec<Vec<u8>> = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        assert_eq!(find(&lines), expected, "{lines:?}");
    }

    #[test]
    fn one_cell_with_another_background_is_a_cursor() {
        check(&["Name: \x1b[7m "], Some((6, 0)));
        check(
            &["a", "Name: \x1b[7mm\x1b[0m\x1b[90m\x1b[49my-app"],
            Some((6, 1)),
        );
        check(&["│\x1b[7mm\x1b[27my-app    │"], Some((1, 0)));
        check(&["\x1b[7m "], Some((0, 0)));
        check(
            &["\x1b[48;5;235m  \x1b[38;5;233m\x1b[48;5;253mn\x1b[38;5;243m\x1b[48;5;235mame"],
            Some((2, 0)),
        );
        check(
            &["\x1b[48;2;1;2;3m日 \x1b[48;2;9;9;9ma\x1b[48;2;1;2;3m "],
            Some((3, 0)),
        );
        // A style goes on in the next row.
        check(&["\x1b[44m   ", "a \x1b[7mb\x1b[27m "], Some((2, 1)));
    }

    #[test]
    fn bars_boxes_and_several_cells_are_none() {
        check(&["Name:"], None);
        check(&["\x1b[7mstatus\x1b[0m"], None);
        check(&["a\x1b[7mb\x1b[0mc", "d \x1b[7me\x1b[0m "], None);
        check(&["a \x1b[7m▊\x1b[0m b"], None);
        check(&["\x1b[40m ▐\x1b[44mX\x1b[40m▌ Docs"], None);
        check(&["\x1b[41m a\x1b[42mb\x1b[43mc "], None);
        check(&["\x1b]8;;http://x\x1b\\a\x1b]8;;\x1b\\\x1b[4m b"], None);
    }
}

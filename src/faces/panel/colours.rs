//! Turns a captured row with escape sequences into coloured text. What is captured is hostile: only
//! colours and attributes are taken from it, everything else is dropped.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use crate::model::text;
use crate::rules::terminal::drawn;

/// Returns the rows in their colours. tmux writes attributes only where they change, so they last
/// from one row to the next.
pub(super) fn coloured(rows: &[String]) -> Vec<Line<'static>> {
    let mut parser = vte::Parser::new();
    let mut painter = Painter::default();
    let line = |row: &String| {
        parser.advance(&mut painter, row.as_bytes());
        painter.end_row()
    };
    rows.iter().map(line).collect()
}

#[derive(Debug, Default)]
struct Painter {
    spans: Vec<Span<'static>>,
    piece: String,
    style: Style,
    /// Whether letters draw lines, between SO and SI.
    draws: bool,
}

impl Painter {
    fn end_piece(&mut self) {
        let piece = text::piece(self.piece.as_bytes());
        self.piece.clear();
        if !piece.is_empty() {
            self.spans.push(Span::styled(piece, self.style));
        }
    }

    fn end_row(&mut self) -> Line<'static> {
        self.end_piece();
        Line::from(std::mem::take(&mut self.spans))
    }

    /// Takes the parameters of one `ESC [ .. m`.
    fn set(&mut self, params: &vte::Params) {
        let mut params = params.iter();
        while let Some(param) = params.next() {
            let number = param.first().copied().unwrap_or(0);
            self.style = match number {
                0 => Style::new(),
                1 => self.style.add_modifier(Modifier::BOLD),
                2 => self.style.add_modifier(Modifier::DIM),
                3 => self.style.add_modifier(Modifier::ITALIC),
                4 if param.get(1) == Some(&0) => self.style.remove_modifier(Modifier::UNDERLINED),
                4 => self.style.add_modifier(Modifier::UNDERLINED),
                7 => self.style.add_modifier(Modifier::REVERSED),
                9 => self.style.add_modifier(Modifier::CROSSED_OUT),
                22 => {
                    let weights = Modifier::BOLD.union(Modifier::DIM);
                    self.style.remove_modifier(weights)
                }
                23 => self.style.remove_modifier(Modifier::ITALIC),
                24 => self.style.remove_modifier(Modifier::UNDERLINED),
                27 => self.style.remove_modifier(Modifier::REVERSED),
                29 => self.style.remove_modifier(Modifier::CROSSED_OUT),
                30..=37 => self.style.fg(indexed(number - 30)),
                39 => self.style.fg(Color::Reset),
                40..=47 => self.style.bg(indexed(number - 40)),
                49 => self.style.bg(Color::Reset),
                90..=97 => self.style.fg(indexed(number - 90 + 8)),
                100..=107 => self.style.bg(indexed(number - 100 + 8)),
                38 | 48 | 58 => {
                    let colour = if let [_, rest @ ..] = param
                        && !rest.is_empty()
                    {
                        extended(&mut rest.iter().copied(), rest.len() > 4)
                    } else {
                        let mut rest = params.by_ref().map(|one| one.first().copied().unwrap_or(0));
                        extended(&mut rest, false)
                    };
                    match (number, colour) {
                        (38, Some(colour)) => self.style.fg(colour),
                        (48, Some(colour)) => self.style.bg(colour),
                        _ => self.style,
                    }
                }
                _ => self.style,
            };
        }
    }
}

fn indexed(number: u16) -> Color {
    Color::Indexed(u8::try_from(number).unwrap_or(u8::MAX))
}

/// Reads a colour after 38 or 48: `5;N`, `2;R;G;B`, and with colons also `2:ID:R:G:B`.
fn extended(rest: &mut dyn Iterator<Item = u16>, has_id: bool) -> Option<Color> {
    let byte = |number: Option<u16>| number.and_then(|number| u8::try_from(number).ok());
    match rest.next()? {
        5 => byte(rest.next()).map(Color::Indexed),
        2 => {
            if has_id {
                rest.next()?;
            }
            let (red, green, blue) = (rest.next(), rest.next(), rest.next());
            Some(Color::Rgb(byte(red)?, byte(green)?, byte(blue)?))
        }
        _ => None,
    }
}

impl vte::Perform for Painter {
    fn print(&mut self, c: char) {
        self.piece.push(if self.draws { drawn(c) } else { c });
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            0x0e => self.draws = true,
            0x0f => self.draws = false,
            b'\t' => self.piece.push(' '),
            _ => {}
        }
    }

    fn csi_dispatch(
        &mut self,
        params: &vte::Params,
        intermediates: &[u8],
        is_ignored: bool,
        action: char,
    ) {
        if action == 'm' && intermediates.is_empty() && !is_ignored {
            self.end_piece();
            self.set(params);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(row: &str) -> Vec<(String, Style)> {
        let lines = coloured(&[row.to_owned()]);
        let spans = lines.into_iter().flat_map(|line| line.spans);
        let parts = spans.map(|span| (span.content.into_owned(), span.style));
        parts.collect()
    }

    #[test]
    fn colours_and_attributes_are_taken() {
        let plain = Style::new();
        let indexed = |n| plain.fg(Color::Indexed(n));
        let direct = Color::Rgb(1, 2, 3);
        for (escape, style) in [
            ("31", indexed(1)),
            ("1;97", indexed(15).add_modifier(Modifier::BOLD)),
            ("38;5;208", indexed(208)),
            ("48;2;1;2;3", plain.bg(direct)),
            ("38:2::1:2:3", plain.fg(direct)),
            ("38:2:1:2:3", plain.fg(direct)),
            ("38:5:9;4", indexed(9).add_modifier(Modifier::UNDERLINED)),
            ("38;5", plain),
            ("38;2;900;1;1", plain),
            ("999", plain),
        ] {
            let found = spans(&format!("a\x1b[{escape}mb\x1b[mc"));
            let texts: Vec<&str> = found.iter().map(|(text, _)| text.as_str()).collect();
            assert_eq!(texts, ["a", "b", "c"], "{escape}");
            assert_eq!((found[1].1, found[2].1), (style, plain), "{escape}");
        }
        // A colour lasts into the next row.
        let lines = coloured(&["\x1b[32mone".to_owned(), "two\x1b[m".to_owned()]);
        assert_eq!(lines[1].spans[0].style, indexed(2));
    }

    #[test]
    fn nothing_else_of_a_pane_reaches_the_terminal() {
        for (hostile, expected) in [
            ("a\x1b]0;title\x07b", "ab"),
            ("a\x1b]8;;http://x\x1b\\b", "ab"),
            ("a\x1b]52;c;aGk=\x07b", "ab"),
            ("a\x1b[2J\x1b[Hb", "ab"),
            ("a\x1bPq#0\x1b\\b", "ab"),
            ("a\x07\x08b", "ab"),
            ("a\u{202e}\u{200b}b", "ab"),
            ("a\u{9b}31mb", "a31mb"),
            ("a\x1b[?1049hb", "ab"),
        ] {
            let text: String = spans(hostile).into_iter().map(|(text, _)| text).collect();
            assert_eq!(text, expected, "{hostile:?}");
        }
        assert_eq!(spans("\x0elqk\x0f l")[0].0, "┌─┐ l");
    }
}

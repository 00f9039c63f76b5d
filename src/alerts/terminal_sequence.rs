//! Notifications that a terminal shows by itself, when an escape sequence tells it to.
//!
//! Terminals take OSC 9 (iTerm2, kitty, ghostty, wezterm) or OSC 777 (ghostty, wezterm, foot, rxvt), and
//! ignore what they do not know. The console of Linux prints it.

use super::AlertText;
use crate::model::text;

/// The maximum length of a title and of a text, in characters. A terminal's queue takes the whole
/// sequence at once.
const TITLE_CHARS: usize = 120;
const BODY_CHARS: usize = 240;

/// A sequence that makes a terminal show a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TerminalSequence {
    /// OSC 9: one text.
    Osc9,
    /// OSC 777: a title and a text.
    Osc777,
}

impl TerminalSequence {
    /// Returns which sequence a terminal gets; `None` for one that shows none. `terminal` is its `TERM` and
    /// what it says it is.
    pub(crate) fn choose(terminal: &str) -> Option<Self> {
        let terminal = terminal.to_lowercase();
        let begins = |names: &[&str]| names.iter().any(|name| terminal.starts_with(name));
        let is_any = |names: &[&str]| names.iter().any(|name| terminal.contains(name));
        if begins(&["linux", "dumb", "screen", "tmux", "vt", "cons"]) {
            return None;
        }
        let has_titles = is_any(&["rxvt", "foot", "ghostty", "wezterm"]);
        Some(if has_titles { Self::Osc777 } else { Self::Osc9 })
    }

    /// Returns the sequence with this text. Nothing in the text can end it, or begin another one.
    pub(crate) fn encode(self, alert: &AlertText, is_utf8: bool) -> String {
        // The terminal's own separators are among what is replaced.
        let plain = |text: &str, most| {
            let text = text::one_line(text.as_bytes(), most);
            let text = text.chars().filter(|c| !c.is_control());
            text.map(|c| match c {
                ';' => ',',
                c if is_utf8 || c.is_ascii() => c,
                _ => '?',
            })
            .collect::<String>()
        };
        let title = plain(&alert.title, TITLE_CHARS);
        match self {
            // A text that begins with a number can mean something else.
            Self::Osc9 => format!("\x1b]9;tmux-task: {title}\x07"),
            Self::Osc777 => {
                let lines = alert.details.iter().chain(&alert.advice);
                let lines: Vec<&str> = lines.map(String::as_str).collect();
                let body = plain(&lines.join(" - "), BODY_CHARS);
                format!("\x1b]777;notify;{title};{body}\x07")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [TerminalSequence; 2] = [TerminalSequence::Osc9, TerminalSequence::Osc777];

    #[test]
    fn a_terminal_gets_the_sequence_that_it_shows() {
        use TerminalSequence::{Osc9, Osc777};
        let check = |terminal, expected| {
            assert_eq!(TerminalSequence::choose(terminal), expected, "{terminal}");
        };
        check("xterm-256color iTerm2 3.5.0", Some(Osc9));
        check("xterm-256color WezTerm 2024", Some(Osc777));
        check("xterm-kitty kitty(0.36.0)", Some(Osc9));
        check("xterm-ghostty ", Some(Osc777));
        check("xterm-256color ", Some(Osc9));
        for terminal in [
            "linux ",
            "dumb ",
            "screen-256color ",
            "tmux-256color tmux 3.5",
        ] {
            check(terminal, None);
        }
    }

    #[test]
    fn nothing_in_a_text_ends_the_sequence() {
        let alert = AlertText {
            title: "4;1;50 a\u{7}\u{1b}]0;x\u{1b}\\ü\u{9c}b\nc".to_owned(),
            details: vec!["one;\u{90}two".to_owned(), "x".repeat(1000)],
            advice: Some("See: this".to_owned()),
        };
        for is_utf8 in [true, false] {
            for sequence in BOTH {
                let encoded = sequence.encode(&alert, is_utf8);
                let inner = encoded.strip_prefix("\x1b]").unwrap();
                let inner = inner.strip_suffix('\x07').unwrap();
                assert!(!inner.contains(char::is_control), "{inner:?}");
                assert!(inner.len() < 600, "{inner:?}");
                assert_eq!(inner.is_ascii(), !is_utf8, "{inner:?}");
                let n = if sequence == TerminalSequence::Osc9 {
                    1
                } else {
                    3
                };
                assert_eq!(inner.matches(';').count(), n, "{inner:?}");
            }
        }
        let short = AlertText {
            title: "build failed with code 2".to_owned(),
            details: vec!["error".to_owned()],
            advice: None,
        };
        let encoded = BOTH.map(|sequence| sequence.encode(&short, true));
        assert_eq!(
            encoded,
            [
                "\x1b]9;tmux-task: build failed with code 2\x07",
                "\x1b]777;notify;build failed with code 2;error\x07"
            ]
        );
    }
}
